// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Who sleeps for a latch, and who lets go of one that is slept for? Nothing here runs for a latch
 * that is free, except for events that are set without sleepers, which cost a load of one word.
 *
 * Who sleeps is counted by a hash of what is slept on. A stray count, of a thread that was killed
 * in its sleep or of an equal hash, makes a release be told that nobody needs; none is left out. */
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/futex.h>
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "../bpf/count.h"
#define WAGGLE_UNWIND_PROGRAMS
#define UNWIND_PROGRAMS 2
#include "event.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct latch_config config = {};

/* Name the types to the generator of Rust types. */
const volatile struct latch_sleep sleep_shape = {};
const volatile struct latch_metadata metadata_shape = {};
const volatile struct latch_brief brief_shape = {};
const volatile struct unwind_stack stack_shape = {};
const volatile enum latch_limit limit_shape = LATCH_SLEPT_ON;
const volatile enum latch_what what_shape = LATCH_SLEEPS;
const volatile enum latch_source source_shape = LATCH_INNODB;
const volatile enum latch_type type_shape = LATCH_TYPE_MUTEX;
const volatile enum latch_argument_kind argument_shape = LATCH_ARGUMENT_NONE;
const volatile enum trace_kind kind_shape = TRACE_LATCH;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct {
	unsigned long long start_boottime;
};

struct pt_regs___user {
	unsigned long di;
	unsigned long si;
	unsigned long dx;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long sp;
	unsigned long bp;
};
#pragma clang attribute pop

/* How many sleep on what has this hash. */
__u32 slept_on[LATCH_SLEPT_ON] SEC(".bss.slept");

enum doing {
	DOING_NOTHING,
	SLEEPS_INNODB,
	SLEEPS_METADATA,
	SLEEPS_FUTEX,
	SLEEPS_STATIC,
};

struct sleeper {
	__u64 key;
	__u64 latch;
	__u64 frame;
	__u64 file;
	__u64 last_futex; /* what it slept on last */
	__u32 line;
	__u32 type;
	__u32 doing; /* enum doing */
	__u32 wants; /* it has a cell of the wait array */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, struct sleeper);
} sleepers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct latch_counters);
} counters SEC(".maps");

#include "tell.h"
#include "innodb.h"
#include "metadata.h"
#include "futex.h"
#include "static.h"

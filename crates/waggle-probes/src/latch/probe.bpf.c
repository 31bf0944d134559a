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
#define SLEPT_ON (1 << 16)
__u32 slept_on[SLEPT_ON] SEC(".bss.slept");

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

static __always_inline __u32 *slept(__u64 key)
{
	key *= 0x9e3779b97f4a7c15ull;
	return &slept_on[(key >> 40) & (SLEPT_ON - 1)];
}

static __always_inline __u64 word_at(__u64 address)
{
	__u64 word = 0;

	if (!address || bpf_probe_read_user(&word, sizeof(word), (void *)address))
		return 0;
	return word;
}

static __always_inline __u32 number_at(__u64 address)
{
	__u32 number = 0;

	if (!address || bpf_probe_read_user(&number, sizeof(number), (void *)address))
		return 0;
	return number;
}

static __always_inline struct latch_counters *hit(void)
{
	const __u32 zero = 0;
	struct latch_counters *count = bpf_map_lookup_elem(&counters, &zero);

	if (count)
		COUNT(count->hits);
	return count;
}

static __always_inline void head_of(struct trace_head *head, __u64 ns,
				    const struct latch_counters *count)
{
	const struct task_struct *task = (void *)bpf_get_current_task_btf();
	const __u64 both = bpf_get_current_pid_tgid();

	head->ns = ns;
	head->began_ns = 0;
	if (bpf_core_field_exists(task->start_boottime))
		head->began_ns = task->start_boottime;
	head->tid = (__u32)both;
	head->tgid = both >> 32;
	head->kind = TRACE_LATCH;
	head->cpu = bpf_get_smp_processor_id();
	head->lost = count->lost;
}

static __always_inline void emit(void *record, __u64 length, struct latch_counters *count)
{
	if (bpf_ringbuf_output(&events, record, length, BPF_RB_NO_WAKEUP))
		COUNT(count->lost);
	else
		COUNT(count->records);
}

/* The stack at a probe in the process's own code; `at_entry`: of the function's caller on. */
static __always_inline __u64 stack_at(const struct pt_regs *ctx, const struct trace_head *head,
				      int at_entry)
{
	if (at_entry)
		return unwind(&events, head, word_at(ctx->rsp), ctx->rsp + 8, ctx->rbp, 0);
	return unwind(&events, head, ctx->rip, ctx->rsp, ctx->rbp, 0);
}

/* The stack of a system call. */
static __always_inline __u64 stack_of_call(const struct trace_head *head, __u64 *sp)
{
	struct pt_regs___user *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

	*sp = regs->sp;
	return unwind(&events, head, regs->ip, regs->sp, regs->bp, 1);
}

static __always_inline void brief(__u64 ns, struct latch_counters *count, __u32 what, __u32 source,
				  __u64 key, __u64 stack, __s64 result)
{
	struct latch_brief record = {};

	head_of(&record.head, ns, count);
	record.what = what;
	record.source = source;
	record.key = key;
	record.stack = stack;
	record.result = result;
	bpf_get_current_comm(record.name, sizeof(record.name));
	emit(&record, sizeof(record), count);
}

/* Told at a probe in the process's own code. */
static __always_inline int released_at(const struct pt_regs *ctx, __u32 source, __u64 key,
				       int at_entry)
{
	const __u64 ns = bpf_ktime_get_ns();
	struct latch_counters *count = hit();
	struct trace_head head;

	if (!count)
		return 0;
	if (!*(volatile __u32 *)slept(key)) {
		COUNT(count->sets);
		return 0;
	}
	head_of(&head, ns, count);
	brief(ns, count, LATCH_RELEASES, source, key, stack_at(ctx, &head, at_entry), 0);
	return 0;
}

/* The number of a thread from its pthread_t. */
static __always_inline __u32 thread_number(__u64 pthread)
{
	if (!pthread || config.thread_number == LATCH_UNKNOWN)
		return 0;
	return number_at(pthread + config.thread_number);
}

SEC("uprobe")
int latch_wanted(struct pt_regs *ctx)
{
	const __u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct sleeper *known = bpf_map_lookup_elem(&sleepers, &tid);
	struct sleeper fresh = {}, *sleeper = known ? known : &fresh;

	hit();
	sleeper->latch = ctx->rsi;
	sleeper->type = ctx->rdx;
	sleeper->file = ctx->rcx;
	sleeper->line = ctx->r8;
	sleeper->frame = ctx->rsp;
	sleeper->wants = 1;
	if (!known)
		bpf_map_update_elem(&sleepers, &tid, &fresh, BPF_ANY);
	return 0;
}

/* What the latch says of itself. */
static __always_inline void look_at_latch(struct latch_sleep *record)
{
	__u64 owner = 0;

	if (record->how == LATCH_TYPE_MUTEX) {
		if (config.mutex_owner != LATCH_UNKNOWN)
			owner = word_at(record->latch + config.mutex_owner);
		if (config.mutex_id != LATCH_UNKNOWN)
			record->id = number_at(record->latch + config.mutex_id);
	} else if (record->how != LATCH_TYPE_UNKNOWN && config.rw_writer != LATCH_UNKNOWN) {
		record->value = number_at(record->latch);
		/* Whoever has it exclusively, once: the word is 0. */
		if (!record->value && record->how != LATCH_TYPE_DRAINING)
			owner = word_at(record->latch + config.rw_writer);
		record->made_file = word_at(record->latch + config.rw_made_at);
		record->made_line = number_at(record->latch + config.rw_made_at + 8);
	}
	record->owner = thread_number(owner);
}

SEC("uprobe")
int latch_sleeps(struct pt_regs *ctx)
{
	const __u64 ns = bpf_ktime_get_ns();
	const __u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct sleeper *sleeper = bpf_map_lookup_elem(&sleepers, &tid);
	struct latch_counters *count = hit();
	struct latch_sleep record = {};

	if (!count || !sleeper || !sleeper->wants)
		return 0;
	sleeper->key = ctx->rdi;
	sleeper->wants = 0;
	sleeper->doing = SLEEPS_INNODB;
	__sync_fetch_and_add(slept(ctx->rdi), 1);
	head_of(&record.head, ns, count);
	record.what = LATCH_SLEEPS;
	record.source = LATCH_INNODB;
	record.key = ctx->rdi;
	record.latch = sleeper->latch;
	record.frame = sleeper->frame;
	record.file = sleeper->file;
	record.line = sleeper->line;
	record.how = config.types[sleeper->type & (LATCH_TYPES - 1)];
	look_at_latch(&record);
	record.stack = stack_at(ctx, &record.head, 0);
	bpf_get_current_comm(record.name, sizeof(record.name));
	emit(&record, sizeof(record), count);
	return 0;
}

/* The current thread's sleep ends, if it is such a one. */
static __always_inline int wakes(__u32 doing, __u32 source, __s64 result)
{
	const __u64 ns = bpf_ktime_get_ns();
	const __u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct sleeper *sleeper = bpf_map_lookup_elem(&sleepers, &tid);
	struct latch_counters *count = hit();

	if (!count || !sleeper || sleeper->doing != doing)
		return 0;
	sleeper->doing = DOING_NOTHING;
	__sync_fetch_and_add(slept(sleeper->key), -1);
	brief(ns, count, LATCH_WAKES, source, sleeper->key, 0, result);
	return 0;
}

SEC("uprobe")
int latch_wakes(struct pt_regs *ctx)
{
	return wakes(SLEEPS_INNODB, LATCH_INNODB, 0);
}

SEC("uprobe")
int latch_sets(struct pt_regs *ctx)
{
	return released_at(ctx, LATCH_INNODB, ctx->rdi, 1);
}

SEC("uprobe")
int metadata_sleeps(struct pt_regs *ctx)
{
	const __u64 ns = bpf_ktime_get_ns();
	const __u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct sleeper *known = bpf_map_lookup_elem(&sleepers, &tid);
	struct sleeper fresh = {}, *sleeper = known ? known : &fresh;
	struct latch_counters *count = hit();
	struct latch_metadata *record;
	struct trace_head head;
	__u64 stack, lock = 0;
	__u16 length = 0;

	if (!count)
		return 0;
	head_of(&head, ns, count);
	stack = stack_at(ctx, &head, 1);
	sleeper->key = ctx->rdi;
	sleeper->doing = SLEEPS_METADATA;
	if (!known)
		bpf_map_update_elem(&sleepers, &tid, &fresh, BPF_ANY);
	__sync_fetch_and_add(slept(ctx->rdi), 1);
	record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (!record) {
		COUNT(count->lost);
		return 0;
	}
	__builtin_memset(&record->sleep, 0, sizeof(record->sleep));
	record->sleep.head = head;
	record->sleep.what = LATCH_SLEEPS;
	record->sleep.source = LATCH_METADATA;
	record->sleep.key = ctx->rdi;
	record->sleep.frame = ctx->rsp;
	record->sleep.stack = stack;
	bpf_get_current_comm(record->sleep.name, sizeof(record->sleep.name));
	if (config.ticket != LATCH_UNKNOWN) {
		lock = word_at(ctx->rdi + config.ticket);
		lock = lock ? word_at(lock + config.lock) : 0;
	}
	record->sleep.latch = lock;
	/* The whole room, since its end need not be the key's: the lock is larger than that. */
	if (!lock || bpf_probe_read_user(&length, sizeof(length), (void *)lock) ||
	    bpf_probe_read_user(record->key, LATCH_KEY_MAX, (void *)(lock + config.key)))
		length = 0;
	record->key_length = length;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	COUNT(count->records);
	return 0;
}

SEC("uprobe")
int metadata_wakes(struct pt_regs *ctx)
{
	return wakes(SLEEPS_METADATA, LATCH_METADATA, 0);
}

/* Of the fates only this one: the others are not a holder's doing. */
#define METADATA_GRANTED 1

SEC("uprobe")
int metadata_told(struct pt_regs *ctx)
{
	if ((__u32)ctx->rsi != METADATA_GRANTED)
		return 0;
	return released_at(ctx, LATCH_METADATA, ctx->rdi, 1);
}

/* The call's number on x86-64. */
#define CALL_FUTEX 202

struct futex_call {
	__u64 address;
	__u64 operation;
	__u64 value;
};

/* Offsets in a mutex of the C library, of which the futex is the first word. */
#define PTHREAD_OWNER 8
#define PTHREAD_KIND 16

static __always_inline int futex_sleeps(const struct futex_call *ctx, __u32 operation, __u64 ns)
{
	const __u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct sleeper *known = bpf_map_lookup_elem(&sleepers, &tid);
	struct sleeper fresh = {}, *sleeper = known ? known : &fresh;
	struct latch_counters *count;
	struct latch_sleep record = {};

	/* Within a sleep that is told already. */
	if (known && (known->doing == SLEEPS_INNODB || known->doing == SLEEPS_METADATA ||
		      known->doing == SLEEPS_STATIC))
		return 0;
	count = hit();
	if (!count)
		return 0;
	sleeper->key = ctx->address;
	sleeper->last_futex = ctx->address;
	sleeper->doing = SLEEPS_FUTEX;
	if (!known)
		bpf_map_update_elem(&sleepers, &tid, &fresh, BPF_ANY);
	__sync_fetch_and_add(slept(ctx->address), 1);
	head_of(&record.head, ns, count);
	record.what = LATCH_SLEEPS;
	record.source = LATCH_FUTEX;
	record.key = ctx->address;
	record.latch = ctx->address;
	record.how = operation;
	record.value = ctx->value;
	record.owner = number_at(ctx->address + PTHREAD_OWNER);
	record.kind = number_at(ctx->address + PTHREAD_KIND);
	record.stack = stack_of_call(&record.head, &record.frame);
	bpf_get_current_comm(record.name, sizeof(record.name));
	emit(&record, sizeof(record), count);
	return 0;
}

static __always_inline void futex_wakes(__u64 address, __u64 ns)
{
	const __u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct sleeper *sleeper = bpf_map_lookup_elem(&sleepers, &tid);
	struct latch_counters *count = hit();
	struct trace_head head;
	__u64 sp;

	if (!count)
		return;
	/* One that slept for it itself: its own release ends its wait for good. */
	if (!*(volatile __u32 *)slept(address) && (!sleeper || sleeper->last_futex != address)) {
		COUNT(count->sets);
		return;
	}
	if (sleeper)
		sleeper->last_futex = 0;
	head_of(&head, ns, count);
	brief(ns, count, LATCH_RELEASES, LATCH_FUTEX, address, stack_of_call(&head, &sp), 0);
}

/* Every system call of the host comes by; all but a few leave at the first look. */
SEC("raw_tp/sys_enter")
int futex_begins(struct bpf_raw_tracepoint_args *ctx)
{
	struct pt_regs___user *regs;
	struct futex_call call;
	__u32 operation;
	__u64 ns;

	if (ctx->args[1] != CALL_FUTEX || bpf_get_current_pid_tgid() >> 32 != config.tgid)
		return 0;
	ns = bpf_ktime_get_ns();
	regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	call.address = regs->di;
	call.operation = regs->si;
	call.value = regs->dx;
	operation = call.operation & FUTEX_CMD_MASK;
	switch (operation) {
	case FUTEX_WAIT_BITSET:
		if (!config.bitset)
			return 0;
		/* fall through */
	case FUTEX_WAIT:
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
		return futex_sleeps(&call, operation, ns);
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
	case FUTEX_UNLOCK_PI:
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
	case FUTEX_WAKE_OP:
		futex_wakes(call.address, ns);
	}
	return 0;
}

SEC("raw_tp/sys_exit")
int futex_ends(struct bpf_raw_tracepoint_args *ctx)
{
	struct pt_regs___user *regs;

	if (bpf_get_current_pid_tgid() >> 32 != config.tgid)
		return 0;
	regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	if (regs->orig_ax != CALL_FUTEX)
		return 0;
	return wakes(SLEEPS_FUTEX, LATCH_FUTEX, ctx->args[1]);
}

static __always_inline __u64 register_of(struct pt_regs *ctx, __u32 place)
{
	__u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)ctx + 8 * (place & 31));
	return value;
}

/* The argument of the static probe whose cookie this is. */
static __always_inline __u64 argument_of(struct pt_regs *ctx)
{
	const __u32 at = bpf_get_attach_cookie(ctx) & (LATCH_STATIC - 1);
	const volatile struct latch_argument *argument = &config.arguments[at];
	__u64 value = argument->offset;

	if (argument->kind == LATCH_ARGUMENT_REGISTER)
		value = register_of(ctx, argument->place);
	else if (argument->kind == LATCH_ARGUMENT_MEMORY)
		value = word_at(register_of(ctx, argument->place) + argument->offset);
	if (argument->size < 8)
		value &= (1ull << (8 * argument->size)) - 1;
	return value;
}

SEC("uprobe")
int static_sleeps(struct pt_regs *ctx)
{
	const __u64 ns = bpf_ktime_get_ns();
	const __u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct sleeper *known = bpf_map_lookup_elem(&sleepers, &tid);
	struct sleeper fresh = {}, *sleeper = known ? known : &fresh;
	const __u64 latch = argument_of(ctx);
	struct latch_counters *count = hit();
	struct latch_sleep record = {};

	if (!count)
		return 0;
	sleeper->key = latch;
	sleeper->doing = SLEEPS_STATIC;
	if (!known)
		bpf_map_update_elem(&sleepers, &tid, &fresh, BPF_ANY);
	__sync_fetch_and_add(slept(latch), 1);
	head_of(&record.head, ns, count);
	record.what = LATCH_SLEEPS;
	record.source = LATCH_STATIC_PROBE;
	record.key = latch;
	record.latch = latch;
	record.frame = ctx->rsp;
	record.stack = stack_at(ctx, &record.head, 0);
	bpf_get_current_comm(record.name, sizeof(record.name));
	emit(&record, sizeof(record), count);
	return 0;
}

SEC("uprobe")
int static_wakes(struct pt_regs *ctx)
{
	return wakes(SLEEPS_STATIC, LATCH_STATIC_PROBE, 0);
}

SEC("uprobe")
int static_releases(struct pt_regs *ctx)
{
	return released_at(ctx, LATCH_STATIC_PROBE, argument_of(ctx), 0);
}

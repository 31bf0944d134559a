// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What runs when the clock ticks? A perf event on each processor runs this program, in whatever
 * thread is there; those of watched processes are written down, one record each. The clock is a
 * timer of the kernel's, whose interrupt may come anywhere in a function. */
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "../bpf/count.h"
#define WAGGLE_UNWIND_PROGRAMS
#define UNWIND_PROGRAMS 1
#include "event.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct sample_config config = {};

/* Name the types to the generator of Rust types. */
const volatile struct sample_record record_shape = {};
const volatile enum sample_kind sample_kind_shape = SAMPLE_TAKEN;

/* The kernel's types, as far as they are looked at; where a field really is, libbpf finds out. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct {
	int pid;
	int tgid;
	unsigned long long start_boottime;
	char comm[SAMPLE_NAME];
};

/* Before Linux 5.5. */
struct task_struct___older {
	unsigned long long real_start_time;
};

struct pt_regs___user {
	unsigned long ip;
	unsigned long sp;
	unsigned long bp;
};
#pragma clang attribute pop

/* The low bits of the code segment: 0 in the kernel. */
#define PRIVILEGE 3

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample_record);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample_counters);
} counters SEC(".maps");

static __always_inline __u64 began_ns(const struct task_struct *task)
{
	if (bpf_core_field_exists(task->start_boottime))
		return task->start_boottime;
	return ((const struct task_struct___older *)task)->real_start_time;
}

/* The kernel's own calls, where the interrupt came in the kernel. */
static __always_inline void kernel_calls(struct bpf_perf_event_data *ctx,
					 struct sample_record *record,
					 struct sample_counters *count)
{
	const long bytes = bpf_get_stack(ctx, record->frames, sizeof(record->frames), 0);

	if (bytes <= 0) {
		COUNT(count->kernel_unread);
		return;
	}
	record->count = bytes / 8;
	if (record->count >= SAMPLE_KERNEL_FRAMES)
		COUNT(count->kernel_deep);
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	const __u64 ns = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	const __u32 zero = 0, tgid = task->tgid;
	struct sample_counters *count;
	struct sample_record *record;
	struct pt_regs___user *regs;
	__u64 length;

	count = bpf_map_lookup_elem(&counters, &zero);
	if (!count)
		return 0;
	COUNT(count->ticks);
	if (!bpf_map_lookup_elem(&watched, &tgid))
		return 0;
	record = bpf_map_lookup_elem(&scratch, &zero);
	if (!record)
		return 0;
	record->head.ns = ns;
	record->head.began_ns = began_ns(task);
	record->head.tid = task->pid;
	record->head.tgid = tgid;
	record->head.kind = SAMPLE_TAKEN;
	record->head.cpu = bpf_get_smp_processor_id();
	record->head.lost = count->lost;
	regs = (void *)bpf_task_pt_regs(task);
	record->stack = unwind(&events, &record->head, regs->ip, regs->sp, regs->bp, 0);
	record->count = 0;
	record->in_kernel = !(ctx->regs.cs & PRIVILEGE);
	if (record->in_kernel && config.kernel)
		kernel_calls(ctx, record, count);
	bpf_probe_read_kernel(record->name, sizeof(record->name), task->comm);
	length = record->count;
	if (length > SAMPLE_KERNEL_FRAMES)
		length = SAMPLE_KERNEL_FRAMES;
	length = __builtin_offsetof(struct sample_record, frames) + 8 * length;
	if (bpf_ringbuf_output(&events, record, length, BPF_RB_NO_WAKEUP))
		COUNT(count->lost);
	else
		COUNT(count->taken);
	return 0;
}

// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* When do the threads of watched processes leave and take a processor, why, and who wakes them?
 * Raw tracepoints, since fentry and its kin are refused on some kernels.
 *
 * A wake-up is taken where the waker does it (sched_waking): sched_wakeup may be told by the
 * processor that the woken thread will run on, in the midst of anybody. */
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/stat.h>
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "../bpf/count.h"
#define WAGGLE_UNWIND_PROGRAMS
#define UNWIND_PROGRAMS 2
#include "event.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct timeline_config config = {};

/* Name the types to the generator of Rust types. */
const volatile struct timeline_came came_shape = {};
const volatile struct timeline_event event_shape = {};
const volatile struct unwind_row row_shape = {};
const volatile struct unwind_process process_shape = {};
const volatile struct unwind_stack stack_shape = {};
const volatile struct unwind_counters unwind_counters_shape = {};
const volatile enum trace_kind kind_shape = TRACE_LEFT;
const volatile enum timeline_why why_shape = WHY_OTHER;
const volatile enum unwind_rule rule_shape = UNWIND_CHAIN;
const volatile enum unwind_end end_shape = UNWIND_WHOLE;

/* Written by user space alone. */
struct watched_bits watched_bits SEC(".data.watched");

#include "task.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct timeline_counters);
} counters SEC(".maps");

/* By tid: enum trace_follow; the point probes' map. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TRACE_THREADS);
	__type(key, __u32);
	__type(value, __u32);
} followed SEC(".maps");

/* No process that is watched is left out; of those that are not, nearly all are. */
static __always_inline int may_be_watched(__u32 tgid)
{
	const __u32 only = watched_bits.only;

	if (only)
		return tgid == only;
	return watched_bits.words[(tgid / 64) & (WATCHED_BITS / 64 - 1)] >> (tgid & 63) & 1;
}

static __always_inline int is_watched(__u32 tgid)
{
	if (!may_be_watched(tgid))
		return 0;
	return watched_bits.only || bpf_map_lookup_elem(&watched, &tgid);
}

/* Whether a thread's switches and wake-ups are told. Most of a server's threads are idle and not
 * followed, so that is asked before whether the process is really watched. */
static __always_inline int is_told(__u32 tgid, __u32 tid)
{
	const __u32 *bits;

	if (!may_be_watched(tgid))
		return 0;
	if (config.followed_only) {
		bits = bpf_map_lookup_elem(&followed, &tid);
		if (!bits || !*bits)
			return 0;
	}
	return watched_bits.only || bpf_map_lookup_elem(&watched, &tgid);
}

static __always_inline __u64 began_ns(const struct task_struct *task)
{
	if (bpf_core_field_exists(task->start_boottime))
		return task->start_boottime;
	return ((const struct task_struct___older *)task)->real_start_time;
}

static __always_inline long state_of(const struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return ((const struct task_struct___old *)task)->state;
}

/* An interrupt of the kernel, also a soft one, has a stack of its own, and the program's arguments
 * are on the stack of whoever passes the tracepoint. One of a program in its own code has not: then
 * the program is in no system call. (The kernel's count of nested interrupts is a variable whose
 * address not every kernel tells.) */
static __always_inline int in_interrupt(const void *ctx, const struct task_struct *task,
					const struct pt_regs___user *regs)
{
	const void *volatile slot = ctx;
	__u64 at = 0;

	if (!(task->flags & KERNEL_THREAD) && (long)regs->orig_ax < 0)
		return 1;
	bpf_probe_read_kernel(&at, sizeof(at), (const void *)&slot);
	return at - (__u64)task->stack >= KERNEL_STACK;
}

/* `lost`: as it was before there was room for the record. */
static __always_inline void head_of(struct trace_head *head, const struct task_struct *task,
				    __u16 kind, __u64 ns, __u32 lost)
{
	head->ns = ns;
	head->began_ns = began_ns(task);
	head->tid = task->pid;
	head->tgid = task->tgid;
	head->kind = kind;
	head->cpu = bpf_get_smp_processor_id();
	head->lost = lost;
}

/* The thread's name, two words. */
static __always_inline void name_of(char *name, const struct task_struct *task)
{
	const __u64 *comm = (const __u64 *)task->comm;

	((__u64 *)name)[0] = comm[0];
	((__u64 *)name)[1] = comm[1];
}

/* Room in the ring, to be filled and submitted; NULL if there is none, which is counted. */
static __always_inline void *room(__u64 bytes, struct timeline_counters *count)
{
	void *record = bpf_ringbuf_reserve(&events, bytes, 0);

	if (record)
		COUNT(count->events);
	else
		COUNT(count->lost);
	return record;
}

#include "why.h"

static __always_inline void left(struct task_struct *task, int preempted, __u64 ns,
				 struct timeline_counters *count)
{
	const struct pt_regs___user *regs = (void *)bpf_task_pt_regs(task);
	const int runnable = preempted || !state_of(task);
	const __u32 lost = count->lost;
	struct timeline_event *event;
	__u64 stack = 0, address = 0;
	__u16 reason = WHY_RUNNABLE;

	if (!runnable)
		reason = why(task, regs, &address);
	/* Before there is a record, which would hold up those behind it. */
	if (runnable ? config.preempted_stacks : config.stacks) {
		struct trace_head head;

		head_of(&head, task, TRACE_LEFT, ns, lost);
		stack = unwind(&events, &head, regs->ip, regs->sp, regs->bp, 0);
	}
	event = room(sizeof(*event), count);
	if (!event)
		return;
	head_of(&event->head, task, TRACE_LEFT, ns, lost);
	event->value = address;
	event->stack = stack;
	event->woken = 0;
	event->why = reason;
	event->interrupt = 0;
	name_of(event->name, task);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static __always_inline void plain(const struct task_struct *task, __u16 kind, __u64 ns,
				  struct timeline_counters *count)
{
	const __u32 lost = count->lost;
	struct timeline_came *event = room(sizeof(*event), count);

	if (!event)
		return;
	head_of(&event->head, task, kind, ns, lost);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

SEC("raw_tp/sched_switch")
int sched_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *prev = bpf_get_current_task_btf();
	struct task_struct *next = bpf_core_cast((void *)ctx->args[2], struct task_struct);
	const int leaves = is_told(prev->tgid, prev->pid) && !(state_of(prev) & TASK_ENDS);
	const int comes = is_told(next->tgid, next->pid);
	struct timeline_counters *count;
	__u32 zero = 0;
	__u64 ns;

	if (!leaves && !comes)
		return 0;
	ns = bpf_ktime_get_ns();
	count = bpf_map_lookup_elem(&counters, &zero);
	if (!count)
		return 0;
	if (leaves)
		left(prev, ctx->args[0], ns, count);
	if (comes)
		plain(next, TRACE_CAME, ns, count);
	return 0;
}

SEC("raw_tp/sched_waking")
int sched_waking(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *woken = bpf_core_cast((void *)ctx->args[0], struct task_struct);
	const struct pt_regs___user *regs;
	struct timeline_counters *count;
	struct timeline_event *event;
	struct task_struct *waker;
	__u32 zero = 0, lost;
	__u64 ns, stack = 0;
	int interrupt;

	if (!is_told(woken->tgid, woken->pid))
		return 0;
	ns = bpf_ktime_get_ns();
	count = bpf_map_lookup_elem(&counters, &zero);
	if (!count)
		return 0;
	lost = count->lost;
	waker = bpf_get_current_task_btf();
	regs = (void *)bpf_task_pt_regs(waker);
	interrupt = in_interrupt(ctx, waker, regs);
	if (config.waker_stacks && !interrupt && !(waker->flags & KERNEL_THREAD)) {
		struct trace_head head;

		head_of(&head, waker, TRACE_WAKES, ns, lost);
		stack = unwind(&events, &head, regs->ip, regs->sp, regs->bp, 1);
	}
	event = room(sizeof(*event), count);
	if (!event)
		return 0;
	head_of(&event->head, waker, TRACE_WAKES, ns, lost);
	event->value = began_ns(woken);
	event->stack = stack;
	event->woken = woken->pid;
	event->why = 0;
	event->interrupt = interrupt;
	name_of(event->name, waker);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("raw_tp/sched_process_fork")
int sched_process_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *child = bpf_core_cast((void *)ctx->args[1], struct task_struct);
	struct timeline_counters *count;
	const __u64 ns = bpf_ktime_get_ns();
	__u32 zero = 0;

	if (!is_watched(child->tgid))
		return 0;
	count = bpf_map_lookup_elem(&counters, &zero);
	if (count)
		plain(child, TRACE_BEGAN, ns, count);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int sched_process_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct timeline_counters *count;
	struct timeline_event *event;
	const __u64 ns = bpf_ktime_get_ns();
	__u32 zero = 0, lost;

	if (!is_watched(task->tgid))
		return 0;
	if (config.followed_only) {
		__u32 tid = task->pid;

		bpf_map_delete_elem(&followed, &tid);
	}
	count = bpf_map_lookup_elem(&counters, &zero);
	if (!count)
		return 0;
	lost = count->lost;
	event = room(sizeof(*event), count);
	if (!event)
		return 0;
	head_of(&event->head, task, TRACE_ENDED, ns, lost);
	event->value = 0;
	event->stack = 0;
	event->woken = 0;
	event->why = 0;
	event->interrupt = 0;
	name_of(event->name, task);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

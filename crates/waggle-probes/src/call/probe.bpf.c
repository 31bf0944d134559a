// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Calls of chosen functions: when they begin, when they return, and when their thread was off its
 * processor meanwhile. A call is followed by the place of its return address on the stack, so that
 * recursion, tail calls and calls left by longjmp are told apart. Sums and histograms are made
 * here; only slow calls are told of one by one. */
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/stat.h>
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "../bpf/count.h"
#include "event.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct call_config config = {};

/* Name the types to the generator of Rust types. */
const volatile struct call_event event_shape = {};
const volatile enum call_reason reason_shape = CALL_AWAY_RUNNABLE;
const volatile enum call_syscall syscall_shape = CALL_SYS_OTHER;
const volatile struct call_series series_shape = {};
const volatile struct call_thread thread_shape = {};

struct call_control control SEC(".data.control");
/* The next free series. */
__u32 series_next SEC(".bss.next");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sched_info {
	unsigned long long run_delay;
};

struct inode {
	unsigned short i_mode;
};

struct file {
	struct inode *f_inode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	int pid;
	int tgid;
	unsigned int __state;
	struct sched_info sched_info;
	unsigned long nvcsw;
	unsigned long nivcsw;
	struct files_struct *files;
};

/* Before Linux 5.14. */
struct task_struct___old {
	volatile long state;
};

/* The part of struct pt_regs that is looked at, wherever this kernel has it. */
struct pt_regs___user {
	unsigned long orig_ax;
	unsigned long di;
};
#pragma clang attribute pop

/* What a new thread begins with. */
static const struct call_thread blank = {};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct call_thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct call_series);
} all_series SEC(".maps");

/* Where a function is called from: to the number of its series. */
struct caller_key {
	__u64 caller;
	__u64 function;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct caller_key);
	__type(value, __u32);
} callers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct call_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1024 * 1024);
} events SEC(".maps");

static __always_inline struct call_counters *counted(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&counters, &zero);
}

#include "frames.h"

SEC("uprobe")
int call_entered(struct pt_regs *ctx)
{
	const __u64 now = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	const __u32 number = (__u32)bpf_get_attach_cookie(ctx);
	const volatile struct call_function *function = function_at(number);
	struct call_counters *count = counted();
	struct call_thread *thread;
	struct call_frame *frame;
	__u64 slot = ctx->rsp, caller = 0;
	__u32 tid = task->pid, depth;

	if (!function || task->tgid != config.tgid)
		return 0;
	if (count)
		COUNT(count->entries);
	thread = bpf_map_lookup_elem(&threads, &tid);
	if (!thread) {
		/* Nothing is around it: of no interest, if it is only a child. */
		if (!function->chosen) {
			if (count)
				COUNT(count->outside);
			return 0;
		}
		bpf_map_update_elem(&threads, &tid, &blank, BPF_NOEXIST);
		thread = bpf_map_lookup_elem(&threads, &tid);
		if (!thread) {
			if (count)
				COUNT(count->threads_full);
			return 0;
		}
	}
	bpf_probe_read_user(&caller, sizeof(caller), (void *)slot);
	/* A function that was jumped to, not called, finds the trampoline there, which begins a page:
	 * as long as it is not known, a call's return address that does too is taken for it. */
	drop_gone(thread, slot, control.trampoline ? caller != control.trampoline : caller & 4095,
		  count);
	depth = thread->depth;
	if (!depth) {
		if (!function->chosen) {
			if (count)
				COUNT(count->outside);
			return 0;
		}
		thread->out_ns = 0;
	}
	frame = frame_at(thread, depth);
	if (!frame) {
		if (count)
			COUNT(count->deep);
		return 0;
	}
	if (depth) {
		struct call_frame *outer = frame_at(thread, depth - 1);

		if (outer && outer->slot == slot)
			caller = outer->caller;
	}
	frame->start_ns = now;
	frame->slot = slot;
	frame->caller = caller;
	begin(frame, thread, task, number);
	if (depth)
		look_around(thread, frame, depth, number);
	thread->depth = depth + 1;
	return 0;
}

#include "series.h"

SEC("uprobe")
int call_returned(struct pt_regs *ctx)
{
	const __u64 now = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	const __u32 number = (__u32)bpf_get_attach_cookie(ctx);
	const volatile struct call_function *function = function_at(number);
	struct call_counters *count;
	struct call_frame *frame, *outer;
	struct outcome outcome = {};
	struct call_thread *thread;
	/* The return address has been taken off the stack. */
	const __u64 slot = ctx->rsp - 8;
	__u32 tid = task->pid;

	if (!function || task->tgid != config.tgid)
		return 0;
	count = counted();
	thread = bpf_map_lookup_elem(&threads, &tid);
	if (!thread || !thread->depth)
		goto alone;
	drop_gone(thread, slot, 0, count);
	/* Functions that jumped to one another share a slot. */
	for (int i = 0; i < 4; i++) {
		frame = frame_at(thread, thread->depth - 1);
		if (!frame || frame->slot != slot)
			goto alone;
		thread->depth--;
		if (frame->function == number)
			goto found;
		if (count)
			COUNT(count->missed);
	}
	goto alone;
found:
	if (count)
		COUNT(count->returns);
	outcome_of(&outcome, thread, frame, task, now);
	if (thread->depth) {
		outer = frame_at(thread, thread->depth - 1);
		if (outer && outer->longest_ns < frame->longest_ns) {
			outer->longest_ns = frame->longest_ns;
			outer->longest_reason = frame->longest_reason;
		}
	}
	if (!control.counting)
		return 0;
	if (frame->start_ns < control.since_ns) {
		if (count)
			COUNT(count->early);
		return 0;
	}
	file_call(ctx, thread, frame, &outcome, now, tid, count);
	return 0;
alone:
	/* A child outside every chosen function returns too; so does a call that was too deep. */
	if (count && function->chosen && (!thread || thread->depth < CALL_DEPTH))
		COUNT(count->alone);
	return 0;
}

/* Cost nothing but the trap. */
SEC("uprobe")
int call_nothing(struct pt_regs *ctx)
{
	return 0;
}

#include "away.h"

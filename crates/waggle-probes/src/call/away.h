/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* When is a thread that is in a call off its processor, and why? Programs on the scheduler.
 * Included by probe.bpf.c, after frames.h. */
#ifndef WAGGLE_CALL_AWAY_H
#define WAGGLE_CALL_AWAY_H

static __always_inline int is_socket(const struct task_struct *task, __u32 number)
{
	struct files_struct *files = task->files;
	struct fdtable *table;
	struct file *file = NULL;

	if (!files)
		return 0;
	table = files->fdt;
	if (number >= table->max_fds)
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), table->fd + number);
	return file && (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) == S_IFSOCK;
}

/* Why the current thread, which does not want its processor any more, leaves it. */
static __always_inline __u32 reason_of(struct task_struct *task)
{
	struct pt_regs___user *regs = (void *)bpf_task_pt_regs(task);
	const long call = regs->orig_ax;

	/* No system call: a page that has to be read. */
	if (call < 0 || call >= CALL_SYSCALLS)
		return CALL_AWAY_DISK;
	switch (config.syscalls[call]) {
	case CALL_SYS_FUTEX:
		return CALL_AWAY_FUTEX;
	case CALL_SYS_DISK:
		return CALL_AWAY_DISK;
	case CALL_SYS_NETWORK:
		return CALL_AWAY_NETWORK;
	case CALL_SYS_SLEEP:
		return CALL_AWAY_SLEEP;
	case CALL_SYS_FILE:
		return is_socket(task, regs->di) ? CALL_AWAY_NETWORK : CALL_AWAY_DISK;
	}
	return CALL_AWAY_OTHER;
}

static __always_inline long state_of(const struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return ((const struct task_struct___old *)task)->state;
}

/* A thread in a call takes a processor again. */
static __always_inline void comes(struct call_thread *thread, __u64 now)
{
	const __u64 ns = now - thread->out_ns;
	struct call_frame *frame = frame_at(thread, thread->depth - 1);
	const __u32 reason = thread->reason;

	thread->out_ns = 0;
	if (reason >= CALL_REASONS)
		return;
	thread->off_ns[reason] += ns;
	thread->seen++;
	if (frame && frame->longest_ns < ns) {
		frame->longest_ns = ns;
		frame->longest_reason = reason;
	}
}

SEC("raw_tp/sched_switch")
int call_switched(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *prev = bpf_get_current_task_btf();
	struct task_struct *next = bpf_core_cast((void *)ctx->args[2], struct task_struct);
	const int preempted = ctx->args[0];
	struct call_thread *thread;
	__u64 now = 0;
	__u32 tid;

	if (prev->tgid == config.tgid) {
		tid = prev->pid;
		thread = bpf_map_lookup_elem(&threads, &tid);
		if (thread && thread->depth) {
			now = bpf_ktime_get_ns();
			thread->out_ns = now;
			thread->reason = preempted || !state_of(prev) ? CALL_AWAY_RUNNABLE :
									reason_of(prev);
		}
	}
	if (next->tgid == config.tgid) {
		tid = next->pid;
		thread = bpf_map_lookup_elem(&threads, &tid);
		if (thread && thread->depth && thread->out_ns)
			comes(thread, now ? now : bpf_ktime_get_ns());
	}
	return 0;
}

SEC("raw_tp/sched_process_exit")
int call_thread_ends(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct call_counters *count;
	struct call_thread *thread;
	__u32 tid = task->pid;

	if (task->tgid != config.tgid)
		return 0;
	thread = bpf_map_lookup_elem(&threads, &tid);
	if (!thread)
		return 0;
	count = counted();
	if (count)
		COUNT_MANY(count->ended, thread->depth);
	bpf_map_delete_elem(&threads, &tid);
	return 0;
}

#endif

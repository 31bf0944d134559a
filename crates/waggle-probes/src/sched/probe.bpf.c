// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* When do the threads of servers leave a processor, why, and when do they take one again? Raw
 * tracepoints, since fentry and its kin are refused on some kernels. */
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/stat.h>
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>
#define WAGGLE_KERNEL_TYPES
#include "../bpf/count.h"
#include "event.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct sched_config config = {};

/* Name the types to the generator of Rust types. */
const volatile struct thread_state thread_shape = {};
const volatile enum wait_class class_shape = WAIT_OTHER;
const volatile enum departure departure_shape = AWAY_NOT;
const volatile enum call_kind call_shape = CALL_OTHER;

/* What a new thread begins with. */
static const struct thread_state blank = { .away = AWAY_NOT };

/* Written by user space alone. */
struct server_bits server_bits SEC(".data.servers");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} servers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sched_counters);
} counters SEC(".maps");

/* The part of struct pt_regs that is looked at, wherever this kernel has it. */
struct pt_regs___user {
	unsigned long orig_ax;
	unsigned long di;
	unsigned long sp;
} __attribute__((preserve_access_index));

/* A statement cannot have come in, been parsed and asked the client for a file in less. */
#define IDLE_AFTER_END_NS 5000
/* Longest age of a statement that is believed, us: more is no start time. */
#define STATEMENT_AGE_MAX_US (1ull << 40)

static __always_inline int may_be_server(__u32 tgid)
{
	return server_bits.words[(tgid / 64) & (SERVER_BITS / 64 - 1)] >> (tgid & 63) & 1;
}

static __always_inline struct thread_state *thread_of(__u32 tid)
{
	return bpf_map_lookup_elem(&threads, &tid);
}

/* The start time of the statement that the thread carries out; 0 if it carries out none, as far
 * as can be told. */
static __always_inline __u64 running_since(const struct thread_state *thread)
{
	__u64 start = 0;

	if (!thread->start_at)
		return 0;
	if (bpf_probe_read_user(&start, sizeof(start), (void *)thread->start_at))
		return 0;
	if (start <= thread->start_ended || start - thread->start_ended > STATEMENT_AGE_MAX_US)
		return 0;
	return start;
}

/* The thread is about to wait for the client: for its next statement, or for more of this one. */
static __always_inline __u32 away_for_client(struct thread_state *thread, __u64 now)
{
	__u64 start;

	if (now - thread->end_ns < IDLE_AFTER_END_NS)
		return AWAY_IDLE;
	start = running_since(thread);
	if (!start)
		return AWAY_IDLE;
	if (start != thread->start_running) {
		thread->start_running = start;
		thread->whole = thread->recent;
	}
	return AWAY_CLIENT;
}

static __always_inline struct file *file_of(const struct task_struct *task, __u32 number)
{
	struct files_struct *files = task->files;
	struct fdtable *table;
	struct file *file = NULL;

	if (!files)
		return NULL;
	table = files->fdt;
	if (number >= table->max_fds)
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), table->fd + number);
	return file;
}

static __always_inline int is_socket(const struct task_struct *task, __u32 number)
{
	struct file *file = file_of(task, number);

	return file && (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) == S_IFSOCK;
}

/* True if the file's name is one that the storage engine gives to its redo log. */
static __always_inline int is_redo(const struct task_struct *task, __u32 number)
{
	struct file *file = file_of(task, number);
	const unsigned char *name;
	char first[8] = {};

	if (!file)
		return 0;
	name = BPF_CORE_READ(file, f_path.dentry, d_name.name);
	bpf_probe_read_kernel(first, sizeof(first), name);
	return !__builtin_memcmp(first, "ib_logfi", 8) || !__builtin_memcmp(first, "#ib_redo", 8);
}

/* The class of the innermost function that the thread has entered and not left; `otherwise` if
 * there is none. */
static __always_inline __u32 within(struct thread_state *thread, __u64 stack, __u32 otherwise)
{
	for (int i = BRACKETS - 1; i >= 0; i--) {
		struct bracket *bracket = &thread->brackets[i];
		__u64 address = 0;

		if (!bracket->stack)
			continue;
		/* The function's frame is gone, or another's is in its place. */
		if (stack >= bracket->stack ||
		    bpf_probe_read_user(&address, sizeof(address), (void *)bracket->stack) ||
		    address != bracket->address) {
			bracket->stack = 0;
			continue;
		}
		if (i == BRACKET_TABLE)
			return WAIT_TABLE_LOCK;
		return i == BRACKET_REDO ? WAIT_REDO : WAIT_BINARY_LOG;
	}
	return otherwise;
}

/* Why the current thread, which does not want the processor any more, leaves it. */
static __always_inline __u32 away_because(struct thread_state *thread, struct task_struct *task,
					  __u64 now)
{
	struct pt_regs___user *regs = (void *)bpf_task_pt_regs(task);
	const long call = regs->orig_ax;
	__u32 class;

	if (call < 0 || call >= CALL_NUMBERS) {
		/* No system call: a page that has to be read. */
		if (thread->wait)
			return thread->wait - 1;
		return WAIT_DISK_READ;
	}
	switch (config.calls[call]) {
	case CALL_RECEIVE:
		return away_for_client(thread, now);
	case CALL_POLL: {
		/* struct pollfd: descriptor, events, what came. */
		__u16 events = 0;

		if (now - thread->end_ns < IDLE_AFTER_END_NS)
			return AWAY_IDLE;
		bpf_probe_read_user(&events, sizeof(events), (void *)regs->di + 4);
		if (events & 4 /* POLLOUT */)
			return WAIT_NETWORK_WRITE;
		return away_for_client(thread, now);
	}
	case CALL_READ:
		if (is_socket(task, regs->di))
			return away_for_client(thread, now);
		return WAIT_DISK_READ;
	case CALL_DISK_READ:
		return WAIT_DISK_READ;
	case CALL_SEND:
		return WAIT_NETWORK_WRITE;
	case CALL_WRITE:
		if (is_socket(task, regs->di))
			return WAIT_NETWORK_WRITE;
		/* fallthrough */
	case CALL_DISK_WRITE:
		if (is_redo(task, regs->di))
			return WAIT_REDO;
		return within(thread, regs->sp, WAIT_DISK_WRITE);
	case CALL_FUTEX:
		if (thread->wait)
			return thread->wait - 1;
		return within(thread, regs->sp, WAIT_LATCH);
	case CALL_SLEEP:
		if (thread->wait)
			return thread->wait - 1;
		return within(thread, regs->sp, WAIT_SLEEP);
	}
	if (thread->wait)
		return thread->wait - 1;
	class = within(thread, regs->sp, WAIT_OTHER);
	return class;
}

/* Why a thread left that is about to run again, if nobody told that it did: as much as is known
 * when another thread's memory and registers are in its place. `forced`: switches that were. */
static __always_inline __u32 unseen_because(const struct thread_state *thread, __u32 forced)
{
	if (forced != thread->forced)
		return AWAY_RUNNABLE;
	/* A statement ended meanwhile: it waited for the next. */
	if (thread->end_ns >= thread->in_ns)
		return AWAY_IDLE;
	if (thread->wait)
		return thread->wait - 1;
	return WAIT_OTHER;
}

/* The thread takes a processor, but was not seen to leave the one before. What it ran meanwhile
 * tells when it did. */
static __always_inline void unseen(struct thread_state *thread, struct task_struct *task)
{
	const __u64 ran_ns = task->se.sum_exec_runtime - thread->ran_ns;

	if (!thread->ran_ns)
		return;
	account(thread, task, NO_SWITCH);
	thread->out_ns = thread->in_ns + ran_ns;
	/* The kernel adds this wait's delay later. */
	thread->run_delay = task->sched_info.run_delay;
	thread->away = unseen_because(thread, task->nivcsw);
	thread->between = 0;
	thread->ran_ns = task->se.sum_exec_runtime;
	thread->forced = task->nivcsw;
}

static __always_inline long state_of(const struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return ((const struct task_struct___old *)task)->state;
}

/* Least and largest share of the time since that the two clocks may have come apart by: one is
 * steered, by at most 500 us a second. */
#define APART_LEAST_NS 1000000
#define APART_SHARE 1024

/* The thread leaves a processor that it was not seen to take, and was not seen to leave the one
 * before either. The scheduler noted when it took this one; what it ran in all tells when it left
 * that one. False if that does not fit together. */
static __noinline int unseen_twice(struct thread_state *thread, struct task_struct *task, __u64 now,
				   int is_forced)
{
	__u64 arrived, ran_ns, out_ns;

	if (!thread || !task || !thread->ran_ns || !thread->clock_apart)
		return 0;
	arrived = task->sched_info.last_arrival + thread->clock_apart;
	ran_ns = task->se.sum_exec_runtime - thread->ran_ns;
	if (arrived > now || ran_ns < now - arrived)
		return 0;
	out_ns = thread->in_ns + (ran_ns - (now - arrived));
	if (out_ns >= arrived)
		return 0;
	/* The switch under way is counted already. */
	thread->away = unseen_because(thread, task->nivcsw - is_forced);
	thread->out_ns = out_ns;
	thread->in_ns = arrived;
	thread->between = 0;
	return 1;
}

/* Learns how far the scheduler's clock is from ours; false if the thread was not seen to take the
 * processor that it leaves: what it was seen to take last was another. */
static __always_inline int learn_clock(struct thread_state *thread,
				       const struct task_struct *task, __u64 now)
{
	const __u64 apart = thread->in_ns - task->sched_info.last_arrival;
	const __u64 limit = APART_LEAST_NS + (now - thread->out_ns) / APART_SHARE;

	if (thread->in_ns <= thread->out_ns)
		return 1;
	if (thread->clock_apart && (__s64)(apart - thread->clock_apart) < -(__s64)limit)
		return 0;
	thread->clock_apart = apart;
	return 1;
}

/* The current thread leaves its processor. */
static __always_inline void leaves(struct thread_state *thread, struct task_struct *task,
				   int preempted, __u64 now)
{
	const int forced = preempted || !state_of(task);
	const enum switching switching = forced ? FORCED_SWITCH : VOLUNTARY_SWITCH;
	struct sched_counters *count;
	__u32 zero = 0;

	if (*(volatile __u32 *)&thread->busy)
		return;
	first_seen(thread, task, now, switching);
	account(thread, task, switching);
	if (!learn_clock(thread, task, now)) {
		if (unseen_twice(thread, task, now, forced))
			account(thread, task, switching);
		else
			begin_anew(thread, task, now, switching);
		/* Should it be the clock that was set, the next time is the first. */
		thread->clock_apart = 0;
	}
	thread->out_ns = now;
	thread->run_delay = task->sched_info.run_delay;
	thread->ran_ns = task->se.sum_exec_runtime;
	thread->forced = task->nivcsw;
	thread->away = forced ? AWAY_RUNNABLE : away_because(thread, task, now);
	thread->between = thread->away <= AWAY_RUNNABLE && thread->start_at &&
			  !running_since(thread);
	count = bpf_map_lookup_elem(&counters, &zero);
	if (count)
		count->switches++;
}

SEC("raw_tp/sched_switch")
int sched_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *prev = bpf_get_current_task_btf();
	struct task_struct *next = bpf_core_cast((void *)ctx->args[2], struct task_struct);
	const int preempted = ctx->args[0];
	struct thread_state *thread;
	__u64 now = 0;

	if (may_be_server(prev->tgid)) {
		thread = thread_of(prev->pid);
		if (thread) {
			now = bpf_ktime_get_ns();
			leaves(thread, prev, preempted, now);
		}
	}
	if (may_be_server(next->tgid)) {
		thread = thread_of(next->pid);
		if (thread && !*(volatile __u32 *)&thread->busy) {
			if (thread->in_ns > thread->out_ns)
				unseen(thread, next);
			thread->in_ns = now ? now : bpf_ktime_get_ns();
			first_seen(thread, next, thread->in_ns, NO_SWITCH);
		}
	}
	return 0;
}

SEC("raw_tp/sched_process_fork")
int sched_process_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *child = bpf_core_cast((void *)ctx->args[1], struct task_struct);
	__u32 tgid = child->tgid, tid = child->pid, zero = 0;
	struct thread_state *thread;
	struct sched_counters *count;

	if (!may_be_server(tgid) || !bpf_map_lookup_elem(&servers, &tgid))
		return 0;
	bpf_map_update_elem(&threads, &tid, &blank, BPF_ANY);
	thread = thread_of(tid);
	if (thread) {
		thread->tgid = tgid;
		return 0;
	}
	count = bpf_map_lookup_elem(&counters, &zero);
	if (count)
		COUNT(count->map_full);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int sched_process_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tid = task->pid;

	if (may_be_server(task->tgid))
		bpf_map_delete_elem(&threads, &tid);
	return 0;
}

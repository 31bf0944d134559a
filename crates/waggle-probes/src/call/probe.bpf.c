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

static __always_inline __u32 switches_of(const struct task_struct *task)
{
	return (__u32)(task->nvcsw + task->nivcsw);
}

/* Keeps the compiler from computing an address before its index has been checked, which the
 * verifier would not follow. */
#define CHECKED(index, size) asm volatile("%0 &= %1" : "+r"(index) : "i"((size) - 1))
_Static_assert(!(CALL_DEPTH & (CALL_DEPTH - 1)), "a power of two");
_Static_assert(!(CALL_FUNCTIONS & (CALL_FUNCTIONS - 1)), "a power of two");

static __always_inline struct call_frame *frame_at(struct call_thread *thread, __u32 at)
{
	__u64 index = at;

	if (at >= CALL_DEPTH)
		return NULL;
	CHECKED(index, CALL_DEPTH);
	return &thread->frames[index];
}

static __always_inline const volatile struct call_function *function_at(__u32 number)
{
	__u64 index = number;

	if (number >= CALL_FUNCTIONS)
		return NULL;
	CHECKED(index, CALL_FUNCTIONS);
	return &config.functions[index];
}

/* A walk over the calls that a thread is in, from the innermost. */
struct walk {
	struct call_thread *thread;
	struct call_counters *count;
	struct call_frame *frame;
	__u64 slot;
	__u32 fresh;
	__u32 depth;
	__u32 number;
};

static long drop_one(__u64 index, struct walk *walk)
{
	struct call_frame *top = frame_at(walk->thread, walk->thread->depth - 1);

	if (!top || top->slot > walk->slot || (top->slot == walk->slot && !walk->fresh))
		return 1;
	walk->thread->depth--;
	if (walk->count)
		COUNT(walk->count->missed);
	return 0;
}

/* Forgets the calls whose frames are gone: left by longjmp, or not seen to return. `slot` is that
 * of the call at hand; `fresh` if a call instruction has just written it. */
static __always_inline void drop_gone(struct call_thread *thread, __u64 slot, int fresh,
				      struct call_counters *count)
{
	struct walk walk = { .thread = thread, .count = count, .slot = slot, .fresh = fresh };

	/* Mostly there is none. */
	if (!drop_one(0, &walk))
		bpf_loop(CALL_DEPTH, drop_one, &walk, 0);
}

static long look_one(__u64 index, struct walk *walk)
{
	struct call_frame *outer = frame_at(walk->thread, walk->depth - 1 - (__u32)index);
	const volatile struct call_function *function;
	struct call_frame *frame = walk->frame;

	if (!outer)
		return 1;
	if (outer->function == walk->number)
		frame->again = 1;
	function = function_at(outer->function);
	if (!function || frame->parent)
		return 0;
	/* What is further out is around that call too. */
	if (function->chosen)
		frame->parent = walk->depth - (__u32)index;
	else if (function->child && !frame->around)
		frame->around = walk->depth - (__u32)index;
	return 0;
}

/* What is around the call at hand: a chosen function's call, a child's, one of its own. */
static __always_inline void look_around(struct call_thread *thread, struct call_frame *frame,
					__u32 depth, __u32 number)
{
	struct walk walk = { .thread = thread, .frame = frame, .depth = depth, .number = number };

	bpf_loop(depth, look_one, &walk, 0);
}

/* What is known of a call at its beginning. */
static __always_inline void begin(struct call_frame *frame, const struct call_thread *thread,
				  struct task_struct *task, __u32 number)
{
	frame->queued_ns = task->sched_info.run_delay;
	frame->children_ns = 0;
	frame->children_off_ns = 0;
	frame->longest_ns = 0;
	frame->longest_reason = CALL_AWAY_OTHER;
	for (int i = 0; i < CALL_REASONS; i++)
		frame->off_ns[i] = thread->off_ns[i];
	frame->switches = switches_of(task);
	frame->seen = thread->seen;
	frame->function = number;
	frame->parent = 0;
	frame->around = 0;
	frame->again = 0;
}

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

/* Position of the highest set bit. */
static __always_inline __u32 highest_bit(__u64 value)
{
	__u32 bit = 0;

	if (value >> 32) {
		value >>= 32;
		bit += 32;
	}
	if (value >> 16) {
		value >>= 16;
		bit += 16;
	}
	if (value >> 8) {
		value >>= 8;
		bit += 8;
	}
	if (value >> 4) {
		value >>= 4;
		bit += 4;
	}
	if (value >> 2) {
		value >>= 2;
		bit += 2;
	}
	return bit + (__u32)(value >> 1);
}

static __always_inline __u32 bucket_of(__u64 ns)
{
	__u32 shift, bucket;

	if (ns < 2 * CALL_SUB)
		return (__u32)ns;
	shift = highest_bit(ns) - CALL_SUB_BITS;
	bucket = shift * CALL_SUB + (__u32)(ns >> shift);
	return bucket < CALL_BUCKETS ? bucket : CALL_BUCKETS - 1;
}

static __always_inline void raise_to(__u64 *largest, __u64 value)
{
	/* Another processor may be at it: a few tries, then the other's is near enough the same. */
	for (int i = 0; i < 4; i++) {
		__u64 old = *(volatile __u64 *)largest;

		if (value <= old || __sync_val_compare_and_swap(largest, old, value) == old)
			return;
	}
}

/* What a call came to. */
struct outcome {
	__u64 wall_ns;
	__u64 off_ns;
	__u64 queued_ns;
	__u64 by_reason[CALL_REASONS];
	__u32 unannounced;
};

/* Adds a call to the series with this number. A function of its own, so that the verifier goes
 * through it once. */
__noinline int add_call(__u32 number, const struct call_frame *frame,
			const struct outcome *outcome)
{
	struct call_series *series = bpf_map_lookup_elem(&all_series, &number);
	__u32 bucket;

	if (!series || !frame || !outcome)
		return 0;
	bucket = bucket_of(outcome->wall_ns);
	COUNT(series->count);
	COUNT_MANY(series->wall_ns, outcome->wall_ns);
	raise_to(&series->max_ns, outcome->wall_ns);
	if (bucket < CALL_BUCKETS)
		COUNT(series->wall[bucket]);
	if (frame->again) {
		COUNT(series->again);
	} else {
		COUNT_MANY(series->outer_wall_ns, outcome->wall_ns);
		COUNT_MANY(series->outer_off_ns, outcome->off_ns);
	}
	if (frame->around) {
		COUNT(series->nested);
		COUNT_MANY(series->nested_ns, outcome->wall_ns);
	}
	if (frame->children_ns) {
		COUNT_MANY(series->children_ns, frame->children_ns);
		COUNT_MANY(series->children_off_ns, frame->children_off_ns);
	}
	if (outcome->unannounced)
		COUNT(series->unannounced);
	if (!outcome->off_ns)
		return 0;
	COUNT(series->went_off);
	COUNT_MANY(series->queued_ns, outcome->queued_ns);
	raise_to(&series->off_max_ns, outcome->off_ns);
	for (int i = 0; i < CALL_REASONS; i++) {
		if (outcome->by_reason[i])
			COUNT_MANY(series->off_ns[i], outcome->by_reason[i]);
	}
	bucket = bucket_of(outcome->off_ns);
	if (bucket < CALL_BUCKETS)
		COUNT(series->off[bucket]);
	return 0;
}

/* Stands for a series there is no room for. */
#define NO_SERIES 0xffffffff

/* The number of the series of the calls from this place; a new one if there is room. */
static __always_inline __u32 series_of_caller(__u32 function, __u64 caller)
{
	struct caller_key key = { .caller = caller, .function = function };
	__u32 *known = bpf_map_lookup_elem(&callers, &key), number;
	struct call_series *series;

	if (known)
		return *known;
	if (series_next >= config.series - config.series_fixed)
		return NO_SERIES;
	number = config.series_fixed + __sync_fetch_and_add(&series_next, 1);
	if (bpf_map_update_elem(&callers, &key, &number, BPF_NOEXIST)) {
		/* Another processor was quicker, or there is no room. */
		known = bpf_map_lookup_elem(&callers, &key);
		return known ? *known : NO_SERIES;
	}
	series = bpf_map_lookup_elem(&all_series, &number);
	if (series) {
		series->caller = caller;
		series->function = function;
	}
	return number;
}

static __always_inline void tell(void *ctx, const struct call_frame *frame, __u64 now, __u32 tid,
				 const struct outcome *outcome, struct call_counters *count)
{
	struct call_event *event;

	if (count)
		COUNT(count->slow);
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		if (count)
			COUNT(count->slow_lost);
		return;
	}
	event->start_ns = frame->start_ns;
	event->end_ns = now;
	for (int i = 0; i < CALL_REASONS; i++)
		event->off_ns[i] = outcome->by_reason[i];
	event->queued_ns = outcome->queued_ns;
	event->children_ns = frame->children_ns;
	event->longest_ns = frame->longest_ns;
	event->longest_reason = frame->longest_reason;
	event->function = frame->function;
	event->tid = tid;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	event->stack_bytes =
		bpf_get_stack(ctx, event->stack, sizeof(event->stack), BPF_F_USER_STACK);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static __always_inline void outcome_of(struct outcome *outcome, struct call_thread *thread,
				       struct call_frame *frame, struct task_struct *task,
				       __u64 now)
{
	outcome->wall_ns = now - frame->start_ns;
	outcome->off_ns = 0;
	for (int i = 0; i < CALL_REASONS; i++) {
		outcome->by_reason[i] = thread->off_ns[i] - frame->off_ns[i];
		outcome->off_ns += outcome->by_reason[i];
	}
	outcome->queued_ns = task->sched_info.run_delay - frame->queued_ns;
	if (outcome->queued_ns > outcome->off_ns)
		outcome->queued_ns = outcome->off_ns;
	outcome->unannounced = switches_of(task) - frame->switches > thread->seen - frame->seen;
}

/* Adds a call to the series it belongs to. */
static __always_inline void file_call(void *ctx, struct call_thread *thread,
				      struct call_frame *frame, struct outcome *outcome,
				      __u64 now, __u32 tid, struct call_counters *count)
{
	const volatile struct call_function *function = function_at(frame->function);
	const volatile struct call_function *above;
	struct call_frame *parent = NULL;
	__u32 number;

	if (!function)
		return;
	if (frame->parent)
		parent = frame_at(thread, frame->parent - 1);
	above = parent ? function_at(parent->function) : NULL;
	if (function->child && above && above->chosen) {
		add_call(config.chosen + (above->chosen - 1) * config.children + function->child - 1,
			 frame, outcome);
		if (!frame->around) {
			parent->children_ns += outcome->wall_ns;
			parent->children_off_ns += outcome->off_ns;
		}
	}
	if (!function->chosen)
		return;
	add_call(function->chosen - 1, frame, outcome);
	if (config.by_caller) {
		number = series_of_caller(frame->function, frame->caller);
		if (number != NO_SERIES)
			add_call(number, frame, outcome);
		else if (count)
			COUNT(count->callers_full);
	}
	if (config.slower_ns && outcome->wall_ns >= config.slower_ns)
		tell(ctx, frame, now, tid, outcome, count);
}

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

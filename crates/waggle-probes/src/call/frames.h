/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which calls is a thread in? They are kept from the outermost on; a call is known by the place of
 * its return address on the stack. Included by probe.bpf.c, after its maps. */
#ifndef WAGGLE_CALL_FRAMES_H
#define WAGGLE_CALL_FRAMES_H

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

#endif

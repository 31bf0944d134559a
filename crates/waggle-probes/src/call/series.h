/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What do the calls of a function come to? A call that has returned is added to its series: that of
 * its function, of a callee below a chosen function, of the place it was called from. Included by
 * probe.bpf.c, after frames.h. */
#ifndef WAGGLE_CALL_SERIES_H
#define WAGGLE_CALL_SERIES_H

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

#endif

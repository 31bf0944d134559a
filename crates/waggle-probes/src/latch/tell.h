/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* How is it told that a thread sleeps, wakes, or lets go of what others sleep for? What every kind
 * of latch shares. Included by probe.bpf.c, after its maps. */
#ifndef WAGGLE_LATCH_TELL_H
#define WAGGLE_LATCH_TELL_H

static __always_inline __u32 *slept(__u64 key)
{
	key *= 0x9e3779b97f4a7c15ull;
	return &slept_on[(key >> 40) & (LATCH_SLEPT_ON - 1)];
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

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Programs on the futex call: mutexes of the C library, and words that a program sleeps on by
 * itself. Included by probe.bpf.c, after tell.h. */
#ifndef WAGGLE_LATCH_FUTEX_H
#define WAGGLE_LATCH_FUTEX_H

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

/* Whether a call with this operation is told as a sleep. Those for conditions are the most of all,
 * and mostly are not. */
static __always_inline int is_sleep(__u32 operation)
{
	switch (operation) {
	case FUTEX_WAIT_BITSET:
		return config.bitset;
	case FUTEX_WAIT:
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
		return 1;
	}
	return 0;
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
	if (is_sleep(operation))
		return futex_sleeps(&call, operation, ns);
	switch (operation) {
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
	/* The arguments stand where they stood: what was not told as a sleep has no end. */
	if (regs->orig_ax != CALL_FUTEX || !is_sleep(regs->si & FUTEX_CMD_MASK))
		return 0;
	return wakes(SLEEPS_FUTEX, LATCH_FUTEX, ctx->args[1]);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Programs on a program's own static probes. Included by probe.bpf.c, after tell.h. */
#ifndef WAGGLE_LATCH_STATIC_H
#define WAGGLE_LATCH_STATIC_H

static __always_inline __u64 register_of(struct pt_regs *ctx, __u32 place)
{
	__u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)ctx + 8 * (place & 31));
	return value;
}

/* The argument of the static probe whose cookie this is. */
static __always_inline __u64 argument_of(struct pt_regs *ctx)
{
	const __u32 at = bpf_get_attach_cookie(ctx) & (LATCH_STATIC - 1);
	const volatile struct latch_argument *argument = &config.arguments[at];
	__u64 value = argument->offset;

	if (argument->kind == LATCH_ARGUMENT_REGISTER)
		value = register_of(ctx, argument->place);
	else if (argument->kind == LATCH_ARGUMENT_MEMORY)
		value = word_at(register_of(ctx, argument->place) + argument->offset);
	if (argument->size < 8)
		value &= (1ull << (8 * argument->size)) - 1;
	return value;
}

SEC("uprobe")
int static_sleeps(struct pt_regs *ctx)
{
	const __u64 ns = bpf_ktime_get_ns();
	const __u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct sleeper *known = bpf_map_lookup_elem(&sleepers, &tid);
	struct sleeper fresh = {}, *sleeper = known ? known : &fresh;
	const __u64 latch = argument_of(ctx);
	struct latch_counters *count = hit();
	struct latch_sleep record = {};

	if (!count)
		return 0;
	sleeper->key = latch;
	sleeper->doing = SLEEPS_STATIC;
	if (!known)
		bpf_map_update_elem(&sleepers, &tid, &fresh, BPF_ANY);
	__sync_fetch_and_add(slept(latch), 1);
	head_of(&record.head, ns, count);
	record.what = LATCH_SLEEPS;
	record.source = LATCH_STATIC_PROBE;
	record.key = latch;
	record.latch = latch;
	record.frame = ctx->rsp;
	record.stack = stack_at(ctx, &record.head, 0);
	bpf_get_current_comm(record.name, sizeof(record.name));
	emit(&record, sizeof(record), count);
	return 0;
}

SEC("uprobe")
int static_wakes(struct pt_regs *ctx)
{
	return wakes(SLEEPS_STATIC, LATCH_STATIC_PROBE, 0);
}

SEC("uprobe")
int static_releases(struct pt_regs *ctx)
{
	return released_at(ctx, LATCH_STATIC_PROBE, argument_of(ctx), 0);
}

#endif

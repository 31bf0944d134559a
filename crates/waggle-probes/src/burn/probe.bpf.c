// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Burns a set time at the end of every statement: a cost that is known, to calibrate the lab with.
 * It looks at the clock until the time is over, so that it costs the same on a slow machine and on
 * a fast one. Where it may be preempted (count.h), other threads' turns are in the time burned. */
#include <linux/types.h>
#include <linux/bpf.h>
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>
#include "../bpf/count.h"
#include "event.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Written by user space alone. */
volatile __u64 burn_ns SEC(".data.burn");

/* Names the shared types to the generator of Rust types. */
const volatile struct burn_counters counters_shape = {};
const volatile enum burn_limit limit_shape = BURN_NS_MAX;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct burn_counters);
} counters SEC(".maps");

SEC("uprobe")
int statement_burn(struct pt_regs *ctx)
{
	__u64 start = bpf_ktime_get_ns();
	__u64 wanted = burn_ns, spent = 0;
	struct burn_counters *count;
	__u32 zero = 0, looks;

	count = bpf_map_lookup_elem(&counters, &zero);
	if (!count)
		return 0;
	for (looks = 0; looks < BURN_LOOKS_MAX && spent < wanted; looks++)
		spent = bpf_ktime_get_ns() - start;
	COUNT(count->hits);
	COUNT_MANY(count->unfinished, spent < wanted);
	COUNT_MANY(count->burned_ns, spent);
	return 0;
}

/* The same trap without a cost of its own: what is not the burning. */
SEC("uprobe")
int statement_nothing(struct pt_regs *ctx)
{
	return 0;
}

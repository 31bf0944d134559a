/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Programs on waits for metadata locks. Included by probe.bpf.c, after tell.h. */
#ifndef WAGGLE_LATCH_METADATA_H
#define WAGGLE_LATCH_METADATA_H

SEC("uprobe")
int metadata_sleeps(struct pt_regs *ctx)
{
	const __u64 ns = bpf_ktime_get_ns();
	const __u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct sleeper *known = bpf_map_lookup_elem(&sleepers, &tid);
	struct sleeper fresh = {}, *sleeper = known ? known : &fresh;
	struct latch_counters *count = hit();
	struct latch_metadata *record;
	struct trace_head head;
	__u64 stack, lock = 0;
	__u16 length = 0;

	if (!count)
		return 0;
	head_of(&head, ns, count);
	stack = stack_at(ctx, &head, 1);
	sleeper->key = ctx->rdi;
	sleeper->doing = SLEEPS_METADATA;
	if (!known)
		bpf_map_update_elem(&sleepers, &tid, &fresh, BPF_ANY);
	__sync_fetch_and_add(slept(ctx->rdi), 1);
	record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (!record) {
		COUNT(count->lost);
		return 0;
	}
	__builtin_memset(&record->sleep, 0, sizeof(record->sleep));
	record->sleep.head = head;
	record->sleep.what = LATCH_SLEEPS;
	record->sleep.source = LATCH_METADATA;
	record->sleep.key = ctx->rdi;
	record->sleep.frame = ctx->rsp;
	record->sleep.stack = stack;
	bpf_get_current_comm(record->sleep.name, sizeof(record->sleep.name));
	if (config.ticket != LATCH_UNKNOWN) {
		lock = word_at(ctx->rdi + config.ticket);
		lock = lock ? word_at(lock + config.lock) : 0;
	}
	record->sleep.latch = lock;
	/* The whole room, since its end need not be the key's: the lock is larger than that. */
	if (!lock || bpf_probe_read_user(&length, sizeof(length), (void *)lock) ||
	    bpf_probe_read_user(record->key, LATCH_KEY_MAX, (void *)(lock + config.key)))
		length = 0;
	record->key_length = length;
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	COUNT(count->records);
	return 0;
}

SEC("uprobe")
int metadata_wakes(struct pt_regs *ctx)
{
	return wakes(SLEEPS_METADATA, LATCH_METADATA, 0);
}

/* Of the fates only this one: the others are not a holder's doing. */
#define METADATA_GRANTED 1

SEC("uprobe")
int metadata_told(struct pt_regs *ctx)
{
	if ((__u32)ctx->rsi != METADATA_GRANTED)
		return 0;
	return released_at(ctx, LATCH_METADATA, ctx->rdi, 1);
}

#endif

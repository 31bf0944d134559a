/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Programs on InnoDB's wait array: a thread takes a cell for a latch, sleeps for the latch's event,
 * and wakes; a thread sets an event. Included by probe.bpf.c, after tell.h. */
#ifndef WAGGLE_LATCH_INNODB_H
#define WAGGLE_LATCH_INNODB_H

/* The number of a thread from its pthread_t. */
static __always_inline __u32 thread_number(__u64 pthread)
{
	if (!pthread || config.thread_number == LATCH_UNKNOWN)
		return 0;
	return number_at(pthread + config.thread_number);
}

SEC("uprobe")
int latch_wanted(struct pt_regs *ctx)
{
	const __u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct sleeper *known = bpf_map_lookup_elem(&sleepers, &tid);
	struct sleeper fresh = {}, *sleeper = known ? known : &fresh;

	hit();
	sleeper->latch = ctx->rsi;
	sleeper->type = ctx->rdx;
	sleeper->file = ctx->rcx;
	sleeper->line = ctx->r8;
	sleeper->frame = ctx->rsp;
	sleeper->wants = 1;
	if (!known)
		bpf_map_update_elem(&sleepers, &tid, &fresh, BPF_ANY);
	return 0;
}

/* What the latch says of itself. */
static __always_inline void look_at_latch(struct latch_sleep *record)
{
	__u64 owner = 0;

	if (record->how == LATCH_TYPE_MUTEX) {
		if (config.mutex_owner != LATCH_UNKNOWN)
			owner = word_at(record->latch + config.mutex_owner);
		if (config.mutex_id != LATCH_UNKNOWN)
			record->id = number_at(record->latch + config.mutex_id);
	} else if (record->how != LATCH_TYPE_UNKNOWN && config.rw_writer != LATCH_UNKNOWN) {
		record->value = number_at(record->latch);
		/* Whoever has it exclusively, once: the word is 0. */
		if (!record->value && record->how != LATCH_TYPE_DRAINING)
			owner = word_at(record->latch + config.rw_writer);
		record->made_file = word_at(record->latch + config.rw_made_at);
		record->made_line = number_at(record->latch + config.rw_made_at + 8);
	}
	record->owner = thread_number(owner);
}

SEC("uprobe")
int latch_sleeps(struct pt_regs *ctx)
{
	const __u64 ns = bpf_ktime_get_ns();
	const __u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct sleeper *sleeper = bpf_map_lookup_elem(&sleepers, &tid);
	struct latch_counters *count = hit();
	struct latch_sleep record = {};

	if (!count || !sleeper || !sleeper->wants)
		return 0;
	sleeper->key = ctx->rdi;
	sleeper->wants = 0;
	sleeper->doing = SLEEPS_INNODB;
	__sync_fetch_and_add(slept(ctx->rdi), 1);
	head_of(&record.head, ns, count);
	record.what = LATCH_SLEEPS;
	record.source = LATCH_INNODB;
	record.key = ctx->rdi;
	record.latch = sleeper->latch;
	record.frame = sleeper->frame;
	record.file = sleeper->file;
	record.line = sleeper->line;
	record.how = config.types[sleeper->type & (LATCH_TYPES - 1)];
	look_at_latch(&record);
	record.stack = stack_at(ctx, &record.head, 0);
	bpf_get_current_comm(record.name, sizeof(record.name));
	emit(&record, sizeof(record), count);
	return 0;
}

SEC("uprobe")
int latch_wakes(struct pt_regs *ctx)
{
	return wakes(SLEEPS_INNODB, LATCH_INNODB, 0);
}

SEC("uprobe")
int latch_sets(struct pt_regs *ctx)
{
	return released_at(ctx, LATCH_INNODB, ctx->rdi, 1);
}

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Programs on the functions that tell why a thread waits. A statement that neither waits nor
 * commits passes none of them. Included by probe.bpf.c where the kernel describes its types. */
#ifndef WAGGLE_STATEMENT_WAITS_H
#define WAGGLE_STATEMENT_WAITS_H

static __always_inline struct thread_state *own_thread(void)
{
	__u32 tid = bpf_get_current_pid_tgid();

	return bpf_map_lookup_elem(&threads, &tid);
}

/* enum THD_WAIT_TYPE of both servers; 0 for what says nothing that the system call does not. */
static __always_inline __u32 class_of_wait(__u32 type)
{
	switch (type) {
	case 1: /* SLEEP */
		return WAIT_SLEEP + 1;
	case 2: /* DISKIO */
		return WAIT_DISK_READ + 1;
	case 3: /* ROW_LOCK */
		return WAIT_ROW_LOCK + 1;
	case 4: /* GLOBAL_LOCK */
	case 6: /* TABLE_LOCK */
		return WAIT_TABLE_LOCK + 1;
	case 5: /* META_DATA_LOCK */
		return WAIT_METADATA_LOCK + 1;
	case 7: /* USER_LOCK, which is said of the storage engine's queue for its threads */
		return WAIT_LATCH + 1;
	case 8: /* BINLOG */
		return WAIT_BINARY_LOG + 1;
	case 9: /* GROUP_COMMIT */
		return WAIT_REDO + 1;
	}
	return 0;
}

/* A call of thd_wait_begin(THD *, int type); the THD may be null: the thread says whose it is. */
SEC("uprobe")
int wait_begin(struct pt_regs *ctx)
{
	struct thread_state *thread = own_thread();

	if (thread)
		thread->wait = class_of_wait(ctx->rsi);
	return 0;
}

/* Where a stage (PSI_stage_info) keeps the pointer to its name. */
#define STAGE_NAME 8

/* MDL_wait::timed_wait: its stage's name tells GET_LOCK, which asked to wait, from the rest. */
SEC("uprobe")
int metadata_wait(struct pt_regs *ctx)
{
	const __u64 stage = register_of(ctx, config.stage_register);
	struct thread_state *thread = own_thread();
	__u64 name = 0, first = 0;

	if (!thread)
		return 0;
	thread->wait = WAIT_METADATA_LOCK + 1;
	if (!read_at(&name, sizeof(name), stage, STAGE_NAME) &&
	    !read_at(&first, sizeof(first), name, 0) &&
	    !__builtin_memcmp(&first, "User loc", sizeof(first)))
		thread->wait = WAIT_SLEEP + 1;
	return 0;
}

/* A call of thd_wait_end(THD *). */
SEC("uprobe")
int wait_end(struct pt_regs *ctx)
{
	struct thread_state *thread = own_thread();

	if (thread)
		thread->wait = 0;
	return 0;
}

/* A function is entered that has to do with a log. That it has returned shows by the stack, so
 * its end costs no probe. */
static __always_inline int entered(struct pt_regs *ctx, __u32 which)
{
	struct thread_state *thread = own_thread();
	__u64 address = 0;

	if (!thread || bpf_probe_read_user(&address, sizeof(address), (void *)ctx->rsp))
		return 0;
	thread->brackets[which].stack = ctx->rsp;
	thread->brackets[which].address = address;
	return 0;
}

/* A call by which a thread waits for a table's lock. That it has returned shows by the stack: at
 * its top is the address behind the call. */
SEC("uprobe")
int table_wait(struct pt_regs *ctx)
{
	/* Bytes of the call, and of what it pushes. */
	const __u64 call = 5, pushed = 8;
	struct thread_state *thread = own_thread();

	if (!thread)
		return 0;
	thread->brackets[BRACKET_TABLE].stack = ctx->rsp - pushed;
	thread->brackets[BRACKET_TABLE].address = ctx->rip + call;
	return 0;
}

SEC("uprobe")
int redo_entered(struct pt_regs *ctx)
{
	return entered(ctx, BRACKET_REDO);
}

SEC("uprobe")
int binary_log_entered(struct pt_regs *ctx)
{
	return entered(ctx, BRACKET_BINARY_LOG);
}

#endif

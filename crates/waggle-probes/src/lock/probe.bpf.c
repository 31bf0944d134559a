// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Entry probes where a server is about to wait for a lock, or has found a deadlock. Connection
 * ids are read here, while both sides are known to live: the lock they meet at is held by the
 * server. Nothing here runs for a statement that gets its locks at once. */
#include <linux/types.h>
#include <linux/bpf.h>
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>
#include "../bpf/count.h"
#include "event.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct lock_config config = {};

/* Name the types to the generator of Rust types. */
const volatile struct lock_event event_shape = {};
const volatile struct lock_deadlock deadlock_shape = {};
const volatile struct lock_metadata metadata_shape = {};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct lock_counters);
} counters SEC(".maps");

/* Who waits for a metadata lock: thread to context and THD. Its room is made at loading. */
struct waiting {
	__u64 context;
	__u64 thd;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct waiting);
} waits SEC(".maps");

/* How far a THD's context of metadata locks stands behind its start; 0 until the first wait. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} distance SEC(".maps");

static __always_inline __u64 read_word(__u64 address)
{
	__u64 word = 0;

	if (bpf_probe_read_user(&word, sizeof(word), (void *)address))
		return 0;
	return word;
}

static __always_inline __u64 id_of(__u64 thd)
{
	__u64 id = 0;

	if (!thd || config.connection_id == LOCK_UNKNOWN)
		return 0;
	if (bpf_probe_read_user(&id, config.connection_id_width == 4 ? 4 : 8,
				(void *)(thd + config.connection_id)))
		return 0;
	return id;
}

static __always_inline struct lock_counters *hit(void)
{
	__u32 zero = 0;
	struct lock_counters *count = bpf_map_lookup_elem(&counters, &zero);

	if (count)
		COUNT(count->hits);
	return count;
}

/* A program that began at `now` is done. */
static __always_inline void ran(struct lock_counters *count, __u64 now)
{
	if (count)
		COUNT_MANY(count->run_ns, bpf_ktime_get_ns() - now);
}

static __always_inline int emit_at(__u64 now, __u32 kind, __u64 one, __u64 two, __u64 two_thd,
				   __u32 value, __u32 depth)
{
	struct lock_counters *count = hit();
	struct lock_event *event;

	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		if (count)
			COUNT(count->ring_full);
		ran(count, now);
		return 0;
	}
	event->time_ns = now;
	event->one = one;
	event->two = two;
	event->one_id = id_of(one);
	event->two_id = id_of(two_thd);
	event->tid = (__u32)bpf_get_current_pid_tgid();
	event->kind = kind;
	event->value = value;
	event->count = depth;
	event->spare = 0;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	ran(count, now);
	return 0;
}

static __always_inline int emit(__u64 now, __u32 kind, __u64 one, __u64 two, __u64 two_thd,
				__u32 value)
{
	return emit_at(now, kind, one, two, two_thd, value, 0);
}

SEC("uprobe")
int row_edge(struct pt_regs *ctx)
{
	const __u64 now = bpf_ktime_get_ns();

	if (!ctx->rdi || !ctx->rsi)
		return 0;
	return emit(now, LOCK_ROW_EDGE, ctx->rdi, ctx->rsi, ctx->rsi, 0);
}

SEC("uprobe")
int row_begin(struct pt_regs *ctx)
{
	const __u64 now = bpf_ktime_get_ns();

	return emit(now, LOCK_ROW_BEGIN, ctx->rdi, 0, 0, ctx->rsi);
}

SEC("uprobe")
int row_end(struct pt_regs *ctx)
{
	const __u64 now = bpf_ktime_get_ns();

	return emit(now, LOCK_ROW_END, ctx->rdi, 0, 0, 0);
}

SEC("uprobe")
int row_deadlock_pair(struct pt_regs *ctx)
{
	const __u64 now = bpf_ktime_get_ns();

	return emit(now, LOCK_ROW_PAIR, ctx->rdi, ctx->rsi, ctx->rsi, 0);
}

static __always_inline __u64 thd_of_transaction(__u64 transaction)
{
	if (!transaction || config.transaction_thd == LOCK_UNKNOWN)
		return 0;
	return read_word(transaction + config.transaction_thd);
}

SEC("uprobe")
int row_deadlock(struct pt_regs *ctx)
{
	const __u64 now = bpf_ktime_get_ns();
	struct lock_counters *count = hit();
	struct lock_deadlock *deadlock;
	__u64 bounds[2] = {};

	deadlock = bpf_ringbuf_reserve(&events, sizeof(*deadlock), 0);
	if (!deadlock) {
		if (count)
			COUNT(count->ring_full);
		ran(count, now);
		return 0;
	}
	/* A vector: where its pointers begin, and where they end. */
	if (bpf_probe_read_user(bounds, sizeof(bounds), (void *)(ctx->rdi + config.members)))
		bounds[0] = bounds[1] = 0;
	deadlock->event.time_ns = now;
	deadlock->event.one = thd_of_transaction(ctx->rsi);
	deadlock->event.one_id = id_of(deadlock->event.one);
	deadlock->event.two = 0;
	deadlock->event.two_id = 0;
	deadlock->event.tid = (__u32)bpf_get_current_pid_tgid();
	deadlock->event.kind = LOCK_ROW_DEADLOCK;
	deadlock->event.value = 0;
	deadlock->event.count = bounds[1] > bounds[0] ? (bounds[1] - bounds[0]) / 8 : 0;
	deadlock->event.spare = 0;
	for (int i = 0; i < LOCK_MEMBERS_MAX; i++) {
		const __u64 at = bounds[0] + i * 8;

		deadlock->thd[i] = at < bounds[1] ? thd_of_transaction(read_word(at)) : 0;
		deadlock->id[i] = id_of(deadlock->thd[i]);
	}
	bpf_ringbuf_submit(deadlock, BPF_RB_NO_WAKEUP);
	ran(count, now);
	return 0;
}

SEC("uprobe")
int metadata_begin(struct pt_regs *ctx)
{
	const __u64 now = bpf_ktime_get_ns();
	const __u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct waiting waiting = {
		/* The wait is the first member of its context. */
		.context = ctx->rdi,
		.thd = ctx->rsi - config.owner,
	};
	__u64 apart = waiting.context - waiting.thd;
	__u32 zero = 0;

	bpf_map_update_elem(&waits, &tid, &waiting, BPF_ANY);
	if (apart < 1 << 20)
		bpf_map_update_elem(&distance, &zero, &apart, BPF_ANY);
	return emit(now, LOCK_METADATA_BEGIN, waiting.thd, waiting.context, 0,
		    (ctx->rcx & 0xff) != 0);
}

SEC("uprobe")
int metadata_end(struct pt_regs *ctx)
{
	const __u64 now = bpf_ktime_get_ns();
	const __u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct waiting *waiting = bpf_map_lookup_elem(&waits, &tid);
	struct waiting found;
	__u32 status = 0;

	if (!waiting)
		return 0;
	found = *waiting;
	bpf_map_delete_elem(&waits, &tid);
	if (config.status != LOCK_UNKNOWN)
		bpf_probe_read_user(&status, sizeof(status),
				    (void *)(found.context + config.status));
	return emit(now, LOCK_METADATA_END, found.thd, found.context, 0, status);
}

/* The THD around a context, once its place is known. */
static __always_inline __u64 thd_around(__u64 context)
{
	__u32 zero = 0;
	__u64 *apart = bpf_map_lookup_elem(&distance, &zero);

	return apart && *apart ? context - *apart : 0;
}

static __always_inline __u32 read_number(__u64 address)
{
	__u32 number = 0;

	if (bpf_probe_read_user(&number, sizeof(number), (void *)address))
		return 0;
	return number;
}

SEC("uprobe")
int metadata_from(struct pt_regs *ctx)
{
	const __u64 now = bpf_ktime_get_ns();
	const __u64 lock = ctx->rdi, ticket = ctx->rsi;
	struct lock_counters *count = hit();
	struct lock_metadata *metadata;
	__u16 length = 0;

	metadata = bpf_ringbuf_reserve(&events, sizeof(*metadata), 0);
	if (!metadata) {
		if (count)
			COUNT(count->ring_full);
		ran(count, now);
		return 0;
	}
	metadata->event.time_ns = now;
	metadata->event.two = read_word(ticket + config.ticket_context);
	metadata->event.one = thd_around(metadata->event.two);
	metadata->event.one_id = id_of(metadata->event.one);
	metadata->event.two_id = 0;
	metadata->event.tid = (__u32)bpf_get_current_pid_tgid();
	metadata->event.kind = LOCK_METADATA_FROM;
	metadata->event.value = read_number(ticket + config.ticket_mode);
	metadata->event.count = read_number(ctx->rdx + config.depth);
	metadata->event.spare = 0;
	/* The whole room, since its end need not be the key's: the lock is larger than that. */
	if (bpf_probe_read_user(&length, sizeof(length), (void *)lock) ||
	    bpf_probe_read_user(metadata->key, LOCK_KEY_MAX, (void *)(lock + config.key)))
		length = 0;
	metadata->key_length = length;
	bpf_ringbuf_submit(metadata, BPF_RB_NO_WAKEUP);
	ran(count, now);
	return 0;
}

SEC("uprobe")
int metadata_by(struct pt_regs *ctx)
{
	const __u64 now = bpf_ktime_get_ns();
	const __u32 depth = read_number(ctx->rsi + config.depth);

	return emit_at(now, LOCK_METADATA_BY, thd_around(ctx->rdi), ctx->rdi, 0, 0, depth);
}

/* Of the statuses only the victim's: the others show at the end of the wait. */
#define STATUS_VICTIM 2

SEC("uprobe")
int metadata_verdict(struct pt_regs *ctx)
{
	if ((__u32)ctx->rsi != STATUS_VICTIM)
		return 0;
	return emit(bpf_ktime_get_ns(), LOCK_METADATA_VICTIM, thd_around(ctx->rdi), ctx->rdi, 0, 0);
}

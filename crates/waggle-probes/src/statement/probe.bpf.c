// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* One entry probe at the server's end-of-statement function, which every statement passes once,
 * logs on or off: the session object (THD) still holds the text, the counters and the start time.
 * Everything is read straight into the ring buffer's record: a per-CPU buffer would have to be
 * guarded, since a thread may be preempted here (count.h). */
#include <linux/types.h>
#include <linux/bpf.h>
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>
#ifdef STATEMENT_TIMES
/* Compiled a second time with the breakdown of time, which needs the kernel's types. */
#define WAGGLE_KERNEL_TYPES
#endif
#include "../bpf/count.h"
#include "event.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct statement_config config = {};

/* Names the event's type to the generator of Rust types. */
const volatile struct statement_event event_shape = {};
const volatile enum statement_text text_shape = TEXT_QUERY;
const volatile enum event_flag flag_shape = EVENT_TIMES;
const volatile enum statement_left_out left_out_shape = LEAVE_TEXT;

/* Written by user space alone: bits of enum statement_left_out. */
volatile __u32 left_out SEC(".data.left_out");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 * 1024 * 1024);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct statement_counters);
} counters SEC(".maps");

/* Commands after which user and host may be others. */
#define COM_CHANGE_USER 17
#define COM_RESET_CONNECTION 31

#include "read.h"

/* What a statement is put together from. */
struct ending {
	__u64 thd;
	__u64 now;
	struct text query;
	struct text database;
	__u32 unread;
	__u32 tid;
	struct statement_counters *count;
	struct thread_state *thread;
	struct task_struct *task;
	unsigned long switches;
};

#ifdef STATEMENT_TIMES
#include "times.h"
#else
static __always_inline __u32 put_thread(struct statement_event *event, char *payload,
					const struct ending *ending)
{
	return 0;
}
#endif

/* What is known before anything is read. */
static __always_inline void begin_event(struct statement_event *event, const struct ending *ending)
{
	event->time_ns = ending->now;
	event->thd = ending->thd;
	event->start_us = 0;
	event->connection_id = 0;
	event->rows_sent = 0;
	event->rows_examined = 0;
	event->routine = 0;
	event->error_number = 0;
	event->command = 0;
	event->text_length = ending->query.length;
	event->text_copied = 0;
	event->unread = ending->unread;
	event->tid = ending->tid;
	event->blocked = 0;
	event->user_length = 0;
	event->host_length = 0;
	event->flags = 0;
}

/* User and host, which a session sends once; returns where the next byte goes. */
static __always_inline __u32 put_names(struct statement_event *event, char *payload, __u32 at,
				       const struct ending *ending)
{
	struct text user = {}, host = {};
	__u32 copied;

	if (config.context == STATEMENT_UNKNOWN)
		return at;
	event->flags |= EVENT_NAMES;
	find_names(event, ending->thd, &user, &host);
	copied = config.length_follows ?
			 copy_name(payload + at, &user, STATEMENT_USER_MAX, event, TEXT_USER) :
			 copy_string(payload + at, user.pointer, STATEMENT_USER_MAX, event,
				     TEXT_USER);
	event->user_length = copied;
	at += copied;
	bounded(at);
	if (at > BLOCKED_BYTES + STATEMENT_USER_MAX)
		at = BLOCKED_BYTES + STATEMENT_USER_MAX;
	copied = config.length_follows ?
			 copy_name(payload + at, &host, STATEMENT_HOST_MAX, event, TEXT_HOST) :
			 copy_string(payload + at, host.pointer, STATEMENT_HOST_MAX, event,
				     TEXT_HOST);
	event->host_length = copied;
	at += copied;
	bounded(at);
	if (at > BLOCKED_BYTES + STATEMENT_USER_MAX + STATEMENT_HOST_MAX)
		at = BLOCKED_BYTES + STATEMENT_USER_MAX + STATEMENT_HOST_MAX;
	return at;
}

/* Most text of the records of each size; the last is STATEMENT_TEXT_MAX. */
#define ROOM_1 144
#define ROOM_2 192
#define ROOM_3 512
#define ROOM_4 1152
#define ROOM_5 2560
_Static_assert(NAMES_MAX + BLOCKED_BYTES + ROOM_1 >= STATEMENT_SPAN_MAX, "a span finds room");

static __always_inline __u32 room_for(__u32 length)
{
	__u32 room = STATEMENT_TEXT_MAX;

	if (length <= ROOM_1)
		room = ROOM_1;
	else if (length <= ROOM_2)
		room = ROOM_2;
	else if (length <= ROOM_3)
		room = ROOM_3;
	else if (length <= ROOM_4)
		room = ROOM_4;
	else if (length <= ROOM_5)
		room = ROOM_5;
	/* One of these constants on each path, which the verifier follows one by one: a ring buffer
	 * reserves constant sizes only. */
	bounded(room);
	return room;
}

/* A record. What is not written is not touched, so a short statement costs few cache lines. */
static __always_inline int emit(const struct ending *ending)
{
	__u32 length = ending->query.length, room, at, copied;
	struct statement_event *event;
	char *payload;

	if (length > config.text_max)
		length = config.text_max;
	room = room_for(length);
	event = bpf_ringbuf_reserve(&events, sizeof(*event) + NAMES_MAX + BLOCKED_BYTES + room, 0);
	if (!event) {
		COUNT(ending->count->ring_full);
#ifdef STATEMENT_TIMES
		note_lost(ending->thread, ending->thd);
#endif
		return 0;
	}
	payload = (char *)(event + 1);
	begin_event(event, ending);
#ifdef STATEMENT_TIMES
	if (ending->thread)
		read_numbers(event, ending->thd, &ending->thread->area_session,
			     &ending->thread->area);
	else
#endif
		read_numbers(event, ending->thd, NULL, NULL);
	at = put_thread(event, payload, ending);
	if (!(event->flags & EVENT_CONTINUES) || event->command == COM_CHANGE_USER ||
	    event->command == COM_RESET_CONNECTION)
		at = put_names(event, payload, at, ending);
	bounded(at);
	if (at > BLOCKED_BYTES + STATEMENT_USER_MAX + STATEMENT_HOST_MAX)
		at = BLOCKED_BYTES + STATEMENT_USER_MAX + STATEMENT_HOST_MAX;
	copied = copy_name(payload + at, &ending->database, STATEMENT_DATABASE_MAX, event,
			   TEXT_DATABASE);
	event->database_length = copied;
	at += copied;
	bounded(at);
	if (at > BLOCKED_BYTES + NAMES_MAX)
		at = BLOCKED_BYTES + NAMES_MAX;
	bounded(length);
	if (ending->query.pointer && length <= room) {
		if (bpf_probe_read_user(payload + at, length, (void *)ending->query.pointer))
			UNREAD(event, TEXT_QUERY);
		else
			event->text_copied = length;
	}
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("uprobe")
int statement_end(struct pt_regs *ctx)
{
	struct ending ending = { .now = bpf_ktime_get_ns() };
	__u32 zero = 0;

	ending.count = bpf_map_lookup_elem(&counters, &zero);
	if (!ending.count)
		return 0;
	COUNT(ending.count->hits);
	if (left_out & LEAVE_ALL) {
		COUNT(ending.count->left_out);
		return 0;
	}
	ending.thd = register_of(ctx, config.thd_register);
	ending.tid = bpf_get_current_pid_tgid();
#ifdef STATEMENT_TIMES
	begin_of_thread(&ending);
#endif
	read_texts(ending.thd, &ending.query, &ending.database, &ending.unread);
	if (left_out & LEAVE_TEXT)
		ending.query.length = 0;
	emit(&ending);
#ifdef STATEMENT_TIMES
	end_of_thread(&ending);
#endif
	return 0;
}

#ifdef STATEMENT_TIMES
#include "waits.h"
#endif

/* The lab's `probe-empty` arm: the price of the trap alone. */
SEC("uprobe")
int statement_empty(struct pt_regs *ctx)
{
	return 0;
}

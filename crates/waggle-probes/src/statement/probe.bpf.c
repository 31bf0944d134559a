// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* One entry probe at the server's end-of-statement function, which every statement passes once,
 * logs on or off: the session object (THD) still holds the text, the counters and the start time.
 * Everything is read straight into the ring buffer's record: a per-CPU buffer would have to be
 * guarded, since a thread may be preempted here. */
#include <linux/types.h>
#include <linux/bpf.h>
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>
#include "event.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct statement_config config = {};

/* Names the event's type to the generator of Rust types. */
const volatile struct statement_event event_shape = {};

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

/* A pointer and a length, as the server keeps texts. */
struct text {
	__u64 pointer;
	__u64 length;
};

/* Keeps the compiler from moving a bound away from its use, where the verifier needs it. */
#define bounded(value) asm volatile("" : "+r"(value))

/* Each register is loaded by its own instruction: the compiler would merge the cases into one load
 * at a computed offset, which the verifier refuses on the context. */
#define REGISTER(number, field)                                                      \
	case number:                                                                 \
		asm volatile("%[value] = *(u64 *)(%[ctx] + %[at])"                   \
			     : [value] "=r"(value)                                   \
			     : [ctx] "r"(ctx), [at] "i"(__builtin_offsetof(struct pt_regs, field))); \
		break

static __always_inline __u64 thd_of(struct pt_regs *ctx)
{
	__u64 value = 0;

	switch (config.thd_register) {
	REGISTER(0, rax);
	REGISTER(1, rcx);
	REGISTER(2, rdx);
	REGISTER(3, rbx);
	REGISTER(5, rbp);
	REGISTER(6, rsi);
	REGISTER(7, rdi);
	REGISTER(8, r8);
	REGISTER(9, r9);
	REGISTER(10, r10);
	REGISTER(11, r11);
	REGISTER(12, r12);
	REGISTER(13, r13);
	REGISTER(14, r14);
	REGISTER(15, r15);
	}
	return value;
}

static __always_inline int read_at(void *to, __u32 size, __u64 base, int offset)
{
	return bpf_probe_read_user(to, size, (void *)(base + offset));
}

#define UNREAD(event, field) ((event)->unread |= 1u << (field))

/* Room for the names before the text. */
#define NAMES_MAX (STATEMENT_USER_MAX + STATEMENT_DATABASE_MAX)

/* Copies a name of known length behind the header; returns the bytes copied. */
static __always_inline __u32 copy_name(char *to, const struct text *name, __u32 limit,
				       struct statement_event *event, int field)
{
	__u32 length = name->length;

	if (!name->pointer)
		return 0;
	if (length > limit)
		length = limit;
	bounded(length);
	if (length > limit)
		return 0;
	if (bpf_probe_read_user(to, length, (void *)name->pointer)) {
		UNREAD(event, field);
		return 0;
	}
	return length;
}

/* Copies the user's name behind the header; returns the bytes copied. */
static __always_inline __u32 copy_user(char *to, struct statement_event *event, __u64 thd)
{
	struct text name = {};
	__u64 context = 0;
	long copied;

	if (config.user == STATEMENT_UNKNOWN)
		return 0;
	if (read_at(&context, sizeof(context), thd, config.user_pointer) || !context)
		goto unread;
	if (config.user_length_follows) {
		if (read_at(&name, sizeof(name), context, config.user))
			goto unread;
		return copy_name(to, &name, STATEMENT_USER_MAX, event, FIELD_USER);
	}
	if (read_at(&name.pointer, sizeof(name.pointer), context, config.user))
		goto unread;
	if (!name.pointer)
		return 0;
	copied = bpf_probe_read_user_str(to, STATEMENT_USER_MAX, (void *)name.pointer);
	if (copied > 0 && copied <= STATEMENT_USER_MAX)
		return copied - 1;
unread:
	UNREAD(event, FIELD_USER);
	return 0;
}

/* Bytes that one read over two fields may span: dearer than one field, cheaper than two reads. */
#define SPAN 128

/* The command stands some 60 bytes before the start time in every build seen. */
static __always_inline void read_command_and_start(struct statement_event *event, __u64 thd)
{
	const int apart = config.start_time - config.command;

	if (config.command != STATEMENT_UNKNOWN && config.start_time != STATEMENT_UNKNOWN &&
	    apart > 0 && apart + 8 <= SPAN && apart % 4 == 0) {
		__u32 words[SPAN / 4];
		const int at = apart / 4;

		if (read_at(words, (apart + 8) & (SPAN - 1), thd, config.command)) {
			UNREAD(event, FIELD_COMMAND);
			UNREAD(event, FIELD_START_TIME);
			return;
		}
		event->command = words[0];
		event->start_us = (__u64)words[(at + 1) & 31] << 32 | words[at & 31];
		return;
	}
	if (config.command != STATEMENT_UNKNOWN &&
	    read_at(&event->command, 4, thd, config.command))
		UNREAD(event, FIELD_COMMAND);
	if (config.start_time != STATEMENT_UNKNOWN &&
	    read_at(&event->start_us, 8, thd, config.start_time))
		UNREAD(event, FIELD_START_TIME);
}

static __always_inline void read_numbers(struct statement_event *event, __u64 thd)
{
	read_command_and_start(event, thd);
	if (config.connection_id != STATEMENT_UNKNOWN &&
	    read_at(&event->connection_id, config.connection_id_width == 4 ? 4 : 8, thd,
		    config.connection_id))
		UNREAD(event, FIELD_CONNECTION_ID);
	if (config.rows_sent != STATEMENT_UNKNOWN &&
	    config.rows_examined == config.rows_sent + 8) {
		/* Neighbours in every build seen: one read for both. */
		if (read_at(&event->rows_sent, 16, thd, config.rows_sent)) {
			UNREAD(event, FIELD_ROWS_SENT);
			UNREAD(event, FIELD_ROWS_EXAMINED);
		}
	} else {
		if (config.rows_sent != STATEMENT_UNKNOWN &&
		    read_at(&event->rows_sent, 8, thd, config.rows_sent))
			UNREAD(event, FIELD_ROWS_SENT);
		if (config.rows_examined != STATEMENT_UNKNOWN &&
		    read_at(&event->rows_examined, 8, thd, config.rows_examined))
			UNREAD(event, FIELD_ROWS_EXAMINED);
	}
	if (config.error_number != STATEMENT_UNKNOWN) {
		__u64 area = 0;

		if (read_at(&area, 8, thd, config.error_pointer) || !area ||
		    read_at(&event->error_number, 4, area, config.error_number))
			UNREAD(event, FIELD_ERROR_NUMBER);
	}
}

static __always_inline void read_texts(__u64 thd, struct text *query, struct text *database,
				       __u32 *unread)
{
	const int apart = config.database - config.query;

	if (config.query != STATEMENT_UNKNOWN && config.database != STATEMENT_UNKNOWN &&
	    apart > 0 && apart + 16 <= SPAN && apart % 8 == 0) {
		struct text both[SPAN / sizeof(struct text)];
		__u64 *words = (__u64 *)both;

		if (read_at(both, (apart + 16) & (SPAN - 1), thd, config.query)) {
			*unread |= 1u << FIELD_QUERY | 1u << FIELD_DATABASE;
			return;
		}
		query->pointer = words[0];
		query->length = words[1];
		database->pointer = words[(apart / 8) & 15];
		database->length = words[(apart / 8 + 1) & 15];
		return;
	}
	if (config.query != STATEMENT_UNKNOWN && read_at(query, 16, thd, config.query))
		*unread |= 1u << FIELD_QUERY;
	if (config.database != STATEMENT_UNKNOWN && read_at(database, 16, thd, config.database))
		*unread |= 1u << FIELD_DATABASE;
}

/* One record of a fixed size class: the ring buffer reserves constant sizes only. What is not
 * written is not touched, so a short statement costs few cache lines. */
static __always_inline int emit(__u64 thd, __u64 now, const struct text *query,
				const struct text *database, __u32 unread,
				struct statement_counters *count, const __u32 room)
{
	struct statement_event *event;
	__u32 length = query->length, at;
	char *payload;

	event = bpf_ringbuf_reserve(&events, sizeof(*event) + NAMES_MAX + room, 0);
	if (!event) {
		count->ring_full++;
		return 0;
	}
	payload = (char *)(event + 1);
	event->time_ns = now;
	event->start_us = 0;
	event->connection_id = 0;
	event->rows_sent = 0;
	event->rows_examined = 0;
	event->error_number = 0;
	event->text_length = query->length;
	event->text_copied = 0;
	event->unread = unread;
	event->command = 0;
	read_numbers(event, thd);
	at = copy_user(payload, event, thd);
	event->user_length = at;
	bounded(at);
	if (at > STATEMENT_USER_MAX)
		at = STATEMENT_USER_MAX;
	event->database_length = copy_name(payload + at, database, STATEMENT_DATABASE_MAX, event,
					   FIELD_DATABASE);
	at += event->database_length;
	bounded(at);
	if (at > NAMES_MAX)
		at = NAMES_MAX;
	if (query->pointer) {
		if (length > config.text_max)
			length = config.text_max;
		if (length > room)
			length = room;
		bounded(length);
		if (length <= room) {
			if (bpf_probe_read_user(payload + at, length, (void *)query->pointer))
				UNREAD(event, FIELD_QUERY);
			else
				event->text_copied = length;
		}
	}
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("uprobe")
int statement_end(struct pt_regs *ctx)
{
	const __u64 now = bpf_ktime_get_ns();
	struct text query = {}, database = {};
	struct statement_counters *count;
	__u32 unread = 0, zero = 0, length;
	__u64 thd;

	count = bpf_map_lookup_elem(&counters, &zero);
	if (!count)
		return 0;
	count->hits++;
	thd = thd_of(ctx);
	read_texts(thd, &query, &database, &unread);
	length = query.length < config.text_max ? query.length : config.text_max;
	if (length <= 64)
		return emit(thd, now, &query, &database, unread, count, 64);
	if (length <= 192)
		return emit(thd, now, &query, &database, unread, count, 192);
	if (length <= 512)
		return emit(thd, now, &query, &database, unread, count, 512);
	if (length <= 2048)
		return emit(thd, now, &query, &database, unread, count, 2048);
	return emit(thd, now, &query, &database, unread, count, STATEMENT_TEXT_MAX);
}

/* The lab's `probe-empty` arm: the price of the trap alone. */
SEC("uprobe")
int statement_empty(struct pt_regs *ctx)
{
	return 0;
}

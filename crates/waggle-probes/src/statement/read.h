/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* How is a statement read from the server's memory? Each read costs some 25 ns, nearly whatever its
 * length, so what stands close together is read at once: statement/plan.rs says what that is.
 * Included by probe.bpf.c, after its settings. */
#ifndef WAGGLE_STATEMENT_READ_H
#define WAGGLE_STATEMENT_READ_H

#include "../bpf/register.h"

/* A pointer and a length, as the server keeps texts. */
struct text {
	__u64 pointer;
	__u64 length;
};

/* Keeps the compiler from moving a bound away from its use, where the verifier needs it. */
#define bounded(value) asm volatile("" : "+r"(value))

static __always_inline int read_at(void *to, __u32 size, __u64 base, int offset)
{
	return bpf_probe_read_user(to, size, (void *)(base + offset));
}

#define UNREAD(event, field) ((event)->unread |= 1u << (field))

/* Room for what stands before the text. */
#define NAMES_MAX (STATEMENT_USER_MAX + STATEMENT_HOST_MAX + STATEMENT_DATABASE_MAX)
#define BLOCKED_BYTES (8 * WAIT_CLASSES)

/* Copies a name of known length to `to`; returns the bytes copied. */
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

/* Copies a name that ends with NUL to `to`; returns the bytes copied. */
static __always_inline __u32 copy_string(char *to, __u64 pointer, __u32 limit,
					 struct statement_event *event, int field)
{
	long copied;

	if (!pointer)
		return 0;
	copied = bpf_probe_read_user_str(to, limit, (void *)pointer);
	if (copied > 0 && copied <= limit)
		return copied - 1;
	UNREAD(event, field);
	return 0;
}

/* Most bytes between the pointers to user and host that one read is made of. */
#define CONTEXT_SPAN 128

/* Finds user and host behind the security context. */
static __always_inline void find_names(struct statement_event *event, __u64 thd,
				       struct text *user, struct text *host)
{
	const int apart = config.host - config.user;
	__u64 context = 0;

	if (read_at(&context, sizeof(context), thd, config.context) || !context)
		goto unread;
	if (config.user != STATEMENT_UNKNOWN && config.host != STATEMENT_UNKNOWN && apart > 0 &&
	    apart + 16 < CONTEXT_SPAN && apart % 8 == 0) {
		__u64 words[CONTEXT_SPAN / 8];

		if (read_at(words, (apart + 16) & (CONTEXT_SPAN - 1), context, config.user))
			goto unread;
		user->pointer = words[0];
		user->length = words[1];
		host->pointer = words[(apart / 8) & 15];
		host->length = words[(apart / 8 + 1) & 15];
		return;
	}
	if (config.user != STATEMENT_UNKNOWN &&
	    read_at(user, sizeof(*user), context, config.user))
		UNREAD(event, TEXT_USER);
	if (config.host != STATEMENT_UNKNOWN &&
	    read_at(host, sizeof(*host), context, config.host))
		UNREAD(event, TEXT_HOST);
	return;
unread:
	UNREAD(event, TEXT_USER);
	UNREAD(event, TEXT_HOST);
}

/* Bytes behind a session object's start that are still its own. */
#define AREA_WITHIN 65536

/* Reads one span and puts its numbers into the event. It is read to where names and text will
 * stand, which is larger than the stack and belongs to nobody else. The settings are constants to
 * the verifier, which drops what is not in the span, but each mention of one is a load: so they are
 * mentioned once, and only where they are needed. */
static __always_inline void read_span(struct statement_event *event, __u64 base,
				      const volatile struct statement_span *span, __u32 bit)
{
	__u32 *words = (__u32 *)(event + 1);
	const __u32 bytes = span->bytes, first = span->first, end = span->end;

	if (!bytes || bytes > STATEMENT_SPAN_MAX)
		return;
	if (read_at(words, bytes, base, span->from)) {
		UNREAD(event, bit);
		return;
	}
#pragma unroll
	for (int i = 0; i < STATEMENT_NUMBERS; i++) {
		__u32 at, to;

		if (i < first || i >= end)
			continue;
		at = config.numbers[i].at / 4;
		to = config.numbers[i].to;
		if (at + 1 >= STATEMENT_SPAN_MAX / 4 || to + 8 > sizeof(*event))
			continue;
		if (config.numbers[i].width == 8)
			*(__u64 *)((char *)event + to) = *(__u64 *)((char *)words + 4 * at);
		else
			*(__u32 *)((char *)event + to) = words[at];
	}
}

/* The diagnostics area that a statement left its outcome in. A session's own stands within it, at
 * the same distance always; only within a routine another may be in its place. So it is looked up
 * once a session. */
static __always_inline __u64 area_of(const struct statement_event *event, __u64 thd,
				     __u64 *session, __u64 *own)
{
	const int may_be_other = config.routine == STATEMENT_UNKNOWN || event->routine;
	__u64 area = 0;

	if (session && !may_be_other && *session == thd)
		return *own;
	if (read_at(&area, sizeof(area), thd, config.area))
		return 0;
	if (session && !may_be_other && area - thd < AREA_WITHIN) {
		*session = thd;
		*own = area;
	}
	return area;
}

/* One copy for all sizes of a record. `session` and `own`: whose area is known. */
static __noinline int read_numbers(struct statement_event *event, __u64 thd, __u64 *session,
				   __u64 *own)
{
	__u64 area;

	if (!event)
		return 0;
#pragma unroll
	for (int i = 0; i < STATEMENT_SPANS; i++)
		read_span(event, thd, &config.spans[i], SPAN_FIRST + i);
	if (!config.area_spans[0].bytes)
		return 0;
	area = area_of(event, thd, session, own);
	if (!area) {
		UNREAD(event, AREA_SPAN_FIRST);
		UNREAD(event, AREA_SPAN_FIRST + 1);
		return 0;
	}
#pragma unroll
	for (int i = 0; i < STATEMENT_AREA_SPANS; i++)
		read_span(event, area, &config.area_spans[i], AREA_SPAN_FIRST + i);
	return 0;
}

/* Bytes that one read over two texts may span: dearer than one, cheaper than two reads. */
#define SPAN 128

static __always_inline void read_texts(__u64 thd, struct text *query, struct text *database,
				       __u32 *unread)
{
	const int apart = config.database - config.query;

	if (config.query != STATEMENT_UNKNOWN && config.database != STATEMENT_UNKNOWN &&
	    apart > 0 && apart + 16 < SPAN && apart % 8 == 0) {
		struct text both[SPAN / sizeof(struct text)];
		__u64 *words = (__u64 *)both;

		if (read_at(both, (apart + 16) & (SPAN - 1), thd, config.query)) {
			*unread |= 1u << TEXT_QUERY | 1u << TEXT_DATABASE;
			return;
		}
		query->pointer = words[0];
		query->length = words[1];
		database->pointer = words[(apart / 8) & 15];
		database->length = words[(apart / 8 + 1) & 15];
		return;
	}
	if (config.query != STATEMENT_UNKNOWN && read_at(query, 16, thd, config.query))
		*unread |= 1u << TEXT_QUERY;
	if (config.database != STATEMENT_UNKNOWN && read_at(database, 16, thd, config.database))
		*unread |= 1u << TEXT_DATABASE;
}

#endif

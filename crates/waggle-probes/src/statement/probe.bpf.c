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

static __always_inline __u64 register_of(struct pt_regs *ctx, __u32 number)
{
	__u64 value = 0;

	switch (number) {
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

/* Reads one span and puts its numbers into the event. The settings are constants to the verifier,
 * which drops what is not in the span, but each mention of one is a load: so they are mentioned
 * once, and only where they are needed. */
static __always_inline void read_span(struct statement_event *event, __u64 base,
				      const volatile struct statement_span *span, __u32 bit)
{
	__u64 aligned[STATEMENT_SPAN_MAX / 8];
	__u32 *words = (__u32 *)aligned;
	const __u32 bytes = span->bytes, first = span->first, end = span->end;

	if (!bytes || bytes > sizeof(aligned))
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

/* One copy for all sizes of a record. */
static __noinline int read_numbers(struct statement_event *event, __u64 thd)
{
	__u64 area = 0;

	if (!event)
		return 0;
#pragma unroll
	for (int i = 0; i < STATEMENT_SPANS; i++)
		read_span(event, thd, &config.spans[i], SPAN_FIRST + i);
	if (!config.area_spans[0].bytes)
		return 0;
	if (read_at(&area, sizeof(area), thd, config.area) || !area) {
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

#ifdef STATEMENT_TIMES
/* Which of a thread's two tallies is the statement's. `start` is on the server's clock. */
static __always_inline struct tally *tally_of(struct thread_state *thread, __u64 start)
{
	/* Within this statement the client was waited for; or statements inside it have ended. */
	if (start && (start == thread->start_running || start <= thread->start_ended ||
		      start <= thread->start_inside))
		return &thread->whole;
	return &thread->recent;
}

/* A statement within a routine has ended. All of these have the start time of the one that called
 * the routine. */
static __always_inline struct tally *part_of(struct thread_state *thread,
					     struct statement_event *event)
{
	if (event->start_us && event->start_us <= thread->start_inside)
		event->flags |= EVENT_PART;
	return &thread->recent;
}

/* What an ended statement leaves for those to come; nothing is read of its tally after this. */
static __always_inline void note_end(struct thread_state *thread, __u64 start, __u64 routine)
{
	if (routine) {
		thread->start_inside = start;
		return;
	}
	thread->start_ended = start;
	/* What stands in the same packet, or came in meanwhile, has no part in it. Where a routine's
	 * statements cannot be told, the one that called them may not have ended. */
	if (config.routine != STATEMENT_UNKNOWN) {
		thread->whole.since_ns = 0;
		thread->start_running = 0;
	}
}

/* There was no room for its event. */
static __noinline int note_lost(struct thread_state *thread, __u64 thd)
{
	__u64 start = 0, routine = 0;

	if (!thread)
		return 0;
	thread->names_of = 0;
	if (config.start_time != STATEMENT_UNKNOWN)
		read_at(&start, sizeof(start), thd, config.start_time);
	if (config.routine != STATEMENT_UNKNOWN)
		read_at(&routine, config.routine_width == 8 ? 8 : 4, thd, config.routine);
	note_end(thread, start, routine);
	return 0;
}

static __always_inline void put_times(struct statement_event *event, struct tally *tally,
				      const struct task_struct *task)
{
	event->since_ns = tally->since_ns;
	event->runnable_ns = tally->runnable_ns;
	event->voluntary = task->nvcsw - tally->voluntary;
	event->forced = task->nivcsw - tally->forced;
	event->faults = task->maj_flt - tally->faults;
	event->read_bytes = 0;
	event->written_bytes = 0;
	if (bpf_core_field_exists(task->ioac.read_bytes)) {
		event->read_bytes = task->ioac.read_bytes - tally->read_bytes;
		event->written_bytes = task->ioac.write_bytes - tally->written_bytes;
	}
}
#endif

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

/* Where the statement's time went; returns the bytes copied behind the header. */
static __always_inline __u32 put_thread(struct statement_event *event, char *payload,
					const struct ending *ending)
{
#ifdef STATEMENT_TIMES
	struct thread_state *thread = ending->thread;
	struct tally *tally;

	if (!thread || !ending->task)
		return 0;
	event->flags = EVENT_TIMES;
	tally = event->routine ? part_of(thread, event) : tally_of(thread, event->start_us);
	put_times(event, tally, ending->task);
	event->blocked = tally->seen;
	/* Not by THD: the next session's may stand where the last one's stood. */
	if (event->connection_id && thread->names_of == event->connection_id)
		event->flags |= EVENT_CONTINUES;
	thread->names_of = event->connection_id;
	thread->thd = ending->thd;
	thread->start_at = config.start_time == STATEMENT_UNKNOWN ?
				   0 :
				   ending->thd + config.start_time;
	if (event->blocked)
		__builtin_memcpy(payload, tally->blocked_ns, BLOCKED_BYTES);
	note_end(thread, event->start_us, event->routine);
	return event->blocked ? BLOCKED_BYTES : 0;
#else
	return 0;
#endif
}

/* User and host, unless the session has sent them before; returns where the next byte goes. */
static __always_inline __u32 put_names(struct statement_event *event, char *payload, __u32 at,
				       const struct ending *ending)
{
	const int is_new = !(event->flags & EVENT_CONTINUES) ||
			   event->command == COM_CHANGE_USER ||
			   event->command == COM_RESET_CONNECTION;
	struct text user = {}, host = {};
	__u32 copied;

	if (!is_new || config.context == STATEMENT_UNKNOWN)
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

/* One record of a fixed size class: the ring buffer reserves constant sizes only. What is not
 * written is not touched, so a short statement costs few cache lines. */
static __always_inline int emit(const struct ending *ending, const __u32 room)
{
	const __u32 most = room - BLOCKED_BYTES;
	struct statement_event *event;
	__u32 length = ending->query.length, at, copied;
	char *payload;

	event = bpf_ringbuf_reserve(&events, sizeof(*event) + NAMES_MAX + room, 0);
	if (!event) {
		COUNT(ending->count->ring_full);
#ifdef STATEMENT_TIMES
		note_lost(ending->thread, ending->thd);
#endif
		return 0;
	}
	payload = (char *)(event + 1);
	begin_event(event, ending);
	read_numbers(event, ending->thd);
	at = put_thread(event, payload, ending);
	at = put_names(event, payload, at, ending);
	copied = copy_name(payload + at, &ending->database, STATEMENT_DATABASE_MAX, event,
			   TEXT_DATABASE);
	event->database_length = copied;
	at += copied;
	bounded(at);
	if (at > BLOCKED_BYTES + NAMES_MAX)
		at = BLOCKED_BYTES + NAMES_MAX;
	if (length > config.text_max)
		length = config.text_max;
	if (length > most)
		length = most;
	bounded(length);
	if (ending->query.pointer && length <= most) {
		if (bpf_probe_read_user(payload + at, length, (void *)ending->query.pointer))
			UNREAD(event, TEXT_QUERY);
		else
			event->text_copied = length;
	}
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline int emit_any(const struct ending *ending)
{
	const __u32 length = ending->query.length < config.text_max ? ending->query.length :
								       config.text_max;

	if (length <= 64)
		return emit(ending, BLOCKED_BYTES + 64);
	if (length <= 192)
		return emit(ending, BLOCKED_BYTES + 192);
	if (length <= 512)
		return emit(ending, BLOCKED_BYTES + 512);
	if (length <= 2048)
		return emit(ending, BLOCKED_BYTES + 2048);
	return emit(ending, BLOCKED_BYTES + STATEMENT_TEXT_MAX);
}

#ifdef STATEMENT_TIMES
#define SET_BUSY(thread, on) (*(volatile __u32 *)&(thread)->busy = (on))

static __always_inline unsigned long switches_of(const struct task_struct *task)
{
	return task->nvcsw + task->nivcsw;
}

/* From here to end_of_thread() a switch changes nothing of what is known of the thread. */
static __always_inline void begin_of_thread(struct ending *ending)
{
	struct thread_state *thread = bpf_map_lookup_elem(&threads, &ending->tid);

	ending->task = bpf_get_current_task_btf();
	ending->thread = thread;
	if (!thread) {
		COUNT(ending->count->threads_unknown);
		return;
	}
	SET_BUSY(thread, 1);
	ending->switches = switches_of(ending->task);
	/* It was switched away before that: the statement's end is now. */
	if (thread->in_ns > ending->now)
		ending->now = bpf_ktime_get_ns();
	first_seen(thread, ending->task, ending->now, NO_SWITCH);
	account(thread, ending->task, NO_SWITCH);
}

static __always_inline void end_of_thread(struct ending *ending)
{
	struct thread_state *thread = ending->thread;

	if (!thread)
		return;
	thread->end_ns = ending->now;
	thread->wait = 0;
	if (switches_of(ending->task) != ending->switches) {
		/* Time away within the probe is no statement's. */
		ending->now = bpf_ktime_get_ns();
		thread->ran_ns = 0;
		if (!arrival_found(thread, ending->task))
			thread->in_ns = ending->now;
	}
	tally_begin(&thread->recent, ending->task, ending->now, NO_SWITCH);
	if (!thread->whole.since_ns)
		tally_begin(&thread->whole, ending->task, ending->now, NO_SWITCH);
	SET_BUSY(thread, 0);
}
#endif

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
	emit_any(&ending);
#ifdef STATEMENT_TIMES
	end_of_thread(&ending);
#endif
	return 0;
}

#ifdef STATEMENT_TIMES
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

/* The lab's `probe-empty` arm: the price of the trap alone. */
SEC("uprobe")
int statement_empty(struct pt_regs *ctx)
{
	return 0;
}

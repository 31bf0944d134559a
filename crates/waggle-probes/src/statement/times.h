/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Where did a statement's time go? The scheduler's probe keeps two tallies of each thread
 * (bpf/thread.h); here the one that is the statement's is taken, and both begin anew. Included by
 * probe.bpf.c where the kernel describes its types. */
#ifndef WAGGLE_STATEMENT_TIMES_H
#define WAGGLE_STATEMENT_TIMES_H

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

/* Where the statement's time went; returns the bytes copied behind the header. */
static __always_inline __u32 put_thread(struct statement_event *event, char *payload,
					const struct ending *ending)
{
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
}

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

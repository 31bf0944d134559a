/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the kernel half knows of each thread of a server, and the arithmetic on it. Written by the
 * scheduler's probe when the thread leaves and takes a processor, read and begun anew by the
 * statement probe, both of which share the map `threads`.
 *
 * A thread's own programs run in its context, or where it is switched in, so nothing here is
 * locked. But the statement probe may be preempted: the switch then happens in the midst of it, and
 * leaves all as it is (`busy`).
 *
 * Not every switch is announced: on a busy host, one in some hundred to thousand was not, to no
 * tracepoint's user. What the kernel keeps in the task fills the gap (arrival_found, unseen). */
#ifndef WAGGLE_THREAD_H
#define WAGGLE_THREAD_H

/* In the order of wait::WaitClass, which a test compares. */
enum wait_class {
	WAIT_ROW_LOCK,
	WAIT_METADATA_LOCK,
	WAIT_TABLE_LOCK,
	WAIT_REDO,
	WAIT_BINARY_LOG,
	WAIT_DISK_READ,
	WAIT_DISK_WRITE,
	WAIT_NETWORK_WRITE,
	WAIT_NETWORK_READ,
	WAIT_LATCH,
	WAIT_SLEEP,
	WAIT_OTHER,
	WAIT_CLASSES,
};

/* Why a thread left its processor: one of enum wait_class, or one of these. */
enum departure {
	/* It did not leave, or that time is accounted for. */
	AWAY_NOT = WAIT_CLASSES,
	/* It was preempted. */
	AWAY_RUNNABLE,
	/* It waits for the client's next statement. */
	AWAY_IDLE,
	/* It waits for the client within a statement. */
	AWAY_CLIENT,
};

/* Time and work since some moment. */
struct tally {
	unsigned long long since_ns;
	unsigned long long runnable_ns;
	unsigned long long read_bytes; /* the task's counters at that moment */
	unsigned long long written_bytes;
	unsigned long long faults;
	unsigned long long voluntary;
	unsigned long long forced;
	unsigned int seen; /* bit per class whose time is not 0; the others' is not even written */
	unsigned int spare;
	unsigned long long blocked_ns[WAIT_CLASSES];
};

/* A function that the thread has entered and that has not returned, as far as its stack tells. */
struct bracket {
	unsigned long long stack; /* where the return address stands; 0: none */
	unsigned long long address; /* the return address */
};

/* Which functions; one that another may call comes after it. */
#define BRACKET_BINARY_LOG 0
#define BRACKET_TABLE 1 /* a table's lock is waited for */
#define BRACKET_REDO 2
#define BRACKETS 3

struct thread_state {
	unsigned long long out_ns; /* when it last left a processor */
	unsigned long long in_ns; /* when it last took one */
	unsigned long long run_delay; /* the task's, at out_ns */
	unsigned int tgid;
	unsigned int away; /* enum departure or wait_class, of the time from out_ns to in_ns */
	unsigned int wait; /* by thd_wait_begin: class + 1; 0 for none */
	unsigned int between; /* it left between two statements: the next has no part in it */
	unsigned int busy; /* the statement probe is at work */
	unsigned int forced; /* switches forced on it, the low half of the task's, at out_ns */
	unsigned long long ran_ns; /* the task's time on processors, at out_ns; 0: not seen leaving */
	unsigned long long clock_apart; /* from the scheduler's clock to ours, ns; 0: not known */
	unsigned long long thd; /* of the last statement; 0: none yet */
	unsigned long long area_session; /* the session object whose diagnostics area `area` is */
	unsigned long long area;
	unsigned long long names_of; /* the connection whose user and host were sent last; 0: none */
	unsigned long long start_at; /* where the server keeps a statement's start time */
	unsigned long long start_ended; /* the last ended statement's, on the server's clock, us */
	unsigned long long start_inside; /* of the last ended one that was within a routine */
	unsigned long long start_running; /* of the statement that `whole` belongs to, if known */
	unsigned long long end_ns; /* when the last statement ended */
	struct bracket brackets[BRACKETS];
	/* Since the client's last statement came in, and since the last end or wait for the client. */
	struct tally whole;
	struct tally recent;
};

#ifdef WAGGLE_KERNEL_TYPES
#include <bpf/bpf_core_read.h>

/* The kernel's types, as far as they are looked at; where a field really is, libbpf finds out. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_arrival;
};

struct sched_entity {
	unsigned long long sum_exec_runtime;
};

struct task_io_accounting {
	unsigned long long read_bytes;
	unsigned long long write_bytes;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct inode {
	unsigned short i_mode;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	int pid;
	int tgid;
	unsigned int __state;
	struct sched_entity se;
	struct sched_info sched_info;
	struct task_io_accounting ioac;
	unsigned long nvcsw;
	unsigned long nivcsw;
	unsigned long maj_flt;
	struct files_struct *files;
};

/* Before Linux 5.14. */
struct task_struct___old {
	volatile long state;
};
#pragma clang attribute pop

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, unsigned int);
	__type(value, struct thread_state);
} threads SEC(".maps");

/* A switch that the task's counters hold already, but that belongs to what comes now. */
enum switching { NO_SWITCH, VOLUNTARY_SWITCH, FORCED_SWITCH };

/* Begins a tally at `now`. */
static __always_inline void tally_begin(struct tally *tally, const struct task_struct *task,
					unsigned long long now, enum switching switching)
{
	tally->since_ns = now;
	tally->runnable_ns = 0;
	tally->seen = 0;
	tally->voluntary = task->nvcsw - (switching == VOLUNTARY_SWITCH);
	tally->forced = task->nivcsw - (switching == FORCED_SWITCH);
	tally->faults = task->maj_flt;
	if (bpf_core_field_exists(task->ioac.read_bytes)) {
		tally->read_bytes = task->ioac.read_bytes;
		tally->written_bytes = task->ioac.write_bytes;
	}
}

/* Begins both tallies at `now`: what was before is not known, and shows so. */
static __always_inline void begin_anew(struct thread_state *thread,
				       const struct task_struct *task, unsigned long long now,
				       enum switching switching)
{
	tally_begin(&thread->whole, task, now, switching);
	tally_begin(&thread->recent, task, now, switching);
}

/* A thread that was there before it was watched is looked at for the first time at `now`. */
static __always_inline void first_seen(struct thread_state *thread,
				       const struct task_struct *task, unsigned long long now,
				       enum switching switching)
{
	if (!thread->recent.since_ns)
		begin_anew(thread, task, now, switching);
}

static __always_inline void tally_blocked(struct tally *tally, unsigned int class,
					  unsigned long long ns)
{
	if (class >= WAIT_CLASSES)
		return;
	if (tally->seen & 1u << class) {
		tally->blocked_ns[class] += ns;
		return;
	}
	tally->seen |= 1u << class;
	tally->blocked_ns[class] = ns;
}

/* When the running thread took its processor, if that was not announced: the kernel notes it on a
 * clock of its own, which runs at a fixed distance from ours. True if it could be told. */
static __always_inline int arrival_found(struct thread_state *thread,
					 const struct task_struct *task)
{
	if (!thread->clock_apart)
		return 0;
	thread->in_ns = task->sched_info.last_arrival + thread->clock_apart;
	return thread->in_ns > thread->out_ns;
}

/* Accounts for the time that the thread was last away from a processor. The time it was ready to
 * run is known only now: the kernel adds it to run_delay after the switch is announced. */
static __always_inline void account(struct thread_state *thread, const struct task_struct *task,
				    enum switching switching)
{
	const unsigned int away = thread->away;
	unsigned long long ns, ready;

	if (away == AWAY_NOT)
		return;
	thread->away = AWAY_NOT;
	if (thread->in_ns <= thread->out_ns && !arrival_found(thread, task)) {
		/* When it came back is not known. */
		begin_anew(thread, task, bpf_ktime_get_ns(), switching);
		return;
	}
	if (away == AWAY_IDLE) {
		begin_anew(thread, task, thread->in_ns, switching);
		thread->start_running = 0;
		return;
	}
	ns = thread->in_ns - thread->out_ns;
	ready = task->sched_info.run_delay - thread->run_delay;
	if (ready > ns || away == AWAY_RUNNABLE)
		ready = ns;
	thread->whole.runnable_ns += ready;
	if (away == AWAY_CLIENT) {
		tally_blocked(&thread->whole, WAIT_NETWORK_READ, ns - ready);
		tally_begin(&thread->recent, task, thread->in_ns, switching);
		return;
	}
	tally_blocked(&thread->whole, away, ns - ready);
	if (thread->between) {
		tally_begin(&thread->recent, task, thread->in_ns, switching);
		return;
	}
	thread->recent.runnable_ns += ready;
	tally_blocked(&thread->recent, away, ns - ready);
}
#endif

#endif

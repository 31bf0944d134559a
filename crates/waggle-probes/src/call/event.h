/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the kernel half of the call probe and waggle agree on. Rust's types are generated from this
 * file. */
#ifndef WAGGLE_CALL_EVENT_H
#define WAGGLE_CALL_EVENT_H

/* Calls of chosen functions that a thread may be in at once: as many as the kernel can follow. */
#define CALL_DEPTH 64
/* Frames of a slow call's stack. */
#define CALL_STACK 48

/* A histogram is linear below 64 ns, then 32 buckets an octave (3%), to 2^42 ns (73 minutes). */
#define CALL_SUB_BITS 5
#define CALL_SUB (1 << CALL_SUB_BITS)
#define CALL_BUCKETS 1216

/* Why a thread was off its processor. */
enum call_reason {
	CALL_AWAY_RUNNABLE, /* preempted: it could have run on */
	CALL_AWAY_FUTEX,
	CALL_AWAY_DISK,
	CALL_AWAY_NETWORK,
	CALL_AWAY_SLEEP,
	CALL_AWAY_OTHER,
	CALL_REASONS,
};

/* What a system call says of a thread that leaves its processor in it. */
enum call_syscall {
	CALL_SYS_OTHER,
	CALL_SYS_FUTEX,
	CALL_SYS_DISK,
	CALL_SYS_NETWORK,
	CALL_SYS_SLEEP,
	CALL_SYS_FILE, /* a file or a socket: the descriptor tells */
};
#define CALL_SYSCALLS 512

/* A function that is watched, by its place in call_config. */
#define CALL_FUNCTIONS 128

struct call_function {
	unsigned short chosen; /* its number among those with a line of their own + 1; 0: it is none */
	unsigned short child; /* its number among the children + 1; 0: it is none */
};

/* Set before loading, never changed. */
struct call_config {
	unsigned int tgid;
	unsigned int children; /* how many */
	unsigned int chosen; /* how many */
	unsigned int by_caller; /* 1: a series for each place it is called from */
	unsigned int series; /* how many there is room for */
	unsigned int series_fixed; /* those that have their place: chosen, then chosen x children */
	unsigned long long slower_ns; /* calls as long as this are told of one by one; 0: none */
	struct call_function functions[CALL_FUNCTIONS];
	unsigned char syscalls[CALL_SYSCALLS];
};

/* Written by waggle while the probe runs. */
struct call_control {
	unsigned int counting; /* 1: calls that begin and end from now on are counted */
	unsigned int spare;
	unsigned long long since_ns; /* calls that began before this are not */
	unsigned long long trampoline; /* where the kernel makes watched calls return to; 0: unknown */
};

/* A call that a thread is in. */
struct call_frame {
	unsigned long long start_ns;
	unsigned long long slot; /* where the return address stands */
	unsigned long long caller; /* the return address */
	unsigned long long queued_ns; /* the thread's run-queue delay so far */
	unsigned long long children_ns; /* in chosen callees, those within one another once */
	unsigned long long children_off_ns;
	unsigned long long longest_ns; /* off its processor at a stretch */
	unsigned long long off_ns[CALL_REASONS]; /* the thread's, when the call began */
	unsigned int switches; /* the thread's, likewise: as the kernel counts */
	unsigned int seen; /* and as announced */
	unsigned short function;
	unsigned short parent; /* its place + 1 of the chosen function's call around a child */
	unsigned short around; /* its place + 1 of the child's call that is around this one */
	unsigned char again; /* within another call of itself */
	unsigned char longest_reason;
};

/* A thread that was in a watched function. */
struct call_thread {
	unsigned long long out_ns; /* when it left its processor within a call; 0: it has not */
	unsigned long long off_ns[CALL_REASONS];
	unsigned int seen; /* switches announced within calls */
	unsigned int depth;
	unsigned int reason;
	unsigned int queue; /* the run-queue delay at out_ns is known */
	struct call_frame frames[CALL_DEPTH];
};

/* Calls that belong together. Times are sums of ns. */
struct call_series {
	unsigned long long caller; /* of a series by caller, else 0 */
	unsigned int function; /* likewise */
	unsigned int spare;
	unsigned long long count;
	unsigned long long wall_ns;
	unsigned long long off_ns[CALL_REASONS];
	unsigned long long queued_ns; /* waiting for a processor, within off_ns */
	unsigned long long max_ns;
	unsigned long long off_max_ns;
	unsigned long long went_off; /* calls that left their processor */
	unsigned long long again; /* calls within another of the same function */
	unsigned long long outer_wall_ns; /* of the others */
	unsigned long long outer_off_ns;
	unsigned long long children_ns;
	unsigned long long children_off_ns;
	unsigned long long nested; /* of a child's: calls within another child's */
	unsigned long long nested_ns;
	unsigned long long unannounced; /* calls with a switch that was not announced */
	unsigned int wall[CALL_BUCKETS];
	unsigned int off[CALL_BUCKETS]; /* of the calls that left their processor */
};

/* Per CPU, summed by user space. */
struct call_counters {
	unsigned long long entries;
	unsigned long long returns;
	unsigned long long early; /* began before counting did, ended after */
	unsigned long long alone; /* returns of chosen functions that were not seen to begin */
	unsigned long long missed; /* calls that were left without returning, or not seen to */
	unsigned long long ended; /* calls whose thread ended */
	unsigned long long deep; /* calls deeper than CALL_DEPTH */
	unsigned long long outside; /* calls of a child outside every chosen function */
	unsigned long long threads_full;
	unsigned long long callers_full; /* calls with no room for their caller */
	unsigned long long slow; /* calls as long as slower_ns */
	unsigned long long slow_lost; /* of these, without room in the ring buffer */
};

/* A slow call. */
struct call_event {
	unsigned long long start_ns;
	unsigned long long end_ns;
	unsigned long long off_ns[CALL_REASONS];
	unsigned long long queued_ns;
	unsigned long long children_ns;
	unsigned long long longest_ns;
	unsigned int longest_reason;
	unsigned int function;
	unsigned int tid;
	int stack_bytes; /* negative: not to be had */
	char comm[16];
	unsigned long long stack[CALL_STACK]; /* return addresses, the caller's first */
};

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What begins every record of every trace program, so that records of several rings can be put in
 * the order of their time, and a loss has a place in it. The time stamp is the first thing that a
 * program takes. */
#ifndef WAGGLE_TRACE_H
#define WAGGLE_TRACE_H

/* What a record tells. */
enum trace_kind {
	TRACE_POINT = 1, /* a thread passed a point of a plan */
	TRACE_LEFT, /* it left its processor */
	TRACE_CAME, /* it took one */
	TRACE_WAKES, /* it wakes another */
	TRACE_BEGAN,
	TRACE_ENDED,
	TRACE_STACK, /* a stack that later records name by its number */
	TRACE_LATCH, /* of the latch programs; what comes behind says more */
	TRACE_CALL, /* of the call programs, likewise */
};

struct trace_head {
	unsigned long long ns; /* monotonic clock */
	unsigned long long began_ns; /* when the thread began, boot clock; 0: not known */
	unsigned int tid;
	unsigned int tgid;
	unsigned short kind; /* enum trace_kind */
	unsigned short cpu;
	unsigned int lost; /* records that this processor could not write so far */
};

/* Whether a thread's switches and wake-ups are told: bits by thread, kept by the point probes and
 * read by the scheduler's. Without them, those of every idle connection would be records too. */
enum trace_follow {
	FOLLOW_WAIT = 1, /* it is in a wait of the pipeline */
	FOLLOW_ALWAYS = 2, /* it carries out a stage for others */
};

#define TRACE_THREADS 65536

#endif

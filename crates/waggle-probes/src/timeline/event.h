/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the kernel half of the timeline's probe and waggle agree on. Rust's types are generated from
 * this file, trace.h and unwind.h. */
#ifndef WAGGLE_TIMELINE_EVENT_H
#define WAGGLE_TIMELINE_EVENT_H

#include "../bpf/unwind.h"

/* Is a process watched? If only one is, that is told by comparing. Several are first looked for in
 * a bitmap by the low bits of their id. Either way a switch between two threads of nobody's concern
 * costs a few loads. */
#define WATCHED_BITS 65536

struct watched_bits {
	unsigned long long words[WATCHED_BITS / 64];
	unsigned int only; /* the one that is watched; 0: none, or several */
	unsigned int spare;
};

/* Why a thread left its processor; what a system call says of a thread that waits in it. */
enum timeline_why {
	WHY_OTHER = 0,
	WHY_RUNNABLE,
	WHY_FUTEX,
	WHY_DISK,
	WHY_NETWORK,
	WHY_SLEEP,
	WHY_FILE, /* as the file is: never sent */
};

#define TIMELINE_CALLS 512

/* Set before loading, never changed. */
struct timeline_config {
	unsigned char calls[TIMELINE_CALLS]; /* enum timeline_why by number of the system call */
	unsigned int stacks; /* of threads that leave to wait */
	unsigned int waker_stacks;
	unsigned int preempted_stacks; /* of threads that leave though they could run */
	unsigned int followed_only; /* threads of the map `followed` */
};

#define TIMELINE_NAME 16

/* A record of kind TRACE_CAME, TRACE_BEGAN. */
struct timeline_came {
	struct trace_head head;
};

/* A record of kind TRACE_LEFT, TRACE_WAKES, TRACE_ENDED. */
struct timeline_event {
	struct trace_head head;
	unsigned long long value; /* left: the futex's address; wakes: when the woken began */
	unsigned long long stack; /* its number; 0: none */
	unsigned int woken;
	unsigned short why; /* enum timeline_why */
	unsigned short interrupt; /* an interrupt wakes, whoever is on the processor */
	char name[TIMELINE_NAME]; /* the thread's */
};

/* Per CPU, summed by user space. */
struct timeline_counters {
	unsigned long long events; /* written */
	unsigned long long lost; /* that found no room in the ring buffer */
};

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the kernel half of the scheduler's probe and waggle agree on. Rust's types are generated
 * from this file and from thread.h. */
#ifndef WAGGLE_SCHED_EVENT_H
#define WAGGLE_SCHED_EVENT_H

#include "../bpf/thread.h"

/* Processes are first looked for in a bitmap by the low bits of their id: a switch between two
 * threads of nobody's concern costs two loads. */
#define SERVER_BITS 65536

struct server_bits {
	unsigned long long words[SERVER_BITS / 64];
};

/* What a system call says of a thread that waits in it. */
enum call_kind {
	CALL_OTHER = 0,
	CALL_READ, /* a file, or the client's socket */
	CALL_WRITE,
	CALL_DISK_READ,
	CALL_DISK_WRITE,
	CALL_SEND,
	CALL_RECEIVE,
	CALL_POLL,
	CALL_FUTEX,
	CALL_SLEEP,
};

#define CALL_NUMBERS 512

/* Set before loading, never changed. */
struct sched_config {
	unsigned char calls[CALL_NUMBERS]; /* enum call_kind by number of the system call */
};

/* Per CPU, summed by user space. */
struct sched_counters {
	unsigned long long switches; /* of threads of servers, away from a processor */
	unsigned long long map_full; /* threads for which there was no room */
};

#endif

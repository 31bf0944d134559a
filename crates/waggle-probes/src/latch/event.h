/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the kernel half of the latch probe and waggle agree on. Rust's types are generated from this
 * file, trace.h and unwind.h. */
#ifndef WAGGLE_LATCH_EVENT_H
#define WAGGLE_LATCH_EVENT_H

#include "../bpf/unwind.h"

/* A place in this build that is not known. */
#define LATCH_UNKNOWN (-1)
/* Types that InnoDB's wait array is given are below. */
#define LATCH_TYPES 32
/* Most bytes of a metadata lock's key that one record tells. */
#define LATCH_KEY_MAX 200
#define LATCH_NAME 16
/* Static probes: wait_start, wait_end, latch_exit. */
#define LATCH_STATIC 64

enum latch_limit {
	LATCH_SLEPT_ON = 1 << 16, /* counts of sleepers, by a hash of what they sleep on */
};

/* What a type of the wait array stands for. */
enum latch_type {
	LATCH_TYPE_UNKNOWN = 0,
	LATCH_TYPE_MUTEX,
	LATCH_TYPE_SHARED,
	LATCH_TYPE_SHARED_EXCLUSIVE,
	LATCH_TYPE_EXCLUSIVE,
	LATCH_TYPE_DRAINING,
};

/* Where a static probe has its argument. */
enum latch_argument_kind {
	LATCH_ARGUMENT_NONE = 0,
	LATCH_ARGUMENT_CONSTANT,
	LATCH_ARGUMENT_REGISTER,
	LATCH_ARGUMENT_MEMORY, /* behind a register */
};

struct latch_argument {
	unsigned char kind; /* enum latch_argument_kind */
	unsigned char place; /* of the register in struct pt_regs, words */
	unsigned char size; /* bytes */
	unsigned char spare;
	int spare2;
	long long offset; /* or the constant */
};

/* Set before loading, never changed. */
struct latch_config {
	unsigned int tgid;
	int thread_number; /* offset in a pthread_t, or LATCH_UNKNOWN, as below */
	int mutex_owner; /* offsets in a mutex */
	int mutex_id;
	int rw_writer; /* in a rw-lock */
	int rw_made_at;
	int ticket; /* in a wait for a metadata lock */
	int lock; /* in a ticket */
	int key; /* in a metadata lock */
	unsigned int bitset; /* sleeps with FUTEX_WAIT_BITSET are told, too */
	unsigned char types[LATCH_TYPES]; /* enum latch_type by number */
	struct latch_argument arguments[LATCH_STATIC]; /* by cookie */
};

enum latch_what {
	LATCH_SLEEPS = 1, /* a latch_sleep, or a latch_metadata */
	LATCH_WAKES, /* a latch_brief */
	LATCH_RELEASES, /* a latch_brief */
};

enum latch_source {
	LATCH_INNODB = 1,
	LATCH_METADATA,
	LATCH_FUTEX,
	LATCH_STATIC_PROBE,
};

struct latch_sleep {
	struct trace_head head;
	unsigned int what; /* enum latch_what */
	unsigned int source; /* enum latch_source */
	unsigned long long key; /* what its sleeps and releases share: event, word, wait */
	unsigned long long stack; /* its number; 0: none */
	char name[LATCH_NAME]; /* the thread's */
	unsigned long long latch; /* its address */
	unsigned long long frame; /* the stack pointer of the request */
	unsigned long long file; /* address of its name; 0: not told */
	unsigned long long made_file; /* likewise, of where a rw-lock was made */
	unsigned int line;
	unsigned int made_line;
	unsigned int owner; /* thread number; 0: not told */
	unsigned int how; /* enum latch_type; of a futex, its operation */
	unsigned int id; /* of a mutex's name */
	unsigned int value; /* of a futex: what the word held; of a rw-lock: its word */
	unsigned int kind; /* of a futex: what a mutex would have there: its kind */
	unsigned int spare;
};

struct latch_metadata {
	struct latch_sleep sleep;
	unsigned int key_length; /* whole, in the server; 0: not told */
	char key[LATCH_KEY_MAX + 4];
};

struct latch_brief {
	struct trace_head head;
	unsigned int what;
	unsigned int source;
	unsigned long long key;
	unsigned long long stack;
	char name[LATCH_NAME];
	long long result; /* of a wake: what the call returned */
};

/* Per CPU, summed by user space. */
struct latch_counters {
	unsigned long long hits;
	unsigned long long records;
	unsigned long long lost; /* records that found no room in the ring buffer */
	unsigned long long sets; /* events set that nobody slept for */
};

#endif

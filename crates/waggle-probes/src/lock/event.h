/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the kernel half of the lock probe and waggle agree on. Rust's types are generated from
 * this file. */
#ifndef WAGGLE_LOCK_EVENT_H
#define WAGGLE_LOCK_EVENT_H

/* A place in this build that is not known. */
#define LOCK_UNKNOWN (-1)
/* Most members of a deadlock that one event tells. */
#define LOCK_MEMBERS_MAX 16
/* Most bytes of a metadata lock's key that one event tells. */
#define LOCK_KEY_MAX 192

/* Set before loading, never changed. */
struct lock_config {
	/* Offsets in THD. */
	int connection_id; /* or LOCK_UNKNOWN */
	int connection_id_width; /* 4 or 8 */
	int owner; /* of the owner of its metadata locks */
	/* Offsets elsewhere, or LOCK_UNKNOWN. */
	int transaction_thd; /* in a transaction, of the pointer to its THD */
	int members; /* in a vector of transactions, of its bounds */
	int status; /* in a metadata lock's wait */
	int depth; /* in a search for blockers */
	int ticket_context;
	int ticket_mode;
	int key; /* in a metadata lock */
};

enum lock_event_kind {
	LOCK_ROW_EDGE = 0, /* one waits for two */
	LOCK_ROW_BEGIN = 1, /* one waits; value: 3 row, 6 table */
	LOCK_ROW_END = 2, /* one waits no more */
	LOCK_ROW_DEADLOCK = 3, /* one is the victim; a lock_deadlock */
	LOCK_ROW_PAIR = 4, /* one and two are in a deadlock */
	LOCK_METADATA_BEGIN = 5, /* one waits, two is its context; value: the end will be final */
	LOCK_METADATA_END = 6, /* one waits no more; value: status, 0: may wait again */
	LOCK_METADATA_FROM = 7, /* two is a context that waits; a lock_metadata */
	LOCK_METADATA_BY = 8, /* two is a context that blocks the last one a step above */
	LOCK_METADATA_VICTIM = 9, /* two is the context of a deadlock's victim */
};

/* One cache line. For metadata locks `one` is 0 until the first wait has shown how far a context
 * stands from its THD. */
struct lock_event {
	unsigned long long time_ns;
	unsigned long long one; /* THD, or 0 */
	unsigned long long two; /* THD, or MDL_context */
	unsigned long long one_id; /* connection ids, 0 if not readable */
	unsigned long long two_id;
	unsigned int tid; /* who reports */
	unsigned int kind; /* lock_event_kind */
	unsigned int value;
	unsigned int count; /* lock_deadlock: members, perhaps more than LOCK_MEMBERS_MAX;
			     * LOCK_METADATA_FROM, _BY: steps from where the search began */
	unsigned long long spare;
};

struct lock_deadlock {
	struct lock_event event;
	unsigned long long thd[LOCK_MEMBERS_MAX];
	unsigned long long id[LOCK_MEMBERS_MAX];
};

struct lock_metadata {
	struct lock_event event; /* value: the mode asked for */
	unsigned int key_length; /* whole, in the server */
	char key[LOCK_KEY_MAX + 4];
};

/* Per CPU, summed by user space. */
struct lock_counters {
	unsigned long long hits;
	unsigned long long ring_full; /* events lost */
	/* From a program's first instruction to its last but the counting, of all hits. The kernel's
	 * own counters would miss them: they are held once, for a moment, and nobody waits then. */
	unsigned long long run_ns;
};

_Static_assert(sizeof(struct lock_event) == 64, "an event is one cache line");

#endif

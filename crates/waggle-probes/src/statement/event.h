/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the kernel half of the statement probe and waggle agree on. Rust's types are generated
 * from this file. */
#ifndef WAGGLE_STATEMENT_EVENT_H
#define WAGGLE_STATEMENT_EVENT_H

#include "../bpf/thread.h"

/* Bytes kept of a user name (32 characters in the server), of a host name and of a database name
 * (64 characters). */
#define STATEMENT_USER_MAX 64
#define STATEMENT_HOST_MAX 64
#define STATEMENT_DATABASE_MAX 64
/* Most text that one event can carry, bytes; `statement_config.text_max` may ask for less. */
#define STATEMENT_TEXT_MAX 8192

/* A field whose place in this build is not known. */
#define STATEMENT_UNKNOWN (-1)

/* One read, over one number or over several that stand close together. */
struct statement_span {
	int from; /* offset of the first byte; a multiple of 8 */
	unsigned int bytes; /* a multiple of 8, at most STATEMENT_SPAN_MAX; 0: no such span */
	unsigned int first; /* the numbers it holds: the first, and the one after the last */
	unsigned int end;
};

/* A number in a span, and where in the event it goes. */
struct statement_number {
	unsigned short at; /* offset in the span, a multiple of 4 */
	unsigned short to; /* offset in struct statement_event */
	unsigned int width; /* bytes stored: 4 or 8 */
};

/* As many bytes as the smallest record has for names and text. */
#define STATEMENT_SPAN_MAX 432
/* Spans in THD itself, and in the diagnostics area behind it. */
#define STATEMENT_SPANS 10
#define STATEMENT_AREA_SPANS 2
#define STATEMENT_NUMBERS 20

/* Set before loading, never changed: the verifier drops what a build does not have. */
struct statement_config {
	/* Register with THD, in the processor's numbering; with the stage of a wait for a metadata
	 * lock. */
	unsigned int thd_register;
	unsigned int stage_register;
	/* Offsets in THD, or STATEMENT_UNKNOWN. */
	int query;
	int database;
	int start_time;
	int area; /* of the pointer to the diagnostics area */
	int context; /* of the pointer to the security context */
	/* Behind `context`: pointers to names. */
	int user;
	int host;
	int length_follows;
	/* Most text to copy, bytes. */
	unsigned int text_max;
	/* In THD too, and the bytes to read there (4 or 8). */
	int routine;
	unsigned int routine_width;
	struct statement_span spans[STATEMENT_SPANS];
	struct statement_span area_spans[STATEMENT_AREA_SPANS];
	struct statement_number numbers[STATEMENT_NUMBERS];
};

/* A statement's end: this, then blocked time by class if `blocked` is not 0 (`enum wait_class`
 * long), then user, host, database and text without gaps. */
struct statement_event {
	unsigned long long time_ns; /* bpf_ktime_get_ns when the statement ended */
	unsigned long long thd; /* the session object's address */
	unsigned long long start_us; /* on the server's clock */
	unsigned long long connection_id;
	unsigned long long rows_sent;
	unsigned long long rows_examined;
	unsigned long long rows_affected;
	unsigned long long lock_time;
	unsigned long long routine;
	/* Session's sums so far. */
	unsigned long long bytes_received;
	unsigned long long bytes_sent;
	unsigned int tmp_tables; /* the low half of each */
	unsigned int tmp_disk_tables;
	unsigned int select_scan;
	unsigned int select_full_join;

	unsigned int error_number;
	unsigned int command; /* COM_QUERY, ...; 0 if not known */
	unsigned int warnings;
	unsigned int server_status;
	unsigned int system_thread;

	unsigned int tid;
	/* With EVENT_TIMES; all of it since `since_ns`. */
	unsigned long long since_ns;
	unsigned long long runnable_ns;
	unsigned long long read_bytes;
	unsigned long long written_bytes;
	unsigned int voluntary;
	unsigned int forced;
	unsigned int faults;

	unsigned int text_length; /* whole, in the server */
	unsigned int unread; /* bit per statement_text, then per span, that could not be read */
	unsigned short text_copied;
	unsigned short blocked; /* bit per enum wait_class */
	unsigned char user_length;
	unsigned char host_length;
	unsigned char database_length;
	unsigned char flags; /* enum event_flag */
	unsigned int spare;
};

enum event_flag {
	/* Times, switches and storage are there. */
	EVENT_TIMES = 1,
	/* The last event of this thread was of the same session, and was not lost: user and host are
	 * left out if they are what they were. */
	EVENT_CONTINUES = 2,
	/* User and host are there. */
	EVENT_NAMES = 4,
	/* It has the start time of the statement around it, and began at since_ns. */
	EVENT_PART = 8,
};

/* Bits of statement_event.unread. */
enum statement_text {
	TEXT_QUERY = 0,
	TEXT_DATABASE = 1,
	TEXT_USER = 2,
	TEXT_HOST = 3,
	SPAN_FIRST = 8,
	AREA_SPAN_FIRST = SPAN_FIRST + STATEMENT_SPANS,
};

/* Per CPU, summed by user space. */
struct statement_counters {
	unsigned long long hits; /* the probe ran */
	unsigned long long ring_full; /* no room in the ring buffer: the statement is lost */
	unsigned long long threads_unknown; /* no breakdown, since the thread is not in the map */
	unsigned long long left_out; /* only counted: the agent has to keep within its budget */
};

/* Bits of what user space asks to be left out, while the probe runs. */
enum statement_left_out {
	LEAVE_TEXT = 1,
	LEAVE_ALL = 2, /* but the count */
};

_Static_assert(sizeof(struct statement_event) == 192, "the event's header has no gaps");

#endif

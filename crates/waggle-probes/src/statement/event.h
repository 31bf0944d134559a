/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the kernel half of the statement probe and waggle agree on. Rust's types are generated
 * from this file. */
#ifndef WAGGLE_STATEMENT_EVENT_H
#define WAGGLE_STATEMENT_EVENT_H

/* Bytes kept of a user name (32 characters in the server) and of a database name (64). */
#define STATEMENT_USER_MAX 64
#define STATEMENT_DATABASE_MAX 64
/* Most text that one event can carry, bytes; `statement_config.text_max` may ask for less. */
#define STATEMENT_TEXT_MAX 8192

/* A field whose place in this build is not known. */
#define STATEMENT_UNKNOWN (-1)

/* Set before loading, never changed: the verifier drops what a build does not have. */
struct statement_config {
	/* Register with THD, in the processor's numbering. */
	unsigned int thd_register;
	/* Offsets in THD, or STATEMENT_UNKNOWN. */
	int query;
	int database;
	int user_pointer; /* of a pointer; the user's name is behind it */
	int user; /* of the name's pointer, behind `user_pointer` */
	int user_length_follows;
	int connection_id;
	int connection_id_width; /* 4 or 8 */
	int start_time;
	int rows_sent;
	int rows_examined;
	int error_pointer; /* of a pointer; the error number is behind it */
	int error_number;
	int command;
	/* Most text to copy, bytes. */
	unsigned int text_max;
};

/* A statement's end: one cache line, then user, database and text without gaps, `user_length`,
 * `database_length` and `text_copied` bytes. */
struct statement_event {
	unsigned long long time_ns; /* bpf_ktime_get_ns when the statement ended */
	unsigned long long start_us; /* on the server's clock */
	unsigned long long connection_id;
	unsigned long long rows_sent;
	unsigned long long rows_examined;
	unsigned int error_number;
	unsigned int command; /* COM_QUERY, ...; 0 if not known */
	unsigned int text_length; /* whole, in the server */
	unsigned short text_copied;
	unsigned char user_length;
	unsigned char database_length;
	unsigned int unread; /* bit per statement_field that could not be read */
	unsigned int spare;
};

/* Bits of statement_event.unread. */
enum statement_field {
	FIELD_QUERY = 0,
	FIELD_DATABASE = 1,
	FIELD_USER = 2,
	FIELD_CONNECTION_ID = 3,
	FIELD_START_TIME = 4,
	FIELD_ROWS_SENT = 5,
	FIELD_ROWS_EXAMINED = 6,
	FIELD_ERROR_NUMBER = 7,
	FIELD_COMMAND = 8,
};

/* Per CPU, summed by user space. */
struct statement_counters {
	unsigned long long hits; /* the probe ran */
	unsigned long long ring_full; /* no room in the ring buffer: the statement is lost */
};

_Static_assert(sizeof(struct statement_event) == 64, "the event's header is one cache line");

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the kernel half of the point probes and waggle agree on. Rust's types are generated from
 * this file and from trace.h. */
#ifndef WAGGLE_POINT_EVENT_H
#define WAGGLE_POINT_EVENT_H

#include "../bpf/trace.h"

enum point_limit {
	POINT_SPECS = 256, /* places of all points together */
	POINT_STEPS = 4,
	POINT_TESTS = 2,
	POINT_FRAMES = 48, /* of a stack */
	POINT_PROCESSES = 64,
};

enum point_base {
	BASE_ZERO,
	BASE_REGISTER,
	BASE_INDEXED,
	BASE_IMAGE, /* where the process has the binary's address 0 */
	BASE_THREAD, /* the thread pointer */
	BASE_FIELD, /* bytes of a tracepoint's record */
};

enum point_comparison {
	COMPARE_EQUAL,
	COMPARE_NOT_EQUAL,
	COMPARE_LESS,
	COMPARE_AT_LEAST,
};

enum point_stack {
	STACK_NONE,
	STACK_WANTED = 1,
	STACK_TOP = 2, /* and the word on top, which is the return address here */
};

/* What passing a place means for whether the thread is followed. */
enum point_follow {
	POINT_FOLLOW_AS_IT_IS,
	POINT_FOLLOW_BEGINS, /* a wait begins */
	POINT_FOLLOW_ENDS, /* it ends; passed outside a wait, the place is of no interest */
	POINT_FOLLOW_STAGE, /* a stage is carried out */
};

/* Set before loading, never changed: the only process, if there is but one. */
struct point_config {
	unsigned long long image; /* where it has the binary's address 0 */
	unsigned int tgid; /* 0: there are several */
	unsigned int spare;
};

struct point_step {
	long long add;
	unsigned int load; /* bytes; 0: none */
	unsigned int is_signed;
};

struct point_value {
	unsigned char base; /* enum point_base */
	unsigned char reg; /* a register's number; see register.h */
	unsigned char index; /* likewise */
	unsigned char scale;
	unsigned char steps; /* how many */
	unsigned char keep; /* bytes kept of the sum; 0 or 8: all */
	unsigned char keep_signed;
	unsigned char field_bytes;
	unsigned short field; /* from the start of a tracepoint's record, bytes */
	unsigned char field_signed;
	unsigned char spare[5];
	struct point_step step[POINT_STEPS];
};

struct point_test {
	struct point_value value;
	unsigned long long with;
	unsigned int comparison; /* enum point_comparison */
	unsigned int in_image; /* 1: `with` is an address of the binary */
};

/* One place; its number is the cookie of its attachment. */
struct point_spec {
	unsigned short point;
	unsigned char tests; /* how many */
	unsigned char stack; /* enum point_stack */
	unsigned char follow; /* enum point_follow */
	unsigned char spare[3];
	struct point_value value;
	struct point_value second;
	struct point_test test[POINT_TESTS];
};

/* One record, followed by `frames` return addresses, innermost first. */
struct point_record {
	struct trace_head head;
	unsigned long long value;
	unsigned long long second;
	unsigned short point;
	unsigned short frames;
	unsigned int unread; /* bit 0: the value could not be read; bit 1: the second */
	unsigned long long top; /* the word on top of the stack, if asked for */
};

struct point_stack_record {
	struct point_record record;
	unsigned long long frames[POINT_FRAMES];
};

/* Per CPU. */
struct point_counters {
	unsigned long long lost; /* the ring was full */
	unsigned long long hits[POINT_SPECS]; /* by place */
};

#endif

/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the kernel half of the sampling probe and waggle agree on. Rust's types are generated from
 * this file, trace.h and unwind.h. */
#ifndef WAGGLE_SAMPLE_EVENT_H
#define WAGGLE_SAMPLE_EVENT_H

#include "../bpf/unwind.h"

/* Most calls of the kernel's own in a sample; the kernel keeps no more by default. */
#define SAMPLE_KERNEL_FRAMES 127

#define SAMPLE_NAME 16

/* Beside enum trace_kind. */
enum sample_kind {
	SAMPLE_TAKEN = 32,
};

/* Set before loading, never changed. */
struct sample_config {
	unsigned int kernel; /* the kernel's own calls, too */
};

/* A thread that was on a processor when its clock ticked; only `count` addresses are sent. */
struct sample_record {
	struct trace_head head;
	unsigned long long stack; /* the number of its own calls; 0: none */
	unsigned int count; /* calls of the kernel's */
	unsigned int in_kernel; /* it ran in the kernel */
	char name[SAMPLE_NAME]; /* the thread's */
	unsigned long long frames[SAMPLE_KERNEL_FRAMES]; /* innermost first */
};

/* Per CPU, summed by user space. */
struct sample_counters {
	unsigned long long ticks; /* of the clock, whoever was on the processor */
	unsigned long long taken; /* samples written */
	unsigned long long lost; /* that found no room in the ring buffer */
	unsigned long long kernel_unread; /* without the kernel's calls, which could not be read */
	unsigned long long kernel_deep; /* of whose kernel's calls the outermost may be missing */
};

#endif

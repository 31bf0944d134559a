/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the kernel half of the burning probe and waggle agree on. Rust's types are generated from
 * this file. */
#ifndef WAGGLE_BURN_EVENT_H
#define WAGGLE_BURN_EVENT_H

enum burn_limit {
	BURN_NS_MAX = 100000,
	/* Most looks at the clock in one run. A look costs more than 10 ns wherever there is a clock
	 * that a program may read, so BURN_NS_MAX is reached well before. */
	BURN_LOOKS_MAX = 16384,
};

/* Per CPU, summed by user space. */
struct burn_counters {
	unsigned long long hits; /* the probe ran */
	unsigned long long unfinished; /* of these, ended by BURN_LOOKS_MAX: burned less than asked */
	unsigned long long burned_ns; /* by the program's own clock, from its first look to its last */
};

#endif

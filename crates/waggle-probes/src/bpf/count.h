/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* How do the programs count? A uprobe's program stays on its processor, but on a kernel built to be
 * preempted another thread's may run there in its midst: a counter per processor is still counted
 * by one instruction, and nothing else per processor is kept. */
#ifndef WAGGLE_COUNT_H
#define WAGGLE_COUNT_H

#define COUNT_MANY(field, many) ((void)__sync_fetch_and_add(&(field), (many)))
#define COUNT(field) COUNT_MANY(field, 1)

#endif

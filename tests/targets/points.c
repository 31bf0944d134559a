/* A program whose points are known to the count: plain functions, static probes with and without
 * a counter, a word that is stored to.
 *
 * points ROUNDS THREADS: prints where its word is, waits for a line, and then each thread does
 * ROUNDS rounds: wait_start(i), work(i), 1(i), 2(i), store i, wait_end. Prints its counts and
 * waits for the end of its input. Of `wide` the low half of the argument has its highest bit set:
 * an argument that is marked as signed, but is not. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SEMAPHORE(p, n) \
	__attribute__((section(".probes"), used)) volatile unsigned short semaphore_##p##_##n

/* The notes of SystemTap, written by hand; `size` is what stands before the `@`. */
#define NOTE(p, n, semaphore, size, value)                                     \
	__asm__ volatile("990: nop\n"                                          \
			 ".pushsection .note.stapsdt,\"\",\"note\"\n"          \
			 ".balign 4\n"                                         \
			 ".4byte 992f-991f, 994f-993f, 3\n"                    \
			 "991: .asciz \"stapsdt\"\n"                           \
			 "992: .balign 4\n"                                    \
			 "993: .8byte 990b\n"                                  \
			 ".8byte _.stapsdt.base\n"                             \
			 ".8byte " semaphore "\n"                              \
			 ".asciz \"" p "\"\n"                                  \
			 ".asciz \"" n "\"\n"                                  \
			 ".asciz \"" size "@%[v]\"\n"                          \
			 "994: .balign 4\n"                                    \
			 ".popsection\n"                                       \
			 ".ifndef _.stapsdt.base\n"                            \
			 ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
			 ".weak _.stapsdt.base\n"                              \
			 ".hidden _.stapsdt.base\n"                            \
			 "_.stapsdt.base: .space 1\n"                          \
			 ".size _.stapsdt.base, 1\n"                           \
			 ".popsection\n"                                       \
			 ".endif\n" ::[v] "nor"(value))

SEMAPHORE(wakeup, 2);

volatile uint64_t progress;
static uint64_t rounds;
static uint64_t armed;

__attribute__((noinline, noclone)) uint64_t work(uint64_t first, uint64_t *second)
{
	__asm__ volatile("" ::: "memory");
	return first * 3 + *second;
}

__attribute__((noinline, noclone)) void inner(uint64_t first)
{
	__asm__ volatile("" ::"r"(first) : "memory");
}

__attribute__((noinline, noclone)) void outer(uint64_t first)
{
	inner(first);
	__asm__ volatile("" ::: "memory");
}

static void *thread(void *unused)
{
	for (uint64_t i = 1; i <= rounds; i++) {
		uint64_t second = i + 1000;
		uint32_t wide = 0x80000000u + (uint32_t)i;

		NOTE("wakeup", "wait_start", "0", "-8", i);
		work(i, &second);
		outer(i);
		NOTE("wakeup", "1", "0", "-8", i);
		NOTE("wakeup", "wide", "0", "-4", wide);
		if (semaphore_wakeup_2) {
			__atomic_fetch_add(&armed, 1, __ATOMIC_RELAXED);
			NOTE("wakeup", "2", "semaphore_wakeup_2", "8", i);
		}
		progress = i;
		NOTE("wakeup", "wait_end", "0", "8", i);
		/* A place of the same name somewhere else. */
		if (i % 2)
			NOTE("wakeup", "1", "0", "-8", i);
	}
	return unused;
}

int main(int count, char **arguments)
{
	unsigned long threads = count > 2 ? strtoul(arguments[2], NULL, 10) : 1;
	pthread_t started[64];
	char line[64];

	if (threads > 64)
		return 2;
	rounds = count > 1 ? strtoull(arguments[1], NULL, 10) : 1;
	printf("progress %p\n", (void *)&progress);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	/* Threads begin after whoever watches has begun. */
	for (unsigned long i = 0; i < threads; i++)
		pthread_create(&started[i], NULL, thread, NULL);
	for (unsigned long i = 0; i < threads; i++)
		pthread_join(started[i], NULL);
	printf("done %llu\n", (unsigned long long)armed);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}

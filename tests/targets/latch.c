/* Threads that wait for one latch, and that know who held it: the truth for `waggle trace latch`.
 *
 *   latch VARIANT THREADS TIMES BARGE% HOLD_US LOG
 *
 * VARIANT: `pthread` (a mutex of the C library), `futex` (a word with holder and sleepers, as
 * MariaDB has), `ttas` (a word and an event, as InnoDB has, with static probes of the article's
 * names). Each of THREADS takes the latch TIMES times, holds it for up to HOLD_US, and after BARGE%
 * of its releases asks again at once.
 *
 * Prints `ready`, waits for a line, works, writes LOG, prints `done`, waits for the input's end.
 * LOG has a line a holding (`held TID FROM TO`) and a line a wait in which the thread slept
 * (`waited TID FROM TO SLEEPS`), ns of CLOCK_MONOTONIC. Sleeps of a pthread mutex are not known: 0.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A static probe: one nop, and a note that says where it is and where its argument stands. */
#define PROBE(name, argument)                                                                      \
	__asm__ volatile("990: nop\n"                                                              \
			 ".pushsection .note.stapsdt,\"\",\"note\"\n"                              \
			 ".balign 4\n"                                                             \
			 ".4byte 992f-991f, 994f-993f, 3\n"                                        \
			 "991: .asciz \"stapsdt\"\n"                                               \
			 "992: .balign 4\n"                                                        \
			 "993: .8byte 990b\n"                                                      \
			 ".8byte 0\n"                                                              \
			 ".8byte 0\n"                                                              \
			 ".asciz \"latch\"\n"                                                      \
			 ".asciz \"" #name "\"\n"                                                  \
			 ".asciz \"-8@%0\"\n"                                                      \
			 "994: .balign 4\n"                                                        \
			 ".popsection\n"                                                           \
			 :                                                                         \
			 : "r"((uint64_t)(argument))                                               \
			 : "memory")

struct line {
	uint64_t from, to;
	uint32_t sleeps;
	uint32_t waited;
};

struct thread {
	pthread_t id;
	uint32_t number;
	pid_t tid;
	uint64_t random;
	struct line *lines;
	uint32_t count;
};

enum variant { PTHREAD, FUTEX, TTAS };

static enum variant variant;
static uint32_t times, barge_percent, hold_us;
static atomic_int running;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

#define HOLDER (1u << 31)
static _Atomic uint32_t word;

static _Atomic pthread_t owner;
static _Atomic uint8_t waiters;
static pthread_mutex_t event_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t event_changed = PTHREAD_COND_INITIALIZER;
static uint64_t event_sets;

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static uint64_t draw(struct thread *thread, uint64_t below)
{
	thread->random ^= thread->random << 13;
	thread->random ^= thread->random >> 7;
	thread->random ^= thread->random << 17;
	return thread->random % below;
}

static void note(struct thread *thread, uint32_t waited, uint64_t from, uint64_t to,
		 uint32_t sleeps)
{
	thread->lines[thread->count++] = (struct line){ from, to, sleeps, waited };
}

/* Returns how often it slept. */
static uint32_t take_futex(void)
{
	uint32_t sleeps = 0, seen = 0;

	if (atomic_compare_exchange_strong(&word, &seen, HOLDER | 1))
		return 0;
	seen = atomic_fetch_add(&word, 1) + 1;
	for (;;) {
		while (!(seen & HOLDER))
			if (atomic_compare_exchange_weak(&word, &seen, seen | HOLDER))
				return sleeps;
		if (!syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0))
			sleeps++;
		seen = atomic_load(&word);
	}
}

static void leave_futex(void)
{
	const uint32_t before = atomic_fetch_sub(&word, HOLDER | 1);

	if (before != (HOLDER | 1))
		syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static int try_ttas(void)
{
	pthread_t nobody = 0;

	return atomic_compare_exchange_strong(&owner, &nobody, pthread_self());
}

static uint32_t take_ttas(void)
{
	uint32_t sleeps = 0;

	while (!try_ttas()) {
		uint64_t sets;

		pthread_mutex_lock(&event_mutex);
		sets = event_sets;
		pthread_mutex_unlock(&event_mutex);
		atomic_store(&waiters, 1);
		if (try_ttas())
			break;
		PROBE(wait_start, &owner);
		pthread_mutex_lock(&event_mutex);
		while (sets == event_sets)
			pthread_cond_wait(&event_changed, &event_mutex);
		pthread_mutex_unlock(&event_mutex);
		PROBE(wait_end, 0);
		sleeps++;
	}
	return sleeps;
}

static void leave_ttas(void)
{
	atomic_store(&owner, 0);
	if (!atomic_exchange(&waiters, 0))
		return;
	PROBE(latch_exit, &owner);
	pthread_mutex_lock(&event_mutex);
	event_sets++;
	pthread_cond_broadcast(&event_changed);
	pthread_mutex_unlock(&event_mutex);
}

/* Returns how often it slept, so far as is known; *contended is set if it was not free. */
static uint32_t take(int *contended)
{
	uint32_t sleeps;

	switch (variant) {
	case PTHREAD:
		*contended = pthread_mutex_trylock(&mutex) != 0;
		if (*contended)
			pthread_mutex_lock(&mutex);
		return 0;
	case FUTEX:
		sleeps = take_futex();
		break;
	default:
		sleeps = take_ttas();
	}
	*contended = sleeps > 0;
	return sleeps;
}

static void leave(void)
{
	if (variant == PTHREAD)
		pthread_mutex_unlock(&mutex);
	else if (variant == FUTEX)
		leave_futex();
	else
		leave_ttas();
}

static void pause_us(uint64_t us)
{
	const struct timespec time = { us / 1000000, us % 1000000 * 1000 };

	nanosleep(&time, NULL);
}

__attribute__((noinline)) void hold_latch(struct thread *thread)
{
	uint64_t asked, got;
	uint32_t sleeps;
	int contended;

	asked = now_ns();
	sleeps = take(&contended);
	got = now_ns();
	pause_us(20 + draw(thread, hold_us));
	if (contended)
		note(thread, 1, asked, got, sleeps);
	note(thread, 0, got, now_ns(), 0);
	leave();
}

static void *work(void *argument)
{
	struct thread *thread = argument;
	char name[16];

	snprintf(name, sizeof(name), "worker-%u", thread->number);
	pthread_setname_np(pthread_self(), name);
	thread->tid = gettid();
	while (!atomic_load(&running))
		pause_us(1000);
	for (uint32_t i = 0; i < times; i++) {
		hold_latch(thread);
		if (draw(thread, 100) >= barge_percent)
			pause_us(draw(thread, 2 * hold_us + 1));
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct thread *threads;
	uint32_t count;
	char line[64];
	FILE *log;

	if (argc != 7)
		return 2;
	variant = !strcmp(argv[1], "pthread") ? PTHREAD : !strcmp(argv[1], "futex") ? FUTEX : TTAS;
	count = atoi(argv[2]);
	times = atoi(argv[3]);
	barge_percent = atoi(argv[4]);
	hold_us = atoi(argv[5]);
	threads = calloc(count, sizeof(*threads));
	for (uint32_t i = 0; i < count; i++) {
		threads[i].number = i;
		threads[i].random = 0x9e3779b97f4a7c15ull * (i + 1);
		threads[i].lines = calloc(2 * times, sizeof(struct line));
		pthread_create(&threads[i].id, NULL, work, &threads[i]);
	}
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	atomic_store(&running, 1);
	for (uint32_t i = 0; i < count; i++)
		pthread_join(threads[i].id, NULL);
	log = fopen(argv[6], "w");
	if (!log)
		return 1;
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t k = 0; k < threads[i].count; k++) {
			const struct line *l = &threads[i].lines[k];

			if (l->waited)
				fprintf(log, "waited %d %llu %llu %u\n", threads[i].tid,
					(unsigned long long)l->from, (unsigned long long)l->to,
					l->sleeps);
			else
				fprintf(log, "held %d %llu %llu\n", threads[i].tid,
					(unsigned long long)l->from, (unsigned long long)l->to);
		}
	}
	if (fclose(log))
		return 1;
	puts("done");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}

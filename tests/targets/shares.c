/* Where does the time go? Functions whose shares of the CPU time are known, since each notes the
 * thread's own CPU time within; and sleeps whose lengths are known.
 *
 *   shares CPU_MS THREADS
 *
 * Prints `ready`, waits for a line, works until its working threads together have used CPU_MS of
 * CPU time, prints the truth as `NAME NS` (CPU time within), `naps COUNT AWAY_NS` (time in sleeps,
 * less the CPU time meanwhile) and `waits COUNT AWAY_NS` (for a lock, likewise), then `done`, and
 * waits for another line. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
/* Of one turn of each function, in the proportion of the shares. */
#define TURN_US 25000ull
#define NAP_NS 4000000
#define HOLD_NS 3000000

typedef unsigned long long u64;

static _Atomic u64 first_ns, second_ns, third_ns, nap_count, nap_ns, wait_count, wait_ns, all_ns;
static u64 target_ns;
static atomic_int over, last;

static u64 read_clock(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static u64 cpu(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

/* A leaf without a frame: an interrupt in it finds its caller by the stack pointer alone. */
NOINLINE static u64 leaf(u64 value)
{
	return (value ^ value >> 7) * 0x9e3779b97f4a7c15ull;
}

/* One with a frame, that is entered and left all the time. */
NOINLINE static u64 step(u64 value)
{
	volatile u64 kept = leaf(value);

	return kept + leaf(kept);
}

/* Nearly all of a turn, and no function of its own in the program. */
__attribute__((always_inline)) static inline u64 steps(u64 sum)
{
	for (int i = 0; i < 4000; i++)
		sum = step(sum);
	return sum;
}

NOINLINE static void turn(u64 us)
{
	const u64 end = cpu() + 1000 * us;
	volatile u64 sum = 1;

	do {
		sum = steps(sum);
	} while (cpu() < end);
}

#define WORK(name, part)                                        \
	NOINLINE static void name(void)                         \
	{                                                       \
		const u64 begin = cpu();                        \
		u64 spent;                                      \
                                                                \
		turn(TURN_US * (part) / 5);                     \
		spent = cpu() - begin;                          \
		atomic_fetch_add(&name##_ns, spent);            \
		atomic_fetch_add(&all_ns, spent);               \
	}

WORK(first, 5)
WORK(second, 3)
WORK(third, 2)

static void *work(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "worker-1");
	while (all_ns < target_ns) {
		first();
		second();
		third();
	}
	atomic_store(&over, 1);
	return NULL;
}

NOINLINE static void naps(void)
{
	const u64 began = read_clock(CLOCK_MONOTONIC), own = cpu();
	struct timespec left = { 0, NAP_NS };

	while (nanosleep(&left, &left))
		;
	nap_ns += read_clock(CLOCK_MONOTONIC) - began - (cpu() - own);
	nap_count++;
}

static void *sleeps(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "sleeper");
	while (!over)
		naps();
	return NULL;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

NOINLINE static void waits(void)
{
	const u64 began = read_clock(CLOCK_MONOTONIC), own = cpu();

	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	wait_ns += read_clock(CLOCK_MONOTONIC) - began - (cpu() - own);
	wait_count++;
}

static void *waiter(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "waiter");
	for (;;) {
		pthread_barrier_wait(&both);
		if (last)
			return NULL;
		waits();
		pthread_barrier_wait(&both);
	}
}

/* Holds the lock while the other waits for it. */
static void *holder(void *unused)
{
	const struct timespec hold = { 0, HOLD_NS };

	(void)unused;
	pthread_setname_np(pthread_self(), "holder");
	for (;;) {
		const int ends = over;

		if (ends)
			atomic_store(&last, 1);
		else
			pthread_mutex_lock(&lock);
		pthread_barrier_wait(&both);
		if (ends)
			return NULL;
		nanosleep(&hold, NULL);
		pthread_mutex_unlock(&lock);
		pthread_barrier_wait(&both);
	}
}

static void wait_for_line(void)
{
	int c;

	while ((c = getchar()) != '\n' && c != EOF)
		;
}

int main(int argc, char **argv)
{
	const int threads = argc > 2 ? atoi(argv[2]) : 2;
	pthread_t *all = calloc(threads, sizeof(*all)), others[3];

	target_ns = 1000000ull * (argc > 1 ? atoi(argv[1]) : 1000);
	pthread_barrier_init(&both, NULL, 2);
	puts("ready");
	fflush(stdout);
	wait_for_line();
	for (int i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, work, NULL);
	pthread_create(&others[0], NULL, sleeps, NULL);
	pthread_create(&others[1], NULL, waiter, NULL);
	pthread_create(&others[2], NULL, holder, NULL);
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(others[i], NULL);
	printf("first %llu\nsecond %llu\nthird %llu\n", first_ns, second_ns, third_ns);
	printf("naps %llu %llu\nwaits %llu %llu\n", nap_count, nap_ns, wait_count, wait_ns);
	puts("done");
	fflush(stdout);
	wait_for_line();
	return 0;
}

/* Calls whose number is known, and whose times are bounded from both sides: a function notes its
 * own time within (less than the call), its caller notes it around the call (more than the call).
 *
 *   calls THREADS ROUNDS
 *
 * Prints `ready`, waits for a line, works, prints the truth as `NAME COUNT WITHIN_NS AROUND_NS`,
 * then `done`, and waits for another line. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define SLEEP_NS 2000000

typedef unsigned long long u64;

struct truth {
	const char *name;
	_Atomic u64 count, within, around;
};

enum { PARENT, CHILD_A, CHILD_B, SLEEPER, SPINNER, RECURSE, JUMPS, ENDS, TAIL, TAIL_END, KINDS };

static struct truth truth[KINDS] = {
	[PARENT] = { "parent" },   [CHILD_A] = { "child_a" }, [CHILD_B] = { "child_b" },
	[SLEEPER] = { "sleeper" }, [SPINNER] = { "spinner" }, [RECURSE] = { "recurse" },
	[JUMPS] = { "jumps" },	   [ENDS] = { "ends" },	      [TAIL] = { "tail" },
	[TAIL_END] = { "tail_end" },
};

static u64 now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

#define AROUND(kind, call)                                     \
	do {                                                   \
		const u64 before = now();                      \
		call;                                          \
		truth[kind].count++;                           \
		truth[kind].around += now() - before;          \
	} while (0)

#define WITHIN(kind, begin) (truth[kind].within += now() - (begin))

static volatile int sink;

static void spin(u64 ns)
{
	const u64 end = now() + ns;

	while (now() < end)
		sink++;
}

NOINLINE void sleeper(void)
{
	const u64 begin = now();
	struct timespec left = { 0, SLEEP_NS };

	while (nanosleep(&left, &left))
		;
	WITHIN(SLEEPER, begin);
}

NOINLINE void spinner(u64 ns)
{
	const u64 begin = now();

	spin(ns);
	WITHIN(SPINNER, begin);
}

NOINLINE void child_a(void)
{
	const u64 begin = now();

	spin(20000);
	WITHIN(CHILD_A, begin);
}

NOINLINE void child_b(void)
{
	const u64 begin = now();

	spin(5000);
	AROUND(CHILD_A, child_a());
	WITHIN(CHILD_B, begin);
}

NOINLINE void parent(void)
{
	const u64 begin = now();

	AROUND(CHILD_A, child_a());
	AROUND(CHILD_B, child_b());
	spin(10000);
	WITHIN(PARENT, begin);
}

/* Another caller of the same function. */
NOINLINE void other_caller(void)
{
	AROUND(PARENT, parent());
	sink++;
}

NOINLINE void usual_caller(void)
{
	AROUND(PARENT, parent());
	sink++;
}

NOINLINE int recurse(int depth)
{
	const u64 begin = now();
	int sum = depth;

	if (depth > 0)
		AROUND(RECURSE, sum += recurse(depth - 1));
	WITHIN(RECURSE, begin);
	return sum;
}

static __thread jmp_buf back;

NOINLINE void jumps(int away)
{
	const u64 begin = now();

	sink++;
	if (away)
		longjmp(back, 1);
	WITHIN(JUMPS, begin);
}

NOINLINE void tail_end(void)
{
	const u64 begin = now();

	spin(3000);
	WITHIN(TAIL_END, begin);
}

/* Jumps to another watched function instead of calling it. */
NOINLINE void tail(void)
{
	sink++;
	tail_end();
}

NOINLINE void ends(void)
{
	sink++;
	pthread_exit(NULL);
}

static void *end_within(void *unused)
{
	(void)unused;
	truth[ENDS].count++;
	ends();
	return NULL;
}

static int rounds;

static void *work(void *unused)
{
	(void)unused;
	for (int i = 0; i < rounds; i++) {
		usual_caller();
		if (i % 4 == 0)
			other_caller();
		if (i % 10 == 0)
			AROUND(SLEEPER, sleeper());
		AROUND(SPINNER, spinner(1000));
		if (i % 5 == 0)
			AROUND(RECURSE, recurse(9));
		/* The same call, left and then not: its frame stands where the left one stood. */
		if (!setjmp(back))
			jumps(1);
		else
			AROUND(JUMPS, jumps(0));
		truth[TAIL_END].count++;
		AROUND(TAIL, tail());
		/* Outside of `parent`: no child of it. */
		if (i % 50 == 0)
			child_a();
	}
	return NULL;
}

static void wait_for_line(void)
{
	int c;

	while ((c = getchar()) != '\n' && c != EOF)
		;
}

/* Under way when the tracing begins and when it ends. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

NOINLINE void whole_time(void)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	sink++;
}

static void *stay(void *unused)
{
	(void)unused;
	whole_time();
	return NULL;
}

int main(int argc, char **argv)
{
	const int threads = argc > 1 ? atoi(argv[1]) : 2;
	pthread_t *all = calloc(threads, sizeof(*all)), ending, staying;

	rounds = argc > 2 ? atoi(argv[2]) : 100;
	pthread_mutex_lock(&gate);
	puts("ready");
	fflush(stdout);
	wait_for_line();
	pthread_create(&staying, NULL, stay, NULL);
	for (int i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, work, NULL);
	for (int i = 0; i < rounds / 10; i++) {
		pthread_create(&ending, NULL, end_within, NULL);
		pthread_join(ending, NULL);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	for (int i = 0; i < KINDS; i++)
		printf("%s %llu %llu %llu\n", truth[i].name, truth[i].count, truth[i].within,
		       truth[i].around);
	puts("done");
	fflush(stdout);
	wait_for_line();
	pthread_mutex_unlock(&gate);
	pthread_join(staying, NULL);
	return 0;
}

/* Who waits for whom, known beforehand: the target of `waggle trace waits` and of the stacks'
 * test.
 *
 * Five threads wait inside the C library, each in its own way and in known calls of this one:
 * cond, mutex, sem, reader and sleeper. `driver` wakes the first four in each round, in known
 * calls, and only when the kernel says that all of them wait. Then `client` sends ROUNDS
 * requests through a pipe to `front`, which hands each to `worker` and waits; `worker` sleeps
 * for 2 ms and signals.
 *
 * waits ROUNDS: prints "ready PID", waits for a line, works, prints what happened, waits for
 * the end of its input.
 *
 * Built with and without frame pointers, with -fno-inline -fno-optimize-sibling-calls. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { COND, MUTEX, SEM, READER, WAITERS };

static const char *const names[] = { "cond", "mutex", "sem", "reader" };
static int rounds;
static atomic_int tids[WAITERS];
static atomic_int done[WAITERS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int signalled;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static sem_t semaphore;
static int bytes[2], requests[2], answers[2];

static pthread_mutex_t work_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_come = PTHREAD_COND_INITIALIZER;
static pthread_cond_t work_done = PTHREAD_COND_INITIALIZER;
static int asked, answered;

static void pause_ns(long ns)
{
	struct timespec time = { 0, ns };

	nanosleep(&time, NULL);
}

static void expect(int holds, const char *what)
{
	if (holds)
		return;
	perror(what);
	exit(1);
}

/* The waits, each below calls that a stack has to show. */

static void innermost(int way)
{
	char byte;

	if (way == COND) {
		pthread_mutex_lock(&lock);
		while (!signalled)
			pthread_cond_wait(&changed, &lock);
		signalled = 0;
		pthread_mutex_unlock(&lock);
	} else if (way == MUTEX) {
		pthread_mutex_lock(&held);
		pthread_mutex_unlock(&held);
	} else if (way == SEM) {
		sem_wait(&semaphore);
	} else {
		expect(read(bytes[0], &byte, 1) == 1, "read");
	}
	atomic_fetch_add(&done[way], 1);
}

static void middle(int way)
{
	char room[256];

	memset(room, way, sizeof(room));
	innermost(way);
	__asm__ volatile("" : : "r"(room) : "memory");
}

static void *waiter(void *argument)
{
	const int way = (int)(long)argument;

	pthread_setname_np(pthread_self(), names[way]);
	for (int round = 0; round < rounds; round++) {
		/* The driver holds the mutex again before it says that the round has begun. */
		while (atomic_load(&tids[way]) != -1 - round)
			pause_ns(100000);
		atomic_store(&tids[way], (int)syscall(SYS_gettid));
		middle(way);
	}
	return NULL;
}

static void *sleeper(void *argument)
{
	pthread_setname_np(pthread_self(), "sleeper");
	for (int round = 0; round < rounds; round++)
		pause_ns(1000000);
	return argument;
}

/* True if the thread waits, by the kernel's word. */
static int is_waiting(int tid)
{
	char path[64], line[256] = "";
	FILE *file;
	char *end;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "r");
	expect(file != NULL, path);
	expect(fgets(line, sizeof(line), file) != NULL, path);
	fclose(file);
	end = strrchr(line, ')');
	return end && end[2] == 'S';
}

static int in_wait(int tid)
{
	char path[64], line[256] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	file = fopen(path, "r");
	if (!file)
		return 1;
	if (!fgets(line, sizeof(line), file))
		line[0] = 0;
	fclose(file);
	/* futex or read, but not the pause before. */
	return !strncmp(line, "202 ", 4) || !strncmp(line, "0 ", 2);
}

static void wake(int way)
{
	if (way == COND) {
		pthread_mutex_lock(&lock);
		signalled = 1;
		pthread_cond_signal(&changed);
		pthread_mutex_unlock(&lock);
	} else if (way == MUTEX) {
		pthread_mutex_unlock(&held);
	} else if (way == SEM) {
		sem_post(&semaphore);
	} else {
		expect(write(bytes[1], "x", 1) == 1, "write");
	}
}

static void wake_each(int round)
{
	for (int way = 0; way < WAITERS; way++) {
		wake(way);
		while (atomic_load(&done[way]) <= round)
			pause_ns(50000);
	}
}

static void *driver(void *argument)
{
	pthread_setname_np(pthread_self(), "driver");
	for (int round = 0; round < rounds; round++) {
		pthread_mutex_lock(&held);
		for (int way = 0; way < WAITERS; way++)
			atomic_store(&tids[way], -1 - round);
		for (int way = 0; way < WAITERS; way++) {
			int tid;

			while ((tid = atomic_load(&tids[way])) < 0 || !is_waiting(tid) ||
			       !in_wait(tid))
				pause_ns(100000);
		}
		wake_each(round);
	}
	return argument;
}

/* A request's way. */

static void *worker(void *argument)
{
	pthread_setname_np(pthread_self(), "worker");
	pthread_mutex_lock(&work_lock);
	for (int round = 0; round < rounds; round++) {
		while (asked == answered)
			pthread_cond_wait(&work_come, &work_lock);
		pthread_mutex_unlock(&work_lock);
		pause_ns(2000000);
		pthread_mutex_lock(&work_lock);
		answered++;
		pthread_cond_signal(&work_done);
	}
	pthread_mutex_unlock(&work_lock);
	return argument;
}

static void hand_over(void)
{
	pthread_mutex_lock(&work_lock);
	asked++;
	pthread_cond_signal(&work_come);
	while (answered != asked)
		pthread_cond_wait(&work_done, &work_lock);
	pthread_mutex_unlock(&work_lock);
}

static void *front(void *argument)
{
	char byte;

	pthread_setname_np(pthread_self(), "front");
	while (read(requests[0], &byte, 1) == 1) {
		hand_over();
		expect(write(answers[1], &byte, 1) == 1, "answer");
	}
	return argument;
}

static void *client(void *argument)
{
	char byte = 'r';

	pthread_setname_np(pthread_self(), "client");
	for (int round = 0; round < rounds; round++) {
		pause_ns(300000);
		expect(write(requests[1], &byte, 1) == 1, "request");
		expect(read(answers[0], &byte, 1) == 1, "answer");
	}
	close(requests[1]);
	return argument;
}

static void run_together(void *(*const bodies[])(void *), int count)
{
	pthread_t threads[8];

	for (int at = 0; at < count; at++)
		expect(!pthread_create(&threads[at], NULL, bodies[at], (void *)(long)at),
		       "pthread_create");
	for (int at = 0; at < count; at++)
		pthread_join(threads[at], NULL);
}

int main(int argc, char **argv)
{
	static void *(*const waits[])(void *) = { waiter, waiter, waiter,
						  waiter, driver, sleeper };
	static void *(*const path[])(void *) = { worker, front, client };
	char line[16];

	rounds = argc > 1 ? atoi(argv[1]) : 20;
	expect(!sem_init(&semaphore, 0, 0) && !pipe(bytes) && !pipe(requests) && !pipe(answers),
	       "setting up");
	printf("ready %d\n", getpid());
	fflush(stdout);
	expect(fgets(line, sizeof(line), stdin) != NULL, "stdin");
	run_together(waits, 6);
	run_together(path, 3);
	printf("{\"rounds\":%d,\"cond\":%d,\"mutex\":%d,\"sem\":%d,\"reader\":%d,"
	       "\"requests\":%d}\n",
	       rounds, done[COND], done[MUTEX], done[SEM], done[READER], answered);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}

// A pipeline with a known truth: users wait until the last of several stages has reached the value
// they wait for. Every event is marked twice, by a static note in the format of
// FOLLY_SDT(wakeup, ...) and by a plain function, and logged with the monotonic clock right before.
//
//   pipeline LOG [users=N] [stages=N] [waits=N] [skip=%] [past=%] [spurious=%] [churn=N]
//                [delay_us=N] [batch=N] [io=FILE] [seed=N] [seconds=N] [rate=N]
//
// With seconds=, users wait for as long as that, and nothing is logged. With rate=, they wait so
// often a second, all together, as far as the machine can.
//
// Prints "ready" and waits for a line on standard input; does its waits, prints "done", writes LOG
// ("<ns> <tid> <what> <value> <after>" a line: s start, e end, 1..N stage, w spurious wake-up;
// after: ns until the marks were behind), and waits for the end of standard input.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// A note as SystemTap's headers and folly's write it: one nop, and an entry in .note.stapsdt with
// where it is, provider, name, and size and place of the argument. As in folly, the size is printed
// by %n, so that it is negative and the argument counts as signed.
#define NOTE(name, value)                                                                         \
	__asm__ volatile(                                                                         \
		"990: nop\n"                                                                      \
		".pushsection .note.stapsdt,\"\",\"note\"\n"                                      \
		".balign 4\n"                                                                     \
		".4byte 992f-991f, 994f-993f, 3\n"                                                \
		"991: .asciz \"stapsdt\"\n"                                                       \
		"992: .balign 4\n"                                                                \
		"993: .8byte 990b\n"                                                              \
		".8byte _.stapsdt.base\n"                                                         \
		".8byte 0\n"                                                                      \
		".asciz \"wakeup\"\n"                                                             \
		".asciz \"" name "\"\n"                                                           \
		".asciz \"%n0@%1\"\n"                                                             \
		"994: .balign 4\n"                                                                \
		".popsection\n"                                                                   \
		".ifndef _.stapsdt.base\n"                                                        \
		".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"           \
		".weak _.stapsdt.base\n"                                                          \
		".hidden _.stapsdt.base\n"                                                        \
		"_.stapsdt.base: .space 1\n"                                                      \
		".size _.stapsdt.base, 1\n"                                                       \
		".popsection\n"                                                                   \
		".endif\n" ::"n"(sizeof(value)),                                                  \
		"nor"(value))

#define MARK __attribute__((noinline, visibility("default")))

enum { STAGES_MAX = 5 };

struct entry {
	uint64_t ns, value, after;
	uint32_t tid;
	char what;
};

static struct entry *entries;
static size_t entries_max;
static atomic_size_t entries_used;

static long users = 4, stages = 3, waits = 500, skip = 0, past = 0, spurious = 0, churn = 1;
static long delay_us = 100, batch = 1000000, seed = 1, seconds = 0, rate = 0;
static const char *io;

static atomic_uint_fast64_t lsn = 1;
static atomic_uint_fast64_t done[STAGES_MAX + 1]; // what each stage has reached
static atomic_int over;
static pthread_mutex_t mutex[STAGES_MAX + 1];
static pthread_cond_t cond[STAGES_MAX + 1]; // stage i sleeps on i, users on the last

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static __thread uint32_t my_tid;

static struct entry nowhere;

static struct entry *note(char what, uint64_t value)
{
	if (seconds)
		return &nowhere;
	size_t at = atomic_fetch_add(&entries_used, 1);
	if (at >= entries_max)
		abort();
	entries[at] = (struct entry){0, value, 0, my_tid, what};
	entries[at].ns = now();
	return &entries[at];
}

// The marks are behind: whoever was held up between them knows.
static void noted(struct entry *entry)
{
	if (!seconds)
		entry->after = now() - entry->ns;
}

MARK void wait_begins(uint64_t value)
{
	__asm__ volatile("" ::"r"(value) : "memory");
}

MARK void wait_ends(uint64_t value)
{
	__asm__ volatile("" ::"r"(value) : "memory");
}

MARK void stage_reached_1(uint64_t value)
{
	__asm__ volatile("" ::"r"(value) : "memory");
}

MARK void stage_reached_2(uint64_t value)
{
	__asm__ volatile("" ::"r"(value) : "memory");
}

MARK void stage_reached_3(uint64_t value)
{
	__asm__ volatile("" ::"r"(value) : "memory");
}

MARK void stage_reached_4(uint64_t value)
{
	__asm__ volatile("" ::"r"(value) : "memory");
}

MARK void stage_reached_5(uint64_t value)
{
	__asm__ volatile("" ::"r"(value) : "memory");
}

static void reached(long stage, uint64_t value)
{
	struct entry *entry = note((char)('1' + stage), value);
	switch (stage) {
	case 0: NOTE("1", value); stage_reached_1(value); break;
	case 1: NOTE("2", value); stage_reached_2(value); break;
	case 2: NOTE("3", value); stage_reached_3(value); break;
	case 3: NOTE("4", value); stage_reached_4(value); break;
	default: NOTE("5", value); stage_reached_5(value); break;
	}
	noted(entry);
}

static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static int chance(uint64_t *state, long percent)
{
	return (long)(draw(state) % 100) < percent;
}

static void spin_us(uint64_t us)
{
	uint64_t end = now() + us * 1000;
	while (now() < end)
		__builtin_ia32_pause();
}

static void sleep_us(uint64_t us)
{
	struct timespec t = {0, (long)us * 1000};
	while (nanosleep(&t, &t) && errno == EINTR) {
	}
}

static void wake(long whom)
{
	pthread_mutex_lock(&mutex[whom]);
	pthread_cond_broadcast(&cond[whom]);
	pthread_mutex_unlock(&mutex[whom]);
}

// The first stage takes what was asked for, every other what the one before has reached.
static uint64_t input(long stage)
{
	return stage ? atomic_load(&done[stage - 1]) : atomic_load(&lsn) - 1;
}

static void work(long stage, uint64_t *state, int file)
{
	uint64_t us = (uint64_t)delay_us;
	if (stage == 1 && file >= 0) {
		if (pwrite(file, "redo", 4, 0) != 4 || fdatasync(file))
			abort();
	} else if (stage % 2) {
		sleep_us(us / 2 + draw(state) % (us + 1));
	} else {
		spin_us(us / 2 + draw(state) % (us / 2 + 1));
	}
}

static void *stage_thread(void *argument)
{
	long stage = (long)argument;
	uint64_t state = (uint64_t)(seed * 1000 + stage);
	char name[] = "stage-1";
	name[6] = (char)('1' + stage);
	prctl(PR_SET_NAME, name);
	my_tid = (uint32_t)syscall(SYS_gettid);
	int file = io && stage == 1 ? open(io, O_WRONLY | O_CREAT, 0600) : -1;
	while (!atomic_load(&over)) {
		uint64_t at = atomic_load(&done[stage]);
		pthread_mutex_lock(&mutex[stage]);
		while (input(stage) <= at && !atomic_load(&over))
			pthread_cond_wait(&cond[stage], &mutex[stage]);
		uint64_t target = input(stage);
		pthread_mutex_unlock(&mutex[stage]);
		if (target <= at)
			break;
		if (target > at + (uint64_t)batch)
			target = at + (uint64_t)batch;
		int is_last = stage == stages - 1;
		// Value 1 comes first, by which all stages are known; it is never skipped.
		int skipped = !is_last && at > 0 && chance(&state, skip);
		if (!skipped) {
			work(stage, &state, file);
			reached(stage, target);
		}
		if (is_last && chance(&state, spurious)) {
			note('w', target);
			wake(stages);
			spin_us(20);
		}
		atomic_store(&done[stage], target);
		wake(stage + 1);
	}
	if (file >= 0)
		close(file);
	return 0;
}

static void wait_for(uint64_t value)
{
	long last = stages - 1;
	struct entry *start = note('s', value);
	NOTE("wait_start", value);
	wait_begins(value);
	noted(start);
	pthread_mutex_lock(&mutex[stages]);
	while (atomic_load(&done[last]) < value)
		pthread_cond_wait(&cond[stages], &mutex[stages]);
	pthread_mutex_unlock(&mutex[stages]);
	struct entry *end = note('e', value);
	NOTE("wait_end", value);
	wait_ends(value);
	noted(end);
}

static void *user_thread(void *argument)
{
	long user = (long)argument;
	uint64_t state = (uint64_t)(seed * 100000 + user);
	prctl(PR_SET_NAME, "user");
	my_tid = (uint32_t)syscall(SYS_gettid);
	uint64_t end = now() + (uint64_t)seconds * 1000000000 / (uint64_t)churn;
	for (long i = 0; seconds ? now() < end : i < waits / churn; i++) {
		if (rate)
			sleep_us((uint64_t)(users * 1000000 / rate));
		uint64_t value = atomic_load(&done[stages - 1]);
		if (!chance(&state, past)) {
			value = atomic_fetch_add(&lsn, 1);
			wake(0);
		}
		wait_for(value);
	}
	return 0;
}

static void line(void)
{
	int byte;
	while ((byte = getchar()) != EOF && byte != '\n') {
	}
}

static int write_log(const char *path)
{
	FILE *log = fopen(path, "w");
	if (!log)
		return 1;
	for (size_t i = 0; i < atomic_load(&entries_used); i++) {
		struct entry *e = &entries[i];
		fprintf(log, "%llu %u %c %llu %llu\n", (unsigned long long)e->ns, e->tid, e->what,
			(unsigned long long)e->value, (unsigned long long)e->after);
	}
	return fclose(log);
}

static void options(int count, char **words)
{
	struct {
		const char *name;
		long *value;
	} known[] = {{"users", &users},	  {"stages", &stages}, {"waits", &waits},
		     {"skip", &skip},	  {"past", &past},     {"spurious", &spurious},
		     {"churn", &churn},	  {"batch", &batch},   {"delay_us", &delay_us},
		     {"seed", &seed},	  {"seconds", &seconds}, {"rate", &rate}};
	for (int i = 0; i < count; i++) {
		char *value = strchr(words[i], '=');
		if (!value)
			exit(2);
		*value++ = 0;
		if (!strcmp(words[i], "io"))
			io = value;
		for (size_t k = 0; k < sizeof known / sizeof *known; k++)
			if (!strcmp(words[i], known[k].name))
				*known[k].value = atol(value);
	}
	if (stages < 1 || stages > STAGES_MAX || users < 1 || churn < 1)
		exit(2);
}

int main(int count, char **words)
{
	if (count < 2)
		return 2;
	options(count - 2, words + 2);
	if (seconds)
		waits = 0;
	entries_max = (size_t)(users * waits) * (size_t)(stages + 4) + 1000;
	entries = calloc(entries_max, sizeof *entries);
	if (!entries)
		return 1;
	pthread_t stage[STAGES_MAX], *user = calloc((size_t)users, sizeof *user);
	for (long i = 0; i <= stages; i++) {
		pthread_mutex_init(&mutex[i], 0);
		pthread_cond_init(&cond[i], 0);
	}
	for (long i = 0; i < stages; i++)
		pthread_create(&stage[i], 0, stage_thread, (void *)i);
	puts("ready");
	fflush(stdout);
	line();
	// Every stage reaches 1 before anybody waits.
	atomic_store(&lsn, 2);
	wake(0);
	while (atomic_load(&done[stages - 1]) < 1)
		sleep_us(100);
	for (long generation = 0; generation < churn; generation++) {
		for (long i = 0; i < users; i++)
			pthread_create(&user[i], 0, user_thread, (void *)(generation * users + i));
		for (long i = 0; i < users; i++)
			pthread_join(user[i], 0);
	}
	atomic_store(&over, 1);
	for (long i = 0; i < stages; i++) {
		wake(i);
		pthread_join(stage[i], 0);
	}
	if (write_log(words[1]))
		return 1;
	puts("done");
	fflush(stdout);
	line();
	return 0;
}

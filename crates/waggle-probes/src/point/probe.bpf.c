// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* A thread passes a point: a function's entry or return, an instruction, a static probe, a store to
 * a watched word, a tracepoint. One program for each way to get here; what is read is data. */
#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <asm/ptrace.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "../bpf/count.h"
#include "../bpf/register.h"
#include "event.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct point_config config = {};

/* Name the types to the generator of Rust types. */
const volatile struct point_stack_record record_shape = {};
const volatile enum trace_kind kind_shape = TRACE_POINT;
const volatile enum point_limit limit_shape = POINT_SPECS;
const volatile enum point_base base_shape = BASE_ZERO;
const volatile enum point_stack stack_shape = STACK_NONE;
const volatile enum point_comparison comparison_shape = COMPARE_EQUAL;
const volatile enum point_follow follow_shape = POINT_FOLLOW_AS_IT_IS;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, POINT_SPECS);
	__type(key, __u32);
	__type(value, struct point_spec);
} specs SEC(".maps");

/* By tgid: where the process has the binary's address 0. Not asked if `config` knows. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, POINT_PROCESSES);
	__type(key, __u32);
	__type(value, __u64);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct point_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/* By tid: enum trace_follow. The least recently used goes where there is no room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TRACE_THREADS);
	__type(key, __u32);
	__type(value, __u32);
} followed SEC(".maps");

/* The kernel's types, as far as they are looked at; where a field really is, libbpf finds out. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct thread_struct {
	unsigned long fsbase;
};

struct task_struct {
	int pid;
	int tgid;
	__u64 start_boottime;
	struct thread_struct thread;
};

/* Before Linux 5.5. */
struct task_struct___old {
	__u64 real_start_time;
};
#pragma clang attribute pop

static __always_inline __u64 began(const struct task_struct *task)
{
	if (bpf_core_field_exists(task->start_boottime))
		return task->start_boottime;
	return ((const struct task_struct___old *)task)->real_start_time;
}

static __always_inline __u64 narrow(__u64 value, __u8 bytes, int is_signed)
{
	switch (bytes) {
	case 1:
		return is_signed ? (__u64)(__s64)(__s8)value : (__u8)value;
	case 2:
		return is_signed ? (__u64)(__s64)(__s16)value : (__u16)value;
	case 4:
		return is_signed ? (__u64)(__s64)(__s32)value : (__u32)value;
	}
	return value;
}

/* What is known of the moment: where a value may come from. */
struct moment {
	const void *regs; /* struct pt_regs */
	const void *fields; /* a tracepoint's record */
	__u64 image;
	struct task_struct *task;
};

static __always_inline int from_user(__u64 *value, __u32 bytes, __u64 address)
{
	*value = 0;
	switch (bytes) {
	case 1:
		return bpf_probe_read_user(value, 1, (void *)address);
	case 2:
		return bpf_probe_read_user(value, 2, (void *)address);
	case 4:
		return bpf_probe_read_user(value, 4, (void *)address);
	}
	return bpf_probe_read_user(value, 8, (void *)address);
}

static __always_inline int from_fields(__u64 *value, __u32 bytes, const void *at)
{
	*value = 0;
	switch (bytes) {
	case 1:
		return bpf_probe_read_kernel(value, 1, at);
	case 2:
		return bpf_probe_read_kernel(value, 2, at);
	case 4:
		return bpf_probe_read_kernel(value, 4, at);
	}
	return bpf_probe_read_kernel(value, 8, at);
}

/* Reads a value; not 0 if its memory could not be read. A function of its own, so that the
 * verifier looks at it once. */
static __noinline int evaluate(const struct moment *moment, const struct point_value *wanted,
			       __u64 *value)
{
	__u64 sum = 0;
	int failed = 0;

	if (!moment || !wanted || !value)
		return 1;
	switch (wanted->base) {
	case BASE_REGISTER:
		sum = register_of(moment->regs, wanted->reg);
		break;
	case BASE_INDEXED:
		sum = register_of(moment->regs, wanted->reg) +
		      register_of(moment->regs, wanted->index) * wanted->scale;
		break;
	case BASE_IMAGE:
		sum = moment->image;
		break;
	case BASE_THREAD:
		sum = moment->task->thread.fsbase;
		break;
	case BASE_FIELD:
		if (moment->fields) {
			failed |= from_fields(&sum, wanted->field_bytes,
					      moment->fields + wanted->field);
			sum = narrow(sum, wanted->field_bytes, wanted->field_signed);
		}
		break;
	}
	for (int i = 0; i < POINT_STEPS; i++) {
		const struct point_step *step = &wanted->step[i];

		if (i >= wanted->steps)
			break;
		sum += step->add;
		if (step->load) {
			failed |= from_user(&sum, step->load, sum);
			sum = narrow(sum, step->load, step->is_signed);
		}
	}
	*value = narrow(sum, wanted->keep, wanted->keep_signed);
	return failed;
}

/* The same; nothing may be asked for, as at most places for the second value. */
static __always_inline int evaluate_any(const struct moment *moment,
					const struct point_value *wanted, __u64 *value)
{
	if (wanted->base != BASE_ZERO || wanted->steps)
		return evaluate(moment, wanted, value);
	*value = 0;
	return 0;
}

/* Whether a test holds; -1: its value cannot be read. */
static __always_inline int holds(const struct moment *moment, const struct point_test *test)
{
	const __u64 with = test->with + (test->in_image ? moment->image : 0);
	__u64 value = 0;

	if (evaluate(moment, &test->value, &value))
		return -1;
	switch (test->comparison) {
	case COMPARE_EQUAL:
		return value == with;
	case COMPARE_NOT_EQUAL:
		return value != with;
	case COMPARE_LESS:
		return value < with;
	}
	return value >= with;
}

static __always_inline void fill(struct point_record *record, const struct moment *moment,
				 const struct point_spec *spec, __u64 now, __u32 lost)
{
	const struct task_struct *task = moment->task;

	record->head.ns = now;
	record->head.began_ns = began(task);
	record->head.tid = task->pid;
	record->head.tgid = task->tgid;
	record->head.kind = TRACE_POINT;
	record->head.cpu = bpf_get_smp_processor_id();
	record->head.lost = lost;
	record->point = spec->point;
	record->frames = 0;
	record->unread = 0;
	record->top = 0;
	if (evaluate_any(moment, &spec->value, &record->value))
		record->unread |= 1;
	if (evaluate_any(moment, &spec->second, &record->second))
		record->unread |= 2;
}

static __always_inline void with_stack(void *ctx, const struct moment *moment,
				       const struct point_spec *spec, __u64 now,
				       struct point_counters *count)
{
	struct point_stack_record *record;
	long bytes;

	record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (!record) {
		COUNT(count->lost);
		return;
	}
	fill(&record->record, moment, spec, now, count->lost);
	bytes = bpf_get_stack(ctx, record->frames, sizeof(record->frames), BPF_F_USER_STACK);
	if (bytes > 0)
		record->record.frames = bytes / sizeof(record->frames[0]);
	if (spec->stack & STACK_TOP) {
		const __u64 sp = register_of(moment->regs, REGISTER_SP);

		bpf_probe_read_user(&record->record.top, sizeof(record->record.top), (void *)sp);
	}
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* Notes whether the thread, which passes the place, is followed from here on. Only the thread
 * itself writes its word. */
static __always_inline void follow(__u8 how, __u32 tid, __u32 *bits)
{
	__u32 made = FOLLOW_WAIT;

	if (how == POINT_FOLLOW_ENDS) {
		if (bits)
			*bits &= ~FOLLOW_WAIT;
		return;
	}
	if (how == POINT_FOLLOW_STAGE) {
		/* Who waits itself is followed for as long as that takes. */
		if (bits && *bits)
			return;
		made = FOLLOW_ALWAYS;
	}
	if (bits)
		*bits |= made;
	else
		bpf_map_update_elem(&followed, &tid, &made, BPF_ANY);
}

/* Whether the process is watched, and where it has the binary's address 0. */
static __always_inline int is_watched(__u32 tgid, __u64 *image)
{
	const __u64 *found;

	if (config.tgid) {
		*image = config.image;
		return tgid == config.tgid;
	}
	found = bpf_map_lookup_elem(&processes, &tgid);
	if (!found)
		return 0;
	*image = *found;
	return 1;
}

/* A thread came by, by whatever way. */
static __always_inline int passed(void *ctx, const void *regs, const void *fields, __u64 now,
				  __u32 number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct moment moment = { .regs = regs, .fields = fields, .task = task };
	const __u32 tid = task->pid;
	struct point_counters *count;
	struct point_record *record;
	struct point_spec *spec;
	__u32 *bits = NULL;
	__u32 zero = 0;

	if (!is_watched(task->tgid, &moment.image))
		return 0;
	spec = bpf_map_lookup_elem(&specs, &number);
	count = bpf_map_lookup_elem(&counters, &zero);
	if (!spec || !count)
		return 0;
	COUNT(count->hits[number & (POINT_SPECS - 1)]);
	if (spec->follow != POINT_FOLLOW_AS_IT_IS) {
		bits = bpf_map_lookup_elem(&followed, &tid);
		if (spec->follow == POINT_FOLLOW_ENDS && !(bits && *bits & FOLLOW_WAIT))
			return 0;
	}
	for (int i = 0; i < POINT_TESTS; i++) {
		const int held = i < spec->tests ? holds(&moment, &spec->test[i]) : 1;

		/* Whether this passing counts cannot be told, so it is lost. */
		if (held < 0)
			COUNT(count->lost);
		if (held <= 0)
			return 0;
	}
	if (spec->follow != POINT_FOLLOW_AS_IT_IS)
		follow(spec->follow, tid, bits);
	if (spec->stack) {
		with_stack(ctx, &moment, spec, now, count);
		return 0;
	}
	record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (!record) {
		COUNT(count->lost);
		return 0;
	}
	fill(record, &moment, spec, now, count->lost);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

/* A function's entry, an instruction, a static probe. */
SEC("uprobe")
int point_at(struct pt_regs *ctx)
{
	const __u64 now = bpf_ktime_get_ns();

	return passed(ctx, ctx, NULL, now, bpf_get_attach_cookie(ctx));
}

SEC("uretprobe")
int point_return(struct pt_regs *ctx)
{
	const __u64 now = bpf_ktime_get_ns();

	return passed(ctx, ctx, NULL, now, bpf_get_attach_cookie(ctx));
}

/* The store has been carried out when the processor tells of it. */
SEC("perf_event")
int point_watch(struct bpf_perf_event_data *ctx)
{
	const __u64 now = bpf_ktime_get_ns();
	const void *regs = (const void *)bpf_task_pt_regs(bpf_get_current_task_btf());

	return passed(ctx, regs, NULL, now, bpf_get_attach_cookie(ctx));
}

SEC("tracepoint")
int point_trace(void *ctx)
{
	const __u64 now = bpf_ktime_get_ns();
	const void *regs = (const void *)bpf_task_pt_regs(bpf_get_current_task_btf());

	return passed(ctx, regs, ctx, now, bpf_get_attach_cookie(ctx));
}

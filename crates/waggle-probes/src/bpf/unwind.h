/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which calls is a thread in? Walked in the kernel: by rows of .eh_frame where a file has them in
 * the map (the C library, in which threads wait, keeps no frame pointers), and by frame pointers
 * elsewhere. Each stack is sent once; afterwards its number stands for it.
 *
 * A stack's number is a hash of its addresses and the process, so that it needs no table that may
 * be full or may give one stack's number to another. */
#ifndef WAGGLE_UNWIND_H
#define WAGGLE_UNWIND_H

#include "trace.h"

/* Most calls in a stack; a power of two. */
#define UNWIND_FRAMES 128
/* Most mapped pieces of code in a process. */
#define UNWIND_AREAS 64
/* Stacks that are known to be sent. Beyond, they are sent again. */
#define UNWIND_SENT 65536

/* How the caller is found; of symbols::unwind::Rule. */
enum unwind_rule {
	UNWIND_CHAIN,
	UNWIND_STACK,
	UNWIND_FRAME,
	UNWIND_STUB,
	UNWIND_SIGNAL,
	UNWIND_END,
	UNWIND_UNKNOWN,
};

struct unwind_row {
	unsigned int address; /* the first, in the file's own address space */
	int frame_end; /* bytes from the register */
	short saved_frame_pointer; /* bytes from the frame's end; 0: still in its register */
	unsigned short rule; /* enum unwind_rule */
};

/* A mapped piece of code. */
struct unwind_area {
	unsigned long long start, end;
	unsigned long long bias; /* from the file's addresses to the process's */
	unsigned int first, rows; /* of the map unwind_rows; none: by frame pointers */
};

/* In `rows`: the file keeps frame pointers, so that its rows are needed only for the call that was
 * interrupted, which may not have made its frame yet, or not any more. */
#define UNWIND_INTERRUPTED (1u << 31)

struct unwind_process {
	unsigned int areas, spare;
	struct unwind_area area[UNWIND_AREAS];
};

/* Why a stack ends where it ends. */
enum unwind_end {
	UNWIND_WHOLE, /* where the thread began */
	UNWIND_TOO_DEEP, /* after UNWIND_FRAMES calls */
	UNWIND_LOST, /* the next frame could not be found or read */
};

/* A record of kind TRACE_STACK; only `count` addresses are sent. */
struct unwind_stack {
	struct trace_head head;
	unsigned long long number;
	unsigned int count;
	unsigned int end; /* enum unwind_end */
	unsigned long long frames[UNWIND_FRAMES]; /* innermost first */
};

struct unwind_counters {
	unsigned long long stacks; /* walked */
	unsigned long long frames;
	unsigned long long cut; /* that do not reach the thread's beginning */
	unsigned long long unsent; /* found no room in the ring buffer; tried again */
};

#ifdef WAGGLE_UNWIND_PROGRAMS

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 262144);
	__type(key, __u32);
	__type(value, struct unwind_row);
} unwind_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct unwind_process);
} unwind_processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, UNWIND_SENT);
	__type(key, __u64);
	__type(value, __u32);
} unwind_sent SEC(".maps");

/* What a program that may be interrupted by another works on. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, UNWIND_PROGRAMS);
	__type(key, __u32);
	__type(value, struct unwind_stack);
} unwind_scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct unwind_counters);
} unwind_counters SEC(".maps");

struct unwind_walk {
	__u64 ip, sp, bp;
	__u64 number;
	struct unwind_process *process;
	struct unwind_stack *stack;
	__u32 count;
	__u32 end;
	__u32 area;
	__u32 called; /* the address is that of a call, not of an interruption */
};

/* A frame pointer more than this above the stack pointer points at no frame. */
#define UNWIND_FRAME_MAX (8 << 20)
/* So that a stack's last rows are found in a table of up to 2^UNWIND_SEARCH. */
#define UNWIND_SEARCH 21
/* Where the kernel puts the registers of interrupted code above the stack pointer. */
#define UNWIND_SIGNAL_BP 120
#define UNWIND_SIGNAL_SP 160

/* Loops are the kernel's own (bpf_loop): the verifier looks at such a body once only. */

static long unwind_area_step(__u32 at, struct unwind_walk *walk)
{
	struct unwind_process *process = walk->process;

	if (at >= UNWIND_AREAS || at >= process->areas)
		return 1;
	if (walk->ip < process->area[at].start || walk->ip >= process->area[at].end)
		return 0;
	walk->area = at;
	return 1;
}

/* The mapped piece of code that the walk is in; NULL if it is not known. */
static __always_inline struct unwind_area *unwind_area_of(struct unwind_walk *walk)
{
	struct unwind_process *process = walk->process;
	__u32 at = walk->area;

	if (at < UNWIND_AREAS && walk->ip >= process->area[at].start &&
	    walk->ip < process->area[at].end)
		return &process->area[at];
	walk->area = UNWIND_AREAS;
	bpf_loop(UNWIND_AREAS, unwind_area_step, walk, 0);
	at = walk->area;
	return at < UNWIND_AREAS ? &process->area[at] : NULL;
}

struct unwind_search {
	__u32 low, high;
	__u32 address;
	__u32 found; /* the row's number and 1; 0: none */
};

static long unwind_search_step(__u32 turn, struct unwind_search *search)
{
	const struct unwind_row *row;
	__u32 middle;

	if (search->low >= search->high)
		return 1;
	middle = search->low + (search->high - search->low) / 2;
	row = bpf_map_lookup_elem(&unwind_rows, &middle);
	if (!row)
		return 1;
	if (row->address <= search->address)
		search->low = search->found = middle + 1;
	else
		search->high = middle;
	return 0;
}

/* The row that says how the caller is found from `ip`; NULL if there is none. */
static __always_inline struct unwind_row *unwind_row_of(struct unwind_walk *walk, __u64 ip)
{
	struct unwind_area *area = unwind_area_of(walk);
	struct unwind_search search = {};
	__u32 at, rows;

	if (!area || !area->rows || (walk->called && area->rows & UNWIND_INTERRUPTED))
		return NULL;
	rows = area->rows & ~UNWIND_INTERRUPTED;
	search.address = ip - area->bias;
	search.low = area->first;
	search.high = area->first + rows;
	bpf_loop(UNWIND_SEARCH, unwind_search_step, &search, 0);
	if (!search.found)
		return NULL;
	at = search.found - 1;
	return bpf_map_lookup_elem(&unwind_rows, &at);
}

/* By frame pointers. 0: go on. */
static __always_inline long unwind_by_chain(struct unwind_walk *walk)
{
	__u64 frame[2];

	if (!walk->bp) {
		walk->end = UNWIND_WHOLE;
		return 1;
	}
	if (walk->bp < walk->sp || walk->bp - walk->sp > UNWIND_FRAME_MAX || walk->bp & 7 ||
	    bpf_probe_read_user(frame, sizeof(frame), (void *)walk->bp))
		return 1;
	walk->sp = walk->bp + 16;
	walk->bp = frame[0];
	walk->ip = frame[1];
	return 0;
}

static __always_inline long unwind_signal(struct unwind_walk *walk)
{
	__u64 registers[2];

	if (bpf_probe_read_user(&walk->bp, 8, (void *)(walk->sp + UNWIND_SIGNAL_BP)) ||
	    bpf_probe_read_user(registers, sizeof(registers),
				(void *)(walk->sp + UNWIND_SIGNAL_SP)))
		return 1;
	walk->sp = registers[0];
	walk->called = 0;
	/* It was interrupted before this instruction: a caller's address is one behind. */
	walk->ip = registers[1] + 1;
	return 0;
}

static __always_inline long unwind_by_row(struct unwind_walk *walk, const struct unwind_row *row,
					  __u64 ip)
{
	__u64 end = walk->sp + row->frame_end;
	__u64 saved[1];

	if (row->rule == UNWIND_FRAME)
		end = walk->bp + row->frame_end;
	else if (row->rule == UNWIND_STUB)
		end = walk->sp + 8 + ((ip & 15) >= 11 ? 8 : 0);
	else if (row->rule != UNWIND_STACK)
		return 1;
	if (end <= walk->sp || bpf_probe_read_user(&walk->ip, 8, (void *)(end - 8)))
		return 1;
	if (row->saved_frame_pointer) {
		if (bpf_probe_read_user(saved, 8, (void *)(end + row->saved_frame_pointer)))
			return 1;
		walk->bp = saved[0];
	}
	walk->sp = end;
	return 0;
}

static long unwind_step(__u32 at, struct unwind_walk *walk)
{
	struct unwind_row *row;
	/* A caller's address is that of the instruction after the call, which may be another
	 * function's. */
	const __u64 ip = walk->ip - !!at;

	if (!walk->ip) {
		walk->end = UNWIND_WHOLE;
		return 1;
	}
	walk->stack->frames[at & (UNWIND_FRAMES - 1)] = walk->ip;
	walk->count = at + 1;
	walk->number = (walk->number ^ walk->ip) * 0x9e3779b97f4a7c15ull;
	walk->number ^= walk->number >> 29;
	row = unwind_row_of(walk, ip);
	walk->called = 1;
	if (!row || row->rule == UNWIND_CHAIN)
		return unwind_by_chain(walk);
	if (row->rule == UNWIND_END) {
		walk->end = UNWIND_WHOLE;
		return 1;
	}
	if (row->rule == UNWIND_SIGNAL)
		return unwind_signal(walk);
	return unwind_by_row(walk, row, ip);
}

/* The number of the stack that the current thread of a watched process is in, at these registers of
 * its own code; 0 if there is none. `events` is the ring buffer; `program` numbers the scratch. */
static __always_inline __u64 unwind(void *events, const struct trace_head *head, __u64 ip, __u64 sp,
				    __u64 bp, __u32 program)
{
	const __u32 zero = 0, tgid = head->tgid;
	struct unwind_walk walk = { .ip = ip, .sp = sp, .bp = bp };
	struct unwind_counters *count;
	__u64 length;

	walk.process = bpf_map_lookup_elem(&unwind_processes, &tgid);
	walk.stack = bpf_map_lookup_elem(&unwind_scratch, &program);
	count = bpf_map_lookup_elem(&unwind_counters, &zero);
	if (!walk.process || !walk.stack || !count)
		return 0;
	walk.number = tgid;
	walk.end = UNWIND_LOST;
	if (bpf_loop(UNWIND_FRAMES, unwind_step, &walk, 0) == UNWIND_FRAMES &&
	    walk.end == UNWIND_LOST)
		walk.end = UNWIND_TOO_DEEP;
	if (!walk.count)
		return 0;
	walk.number |= 1;
	count->stacks++;
	count->frames += walk.count;
	count->cut += walk.end != UNWIND_WHOLE;
	if (bpf_map_lookup_elem(&unwind_sent, &walk.number))
		return walk.number;
	walk.stack->head = *head;
	walk.stack->head.kind = TRACE_STACK;
	walk.stack->number = walk.number;
	walk.stack->count = walk.count;
	walk.stack->end = walk.end;
	length = walk.count;
	if (length > UNWIND_FRAMES)
		length = UNWIND_FRAMES;
	length = __builtin_offsetof(struct unwind_stack, frames) + 8 * length;
	if (bpf_ringbuf_output(events, walk.stack, length, BPF_RB_NO_WAKEUP))
		count->unsent++;
	else
		bpf_map_update_elem(&unwind_sent, &walk.number, &zero, BPF_ANY);
	return walk.number;
}

#endif
#endif

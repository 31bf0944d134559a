/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What does the kernel keep of a thread that the programs look at? Included by probe.bpf.c before
 * its maps. */
#ifndef WAGGLE_TIMELINE_TASK_H
#define WAGGLE_TIMELINE_TASK_H

/* The kernel's types, as far as they are looked at; where a field really is, libbpf finds out. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct inode {
	unsigned short i_mode;
};

struct file {
	struct inode *f_inode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	int pid;
	int tgid;
	unsigned int flags;
	void *stack;
	unsigned int __state;
	unsigned long long start_boottime;
	struct files_struct *files;
	char comm[TIMELINE_NAME];
};

/* Before Linux 5.14. */
struct task_struct___old {
	volatile long state;
};

/* Before Linux 5.5. */
struct task_struct___older {
	unsigned long long real_start_time;
};

struct pt_regs___user {
	unsigned long orig_ax;
	unsigned long di;
	unsigned long ip;
	unsigned long sp;
	unsigned long bp;
};
#pragma clang attribute pop

/* Of a thread's stack in the kernel, bytes. */
#define KERNEL_STACK 16384
#define TASK_ENDS 0x80
#define KERNEL_THREAD 0x00200000

#endif

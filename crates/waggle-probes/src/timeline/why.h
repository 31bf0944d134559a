/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Why does a thread leave its processor to wait? Its system call tells, or what the file is that it
 * reads or writes. Included by probe.bpf.c behind its maps. */
#ifndef WAGGLE_TIMELINE_WHY_H
#define WAGGLE_TIMELINE_WHY_H

/* Why a thread waits that waits for this file. */
static __always_inline __u16 why_of_file(const struct task_struct *task, __u32 number)
{
	struct files_struct *files = task->files;
	struct fdtable *table;
	struct file *file = NULL;

	if (!files)
		return WHY_OTHER;
	table = files->fdt;
	if (number >= table->max_fds)
		return WHY_OTHER;
	bpf_probe_read_kernel(&file, sizeof(file), table->fd + number);
	if (!file)
		return WHY_OTHER;
	file = bpf_core_cast(file, struct file);
	switch (file->f_inode->i_mode & S_IFMT) {
	case S_IFSOCK:
	case S_IFIFO:
		return WHY_NETWORK;
	case S_IFREG:
	case S_IFDIR:
	case S_IFBLK:
		return WHY_DISK;
	}
	return WHY_OTHER;
}

/* Why the current thread waits. */
static __always_inline __u16 why(const struct task_struct *task, const struct pt_regs___user *regs,
				 __u64 *address)
{
	const long call = regs->orig_ax;
	__u16 reason;

	if (call < 0)
		/* No system call: a page that has to be read. */
		return WHY_DISK;
	if (call >= TIMELINE_CALLS)
		return WHY_OTHER;
	reason = config.calls[call];
	if (reason == WHY_FUTEX)
		*address = regs->di;
	return reason == WHY_FILE ? why_of_file(task, regs->di) : reason;
}

#endif

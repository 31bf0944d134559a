/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What is in a register of the thread, by the number that the processor's instructions have for it?
 * Behind asm/ptrace.h. */
#ifndef WAGGLE_REGISTER_H
#define WAGGLE_REGISTER_H

#define REGISTER_SP 4

/* Each register is loaded by its own instruction: the compiler would merge the cases into one load
 * at a computed offset, which the verifier refuses on the context. */
#define REGISTER(number, field)                                                                    \
	case number:                                                                               \
		asm volatile("%[value] = *(u64 *)(%[in] + %[at])"                                  \
			     : [value] "=r"(value)                                                 \
			     : [in] "r"(regs),                                                     \
			       [at] "i"(__builtin_offsetof(struct pt_regs, field)));               \
		break

/* `regs` is the context, or what bpf_task_pt_regs() gives. */
static __always_inline __u64 register_of(const void *regs, __u32 number)
{
	__u64 value = 0;

	switch (number) {
	REGISTER(0, rax);
	REGISTER(1, rcx);
	REGISTER(2, rdx);
	REGISTER(3, rbx);
	REGISTER(REGISTER_SP, rsp);
	REGISTER(5, rbp);
	REGISTER(6, rsi);
	REGISTER(7, rdi);
	REGISTER(8, r8);
	REGISTER(9, r9);
	REGISTER(10, r10);
	REGISTER(11, r11);
	REGISTER(12, r12);
	REGISTER(13, r13);
	REGISTER(14, r14);
	REGISTER(15, r15);
	}
	return value;
}

#endif

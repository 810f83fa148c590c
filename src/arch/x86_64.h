/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARCH_X86_64_H
#define ARCH_X86_64_H

#define ARCH_NAME "x86_64"
#define ARCH_AUDIT AUDIT_ARCH_X86_64
#define ARCH_ELF_MACHINE EM_X86_64
#define ARCH_PAGE_MAX 4096
/* As on 32 bits, so that one structure serves both kinds of program. */
#define ARCH_EPOLL_PACKED __attribute__((packed))

static inline long arch_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

/*
 * The system call @nr, which makes a task. In the new one, on its own stack, it calls @fn(@arg) and
 * ends with the system call @nr_exit and what @fn returned.
 */
static inline long arch_clone(long nr, uint64_t a, uint64_t b, uint64_t c, int (*fn)(void *),
			      void *arg, long nr_exit)
{
	register long no_tid __asm__("r10") = 0;
	register long no_tls __asm__("r8") = 0;
	register int (*call)(void *) __asm__("r12") = fn;
	register void *call_arg __asm__("r13") = arg;
	register long call_exit __asm__("r14") = nr_exit;
	long ret;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "mov %%eax, %%edi\n\t"
			 "mov %%r14d, %%eax\n\t"
			 "syscall\n\t"
			 "hlt\n"
			 "1:"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(no_tid), "r"(no_tls), "r"(call),
			   "r"(call_arg), "r"(call_exit)
			 : "rcx", "r11", "memory");
	return ret;
}

static inline void arch_copy(void *dst, const void *src, size_t n)
{
	__asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(n) : : "memory");
}

static inline void arch_fill(void *dst, int c, size_t n)
{
	__asm__ volatile("rep stosb" : "+D"(dst), "+c"(n) : "a"(c) : "memory");
}

/* Calls @function with the initial stack pointer; @names are further labels, or nothing. */
#define ARCH_START(names, function)                                                                \
	__asm__(".globl _start\n" names "_start:\n"                                                \
		"	xor %ebp, %ebp\n"                                                                \
		"	mov %rsp, %rdi\n"                                                                \
		"	and $-16, %rsp\n"                                                                \
		"	call " function "\n"                                                       \
		"	hlt\n")

#endif

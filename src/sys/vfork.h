/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child that shares our memory until it executes something: its cost does not depend on how big
 * we are. It runs @fn(@arg) on a stack of its own while the calling thread is suspended.
 *
 * clone(2) instead of clone3(2), since common container filters refuse the latter, and every flag
 * needed here fits but one: into another control group only clone3 leads. Callers block all signals
 * first: the child shares our handlers' memory.
 */
#ifndef SYS_VFORK_H
#define SYS_VFORK_H

#include <asm/unistd_64.h>
#include <stddef.h>
#include <stdint.h>

#define VFORK_CLONE_VM 0x00000100
#define VFORK_CLONE_PIDFD 0x00001000
#define VFORK_CLONE_VFORK 0x00004000
#define VFORK_CLONE_INTO_CGROUP 0x200000000ull
#ifndef __NR_clone3
#define __NR_clone3 435
#endif

/* The same without the suspension: both run at once, in one memory. Returns a pid or -errno. */
static inline long clone_call(uint64_t flags, void *stack, size_t stack_size, int *ret_pidfd,
			      int (*fn)(void *), void *arg)
{
	uintptr_t top = ((uintptr_t)stack + stack_size) & ~(uintptr_t)15;
	register long no_tid __asm__("r10") = 0;
	register long no_tls __asm__("r8") = 0;
	register int (*call)(void *) __asm__("r12") = fn;
	register void *call_arg __asm__("r13") = arg;
	long ret;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "mov %%eax, %%edi\n\t"
			 "mov %[nr_exit], %%eax\n\t"
			 "syscall\n\t"
			 "hlt\n"
			 "1:"
			 : "=a"(ret)
			 : "a"((long)__NR_clone), "D"(VFORK_CLONE_VM | flags), "S"(top),
			   "d"(ret_pidfd), "r"(no_tid), "r"(no_tls), "r"(call),
			   "r"(call_arg), [nr_exit] "i"(__NR_exit_group)
			 : "rcx", "r11", "memory");
	return ret;
}

/* Returns the child's pid or -errno. The low byte of @flags is the signal at exit, 0 = none. */
static inline long vfork_call(uint64_t flags, void *stack, size_t stack_size, int *ret_pidfd,
			      int (*fn)(void *), void *arg)
{
	return clone_call(VFORK_CLONE_VFORK | flags, stack, stack_size, ret_pidfd, fn, arg);
}

/* The same, right into the control group whose directory @cgroup_fd is. No signal at exit. */
static inline long vfork_call_into(int cgroup_fd, uint64_t flags, void *stack, size_t stack_size,
				   int *ret_pidfd, int (*fn)(void *), void *arg)
{
	const struct { /* struct clone_args */
		uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
		uint64_t set_tid, set_tid_size, cgroup;
	} args = {
		.flags = VFORK_CLONE_VM | VFORK_CLONE_VFORK | VFORK_CLONE_INTO_CGROUP | flags,
		.pidfd = (uintptr_t)ret_pidfd,
		.stack = (uintptr_t)stack,
		.stack_size = stack_size & ~(size_t)15,
		.cgroup = (uint64_t)cgroup_fd,
	};
	register int (*call)(void *) __asm__("r12") = fn;
	register void *call_arg __asm__("r13") = arg;
	long ret;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "mov %%eax, %%edi\n\t"
			 "mov %[nr_exit], %%eax\n\t"
			 "syscall\n\t"
			 "hlt\n"
			 "1:"
			 : "=a"(ret)
			 : "a"((long)__NR_clone3), "D"(&args), "S"(sizeof(args)), "r"(call),
			   "r"(call_arg), [nr_exit] "i"(__NR_exit_group)
			 : "rcx", "r11", "memory");
	return ret;
}

#endif

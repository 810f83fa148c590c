/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children and threads that share our memory: their cost does not depend on how big we are. Each
 * runs @fn(@arg) on a stack of its own.
 *
 * clone(2) instead of clone3(2), since common container filters refuse the latter, and every flag
 * needed here fits but one: into another control group only clone3 leads. Callers of vfork_call()
 * block all signals first: the child shares our handlers' memory.
 */
#ifndef BARE_CLONE_H
#define BARE_CLONE_H

#include <asm/unistd.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"

#define VFORK_CLONE_VM 0x00000100
#define VFORK_CLONE_PIDFD 0x00001000
#define VFORK_CLONE_VFORK 0x00004000
#define VFORK_CLONE_INTO_CGROUP 0x200000000ull
/* FS, FILES, SIGHAND, THREAD, SYSVSEM */
#define CLONE_THREAD_FLAGS (VFORK_CLONE_VM | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000)
#ifndef __NR_clone3
#define __NR_clone3 435
#endif

static inline uint64_t clone_stack_top(void *stack, size_t stack_size)
{
	return ((uintptr_t)stack + stack_size) & ~(uintptr_t)15;
}

/* A child; both run at once, in one memory. Returns a pid or -errno. The low byte of @flags is the
 * signal at exit, 0 = none. */
static inline long clone_call(uint64_t flags, void *stack, size_t stack_size, int *ret_pidfd,
			      int (*fn)(void *), void *arg)
{
	return arch_clone(__NR_clone, VFORK_CLONE_VM | flags, clone_stack_top(stack, stack_size),
			  (uintptr_t)ret_pidfd, fn, arg, __NR_exit_group);
}

/* The same with the calling thread suspended until the child executes something or ends. */
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

	return arch_clone(__NR_clone3, (uintptr_t)&args, sizeof(args), 0, fn, arg, __NR_exit_group);
}

/* A thread of this process, which ends when @fn returns. */
static inline long clone_thread(void *stack, size_t stack_size, int (*fn)(void *), void *arg)
{
	return arch_clone(__NR_clone, CLONE_THREAD_FLAGS, clone_stack_top(stack, stack_size), 0, fn,
			  arg, __NR_exit);
}

#endif

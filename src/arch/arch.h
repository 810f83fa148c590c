/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that depends on the processor, but for the numbers of the system calls, which are in
 * <asm/unistd.h> and in seccomp/syscalls.tbl. Each architecture has a header with:
 *
 *	ARCH_NAME		as `uname -m` says it
 *	ARCH_AUDIT		what seccomp calls its system calls (needs <linux/audit.h>)
 *	ARCH_ELF_MACHINE	what its programs say of themselves (needs <elf.h>)
 *	ARCH_PAGE_MAX		a multiple of every page size that its kernels may have
 *	ARCH_EPOLL_PACKED	how the kernel lays out struct epoll_event
 *	arch_syscall()		a system call
 *	arch_clone()		a system call that makes a task, and what the task does
 *	arch_copy(), arch_fill() bytes, forwards
 *	ARCH_START()		the first instructions of a program without libc
 *
 * and own_init_NAME.s, the entry of the static command. No libc is needed for any of it.
 */
#ifndef ARCH_ARCH_H
#define ARCH_ARCH_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) && !defined(__ILP32__)
#include "arch/x86_64.h"
#elif defined(__aarch64__) && defined(__AARCH64EL__) && !defined(__ILP32__)
#include "arch/aarch64.h"
#else
#error "Cordon knows the system call conventions of x86_64 and aarch64 (little-endian) only"
#endif

#endif

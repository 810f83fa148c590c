/* SPDX-License-Identifier: Apache-2.0 */
/* The two other system call tables of an x86-64 kernel: ia32 by int 0x80, and x32. */
#include "probe.h"

static long ia32(long nr, long a, long b, long c)
{
	long ret;

	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(nr), "b"(a), "c"(b), "d"(c) : "memory");
	if (ret < 0 && ret > -4096) {
		errno = (int)-ret;
		return -1;
	}
	return ret;
}

static long ia32_getpid(void *arg)
{
	(void)arg;
	return ia32(20, 0, 0, 0);
}

/* io_uring_setup with a bad pointer: EFAULT would mean it is there. */
static long ia32_io_uring(void *arg)
{
	(void)arg;
	if (ia32(425, 1, 0, 0) < 0 && errno != EFAULT)
		return -1;
	return 0;
}

static long ia32_socketcall(void *arg)
{
	(void)arg;
	if (ia32(102, 1, 0, 0) < 0 && errno != EFAULT)
		return -1;
	return 0;
}

static long x32(long nr)
{
	return syscall(0x40000000 | nr);
}

static long x32_getpid(void *arg)
{
	(void)arg;
	return x32(SYS_getpid);
}

/* 520 is x32's own number for execve: its table has a range of its own above 512. */
static long x32_execve(void *arg)
{
	(void)arg;
	return x32(520);
}

/* The kernel looks at 32 bits of the number: this is keyctl. */
static long high_bits(void *arg)
{
	long ret;

	(void)arg;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(0x100000000L | SYS_keyctl), "D"(0L), "S"(0L), "d"(0L)
			 : "rcx", "r11", "memory");
	if (ret < 0) {
		errno = (int)-ret;
		return -1;
	}
	return 0;
}

int main(void)
{
	row_child("ia32-getpid", ia32_getpid, NULL);
	row_child("ia32-io-uring", ia32_io_uring, NULL);
	row_child("ia32-socketcall", ia32_socketcall, NULL);
	row_child("x32-getpid", x32_getpid, NULL);
	row_child("x32-execve", x32_execve, NULL);
	row_child("high-bits", high_bits, NULL);
	return 0;
}

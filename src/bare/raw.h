/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls without libc, for code that runs between clone and exec and for init.
 *
 * Each returns the kernel's answer: a value, or -errno. Nothing here touches errno, locks or the
 * heap. With CORDON_FAULT_INJECTION the Nth call through raw_call() fails with a chosen error, so
 * that a test can make every step of the set-up fail once.
 */
#ifndef BARE_RAW_H
#define BARE_RAW_H

#include "arch/arch.h"

#define raw_syscall arch_syscall

#ifdef CORDON_FAULT_INJECTION
/* Counts down on each call; the call that takes it from 1 to 0 fails. Defined by each program. */
extern long raw_fault_countdown;
extern long raw_fault_errno;

static inline long raw_call(long nr, long a, long b, long c, long d, long e, long f)
{
	if (raw_fault_countdown > 0 && --raw_fault_countdown == 0)
		return -raw_fault_errno;
	return raw_syscall(nr, a, b, c, d, e, f);
}
#else
#define raw_call raw_syscall
#endif

#define RAW_ARG(x) ((long)(x))
#define raw6(nr, a, b, c, d, e, f)                                                                 \
	raw_call(nr, RAW_ARG(a), RAW_ARG(b), RAW_ARG(c), RAW_ARG(d), RAW_ARG(e), RAW_ARG(f))
#define raw5(nr, a, b, c, d, e) raw6(nr, a, b, c, d, e, 0)
#define raw4(nr, a, b, c, d) raw6(nr, a, b, c, d, 0, 0)
#define raw3(nr, a, b, c) raw6(nr, a, b, c, 0, 0, 0)
#define raw2(nr, a, b) raw6(nr, a, b, 0, 0, 0, 0)
#define raw1(nr, a) raw6(nr, a, 0, 0, 0, 0, 0)
#define raw0(nr) raw6(nr, 0, 0, 0, 0, 0, 0)

#endif

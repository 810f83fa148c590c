/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARCH_AARCH64_H
#define ARCH_AARCH64_H

#define ARCH_NAME "aarch64"
#define ARCH_AUDIT AUDIT_ARCH_AARCH64
#define ARCH_ELF_MACHINE EM_AARCH64
#define ARCH_PAGE_MAX 65536 /* kernels have pages of 4, 16 or 64 KiB */
#define ARCH_EPOLL_PACKED

static inline long arch_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory", "cc");
	return x0;
}

/*
 * The system call @nr, which makes a task. In the new one, on its own stack, it calls @fn(@arg) and
 * ends with the system call @nr_exit and what @fn returned. Of clone()'s arguments the fourth and
 * the fifth are the other way round than on x86_64; here both are 0.
 */
static inline long arch_clone(long nr, uint64_t a, uint64_t b, uint64_t c, int (*fn)(void *),
			      void *arg, long nr_exit)
{
	register long x8 __asm__("x8") = nr;
	register uint64_t x0 __asm__("x0") = a;
	register uint64_t x1 __asm__("x1") = b;
	register uint64_t x2 __asm__("x2") = c;
	register long no_tls __asm__("x3") = 0;
	register long no_tid __asm__("x4") = 0;
	register int (*call)(void *) __asm__("x20") = fn;
	register void *call_arg __asm__("x21") = arg;
	register long call_exit __asm__("x22") = nr_exit;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "mov x30, xzr\n\t"
			 "mov x0, x21\n\t"
			 "blr x20\n\t"
			 "mov x8, x22\n\t"
			 "svc #0\n\t"
			 "brk #0\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(no_tls), "r"(no_tid), "r"(call),
			   "r"(call_arg), "r"(call_exit)
			 : "memory", "cc");
	return (long)x0;
}

/* Words as long as both sides allow it: there is no single instruction, and what is copied most,
 * plans and messages, is aligned. */
static inline void arch_copy(void *dst, const void *src, size_t n)
{
	uint8_t *d = dst;
	const uint8_t *s = src;

	if ((((uintptr_t)d | (uintptr_t)s) & (sizeof(uint64_t) - 1)) == 0)
		for (; n >= sizeof(uint64_t); n -= sizeof(uint64_t)) {
			*(uint64_t *)(void *)d = *(const uint64_t *)(const void *)s;
			d += sizeof(uint64_t);
			s += sizeof(uint64_t);
		}
	while (n-- > 0)
		*d++ = *s++;
}

static inline void arch_fill(void *dst, int c, size_t n)
{
	const uint64_t word = 0x0101010101010101u * (uint8_t)c;
	uint8_t *d = dst;

	if (((uintptr_t)d & (sizeof(uint64_t) - 1)) == 0)
		for (; n >= sizeof(uint64_t); n -= sizeof(uint64_t)) {
			*(uint64_t *)(void *)d = word;
			d += sizeof(uint64_t);
		}
	while (n-- > 0)
		*d++ = (uint8_t)c;
}

/* Calls @function with the initial stack pointer, which is aligned; @names are further labels, or
 * nothing. */
#define ARCH_START(names, function)                                                                \
	__asm__(".globl _start\n" names "_start:\n"                                                \
		"	hint #34\n" /* bti c */                                                    \
		"	mov x29, xzr\n"                                                                  \
		"	mov x30, xzr\n"                                                                  \
		"	mov x0, sp\n"                                                                    \
		"	bl " function "\n"                                                         \
		"	brk #0\n")

#endif

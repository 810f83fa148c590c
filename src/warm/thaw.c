/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first code of a process that is made from an image (frozen.h).
 *
 * Should: give it everything that is not in memory, and go on where it was frozen; or execute the
 * program itself, which then starts cold. Mustn't: use the C library, which has no thread yet.
 */
#include "warm/frozen.h"

#include <asm/unistd.h>
#include <elf.h>
#include <linux/errno.h>
#include <linux/mman.h>
#include <linux/prctl.h>

#include "bare/raw.h"

#define PROT_READ_WRITE 3
#define STACK_BYTES ((uint64_t)8 << 20)
#define STACK_BYTES_MAX ((uint64_t)256 << 20)
#define IS_TAKEN (-2)
#define GUARD_BYTES ((uint64_t)1 << 20)
#define NEAR ((uint64_t)16 << 20) /* the kernel's stack grows no further than this while we run */
#define KERNEL_SIGSET_BYTES 8
#define RSEQ_BYTES 32
#define RSEQ_SIGNATURE 0x53053053
#define RSEQ_NOT_REGISTERED (-2)
#define ARCH_SET_FS_NR 0x1002
#define RLIMIT_STACK_NR 3
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

struct frozen frozen;
struct frozen_hot frozen_hot[FROZEN_HOT_MAX] __attribute__((aligned(4096)));

__asm__(".text\n"
	".hidden frozen_save\n.globl frozen_save\n"
	"frozen_save:\n"
	"	mov %rbx, (%rdi)\n"
	"	mov %rbp, 8(%rdi)\n"
	"	mov %r12, 16(%rdi)\n"
	"	mov %r13, 24(%rdi)\n"
	"	mov %r14, 32(%rdi)\n"
	"	mov %r15, 40(%rdi)\n"
	"	lea 8(%rsp), %rax\n"
	"	mov %rax, 48(%rdi)\n"
	"	mov (%rsp), %rax\n"
	"	mov %rax, 56(%rdi)\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	".hidden frozen_resume\n.globl frozen_resume\n"
	"frozen_resume:\n"
	"	mov (%rdi), %rbx\n"
	"	mov 8(%rdi), %rbp\n"
	"	mov 16(%rdi), %r12\n"
	"	mov 24(%rdi), %r13\n"
	"	mov 32(%rdi), %r14\n"
	"	mov 40(%rdi), %r15\n"
	"	mov 48(%rdi), %rsp\n"
	"	mov %rsi, %rax\n"
	"	jmp *56(%rdi)\n"
	".hidden thaw_entry\n.globl thaw_entry\n"
	"thaw_entry:\n"
	"	xor %ebp, %ebp\n"
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call thaw_main\n"
	"	hlt\n");

void thaw_main(const uint64_t *stack) __attribute__((visibility("hidden"), used));

static const uint64_t *environment(const uint64_t *stack)
{
	return stack + stack[0] + 2;
}

/* Executes @path with what we were executed with. */
static void __attribute__((noreturn)) execute(const char *path, const uint64_t *stack)
{
	raw_syscall(__NR_execve, RAW_ARG(path), RAW_ARG(stack + 1), RAW_ARG(environment(stack)), 0,
		    0, 0);
	for (;;)
		raw_syscall(__NR_exit_group, 127, 0, 0, 0, 0, 0);
}

static void __attribute__((noreturn)) start_cold(const uint64_t *stack)
{
	execute(frozen.exe, stack);
}

static uint64_t auxiliary(const uint64_t *stack, uint64_t type)
{
	const uint64_t *v = environment(stack);

	while (*v)
		v++;
	for (v++; v[0]; v += 2)
		if (v[0] == type)
			return v[1];
	return 0;
}

static int overlap(uint64_t a, uint64_t a_end, uint64_t b, uint64_t b_end)
{
	return a < b_end && b < a_end;
}

/*
 * The kernel puts the new process's own stack and clock pages wherever there is room, which may be
 * where the old ones have to go. Executed again, it chooses another place.
 */
static void make_room(const uint64_t *stack, uint64_t vdso)
{
	const struct frozen_range *first = &frozen.special[0],
				  *last = &frozen.special[frozen.n_special - 1];
	uint64_t here = (uint64_t)stack, old = first->start, old_end = last->start + last->len;
	uint64_t new = old + vdso - frozen.vdso, new_end = old_end + vdso - frozen.vdso;

	if (overlap(old, old_end, here - NEAR, here + NEAR) ||
	    overlap(frozen.stack_end - NEAR, frozen.stack_end, here - NEAR, here + NEAR) ||
	    overlap(frozen.stack_end - NEAR, frozen.stack_end, new, new_end) ||
	    (vdso != frozen.vdso && overlap(old, old_end, new, new_end)))
		execute("/proc/self/exe", stack);
}

/* As large as it may become at all, since it cannot grow by itself; untouched it costs nothing. */
static int give_stack(void)
{
	uint64_t limit[2] = { STACK_BYTES, STACK_BYTES }, end = frozen.stack_end, size;
	long r = raw_syscall(__NR_prlimit64, 0, RLIMIT_STACK_NR, 0, RAW_ARG(limit), 0, 0);

	if (r < 0 || limit[0] > STACK_BYTES_MAX)
		return -1; /* a larger one cannot be reserved */
	size = limit[0];
	size = (size + frozen.page_size - 1) & -(uint64_t)frozen.page_size;
	if (size < end - frozen.stack_start + GUARD_BYTES)
		return -1;
	r = raw_syscall(__NR_mmap, RAW_ARG(end - size - GUARD_BYTES), RAW_ARG(size + GUARD_BYTES),
			0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
			0);
	if (r != (long)(end - size - GUARD_BYTES))
		return r == -EEXIST ? IS_TAKEN : -1;
	if (raw_syscall(__NR_mprotect, RAW_ARG(end - size), RAW_ARG(size), PROT_READ_WRITE, 0, 0,
			0))
		return -1;
	arch_copy((void *)frozen.stack_start, frozen.stack, end - frozen.stack_start);
	return 0;
}

/* The C library knows where the clock is. */
static int move_vdso(uint64_t vdso)
{
	if (vdso == frozen.vdso)
		return 0;
	for (uint32_t i = 0; i < frozen.n_special; i++) {
		const struct frozen_range *s = &frozen.special[i];

		if (raw_syscall(__NR_mremap, RAW_ARG(s->start + vdso - frozen.vdso),
				RAW_ARG(s->len), RAW_ARG(s->len), MREMAP_MAYMOVE | MREMAP_FIXED,
				RAW_ARG(s->start), 0) != (long)s->start)
			return -1;
	}
	return 0;
}

static int give_extra(void)
{
	for (uint32_t i = 0; i < frozen.n_extra; i++) {
		const struct frozen_extra *e = &frozen.extra[i];

		if (raw_syscall(__NR_mmap, RAW_ARG(e->start), RAW_ARG(e->len), e->prot,
				e->flags | MAP_FIXED_NOREPLACE, -1, 0) != (long)e->start)
			return -1;
		if (e->is_wiped && raw_syscall(__NR_madvise, RAW_ARG(e->start), RAW_ARG(e->len),
					       MADV_WIPEONFORK, 0, 0, 0))
			return -1;
	}
	return 0;
}

/* A write that changes nothing, in the order of the addresses. A fault for each page takes less
 * time than a call for each of so many short ranges. */
static void warm_up(void)
{
	for (uint32_t i = 0; i < FROZEN_HOT_MAX && frozen_hot[i].n_pages; i++)
		for (uint64_t page = 0; page < frozen_hot[i].n_pages; page++)
			__asm__ volatile("lock orb $0, (%0)"
					 :
					 : "r"(frozen_hot[i].start + page * frozen.page_size)
					 : "memory", "cc");
}

static void give_thread(void)
{
	int32_t *rseq = (int32_t *)frozen.rseq;

	raw_syscall(__NR_arch_prctl, ARCH_SET_FS_NR, RAW_ARG(frozen.thread_pointer), 0, 0, 0, 0);
	*(int32_t *)frozen.tid_address = (int32_t)raw_syscall(
		__NR_set_tid_address, RAW_ARG(frozen.tid_address), 0, 0, 0, 0, 0);
	raw_syscall(__NR_set_robust_list, RAW_ARG(frozen.robust_list), RAW_ARG(frozen.robust_len),
		    0, 0, 0, 0);
	if (rseq && raw_syscall(__NR_rseq, RAW_ARG(rseq), RSEQ_BYTES, 0, RSEQ_SIGNATURE, 0, 0))
		rseq[1] = RSEQ_NOT_REGISTERED; /* the library asks the kernel then */
	raw_syscall(__NR_prctl, PR_SET_NAME, RAW_ARG(frozen.comm), 0, 0, 0, 0);
}

/* Those that are ignored stay so, as for every program. */
static int give_handlers(void)
{
	for (int i = 1; i <= FROZEN_SIGNALS; i++)
		if (frozen.actions[i].handler &&
		    raw_syscall(__NR_rt_sigaction, i, RAW_ARG(&frozen.actions[i]), 0,
				KERNEL_SIGSET_BYTES, 0, 0))
			return -1;
	return 0;
}

void thaw_main(const uint64_t *stack)
{
	uint64_t vdso = auxiliary(stack, AT_SYSINFO_EHDR);
	int r;

	if (!vdso != !frozen.vdso)
		start_cold(stack);
	make_room(stack, vdso);
	r = give_stack();
	if (r == IS_TAKEN)
		execute("/proc/self/exe", stack);
	if (r < 0 || move_vdso(vdso) < 0 || give_extra() < 0 || give_handlers() < 0)
		start_cold(stack);
	warm_up();
	give_thread();
	frozen_resume(frozen.regs, (uint64_t)stack);
}

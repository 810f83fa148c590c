/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A frozen interpreter: a process that has started, written down as an executable file (an image).
 *
 * Theory of operation. A library is loaded into an interpreter, inside a sandbox of its own. When
 * the interpreter has started and opens its program, the library writes all memory of the process
 * as an ELF file: a segment for each mapping, at its address, and thaw_entry() as the place to
 * begin. Executing that file makes the kernel map everything again, copy-on-write; thaw_entry()
 * gives the process back what is not memory (stack, thread pointer, signal handlers), and the
 * interpreter goes on where it was, in a process that has all layers of its own run. The image is
 * data: whatever is in it has no more rights than any other program that a run executes.
 */
#ifndef WARM_FROZEN_H
#define WARM_FROZEN_H

#include <stddef.h>
#include <stdint.h>

#define FROZEN_SEGMENTS_MAX 1100 /* program headers may fill 64 KiB */
#define FROZEN_EXTRA_MAX 256
#define FROZEN_SPECIAL_MAX 8
#define FROZEN_STACK_MAX (256u << 10)
#define FROZEN_HOT_MAX 1024
#define FROZEN_PATH_MAX 4096
#define FROZEN_SIGNALS 64

/* What thaw_entry() cannot work with makes it execute the program itself, which starts cold. */

struct frozen_range {
	uint64_t start, len;
};

/* Memory without content: reserved, or wiped. */
struct frozen_extra {
	uint64_t start, len;
	uint32_t prot, flags; /* of mmap() */
	uint32_t is_wiped;    /* it must not be inherited by fork either */
	uint32_t pad;
};

struct frozen_segment {
	uint64_t start, end;
	uint32_t prot, pad;
};

/* As the kernel has it. */
struct frozen_action {
	uint64_t handler, flags, restorer, mask;
};

/* Pages that nearly every run writes to, which are written to at once: those that are read before
 * are mapped first, with their neighbours, and copied then. Found by a trial run, and put at the
 * end of the image. */
struct frozen_hot {
	uint64_t start, n_pages;
};

struct frozen {
	uint64_t regs[8];
	uint64_t thread_pointer, tid_address, robust_list, robust_len;
	uint64_t rseq; /* 0 = none */
	uint64_t vdso;
	uint64_t stack_start, stack_end; /* the part in use */
	struct frozen_range special[FROZEN_SPECIAL_MAX];
	struct frozen_extra extra[FROZEN_EXTRA_MAX];
	struct frozen_segment segments[FROZEN_SEGMENTS_MAX];
	struct frozen_action actions[FROZEN_SIGNALS + 1];
	uint32_t n_special, n_extra, n_segments, page_size;
	char comm[16];
	char exe[FROZEN_PATH_MAX];
	unsigned char stack[FROZEN_STACK_MAX];
};

extern struct frozen frozen __attribute__((visibility("hidden")));
extern struct frozen_hot frozen_hot[FROZEN_HOT_MAX] __attribute__((visibility("hidden")));

/* 0 when called; when the process is thawed it returns again, with its initial stack pointer. */
uint64_t frozen_save(uint64_t regs[8]) __attribute__((visibility("hidden"), returns_twice));
void frozen_resume(const uint64_t regs[8], uint64_t value)
	__attribute__((visibility("hidden"), noreturn));
void thaw_entry(void) __attribute__((visibility("hidden")));

/* How it is frozen. */
struct freezing {
	int out; /* where the image goes */
	int why; /* where one line goes if it cannot be */
	/* 1: there is no program that a process could execute instead if it cannot be thawed. It
	 * ends with status 127 then. */
	int is_only_thawed;
	/* Called before the first byte, when nothing but the writing can fail any more. May be
	 * NULL. */
	int (*announce)(const struct freezing *how, uint64_t size);
	const char *token; /* for it */
};

/*
 * Writes this process as an image. Returns 0 when that is done, -1 with a message if it cannot be;
 * and 1 in each process that is made from the image, with its initial stack in @ret.
 */
int freeze(const struct freezing *how, const uint64_t **ret) __attribute__((visibility("hidden")));

/* What a trial run has touched, as a list for the end of the image. */
int frozen_tell_hot(int out) __attribute__((visibility("hidden")));

#endif

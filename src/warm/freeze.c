/* SPDX-License-Identifier: Apache-2.0 */
/* Writing this process down as an executable file (frozen.h). */
#include "warm/frozen.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SMAPS_MAX (8u << 20)
#define LINE_NAME_MAX 512
#define TOP ((uint64_t)0x7ffffffff000)
/* The kernel's stack begins up to 16 GiB below the top. A segment there would be in its way, and
 * the process would not start. Mappings begin right below: the limit of the stack and a gap lie
 * between. A zone that is larger than that refuses one process of a thousand, by chance. */
#define STACK_ZONE (((uint64_t)16 << 30) + ((uint64_t)9 << 20))
#define ARCH_GET_FS_NR 0x1003
#define KERNEL_SIGSET_BYTES 8
#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif

/* Since glibc 2.35; where it is missing nothing is registered. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

struct mapping {
	uint64_t start, end;
	uint32_t prot;
	int is_shared, is_wiped, is_droppable;
	char name[LINE_NAME_MAX];
};

static int why_fd = 2;

static int refuse(const char *why, const char *what)
{
	dprintf(why_fd, "%s%s%s\n", why, what[0] ? ": " : "", what);
	return -1;
}

static char *read_smaps(void)
{
	/* Between two pages that nobody may read, or the kernel may join it with a neighbour of
	 * ours. */
	char *whole = mmap(NULL, SMAPS_MAX + 2 * frozen.page_size, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *text = whole + frozen.page_size;
	size_t len = 0;
	ssize_t n = -1;
	int fd = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);

	if (whole == MAP_FAILED || fd < 0 || mprotect(text, SMAPS_MAX, PROT_READ | PROT_WRITE) < 0)
		return NULL;
	while (len < SMAPS_MAX - 1 && (n = read(fd, text + len, SMAPS_MAX - 1 - len)) > 0)
		len += (size_t)n;
	close(fd);
	return n == 0 ? text : NULL;
}

/* The word at *@at, which moves behind it and the blanks that follow. */
static const char *next_word(char **at)
{
	const char *word = *at;

	*at += strcspn(*at, " ");
	if (**at)
		*(*at)++ = '\0';
	*at += strspn(*at, " ");
	return word;
}

/* START-END RIGHTS OFFSET DEVICE INODE NAME. 0: a line about the last one. */
static int parse_head(char *line, struct mapping *ret)
{
	char *end;
	uint64_t start = strtoull(line, &end, 16), stop;
	const char *rights;

	if (end == line || *end != '-')
		return 0;
	line = end + 1;
	stop = strtoull(line, &end, 16);
	if (end == line || *end != ' ')
		return 0;
	end++;
	rights = next_word(&end);
	if (strlen(rights) != 4)
		return 0;
	*ret = (struct mapping){ .start = start, .end = stop };
	ret->prot = (rights[0] == 'r' ? PROT_READ : 0u) | (rights[1] == 'w' ? PROT_WRITE : 0u) |
		    (rights[2] == 'x' ? PROT_EXEC : 0u);
	ret->is_shared = rights[3] == 's';
	for (int i = 0; i < 3; i++)
		(void)next_word(&end);
	snprintf(ret->name, sizeof(ret->name), "%s", end);
	return 1;
}

static int add_extra(const struct mapping *m)
{
	struct frozen_extra *e = &frozen.extra[frozen.n_extra];

	if (frozen.n_extra == FROZEN_EXTRA_MAX)
		return refuse("too many reserved mappings", "");
	*e = (struct frozen_extra){ .start = m->start,
				    .len = m->end - m->start,
				    .prot = m->prot,
				    .flags = MAP_ANONYMOUS | MAP_NORESERVE | MAP_PRIVATE,
				    .is_wiped = (uint32_t)m->is_wiped };
	if (m->is_droppable)
		e->flags = MAP_ANONYMOUS | MAP_NORESERVE | MAP_DROPPABLE;
	frozen.n_extra++;
	return 0;
}

static int add_segment(uint64_t start, uint64_t end, uint32_t prot)
{
	struct frozen_segment *next = &frozen.segments[frozen.n_segments];

	if (start == end)
		return 0;
	if (frozen.n_segments > 0 && next[-1].end == start && next[-1].prot == prot) {
		next[-1].end = end;
		return 0;
	}
	if (frozen.n_segments == FROZEN_SEGMENTS_MAX - 2)
		return refuse("too many mappings", "");
	*next = (struct frozen_segment){ .start = start, .end = end, .prot = prot };
	frozen.n_segments++;
	return 0;
}

/* The list of hot pages goes to the end of the image, so it is left out here. */
static int add_memory(const struct mapping *m)
{
	uint64_t hot = (uint64_t)frozen_hot, hot_end = hot + sizeof(frozen_hot);

	if (m->end > TOP - STACK_ZONE)
		return refuse("a mapping lies where stacks do", m->name);
	if (!(m->prot & PROT_READ) || (m->is_shared && (m->prot & PROT_WRITE)))
		return refuse("a mapping cannot be copied", m->name);
	if (hot < m->start || hot_end > m->end)
		return add_segment(m->start, m->end, m->prot);
	if (add_segment(m->start, hot, m->prot) < 0)
		return -1;
	return add_segment(hot_end, m->end, m->prot);
}

/* The stack that we are on. A thawed one has a guard beneath it, which thaw.c makes anew. */
static int note_stack(const struct mapping *m)
{
	uint32_t last = frozen.n_extra - 1;

	frozen.stack_end = m->end;
	if (frozen.n_extra > 0 && frozen.extra[last].prot == 0 &&
	    frozen.extra[last].start + frozen.extra[last].len == m->start)
		frozen.n_extra = last;
	return 0;
}

static int add_mapping(const struct mapping *m)
{
	const uint64_t here = (uint64_t)__builtin_frame_address(0);

	if (strcmp(m->name, "[vsyscall]") == 0)
		return 0;
	if (strncmp(m->name, "[vvar", 5) == 0 || strcmp(m->name, "[vdso]") == 0) {
		if (frozen.n_special == FROZEN_SPECIAL_MAX)
			return refuse("too many mappings of the kernel's", m->name);
		if (m->name[2] == 'd')
			frozen.vdso = m->start;
		frozen.special[frozen.n_special++] =
			(struct frozen_range){ .start = m->start, .len = m->end - m->start };
		return 0;
	}
	if (m->start <= here && here < m->end)
		return note_stack(m);
	/* In a process that was made from an image: the kernel's own, which nobody uses any more.
	 */
	if (strcmp(m->name, "[stack]") == 0)
		return 0;
	return m->prot == 0 || m->is_wiped || m->is_droppable ? add_extra(m) : add_memory(m);
}

/* Each entry is a head, and further lines, the last of which has the flags. */
static int add_mappings(char *text)
{
	struct mapping m = { .start = 0 };
	const uint64_t here = (uint64_t)text;
	int is_known = 0;
	char *next;

	for (char *line = text; *line; line = next) {
		next = strchr(line, '\n');
		if (!next)
			return refuse("smaps ends within a line", "");
		*next++ = '\0';
		if (strncmp(line, "VmFlags:", 8) == 0) {
			m.is_wiped = strstr(line, " wf") != NULL;
			m.is_droppable = strstr(line, " dp") != NULL;
			if (!is_known || (m.start != here && add_mapping(&m) < 0))
				return -1;
			is_known = 0;
		} else if (parse_head(line, &m)) {
			is_known = 1;
		}
	}
	return frozen.stack_end ? 0 : refuse("there is no stack", "");
}

static uint64_t n_written;

static int write_all(int fd, const void *data, size_t n)
{
	const char *p = data;

	while (n > 0) {
		ssize_t r = write(fd, p, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return refuse("cannot write the image", strerror(errno));
		p += r;
		n -= (size_t)r;
		n_written += (uint64_t)r;
	}
	return 0;
}

static uint64_t page_up(uint64_t n)
{
	return (n + frozen.page_size - 1) & -(uint64_t)frozen.page_size;
}

static uint32_t segment_flags(uint32_t prot)
{
	return (prot & PROT_READ ? PF_R : 0u) | (prot & PROT_WRITE ? PF_W : 0u) |
	       (prot & PROT_EXEC ? PF_X : 0u);
}

static uint64_t image_size(void)
{
	uint64_t size = page_up(sizeof(Elf64_Ehdr) + (frozen.n_segments + 1) * sizeof(Elf64_Phdr));

	for (uint32_t i = 0; i < frozen.n_segments; i++)
		size += frozen.segments[i].end - frozen.segments[i].start;
	return size;
}

static const char zeros[65536];

static int write_head(int out)
{
	static Elf64_Phdr heads[FROZEN_SEGMENTS_MAX];
	uint32_t n = frozen.n_segments + 1; /* and that of the stack's rights */
	Elf64_Ehdr elf = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_entry = (uint64_t)thaw_entry,
		.e_phoff = sizeof(elf),
		.e_ehsize = sizeof(elf),
		.e_phentsize = sizeof(heads[0]),
		.e_phnum = (uint16_t)n,
	};
	uint64_t used = sizeof(elf) + n * sizeof(heads[0]), offset = page_up(used);

	for (uint32_t i = 0; i < frozen.n_segments; i++) {
		const struct frozen_segment *s = &frozen.segments[i];

		heads[i] = (Elf64_Phdr){ .p_type = PT_LOAD,
					 .p_flags = segment_flags(s->prot),
					 .p_offset = offset,
					 .p_vaddr = s->start,
					 .p_filesz = s->end - s->start,
					 .p_memsz = s->end - s->start,
					 .p_align = frozen.page_size };
		offset += s->end - s->start;
	}
	heads[n - 1] = (Elf64_Phdr){ .p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W };
	if (write_all(out, &elf, sizeof(elf)) < 0 ||
	    write_all(out, heads, n * sizeof(heads[0])) < 0)
		return -1;
	return write_all(out, zeros, page_up(used) - used);
}

static int write_segments(const struct freezing *how)
{
	if (write_head(how->out) < 0)
		return -1;
	for (uint32_t i = 0; i < frozen.n_segments; i++) {
		const struct frozen_segment *s = &frozen.segments[i];

		if (write_all(how->out, (const void *)s->start, s->end - s->start) < 0)
			return -1;
	}
	return 0;
}

static int write_image(const struct freezing *how)
{
	uint64_t size, left;

	/* Last, so that the list can be replaced in the file. */
	if (add_segment((uint64_t)frozen_hot, (uint64_t)frozen_hot + sizeof(frozen_hot),
			PROT_READ | PROT_WRITE) < 0)
		return -1;
	size = image_size();
	n_written = 0;
	if (how->announce && how->announce(how, size) < 0)
		return -1;
	if (write_segments(how) == 0)
		return 0;
	/* A page that cannot be read, of a file that has become shorter. What was announced comes
	 * all the same. */
	while (how->announce && (left = size - n_written) > 0)
		if (write_all(how->out, zeros, left < sizeof(zeros) ? left : sizeof(zeros)) < 0)
			break;
	return -1;
}

static int note_thread(void)
{
	ssize_t n = readlink("/proc/self/exe", frozen.exe, sizeof(frozen.exe) - 1);

	if (n <= 0 || syscall(SYS_arch_prctl, ARCH_GET_FS_NR, &frozen.thread_pointer) < 0 ||
	    prctl(PR_GET_TID_ADDRESS, &frozen.tid_address) < 0 || !frozen.tid_address ||
	    prctl(PR_GET_NAME, frozen.comm) < 0 ||
	    syscall(SYS_get_robust_list, 0, &frozen.robust_list, &frozen.robust_len) < 0)
		return refuse("cannot read the state of this thread", strerror(errno));
	if (&__rseq_offset && &__rseq_size && __rseq_size)
		frozen.rseq = frozen.thread_pointer + (uint64_t)__rseq_offset;
	for (int i = 1; i <= FROZEN_SIGNALS; i++)
		(void)syscall(SYS_rt_sigaction, i, NULL, &frozen.actions[i], KERNEL_SIGSET_BYTES);
	return 0;
}

int freeze(const struct freezing *how, const uint64_t **ret)
{
	char *text;
	uint64_t stack;

	why_fd = how->why;
	/* It may have been frozen before, and this be a process made from that. */
	frozen.n_extra = frozen.n_special = frozen.n_segments = 0;
	frozen.stack_end = frozen.rseq = frozen.vdso = 0;
	frozen.page_size = (uint32_t)sysconf(_SC_PAGESIZE);
	if (frozen.page_size > sizeof(frozen_hot))
		return refuse("pages are too large here", "");
	text = read_smaps();
	if (!text)
		return refuse("cannot read /proc/self/smaps", strerror(errno));
	if (note_thread() < 0 || add_mappings(text) < 0)
		return -1;
	if (how->is_only_thawed)
		frozen.exe[0] = '\0';
	stack = frozen_save(frozen.regs);
	if (stack) {
		*ret = (const uint64_t *)stack;
		return 1;
	}
	frozen.stack_start = frozen.regs[6] & ~(uint64_t)15;
	if (frozen.stack_end - frozen.stack_start > sizeof(frozen.stack))
		return refuse("the stack is too deep", "");
	memcpy(frozen.stack, (const void *)frozen.stack_start,
	       frozen.stack_end - frozen.stack_start);
	return write_image(how);
}

/* --- a trial run --------------------------------------------------------------------------------
 */

#define PRESENT ((uint64_t)1 << 63)
#define OF_FILE ((uint64_t)1 << 61)

static int is_written(int pagemap, uint64_t address)
{
	uint64_t entry = 0;
	off_t at = (off_t)(address / frozen.page_size * sizeof(entry));

	return pread(pagemap, &entry, sizeof(entry), at) == sizeof(entry) && (entry & PRESENT) &&
	       !(entry & OF_FILE);
}

static uint32_t add_hot(struct frozen_hot *list, uint32_t n, uint64_t address)
{
	struct frozen_hot *next = &list[n];

	if (n > 0 && next[-1].start + next[-1].n_pages * frozen.page_size == address) {
		next[-1].n_pages++;
		return n;
	}
	if (n == FROZEN_HOT_MAX)
		return n;
	*next = (struct frozen_hot){ .start = address, .n_pages = 1 };
	return n + 1;
}

int frozen_tell_hot(int out)
{
	static struct frozen_hot list[FROZEN_HOT_MAX];
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint32_t n = 0;

	if (pagemap < 0)
		return refuse("cannot read /proc/self/pagemap", strerror(errno));
	for (uint32_t i = 0; i < frozen.n_segments; i++) {
		if (!(frozen.segments[i].prot & PROT_WRITE))
			continue; /* as it is at the start, when the list is used */
		for (uint64_t a = frozen.segments[i].start; a < frozen.segments[i].end;
		     a += frozen.page_size)
			if (is_written(pagemap, a))
				n = add_hot(list, n, a);
	}
	close(pagemap);
	return write_all(out, list, sizeof(list));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an ELF file can run here, and which loader it asks for. */
#include "discover/discover_internal.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "arch/arch.h"

#define PHDRS_MAX (65536 / sizeof(Elf64_Phdr)) /* as in the kernel */
#define PHDRS_AT_ONCE 16

bool elf_is_elf(const void *head, size_t len)
{
	return len >= SELFMAG && memcmp(head, ELFMAG, SELFMAG) == 0;
}

struct elf_file {
	int fd;
	const unsigned char *head;
	size_t head_len;
};

/* Exactly @size bytes at @offset, from what was read already if possible. */
static int get(const struct elf_file *f, uint64_t offset, void *ret, size_t size)
{
	int n;

	if (offset <= f->head_len && size <= f->head_len - offset) {
		memcpy(ret, f->head + offset, size);
		return 0;
	}
	n = disk_read_at(f->fd, offset, ret, size);
	return n == (int)size ? 0 : -ENOEXEC;
}

static int check_header(const Elf64_Ehdr *eh)
{
	if (eh->e_ident[EI_CLASS] == ELFCLASS32)
		return ELF_32BIT;
	if (eh->e_ident[EI_CLASS] != ELFCLASS64)
		return ELF_BROKEN;
	if (eh->e_ident[EI_DATA] != ELFDATA2LSB || eh->e_machine != ARCH_ELF_MACHINE)
		return ELF_FOREIGN;
	if (eh->e_type != ET_EXEC && eh->e_type != ET_DYN)
		return ELF_NO_PROGRAM;
	if (eh->e_phentsize != sizeof(Elf64_Phdr) || eh->e_phnum == 0 || eh->e_phnum > PHDRS_MAX)
		return ELF_BROKEN;
	return ELF_FINE;
}

static int get_interp(struct arena *arena, const struct elf_file *f, const Elf64_Phdr *ph,
		      const char **ret)
{
	char *name;

	/* The kernel's bounds; the last byte must be a NUL. */
	if (ph->p_filesz < 2 || ph->p_filesz > PATH_MAX)
		return ELF_BROKEN;
	name = arena_alloc(arena, ph->p_filesz + 1);
	if (!name)
		return -ENOMEM;
	if (get(f, ph->p_offset, name, ph->p_filesz) < 0 || name[ph->p_filesz - 1] != '\0' ||
	    name[0] == '\0')
		return ELF_BROKEN;
	*ret = name;
	return ELF_FINE;
}

int elf_inspect(struct arena *arena, int fd, const void *head, size_t len, const char **ret_interp)
{
	const struct elf_file f = { fd, head, len };
	Elf64_Phdr ph[PHDRS_AT_ONCE];
	Elf64_Ehdr eh;
	unsigned i, j, n;
	int verdict;

	/* A 32-bit header is shorter, so look at the class before asking for a whole one. */
	if (len > EI_CLASS && f.head[EI_CLASS] == ELFCLASS32)
		return ELF_32BIT;
	if (get(&f, 0, &eh, sizeof(eh)) < 0)
		return ELF_BROKEN;
	verdict = check_header(&eh);
	if (verdict != ELF_FINE)
		return verdict;
	*ret_interp = NULL;
	for (i = 0; i < eh.e_phnum; i += n) {
		n = eh.e_phnum - i < PHDRS_AT_ONCE ? eh.e_phnum - i : PHDRS_AT_ONCE;
		if (eh.e_phoff > INT64_MAX - PHDRS_MAX * sizeof(ph[0]) ||
		    get(&f, eh.e_phoff + i * sizeof(ph[0]), ph, n * sizeof(ph[0])) < 0)
			return ELF_BROKEN;
		for (j = 0; j < n; j++)
			if (ph[j].p_type == PT_INTERP)
				return get_interp(arena, &f, &ph[j], ret_interp);
	}
	return ELF_FINE;
}

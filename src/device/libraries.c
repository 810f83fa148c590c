/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a driver's libraries lie. They belong to the driver, not to the program, and some machines
 * have them in a directory of their own. The loader's cache is root's file, so it is believed; but
 * every number in it is checked against its size.
 */
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/arch.h"
#include "device/device.h"

#define CACHE_PATH "/etc/ld.so.cache"
#define CACHE_MAX (16 << 20)

#define OLD_MAGIC "ld.so-1.7.0"
#define NEW_MAGIC "glibc-ld.so.cache1.1"
#define OLD_ENTRY_BYTES 12u

/* Which kind of library an entry is: the C library's, for 64-bit programs of this machine. */
#define FLAGS_MASK 0xffffu
#define FLAGS_X86_64 0x0303u
#define FLAGS_AARCH64 0x0a03u

struct cache_head {
	char magic[20];
	uint32_t n, strings_bytes;
	uint32_t unused[5];
};

struct cache_entry {
	int32_t flags;
	uint32_t name, path; /* offsets from the head */
	uint32_t os_version;
	uint64_t hwcap;
};

const char *const device_default_dirs[] = { "/lib64", "/usr/lib64", "/lib", "/usr/lib", NULL };

const char *const device_library_dirs[] = {
	"/usr/local/nvidia/lib64", /* Kubernetes nodes of some clouds */
	"/usr/local/cuda/compat",  /* CUDA's images */
	"/usr/lib/wsl/lib",	   /* Windows' subsystem */
	"/run/opengl-driver/lib",  /* NixOS */
	"/opt/nvidia/lib64",	   /* */
	NULL,
};

/* The part of a cache that has the format of glibc 2.2 and later; NULL = there is none. */
static const char *new_part(const char *data, size_t size, size_t *ret_size)
{
	size_t skip = 0;
	uint32_t n;

	/* An old cache comes first, and the new one after it, aligned. */
	if (size >= 16 && memcmp(data, OLD_MAGIC, strlen(OLD_MAGIC)) == 0) {
		memcpy(&n, data + 12, sizeof(n));
		if (n > size / OLD_ENTRY_BYTES)
			return NULL;
		skip = (16 + (size_t)n * OLD_ENTRY_BYTES + 7) & ~(size_t)7;
	}
	if (skip > size || size - skip < sizeof(struct cache_head) ||
	    memcmp(data + skip, NEW_MAGIC, strlen(NEW_MAGIC)) != 0)
		return NULL;
	*ret_size = size - skip;
	return data + skip;
}

static bool is_string_at(const char *data, size_t size, uint32_t offset)
{
	return offset < size && memchr(data + offset, '\0', size - offset) != NULL;
}

static const char *find(const char *data, size_t size, const char *name)
{
	const uint32_t flags = ARCH_ELF_MACHINE == EM_X86_64 ? FLAGS_X86_64 : FLAGS_AARCH64;
	struct cache_head head;
	struct cache_entry entry;

	data = new_part(data, size, &size);
	if (!data)
		return NULL;
	memcpy(&head, data, sizeof(head));
	if (head.n > (size - sizeof(head)) / sizeof(entry))
		return NULL;
	for (uint32_t i = 0; i < head.n; i++) {
		memcpy(&entry, data + sizeof(head) + i * sizeof(entry), sizeof(entry));
		if (((uint32_t)entry.flags & FLAGS_MASK) == flags &&
		    is_string_at(data, size, entry.name) && is_string_at(data, size, entry.path) &&
		    strcmp(data + entry.name, name) == 0 && data[entry.path] == '/')
			return data + entry.path;
	}
	return NULL;
}

const char *device_library_cached(struct arena *arena, const char *root, const char *name)
{
	char path[PATH_MAX], *data = NULL;
	const char *found, *copy = NULL;
	ssize_t len = -1;
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%.2048s" CACHE_PATH, root);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size <= CACHE_MAX)
		data = malloc((size_t)st.st_size);
	if (data)
		len = read(fd, data, (size_t)st.st_size);
	close(fd);
	found = len > 0 ? find(data, (size_t)len, name) : NULL;
	if (found)
		copy = arena_strdup(arena, found);
	free(data);
	return copy;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reading directories, for code without libc. */
#ifndef BARE_DIRENTS_H
#define BARE_DIRENTS_H

#include <asm/unistd.h>
#include <stddef.h>
#include <stdint.h>

#include "bare/raw.h"

struct dir_entry { /* struct linux_dirent64 */
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

/* Where in a directory's listing we are. @buffer is aligned as struct dir_entry. */
struct dir_cursor {
	long fd;
	char *buffer;
	size_t size;
	long at, len; /* in the buffer; len < 0 when reading failed: -errno */
};

/* "." or ".." */
static inline int is_dot(const char *name)
{
	return name[0] == '.' && (name[1] == 0 || (name[1] == '.' && name[2] == 0));
}

/* The next entry but "." and "..", NULL at the end or when reading failed. */
static inline const struct dir_entry *dir_next(struct dir_cursor *c)
{
	for (;;) {
		const struct dir_entry *e;

		if (c->at >= c->len) {
			c->at = 0;
			c->len = raw_syscall(__NR_getdents64, c->fd, RAW_ARG(c->buffer),
					     (long)c->size, 0, 0, 0);
			if (c->len <= 0)
				return NULL;
		}
		e = (const void *)(c->buffer + c->at);
		c->at += e->len;
		if (!is_dot(e->name))
			return e;
	}
}

#endif

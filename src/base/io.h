/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing all of it, however the kernel cuts it up. Signals do not interrupt. */
#ifndef BASE_IO_H
#define BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/strbuf.h"

/* Up to @size bytes, fewer only at the end of the file: how many, or -errno. */
ssize_t read_full(int fd, void *buf, size_t size);
/* The same from @at on, without moving the position; -1: from the position. */
ssize_t read_full_at(int fd, void *buf, size_t size, off_t at);
/* Appends the rest of the file: 0, -EFBIG if that is more than @sb may hold, or -errno. */
int read_strbuf(int fd, struct strbuf *sb);
/* 0 or -errno. Waits where a descriptor does not block. */
int write_full(int fd, const void *data, size_t len);
/* Is it an end of a pipe of ours, without a name, that cannot be read from? */
bool is_writing_end(int fd);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a directory piece by piece, by its descriptor alone. */
#ifndef WORKSPACE_TREE_DENTS_H
#define WORKSPACE_TREE_DENTS_H

#include <stddef.h>
#include <sys/types.h>

struct dents {
	size_t at, len;
	_Alignas(8) char data[32768];
};

/* The next piece: its length, 0 at the end, or -errno. */
ssize_t dents_read(int dir_fd, struct dents *d);
/* The next name of the piece but . and .., or NULL. *ret_type is a DT_*, perhaps DT_UNKNOWN. */
const char *dents_next(struct dents *d, unsigned char *ret_type);

/* Names, each with its NUL. Empty when zeroed; the caller frees @data. */
struct name_stack {
	char *data;
	size_t len, cap;
};

int name_stack_push(struct name_stack *stack, const char *name); /* 0 or -ENOMEM */
/* The offset of the last name. There is at least one at or after the offset @start. */
size_t name_stack_last(const struct name_stack *stack, size_t start);

#endif

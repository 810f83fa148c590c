/* SPDX-License-Identifier: Apache-2.0 */
/* The names in a directory. */
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "workspace/tree/cursor.h"
#include "workspace/tree/dents.h"

/* A million names of the greatest length. Guests may make more; those are an error. */
#define NAMES_BYTES_MAX ((size_t)256 << 20)

/* offsetof(d_name) in struct linux_dirent64. */
#define RECORD_HEAD 19

ssize_t dents_read(int dir_fd, struct dents *d)
{
	long n = syscall(SYS_getdents64, dir_fd, d->data, sizeof(d->data));

	d->at = 0;
	d->len = n > 0 ? (size_t)n : 0;
	return n < 0 ? -errno : n;
}

const char *dents_next(struct dents *d, unsigned char *ret_type)
{
	while (d->at + RECORD_HEAD < d->len) {
		const char *record = d->data + d->at, *name = record + RECORD_HEAD;
		uint16_t len;

		memcpy(&len, record + 16, sizeof(len));
		if (len <= RECORD_HEAD || len > d->len - d->at)
			break;
		d->at += len;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
			continue;
		if (ret_type)
			*ret_type = (unsigned char)record[18];
		return name;
	}
	return NULL;
}

int name_stack_push(struct name_stack *stack, const char *name)
{
	size_t size = strlen(name) + 1, cap = stack->cap ? stack->cap : 4096;
	char *data;

	while (cap < stack->len + size)
		cap *= 2;
	if (cap > stack->cap) {
		data = realloc(stack->data, cap);
		if (!data)
			return -ENOMEM;
		stack->data = data;
		stack->cap = cap;
	}
	memcpy(stack->data + stack->len, name, size);
	stack->len += size;
	return 0;
}

size_t name_stack_last(const struct name_stack *stack, size_t start)
{
	size_t at = stack->len - 1;

	while (at > start && stack->data[at - 1] != '\0')
		at--;
	return at;
}

/* How many there are, or -errno. */
static ssize_t read_names(int dir_fd, struct name_stack *stack, struct dents *d)
{
	ssize_t n, count = 0;
	const char *name;
	int r;

	if (lseek(dir_fd, 0, SEEK_SET) < 0)
		return -errno;
	while ((n = dents_read(dir_fd, d)) > 0) {
		while ((name = dents_next(d, NULL))) {
			if (strlen(name) >= NAMES_BYTES_MAX - stack->len)
				return -E2BIG;
			r = name_stack_push(stack, name);
			if (r < 0)
				return r;
			count++;
		}
	}
	return n < 0 ? n : count;
}

static int by_bytes(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

int names_read(int dir_fd, struct names *ret)
{
	struct dents *d = malloc(sizeof(*d));
	struct name_stack stack = { 0 };
	const char **v = NULL;
	ssize_t n = -ENOMEM;

	*ret = (struct names){ 0 };
	if (d)
		n = read_names(dir_fd, &stack, d);
	free(d);
	if (n > 0 && stack.data) {
		v = calloc((size_t)n, sizeof(*v));
		n = v ? n : -ENOMEM;
	}
	if (!v) {
		free(stack.data);
		return (int)n;
	}
	for (size_t i = 0, at = 0; i < (size_t)n; i++) {
		v[i] = stack.data + at;
		at += strlen(v[i]) + 1;
	}
	qsort(v, (size_t)n, sizeof(*v), by_bytes);
	*ret = (struct names){ .data = stack.data, .v = v, .n = (size_t)n };
	return 0;
}

void names_done(struct names *names)
{
	free(names->data);
	free(names->v);
	*names = (struct names){ 0 };
}

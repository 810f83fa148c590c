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

/* A million names of the greatest length. Guests may make more; nobody has to look at them all. */
#define NAMES_BYTES_MAX ((size_t)256 << 20)

/* offsetof(d_name) of the kernel's record, which is struct dirent of 64-bit C libraries as well. */
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

struct collected {
	char *data;
	size_t len, cap, n;
};

static int collect(struct collected *c, const char *name)
{
	size_t size = strlen(name) + 1, cap = c->cap ? c->cap : 4096;
	char *data;

	if (size > NAMES_BYTES_MAX - c->len)
		return -E2BIG;
	while (cap < c->len + size)
		cap *= 2;
	if (cap > c->cap) {
		data = realloc(c->data, cap);
		if (!data)
			return -ENOMEM;
		c->data = data;
		c->cap = cap;
	}
	memcpy(c->data + c->len, name, size);
	c->len += size;
	c->n++;
	return 0;
}

static int collect_all(int dir_fd, struct collected *c, struct dents *d)
{
	const char *name;
	ssize_t n;
	int r;

	if (lseek(dir_fd, 0, SEEK_SET) < 0)
		return -errno;
	for (;;) {
		n = dents_read(dir_fd, d);
		if (n <= 0)
			return (int)n;
		while ((name = dents_next(d, NULL))) {
			r = collect(c, name);
			if (r < 0)
				return r;
		}
	}
}

static int by_bytes(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

int names_read(int dir_fd, struct names *ret)
{
	struct dents *d = malloc(sizeof(*d));
	struct collected c = { 0 };
	const char **v = NULL;
	int r = -ENOMEM;

	*ret = (struct names){ 0 };
	if (d)
		r = collect_all(dir_fd, &c, d);
	free(d);
	if (r == 0 && c.n > 0) {
		v = calloc(c.n, sizeof(*v));
		r = v ? 0 : -ENOMEM;
	}
	if (r < 0 || !v) {
		free(c.data);
		return r;
	}
	for (size_t i = 0, at = 0; i < c.n; i++) {
		v[i] = c.data + at;
		at += strlen(v[i]) + 1;
	}
	qsort(v, c.n, sizeof(*v), by_bytes);
	*ret = (struct names){ .data = c.data, .v = v, .n = c.n };
	return 0;
}

void names_done(struct names *names)
{
	free(names->data);
	free(names->v);
	*names = (struct names){ 0 };
}

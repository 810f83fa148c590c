/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Should: say where a path leads, as the command would get there: without links, "." and "..".
 * What is not there stays as written, so that it can be asked before something is made.
 * Mustn't: hang in a loop of links. The answer is a name and gives no right to anything.
 *
 * What is resolved grows in s->path2, which has no links in it; what is left shrinks at the end of
 * s->data, and the targets of links are put in front of it.
 */
#include "init/files/server.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>

#include "bare/raw.h"

#define LINKS_MAX 40 /* as the kernel */

/* Puts @text and a slash in front of what is left, at @at; the new place or -errno. */
static long put_in_front(struct server *s, long at, const char *text, long len)
{
	if (len + 1 > at)
		return -ENAMETOOLONG;
	s->data[--at] = '/';
	while (len > 0)
		s->data[--at] = text[--len];
	return at;
}

static long length_of(const char *text)
{
	long n = 0;

	while (text[n])
		n++;
	return n;
}

/* Without the last name; "" is the root. */
static long without_last(const char *path, long len)
{
	while (len > 0 && path[len - 1] != '/')
		len--;
	return len > 0 ? len - 1 : 0;
}

/* Appends a name of @n bytes; the new length or -errno. */
static long append_name(char *path, long len, const char *name, long n)
{
	if (len + 1 + n >= (long)SERVE_PATH_BYTES)
		return -ENAMETOOLONG;
	path[len++] = '/';
	for (long i = 0; i < n; i++)
		path[len++] = name[i];
	path[len] = 0;
	return len;
}

/* The next name of what is left, at *@at; its length, 0 at the end. */
static long next_name(const struct server *s, long *at)
{
	long n = 0;

	while (*at < (long)sizeof(s->data) && s->data[*at] == '/')
		++*at;
	while (*at + n < (long)sizeof(s->data) && s->data[*at + n] != '/')
		n++;
	return n;
}

static long resolve(struct server *s, long len, long at)
{
	char *done = s->path2;
	int links = 0;
	long n, target;

	for (; (n = next_name(s, &at)) > 0; at += n) {
		const char *name = s->data + at;

		if (n == 1 && name[0] == '.')
			continue;
		if (n == 2 && name[0] == '.' && name[1] == '.') {
			len = without_last(done, len);
			continue;
		}
		len = append_name(done, len, name, n);
		if (len < 0)
			return len;
		target = raw_syscall(__NR_readlinkat, AT_FDCWD, RAW_ARG(done), RAW_ARG(s->text),
				     sizeof(s->text), 0, 0);
		if (target <= 0)
			continue; /* no link, or not there, or not to be seen */
		if (target >= (long)sizeof(s->text))
			return -ENAMETOOLONG;
		if (++links > LINKS_MAX)
			return -ELOOP;
		len = s->text[0] == '/' ? 0 : without_last(done, len);
		at = put_in_front(s, at + n, s->text, target);
		if (at < 0)
			return at;
		n = 0;
	}
	return len;
}

long serve_realpath(struct server *s)
{
	long at, len = 0;

	at = put_in_front(s, sizeof(s->data), s->path, length_of(s->path));
	if (at < 0)
		return at;
	if (s->path[0] != '/') {
		len = raw_syscall(__NR_getcwd, RAW_ARG(s->path2), SERVE_PATH_BYTES, 0, 0, 0, 0);
		if (len < 0)
			return len;
		if (s->path2[0] != '/')
			return -ENOENT;
		len = length_of(s->path2);
		len -= len == 1; /* the root is "" here */
	}
	len = resolve(s, len, at);
	if (len < 0)
		return len;
	if (len == 0)
		serve_put(s, "/", 1);
	else
		serve_put(s, s->path2, (size_t)len);
	return 0;
}

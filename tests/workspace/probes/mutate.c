/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every way to change something: mutate -l | mutate DIR
 *
 * -l lists the names of all attempts. DIR has a directory of each name (mutate.h), in which that
 * attempt is made. Two lines for each: what the system call said, and whether a process that looks
 *by the same path sees a change afterwards:
 *
 *	write allowed
 *	write.seen changed
 *	setxattr_trusted denied EPERM
 *	setxattr_trusted.seen same
 */
#include "mutate.h"

#include <fts.h>
#include <limits.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

#include "mutate_content.h"
#include "mutate_meta.h"
#include "mutate_names.h"
#include "mutate_tricks.h"

static uint64_t hash;

static void mix(const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ p[i]) * 1099511628211u;
}

static void mix_attributes(const char *path)
{
	static char names[65536], value[65536];
	ssize_t len = llistxattr(path, names, sizeof(names)), got;
	uint64_t sum = 0, before = hash; /* in any order */

	for (const char *name = names; len > 0 && name < names + len; name += strlen(name) + 1) {
		hash = before;
		got = lgetxattr(path, name, value, sizeof(value));
		mix(name, strlen(name));
		mix(value, got > 0 ? (size_t)got : 0);
		sum += hash;
	}
	hash = before;
	mix(&sum, sizeof(sum));
}

static void mix_content(const char *path, const struct stat *st)
{
	static char data[SIZE * 64];
	int flags = 0, generation = 0, fd;
	ssize_t len = 0;

	if (S_ISLNK(st->st_mode)) {
		len = readlink(path, data, sizeof(data));
		mix(data, len > 0 ? (size_t)len : 0);
		return;
	}
	if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		mix("closed", 6);
		return;
	}
	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0)
		mix(&flags, sizeof(flags));
	if (ioctl(fd, _IOR('v', 1, long), &generation) == 0 && S_ISREG(st->st_mode))
		mix(&generation, sizeof(generation));
	if (S_ISREG(st->st_mode))
		len = read(fd, data, sizeof(data));
	mix(data, len > 0 ? (size_t)len : 0);
	close(fd);
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Of all that a change could be seen by, except what a copy of an unchanged file differs in. */
static uint64_t look(char *path)
{
	char *const top[] = { path, NULL };
	FTS *fts = fts_open(top, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
	FTSENT *e;

	hash = 14695981039346656037u;
	while (fts && (e = fts_read(fts))) {
		struct stat st;

		if (e->fts_info == FTS_DP || lstat(e->fts_path, &st) < 0)
			continue;
		mix(e->fts_path, e->fts_pathlen);
		mix(&st.st_mode, sizeof(st.st_mode));
		mix(&st.st_uid, sizeof(st.st_uid));
		mix(&st.st_gid, sizeof(st.st_gid));
		mix(&st.st_mtim, sizeof(st.st_mtim));
		mix(&st.st_rdev, sizeof(st.st_rdev));
		if (!S_ISDIR(st.st_mode)) {
			mix(&st.st_nlink, sizeof(st.st_nlink));
			mix(&st.st_size, sizeof(st.st_size));
		}
		mix_attributes(e->fts_path);
		mix_content(e->fts_path, &st);
	}
	if (fts)
		fts_close(fts);
	return hash;
}

static char where[PATH_MAX];

static long in_place(void *arg)
{
	const struct attempt *attempt = arg;

	if (chdir(where) < 0)
		return -1;
	return attempt->fn();
}

static void all(const struct attempt *list, const char *dir)
{
	for (; list->name; list++) {
		uint64_t before;

		if (!dir) {
			puts(list->name);
			continue;
		}
		snprintf(where, sizeof(where), "%s/%s", dir, list->name);
		before = look(where);
		row_child(list->name, in_place, (void *)list);
		printf("%s.seen %s\n", list->name, look(where) == before ? "same" : "changed");
	}
}

int main(int argc, char **argv)
{
	const char *dir = argc == 2 && strcmp(argv[1], "-l") != 0 ? argv[1] : NULL;

	if (argc != 2)
		return 2;
	umask(022);
	all(content_attempts, dir);
	all(meta_attempts, dir);
	all(name_attempts, dir);
	all(trick_attempts, dir);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Should: make names in directories that earlier runs wrote to, and that other runs may be writing
 * to now (PLAN_REUSED).
 * Mustn't: follow a link that one of them left, or take something else for what was to be made.
 *
 * The way to a name is opened once, without links and inside the new root; the name itself is made
 * relative to that. What is there already may stay if it is of the right kind.
 *
 * A mount moves with its mount point: another run that may rename the point, in its own view,
 * decides the mount's name here. Steps inside such a mount (covering what is denied, protecting)
 * must not look it up by name, and start from the descriptor that is kept for this.
 */
#include "init/mount_ops.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/stat.h>

#include "bare/fd.h"
#include "bare/raw.h"

#define PATH_BYTES 4096
#define TRIES 8
#define KEPT_MAX 256 /* mounts in such places in which more is to be done */

static struct {
	const char *path;
	int fd;
} kept[KEPT_MAX];
static int n_kept;

/* What of @path comes after @dir, if it lies there: "." if it is the same. */
static const char *rest_of(const char *dir, const char *path)
{
	while (*dir && *dir == *path) {
		dir++;
		path++;
	}
	if (*dir || (*path && *path != '/'))
		return 0;
	return below_root(path);
}

struct spot spot_of(const struct init *in, const char *path)
{
	struct spot spot = { in->root_fd, below_root(path) };

	/* The last one that fits is the innermost: a mount comes after the one it lies in. */
	for (int i = 0; i < n_kept; i++) {
		const char *rest = rest_of(kept[i].path, path);

		if (rest)
			spot = (struct spot){ kept[i].fd, rest };
	}
	return spot;
}

static int is_used(const struct init *in, const char *dir)
{
	const struct plan_op *ops = (const void *)((const char *)in->plan + in->plan->ops_off);
	const char *rest;

	if (in->plan->workspace && rest_of(dir, str_at(in, in->plan->workspace)))
		return 1;
	for (uint32_t i = in->plan->n_common_ops; i < in->plan->n_ops; i++) {
		rest = rest_of(dir, str_at(in, ops[i].dst));
		if (rest && !(rest[0] == '.' && rest[1] == 0))
			return 1;
	}
	return 0;
}

long reused_keep(const struct init *in, const struct plan_op *op, int mount_fd)
{
	const char *path = str_at(in, op->dst);
	long fd;

	if ((op->flags & PLAN_FILE) || !is_used(in, path))
		return 0;
	if (n_kept == KEPT_MAX)
		return -EMFILE;
	fd = raw3(__NR_fcntl, mount_fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	kept[n_kept].path = path;
	kept[n_kept++].fd = (int)fd;
	return 0;
}

void reused_done(void)
{
	while (n_kept > 0)
		close_fd(kept[--n_kept].fd);
}

/* Opens the directory of @path; *ret_name is the rest of it. */
static long open_parent(const struct init *in, const char *path, const char **ret_name)
{
	static char dir[PATH_BYTES]; /* init has one thread, and does one step after the other */
	size_t len = str_len(path), at = len;

	while (at > 0 && path[at - 1] != '/')
		at--;
	if (at == 0 || len >= sizeof(dir))
		return -ENAMETOOLONG;
	memcpy(dir, path, at);
	dir[at] = 0;
	*ret_name = path + at;
	return open_in_root(in, dir);
}

/* What is called @path has to be of type @type. */
static long check_type(const struct init *in, const char *path, unsigned type)
{
	struct statx st;
	long r, fd = open_in_root(in, path);

	if (fd < 0)
		return fd;
	r = raw5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &st);
	close_fd(fd);
	if (r < 0 || (st.stx_mode & S_IFMT) == type)
		return r;
	if ((st.stx_mode & S_IFMT) == S_IFLNK)
		return -ELOOP;
	return type == S_IFDIR ? -ENOTDIR : -EEXIST;
}

long reused_make(const struct init *in, const struct plan_op *op, int is_file)
{
	const char *name, *path = str_at(in, op->dst);
	long r, dir = open_parent(in, path, &name);

	if (dir < 0)
		return dir;
	r = is_file ? raw4(__NR_mknodat, dir, name, S_IFREG | op->mode, 0)
		    : raw3(__NR_mkdirat, dir, name, op->mode);
	close_fd(dir);
	return r == -EEXIST ? check_type(in, path, is_file ? S_IFREG : S_IFDIR) : r;
}

static int is_same_text(const char *a, const char *b, long len)
{
	for (long i = 0; i < len; i++)
		if (a[i] != b[i] || !a[i])
			return 0;
	return b[len] == 0;
}

/* A link of an earlier run, perhaps with another target, is replaced. */
long reused_link(const struct init *in, const struct plan_op *op)
{
	const char *name, *text = str_at(in, op->src);
	char old[PATH_BYTES];
	long r = -EEXIST, dir = open_parent(in, str_at(in, op->dst), &name);

	if (dir < 0)
		return dir;
	for (int i = 0; i < TRIES && r == -EEXIST; i++) {
		long len = raw4(__NR_readlinkat, dir, name, old, sizeof(old) - 1);

		if (len >= 0 && is_same_text(old, text, len)) {
			r = 0;
			break;
		}
		/* Never removes a directory, whatever the name is by now. */
		if (len >= 0)
			raw3(__NR_unlinkat, dir, name, 0);
		else if (len != -ENOENT)
			break;
		r = raw3(__NR_symlinkat, text, dir, name);
	}
	close_fd(dir);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the paths of the policy to opened objects.
 *
 * Links. The command must not decide what a grant means: an earlier run may have left `ws/sub` as
 * a link to somewhere else. So a write grant may go through no link except those that belong to the
 * system (owned by root and directly in the root directory or one level below it), and a read
 * grant through none that lies inside a write grant of the same run. The message names the target,
 * which can be granted by its own name.
 *
 * Cannot be granted: /proc, /sys and /dev (the sandbox has its own), file systems of the kernel
 * that are mounted elsewhere, and writing to "/".
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/nearest.h"
#include "plan/plan_internal.h"
#include "probe/probe.h"
#include "uapi/kernel_fs.h"

int plan_add_links(struct build *b, const struct plan_link *links, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct plan_link *link = PLAN_ADD(b, links, n_links, cap_links);

		if (!link)
			return plan_nomem(b);
		*link = links[i];
	}
	return 0;
}

const struct grant *plan_grant_of(const struct build *b, const char *path, bool only_write)
{
	const struct grant *best = NULL;

	for (size_t i = 0; i < b->n_grants; i++) {
		const struct grant *g = b->grants[i];

		if (g->is_dropped || (only_write && !g->write) || !path_is_within(g->real, path))
			continue;
		if (!best || strlen(g->real) > strlen(best->real))
			best = g;
	}
	return best;
}

static const char *what_for(bool write)
{
	return write ? "writing" : "reading";
}

/* "did you mean" for a name that does not exist: the only place where a directory is read. */
static void hint_nearest(struct build *b, const char *typed, const char *path)
{
	CLEANUP(close_dir) DIR *dir = NULL;
	size_t dir_len = path_dir_len(typed);
	const char *name = strrchr(typed, '/');
	struct dirent *entry;
	struct nearest n;
	char *parent = arena_strndup(b->arena, path, path_dir_len(path));

	name = name ? name + 1 : typed;
	dir = parent ? opendir(parent) : NULL;
	if (!dir)
		return;
	nearest_init(&n, name);
	while ((entry = readdir(dir)) != NULL) {
		const char *copy;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		copy = arena_strdup(b->arena, entry->d_name);
		if (copy)
			nearest_offer(&n, copy);
	}
	if (n.best)
		cordon_err_hint(b->err, "did you mean '%.*s%s%s'?", (int)dir_len, typed,
				dir_len > 0 && typed[dir_len - 1] != '/' ? "/" : "", n.best);
}

/* What is missing of a path that does not exist. */
void plan_hint_missing(struct build *b, const char *typed, const char *path, bool write)
{
	struct resolved res;
	const char *first;
	char text[256];
	ssize_t len = readlink(path, text, sizeof(text));

	if (len > 0) {
		cordon_err_hint(b->err, "it is a link to '%.*s', which does not exist", (int)len,
				text);
		return;
	}
	hint_nearest(b, typed, path);
	if (!b->err || b->err->hint[0] || plan_resolve(b, path, &res) < 0 || !res.missing)
		return;
	first = plan_first_missing(b, &res);
	/* If only the last name is missing, the message has said it. */
	if (first && strcmp(first, path) != 0)
		cordon_err_hint(b->err, "there is no '%s'%s", first,
				write ? "; make it first, with mkdir or touch" : "");
	else if (write)
		cordon_err_hint(b->err, "make it first, with mkdir or touch");
}

/* Does openat2() itself fail, and not the file system that was asked? */
static bool is_openat2_missing(void)
{
	int fd = plan_open_real("/");

	if (fd >= 0)
		close(fd);
	return fd == -ENOSYS;
}

/* Cordon uses it wherever it opens something. */
static int refuse_without_openat2(struct build *b)
{
	int r;

	if (!probe_has_filter())
		return cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
				  "Cordon needs the system call openat2 (Linux 5.6)");
	if (probe_is_in_cordon()) {
		r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
			       "Cordon cannot run inside one of its own sandboxes");
		cordon_err_hint(b->err, "run the command itself: it is in a sandbox already");
		return r;
	}
	r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
		       "a system call filter around Cordon forbids openat2, which it needs");
	cordon_err_hint(b->err, "the container or service that this runs in has set the filter");
	return r;
}

static int refuse_open(struct build *b, const char *typed, const char *path, bool write, int error)
{
	int r;

	if (error == ENOSYS && is_openat2_missing())
		return refuse_without_openat2(b);
	r = cordon_err(b->err, CORDON_E_PATH, error, "cannot grant '%s' for %s", typed,
		       what_for(write));
	if (error == ENOENT)
		plan_hint_missing(b, typed, path, write);
	else if (error == EACCES)
		cordon_err_hint(b->err, "the directory above it cannot be searched");
	else if (error == ELOOP)
		cordon_err_hint(b->err, "links of /proc cannot be granted; name the file itself");
	return r;
}

static int refuse(struct build *b, const struct grant *g, const char *why, const char *hint)
{
	int r = cordon_err(b->err, CORDON_E_PATH, 0, "cannot grant '%s' for %s: %s", g->typed,
			   what_for(g->write), why);

	if (hint)
		cordon_err_hint(b->err, "%s", hint);
	return r;
}

/* Part of the sandbox's own kernel interfaces? What lies in /dev/shm are ordinary files. */
bool plan_is_kernel_place(const char *real)
{
	return path_is_within("/proc", real) || path_is_within("/sys", real) ||
	       (path_is_within("/dev", real) && !plan_is_below("/dev/shm", real));
}

static int check_object(struct build *b, const struct grant *g)
{
	struct statfs fs;

	if (path_is_within("/dev", g->real) && plan_is_kernel_place(g->real))
		return refuse(b, g, "the sandbox has its own /dev",
			      "devices are given one at a time, with --device PATH, and GPUs with "
			      "--gpu");
	if (plan_is_kernel_place(g->real))
		return refuse(b, g, "the sandbox has its own /proc and /dev, and no /sys", NULL);
	if (g->write && strcmp(g->real, "/") == 0)
		return refuse(b, g, "the whole system cannot be made writable",
			      "grant the directories that are to be written");
	if (S_ISFIFO(g->type))
		return refuse(b, g, "it is a FIFO",
			      "its other end lies outside the sandbox; pass data through stdin");
	if (S_ISSOCK(g->type))
		return refuse(b, g, "it is a socket", "its server acts outside the sandbox");
	if (!S_ISDIR(g->type) && !S_ISREG(g->type))
		return refuse(b, g, "it is a device", NULL);
	if (fstatfs(g->fd, &fs) < 0)
		return refuse_open(b, g->typed, g->real, g->write, errno);
	if (kernel_fs_of((uint64_t)fs.f_type))
		return refuse(b, g, "it lies on a file system of the kernel",
			      "what such a file system shows is the host's own, wherever it is "
			      "mounted");
	return 0;
}

static bool is_system_link(const struct plan_link *link)
{
	size_t len = path_dir_len(link->path);
	size_t slashes = 0;

	if (link->owner != 0 || strncmp(link->path, "/tmp/", 5) == 0)
		return false;
	for (size_t i = 0; i < len; i++)
		slashes += link->path[i] == '/';
	return slashes <= 1;
}

static int refuse_link(struct build *b, const struct grant *g, const struct plan_link *link)
{
	int r = cordon_err(b->err, CORDON_E_PATH, 0,
			   "cannot grant '%s' for %s: '%s' is a link that a command may have made",
			   g->typed, what_for(g->write), link->path);

	cordon_err_hint(b->err, "grant '%s' by that name if it is what you mean", g->real);
	return r;
}

/* The path goes through links: could the guest have made one of them? */
static int check_links(struct build *b, const char *path, const struct grant *g)
{
	struct resolved r;
	int e = plan_resolve(b, path, &r);

	if (e < 0)
		return refuse_open(b, g->typed, path, g->write, -e);
	for (size_t i = 0; i < r.n_links; i++) {
		if (g->write ? !is_system_link(&r.links[i])
			     : plan_grant_of(b, r.links[i].path, true) != NULL)
			return refuse_link(b, g, &r.links[i]);
	}
	if (r.missing || strcmp(r.real, g->real) != 0)
		return refuse(b, g, "it changed while it was looked at", NULL);
	return plan_add_links(b, r.links, r.n_links);
}

static struct grant *find_same(struct build *b, const struct grant *new)
{
	for (size_t i = 0; i < b->n_grants; i++) {
		if (!b->grants[i]->is_dropped && strcmp(b->grants[i]->real, new->real) == 0)
			return b->grants[i];
	}
	return NULL;
}

static int keep_grant(struct build *b, struct grant *g, struct grant **ret)
{
	struct grant *same = find_same(b, g), **slot;

	if (same && g->write && same->is_workspace) {
		close(g->fd);
		cordon_err(b->err, CORDON_E_POLICY, 0,
			   "'%s' cannot be both the workspace and a write grant", g->typed);
		cordon_err_hint(b->err, "leave one of the two out");
		return -CORDON_E_POLICY;
	}
	if (same) {
		/* Writing includes reading; an explicit grant takes precedence over a default. */
		same->write |= g->write;
		if (g->origin > same->origin)
			same->origin = g->origin;
		close(g->fd);
		g->fd = -1;
	} else {
		slot = PLAN_ADD(b, grants, n_grants, cap_grants);
		if (!slot) {
			close(g->fd);
			return plan_nomem(b);
		}
		*slot = same = g;
		/* Only root's grants travel as descriptors (they become idmapped mounts). */
		if (!b->is_root || b->in->level != PLAN_LEVEL_NAMESPACES) {
			close(g->fd);
			g->fd = -1;
		}
	}
	if (ret)
		*ret = same;
	return 0;
}

/* write() takes set-id bits away, a shared mapping does not. */
static bool write_lends_identity(const struct grant *g, mode_t mode)
{
	bool is_setgid = (mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP);

	return g->write && S_ISREG(mode) && ((mode & S_ISUID) || is_setgid);
}

int plan_add_opened(struct build *b, const char *path, int fd, struct grant *g, struct grant **ret)
{
	struct stat st;
	int r;

	g->fd = fd;
	if (fstat(fd, &st) < 0 || st.st_nlink == 0) {
		close(fd);
		return refuse_open(b, g->typed, path, g->write, ENOENT);
	}
	g->type = st.st_mode & S_IFMT;
	g->is_dir = S_ISDIR(st.st_mode);
	g->dev = st.st_dev;
	g->ino = st.st_ino;
	r = check_object(b, g);
	if (r == 0 && write_lends_identity(g, st.st_mode))
		r = refuse(b, g, "it has a set-id bit",
			   "written through a mapping it would keep the bit, and lend its owner's "
			   "identity; take the bit away: chmod ug-s");
	if (r == 0 && strcmp(path, g->real) != 0)
		r = check_links(b, path, g);
	if (r < 0) {
		close(fd);
		return r;
	}
	return keep_grant(b, g, ret);
}

int plan_add_grant(struct build *b, const char *typed, int origin, bool write, struct grant **ret)
{
	struct grant *g = arena_alloc(b->arena, sizeof(*g));
	char path[PATH_MAX];
	int r, fd;

	if (!g)
		return plan_nomem(b);
	r = plan_typed_path(b, typed, path);
	if (r < 0)
		return cordon_err(b->err, CORDON_E_PATH, -r, "cannot grant '%s' for %s", typed,
				  what_for(write));
	g->typed = typed;
	g->origin = origin;
	g->write = write;
	fd = plan_open_path(b, path, &g->real);
	if (fd < 0)
		return refuse_open(b, typed, path, write, -fd);
	return plan_add_opened(b, path, fd, g, ret);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleans up what an interrupted commit left in the base under temporary names: new files that did
 * not get their names are removed; an old file that was taken away but not checked yet is put back,
 * so that it is checked again.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>
#include <unistd.h>

#include "sys/calls.h"
#include "workspace/commit/commit.h"

static bool is_same_link(int a_dir, const char *a, int b_dir, const char *b)
{
	char x[PATH_MAX], y[PATH_MAX];
	ssize_t n = readlinkat(a_dir, a, x, sizeof(x));

	return n >= 0 && readlinkat(b_dir, b, y, sizeof(y)) == n && memcmp(x, y, (size_t)n) == 0;
}

static bool is_same_file(int dir_fd, const char *name, const struct cursor *content,
			 const char *content_name)
{
	struct stat st;
	int a, b, r;

	a = openat(dir_fd, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	if (a < 0)
		return false;
	b = cursor_open_file(content, content_name, &st);
	r = b < 0 ? b : ws_same_content(a, b);
	close(a);
	if (b >= 0)
		close(b);
	return r == 1;
}

/* Is what is called @name in the base what the workspace has as @content_name? */
static bool is_ours(const struct commit *c, int dir_fd, const char *name, const char *content_name)
{
	int content_fd = walker_fd(&c->content);
	struct stat a, b;

	if (content_fd < 0 || fstatat(dir_fd, name, &a, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fstatat(content_fd, content_name, &b, AT_SYMLINK_NOFOLLOW) < 0 ||
	    (a.st_mode & S_IFMT) != (b.st_mode & S_IFMT))
		return false;
	if (S_ISLNK(a.st_mode))
		return is_same_link(dir_fd, name, content_fd, content_name);
	if (S_ISREG(a.st_mode))
		return a.st_size == b.st_size &&
		       is_same_file(dir_fd, name, &c->content.c, content_name);
	return S_ISFIFO(a.st_mode);
}

static int clean(const struct commit *c, int dir_fd, const char *temp, const struct stat *st,
		 const char *name)
{
	struct stat there;
	int r;

	if ((S_ISREG(st->st_mode) && (st->st_mode & 07777) == COMMIT_TEMP_MODE) ||
	    is_ours(c, dir_fd, temp, name))
		return sys_unlinkat(dir_fd, temp, 0);
	if (fstatat(dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) < 0) {
		r = sys_renameat2(dir_fd, temp, name, RENAME_NOREPLACE);
		return r == -EINVAL ? sys_renameat2(dir_fd, temp, name, 0) : r;
	}
	if (is_ours(c, dir_fd, name, name)) {
		r = sys_renameat2(dir_fd, temp, name, RENAME_EXCHANGE);
		if (r < 0)
			return r;
	}
	/* Else a new file was saved over it. */
	return sys_unlinkat(dir_fd, temp, 0);
}

static int clean_node(struct commit *c, uint32_t i)
{
	const struct ws_node *node = &c->journal->forest.v[i];
	char temp[COMMIT_TEMP_SIZE];
	struct stat st;
	int r;

	r = walker_go(&c->base, node->parent);
	if (r < 0 || walker_fd(&c->base) < 0)
		return r;
	commit_temp_name(c, i, temp);
	if (fstatat(walker_fd(&c->base), temp, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	r = walker_go(&c->content, node->parent);
	if (r < 0)
		return r;
	return clean(c, walker_fd(&c->base), temp, &st, node->name);
}

int commit_clean_leftovers(struct commit *c)
{
	int r;

	r = walker_start(&c->base, &c->journal->forest, c->ws->base_fd, false);
	if (r == 0)
		r = walker_start(&c->content, &c->journal->forest, c->content_fd, true);
	for (uint32_t i = 0; i < c->journal->forest.n && r == 0; i++) {
		if (c->journal->flags[i] & JOURNAL_CHOSEN)
			r = clean_node(c, i);
	}
	walker_done(&c->base);
	walker_done(&c->content);
	if (r < 0)
		return commit_fail(c, WS_NO_NODE, r,
				   "cannot clean up after the interrupted commit");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the changes in order: directories, then files (a repository's objects before what refers
 * to them), then removals, deepest first, and finally the modes of directories, since those may
 * forbid the rest.
 *
 * New files are written under temporary names, made durable together, and then get their names. So
 * an interruption at any point leaves each name with its old or its new file, complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "sys/calls.h"
#include "workspace/commit/batch.h"
#include "workspace/commit/commit.h"
#include "workspace/tree/tree.h"

#define SMALL_MAX 16

/* The passes, in order. What is referred to comes before what refers to it. */
enum pass {
	PASS_DIRS = 0,
	PASS_FILES,
	PASS_OBJECTS,
	PASS_REFS,
	PASS_LOGS,
	PASS_GIT,
	PASS_REMOVALS,
};

/* The node below the .git on the way to @i, or the .git itself. */
static const char *part_of_git(const struct commit *c, uint32_t i)
{
	uint32_t unit = c->items[i].unit;

	while (i != unit && c->changes.v[i].parent != unit)
		i = c->changes.v[i].parent;
	return c->changes.v[i].name;
}

static enum pass pass_of(const struct commit *c, uint32_t i)
{
	const struct ws_node *node = &c->changes.v[i];
	const struct commit_old *old = c->items[i].old;
	const char *part;

	if (node->type == CORDON_FILE_DIRECTORY)
		return PASS_DIRS;
	if (node->type == CORDON_FILE_NONE || (old && S_ISDIR(old->st.st_mode)))
		return PASS_REMOVALS;
	if (c->items[i].unit == WS_NO_NODE)
		return PASS_FILES;
	part = part_of_git(c, i);
	if (strcmp(part, "objects") == 0)
		return PASS_OBJECTS;
	if (strcmp(part, "refs") == 0 || strcmp(part, "packed-refs") == 0)
		return PASS_REFS;
	return strcmp(part, "logs") == 0 ? PASS_LOGS : PASS_GIT;
}

int commit_sync_dir(struct commit *c, int fd)
{
	return c->is_small ? sys_fsync(fd) : 0;
}

/* The rest of the repository is not touched then. References come after what they refer to, so it
 * stays consistent. */
void commit_late_conflict(struct commit *c, uint32_t i)
{
	uint32_t unit = c->items[i].unit;

	c->items[i].state = ITEM_CONFLICT;
	c->items[i].why = "it was changed during the commit";
	for (size_t k = 0; unit != WS_NO_NODE && k < c->changes.n; k++) {
		if (c->items[k].unit == unit && c->items[k].state == ITEM_CHOSEN) {
			c->items[k].state = ITEM_CONFLICT;
			c->items[k].why = "another file of the repository is in conflict";
		}
	}
}

/* Goes to the directory of @i in both trees. INSTALL_CHANGED: the base has no such directory. */
static int go_to(struct commit *c, uint32_t i)
{
	uint32_t dir = c->changes.v[i].parent;
	int r;

	r = walker_go(&c->base, dir);
	if (r == 0)
		r = walker_go(&c->content, dir);
	if (r < 0)
		return r;
	return walker_fd(&c->base) < 0 ? INSTALL_CHANGED : 0;
}

/* Set-id bits are only taken over if this very path was named. */
static unsigned mode_for(const struct commit *c, uint32_t i)
{
	unsigned mask = c->changes.v[i].type == CORDON_FILE_DIRECTORY ? 01777 : 0777;

	if (c->items[i].is_named)
		mask |= S_ISUID | S_ISGID;
	return c->changes.v[i].mode & mask;
}

static int is_open_enough(struct commit *c, uint32_t i)
{
	const struct commit_old *old = c->items[i].old;
	unsigned mode = old->st.st_mode & 07777, more = mode_for(c, i) & 0700;
	int fd, r;

	/* Closed in the base and open in the workspace: opened first, for what is below. */
	if ((mode | more) == mode)
		return 0;
	fd = sys_openat(walker_fd(&c->base), c->changes.v[i].name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	if (fd < 0)
		return fd == -EACCES ? 0 : fd;
	r = sys_fchmod(fd, mode | more);
	close(fd);
	return r;
}

static int apply_dir(struct commit *c, uint32_t i)
{
	const char *name = c->changes.v[i].name;
	struct commit_item *item = &c->items[i];
	char temp[COMMIT_TEMP_SIZE];
	struct stat st;
	int dir_fd, r;

	r = go_to(c, i);
	if (r != 0)
		return r;
	dir_fd = walker_fd(&c->base);
	if (item->old && S_ISDIR(item->old->st.st_mode))
		return is_open_enough(c, i);
	if (item->old) {
		commit_temp_name(c, item->number, temp);
		r = install_nothing(dir_fd, temp, name, item->old);
		if (r != 0)
			return r;
	}
	r = sys_mkdirat(dir_fd, name, 0700);
	if (r == -EEXIST && fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return S_ISDIR(st.st_mode) ? 0 : INSTALL_CHANGED;
	return r < 0 ? r : commit_sync_dir(c, dir_fd);
}

/* Owner and group stay as they are where a file is replaced, as far as we may decide that. */
static int set_owner(struct commit *c, uint32_t i, int fd)
{
	const struct commit_old *old = c->items[i].old;
	struct stat st;
	int r;

	if (!old)
		return 0;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid == old->st.st_uid && st.st_gid == old->st.st_gid)
		return 0;
	r = sys_fchown(fd, geteuid() == 0 ? old->st.st_uid : (uid_t)-1, old->st.st_gid);
	return r == -EPERM || r == -EINVAL ? 0 : r;
}

static int fill(struct commit *c, uint32_t i, int from_fd, int to_fd, const struct stat *st)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, st->st_mtim };
	int r;

	r = file_copy(from_fd, to_fd, st, NULL);
	if (r < 0)
		return r;
	r = file_copy_attributes(from_fd, to_fd);
	if (r < 0 && r != -EOPNOTSUPP)
		return r;
	r = set_owner(c, i, to_fd);
	if (r == 0)
		r = sys_futimens(to_fd, times);
	/* Last: until it has its mode it is not complete. */
	if (r == 0)
		r = sys_fchmod(to_fd, mode_for(c, i));
	if (r == 0 && c->is_small)
		r = sys_fsync(to_fd);
	return r;
}

static int write_file(struct commit *c, uint32_t i, int dir_fd, const char *temp)
{
	struct stat st;
	int from_fd, to_fd, r;

	from_fd = cursor_open_file(&c->content.c, c->changes.v[i].name, &st);
	if (from_fd < 0)
		return from_fd;
	to_fd = sys_openat(dir_fd, temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			   COMMIT_TEMP_MODE);
	if (to_fd < 0) {
		close(from_fd);
		return to_fd;
	}
	r = fill(c, i, from_fd, to_fd, &st);
	close(from_fd);
	close(to_fd);
	if (r < 0)
		unlinkat(dir_fd, temp, 0);
	return r;
}

static int write_temp(struct commit *c, uint32_t i, int dir_fd, const char *temp)
{
	const struct ws_node *node = &c->changes.v[i];

	if (walker_fd(&c->content) < 0)
		return -ESTALE;
	switch (node->type) {
	case CORDON_FILE_REGULAR:
		return write_file(c, i, dir_fd, temp);
	case CORDON_FILE_SYMLINK:
		return node->target ? sys_symlinkat(node->target, dir_fd, temp) : -EINVAL;
	case CORDON_FILE_FIFO:
		return sys_mknodat(dir_fd, temp, S_IFIFO | (mode_for(c, i) & 0777));
	default:
		return -EINVAL;
	}
}

static int apply_file(struct commit *c, struct batch *batch, uint32_t i)
{
	char temp[COMMIT_TEMP_SIZE];
	int r;

	r = go_to(c, i);
	if (r != 0)
		return r;
	commit_temp_name(c, c->items[i].number, temp);
	r = batch_reserve(c, batch, i);
	if (r < 0)
		return r;
	r = write_temp(c, i, walker_fd(&c->base), temp);
	if (r < 0)
		return r;
	batch_add(batch, i, c->changes.v[i].size);
	return 0;
}

static int apply_removal(struct commit *c, uint32_t i)
{
	const struct ws_node *node = &c->changes.v[i];
	struct commit_item *item = &c->items[i];
	char temp[COMMIT_TEMP_SIZE];
	int dir_fd, r;

	if (item->partner != WS_NO_NODE && c->items[item->partner].state != ITEM_APPLIED &&
	    c->items[item->partner].state != ITEM_DONE)
		return INSTALL_CHANGED;
	r = go_to(c, i);
	if (r == INSTALL_CHANGED && node->type == CORDON_FILE_NONE)
		return 0; /* gone with its directory */
	if (r != 0)
		return r;
	dir_fd = walker_fd(&c->base);
	commit_temp_name(c, item->number, temp);
	if (item->old) {
		r = install_nothing(dir_fd, temp, node->name, item->old);
		if (r != 0)
			return r;
	}
	if (node->type != CORDON_FILE_NONE) {
		r = write_temp(c, i, dir_fd, temp);
		if (r < 0)
			return r;
		r = c->is_small ? 0 : sys_syncfs(dir_fd);
		if (r < 0)
			unlinkat(dir_fd, temp, 0);
		else
			r = install_new(dir_fd, temp, node->name);
		if (r != 0)
			return r;
	}
	return commit_sync_dir(c, dir_fd);
}

static int set_dir(struct commit *c, uint32_t i, int fd, int content_fd)
{
	unsigned mode = mode_for(c, i);
	struct stat st;
	int r;

	r = file_copy_attributes(content_fd, fd);
	if (r < 0 && r != -EOPNOTSUPP && r != -EACCES)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* A directory whose entries inherit its group keeps that bit. */
	mode |= st.st_mode & S_ISGID;
	r = (st.st_mode & 07777) == mode ? 0 : sys_fchmod(fd, mode);
	return r < 0 ? r : commit_sync_dir(c, fd);
}

/* Directories get their modes, the inner ones first. */
static int finish_dir(struct commit *c, uint32_t i)
{
	int fd = -1, r;

	r = walker_go(&c->base, i);
	if (r == 0)
		r = walker_go(&c->content, i);
	if (r < 0)
		return r;
	/* Else it was removed meanwhile; nothing of ours is lost. */
	if (walker_fd(&c->base) >= 0 && walker_fd(&c->content) >= 0) {
		fd = fcntl(c->base.c.fd, F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			return -errno;
	}
	/* Leave it first: the new mode may not let us. */
	r = walker_go(&c->base, c->changes.v[i].parent);
	if (fd < 0)
		return r;
	if (r == 0)
		r = set_dir(c, i, fd, walker_fd(&c->content));
	close(fd);
	return r;
}

/* Records the result. */
static int outcome(struct commit *c, uint32_t i, int r, const char *what)
{
	if (r < 0)
		return commit_fail(c, i, r, what);
	if (r == INSTALL_CHANGED)
		commit_late_conflict(c, i);
	else
		c->items[i].state = ITEM_APPLIED;
	return 0;
}

static int apply_files(struct commit *c, enum pass pass)
{
	struct batch batch = BATCH_INIT;
	int r = 0;

	for (uint32_t i = 0; i < c->changes.n && r == 0; i++) {
		if (c->items[i].state != ITEM_CHOSEN || pass_of(c, i) != pass)
			continue;
		if (batch_is_full(&batch))
			r = batch_flush(c, &batch);
		/* It may have become part of a conflict just now. */
		if (r < 0 || c->items[i].state != ITEM_CHOSEN)
			continue;
		r = apply_file(c, &batch, i);
		if (r == -EMFILE && batch.n_dirs > 0) {
			/* Flushing closes the directories that the batch keeps open. */
			r = batch_flush(c, &batch);
			if (r < 0 || c->items[i].state != ITEM_CHOSEN)
				continue;
			r = apply_file(c, &batch, i);
		}
		if (r < 0)
			r = commit_fail(c, i, r, "cannot write");
		else if (r == INSTALL_CHANGED) {
			commit_late_conflict(c, i);
			r = 0;
		}
	}
	if (r == 0)
		r = batch_flush(c, &batch);
	batch_drop(c, &batch);
	return r;
}

static int apply_all(struct commit *c)
{
	int r = 0;

	for (uint32_t i = 0; i < c->changes.n && r == 0; i++) {
		if (c->items[i].state == ITEM_CHOSEN && pass_of(c, i) == PASS_DIRS)
			r = outcome(c, i, apply_dir(c, i), "cannot make the directory");
	}
	for (int pass = PASS_FILES; pass < PASS_REMOVALS && r == 0; pass++)
		r = apply_files(c, (enum pass)pass);
	for (uint32_t i = (uint32_t)c->changes.n; i-- > 0 && r == 0;) {
		if (c->items[i].state == ITEM_CHOSEN && pass_of(c, i) == PASS_REMOVALS)
			r = outcome(c, i, apply_removal(c, i), "cannot remove");
	}
	for (uint32_t i = (uint32_t)c->changes.n; i-- > 0 && r == 0;) {
		if (c->changes.v[i].type == CORDON_FILE_DIRECTORY &&
		    c->items[i].state == ITEM_APPLIED) {
			r = finish_dir(c, i);
			if (r < 0)
				r = commit_fail(c, i, r, "cannot set the mode of");
		}
	}
	return r;
}

int commit_apply(struct commit *c)
{
	size_t n = 0;
	int r;

	for (uint32_t i = 0; i < c->changes.n; i++)
		n += c->items[i].state == ITEM_CHOSEN;
	/* What an interrupted commit did before may not be on the disk yet either. */
	c->is_small = n <= SMALL_MAX && !c->journal;
	c->is_begun = true;
	r = apply_all(c);
	if (r < 0)
		return r;
	if (!c->is_small) {
		r = sys_syncfs(c->base.c.fd);
		if (r < 0)
			return commit_fail(c, WS_NO_NODE, r, "cannot write everything to the disk");
	}
	return 0;
}

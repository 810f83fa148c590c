/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protected names whose content cannot be judged: anything in an .envrc is obeyed.
 *
 * When the host replaces, makes or removes one while a run goes on, the guest has a moment in which
 * it can write there, too, and nobody can tell who wrote what. So the former state is made again,
 * by us, in a new object that the guest cannot have in hand; the tree is stopped meanwhile, and
 * goes on when it is covered. What the host put there is not lost: it is put aside, as with
 * fs.protect "existing", and the user is told the command that takes that back. Only where nothing
 * is different is nothing done.
 *
 * What exists in a repository's own directory is not among these: git has to find it as it left it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/path.h"
#include "format/placeholder.h"
#include "git/put_aside.h"
#include "launch/covers.h"
#include "launch/launch.h"
#include "plan/plan_read.h"
#include "sys/calls.h"

#define FILE_MAX (1u << 20) /* bytes; one that is larger is not kept */

static const struct plan_reserved *reserved_name(const struct plan *plan, const char *path)
{
	for (size_t i = 0; i < plan->n_reserved; i++)
		if (strcmp(plan->reserved[i].path, path) == 0)
			return &plan->reserved[i];
	return NULL;
}

static bool is_in_repository(const struct plan *plan, const char *path)
{
	for (size_t i = 0; i < plan->n_repos; i++)
		if (path_is_within(path, plan->repos[i].git_dir))
			return true;
	return strstr(path, "/.git/") != NULL;
}

static int keep_file(int fd, struct kept_name *ret)
{
	ret->kind = KEPT_FILE;
	ret->first.max = FILE_MAX;
	return read_strbuf(fd, &ret->first);
}

/* What exists: a directory, or a file with its content. */
static int keep_object(const char *path, struct kept_name *ret)
{
	int r, fd = sys_openat2(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC,
				RESOLVE_NO_SYMLINKS);
	struct stat st;

	if (fd < 0)
		return fd;
	r = fstat(fd, &st) < 0 ? -errno : 0;
	if (r == 0 && S_ISREG(st.st_mode))
		r = keep_file(fd, ret);
	else if (r == 0)
		r = S_ISDIR(st.st_mode) ? 0 : -EINVAL;
	if (r == 0 && S_ISDIR(st.st_mode))
		ret->kind = KEPT_DIR;
	close(fd);
	ret->name.is_dir = ret->kind == KEPT_DIR;
	ret->mode = st.st_mode & 07777;
	ret->uid = st.st_uid;
	ret->gid = st.st_gid;
	return r;
}

/* The plan's, where names are reserved beside it. */
static int find_parent(const struct plan *plan, const char *path, struct kept_name *ret)
{
	size_t len = path_dir_len(path);
	char *dir;

	for (size_t i = 0; i < plan->n_reserved; i++) {
		const struct plan_reserved *beside = &plan->reserved[i];

		if (path_dir_len(beside->path) == len && memcmp(beside->path, path, len) == 0) {
			ret->name.dir_fd = beside->dir_fd;
			return 0;
		}
	}
	dir = strndup(path, len ? len : 1);
	ret->name.dir_fd = dir ? sys_openat2(AT_FDCWD, dir,
					     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
					     RESOLVE_NO_SYMLINKS)
			       : -ENOMEM;
	free(dir);
	ret->is_own_fd = ret->name.dir_fd >= 0;
	return ret->is_own_fd ? 0 : ret->name.dir_fd;
}

int restore_keep(const struct cordon_run *run, const struct plan_op *op, struct kept_name *ret)
{
	const char *path = plan_string(run->plan->block, op->dst);
	const struct plan_reserved *reserved = reserved_name(run->plan, path);
	int r;

	if (!(op->flags & PLAN_PROTECTED) || !run->locks)
		return 0;
	if (reserved) {
		ret->kind = KEPT_MISSING;
		ret->name = *reserved;
		return 1;
	}
	if (is_in_repository(run->plan, path))
		return 0;
	r = keep_object(path, ret);
	if (r == 0)
		r = find_parent(run->plan, path, ret);
	if (r < 0) {
		restore_forget(ret);
		return 0;
	}
	ret->name.path = path;
	ret->name.name = strrchr(path, '/') + 1;
	return 1;
}

void restore_forget(struct kept_name *kept)
{
	strbuf_done(&kept->first);
	strbuf_done(&kept->last);
	if (kept->is_own_fd)
		close(kept->name.dir_fd);
	kept->is_own_fd = false;
}

/* Root's run may be in another user's directory. */
static int own_as_before(int fd, const struct kept_name *kept)
{
	mode_t mode = kept->mode;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((st.st_uid != kept->uid || st.st_gid != kept->gid) &&
	    fchown(fd, kept->uid, kept->gid) < 0) {
		if (st.st_uid != kept->uid)
			return -errno;
		/* Of a group that is not ours to give: it acts for nobody else then. */
		mode &= ~(mode_t)(S_ISUID | S_ISGID);
	}
	return fchmod(fd, mode) < 0 ? -errno : 0;
}

int restore_file(const struct kept_name *kept, const struct strbuf *text)
{
	int r, fd = openat(kept->name.dir_fd, kept->name.name,
			   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	r = text->len ? write_full(fd, text->data, text->len) : 0;
	if (r == 0)
		r = own_as_before(fd, kept);
	close(fd);
	return r;
}

static bool has_same_text(const struct kept_name *kept, int fd)
{
	struct strbuf text = { .max = FILE_MAX };
	struct stat st;
	bool ret = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
		   (st.st_mode & 07777) == kept->mode && read_strbuf(fd, &text) == 0 &&
		   text.len == kept->first.len &&
		   (text.len == 0 || memcmp(text.data, kept->first.data, text.len) == 0);

	strbuf_done(&text);
	return ret;
}

bool restore_is_as_before(const struct kept_name *kept, int fd)
{
	const struct plan_reserved *name = &kept->name;

	/* Also in the place of a file that was removed. */
	if (reserve_is_placeholder(name))
		return true;
	if (fd >= 0 && kept->kind == KEPT_FILE)
		return has_same_text(kept, fd);
	/* A directory with nothing in it does nothing. */
	return fd >= 0 && name->is_dir && placeholder_is_empty(name->dir_fd, name->name);
}

/* 1 = something stands there that is not as it was; 0; or -errno. */
static int is_other(const struct kept_name *kept)
{
	const struct plan_reserved *name = &kept->name;
	struct stat st;
	int fd, r;

	if (fstatat(name->dir_fd, name->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	fd = openat(name->dir_fd, name->name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	r = !restore_is_as_before(kept, fd);
	if (fd >= 0)
		close(fd);
	return r;
}

/* Something of ours that the guest may have opened: it goes, and a new one comes. */
static int remove_own(const struct plan_reserved *name)
{
	struct stat st;

	if (fstatat(name->dir_fd, name->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	return unlinkat(name->dir_fd, name->name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0
		       ? -errno
		       : 0;
}

int restore_name(struct cordon_run *run, struct kept_name *kept)
{
	const struct plan_reserved *name = &kept->name;
	struct stat st;
	bool is_gone = fstatat(name->dir_fd, name->name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
		       errno == ENOENT;
	int r = is_gone ? 0 : is_other(kept);

	if (r < 0)
		return r;
	if (r > 0)
		put_aside(run, name, "replaced name");
	else if (!is_gone)
		r = remove_own(name);
	if (run->look_failed || r < 0)
		return r < 0 ? r : -EEXIST;
	/* What the host has removed stays removed. */
	if (kept->kind == KEPT_FILE && !is_gone)
		return restore_file(kept, &kept->first);
	return reserve_more(&run->reserved, run->locks, name);
}

void restore_at_end(struct cordon_run *run, const struct kept_name *kept)
{
	struct git_opened dir = { .fd = kept->name.dir_fd };

	git_open_dir(&dir);
	if (is_other(kept) != 0) {
		put_aside(run, &kept->name, "replaced name");
		if (kept->kind == KEPT_FILE && !run->look_failed)
			(void)restore_file(kept, &kept->first);
	}
	git_close_dir(&dir);
}

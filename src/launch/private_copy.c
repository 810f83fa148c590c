/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies a private directory (private.c) with everything that runs left in it, and exchanges two.
 *
 * tree_copy() goes through it, so nothing that a guest made there leads anywhere else. What a run
 * changes meanwhile is copied or not; for a copy of one moment the caller ends or stops the runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/private.h"
#include "sys/calls.h"
#include "workspace/tree/tree.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

static int failed(const char *from, const char *part, const struct tree_copy *copy, int error,
		  struct cordon_error *err)
{
	int r;

	if (copy->is_too_much)
		return cordon_err(err, CORDON_E_SYSTEM, EDQUOT,
				  "'%s' contains more than may be copied", from);
	r = cordon_err(err, error == EACCES ? CORDON_E_PATH : CORDON_E_SYSTEM, error,
		       "cannot copy '%s/%s%s%s'", from, part, copy->failed[0] ? "/" : "",
		       copy->failed);
	if (error == EACCES)
		cordon_err_hint(err, "make it readable for its owner");
	return r;
}

/* Runs of root's have another id, which the copy gets, too. */
static int copy_part(const char *from, int from_dir, int to_dir, const char *part,
		     struct tree_room *room, struct cordon_error *err)
{
	struct tree_copy copy = { .room = room };
	int from_fd = openat(from_dir, part, DIR_FLAGS), to_fd = -1, r = 0;
	struct stat st = { .st_uid = 0 };

	if (from_fd < 0 && errno == ENOENT)
		return 0; /* the next run makes it */
	if (from_fd < 0 || fstat(from_fd, &st) < 0 || mkdirat(to_dir, part, 0700) < 0)
		r = -errno;
	if (r == 0)
		to_fd = openat(to_dir, part, DIR_FLAGS);
	if (r == 0 && to_fd < 0)
		r = -errno;
	if (r == 0) {
		copy.gives_away = geteuid() == 0;
		copy.uid = st.st_uid;
		copy.gid = st.st_gid;
		r = tree_copy(from_fd, to_fd, &copy);
	}
	/* What is left for the next part. */
	room->bytes -= copy.bytes < room->bytes ? copy.bytes : room->bytes;
	room->entries -= copy.entries < room->entries ? copy.entries : room->entries;
	if (to_fd >= 0)
		close(to_fd);
	if (from_fd >= 0)
		close(from_fd);
	return r < 0 ? failed(from, part, &copy, -r, err) : 0;
}

int cordon_private_copy(const char *from, const char *to, uint64_t max_bytes, uint64_t max_files,
			struct cordon_error *err)
{
	struct tree_room room = { max_bytes ? max_bytes : UINT64_MAX,
				  max_files ? max_files : UINT64_MAX };
	int from_fd = -1, to_fd = -1, r;

	if (!from || !to)
		return cordon_err(err, CORDON_E_USAGE, 0, "there is no directory to copy");
	r = private_open_dir(from, &from_fd, err);
	if (r == 0)
		r = private_open_dir(to, &to_fd, err);
	if (r == 0)
		r = copy_part(from, from_fd, to_fd, "tmp", &room, err);
	if (r == 0)
		r = copy_part(from, from_fd, to_fd, "home", &room, err);
	if (to_fd >= 0)
		close(to_fd);
	if (from_fd >= 0)
		close(from_fd);
	return r;
}

static int exchange_part(int dir_fd, int other_fd, const char *dir, const char *part,
			 struct cordon_error *err)
{
	int r = sys_exchange(dir_fd, other_fd, part);

	if (r == 0)
		return 0;
	cordon_err(err, CORDON_E_SYSTEM, -r, "cannot exchange '%s/%s'", dir, part);
	if (r == -EINVAL || r == -ENOSYS)
		cordon_err_hint(err, "its filesystem cannot; take a directory on another one "
				     "(XDG_STATE_HOME)");
	return -CORDON_E_SYSTEM;
}

static int forget_sizes(int dir_fd, int other_fd, const char *dir, struct cordon_error *err)
{
	const int fds[] = { dir_fd, other_fd };

	for (int i = 0; i < 2; i++) {
		int r = sys_unlinkat(fds[i], PRIVATE_USAGE_FILE, 0);

		if (r < 0 && r != -ENOENT)
			return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot exchange '%s'", dir);
	}
	return 0;
}

static int exchange_both(int dir_fd, int other_fd, const char *dir, struct cordon_error *err)
{
	int r = exchange_part(dir_fd, other_fd, dir, "tmp", err);

	if (r < 0)
		return r;
	r = exchange_part(dir_fd, other_fd, dir, "home", err);
	if (r < 0)
		(void)sys_exchange(dir_fd, other_fd, "tmp");
	return r;
}

int cordon_private_exchange(const char *dir, const char *other, struct cordon_error *err)
{
	int dir_fd = -1, other_fd = -1, r;

	if (!dir || !other)
		return cordon_err(err, CORDON_E_USAGE, 0, "there is no directory to exchange");
	r = private_open_dir(dir, &dir_fd, err);
	if (r == 0)
		r = private_open_dir(other, &other_fd, err);
	/* What the library knows of their sizes; without, the next run looks. */
	if (r == 0)
		r = forget_sizes(dir_fd, other_fd, dir, err);
	if (r == 0)
		r = exchange_both(dir_fd, other_fd, dir, err);
	if (other_fd >= 0)
		close(other_fd);
	if (dir_fd >= 0)
		close(dir_fd);
	return r;
}

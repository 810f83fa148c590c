/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies a private directory (private.c) with everything that runs left in it.
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

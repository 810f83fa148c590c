/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private directory of a run without a mount namespace: made with a random name and mode 0700,
 * removed with all that the guest left in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/launch.h"
#include "probe/probe.h"
#include "workspace/tree/dents.h"
#include "workspace/tree/tree.h"

#define PARENT "/tmp"
#define PASSES_MAX 1000 /* over a directory that others keep filling */

/* The name comes first, so that init, which removes the directory if we are killed, knows it before
 * it exists. */
int scratch_name(struct arena *arena, const char **ret_path, int *ret_parent_fd,
		 struct cordon_error *err)
{
	uint64_t number;
	const char *path;
	int fd;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot choose a random name");
	path = arena_printf(arena, PARENT "/cordon-%016llx", (unsigned long long)number);
	if (!path)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	fd = open(PARENT, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot open " PARENT);
	*ret_path = path;
	*ret_parent_fd = fd;
	return 0;
}

int scratch_give(const char *path, int parent_fd, uid_t uid, gid_t gid, struct cordon_error *err)
{
	int r = 0, dir = openat(parent_fd, strrchr(path, '/') + 1,
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0 || fchownat(dir, "home", uid, gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchownat(dir, "tmp", uid, gid, AT_SYMLINK_NOFOLLOW) < 0 || fchown(dir, uid, gid) < 0)
		r = cordon_err(err, CORDON_E_SYSTEM, errno, "cannot prepare '%s'", path);
	if (dir >= 0)
		close(dir);
	return r;
}

int scratch_make(const char *path, int parent_fd, struct cordon_error *err)
{
	const char *name = strrchr(path, '/') + 1;
	int dir, r = 0;

	/* Fails if it exists, also as a link: another user cannot have prepared it. */
	if (mkdirat(parent_fd, name, 0700) < 0) {
		int error = errno;

		cordon_err(err, CORDON_E_SYSTEM, error, "cannot make '%s'", path);
		if (probe_has_filter() && probe_is_in_cordon())
			cordon_err_hint(err, "Cordon cannot run inside one of its own sandboxes");
		else if (error == EROFS || error == EACCES)
			cordon_err_hint(err, "level landlock needs a " PARENT " that you can write "
					     "to; a tmpfs will do");
		return -CORDON_E_SYSTEM;
	}
	dir = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || mkdirat(dir, "home", 0700) < 0 || mkdirat(dir, "tmp", 0700) < 0)
		r = cordon_err(err, CORDON_E_SYSTEM, errno, "cannot prepare '%s'", path);
	if (dir >= 0)
		close(dir);
	return r;
}

/* Whether anything was removed. */
static bool remove_entries(int dir_fd)
{
	bool has_removed = false;
	struct dents dents;
	const char *name;

	while (dents_read(dir_fd, &dents) > 0) {
		while ((name = dents_next(&dents, NULL)))
			has_removed |= tree_remove(dir_fd, name) == 0;
	}
	return has_removed;
}

void scratch_remove(int parent_fd, const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	int dir, passes = 0;

	/* The guest may have closed it to its owner. */
	if (fchmodat(parent_fd, name, 0700, AT_SYMLINK_NOFOLLOW) < 0)
		errno = 0; /* then opening it fails, if it is needed */
	dir = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* Entry by entry, since PARENT need not be readable to us, as tree_remove() wants it. */
	while (dir >= 0 && unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && passes++ < PASSES_MAX &&
	       lseek(dir, 0, SEEK_SET) == 0 && remove_entries(dir))
		;
	if (dir >= 0)
		close(dir);
	if (parent_fd >= 0)
		close(parent_fd);
}

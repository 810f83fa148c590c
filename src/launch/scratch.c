/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private directory of a run without a mount namespace: made with a random name and mode 0700,
 * removed with all that the guest left in it.
 *
 * Removing is done by descriptor and without following links, since the tree is the guest's. It
 * needs no recursion: a directory that is not empty is moved up beside its top first, so depth
 * costs neither stack nor descriptors.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/launch.h"

#define PASSES_MAX 100000

#define PARENT "/tmp"

/* The name comes first, so that whoever has to remove the directory knows it before it exists. */
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

int scratch_make(const char *path, int parent_fd, uid_t uid, gid_t gid, struct cordon_error *err)
{
	const char *name = strrchr(path, '/') + 1;
	int dir, r = 0;

	/* Fails if it exists, also as a link: nobody can have prepared it. */
	if (mkdirat(parent_fd, name, 0700) < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot make '%s'", path);
	dir = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || mkdirat(dir, "home", 0700) < 0 || mkdirat(dir, "tmp", 0700) < 0 ||
	    (geteuid() != uid && (fchownat(dir, "home", uid, gid, AT_SYMLINK_NOFOLLOW) < 0 ||
				  fchownat(dir, "tmp", uid, gid, AT_SYMLINK_NOFOLLOW) < 0 ||
				  fchown(dir, uid, gid) < 0)))
		r = cordon_err(err, CORDON_E_SYSTEM, errno, "cannot prepare '%s'", path);
	if (dir >= 0)
		close(dir);
	return r;
}

static int is_dot(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

/* The guest may have taken its own rights to a directory away; never follows a link. */
static void open_up(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char path[32];

	if (fd < 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (chmod(path, 0700) < 0)
		errno = 0; /* then removing it fails, which ends the attempt */
	close(fd);
}

/* Removes the files of a directory and moves its directories up to @top under new names. */
static unsigned empty_level(int top, int dir_fd, unsigned *counter)
{
	DIR *dir = fdopendir(dir_fd);
	struct dirent *entry;
	unsigned done = 0;

	if (!dir) {
		close(dir_fd);
		return 0;
	}
	while ((entry = readdir(dir))) {
		char name[32];

		if (is_dot(entry->d_name))
			continue;
		if (unlinkat(dirfd(dir), entry->d_name, 0) == 0 ||
		    unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR) == 0) {
			done++;
			continue;
		}
		open_up(dirfd(dir), entry->d_name);
		snprintf(name, sizeof(name), ".gone-%u", (*counter)++);
		if (renameat(dirfd(dir), entry->d_name, top, name) < 0)
			break;
		done++;
	}
	closedir(dir);
	return done;
}

/* Every directory directly in @top is emptied into @top and removed; how much was done. */
static unsigned remove_pass(int top, unsigned *counter)
{
	int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	unsigned done = 0;

	if (!dir)
		return 0;
	while ((entry = readdir(dir))) {
		int sub;

		if (is_dot(entry->d_name))
			continue;
		if (unlinkat(top, entry->d_name, 0) == 0) {
			done++;
			continue;
		}
		open_up(top, entry->d_name);
		sub = openat(top, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (sub >= 0)
			done += empty_level(top, sub, counter);
		if (unlinkat(top, entry->d_name, AT_REMOVEDIR) == 0)
			done++;
	}
	closedir(dir);
	return done;
}

void scratch_remove(int parent_fd, const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	unsigned counter = 0, passes = 0;
	int top;

	open_up(parent_fd, name);
	top = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	/* Each pass takes a level off everything; one that gets nowhere is the last. */
	while (top >= 0 && unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && passes++ < PASSES_MAX)
		if (!remove_pass(top, &counter))
			break;
	if (top >= 0)
		close(top);
	if (parent_fd >= 0)
		close(parent_fd);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The installer has ended and nothing of it runs any more, but what it left was made from packages
 * of others. No link is followed here, and nothing but files, directories and links is kept.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "packages/packages.h"

#define DEPTH_MAX 128
#define FILES_MAX 1000000

struct walk {
	struct settled *sum;
	struct cordon_error *err;
};

static int settle_dir(struct walk *w, int fd, unsigned depth);

/* Ours, if it is not: a run that root starts may have another id. */
static int take_over(int dir_fd, const char *name, const struct stat *st)
{
	if (st->st_uid == geteuid() && st->st_gid == getegid())
		return 0;
	return fchownat(dir_fd, name, geteuid(), getegid(), AT_SYMLINK_NOFOLLOW) < 0 &&
			       st->st_uid != geteuid()
		       ? -errno
		       : 0;
}

static int settle_sub(struct walk *w, int dir_fd, const char *name, unsigned depth)
{
	int fd;

	/* It may be closed to us. */
	if (fchmodat(dir_fd, name, 0700, 0) < 0)
		return cordon_err(w->err, CORDON_E_SYSTEM, errno, "'%s' of the packages", name);
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return cordon_err(w->err, CORDON_E_SYSTEM, errno, "'%s' of the packages", name);
	return settle_dir(w, fd, depth + 1);
}

static int settle_entry(struct walk *w, int dir_fd, const char *name, unsigned depth)
{
	struct stat st;
	int r;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return cordon_err(w->err, CORDON_E_SYSTEM, errno, "'%s' of the packages", name);
	r = take_over(dir_fd, name, &st);
	if (r < 0)
		return cordon_err(w->err, CORDON_E_SYSTEM, -r, "'%s' of the packages", name);
	if (++w->sum->files > FILES_MAX)
		return cordon_err(w->err, CORDON_E_SETUP, 0, "the packages have too many files");
	w->sum->bytes += S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	if (S_ISDIR(st.st_mode))
		return settle_sub(w, dir_fd, name, depth);
	if (S_ISLNK(st.st_mode))
		return 0;
	if (!S_ISREG(st.st_mode))
		return cordon_err(w->err, CORDON_E_SETUP, 0,
				  "the packages have something that is no file: '%s'", name);
	if (fchmodat(dir_fd, name, st.st_mode & 0111 ? 0555 : 0444, 0) < 0)
		return cordon_err(w->err, CORDON_E_SYSTEM, errno, "'%s' of the packages", name);
	return 0;
}

/* Takes @fd over. */
static int settle_dir(struct walk *w, int fd, unsigned depth)
{
	DIR *dir = fdopendir(fd);
	struct dirent *entry;
	int r = 0;

	if (!dir) {
		close(fd);
		return cordon_err(w->err, CORDON_E_SYSTEM, errno, "the packages");
	}
	if (depth > DEPTH_MAX)
		r = cordon_err(w->err, CORDON_E_SETUP, 0, "the packages' directories are too deep");
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = settle_entry(w, dirfd(dir), entry->d_name, depth);
	}
	if (r == 0 && fchmod(dirfd(dir), 0555) < 0)
		r = cordon_err(w->err, CORDON_E_SYSTEM, errno, "the packages");
	closedir(dir);
	return r;
}

int settle_tree(int dir_fd, struct settled *ret, struct cordon_error *err)
{
	struct walk w = { .sum = ret, .err = err };
	int fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);

	*ret = (struct settled){ 0 };
	if (fd < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "the packages");
	if (geteuid() == 0 && fchown(fd, 0, getegid()) < 0) {
		close(fd);
		return cordon_err(err, CORDON_E_SYSTEM, errno, "the packages");
	}
	return settle_dir(&w, fd, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "receipt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "out.h"
#include "output_file.h"

#define TEMP_NAME_MAX 48
#define TEMP_TRIES 8

/*
 * The receipt replaces a regular file or nothing. Anything else (a device, a pipe, a link) stays
 * what it is: root's `--receipt /dev/null` must not turn /dev/null into a file.
 */
static int check_target(int dir_fd, const char *name, const char *path, struct cordon_error *err)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno == ENOENT)
			return 0;
		return cordon_err(err, CORDON_E_PATH, errno, "cannot write receipt '%s'", path);
	}
	if (S_ISREG(st.st_mode))
		return 0;
	return cordon_err(err, CORDON_E_PATH, 0, "cannot write receipt '%s': not a regular file",
			  path);
}

int receipt_open(const char *path, struct receipt *ret, struct cordon_error *err)
{
	const char *name;
	int fd = output_open_dir("receipt ", path, &name, err);
	int r;

	if (fd < 0)
		return fd;
	r = check_target(fd, name, path, err);
	if (r == 0 && faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
		r = cordon_err(err, CORDON_E_PATH, errno, "cannot write receipt '%s'", path);
	if (r < 0) {
		close(fd);
		return r;
	}
	ret->dir_fd = fd;
	ret->name = name;
	ret->path = path;
	return 0;
}

/* The name is random, so that a command that may write here cannot take it first. */
static int open_temporary(int dir_fd, char name[TEMP_NAME_MAX])
{
	for (int i = 0; i < TEMP_TRIES; i++) {
		uint64_t number;
		int fd;

		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return -errno;
		snprintf(name, TEMP_NAME_MAX, ".cordon-receipt.%016jx", (uintmax_t)number);
		fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0600);
		if (fd >= 0)
			return fd;
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

static int fill_temporary(int fd, const char *text, size_t len)
{
	mode_t mask = umask(0);
	int r;

	umask(mask);
	r = write_full(fd, text, len);
	if (r == 0)
		r = write_full(fd, "\n", 1);
	if (r == 0 && fchmod(fd, 0644 & ~mask) < 0)
		r = -errno;
	/* Network file systems report a full disk here. */
	if (close(fd) < 0 && r == 0)
		r = -errno;
	return r;
}

int receipt_write(const struct receipt *receipt, const char *text, size_t len,
		  struct cordon_error *err)
{
	char temp[TEMP_NAME_MAX];
	int fd;
	int r;

	r = check_target(receipt->dir_fd, receipt->name, receipt->path, err);
	if (r < 0)
		return r;
	fd = open_temporary(receipt->dir_fd, temp);
	if (fd < 0)
		return cordon_err(err, CORDON_E_PATH, -fd, "cannot write receipt '%s'",
				  receipt->path);
	r = fill_temporary(fd, text, len);
	if (r == 0 && renameat(receipt->dir_fd, temp, receipt->dir_fd, receipt->name) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(receipt->dir_fd, temp, 0);
		return cordon_err(err, CORDON_E_PATH, -r, "cannot write receipt '%s'",
				  receipt->path);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the server does with one file or one name. */
#include "init/files/server.h"
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/stat.h>

#include "bare/fd.h"
#include "bare/raw.h"

#ifndef AT_EMPTY_PATH
#define AT_EMPTY_PATH 0x1000
#endif
#define NEW_FILE_MODE 0644
#define NEW_DIR_MODE 0777

static long open_path(struct server *s, int flags, uint32_t mode)
{
	if (s->request.flags & CORDON_FILES_NOFOLLOW)
		flags |= O_NOFOLLOW;
	return raw_syscall(__NR_openat, AT_FDCWD, RAW_ARG(s->path),
			   flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode, 0, 0);
}

/* Only regular files are read or written: others could block or have side effects. */
static long check_regular(long fd, struct statx *ret)
{
	long r = serve_statx(fd, "", AT_EMPTY_PATH, ret);

	if (r < 0)
		return r;
	if (S_ISDIR(ret->stx_mode))
		return -EISDIR;
	return S_ISREG(ret->stx_mode) ? 0 : -ENODEV;
}

static long pread_some(long fd, char *to, size_t len, uint64_t offset)
{
	long n;

	do
		n = raw_syscall(__NR_pread64, fd, RAW_ARG(to), (long)len, (long)offset, 0, 0);
	while (n == -EINTR);
	return n;
}

static long read_on(struct server *s, long fd)
{
	uint64_t offset = s->request.offset, left = s->request.max ? s->request.max : ~(uint64_t)0;
	long n;

	while (left > 0) {
		n = pread_some(fd, s->data, left < sizeof(s->data) ? left : sizeof(s->data),
			       offset);
		if (n <= 0)
			return n;
		serve_put(s, s->data, (size_t)n);
		offset += (uint64_t)n;
		left -= (uint64_t)n;
	}
	if (pread_some(fd, s->data, 1, offset) > 0)
		s->end_flags |= CORDON_FILES_MORE;
	return 0;
}

long serve_read(struct server *s)
{
	long fd = open_path(s, O_RDONLY, 0), r;
	struct statx st;

	if (fd < 0)
		return fd == -ENXIO ? -ENODEV : fd;
	r = check_regular(fd, &st);
	if (r == 0)
		r = read_on(s, fd);
	close_fd(fd);
	return r;
}

static long make_dir(const char *path, uint32_t mode)
{
	return raw_syscall(__NR_mkdirat, AT_FDCWD, RAW_ARG(path), mode, 0, 0, 0);
}

static int is_dir(const char *path)
{
	struct statx st;

	return serve_statx(AT_FDCWD, path, 0, &st) == 0 && S_ISDIR(st.stx_mode);
}

static long make_parents(char *path)
{
	for (size_t i = 1; path[0] && path[i]; i++) {
		long r;

		if (path[i] != '/' || path[i - 1] == '/')
			continue;
		path[i] = 0;
		r = make_dir(path, NEW_DIR_MODE);
		if (r < 0 && r != -EEXIST && is_dir(path))
			r = 0;
		path[i] = '/';
		if (r < 0 && r != -EEXIST)
			return r;
	}
	return 0;
}

/* Opened, known to be a regular file, and emptied unless that is not wanted. */
static long open_to_write(struct server *s, struct statx *st)
{
	const struct cordon_files_request *request = &s->request;
	uint32_t mode = request->mode ? request->mode : NEW_FILE_MODE;
	int flags = O_WRONLY | O_CREAT;
	long fd, r;

	if (request->flags & CORDON_FILES_APPEND)
		flags |= O_APPEND;
	if (request->flags & CORDON_FILES_EXCL)
		flags |= O_EXCL;
	fd = open_path(s, flags, mode);
	if (fd == -ENOENT && (request->flags & CORDON_FILES_PARENTS)) {
		r = make_parents(s->path);
		fd = r < 0 ? r : open_path(s, flags, mode);
	}
	if (fd < 0)
		return fd == -ENXIO ? -ENODEV : fd;
	r = check_regular(fd, st);
	if (r == 0 && st->stx_size && !(request->flags & CORDON_FILES_APPEND))
		r = raw_syscall(__NR_ftruncate, fd, 0, 0, 0, 0, 0);
	if (r < 0) {
		close_fd(fd);
		return r;
	}
	return fd;
}

static long write_all(long fd, const char *from, size_t len)
{
	for (size_t done = 0; done < len;) {
		long n = raw_syscall(__NR_write, fd, RAW_ARG(from + done), (long)(len - done), 0, 0,
				     0);

		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? n : -ENOSPC;
		done += (size_t)n;
	}
	return 0;
}

long serve_write(struct server *s)
{
	struct statx st;
	uint64_t left = s->request.data_len;
	long fd = open_to_write(s, &st), r = fd < 0 ? fd : 0;

	/* In any case: the next request comes after the data. */
	while (left > 0) {
		size_t n = serve_take(s, left);

		left -= n;
		if (r == 0)
			r = write_all(fd, s->data, n);
	}
	if (r == 0 && s->request.mode && (st.stx_mode & 07777) != s->request.mode)
		r = raw_syscall(__NR_fchmod, fd, s->request.mode, 0, 0, 0, 0);
	close_fd(fd);
	return r;
}

static void strip_slashes(char *path)
{
	size_t n = str_len(path);

	while (n > 1 && path[n - 1] == '/')
		path[--n] = 0;
}

long serve_mkdir(struct server *s)
{
	uint32_t mode = s->request.mode ? s->request.mode : NEW_DIR_MODE;
	long r;

	strip_slashes(s->path);
	r = make_dir(s->path, mode);
	if (r == -ENOENT && (s->request.flags & CORDON_FILES_PARENTS)) {
		r = make_parents(s->path);
		if (r == 0)
			r = make_dir(s->path, mode);
	}
	if (r == -EEXIST && (s->request.flags & CORDON_FILES_EXIST_OK) && is_dir(s->path))
		return 0;
	return r;
}

long serve_chmod(struct server *s)
{
	return raw_syscall(__NR_fchmodat, AT_FDCWD, RAW_ARG(s->path), s->request.mode, 0, 0, 0);
}

/* Where a link leads, in s->text; the length. */
static long read_link(struct server *s, const char *path)
{
	long n = raw_syscall(__NR_readlinkat, AT_FDCWD, RAW_ARG(path), RAW_ARG(s->text),
			     sizeof(s->text), 0, 0);

	if (n < 0)
		return n;
	if ((size_t)n >= sizeof(s->text))
		return -ENAMETOOLONG;
	s->text[n] = 0;
	return n;
}

long serve_readlink(struct server *s)
{
	long n = read_link(s, s->path);

	if (n < 0)
		return n;
	serve_put(s, s->text, (size_t)n);
	return 0;
}

long serve_rename(struct server *s)
{
	return raw_syscall(__NR_renameat2, AT_FDCWD, RAW_ARG(s->path), AT_FDCWD, RAW_ARG(s->path2),
			   s->request.flags & CORDON_FILES_EXCL ? RENAME_NOREPLACE_FLAG : 0, 0);
}

long serve_symlink(struct server *s)
{
	return raw_syscall(__NR_symlinkat, RAW_ARG(s->path2), AT_FDCWD, RAW_ARG(s->path), 0, 0, 0);
}

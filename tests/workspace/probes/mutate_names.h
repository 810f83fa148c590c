/* SPDX-License-Identifier: Apache-2.0 */
/* mutate: ways to change which names there are. */
#include "mutate.h"

#include <linux/fs.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

static long rename2(const char *from, const char *to, unsigned flags)
{
	return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
}

OP(rename, rename("file", "renamed"));
OP(rename_over, rename("other", "file"));
OP(rename_into, rename("file", "full/moved"));
OP(rename_out, rename("full/child", "moved"));
OP(rename_link, rename("link", "renamed"));
OP(rename_fifo, rename("fifo", "renamed"));
OP(rename_hard, rename("hard1", "renamed"));
OP(rename_dir, rename("full", "renamed"));
OP(rename_dir_over, rename("full", "empty"));
OP(rename_noreplace, rename2("file", "renamed", RENAME_NOREPLACE));
OP(rename_exchange, rename2("file", "other", RENAME_EXCHANGE));
OP(rename_exchange_dirs, rename2("full", "empty", RENAME_EXCHANGE));
OP(rename_exchange_types, rename2("file", "full", RENAME_EXCHANGE));
OP(rename_whiteout, rename2("file", "renamed", RENAME_WHITEOUT));

OP(link, link("file", "new"));
OP(link_of_link, linkat(AT_FDCWD, "link", AT_FDCWD, "new", 0));
OP(link_followed, linkat(AT_FDCWD, "link", AT_FDCWD, "new", AT_SYMLINK_FOLLOW));
OP(link_fifo, link("fifo", "new"));
OP(link_hard, link("hard2", "new"));
OP(link_empty, linkat(must_open("file", O_PATH), "", AT_FDCWD, "new", AT_EMPTY_PATH));

static long link_magic(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, path, AT_FDCWD, "new", AT_SYMLINK_FOLLOW);
}

OP(link_magic, link_magic(must_open("file", O_RDONLY)));

/* The other name of it is written to: a link into the base must not carry that there. */
static long op_link_and_write(void)
{
	if (link("file", "new") < 0)
		return -1;
	return write(must_open("new", O_WRONLY), "x", 1);
}

static long op_tmpfile_link(void)
{
	int fd = open("full", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, "x", 1) != 1)
		return -1;
	return link_magic(fd);
}

static long op_tmpfile_link_empty(void)
{
	int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? -1 : linkat(fd, "", AT_FDCWD, "new", AT_EMPTY_PATH);
}

OP(symlink, symlink("/etc/passwd", "new"));
OP(symlink_replace, unlink("link") < 0 ? -1 : symlink("other", "link"));

OP(unlink, unlink("file"));
OP(unlink_link, unlink("link"));
OP(unlink_hard, unlink("hard1"));
OP(unlink_fifo, unlink("fifo"));
OP(unlink_child, unlink("full/child"));
static long op_unlink_open(void)
{
	int fd = must_open("file", O_RDWR);

	return unlink("file") < 0 ? -1 : write(fd, "unlinked", 8);
}
/* What is open and has no name any more is given a new one. */
static long op_unlink_and_link(void)
{
	int fd = must_open("file", O_RDONLY);

	if (unlink("file") < 0)
		return -1;
	(void)link_magic(fd);
	return 0;
}
OP(rmdir, rmdir("empty"));
OP(rmdir_at, unlinkat(AT_FDCWD, "empty", AT_REMOVEDIR));
OP(remove_full, unlink("full/child") < 0 ? -1 : rmdir("full"));
static long op_replace_dir(void)
{
	if (op_remove_full() < 0 || mkdir("full", 0700) < 0)
		return -1;
	return close(must_open("full/new", O_CREAT | O_WRONLY));
}
OP(file_becomes_dir, unlink("file") < 0 ? -1 : mkdir("file", 0700));
OP(dir_becomes_link, rmdir("empty") < 0 ? -1 : symlink("full", "empty"));
OP(whiteout_by_hand, unlink("file") < 0 ? -1 : mknod("file", S_IFCHR | 0600, 0));

OP(mkdir, mkdir("new", 0700));
OP(mkdir_at, mkdirat(must_open("full", O_PATH | O_DIRECTORY), "new", 0700));
OP(create_in_dir, close(must_open("full/new", O_CREAT | O_EXCL | O_WRONLY)));
OP(create_at, openat(must_open("full", O_RDONLY | O_DIRECTORY), "new", O_CREAT | O_WRONLY, 0600));
OP(mknod_file, mknod("new", S_IFREG | 0600, 0));
OP(mknod_fifo, mknod("new", S_IFIFO | 0600, 0));
OP(mknod_socket, mknod("new", S_IFSOCK | 0600, 0));
OP(mknod_whiteout, mknod("new", S_IFCHR | 0600, makedev(0, 0)));
OP(mknod_null, mknod("new", S_IFCHR | 0600, makedev(1, 3)));
OP(mknod_block, mknod("new", S_IFBLK | 0600, makedev(7, 0)));

static long op_bind(void)
{
	struct sockaddr_un addr = { AF_UNIX, "new" };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	return fd < 0 ? -1 : bind(fd, (struct sockaddr *)&addr, sizeof(addr));
}

/* Written to by way of a pipe of the base: no change of any file. */
static long op_fifo_write(void)
{
	int reader = must_open("fifo", O_RDONLY | O_NONBLOCK);

	(void)reader;
	return write(must_open("fifo", O_WRONLY | O_NONBLOCK), "x", 1);
}

static const struct attempt name_attempts[] = {
	ATTEMPT(rename),
	ATTEMPT(rename_over),
	ATTEMPT(rename_into),
	ATTEMPT(rename_out),
	ATTEMPT(rename_link),
	ATTEMPT(rename_fifo),
	ATTEMPT(rename_hard),
	ATTEMPT(rename_dir),
	ATTEMPT(rename_dir_over),
	ATTEMPT(rename_noreplace),
	ATTEMPT(rename_exchange),
	ATTEMPT(rename_exchange_dirs),
	ATTEMPT(rename_exchange_types),
	ATTEMPT(rename_whiteout),
	ATTEMPT(link),
	ATTEMPT(link_of_link),
	ATTEMPT(link_followed),
	ATTEMPT(link_fifo),
	ATTEMPT(link_hard),
	ATTEMPT(link_empty),
	ATTEMPT(link_magic),
	ATTEMPT(link_and_write),
	ATTEMPT(tmpfile_link),
	ATTEMPT(tmpfile_link_empty),
	ATTEMPT(symlink),
	ATTEMPT(symlink_replace),
	ATTEMPT(unlink),
	ATTEMPT(unlink_link),
	ATTEMPT(unlink_hard),
	ATTEMPT(unlink_fifo),
	ATTEMPT(unlink_child),
	ATTEMPT(unlink_open),
	ATTEMPT(unlink_and_link),
	ATTEMPT(rmdir),
	ATTEMPT(rmdir_at),
	ATTEMPT(remove_full),
	ATTEMPT(replace_dir),
	ATTEMPT(file_becomes_dir),
	ATTEMPT(dir_becomes_link),
	ATTEMPT(whiteout_by_hand),
	ATTEMPT(mkdir),
	ATTEMPT(mkdir_at),
	ATTEMPT(create_in_dir),
	ATTEMPT(create_at),
	ATTEMPT(mknod_file),
	ATTEMPT(mknod_fifo),
	ATTEMPT(mknod_socket),
	ATTEMPT(mknod_whiteout),
	ATTEMPT(mknod_null),
	ATTEMPT(mknod_block),
	ATTEMPT(bind),
	ATTEMPT(fifo_write),
	{ NULL, NULL },
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Removing and copying untrusted trees. */
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include "test_workspace_lib.h"

#define RACE_ROUNDS 300

/* --- removing -----------------------------------------------------------------------------------
 */

static void put_hostile(int dir_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/sock", dir_fd);
	CHECK_INT(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	for (size_t i = 0; i < N_HOSTILE; i++) {
		put_dir(dir_fd, hostile[i], 0700);
		int sub = open_dir(dir_fd, hostile[i]);

		for (size_t k = 0; k < N_HOSTILE; k++)
			put_text(sub, hostile[k], "x", (mode_t)(k % 2 ? 0000 : 06777));
		CHECK_INT(mkfifoat(sub, "fifo", 0000), 0);
		CHECK_INT(symlinkat("/etc/passwd", sub, "absolute"), 0);
		CHECK_INT(symlinkat("../../outside", sub, "out"), 0);
		CHECK_INT(symlinkat("loop", sub, "loop"), 0);
		CHECK_INT(linkat(tmp_fd, "outside/canary", sub, "hard", 0), 0);
		CHECK_INT(fchmod(sub, (mode_t)(i % 3 ? 0000 : 0555)), 0);
		close(sub);
	}
}

static void remove_hostile(void)
{
	struct stat st;
	int tree;

	tmp_make();
	put_dir(tmp_fd, "outside", 0755);
	put_text(tmp_fd, "outside/canary", "alive", 0644);
	put_dir(tmp_fd, "tree", 0755);
	tree = open_dir(tmp_fd, "tree");
	put_hostile(tree);
	/* A chain of closed directories. */
	put_deep(tree, "c", 50);
	for (int i = 50; i > 0; i--) {
		char path[128] = "c";

		for (int k = 1; k < i; k++)
			snprintf(path + strlen(path), sizeof(path) - strlen(path), "/c");
		CHECK_INT(fchmodat(tree, path, 0000, 0), 0);
	}
	close(tree);
	CHECK_INT(fchmodat(tmp_fd, "tree", 0000, 0), 0);
	CHECK_INT(tree_remove(tmp_fd, "tree"), 0);
	CHECK(!is_there(tmp_fd, "tree"));
	CHECK_STR(text_of(tmp_fd, "outside/canary"), "alive");
	CHECK_INT(fstatat(tmp_fd, "outside/canary", &st, 0), 0);
	CHECK_INT(st.st_mode & 07777, 0644);
	CHECK_INT(st.st_nlink, 1);
	tmp_drop();
}

static void test_remove_hostile(void)
{
	remove_hostile();
	as_ordinary(remove_hostile);
}

static void test_remove_simple(void)
{
	tmp_make();
	CHECK_INT(tree_remove(tmp_fd, "none"), 0);
	put_text(tmp_fd, "file", "x", 0000);
	CHECK_INT(tree_remove(tmp_fd, "file"), 0);
	CHECK(!is_there(tmp_fd, "file"));
	put_dir(tmp_fd, "dir", 0755);
	put_text(tmp_fd, "dir/f", "x", 0644);
	CHECK_INT(symlinkat("dir", tmp_fd, "link"), 0);
	CHECK_INT(tree_remove(tmp_fd, "link"), 0);
	CHECK_STR(text_of(tmp_fd, "dir/f"), "x");
	CHECK(!is_there(tmp_fd, "link"));
	tmp_drop();
}

static void test_remove_deep(void)
{
	tmp_make_in_memory();
	put_dir(tmp_fd, "tree", 0755);
	int tree = open_dir(tmp_fd, "tree");

	put_deep(tree, "deep", DEPTH);
	close(tree);
	CHECK_INT(tree_remove(tmp_fd, "tree"), 0);
	CHECK(!is_there(tmp_fd, "tree"));
	tmp_drop();
}

static void test_remove_wide(void)
{
	char name[32];
	int tree, dirs;

	tmp_make_in_memory();
	put_dir(tmp_fd, "tree", 0755);
	put_dir(tmp_fd, "tree/dirs", 0755);
	tree = open_dir(tmp_fd, "tree");
	dirs = open_dir(tmp_fd, "tree/dirs");
	for (int i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "file-%d", i);
		if (mknodat(tree, name, S_IFREG | 0600, 0) < 0)
			abort();
	}
	/* More than wait at once, each with something in it. */
	for (int i = 0; i < 12000; i++) {
		snprintf(name, sizeof(name), "dir-%d", i);
		if (mkdirat(dirs, name, 0700) < 0)
			abort();
		snprintf(name, sizeof(name), "dir-%d/f", i);
		if (mknodat(dirs, name, S_IFREG | 0600, 0) < 0)
			abort();
	}
	close(tree);
	close(dirs);
	CHECK_INT(tree_remove(tmp_fd, "tree"), 0);
	CHECK(!is_there(tmp_fd, "tree"));
	tmp_drop();
}

/* What cannot be removed does not keep the rest. */
static void remove_partly(void)
{
	tmp_make();
	put_dir(tmp_fd, "tree", 0755);
	for (int i = 0; i < 9; i++) {
		char name[32];

		snprintf(name, sizeof(name), "tree/%d", i);
		put_dir(tmp_fd, name, 0755);
		snprintf(name, sizeof(name), "tree/%d/f", i);
		put_text(tmp_fd, name, "x", 0644);
	}
	put_dir(tmp_fd, "tree/4/mounted", 0755);
	char at[128];

	snprintf(at, sizeof(at), "%s/tree/4/mounted", tmp_path);
	if (mount("tmpfs", at, "tmpfs", 0, "size=64k") < 0)
		SKIP("no tmpfs here");
	put_text(tmp_fd, "tree/4/mounted/canary", "alive", 0644);
	CHECK_INT(tree_remove(tmp_fd, "tree"), -EBUSY);
	CHECK_STR(text_of(tmp_fd, "tree/4/mounted/canary"), "alive");
	CHECK(!is_there(tmp_fd, "tree/4/f"));
	for (int i = 0; i < 9; i++) {
		char name[32];

		snprintf(name, sizeof(name), "tree/%d", i);
		CHECK_INT(is_there(tmp_fd, name), i == 4);
	}
	CHECK_INT(umount2(at, MNT_DETACH), 0);
	tmp_drop();
}

static void test_remove_partly(void)
{
	with_mounts(remove_partly);
}

static void put_outside(void)
{
	put_dir(tmp_fd, "outside", 0755);
	put_dir(tmp_fd, "outside/sub", 0755);
	for (int i = 0; i < 20; i++) {
		char name[32];

		snprintf(name, sizeof(name), "outside/sub/canary-%d", i);
		put_text(tmp_fd, name, "SECRET", 0644);
	}
}

static int count_canaries(void)
{
	int n = 0;

	for (int i = 0; i < 20; i++) {
		char name[32];

		snprintf(name, sizeof(name), "outside/sub/canary-%d", i);
		n += strcmp(text_of(tmp_fd, name), "SECRET") == 0;
	}
	return n;
}

/* "next" is not being swapped yet. */
static void put_race_tree(const char *name)
{
	char path[64];

	put_dir(tmp_fd, name, 0755);
	snprintf(path, sizeof(path), "%s/a", name);
	put_dir(tmp_fd, path, 0755);
	snprintf(path, sizeof(path), "%s/a/sub", name);
	put_dir(tmp_fd, path, 0755);
	for (int i = 0; i < 20; i++) {
		snprintf(path, sizeof(path), "%s/a/sub/canary-%d", name, i);
		put_text(tmp_fd, path, "mine", 0644);
	}
}

/* A directory of the tree is exchanged with a link that leads out of it, all the time. */
static void test_remove_swapped(void)
{
	pid_t pid;

	tmp_make_in_memory();
	put_outside();
	CHECK_INT(symlinkat("../outside", tmp_fd, "link"), 0);
	pid = start_swapping("tree/a", "link");
	for (int i = 0; i < RACE_ROUNDS && !tap_failures; i++) {
		int r, tries = 0;

		put_race_tree("next");
		CHECK_INT(renameat(tmp_fd, "next", tmp_fd, "tree"), 0);
		/* -ESTALE: so often that it gave up, which may happen again and again. */
		do
			r = tree_remove(tmp_fd, "tree");
		while (r == -ESTALE && ++tries < 1000);
		CHECK_MSG(r == 0, "tree_remove: %d after %d tries", r, tries);
	}
	stop_swapping(pid);
	CHECK_INT(count_canaries(), 20);
	tmp_drop();
}

/* --- copying ------------------------------------------------------------------------------------
 */

static int copy_tree(struct tree_copy *copy)
{
	int from = open_dir(tmp_fd, "tree"), to, r;

	put_dir(tmp_fd, "copy", 0700);
	to = open_dir(tmp_fd, "copy");
	r = tree_copy(from, to, copy);
	close(from);
	close(to);
	return r;
}

static void check_same_times(const char *a, const char *b)
{
	struct stat x, y;

	CHECK_INT(fstatat(tmp_fd, a, &x, AT_SYMLINK_NOFOLLOW), 0);
	CHECK_INT(fstatat(tmp_fd, b, &y, AT_SYMLINK_NOFOLLOW), 0);
	CHECK_MSG(x.st_mtim.tv_sec == y.st_mtim.tv_sec && x.st_mtim.tv_nsec == y.st_mtim.tv_nsec,
		  "mtime of %s", b);
	CHECK_MSG((x.st_mode & 07777) == (y.st_mode & 07777), "mode of %s: %o %o", b, x.st_mode,
		  y.st_mode);
}

static void test_copy(void)
{
	static const struct timespec old[2] = { { 1000000001, 5 }, { 1000000002, 123456789 } };
	struct tree_copy copy = { 0 };
	char target[64] = "";
	struct stat a, b;

	tmp_make();
	put_dir(tmp_fd, "tree", 0755);
	put_dir(tmp_fd, "tree/ro", 0755);
	put_text(tmp_fd, "tree/ro/f", "in a read-only directory", 0444);
	put_text(tmp_fd, "tree/x", "program", 0751);
	put_text(tmp_fd, "tree/own-setid", "setid", 04755);
	put_dir(tmp_fd, "tree/empty", 01777);
	CHECK_INT(linkat(tmp_fd, "tree/x", tmp_fd, "tree/ro/hard", 0), 0);
	CHECK_INT(linkat(tmp_fd, "tree/x", tmp_fd, "tree/hard2", 0), 0);
	CHECK_INT(symlinkat("/nowhere/at all", tmp_fd, "tree/link"), 0);
	CHECK_INT(mkfifoat(tmp_fd, "tree/fifo", 0666), 0);
	CHECK_INT(utimensat(tmp_fd, "tree/x", old, 0), 0);
	CHECK_INT(utimensat(tmp_fd, "tree/link", old, AT_SYMLINK_NOFOLLOW), 0);
	CHECK_INT(fchmodat(tmp_fd, "tree/ro", 0555, 0), 0);
	CHECK_INT(utimensat(tmp_fd, "tree/ro", old, 0), 0);
	CHECK_INT(fchmodat(tmp_fd, "tree", 0511, 0), 0);
	CHECK_INT(utimensat(tmp_fd, "tree", old, 0), 0);
	CHECK_INT(copy_tree(&copy), 0);
	CHECK_INT(copy.files, 9);
	CHECK_INT(copy.bytes > 0, 1);
	CHECK_STR(text_of(tmp_fd, "copy/ro/f"), "in a read-only directory");
	CHECK_STR(text_of(tmp_fd, "copy/hard2"), "program");
	CHECK(readlinkat(tmp_fd, "copy/link", target, sizeof(target) - 1) > 0);
	CHECK_STR(target, "/nowhere/at all");
	CHECK(!is_there(tmp_fd, "copy/fifo"));
	CHECK_INT(fstatat(tmp_fd, "copy/x", &a, 0), 0);
	CHECK_INT(fstatat(tmp_fd, "copy/ro/hard", &b, 0), 0);
	CHECK(a.st_ino == b.st_ino);
	CHECK_INT(a.st_nlink, 3); /* and nothing else holds it */
	check_same_times("tree", "copy");
	check_same_times("tree/ro", "copy/ro");
	check_same_times("tree/x", "copy/x");
	check_same_times("tree/link", "copy/link");
	check_same_times("tree/empty", "copy/empty");
	check_same_times("tree/own-setid", "copy/own-setid");
	tmp_drop();
}

static void test_copy_attributes(void)
{
	struct tree_copy copy = { .is_upper = false };
	char buf[64], from[160], to[160];
	int a, b;

	tmp_make();
	put_dir(tmp_fd, "tree", 0755);
	put_text(tmp_fd, "tree/f", "x", 0400);
	snprintf(from, sizeof(from), "%s/tree", tmp_path);
	snprintf(to, sizeof(to), "%s/copy", tmp_path);
	if (setxattr(from, "user.overlay.opaque", "y", 1, 0) < 0) {
		tmp_drop();
		SKIP("no attributes on this filesystem");
	}
	CHECK_INT(setxattr(from, "user.mine", "\0\xff", 2, 0), 0);
	CHECK_INT(setxattr(from, "user.overlay.overlay.forged", "z", 1, 0), 0);
	CHECK_INT(setxattr(from, "user.empty", "", 0, 0), 0);

	/* A base: what an overlay means by its attributes is not taken over. */
	CHECK_INT(copy_tree(&copy), 0);
	CHECK_INT(getxattr(to, "user.mine", buf, sizeof(buf)), 2);
	CHECK_INT(memcmp(buf, "\0\xff", 2), 0);
	CHECK_INT(getxattr(to, "user.empty", buf, sizeof(buf)), 0);
	CHECK_INT(getxattr(to, "user.overlay.opaque", buf, sizeof(buf)), -1);
	CHECK_INT(getxattr(to, "user.overlay.overlay.forged", buf, sizeof(buf)), -1);
	CHECK_INT(tree_remove(tmp_fd, "copy"), 0);

	/* A layer: as it is, but without what a guest set under the overlay's names. */
	copy = (struct tree_copy){ .is_upper = true };
	CHECK_INT(mknodat(tmp_fd, "tree/gone", S_IFCHR, makedev(0, 0)), 0);
	CHECK_INT(copy_tree(&copy), 0);
	CHECK_INT(getxattr(to, "user.overlay.opaque", buf, sizeof(buf)), 1);
	CHECK_INT(getxattr(to, "user.overlay.overlay.forged", buf, sizeof(buf)), -1);
	struct stat st;

	CHECK_INT(fstatat(tmp_fd, "copy/gone", &st, AT_SYMLINK_NOFOLLOW), 0);
	CHECK(S_ISCHR(st.st_mode) && st.st_rdev == 0);
	CHECK_INT(tree_remove(tmp_fd, "copy"), 0);

	/* Out of a layer: nothing of the overlay's, whoever set it. */
	put_dir(tmp_fd, "copy", 0755);
	a = open_dir(tmp_fd, "tree");
	b = open_dir(tmp_fd, "copy");
	CHECK_INT(file_copy_attributes(a, b), 0);
	CHECK_INT(getxattr(to, "user.mine", buf, sizeof(buf)), 2);
	CHECK_INT(getxattr(to, "user.overlay.opaque", buf, sizeof(buf)), -1);
	CHECK_INT(getxattr(to, "user.overlay.forged", buf, sizeof(buf)), -1);
	CHECK_INT(getxattr(to, "user.overlay.overlay.forged", buf, sizeof(buf)), -1);
	close(a);
	close(b);
	tmp_drop();
}

/* A file of @size bytes with something at its start, in the middle and at its end. */
static bool put_sparse(const char *name, off_t size)
{
	int fd = openat(tmp_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool is_made = fd >= 0 && ftruncate(fd, size) == 0;

	if (is_made) {
		CHECK_INT(pwrite(fd, "begin", 5, 0), 5);
		CHECK_INT(pwrite(fd, "middle", 6, size / 2), 6);
		CHECK_INT(pwrite(fd, "end", 3, size - 3), 3);
	}
	close(fd);
	return is_made;
}

static void check_sparse(const char *name, off_t size)
{
	int fd = openat(tmp_fd, name, O_RDONLY | O_CLOEXEC);
	char buf[8] = "";
	struct stat st;

	REQUIRE(fd >= 0);
	CHECK_INT(fstat(fd, &st), 0);
	CHECK_INT(st.st_size, size);
	CHECK(st.st_blocks < 1000);
	CHECK_INT(pread(fd, buf, 5, 0), 5);
	CHECK_STR(buf, "begin");
	CHECK_INT(pread(fd, buf, 6, size / 2), 6);
	CHECK_STR(buf, "middle");
	memset(buf, 0, sizeof(buf));
	CHECK_INT(pread(fd, buf, 3, size - 3), 3);
	CHECK_STR(buf, "end");
	close(fd);
}

static void test_copy_sparse(void)
{
	struct tree_copy copy = { 0 };
	off_t size = (off_t)8 << 40;

	tmp_make();
	put_dir(tmp_fd, "tree", 0755);
	while (size > 1 << 20 && !put_sparse("tree/sparse", size)) {
		CHECK_INT(unlinkat(tmp_fd, "tree/sparse", 0), 0);
		size /= 2;
	}
	CHECK_INT(copy_tree(&copy), 0);
	check_sparse("copy/sparse", size);
	CHECK(copy.bytes < 1 << 20);
	tmp_drop();
}

/* 1 EiB, and a place that is too small. */
static void in_tmpfs(void)
{
	static char big[300000];
	struct tree_copy copy = { 0 };
	off_t size = (off_t)1 << 60;

	tmp_make();
	memset(big, 'x', sizeof(big) - 1);
	if (mount("tmpfs", tmp_path, "tmpfs", 0, "size=512k") < 0)
		SKIP("no tmpfs here");
	close(tmp_fd);
	tmp_fd = open(tmp_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put_dir(tmp_fd, "tree", 0755);
	CHECK(put_sparse("tree/sparse", size));
	CHECK_INT(copy_tree(&copy), 0);
	check_sparse("copy/sparse", size);
	CHECK_INT(tree_remove(tmp_fd, "copy"), 0);

	put_dir(tmp_fd, "tree/sub", 0755);
	put_text(tmp_fd, "tree/sub/big", big, 0644);
	CHECK_INT(copy_tree(&copy), -ENOSPC);
	CHECK_STR(copy.failed, "sub/big");
	CHECK_INT(tree_remove(tmp_fd, "copy"), 0);
	CHECK_INT(umount2(tmp_path, MNT_DETACH), 0);
	close(tmp_fd);
	CHECK_INT(rmdir(tmp_path), 0);
}

static void test_copy_tmpfs(void)
{
	with_mounts(in_tmpfs);
}

/* Nothing that is mounted somewhere below is copied. */
static void copy_mounted(void)
{
	struct tree_copy copy = { 0 };
	char at[128];

	tmp_make();
	put_dir(tmp_fd, "tree", 0755);
	put_dir(tmp_fd, "tree/m", 0750);
	put_dir(tmp_fd, "elsewhere", 0755);
	put_text(tmp_fd, "elsewhere/canary", "SECRET", 0644);
	snprintf(at, sizeof(at), "%s/tree/m", tmp_path);
	char from[128];

	snprintf(from, sizeof(from), "%s/elsewhere", tmp_path);
	/* A bind mount: the same device number on both sides. */
	if (mount(from, at, NULL, MS_BIND, NULL) < 0)
		SKIP("no bind mounts here");
	CHECK_STR(text_of(tmp_fd, "tree/m/canary"), "SECRET");
	CHECK_INT(copy_tree(&copy), 0);
	CHECK(is_there(tmp_fd, "copy/m"));
	CHECK(!is_there(tmp_fd, "copy/m/canary"));
	CHECK_INT(umount2(at, MNT_DETACH), 0);
	tmp_drop();
}

static void test_copy_mounted(void)
{
	with_mounts(copy_mounted);
}

static void copy_unreadable(void)
{
	struct tree_copy copy = { 0 };

	tmp_make();
	put_dir(tmp_fd, "tree", 0755);
	put_dir(tmp_fd, "tree/a", 0755);
	put_text(tmp_fd, "tree/a/closed", "x", 0000);
	CHECK_INT(copy_tree(&copy), -EACCES);
	CHECK_STR(copy.failed, "a/closed");
	CHECK_INT(mode_of(tmp_fd, "tree/a/closed"), 0);
	CHECK_INT(tree_remove(tmp_fd, "copy"), 0);
	CHECK_INT(unlinkat(tmp_fd, "tree/a/closed", 0), 0);
	CHECK_INT(fchmodat(tmp_fd, "tree/a", 0000, 0), 0);
	CHECK_INT(copy_tree(&copy), -EACCES);
	CHECK_STR(copy.failed, "a");
	CHECK_INT(tree_remove(tmp_fd, "copy"), 0);

	/* In a layer it is ours to open, and stays as it was on both sides. */
	CHECK_INT(fchmodat(tmp_fd, "tree/a", 0700, 0), 0);
	put_text(tmp_fd, "tree/a/closed", "layer", 0000);
	CHECK_INT(fchmodat(tmp_fd, "tree/a", 0100, 0), 0);
	copy = (struct tree_copy){ .is_upper = true };
	CHECK_INT(copy_tree(&copy), 0);
	CHECK_INT(mode_of(tmp_fd, "tree/a"), 0100);
	CHECK_INT(mode_of(tmp_fd, "copy/a"), 0100);
	CHECK_INT(mode_of(tmp_fd, "tree/a/closed"), 0);
	CHECK_INT(mode_of(tmp_fd, "copy/a/closed"), 0);
	CHECK_INT(fchmodat(tmp_fd, "copy/a/closed", 0400, 0), 0);
	CHECK_STR(text_of(tmp_fd, "copy/a/closed"), "layer");
	tmp_drop();
}

static void test_copy_unreadable(void)
{
	as_ordinary(copy_unreadable);
}

static void test_copy_deep(void)
{
	static char path[DEPTH * 2 + 1];
	struct tree_copy copy = { 0 };
	struct cursor c;

	tmp_make_in_memory();
	put_dir(tmp_fd, "tree", 0755);
	int tree = open_dir(tmp_fd, "tree");

	put_deep(tree, "d", DEPTH);
	CHECK_INT(copy_tree(&copy), 0);
	CHECK_INT(copy.files, DEPTH + 1);
	close(tree);
	for (int i = 0; i < DEPTH; i++)
		snprintf(path + (size_t)i * 2, sizeof(path) - (size_t)i * 2, "d/");
	int to = open_dir(tmp_fd, "copy");

	REQUIRE(cursor_start(&c, to, false) == 0);
	close(to);
	CHECK_INT(cursor_goto(&c, path), 0);
	CHECK_STR(text_of(c.fd, "bottom"), "deep");
	cursor_done(&c);
	tmp_drop();
}

/* Many files of several names each; and a name that the copier itself would like to have. */
static void test_copy_links(void)
{
	struct tree_copy copy = { 0 };
	struct names names;
	struct stat st;
	char name[64];

	tmp_make_in_memory();
	put_dir(tmp_fd, "tree", 0755);
	put_dir(tmp_fd, "tree/.cordon-links-0", 0755);
	put_dir(tmp_fd, "tree/z", 0755);
	for (int i = 0; i < 2000; i++) {
		snprintf(name, sizeof(name), "tree/%d", i);
		put_text(tmp_fd, name, name, 0644);
		char other[64];

		snprintf(other, sizeof(other), "tree/z/%d", i);
		CHECK_INT(linkat(tmp_fd, name, tmp_fd, other, 0), 0);
	}
	CHECK_INT(copy_tree(&copy), 0);
	for (int i = 0; i < 2000; i += 7) {
		snprintf(name, sizeof(name), "copy/z/%d", i);
		CHECK_INT(fstatat(tmp_fd, name, &st, 0), 0);
		CHECK_INT(st.st_nlink, 2);
		CHECK(strncmp(text_of(tmp_fd, name), "tree/", 5) == 0);
		CHECK_STR(strrchr(text_of(tmp_fd, name), '/') + 1, name + 7);
	}
	int to = open_dir(tmp_fd, "copy");

	CHECK_INT(names_read(to, &names), 0);
	CHECK_INT(names.n, 2002);
	names_done(&names);
	close(to);
	tmp_drop();
}

/* In an upper directory what they took the place of would show again. */
static void test_copy_special(void)
{
	static const struct timespec old[2] = { { 1000000001, 5 }, { 1000000002, 123456789 } };
	struct tree_copy copy = { .is_upper = true, .has_special = true };
	struct stat a, b;

	tmp_make();
	put_dir(tmp_fd, "tree", 0755);
	put_dir(tmp_fd, "tree/d", 0755);
	CHECK_INT(mkfifoat(tmp_fd, "tree/fifo", 0600), 0);
	CHECK_INT(fchmodat(tmp_fd, "tree/fifo", 0666, 0), 0); /* whatever the umask is */
	CHECK_INT(utimensat(tmp_fd, "tree/fifo", old, 0), 0);
	CHECK_INT(mknodat(tmp_fd, "tree/d/socket", S_IFSOCK | 0600, 0), 0);
	CHECK_INT(mknodat(tmp_fd, "tree/gone", S_IFCHR, makedev(0, 0)), 0);
	CHECK_INT(linkat(tmp_fd, "tree/gone", tmp_fd, "tree/d/gone", 0), 0);
	CHECK_INT(copy_tree(&copy), 0);
	CHECK_INT(fstatat(tmp_fd, "copy/fifo", &a, 0), 0);
	CHECK(S_ISFIFO(a.st_mode));
	check_same_times("tree/fifo", "copy/fifo");
	CHECK_INT(fstatat(tmp_fd, "copy/d/socket", &a, 0), 0);
	CHECK(S_ISSOCK(a.st_mode));
	check_same_times("tree/d/socket", "copy/d/socket");
	/* Whiteouts are names of one file, as the kernel makes them. */
	CHECK_INT(fstatat(tmp_fd, "copy/gone", &a, 0), 0);
	CHECK_INT(fstatat(tmp_fd, "copy/d/gone", &b, 0), 0);
	CHECK(S_ISCHR(a.st_mode) && a.st_rdev == 0);
	CHECK(a.st_ino == b.st_ino);
	CHECK_INT(a.st_nlink, 2);
	CHECK_INT(copy.files, 5);
	CHECK_INT(copy.entries, 4);
	tmp_drop();
}

static int copy_with(uint64_t bytes, uint64_t entries)
{
	const struct tree_room room = { bytes, entries };
	struct tree_copy copy = { .room = &room };
	int r = copy_tree(&copy);

	CHECK(copy.is_too_much == (r == -EDQUOT));
	CHECK_INT(tree_remove(tmp_fd, "copy"), 0);
	return r;
}

static void test_copy_room(void)
{
	tmp_make_in_memory();
	put_dir(tmp_fd, "tree", 0755);
	put_text(tmp_fd, "tree/a", "12345", 0644);
	put_text(tmp_fd, "tree/b", "67890", 0644);
	CHECK_INT(copy_with(10, 2), 0);
	CHECK_INT(copy_with(9, 2), -EDQUOT);
	CHECK_INT(copy_with(10, 1), -EDQUOT);
	/* Further names take no inode, and have a bound of their own. */
	for (int i = 0; i < 45; i++) {
		char name[32];

		snprintf(name, sizeof(name), "tree/b%d", i);
		CHECK_INT(linkat(tmp_fd, "tree/b", tmp_fd, name, 0), 0);
		if (i == 20)
			CHECK_INT(copy_with(10, 2), 0);
	}
	CHECK_INT(copy_with(10, 2), 0);
	for (int i = 0; i < 10; i++) {
		char name[32];

		snprintf(name, sizeof(name), "tree/c%d", i);
		CHECK_INT(linkat(tmp_fd, "tree/b", tmp_fd, name, 0), 0);
	}
	CHECK_INT(copy_with(10, 2), -EDQUOT);
	tmp_drop();
}

static int stop_soon(void *arg, const struct tree_copy *copy)
{
	int *calls = arg;

	(void)copy;
	return ++*calls >= 2;
}

static void test_copy_cancelled(void)
{
	int calls = 0;
	struct tree_copy copy = { .progress = stop_soon, .arg = &calls };

	tmp_make_in_memory();
	put_dir(tmp_fd, "tree", 0755);
	for (int i = 0; i < 1000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "tree/%d", i);
		put_text(tmp_fd, name, "x", 0644);
	}
	CHECK_INT(copy_tree(&copy), -ECANCELED);
	CHECK_INT(calls, 2);
	CHECK(copy.files < 1000);
	tmp_drop();
}

/* Others' set-id programs do not become ours. */
static void test_copy_setid_of_others(void)
{
	struct tree_copy copy = { 0 };

	if (geteuid() != 0)
		SKIP("needs root, to have files of others");
	tmp_make();
	put_dir(tmp_fd, "tree", 0755);
	put_text(tmp_fd, "tree/theirs", "x", 0755);
	CHECK_INT(fchownat(tmp_fd, "tree/theirs", ORDINARY_ID, ORDINARY_ID, 0), 0);
	CHECK_INT(fchmodat(tmp_fd, "tree/theirs", 06755, 0), 0);
	CHECK_INT(copy_tree(&copy), 0);
	CHECK_INT(mode_of(tmp_fd, "copy/theirs"), 0755);
	tmp_drop();
}

static void test_copy_swapped(void)
{
	pid_t pid;
	int seen = 0;

	tmp_make_in_memory();
	put_outside();
	CHECK_INT(symlinkat("../outside", tmp_fd, "link"), 0);
	put_race_tree("tree");
	pid = start_swapping("tree/a", "link");
	for (int i = 0; i < RACE_ROUNDS && !tap_failures; i++) {
		struct tree_copy copy = { 0 };
		int r = copy_tree(&copy);
		struct stat st;

		CHECK_MSG(r == 0 || r == -ESTALE, "tree_copy: %d", r);
		if (r == 0 && fstatat(tmp_fd, "copy/a", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISDIR(st.st_mode)) {
			seen++;
			CHECK(strcmp(text_of(tmp_fd, "copy/a/sub/canary-7"), "SECRET") != 0);
		}
		CHECK_INT(tree_remove(tmp_fd, "copy"), 0);
	}
	stop_swapping(pid);
	printf("# the directory was copied %d times of %d\n", seen, RACE_ROUNDS);
	CHECK_INT(count_canaries(), 20);
	tmp_drop();
}

TAP_MAIN(test_remove_hostile, test_remove_simple, test_remove_deep, test_remove_wide,
	 test_remove_partly, test_remove_swapped, test_copy, test_copy_attributes, test_copy_sparse,
	 test_copy_tmpfs, test_copy_mounted, test_copy_unreadable, test_copy_deep, test_copy_links,
	 test_copy_special, test_copy_room, test_copy_cancelled, test_copy_setid_of_others,
	 test_copy_swapped)

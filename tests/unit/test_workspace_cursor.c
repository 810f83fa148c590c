/* SPDX-License-Identifier: Apache-2.0 */
/* Cursors in untrusted trees. */
#include "test_workspace_lib.h"

/* --- names and cursors --------------------------------------------------------------------------
 */

static void test_names(void)
{
	struct names names;

	tmp_make();
	CHECK_INT(names_read(tmp_fd, &names), 0);
	CHECK_INT(names.n, 0);
	names_done(&names);
	for (size_t i = 0; i < N_HOSTILE; i++)
		put_text(tmp_fd, hostile[i], "", 0600);
	for (int round = 0; round < 2; round++) { /* from the beginning each time */
		CHECK_INT(names_read(tmp_fd, &names), 0);
		CHECK_INT(names.n, N_HOSTILE);
		for (size_t i = 1; i < names.n; i++)
			CHECK(strcmp(names.v[i - 1], names.v[i]) < 0);
		names_done(&names);
	}
	tmp_drop();
}

static void test_cursor_steps(void)
{
	struct cursor c = CURSOR_INIT;
	struct stat st;

	cursor_done(&c);
	tmp_make();
	put_dir(tmp_fd, "a", 0755);
	put_dir(tmp_fd, "a/b", 0755);
	put_text(tmp_fd, "a/b/f", "x", 0644);
	CHECK_INT(symlinkat("a", tmp_fd, "link"), 0);
	CHECK_INT(mkfifoat(tmp_fd, "fifo", 0600), 0);
	REQUIRE(cursor_start(&c, tmp_fd, false) == 0);
	CHECK_INT(cursor_down(&c, "link"), -ENOTDIR);
	CHECK_INT(cursor_down(&c, "fifo"), -ENOTDIR);
	CHECK_INT(cursor_down(&c, "none"), -ENOENT);
	CHECK_INT(cursor_down(&c, ".."), -EINVAL);
	CHECK_INT(cursor_down(&c, "."), -EINVAL);
	CHECK_INT(cursor_down(&c, ""), -EINVAL);
	CHECK_INT(cursor_down(&c, "a/b"), -EINVAL);
	CHECK_INT(cursor_up(&c), -EINVAL);
	CHECK_INT(cursor_down(&c, "a"), 0);
	CHECK_INT(cursor_down(&c, "b"), 0);
	CHECK_INT(c.depth, 2);
	CHECK_STR(text_of(c.fd, "f"), "x");
	CHECK_INT(cursor_up(&c), 0);
	CHECK(is_there(c.fd, "b"));
	CHECK_INT(cursor_goto(&c, "a//b/"), 0);
	CHECK_INT(c.depth, 2);
	CHECK_INT(cursor_goto(&c, ""), 0);
	CHECK_INT(c.depth, 0);
	CHECK(is_there(c.fd, "link"));
	CHECK_INT(cursor_goto(&c, "link/b"), -ENOTDIR);
	CHECK_INT(cursor_goto(&c, "a/../a"), -EINVAL);
	CHECK_INT(cursor_goto(&c, "/a"), -EINVAL);
	CHECK_INT(cursor_goto(&c, ""), 0);
	CHECK_INT(cursor_open_file(&c, "fifo", &st), -EINVAL);
	CHECK_INT(cursor_open_file(&c, "link", &st), -EINVAL);
	CHECK_INT(cursor_open_file(&c, "a", &st), -EINVAL);
	cursor_done(&c);
	tmp_drop();
}

static void test_cursor_deep(void)
{
	static char path[DEPTH * 4 + 1];
	struct cursor c;

	tmp_make_in_memory();
	put_deep(tmp_fd, "abc", DEPTH);
	for (int i = 0; i < DEPTH; i++)
		snprintf(path + (size_t)i * 4, sizeof(path) - (size_t)i * 4, "abc/");
	REQUIRE(cursor_start(&c, tmp_fd, false) == 0);
	CHECK_INT(cursor_goto(&c, path), 0);
	CHECK_INT(c.depth, DEPTH);
	CHECK_STR(text_of(c.fd, "bottom"), "deep");
	for (int i = 0; i < DEPTH; i++)
		CHECK_INT(cursor_up(&c), 0);
	CHECK_INT(c.depth, 0);
	cursor_done(&c);
	tmp_drop();
}

/* What was moved while we were in it does not lead us elsewhere. */
static void test_cursor_moved(void)
{
	struct cursor c;

	tmp_make();
	put_dir(tmp_fd, "tree", 0755);
	put_dir(tmp_fd, "tree/a", 0755);
	put_dir(tmp_fd, "tree/a/b", 0755);
	put_dir(tmp_fd, "outside", 0755);
	REQUIRE(cursor_start(&c, tmp_fd, false) == 0);
	CHECK_INT(cursor_goto(&c, "tree/a/b"), 0);
	CHECK_INT(renameat(tmp_fd, "tree/a/b", tmp_fd, "outside/b"), 0);
	CHECK_INT(cursor_up(&c), -ESTALE);
	CHECK_INT(c.depth, 3);
	CHECK_INT(cursor_goto(&c, "tree/a"), 0); /* from the root it goes on */
	cursor_done(&c);
	tmp_drop();
}

static void modes(void)
{
	struct cursor c;
	struct stat st;
	int fd;

	tmp_make();
	put_dir(tmp_fd, "closed", 0700);
	put_dir(tmp_fd, "closed/in", 0700);
	put_text(tmp_fd, "closed/in/f", "text", 0000);
	CHECK_INT(fchmodat(tmp_fd, "closed/in", 0400, 0), 0); /* can be read, not searched */
	CHECK_INT(fchmodat(tmp_fd, "closed", 01000, 0), 0);
	REQUIRE(cursor_start(&c, tmp_fd, false) == 0);
	CHECK_INT(cursor_down(&c, "closed"), -EACCES);
	CHECK_INT(mode_of(tmp_fd, "closed"), 01000);
	cursor_done(&c);

	REQUIRE(cursor_start(&c, tmp_fd, true) == 0);
	CHECK_INT(cursor_down(&c, "closed"), 0);
	CHECK_INT(cursor_down(&c, "in"), 0);
	fd = cursor_open_file(&c, "f", &st);
	CHECK(fd >= 0);
	CHECK_INT(st.st_size, 4);
	close(fd);
	CHECK_INT(mode_of(c.fd, "f"), 0);
	CHECK_INT(cursor_up(&c), 0);
	CHECK_INT(mode_of(c.fd, "in"), 0400);
	CHECK_INT(cursor_down(&c, "in"), 0);
	cursor_done(&c); /* from the inside */
	CHECK_INT(mode_of(tmp_fd, "closed"), 01000);
	CHECK_INT(fchmodat(tmp_fd, "closed", 0700, 0), 0);
	CHECK_INT(mode_of(tmp_fd, "closed/in"), 0400);

	/* The root itself. */
	fd = openat(tmp_fd, "closed", O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK_INT(fchmodat(tmp_fd, "closed", 0000, 0), 0);
	CHECK_INT(cursor_start(&c, fd, false), -EACCES);
	CHECK_INT(cursor_start(&c, fd, true), 0);
	CHECK(is_there(c.fd, "in"));
	cursor_done(&c);
	CHECK_INT(mode_of(tmp_fd, "closed"), 0);
	close(fd);
	tmp_drop();
}

static void test_cursor_modes(void)
{
	as_ordinary(modes);
}

TAP_MAIN(test_names, test_cursor_steps, test_cursor_deep, test_cursor_moved, test_cursor_modes)

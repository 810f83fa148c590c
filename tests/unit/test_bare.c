/* SPDX-License-Identifier: Apache-2.0 */
/* What the freestanding programs have in place of a C library: text, directories, children. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bare/clone.h"
#include "bare/dirents.h"
#include "bare/mountinfo.h"
#include "bare/text.h"
#include "tests/lib/tap.h"

static void test_numbers_are_written_and_read(void)
{
	char text[32];
	uint64_t value;

	CHECK_INT(text_number(text, sizeof(text), "fd/", 0), 4);
	CHECK_STR(text, "fd/0");
	text_number(text, sizeof(text), "", UINT64_MAX);
	CHECK_STR(text, "18446744073709551615");
	CHECK_INT(text_number(text, 6, "fd/", 12345), 5);
	CHECK_STR(text, "fd/12");
	CHECK_STR(read_number("120 kB", &value), " kB");
	CHECK_INT(value, 120);
	CHECK_STR(read_hex("7fff00a0-b", &value), "-b");
	CHECK_INT(value, 0x7fff00a0);
	CHECK_STR(read_hex("g", &value), "g");
	CHECK_INT(value, 0);
}

static void test_a_directory_is_listed_without_its_dots(void)
{
	_Alignas(struct dir_entry) char buffer[4096];
	int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dir_cursor cursor = { .fd = fd, .buffer = buffer, .size = sizeof(buffer) };
	const struct dir_entry *e = dir_next(&cursor);
	char own[32];

	text_number(own, sizeof(own), "", (uint64_t)getpid());
	REQUIRE(e);
	CHECK_STR(e->name, own);
	CHECK(dir_next(&cursor) == NULL);
	CHECK(cursor.len == 0);
	close(fd);
	CHECK(dir_next(&cursor) == NULL);
	CHECK(cursor.len < 0);
}

static void test_a_mount_is_read(void)
{
	char plain[] = "26 1 0:5 / /dev rw,nosuid shared:2 master:1 - devtmpfs devtmpfs rw,size=4k";
	char escaped[] = "1 2 0:5 /a\\040- /x\\040y\\134\\012z\\9 rw - proc none rw";
	char no_tags[] = "1 2 0:5 / / rw - ext4";
	char dash[] = "1 2 0:5 - - - - -";
	char cut[] = "1 2 0:5 / /x rw shared:1";
	char empty[] = "";
	struct mount_line mount;

	REQUIRE(mount_line_read(plain, &mount));
	CHECK_STR(mount.point, "/dev");
	CHECK_STR(mount.type, "devtmpfs");
	REQUIRE(mount_line_read(escaped, &mount));
	CHECK_STR(mount.point, "/x y\\\nz\\9");
	CHECK_STR(mount.type, "proc");
	CHECK_STR(mount.root, "/a -");
	REQUIRE(mount_line_read(no_tags, &mount));
	CHECK_STR(mount.type, "ext4");
	CHECK(!mount_line_read(dash, &mount));
	CHECK(!mount_line_read(cut, &mount));
	CHECK(!mount_line_read(empty, &mount));
}

static int answer(void *arg)
{
	return *(int *)arg;
}

static void test_a_child_runs_and_ends_with_the_result(void)
{
	static char stack[16384];
	int status = 0, result = 42;
	long pid = vfork_call(SIGCHLD, stack, sizeof(stack), NULL, answer, &result);

	CHECK(pid > 0);
	CHECK(waitpid((pid_t)pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

TAP_MAIN(test_numbers_are_written_and_read, test_a_directory_is_listed_without_its_dots,
	 test_a_mount_is_read, test_a_child_runs_and_ends_with_the_result)

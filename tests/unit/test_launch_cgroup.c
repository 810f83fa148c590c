/* SPDX-License-Identifier: Apache-2.0 */
/* What can be said about control groups without having any: names and the kernel's texts. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/control.h"
#include "launch/cgroup.h"
#include "tap.h"

static char own[PATH_MAX], mount_point[PATH_MAX], dir[PATH_MAX];

static void test_own_group(void)
{
	CHECK_INT(cgroup_parse_self("0::/user.slice/a b\n", own), 0);
	CHECK_STR(own, "/user.slice/a b");
	CHECK_INT(cgroup_parse_self("12:pids:/x\n1:name=systemd:/y\n0::/\n", own), 0);
	CHECK_STR(own, "/");
	CHECK_INT(cgroup_parse_self("0::/last", own), 0);
	CHECK_STR(own, "/last");
	/* Only version 1; nothing; outside of what this namespace shows; removed. */
	CHECK_INT(cgroup_parse_self("12:memory:/x\n", own), -ENOENT);
	CHECK_INT(cgroup_parse_self("", own), -ENOENT);
	CHECK_INT(cgroup_parse_self("0::/../other\n", own), -ENOENT);
	CHECK_INT(cgroup_parse_self("0::/gone (deleted)\n", own), -ENOENT);
}

static void test_own_group_too_long(void)
{
	char *text = malloc(PATH_MAX + 16);

	REQUIRE(text);
	memset(text, 'a', PATH_MAX + 15);
	memcpy(text, "0::/", 4);
	text[PATH_MAX + 15] = '\0';
	CHECK_INT(cgroup_parse_self(text, own), -ENAMETOOLONG);
	free(text);
}

#define LINE(root, at, type) "35 24 0:30 " root " " at " rw,nosuid shared:9 - " type " cgroup rw\n"

static void test_mount(void)
{
	const char *hybrid = LINE("/", "/sys/fs/cgroup/memory", "cgroup")
		LINE("/", "/sys/fs/cgroup/unified", "cgroup2");

	CHECK_INT(cgroup_parse_mount(LINE("/", "/sys/fs/cgroup", "cgroup2"), "/a/b", mount_point,
				     dir),
		  0);
	CHECK_STR(mount_point, "/sys/fs/cgroup");
	CHECK_STR(dir, "/sys/fs/cgroup/a/b");
	CHECK_INT(cgroup_parse_mount(LINE("/", "/sys/fs/cgroup", "cgroup2"), "/", mount_point, dir),
		  0);
	CHECK_STR(dir, "/sys/fs/cgroup");
	CHECK_INT(cgroup_parse_mount(hybrid, "/a", mount_point, dir), 0);
	CHECK_STR(dir, "/sys/fs/cgroup/unified/a");
	CHECK_INT(cgroup_parse_mount(LINE("/", "/c", "cgroup"), "/a", mount_point, dir), -ENOENT);
	/* Elsewhere a grant to write may cover it. */
	CHECK_INT(cgroup_parse_mount(LINE("/", "/mnt", "cgroup2"), "/a", mount_point, dir),
		  -ENOENT);
	CHECK_INT(cgroup_parse_mount("", "/a", mount_point, dir), -ENOENT);
	CHECK_INT(cgroup_parse_mount("garbage - cgroup2 \n", "/a", mount_point, dir), -ENOENT);
}

static void test_mount_of_a_part(void)
{
	const char *part = LINE("/a/b", "/sys/cg", "cgroup2");

	CHECK_INT(cgroup_parse_mount(part, "/a/b/c", mount_point, dir), 0);
	CHECK_STR(dir, "/sys/cg/c");
	CHECK_INT(cgroup_parse_mount(part, "/a/b", mount_point, dir), 0);
	CHECK_STR(dir, "/sys/cg");
	CHECK_INT(cgroup_parse_mount(part, "/a/bc", mount_point, dir), -ENOENT);
	CHECK_INT(cgroup_parse_mount(part, "/a", mount_point, dir), -ENOENT);
	/* The next one that shows it will do. */
	CHECK_INT(cgroup_parse_mount(LINE("/x", "/sys/1", "cgroup2") LINE("/", "/sys/2", "cgroup2"),
				     "/a", mount_point, dir),
		  0);
	CHECK_STR(dir, "/sys/2/a");
}

static void test_mount_with_escapes(void)
{
	CHECK_INT(cgroup_parse_mount(LINE("/", "/sys/my\\040groups\\134", "cgroup2"), "/a",
				     mount_point, dir),
		  0);
	CHECK_STR(mount_point, "/sys/my groups\\");
	CHECK_STR(dir, "/sys/my groups\\/a");
}

static void test_words(void)
{
	CHECK(cgroup_has_word("cpu memory pids\n", "cpu"));
	CHECK(cgroup_has_word("cpu memory pids\n", "pids"));
	CHECK(cgroup_has_word("cpuset cpu", "cpu"));
	CHECK(!cgroup_has_word("cpuset io\n", "cpu"));
	CHECK(!cgroup_has_word("xcpu", "cpu"));
	CHECK(!cgroup_has_word("\n", "cpu"));
}

static void test_fields(void)
{
	const char *events = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n";

	CHECK_INT(cgroup_field(events, "oom"), 3);
	CHECK_INT(cgroup_field(events, "oom_kill"), 2);
	CHECK_INT(cgroup_field(events, "max"), 12);
	CHECK_INT(cgroup_field(events, "kill"), 0);
	CHECK_INT(cgroup_field("", "oom"), 0);
}

static void test_names(void)
{
	CHECK(cgroup_is_name("cordon-1-0123456789abcdef"));
	CHECK(cgroup_is_name("cordon-4194304-ffffffffffffffff"));
	CHECK(!cgroup_is_name("cordon-1-0123456789abcde"));
	CHECK(!cgroup_is_name("cordon-1-0123456789abcdef0"));
	CHECK(!cgroup_is_name("cordon-1-0123456789abcdeX"));
	CHECK(!cgroup_is_name("cordon--0123456789abcdef"));
	CHECK(!cgroup_is_name("cordon-x-0123456789abcdef"));
	CHECK(!cgroup_is_name("cordon-test.service"));
	CHECK(!cgroup_is_name("session-1.scope"));
}

static void put(int dir_fd, const char *name, const char *text)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

/* The kernel's figures, from files that look like its own. */
static void test_account(void)
{
	static const char *const files[] = { "memory.peak", "memory.stat", "memory.events",
					     "pids.peak",   "pids.events", "cpu.stat" };
	char path[] = "/tmp/cordon-unit-XXXXXX";
	struct cgroup cgroup = CGROUP_INIT;
	struct control_report report = { .memory_bytes = 100, .procs = 2 };

	REQUIRE(mkdtemp(path));
	cgroup.dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cgroup.init_tasks = 1;
	/* An old kernel: nothing is there, nothing changes. */
	CHECK_INT(cgroup_account(&cgroup, true, &report), 0);
	CHECK_INT(report.memory_bytes, 100);
	CHECK_INT(report.procs, 2);
	CHECK_INT(report.hits, 0);
	put(cgroup.dir_fd, "memory.peak", "10000\n");
	put(cgroup.dir_fd, "memory.stat", "anon 5000\nfile 4000\nshmem 1000\n");
	put(cgroup.dir_fd, "memory.events", "max 4\noom 0\noom_kill 1\n");
	put(cgroup.dir_fd, "pids.peak", "6\n");
	put(cgroup.dir_fd, "pids.events", "max 0\n");
	put(cgroup.dir_fd, "cpu.stat", "usage_usec 9\nuser_usec 5\nsystem_usec 4\n");
	/* Killed, but not by this group's limit. */
	CHECK_INT(cgroup_account(&cgroup, true, &report), 0);
	CHECK_INT(report.limit, CONTROL_LIMIT_NONE);
	CHECK_INT(report.memory_bytes, 7000);
	CHECK_INT(report.procs, 5);
	CHECK_INT(report.hits, 0);
	CHECK_INT(report.user_us, 0);
	put(cgroup.dir_fd, "memory.events", "max 4\noom 1\noom_kill 1\n");
	put(cgroup.dir_fd, "pids.events", "max 7\n");
	CHECK_INT(cgroup_account(&cgroup, false, &report), 1);
	CHECK_INT(report.limit, CONTROL_LIMIT_MEMORY);
	CHECK_INT(report.hits, CONTROL_HIT_PROCS);
	CHECK_INT(report.user_us, 5);
	CHECK_INT(report.system_us, 4);
	/* Another limit that ended the run stays the reason. */
	report.limit = CONTROL_LIMIT_WALL;
	cgroup_account(&cgroup, true, &report);
	CHECK_INT(report.limit, CONTROL_LIMIT_WALL);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		unlinkat(cgroup.dir_fd, files[i], 0);
	cgroup_forget(&cgroup);
	CHECK_INT(rmdir(path), 0);
}

TAP_MAIN(test_own_group, test_own_group_too_long, test_mount, test_mount_of_a_part,
	 test_mount_with_escapes, test_words, test_fields, test_names, test_account)

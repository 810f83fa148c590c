/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange of two private directories (a restored snapshot) is stopped at each of its system
 * calls: by an error, after which all is as it was, and by SIGKILL, after which nothing is lost.
 */
#include <cordon/cordon.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/tap.h"
#include "sys/calls.h"

#define CALLS_MAX 100

static char here[64], there[64];
static struct cordon_error err;

static void write_file(const char *dir, const char *part, const char *text)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, part);
	REQUIRE(mkdir(path, 0700) == 0);
	snprintf(path, sizeof(path), "%s/%s/f", dir, part);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	REQUIRE(fd >= 0 && write(fd, text, 3) == 3 && close(fd) == 0);
}

/* What is there: "old" or "new"; "" if it is lost. */
static void read_file(const char *dir, const char *part, char ret[4])
{
	char path[128];
	int fd;

	memset(ret, 0, 4);
	snprintf(path, sizeof(path), "%s/%s/f", dir, part);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!read(fd, ret, 3);
	if (fd >= 0)
		close(fd);
}

static void make(void)
{
	snprintf(here, sizeof(here), "/dev/shm/cordon-test-XXXXXX");
	snprintf(there, sizeof(there), "/dev/shm/cordon-test-XXXXXX");
	REQUIRE(mkdtemp(here) && mkdtemp(there));
	write_file(here, "tmp", "old");
	write_file(here, "home", "old");
	write_file(there, "tmp", "new");
	write_file(there, "home", "new");
}

static void done(void)
{
	CHECK_INT(cordon_private_remove(here, NULL), 0);
	CHECK_INT(cordon_private_remove(there, NULL), 0);
}

/* Both have both, and what one has got the other has given. Returns how many are new here. */
static int check_whole(long nth)
{
	static const char *const parts[] = { "tmp", "home" };
	int n = 0;

	for (int i = 0; i < 2; i++) {
		char mine[4], other[4];

		read_file(here, parts[i], mine);
		read_file(there, parts[i], other);
		CHECK_MSG((!strcmp(mine, "old") && !strcmp(other, "new")) ||
				  (!strcmp(mine, "new") && !strcmp(other, "old")),
			  "call %ld: %s is '%s' here and '%s' there", nth, parts[i], mine, other);
		n += !strcmp(mine, "new");
	}
	return n;
}

static void test_killed_at_each_call(void)
{
	int n_calls = 0, is_over = 0;

	for (long nth = 1; nth < CALLS_MAX && !is_over; nth++) {
		int status = 0;
		pid_t pid;

		make();
		fflush(stdout);
		pid = fork();
		if (pid == 0) {
			fault_arm(nth, FAULT_KILL);
			_exit(cordon_private_exchange(here, there, NULL) == 0 ? 0 : 1);
		}
		REQUIRE(waitpid(pid, &status, 0) == pid);
		is_over = WIFEXITED(status);
		if (is_over)
			CHECK_INT(status, 0);
		n_calls += !is_over;
		CHECK_MSG(check_whole(nth) == 2 || !is_over, "it is not done");
		done();
	}
	CHECK_MSG(is_over && n_calls >= 4, "killed at %d calls", n_calls);
}

static void test_each_call_fails(void)
{
	int is_over = 0;

	for (long nth = 1; nth < CALLS_MAX && !is_over; nth++) {
		int r;

		make();
		fault_arm(nth, EIO);
		r = cordon_private_exchange(here, there, &err);
		is_over = fault_arm(0, 0) != 0;
		CHECK_MSG((r == 0) == is_over, "call %ld", nth);
		CHECK_INT(check_whole(nth), r == 0 ? 2 : 0);
		done();
	}
	CHECK(is_over);
}

static void test_what_cannot_be_exchanged(void)
{
	char path[128];

	make();
	CHECK(cordon_private_exchange(here, NULL, &err) < 0);
	CHECK(cordon_private_exchange(here, "/dev/shm/cordon-test-none", &err) < 0);
	snprintf(path, sizeof(path), "%s/home/f", there);
	REQUIRE(unlink(path) == 0);
	snprintf(path, sizeof(path), "%s/home", there);
	REQUIRE(rmdir(path) == 0);
	CHECK(cordon_private_exchange(here, there, &err) < 0);
	read_file(here, "tmp", path);
	CHECK(!strcmp(path, "old"));
	done();
}

TAP_MAIN(test_killed_at_each_call, test_each_call_fails, test_what_cannot_be_exchanged)

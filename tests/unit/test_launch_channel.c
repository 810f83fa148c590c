/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel: the command has its end as descriptor 3 and nothing else besides its streams, both
 * sides can talk, each sees the end of the other, and what the guest passes never arrives.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cordon/cordon.h>

#include "tap.h"

#define WAIT_MS 20000

static struct cordon_launcher *launcher;
static const char *const levels[] = { "namespaces", "landlock", "auto" };

static struct cordon_run *start(const char *level, const char *script, int channel)
{
	const char *argv[] = { "/bin/sh", "-c", script, NULL };
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *policy = NULL;
	struct cordon_run *run = NULL;

	CHECK_INT(cordon_policy_new(&policy, NULL), 0);
	CHECK_INT(cordon_policy_set(policy, "isolation", level, NULL), 0);
	options.argv = argv;
	options.cwd = "/";
	options.home = "/nonexistent";
	options.out.mode = options.err.mode = CORDON_STREAM_CAPTURE;
	options.channel = channel;
	if (cordon_run_start(launcher, policy, &options, &run, &err) < 0)
		printf("# %s\n", err.msg);
	cordon_policy_free(policy);
	return run;
}

static void check_output(const struct cordon_run *run, const char *expected)
{
	const struct cordon_result *result = cordon_run_result(run);

	REQUIRE(result != NULL);
	if (result->out.len != strlen(expected) ||
	    memcmp(result->out.data, expected, result->out.len) != 0)
		printf("# out: %.*s err: %.*s\n", (int)result->out.len, result->out.data,
		       (int)result->err.len, result->err.data);
	CHECK(result->out.len == strlen(expected) &&
	      memcmp(result->out.data, expected, result->out.len) == 0);
}

/* A line, or what there is when the channel ends; the run goes on meanwhile. */
static size_t read_line(struct cordon_run *run, char *line, size_t size)
{
	size_t have = 0;

	while (have < size) {
		struct pollfd fds[] = { { cordon_run_channel(run), POLLIN, 0 },
					{ cordon_run_fd(run), POLLIN, 0 } };
		ssize_t n;

		if (poll(fds, 2, WAIT_MS) <= 0)
			break;
		cordon_run_process(run, NULL);
		n = recv(fds[0].fd, line + have, size - have, 0);
		if (n < 0 && errno == EAGAIN)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
		if (line[have - 1] == '\n')
			break;
	}
	return have;
}

/* Every descriptor of the command: the loop itself opens none. */
#define CENSUS                                                                                     \
	"n=0; while [ $n -lt 64 ]; do if [ -e /proc/self/fd/$n ]; then echo $n; fi; n=$((n+1)); "  \
	"done"

static void test_census(void)
{
	CHECK_INT(cordon_launcher_new(&launcher, NULL), 0);
	for (size_t i = 0; i < 2; i++) {
		struct cordon_run *run = start(levels[i], CENSUS, 1);

		REQUIRE(run != NULL);
		CHECK_INT(cordon_run_wait(run, WAIT_MS, NULL), 1);
		check_output(run, "0\n1\n2\n3\n");
		cordon_run_free(run);
		run = start(levels[i], CENSUS, 0);
		REQUIRE(run != NULL);
		CHECK_INT(cordon_run_channel(run), -1);
		CHECK_INT(cordon_run_wait(run, WAIT_MS, NULL), 1);
		check_output(run, "0\n1\n2\n");
		cordon_run_free(run);
	}
}

static void test_talk(void)
{
	for (size_t i = 0; i < 3; i++) {
		struct cordon_run *run = start(
			levels[i], "echo hello >&3; read -r line <&3; echo \"<$line>\" >&3", 1);
		char line[64];
		size_t n;

		REQUIRE(run != NULL);
		n = read_line(run, line, sizeof(line));
		CHECK(n == 6 && memcmp(line, "hello\n", 6) == 0);
		CHECK_INT(send(cordon_run_channel(run), "you\n", 4, MSG_NOSIGNAL), 4);
		n = read_line(run, line, sizeof(line));
		CHECK(n == 6 && memcmp(line, "<you>\n", 6) == 0);
		CHECK_INT(cordon_run_wait(run, WAIT_MS, NULL), 1);
		CHECK_INT(cordon_run_result(run)->exit_code, 0);
		cordon_run_free(run);
	}
}

/* The command closes its end and goes on: the caller sees that, also where a second try at a lower
 * level would have been possible. */
static void test_ends(void)
{
	for (size_t i = 0; i < 3; i++) {
		struct cordon_run *run = start(levels[i], "echo x >&3; exec 3>&-; sleep 1000", 1);
		char line[64];

		REQUIRE(run != NULL);
		CHECK_INT((int)read_line(run, line, sizeof(line)), 2);
		CHECK_INT((int)read_line(run, line, sizeof(line)), 0);
		CHECK_INT(cordon_run_process(run, NULL), 0);
		cordon_run_free(run);
		/* And the other way round. */
		run = start(levels[i], "read -r line <&3; echo \"end $?\"", 1);
		REQUIRE(run != NULL);
		CHECK_INT(shutdown(cordon_run_channel(run), SHUT_WR), 0);
		CHECK_INT(cordon_run_wait(run, WAIT_MS, NULL), 1);
		check_output(run, "end 1\n");
		cordon_run_free(run);
	}
}

/* As in some containers: a new user namespace can be made, and nothing in it. */
static int refuse_unshare(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_unshare, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0;
}

/* 0: the second try at level landlock had the same channel, with what had been sent before. */
static int second_try(void)
{
	struct cordon_run *run;
	char line[64];

	if (refuse_unshare() || cordon_launcher_new(&launcher, NULL) < 0)
		return 1;
	run = start("auto", "read -r line <&3; echo \"<$line>\" >&3; exec 3>&-; sleep 1000", 1);
	if (!run || send(cordon_run_channel(run), "you\n", 4, MSG_NOSIGNAL) != 4)
		return 2;
	if (read_line(run, line, sizeof(line)) != 6 || memcmp(line, "<you>\n", 6) != 0)
		return 3;
	if (read_line(run, line, sizeof(line)) != 0)
		return 4;
	cordon_run_cancel(run, NULL);
	if (cordon_run_wait(run, WAIT_MS, NULL) != 1)
		return 5;
	return cordon_run_result(run)->level == CORDON_LEVEL_LANDLOCK ? 0 : 6;
}

static void test_second_try(void)
{
	pid_t pid = fork();
	int status = -1;

	REQUIRE(pid >= 0);
	if (pid == 0)
		_exit(second_try());
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
}

static void test_refused(void)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *policy = NULL;
	struct cordon_run *run = NULL;

	CHECK_INT(cordon_policy_new(&policy, NULL), 0);
	options.files = options.channel = 1;
	CHECK_INT(cordon_run_start(launcher, policy, &options, &run, &err), -CORDON_E_USAGE);
	cordon_policy_free(policy);
	cordon_launcher_free(launcher);
}

TAP_MAIN(test_census, test_talk, test_ends, test_second_try, test_refused)

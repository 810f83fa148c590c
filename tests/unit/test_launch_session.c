/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: commands that share one sandbox, each in all its layers; what they leave behind, what
 * they do to each other, and that none of it reaches init or another command's result.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cordon/cordon.h>

#include "format/command.h"
#include "plan/command_read.h"
#include "tap.h"

#define WAIT_MS 20000
#define AT_ONCE 10
#define OUT_MAX 4096

static struct cordon_launcher *launcher;
static int image_fd; /* of the sessions that start() makes; 0 = none */
static const char *const levels[] = { "namespaces", "landlock" };
static int level;

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	if (!dir)
		return -1;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* @settings: pairs of key and value, NULL-terminated. */
static struct cordon_session *start(const char *const *settings)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_session *session = NULL;
	struct cordon_policy *policy = NULL;

	CHECK_INT(cordon_policy_new(&policy, &err), 0);
	CHECK_INT(cordon_policy_set(policy, "isolation", levels[level], &err), 0);
	for (; settings && *settings; settings += 2)
		CHECK_INT(cordon_policy_set(policy, settings[0], settings[1], &err), 0);
	options.cwd = "/";
	options.home = "/nonexistent";
	options.image_fd = image_fd;
	if (cordon_session_start(launcher, policy, &options, &session, &err) < 0)
		printf("# %s\n", err.msg);
	cordon_policy_free(policy);
	return session;
}

static struct cordon_command *exec_with(struct cordon_session *s, const char *script,
					struct cordon_exec_options *o)
{
	const char *argv[] = { "sh", "-c", script, NULL };
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_command *c = NULL;

	o->argv = argv;
	if (o->out.mode == CORDON_STREAM_NULL)
		o->out.mode = CORDON_STREAM_CAPTURE;
	o->err.mode = CORDON_STREAM_JOIN;
	if (cordon_session_exec(s, o, &c, &err) < 0)
		printf("# %s (%s)\n", err.msg, err.hint);
	return c;
}

static struct cordon_command *begin(struct cordon_session *s, const char *script)
{
	struct cordon_exec_options o = CORDON_EXEC_OPTIONS_INIT;

	return exec_with(s, script, &o);
}

/* Waits for its end: its status; @out has room for OUT_MAX, may be NULL. */
static int finish(struct cordon_command *c, char *out)
{
	const struct cordon_result *res;
	int status = -1;

	if (!c)
		return -1;
	CHECK_INT(cordon_command_wait(c, WAIT_MS, NULL), 1);
	res = cordon_command_result(c);
	if (res) {
		status = res->status;
		if (res->error.code)
			printf("# %s\n", res->error.msg);
		if (out)
			snprintf(out, OUT_MAX, "%.*s", (int)res->out.len, res->out.data);
	}
	cordon_command_free(c);
	return status;
}

static int run(struct cordon_session *s, const char *script, char *out)
{
	return finish(begin(s, script), out);
}

static void test_one_after_the_other(void)
{
	struct cordon_session *s = start(NULL);
	char out[OUT_MAX];

	REQUIRE(s != NULL);
	CHECK_INT(run(s, "echo one; exit 3", out), 3);
	CHECK_STR(out, "one\n");
	CHECK_INT(run(s, "echo kept >\"${TMPDIR:-/tmp}/x\"", NULL), 0);
	CHECK_INT(run(s, "cat \"${TMPDIR:-/tmp}/x\"", out), 0);
	CHECK_STR(out, "kept\n");
	CHECK_INT(run(s, "kill -9 $$", NULL), 137);
	cordon_session_free(s);
}

static void test_at_once(void)
{
	struct cordon_session *s = start(NULL);
	struct cordon_command *c[AT_ONCE];
	char out[OUT_MAX], script[64], expected[64];

	REQUIRE(s != NULL);
	for (int i = 0; i < AT_ONCE; i++) {
		snprintf(script, sizeof(script), "sleep 0.1; echo %d; exit %d", i, i);
		c[i] = begin(s, script);
	}
	for (int i = AT_ONCE - 1; i >= 0; i--) {
		CHECK_INT(finish(c[i], out), i);
		snprintf(expected, sizeof(expected), "%d\n", i);
		CHECK_STR(out, expected);
	}
	cordon_session_free(s);
}

static void test_not_found(void)
{
	static const char *const argv[] = { "no-such-program", NULL };
	struct cordon_exec_options o = CORDON_EXEC_OPTIONS_INIT;
	struct cordon_session *s = start(NULL);
	struct cordon_command *c = NULL;

	REQUIRE(s != NULL);
	o.argv = argv;
	CHECK_INT(cordon_session_exec(s, &o, &c, NULL), 0);
	CHECK_INT(finish(c, NULL), 127);
	o.cwd = "/no/such/dir";
	CHECK_INT(cordon_session_exec(s, &o, &c, NULL), 0);
	CHECK_INT(finish(c, NULL), 125);
	CHECK_INT(run(s, "true", NULL), 0);
	cordon_session_free(s);
}

static void test_env_and_cwd(void)
{
	static const char *const env[] = { "MINE=yes", NULL };
	struct cordon_exec_options o = CORDON_EXEC_OPTIONS_INIT;
	struct cordon_session *s = start(NULL);
	char out[OUT_MAX];

	REQUIRE(s != NULL);
	o.env = env;
	o.cwd = "/usr";
	CHECK_INT(finish(exec_with(s, "echo $MINE $PWD", &o), out), 0);
	CHECK_STR(out, "yes /usr\n");
	CHECK_INT(run(s, "echo \"${MINE-none}\"", out), 0);
	CHECK_STR(out, "none\n");
	cordon_session_free(s);
}

static void test_time_limit(void)
{
	static const char *const grace[] = { "limits.grace", "100ms", NULL };
	struct cordon_exec_options o = CORDON_EXEC_OPTIONS_INIT;
	struct cordon_session *s = start(grace);

	REQUIRE(s != NULL);
	o.wall_ms = 200;
	CHECK_INT(finish(exec_with(s, "trap '' TERM; sleep 60 & sleep 60", &o), NULL), 124);
	CHECK_INT(run(s, "true", NULL), 0);
	cordon_session_free(s);
}

/* At level landlock every process of the machine is listed: those of another test, too. */
static const char *sleeping(char ret[OUT_MAX], int seconds)
{
	snprintf(ret, OUT_MAX, "sleep %d.%d & echo $!", seconds, (int)getpid());
	return ret;
}

static int sealed_copy(const char *path)
{
	int from = open(path, O_RDONLY | O_CLOEXEC);
	int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (from < 0 || fd < 0)
		return -1;
	while (sendfile(fd, from, NULL, 1 << 20) > 0)
		;
	close(from);
	if (fchmod(fd, 0555) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return -1;
	return fd;
}

/* Where the command's arguments do not name it, the image is what is executed; and only for those
 * that ask for it. */
static void test_image(void)
{
	struct cordon_exec_options o = CORDON_EXEC_OPTIONS_INIT;
	const char *argv[] = { "true", NULL };
	struct cordon_command *refused = NULL;
	char out[OUT_MAX];
	struct cordon_session *s;

	image_fd = sealed_copy("/bin/cat");
	REQUIRE(image_fd > 0);
	s = start(NULL);
	close(image_fd);
	image_fd = 0;
	REQUIRE(s != NULL);
	o.image = 1;
	/* cat reads a file called -c, and one called like the script. */
	CHECK_INT(finish(exec_with(s, "echo shell", &o), out), 1);
	CHECK(strstr(out, "invalid option -- 'c'") || strstr(out, "No such file"));
	CHECK_INT(run(s, "echo shell; ls -l /proc/$$/fd | grep -c memfd", out), 1);
	CHECK_STR(out, "shell\n0\n");
	o.argv = argv;
	o.files = 1;
	CHECK_INT(cordon_session_exec(s, &o, &refused, NULL), -CORDON_E_USAGE);
	cordon_session_free(s);

	o.files = 0;
	s = start(NULL);
	REQUIRE(s != NULL);
	CHECK_INT(cordon_session_exec(s, &o, &refused, NULL), -CORDON_E_USAGE);
	CHECK(cordon_session_workspace(s) == NULL);
	CHECK_INT(cordon_session_branch(s, 0, 0, &(struct cordon_workspace *){ NULL }, NULL),
		  -CORDON_E_STATE);
	cordon_session_free(s);
}

static void test_pass(void)
{
	struct cordon_exec_options o = CORDON_EXEC_OPTIONS_INIT;
	struct cordon_session *s = start(NULL);
	struct cordon_command *refused = NULL;
	const char *argv[] = { "true", NULL };
	char text[64] = "", fifo[] = "/tmp/cordon-fifo-XXXXXX", path[64];
	int fds[2], file, file_read;

	REQUIRE(s != NULL && pipe2(fds, O_CLOEXEC) == 0);
	o.out = (struct cordon_stream){ .mode = CORDON_STREAM_PASS, .fd = fds[1] };
	/* It can be opened again, and not to read what others write. */
	CHECK_INT(finish(exec_with(s, "echo one; echo two >/dev/stdout; cat </dev/stdout", &o),
			 NULL) != 0,
		  1);
	CHECK(read(fds[0], text, sizeof(text) - 1) >= 8);
	CHECK(strncmp(text, "one\ntwo\n", 8) == 0);
	/* Its flags are the command's alone. */
	CHECK_INT(
		finish(exec_with(s, "python3 -Ic 'import os; os.set_blocking(1, False)' || exit 9",
				 &o),
		       NULL),
		0);
	CHECK((fcntl(fds[1], F_GETFL) & O_NONBLOCK) == 0);
	file = memfd_create("file", MFD_CLOEXEC);
	REQUIRE(file >= 0);
	o.argv = argv;
	o.out.fd = file;
	CHECK_INT(cordon_session_exec(s, &o, &refused, NULL), -CORDON_E_USAGE);
	o.out.fd = -1;
	CHECK_INT(cordon_session_exec(s, &o, &refused, NULL), -CORDON_E_USAGE);
	/* Nor an end from which others' words could be read, or a pipe with a name. */
	o.out.fd = fds[0];
	CHECK_INT(cordon_session_exec(s, &o, &refused, NULL), -CORDON_E_USAGE);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[1]);
	o.out.fd = open(path, O_RDWR | O_CLOEXEC);
	REQUIRE(o.out.fd >= 0);
	CHECK_INT(cordon_session_exec(s, &o, &refused, NULL), -CORDON_E_USAGE);
	close(o.out.fd);
	REQUIRE(mkdtemp(fifo) != NULL);
	snprintf(path, sizeof(path), "%s/pipe", fifo);
	REQUIRE(mkfifo(path, 0600) == 0);
	file_read = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	o.out.fd = open(path, O_WRONLY | O_CLOEXEC);
	REQUIRE(o.out.fd >= 0);
	CHECK_INT(cordon_session_exec(s, &o, &refused, NULL), -CORDON_E_USAGE);
	close(o.out.fd);
	close(file_read);
	unlink(path);
	rmdir(fifo);
	o.in = (struct cordon_stream){ .mode = CORDON_STREAM_PASS, .fd = fds[0] };
	o.out.mode = CORDON_STREAM_NULL;
	CHECK_INT(cordon_session_exec(s, &o, &refused, NULL), -CORDON_E_USAGE);
	close(file);
	close(fds[0]);
	close(fds[1]);
	cordon_session_free(s);
}

static const char *listed(char ret[OUT_MAX], int seconds)
{
	snprintf(ret, OUT_MAX, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -q '[s]leep %d.%d '",
		 seconds, (int)getpid());
	return ret;
}

static void test_rest(void)
{
	struct cordon_exec_options keep = CORDON_EXEC_OPTIONS_INIT;
	struct cordon_exec_options kill = CORDON_EXEC_OPTIONS_INIT;
	struct cordon_session *s = start(NULL);
	char out[OUT_MAX], script[OUT_MAX];

	REQUIRE(s != NULL);
	keep.orphans = CORDON_ORPHANS_KEEP;
	CHECK_INT(finish(exec_with(s, sleeping(script, 47), &keep), out), 0);
	CHECK_INT(run(s, listed(script, 47), NULL), 0);
	CHECK_INT(finish(exec_with(s, sleeping(script, 48), &kill), out), 0);
	CHECK_INT(run(s, listed(script, 48), NULL), 1);
	/* What is kept may write on, without a reader. */
	CHECK_INT(finish(exec_with(s,
				   "(sleep 0.2; echo late; echo alive "
				   ">\"${TMPDIR:-/tmp}/alive\") & echo now",
				   &keep),
			 out),
		  0);
	CHECK_STR(out, "now\n");
	CHECK_INT(run(s,
		      "for i in $(seq 100); do test -s \"${TMPDIR:-/tmp}/alive\" && break; "
		      "sleep 0.1; done; cat \"${TMPDIR:-/tmp}/alive\"",
		      out),
		  0);
	CHECK_STR(out, "alive\n");
	cordon_session_free(s);
}

static void test_hostile_neighbour(void)
{
	struct cordon_exec_options keep = CORDON_EXEC_OPTIONS_INIT;
	struct cordon_session *s = start(NULL);
	char out[OUT_MAX];

	REQUIRE(s != NULL);
	keep.orphans = CORDON_ORPHANS_KEEP;
	/* It stops whatever it may, again and again, once its own command has ended; init must not
	 * wait for what is stopped. */
	CHECK_INT(finish(exec_with(s,
				   "(trap '' TERM HUP; sleep 1; while :; do kill -STOP -1; done) "
				   ">/dev/null 2>&1 &",
				   &keep),
			 NULL),
		  0);
	usleep(1200000);
	for (int i = 0; i < 5; i++) {
		struct cordon_exec_options o = CORDON_EXEC_OPTIONS_INIT;
		int status;

		o.wall_ms = 300;
		status = finish(exec_with(s, "echo here", &o), out);
		CHECK(status == 0 || status == 124);
	}
	/* Nor does killing all there is end the session. */
	CHECK_INT(run(s, "kill -9 -1; echo not reached by others", NULL) >= 0, 1);
	CHECK_INT(run(s, "echo fine", out), 0);
	CHECK_STR(out, "fine\n");
	cordon_session_free(s);
}

static void test_signals_and_end(void)
{
	struct cordon_session *s = start(NULL);
	struct cordon_command *c;
	const struct cordon_result *res;

	REQUIRE(s != NULL);
	c = begin(s, "trap 'echo got; exit 7' USR1; echo ready; while :; do sleep 0.05; done");
	REQUIRE(c != NULL);
	usleep(300000);
	CHECK_INT(cordon_command_signal(c, SIGUSR1, NULL), 0);
	CHECK_INT(finish(c, NULL), 7);
	c = begin(s, "sleep 60");
	CHECK_INT(cordon_command_end(c, SIGTERM, 1000, NULL), 0);
	CHECK_INT(cordon_command_wait(c, WAIT_MS, NULL), 1);
	res = cordon_command_result(c);
	CHECK(res && res->kind == CORDON_KIND_CANCELLED);
	cordon_command_free(c);
	cordon_session_free(s);
}

static void test_pause(void)
{
	struct cordon_session_usage usage;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_session *s = start(NULL);
	struct cordon_command *c, *refused = NULL;
	struct cordon_exec_options o = CORDON_EXEC_OPTIONS_INIT;
	static const char *const argv[] = { "true", NULL };

	REQUIRE(s != NULL);
	o.wall_ms = 1000;
	c = exec_with(s, "sleep 0.3; echo done", &o);
	CHECK_INT(cordon_session_pause(s, &err), 0);
	CHECK_INT(cordon_session_usage(s, &usage, &err), 0);
	CHECK_INT(usage.is_paused, 1);
	CHECK_INT((int)usage.commands, 1);
	o.argv = argv;
	CHECK(cordon_session_exec(s, &o, &refused, &err) < 0 && strstr(err.msg, "paused"));
	/* Longer than its time, which stands still. */
	CHECK_INT(cordon_command_wait(c, 1300, NULL), 0);
	CHECK_INT(cordon_session_resume(s, &err), 0);
	CHECK_INT(finish(c, NULL), 0);
	cordon_session_free(s);
}

static void test_channel(void)
{
	struct cordon_exec_options o = CORDON_EXEC_OPTIONS_INIT;
	struct cordon_session *s = start(NULL);
	struct cordon_command *c;
	char got[16] = "";
	int pair[2];

	REQUIRE(s != NULL);
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	o.channel_fd = pair[1];
	c = exec_with(s, "echo hello >&3; ls /proc/self/fd | tr '\\n' ' '", &o);
	close(pair[1]);
	CHECK_INT(finish(c, NULL), 0);
	CHECK_INT((int)read(pair[0], got, sizeof(got) - 1), 6);
	CHECK_STR(got, "hello\n");
	close(pair[0]);
	cordon_session_free(s);
}

static void test_ends(void)
{
	static const char *const wall[] = { "limits.wall", "300ms", NULL };
	static const char *const memory[] = { "limits.memory", "64M", NULL };
	struct cordon_session *s = start(wall);
	struct cordon_command *c;
	const struct cordon_result *res;

	REQUIRE(s != NULL);
	c = begin(s, "sleep 60");
	CHECK_INT(cordon_session_wait(s, WAIT_MS, NULL), 1);
	res = cordon_session_result(s);
	CHECK(res && res->kind == CORDON_KIND_TIMEOUT);
	res = cordon_command_result(c);
	CHECK(res && res->kind == CORDON_KIND_TIMEOUT);
	cordon_command_free(c);
	CHECK(begin(s, "true") == NULL);
	cordon_session_free(s);

	s = start(memory);
	REQUIRE(s != NULL);
	c = begin(s, "head -c 300000000 /dev/zero | tail");
	CHECK_INT(cordon_session_wait(s, WAIT_MS, NULL), 1);
	res = cordon_session_result(s);
	CHECK(res && res->kind == CORDON_KIND_MEMORY);
	cordon_command_free(c);
	cordon_session_free(s);

	s = start(NULL);
	REQUIRE(s != NULL);
	CHECK_INT(run(s, "true", NULL), 0);
	CHECK_INT(cordon_session_end(s, SIGTERM, NULL), 0);
	CHECK_INT(cordon_session_wait(s, WAIT_MS, NULL), 1);
	res = cordon_session_result(s);
	CHECK(res && res->kind == CORDON_KIND_CANCELLED);
	cordon_session_free(s);
}

/* A block is used only if every offset in it is sound. */
static void test_block(void)
{
	struct {
		struct command_header h;
		uint32_t offsets[2];
		char strings[8];
	} b = { .h = { COMMAND_MAGIC, COMMAND_VERSION, sizeof(b), 0, 0, 0, 0, 0, 0, 0, 0, 0 },
		.strings = "sh" };
	const uint32_t base = sizeof(b.h), strings = base + sizeof(b.offsets);

	b.h.strings_off = strings;
	b.h.argv_off = base;
	b.h.n_argv = 1;
	b.h.envp_off = base + 4;
	b.h.paths_off = base + 4;
	b.h.n_paths = 1;
	b.offsets[0] = b.offsets[1] = strings;
	CHECK_INT(command_read_check(&b, sizeof(b)), 0);
	for (size_t at = 0; at < sizeof(b.h) + sizeof(b.offsets); at += 4) {
		uint32_t *word = (uint32_t *)(void *)((char *)&b + at), old = *word;

		*word = 0xfffffff0;
		CHECK(command_read_check(&b, sizeof(b)) < 0 ||
		      at == offsetof(struct command_header, pad));
		*word = old;
	}
	CHECK(command_read_check(&b, sizeof(b) - 1) < 0);
	b.strings[sizeof(b.strings) - 1] = 'x';
	CHECK(command_read_check(&b, sizeof(b)) < 0);
}

/* Words that came another way than standard error, while the command goes on. */
static void test_refusals(void)
{
	static const char *const said[] = { "x: '/srv/data': No such file or directory\n",
					    "x: '/srv/data': Permission denied\n" };
	static const char own[] = "x: '/usr': Exec format error\nall is well\n";
	const struct cordon_denial *denials = NULL;
	struct cordon_session *s = start(NULL);
	struct cordon_command *c = s ? begin(s, "exec sleep 60") : NULL;
	size_t n = 0;

	CHECK(c != NULL);
	if (!c)
		return;
	for (int i = 0; i < 2; i++) {
		CHECK_INT(cordon_command_refusals(c, said[level], strlen(said[level]), &denials, &n,
						  NULL),
			  0);
		CHECK_INT(n, 1);
		if (n == 1) {
			CHECK_STR(denials[0].target, "/srv/data");
			CHECK_STR(denials[0].fix, "-r /srv/data");
			CHECK_STR(denials[0].how, "said");
		}
	}
	CHECK_INT(cordon_command_refusals(c, own, strlen(own), &denials, &n, NULL), 0);
	CHECK_INT(n, 0);
	CHECK_INT(cordon_command_refusals(c, "", 0, &denials, &n, NULL), 0);
	CHECK_INT(n, 0);
	/* None of that is in its result. */
	CHECK_INT(cordon_command_end(c, SIGKILL, 0, NULL), 0);
	CHECK_INT(cordon_command_wait(c, WAIT_MS, NULL), 1);
	CHECK(cordon_command_result(c) && cordon_command_result(c)->n_denials == 0);
	cordon_command_free(c);
	cordon_session_free(s);
}

static void test_all_at_landlock(void)
{
	level = 1;
	test_one_after_the_other();
	test_at_once();
	test_not_found();
	test_env_and_cwd();
	test_time_limit();
	test_rest();
	test_signals_and_end();
	test_pause();
	test_channel();
	test_image();
	test_pass();
	test_refusals();
	test_ends();
	level = 0;
}

static int fds_at_start;

static void test_begin(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	fds_at_start = count_fds();
	CHECK_INT(cordon_launcher_new(&launcher, &err), 0);
}

static void test_nothing_left(void)
{
	cordon_launcher_free(launcher);
	CHECK(waitpid(-1, NULL, WNOHANG | __WALL) == -1 && errno == ECHILD);
	CHECK_INT(count_fds(), fds_at_start);
}

TAP_MAIN(test_begin, test_one_after_the_other, test_at_once, test_not_found, test_env_and_cwd,
	 test_time_limit, test_rest, test_hostile_neighbour, test_signals_and_end, test_pause,
	 test_channel, test_image, test_pass, test_refusals, test_ends, test_block,
	 test_all_at_landlock, test_nothing_left)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon run: one command in one sandbox.
 *
 * The launcher is not freed at the end: that would wait for the kernel to take down the sandbox,
 * which it also does if we do not wait. The run is freed, because it may have placeholders and a
 * scratch directory to remove; the launcher too, if there may be a control group to remove.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"
#include "base/path.h"
#include "base/units.h"
#include "explain.h"
#include "network.h"
#include "out.h"
#include "output_file.h"
#include "receipt.h"
#include "signals.h"
#include "terminal.h"
#include "verbs.h"
#include "workspace_run.h"

#define JSON_OUTPUT_DEFAULT "1M"
#define READER_MS 2000	      /* for who reads our messages and the account, under a time limit */
#define WALL_UNKNOWN_MS 60000 /* a time limit that no flag says */
#define READER_LOST_MS 100    /* ... and has not read the command's output */

struct session {
	const struct parsed *args;
	struct cordon_policy *policy;
	struct cordon_launcher *launcher;
	struct cordon_run *run;
	struct receipt receipt;
	struct signals signals;
};

/* Reachable until the end, so that leak checkers report nothing. */
static struct session session = { .receipt = RECEIPT_INIT };

static int is_quiet(const struct session *s)
{
	return parsed_has(s->args, OPT_QUIET);
}

static int is_interactive(const struct session *s)
{
	return parsed_has(s->args, OPT_INTERACTIVE);
}

/* Prints the account and writes the receipt, as far as they were asked for. 0 or an exit status. */
static int deliver(const struct receipt *receipt, int json, const struct cordon_result *result)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf sb = STRBUF_INIT;
	char *text = NULL;
	int status = 0;
	int r = 0;

	if (json) {
		r = cordon_result_to_json(result, 1, &text, &err);
		if (r >= 0) {
			strbuf_puts(&sb, text);
			strbuf_putc(&sb, '\n');
			status = out_finish(&sb, 0);
			cordon_free(TAKE_PTR(text));
		}
	}
	if (r >= 0 && receipt->dir_fd >= 0) {
		r = cordon_result_to_json(result, 0, &text, &err);
		if (r >= 0) {
			r = receipt_write(receipt, text, strlen(text), &err);
			cordon_free(text);
		}
	}
	if (r < 0) {
		say_error(&err);
		return STATUS_FAILED;
	}
	return status;
}

/* A run that never began has an account too, if one was asked for. */
static int deliver_failure(const struct receipt *receipt, int json, const struct cordon_error *err)
{
	static const char *const none[] = { NULL };
	struct cordon_result result = {
		.kind = CORDON_KIND_SANDBOX_ERROR,
		.exit_code = -1,
		.status = status_of_error(err),
		.layers = none,
		.missing = none,
		.usage_known = 1, /* nothing ran */
		.error = *err,
	};

	if (result.status != STATUS_FAILED)
		result.kind = CORDON_KIND_SPAWN_FAILED;
	(void)deliver(receipt, json, &result);
	return result.status;
}

int run_report_failure(const struct cordon_error *err)
{
	const struct receipt none = RECEIPT_INIT;

	return deliver_failure(&none, 1, err);
}

static int fail(const struct session *s, const struct cordon_error *err)
{
	say_error(err);
	return deliver_failure(&s->receipt, parsed_has(s->args, OPT_JSON), err);
}

static int make_policy(struct session *s, struct cordon_error *err)
{
	int r = cordon_policy_new(&s->policy, err);

	/* First, so that a file or a flag can say otherwise. */
	if (r >= 0 && parsed_has(s->args, OPT_JSON))
		r = cordon_policy_set(s->policy, "limits.output", JSON_OUTPUT_DEFAULT, err);
	if (r >= 0)
		r = policy_from_options(s->policy, s->args, err);
	return r;
}

/* Both outputs to one file keep their order only if they go through one pipe. */
static int is_same_file(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino;
}

static void choose_stream(struct cordon_stream *stream, int fd, int json)
{
	if (json && fd != STDIN_FILENO) {
		stream->mode = CORDON_STREAM_CAPTURE;
		return;
	}
	stream->fd = fd;
	if (closed_at_start & (1u << fd)) {
		stream->mode = CORDON_STREAM_NULL;
		return;
	}
	stream->mode = CORDON_STREAM_FD;
	stream->clean = fd != STDIN_FILENO && isatty(fd);
}

static void choose_streams(const struct session *s, struct cordon_run_options *options)
{
	int json = parsed_has(s->args, OPT_JSON);

	if (is_interactive(s)) {
		options->terminal = 1;
		options->in.mode = options->out.mode = CORDON_STREAM_FD;
		options->in.fd = STDIN_FILENO;
		options->out.fd = STDOUT_FILENO;
		terminal_size(options);
		return;
	}
	choose_stream(&options->in, STDIN_FILENO, json);
	choose_stream(&options->out, STDOUT_FILENO, json);
	choose_stream(&options->err, STDERR_FILENO, json);
	if (options->out.mode == CORDON_STREAM_FD && options->err.mode == CORDON_STREAM_FD &&
	    is_same_file(STDOUT_FILENO, STDERR_FILENO))
		options->err.mode = CORDON_STREAM_JOIN;
}

static int print_plan(const struct session *s, const struct cordon_run_options *options)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf sb = STRBUF_INIT;
	char *text;

	if (cordon_plan_to_json(s->launcher, s->policy, options, &text, &err) < 0) {
		say_error(&err);
		return status_of_error(&err);
	}
	strbuf_puts(&sb, text);
	strbuf_putc(&sb, '\n');
	cordon_free(text);
	return out_finish(&sb, 0);
}

static void print_notes(const struct session *s)
{
	const char *const *notes = cordon_run_notes(s->run);

	if (!notes || !*notes || is_quiet(s) || !isatty(STDERR_FILENO))
		return;
	for (; *notes; notes++) {
		say_note(*notes);
		/* The terminal is raw. */
		if (is_interactive(s))
			(void)write_full(STDERR_FILENO, "\r", 1);
	}
}

static int wait_for_end(struct session *s, struct cordon_error *err)
{
	struct pollfd fds[] = {
		{ .fd = cordon_run_fd(s->run), .events = POLLIN },
		{ .fd = s->signals.fd, .events = POLLIN },
		/* For its hang-up only: we may not get a signal when the terminal is closed. */
		{ .fd = is_interactive(s) ? STDIN_FILENO : -1 },
	};

	for (;;) {
		int r;

		if (poll(fds, 3, -1) < 0) {
			if (errno == EINTR)
				continue;
			return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot wait for the run");
		}
		if (fds[1].revents)
			signals_handle(&s->signals, s->run);
		if (fds[2].revents) {
			fds[2].fd = -1;
			if (!s->signals.cancel_signal)
				signals_act(&s->signals, s->run, SIGHUP);
		}
		r = cordon_run_process(s->run, err);
		if (r != 0)
			return r;
	}
}

/* Output that could not be written though the command believes it was: a failure in any case. */
static int report_loss(const struct cordon_output *out, const char *name)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	if (!out->write_errno)
		return 0;
	if (out->write_errno == ETIMEDOUT)
		cordon_err(&err, CORDON_E_SYSTEM, 0,
			   "the command's %s was not read in time; the rest was given up", name);
	else
		cordon_err(&err, CORDON_E_SYSTEM, out->write_errno, "cannot write the command's %s",
			   name);
	say_error(&err);
	return 1;
}

static int has_time_limit(const struct cordon_result *result)
{
	for (size_t i = 0; i < result->n_limits; i++)
		if (strcmp(result->limits[i].limit, "wall") == 0)
			return 1;
	return 0;
}

/* Our own messages and the account wait for a reader as long as the command's output may: until the
 * end of the run's time, and a moment at least. */
static void hurry(const struct session *s, const struct cordon_result *result)
{
	const char *wall = parsed_value(s->args, OPT_TIMEOUT);
	int64_t ms = READER_MS, wall_ms;
	struct timespec now;

	if (!has_time_limit(result) && !s->signals.cancel_signal)
		return;
	if (result->kind != CORDON_KIND_TIMEOUT && !s->signals.cancel_signal)
		ms += wall && units_parse_duration(wall, &wall_ms, NULL) == 0 ? wall_ms
									      : WALL_UNKNOWN_MS;
	if (result->out.write_errno == ETIMEDOUT || result->err.write_errno == ETIMEDOUT)
		ms = READER_LOST_MS;
	clock_gettime(CLOCK_MONOTONIC, &now);
	out_hurry((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + ms, s->signals.fd);
}

static int conclude(const struct session *s, const struct cordon_result *run_result)
{
	struct cordon_result copy = *run_result;
	const struct cordon_result *result = &copy;
	struct cordon_run_workspace workspace;
	int status = result->status;
	int r;

	hurry(s, result);
	if (result->kind == CORDON_KIND_CANCELLED && s->signals.cancel_signal)
		status = STATUS_SIGNAL_BASE + s->signals.cancel_signal;
	explain_end(s->args, s->policy, result);
	if (report_loss(&result->out, "output") + report_loss(&result->err, "error output") &&
	    status == 0)
		status = STATUS_FAILED;
	if (parsed_has(s->args, OPT_VERBOSE))
		explain_timings(result);
	if (parsed_has(s->args, OPT_USAGE))
		explain_usage(result);
	if (result->workspace) {
		workspace = *result->workspace;
		status = workspace_conclude(s->args, result, &workspace, status);
		copy.workspace = &workspace;
	}
	r = deliver(&s->receipt, parsed_has(s->args, OPT_JSON), result);
	return r ? r : status;
}

/* Only we remove a control group, and only after init has left it. A failed run does not say
 * whether it had one. */
static int may_have_cgroup(const struct cordon_result *result)
{
	if (result->kind == CORDON_KIND_SANDBOX_ERROR || result->kind == CORDON_KIND_SPAWN_FAILED)
		return 1;
	for (size_t i = 0; result->layers[i]; i++)
		if (strcmp(result->layers[i], "cgroup") == 0)
			return 1;
	return 0;
}

/*
 * The sandbox's init is still exiting when its result arrives. Usually we need not wait: PID 1
 * collects it. In a container PID 1 may be a program that never does, and each run would leave a
 * zombie behind.
 */
static int orphans_are_collected(void)
{
	static const char *const inits[] = { "systemd",	    "init",	   "tini",	"dumb-init",
					     "catatonit",   "docker-init", "s6-svscan", "runit",
					     "openrc-init", "busybox" };
	char name[64] = "";
	int fd = open("/proc/1/comm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, name, sizeof(name) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	name[n - 1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(inits); i++)
		if (strcmp(name, inits[i]) == 0)
			return 1;
	return 0;
}

/* The library wants an absolute path. */
static int private_option(const struct parsed *args, struct cordon_run_options *options,
			  struct cordon_error *err)
{
	const char *typed = parsed_value(args, OPT_PRIVATE);
	static char path[PATH_MAX];
	char cwd[PATH_MAX];
	int r;

	if (!typed)
		return 0;
	if (!*typed) {
		cordon_err(err, CORDON_E_USAGE, 0, "--private needs a directory");
		return -CORDON_E_USAGE;
	}
	r = getcwd(cwd, sizeof(cwd)) ? path_normalise(cwd, typed, path, sizeof(path)) : -errno;
	if (r < 0)
		return cordon_err(err, CORDON_E_PATH, -r,
				  "cannot use '%s' as the private directory", typed);
	options->private_dir = path;
	/* "/" is refused by the library. */
	return path[1] ? output_check_way("the private directory ", path, err) : 0;
}

int cmd_run(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run_options options;
	struct session *s = &session;
	char home[PATH_MAX];
	int status, r;

	s->args = args;
	if (!args->n_rest) {
		cordon_err(&err, CORDON_E_USAGE, 0, "no command given");
		cordon_err_hint(&err, "try 'cordon run --help'");
		return fail(s, &err);
	}
	if (is_interactive(s) && parsed_has(args, OPT_JSON)) {
		cordon_err(&err, CORDON_E_USAGE, 0, "-i and --json contradict each other");
		cordon_err_hint(&err, "a terminal's output goes to the terminal; --receipt FILE "
				      "writes the account of the run");
		return fail(s, &err);
	}
	if (make_policy(s, &err) < 0 || cordon_launcher_new(&s->launcher, &err) < 0)
		return fail(s, &err);
	run_options_init(&options, args, home, sizeof(home));
	if (workspace_options(args, s->policy, &options, &err) < 0 ||
	    private_option(args, &options, &err) < 0)
		return fail(s, &err);
	choose_streams(s, &options);
	if (parsed_has(args, OPT_DRY_RUN))
		return print_plan(s, &options);
	if (parsed_has(args, OPT_RECEIPT) &&
	    receipt_open(parsed_value(args, OPT_RECEIPT), &s->receipt, &err) < 0)
		return fail(s, &err);
	if (parsed_has(args, OPT_NET_LOG) &&
	    network_open_log(parsed_value(args, OPT_NET_LOG), &options.net_log_fd, &err) < 0)
		return fail(s, &err);
	if (signals_init(&s->signals, is_interactive(s), &err) < 0 ||
	    (is_interactive(s) && terminal_enter(&err) < 0))
		return fail(s, &err);
	workspace_watch_copy(args, &s->signals, &options);
	if (cordon_run_start(s->launcher, s->policy, &options, &s->run, &err) < 0) {
		terminal_leave();
		status = fail(s, &err);
		cordon_launcher_free(TAKE_PTR(s->launcher));
		return status;
	}
	print_notes(s);
	if (!is_quiet(s))
		network_say_published(s->run, is_interactive(s));
	r = wait_for_end(s, &err);
	/* Before any message. */
	terminal_leave();
	if (r < 0) {
		status = fail(s, &err);
		cordon_run_free(TAKE_PTR(s->run));
		cordon_launcher_free(TAKE_PTR(s->launcher));
		return status;
	}
	status = conclude(s, cordon_run_result(s->run));
	if (may_have_cgroup(cordon_run_result(s->run)) || !orphans_are_collected()) {
		cordon_run_free(TAKE_PTR(s->run));
		cordon_launcher_free(TAKE_PTR(s->launcher));
	}
	return status;
}

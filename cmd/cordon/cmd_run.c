/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon run: one command in one sandbox.
 *
 * The launcher is not freed at the end: that would wait for the kernel to finish taking the sandbox
 * apart, which it does as well without anybody waiting. The run is, because it may have
 * placeholders and a scratch directory to take away.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"
#include "base/units.h"
#include "out.h"
#include "receipt.h"
#include "signals.h"
#include "verbs.h"

#define JSON_OUTPUT_DEFAULT "1M"
#define HELD_LINES_MAX 10

struct session {
	const struct parsed *args;
	struct cordon_policy *policy;
	struct cordon_launcher *launcher;
	struct cordon_run *run;
	struct receipt receipt;
	struct signals signals;
};

/* Reachable until the end, so that leak checkers agree that nothing was lost. */
static struct session session = { .receipt = RECEIPT_INIT };

static int is_quiet(const struct session *s)
{
	return parsed_has(s->args, OPT_QUIET);
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

/* A run that never began still has an account, for those who asked for one. */
static int deliver_failure(const struct receipt *receipt, int json, const struct cordon_error *err)
{
	static const char *const none[] = { NULL };
	struct cordon_result result = {
		.kind = CORDON_KIND_SANDBOX_ERROR,
		.exit_code = -1,
		.status = status_of_error(err),
		.layers = none,
		.missing = none,
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

/* Output that goes to one place keeps its order only if it goes there through one pipe. */
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
	for (; *notes; notes++)
		say_note(*notes);
}

static int wait_for_end(struct session *s, struct cordon_error *err)
{
	struct pollfd fds[] = {
		{ .fd = cordon_run_fd(s->run), .events = POLLIN },
		{ .fd = s->signals.fd, .events = POLLIN },
	};

	for (;;) {
		int r;

		if (poll(fds, 2, -1) < 0) {
			if (errno == EINTR)
				continue;
			return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot wait for the run");
		}
		if (fds[1].revents)
			signals_handle(&s->signals, s->run);
		r = cordon_run_process(s->run, err);
		if (r != 0)
			return r;
	}
}

static const char new_repository[] =
	"a new repository at the top of a write grant is refused (its hooks and config would run "
	"on the host later); make it in a subdirectory or in the private /tmp, or allow it with "
	"--no-protect";

/* git init|clone, whatever stands between the two words. */
static int makes_repository(char *const *argv)
{
	const char *slash = strrchr(argv[0], '/');

	if (strcmp(slash ? slash + 1 : argv[0], "git") != 0)
		return 0;
	for (argv++; *argv; argv++) {
		if (!strcmp(*argv, "init") || !strcmp(*argv, "clone"))
			return 1;
	}
	return 0;
}

/* Whether something may be written at all, and protected names may not. */
static int protects_a_grant(const struct session *s)
{
	const uint32_t grants = 1u << OPT_WRITE | 1u << OPT_POLICY | 1u << OPT_PRESET;
	char *text;
	int off;

	if (!(s->args->seen & grants) || parsed_has(s->args, OPT_NO_PROTECT))
		return 0;
	if (cordon_policy_to_json(s->policy, &text, NULL) < 0)
		return 0;
	off = strstr(text, "\"protect\":false") || strstr(text, "\"protect\": false");
	cordon_free(text);
	return !off;
}

/* Why something in a repository got another name. */
static const char *held_reason(const char *what)
{
	if (strcmp(what, "nested repository") == 0)
		return "/.git': a repository inside a repository would run its own config for you";
	if (strcmp(what, "link in a repository") == 0)
		return "': git would write through this link for you";
	return "': nobody can tell what git would run because of it";
}

static void explain_held(const struct cordon_result *result)
{
	size_t n = result->n_denials < HELD_LINES_MAX ? result->n_denials : HELD_LINES_MAX;

	for (size_t i = 0; i < n; i++) {
		const struct cordon_denial *d = &result->denials[i];
		struct strbuf sb = STRBUF_INIT;

		strbuf_printf(&sb, "cordon: %s '", d->fix ? "held" : "could not hold");
		strbuf_add_escaped(&sb, d->target, strlen(d->target));
		strbuf_puts(&sb, held_reason(d->what));
		if (d->fix) {
			strbuf_puts(&sb, "; to keep it: ");
			strbuf_add_escaped(&sb, d->fix, strlen(d->fix));
		}
		strbuf_putc(&sb, '\n');
		if (!sb.failed)
			(void)out_all(STDERR_FILENO, sb.data, sb.len);
		strbuf_done(&sb);
	}
	if (result->n_denials > n)
		say_line("and %zu more; --receipt lists them", result->n_denials - n);
}

static void explain_end(const struct session *s, const struct cordon_result *result)
{
	const char *wall = parsed_value(s->args, OPT_TIMEOUT);
	char text[UNITS_TEXT_MAX];
	int64_t ms;

	if (result->kind == CORDON_KIND_TIMEOUT) {
		int known = wall && units_parse_duration(wall, &ms, NULL) >= 0;

		say_line("time limit%s%s reached; the command was ended (raise it with -t)",
			 known ? " of " : "", known ? units_format_duration(ms, text) : "");
	}
	if (result->error.code)
		say_error(&result->error);
	if (is_quiet(s))
		return;
	explain_held(result);
	if (!parsed_has(s->args, OPT_JSON) && (result->out.truncated || result->err.truncated))
		say_note("the output was cut at its limit (raise it with --max-output)");
	if (result->kind == CORDON_KIND_EXITED && result->exit_code > 0 &&
	    makes_repository(s->args->rest) && protects_a_grant(s))
		say_note(new_repository);
}

static void print_timings(const struct cordon_result *result)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_printf(&sb, "cordon: level %s;", cordon_level_name(result->level));
	for (const char *const *layer = result->layers; layer && *layer; layer++)
		strbuf_printf(&sb, " %s", *layer);
	for (const char *const *layer = result->missing; layer && *layer; layer++)
		strbuf_printf(&sb, "%s %s", layer == result->missing ? "; missing:" : "", *layer);
	strbuf_puts(&sb, "\ncordon: done after (us):");
	for (unsigned i = 0; i < CORDON_STAMPS_MAX; i++) {
		if (result->stamps_us[i])
			strbuf_printf(&sb, " %s %u", cordon_stage_name(i), result->stamps_us[i]);
	}
	strbuf_printf(
		&sb, "\ncordon: set-up %.3f ms, in all %.3f ms, CPU %.3f ms, memory %ju KiB\n",
		result->setup_ms, result->duration_ms, result->cpu_user_ms + result->cpu_system_ms,
		(uintmax_t)(result->max_memory_bytes >> 10));
	if (!sb.failed)
		(void)out_all(STDERR_FILENO, sb.data, sb.len);
	strbuf_done(&sb);
}

/* Output that the command believes written and that could not be: a failure, whatever it said. */
static int report_loss(const struct cordon_output *out, const char *name)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	if (!out->write_errno)
		return 0;
	cordon_err(&err, CORDON_E_SYSTEM, out->write_errno, "cannot write the command's %s", name);
	say_error(&err);
	return 1;
}

static int conclude(const struct session *s, const struct cordon_result *result)
{
	int status = result->status;
	int r;

	if (result->kind == CORDON_KIND_CANCELLED && s->signals.cancel_signal)
		status = STATUS_SIGNAL_BASE + s->signals.cancel_signal;
	explain_end(s, result);
	if (report_loss(&result->out, "output") + report_loss(&result->err, "error output") &&
	    status == 0)
		status = STATUS_FAILED;
	if (parsed_has(s->args, OPT_VERBOSE))
		print_timings(result);
	r = deliver(&s->receipt, parsed_has(s->args, OPT_JSON), result);
	return r ? r : status;
}

/*
 * The sandbox's init is still taking itself down when its result is here, and usually we need not
 * wait: whoever is PID 1 collects it. In a container that may be a program that never does, and
 * each run would leave a zombie behind.
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

int cmd_run(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run_options options;
	struct session *s = &session;
	char home[PATH_MAX];
	int status;

	s->args = args;
	if (!args->n_rest) {
		cordon_err(&err, CORDON_E_USAGE, 0, "no command given");
		cordon_err_hint(&err, "try 'cordon run --help'");
		return fail(s, &err);
	}
	if (make_policy(s, &err) < 0 || cordon_launcher_new(&s->launcher, &err) < 0)
		return fail(s, &err);
	run_options_init(&options, args, home, sizeof(home));
	choose_streams(s, &options);
	if (parsed_has(args, OPT_DRY_RUN))
		return print_plan(s, &options);
	if (parsed_has(args, OPT_RECEIPT) &&
	    receipt_open(parsed_value(args, OPT_RECEIPT), &s->receipt, &err) < 0)
		return fail(s, &err);
	if (signals_init(&s->signals, &err) < 0 ||
	    cordon_run_start(s->launcher, s->policy, &options, &s->run, &err) < 0)
		return fail(s, &err);
	print_notes(s);
	if (wait_for_end(s, &err) < 0) {
		status = fail(s, &err);
		cordon_run_free(TAKE_PTR(s->run));
		return status;
	}
	status = conclude(s, cordon_run_result(s->run));
	if (!orphans_are_collected()) {
		cordon_run_free(TAKE_PTR(s->run));
		cordon_launcher_free(TAKE_PTR(s->launcher));
	}
	return status;
}

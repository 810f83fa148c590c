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
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"
#include "base/units.h"
#include "client_gone.h"
#include "explain.h"
#include "foreign.h"
#include "keyboard.h"
#include "microvm/microvm.h"
#include "network.h"
#include "out.h"
#include "packages.h"
#include "pool_place.h"
#include "receipt.h"
#include "runs.h"
#include "signals.h"
#include "streams.h"
#include "terminal.h"
#include "verbs.h"
#include "workspace_run.h"

#define JSON_OUTPUT_DEFAULT "1M"
#define READER_MS 2000	      /* for who reads our messages and the account, under a time limit */
#define WALL_UNKNOWN_MS 60000 /* a time limit that no flag says */
#define READER_LOST_MS 100    /* ... and has not read the command's output */
#define LASTING_MS 100	      /* shorter runs need not be thrifty */
#define STACK_IN_USE 1024     /* below a frame that calls one function of the C library */
#define STACK_GIVEN_BACK (128 << 10)

struct session {
	/* It begins, and vm ends, with a buffer of a page, which most runs never touch. */
	struct keyboard keyboard;
	const struct parsed *args;
	struct cordon_policy *policy;
	struct cordon_launcher *launcher;
	struct cordon_run *run;
	struct receipt receipt;
	struct signals signals;
	size_t n_notes;	  /* known at the start */
	int has_pool;	  /* there is one, and we asked it */
	int has_terminal; /* the command has one of its own, and ours is raw */
	struct listing listing;
	struct vm vm; /* level microvm */
};

/* Reachable until the end, so that leak checkers report nothing. */
static struct session session;

static int is_quiet(const struct session *s)
{
	return parsed_has(s->args, OPT_QUIET);
}

/* Leaves the list; who waits for the run gets its status and receipt. */
static void leave_list(struct session *s, int status, const struct cordon_result *result)
{
	char *receipt = NULL;

	if (s->listing.entry.fd < 0)
		return;
	if (cordon_result_to_json(result, 0, &receipt, NULL) < 0)
		receipt = NULL;
	run_entry_end(&s->listing.entry, status, receipt);
	cordon_free(receipt);
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

static void print_notes(struct session *s)
{
	const char *const *notes = cordon_run_notes(s->run);

	while (notes && notes[s->n_notes])
		s->n_notes++;

	if (!notes || !*notes || is_quiet(s) || !isatty(STDERR_FILENO))
		return;
	for (; *notes; notes++) {
		say_note(*notes);
		/* The terminal is raw. */
		if (s->has_terminal)
			(void)write_full(STDERR_FILENO, "\r", 1);
	}
}

/* What is known only now. */
static void print_late_notes(const struct session *s)
{
	const char *const *notes = cordon_run_notes(s->run);

	for (size_t i = s->n_notes; notes && notes[i] && !is_quiet(s); i++)
		say_note(notes[i]);
}

/* A terminal ends only when it is closed, and we may get no signal of that. */
static void handle_keys(struct session *s, const struct pollfd fds[2])
{
	if (keyboard_pump(&s->keyboard, fds) && s->has_terminal && !s->signals.cancel_signal)
		signals_act(&s->signals, s->run, SIGHUP);
}

/*
 * Planning needs more of the stack than waiting does, and a run may wait for hours: what lies below
 * goes back to the kernel. (There is nothing else so near below: the kernel keeps 1 MiB free.)
 */
static void __attribute__((noinline)) give_back_stack(void)
{
	/* Inlined this would be a frame further up. */
	uintptr_t here = (uintptr_t)__builtin_frame_address(0) - STACK_IN_USE;
	long page = sysconf(_SC_PAGESIZE);

	here -= here % (uintptr_t)page;
	/* It fails for the part that was never used, after doing the rest. */
	(void)madvise((char *)here - STACK_GIVEN_BACK, STACK_GIVEN_BACK, MADV_DONTNEED);
}

/* As poll(). The first time that nothing happens for a while makes it a run that lasts. */
static int wait_for_event(struct pollfd *fds, nfds_t n, int timeout, int *is_lasting)
{
	int r;

	if (*is_lasting || (timeout >= 0 && timeout <= LASTING_MS))
		return poll(fds, n, timeout);
	r = poll(fds, n, LASTING_MS);
	if (r != 0)
		return r;
	*is_lasting = 1;
	give_back_stack();
	return poll(fds, n, timeout < 0 ? timeout : timeout - LASTING_MS);
}

/* Once a run has lasted, others may find it. That it is not is no reason to end it. */
static void list_run(struct session *s)
{
	int r = listing_make(&s->listing, s->args, s->policy, s->run);

	if (r < 0 && parsed_has(s->args, OPT_VERBOSE))
		say_line("'cordon ps' will not list this run: %s", strerror(-r));
	give_back_stack();
}

static int sooner(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

static int wait_for_end(struct session *s, struct cordon_error *err)
{
	struct pollfd fds[8] = {
		{ .fd = cordon_run_fd(s->run), .events = POLLIN },
		{ .fd = s->signals.fd, .events = POLLIN },
	};
	struct client_gone client = { .fds = { -1, -1 } };
	int is_lasting = 0;

	if (parsed_has(s->args, OPT_WRAP))
		client_gone_init(&client);

	for (;;) {
		int r, timeout = keyboard_prepare(&s->keyboard, fds + 2);

		timeout = client_gone_prepare(&client, fds + 4, timeout);
		vm_poll(&s->vm, s->run, fds + 6);
		if (s->has_terminal)
			terminal_follow(s->run);
		if (listing_left_ms(&s->listing) == 0)
			list_run(s);
		timeout = sooner(timeout, listing_left_ms(&s->listing));
		if (wait_for_event(fds, ARRAY_SIZE(fds), timeout, &is_lasting) < 0) {
			if (errno == EINTR)
				continue;
			return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot wait for the run");
		}
		if (fds[1].revents)
			signals_handle(&s->signals, s->run);
		handle_keys(s, fds + 2);
		client_gone_look(&client, fds + 4);
		r = cordon_run_process(s->run, err);
		if (r == 0)
			vm_handle(&s->vm, s->run, fds + 6);
		if (r != 0)
			return r;
		if (cordon_run_is_stopped(s->run))
			signals_follow_stop(&s->signals, s->run);
	}
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

static void explain_start(const struct session *s)
{
	const char *why = s->has_pool ? cordon_run_why_cold(s->run) : "no pool is running";

	if (!parsed_has(s->args, OPT_WARM))
		return;
	if (why)
		say_line("cold start: %s", why);
	else
		say_line("warm start: a sandbox of the pool");
}

static int conclude(struct session *s, const struct cordon_result *run_result)
{
	struct cordon_result copy = *run_result;
	const struct cordon_result *result = &copy;
	struct cordon_run_workspace workspace;
	int status, r;

	vm_conclude(&s->vm, &copy);
	status = result->status;
	hurry(s, result);
	/* If it ended within its grace, the status is its own. */
	if (result->kind == CORDON_KIND_CANCELLED && s->signals.cancel_signal &&
	    result->signal == SIGKILL)
		status = STATUS_SIGNAL_BASE + s->signals.cancel_signal;
	explain_end(s->args, result);
	print_late_notes(s);
	if (explain_loss(result->out.write_errno, "output") +
		    explain_loss(result->err.write_errno, "error output") &&
	    status == 0)
		status = STATUS_FAILED;
	if (parsed_has(s->args, OPT_VERBOSE)) {
		explain_start(s);
		explain_timings(result);
	}
	if (parsed_has(s->args, OPT_USAGE))
		explain_usage(result);
	if (result->workspace) {
		workspace = *result->workspace;
		status = workspace_conclude(s->args, result, &workspace, status);
		copy.workspace = &workspace;
	}
	r = deliver(&s->receipt, parsed_has(s->args, OPT_JSON), result);
	status = r ? r : status;
	leave_list(s, status, result);
	return status;
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

/* Before anything that is relative to it. */
static int check_cwd(struct cordon_error *err)
{
	char cwd[PATH_MAX];

	if (getcwd(cwd, sizeof(cwd)))
		return 0;
	return cordon_err_cwd(err, errno);
}

/* An option may have taken the command for its value: `cordon run -r ls`. */
static void no_command(const struct parsed *args, struct cordon_error *err)
{
	const char *value = args->n_options ? args->options[args->n_options - 1].value : NULL;

	cordon_err(err, CORDON_E_USAGE, 0, "no command given");
	/* The words before the end of the line: an option and its value. */
	if (value && value == args->rest[-1])
		cordon_err_hint(err, "'%s' was taken as the value of %s", value, args->rest[-2]);
	else
		cordon_err_hint(err, "try 'cordon run --help'");
}

/* With an init of the user's pool, if that was asked for and there is one. */
static int start_run(struct session *s, const struct cordon_run_options *options,
		     struct cordon_error *err)
{
	int r, fd, proof;

	if (!parsed_has(s->args, OPT_WARM))
		return cordon_run_start(s->launcher, s->policy, options, &s->run, err);
	fd = pool_connect(&proof);
	if (fd < 0)
		return cordon_run_start(s->launcher, s->policy, options, &s->run, err);
	s->has_pool = 1;
	r = cordon_run_start_offered(s->launcher, s->policy, options, fd, proof, &s->run, err);
	close(fd);
	return r;
}

/*
 * Returns an exit status, or -1: the command runs. Not inlined, since what it has on the stack
 * would stay there as long as the run lasts.
 */
static int __attribute__((noinline)) start(struct session *s, const struct parsed *args,
					   struct cordon_error *err)
{
	struct cordon_run_options options;
	char home[PATH_MAX];
	int status;

	s->has_terminal = streams_want_terminal(args, err);
	if (s->has_terminal < 0)
		return fail(s, err);
	if (check_cwd(err) < 0 || make_policy(s, err) < 0 || vm_refuse(args, s->policy, err) < 0 ||
	    cordon_launcher_new(&s->launcher, err) < 0)
		return fail(s, err);
	/* Level microvm has none yet, so none is chosen by itself. */
	if (vm_is_wanted(s->policy))
		s->has_terminal = 0;
	run_options_init(&options, args, home, sizeof(home));
	microvm_disown();
	options.tells_files = 1;
	if (packages_use(args, s->launcher, s->policy, &options, err) < 0 ||
	    workspace_options(args, s->policy, &options, err) < 0 ||
	    run_private_option(&options, args, err) < 0)
		return fail(s, err);
	streams_choose(args, s->has_terminal, &options);
	if (parsed_has(args, OPT_DRY_RUN))
		return print_plan(s, &options);
	if (parsed_has(args, OPT_RECEIPT) &&
	    receipt_open(parsed_value(args, OPT_RECEIPT), &s->receipt, err) < 0)
		return fail(s, err);
	if (parsed_has(args, OPT_NET_LOG) &&
	    network_open_log(parsed_value(args, OPT_NET_LOG), &options.net_log_fd, err) < 0)
		return fail(s, err);
	if (vm_is_wanted(s->policy) && vm_prepare(&s->vm, args, &s->policy, &options, err) < 0)
		return fail(s, err);
	if (signals_init(&s->signals, s->has_terminal, err) < 0 ||
	    keyboard_attach(&s->keyboard, &options, err) < 0 ||
	    (s->has_terminal && terminal_enter(err) < 0))
		return fail(s, err);
	s->signals.vm = &s->vm;
	workspace_watch_copy(args, &s->signals, &options);
	/* Before the plan, which hides it. */
	run_entry_prepare();
	listing_start(&s->listing);
	if (start_run(s, &options, err) < 0) {
		terminal_leave();
		if (err->code == CORDON_E_NOT_FOUND)
			foreign_command(args, err);
		status = fail(s, err);
		cordon_launcher_free(TAKE_PTR(s->launcher));
		return status;
	}
	return -1;
}

int cmd_run(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct session *s = &session;
	int status, r;

	/* Not in an initialiser: what every process changes in memory would be a page more. */
	s->receipt = (struct receipt)RECEIPT_INIT;
	keyboard_init(&s->keyboard);
	s->args = args;
	if (!args->n_rest) {
		no_command(args, &err);
		return fail(s, &err);
	}
	status = start(s, args, &err);
	if (status >= 0)
		return status;
	keyboard_started(&s->keyboard);
	print_notes(s);
	if (!is_quiet(s))
		network_say_published(s->run, s->has_terminal);
	r = wait_for_end(s, &err);
	/* Before any message. */
	terminal_leave();
	if (r < 0) {
		status = fail(s, &err);
		run_entry_end(&s->listing.entry, status, NULL);
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

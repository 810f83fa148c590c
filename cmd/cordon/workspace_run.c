/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a run with a workspace.
 *
 * All messages go to standard error, since standard output belongs to the command. A workspace that
 * is kept is mentioned on a terminal only; otherwise the receipt has it.
 */
#include "workspace_run.h"

#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "out.h"
#include "signals.h"
#include "verbs.h"
#include "workspace.h"

enum on_exit {
	ON_EXIT_KEEP,
	ON_EXIT_COMMIT,
	ON_EXIT_DISCARD,
	ON_EXIT_UNKNOWN
};

static enum on_exit parse_on_exit(const struct parsed *args)
{
	const char *word = parsed_value(args, OPT_ON_EXIT);

	if (!word || !strcmp(word, "keep"))
		return ON_EXIT_KEEP;
	if (!strcmp(word, "commit"))
		return ON_EXIT_COMMIT;
	return !strcmp(word, "discard") ? ON_EXIT_DISCARD : ON_EXIT_UNKNOWN;
}

int workspace_options(const struct parsed *args, const struct cordon_policy *policy,
		      struct cordon_run_options *options, struct cordon_error *err)
{
	static const int needing[] = { OPT_ON_EXIT, OPT_DIFF };

	options->workspace_name = parsed_value(args, OPT_NAME);
	options->workspace_from = parsed_value(args, OPT_FROM);
	options->workspace_changes = parsed_has(args, OPT_DIFF);
	if (parse_on_exit(args) == ON_EXIT_UNKNOWN) {
		cordon_err(err, CORDON_E_USAGE, 0, "--on-exit cannot be '%s'",
			   parsed_value(args, OPT_ON_EXIT));
		cordon_err_hint(err, "it is keep, commit or discard");
		return -CORDON_E_USAGE;
	}
	if (parsed_has(args, OPT_NAME) || parsed_has(args, OPT_FROM))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(needing); i++) {
		if (!parsed_has(args, needing[i]) || policy_says(policy, "\"workspace\":"))
			continue;
		cordon_err(err, CORDON_E_USAGE, 0, "--%s needs a workspace",
			   option_table[needing[i]].name);
		cordon_err_hint(err, "say which directory: --workspace DIR");
		return -CORDON_E_USAGE;
	}
	return 0;
}

/* Copying */

#define PATIENCE_MS 500 /* what is over sooner needs no words */

static struct {
	const struct signals *signals;
	struct timespec last;
	int is_shown, has_begun;
} copying;

static int64_t ms_since(const struct timespec *then)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)(now.tv_sec - then->tv_sec) * 1000 +
	       (now.tv_nsec - then->tv_nsec) / 1000000;
}

static int copy_progress(void *arg, uint64_t files, uint64_t bytes)
{
	struct pollfd p = { .fd = copying.signals->fd, .events = POLLIN };
	char size[HUMAN_MAX];

	(void)arg;
	if (!copying.has_begun) {
		clock_gettime(CLOCK_MONOTONIC, &copying.last);
		copying.has_begun = 1;
	} else if (copying.is_shown && ms_since(&copying.last) >= PATIENCE_MS) {
		say_line("copying the workspace: %llu files, %s so far", (unsigned long long)files,
			 human_size(bytes, size));
		clock_gettime(CLOCK_MONOTONIC, &copying.last);
	}
	return poll(&p, 1, 0) > 0;
}

void workspace_watch_copy(const struct parsed *args, const struct signals *signals,
			  struct cordon_run_options *options)
{
	copying.signals = signals;
	copying.is_shown = !parsed_has(args, OPT_QUIET) && isatty(STDERR_FILENO);
	options->workspace_progress = copy_progress;
}

static void say_kept(const struct cordon_run_workspace *ws)
{
	const char *name = ws->name ? ws->name : ws->id;
	struct strbuf sb = STRBUF_INIT;

	if (!ws->is_settled) {
		say_line("workspace %s could not be looked at; try 'cordon workspace status %s'",
			 name, name);
		return;
	}
	add_summary(&sb, &ws->summary);
	if (ws->summary.risky)
		strbuf_printf(&sb, "; %llu risky", (unsigned long long)ws->summary.risky);
	if (!sb.failed)
		say_line("workspace %s: %s (cordon workspace diff %s | commit %s | discard %s)",
			 name, sb.data, name, name, name);
	strbuf_done(&sb);
}

/* A failure here is one of ours, after a command that may have succeeded. */
static int fail(const struct cordon_error *err)
{
	say_error(err);
	return STATUS_FAILED;
}

static int discard(struct cordon_workspace *ws, struct cordon_run_workspace *info)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	if (cordon_workspace_discard(ws, &err) < 0)
		return fail(&err);
	info->is_kept = 0;
	info->outcome = "discarded";
	return 0;
}

/* After a commit: what is left, where the receipt has what the run changed. */
static void count_again(struct cordon_run_workspace *info)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_workspace *ws;

	info->is_settled = 0;
	if (cordon_workspace_open(NULL, info->id, &ws, &err) < 0)
		return;
	info->is_settled = cordon_workspace_summary(ws, &info->summary, &err) == 0;
	cordon_workspace_close(ws);
}

/* What could not be committed stays in the workspace, and is a failure of the whole. */
static int commit(struct cordon_workspace *ws, struct cordon_run_workspace *info, int is_quiet)
{
	int is_removed, status = workspace_commit_all(ws, is_quiet, &is_removed);

	info->is_kept = !is_removed;
	info->outcome = status ? "not all committed" : "committed";
	return status ? STATUS_FAILED : 0;
}

static int act(const struct parsed *args, enum on_exit what, struct cordon_run_workspace *info)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_workspace *ws;

	if (cordon_workspace_open(NULL, info->id, &ws, &err) < 0)
		return fail(&err);
	if (parsed_has(args, OPT_DIFF) && !parsed_has(args, OPT_JSON) &&
	    workspace_show_changes(ws, STDERR_FILENO, &err) < 0) {
		cordon_workspace_close(ws);
		return fail(&err);
	}
	if (what == ON_EXIT_COMMIT)
		return commit(ws, info, parsed_has(args, OPT_QUIET));
	if (what == ON_EXIT_DISCARD)
		return discard(ws, info);
	cordon_workspace_close(ws);
	return 0;
}

int workspace_conclude(const struct parsed *args, const struct cordon_result *result,
		       struct cordon_run_workspace *info, int status)
{
	enum on_exit what = parse_on_exit(args);
	int r;

	if (!info->is_kept)
		return status;
	if (what == ON_EXIT_COMMIT &&
	    (result->kind != CORDON_KIND_EXITED || result->exit_code != 0)) {
		what = ON_EXIT_KEEP;
		if (!parsed_has(args, OPT_QUIET))
			say_line("the command did not succeed: nothing is committed");
	}
	r = what != ON_EXIT_KEEP || parsed_has(args, OPT_DIFF) ? act(args, what, info) : 0;
	if (info->is_kept && !parsed_has(args, OPT_QUIET) && isatty(STDERR_FILENO)) {
		struct cordon_run_workspace left = *info;

		if (what == ON_EXIT_COMMIT)
			count_again(&left);
		say_kept(&left);
	}
	return r && status == 0 ? r : status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cordon session start: the process that holds the session is made, and outlives us. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json_write.h"
#include "base/units.h"
#include "detach.h"
#include "network.h"
#include "out.h"
#include "packages.h"
#include "receipt.h"
#include "session.h"
#include "session_server.h"
#include "verbs.h"
#include "session_peer.h"

#define IDLE_DEFAULT_MS (30 * 60 * 1000)
#define LIFETIME_DEFAULT_MS ((int64_t)24 * 60 * 60 * 1000)
#define SETUP_TRIES 60 /* of a second each: a workspace may have to be copied */

/* Of the process that starts, and of the one that stays. */
static struct session_server server = { .receipt = RECEIPT_INIT, .place = { -1, -1, "", "" } };

static void random_name(char ret[SESSION_NAME_MAX + 1])
{
	unsigned char bytes[4] = { 0 };

	(void)!getrandom(bytes, sizeof(bytes), 0);
	snprintf(ret, SESSION_NAME_MAX + 1, "s%02x%02x%02x%02x", bytes[0], bytes[1], bytes[2],
		 bytes[3]);
}

static int idle_option(const struct parsed *args, int64_t *ret_ms, struct cordon_error *err)
{
	const char *text = parsed_value(args, OPT_IDLE);

	*ret_ms = IDLE_DEFAULT_MS;
	if (!text)
		return 0;
	if (units_parse_duration(text, ret_ms, err) == 0)
		return 0;
	cordon_err_prefix(err, "--idle");
	return -CORDON_E_USAGE;
}

/* What the starting process prints: one line for each remark, or the error. */
struct word {
	struct strbuf sb;
	int fd;
};

static void tell(struct word *word, const char *kind, const char *text)
{
	strbuf_puts(&word->sb, kind);
	strbuf_puts(&word->sb, text);
	strbuf_putc(&word->sb, '\n');
}

static int tell_error(struct word *word, const struct cordon_error *err)
{
	tell(word, "e", err->msg);
	if (err->hint[0])
		tell(word, "h", err->hint);
	(void)write_full(word->fd, word->sb.data, word->sb.len);
	return STATUS_FAILED;
}

/* The sandbox answers only when all its layers are there. */
static int await_setup(struct cordon_session *session, struct cordon_error *err)
{
	struct cordon_session_usage usage;

	for (int i = 0; i < SETUP_TRIES; i++) {
		const struct cordon_result *res;

		if (cordon_session_usage(session, &usage, err) == 0)
			return 0;
		(void)cordon_session_process(session, NULL);
		res = cordon_session_result(session);
		if (res) {
			*err = res->error;
			if (!err->code)
				cordon_err(err, CORDON_E_SETUP, 0, "the session ended at once");
			return -CORDON_E_SETUP;
		}
	}
	return cordon_err(err, CORDON_E_SETUP, 0, "the sandbox does not answer");
}

static void tell_notes(struct word *word)
{
	const char *const *notes = cordon_session_notes(server.session);
	const struct cordon_published *p;
	char line[PUBLISHED_LINE_MAX];
	size_t n;

	for (; notes && *notes; notes++)
		tell(word, "n", *notes);
	p = cordon_session_published(server.session, &n);
	for (size_t i = 0; i < n;) {
		i += network_published(p + i, n - i, line);
		tell(word, "p", line);
	}
}

struct start {
	const char *name;
	const struct parsed *args;
	struct cordon_policy *policy;
	struct cordon_run_options *options;
	int is_named;
};

/* Packages are installed by the process that starts, which has the terminal and its Ctrl-C. What it
 * adds to the run goes nowhere: the one that stays finds them installed, and has them in use as
 * long as the session lives. */
static int install_packages(const struct parsed *args, const struct cordon_run_options *given,
			    struct cordon_error *err)
{
	struct cordon_run_options options = *given;
	struct cordon_launcher *launcher = NULL;
	struct cordon_policy *policy = NULL;

	if (!parsed_has(args, OPT_WITH) && !parsed_has(args, OPT_WITH_FILE) &&
	    !parsed_has(args, OPT_WITH_BUILD))
		return 0;
	if (cordon_policy_new(&policy, err) < 0 || policy_from_options(policy, args, err) < 0 ||
	    cordon_launcher_new(&launcher, err) < 0)
		return -err->code;
	return packages_use(args, launcher, policy, &options, err);
}

/* In the process that stays. */
static int supervise(void *arg, int fd)
{
	const struct start *start = arg;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct word word = { .sb = STRBUF_INIT, .fd = fd };

	detach_close(fd, server.receipt.dir_fd);
	if (session_claim(start->name, &server.place, &server.listen_fd, &err) < 0)
		return tell_error(&word, &err);
	server.n_filters = session_count_filters(0);
	server.signal_fd = detach_signals();
	if (cordon_launcher_new(&server.launcher, &err) < 0 ||
	    packages_use(start->args, server.launcher, start->policy, start->options, &err) < 0 ||
	    cordon_session_start(server.launcher, start->policy, start->options, &server.session,
				 &err) < 0 ||
	    await_setup(server.session, &err) < 0) {
		/* `session start NAME`, most likely: what it resembles in PATH is no help. */
		if (err.code == CORDON_E_NOT_FOUND && !start->is_named)
			cordon_err_hint(&err, "the name of a session is given with --name");
		cordon_session_free(server.session);
		session_unclaim(&server.place);
		return tell_error(&word, &err);
	}
	tell_notes(&word);
	tell(&word, "o", start->name);
	if (detach_leave_terminal() < 0 || chdir("/") < 0)
		return STATUS_FAILED;
	(void)write_full(fd, word.sb.data, word.sb.len);
	close(fd);
	strbuf_done(&word.sb);
	session_serve(&server);
	return 0;
}

static int print_started(const struct parsed *args, const char *name)
{
	struct strbuf sb = STRBUF_INIT;

	if (parsed_has(args, OPT_JSON)) {
		struct json_writer w;

		json_writer_init(&w, &sb, 0);
		json_open_object(&w, NULL);
		json_string(&w, "name", name);
		json_close_object(&w);
	} else {
		strbuf_puts(&sb, name);
	}
	strbuf_putc(&sb, '\n');
	return out_finish(&sb, 0);
}

/* What the supervisor said; 0 if it never got so far. */
static int read_word(int fd, const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf sb = STRBUF_INIT;
	char *name = NULL, *rest;

	(void)read_strbuf(fd, &sb);
	strbuf_putc(&sb, '\0');
	if (sb.failed)
		return STATUS_FAILED;
	for (char *line = strtok_r(sb.data, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		if (*line == 'e')
			cordon_err(&err, CORDON_E_STATE, 0, "%s", line + 1);
		else if (*line == 'h')
			cordon_err_hint(&err, "%s", line + 1);
		else if (*line == 'n' && isatty(STDERR_FILENO) && !parsed_has(args, OPT_QUIET))
			say_note(line + 1);
		else if (*line == 'p' && !parsed_has(args, OPT_QUIET))
			say_line("%s", line + 1);
		else if (*line == 'o')
			name = line + 1;
	}
	if (name)
		return print_started(args, name);
	if (!err.code)
		cordon_err(&err, CORDON_E_SYSTEM, 0, "the session's supervisor was killed");
	return session_fail(&err);
}

int cmd_session_start(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run_options options;
	struct cordon_policy *policy = NULL;
	char home[PATH_MAX], random[SESSION_NAME_MAX + 1];
	const char *name = parsed_value(args, OPT_SESSION_NAME);
	struct start start = { NULL, args, NULL, &options, name != NULL };
	int fd = -1;

	random_name(random);
	name = name ? name : random;
	if (session_operands(args, 0, 1, &err) < 0 || session_check_name(name, &err) < 0 ||
	    idle_option(args, &server.idle_ms, &err) < 0 || cordon_policy_new(&policy, &err) < 0 ||
	    policy_from_options(policy, args, &err) < 0)
		return session_fail(&err);
	run_options_init(&options, args, home, sizeof(home));
	options.tells_files = 1;
	options.default_wall_ms = LIFETIME_DEFAULT_MS;
	if (run_private_option(&options, args, &err) < 0 ||
	    install_packages(args, &options, &err) < 0)
		return session_fail(&err);
	if (parsed_has(args, OPT_RECEIPT) &&
	    receipt_open(parsed_value(args, OPT_RECEIPT), &server.receipt, &err) < 0)
		return session_fail(&err);
	start.name = name;
	start.policy = policy;
	if (detach(supervise, &start, &fd, &err) < 0)
		return session_fail(&err);
	return read_word(fd, args);
}

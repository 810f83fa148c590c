/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the command said about names that it was refused.
 *
 * The kernel refuses, and only the command is told. Most programs pass it on: the name and the text
 * of the error, on one line of standard error. So the end of that stream is kept, and of the
 * terminal's if the command has one, and looked through when the run is over. Protected names are
 * looked for in commands that succeed in the end, too: git goes on after some of these errors.
 *
 * The guest writes these lines. They decide whether something is told, and never what is true:
 * that is asked of the plan and of the host.
 */
#include "launch/said.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/termclean.h"
#include "plan/plan_read.h"

#define LINES_MAX 256 /* with the text of an error */

/* As strerror() says it, in English; Node has its own words, Go small letters. */
static const struct {
	const char *text;
	unsigned error;
} phrases[] = {
	{ "device or resource busy", SAID_BUSY },
	{ "resource busy or locked", SAID_BUSY },
	{ "read-only file system", SAID_READ_ONLY },
	{ "invalid cross-device link", SAID_OTHER_MOUNT },
	{ "cross-device link not permitted", SAID_OTHER_MOUNT },
	{ "not a directory", SAID_NOT_DIR },
	{ "file exists", SAID_EXISTS },
	{ "file already exists", SAID_EXISTS },
	{ "permission denied", SAID_DENIED },
	{ "no such device or address", SAID_NO_DEVICE },
	{ "no such file", SAID_MISSING },
	{ ": not found", SAID_MISSING },
	{ "command not found", SAID_MISSING },
	{ "cannot find module", SAID_MISSING },
	{ "does not exist", SAID_MISSING },
	{ " enoent", SAID_MISSING },
	{ "can't cd to", SAID_MISSING | SAID_DENIED },
	{ "directory nonexistent", SAID_MISSING },
	{ "unable to open database", SAID_MISSING | SAID_READ_ONLY | SAID_DENIED },
	{ "cannot connect to the docker daemon", SAID_MISSING | SAID_NO_DAEMON },
	{ "operation not permitted", SAID_NOT_PERMITTED },
	{ "must be superuser", SAID_ONLY_ROOT },
	{ "must be root", SAID_ONLY_ROOT },
	{ "critical error", SAID_ONLY_ROOT },
	{ "no new privileges", SAID_ONLY_ROOT },
	{ "effective uid is not 0", SAID_ONLY_ROOT },
	{ "unable to change to root gid", SAID_ONLY_ROOT },
	{ "must be setuid root", SAID_ONLY_ROOT },
	{ "cannot set groups", SAID_ONLY_ROOT },
	{ "invalid argument", SAID_INVALID },
	{ "protocol not supported", SAID_NO_PROTOCOL },
	{ "eprotonosupport", SAID_NO_PROTOCOL },
	{ "address family not supported", SAID_NO_FAMILY },
	{ "eafnosupport", SAID_NO_FAMILY },
	{ "too many open files", SAID_MANY_FILES },
	{ "cannot fork", SAID_NO_TASK },
	{ "fork: retry", SAID_NO_TASK },
	{ "can't start new thread", SAID_NO_TASK },
	{ "unable to create thread", SAID_NO_TASK },
	{ "fork: resource temporarily unavailable", SAID_NO_TASK },
	{ "file too large", SAID_TOO_LARGE },
	{ "authentication agent", SAID_NO_CONNECTION },
	{ "couldn't connect to server", SAID_NO_CONNECTION },
	{ "connection refused", SAID_NO_CONNECTION },
	{ "econnrefused", SAID_NO_CONNECTION },
	{ "connect eacces", SAID_NO_CONNECTION },
	{ "could not resolve", SAID_NO_HOST },
	{ "unable to resolve", SAID_NO_HOST },
	{ "getaddrinfo eai_again", SAID_NO_HOST },
	{ "getaddrinfo enotfound", SAID_NO_HOST },
	{ "name resolution", SAID_NO_HOST },
};

bool said_is_end(const char *p, const char *end)
{
	if (p >= end || isspace((unsigned char)*p) || strchr("'\"`:,;)]}>", *p))
		return true;
	/* The quotes that some programs take. */
	return end - p >= 3 && memcmp(p, "\xe2\x80", 2) == 0 && (p[2] == '\x99' || p[2] == '\x9d');
}

bool said_is_begin(const char *p, const struct said_line *line)
{
	if (p == line->begin || isspace((unsigned char)p[-1]) || strchr("'\"`:,;([{<>=", p[-1]))
		return true;
	return p - line->begin >= 3 && memcmp(p - 3, "\xe2\x80", 2) == 0 &&
	       (p[-1] == '\x98' || p[-1] == '\x9c');
}

bool said_begins_with(const char *p, const char *end, const char *text)
{
	for (; *text; text++, p++)
		if (p == end || tolower((unsigned char)*p) != *text)
			return false;
	return true;
}

static void find_errors(struct said_line *line)
{
	for (const char *p = line->begin; p < line->end; p++) {
		char c = (char)tolower((unsigned char)*p);

		for (size_t i = 0; i < ARRAY_SIZE(phrases); i++) {
			if (phrases[i].text[0] != c ||
			    !said_begins_with(p, line->end, phrases[i].text))
				continue;
			line->errors |= phrases[i].error;
			line->text = line->text ? line->text : p;
		}
	}
}

/* The one error that the line has; 0 = some texts stand for more than one. */
static int errno_of(unsigned errors)
{
	static const struct {
		unsigned error;
		int number;
	} numbers[] = {
		{ SAID_MISSING, ENOENT },
		{ SAID_DENIED, EACCES },
		{ SAID_READ_ONLY, EROFS },
		{ SAID_NOT_PERMITTED, EPERM },
		{ SAID_BUSY, EBUSY },
		{ SAID_OTHER_MOUNT, EXDEV },
		{ SAID_NO_PROTOCOL, EPROTONOSUPPORT },
		{ SAID_NO_FAMILY, EAFNOSUPPORT },
		{ SAID_MANY_FILES, EMFILE },
		{ SAID_TOO_LARGE, EFBIG },
		{ SAID_NO_DEVICE, ENXIO },
	};

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (errors == numbers[i].error)
			return numbers[i].number;
	return 0;
}

static void look_at_line(struct said *said, struct said_line *line)
{
	find_errors(line);
	if (!line->errors)
		return;
	said->n_lines++;
	said->line_errno = errno_of(line->errors);
	if (said->has_protected && !said_names_line(said, line))
		said->has_protected = false; /* nothing can be told for sure */
	if (!said->subject->has_failed)
		return;
	if (!said_refused_line(said, line) && !said_net_line(said, line) &&
	    !said_programs_line(said, line))
		said_paths_line(said, line);
}

static void look_at_text(struct said *said, const char *text, size_t len, bool is_cut)
{
	const char *end = text + len;

	while (text < end && said->n_lines < LINES_MAX && said->n_denials < SAID_DENIALS_MAX) {
		const char *next = text;

		while (next < end && *next != '\n' && *next != '\r')
			next++;
		/* Of a line without its beginning it cannot be told where a path begins. */
		if (!is_cut)
			look_at_line(said, &(struct said_line){ text, next, NULL, 0 });
		is_cut = false;
		text = next + 1;
	}
}

/* The end of what came through @relay. */
static void look_at(struct said *said, struct relay *relay)
{
	struct termclean clean = { 0 };
	struct cordon_output got = { 0 };
	const char *data;
	size_t len;
	char *text;

	if (!relay->keeps_end && relay->mode != CORDON_STREAM_CAPTURE)
		return;
	if (relay_captured(relay, &got) < 0 || got.len == 0)
		return;
	len = got.len < RELAY_END_BYTES ? got.len : RELAY_END_BYTES;
	data = got.data + (got.len - len);
	text = malloc(TERMCLEAN_OUT_SIZE(RELAY_END_BYTES));
	if (!text)
		return;
	/* In a terminal there are colours in the lines. */
	len = termclean_feed(&clean, data, len, text);
	look_at_text(said, text, len, relay->total > RELAY_END_BYTES);
	free(text);
}

/* Does the plan protect names? */
static bool has_protected(const struct plan_header *h)
{
	for (uint32_t i = h->n_common_ops; i < h->n_ops; i++)
		if (plan_ops(h)[i].flags & PLAN_PROTECTED)
			return true;
	return false;
}

bool said_is_wanted(const struct plan *plan)
{
	const struct plan_header *h = plan->block;

	return !(h->flags & (PLAN_FILES | PLAN_SESSION));
}

void said_tell(struct said *said, const char *what, const char *target, const char *rule,
	       const char *fix)
{
	const struct said_subject *subject = said->subject;
	const struct cordon_denial denial = {
		.what = what,
		.target = arena_strdup(subject->arena, said_shown(subject->plan, target)),
		.rule = rule,
		.fix = fix,
		.how = "said",
		.sys_errno = said->line_errno,
	};

	if (denial.target && said->n_denials < SAID_DENIALS_MAX)
		said->denials[said->n_denials++] = denial;
}

void said_tell_once(struct said *said, const char *what, const char *target, const char *rule,
		    const char *fix)
{
	const char *shown = said_shown(said->subject->plan, target);

	for (size_t i = 0; i < said->n_denials; i++)
		if (strcmp(said->denials[i].target, shown) == 0 &&
		    strcmp(said->denials[i].what, what) == 0)
			return;
	said_tell(said, what, target, rule, fix);
}

void said_tell_limit(struct said *said, const char *rule, const char *target, const char *fix)
{
	if (target && fix)
		said_tell_once(said, rule + strlen("limits."), target, rule, fix);
}

static struct said begin(const struct said_subject *subject, struct cordon_denial *denials)
{
	const struct plan_header *h = subject->plan->block;

	return (struct said){
		.subject = subject,
		.plan = h,
		.cwd = subject->cwd ? subject->cwd : plan_string(h, h->cwd),
		.has_protected = has_protected(h),
		.denials = denials,
	};
}

size_t said_look_at(const struct said_subject *subject, const char *text, size_t len,
		    struct cordon_denial ret[SAID_DENIALS_MAX])
{
	struct said said = begin(subject, ret);

	look_at_text(&said, text, len, false);
	free(said.names);
	return said.n_denials;
}

size_t said_look(const struct said_subject *subject, struct cordon_denial ret[SAID_DENIALS_MAX])
{
	struct said said = begin(subject, ret);

	if (!said.has_protected && !subject->has_failed)
		return 0;
	look_at(&said, subject->err);
	if (subject->out->is_terminal || subject->err->mode == CORDON_STREAM_JOIN)
		look_at(&said, subject->out);
	free(said.names);
	return said.n_denials;
}

bool said_has_failed(const struct cordon_result *res)
{
	return res->kind == CORDON_KIND_SIGNALED ||
	       (res->kind == CORDON_KIND_EXITED && res->exit_code != 0);
}

/* Who enforces a limit knows more. */
static bool is_limit_told(const struct cordon_result *res, const struct cordon_denial *denial)
{
	for (size_t i = 0; i < res->n_denials; i++)
		if (strncmp(denial->rule, "limits.", strlen("limits.")) == 0 &&
		    strcmp(res->denials[i].rule, denial->rule) == 0)
			return true;
	return false;
}

void said_account(struct cordon_run *run)
{
	const struct said_subject subject = {
		.plan = run->plan,
		.arena = &run->arena,
		.out = &run->out,
		.err = &run->err,
		.has_failed = said_has_failed(&run->result),
		.tells_files = run->options.tells_files,
	};
	struct cordon_denial denials[SAID_DENIALS_MAX];
	size_t n = said_is_wanted(run->plan) ? said_look(&subject, denials) : 0;

	for (size_t i = 0; i < n; i++)
		if (!is_limit_told(&run->result, &denials[i]))
			result_deny(run, &denials[i]);
}

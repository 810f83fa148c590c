/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Would a run be allowed this, by which rule, and what would allow it: asked of a plan that is made
 * as for a run and of the host, with the same questions that a command's words are judged by
 * (why_path.c). Here: hosts, programs, and which of them a word is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"
#include "base/path.h"
#include "launch/why.h"
#include "net/name.h"
#include "net/rule.h"
#include "plan/plan_read.h"

#define PORT_TEXT_MAX 5

void why_add(struct why *w, const char *what, const char *target, bool allowed, const char *rule,
	     const char *reason, const char *fix)
{
	w->v[w->n++] = (struct cordon_verdict){ what, target, allowed, rule, reason, fix };
}

/* "HOST", "HOST:PORT", "[ADDRESS]:PORT": the host in its canonical form. false = it is none. */
static bool parse_host(const char *text, char host[NET_NAME_MAX + 1], struct net_addr *ret_addr,
		       bool *ret_is_addr, unsigned *ret_port)
{
	size_t len = strlen(text);
	const char *colon = strrchr(text, ':'), *end = text + len;
	bool is_bracketed = text[0] == '[';

	*ret_port = 0;
	if (is_bracketed) {
		end = strchr(text, ']');
		if (!end || (end[1] && end[1] != ':'))
			return false;
		colon = end[1] ? end + 1 : NULL;
		text++;
	} else if (colon && strchr(text, ':') == colon) {
		end = colon;
	} else {
		colon = NULL;
	}
	if (colon) {
		size_t n = strlen(colon + 1);
		char *rest;
		unsigned long port = strtoul(colon + 1, &rest, 10);

		if (n == 0 || n > PORT_TEXT_MAX || strspn(colon + 1, "0123456789") != n ||
		    port == 0 || port > UINT16_MAX)
			return false;
		*ret_port = (unsigned)port;
	}
	len = (size_t)(end - text);
	if (len == 0 || len > NET_NAME_MAX)
		return false;
	*ret_is_addr = net_addr_parse(text, len, ret_addr) == 0;
	if (*ret_is_addr) {
		memcpy(host, text, len);
		host[len] = '\0';
		return true;
	}
	return !is_bracketed && net_name_parse(text, len, host) == 0;
}

static void add_judged(struct why *w, const char *target, enum net_verdict verdict, const char *fix)
{
	static const char *const by_proxy =
		"a rule names it; at level landlock only for programs that obey proxy variables";

	switch (verdict) {
	case NET_ALLOWED:
		why_add(w, "connect", target, true, "net.allow",
			w->said.plan->level == PLAN_LEVEL_NAMESPACES ? "a rule names it" : by_proxy,
			NULL);
		break;
	case NET_DENIED:
		why_add(w, "connect", target, false, "net.deny", "a rule denies it", NULL);
		break;
	case NET_OTHER_PORT:
		why_add(w, "connect", target, false, "net.allow",
			"only other ports of it are allowed", fix);
		break;
	case NET_SPECIAL:
		why_add(w, "connect", target, false, "net.allow",
			"it is no public address, and no rule names it", fix);
		break;
	case NET_NOT_LISTED:
		why_add(w, "connect", target, false, "net.allow", "no rule names it", fix);
		break;
	}
}

static int judge_host(struct why *w, const char *typed, struct cordon_error *err)
{
	const struct gateway_config *c = w->subject.plan->gateway;
	char host[NET_NAME_MAX + 1];
	const char *target, *fix;
	struct net_addr addr;
	bool is_addr = false;
	unsigned port;

	if (!parse_host(typed, host, &addr, &is_addr, &port))
		return cordon_err(err, CORDON_E_USAGE, 0, "'%s' is no host, address or path",
				  typed);
	target = port ? arena_printf(&w->arena, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port)
		      : arena_strdup(&w->arena, host);
	fix = target ? arena_printf(&w->arena, "--net-allow %s", target) : NULL;
	if (!fix)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	if (!c || c->n_allow == 0) {
		why_add(w, "connect", target, false, "net.allow", "there is no network", fix);
	} else {
		const struct net_rules rules = { c->rules, c->rules + c->n_allow, c->n_allow,
						 c->n_deny };

		add_judged(w, target,
			   is_addr ? net_judge_address(&rules, &addr, (uint16_t)port)
				   : net_judge_name(&rules, host, (uint16_t)port),
			   fix);
	}
	return 0;
}

static int judge_program(struct why *w, const char *name, struct cordon_error *err)
{
	struct said_found found, seen;
	const char *path, *fix;

	if (!said_find_program(&w->said, name, strlen(name), SAID_WANT_ANY, &found)) {
		cordon_err(err, CORDON_E_NOT_FOUND, 0,
			   "'%s' is no program in PATH, and no path or host", name);
		cordon_err_hint(err, "a path has a slash (./%s), a host a dot or a port", name);
		return -CORDON_E_NOT_FOUND;
	}
	path = arena_strdup(&w->arena, found.path);
	fix = arena_printf(&w->arena, "--commands %s", name);
	if (!path || !fix)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	if (said_has_list(w->said.plan) && !view_can_execute(w->said.plan, found.real))
		why_add(w, "execve", path, false, "commands", "it is not on the list of commands",
			fix);
	else if (said_find_program(&w->said, name, strlen(name), SAID_WANT_SEEN, &seen))
		why_add(w, "execve", arena_strdup(&w->arena, seen.path), true,
			said_has_list(w->said.plan) ? "commands" : NULL,
			"the command sees it in PATH", NULL);
	else
		why_add(w, "execve", path, false, "fs.read",
			"what the command starts does not see it (as the command itself it is "
			"shown)",
			said_program_fix(&w->said, &found));
	return 0;
}

static bool is_host_like(const char *text)
{
	char host[NET_NAME_MAX + 1];
	struct net_addr addr;
	bool is_addr = false;
	unsigned port;

	return parse_host(text, host, &addr, &is_addr, &port) &&
	       (is_addr || port || strchr(host, '.') || strcmp(host, "localhost") == 0);
}

static int judge(struct why *w, const char *subject, struct cordon_error *err)
{
	struct said_found found;
	struct stat st;

	if (!*subject)
		return cordon_err(err, CORDON_E_USAGE, 0, "nothing is asked about");
	if (strchr(subject, '/') || subject[0] == '~' || strcmp(subject, ".") == 0 ||
	    strcmp(subject, "..") == 0)
		return why_path(w, subject, err);
	if (said_find_program(&w->said, subject, strlen(subject), SAID_WANT_ANY, &found))
		return judge_program(w, subject, err);
	/* A file of the current directory may have a dot in its name. */
	if (lstat(subject, &st) == 0)
		return why_path(w, subject, err);
	return is_host_like(subject) ? judge_host(w, subject, err) : judge_program(w, subject, err);
}

static size_t text_size(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static const char *pack_text(char **at, const char *text)
{
	char *here = *at;

	if (!text)
		return NULL;
	memcpy(here, text, strlen(text) + 1);
	*at += strlen(text) + 1;
	return here;
}

/* One piece of memory, which cordon_free() frees. */
static int pack(const struct why *w, struct cordon_verdict **ret, struct cordon_error *err)
{
	size_t size = (w->n + 1) * sizeof(**ret);
	struct cordon_verdict *v;
	char *at;

	for (size_t i = 0; i < w->n; i++)
		size += text_size(w->v[i].what) + text_size(w->v[i].target) +
			text_size(w->v[i].rule) + text_size(w->v[i].reason) +
			text_size(w->v[i].fix);
	v = malloc(size);
	if (!v)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	at = (char *)(v + w->n);
	for (size_t i = 0; i < w->n; i++) {
		v[i].what = pack_text(&at, w->v[i].what);
		v[i].target = pack_text(&at, w->v[i].target);
		v[i].allowed = w->v[i].allowed;
		v[i].rule = pack_text(&at, w->v[i].rule);
		v[i].reason = pack_text(&at, w->v[i].reason);
		v[i].fix = pack_text(&at, w->v[i].fix);
	}
	*ret = v;
	return 0;
}

/* A plan needs a command, and any that is allowed will do. */
static const char *stand_in(const struct cordon_policy *policy)
{
	return policy->commands_set && policy->commands.n ? policy->commands.v[0] : "sh";
}

int cordon_why(struct cordon_launcher *launcher, const struct cordon_policy *policy,
	       const struct cordon_run_options *options, const char *subject,
	       struct cordon_verdict **ret, size_t *ret_n, struct cordon_error *err)
{
	struct plan_input input = { .policy = policy };
	struct cordon_run_options copy = CORDON_RUN_OPTIONS_INIT;
	const char *const argv[] = { stand_in(policy), NULL };
	struct why w = { .policy = policy, .arena = ARENA_INIT };
	struct plan *plan = NULL;
	int r;

	if (!options || options->size < sizeof(size_t) || options->size > sizeof(copy))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "options are not of this library version");
	memcpy(&copy, options, options->size);
	if (!copy.argv || !copy.argv[0])
		copy.argv = argv;
	input.level = pretend_level(launcher, policy);
	r = pretend_run(launcher, &input, &copy, &plan, err);
	if (r < 0)
		return r;
	w.subject = (struct said_subject){ .plan = plan, .arena = &w.arena, .tells_files = true };
	w.said = (struct said){ .subject = &w.subject,
				.plan = plan->block,
				.cwd = plan_string(plan->block,
						   ((struct plan_header *)plan->block)->cwd) };
	r = judge(&w, subject, err);
	if (r == 0)
		r = pack(&w, ret, err);
	if (r == 0)
		*ret_n = w.n;
	arena_done(&w.arena);
	plan_free(plan);
	return r;
}

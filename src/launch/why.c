/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Would a run be allowed this, by which rule, and what would allow it: asked of a plan that is made
 * as for a run and of the host, with the same questions that a command's words are judged by.
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
#include "launch/said.h"
#include "net/name.h"
#include "net/rule.h"
#include "plan/plan_read.h"

#define VERDICTS_MAX 2
#define PORT_TEXT_MAX 5

struct why {
	const struct cordon_policy *policy;
	struct said said;
	struct said_subject subject;
	struct arena arena;
	struct cordon_verdict v[VERDICTS_MAX];
	size_t n;
};

static void add(struct why *w, const char *what, const char *target, bool allowed, const char *rule,
		const char *reason, const char *fix)
{
	w->v[w->n++] = (struct cordon_verdict){ what, target, allowed, rule, reason, fix };
}

/* The protected name that @path is or lies below; NULL = none. */
static const char *protected_name(const struct plan_header *h, const char *path)
{
	for (uint32_t i = h->n_common_ops; i < h->n_ops; i++) {
		const struct plan_op *op = &plan_ops(h)[i];

		if (op->flags & PLAN_PROTECTED && path_is_within(plan_string(h, op->dst), path))
			return plan_string(h, op->dst);
	}
	return NULL;
}

/* Is @path, or what it lies in, named in the list? */
static bool is_listed(const struct why *w, const struct strlist *list, const char *path)
{
	char full[PATH_MAX], real[PATH_MAX];
	mode_t mode;

	for (size_t i = 0; i < list->n; i++)
		if (path_normalise(w->said.cwd, list->v[i], full, sizeof(full)) > 0 &&
		    said_find_real(full, true, real, &mode) && path_is_within(real, path))
			return true;
	return false;
}

/* Does a grant for reading name this very path? */
static bool is_named(const struct why *w, const char *real)
{
	char dir[PATH_MAX];
	size_t len = path_dir_len(real);

	memcpy(dir, real, len);
	dir[len] = '\0';
	return is_listed(w, &w->policy->fs_read, real) && !is_listed(w, &w->policy->fs_read, dir);
}

static const char *grant_of(const struct why *w, const char *real)
{
	if (w->said.plan->workspace &&
	    path_is_within(plan_string(w->said.plan, w->said.plan->workspace), real))
		return "fs.workspace";
	if (is_listed(w, &w->policy->fs_write, real))
		return "fs.write";
	return is_listed(w, &w->policy->fs_read, real) ? "fs.read" : NULL;
}

static const char *shown_because(const struct why *w, const char *real)
{
	if (grant_of(w, real))
		return "it is granted";
	if (w->subject.plan->cwd && path_is_within(w->subject.plan->cwd, real))
		return "it lies in the current directory, which is shown for reading";
	return "it belongs to the system or to an installation, which are shown for reading";
}

static void add_read(struct why *w, const char *path, const char *real, mode_t mode, enum view view)
{
	switch (view) {
	case VIEW_DENIED:
		add(w, "read", path, false, "fs.deny", "it is hidden on purpose", NULL);
		return;
	case VIEW_HIDDEN: {
		const char *fix = S_ISSOCK(mode) ? NULL : said_read_fix(&w->said, path, real);

		add(w, "read", path, false, "fs.read",
		    fix ? "nothing shows it" : "it is kept from commands on purpose", fix);
		return;
	}
	case VIEW_UNKNOWN:
		if (protected_name(w->said.plan, real))
			break;
		add(w, "read", path, false, NULL, "the command has one of its own at that place",
		    NULL);
		return;
	case VIEW_READ_ONLY:
	case VIEW_WRITABLE:
		break;
	}
	if (faccessat(AT_FDCWD, real, R_OK, AT_EACCESS) < 0)
		add(w, "read", path, false, NULL, "you may not read it yourself", NULL);
	else
		add(w, "read", path, true, grant_of(w, real), shown_because(w, real), NULL);
}

static void add_write(struct why *w, const char *path, const char *real, bool is_there, bool is_dir,
		      enum view view)
{
	const char *name = protected_name(w->said.plan, real), *fix;

	if (name) {
		add(w, "write", path, false, "fs.protect",
		    "it would run by itself later, and is protected in a write grant",
		    w->said.plan->workspace ? NULL : said_protect_fix(&w->said, name));
	} else if (view == VIEW_UNKNOWN || view == VIEW_DENIED) {
		add(w, "write", path, false, view == VIEW_DENIED ? "fs.deny" : NULL,
		    view == VIEW_DENIED ? "it is hidden on purpose"
					: "the command has one of its own at that place",
		    NULL);
	} else if (is_there && faccessat(AT_FDCWD, real, W_OK, AT_EACCESS) < 0) {
		add(w, "write", path, false, NULL, "you may not write to it yourself", NULL);
	} else if (view == VIEW_WRITABLE) {
		add(w, "write", path, true, grant_of(w, real), "it is granted", NULL);
	} else {
		/* A grant of the file itself would win over one of its directory. */
		fix = said_write_fix(&w->said, path, real,
				     is_dir || (is_there && is_named(w, real)));
		add(w, "write", path, false, "fs.write",
		    fix ? "nothing opens it for writing" : "it is kept from commands on purpose",
		    fix);
	}
}

static int judge_path(struct why *w, const char *typed, struct cordon_error *err)
{
	char full[PATH_MAX], real[PATH_MAX], dir[PATH_MAX], made[2 * PATH_MAX];
	const char *path, *home = w->subject.plan->home;
	struct stat st;
	size_t dir_len;
	mode_t mode = 0;
	enum view view;
	int r;

	if (typed[0] == '~' && home && (typed[1] == '/' || !typed[1]))
		r = path_normalise(home, typed[1] ? typed + 2 : ".", full, sizeof(full));
	else
		r = path_normalise(w->said.cwd, typed, full, sizeof(full));
	if (r < 0 || full[0] != '/')
		return cordon_err(err, CORDON_E_PATH, r < 0 ? -r : EINVAL, "cannot ask about '%s'",
				  typed);
	/* Links are followed only where the kernel knows them, for a guest's words. These are not.
	 */
	(void)stat(full, &st);
	if (said_find_real(full, true, real, &mode)) {
		/* What ".." leads to is known only now. */
		path = arena_strdup(&w->arena, path_has_dotdot(full) ? real : full);
		if (!path)
			return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
		view = view_of(w->said.plan, real, S_ISDIR(mode));
		add_read(w, path, real, mode, view);
		add_write(w, path, real, true, S_ISDIR(mode), view);
		return 0;
	}
	path = arena_strdup(&w->arena, full);
	if (!path)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	add(w, "read", path, false, NULL, "it does not exist, or you may not see it", NULL);
	dir_len = path_dir_len(full);
	memcpy(dir, full, dir_len);
	dir[dir_len] = '\0';
	(void)stat(dir, &st);
	if (dir_len == 0 || !said_find_real(dir, true, real, &mode) || !S_ISDIR(mode)) {
		add(w, "write", path, false, NULL,
		    "its directory does not exist, or you may not "
		    "see it",
		    NULL);
		return 0;
	}
	view = view_of(w->said.plan, real, true);
	(void)snprintf(made, sizeof(made), "%s/%s", real[1] ? real : "",
		       full + dir_len + (full[dir_len] == '/'));
	add_write(w, path, made, false, false, view);
	return 0;
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
		add(w, "connect", target, true, "net.allow",
		    w->said.plan->level == PLAN_LEVEL_NAMESPACES ? "a rule names it" : by_proxy,
		    NULL);
		break;
	case NET_DENIED:
		add(w, "connect", target, false, "net.deny", "a rule denies it", NULL);
		break;
	case NET_OTHER_PORT:
		add(w, "connect", target, false, "net.allow", "only other ports of it are allowed",
		    fix);
		break;
	case NET_SPECIAL:
		add(w, "connect", target, false, "net.allow",
		    "it is no public address, and no rule names it", fix);
		break;
	case NET_NOT_LISTED:
		add(w, "connect", target, false, "net.allow", "no rule names it", fix);
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
		add(w, "connect", target, false, "net.allow", "there is no network", fix);
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
		add(w, "execve", path, false, "commands", "it is not on the list of commands", fix);
	else if (said_find_program(&w->said, name, strlen(name), SAID_WANT_SEEN, &seen))
		add(w, "execve", arena_strdup(&w->arena, seen.path), true,
		    said_has_list(w->said.plan) ? "commands" : NULL, "the command sees it in PATH",
		    NULL);
	else
		add(w, "execve", path, false, "fs.read",
		    "what the command starts does not see it (as the command itself it is shown)",
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
		return judge_path(w, subject, err);
	if (said_find_program(&w->said, subject, strlen(subject), SAID_WANT_ANY, &found))
		return judge_program(w, subject, err);
	/* A file of the current directory may have a dot in its name. */
	if (lstat(subject, &st) == 0)
		return judge_path(w, subject, err);
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
	input.level = policy->isolation == CORDON_LEVEL_LANDLOCK || launcher->no_namespaces
			      ? PLAN_LEVEL_LANDLOCK
			      : PLAN_LEVEL_NAMESPACES;
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

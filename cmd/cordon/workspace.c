/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/path.h"
#include "base/units.h"
#include "out.h"
#include "verbs.h"

int workspace_fail(const struct cordon_error *err)
{
	say_error(err);
	return status_of_error(err);
}

/* Which workspace */

struct nearest_base {
	char cwd[PATH_MAX];
	size_t len; /* of the longest base so far */
	size_t n;   /* how many have it */
	char base[PATH_MAX];
	char id[64];
};

static int offer_base(void *arg, const struct cordon_workspace_info *info)
{
	struct nearest_base *found = arg;
	size_t len = strlen(info->base);

	if (!path_is_within(info->base, found->cwd) || len < found->len)
		return 0;
	if (len > found->len || !found->n) {
		found->n = 0;
		found->len = len;
		snprintf(found->base, sizeof(found->base), "%s", info->base);
		snprintf(found->id, sizeof(found->id), "%s", info->id);
	}
	found->n++;
	return 0;
}

static int open_nearest(struct cordon_workspace **ret, struct cordon_error *err)
{
	struct nearest_base found = { .n = 0 };
	int r;

	if (!getcwd(found.cwd, sizeof(found.cwd)))
		return cordon_err(err, CORDON_E_SYSTEM, errno,
				  "cannot tell what the current directory is");
	r = cordon_workspace_list(NULL, offer_base, &found, err);
	if (r < 0 && !found.n)
		return r;
	/* A damaged one is no reason not to open another. */
	if (found.n == 1)
		return cordon_workspace_open(NULL, found.id, ret, err);
	if (found.n)
		r = cordon_err(err, CORDON_E_USAGE, 0, "there are %zu workspaces of '%s'", found.n,
			       found.base);
	else
		r = cordon_err(err, CORDON_E_PATH, 0, "there is no workspace of '%s'", found.cwd);
	cordon_err_hint(err, "name one; see 'cordon workspace list'");
	return r;
}

int workspace_open(const char *which, struct cordon_workspace **ret, struct cordon_error *err)
{
	return which ? cordon_workspace_open(NULL, which, ret, err) : open_nearest(ret, err);
}

/* Paths in it */

/* Paths last as long as the command; static: for leak checkers, they are never lost. */
static struct arena kept = ARENA_INIT;

void *workspace_keep(size_t size)
{
	return arena_alloc(&kept, size);
}

int workspace_path(const char *base, const char *given, const char **ret, struct cordon_error *err)
{
	size_t size = strlen(given) + 2, len = strlen(base);
	char *path = workspace_keep(size);
	int r;

	if (!path)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	r = path_normalise(NULL, given, path, size);
	if (r < 0)
		return cordon_err(err, CORDON_E_USAGE, -r, "path '%s'", given);
	if (path_has_dotdot(path)) {
		r = cordon_err(err, CORDON_E_USAGE, 0, "path '%s' has '..' in it", given);
		cordon_err_hint(err, "paths are relative to %s", base);
		return r;
	}
	*ret = path;
	if (path[0] != '/')
		return 0;
	if (!path_is_within(base, path)) {
		r = cordon_err(err, CORDON_E_USAGE, 0, "path '%s' is not below %s", given, base);
		cordon_err_hint(err, "paths are relative to that directory, or absolute below it");
		return r;
	}
	*ret = path[len] == '/' ? path + len + 1 : len == 1 && path[1] ? path + 1 : ".";
	return 0;
}

int workspace_open_with_paths(const struct parsed *args, struct cordon_workspace **ret,
			      const char ***ret_paths, struct cordon_error *err)
{
	size_t n = args->n_rest > 1 ? args->n_rest - 1 : 0;
	const char **paths = NULL;
	const char *base;
	int r = workspace_open(args->rest[0], ret, err);

	if (r < 0)
		return r;
	base = cordon_workspace_info(*ret)->base;
	if (n) {
		paths = workspace_keep((n + 1) * sizeof(*paths));
		if (!paths)
			r = cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	}
	for (size_t i = 0; paths && i < n && r == 0; i++)
		r = workspace_path(base, args->rest[i + 1], &paths[i], err);
	if (r < 0) {
		cordon_workspace_close(*ret);
		*ret = NULL;
	}
	*ret_paths = paths;
	return r;
}

int workspace_wants(const char *const *paths, const char *path)
{
	if (!paths)
		return 1;
	for (; *paths; paths++) {
		size_t len = strlen(*paths);

		if (!strcmp(*paths, ".") ||
		    (!strncmp(*paths, path, len) && (!path[len] || path[len] == '/')))
			return 1;
	}
	return 0;
}

/* For people */

const char *human_size(uint64_t bytes, char ret[HUMAN_MAX])
{
	static const char units[] = " KMGTPE";
	uint64_t whole = bytes, rest = 0;
	size_t unit = 0;

	while (whole >= 1024) {
		rest = whole % 1024;
		whole /= 1024;
		unit++;
	}
	if (!unit)
		snprintf(ret, HUMAN_MAX, "%u", (unsigned)whole);
	else if (whole < 10)
		snprintf(ret, HUMAN_MAX, "%u.%u%c", (unsigned)whole, (unsigned)(rest * 10 / 1024),
			 units[unit]);
	else
		snprintf(ret, HUMAN_MAX, "%u%c", (unsigned)whole, units[unit]);
	return ret;
}

const char *human_age(int64_t since_s, char ret[HUMAN_MAX])
{
	static const struct {
		int64_t seconds;
		char letter;
	} units[] = { { 86400, 'd' }, { 3600, 'h' }, { 60, 'm' } };
	int64_t age = (int64_t)time(NULL) - since_s;

	age = age < 0 ? 0 : age;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (age >= units[i].seconds) {
			snprintf(ret, HUMAN_MAX, "%u%c", (unsigned)(age / units[i].seconds),
				 units[i].letter);
			return ret;
		}
	}
	snprintf(ret, HUMAN_MAX, "%us", (unsigned)age);
	return ret;
}

/* Guests can make many paths of megabytes each; a table of those would fill the memory. */
#define PATH_END 1000

void add_path(struct strbuf *sb, const char *path)
{
	size_t len = strlen(path);

	if (len < PATH_MAX) {
		strbuf_add_escaped(sb, path, len);
		return;
	}
	strbuf_add_escaped(sb, path, PATH_END);
	strbuf_printf(sb, "[... %zu bytes ...]", len - 2 * (size_t)PATH_END);
	strbuf_add_escaped(sb, path + len - PATH_END, PATH_END);
}

void add_risks(struct strbuf *sb, unsigned risks)
{
	int is_first = 1;

	for (unsigned bit = 1; bit && bit <= risks; bit <<= 1) {
		const char *name = risks & bit ? cordon_risk_name(bit) : NULL;

		if (!name)
			continue;
		strbuf_printf(sb, "%s%s", is_first ? "" : ",", name);
		is_first = 0;
	}
}

uint64_t summary_total(const struct cordon_summary *s)
{
	return s->added + s->modified + s->deleted + s->renamed + s->mode + s->symlink + s->type;
}

void add_summary(struct strbuf *sb, const struct cordon_summary *s)
{
	const struct {
		uint64_t n;
		const char *word;
	} parts[] = {
		{ s->added, "added" },
		{ s->modified, "modified" },
		{ s->deleted, "deleted" },
		{ s->renamed, "renamed" },
		{ s->mode, "with another mode" },
		{ s->symlink, "relinked" },
		{ s->type, "of another type" },
	};
	int is_first = 1;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (!parts[i].n)
			continue;
		strbuf_printf(sb, "%s%llu %s", is_first ? "" : ", ", (unsigned long long)parts[i].n,
			      parts[i].word);
		is_first = 0;
	}
	if (is_first)
		strbuf_puts(sb, "nothing");
}

/* Questions */

int read_answer(char *buf, size_t size)
{
	size_t len = 0;

	for (;;) {
		char c;
		ssize_t n = read(STDIN_FILENO, &c, 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		if (c == '\n')
			break;
		if (len + 1 < size)
			buf[len++] = c;
	}
	buf[len] = '\0';
	return (int)len;
}

int ask_yes(const char *question)
{
	struct strbuf sb = STRBUF_INIT;
	char answer[8];

	strbuf_puts(&sb, "cordon: ");
	strbuf_add_escaped(&sb, question, strlen(question));
	strbuf_puts(&sb, " [y/N] ");
	if (!sb.failed)
		(void)write_full(STDERR_FILENO, sb.data, sb.len);
	strbuf_done(&sb);
	return read_answer(answer, sizeof(answer)) > 0 && (answer[0] == 'y' || answer[0] == 'Y');
}

int parse_age(const char *text, int64_t *ret_s, struct cordon_error *err)
{
	size_t len = strlen(text);
	char digits[16];
	int64_t ms;
	int r;

	if (len > 1 && len < sizeof(digits) && text[len - 1] == 'd') {
		memcpy(digits, text, len - 1);
		digits[len - 1] = '\0';
		r = units_parse_count(digits, ret_s, err);
		if (r == 0 && *ret_s > INT32_MAX)
			r = cordon_err(err, CORDON_E_USAGE, 0, "'%s' is too long", text);
		if (r == 0)
			*ret_s *= 86400;
	} else {
		r = units_parse_duration(text, &ms, err);
		if (r == 0)
			*ret_s = ms / 1000;
		else
			cordon_err(err, CORDON_E_POLICY, 0,
				   "'%.64s' is not a duration (units are ms, s, m, h and d)", text);
	}
	if (r < 0)
		cordon_err_prefix(err, "--older-than");
	return r;
}

int is_server_workspace(void *arg, const struct cordon_workspace_info *info)
{
	const size_t n = sizeof(SERVER_WORKSPACE) - 1;

	(void)arg;
	return !strncmp(info->name, SERVER_WORKSPACE, n) && strlen(info->name) == n + 8 &&
	       strspn(info->name + n, "0123456789abcdef") == 8;
}

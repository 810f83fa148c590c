/* SPDX-License-Identifier: Apache-2.0 */
#include "git/settings.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/ascii.h"
#include "base/macros.h"

#define ENTRIES_MAX 4096
#define NAME_MAX_BYTES 64

struct setting {
	const char *section, *sub, *key; /* sub: NULL = none */
	const char *value;		 /* as it stands there; NULL = only the key does */
};

struct settings {
	struct arena arena;
	struct setting *v;
	size_t n;
};

struct text {
	const char *at, *end;
};

static bool is_space(char ch)
{
	return ch == ' ' || ch == '\t';
}

static bool is_name_char(char ch)
{
	return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
	       ch == '-';
}

static void skip_spaces(struct text *t)
{
	while (t->at < t->end && is_space(*t->at))
		t->at++;
}

static bool is_line_end(const struct text *t)
{
	return t->at == t->end || *t->at == '\n';
}

static void skip_line(struct text *t)
{
	while (!is_line_end(t))
		t->at++;
}

/* Letters, digits and dashes, in lower case. NULL = none, or too many. */
static const char *take_name(struct text *t, struct arena *arena)
{
	char name[NAME_MAX_BYTES];
	size_t len = 0;

	while (t->at < t->end && is_name_char(*t->at) && len < sizeof(name))
		name[len++] = ascii_lower(*t->at++);
	return len > 0 && len < sizeof(name) ? arena_strndup(arena, name, len) : NULL;
}

/* Behind the quote: up to the next one. NULL = there is none in the line. */
static const char *take_quoted(struct text *t, struct arena *arena)
{
	const char *from = t->at;
	char *ret = arena_alloc(arena, (size_t)(t->end - from) + 1);
	size_t len = 0;

	while (ret && !is_line_end(t) && *t->at != '"') {
		if (*t->at == '\\')
			t->at++;
		if (is_line_end(t))
			return NULL;
		ret[len++] = *t->at++;
	}
	if (!ret || is_line_end(t))
		return NULL;
	t->at++;
	ret[len] = '\0';
	return ret;
}

/* Behind "[". */
static bool take_section(struct text *t, struct arena *arena, struct setting *ret)
{
	ret->section = take_name(t, arena);
	ret->sub = NULL;
	if (!ret->section)
		return false;
	skip_spaces(t);
	if (t->at < t->end && *t->at == '"') {
		t->at++;
		ret->sub = take_quoted(t, arena);
		if (!ret->sub)
			return false;
	}
	if (t->at == t->end || *t->at++ != ']')
		return false;
	skip_spaces(t);
	return is_line_end(t);
}

/* Behind "=": up to the end of the line, or of the lines that are joined. */
static const char *take_value(struct text *t, struct arena *arena)
{
	const char *from;
	size_t len;
	bool is_quoted = false;

	skip_spaces(t);
	for (from = t->at; !is_line_end(t); t->at++) {
		if (*t->at == '"')
			is_quoted = !is_quoted;
		else if (*t->at == '\\' && ++t->at == t->end)
			return NULL;
		else if (!is_quoted && (*t->at == '#' || *t->at == ';'))
			return NULL; /* git writes no such value */
	}
	if (is_quoted)
		return NULL;
	for (len = (size_t)(t->at - from); len > 0 && is_space(from[len - 1]);)
		len--;
	return arena_strndup(arena, from, len);
}

static bool take_setting(struct text *t, struct settings *s, const struct setting *section)
{
	struct setting *ret = &s->v[s->n];

	if (s->n == ENTRIES_MAX)
		return false;
	*ret = *section;
	ret->key = take_name(t, &s->arena);
	skip_spaces(t);
	if (!ret->key || !section->section)
		return false;
	if (t->at < t->end && *t->at == '=') {
		t->at++;
		ret->value = take_value(t, &s->arena);
		if (!ret->value)
			return false;
	}
	s->n++;
	return is_line_end(t);
}

static bool settings_read(const char *text, size_t len, struct settings *s)
{
	struct text t = { text, text + len };
	struct setting section = { NULL, NULL, NULL, NULL };
	bool ok;

	s->v = arena_alloc(&s->arena, ENTRIES_MAX * sizeof(*s->v));
	/* A program that reads it by other rules than these two could find something else. */
	ok = s->v && !memchr(text, '\0', len) && !memchr(text, '\r', len);
	while (ok && t.at < t.end) {
		skip_spaces(&t);
		if (is_line_end(&t)) {
			t.at += t.at < t.end;
		} else if (*t.at == '#' || *t.at == ';') {
			skip_line(&t);
		} else if (*t.at == '[') {
			t.at++;
			ok = take_section(&t, &s->arena, &section);
		} else {
			ok = take_setting(&t, s, &section);
		}
	}
	return ok;
}

/* --- what may be different --- */

enum kind {
	KIND_WORD,   /* a truth value, a number or a name of git's own */
	KIND_TEXT,   /* shown, and nothing else */
	KIND_URL,    /* of a remote that is new */
	KIND_FETCH,  /* which references go where: the guest can write them anyway */
	KIND_REMOTE, /* the name of a remote, or "." */
	KIND_REF,
	KIND_TAGS,	/* --tags or --no-tags */
	KIND_SORT,	/* what lists are sorted by */
	KIND_PUSH,	/* what a bare `git push` pushes: nothing but the branch, under its name */
	KIND_WORK_TREE, /* for the caller to look at */
};

struct rule {
	const char *section;
	bool has_sub;
	const char *key;
	enum kind kind;
};

static const struct rule loose[] = {
	{ "remote", true, "url", KIND_URL },
	{ "remote", true, "pushurl", KIND_URL },
	{ "remote", true, "fetch", KIND_FETCH },
	{ "remote", true, "gh-resolved", KIND_TEXT },
	{ "branch", true, "remote", KIND_REMOTE },
	{ "branch", true, "pushremote", KIND_REMOTE },
	{ "branch", true, "merge", KIND_REF },
	{ "branch", true, "rebase", KIND_WORD },
	{ "branch", true, "description", KIND_TEXT },
	/* Editors and gh note there what they compare a branch with. */
	{ "branch", true, "vscode-merge-base", KIND_TEXT },
	{ "branch", true, "github-pr-owner-number", KIND_TEXT },
	{ "branch", true, "github-pr-base-branch", KIND_TEXT },
	{ "branch", true, "gh-merge-base", KIND_TEXT },
	{ "branch", false, "autosetupmerge", KIND_WORD },
	{ "branch", false, "autosetuprebase", KIND_WORD },
	{ "branch", false, "sort", KIND_SORT },
	{ "remote", true, "prune", KIND_WORD },
	{ "remote", true, "skipdefaultupdate", KIND_WORD },
	{ "remote", true, "skipfetchall", KIND_WORD },
	{ "remote", true, "tagopt", KIND_TAGS },
	{ "push", false, "default", KIND_PUSH },
	{ "push", false, "autosetupremote", KIND_WORD },
	{ "init", false, "defaultbranch", KIND_TEXT },
	{ "user", false, "name", KIND_TEXT },
	{ "user", false, "email", KIND_TEXT },
	{ "core", false, "abbrev", KIND_WORD },
	{ "core", false, "autocrlf", KIND_WORD },
	{ "core", false, "eol", KIND_WORD },
	{ "core", false, "filemode", KIND_WORD },
	{ "core", false, "ignorecase", KIND_WORD },
	{ "core", false, "logallrefupdates", KIND_WORD },
	{ "core", false, "precomposeunicode", KIND_WORD },
	{ "core", false, "preloadindex", KIND_WORD },
	{ "core", false, "quotepath", KIND_WORD },
	{ "core", false, "safecrlf", KIND_WORD },
	{ "core", false, "untrackedcache", KIND_WORD },
	{ "fetch", false, "all", KIND_WORD },
	{ "fetch", false, "prune", KIND_WORD },
	{ "fetch", false, "writecommitgraph", KIND_WORD },
	{ "merge", false, "autostash", KIND_WORD },
	{ "merge", false, "ff", KIND_WORD },
	{ "merge", false, "conflictstyle", KIND_WORD },
	{ "merge", false, "log", KIND_WORD },
	{ "merge", false, "stat", KIND_WORD },
	{ "pull", false, "ff", KIND_WORD },
	{ "pull", false, "rebase", KIND_WORD },
	{ "rebase", false, "autosquash", KIND_WORD },
	{ "rebase", false, "autostash", KIND_WORD },
	{ "rebase", false, "stat", KIND_WORD },
	{ "rebase", false, "updaterefs", KIND_WORD },
	{ "rerere", false, "enabled", KIND_WORD },
	{ "color", false, "ui", KIND_WORD },
	{ "column", false, "ui", KIND_WORD },
	{ "commit", false, "status", KIND_WORD },
	{ "commit", false, "verbose", KIND_WORD },
	{ "diff", false, "algorithm", KIND_WORD },
	{ "diff", false, "colormoved", KIND_WORD },
	{ "diff", false, "mnemonicprefix", KIND_WORD },
	{ "diff", false, "noprefix", KIND_WORD },
	{ "diff", false, "renames", KIND_WORD },
	{ "gc", false, "auto", KIND_WORD },
	{ "log", false, "abbrevcommit", KIND_WORD },
	{ "log", false, "date", KIND_WORD },
	{ "log", false, "decorate", KIND_WORD },
	{ "maintenance", false, "auto", KIND_WORD },
	{ "status", false, "branch", KIND_WORD },
	{ "status", false, "short", KIND_WORD },
	{ "status", false, "showuntrackedfiles", KIND_WORD },
	{ "tag", false, "sort", KIND_SORT },
	{ "lfs", false, "repositoryformatversion", KIND_WORD },
};

/* What `git init`, `git clone`, `git submodule` and `git sparse-checkout` write besides. */
static const struct rule made[] = {
	{ "core", false, "bare", KIND_WORD },
	{ "core", false, "repositoryformatversion", KIND_WORD },
	{ "core", false, "sparsecheckout", KIND_WORD },
	{ "core", false, "sparsecheckoutcone", KIND_WORD },
	{ "core", false, "symlinks", KIND_WORD },
	{ "core", false, "worktree", KIND_WORK_TREE },
	{ "extensions", false, "objectformat", KIND_WORD },
	{ "extensions", false, "partialclone", KIND_REMOTE },
	{ "extensions", false, "refstorage", KIND_WORD },
	{ "extensions", false, "worktreeconfig", KIND_WORD },
	{ "index", false, "sparse", KIND_WORD },
	{ "remote", true, "partialclonefilter", KIND_TEXT },
	{ "remote", true, "promisor", KIND_WORD },
	{ "submodule", false, "active", KIND_TEXT },
	{ "submodule", true, "active", KIND_WORD },
	{ "submodule", true, "url", KIND_URL },
};

static const struct rule *find_rule(const struct rule *rules, size_t n, const struct setting *s)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(rules[i].section, s->section) == 0 &&
		    strcmp(rules[i].key, s->key) == 0 && rules[i].has_sub == (s->sub != NULL))
			return &rules[i];
	return NULL;
}

/* NULL = it may not change. */
static const struct rule *find_loose(const struct setting *s)
{
	return find_rule(loose, ARRAY_SIZE(loose), s);
}

static bool is_word(const char *s)
{
	if (!s)
		return true; /* the key alone means "true" */
	for (const char *c = s; *c; c++)
		if (!is_name_char(*c) && *c != '.')
			return false;
	return s[0] != '-';
}

/* Nothing that is quoted or escaped, and no option. */
static bool is_plain(const char *s)
{
	if (!s || s[0] == '-')
		return false;
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f || *s == '"' || *s == '\\')
			return false;
	return true;
}

static bool is_same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/*
 * Only transports of git's own that lead to another machine. "word::" and unknown schemes are
 * programs that git starts. A push to a directory runs the hooks that lie there, which may be the
 * guest's.
 */
static bool is_url(const char *s)
{
	static const char *const schemes[] = { "https://", "http://", "ssh://", "git://" };
	const char *rest = s, *colon;

	if (!is_plain(s) || !*s || strstr(s, "::") || strchr(s, ' ') || strstr(s, "@-"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (begins(s, schemes[i]))
			rest = s + strlen(schemes[i]);
	if (rest != s)
		return *rest && *rest != '-';
	colon = strchr(s, ':'); /* host:path */
	return colon && colon != s && colon[1] && !strstr(s, "://") &&
	       !memchr(s, '/', (size_t)(colon - s));
}

/* "-committerdate", "version:refname" */
static bool is_sort(const char *s)
{
	size_t n = 0;

	if (!s)
		return false;
	s += *s == '-';
	for (; s[n]; n++)
		if (!is_name_char(s[n]) && s[n] != ':')
			return false;
	return n > 0 && s[0] != '-';
}

/* The others push other branches, or to a branch of another name. */
static bool is_push(const char *s)
{
	return is_same(s, "simple") || is_same(s, "current") || is_same(s, "nothing");
}

static bool is_ref(const char *s)
{
	return is_plain(s) && begins(s, "refs/") && !strstr(s, "..") && !strpbrk(s, " :*?[~^");
}

static bool is_refspec(const char *s)
{
	if (!is_plain(s))
		return false;
	s += *s == '+' || *s == '^';
	return begins(s, "refs/") && !strchr(s, ' ');
}

static bool is_address(const struct setting *s)
{
	return strcmp(s->section, "remote") == 0 && s->sub &&
	       (strcmp(s->key, "url") == 0 || strcmp(s->key, "pushurl") == 0);
}

/* The next address of the remote @name from *i on, NULL = there is none. */
static const struct setting *next_address(const struct settings *s, const char *name, size_t *i)
{
	for (; *i < s->n; (*i)++)
		if (is_address(&s->v[*i]) && is_same(s->v[*i].sub, name))
			return &s->v[(*i)++];
	return NULL;
}

static bool has_remote(const struct settings *s, const char *name)
{
	size_t i = 0;

	return next_address(s, name, &i) != NULL;
}

/* Does the remote @b of @now lead where @a of @before did? */
static bool is_same_address(const struct settings *before, const char *a,
			    const struct settings *now, const char *b)
{
	size_t i = 0, k = 0;
	bool has_any = false;

	for (;;) {
		const struct setting *x = next_address(before, a, &i);
		const struct setting *y = next_address(now, b, &k);

		if (!x && !y)
			return has_any;
		if (!x || !y || !is_same(x->key, y->key) || !is_same(x->value, y->value))
			return false;
		has_any = true;
	}
}

static bool is_upstream(const char *key)
{
	return strcmp(key, "remote") == 0 || strcmp(key, "pushremote") == 0;
}

/*
 * The remote that @branch is pushed to: one that was there before, with the same address. Otherwise
 * the user's next push would go elsewhere; also that of a branch without a remote, which goes to
 * "origin" or the only one. Where there was none at all, nothing was pushed.
 */
static bool may_be_remote(const struct setting *branch, const struct settings *before,
			  const struct settings *now)
{
	bool had_remote = false;

	if (!is_plain(branch->value))
		return false;
	if (strcmp(branch->value, ".") == 0)
		return true;
	for (size_t i = 0; i < before->n; i++)
		had_remote |= is_address(&before->v[i]) ||
			      (strcmp(before->v[i].section, "branch") == 0 &&
			       is_upstream(before->v[i].key) && !is_same(before->v[i].value, "."));
	if (!had_remote)
		return has_remote(now, branch->value);
	return is_same_address(before, branch->value, now, branch->value);
}

/* The branch on the other side: one that had one keeps it. */
static bool may_be_merged(const struct setting *branch, const struct settings *before)
{
	if (!is_ref(branch->value))
		return false;
	for (size_t i = 0; i < before->n; i++)
		if (strcmp(before->v[i].section, "branch") == 0 &&
		    is_same(before->v[i].sub, branch->sub) &&
		    strcmp(before->v[i].key, "merge") == 0)
			return false;
	return true;
}

static bool is_value(enum kind kind, const struct setting *s, const struct settings *before,
		     const struct settings *now)
{
	switch (kind) {
	case KIND_WORD:
		return is_word(s->value);
	case KIND_TEXT:
		return is_plain(s->value);
	case KIND_URL:
		return is_plain(s->sub) && is_url(s->value) && !has_remote(before, s->sub);
	case KIND_FETCH:
		return is_refspec(s->value);
	case KIND_REMOTE:
		return may_be_remote(s, before, now);
	case KIND_REF:
		return may_be_merged(s, before);
	case KIND_TAGS:
		return is_same(s->value, "--tags") || is_same(s->value, "--no-tags");
	case KIND_SORT:
		return is_sort(s->value);
	case KIND_PUSH:
		return is_push(s->value);
	case KIND_WORK_TREE:
		return is_plain(s->value) && strlen(s->value) < PATH_MAX;
	default:
		return false;
	}
}

static bool is_setting(const struct setting *a, const struct setting *b)
{
	return is_same(a->section, b->section) && is_same(a->sub, b->sub) &&
	       is_same(a->key, b->key) && is_same(a->value, b->value);
}

static bool is_in(const struct settings *s, const struct setting *what)
{
	for (size_t i = 0; i < s->n; i++)
		if (is_setting(&s->v[i], what))
			return true;
	return false;
}

static void name(const struct setting *s, char ret[GIT_SETTING_MAX])
{
	snprintf(ret, GIT_SETTING_MAX, "%s.%s%s%s", s->section, s->sub ? s->sub : "",
		 s->sub ? "." : "", s->key);
}

/* The next from *i on that may not change; NULL = there is none. */
static const struct setting *next_firm(const struct settings *s, size_t *i)
{
	while (*i < s->n && find_loose(&s->v[*i]))
		(*i)++;
	return *i < s->n ? &s->v[(*i)++] : NULL;
}

/* Their order counts as well: of two values git takes the last. */
static bool is_firm_same(const struct settings *before, const struct settings *now,
			 char ret_key[GIT_SETTING_MAX])
{
	size_t i = 0, k = 0;

	for (;;) {
		const struct setting *a = next_firm(before, &i), *b = next_firm(now, &k);

		if (!a && !b)
			return true;
		if (!a || !b || !is_setting(a, b)) {
			name(b && !is_in(before, b) ? b : a ? a : b, ret_key);
			return false;
		}
	}
}

/* The name of a remote without an address is a path to git: a push would run the hooks of whatever
 * directory has that name. */
static bool keeps_addresses(const struct settings *before, const struct settings *now,
			    char ret_key[GIT_SETTING_MAX])
{
	for (size_t i = 0; i < before->n; i++)
		if (is_address(&before->v[i]) && !is_in(now, &before->v[i])) {
			name(&before->v[i], ret_key);
			return false;
		}
	return true;
}

static bool may_change(const struct settings *before, const struct settings *now,
		       char ret_key[GIT_SETTING_MAX])
{
	if (!is_firm_same(before, now, ret_key) || !keeps_addresses(before, now, ret_key))
		return false;
	for (size_t i = 0; i < now->n; i++) {
		const struct setting *s = &now->v[i];
		const struct rule *rule = find_loose(s);

		if (!rule || is_in(before, s) || is_value(rule->kind, s, before, now))
			continue;
		name(s, ret_key);
		return false;
	}
	return true;
}

bool git_settings_may_change(const char *before, size_t before_len, const char *now, size_t now_len,
			     char ret_key[GIT_SETTING_MAX])
{
	struct settings a = { .n = 0 }, b = { .n = 0 };
	bool ok;

	ret_key[0] = '\0';
	ok = settings_read(before, before_len, &a) && settings_read(now, now_len, &b) &&
	     may_change(&a, &b, ret_key);
	arena_done(&a.arena);
	arena_done(&b.arena);
	return ok;
}

/* A partial clone fetches what it lacks without being asked, even for `git status`. */
static bool fetches_by_itself(const struct settings *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->v[i].key, "promisor") == 0 ||
		    strcmp(s->v[i].key, "partialclone") == 0)
			return true;
	return false;
}

/* By http git starts none but its own programs. */
static bool is_http(const char *url)
{
	return url && (begins(url, "https://") || begins(url, "http://"));
}

/* A clone of a repository on this machine. */
static bool is_path(const char *url)
{
	if (!is_plain(url) || strstr(url, "::"))
		return false;
	if (begins(url, "file://"))
		url += strlen("file://");
	return *url && *url != '-' && !strstr(url, "://");
}

static bool is_made(const struct rule *rule, const struct setting *v, const struct settings *s)
{
	static const struct settings nothing = { .n = 0 };

	return is_value(rule->kind, v, &nothing, s) ||
	       (rule->kind == KIND_URL && is_plain(v->sub) && is_path(v->value));
}

static bool are_plain(const struct settings *s, char ret_work_tree[PATH_MAX])
{
	bool is_partial = fetches_by_itself(s);

	for (size_t i = 0; i < s->n; i++) {
		const struct setting *v = &s->v[i];
		const struct rule *rule = find_loose(v);

		if (!rule)
			rule = find_rule(made, ARRAY_SIZE(made), v);
		if (!rule || !is_made(rule, v, s) ||
		    (rule->kind == KIND_URL && is_partial && !is_http(v->value)))
			return false;
		if (rule->kind == KIND_WORK_TREE)
			snprintf(ret_work_tree, PATH_MAX, "%s", v->value);
	}
	return true;
}

bool git_settings_are_plain(const char *text, size_t len, char ret_work_tree[PATH_MAX])
{
	struct settings s = { .n = 0 };
	bool ok;

	ret_work_tree[0] = '\0';
	ok = settings_read(text, len, &s) && are_plain(&s, ret_work_tree);
	arena_done(&s.arena);
	return ok;
}

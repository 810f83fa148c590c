/* SPDX-License-Identifier: Apache-2.0 */
#include "git/config.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"

#define NAME_SIZE 32 /* no section or key that matters is longer */

struct config_cursor {
	const char *at, *end;
};

/* The next character; the end of the text is a line end without end. */
static int peek(const struct config_cursor *c)
{
	if (c->at == c->end)
		return '\n';
	if (*c->at == '\r' && c->end - c->at > 1 && c->at[1] == '\n')
		return '\n';
	return (unsigned char)*c->at;
}

static int take(struct config_cursor *c)
{
	int ch = peek(c);

	if (c->at < c->end)
		c->at += *c->at == '\r' && ch == '\n' ? 2 : 1;
	return ch;
}

static bool is_blank(int ch)
{
	return ch == ' ' || (ch >= '\t' && ch <= '\r' && ch != '\n');
}

static bool is_letter(int ch)
{
	return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z');
}

/* Letters, digits and dashes; what does not fit becomes "", which nothing is called. */
static void take_name(struct config_cursor *c, char name[NAME_SIZE])
{
	size_t len = 0;

	for (int ch = peek(c); is_letter(ch) || (ch >= '0' && ch <= '9') || ch == '-';
	     ch = peek(c)) {
		if (len < NAME_SIZE)
			name[len++] = (char)ch;
		take(c);
	}
	name[len < NAME_SIZE ? len : 0] = '\0';
}

/* Behind "[": the section's name. What stands between it and "]" does not matter. */
static void take_section(struct config_cursor *c, char name[NAME_SIZE])
{
	bool is_quoted = false;

	take_name(c, name);
	for (int ch = peek(c); ch != '\n' && (is_quoted || ch != ']'); ch = peek(c)) {
		take(c);
		if (ch == '"')
			is_quoted = !is_quoted;
		else if (ch == '\\' && is_quoted && peek(c) != '\n')
			take(c);
	}
	if (peek(c) == ']')
		take(c);
}

static int take_escaped(struct config_cursor *c)
{
	int ch = take(c);

	switch (ch) {
	case 'n':
		return '\n';
	case 't':
		return '\t';
	case 'b':
		return '\b';
	default:
		return ch;
	}
}

/* Behind "=", up to the end of the line or of the lines that are joined. */
static void take_value(struct config_cursor *c, char value[PATH_MAX])
{
	size_t len = 0, trimmed = 0; /* trimmed: without blanks at the end */
	bool is_quoted = false, is_comment = false;

	for (int ch = take(c); ch != '\n'; ch = take(c)) {
		if (is_comment || (!is_quoted && (ch == '#' || ch == ';'))) {
			is_comment = true;
			continue;
		}
		if (!is_quoted && is_blank(ch)) {
			if (len > 0 && len < PATH_MAX)
				value[len++] = ' ';
			continue;
		}
		if (ch == '"') {
			is_quoted = !is_quoted;
		} else if (ch == '\\' && peek(c) == '\n') {
			take(c);
		} else {
			ch = ch == '\\' ? take_escaped(c) : ch;
			if (len < PATH_MAX)
				value[len++] = (char)ch;
		}
		trimmed = len;
	}
	value[trimmed < PATH_MAX ? trimmed : 0] = '\0';
}

/* Does git execute the value by itself (unlike aliases)? Subsections do not matter, so that the key
 * decides. */
static bool is_command(const char *section, const char *key)
{
	static const char *const keys[] = {
		"alternaterefscommand", /* core */
		"askpass",
		"editor", /* and sequence.editor */
		"fsmonitor",
		"gitproxy",
		"pager",
		"sshcommand",
		"clean", /* filter */
		"process",
		"smudge",
		"cmd", /* difftool, mergetool, trailer */
		"command",
		"driver",   /* merge */
		"external", /* diff */
		"textconv",
		"helper",  /* credential */
		"program", /* gpg */
		"defaultkeycommand",
		"difffilter",	   /* interactive */
		"packobjectshook", /* uploadpack */
	};

	if (strcasecmp(section, "pager") == 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strcasecmp(key, keys[i]) == 0)
			return true;
	return false;
}

static int pass_on(const char *section, const char *key, const char *value,
		   int (*fn)(void *ctx, enum git_order what, const char *value), void *ctx)
{
	if (strcasecmp(section, "extensions") == 0 && strcasecmp(key, "worktreeconfig") == 0)
		return fn(ctx, GIT_ORDER_WORKTREE, value);
	if (!*value)
		return 0;
	if (strcasecmp(section, "core") == 0 && strcasecmp(key, "hookspath") == 0)
		return fn(ctx, GIT_ORDER_HOOKS, value);
	if (strcasecmp(section, "init") == 0 && strcasecmp(key, "templatedir") == 0)
		return fn(ctx, GIT_ORDER_HOOKS, value);
	if (strncasecmp(section, "include", 7) == 0 && strcasecmp(key, "path") == 0)
		return fn(ctx, GIT_ORDER_INCLUDE, value);
	return is_command(section, key) ? fn(ctx, GIT_ORDER_COMMAND, value) : 0;
}

int git_config_orders(const char *text, size_t len,
		      int (*fn)(void *ctx, enum git_order what, const char *value), void *ctx)
{
	struct config_cursor c = { text, text + len };
	char section[NAME_SIZE] = "", key[NAME_SIZE], value[PATH_MAX];
	int r = 0;

	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		c.at += 3;
	while (r == 0 && c.at < c.end) {
		int ch = peek(&c);

		if (ch == '\n' || is_blank(ch)) {
			take(&c);
		} else if (ch == '[') {
			take(&c);
			take_section(&c, section);
		} else if (is_letter(ch)) {
			take_name(&c, key);
			while (is_blank(peek(&c)))
				take(&c);
			value[0] = '\0';
			if (peek(&c) == '=') {
				take(&c);
				take_value(&c, value);
			}
			r = pass_on(section, key, value, fn, ctx);
		} else {
			/* A comment, or what git would reject. */
			while (take(&c) != '\n')
				;
		}
	}
	return r;
}

bool git_home_of(const char *passwd, const char *name, size_t len, char ret[PATH_MAX])
{
	for (const char *line = passwd; line && *line;) {
		const char *field = line, *next = strchr(line, '\n');
		size_t end = strcspn(line, "\n");
		int n;

		/* name:password:uid:gid:comment:home:shell */
		for (int i = 0; i < 5 && field; i++) {
			field = memchr(field, ':', end - (size_t)(field - line));
			field = field ? field + 1 : NULL;
		}
		if (field && strncmp(line, name, len) == 0 && line[len] == ':') {
			n = snprintf(ret, PATH_MAX, "%.*s", (int)strcspn(field, ":\n"), field);
			return n > 0 && n < PATH_MAX;
		}
		line = next ? next + 1 : NULL;
	}
	return false;
}

int git_user_configs(const struct git_user *user, int (*fn)(void *ctx, const char *path), void *ctx)
{
	const struct {
		const char *dir, *name;
	} places[] = {
		{ "/etc", "/gitconfig" },
		{ user->variable("GIT_CONFIG_SYSTEM"), "" },
		{ user->variable("GIT_CONFIG_GLOBAL"), "" },
		{ user->variable("XDG_CONFIG_HOME"), "/git/config" },
		{ user->home, "/.config/git/config" },
		{ user->home, "/.gitconfig" },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(places); i++) {
		char path[PATH_MAX];
		int n;

		/* A relative one means another file wherever git is started. */
		if (!places[i].dir || places[i].dir[0] != '/')
			continue;
		n = snprintf(path, sizeof(path), "%s%s", places[i].dir, places[i].name);
		if (n > 0 && (size_t)n < sizeof(path))
			r = fn(ctx, path);
	}
	return r;
}

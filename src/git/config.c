/* SPDX-License-Identifier: Apache-2.0 */
#include "git/config.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Value of "key = value", without quotes and comment; NULL if the line is about another key. */
static const char *config_value(char *line, const char *key)
{
	size_t len = strlen(key), n;
	char *value, *out;

	if (strncasecmp(line, key, len) != 0)
		return NULL;
	line += len;
	line += strspn(line, " \t");
	if (*line != '=')
		return NULL;
	value = out = line + 1 + strspn(line + 1, " \t");
	for (const char *s = value; *s && *s != '#' && *s != ';'; s++) {
		if (*s == '\\' && s[1])
			s++;
		else if (*s == '"')
			continue;
		*out++ = *s;
	}
	*out = '\0';
	for (n = strlen(value); n > 0 && isspace((unsigned char)value[n - 1]); n--)
		value[n - 1] = '\0';
	return value;
}

static int order_in_line(const char *section, char *line,
			 int (*fn)(void *arg, enum git_order what, const char *value), void *arg)
{
	enum git_order what = GIT_ORDER_HOOKS;
	const char *value = NULL;

	if (strcasecmp(section, "core") == 0) {
		value = config_value(line, "hookspath");
	} else if (strncasecmp(section, "include", 7) == 0) {
		what = GIT_ORDER_INCLUDE;
		value = config_value(line, "path");
	}
	return value && *value ? fn(arg, what, value) : 0;
}

int git_config_orders(char *text, int (*fn)(void *arg, enum git_order what, const char *value),
		      void *arg)
{
	char section[64] = "", *line, *save = NULL;
	int r = 0;

	for (line = strtok_r(text, "\n", &save); r == 0 && line;
	     line = strtok_r(NULL, "\n", &save)) {
		line += strspn(line, " \t");
		if (*line == '[') {
			size_t len = strcspn(line + 1, " \t\"]");
			char *close = strchr(line, ']');

			snprintf(section, sizeof(section), "%.*s", (int)len, line + 1);
			/* A key may follow on the same line. */
			line = close ? close + 1 + strspn(close + 1, " \t") : line + strlen(line);
		}
		r = order_in_line(section, line, fn, arg);
	}
	return r;
}

int git_config_own(const char *home, int (*fn)(void *arg, const char *path), void *arg)
{
	const struct {
		const char *dir, *name;
	} places[] = {
		{ "/etc", "/gitconfig" },
		{ getenv("GIT_CONFIG_SYSTEM"), "" },
		{ getenv("GIT_CONFIG_GLOBAL"), "" },
		{ getenv("XDG_CONFIG_HOME"), "/git/config" },
		{ home, "/.config/git/config" },
		{ home, "/.gitconfig" },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(places) / sizeof(places[0]); i++) {
		char path[PATH_MAX];
		int n;

		/* A relative one means another file wherever git is started. */
		if (!places[i].dir || places[i].dir[0] != '/')
			continue;
		n = snprintf(path, sizeof(path), "%s%s", places[i].dir, places[i].name);
		if (n > 0 && (size_t)n < sizeof(path))
			r = fn(arg, path);
	}
	return r;
}

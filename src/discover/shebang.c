/* SPDX-License-Identifier: Apache-2.0 */
/* `#!` lines, read as the kernel reads them, and as `env` reads its argument. */
#include "discover/discover_internal.h"

#include <errno.h>
#include <string.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

int shebang_parse(struct arena *arena, const void *head, size_t len, struct shebang *ret)
{
	struct shebang sb = { NULL, NULL, false, false };
	const char *line = head, *end, *p, *name;
	bool has_newline;

	if (len < 2 || line[0] != '#' || line[1] != '!')
		return 0;
	if (len > DISCOVER_SHEBANG_MAX)
		len = DISCOVER_SHEBANG_MAX;
	end = memchr(line, '\n', len);
	has_newline = end != NULL;
	/* The kernel's buffer ends in a NUL even if the file is longer. */
	if (!end)
		end = line + (len < DISCOVER_SHEBANG_MAX ? len : DISCOVER_SHEBANG_MAX - 1);
	sb.is_crlf = has_newline && end[-1] == '\r';
	while (end > line + 2 && is_blank(end[-1]))
		end--;
	for (p = line + 2; p < end && is_blank(*p); p++)
		;
	for (name = p; p < end && !is_blank(*p) && *p; p++)
		;
	if (p > name) {
		/* Without an end the name may be cut, and the kernel refuses the file. */
		sb.is_cut = !has_newline && len == DISCOVER_SHEBANG_MAX && p == end;
		sb.interp = arena_strndup(arena, name, (size_t)(p - name));
		if (!sb.interp)
			return -ENOMEM;
	}
	while (p < end && is_blank(*p))
		p++;
	if (p < end && *p) {
		sb.arg = arena_strndup(arena, p, (size_t)(end - p));
		if (!sb.arg)
			return -ENOMEM;
	}
	*ret = sb;
	return 1;
}

/* The next blank-separated word of *@text; empty at the end. */
static const char *next_word(const char **text, size_t *ret_len)
{
	const char *word;

	while (is_blank(**text))
		++*text;
	word = *text;
	while (**text && !is_blank(**text))
		++*text;
	*ret_len = (size_t)(*text - word);
	return word;
}

/* Options of env that take the next word as their value. */
static bool takes_value(const char *word, size_t len)
{
	static const char *const with_value[] = { "-u", "-C", "--unset", "--chdir" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(with_value); i++)
		if (strlen(with_value[i]) == len && memcmp(word, with_value[i], len) == 0)
			return true;
	return false;
}

/* What follows "-S", "-vS" or "--split-string="; NULL if the argument is something else. */
static const char *split_text(const char *arg)
{
	static const char split_long[] = "--split-string=";
	const char *p;

	if (strncmp(arg, split_long, sizeof(split_long) - 1) == 0)
		return arg + sizeof(split_long) - 1;
	if (arg[0] != '-' || arg[1] == '-')
		return NULL;
	for (p = arg + 1; *p && !is_blank(*p); p++)
		if (*p == 'S')
			return p + 1;
	return NULL;
}

int shebang_env_name(struct arena *arena, const char *arg, const char **ret_name)
{
	const char *text = split_text(arg), *word;
	size_t len;

	*ret_name = NULL;
	if (!text) {
		/* The kernel passes one argument, blanks included: env will complain itself. */
		if (arg[0] == '-' || strchr(arg, '=') || strpbrk(arg, " \t"))
			return 0;
		*ret_name = arg;
		return 0;
	}
	for (;;) {
		word = next_word(&text, &len);
		if (len == 0)
			return 0;
		if (takes_value(word, len)) {
			next_word(&text, &len);
			continue;
		}
		if (word[0] != '-' && !memchr(word, '=', len))
			break;
	}
	/* Quotes, escapes and variables are left to env; the program may still exist. */
	if (memchr(word, '\'', len) || memchr(word, '"', len) || memchr(word, '\\', len) ||
	    memchr(word, '$', len))
		return 0;
	*ret_name = arena_strndup(arena, word, len);
	return *ret_name ? 0 : -ENOMEM;
}

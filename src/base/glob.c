/* SPDX-License-Identifier: Apache-2.0 */
#include "base/glob.h"

#include <errno.h>
#include <string.h>

static bool is_group(const char *p, const char *end)
{
	return end - p > 2 && (*p == '@' || *p == '!') && p[1] == '(' &&
	       memchr(p, ')', (size_t)(end - p)) != NULL;
}

bool glob_is_pattern(const char *text)
{
	const char *end = text + strlen(text);

	for (; *text; text++)
		if (strchr("*?[", *text) || is_group(text, end))
			return true;
	return false;
}

bool glob_is_anywhere(const char *text)
{
	return !strchr(text, '/') || strncmp(text, "**/", 3) == 0;
}

/* The end of the set that begins at @p ('['), after its ']'; NULL = it is no set. */
static const char *set_end(const char *p, const char *end)
{
	p++;
	if (p < end && (*p == '!' || *p == '^'))
		p++;
	if (p < end && *p == ']')
		p++;
	p = p < end ? memchr(p, ']', (size_t)(end - p)) : NULL;
	return p ? p + 1 : NULL;
}

static bool in_set(const char *p, const char *end, char c)
{
	bool is_not = p[1] == '!' || p[1] == '^', is_in = false;

	end--;
	for (p += is_not ? 2 : 1; p < end; p++) {
		if (end - p > 2 && p[1] == '-') {
			is_in |= (unsigned char)c >= (unsigned char)p[0] &&
				 (unsigned char)c <= (unsigned char)p[2];
			p += 2;
		} else {
			is_in |= *p == c;
		}
	}
	return is_in != is_not;
}

/* What stands at @p matches the character @c: the pattern goes on there; NULL = it does not. */
static const char *match_one(const char *p, const char *end, char c)
{
	const char *after = *p == '[' ? set_end(p, end) : NULL;

	if (after)
		return in_set(p, after, c) ? after : NULL;
	if (*p == '?')
		return p + 1;
	if (*p == '\\' && end - p > 1)
		p++;
	return *p == c ? p + 1 : NULL;
}

/* Without groups: the last '*' is tried again, which is enough. */
static bool match_plain(const char *p, const char *end, const char *s, const char *s_end)
{
	const char *star = NULL, *retry = NULL;

	while (s < s_end) {
		const char *next = p < end && *p != '*' ? match_one(p, end, *s) : NULL;

		if (next) {
			p = next;
			s++;
		} else if (p < end && *p == '*') {
			star = ++p;
			retry = s;
		} else if (star) {
			p = star;
			s = ++retry;
		} else {
			return false;
		}
	}
	while (p < end && *p == '*')
		p++;
	return p == end;
}

/* Is the text one of those in the group, which begins after "@(" and ends before ")"? */
static bool in_group(const char *p, const char *end, const char *s, size_t len)
{
	for (;;) {
		const char *bar = memchr(p, '|', (size_t)(end - p));
		size_t n = (size_t)((bar ? bar : end) - p);

		if (n == len && memcmp(p, s, n) == 0)
			return true;
		if (!bar)
			return false;
		p = bar + 1;
	}
}

bool glob_match_name(const char *part, size_t len, const char *name)
{
	const char *end = part + len, *s_end = name + strlen(name), *group = part, *close;

	while (group < end && !is_group(group, end))
		group += *group == '\\' && end - group > 1 ? 2 : 1;
	if (group == end)
		return match_plain(part, end, name, s_end);
	close = memchr(group, ')', (size_t)(end - group));
	for (const char *from = name; from <= s_end; from++) {
		if (!match_plain(part, group, name, from))
			continue;
		for (const char *to = from; to <= s_end; to++)
			if (in_group(group + 2, close, from, (size_t)(to - from)) ==
				    (*group == '@') &&
			    match_plain(close + 1, end, to, s_end))
				return true;
	}
	return false;
}

static int add_parts(struct glob *glob, const char *text, bool is_literal)
{
	for (;;) {
		size_t len;

		text += strspn(text, "/");
		len = strcspn(text, "/");
		if (len == 0)
			return 0;
		if (glob->n == GLOB_PARTS_MAX)
			return -E2BIG;
		glob->part[glob->n].at = text;
		glob->part[glob->n].len = len;
		glob->part[glob->n++].is_literal = is_literal;
		text += len;
	}
}

int glob_init(struct glob *ret, const char *dir, const char *text)
{
	int r;

	ret->n = 0;
	r = dir ? add_parts(ret, dir, true) : 0;
	return r < 0 ? r : add_parts(ret, text, false);
}

bool glob_plain_name(const char *part, size_t len, char ret[NAME_MAX + 1])
{
	const char *end = part + len;
	size_t n = 0;

	for (; part < end; part++) {
		if (*part == '\\' && end - part > 1)
			part++;
		else if (strchr("*?[", *part) || is_group(part, end))
			return false;
		if (n == NAME_MAX)
			return false;
		ret[n++] = *part;
	}
	ret[n] = '\0';
	return true;
}

int glob_escape(const char *text, char *ret, size_t size)
{
	size_t n = 0;

	for (; *text; text++) {
		if (n + 2 >= size)
			return -ENAMETOOLONG;
		if (strchr("*?[@!\\", *text))
			ret[n++] = '\\';
		ret[n++] = *text;
	}
	ret[n] = '\0';
	return 0;
}

static bool is_deep(const struct glob *glob, size_t i)
{
	return i < glob->n && !glob->part[i].is_literal && glob->part[i].len == 2 &&
	       memcmp(glob->part[i].at, "**", 2) == 0;
}

/* "**" may stand for no directory at all. */
static uint64_t with_skipped(const struct glob *glob, uint64_t state)
{
	for (size_t i = 0; i < glob->n; i++)
		if ((state & (UINT64_C(1) << i)) && is_deep(glob, i))
			state |= UINT64_C(1) << (i + 1);
	return state;
}

uint64_t glob_start(const struct glob *glob)
{
	return with_skipped(glob, 1);
}

static bool match_part(const struct glob *glob, size_t i, const char *name)
{
	const char *at = glob->part[i].at;
	size_t len = glob->part[i].len;

	if (glob->part[i].is_literal)
		return strlen(name) == len && memcmp(at, name, len) == 0;
	return glob_match_name(at, len, name);
}

uint64_t glob_step(const struct glob *glob, uint64_t state, const char *name)
{
	uint64_t next = 0;

	for (size_t i = 0; i < glob->n; i++) {
		if (!(state & (UINT64_C(1) << i)))
			continue;
		if (is_deep(glob, i))
			next |= UINT64_C(1) << i;
		else if (match_part(glob, i, name))
			next |= UINT64_C(1) << (i + 1);
	}
	return with_skipped(glob, next);
}

bool glob_is_matched(const struct glob *glob, uint64_t state)
{
	return (state & (UINT64_C(1) << glob->n)) != 0;
}

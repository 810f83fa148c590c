/* SPDX-License-Identifier: Apache-2.0 */
#include "git/ignored.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ascii.h"
#include "git/fingerprint.h"
#include "git/read.h"

enum answer {
	ANSWER_NONE,
	ANSWER_IGNORED,
	ANSWER_NOT, /* or that cannot be told */
};

/* One line of such a file. */
struct pattern {
	const char *at;
	size_t len;
	bool is_exception; /* begins with "!" */
	bool is_path;	   /* relative to the file's directory; otherwise a name at any depth */
};

int git_ignore_read(int dir_fd, const char *name, const struct timespec *since, bool dir_changed,
		    struct git_ignore *ret)
{
	struct stat st;
	int r;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		ret->is_blind = errno != ENOENT;
		ret->is_changed = ret->is_blind || dir_changed;
		return 0;
	}
	ret->is_changed = !git_is_later(since, &st.st_ctim);
	/* Some versions of git follow a link there, others do not. */
	r = S_ISREG(st.st_mode) ? git_read_file(dir_fd, name, GIT_IGNORE_MAX, &ret->text, &ret->len)
				: -EINVAL;
	/* A pattern ends at a NUL for git. */
	ret->is_blind = r < 0 || memchr(ret->text, '\0', ret->len);
	ret->is_changed |= S_ISLNK(st.st_mode);
	return r == -ENOMEM ? r : 0;
}

void git_ignore_done(struct git_ignore *ignore)
{
	free(ignore->text);
	ignore->text = NULL;
}

static bool is_same_byte(char a, char b, bool with_case)
{
	return a == b || (!with_case && ascii_lower(a) == ascii_lower(b));
}

/* Without "/", "*" stands for any bytes of one name. */
static bool matches(const char *p, size_t p_len, const char *s, size_t s_len, bool with_case)
{
	const char *p_end = p + p_len, *s_end = s + s_len, *star = NULL, *from = NULL;

	while (s < s_end) {
		if (p < p_end && *p == '*') {
			star = ++p;
			from = s;
		} else if (p < p_end && is_same_byte(*p, *s, with_case)) {
			p++;
			s++;
		} else if (star && *from != '/') {
			p = star;
			s = ++from;
		} else {
			return false;
		}
	}
	while (p < p_end && *p == '*')
		p++;
	return p == p_end;
}

/* Cuts a line to its pattern. false = there is none. */
static bool take_pattern(const char *line, size_t len, struct pattern *ret)
{
	struct pattern p = { .at = line, .len = len };

	p.len -= len > 0 && line[len - 1] == '\r';
	while (p.len > 0 && p.at[p.len - 1] == ' ')
		p.len--;
	if (p.len == 0 || p.at[0] == '#')
		return false;
	p.is_exception = p.at[0] == '!';
	p.at += p.is_exception;
	p.len -= p.is_exception;
	if (p.len >= 3 && memcmp(p.at, "**/", 3) == 0) {
		p.at += 3;
		p.len -= 3;
		/* At any depth, which a path here is not. */
		if (memchr(p.at, '/', p.len ? p.len - 1 : 0))
			p.at -= 3, p.len += 3;
	}
	if (p.len > 0 && p.at[p.len - 1] == '/')
		p.len--;
	p.is_path = p.len > 0 && memchr(p.at, '/', p.len) != NULL;
	if (p.len > 0 && p.at[0] == '/') {
		p.at++;
		p.len--;
	}
	*ret = p;
	return p.len > 0;
}

static bool is_doubtful(const struct pattern *p)
{
	for (size_t i = 0; i < p->len; i++)
		if (strchr("?[\\\r", p->at[i]) ||
		    (p->is_path && i > 0 && p->at[i] == '*' && p->at[i - 1] == '*'))
			return true;
	return false;
}

static enum answer ask_line(const char *line, size_t len, const char *path)
{
	const char *slash = strrchr(path, '/'), *name;
	struct pattern p;

	if (!take_pattern(line, len, &p))
		return ANSWER_NONE;
	if (is_doubtful(&p))
		return p.is_exception ? ANSWER_NOT : ANSWER_NONE;
	name = p.is_path || !slash ? path : slash + 1;
	/* The user may have told git not to look at case. */
	if (!matches(p.at, p.len, name, strlen(name), !p.is_exception))
		return ANSWER_NONE;
	return p.is_exception ? ANSWER_NOT : ANSWER_IGNORED;
}

/* The last line that matches has the say. @path: relative to the file's directory. */
static enum answer ask(const struct git_ignore *ignore, const char *path)
{
	enum answer ret = ANSWER_NONE;
	size_t at = 0;

	if (ignore->len >= 3 && memcmp(ignore->text, "\xef\xbb\xbf", 3) == 0)
		at = 3;
	while (at < ignore->len) {
		const char *end = memchr(ignore->text + at, '\n', ignore->len - at);
		size_t len = end ? (size_t)(end - ignore->text) - at : ignore->len - at;
		enum answer a = ask_line(ignore->text + at, len, path);

		ret = a == ANSWER_NONE ? ret : a;
		at += len + 1;
	}
	return ret;
}

bool git_is_ignored(const struct git_ignore *ignore, const char *path)
{
	enum answer a = ANSWER_NONE;

	for (const struct git_ignore *i = ignore; i && a == ANSWER_NONE; i = i->above) {
		if (i->is_blind)
			return false;
		a = ask(i, path + i->dir_len + (i->dir_len > 0));
	}
	return a == ANSWER_IGNORED;
}

bool git_ignore_has_changed(const struct git_ignore *ignore)
{
	for (const struct git_ignore *i = ignore; i; i = i->above)
		if (i->is_changed)
			return true;
	return false;
}

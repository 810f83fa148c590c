/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs in what a failed command said: those that the caller's PATH has and that the command
 * does not see, and those that it sees and may not execute (`commands`).
 *
 * A name counts only if the host has a program of that name, in the caller's PATH, and the plan
 * says why it is not run. A name that PATH has nowhere, or that the view has somewhere, is the
 * command's own affair.
 */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "discover/discover.h"
#include "launch/said.h"
#include "plan/plan_read.h"
#include "seccomp/seccomp.h"

#define PROGRAM_LOOKS_MAX 16 /* at names, each in every directory of PATH */
#define PATH_DIRS_MAX 64

static bool is_program(const char *path, char real[PATH_MAX])
{
	mode_t mode = 0;

	/* Most names are nowhere, which this tells at once. */
	return access(path, X_OK) == 0 && said_find_real(path, true, real, &mode) &&
	       S_ISREG(mode) && faccessat(AT_FDCWD, real, X_OK, AT_EACCESS) == 0;
}

static bool is_seen(const struct said *said, const char *real)
{
	enum view view = view_of(said->plan, real, false);

	return view != VIEW_HIDDEN && view != VIEW_DENIED;
}

bool said_find_program(const struct said *said, const char *name, size_t len,
		       enum said_wanted wanted, struct said_found *ret)
{
	const char *path = said->subject->plan->caller_path;

	for (unsigned n = 0; path && *path && n < PATH_DIRS_MAX; n++) {
		const char *dir = path;
		size_t dir_len = strcspn(dir, ":");

		path += dir_len + (dir[dir_len] == ':');
		if (dir[0] != '/' || dir_len + 1 + len >= sizeof(ret->path))
			continue;
		memcpy(ret->path, dir, dir_len);
		ret->path[dir_len] = '/';
		memcpy(ret->path + dir_len + 1, name, len);
		ret->path[dir_len + 1 + len] = '\0';
		ret->dir_len = dir_len;
		if (is_program(ret->path, ret->real) &&
		    (wanted == SAID_WANT_ANY || is_seen(said, ret->real)))
			return true;
	}
	return false;
}

const char *said_program_fix(const struct said *said, const struct said_found *found)
{
	char dir[PATH_MAX], real_dir[PATH_MAX];
	const char *first, *second;
	size_t len = (size_t)(strrchr(found->real, '/') - found->real);

	memcpy(dir, found->path, found->dir_len);
	dir[found->dir_len] = '\0';
	memcpy(real_dir, found->real, len);
	real_dir[len] = '\0';
	first = said_read_fix(said, dir, dir);
	if (!first || strcmp(dir, real_dir) == 0 || is_seen(said, real_dir))
		return first;
	second = said_read_fix(said, real_dir, real_dir);
	return second ? arena_printf(said->subject->arena, "%s %s", first, second) : NULL;
}

static bool tell_hidden(struct said *said, const char *name, size_t len)
{
	struct said_found found, seen;

	/* Mostly there is none, or the first one is seen. */
	if (!said_find_program(said, name, len, SAID_WANT_ANY, &found) ||
	    is_seen(said, found.real) || said_find_program(said, name, len, SAID_WANT_SEEN, &seen))
		return false;
	said_tell_once(said, "execve", found.path, "fs.read", said_program_fix(said, &found));
	return true;
}

bool said_has_list(const struct plan_header *h)
{
	const char *name = seccomp_variant_name(h->filter);

	return name && strstr(name, "-commands");
}

/* Is there another reason? At level landlock only what is on the list can be read, too. */
static bool is_hidden_anyway(const struct said *said, const char *real)
{
	return said->plan->level == PLAN_LEVEL_NAMESPACES && !is_seen(said, real);
}

static bool tell_unlisted(struct said *said, const char *word, size_t len)
{
	struct strbuf sb = STRBUF_INIT;
	const char *fix = NULL, *typed;
	struct said_found found;

	if (len >= sizeof(found.path))
		return false;
	if (word[0] == '/') {
		memcpy(found.path, word, len);
		found.path[len] = '\0';
		if (!is_program(found.path, found.real) || is_hidden_anyway(said, found.real))
			return false;
	} else if (memchr(word, '/', len) ||
		   !said_find_program(said, word, len, SAID_WANT_ANY, &found) ||
		   is_hidden_anyway(said, found.real)) {
		return false;
	}
	if (view_can_execute(said->plan, found.real))
		return false;
	typed = arena_strndup(said->subject->arena, word, len);
	if (!typed)
		return false;
	strbuf_puts(&sb, "--commands ");
	add_shell_word(&sb, typed);
	if (!sb.failed)
		fix = arena_strdup(said->subject->arena, sb.data);
	strbuf_done(&sb);
	said_tell_once(said, "execve", found.path, "commands", fix);
	return true;
}

/* A name that a shell, env or an interpreter could not start: before the error's text with a colon,
 * in quotes, or after "spawn". */
static bool is_named(const char *p, const char *end, const struct said_line *line)
{
	static const char *const before[] = { "spawn ", "spawnSync " };

	for (size_t i = 0; i < ARRAY_SIZE(before); i++) {
		size_t n = strlen(before[i]);

		if ((size_t)(p - line->begin) >= n && memcmp(p - n, before[i], n) == 0)
			return true;
	}
	return end < line->end && (strchr(":'\"`", *end) || (unsigned char)*end == 0xe2);
}

bool said_programs_line(struct said *said, const struct said_line *line)
{
	bool may_be_unlisted = line->errors & SAID_DENIED && said_has_list(said->plan);

	if (!said->subject->tells_files || !(line->errors & SAID_MISSING || may_be_unlisted))
		return false;
	for (const char *p = line->begin; p < line->end; p++) {
		const char *end = p;
		size_t len;

		if (!said_is_begin(p, line))
			continue;
		while (!said_is_end(end, line->end))
			end++;
		len = (size_t)(end - p);
		if (len == 0 || !is_named(p, end, line) || said->n_programs++ >= PROGRAM_LOOKS_MAX)
			continue;
		if (may_be_unlisted && tell_unlisted(said, p, len))
			return true;
		if (line->errors & SAID_MISSING && len <= NAME_MAX && !memchr(p, '/', len) &&
		    tell_hidden(said, p, len))
			return true;
	}
	return false;
}

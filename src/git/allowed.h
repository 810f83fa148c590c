/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may come to lie in a repository's own directory without being looked at by a person.
 *
 * An allow-list: what git itself keeps there and neither executes nor takes settings from, as plain
 * files and directories. Everything else (links, special files, set-id bits, hooks, configs, names
 * that nobody knows) is not allowed. Names are compared byte by byte.
 *
 * A walk keeps a struct git_place for each directory; git_allowed() does the same for a whole path.
 */
#ifndef GIT_ALLOWED_H
#define GIT_ALLOWED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum git_allowed {
	GIT_ALLOWED_NO = 0,
	GIT_ALLOWED_YES,
	/* If git_content_is_sound() says so: */
	GIT_ALLOWED_HEAD,    /* git_head_is_sound() */
	GIT_ALLOWED_REF,     /* a branch or tag: the name of an object or of another reference */
	GIT_ALLOWED_TODO,    /* not git_todo_runs() */
	GIT_ALLOWED_WORDS,   /* options of a rebase: no path, since a strategy is a program's name,
			      * and   no signature with the user's key */
	GIT_ALLOWED_OPTIONS, /* of `git apply`: no path, not --build-fake-ancestor=FILE to write */
	GIT_ALLOWED_EMPTY,
	GIT_ALLOWED_ARGS, /* arguments for a shell, which old versions of git evaluate */
};

/* Content beyond this is not checked, so not allowed. */
#define GIT_CHECKED_MAX (1u << 20)

/* A directory inside a repository's own. A zeroed one is that directory itself. */
struct git_place {
	uint8_t at;    /* enum in allowed.c */
	bool is_loose; /* below modules/ or worktrees/: any directory may be a repository's */
};

/* What the entry @name of @place, with this st_mode, may be. */
enum git_allowed git_allowed_in(struct git_place place, const char *name, mode_t mode);

/* Goes from @place into its directory @name. In a directory that is not allowed nothing is. */
struct git_place git_place_enter(struct git_place place, const char *name);

/* Whether @place may be a repository's own directory itself. */
bool git_place_is_top(struct git_place place);

/* The same for @path, relative to the repository's own directory. */
enum git_allowed git_allowed(const char *path, mode_t mode);

/* Whether HEAD, or another file called @name that holds commits' names as it does (MERGE_HEAD and
 * the like), says what git would write there: object names, or a reference within refs/. */
bool git_head_is_sound(const char *name, const char *text, size_t len);

/* Whether the list of steps of a rebase or cherry-pick would run a command. */
bool git_todo_runs(const char *text, size_t len);

/* Whether a file with this content may be what git_allowed() says of its name. */
bool git_content_is_sound(enum git_allowed what, const char *name, const char *text, size_t len);

#endif

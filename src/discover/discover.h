/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the command that a caller typed to the program, and to what it needs to read to start.
 *
 * Theory of operation. A program is found as a shell would find it (except that relative entries of
 * PATH are ignored: a workspace must not decide what runs). Its symbolic links are followed hop by
 * hop, and each link outside the system directories is reported, so that the path that was found
 * works inside. The real file stands for its installation prefix: P for P/bin/x, if P looks like an
 * installation, is not a home directory, contains none, and is not known for credentials; otherwise
 * for itself alone. Interpreters (`#!`, ELF, a virtual environment's base Python) are treated the
 * same way.
 *
 * The same is done for tool chains in the caller's PATH, if asked for (toolchains.c), so that
 * scripts find inside what they find outside.
 *
 * What lies in the system directories (/usr and bin, sbin and lib* in the root) is granted by the
 * plan in any case and is not reported. Files of a workspace influence this (a `#!` line, a
 * pyvenv.cfg, a link), so the result has only executable regular files and prefixes that look like
 * installations, and every tree's *real* path has passed discover_tree_allowed(). The plan opens
 * each result by descriptor, so races do not matter here.
 *
 * Not found: libraries that a program loads from elsewhere (an absolute RUNPATH, ld.so.conf),
 * what a wrapper script names in its body, editable Python installs. Those need a grant.
 *
 * No directory is read, except after "not found", for a suggestion, and a virtual environment in
 * PATH, to see whether it is a project as well.
 */
#ifndef DISCOVER_DISCOVER_H
#define DISCOVER_DISCOVER_H

#include <stdbool.h>
#include <stddef.h>

#include <cordon/error.h>

#include "base/arena.h"

#define DISCOVER_HOPS_MAX 40 /* symbolic links on one path, as in the kernel */
#define DISCOVER_DEPTH_MAX 4 /* interpreters of interpreters */
#define DISCOVER_GRANTS_MAX 64
#define DISCOVER_PATH_DIRS_MAX 64 /* of PATH; the rest is left out */

#define DISCOVER_DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct discover_input {
	const char *command;
	const char *search_path; /* NULL: DISCOVER_DEFAULT_PATH */
	const char *cwd;	 /* absolute */
	const char *home;	 /* absolute real path, or NULL */
	bool show_search;	 /* show the tool chains in search_path, too */
};

enum discover_grant_kind {
	DISCOVER_TREE, /* directory tree: read and execute */
	DISCOVER_FILE, /* one executable file */
	DISCOVER_LINK, /* symbolic link to be re-created at `path` with the text `target` */
	DISCOVER_KIND_MAX
};

struct discover_grant {
	int kind; /* enum discover_grant_kind */
	/* Canonical: no component of it is a symbolic link (of a LINK: none but the last). */
	const char *path;
	const char *target; /* LINK only, else NULL */
};

/* A directory in the caller's PATH. Those that do not exist and relative ones are left out. */
struct discover_path_dir {
	const char *path, *real;
	bool is_shown; /* with programs that the grants show; the caller may grant others */
};

struct discover_result {
	/* To be executed: absolute and as found, since a venv's python depends on its path. */
	const char *exec_path;
	struct discover_grant *grants;
	size_t n_grants;
	/* To be put in front of PATH inside: the directories of the tool's commands. */
	const char **path_dirs;
	size_t n_path_dirs;
	/* The caller's PATH, with show_search and if there is one. */
	struct discover_path_dir *search;
	size_t n_search;
};

/*
 * Everything in *ret lives in @arena. -CORDON_E_NOT_FOUND, -CORDON_E_NOT_EXECUTABLE (also: bad
 * interpreter, foreign architecture), -CORDON_E_USAGE, -CORDON_E_NOMEM.
 */
int discover_program(struct arena *arena, const struct discover_input *in,
		     struct discover_result *ret, struct cordon_error *err) CHECK_RESULT;

/* The same without a command: the tool chains and directories of the caller's PATH. */
int discover_search(struct arena *arena, const struct discover_input *in,
		    struct discover_result *ret, struct cordon_error *err) CHECK_RESULT;

struct discover_exec_file {
	const char *path; /* real path of a regular file */
};

/*
 * For a list of programs (names or paths; in->command is ignored): the exact files that the
 * kernel has to be allowed to execute for them to start: the program, its ELF interpreter, its `#!`
 * interpreters and the program that an `env` line names. No prefix, no duplicates. A missing one
 * is an error, so that a misspelt list is noticed.
 */
int discover_prefix_for_commands(struct arena *arena, const struct discover_input *in,
				 const char *const *commands, size_t n_commands,
				 struct discover_exec_file **ret_files, size_t *ret_n,
				 struct cordon_error *err) CHECK_RESULT;

/*
 * May the directory with this real path be granted as a whole without being asked for? Not /,
 * homes, what contains one, /etc, /var, /tmp and the like, nor directories of credentials.
 */
bool discover_tree_allowed(const char *home, const char *real_path);

/* May a person be advised to grant this path? No keys, no home and nothing that contains one, no
 * other user's files, not /tmp, none of the kernel's files and none of the machine's sockets; to
 * write neither programs nor settings of the machine. */
bool discover_may_advise(const char *home, const char *real_path, bool is_write);

#endif

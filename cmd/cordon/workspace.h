/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of `cordon workspace` share. */
#ifndef CMD_CORDON_WORKSPACE_H
#define CMD_CORDON_WORKSPACE_H

#include <cordon/workspace.h>

#include "base/json_write.h"
#include "base/strbuf.h"
#include "options.h"

/* Opens the workspace called @which; NULL: the one over the current directory or the nearest above
 * it. */
int workspace_open(const char *which, struct cordon_workspace **ret, struct cordon_error *err);

/* Opens what the first operand names, and takes the others as paths in it: a list that ends with
 * NULL, relative to the base; NULL if there are none. */
int workspace_open_with_paths(const struct parsed *args, struct cordon_workspace **ret,
			      const char ***ret_paths, struct cordon_error *err);

/* Zeroed memory that lasts until the end of the command; NULL if there is none. */
void *workspace_keep(size_t size);

/* One path as people give it -> relative to @base. Never freed: a command parses once. */
int workspace_path(const char *base, const char *given, const char **ret, struct cordon_error *err);

/* Is @path one of @paths or below one of them? True if there are no paths. */
int workspace_wants(const char *const *paths, const char *path);

/* How the names begin that `cordon mcp` makes up; eight digits follow. */
#define SERVER_WORKSPACE "mcp-"
/* For cordon_workspace_gc(): 1 = it has such a name. */
int is_server_workspace(void *arg, const struct cordon_workspace_info *info);

/* Says what went wrong; returns the exit status. */
int workspace_fail(const struct cordon_error *err);

/* "1.2K": for people, three digits at most. */
#define HUMAN_MAX 16
const char *human_size(uint64_t bytes, char ret[HUMAN_MAX]);
/* Durations as elsewhere, and days, for --older-than. */
int parse_age(const char *text, int64_t *ret_s, struct cordon_error *err);
const char *human_age(int64_t since_s, char ret[HUMAN_MAX]); /* "3m", "5d" */

/* A path for people: escaped, and without its middle if it is too long to be opened. */
void add_path(struct strbuf *sb, const char *path);
/* "executable,ci": the names of the risks. */
void add_risks(struct strbuf *sb, unsigned risks);
uint64_t summary_total(const struct cordon_summary *s);
/* "3 added, 1 deleted"; "nothing" */
void add_summary(struct strbuf *sb, const struct cordon_summary *s);

/* The table of `cordon workspace diff` on @fd. */
int workspace_show_changes(struct cordon_workspace *ws, int fd, struct cordon_error *err);
/* Commits everything and closes the workspace; the exit status. What is not committed is said on
 * standard error. *ret_removed: nothing was left, and it is gone. */
int workspace_commit_all(struct cordon_workspace *ws, int is_quiet, int *ret_removed);

/* Asks a question on the terminal: 1 yes, 0 no (also at the end of the input). */
int ask_yes(const char *question);
/* One line from standard input without its newline: its length, -1 at the end. The rest of a line
 * that is too long is thrown away. */
int read_answer(char *buf, size_t size);

/* patch_view.c: patches on a terminal, and their numbers. @make writes the patch to a descriptor.
 */
struct patch_source {
	int (*make)(void *arg, int fd, struct cordon_error *err);
	void *arg;
};

/* Shows it on @fd: cleaned of everything a terminal would obey, with colours if it takes them. */
int patch_show(const struct patch_source *source, int fd, struct cordon_error *err);
/* Lines added and taken away, for each file. */
int patch_stat(const struct patch_source *source, struct strbuf *sb, struct cordon_error *err);

#endif

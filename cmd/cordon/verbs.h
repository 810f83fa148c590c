/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the command, and what they share. */
#ifndef CMD_CORDON_VERBS_H
#define CMD_CORDON_VERBS_H

#include <cordon/cordon.h>

#include "base/strbuf.h"
#include "options.h"

/* Exit statuses of Cordon rather than of the command it runs. */
#define STATUS_TIMEOUT 124
#define STATUS_FAILED 125
#define STATUS_NOT_EXECUTABLE 126
#define STATUS_NOT_FOUND 127
#define STATUS_SIGNAL_BASE 128

struct verb {
	const char *name; /* one word, or two such as "policy show" */
	const char *operands;
	const char *summary;
	const char *more; /* last lines of its help, may be NULL */
	int permute;	  /* options may follow operands; otherwise the first operand ends them */
	int (*run)(const struct parsed *args); /* returns the exit status */
};

/* A first word that needs a second one. */
struct verb_group {
	const char *name, *summary;
};

#define VERB_GROUPS 7
extern const struct verb_group verb_groups[VERB_GROUPS];

/* The group called @word, NULL if there is none. */
const struct verb_group *verb_group_find(const char *word);
/* The second word of verb @i if it is in @group, otherwise NULL. */
const char *verb_in_group(int i, const struct verb_group *group);
/* Adds the second words of @group's verbs with @between between them. */
void verb_group_words(const struct verb_group *group, const char *between, struct strbuf *sb);

/* Indexed by enum verb_id. */
extern const struct verb verb_table[VERB_MAX];

/* The caller's environment and the descriptors that were closed when the command began. */
extern char **environ;
extern unsigned closed_at_start; /* 1 << fd for each of 0, 1, 2 */

int cmd_run(const struct parsed *args);
int cmd_check(const struct parsed *args);
int cmd_why(const struct parsed *args);
int cmd_explain(const struct parsed *args);
int cmd_policy_show(const struct parsed *args);
int cmd_policy_validate(const struct parsed *args);
int cmd_policy_schema(const struct parsed *args);
int cmd_workspace_list(const struct parsed *args);
int cmd_workspace_status(const struct parsed *args);
int cmd_workspace_diff(const struct parsed *args);
int cmd_workspace_commit(const struct parsed *args);
int cmd_workspace_discard(const struct parsed *args);
int cmd_workspace_export(const struct parsed *args);
int cmd_workspace_gc(const struct parsed *args);
int cmd_cache_list(const struct parsed *args);
int cmd_cache_gc(const struct parsed *args);
int cmd_microvm_setup(const struct parsed *args);
int cmd_microvm_status(const struct parsed *args);
int cmd_microvm_gc(const struct parsed *args);
int cmd_sandbox_list(const struct parsed *args);
int cmd_sandbox_gc(const struct parsed *args);
int cmd_pool_start(const struct parsed *args);
int cmd_pool_status(const struct parsed *args);
int cmd_pool_stop(const struct parsed *args);
int cmd_session_start(const struct parsed *args);
int cmd_session_exec(const struct parsed *args);
int cmd_session_put(const struct parsed *args);
int cmd_session_get(const struct parsed *args);
int cmd_session_ls(const struct parsed *args);
int cmd_session_logs(const struct parsed *args);
int cmd_session_ps(const struct parsed *args);
int cmd_session_env(const struct parsed *args);
int cmd_session_pause(const struct parsed *args);
int cmd_session_resume(const struct parsed *args);
int cmd_session_kill(const struct parsed *args);
int cmd_session_stop(const struct parsed *args);
int cmd_ps(const struct parsed *args);
int cmd_inspect(const struct parsed *args);
int cmd_kill(const struct parsed *args);
int cmd_logs(const struct parsed *args);
int cmd_wait(const struct parsed *args);
int cmd_new(const struct parsed *args);
int cmd_completion(const struct parsed *args);
int cmd_help(const struct parsed *args);

/* Help texts, made from the tables. Returns the exit status. */
int help_top(int fd);
int help_verb(int fd, int verb);
int help_group(int fd, const struct verb_group *group);

/* The verb named by @first and @second (may be NULL); -1 if there is none. *@ret_words is set to
 * how many of the two it used. */
int verb_find(const char *first, const char *second, size_t *ret_words);

/* Reports an unknown verb and suggests the nearest one. Returns the exit status. */
int verb_unknown(const char *first, const char *second);

/*
 * Merges the presets, then the policy files, then the flags among @args into @policy, each kind in
 * the order of the command line.
 */
int policy_from_options(struct cordon_policy *policy, const struct parsed *args,
			struct cordon_error *err);

/* Whether a group of @policy has the setting @setting, the start of a member such as "\"read\":".
 */
int policy_says(const struct cordon_policy *policy, const char *setting);

/*
 * The caller's home directory into @buf: $HOME if it can be trusted, otherwise from /etc/passwd.
 * Returns @buf, NULL if there is none. getpwuid() is not used: a static program would have to load
 * name service modules for it.
 */
const char *home_directory(char *buf, size_t size);

/* Options of a run that do not depend on its streams. @home_buf backs the home directory. */
void run_options_init(struct cordon_run_options *ret, const struct parsed *args, char *home_buf,
		      size_t home_size);

/** What --private says. */
int run_private_option(struct cordon_run_options *options, const struct parsed *args,
		       struct cordon_error *err);

/* The JSON account of a run that failed before there were options, on standard output. Returns the
 * exit status. */
int run_report_failure(const struct cordon_error *err);

/* The exit status for an error. */
int status_of_error(const struct cordon_error *err);

#endif

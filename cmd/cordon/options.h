/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option table of the command, for the parser, --help, shell completion and the test that man
 * pages name every option.
 */
#ifndef CMD_CORDON_OPTIONS_H
#define CMD_CORDON_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include <cordon/error.h>

enum verb_id {
	VERB_RUN = 0,
	VERB_CHECK,
	VERB_WHY,
	VERB_EXPLAIN,
	VERB_POLICY_SHOW,
	VERB_POLICY_VALIDATE,
	VERB_POLICY_SCHEMA,
	VERB_WORKSPACE_LIST,
	VERB_WORKSPACE_STATUS,
	VERB_WORKSPACE_DIFF,
	VERB_WORKSPACE_COMMIT,
	VERB_WORKSPACE_DISCARD,
	VERB_WORKSPACE_EXPORT,
	VERB_WORKSPACE_GC,
	VERB_CACHE_LIST,
	VERB_CACHE_GC,
	VERB_MICROVM_SETUP,
	VERB_MICROVM_STATUS,
	VERB_MICROVM_GC,
	VERB_SANDBOX_LIST,
	VERB_SANDBOX_GC,
	VERB_POOL_START,
	VERB_POOL_STATUS,
	VERB_POOL_STOP,
	VERB_SESSION_START,
	VERB_SESSION_EXEC,
	VERB_SESSION_PUT,
	VERB_SESSION_GET,
	VERB_SESSION_LS,
	VERB_SESSION_LOGS,
	VERB_SESSION_PS,
	VERB_SESSION_ENV,
	VERB_SESSION_PAUSE,
	VERB_SESSION_RESUME,
	VERB_SESSION_KILL,
	VERB_SESSION_STOP,
	VERB_PS,
	VERB_INSPECT,
	VERB_KILL,
	VERB_LOGS,
	VERB_WAIT,
	VERB_MCP,
	VERB_NEW,
	VERB_COMPLETION,
	VERB_HELP,
	VERB_MAX
};

#define VERB_BIT(verb) (UINT64_C(1) << (verb))

enum option_id {
	OPT_READ = 0,
	OPT_WRITE,
	OPT_DENY,
	OPT_WORKSPACE,
	OPT_NAME,
	OPT_FROM,
	OPT_ON_EXIT,
	OPT_DIFF,
	OPT_PRIVATE,
	OPT_PROTECT,
	OPT_NO_PROTECT,
	OPT_COMMANDS,
	OPT_GPU,
	OPT_DEVICE,
	OPT_CWD,
	OPT_ENV,
	OPT_WITH,
	OPT_WITH_FILE,
	OPT_WITH_BUILD,
	OPT_NET_ALLOW,
	OPT_NET_DENY,
	OPT_PUBLISH,
	OPT_NET_MAX,
	OPT_NET_LOG,
	OPT_PRESET,
	OPT_POLICY,
	OPT_ISOLATION,
	OPT_REQUIRE,
	OPT_USER,
	OPT_TIMEOUT,
	OPT_GRACE,
	OPT_MEMORY,
	OPT_PROCS,
	OPT_CPUS,
	OPT_CPU_TIME,
	OPT_OPEN_FILES,
	OPT_DISK,
	OPT_FILE_SIZE,
	OPT_MAX_OUTPUT,
	OPT_END_ON_OUTPUT,
	OPT_BEST_EFFORT,
	OPT_WARM,
	OPT_INTERACTIVE,
	OPT_NO_TERMINAL,
	OPT_JSON,
	OPT_RECEIPT,
	OPT_USAGE,
	OPT_DRY_RUN,
	OPT_QUIET,
	OPT_VERBOSE,
	OPT_PATCH,
	OPT_STAT,
	OPT_EXCLUDE,
	OPT_ASK,
	OPT_OURS,
	OPT_THEIRS,
	OPT_FORCE,
	OPT_ALL,
	OPT_YES,
	OPT_FORMAT,
	OPT_OUTPUT,
	OPT_OLDER_THAN,
	OPT_ONLY_SAY,
	OPT_LIST,
	OPT_RENEW,
	OPT_SESSION_NAME,
	OPT_IDLE,
	OPT_SIZE,
	OPT_DETACH,
	OPT_KEEP,
	OPT_KILL_REST,
	OPT_SIGNAL,
	OPT_NOW,
	OPT_SERVE_FILES,
	OPT_CHANNEL,
	OPT_INTERPRETER,
	OPT_DIRECT,
	OPT_ALLOW_COMMIT,
	OPT_WRAP,
	OPT_WRAP_CONFIG,
	OPT_PRINT_CONFIG,
	OPT_SELFTEST,
	OPT_HELP,
	OPT_MAX
};

enum option_group {
	GROUP_FILES = 0,
	GROUP_NET,
	GROUP_POLICY,
	GROUP_LIMITS,
	GROUP_RESULT,
	GROUP_MAX
};

/* What a shell may offer as an option's value. */
enum complete_kind {
	COMPLETE_NONE = 0,
	COMPLETE_FILE,
	COMPLETE_DIR,
	COMPLETE_WORDS
};

struct option {
	const char *name; /* long name without the dashes */
	char letter;	  /* short name, 0 = none */
	uint8_t group;
	uint8_t complete;
	uint64_t verbs;	   /* VERB_BIT() of each verb that takes it */
	const char *arg;   /* placeholder of the value, NULL = takes none */
	const char *key;   /* policy key that it sets, NULL = none */
	const char *words; /* for COMPLETE_WORDS, separated by spaces */
	const char *help;
};

/* Indexed by enum option_id. */
extern const struct option option_table[OPT_MAX];
extern const char *const option_group_names[GROUP_MAX];

struct parsed_option {
	int id; /* enum option_id */
	const char *value;
};

struct parsed {
	int verb; /* enum verb_id */
	struct parsed_option *options;
	size_t n_options, cap;
	uint64_t seen[2]; /* a bit for each option that was given */
	char **rest;	  /* operands or COMMAND ARG..., NULL-terminated */
	size_t n_rest;
};

static inline int parsed_has(const struct parsed *p, int id)
{
	return (p->seen[id / 64] >> (id % 64)) & 1;
}

/* The value that the last use of option @id gave, NULL if it was not given. */
const char *parsed_value(const struct parsed *p, int id);

/*
 * Parses @argv (the words after the verb, NULL-terminated). The result points into @argv, whose
 * words it may reorder. Memory is never freed: a command parses once.
 */
int options_parse(int verb, char **argv, struct parsed *ret, struct cordon_error *err);

#endif

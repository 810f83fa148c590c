/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of policy keys. JSON documents, cordon_policy_set(), the canonical writer, the JSON
 * Schema, the command's options and the policy reference all use it.
 */
#ifndef POLICY_KEYS_H
#define POLICY_KEYS_H

#include <stddef.h>
#include <stdint.h>

enum policy_type {
	POLICY_TYPE_PATHS,	/* list of paths */
	POLICY_TYPE_BOOL,	/* on or off */
	POLICY_TYPE_PROTECT,	/* enum policy_protect; in JSON also true or false */
	POLICY_TYPE_PATH,	/* one path */
	POLICY_TYPE_ENV_NAMES,	/* list of NAME or PREFIX* */
	POLICY_TYPE_ENV_VALUES, /* NAME=VALUE; in JSON an object */
	POLICY_TYPE_COMMANDS,	/* list of program names or paths */
	POLICY_TYPE_NET_RULES,	/* list of HOST[:PORT,...] */
	POLICY_TYPE_PUBLISH,	/* list of [[ADDRESS:]HOSTPORT:]PORT[/tcp|/udp] */
	POLICY_TYPE_DURATION,	/* milliseconds */
	POLICY_TYPE_COUNT,	/* whole number */
	POLICY_TYPE_SIZE,	/* bytes */
	POLICY_TYPE_SHARE,	/* of one CPU, in thousandths */
	POLICY_TYPE_LEVEL,	/* enum cordon_level */
	POLICY_TYPE_LAYERS,	/* list of layer names */
	POLICY_TYPE_LIMITS,	/* list of names of limits */
	POLICY_TYPE_USER,	/* UID[:GID] */
	POLICY_TYPE_GPU,	/* all, none, or a list of numbers and names in one string */
	POLICY_TYPE_MAX
};

struct policy_key {
	const char *name; /* "group.key" or "key" */
	enum policy_type type;
	size_t offset;	  /* of the value in struct cordon_policy */
	int64_t min, max; /* of numbers */
	char short_flag;  /* 0 = none */
	const char *flag; /* long option without dashes; "no-..." switches a bool off,
			   * any other name switches it on */
	const char *arg;  /* what the flag takes, NULL = nothing */
	const char *default_text;
	const char *doc; /* one sentence */
};

/* In the order in which documents are written; keys of one group stand together. */
extern const struct policy_key policy_keys[];
extern const size_t policy_keys_count;

/* NULL if there is no such key. */
const struct policy_key *policy_key_find(const char *name);

/* The key, or group of keys, that a mistyped @name probably means; NULL if none is near. */
const char *policy_key_suggest(const char *name);

/* Is @name the first part of some "group.key"? */
int policy_key_is_group(const char *name);

/* Is the value a list (or object) that settings add to? */
int policy_type_is_list(enum policy_type type);

/* Is the value one string? */
int policy_type_is_string(enum policy_type type);

/* Names of enum cordon_level. */
extern const char *const policy_protect_names[]; /* by enum policy_protect */
extern const char *const policy_level_names[];

/* What `require` may name, besides "landlock:N". */
extern const char *const policy_layer_names[];
extern const size_t policy_layer_names_count;

/* What `best_effort` may name: the keys of the group "limits" that set a limit. */
extern const char *const policy_limit_names[];
extern const size_t policy_limit_names_count;

#endif

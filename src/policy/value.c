/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single values: what each type of key accepts. Everything that enters a policy goes through
 * policy_put(), policy_put_int() or policy_put_bool(), so a policy never has an unchecked value.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <cordon/run.h>

#include "base/err.h"
#include "base/glob.h"
#include "base/nearest.h"
#include "base/path.h"
#include "base/units.h"
#include "policy/policy_internal.h"

#define ENV_NAME_MAX 255
#define ENV_ENTRY_MAX ((size_t)128 << 10) /* what execve() takes as one string, with its NUL */
#define ID_MAX 4294967294LL		  /* (uid_t)-1 means "none" */
#define LANDLOCK_ABI_MAX 1000

struct strlist *policy_list(struct cordon_policy *policy, const struct policy_key *key)
{
	return (struct strlist *)(void *)((char *)policy + key->offset);
}

int64_t *policy_number(struct cordon_policy *policy, const struct policy_key *key)
{
	return (int64_t *)(void *)((char *)policy + key->offset);
}

int *policy_choice(struct cordon_policy *policy, const struct policy_key *key)
{
	return (int *)(void *)((char *)policy + key->offset);
}

const char **policy_string(struct cordon_policy *policy, const struct policy_key *key)
{
	return (const char **)(void *)((char *)policy + key->offset);
}

int policy_nomem(struct cordon_error *err)
{
	return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
}

int policy_unknown_key(const char *name, struct cordon_error *err)
{
	const char *best = policy_key_suggest(name);

	if (best)
		return cordon_err(err, CORDON_E_POLICY, 0,
				  "unknown key '%.80s' (did you mean '%s'?)", name, best);
	return cordon_err(err, CORDON_E_POLICY, 0, "unknown key '%.80s'", name);
}

void policy_touch(struct cordon_policy *policy, const struct policy_key *key)
{
	if (key->type == POLICY_TYPE_COMMANDS)
		policy->commands_set = 1;
}

int policy_add_entry(struct cordon_policy *policy, const struct policy_key *key, const char *text,
		     struct cordon_error *err)
{
	struct strlist *list = policy_list(policy, key);
	const char *copy;

	policy_touch(policy, key);
	if (list == &policy->fs_write && strcmp(text, POLICY_HERE) == 0)
		policy->here_is_presets = 0;
	if (strlist_has(list, text))
		return 0;
	if (list->n >= POLICY_LIST_MAX)
		return cordon_err(err, CORDON_E_POLICY, 0, "%s has more than %d entries", key->name,
				  POLICY_LIST_MAX);
	copy = arena_strdup(&policy->arena, text);
	if (!copy || strlist_add(&policy->arena, list, copy) < 0)
		return policy_nomem(err);
	return 0;
}

void policy_settle_here(struct cordon_policy *policy)
{
	struct strlist *list = &policy->fs_write;
	size_t n = 0;

	if (!policy->workspace || !policy->here_is_presets)
		return;
	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->v[i], POLICY_HERE) != 0)
			list->v[n++] = list->v[i];
	list->n = n;
	policy->here_is_presets = 0;
}

static int put_string(struct cordon_policy *policy, const struct policy_key *key, const char *text,
		      struct cordon_error *err)
{
	const char *copy = arena_strdup(&policy->arena, text);

	if (!copy)
		return policy_nomem(err);
	*policy_string(policy, key) = copy;
	return 0;
}

/* Checks @text and, if there is a @base_dir, makes it absolute in @buf; *ret is what to store. */
static int check_path(const struct policy_key *key, const char *text, const char *base_dir,
		      char buf[PATH_MAX], const char **ret, struct cordon_error *err)
{
	const bool is_pattern = key->offset == offsetof(struct cordon_policy, fs_deny) &&
				glob_is_pattern(text);
	char dir[PATH_MAX];

	if (!*text)
		return cordon_err(err, CORDON_E_POLICY, 0, "%s: a path must not be empty",
				  key->name);
	if (text[0] == '~' && text[1] != '/' && text[1] != '\0') {
		cordon_err(err, CORDON_E_POLICY, 0, "%s: '%.80s': only ~ and ~/ are expanded",
			   key->name, text);
		cordon_err_hint(err, "write the path in full, or './%.80s'", text);
		return -CORDON_E_POLICY;
	}
	/* What is no path in the document's directory: the plan knows the home and the grants. */
	if (text[0] == '~' || (is_pattern && glob_is_anywhere(text)))
		base_dir = NULL;
	/* The directory is no part of the pattern. A path that is too long is one in any case. */
	if (base_dir && is_pattern && glob_escape(base_dir, dir, sizeof(dir)) == 0)
		base_dir = dir;
	if (strlen(text) >= PATH_MAX ||
	    (base_dir && path_normalise(base_dir, text, buf, PATH_MAX) < 0))
		return cordon_err(err, CORDON_E_POLICY, 0,
				  "%s: a path is longer than %d bytes: '%.40s...'", key->name,
				  PATH_MAX - 1, text);
	*ret = base_dir ? buf : text;
	return 0;
}

static int put_path(struct cordon_policy *policy, const struct policy_key *key, const char *text,
		    const char *base_dir, struct cordon_error *err)
{
	char buf[PATH_MAX];
	const char *path = text;
	int r = check_path(key, text, base_dir, buf, &path, err);

	if (r < 0)
		return r;
	if (key->type != POLICY_TYPE_PATH)
		return policy_add_entry(policy, key, path, err);
	r = put_string(policy, key, path, err);
	policy_settle_here(policy);
	return r;
}

static int put_command(struct cordon_policy *policy, const struct policy_key *key, const char *text,
		       const char *base_dir, struct cordon_error *err)
{
	if (!*text)
		return cordon_err(err, CORDON_E_POLICY, 0, "%s: a program name must not be empty",
				  key->name);
	if (strcmp(text, ".") == 0 || strcmp(text, "..") == 0 || text[strlen(text) - 1] == '/')
		return cordon_err(err, CORDON_E_POLICY, 0, "%s: '%.80s' is not a program",
				  key->name, text);
	/* As in a shell: without a slash it is looked up in PATH, so there is no path to resolve.
	 */
	return put_path(policy, key, text, strchr(text, '/') ? base_dir : NULL, err);
}

static int check_env_name(const struct policy_key *key, const char *name, size_t len,
			  struct cordon_error *err)
{
	size_t i;

	if (len == 0)
		return cordon_err(err, CORDON_E_POLICY, 0,
				  "%s: a variable's name must not be empty", key->name);
	if (len > ENV_NAME_MAX)
		return cordon_err(err, CORDON_E_POLICY, 0,
				  "%s: a variable's name is longer than %d bytes: '%.40s...'",
				  key->name, ENV_NAME_MAX, name);
	for (i = 0; i < len; i++) {
		unsigned char c = (unsigned char)name[i];

		if (c < 0x20 || c == 0x7f)
			return cordon_err(err, CORDON_E_POLICY, 0,
					  "%s: control character in the variable name '%.*s'",
					  key->name, (int)(len < 80 ? len : 80), name);
		if (c == '=')
			return cordon_err(err, CORDON_E_POLICY, 0,
					  "%s: a variable's name must not contain '=': '%.*s'",
					  key->name, (int)(len < 80 ? len : 80), name);
	}
	return 0;
}

static int put_env_name(struct cordon_policy *policy, const struct policy_key *key,
			const char *text, struct cordon_error *err)
{
	const char *star = strchr(text, '*');
	int r = check_env_name(key, text, strlen(text), err);

	if (r < 0)
		return r;
	if (star && star[1] != '\0')
		return cordon_err(err, CORDON_E_POLICY, 0, "%s: '*' may only end a name: '%.80s'",
				  key->name, text);
	if (star == text)
		return cordon_err(err, CORDON_E_POLICY, 0,
				  "%s: '*' alone would pass every variable with its secrets; give "
				  "names or a prefix",
				  key->name);
	return policy_add_entry(policy, key, text, err);
}

/* The later value of a name replaces the earlier one in its position. */
static int put_env_value(struct cordon_policy *policy, const struct policy_key *key,
			 const char *text, struct cordon_error *err)
{
	struct strlist *list = policy_list(policy, key);
	const char *equals = strchr(text, '='), *copy;
	size_t name_len, i;
	int r;

	if (!equals)
		return cordon_err(err, CORDON_E_POLICY, 0, "%s: '%.80s' is not NAME=VALUE",
				  key->name, text);
	name_len = (size_t)(equals - text);
	r = check_env_name(key, text, name_len, err);
	if (r < 0)
		return r;
	if (strlen(text) >= ENV_ENTRY_MAX)
		return cordon_err(err, CORDON_E_POLICY, 0, "%s: the value of '%.*s' is too long",
				  key->name, (int)name_len, text);
	for (i = 0; i < list->n; i++) {
		if (strncmp(list->v[i], text, name_len + 1) != 0)
			continue;
		copy = arena_strdup(&policy->arena, text);
		if (!copy)
			return policy_nomem(err);
		list->v[i] = copy;
		return 0;
	}
	return policy_add_entry(policy, key, text, err);
}

static int unknown_name(const struct policy_key *key, const char *text, const char *what,
			const char *const *names, size_t n_names, struct cordon_error *err)
{
	const char *best = nearest_in_list(text, names, n_names);

	if (best)
		return cordon_err(err, CORDON_E_POLICY, 0,
				  "%s: unknown %s '%.40s' (did you mean '%s'?)", key->name, what,
				  text, best);
	cordon_err(err, CORDON_E_POLICY, 0, "%s: unknown %s '%.40s'", key->name, what, text);
	for (size_t i = 0; i < n_names && err; i++)
		cordon_err_hint(err, "%s%s%s%s", err->hint[0] ? err->hint : what,
				err->hint[0] ? "" : "s: ", i ? ", " : "", names[i]);
	return -CORDON_E_POLICY;
}

static int put_choice(struct cordon_policy *policy, const struct policy_key *key, const char *text,
		      const char *const *names, size_t n_names, struct cordon_error *err)
{
	size_t i;

	for (i = 0; i < n_names; i++) {
		if (strcmp(text, names[i]) == 0) {
			*policy_choice(policy, key) = (int)i;
			return 0;
		}
	}
	return unknown_name(key, text, "value", names, n_names, err);
}

static int put_layer(struct cordon_policy *policy, const struct policy_key *key, const char *text,
		     struct cordon_error *err)
{
	static const char with_abi[] = "landlock:";
	int64_t abi;
	size_t i;
	int r;

	for (i = 0; i < policy_layer_names_count; i++)
		if (strcmp(text, policy_layer_names[i]) == 0)
			return policy_add_entry(policy, key, text, err);
	if (strncmp(text, with_abi, sizeof(with_abi) - 1) == 0) {
		r = units_parse_count(text + sizeof(with_abi) - 1, &abi, err);
		if (r < 0) {
			cordon_err_prefix(err, "%s: %.40s", key->name, text);
			return r;
		}
		if (abi < 1 || abi > LANDLOCK_ABI_MAX)
			return cordon_err(err, CORDON_E_POLICY, 0,
					  "%s: '%.40s' is no version of Landlock's interface",
					  key->name, text);
		return policy_add_entry(policy, key, text, err);
	}
	return unknown_name(key, text, "layer", policy_layer_names, policy_layer_names_count, err);
}

static int put_limit_name(struct cordon_policy *policy, const struct policy_key *key,
			  const char *text, struct cordon_error *err)
{
	for (size_t i = 0; i < policy_limit_names_count; i++)
		if (strcmp(text, policy_limit_names[i]) == 0)
			return policy_add_entry(policy, key, text, err);
	return unknown_name(key, text, "limit", policy_limit_names, policy_limit_names_count, err);
}

static int check_id(const struct policy_key *key, const char *what, const char *text,
		    struct cordon_error *err)
{
	int64_t id;
	int r = units_parse_count(text, &id, err);

	if (r < 0) {
		cordon_err_prefix(err, "%s: %s", key->name, what);
		return r;
	}
	if (id == 0)
		return cordon_err(err, CORDON_E_POLICY, 0,
				  "%s: %s 0 is root, which a sandbox never is", key->name, what);
	if (id > ID_MAX)
		return cordon_err(err, CORDON_E_POLICY, 0, "%s: %s %.24s is too large", key->name,
				  what, text);
	return 0;
}

static int put_user(struct cordon_policy *policy, const struct policy_key *key, const char *text,
		    struct cordon_error *err)
{
	const char *colon = strchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : strlen(text);
	char uid[24];
	int r;

	if (len >= sizeof(uid))
		return cordon_err(err, CORDON_E_POLICY, 0, "%s: '%.40s' is not UID[:GID]",
				  key->name, text);
	memcpy(uid, text, len);
	uid[len] = '\0';
	r = check_id(key, "user id", uid, err);
	if (r == 0 && colon)
		r = check_id(key, "group id", colon + 1, err);
	return r < 0 ? r : put_string(policy, key, text, err);
}

static void format_number(const struct policy_key *key, int64_t value, char ret[UNITS_TEXT_MAX])
{
	if (key->type == POLICY_TYPE_DURATION)
		units_format_duration(value, ret);
	else if (key->type == POLICY_TYPE_SIZE)
		units_format_size(value, ret);
	else if (key->type == POLICY_TYPE_SHARE)
		units_format_share(value, ret);
	else
		snprintf(ret, UNITS_TEXT_MAX, "%lld", (long long)value);
}

static int put_number(struct cordon_policy *policy, const struct policy_key *key, int64_t value,
		      struct cordon_error *err)
{
	char limit[UNITS_TEXT_MAX], given[UNITS_TEXT_MAX];
	int too_small = value < key->min;

	if (!too_small && value <= key->max) {
		*policy_number(policy, key) = value;
		return 0;
	}
	if (value < 0)
		return cordon_err(err, CORDON_E_POLICY, 0, "%s must not be negative", key->name);
	format_number(key, too_small ? key->min : key->max, limit);
	format_number(key, value, given);
	return cordon_err(err, CORDON_E_POLICY, 0, "%s must be at %s %s, not %s", key->name,
			  too_small ? "least" : "most", limit, given);
}

static int put_number_text(struct cordon_policy *policy, const struct policy_key *key,
			   const char *text, struct cordon_error *err)
{
	int64_t value = 0;
	int r;

	if (key->type == POLICY_TYPE_DURATION)
		r = units_parse_duration(text, &value, err);
	else if (key->type == POLICY_TYPE_SIZE)
		r = units_parse_size(text, &value, err);
	else if (key->type == POLICY_TYPE_SHARE)
		r = units_parse_share(text, &value, err);
	else
		r = units_parse_count(text, &value, err);
	if (r < 0) {
		cordon_err_prefix(err, "%s", key->name);
		return r;
	}
	return put_number(policy, key, value, err);
}

int policy_put_int(struct cordon_policy *policy, const struct policy_key *key, int64_t value,
		   struct cordon_error *err)
{
	if ((key->type == POLICY_TYPE_DURATION || key->type == POLICY_TYPE_SHARE) &&
	    __builtin_mul_overflow(value, 1000, &value))
		return cordon_err(err, CORDON_E_POLICY, 0, "%s is too large", key->name);
	return put_number(policy, key, value, err);
}

void policy_put_bool(struct cordon_policy *policy, const struct policy_key *key, int value)
{
	*policy_choice(policy, key) = value ? 1 : 0;
}

int policy_put(struct cordon_policy *policy, const struct policy_key *key, const char *text,
	       const char *base_dir, struct cordon_error *err)
{
	static const char *const switches[] = { "off", "on" };

	switch (key->type) {
	case POLICY_TYPE_PATHS:
	case POLICY_TYPE_PATH:
		return put_path(policy, key, text, base_dir, err);
	case POLICY_TYPE_COMMANDS:
		return put_command(policy, key, text, base_dir, err);
	case POLICY_TYPE_BOOL:
		return put_choice(policy, key, text, switches, ARRAY_SIZE(switches), err);
	case POLICY_TYPE_PROTECT:
		return put_choice(policy, key, text, policy_protect_names, POLICY_PROTECT_MAX, err);
	case POLICY_TYPE_LEVEL:
		return put_choice(policy, key, text, policy_level_names, CORDON_LEVEL_MAX, err);
	case POLICY_TYPE_ENV_NAMES:
		return put_env_name(policy, key, text, err);
	case POLICY_TYPE_ENV_VALUES:
		return put_env_value(policy, key, text, err);
	case POLICY_TYPE_DURATION:
	case POLICY_TYPE_COUNT:
	case POLICY_TYPE_SIZE:
	case POLICY_TYPE_SHARE:
		return put_number_text(policy, key, text, err);
	case POLICY_TYPE_LAYERS:
		return put_layer(policy, key, text, err);
	case POLICY_TYPE_LIMITS:
		return put_limit_name(policy, key, text, err);
	case POLICY_TYPE_NET_RULES:
		return policy_put_net_rule(policy, key, text, err);
	case POLICY_TYPE_PUBLISH:
		return policy_put_publish(policy, key, text, err);
	case POLICY_TYPE_USER:
		return put_user(policy, key, text, err);
	case POLICY_TYPE_GPU:
		return policy_put_gpu(policy, key, text, err);
	case POLICY_TYPE_MAX:
		break;
	}
	return cordon_err(err, CORDON_E_STATE, 0, "key '%s' has no type", key->name);
}

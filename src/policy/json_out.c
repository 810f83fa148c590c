/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies as canonical JSON: keys in the order of the table, only what was set, each value in its
 * shortest form. Reading the text gives the same policy again.
 */
#include <string.h>

#include "base/err.h"
#include "base/json_write.h"
#include "base/units.h"
#include "policy/policy_internal.h"

int policy_is_set(const struct cordon_policy *policy, const struct policy_key *key)
{
	const void *at = (const char *)policy + key->offset;

	if (key->type == POLICY_TYPE_COMMANDS)
		return policy->commands_set;
	if (policy_type_is_list(key->type))
		return ((const struct strlist *)at)->n > 0;
	if (policy_type_is_string(key->type))
		return *(const char *const *)at != NULL;
	if (key->type == POLICY_TYPE_BOOL || key->type == POLICY_TYPE_PROTECT ||
	    key->type == POLICY_TYPE_LEVEL)
		return *(const int *)at >= 0;
	return *(const int64_t *)at >= 0;
}

static void write_list(struct json_writer *w, const char *name, const struct strlist *list)
{
	size_t i;

	json_open_array(w, name);
	for (i = 0; i < list->n; i++)
		json_string(w, NULL, list->v[i]);
	json_close_array(w);
}

/* NAME=VALUE entries; the longest name that is accepted fits. */
static void write_env(struct json_writer *w, const char *name, const struct strlist *list)
{
	char variable[256];
	size_t i;

	json_open_object(w, name);
	for (i = 0; i < list->n; i++) {
		const char *equals = strchr(list->v[i], '=');
		size_t len = equals ? (size_t)(equals - list->v[i]) : 0;

		if (len == 0 || len >= sizeof(variable))
			continue;
		memcpy(variable, list->v[i], len);
		variable[len] = '\0';
		json_string(w, variable, equals + 1);
	}
	json_close_object(w);
}

void policy_write_value(struct json_writer *w, const struct cordon_policy *policy,
			const struct policy_key *key, const char *name)
{
	const void *at = (const char *)policy + key->offset;
	char text[UNITS_TEXT_MAX];

	switch (key->type) {
	case POLICY_TYPE_PATHS:
	case POLICY_TYPE_ENV_NAMES:
	case POLICY_TYPE_COMMANDS:
	case POLICY_TYPE_LAYERS:
	case POLICY_TYPE_LIMITS:
	case POLICY_TYPE_NET_RULES:
	case POLICY_TYPE_PUBLISH:
		write_list(w, name, at);
		break;
	case POLICY_TYPE_ENV_VALUES:
		write_env(w, name, at);
		break;
	case POLICY_TYPE_BOOL:
		json_bool(w, name, *(const int *)at);
		break;
	case POLICY_TYPE_PROTECT:
		if (*(const int *)at == POLICY_PROTECT_EXISTING)
			json_string(w, name, policy_protect_names[*(const int *)at]);
		else
			json_bool(w, name, *(const int *)at);
		break;
	case POLICY_TYPE_LEVEL:
		json_string(w, name, policy_level_names[*(const int *)at]);
		break;
	case POLICY_TYPE_PATH:
	case POLICY_TYPE_USER:
	case POLICY_TYPE_GPU:
		json_string(w, name, *(const char *const *)at);
		break;
	case POLICY_TYPE_COUNT:
		json_int(w, name, *(const int64_t *)at);
		break;
	case POLICY_TYPE_DURATION:
		json_string(w, name, units_format_duration(*(const int64_t *)at, text));
		break;
	case POLICY_TYPE_SIZE:
		json_string(w, name, units_format_size(*(const int64_t *)at, text));
		break;
	case POLICY_TYPE_SHARE:
		json_raw(w, name, units_format_share(*(const int64_t *)at, text));
		break;
	case POLICY_TYPE_MAX:
		break;
	}
}

/* Length of the "group" in "group.key", 0 if there is none. */
static size_t group_len(const struct policy_key *key)
{
	const char *dot = strchr(key->name, '.');

	return dot ? (size_t)(dot - key->name) : 0;
}

static void write_policy(struct json_writer *w, const struct cordon_policy *policy)
{
	const char *open = NULL; /* name of a key in the open group */
	size_t open_len = 0, i;

	for (i = 0; i < policy_keys_count; i++) {
		const struct policy_key *key = &policy_keys[i];
		size_t len = group_len(key);

		if (!policy_is_set(policy, key))
			continue;
		if (open && (len != open_len || strncmp(open, key->name, len) != 0)) {
			json_close_object(w);
			open = NULL;
		}
		if (len > 0 && !open) {
			char group[32];

			memcpy(group, key->name, len);
			group[len] = '\0';
			json_open_object(w, group);
			open = key->name;
			open_len = len;
		}
		policy_write_value(w, policy, key, len ? key->name + len + 1 : key->name);
	}
	if (open)
		json_close_object(w);
}

int cordon_policy_to_json(const struct cordon_policy *policy, char **ret, struct cordon_error *err)
{
	struct strbuf out = STRBUF_INIT;
	struct json_writer w;
	char *text;

	if (!policy || !ret)
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "cordon_policy_to_json: an argument is NULL");
	json_writer_init(&w, &out, 1);
	json_open_object(&w, NULL);
	write_policy(&w, policy);
	json_close_object(&w);
	text = strbuf_take(&out);
	if (!text)
		return policy_nomem(err);
	*ret = text;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What several policies add up to, value by value, and which of them each value comes from. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json_write.h"
#include "policy/policy_internal.h"

#define FROM_DEFAULT "default"

struct teller {
	const struct cordon_policy *const *sources;
	const char *const *names;
	size_t n;
	void (*tell)(void *arg, const struct cordon_policy_setting *setting);
	void *arg;
};

static const struct strlist *list_of(const struct cordon_policy *policy,
				     const struct policy_key *key)
{
	return (const struct strlist *)(const void *)((const char *)policy + key->offset);
}

/* Of a variable the last value counts, of other entries the first mention. */
static bool is_said_elsewhere(const struct teller *t, const struct policy_key *key, size_t source,
			      size_t entry)
{
	const char *text = list_of(t->sources[source], key)->v[entry];
	bool is_env = key->type == POLICY_TYPE_ENV_VALUES;
	size_t len = is_env ? strcspn(text, "=") + 1 : 0;

	for (size_t i = is_env ? source + 1 : 0; i < (is_env ? t->n : source); i++) {
		const struct strlist *list = list_of(t->sources[i], key);

		for (size_t j = 0; j < list->n; j++)
			if (is_env ? strncmp(list->v[j], text, len) == 0
				   : strcmp(list->v[j], text) == 0)
				return true;
	}
	return false;
}

static void tell(const struct teller *t, const struct policy_key *key, const char *value,
		 const char *from)
{
	const struct cordon_policy_setting setting = {
		.key = key->name,
		.value = value,
		.from = from,
		.flag = key->flag,
		.default_text = key->default_text,
	};

	t->tell(t->arg, &setting);
}

/* What a run can see and gets in its environment by default it also has if there is more. */
static bool adds_to_default(const struct policy_key *key)
{
	return key->type == POLICY_TYPE_ENV_NAMES || key->type == POLICY_TYPE_ENV_VALUES ||
	       key->offset == offsetof(struct cordon_policy, fs_read) ||
	       key->offset == offsetof(struct cordon_policy, fs_write);
}

/* A workspace takes the place of what a preset grants (policy_settle_here()). */
static bool is_replaced(const struct teller *t, const struct policy_key *key, size_t source,
			const char *text)
{
	if (key->offset != offsetof(struct cordon_policy, fs_write) ||
	    !t->sources[source]->here_is_presets || strcmp(text, POLICY_HERE) != 0)
		return false;
	for (size_t i = 0; i < t->n; i++)
		if (t->sources[i]->workspace)
			return true;
	return false;
}

static void tell_list(const struct teller *t, const struct policy_key *key)
{
	bool is_set = false;

	for (size_t i = 0; i < t->n; i++) {
		const struct strlist *list = list_of(t->sources[i], key);

		if (policy_is_set(t->sources[i], key) && list->n == 0)
			tell(t, key, "", t->names[i]); /* commands: none but the command */
		for (size_t j = 0; j < list->n; j++)
			if (!is_said_elsewhere(t, key, i, j) && !is_replaced(t, key, i, list->v[j]))
				tell(t, key, list->v[j], t->names[i]);
		is_set |= policy_is_set(t->sources[i], key);
	}
	if (!is_set || adds_to_default(key))
		tell(t, key, NULL, FROM_DEFAULT);
}

/* The value as a flag takes it: JSON without quotes, and switches by their words. */
static char *value_text(const struct cordon_policy *policy, const struct policy_key *key)
{
	struct strbuf out = STRBUF_INIT;
	struct json_writer w;
	char *text;
	size_t len;

	if (policy_type_is_string(key->type))
		return strdup(
			*(const char *const *)(const void *)((const char *)policy + key->offset));
	json_writer_init(&w, &out, 0);
	policy_write_value(&w, policy, key, NULL);
	text = strbuf_take(&out);
	len = text ? strlen(text) : 0;
	if (len > 1 && text[0] == '"') {
		text[len - 1] = '\0';
		memmove(text, text + 1, len - 1);
	} else if (text && strcmp(text, "true") == 0) {
		memcpy(text, "on", 3);
	} else if (text && strcmp(text, "false") == 0) {
		memcpy(text, "off", 4);
	}
	return text;
}

static int tell_single(const struct teller *t, const struct policy_key *key)
{
	size_t i = t->n;
	char *text;

	while (i > 0 && !policy_is_set(t->sources[i - 1], key))
		i--;
	if (i == 0) {
		tell(t, key, NULL, FROM_DEFAULT);
		return 0;
	}
	text = value_text(t->sources[i - 1], key);
	if (!text)
		return -1;
	tell(t, key, text, t->names[i - 1]);
	free(text);
	return 0;
}

int cordon_policy_settings(const struct cordon_policy *const *sources, const char *const *names,
			   size_t n,
			   void (*call)(void *arg, const struct cordon_policy_setting *setting),
			   void *arg, struct cordon_error *err)
{
	const struct teller t = {
		.sources = sources, .names = names, .n = n, .tell = call, .arg = arg
	};

	if (!call || (n > 0 && (!sources || !names)))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "cordon_policy_settings: an argument is NULL");
	for (size_t i = 0; i < policy_keys_count; i++) {
		const struct policy_key *key = &policy_keys[i];

		if (policy_type_is_list(key->type))
			tell_list(&t, key);
		else if (tell_single(&t, key) < 0)
			return policy_nomem(err);
	}
	return 0;
}

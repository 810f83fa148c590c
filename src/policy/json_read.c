/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON documents.
 *
 * base/json_read.h turns the text into a tree; the table of keys decides here what the tree may
 * contain. A document is read into a temporary policy, which is merged only if all of it is valid.
 * The reader keeps its position for error messages.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json_read.h"
#include "policy/policy_internal.h"

#define KEY_NAME_MAX 128
#define DOCUMENT_VERSION 1

struct reader {
	struct cordon_policy *policy;
	const char *base_dir;
	struct cordon_error *err;
	unsigned line, column;
};

static void at_key(struct reader *rd, const struct json_value *value)
{
	rd->line = value->key_line;
	rd->column = value->key_column;
}

static void at_value(struct reader *rd, const struct json_value *value)
{
	rd->line = value->line;
	rd->column = value->column;
}

static const char *number_name(const char *text)
{
	if (strchr(text, '.'))
		return "a number with a point";
	return strpbrk(text, "eE") ? "a number with an exponent" : "a number beyond 64 bits";
}

static const char *type_name(const struct json_value *value)
{
	switch (value->type) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "a list";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "a whole number";
	case JSON_NUMBER:
		return number_name(value->text);
	case JSON_TRUE:
	case JSON_FALSE:
		return "true or false";
	case JSON_NULL:
		return "null";
	case JSON_MAX:
		break;
	}
	return "something else";
}

static int wrong_type(struct reader *rd, const char *name, const char *wanted,
		      const struct json_value *value)
{
	at_value(rd, value);
	return cordon_err(rd->err, CORDON_E_POLICY, 0, "%s must be %s, not %s", name, wanted,
			  type_name(value));
}

static int read_list(struct reader *rd, const struct policy_key *key,
		     const struct json_value *value)
{
	const struct json_value *entry;
	int r;

	if (value->type == JSON_STRING) {
		wrong_type(rd, key->name, "a list of strings", value);
		cordon_err_hint(rd->err, "put it in brackets: [\"%.80s\"]", value->text);
		return -CORDON_E_POLICY;
	}
	if (value->type != JSON_ARRAY)
		return wrong_type(rd, key->name, "a list of strings", value);
	policy_touch(rd->policy, key);
	for (entry = value->first; entry; entry = entry->next) {
		at_value(rd, entry);
		if (entry->type != JSON_STRING)
			return wrong_type(rd, key->name, "a list of strings", entry);
		r = policy_put(rd->policy, key, entry->text, rd->base_dir, rd->err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_env(struct reader *rd, const struct policy_key *key, const struct json_value *value)
{
	const struct json_value *var;
	int r;

	if (value->type != JSON_OBJECT)
		return wrong_type(rd, key->name, "an object of strings", value);
	for (var = value->first; var; var = var->next) {
		const char *entry;

		at_key(rd, var);
		if (strchr(var->key, '='))
			return cordon_err(rd->err, CORDON_E_POLICY, 0,
					  "%s: a variable's name must not contain '=': '%.80s'",
					  key->name, var->key);
		if (var->type != JSON_STRING) {
			char full[KEY_NAME_MAX];

			snprintf(full, sizeof(full), "%s.%s", key->name, var->key);
			return wrong_type(rd, full, "a string", var);
		}
		entry = arena_printf(&rd->policy->arena, "%s=%s", var->key, var->text);
		r = entry ? policy_put(rd->policy, key, entry, NULL, rd->err)
			  : policy_nomem(rd->err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_number(struct reader *rd, const struct policy_key *key,
		       const struct json_value *value)
{
	if (value->type == JSON_INTEGER)
		return policy_put_int(rd->policy, key, value->integer, rd->err);
	/* A share is written as a plain number, and parsed from its text. */
	if (key->type == POLICY_TYPE_SHARE && value->type == JSON_NUMBER)
		return policy_put(rd->policy, key, value->text, NULL, rd->err);
	if (key->type == POLICY_TYPE_SHARE)
		return wrong_type(rd, key->name, "a number such as 0.5", value);
	if (key->type == POLICY_TYPE_COUNT)
		return wrong_type(rd, key->name, "a whole number", value);
	if (value->type == JSON_STRING)
		return policy_put(rd->policy, key, value->text, NULL, rd->err);
	if (key->type == POLICY_TYPE_DURATION)
		return wrong_type(rd, key->name, "a duration such as \"1.5s\" or whole seconds",
				  value);
	return wrong_type(rd, key->name, "a size such as \"1.5M\" or whole bytes", value);
}

static int read_value(struct reader *rd, const struct policy_key *key,
		      const struct json_value *value)
{
	at_value(rd, value);
	switch (key->type) {
	case POLICY_TYPE_PATHS:
	case POLICY_TYPE_ENV_NAMES:
	case POLICY_TYPE_COMMANDS:
	case POLICY_TYPE_LAYERS:
	case POLICY_TYPE_LIMITS:
	case POLICY_TYPE_NET_RULES:
	case POLICY_TYPE_PUBLISH:
		return read_list(rd, key, value);
	case POLICY_TYPE_ENV_VALUES:
		return read_env(rd, key, value);
	case POLICY_TYPE_DURATION:
	case POLICY_TYPE_COUNT:
	case POLICY_TYPE_SIZE:
	case POLICY_TYPE_SHARE:
		return read_number(rd, key, value);
	case POLICY_TYPE_BOOL:
		if (value->type != JSON_TRUE && value->type != JSON_FALSE)
			return wrong_type(rd, key->name, "true or false", value);
		policy_put_bool(rd->policy, key, value->type == JSON_TRUE);
		return 0;
	case POLICY_TYPE_PROTECT:
		if (value->type == JSON_STRING)
			break;
		if (value->type != JSON_TRUE && value->type != JSON_FALSE)
			return wrong_type(rd, key->name, "on, existing or off", value);
		policy_put_bool(rd->policy, key, value->type == JSON_TRUE);
		return 0;
	case POLICY_TYPE_PATH:
	case POLICY_TYPE_LEVEL:
	case POLICY_TYPE_USER:
	case POLICY_TYPE_GPU:
	case POLICY_TYPE_MAX:
		break;
	}
	if (value->type != JSON_STRING)
		return wrong_type(rd, key->name, "a string", value);
	return policy_put(rd->policy, key, value->text, rd->base_dir, rd->err);
}

static int unknown_key(struct reader *rd, const char *name, int is_flat)
{
	int r;

	if (is_flat && policy_key_find(name)) {
		r = cordon_err(rd->err, CORDON_E_POLICY, 0, "unknown key '%s'", name);
		cordon_err_hint(rd->err, "nest it: {\"%.*s\": {\"%s\": ...}}",
				(int)strcspn(name, "."), name, strchr(name, '.') + 1);
		return r;
	}
	r = policy_unknown_key(name, rd->err);
	if (strcmp(name, "policy") == 0)
		cordon_err_hint(rd->err, "the JSON of 'cordon policy show' has the policy as its "
					 "member 'policy': jq .policy");
	return r;
}

/* The keys of one group. */
static int read_group(struct reader *rd, const char *group, const struct json_value *object)
{
	char full[KEY_NAME_MAX];
	const struct json_value *value;
	int r;

	if (object->type != JSON_OBJECT)
		return wrong_type(rd, group, "an object", object);
	for (value = object->first; value; value = value->next) {
		const struct policy_key *key = NULL;

		at_key(rd, value);
		if (snprintf(full, sizeof(full), "%s.%s", group, value->key) < (int)sizeof(full))
			key = policy_key_find(full);
		if (!key)
			return policy_unknown_key(full, rd->err);
		r = read_value(rd, key, value);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_presets(struct reader *rd, const struct json_value *value)
{
	const struct json_value *entry;
	int r;

	if (!value)
		return 0;
	at_value(rd, value);
	if (value->type == JSON_STRING)
		return cordon_policy_preset(rd->policy, value->text, rd->err);
	if (value->type != JSON_ARRAY)
		return wrong_type(rd, "preset", "a name or a list of names", value);
	if (value->integer > POLICY_LIST_MAX)
		return cordon_err(rd->err, CORDON_E_POLICY, 0, "preset has more than %d entries",
				  POLICY_LIST_MAX);
	for (entry = value->first; entry; entry = entry->next) {
		at_value(rd, entry);
		if (entry->type != JSON_STRING)
			return wrong_type(rd, "preset", "a name or a list of names", entry);
		r = cordon_policy_preset(rd->policy, entry->text, rd->err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The keys of a document that are not settings. 1 = it was one of them. */
static int read_header(struct reader *rd, const struct json_value *value)
{
	const char *name = value->key;

	at_value(rd, value);
	if (strcmp(name, "preset") == 0)
		return 1;
	if (strcmp(name, "$schema") == 0)
		return value->type == JSON_STRING ? 1 : wrong_type(rd, name, "a string", value);
	if (strcmp(name, "version") != 0)
		return 0;
	if (value->type != JSON_INTEGER)
		return wrong_type(rd, name, "a whole number", value);
	if (value->integer != DOCUMENT_VERSION)
		return cordon_err(rd->err, CORDON_E_POLICY, 0, "version %lld is not known, only %d",
				  (long long)value->integer, DOCUMENT_VERSION);
	return 1;
}

static int read_document(struct reader *rd, const struct json_value *root)
{
	const struct json_value *value;
	int r;

	if (root->type != JSON_OBJECT)
		return wrong_type(rd, "a policy", "an object", root);
	/* First, wherever it is: the rest of the document builds on the preset. */
	r = read_presets(rd, json_get(root, "preset"));
	if (r < 0)
		return r;
	for (value = root->first; value; value = value->next) {
		const char *name = value->key;
		const struct policy_key *key;

		r = read_header(rd, value);
		if (r < 0)
			return r;
		if (r == 1)
			continue;
		at_key(rd, value);
		key = strchr(name, '.') ? NULL : policy_key_find(name);
		if (key)
			r = read_value(rd, key, value);
		else if (policy_key_is_group(name))
			r = read_group(rd, name, value);
		else
			r = unknown_key(rd, name, strchr(name, '.') != NULL);
		if (r < 0)
			return r;
	}
	return 0;
}

int cordon_policy_json(struct cordon_policy *policy, const char *text, size_t len, const char *name,
		       const char *base_dir, struct cordon_error *err)
{
	struct cordon_policy document;
	struct reader rd = { .policy = &document, .base_dir = base_dir, .err = err };
	struct arena tree = ARENA_INIT;
	const struct json_value *root = NULL;
	int r;

	if (!policy || !text || (base_dir && !*base_dir))
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "cordon_policy_json: an argument is empty");
	if (!name)
		name = "policy";
	if (len > POLICY_FILE_MAX)
		return cordon_err(err, CORDON_E_POLICY, 0, "%.100s: larger than %zu bytes", name,
				  POLICY_FILE_MAX);
	if (len == 0)
		return cordon_err(err, CORDON_E_POLICY, 0, "%.100s: the document is empty", name);
	r = json_read(text, len, name, &tree, &root, err);
	if (r < 0) {
		arena_done(&tree);
		return r;
	}
	policy_init(&document);
	r = read_document(&rd, root);
	if (r < 0)
		cordon_err_prefix(err, "%.100s:%u:%u", name, rd.line, rd.column);
	arena_done(&tree);
	if (r == 0) {
		r = policy_merge(policy, &document, err);
		if (r < 0)
			cordon_err_prefix(err, "%.100s", name);
	}
	policy_done(&document);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema, derived from the table of keys and compared with what the library gives out and with
 * the published file. CORDON_UPDATE=1 writes both anew instead.
 */
#include <errno.h>
#include <limits.h>

#include <cordon/run.h>

#include "base/json_write.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "format/gateway.h"
#include "net/rule.h"
#include "policy/keys.h"
#include "policy/policy.h"
#include "policy/presets.h"
#include "tap.h"

static void open_item(struct json_writer *w, const struct policy_key *key, const char *name,
		      const char *type)
{
	char text[512];

	json_open_object(w, name);
	snprintf(text, sizeof(text), "%s Default: %s.", key->doc, key->default_text);
	json_string(w, "description", text);
	json_string(w, "type", type);
}

static void write_path_limits(struct json_writer *w)
{
	json_string(w, "type", "string");
	json_int(w, "minLength", 1);
	json_int(w, "maxLength", PATH_MAX - 1);
}

static void write_items(struct json_writer *w, enum policy_type type)
{
	int max = POLICY_LIST_MAX;

	if (type == POLICY_TYPE_NET_RULES)
		max = NET_RULES_MAX;
	else if (type == POLICY_TYPE_PUBLISH)
		max = GATEWAY_PUBLISH_MAX;
	json_int(w, "maxItems", max);
	json_open_object(w, "items");
	if (type == POLICY_TYPE_ENV_NAMES) {
		json_string(w, "type", "string");
		json_string(w, "pattern", "^[^=*\\u0000-\\u001f\\u007f]+\\*?$");
	} else if (type == POLICY_TYPE_LAYERS) {
		struct strbuf pattern = STRBUF_INIT;
		char *text;

		strbuf_puts(&pattern, "^(");
		for (size_t i = 0; i < policy_layer_names_count; i++)
			strbuf_printf(&pattern, "%s|", policy_layer_names[i]);
		strbuf_puts(&pattern, "landlock:[1-9][0-9]{0,2})$");
		text = strbuf_take(&pattern);
		json_string(w, "type", "string");
		json_string(w, "pattern", text);
		free(text);
	} else if (type == POLICY_TYPE_LIMITS) {
		json_open_array(w, "enum");
		for (size_t i = 0; i < policy_limit_names_count; i++)
			json_string(w, NULL, policy_limit_names[i]);
		json_close_array(w);
	} else if (type == POLICY_TYPE_NET_RULES) {
		json_string(w, "type", "string");
		json_int(w, "maxLength", NET_RULE_TEXT_MAX - 1);
		json_string(w, "pattern", "^[0-9A-Za-z_.:,*/\\[\\]-]+$");
	} else if (type == POLICY_TYPE_PUBLISH) {
		json_string(w, "type", "string");
		json_string(w, "pattern",
			    "^(((\\[[0-9A-Fa-f:.]+\\]|[0-9.]+):)?[0-9]{1,5}:)?"
			    "[1-9][0-9]{0,4}(/(tcp|udp))?$");
	} else {
		write_path_limits(w);
	}
	json_close_object(w);
}

/* A number with a unit as text, or a whole one without. */
static void write_quantity(struct json_writer *w, const struct policy_key *key, const char *name)
{
	int64_t unit = key->type == POLICY_TYPE_DURATION ? 1000 : 1;
	char text[512];

	json_open_object(w, name);
	snprintf(text, sizeof(text), "%s Default: %s.", key->doc, key->default_text);
	json_string(w, "description", text);
	json_open_array(w, "type");
	json_string(w, NULL, "string");
	json_string(w, NULL, "integer");
	json_close_array(w);
	json_string(w, "pattern",
		    key->type == POLICY_TYPE_DURATION
			    ? "^[0-9]+(\\.[0-9]{1,9})?(ms|s|m|h)?$"
			    : "^[0-9]+(\\.[0-9]{1,9})?([KMGTkmgt](iB)?|B)?$");
	json_int(w, "minimum", key->min == 0 ? 0 : (key->min + unit - 1) / unit);
	json_int(w, "maximum", key->max / unit);
	json_close_object(w);
}

/* A name, or what it was before there were three of them. */
static void write_protect(struct json_writer *w, const struct policy_key *key, const char *name)
{
	char text[512];

	json_open_object(w, name);
	snprintf(text, sizeof(text), "%s Default: %s.", key->doc, key->default_text);
	json_string(w, "description", text);
	json_open_array(w, "enum");
	json_bool(w, NULL, 1);
	json_bool(w, NULL, 0);
	for (int i = 0; i < POLICY_PROTECT_MAX; i++)
		json_string(w, NULL, policy_protect_names[i]);
	json_close_array(w);
	json_close_object(w);
}

static void write_key(struct json_writer *w, const struct policy_key *key, const char *name)
{
	char share[UNITS_TEXT_MAX];

	switch (key->type) {
	case POLICY_TYPE_PATHS:
	case POLICY_TYPE_COMMANDS:
	case POLICY_TYPE_ENV_NAMES:
	case POLICY_TYPE_LAYERS:
	case POLICY_TYPE_LIMITS:
	case POLICY_TYPE_NET_RULES:
	case POLICY_TYPE_PUBLISH:
		open_item(w, key, name, "array");
		write_items(w, key->type);
		break;
	case POLICY_TYPE_ENV_VALUES:
		open_item(w, key, name, "object");
		json_int(w, "maxProperties", POLICY_LIST_MAX);
		json_open_object(w, "propertyNames");
		json_string(w, "pattern", "^[^=\\u0000-\\u001f\\u007f]+$");
		json_close_object(w);
		json_open_object(w, "additionalProperties");
		json_string(w, "type", "string");
		json_close_object(w);
		break;
	case POLICY_TYPE_BOOL:
		open_item(w, key, name, "boolean");
		break;
	case POLICY_TYPE_PROTECT:
		write_protect(w, key, name);
		return;
	case POLICY_TYPE_PATH:
		open_item(w, key, name, "string");
		json_int(w, "minLength", 1);
		json_int(w, "maxLength", PATH_MAX - 1);
		break;
	case POLICY_TYPE_COUNT:
		open_item(w, key, name, "integer");
		json_int(w, "minimum", key->min);
		json_int(w, "maximum", key->max);
		break;
	case POLICY_TYPE_DURATION:
	case POLICY_TYPE_SIZE:
		write_quantity(w, key, name);
		return;
	case POLICY_TYPE_SHARE:
		open_item(w, key, name, "number");
		json_raw(w, "minimum", units_format_share(key->min, share));
		json_raw(w, "maximum", units_format_share(key->max, share));
		break;
	case POLICY_TYPE_LEVEL:
		open_item(w, key, name, "string");
		json_open_array(w, "enum");
		for (int i = 0; i < CORDON_LEVEL_MAX; i++)
			json_string(w, NULL, policy_level_names[i]);
		json_close_array(w);
		break;
	case POLICY_TYPE_USER:
		open_item(w, key, name, "string");
		json_string(w, "pattern", "^0*[1-9][0-9]*(:0*[1-9][0-9]*)?$");
		break;
	case POLICY_TYPE_GPU:
		open_item(w, key, name, "string");
		json_string(w, "pattern",
			    "^(all|none|([0-9]{1,2}|GPU-[0-9A-Fa-f-]+|renderD[0-9]{1,4})"
			    "(,([0-9]{1,2}|GPU-[0-9A-Fa-f-]+|renderD[0-9]{1,4}))*)$");
		break;
	case POLICY_TYPE_MAX:
		return;
	}
	json_close_object(w);
}

static void write_preset_names(struct json_writer *w, const char *key)
{
	json_open_object(w, key);
	json_open_array(w, "enum");
	for (size_t i = 0; i < policy_presets_count; i++)
		json_string(w, NULL, policy_presets[i].name);
	json_close_array(w);
	json_close_object(w);
}

static void write_header(struct json_writer *w)
{
	json_open_object(w, "$schema");
	json_string(w, "description", "Ignored; for editors.");
	json_string(w, "type", "string");
	json_close_object(w);
	json_open_object(w, "version");
	json_string(w, "description", "Version of the policy format.");
	json_int(w, "const", 1);
	json_close_object(w);
	json_open_object(w, "preset");
	json_string(w, "description", "Built-in policies that this one builds on; merged first.");
	json_open_array(w, "anyOf");
	write_preset_names(w, NULL);
	json_open_object(w, NULL);
	json_string(w, "type", "array");
	json_int(w, "maxItems", POLICY_LIST_MAX);
	write_preset_names(w, "items");
	json_close_object(w);
	json_close_array(w);
	json_close_object(w);
}

static void write_keys(struct json_writer *w)
{
	char group[32] = "";

	for (size_t i = 0; i < policy_keys_count; i++) {
		const char *name = policy_keys[i].name, *dot = strchr(name, '.');
		char next[32] = "";

		if (dot)
			snprintf(next, sizeof(next), "%.*s", (int)(dot - name), name);
		if (strcmp(group, next) != 0) {
			if (*group) {
				json_close_object(w);
				json_close_object(w);
			}
			if (*next) {
				json_open_object(w, next);
				json_string(w, "type", "object");
				json_bool(w, "additionalProperties", 0);
				json_open_object(w, "properties");
			}
			memcpy(group, next, sizeof(group));
		}
		write_key(w, &policy_keys[i], dot ? dot + 1 : name);
	}
}

static char *derive(void)
{
	struct strbuf out = STRBUF_INIT;
	struct json_writer w;

	json_writer_init(&w, &out, 1);
	json_open_object(&w, NULL);
	json_string(&w, "$schema", "https://json-schema.org/draft/2020-12/schema");
	json_string(&w, "title", "Cordon policy");
	json_string(&w, "description",
		    "What a run may do. Everything that is not named is closed. Relative paths are "
		    "relative to the file that names them.");
	json_string(&w, "type", "object");
	json_bool(&w, "additionalProperties", 0);
	json_open_object(&w, "properties");
	write_header(&w);
	write_keys(&w);
	json_close_object(&w);
	json_close_object(&w);
	strbuf_putc(&out, '\n');
	return strbuf_take(&out);
}

static const char *path_of(const char *name)
{
	static char path[PATH_MAX];
	const char *root = getenv("CORDON_SOURCE_ROOT");

	snprintf(path, sizeof(path), "%s/%s", root ? root : ".", name);
	return path;
}

static void test_library_text(void)
{
	char *want = derive();

	REQUIRE(want);
	if (getenv("CORDON_UPDATE")) {
		FILE *f = fopen(path_of("docs/policy.schema.json"), "w");

		REQUIRE(f);
		fputs(want, f);
		fclose(f);
	} else {
		CHECK_MSG(strcmp(cordon_policy_schema(), want) == 0,
			  "docs/policy.schema.json does not fit the table of keys; run this with "
			  "CORDON_UPDATE=1");
	}
	free(want);
}

static void test_published_file(void)
{
	char *want = derive(), *got = calloc(1, 1 << 16);
	FILE *f = fopen(path_of("docs/policy.schema.json"), "r");

	CHECK_MSG(f != NULL, "%s: %s", path_of("docs/policy.schema.json"), strerror(errno));
	if (f && want && got) {
		CHECK(fread(got, 1, (1 << 16) - 1, f) > 0);
		CHECK_MSG(strcmp(got, want) == 0, "docs/policy.schema.json is out of date");
	}
	if (f)
		fclose(f);
	free(got);
	free(want);
}

TAP_MAIN(test_library_text, test_published_file)

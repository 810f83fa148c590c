/* SPDX-License-Identifier: Apache-2.0 */
/* cordon policy: the effective policy and plan, checks of policy files, the schema. */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json_write.h"
#include "out.h"
#include "policy_show.h"
#include "verbs.h"

static int fail(const struct cordon_error *err)
{
	say_error(err);
	return status_of_error(err);
}

/* Adds a document the library made, and frees it. */
static void add_document(struct strbuf *sb, char *text)
{
	strbuf_puts(sb, text);
	cordon_free(text);
}

static int make_plan(const struct cordon_policy *policy, const struct parsed *args, char **ret,
		     struct cordon_error *err)
{
	struct cordon_launcher *launcher;
	struct cordon_run_options options;
	char home[PATH_MAX];
	int r;

	r = cordon_launcher_new(&launcher, err);
	if (r < 0)
		return r;
	run_options_init(&options, args, home, sizeof(home));
	r = cordon_plan_to_json(launcher, policy, &options, ret, err);
	cordon_launcher_free(launcher);
	return r;
}

static int show(const struct cordon_policy *policy, const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf sb = STRBUF_INIT;
	char *plan = NULL;
	char *text;

	/* A plan is JSON in any case. */
	if (!args->n_rest && !parsed_has(args, OPT_JSON)) {
		if (policy_show_text(args, &sb, &err) < 0) {
			strbuf_done(&sb);
			return fail(&err);
		}
		return out_finish(&sb, 0);
	}
	if (args->n_rest && make_plan(policy, args, &plan, &err) < 0)
		return fail(&err);
	if (cordon_policy_to_json(policy, &text, &err) < 0) {
		cordon_free(plan);
		return fail(&err);
	}
	strbuf_puts(&sb, "{\"policy\": ");
	add_document(&sb, text);
	strbuf_puts(&sb, ",\n\"settings\": ");
	if (policy_show_json(args, &sb, &err) < 0) {
		cordon_free(plan);
		strbuf_done(&sb);
		return fail(&err);
	}
	if (plan) {
		strbuf_puts(&sb, ",\n\"plan\": ");
		add_document(&sb, plan);
	}
	strbuf_puts(&sb, "}\n");
	return out_finish(&sb, 0);
}

int cmd_policy_show(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *policy = NULL;
	int status;

	if (cordon_policy_new(&policy, &err) < 0 || policy_from_options(policy, args, &err) < 0)
		status = fail(&err);
	else
		status = show(policy, args);
	cordon_policy_free(policy);
	return status;
}

static int validate(const char *path, struct cordon_error *err)
{
	struct cordon_policy *policy;
	int r = cordon_policy_new(&policy, err);

	if (r < 0)
		return r;
	r = cordon_policy_file(policy, path, err);
	cordon_policy_free(policy);
	return r;
}

static void report_json(struct json_writer *w, const char *path, const struct cordon_error *err)
{
	json_open_object(w, NULL);
	json_string(w, "file", path);
	json_bool(w, "ok", !err->code);
	if (err->code) {
		json_open_object(w, "error");
		json_string(w, "code", cordon_error_name(err->code));
		json_string(w, "message", err->msg);
		json_string(w, "hint", err->hint[0] ? err->hint : NULL);
		json_close_object(w);
	} else {
		json_null(w, "error");
	}
	json_close_object(w);
}

static void report_text(struct strbuf *sb, const char *path, const struct cordon_error *err)
{
	if (err->code) {
		say_error(err);
		return;
	}
	strbuf_add_escaped(sb, path, strlen(path));
	strbuf_puts(sb, ": ok\n");
}

int cmd_policy_validate(const struct parsed *args)
{
	int json = parsed_has(args, OPT_JSON);
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;
	int status = 0;

	if (!args->n_rest) {
		struct cordon_error err = CORDON_ERROR_INIT;

		cordon_err(&err, CORDON_E_USAGE, 0, "no policy file given");
		cordon_err_hint(&err, "try 'cordon policy validate --help'");
		return fail(&err);
	}
	json_writer_init(&w, &sb, 0);
	if (json)
		json_open_array(&w, NULL);
	for (size_t i = 0; i < args->n_rest; i++) {
		struct cordon_error err = CORDON_ERROR_INIT;

		if (validate(args->rest[i], &err) < 0)
			status = STATUS_FAILED;
		if (json)
			report_json(&w, args->rest[i], &err);
		else
			report_text(&sb, args->rest[i], &err);
	}
	if (json) {
		json_close_array(&w);
		strbuf_putc(&sb, '\n');
	}
	return out_finish(&sb, status);
}

int cmd_policy_schema(const struct parsed *args)
{
	struct strbuf sb = STRBUF_INIT;

	if (args->n_rest) {
		struct cordon_error err = CORDON_ERROR_INIT;

		cordon_err(&err, CORDON_E_USAGE, 0, "'policy schema' takes no argument '%s'",
			   args->rest[0]);
		return fail(&err);
	}
	strbuf_puts(&sb, cordon_policy_schema());
	if (sb.len && sb.data[sb.len - 1] != '\n')
		strbuf_putc(&sb, '\n');
	return out_finish(&sb, 0);
}

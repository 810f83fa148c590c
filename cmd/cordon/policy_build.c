/* SPDX-License-Identifier: Apache-2.0 */
/* From options to a policy and to the options of a run. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/path.h"
#include "verbs.h"

/* The library's messages name keys; the user typed a flag. */
static void name_flag(const struct option *o, const char *key, struct cordon_error *err)
{
	size_t len = strlen(key);
	char rest[sizeof(err->msg)];

	if (strncmp(err->msg, key, len) == 0 && err->msg[len] == ' ') {
		snprintf(rest, sizeof(rest), "%s", err->msg + len);
		snprintf(err->msg, sizeof(err->msg), "--%s%.*s", o->name,
			 (int)(sizeof(rest) - strlen(o->name) - 3), rest);
		return;
	}
	if (!strncmp(err->msg, key, len) && !strncmp(err->msg + len, ": ", 2))
		memmove(err->msg, err->msg + len + 2, strlen(err->msg + len + 2) + 1);
	cordon_err_prefix(err, "--%s", o->name);
}

static int apply_flag(struct cordon_policy *policy, const struct parsed_option *p,
		      struct cordon_error *err)
{
	const struct option *o = &option_table[p->id];
	const char *key = o->key;
	const char *value = p->value;
	int r;

	if (!key)
		return 0;
	/* An empty shell variable must not remove a condition. */
	if (p->id == OPT_REQUIRE && !*value)
		return cordon_err(err, CORDON_E_USAGE, 0, "--require: no layer is named");
	if (p->id == OPT_BEST_EFFORT && !*value)
		return cordon_err(err, CORDON_E_USAGE, 0, "--best-effort: no limit is named");
	if (p->id == OPT_NO_PROTECT)
		value = "off";
	else if (p->id == OPT_END_ON_OUTPUT)
		value = "on";
	else if (p->id == OPT_ENV && strchr(value, '='))
		key = "env.set";
	r = cordon_policy_set(policy, key, value, err);
	if (r < 0)
		name_flag(o, key, err);
	return r;
}

int policy_from_options(struct cordon_policy *policy, const struct parsed *args,
			struct cordon_error *err)
{
	int r;

	for (size_t i = 0; i < args->n_options; i++) {
		if (args->options[i].id != OPT_PRESET)
			continue;
		r = cordon_policy_preset(policy, args->options[i].value, err);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < args->n_options; i++) {
		if (args->options[i].id != OPT_POLICY)
			continue;
		r = cordon_policy_file(policy, args->options[i].value, err);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < args->n_options; i++) {
		r = apply_flag(policy, &args->options[i], err);
		if (r < 0)
			return r;
	}
	return 0;
}

int policy_says(const struct cordon_policy *policy, const char *setting)
{
	char *text = NULL, line[64];
	int ret;

	/* A line of canonical JSON: members of a group are indented by four, deeper ones by
	 * more, and strings have no newlines. */
	snprintf(line, sizeof(line), "\n    %s", setting);
	ret = cordon_policy_to_json(policy, &text, NULL) == 0 && strstr(text, line);
	cordon_free(text);
	return ret;
}

void run_options_init(struct cordon_run_options *ret, const struct parsed *args, char *home_buf,
		      size_t home_size)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;

	options.argv = (const char *const *)args->rest;
	options.envp = (const char *const *)environ;
	options.home = home_directory(home_buf, home_size);
	/* A person at a terminal can decide how long to wait. */
	options.default_wall_ms = -1;
	options.default_memory_bytes = -1;
	*ret = options;
}

/* The library wants an absolute path. */
int run_private_option(struct cordon_run_options *options, const struct parsed *args,
		       struct cordon_error *err)
{
	const char *typed = parsed_value(args, OPT_PRIVATE);
	static char path[PATH_MAX];
	char cwd[PATH_MAX];
	int r;

	if (!typed)
		return 0;
	if (!*typed) {
		cordon_err(err, CORDON_E_USAGE, 0, "--private needs a directory");
		return -CORDON_E_USAGE;
	}
	r = getcwd(cwd, sizeof(cwd)) ? path_normalise(cwd, typed, path, sizeof(path)) : -errno;
	if (r < 0)
		return cordon_err(err, CORDON_E_PATH, -r,
				  "cannot use '%s' as the private directory", typed);
	options->private_dir = path;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls may do: the operator's options and nothing else. No word of a client or a model gets
 * here.
 *
 * The policy is written anew from its JSON: relative paths become absolute, since a call has no
 * current directory of ours to be shown; the limit of time is taken out, since it holds for each
 * call, and a sandbox may serve several.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json_write.h"
#include "base/units.h"
#include "mcp.h"
#include "server.h"
#include "verbs.h"
#include "workspace.h"

#define WALL_MS 120000
#define MEMORY_BYTES ((int64_t)1 << 30)
#define OUTPUT "64K" /* what a model reads costs */

static void write_group(struct json_writer *w, const struct json_value *group)
{
	json_open_object(w, group->key);
	for (const struct json_value *v = group->first; v; v = v->next)
		if (strcmp(group->key, "limits") != 0 || strcmp(v->key, "wall") != 0)
			json_copy(w, v->key, v);
	json_close_object(w);
}

/* *s->policy, as canonical JSON, without the limit of time. */
static int write_anew(struct server *s, struct strbuf *sb, struct cordon_error *err)
{
	const struct json_value *root = NULL;
	struct arena arena = ARENA_INIT;
	struct json_writer w;
	char *text = NULL;
	int r = cordon_policy_to_json(s->policy, &text, err);

	if (r >= 0)
		r = json_read(text, strlen(text), "policy", &arena, &root, err);
	if (r >= 0) {
		json_writer_init(&w, sb, 0);
		json_open_object(&w, NULL);
		for (const struct json_value *v = root->first; v; v = v->next) {
			if (v->type == JSON_OBJECT)
				write_group(&w, v);
			else
				json_copy(&w, v->key, v);
		}
		json_close_object(&w);
		if (sb->failed)
			r = cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	}
	cordon_free(text);
	arena_done(&arena);
	return r;
}

struct wanted {
	char *wall, *memory, *workspace;
	int has_network, failed;
};

static void take_setting(void *arg, const struct cordon_policy_setting *setting)
{
	struct wanted *w = arg;
	char **to = NULL;

	if (!setting->value)
		return;
	if (!strcmp(setting->key, "limits.wall"))
		to = &w->wall;
	else if (!strcmp(setting->key, "limits.memory"))
		to = &w->memory;
	else if (!strcmp(setting->key, "fs.workspace"))
		to = &w->workspace;
	else if (!strcmp(setting->key, "net.allow"))
		w->has_network = 1;
	if (to) {
		free(*to);
		*to = strdup(setting->value);
		w->failed |= !*to;
	}
}

/* As the library wants it: here it is an error of the start, there one of every call. */
static int can_be_name(const char *name, size_t size)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789._-";
	size_t len = strlen(name);

	if (len == 0 || len >= size || strspn(name, allowed) < len || name[0] == '.' ||
	    name[0] == '-')
		return 0;
	return !(len == 9 && name[0] == 'w' && strspn(name + 1, "0123456789abcdef") == 8);
}

static int usage(struct cordon_error *err, const char *what, const char *hint)
{
	cordon_err(err, CORDON_E_USAGE, 0, "%s", what);
	cordon_err_hint(err, "%s", hint);
	return -CORDON_E_USAGE;
}

/* A name for the workspace of this server, unless the operator has one. */
static int name_workspace(struct server *s, struct cordon_error *err)
{
	const char *name = parsed_value(s->args, OPT_NAME);
	uint32_t number;

	if (name) {
		if (!can_be_name(name, sizeof(s->workspace)))
			return usage(
				err, "--name: this cannot be a workspace's name",
				"up to 63 letters, digits, '.', '_' and '-', not beginning with "
				"'.' or '-', and not like an id");
		snprintf(s->workspace, sizeof(s->workspace), "%s", name);
		return 0;
	}
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return cordon_err(err, CORDON_E_SYSTEM, 0, "there are no random numbers");
	snprintf(s->workspace, sizeof(s->workspace), SERVER_WORKSPACE "%08x", number);
	return 0;
}

static int check_workspace(struct server *s, const struct wanted *w, struct cordon_error *err)
{
	int is_direct = parsed_has(s->args, OPT_DIRECT);
	struct stat st;

	s->may_commit = parsed_has(s->args, OPT_ALLOW_COMMIT);
	if (!w->workspace && (is_direct || s->may_commit || parsed_has(s->args, OPT_NAME)))
		return usage(err,
			     is_direct	     ? "--direct needs a directory"
			     : s->may_commit ? "--allow-commit needs a workspace"
					     : "--name needs a workspace",
			     "say which directory: --workspace DIR");
	if (is_direct && (s->may_commit || parsed_has(s->args, OPT_NAME)))
		return usage(err, "--direct keeps no changes apart",
			     "--allow-commit and --name are for the copy that is kept without it");
	if (!w->workspace)
		return 0;
	s->base = realpath(w->workspace, NULL);
	if (!s->base || stat(s->base, &st) < 0 || !S_ISDIR(st.st_mode)) {
		cordon_err(err, CORDON_E_PATH, 0, "the workspace '%s' is no directory that exists",
			   w->workspace);
		return -CORDON_E_PATH;
	}
	return is_direct ? 0 : name_workspace(s, err);
}

static int read_settings(struct server *s, struct wanted *w, struct cordon_error *err)
{
	const struct cordon_policy *const sources[] = { s->policy };
	static const char *const names[] = { "options" };
	int r = cordon_policy_settings(sources, names, 1, take_setting, w, err);

	if (r >= 0 && w->failed)
		r = cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	s->wall_ms = WALL_MS;
	if (r >= 0 && w->wall)
		r = units_parse_duration(w->wall, &s->wall_ms, err);
	s->memory_bytes = MEMORY_BYTES;
	if (r >= 0 && w->memory)
		r = units_parse_size(w->memory, &s->memory_bytes, err);
	s->has_network = w->has_network;
	return r;
}

/* What presets call the current directory is @base. */
static int add_presets(struct cordon_policy *policy, const struct parsed *args, const char *base,
		       struct cordon_error *err)
{
	struct cordon_policy *presets = NULL;
	char *text = NULL;
	int r = cordon_policy_new(&presets, err);

	for (size_t i = 0; r >= 0 && i < args->n_options; i++)
		if (args->options[i].id == OPT_PRESET)
			r = cordon_policy_preset(presets, args->options[i].value, err);
	/* It takes the place of what a preset lets a command change. */
	if (r >= 0 && !parsed_has(args, OPT_DIRECT))
		r = cordon_policy_set(presets, "fs.workspace", base, err);
	if (r >= 0)
		r = cordon_policy_to_json(presets, &text, err);
	if (r >= 0)
		r = cordon_policy_json(policy, text, strlen(text), "--preset", base, err);
	cordon_free(text);
	cordon_policy_free(presets);
	return r;
}

/*
 * --direct: --workspace DIR means -w DIR -C DIR. @base: the workspace, if it is known yet. A client
 * starts its servers anywhere, so presets mean the workspace and not the directory of the start.
 */
static int make_policy(struct server *s, const char *base, struct cordon_policy **ret,
		       struct cordon_error *err)
{
	struct parsed args = *s->args;
	size_t n = args.n_options;
	int r;

	args.options = calloc(n + 1, sizeof(*args.options));
	if (!args.options)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	args.n_options = 0;
	for (size_t i = 0; i < n; i++) {
		struct parsed_option *to = &args.options[args.n_options];

		if (base && s->args->options[i].id == OPT_PRESET)
			continue;
		*to = s->args->options[i];
		if (to->id == OPT_WORKSPACE && parsed_has(s->args, OPT_DIRECT))
			to->id = OPT_WRITE;
		args.n_options++;
	}
	r = cordon_policy_new(ret, err);
	if (r >= 0)
		r = cordon_policy_set(*ret, "limits.output", OUTPUT, err);
	if (r >= 0 && base && parsed_has(s->args, OPT_PRESET))
		r = add_presets(*ret, s->args, base, err);
	if (r >= 0 && parsed_has(s->args, OPT_DIRECT) && !parsed_has(s->args, OPT_CWD) &&
	    parsed_value(s->args, OPT_WORKSPACE))
		r = cordon_policy_set(*ret, "cwd", parsed_value(s->args, OPT_WORKSPACE), err);
	if (r >= 0)
		r = policy_from_options(*ret, &args, err);
	free(args.options);
	return r;
}

/* With absolute paths, and no limit of time. */
static int make_final(struct server *s, struct cordon_error *err)
{
	struct cordon_policy *final = NULL;
	struct strbuf sb = STRBUF_INIT;
	char *cwd = getcwd(NULL, 0);
	int r = write_anew(s, &sb, err);

	if (r >= 0)
		r = cordon_policy_new(&final, err);
	if (r >= 0)
		r = cordon_policy_json(final, sb.data, sb.len, "options", cwd, err);
	if (r >= 0) {
		cordon_policy_free(s->policy);
		s->policy = final;
		final = NULL;
		strbuf_done(&sb);
		sb = (struct strbuf)STRBUF_INIT;
		r = write_anew(s, &sb, err);
		s->policy_json = strbuf_take(&sb);
	}
	cordon_policy_free(final);
	strbuf_done(&sb);
	free(cwd);
	return r;
}

/* Without one each call starts a sandbox from the beginning, which is as good but slower. */
static void make_pool(struct server *s)
{
	struct cordon_pool_options how = CORDON_POOL_OPTIONS_INIT;
	struct cordon_run_options options;

	server_run_options(s, &options);
	/* Calls come after long pauses, and what may have changed since is compared anyway. */
	how.max_age_ms = -1;
	if (cordon_pool_new(s->launcher, s->policy, &options, &how, &s->pool, NULL) < 0)
		s->pool = NULL;
}

/* What the options ask for: *w, s->base and s->policy. */
static int read_options(struct server *s, struct wanted *w, struct cordon_error *err)
{
	const char *workspace = parsed_value(s->args, OPT_WORKSPACE);
	int r = make_policy(s, NULL, &s->policy, err);

	if (r >= 0)
		r = read_settings(s, w, err);
	if (r < 0)
		return r;
	/* As an option it is a grant now, so this one comes from a file. */
	if (parsed_has(s->args, OPT_DIRECT) && w->workspace)
		return usage(err, "--direct, but the policy file asks for a copy (fs.workspace)",
			     "take fs.workspace out of the file, and give --workspace DIR");
	if (parsed_has(s->args, OPT_DIRECT) && workspace) {
		w->workspace = strdup(workspace);
		if (!w->workspace)
			return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	}
	r = check_workspace(s, w, err);
	if (r >= 0 && s->base && parsed_has(s->args, OPT_PRESET)) {
		cordon_policy_free(s->policy);
		s->policy = NULL;
		r = make_policy(s, s->base, &s->policy, err);
	}
	return r;
}

int server_init(struct server *s, const struct parsed *args, struct cordon_error *err)
{
	struct wanted w = { .failed = 0 };
	int r;

	*s = (struct server){ .args = args, .in = STRBUF_INIT, .out = STRBUF_INIT, .out_fd = -1 };
	r = read_options(s, &w, err);
	if (r >= 0)
		r = make_final(s, err);
	if (r >= 0 && s->workspace[0])
		workspace_collect();
	if (r >= 0)
		r = cordon_launcher_new(&s->launcher, err);
	if (r >= 0 && !s->workspace[0])
		make_pool(s);
	free(w.wall);
	free(w.memory);
	free(w.workspace);
	return r < 0 ? r : 0;
}

void server_run_options(const struct server *s, struct cordon_run_options *ret)
{
	static char home[PATH_MAX];
	static const char *const shell[] = { "/bin/sh", NULL };

	run_options_init(ret, s->args, home, sizeof(home));
	ret->argv = shell;
	/* Not ours: what is shown, and where calls begin, does not depend on where we were started.
	 */
	ret->cwd = "/";
	ret->default_wall_ms = 0;
	ret->default_memory_bytes = MEMORY_BYTES;
}

const char *server_seconds(int64_t ms, char ret[32])
{
	snprintf(ret, 32, "%lld.%03lld", (long long)(ms / 1000), (long long)(ms % 1000));
	return ret;
}

void server_done(struct server *s)
{
	cordon_policy_free(s->policy);
	free(s->policy_json);
	cordon_pool_free(s->pool);
	cordon_launcher_free(s->launcher);
	free(s->base);
	*s = (struct server){ .out_fd = -1 };
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The servers of a client's configuration, wherever it has them, and what changes at each. */
#include "wrapping.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/macros.h"
#include "discover/discover.h"
#include "out.h"
#include "toml.h"
#include "wrap_words.h"

#define ALREADY "it is cordon already, with options of its own"

/* Where a value begins in the text; columns are characters. */
static size_t offset_of(const struct strbuf *text, unsigned line, unsigned column)
{
	size_t at = 0;

	if (!text->data)
		return 0;
	while (line > 1 && at < text->len)
		line -= text->data[at++] == '\n';
	while (column > 1 && at < text->len) {
		at++;
		while (at < text->len && ((unsigned char)text->data[at] & 0xc0) == 0x80)
			at++;
		column--;
	}
	return at;
}

static size_t string_len(const struct strbuf *text, size_t at)
{
	size_t end = at + 1;

	if (!text->data)
		return 0;
	while (end < text->len && text->data[end] != '"')
		end += text->data[end] == '\\' ? 2 : 1;
	return end + 1 - at;
}

/* Where a value is in the text, and how long a string is there, with its quotes. */
static size_t place_of(const struct wrapping *w, const struct json_value *v)
{
	return w->is_toml ? toml_of(v)->at : offset_of(&w->plain, v->line, v->column);
}

static size_t length_of(const struct wrapping *w, const struct json_value *v)
{
	return w->is_toml ? toml_of(v)->len : string_len(&w->plain, place_of(w, v));
}

static struct strbuf *add_edit(struct wrapping *w, size_t at, size_t len)
{
	struct edit *e;

	if (w->n == ARRAY_SIZE(w->edits)) {
		w->is_full = 1;
		return NULL;
	}
	e = &w->edits[w->n++];
	*e = (struct edit){ at, len, STRBUF_INIT };
	return &e->text;
}

static int is_text(const struct json_value *v, const char *text)
{
	return v && v->type == JSON_STRING && !strcmp(v->text, text);
}

/* Is it us? A bare name is what the client finds, which the file can choose. */
static int is_our_program(const struct wrapping *w, const struct json_value *program,
			  const struct json_value *env)
{
	char real[PATH_MAX];

	if (is_text(program, "cordon"))
		return !env || !json_get(env, "PATH");
	return program && program->type == JSON_STRING && program->text[0] == '/' &&
	       realpath(program->text, real) && !strcmp(real, w->words.program);
}

/* The file may be somebody else's: a word such as --wrap, which any program may have, is not
 * believed. Ours is wrapped, or has a sandbox for each call. */
static int is_wrapped(const struct wrapping *w, const struct json_value *program,
		      const struct json_value *arg, const struct json_value *env)
{
	return is_our_program(w, program, env) && is_text(arg, "mcp");
}

/*
 * A client gives the variables to the process that it starts, which is cordon from now on. These
 * would change what that does outside of the sandbox, so a file must not choose them.
 */
static int acts_on_us(const char *name)
{
	static const char *const prefixes[] = { "LD_",	"GLIBC_", "MALLOC_",   "CORDON_",
						"XDG_", "GCONV_", "GIT_CONFIG" };
	int r = !strcmp(name, "HOME") || !strcmp(name, "TMPDIR");

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		r |= !strncmp(name, prefixes[i], strlen(prefixes[i]));
	return r;
}

static int check_env(const struct json_value *server, const struct wrap_env *env,
		     struct cordon_error *err)
{
	const struct json_value *v = env->own ? env->own->first : NULL;
	const char *name = NULL;

	for (; v && !name; v = v->next)
		name = acts_on_us(v->key) ? v->key : NULL;
	for (v = env->passed ? env->passed->first : NULL; v && !name; v = v->next) {
		if (!wrap_variable(v))
			return cordon_err(err, CORDON_E_USAGE, 0,
					  "'%.100s': env_vars has something that is no name",
					  server->key);
		name = acts_on_us(wrap_variable(v)) ? wrap_variable(v) : NULL;
	}
	if (!name && !json_get(server, "envFile"))
		return 0;
	cordon_err(
		err, CORDON_E_USAGE, 0,
		"'%.100s' has %s%.100s, which would act on cordon itself, outside of the sandbox",
		server->key, name ? "the variable " : "an ", name ? name : "envFile");
	return cordon_err_hint(err, "take it out, and set what only the server needs with '-e "
				    "NAME=VALUE'");
}

/* Relative to a place that only the client knows: nothing above it, nothing out of sight. */
static int is_plain(const char *path)
{
	while (*path) {
		size_t len = strcspn(path, "/");

		if (*path == '.' && len > 1)
			return 0;
		path += len;
		path += *path == '/';
	}
	return 1;
}

/* A server sees the directory in which it starts, and the file may be somebody else's. */
static int may_start_in(const char *cwd)
{
	static const char folder[] = "${workspaceFolder}";
	const char *home = getenv("HOME");
	char path[PATH_MAX], real[PATH_MAX], home_real[PATH_MAX];

	if (!strncmp(cwd, folder, sizeof(folder) - 1))
		cwd += sizeof(folder) - 1;
	else if (cwd[0] == '/' || cwd[0] == '~')
		return home && realpath(home, home_real) &&
		       (cwd[0] == '/' || cwd[1] == '/' || !cwd[1]) &&
		       snprintf(path, sizeof(path), "%s%s", cwd[0] == '~' ? home : "",
				cwd[0] == '~' ? cwd + 1 : cwd) < (int)sizeof(path) &&
		       realpath(path, real) && discover_may_advise(home_real, real, false);
	return !strpbrk(cwd, "$~%") && is_plain(cwd);
}

static int check_cwd(const struct json_value *server, struct cordon_error *err)
{
	const struct json_value *cwd = json_get(server, "cwd");

	if (!cwd || (cwd->type == JSON_STRING && may_start_in(cwd->text)))
		return 0;
	cordon_err(err, CORDON_E_USAGE, 0,
		   "'%.100s' starts in '%.100s', which its sandbox would show", server->key,
		   cwd->type == JSON_STRING ? cwd->text : "something that is no text");
	return cordon_err_hint(err, "take the cwd out, or name a directory of a project that is "
				    "there");
}

static void say_skipped(const struct wrapping *w, const struct json_value *server, const char *why)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_add_escaped(&sb, server->key, strlen(server->key));
	if (!sb.failed && !w->is_quiet)
		say_line("'%s' stays as it is: %s", sb.data, why);
	strbuf_done(&sb);
}

/* opencode: the command and its arguments are one list. */
static void wrap_list(struct wrapping *w, const struct json_value *server,
		      const struct json_value *command, const struct wrap_env *env)
{
	struct strbuf *sb = add_edit(w, place_of(w, command) + 1, 0);

	if (!sb)
		return;
	wrap_word(sb, w->words.program);
	strbuf_puts(sb, ", ");
	wrap_words(sb, &w->words, w->owner, server, env);
	strbuf_puts(sb, ", ");
	w->n_wrapped++;
}

/* Before a list that the server does not have yet: beside the command, as that is written. */
static void begin_args(const struct wrapping *w, const struct json_value *command,
		       struct strbuf *sb)
{
	const struct toml_value *v = toml_of(command);
	size_t line;

	if (!w->is_toml) {
		strbuf_puts(sb, ", \"args\": [");
		return;
	}
	line = v->key_at;
	while (line > 0 && (w->old.data[line - 1] == ' ' || w->old.data[line - 1] == '\t'))
		line--;
	strbuf_puts(sb, v->is_inline ? ", " : "\n");
	if (!v->is_inline)
		strbuf_add(sb, w->old.data + line, v->key_at - line);
	strbuf_add(sb, w->old.data + v->key_at, v->prefix_len);
	strbuf_puts(sb, "args = [");
}

static void wrap_command(struct wrapping *w, const struct json_value *server,
			 const struct json_value *command, const struct json_value *args,
			 const struct wrap_env *env)
{
	size_t at = place_of(w, command), len = length_of(w, command);
	struct strbuf *sb = add_edit(w, at, len);
	struct strbuf *rest;

	if (!sb)
		return;
	wrap_word(sb, w->words.program);
	rest = sb;
	if (args) {
		rest = add_edit(w, place_of(w, args) + 1, 0);
		if (!rest)
			return;
	} else {
		begin_args(w, command, rest);
	}
	wrap_words(rest, &w->words, w->owner, server, env);
	strbuf_puts(rest, ", ");
	strbuf_add(rest, w->old.data + at, len);
	strbuf_puts(rest, args ? args->first ? ", " : "" : "]");
	w->n_wrapped++;
}

/* The variables that a client gives to the server, or passes on: objects or NULL. */
static struct wrap_env env_of(const struct wrapping *w, const struct json_value *server)
{
	const struct json_value *own = json_get(server, "env"), *passed = NULL;

	if (!own)
		own = json_get(server, "environment");
	if (w->is_toml)
		passed = json_get(server, "env_vars");
	return (struct wrap_env){
		.own = own && own->type == JSON_OBJECT ? own : NULL,
		.passed = passed && passed->type == JSON_ARRAY ? passed : NULL,
	};
}

static int wrap_server(struct wrapping *w, const struct json_value *server,
		       struct cordon_error *err)
{
	const struct json_value *command, *args;
	struct wrap_env env;

	if (server->type != JSON_OBJECT) {
		say_skipped(w, server, "it is no object");
		return 0;
	}
	command = json_get(server, "command");
	args = json_get(server, "args");
	env = env_of(w, server);
	if (command && (check_env(server, &env, err) < 0 || check_cwd(server, err) < 0))
		return -1;
	if (command && command->type == JSON_ARRAY && command->first) {
		if (is_wrapped(w, command->first, command->first->next, env.own))
			say_skipped(w, server, ALREADY);
		else
			wrap_list(w, server, command, &env);
	} else if (!command || command->type != JSON_STRING || (args && args->type != JSON_ARRAY)) {
		say_skipped(w, server, "it has no command here (a remote server?)");
	} else if (args && is_wrapped(w, command, args->first, env.own)) {
		say_skipped(w, server, ALREADY);
	} else {
		wrap_command(w, server, command, args, &env);
	}
	return 0;
}

static int is_server(const struct json_value *v)
{
	const struct json_value *command = json_get(v, "command");

	return command && command->type != JSON_OBJECT;
}

/* VS Code has its servers one level below `mcp`, others may call one of theirs so. */
static int is_map_below(const struct json_value *map, const struct json_value *v)
{
	return !strcmp(map->key, "mcp") && !strcmp(v->key, "servers") && v->type == JSON_OBJECT &&
	       !is_server(v);
}

static int is_same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

/* With --private or --receipt each has a place of its own. Two that are called the same in
 * different parts of the file would share it. */
static int note_server(struct wrapping *w, const char *name, struct cordon_error *err)
{
	int has_place = 0;

	for (size_t i = 0; i < w->words.list.n; i++)
		has_place |= wrap_is_own(w->words.list.v[i]);
	for (size_t i = 0; has_place && i < w->n_servers; i++) {
		if (!is_same(w->servers[i].owner, w->owner) ||
		    strcmp(w->servers[i].name, name) != 0)
			continue;
		cordon_err(err, CORDON_E_USAGE, 0,
			   "two servers are called '%s' and would share "
			   "what --private or --receipt names",
			   name);
		cordon_err_hint(err, "rename one of them, or leave these options out");
		return -CORDON_E_USAGE;
	}
	if (w->n_servers == ARRAY_SIZE(w->servers))
		return cordon_err(err, CORDON_E_USAGE, 0, "it names too many servers");
	w->servers[w->n_servers].owner = w->owner;
	w->servers[w->n_servers++].name = name;
	return 0;
}

static int wrap_map(struct wrapping *w, const struct json_value *map, struct cordon_error *err)
{
	int r = 0;

	w->n_maps++;
	for (const struct json_value *v = map->first; v && r == 0; v = v->next) {
		if (is_map_below(map, v)) {
			r = wrap_map(w, v, err);
			continue;
		}
		r = note_server(w, v->key, err);
		if (r == 0)
			r = wrap_server(w, v, err);
	}
	return r;
}

static int find_in(struct wrapping *w, const struct json_value *parent, const struct json_value *v,
		   int is_root, struct cordon_error *err)
{
	int is_map = !strcmp(v->key, w->is_toml ? "mcp_servers" : "mcpServers"), r = 0;

	if (is_map && v->type != JSON_OBJECT)
		return cordon_err(err, CORDON_E_USAGE, 0, "'%s' is no %s", v->key,
				  w->is_toml ? "table" : "object");
	is_map |= is_root && !w->is_toml && v->type == JSON_OBJECT &&
		  (!strcmp(v->key, "servers") || !strcmp(v->key, "mcp"));
	w->owner = is_root ? NULL : parent->key;
	if (is_map)
		return wrap_map(w, v, err);
	if (v->type == JSON_OBJECT)
		return wrapping_find(w, v, 0, err);
	/* Its items have no names of their own. */
	for (struct json_value *item = v->type == JSON_ARRAY ? v->first : NULL; item && r == 0;
	     item = item->next) {
		struct json_value named = *item;

		named.key = v->key;
		if (item->type == JSON_OBJECT)
			r = wrapping_find(w, &named, 0, err);
		else if (item->type == JSON_ARRAY)
			r = find_in(w, parent, &named, 0, err);
	}
	return r;
}

/* All of them: one that is overlooked would run without a sandbox. Claude Code has some for each
 * project. */
int wrapping_find(struct wrapping *w, const struct json_value *object, int is_root,
		  struct cordon_error *err)
{
	int r = 0;

	for (const struct json_value *v = object->first; v && r == 0; v = v->next)
		r = find_in(w, object, v, is_root, err);
	return r;
}

static int by_place(const void *a, const void *b)
{
	const struct edit *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

void wrapping_apply(struct wrapping *w)
{
	size_t at = 0;

	qsort(w->edits, w->n, sizeof(w->edits[0]), by_place);
	for (size_t i = 0; i < w->n; i++) {
		struct edit *e = &w->edits[i];

		strbuf_add(&w->new, w->old.data + at, e->at - at);
		strbuf_add(&w->new, e->text.data, e->text.len);
		w->new.failed |= e->text.failed;
		at = e->at + e->len;
		strbuf_done(&e->text);
	}
	strbuf_add(&w->new, w->old.data + at, w->old.len - at);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon mcp --wrap-config FILE: the servers of a client's configuration get `cordon mcp --wrap` in
 * front of their commands. Only the places that change are written anew; the rest of the file stays
 * byte by byte as its owner wrote it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json_read.h"
#include "base/macros.h"
#include "base/textdiff.h"
#include "config.h"
#include "jsonc.h"
#include "out.h"
#include "verbs.h"
#include "wrap_words.h"

#define SERVERS_MAX 256
#define FILE_MAX ((size_t)4 << 20)
#define ALREADY "it is cordon already, with options of its own"

struct edit {
	size_t at, len; /* bytes of the old text that go */
	struct strbuf text;
};

struct wrapping {
	struct words words;
	struct strbuf old, new;
	struct strbuf plain; /* the old text as JSON, with everything at its place */
	const char *owner;   /* the key of the object whose servers these are */
	struct edit edits[2 * SERVERS_MAX];
	size_t n, n_wrapped, n_maps;
	struct {
		const char *owner, *name;
	} servers[4 * SERVERS_MAX];
	size_t n_servers;
	struct stat st; /* of the old text */
	int is_quiet, is_full;
};

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

static int check_env(const struct json_value *server, const struct json_value *env,
		     struct cordon_error *err)
{
	const struct json_value *v = env ? env->first : NULL;

	while (v && !acts_on_us(v->key))
		v = v->next;
	if (!v && !json_get(server, "envFile"))
		return 0;
	cordon_err(
		err, CORDON_E_USAGE, 0,
		"'%.100s' has %s%.100s, which would act on cordon itself, outside of the sandbox",
		server->key, v ? "the variable " : "an ", v ? v->key : "envFile");
	return cordon_err_hint(err, "take it out, and set what only the server needs with '-e "
				    "NAME=VALUE'");
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
		      const struct json_value *command, const struct json_value *env)
{
	struct strbuf *sb =
		add_edit(w, offset_of(&w->plain, command->line, command->column) + 1, 0);

	if (!sb)
		return;
	wrap_word(sb, w->words.program);
	strbuf_puts(sb, ", ");
	wrap_words(sb, &w->words, w->owner, server, env);
	strbuf_puts(sb, ", ");
	w->n_wrapped++;
}

static void wrap_command(struct wrapping *w, const struct json_value *server,
			 const struct json_value *command, const struct json_value *args,
			 const struct json_value *env)
{
	size_t at = offset_of(&w->plain, command->line, command->column);
	size_t len = string_len(&w->plain, at);
	struct strbuf *sb = add_edit(w, at, len);
	struct strbuf *rest;

	if (!sb)
		return;
	wrap_word(sb, w->words.program);
	rest = sb;
	if (args) {
		rest = add_edit(w, offset_of(&w->plain, args->line, args->column) + 1, 0);
		if (!rest)
			return;
	} else {
		strbuf_puts(rest, ", \"args\": [");
	}
	wrap_words(rest, &w->words, w->owner, server, env);
	strbuf_puts(rest, ", ");
	strbuf_add(rest, w->old.data + at, len);
	strbuf_puts(rest, args ? args->first ? ", " : "" : "]");
	w->n_wrapped++;
}

static int wrap_server(struct wrapping *w, const struct json_value *server,
		       struct cordon_error *err)
{
	const struct json_value *command, *args, *env;

	if (server->type != JSON_OBJECT) {
		say_skipped(w, server, "it is no object");
		return 0;
	}
	command = json_get(server, "command");
	args = json_get(server, "args");
	env = json_get(server, "env");
	if (!env)
		env = json_get(server, "environment");
	if (env && env->type != JSON_OBJECT)
		env = NULL;
	if (command && check_env(server, env, err) < 0)
		return -1;
	if (command && command->type == JSON_ARRAY && command->first) {
		if (is_wrapped(w, command->first, command->first->next, env))
			say_skipped(w, server, ALREADY);
		else
			wrap_list(w, server, command, env);
	} else if (!command || command->type != JSON_STRING || (args && args->type != JSON_ARRAY)) {
		say_skipped(w, server, "it has no command here (a remote server?)");
	} else if (args && is_wrapped(w, command, args->first, env)) {
		say_skipped(w, server, ALREADY);
	} else {
		wrap_command(w, server, command, args, env);
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

/* All of them: one that is overlooked would run without a sandbox. Claude Code has some for each
 * project. */
static int wrap_all(struct wrapping *w, const struct json_value *object, int is_root,
		    struct cordon_error *err)
{
	int r = 0;

	for (const struct json_value *v = object->first; v && r == 0; v = v->next) {
		int is_map = !strcmp(v->key, "mcpServers");

		if (is_map && v->type != JSON_OBJECT)
			return cordon_err(err, CORDON_E_USAGE, 0, "'mcpServers' is no object");
		if (v->type != JSON_OBJECT)
			continue;
		is_map |= is_root && (!strcmp(v->key, "servers") || !strcmp(v->key, "mcp"));
		w->owner = is_root ? NULL : object->key;
		r = is_map ? wrap_map(w, v, err) : wrap_all(w, v, 0, err);
	}
	return r;
}

static int by_place(const void *a, const void *b)
{
	const struct edit *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static void apply(struct wrapping *w)
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

static int read_config(struct wrapping *w, const char *path, struct cordon_error *err)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), r;

	if (fd < 0)
		return cordon_err(err, CORDON_E_PATH, errno, "cannot read '%s'", path);
	if (fstat(fd, &w->st) < 0 || !S_ISREG(w->st.st_mode)) {
		close(fd);
		return cordon_err(err, CORDON_E_PATH, 0, "'%s' is no ordinary file", path);
	}
	w->old.max = FILE_MAX;
	r = read_strbuf(fd, &w->old);
	close(fd);
	strbuf_puts(&w->old, ""); /* there is a text, even an empty one */
	if (r >= 0 && (w->old.failed || !w->old.data))
		r = -ENOMEM;
	return r < 0 ? cordon_err(err, CORDON_E_PATH, -r, "cannot read '%s'", path) : 0;
}

/* @text with its comments blanked, into @plain, and what it says. */
static int read_commented(const struct strbuf *text, const char *path, struct strbuf *plain,
			  struct arena *arena, const struct json_value **ret,
			  struct cordon_error *err)
{
	int r;

	strbuf_add(plain, text->data ? text->data : "", text->len);
	strbuf_puts(plain, ""); /* there is a text, even an empty one */
	if (plain->failed)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	r = jsonc_blank(plain, path, err);
	return r < 0 ? r : json_read(plain->data, plain->len, path, arena, ret, err);
}

static int make_new(struct wrapping *w, const char *path, struct cordon_error *err)
{
	struct arena arena = ARENA_INIT;
	struct strbuf again = STRBUF_INIT;
	const struct json_value *root = NULL;
	int r = read_commented(&w->old, path, &w->plain, &arena, &root, err);

	if (!root) {
		if (!err->hint[0])
			cordon_err_hint(err, "what cannot be rewritten here: write "
					     "'cordon mcp --wrap --' in front of each command");
		goto done;
	}
	if (root->type == JSON_OBJECT && wrap_all(w, root, 1, err) < 0) {
		r = -CORDON_E_USAGE;
		goto done;
	}
	if (!w->n_maps) {
		r = cordon_err(err, CORDON_E_USAGE, 0, "'%s' names no MCP servers", path);
		cordon_err_hint(err, "an object called mcpServers, servers or mcp is looked for");
		goto done;
	}
	apply(w);
	if (w->is_full || w->new.failed)
		r = cordon_err(err, CORDON_E_USAGE, 0, "'%s' names too many servers", path);
	/* What is written has to be read again. */
	if (r >= 0)
		r = read_commented(&w->new, path, &again, &arena, &root, err);
done:
	strbuf_done(&again);
	arena_done(&arena);
	return r;
}

static int show(const struct wrapping *w, const char *path)
{
	struct strbuf sb = STRBUF_INIT;
	struct textdiff diff;

	if (textdiff_make(w->old.data, w->old.len, w->new.data, w->new.len, 0, &diff) < 0)
		return STATUS_FAILED;
	strbuf_printf(&sb, "--- %s\n+++ %s\n", path, path);
	textdiff_unified(&diff, 3, &sb);
	textdiff_done(&diff);
	return out_finish(&sb, 0);
}

/* It must not become somebody else's: its owner could not read it any more, or others could. */
static int keep_owner(int fd, const struct stat *old)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((st.st_uid != old->st_uid || st.st_gid != old->st_gid) &&
	    fchown(fd, old->st_uid, old->st_gid) < 0)
		return -errno;
	return fchmod(fd, old->st_mode & 0777) < 0 ? -errno : 0;
}

static int has_changed(const struct stat *a, const struct stat *b)
{
	return a->st_dev != b->st_dev || a->st_ino != b->st_ino || a->st_size != b->st_size ||
	       a->st_mtim.tv_sec != b->st_mtim.tv_sec || a->st_mtim.tv_nsec != b->st_mtim.tv_nsec;
}

/* Beside it first: a reader sees the old file or the new one. A link stays a link. */
static int replace_file(const struct wrapping *w, const char *path, struct cordon_error *err)
{
	char real[PATH_MAX], temporary[PATH_MAX + 32];
	struct stat st;
	int fd, r;

	if (!realpath(path, real) || stat(real, &st) < 0)
		return cordon_err(err, CORDON_E_PATH, errno, "cannot write '%s'", path);
	if (has_changed(&st, &w->st))
		return cordon_err(err, CORDON_E_STATE, 0, "'%s' has changed meanwhile", path);
	snprintf(temporary, sizeof(temporary), "%s.cordon-%d", real, (int)getpid());
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return cordon_err(err, CORDON_E_PATH, errno, "cannot write beside '%s'", path);
	r = write_full(fd, w->new.data, w->new.len);
	if (r == 0)
		r = keep_owner(fd, &st);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(temporary, real) < 0)
		r = -errno;
	if (r == 0)
		return 0;
	(void)unlink(temporary);
	return cordon_err(err, CORDON_E_PATH, -r, "cannot write '%s'", path);
}

/* Each server has a private directory of its own below the one that is named. */
static int make_private(const struct parsed *args, struct cordon_error *err)
{
	const char *path = parsed_value(args, OPT_PRIVATE);

	if (path && mkdir(path, 0700) < 0 && errno != EEXIST)
		return cordon_err(err, CORDON_E_PATH, errno, "cannot make '%s'", path);
	return 0;
}

int mcp_wrap_config(const struct parsed *args)
{
	static struct wrapping w = { .old = STRBUF_INIT, .new = STRBUF_INIT, .plain = STRBUF_INIT };
	const char *path = parsed_value(args, OPT_WRAP_CONFIG);
	struct cordon_error err = CORDON_ERROR_INIT;
	int status;

	w.is_quiet = parsed_has(args, OPT_QUIET);
	if (words_make(&w.words, args, &err) < 0 || read_config(&w, path, &err) < 0 ||
	    make_new(&w, path, &err) < 0)
		goto fail;
	if (w.n_wrapped == 0) {
		say_line("there is nothing to wrap in %s", path);
		return 0;
	}
	status = show(&w, path);
	if (status != 0)
		return status;
	if (!parsed_has(args, OPT_YES)) {
		say_line("nothing was written; --yes writes it");
		return 0;
	}
	if (make_private(args, &err) < 0 || replace_file(&w, path, &err) < 0)
		goto fail;
	if (!w.is_quiet)
		say_line("%zu server%s wrapped; restart the client", w.n_wrapped,
			 w.n_wrapped == 1 ? " is" : "s are");
	return 0;
fail:
	say_error(&err);
	return STATUS_FAILED;
}

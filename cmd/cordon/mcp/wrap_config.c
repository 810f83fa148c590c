/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon mcp --wrap-config FILE: the servers of a client's configuration get `cordon mcp --wrap` in
 * front of their commands. Only the places that change are written anew; the rest of the file stays
 * byte by byte as its owner wrote it.
 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/json_read.h"
#include "base/macros.h"
#include "base/textdiff.h"
#include "config.h"
#include "config_file.h"
#include "jsonc.h"
#include "out.h"
#include "toml.h"
#include "verbs.h"
#include "wrapping.h"

/* What @text says. Of JSON, @plain has it with its comments blanked. */
static int read_text(const struct wrapping *w, const struct strbuf *text, const char *path,
		     struct strbuf *plain, struct arena *arena, const struct json_value **ret,
		     struct cordon_error *err)
{
	int r;

	if (w->is_toml)
		return toml_read(text->data, text->len, path, arena, ret, err);
	strbuf_add(plain, text->data ? text->data : "", text->len);
	strbuf_puts(plain, ""); /* there is a text, even an empty one */
	if (plain->failed)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	r = jsonc_blank(plain, path, err);
	return r < 0 ? r : json_read(plain->data, plain->len, path, arena, ret, err);
}

static int names_none(const struct wrapping *w, const char *path, struct cordon_error *err)
{
	cordon_err(err, CORDON_E_USAGE, 0, "'%s' names no MCP servers", path);
	cordon_err_hint(err, w->is_toml
				     ? "a table called mcp_servers is looked for"
				     : "an object called mcpServers, servers or mcp is looked for");
	return -CORDON_E_USAGE;
}

/* Finds the servers in w->old, and what has to change. */
static int find_edits(struct wrapping *w, const char *path, struct arena *arena,
		      struct cordon_error *err)
{
	const struct json_value *root = NULL;
	int r = read_text(w, &w->old, path, &w->plain, arena, &root, err);

	if (!root) {
		if (!err->hint[0])
			cordon_err_hint(err, "what cannot be rewritten here: write "
					     "'cordon mcp --wrap --' in front of each command");
		return r;
	}
	if (root->type == JSON_OBJECT && wrapping_find(w, root, 1, err) < 0)
		return -CORDON_E_USAGE;
	if (!w->n_maps)
		return names_none(w, path, err);
	return w->is_full ? cordon_err(err, CORDON_E_USAGE, 0, "'%s' names too many servers", path)
			  : 0;
}

static void forget_edits(struct wrapping *w)
{
	for (size_t i = 0; i < w->n; i++)
		strbuf_done(&w->edits[i].text);
	strbuf_done(&w->plain);
}

/* What is written is read once more, as a client would: in it all servers have to be wrapped. */
static int check_new(const struct wrapping *w, const char *path, struct cordon_error *err)
{
	static struct wrapping again;
	struct arena arena = ARENA_INIT;
	int r;

	again = (struct wrapping){ .words = w->words,
				   .old = w->new,
				   .new = STRBUF_INIT,
				   .plain = STRBUF_INIT,
				   .is_quiet = 1,
				   .is_toml = w->is_toml };
	r = find_edits(&again, path, &arena, err);
	if (r >= 0 && again.n_wrapped)
		r = cordon_err(err, CORDON_E_USAGE, 0,
			       "'%s' cannot be rewritten: a server would not be wrapped", path);
	forget_edits(&again);
	arena_done(&arena);
	return r < 0 ? r : 0;
}

static int make_new(struct wrapping *w, const char *path, struct cordon_error *err)
{
	struct arena arena = ARENA_INIT;
	int r = find_edits(w, path, &arena, err);

	if (r >= 0) {
		wrapping_apply(w);
		r = w->new.failed ? cordon_err(err, CORDON_E_NOMEM, 0, "out of memory")
				  : check_new(w, path, err);
	}
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

/* Each server has a private directory of its own below the one that is named. */
static int make_private(const struct parsed *args, struct cordon_error *err)
{
	const char *path = parsed_value(args, OPT_PRIVATE);

	if (path && mkdir(path, 0700) < 0 && errno != EEXIST)
		return cordon_err(err, CORDON_E_PATH, errno, "cannot make '%s'", path);
	return 0;
}

static int has_ending(const char *path, const char *ending)
{
	size_t len = strlen(path), n = strlen(ending);

	return len >= n && !strcmp(path + len - n, ending);
}

int mcp_wrap_config(const struct parsed *args)
{
	static struct wrapping w = { .old = STRBUF_INIT, .new = STRBUF_INIT, .plain = STRBUF_INIT };
	const char *path = parsed_value(args, OPT_WRAP_CONFIG);
	struct cordon_error err = CORDON_ERROR_INIT;
	int status;

	w.is_quiet = parsed_has(args, OPT_QUIET);
	w.is_toml = has_ending(path, ".toml");
	if (words_make(&w.words, args, &err) < 0 || config_read(path, &w.old, &w.st, &err) < 0 ||
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
	if (make_private(args, &err) < 0 || config_replace(path, &w.new, &w.st, &err) < 0)
		goto fail;
	if (!w.is_quiet)
		say_line("%zu server%s wrapped; restart the client", w.n_wrapped,
			 w.n_wrapped == 1 ? " is" : "s are");
	return 0;
fail:
	say_error(&err);
	return STATUS_FAILED;
}

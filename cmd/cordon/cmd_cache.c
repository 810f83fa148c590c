/* SPDX-License-Identifier: Apache-2.0 */
/* cordon cache list, gc: packages that were installed for runs. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "out.h"
#include "verbs.h"
#include "workspace.h"

#define UNUSED_S ((int64_t)30 * 86400)

struct lister {
	struct strbuf sb;
	struct json_writer w;
	int is_json, is_gc, dry_run;
	size_t n;
};

static int fail(const struct cordon_error *err)
{
	say_error(err);
	return STATUS_FAILED;
}

static int no_operands(const struct parsed *args, struct cordon_error *err)
{
	if (!args->n_rest)
		return 0;
	(void)cordon_err(err, CORDON_E_USAGE, 0, "'%s' takes no argument '%s'",
			 verb_table[args->verb].name, args->rest[0]);
	(void)cordon_err_hint(err, "try 'cordon %s --help'", verb_table[args->verb].name);
	return -CORDON_E_USAGE;
}

/* "requests==2.32.3, npm's lodash@4": what was asked for. */
static void add_wanted(struct strbuf *sb, const char *manifest)
{
	struct arena arena = ARENA_INIT;
	const struct json_value *doc = NULL, *wanted = NULL;

	if (manifest &&
	    json_read(manifest, strlen(manifest), "manifest", &arena, &doc, NULL) == 0 &&
	    doc->type == JSON_OBJECT)
		wanted = json_get(doc, "wanted");
	if (!wanted)
		strbuf_puts(sb, "damaged");
	for (const struct json_value *v = wanted ? wanted->first : NULL; v; v = v->next) {
		size_t len = v->type == JSON_STRING ? strcspn(v->text, " ") : 0;

		if (v != wanted->first)
			strbuf_putc(sb, ' ');
		strbuf_add_escaped(sb, len > 0 ? v->text : "?", len > 0 ? len : 1);
	}
	arena_done(&arena);
}

static void add_json(struct lister *l, const struct cordon_layer_info *info)
{
	json_open_object(&l->w, NULL);
	json_string(&l->w, "key", info->key);
	json_string(&l->w, "dir", info->dir);
	json_uint(&l->w, "bytes", info->bytes);
	json_uint(&l->w, "files", info->files);
	json_int(&l->w, "created", info->created_s);
	json_int(&l->w, "used", info->used_s);
	json_bool(&l->w, "in_use", info->in_use);
	/* Written by the library as JSON. */
	json_raw(&l->w, "manifest", info->manifest ? info->manifest : "null");
	json_close_object(&l->w);
}

static void add_text(struct lister *l, const struct cordon_layer_info *info)
{
	char size[HUMAN_MAX], age[HUMAN_MAX], used[HUMAN_MAX];

	if (l->is_gc) {
		strbuf_puts(&l->sb, l->dry_run ? "would remove " : "removed ");
		strbuf_printf(&l->sb, "%.12s: ", info->key);
	} else {
		if (l->n == 0)
			strbuf_printf(&l->sb, "%-12s  %6s  %5s  %5s  %-6s  %s\n", "KEY", "SIZE",
				      "AGE", "USED", "STATE", "PACKAGES");
		strbuf_printf(&l->sb, "%.12s  %6s  %5s  %5s  %-6s  ", info->key,
			      human_size(info->bytes, size), human_age(info->created_s, age),
			      human_age(info->used_s, used), info->in_use ? "in use" : "kept");
	}
	add_wanted(&l->sb, info->manifest);
	strbuf_putc(&l->sb, '\n');
}

static int told(void *arg, const struct cordon_layer_info *info)
{
	struct lister *l = arg;

	if (l->is_json)
		add_json(l, info);
	else
		add_text(l, info);
	l->n++;
	return 0;
}

static void told_gc(void *arg, const struct cordon_layer_info *info)
{
	(void)told(arg, info);
}

int cmd_cache_list(const struct parsed *args)
{
	struct lister l = { .sb = STRBUF_INIT, .is_json = parsed_has(args, OPT_JSON) };
	struct cordon_error err = CORDON_ERROR_INIT;

	json_writer_init(&l.w, &l.sb, 0);
	if (no_operands(args, &err) < 0)
		return fail(&err);
	if (l.is_json)
		json_open_array(&l.w, NULL);
	if (cordon_packages_list(told, &l, &err) < 0) {
		strbuf_done(&l.sb);
		return fail(&err);
	}
	if (l.is_json) {
		json_close_array(&l.w);
		strbuf_putc(&l.sb, '\n');
	}
	return out_finish(&l.sb, 0);
}

int cmd_cache_gc(const struct parsed *args)
{
	struct lister l = { .sb = STRBUF_INIT,
			    .is_json = parsed_has(args, OPT_JSON),
			    .is_gc = 1,
			    .dry_run = parsed_has(args, OPT_ONLY_SAY) };
	struct cordon_error err = CORDON_ERROR_INIT;
	int64_t older_than_s = UNUSED_S;
	uint64_t n = 0;

	json_writer_init(&l.w, &l.sb, 0);
	if (no_operands(args, &err) < 0)
		return fail(&err);
	if (parsed_has(args, OPT_OLDER_THAN) &&
	    parse_age(parsed_value(args, OPT_OLDER_THAN), &older_than_s, &err) < 0)
		return fail(&err);
	if (l.is_json) {
		json_open_object(&l.w, NULL);
		json_open_array(&l.w, "packages");
	}
	if (cordon_packages_gc(older_than_s, l.dry_run, told_gc, &l, &n, &err) < 0) {
		strbuf_done(&l.sb);
		return fail(&err);
	}
	if (l.is_json) {
		json_close_array(&l.w);
		json_uint(&l.w, "removed", l.dry_run ? 0 : n);
		json_close_object(&l.w);
		strbuf_putc(&l.sb, '\n');
	} else if (!n) {
		strbuf_puts(&l.sb, "nothing to remove\n");
	}
	return out_finish(&l.sb, 0);
}

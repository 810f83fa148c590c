/* SPDX-License-Identifier: Apache-2.0 */
/* cordon sandbox list, gc: private directories that the Python package keeps. */
#include <stdio.h>
#include <string.h>

#include <cordon/run.h>

#include "base/err.h"
#include "base/json_write.h"
#include "out.h"
#include "verbs.h"
#include "workspace.h"

struct lister {
	struct strbuf sb;
	struct json_writer w;
	int is_json, dry_run;
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

static const char *state_of(const struct cordon_private_info *info)
{
	if (info->in_use)
		return "in use";
	return info->is_kept ? "kept" : "left";
}

static void add_json(struct lister *l, const struct cordon_private_info *info, const char *why)
{
	json_open_object(&l->w, NULL);
	json_string(&l->w, "id", info->id);
	json_string(&l->w, "dir", info->dir);
	json_uint(&l->w, "bytes", info->bytes);
	json_uint(&l->w, "files", info->files);
	json_bool(&l->w, "partial", info->is_partial);
	json_int(&l->w, "created", info->created_s);
	json_int(&l->w, "used", info->used_s);
	json_bool(&l->w, "kept", info->is_kept);
	json_bool(&l->w, "in_use", info->in_use);
	if (why)
		json_string(&l->w, "why", why);
	json_close_object(&l->w);
}

/* "1.2K", or ">1.2K" if not all of it could be seen. */
static const char *size_of(const struct cordon_private_info *info, char ret[HUMAN_MAX + 1])
{
	char size[HUMAN_MAX];

	snprintf(ret, HUMAN_MAX + 1, "%s%s", info->is_partial ? ">" : "",
		 human_size(info->bytes, size));
	return ret;
}

static int told(void *arg, const struct cordon_private_info *info)
{
	struct lister *l = arg;
	char size[HUMAN_MAX + 1], age[HUMAN_MAX], used[HUMAN_MAX];

	if (l->is_json) {
		add_json(l, info, NULL);
		return 0;
	}
	if (l->n++ == 0)
		strbuf_printf(&l->sb, "%-9s  %6s  %5s  %5s  %-6s  %s\n", "ID", "SIZE", "AGE",
			      "USED", "STATE", "DIRECTORY");
	strbuf_printf(&l->sb, "%-9s  %6s  %5s  %5s  %-6s  ", info->id, size_of(info, size),
		      human_age(info->created_s, age), human_age(info->used_s, used),
		      state_of(info));
	add_path(&l->sb, info->dir);
	strbuf_putc(&l->sb, '\n');
	return 0;
}

static void told_gc(void *arg, const struct cordon_private_info *info, const char *why)
{
	struct lister *l = arg;
	char size[HUMAN_MAX + 1];

	if (l->is_json) {
		add_json(l, info, why);
		return;
	}
	strbuf_puts(&l->sb, l->dry_run ? "would remove " : "removed ");
	strbuf_add_escaped(&l->sb, info->id, strlen(info->id));
	strbuf_printf(&l->sb, " (%s): %s\n", size_of(info, size), why);
}

int cmd_sandbox_list(const struct parsed *args)
{
	struct lister l = { .sb = STRBUF_INIT, .is_json = parsed_has(args, OPT_JSON) };
	struct cordon_error err = CORDON_ERROR_INIT;

	json_writer_init(&l.w, &l.sb, 0);
	if (no_operands(args, &err) < 0)
		return fail(&err);
	if (l.is_json)
		json_open_array(&l.w, NULL);
	if (cordon_private_list(told, &l, &err) < 0) {
		strbuf_done(&l.sb);
		return fail(&err);
	}
	if (l.is_json) {
		json_close_array(&l.w);
		strbuf_putc(&l.sb, '\n');
	}
	return out_finish(&l.sb, 0);
}

int cmd_sandbox_gc(const struct parsed *args)
{
	struct lister l = { .sb = STRBUF_INIT,
			    .is_json = parsed_has(args, OPT_JSON),
			    .dry_run = parsed_has(args, OPT_ONLY_SAY) };
	struct cordon_error err = CORDON_ERROR_INIT;
	int64_t older_than_s = -1; /* what was kept on purpose stays */
	int status = 0;
	uint64_t n = 0;

	json_writer_init(&l.w, &l.sb, 0);
	if (no_operands(args, &err) < 0)
		return fail(&err);
	if (parsed_has(args, OPT_OLDER_THAN) &&
	    parse_age(parsed_value(args, OPT_OLDER_THAN), &older_than_s, &err) < 0)
		return fail(&err);
	if (l.is_json) {
		json_open_object(&l.w, NULL);
		json_open_array(&l.w, "sandboxes");
	}
	/* What was removed is told even if something could not be. */
	if (cordon_private_gc(older_than_s, l.dry_run, told_gc, &l, &n, &err) < 0)
		status = fail(&err);
	if (l.is_json) {
		json_close_array(&l.w);
		json_uint(&l.w, "removed", l.dry_run ? 0 : n);
		json_close_object(&l.w);
		strbuf_putc(&l.sb, '\n');
	} else if (!n && !status) {
		strbuf_puts(&l.sb, "nothing to remove\n");
	}
	return out_finish(&l.sb, status);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cordon workspace diff and export. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "out.h"
#include "output_file.h"
#include "verbs.h"
#include "workspace.h"

#define PATH_WIDTH_MAX 60
#define FLUSH_AT 65536
#define COLOR_OFF "\033[0m"

struct row {
	const char *path; /* escaped, with where it came from */
	size_t width;
	uint64_t size, old_size;
	unsigned risks;
	uint8_t kind, type, old_type;
};

struct table {
	struct cordon_workspace *ws;
	const char *const *paths;
	bool *is_used; /* of each path: something is there */
	struct arena arena;
	struct row *rows;
	size_t n, cap, width;
	struct cordon_summary s;
	int out_of_memory;
};

/* Characters as a terminal counts them, near enough: continuation bytes take no place. */
static size_t width_of(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static int wants_row(struct table *t, const struct cordon_change *c)
{
	int found = !t->paths;

	for (size_t i = 0; t->paths && t->paths[i]; i++) {
		const char *one[] = { t->paths[i], NULL };

		if (workspace_wants(one, c->path) || (c->from && workspace_wants(one, c->from)))
			found = t->is_used[i] = true;
	}
	return found;
}

static void count_row(struct cordon_summary *s, const struct cordon_change *c)
{
	uint64_t *const counts[CORDON_CHANGE_MAX] = {
		[CORDON_CHANGE_ADDED] = &s->added,     [CORDON_CHANGE_MODIFIED] = &s->modified,
		[CORDON_CHANGE_DELETED] = &s->deleted, [CORDON_CHANGE_RENAMED] = &s->renamed,
		[CORDON_CHANGE_MODE] = &s->mode,       [CORDON_CHANGE_SYMLINK] = &s->symlink,
		[CORDON_CHANGE_TYPE] = &s->type,
	};

	if (c->kind > 0 && c->kind < CORDON_CHANGE_MAX)
		++*counts[c->kind];
	s->risky += c->risks != 0;
	s->refused += (c->risks & CORDON_RISK_REFUSED) != 0;
}

static int add_to_table(void *arg, const struct cordon_change *c)
{
	struct table *t = arg;
	struct strbuf sb = STRBUF_INIT;
	struct row *row;

	if (!wants_row(t, c) || !c->is_listed)
		return 0;
	if (t->n == t->cap) {
		size_t cap = t->cap ? 2 * t->cap : 64;
		struct row *grown = realloc(t->rows, cap * sizeof(*grown));

		if (!grown)
			return t->out_of_memory = 1;
		t->rows = grown;
		t->cap = cap;
	}
	if (c->from) {
		add_path(&sb, c->from);
		strbuf_puts(&sb, " -> ");
	}
	add_path(&sb, c->path);
	if (c->target && c->kind != CORDON_CHANGE_RENAMED) {
		strbuf_puts(&sb, " -> ");
		add_path(&sb, c->target);
	}
	row = &t->rows[t->n++];
	*row = (struct row){ .kind = (uint8_t)c->kind,
			     .type = (uint8_t)c->type,
			     .old_type = (uint8_t)c->old_type,
			     .size = c->size,
			     .old_size = c->old_size,
			     .risks = c->risks };
	row->path = sb.failed ? NULL : arena_strdup(&t->arena, sb.data);
	strbuf_done(&sb);
	if (!row->path)
		return t->out_of_memory = 1;
	row->width = width_of(row->path);
	if (row->width > t->width)
		t->width = row->width < PATH_WIDTH_MAX ? row->width : PATH_WIDTH_MAX;
	count_row(&t->s, c);
	return 0;
}

static const char *color_of(int kind)
{
	if (kind == CORDON_CHANGE_ADDED)
		return "\033[32m";
	return kind == CORDON_CHANGE_DELETED ? "\033[31m" : "\033[33m";
}

static const char *sizes_of(const struct row *row, char ret[2 * HUMAN_MAX + 8])
{
	char a[HUMAN_MAX], b[HUMAN_MAX];
	int is_old = row->old_type == CORDON_FILE_REGULAR;
	int is_new = row->type == CORDON_FILE_REGULAR;

	ret[0] = '\0';
	if (is_old && is_new && row->size != row->old_size)
		snprintf(ret, 2 * HUMAN_MAX + 8, "%s -> %s", human_size(row->old_size, a),
			 human_size(row->size, b));
	else if (is_old || is_new)
		snprintf(ret, 2 * HUMAN_MAX + 8, "%s",
			 human_size(is_new ? row->size : row->old_size, a));
	else if (row->type > CORDON_FILE_SYMLINK || row->type == CORDON_FILE_DIRECTORY)
		snprintf(ret, 2 * HUMAN_MAX + 8, "%s", cordon_file_type_name(row->type));
	return ret;
}

static void add_row(struct strbuf *sb, const struct row *row, size_t width, int color)
{
	char sizes[2 * HUMAN_MAX + 8];

	strbuf_printf(sb, "%s%-8s%s  %s", color ? color_of(row->kind) : "",
		      cordon_change_kind_name(row->kind), color ? COLOR_OFF : "", row->path);
	for (size_t i = row->width; i < width; i++)
		strbuf_putc(sb, ' ');
	strbuf_printf(sb, "  %14s", sizes_of(row, sizes));
	if (row->risks) {
		strbuf_printf(sb, "  %s", color ? "\033[1;31m" : "");
		add_risks(sb, row->risks);
		strbuf_puts(sb, color ? COLOR_OFF : "");
	}
	while (!sb->failed && sb->len && sb->data[sb->len - 1] == ' ')
		sb->len--;
	strbuf_putc(sb, '\n');
}

static int print_table(struct table *t, int fd)
{
	uint64_t total = summary_total(&t->s);
	int color = out_has_color(fd);
	struct strbuf sb = STRBUF_INIT;
	int r = 0;

	for (size_t i = 0; i < t->n && r == 0; i++) {
		add_row(&sb, &t->rows[i], t->width, color);
		if (sb.len > FLUSH_AT && !sb.failed) {
			r = write_full(fd, sb.data, sb.len);
			sb.len = 0;
		}
	}
	strbuf_printf(&sb, "%llu change%s", (unsigned long long)total, total == 1 ? "" : "s");
	if (total) {
		strbuf_puts(&sb, ": ");
		add_summary(&sb, &t->s);
	}
	if (t->s.risky)
		strbuf_printf(&sb, "; %llu risky", (unsigned long long)t->s.risky);
	if (t->s.refused)
		strbuf_printf(&sb, " (%llu left out of a commit unless named)",
			      (unsigned long long)t->s.refused);
	strbuf_putc(&sb, '\n');
	if (fd == STDOUT_FILENO)
		return out_finish(&sb, 0);
	if (!sb.failed)
		(void)write_full(fd, sb.data, sb.len);
	strbuf_done(&sb);
	return 0;
}

/* A path without changes is most likely mistyped. */
static int check_paths(const struct table *t, struct cordon_error *err)
{
	for (size_t i = 0; t->paths && t->paths[i]; i++) {
		if (!t->is_used[i])
			return cordon_err(err, CORDON_E_PATH, 0, "nothing changed at '%s'",
					  t->paths[i]);
	}
	return 0;
}

static int collect(struct table *t, struct cordon_error *err)
{
	size_t n = 0;
	int r;

	while (t->paths && t->paths[n])
		n++;
	t->is_used = calloc(n + 1, sizeof(*t->is_used));
	if (!t->is_used)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	r = cordon_workspace_changes(t->ws, add_to_table, t, err);
	if (t->out_of_memory)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	return r < 0 ? r : check_paths(t, err);
}

static void table_done(struct table *t)
{
	arena_done(&t->arena);
	free(t->rows);
	free(t->is_used);
}

int workspace_show_changes(struct cordon_workspace *ws, int fd, struct cordon_error *err)
{
	struct table t = { .ws = ws };
	int r = collect(&t, err);

	if (r == 0)
		(void)print_table(&t, fd);
	table_done(&t);
	return r;
}

/* Patches */

static int make_patch(void *arg, int fd, struct cordon_error *err)
{
	struct table *t = arg;

	return cordon_workspace_patch(t->ws, t->paths, fd, err);
}

static int make_git_patch(void *arg, int fd, struct cordon_error *err)
{
	struct table *t = arg;

	return cordon_workspace_export(t->ws, CORDON_EXPORT_PATCH, t->paths, fd, err);
}

static int print_stat(struct table *t)
{
	const struct patch_source source = { make_patch, t };
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf sb = STRBUF_INIT;

	if (patch_stat(&source, &sb, &err) < 0) {
		strbuf_done(&sb);
		return workspace_fail(&err);
	}
	return out_finish(&sb, 0);
}

static int print_patch(struct table *t)
{
	const struct patch_source source = { make_patch, t };
	struct cordon_error err = CORDON_ERROR_INIT;
	int r;

	if (isatty(STDOUT_FILENO))
		r = patch_show(&source, STDOUT_FILENO, &err);
	else
		r = make_patch(t, STDOUT_FILENO, &err);
	if (r < 0 && err.sys_errno == EPIPE)
		return STATUS_FAILED;
	return r < 0 ? workspace_fail(&err) : 0;
}

/* Paths choose what is shown; the document is about the whole workspace. */
static int print_json(struct table *t)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf sb = STRBUF_INIT;
	char *text;

	if (cordon_workspace_to_json(t->ws, 0, &text, &err) < 0)
		return workspace_fail(&err);
	strbuf_puts(&sb, text);
	strbuf_putc(&sb, '\n');
	cordon_free(text);
	return out_finish(&sb, 0);
}

int cmd_workspace_diff(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct table t = { .arena = ARENA_INIT };
	const char **paths = NULL;
	int is_json = parsed_has(args, OPT_JSON);
	int is_patch = parsed_has(args, OPT_PATCH), is_stat = parsed_has(args, OPT_STAT);
	int status;

	if (is_json + is_patch + is_stat > 1) {
		cordon_err(&err, CORDON_E_USAGE, 0,
			   "--json, --patch and --stat exclude each other");
		return workspace_fail(&err);
	}
	if (is_json && args->n_rest > 1) {
		cordon_err(&err, CORDON_E_USAGE, 0, "--json is about a whole workspace");
		cordon_err_hint(&err, "leave the paths out");
		return workspace_fail(&err);
	}
	if (workspace_open_with_paths(args, &t.ws, &paths, &err) < 0)
		return workspace_fail(&err);
	t.paths = paths;
	if (is_json)
		status = print_json(&t);
	/* A patch makes its own way over the changes; only paths have to be looked at before. */
	else if ((paths || !(is_patch || is_stat)) && collect(&t, &err) < 0)
		status = workspace_fail(&err);
	else if (is_patch)
		status = print_patch(&t);
	else
		status = is_stat ? print_stat(&t) : print_table(&t, STDOUT_FILENO);
	table_done(&t);
	cordon_workspace_close(t.ws);
	return status;
}

/* export */

static int format_of(const struct parsed *args, int *ret, struct cordon_error *err)
{
	const char *format = parsed_value(args, OPT_FORMAT);
	const char *output = parsed_value(args, OPT_OUTPUT);
	size_t len = output ? strlen(output) : 0;
	int r;

	if (!format)
		format = len > 4 && !strcmp(output + len - 4, ".tar") ? "tar" : "patch";
	*ret = !strcmp(format, "tar") ? CORDON_EXPORT_TAR : CORDON_EXPORT_PATCH;
	if (*ret == CORDON_EXPORT_PATCH && strcmp(format, "patch") != 0) {
		r = cordon_err(err, CORDON_E_USAGE, 0, "--format: unknown format '%s'", format);
		cordon_err_hint(err, "tar or patch");
		return r;
	}
	if (*ret == CORDON_EXPORT_TAR && !output && isatty(STDOUT_FILENO)) {
		r = cordon_err(err, CORDON_E_USAGE, 0, "an archive is nothing for a terminal");
		cordon_err_hint(err, "say --output FILE");
		return r;
	}
	return 0;
}

static void remove_output(const char *path)
{
	const char *name;
	int fd = output_open_dir("", path, &name, NULL);

	if (fd < 0)
		return;
	(void)unlinkat(fd, name, 0);
	close(fd);
}

/* Returns how many changes were left out, or a negative code. A file that could not be finished is
 * removed. */
static int export_to(struct table *t, int format, const char *output, struct cordon_error *err)
{
	const struct patch_source source = { make_git_patch, t };
	int fd = STDOUT_FILENO;
	struct stat st;
	int r;

	if (!output && isatty(fd))
		return patch_show(&source, fd, err);
	if (output) {
		fd = output_open("", output, O_TRUNC, 0666, 1, err);
		if (fd < 0)
			return fd;
	}
	r = cordon_workspace_export(t->ws, format, t->paths, fd, err);
	if (output) {
		int is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);

		if (close(fd) < 0 && r >= 0)
			r = cordon_err(err, CORDON_E_SYSTEM, errno, "cannot write '%s'", output);
		if (r < 0 && is_file)
			remove_output(output);
	}
	return r;
}

int cmd_workspace_export(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct table t = { .arena = ARENA_INIT };
	const char **paths = NULL;
	int format;
	int r = format_of(args, &format, &err);

	if (r == 0)
		r = workspace_open_with_paths(args, &t.ws, &paths, &err);
	t.paths = paths;
	if (r == 0 && paths)
		r = collect(&t, &err);
	if (r == 0)
		r = export_to(&t, format, parsed_value(args, OPT_OUTPUT), &err);
	table_done(&t);
	cordon_workspace_close(t.ws);
	if (r < 0 && err.sys_errno == EPIPE)
		return STATUS_FAILED;
	if (r < 0)
		return workspace_fail(&err);
	if (r > 0 && format == CORDON_EXPORT_PATCH)
		say_line("note: %d change%s left out: git knows no FIFOs, sockets and devices, and "
			 "refuses .git",
			 r, r == 1 ? " was" : "s were");
	else if (r > 0)
		say_line("note: %d change%s left out: FIFOs, sockets, devices and names that begin "
			 "with .wh.",
			 r, r == 1 ? " was" : "s were");
	return 0;
}

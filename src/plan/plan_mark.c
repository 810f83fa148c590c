/* SPDX-License-Identifier: Apache-2.0 */
/* Marks: what is enforced at a path inside the view, whatever granted the path. */
#include <string.h>

#include "plan/plan_internal.h"

int plan_mark(struct build *b, const char *path, int kind, bool is_file)
{
	struct mark *mark = PLAN_ADD(b, marks, n_marks, cap_marks);

	if (!mark)
		return plan_nomem(b);
	mark->path = path;
	mark->kind = kind;
	mark->is_file = is_file;
	return plan_pin_parents(b, path);
}

static int mark_missing(struct build *b, const char *path, int kind, bool is_file, const char *text,
			struct mark **ret)
{
	int r = plan_mark(b, path, kind, is_file);
	struct mark *mark;

	if (r < 0)
		return r;
	/* Its parents' pins were added after it. */
	for (mark = b->marks + b->n_marks - 1; mark->path != path; mark--)
		;
	mark->is_reserved = true;
	mark->placeholder_text = text;
	if (ret)
		*ret = mark;
	return 0;
}

int plan_mark_missing(struct build *b, const char *path, int kind, const char *text)
{
	return mark_missing(b, path, kind, true, text, NULL);
}

int plan_mark_missing_file(struct build *b, const char *path)
{
	struct mark *mark;
	int r = mark_missing(b, path, MARK_MASK, true, "", &mark);

	if (r == 0)
		mark->is_empty_inside = true;
	return r;
}

int plan_mark_missing_dir(struct build *b, const char *path)
{
	return mark_missing(b, path, MARK_READ_ONLY, false, NULL, NULL);
}

/* The shortest write grant that @path lies in: whatever is between can be renamed by the guest. */
static const struct grant *outermost_write(const struct build *b, const char *path)
{
	const struct grant *best = NULL;

	for (size_t i = 0; i < b->n_grants; i++) {
		const struct grant *g = b->grants[i];

		if (g->write && !g->is_dropped && plan_is_below(g->real, path) &&
		    (!best || strlen(g->real) < strlen(best->real)))
			best = g;
	}
	return best;
}

int plan_pin_parents(struct build *b, const char *path)
{
	const struct grant *g = outermost_write(b, path);

	/* A mount point cannot be renamed, but a directory above one can. */
	while (g && plan_is_below(g->real, path)) {
		struct mark *mark;
		const char *dir = arena_strndup(b->arena, path, path_dir_len(path));

		if (!dir)
			return plan_nomem(b);
		if (!plan_is_below(g->real, dir))
			break;
		mark = PLAN_ADD(b, marks, n_marks, cap_marks);
		if (!mark)
			return plan_nomem(b);
		mark->path = dir;
		mark->kind = MARK_PIN;
		path = dir;
	}
	return 0;
}

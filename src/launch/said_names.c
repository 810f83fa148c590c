/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protected names in what the command said.
 *
 * The lines decide whether something is told, and never what: names and grants are the plan's, and
 * a line counts only if the kernel answers so at that name in this plan. All that a forged line
 * achieves is a true sentence about the run.
 */
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "base/strbuf.h"
#include "launch/said.h"
#include "plan/plan_read.h"

#define NAMES_MAX 512 /* protected names, and what lies below them, that are looked for */

/* A step of the plan at whose path the kernel may have refused something. */
struct said_name {
	const char *path;
	const char *relative; /* to where the command started; NULL = not below that */
	unsigned at, below;   /* errors at the name itself and below it; 0 = it is not protected */
	bool is_missing;      /* something stands in its place */
	bool is_told;
};

/* The name does not exist, and something stands in its place. If that is a directory, SAID_BUSY
 * means only that it cannot be removed, as `git clean` tries to: nothing is lost by that, unless
 * the command fails because of it (`git stash -u`). */
static void set_missing(struct said_name *name, const struct plan_reserved *reserved,
			bool has_failed)
{
	name->is_missing = true;
	name->at |= SAID_EXISTS;
	if (reserved->is_dir) {
		name->at &= has_failed ? ~0u : ~SAID_BUSY;
		return;
	}
	name->at |= SAID_NOT_DIR | SAID_DENIED | SAID_NOT_PERMITTED |
		    (reserved->text ? 0 : SAID_NO_DEVICE);
	name->below |= SAID_NOT_DIR;
}

static void set_errors(struct said_name *name, const struct plan *plan, bool has_failed)
{
	name->at = SAID_BUSY | SAID_READ_ONLY | SAID_OTHER_MOUNT;
	name->below = SAID_READ_ONLY | SAID_OTHER_MOUNT;
	for (size_t i = 0; i < plan->n_reserved; i++)
		if (strcmp(plan->reserved[i].path, name->path) == 0)
			set_missing(name, &plan->reserved[i], has_failed);
}

static const char *below(const char *dir, const char *path)
{
	size_t len = strlen(dir);

	if (!path_is_within(dir, path) || strcmp(dir, path) == 0)
		return NULL;
	return path + len + (dir[1] != '\0');
}

/* false: there are too many. */
static bool add_name(struct said *l, const struct plan_op *op)
{
	struct said_name *name = &l->names[l->n_names];

	if (l->n_names == NAMES_MAX)
		return false;
	l->n_names++;
	name->path = plan_string(l->plan, op->dst);
	name->relative = below(l->cwd, name->path);
	if (op->flags & PLAN_PROTECTED)
		set_errors(name, l->subject->plan, l->subject->has_failed);
	return true;
}

static bool is_below_one(const struct said *l, size_t n_protected, const char *path)
{
	for (size_t i = 0; i < n_protected; i++)
		if (below(l->names[i].path, path))
			return true;
	return false;
}

/* The protected names, then what is mounted below them and is not protected. */
static bool collect_names(struct said *l)
{
	const struct plan_header *h = l->plan;
	const struct plan_op *ops = plan_ops(h);
	bool is_all = true;
	size_t n_protected;

	l->n_names = 0;
	l->names = calloc(NAMES_MAX, sizeof(*l->names));
	if (!l->names)
		return false;
	for (uint32_t i = h->n_common_ops; is_all && i < h->n_ops; i++)
		if (ops[i].flags & PLAN_PROTECTED)
			is_all = add_name(l, &ops[i]);
	n_protected = l->n_names;
	for (uint32_t i = h->n_common_ops; is_all && i < h->n_ops; i++)
		if (ops[i].dst && !(ops[i].flags & PLAN_PROTECTED) &&
		    is_below_one(l, n_protected, plan_string(h, ops[i].dst)))
			is_all = add_name(l, &ops[i]);
	return is_all;
}

/* The length of @path if the text at @p is that or something below it, 0 = it is not. */
static size_t match(const char *p, const char *end, const char *path)
{
	size_t len = path ? strlen(path) : 0;

	if (len == 0 || len > (size_t)(end - p) || memcmp(p, path, len) != 0)
		return 0;
	return p[len - 1] == '/' || said_is_end(p + len, end) || p[len] == '/' ? len : 0;
}

/* The innermost name that the path at @p is or lies below; NULL = none. */
static struct said_name *name_at(const struct said *l, const char *p, const char *end,
				 bool *ret_below)
{
	struct said_name *best = NULL;
	size_t best_len = 0, len = 0;

	while (end - p > 2 && p[0] == '.' && p[1] == '/')
		p += 2;
	for (size_t i = 0; i < l->n_names; i++) {
		struct said_name *name = &l->names[i];
		const char *path = *p == '/' ? name->path : name->relative;
		size_t n = match(p, end, path);

		if (n && strlen(name->path) > best_len) {
			best = name;
			best_len = strlen(name->path);
			len = n;
		}
	}
	if (best)
		*ret_below = p + len < end && p[len] == '/' && !said_is_end(p + len + 1, end);
	return best;
}

/* The write grant that the name lies in; NULL = none that a workspace could take the place of. */
static const char *grant_of(const struct plan_header *h, const char *path)
{
	const char *best = NULL;

	if (h->workspace)
		return NULL; /* a run has one at most */
	for (uint32_t i = 0; i < h->n_ops; i++) {
		const struct plan_op *op = &plan_ops(h)[i];
		const char *dst = plan_string(h, op->dst);

		if (op->type == PLAN_OP_BIND && !(op->flags & (PLAN_RDONLY | PLAN_FILE)) &&
		    path_is_within(dst, path) && (!best || strlen(dst) > strlen(best)))
			best = dst;
	}
	return best;
}

const char *said_shown(const struct plan *plan, const char *path)
{
	const char *relative = plan->cwd ? below(plan->cwd, path) : NULL;

	if (relative)
		return relative;
	/* A home has to be named in full to be a workspace. */
	return plan->cwd && strcmp(plan->cwd, path) == 0 &&
			       !(plan->home && path_is_within(path, plan->home))
		       ? "."
		       : path;
}

const char *said_protect_fix(const struct said *l, const char *path)
{
	const char *grant = grant_of(l->plan, path), *fix = NULL;
	struct strbuf sb = STRBUF_INIT;

	if (!grant)
		return NULL;
	strbuf_puts(&sb, "--workspace ");
	add_shell_word(&sb, said_shown(l->subject->plan, grant));
	if (!sb.failed)
		fix = arena_strdup(l->subject->arena, sb.data);
	strbuf_done(&sb);
	return fix;
}

/* A placeholder that is busy was in the way of `rm -rf *`, or of what was to take the name. */
static void tell(struct said *l, struct said_name *name, unsigned errors)
{
	const char *what = !name->is_missing	 ? "write"
			   : errors & ~SAID_BUSY ? "create"
						 : "placeholder";

	name->is_told = true;
	said_tell(l, what, name->path, "fs.protect", said_protect_fix(l, name->path));
}

bool said_names_line(struct said *l, const struct said_line *line)
{
	if (!l->names && !collect_names(l))
		return false;
	for (const char *p = line->begin; p < line->end; p++) {
		bool is_below = false;
		struct said_name *name =
			said_is_begin(p, line) ? name_at(l, p, line->end, &is_below) : NULL;

		if (name && !name->is_told && line->errors & (is_below ? name->below : name->at))
			tell(l, name, line->errors);
	}
	return true;
}

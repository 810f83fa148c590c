/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grants and marks, sorted so that each path comes after its ancestors, become steps. A stack of
 * the mounts around the current path says what is enforced there already, so redundant mounts are
 * left out: deny beats allow, and otherwise the longest path wins.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/plan_internal.h"

enum state {
	STATE_NONE,
	STATE_SYSTEM,
	STATE_READ,
	STATE_WRITE,
	STATE_WORKSPACE, /* the command may write there, and nothing of it is the host's */
	STATE_MASKED
};

struct level {
	const char *path;
	int state;
};

struct stack {
	struct level *v;
	size_t n;
};

static int compare_marks(const void *pa, const void *pb)
{
	const struct mark *a = pa, *b = pb;
	int r = plan_path_cmp(a->path, b->path);

	if (r == 0)
		r = b->kind - a->kind;
	return r != 0 ? r : (a->order > b->order) - (a->order < b->order);
}

static int state_at(const struct build *b, struct stack *stack, const char *path)
{
	while (stack->n > 0 && !plan_is_below(stack->v[stack->n - 1].path, path))
		stack->n--;
	if (stack->n > 0)
		return stack->v[stack->n - 1].state;
	return plan_in_common(b, path) ? STATE_SYSTEM : STATE_NONE;
}

static void push(struct stack *stack, const char *path, int state)
{
	stack->v[stack->n].path = path;
	stack->v[stack->n].state = state;
	stack->n++;
}

static uint64_t grant_rights(const struct build *b, const struct grant *g)
{
	uint64_t rights = RIGHTS_READ;

	if (g->is_list)
		return plan_rights(b, LL_FS_READ_DIR, true);
	if (b->is_commands && g->origin == GRANT_TOOL && g->is_dir)
		return 0; /* plan_split_tree() */
	if (g->is_exec || !b->is_commands)
		rights |= LL_FS_EXECUTE;
	if (g->write)
		rights |= RIGHTS_WRITE;
	return plan_rights(b, rights, g->is_dir);
}

static void set_identity(struct step *step, const struct grant *g)
{
	step->op.flags |= g->is_dir ? 0 : PLAN_FILE;
	plan_set_identity(step, g->dev, g->ino);
}

static int bind_grant(struct build *b, struct grant *g, int around)
{
	bool is_own = true; /* the step's object is the grant's */
	struct step *step;
	int r;

	if (around == STATE_NONE) {
		r = plan_make_parents(b, g->real);
		if (r < 0)
			return r;
	}
	if (g->is_workspace) {
		r = plan_workspace_step(b, g, &step, &is_own);
		if (r < 0)
			return r;
	} else {
		step = plan_step(b, PLAN_OP_BIND, g->real, g->real);
		if (!step)
			return plan_nomem(b);
	}
	if (is_own)
		set_identity(step, g);
	if (!g->write)
		step->op.flags |= PLAN_RDONLY;
	if (b->is_commands && !g->is_exec && g->origin != GRANT_TOOL)
		step->op.flags |= PLAN_NOEXEC;
	if (around == STATE_NONE) {
		step->op.flags |= PLAN_MKPOINT;
		step->op.mode = g->is_dir ? 0755 : 0644;
		r = plan_list_add(b, &b->made, g->real);
		if (r < 0)
			return r;
	}
	step->op.access = grant_rights(b, g);
	/* Root's grants are mounted with mapped ids. */
	r = is_own && b->is_root ? plan_pass_fd(b, step, TAKE_FD(g->fd)) : 0;
	if (r == 0 && b->is_commands && g->origin == GRANT_TOOL && g->is_dir)
		r = plan_split_tree(b, g->real, PLAN_OP_PIN);
	return r;
}

/* Would mounting the grant change anything, given what is around it? */
static bool is_needed(const struct build *b, const struct grant *g, int around)
{
	bool is_default = g->origin != GRANT_EXPLICIT;

	if (around == STATE_NONE || (b->is_commands && (g->is_exec || g->origin == GRANT_TOOL)))
		return around != STATE_SYSTEM;
	if (g->is_workspace)
		return true;
	if (g->write)
		return around != STATE_WRITE;
	/* A default grant takes nothing away. */
	return (around == STATE_WRITE || around == STATE_WORKSPACE) && !is_default;
}

/* Of the sandbox's own: what the command sees of a reserved name that is a socket on the host. */
#define EMPTY_FILE "/dev/.cordon-empty"

static int pin(struct build *b, const char *path, const char *by, bool is_file, unsigned flags)
{
	struct step *step = plan_step(b, PLAN_OP_PIN, path, by);

	if (!step)
		return plan_nomem(b);
	step->op.flags =
		(uint16_t)(flags | (is_file ? PLAN_FILE : 0) | (b->is_commands ? PLAN_NOEXEC : 0));
	return 0;
}

/* 0: the grant adds nothing here; the next mark with this path counts. */
static int layout_grant(struct build *b, struct stack *stack, const struct mark *m, int around,
			const struct mark *next)
{
	struct grant *g = m->grant;
	int r = 0;

	if (is_needed(b, g, around))
		r = bind_grant(b, g, around);
	else if (g->write && next && plan_is_below(m->path, next->path))
		/* Nothing new, but something below it has to keep its place. */
		r = pin(b, m->path, NULL, !g->is_dir, 0);
	else if (!g->write)
		return 0;
	push(stack, m->path,
	     g->is_workspace ? STATE_WORKSPACE
	     : g->write	     ? STATE_WRITE
			     : STATE_READ);
	return r < 0 ? r : 1;
}

/* The name cannot be reserved in @dir, which is not writable for us. 0: nor can the guest make it.
 */
static int cannot_reserve(struct build *b, const struct mark *m, const char *dir, int error)
{
	struct stat st;
	int r;

	if (m->is_deny)
		return plan_note(b,
				 "'%s' does not exist and its directory is not yours: it can be "
				 "seen if it is created during the run",
				 m->path);
	if (error == EROFS || error == EPERM)
		return 0;
	/* Its owner can give himself the right, and the guest is that. */
	if (error == EACCES && lstat(dir, &st) == 0 && st.st_uid != b->in->machine->uid)
		return 0;
	r = cordon_err(b->err, CORDON_E_PATH, error, "cannot keep '%s' from being made", m->path);
	cordon_err_hint(b->err,
			"'chmod u+wx %s' lets Cordon do it; --no-protect gives up the protection",
			dir);
	return r;
}

/* The last name that was reserved, if it lies in the same directory as @path; NULL = it does not.
 */
static const struct plan_reserved *neighbour(const struct build *b, const char *path)
{
	const struct plan_reserved *last = b->n_reserved ? &b->reserved[b->n_reserved - 1] : NULL;
	size_t len = path_dir_len(path);

	return last && path_dir_len(last->path) == len && memcmp(last->path, path, len) == 0 ? last
											     : NULL;
}

/* Opens the directory for the placeholder. 0: not needed, since the guest cannot create the name.
 */
static int reserve(struct build *b, const struct mark *m, int around)
{
	const char *dir = arena_strndup(b->arena, m->path, path_dir_len(m->path));
	const struct plan_reserved *last = neighbour(b, m->path);
	struct plan_reserved *name;
	int fd;

	if (!dir)
		return plan_nomem(b);
	if (around == STATE_SYSTEM || (around == STATE_READ && !m->is_deny))
		return 0;
	if (!last && faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) < 0)
		return cannot_reserve(b, m, dir, errno);
	fd = last ? last->dir_fd : plan_open_real(dir);
	if (fd < 0)
		return cordon_err(b->err, CORDON_E_PATH, -fd, "cannot keep '%s' from being made",
				  m->path);
	name = PLAN_ADD(b, reserved, n_reserved, cap_reserved);
	if (!name) {
		if (!last)
			close(fd);
		return plan_nomem(b);
	}
	name->dir_fd = fd;
	name->path = m->path;
	name->name = strrchr(m->path, '/') + 1;
	name->text = m->kind == MARK_MASK ? NULL : m->placeholder_text;
	name->is_dir = !m->is_file;
	return 1;
}

static int mask(struct build *b, const struct mark *m)
{
	struct step *step = plan_step(b, PLAN_OP_MASK, m->path, NULL);

	if (!step)
		return plan_nomem(b);
	step->op.flags = m->is_file ? PLAN_FILE : 0;
	return 0;
}

/* A placeholder cannot be opened anyway; it only has to stay. */
static int pin_placeholder(struct build *b, const struct mark *m, unsigned flags)
{
	struct step *step;

	if (m->is_empty_inside && !b->has_empty_file) {
		step = plan_step(b, PLAN_OP_FILE, EMPTY_FILE, "");
		if (!step)
			return plan_nomem(b);
		/* It is mounted read-only, and programs say that rather than that they may not. */
		step->op.mode = 0644;
		b->has_empty_file = true;
	}
	return pin(b, m->path, m->is_empty_inside ? EMPTY_FILE : NULL, true, flags);
}

static int layout_mark(struct build *b, struct stack *stack, const struct mark *m, int around)
{
	unsigned held = PLAN_RDONLY | (m->is_protect ? PLAN_PROTECTED : 0);
	int r;

	/* The root tmpfs has nothing from the host to hide or protect. */
	if (around == STATE_NONE)
		return 0;
	if (around == STATE_WORKSPACE && m->kind == MARK_MASK) {
		push(stack, m->path, STATE_MASKED);
		return plan_cover_in_workspace(b, m);
	}
	if (m->is_reserved) {
		r = reserve(b, m, around);
		if (r <= 0)
			return r;
	}
	if (m->kind == MARK_MASK) {
		push(stack, m->path, STATE_MASKED);
		return m->is_reserved ? pin_placeholder(b, m, held) : mask(b, m);
	}
	if (around != STATE_WRITE && around != STATE_WORKSPACE)
		return 0;
	push(stack, m->path, m->kind == MARK_PIN ? around : STATE_READ);
	return pin(b, m->path, NULL, m->is_file, m->kind == MARK_PIN ? 0 : held);
}

static int layout_links(struct build *b)
{
	for (size_t i = 0; i < b->n_links; i++) {
		const struct plan_link *link = &b->links[i];
		int r;

		if (plan_grant_of(b, link->path, false) || plan_in_common(b, link->path) ||
		    strlist_has(&b->made, link->path))
			continue;
		r = plan_make_parents(b, link->path);
		if (r == 0 && !plan_step(b, PLAN_OP_SYMLINK, link->path, link->text))
			r = plan_nomem(b);
		if (r == 0)
			r = plan_list_add(b, &b->made, link->path);
		if (r < 0)
			return r;
	}
	return 0;
}

static int mark_grants(struct build *b)
{
	for (size_t i = 0; i < b->n_grants; i++) {
		struct grant *g = b->grants[i];
		struct mark *m;
		int r;

		if (g->is_dropped)
			continue;
		m = PLAN_ADD(b, marks, n_marks, cap_marks);
		if (!m)
			return plan_nomem(b);
		m->path = g->real;
		m->kind = MARK_GRANT;
		m->is_file = !g->is_dir;
		m->grant = g;
		/* A read-only grant is about the name: it must not be moved away. */
		if (!g->write && g->origin == GRANT_EXPLICIT) {
			r = plan_pin_parents(b, g->real);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

int plan_layout(struct build *b)
{
	const char *done = "";
	struct stack stack = { 0 };
	int r = layout_links(b);

	if (r == 0)
		r = mark_grants(b);
	if (r < 0)
		return r;
	if (b->n_marks == 0)
		return 0;
	for (size_t i = 0; i < b->n_marks; i++)
		b->marks[i].order = i;
	qsort(b->marks, b->n_marks, sizeof(*b->marks), compare_marks);
	stack.v = arena_alloc(b->arena, (b->n_marks + 1) * sizeof(*stack.v));
	if (!stack.v)
		return plan_nomem(b);
	for (size_t i = 0; r >= 0 && i < b->n_marks; i++) {
		const struct mark *m = &b->marks[i];
		const struct mark *next = i + 1 < b->n_marks ? m + 1 : NULL;
		int around;

		/* The same path again, with a lower precedence. */
		if (strcmp(m->path, done) == 0)
			continue;
		around = state_at(b, &stack, m->path);
		if (around == STATE_MASKED)
			continue;
		while (next && strcmp(next->path, m->path) == 0)
			next = next + 1 < b->marks + b->n_marks ? next + 1 : NULL;
		if (m->kind == MARK_GRANT) {
			r = layout_grant(b, &stack, m, around, next);
			if (r == 0)
				continue;
		} else {
			r = layout_mark(b, &stack, m, around);
		}
		done = m->path;
	}
	return r < 0 ? r : 0;
}

int plan_layout_rules(struct build *b)
{
	for (size_t i = 0; i < b->n_grants; i++) {
		const struct grant *g = b->grants[i];
		struct step *step;
		int r;

		if (g->is_dropped && !g->is_list)
			continue;
		if (b->is_commands && g->is_dir && !g->is_list &&
		    (g->origin == GRANT_TOOL || strcmp(g->real, "/usr") == 0)) {
			r = plan_split_tree(b, g->real, PLAN_OP_RULE);
			if (r < 0)
				return r;
			continue;
		}
		step = plan_step(b, PLAN_OP_RULE, NULL, g->real);
		if (!step)
			return plan_nomem(b);
		set_identity(step, g);
		step->op.flags |= g->is_listed ? PLAN_IF_THERE : 0;
		step->op.access = grant_rights(b, g);
	}
	return 0;
}

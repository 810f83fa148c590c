/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /tmp and home that are kept between runs: two of the caller's directories, mounted in place of
 * the run's own.
 *
 * They contain what earlier runs wrote, and other runs may be writing there right now. So nothing
 * in them is looked up by path on the host, links are never followed, and steps that put something
 * there (mount points of grants, links on the way to them) are marked, so that init expects
 * anything at such places.
 *
 * The caller's directory itself is not shown: its two names stay what they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan/plan_internal.h"
#include "sys/calls.h"

#define TMP "/tmp"
#define VAR_TMP "/var/tmp"
/* As launch/scratch.c makes them; and with the user's id, where the Python package keeps sandboxes
 * if there is no home. */
#define SCRATCH_PREFIX "cordon-"

static bool is_kept(const struct build *b, const char *place)
{
	return b->in->private_dir && b->in->level == PLAN_LEVEL_NAMESPACES &&
	       !plan_grant_of(b, place, false);
}

bool plan_keeps_tmp(const struct build *b)
{
	return is_kept(b, TMP);
}

bool plan_keeps_home(const struct build *b)
{
	return is_kept(b, b->home_real);
}

/* Is what a run writes at @place gone afterwards? What it serves to its caller is not lost. */
static bool is_lost(const struct build *b, const char *place)
{
	if (b->in->private_dir || b->in->is_self || b->in->options->files)
		return false;
	return b->in->level == PLAN_LEVEL_LANDLOCK ||
	       (!plan_grant_of(b, place, false) && !plan_in_workspace(b, place));
}

bool plan_loses_tmp(const struct build *b)
{
	return is_lost(b, TMP);
}

const char *plan_lost_home(const struct build *b)
{
	if (!is_lost(b, b->home_real))
		return NULL;
	return b->in->level == PLAN_LEVEL_LANDLOCK ? b->home : b->home_real;
}

static void set_object(struct step *step, const struct plan_private_dir *dir)
{
	if (dir->fd >= 0)
		plan_set_identity(step, dir->dev, dir->ino);
}

/* The sandbox of a run started by root cannot reach root's files: it gets the mount instead. */
static int pass_descriptor(struct build *b, const struct plan_private_dir *dir, struct step *step)
{
	int fd;

	if (!b->is_root || dir->fd < 0)
		return 0;
	fd = fcntl(dir->fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return cordon_err(b->err, CORDON_E_SYSTEM, errno, "the private directory");
	return plan_pass_fd(b, step, fd);
}

static int show(struct build *b, const char *place, const struct plan_private_dir *dir,
		uint64_t rights, unsigned flags)
{
	struct step *step;
	int r = plan_make_parents(b, place);

	if (r < 0)
		return r;
	step = plan_step(b, PLAN_OP_BIND, place, dir->path);
	if (!step)
		return plan_nomem(b);
	step->op.flags = (uint16_t)(flags | PLAN_MKPOINT | (b->is_commands ? PLAN_NOEXEC : 0));
	step->op.mode = 0755;
	step->op.access = rights;
	set_object(step, dir);
	r = pass_descriptor(b, dir, step);
	return r < 0 ? r : plan_list_add(b, &b->made, place);
}

static int show_private(struct build *b, const char *place, const struct plan_private_dir *dir)
{
	return show(b, place, dir, plan_private_rights(b), PLAN_PRIVATE_DIR);
}

static uint64_t code_rights(const struct build *b)
{
	return plan_rights(b, b->is_commands ? RIGHTS_READ : RIGHTS_RUN, true);
}

/*
 * Its mount point lies on the run's own tmpfs, and not where another run could remove it: that
 * would take the mount away.
 */
static int show_code(struct build *b)
{
	int r;

	if (!b->in->code)
		return 0;
	if (!plan_grant_of(b, CORDON_CODE_DIR, false))
		return show(b, CORDON_CODE_DIR, b->in->code, code_rights(b),
			    PLAN_RDONLY | PLAN_UNMAPPED);
	r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
		       "the run's program is shown at '" CORDON_CODE_DIR
		       "', where something is granted");
	cordon_err_hint(b->err, "grant what is needed of it, not all of /run");
	return r;
}

int plan_private_steps(struct build *b)
{
	int r = 0;

	if (plan_keeps_tmp(b))
		r = show_private(b, TMP, &b->in->private_dir->tmp);
	if (r == 0 && plan_keeps_home(b))
		r = show_private(b, b->home_real, &b->in->private_dir->home);
	return r == 0 ? show_code(b) : r;
}

void plan_private_mark(struct build *b)
{
	bool keeps_tmp = plan_keeps_tmp(b), keeps_home = plan_keeps_home(b);

	for (size_t i = b->n_common_steps; i < b->n_steps; i++) {
		struct plan_op *op = &b->steps[i].op;
		const char *dst = b->steps[i].dst;

		/* These are the steps that make a name outside of every grant. */
		if (op->type != PLAN_OP_DIR && op->type != PLAN_OP_SYMLINK &&
		    !((op->type == PLAN_OP_BIND || op->type == PLAN_OP_OVERLAY) &&
		      (op->flags & PLAN_MKPOINT)))
			continue;
		if ((keeps_tmp && plan_is_below(TMP, dst)) ||
		    (keeps_home && plan_is_below(b->home_real, dst)))
			op->flags |= PLAN_REUSED;
	}
}

static int add_rule(struct build *b, const struct plan_private_dir *dir, uint64_t rights,
		    unsigned flags)
{
	struct step *step = plan_step(b, PLAN_OP_RULE, NULL, dir->path);

	if (!step)
		return plan_nomem(b);
	step->op.flags = (uint16_t)flags;
	step->op.access = rights;
	set_object(step, dir);
	return 0;
}

/* Level landlock: all are what they are, at their own paths. */
int plan_private_rules(struct build *b)
{
	const struct plan_private *p = b->in->private_dir;
	const uint64_t rights = plan_private_rights(b);
	int r = 0;

	if (p)
		r = add_rule(b, &p->tmp, rights, PLAN_PRIVATE_DIR);
	if (r == 0 && p)
		r = add_rule(b, &p->home, rights, PLAN_PRIVATE_DIR);
	if (r == 0 && b->in->code)
		r = add_rule(b, b->in->code, code_rights(b), 0);
	return r;
}

/* A guest that could write there would choose what the next run gets as /tmp. */
int plan_hide_private(struct build *b)
{
	const struct plan_private *p = b->in->private_dir;
	int r;

	if (!p || !plan_grant_of(b, p->dir, false))
		return 0;
	if (b->in->level == PLAN_LEVEL_NAMESPACES)
		return p->tmp.fd >= 0 ? plan_mark(b, p->dir, MARK_MASK, false) : 0;
	if (!plan_grant_of(b, p->dir, true))
		return 0;
	r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
		       "level landlock cannot keep the private directory '%s' out of a write grant",
		       p->dir);
	cordon_err_hint(b->err, "grant what lies beside it, or take a private directory elsewhere");
	return r;
}

bool plan_is_scratch(const char *name)
{
	const char *rest = name + strlen(SCRATCH_PREFIX);

	return strncmp(name, SCRATCH_PREFIX, strlen(SCRATCH_PREFIX)) == 0 && *rest &&
	       rest[strspn(rest, "0123456789abcdef")] == '\0';
}

/*
 * Each run has a directory of its own in /tmp, of the same user. Landlock knows no exceptions:
 * where /tmp is granted for reading it is granted name by name, without these and without what is
 * made later.
 */
int plan_hide_scratch(struct build *b)
{
	struct resolved res;
	const char *name;
	int r;

	if (plan_resolve(b, TMP, &res) < 0 || !plan_grant_of(b, res.real, false))
		return 0;
	/* One that cannot be there stands for all of them. */
	name = plan_join(b, res.real, SCRATCH_PREFIX);
	if (!name)
		return plan_nomem(b);
	if (!plan_grant_of(b, res.real, true))
		return plan_leave_out(b, name);
	r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
		       "level landlock cannot keep the private directories of other runs out of a "
		       "write grant of '" TMP "'");
	cordon_err_hint(b->err, "grant a directory in it; TMPDIR is one of the run's own");
	return r;
}

/* @path as far as it lies in @place; NULL = it does not. */
static const char *rest_of(const char *place, const char *path)
{
	if (!path_is_within(place, path))
		return NULL;
	path += strlen(place);
	return path + strspn(path, "/");
}

int plan_in_private(const struct build *b, const char *path,
		    const struct plan_private_dir **ret_dir, const char **ret_rest)
{
	const struct plan_private *p = b->in->private_dir;
	const char *rest = NULL;

	if (!p || plan_grant_of(b, path, false))
		return 0;
	if (b->in->level != PLAN_LEVEL_NAMESPACES) {
		*ret_dir = &p->tmp;
		rest = rest_of(p->tmp.path, path);
		if (!rest) {
			*ret_dir = &p->home;
			rest = rest_of(p->home.path, path);
		}
	} else {
		/* The home directory may lie in /tmp: the inner one counts. */
		*ret_dir = &p->home;
		if (plan_keeps_home(b)) {
			rest = rest_of(b->home_real, path);
			rest = rest ? rest : rest_of(b->home, path);
		}
		if (!rest && plan_keeps_tmp(b)) {
			*ret_dir = &p->tmp;
			rest = rest_of(TMP, path);
			if (!rest && plan_var_tmp_is_link(b))
				rest = rest_of(VAR_TMP, path);
		}
	}
	*ret_rest = rest;
	return rest != NULL;
}

static bool is_file_in(const struct plan_private_dir *dir, const char *name)
{
	struct stat st;
	bool is_file;
	int fd;

	if (dir->fd < 0 || !*name)
		return false;
	fd = sys_openat2(dir->fd, name, O_PATH | O_NOFOLLOW,
			 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
	if (fd < 0)
		return false;
	is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	close(fd);
	return is_file;
}

const char *plan_private_command(struct build *b, const char *command, const char **ret_seen)
{
	const struct plan_private_dir *dir;
	char path[PATH_MAX];
	const char *name;

	if (!b->in->private_dir || !strchr(command, '/') ||
	    path_normalise(b->cwd_real ? b->cwd_real : b->cwd, command, path, sizeof(path)) < 0 ||
	    !plan_in_private(b, path, &dir, &name) || !is_file_in(dir, name))
		return NULL;
	*ret_seen = arena_strdup(b->arena, path);
	return *ret_seen ? plan_join(b, dir->path, name) : NULL;
}

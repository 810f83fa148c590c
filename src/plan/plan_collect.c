/* SPDX-License-Identifier: Apache-2.0 */
/* Which grants a run has: those of the policy, the caller's directory, the program's installation;
 * and where the command starts. What each of them may be: plan_grants.c. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "plan/plan_internal.h"
#include "probe/probe.h"

/* "/" as a read grant: everything in it, except what the sandbox has its own of. */
static int grant_root(struct build *b)
{
	static const char *const own[] = { ".", "..", "proc", "sys", "dev", "tmp", "run" };
	CLEANUP(close_dir) DIR *dir = opendir("/");
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return cordon_err(b->err, CORDON_E_PATH, errno, "cannot grant '/' for reading");
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		const char *path = arena_printf(b->arena, "/%s", entry->d_name);
		struct resolved res;
		bool is_own = false;

		if (!path)
			return plan_nomem(b);
		for (size_t i = 0; i < ARRAY_SIZE(own); i++)
			is_own |= strcmp(entry->d_name, own[i]) == 0;
		if (is_own || plan_resolve(b, path, &res) < 0)
			continue;
		if (res.last_link >= 0)
			r = plan_add_links(b, res.links, 1);
		else if (S_ISDIR(res.st.st_mode) || S_ISREG(res.st.st_mode))
			r = plan_add_grant(b, path, GRANT_EXPLICIT, false, NULL);
	}
	if (r == 0)
		r = plan_note(b, "'/' is granted for reading, except /dev, /proc, /run, /sys and "
				 "/tmp");
	return r;
}

static int add_explicit(struct build *b, const char *typed, bool write)
{
	struct grant *g = NULL;
	int r;

	if (!write && strcmp(typed, "/") == 0)
		return grant_root(b);
	r = plan_add_grant(b, typed, GRANT_EXPLICIT, write, &g);
	if (r < 0 || !g)
		return r;
	/* A preset grants "." and expects a project there. */
	if (write && typed[0] != '/' && typed[0] != '~' && path_is_within(g->real, b->home_real)) {
		r = cordon_err(b->err, CORDON_E_PATH, 0, "'%s' is your home directory", typed);
		cordon_err_hint(b->err,
				"work in a directory of its own, or name the home in full if you "
				"mean it: -w %s",
				g->real);
		return r;
	}
	if (path_is_within(g->real, b->home_real))
		r = plan_note(b, "your home directory %s the command (grant of '%s')",
			      g->write ? "can be changed by" : "is shown to", typed);
	return r;
}

/* The view has its own of these; a default grant must not replace them by the host's. */
static bool contains_own_place(const char *dir)
{
	static const char *const own[] = { "/tmp",  "/var/tmp", "/etc",	   "/run",
					   "/proc", "/sys",	"/dev/shm" };

	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		if (path_is_within(dir, own[i]))
			return true;
	}
	return false;
}

/* The caller's directory; *ret_fd is -1 if it cannot be opened. */
static int find_cwd(struct build *b, int *ret_fd)
{
	char buffer[PATH_MAX];
	const char *cwd = b->in->options->cwd;
	int r;

	if (!cwd) {
		cwd = getcwd(buffer, sizeof(buffer));
		/* Relative paths would mean something else, or nothing. */
		if (!cwd)
			return cordon_err_cwd(b->err, errno);
	}
	b->cwd = arena_strdup(b->arena, cwd);
	if (!b->cwd)
		return plan_nomem(b);
	if (*b->cwd != '/')
		return cordon_err(b->err, CORDON_E_USAGE, 0,
				  "the caller's directory '%s' is not absolute", b->cwd);
	r = path_normalise(NULL, b->cwd, buffer, sizeof(buffer));
	if (r < 0)
		return cordon_err(b->err, CORDON_E_USAGE, -r, "the caller's directory");
	*ret_fd = plan_open_path(b, buffer, &b->cwd_real);
	if (*ret_fd < 0) {
		*ret_fd = -1;
		b->cwd_real = NULL;
	}
	return 0;
}

static bool is_cwd_grantable(const struct build *b)
{
	const char *dir = b->cwd_real;

	return strcmp(dir, "/") != 0 && !plan_is_kernel_place(dir) && !contains_own_place(dir) &&
	       !plan_contains_home(b, dir) &&
	       faccessat(AT_FDCWD, dir, R_OK | X_OK, AT_EACCESS) == 0;
}

/* The caller's directory is granted for reading unless that would show a home or too much. */
static int grant_cwd(struct build *b, int fd)
{
	struct grant *g;

	if (fd < 0)
		return 0;
	if (plan_grant_of(b, b->cwd_real, false) || plan_in_workspace(b, b->cwd_real)) {
		close(fd);
		return 0;
	}
	if (!is_cwd_grantable(b)) {
		close(fd);
		b->cwd_real = NULL;
		return 0;
	}
	g = arena_alloc(b->arena, sizeof(*g));
	if (!g) {
		close(fd);
		return plan_nomem(b);
	}
	g->typed = g->real = b->cwd_real;
	g->origin = GRANT_CWD;
	return plan_add_opened(b, b->cwd_real, fd, g, NULL);
}

const char *plan_caller_path(const struct build *b)
{
	const char *const *envp = b->in->options->envp;

	if (b->in->options->search_path)
		return b->in->options->search_path;
	for (; envp && *envp; envp++) {
		if (strncmp(*envp, "PATH=", 5) == 0)
			return *envp + 5;
	}
	return NULL;
}

/* What of the program's installation has to be shown. @own: it lies in the workspace; @left: in the
 * private directory. */
static int grant_found(struct build *b, const char *own, const char *left)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->program.n_grants; i++) {
		const struct discover_grant *d = &b->program.grants[i];
		const struct plan_link link = { .path = d->path, .text = d->target };

		if (own && path_is_within(b->in->workspace->content, d->path))
			continue; /* it comes with the workspace */
		/* It comes with the private directory. What it is may change while we look: nothing
		 * but installations is shown for its sake. */
		if (left &&
		    (d->kind == DISCOVER_FILE || path_is_within(b->in->private_dir->dir, d->path)))
			continue;
		if (d->kind == DISCOVER_LINK)
			r = plan_add_links(b, &link, 1);
		/* Checked again, except what a package keeps for the program in /etc. */
		else if (d->kind == DISCOVER_FILE || path_is_within("/etc", d->path) ||
			 discover_tree_allowed(b->home_real, d->path))
			r = plan_add_grant(b, d->path, GRANT_TOOL, false, NULL);
	}
	return r;
}

/* The program's directory, as the command sees it. */
static int map_path_dirs(struct build *b, const char *left)
{
	size_t n = 0;

	for (size_t i = 0; i < b->program.n_path_dirs; i++) {
		const char *dir = b->program.path_dirs[i];

		if (left && path_is_within(b->in->private_dir->dir, dir))
			continue;
		dir = plan_workspace_seen(b, dir);
		if (!dir)
			return plan_nomem(b);
		b->program.path_dirs[n++] = dir;
	}
	b->program.n_path_dirs = n;
	return 0;
}

static int grant_program(struct build *b)
{
	const char *const *argv = b->in->options->argv;
	const char *name = argv ? argv[0] : NULL, *seen = NULL;
	const char *own = name ? plan_workspace_command(b, name) : NULL;
	const char *left = name && !own ? plan_private_command(b, name, &seen) : NULL;
	const struct discover_input in = { .command = own    ? own
						      : left ? left
							     : name,
					   .search_path = plan_caller_path(b),
					   .cwd = b->cwd,
					   .home = b->home_real,
					   .show_search = !b->in->is_self };
	int r;

	/* Nothing is executed, but the allow-list restricts files in the same way. */
	if (b->in->options->files)
		return b->is_commands ? plan_collect_commands(b, &in) : 0;
	/* A session's commands come later, and find what those of a run would. */
	r = name	     ? discover_program(b->arena, &in, &b->program, b->err)
	    : in.show_search ? discover_search(b->arena, &in, &b->program, b->err)
			     : 0;
	if (r == 0 && name)
		b->program.exec_path = left ? seen : plan_workspace_seen(b, b->program.exec_path);
	if (r == 0 && name && !b->program.exec_path)
		return plan_nomem(b);
	if (r == 0)
		r = map_path_dirs(b, left);
	if (r == 0)
		r = grant_found(b, own, left);
	if (r == 0 && b->is_commands)
		r = plan_collect_commands(b, &in);
	return r;
}

int plan_collect_grants(struct build *b)
{
	const struct cordon_policy *p = b->policy;
	int cwd_fd = -1;
	int r = find_cwd(b, &cwd_fd);

	if (r == 0)
		r = plan_grant_workspace(b);
	/* Write grants first: the links of read grants are checked against them. */
	for (size_t i = 0; r == 0 && i < p->fs_write.n; i++)
		r = add_explicit(b, p->fs_write.v[i], true);
	for (size_t i = 0; r == 0 && i < p->fs_read.n; i++)
		r = add_explicit(b, p->fs_read.v[i], false);
	if (r < 0) {
		if (cwd_fd >= 0)
			close(cwd_fd);
		return r;
	}
	r = grant_cwd(b, cwd_fd);
	if (r == 0)
		r = grant_program(b);
	if (r == 0)
		r = plan_hide_credentials(b);
	if (r == 0)
		r = plan_hide_store(b);
	if (r == 0)
		r = plan_hide_private(b);
	if (r == 0)
		r = plan_protect_packages(b);
	if (r == 0 && b->in->level == PLAN_LEVEL_LANDLOCK)
		r = plan_hide_scratch(b);
	return r;
}

bool plan_is_shown(const struct build *b, const char *path)
{
	for (size_t i = 0; i < b->n_grants; i++) {
		if (b->grants[i]->is_expanded && path_is_within(b->grants[i]->real, path))
			return true;
	}
	return plan_grant_of(b, path, false) != NULL;
}

/* -C: the directory must be visible inside. */
static int check_start_dir(struct build *b)
{
	const char *typed = b->policy->cwd;
	char path[PATH_MAX];
	struct resolved res;
	const struct plan_private_dir *dir;
	const char *rest;
	int r = plan_typed_path(b, typed, path);

	if (r >= 0 && plan_in_private(b, path, &dir, &rest)) {
		b->start_dir = arena_strdup(b->arena, path);
		return b->start_dir ? 0 : plan_nomem(b);
	}
	if (r >= 0)
		r = plan_resolve(b, path, &res);
	/* An earlier run may have made it; if not, entering it fails. */
	if (r >= 0 && plan_in_workspace(b, res.real)) {
		b->start_dir = plan_workspace_path(
			b, res.missing ? plan_join(b, res.real, res.missing) : res.real);
		return b->start_dir ? 0 : plan_nomem(b);
	}
	if (r >= 0 && res.missing)
		r = -ENOENT;
	if (r >= 0 && !S_ISDIR(res.st.st_mode))
		r = -ENOTDIR;
	if (r < 0) {
		r = cordon_err(b->err, CORDON_E_PATH, -r, "cannot start in '%s'", typed);
		if (b->err && b->err->sys_errno == ENOENT)
			plan_hint_missing(b, typed, path, false);
		return r;
	}
	b->start_dir = res.real;
	if (plan_is_shown(b, res.real) || path_is_within("/usr", res.real) ||
	    strcmp(res.real, "/") == 0)
		return 0;
	if (b->in->level == PLAN_LEVEL_NAMESPACES &&
	    (strcmp(res.real, "/tmp") == 0 || strcmp(res.real, b->home_real) == 0))
		return 0;
	r = cordon_err(b->err, CORDON_E_PATH, 0,
		       "cannot start in '%s': it lies outside every grant", typed);
	cordon_err_hint(b->err, "grant it with -r '%s'", typed);
	return r;
}

static int check_not_denied(struct build *b)
{
	const struct grant *g = plan_grant_of(b, b->start_dir, false);

	for (size_t i = 0; i < b->n_marks; i++) {
		const struct mark *m = &b->marks[i];

		/* A copy of the workspace lies where workspaces are kept. */
		if (g && g->is_workspace && plan_is_below(m->path, g->real))
			continue;
		if (m->kind == MARK_MASK && path_is_within(m->path, b->start_dir))
			return cordon_err(b->err, CORDON_E_PATH, 0,
					  "cannot start in '%s': it is denied", b->start_dir);
	}
	return 0;
}

int plan_choose_start_dir(struct build *b)
{
	const char *fallback = b->in->level == PLAN_LEVEL_NAMESPACES ? b->home_real : b->home;
	int r;

	if (b->policy->cwd) {
		r = check_start_dir(b);
		return r < 0 ? r : check_not_denied(b);
	}
	if (b->cwd_real && plan_in_workspace(b, b->cwd_real)) {
		b->start_dir = plan_workspace_path(b, b->cwd_real);
		return b->start_dir ? check_not_denied(b) : plan_nomem(b);
	}
	if (b->cwd_real && plan_is_shown(b, b->cwd_real)) {
		b->start_dir = b->cwd_real;
		return check_not_denied(b);
	}
	if (b->in->workspace) {
		b->start_dir = plan_workspace_path(b, b->in->workspace->base);
		return b->start_dir ? check_not_denied(b) : plan_nomem(b);
	}
	b->start_dir = fallback;
	if (path_is_within(b->cwd, b->home) || path_is_within(b->cwd, b->home_real))
		return plan_note(b, "your home directory is not shown to the command; grant a "
				    "directory with -r DIR, or this one with -r .");
	return plan_note(b, "'%s' is not shown to the command; grant it with -r .", b->cwd);
}

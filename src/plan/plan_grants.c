/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the paths of the policy to opened objects.
 *
 * Links. The command must not decide what a grant means: an earlier run may have left `ws/sub` as
 * a link to somewhere else. So a write grant may go through no link except those that belong to the
 * system (owned by root and directly in the root directory or one level below it), and a read
 * grant through none that lies inside a write grant of the same run. The message names the target,
 * which can be granted by its own name.
 *
 * Cannot be granted: /proc, /sys and /dev (the sandbox has its own), file systems of the kernel
 * that are mounted elsewhere, and writing to "/".
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/nearest.h"
#include "plan/plan_internal.h"
#include "probe/probe.h"
#include "uapi/kernel_fs.h"

int plan_add_links(struct build *b, const struct plan_link *links, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct plan_link *link = PLAN_ADD(b, links, n_links, cap_links);

		if (!link)
			return plan_nomem(b);
		*link = links[i];
	}
	return 0;
}

const struct grant *plan_grant_of(const struct build *b, const char *path, bool only_write)
{
	const struct grant *best = NULL;

	for (size_t i = 0; i < b->n_grants; i++) {
		const struct grant *g = b->grants[i];

		if (g->is_dropped || (only_write && !g->write) || !path_is_within(g->real, path))
			continue;
		if (!best || strlen(g->real) > strlen(best->real))
			best = g;
	}
	return best;
}

static const char *what_for(bool write)
{
	return write ? "writing" : "reading";
}

/* "did you mean" for a name that does not exist: the only place where a directory is read. */
static void hint_nearest(struct build *b, const char *typed, const char *path)
{
	CLEANUP(close_dir) DIR *dir = NULL;
	size_t dir_len = path_dir_len(typed);
	const char *name = strrchr(typed, '/');
	struct dirent *entry;
	struct nearest n;
	char *parent = arena_strndup(b->arena, path, path_dir_len(path));

	name = name ? name + 1 : typed;
	dir = parent ? opendir(parent) : NULL;
	if (!dir)
		return;
	nearest_init(&n, name);
	while ((entry = readdir(dir)) != NULL) {
		const char *copy;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		copy = arena_strdup(b->arena, entry->d_name);
		if (copy)
			nearest_offer(&n, copy);
	}
	if (n.best)
		cordon_err_hint(b->err, "did you mean '%.*s%s%s'?", (int)dir_len, typed,
				dir_len > 0 && typed[dir_len - 1] != '/' ? "/" : "", n.best);
}

/* What is missing of a path that does not exist. */
static void hint_missing(struct build *b, const char *typed, const char *path, bool write)
{
	struct resolved res;
	const char *first;
	char text[256];
	ssize_t len = readlink(path, text, sizeof(text));

	if (len > 0) {
		cordon_err_hint(b->err, "it is a link to '%.*s', which does not exist", (int)len,
				text);
		return;
	}
	hint_nearest(b, typed, path);
	if (!b->err || b->err->hint[0] || plan_resolve(b, path, &res) < 0 || !res.missing)
		return;
	first = plan_first_missing(b, &res);
	/* If only the last name is missing, the message has said it. */
	if (first && strcmp(first, path) != 0)
		cordon_err_hint(b->err, "there is no '%s'%s", first,
				write ? "; make it first, with mkdir or touch" : "");
	else if (write)
		cordon_err_hint(b->err, "make it first, with mkdir or touch");
}

/* Does openat2() itself fail, and not the file system that was asked? */
static bool is_openat2_missing(void)
{
	int fd = plan_open_real("/");

	if (fd >= 0)
		close(fd);
	return fd == -ENOSYS;
}

/* Cordon uses it wherever it opens something. */
static int refuse_without_openat2(struct build *b)
{
	int r;

	if (!probe_has_filter())
		return cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
				  "Cordon needs the system call openat2 (Linux 5.6)");
	if (probe_is_in_cordon()) {
		r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
			       "Cordon cannot run inside one of its own sandboxes");
		cordon_err_hint(b->err, "run the command itself: it is in a sandbox already");
		return r;
	}
	r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
		       "a system call filter around Cordon forbids openat2, which it needs");
	cordon_err_hint(b->err, "the container or service that this runs in has set the filter");
	return r;
}

static int refuse_open(struct build *b, const char *typed, const char *path, bool write, int error)
{
	int r;

	if (error == ENOSYS && is_openat2_missing())
		return refuse_without_openat2(b);
	r = cordon_err(b->err, CORDON_E_PATH, error, "cannot grant '%s' for %s", typed,
		       what_for(write));
	if (error == ENOENT)
		hint_missing(b, typed, path, write);
	else if (error == EACCES)
		cordon_err_hint(b->err, "the directory above it cannot be searched");
	else if (error == ELOOP)
		cordon_err_hint(b->err, "links of /proc cannot be granted; name the file itself");
	return r;
}

static int refuse(struct build *b, const struct grant *g, const char *why, const char *hint)
{
	int r = cordon_err(b->err, CORDON_E_PATH, 0, "cannot grant '%s' for %s: %s", g->typed,
			   what_for(g->write), why);

	if (hint)
		cordon_err_hint(b->err, "%s", hint);
	return r;
}

/* Part of the sandbox's own kernel interfaces? What lies in /dev/shm are ordinary files. */
static bool is_kernel_place(const char *real)
{
	return path_is_within("/proc", real) || path_is_within("/sys", real) ||
	       (path_is_within("/dev", real) && !plan_is_below("/dev/shm", real));
}

static int check_object(struct build *b, const struct grant *g)
{
	struct statfs fs;

	if (is_kernel_place(g->real))
		return refuse(b, g, "the sandbox has its own /proc and /dev, and no /sys", NULL);
	if (g->write && strcmp(g->real, "/") == 0)
		return refuse(b, g, "the whole system cannot be made writable",
			      "grant the directories that are to be written");
	if (S_ISFIFO(g->type))
		return refuse(b, g, "it is a FIFO",
			      "its other end lies outside the sandbox; pass data through stdin");
	if (S_ISSOCK(g->type))
		return refuse(b, g, "it is a socket", "its server acts outside the sandbox");
	if (!S_ISDIR(g->type) && !S_ISREG(g->type))
		return refuse(b, g, "it is a device", NULL);
	if (fstatfs(g->fd, &fs) < 0)
		return refuse_open(b, g->typed, g->real, g->write, errno);
	if (kernel_fs_of((uint64_t)fs.f_type))
		return refuse(b, g, "it lies on a file system of the kernel",
			      "what such a file system shows is the host's own, wherever it is "
			      "mounted");
	return 0;
}

static bool is_system_link(const struct plan_link *link)
{
	size_t len = path_dir_len(link->path);
	size_t slashes = 0;

	if (link->owner != 0 || strncmp(link->path, "/tmp/", 5) == 0)
		return false;
	for (size_t i = 0; i < len; i++)
		slashes += link->path[i] == '/';
	return slashes <= 1;
}

static int refuse_link(struct build *b, const struct grant *g, const struct plan_link *link)
{
	int r = cordon_err(b->err, CORDON_E_PATH, 0,
			   "cannot grant '%s' for %s: '%s' is a link that a command may have made",
			   g->typed, what_for(g->write), link->path);

	cordon_err_hint(b->err, "grant '%s' by that name if it is what you mean", g->real);
	return r;
}

/* The path goes through links: could the guest have made one of them? */
static int check_links(struct build *b, const char *path, const struct grant *g)
{
	struct resolved r;
	int e = plan_resolve(b, path, &r);

	if (e < 0)
		return refuse_open(b, g->typed, path, g->write, -e);
	for (size_t i = 0; i < r.n_links; i++) {
		if (g->write ? !is_system_link(&r.links[i])
			     : plan_grant_of(b, r.links[i].path, true) != NULL)
			return refuse_link(b, g, &r.links[i]);
	}
	if (r.missing || strcmp(r.real, g->real) != 0)
		return refuse(b, g, "it changed while it was looked at", NULL);
	return plan_add_links(b, r.links, r.n_links);
}

static struct grant *find_same(struct build *b, const struct grant *new)
{
	for (size_t i = 0; i < b->n_grants; i++) {
		if (!b->grants[i]->is_dropped && strcmp(b->grants[i]->real, new->real) == 0)
			return b->grants[i];
	}
	return NULL;
}

static int keep_grant(struct build *b, struct grant *g, struct grant **ret)
{
	struct grant *same = find_same(b, g), **slot;

	if (same && g->write && same->is_workspace) {
		close(g->fd);
		cordon_err(b->err, CORDON_E_POLICY, 0,
			   "'%s' cannot be both the workspace and a write grant", g->typed);
		cordon_err_hint(b->err, "leave one of the two out");
		return -CORDON_E_POLICY;
	}
	if (same) {
		/* Writing includes reading; an explicit grant takes precedence over a default. */
		same->write |= g->write;
		if (g->origin > same->origin)
			same->origin = g->origin;
		close(g->fd);
		g->fd = -1;
	} else {
		slot = PLAN_ADD(b, grants, n_grants, cap_grants);
		if (!slot) {
			close(g->fd);
			return plan_nomem(b);
		}
		*slot = same = g;
		/* Only root's grants travel as descriptors (they become idmapped mounts). */
		if (!b->is_root || b->in->level != PLAN_LEVEL_NAMESPACES) {
			close(g->fd);
			g->fd = -1;
		}
	}
	if (ret)
		*ret = same;
	return 0;
}

/* write() takes set-id bits away, a shared mapping does not. */
static bool write_lends_identity(const struct grant *g, mode_t mode)
{
	bool is_setgid = (mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP);

	return g->write && S_ISREG(mode) && ((mode & S_ISUID) || is_setgid);
}

/* Takes @fd, opened from @path, in any case. */
static int add_opened(struct build *b, const char *path, int fd, struct grant *g,
		      struct grant **ret)
{
	struct stat st;
	int r;

	g->fd = fd;
	if (fstat(fd, &st) < 0 || st.st_nlink == 0) {
		close(fd);
		return refuse_open(b, g->typed, path, g->write, ENOENT);
	}
	g->type = st.st_mode & S_IFMT;
	g->is_dir = S_ISDIR(st.st_mode);
	g->dev = st.st_dev;
	g->ino = st.st_ino;
	r = check_object(b, g);
	if (r == 0 && write_lends_identity(g, st.st_mode))
		r = refuse(b, g, "it has a set-id bit",
			   "written through a mapping it would keep the bit, and lend its owner's "
			   "identity; take the bit away: chmod ug-s");
	if (r == 0 && strcmp(path, g->real) != 0)
		r = check_links(b, path, g);
	if (r < 0) {
		close(fd);
		return r;
	}
	return keep_grant(b, g, ret);
}

int plan_add_grant(struct build *b, const char *typed, int origin, bool write, struct grant **ret)
{
	struct grant *g = arena_alloc(b->arena, sizeof(*g));
	char path[PATH_MAX];
	int r, fd;

	if (!g)
		return plan_nomem(b);
	r = plan_typed_path(b, typed, path);
	if (r < 0)
		return cordon_err(b->err, CORDON_E_PATH, -r, "cannot grant '%s' for %s", typed,
				  what_for(write));
	g->typed = typed;
	g->origin = origin;
	g->write = write;
	fd = plan_open_path(b, path, &g->real);
	if (fd < 0)
		return refuse_open(b, typed, path, write, -fd);
	return add_opened(b, path, fd, g, ret);
}

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

	return strcmp(dir, "/") != 0 && !is_kernel_place(dir) && !contains_own_place(dir) &&
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
	return add_opened(b, b->cwd_real, fd, g, NULL);
}

static const char *caller_path(const struct build *b)
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
					   .search_path = caller_path(b),
					   .cwd = b->cwd,
					   .home = b->home_real,
					   .show_search = !b->in->is_self };
	int r;

	/* Nothing is executed, but the allow-list restricts files in the same way. */
	if (b->in->options->files)
		return b->is_commands ? plan_collect_commands(b, &in) : 0;
	r = name ? discover_program(b->arena, &in, &b->program, b->err) : 0;
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
			hint_missing(b, typed, path, false);
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

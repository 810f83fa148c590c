/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a run might read a path, and write to it.
 *
 * What decides, in this order: what is denied, also before it exists; what the command has of its
 * own at that place, whatever the host has there (/tmp, its home, /etc/passwd); then the grants and
 * what is shown by default. Unlike a guest's words these are the caller's: links are followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/path.h"
#include "launch/why.h"
#include "plan/plan_read.h"

/* A path that is asked about. */
struct asked {
	const char *path; /* as it is shown */
	const char *real; /* where it leads on the host, or would if it existed */
	bool is_there, is_dir, is_socket;
	bool is_closed; /* it is not there, and the caller may not make it */
	enum view view;
	enum own own;
};

/* The protected name that @path is or lies below; NULL = none. */
static const char *protected_name(const struct plan_header *h, const char *path)
{
	for (uint32_t i = h->n_common_ops; i < h->n_ops; i++) {
		const struct plan_op *op = &plan_ops(h)[i];

		if (op->flags & PLAN_PROTECTED && path_is_within(plan_string(h, op->dst), path))
			return plan_string(h, op->dst);
	}
	return NULL;
}

/* Is @path, or what it lies in, kept from coming into being because it is denied? */
static bool is_denied_ahead(const struct plan *plan, const char *path)
{
	const struct plan_header *h = plan->block;

	for (size_t i = 0; i < plan->n_reserved; i++)
		if (!plan->reserved[i].text && !plan->reserved[i].is_dir &&
		    !protected_name(h, plan->reserved[i].path) &&
		    path_is_within(plan->reserved[i].path, path))
			return true;
	return false;
}

/* Where @path leads for the caller; false = nowhere, or he may not see it. */
static bool find_real(const char *path, char real[PATH_MAX], struct stat *st)
{
	char name[32];
	ssize_t len;
	int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return false;
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	len = fstat(fd, st) == 0 ? readlink(name, real, PATH_MAX - 1) : -1;
	close(fd);
	if (len <= 0 || real[0] != '/')
		return false;
	real[len] = '\0';
	return true;
}

/* The longest of the listed paths that @path is or lies in; 0 = none. */
static size_t listed_len(const struct why *w, const struct strlist *list, const char *path)
{
	char full[PATH_MAX], real[PATH_MAX];
	struct stat st;
	size_t best = 0;

	for (size_t i = 0; i < list->n; i++)
		if (path_normalise(w->said.cwd, list->v[i], full, sizeof(full)) > 0 &&
		    find_real(full, real, &st) && path_is_within(real, path) && strlen(real) > best)
			best = strlen(real);
	return best;
}

/* The innermost grant decides, and of two for one path the one for writing. */
static const char *grant_of(const struct why *w, const char *real)
{
	const char *ws = plan_string(w->said.plan, w->said.plan->workspace);
	size_t read_len = listed_len(w, &w->policy->fs_read, real);
	size_t write_len = listed_len(w, &w->policy->fs_write, real);

	if (*ws && path_is_within(ws, real) && strlen(ws) >= read_len && strlen(ws) >= write_len)
		return "fs.workspace";
	if (write_len && write_len >= read_len)
		return "fs.write";
	return read_len ? "fs.read" : NULL;
}

static const char *shown_because(const struct why *w, const struct asked *a, const char *rule)
{
	if (!rule && a->view == VIEW_WRITABLE)
		return "every command has it";
	if (!rule && w->subject.plan->cwd && path_is_within(w->subject.plan->cwd, a->real))
		return "it lies in the current directory, which is shown for reading";
	if (!rule)
		return "it belongs to the system or to an installation, which are shown for "
		       "reading";
	if (strcmp(rule, "fs.workspace") == 0)
		return "it lies in the workspace";
	return strcmp(rule, "fs.write") == 0 ? "it is granted for writing, which includes reading"
					     : "it is granted for reading";
}

#define OWN_TEXT "the command has one of its own at that place"

/* The reason why nothing of the host's is seen there. */
static const char *hidden_because(struct why *w, const struct asked *a)
{
	const char *dir = a->own == OWN_FREE ? view_private(w->said.plan, a->real) : NULL;
	const char *text = dir ? arena_printf(&w->arena, "the command's own %s hides it", dir)
			       : NULL;

	return text ? text : "nothing shows it";
}

static void add_read(struct why *w, const struct asked *a)
{
	const char *rule, *fix, *reason;

	if (a->view == VIEW_DENIED) {
		why_add(w, "read", a->path, false, "fs.deny", "it is hidden on purpose", NULL);
	} else if (a->own == OWN_SHOWN || a->own == OWN_WRITABLE) {
		why_add(w, "read", a->path, true, NULL, OWN_TEXT ", not this one", NULL);
	} else if (!a->is_there) {
		why_add(w, "read", a->path, false, NULL, "it does not exist, or you may not see it",
			NULL);
	} else if (a->view == VIEW_HIDDEN) {
		fix = a->is_socket ? NULL : said_read_fix(&w->said, a->path, a->real);
		reason = fix ? hidden_because(w, a) : "it is kept from commands on purpose";
		why_add(w, "read", a->path, false, "fs.read", reason, fix);
	} else if (a->view == VIEW_UNKNOWN && !protected_name(w->said.plan, a->real)) {
		why_add(w, "read", a->path, false, NULL, OWN_TEXT, NULL);
	} else if (faccessat(AT_FDCWD, a->real, R_OK, AT_EACCESS) < 0) {
		why_add(w, "read", a->path, false, NULL, "you may not read it yourself", NULL);
	} else {
		rule = grant_of(w, a->real);
		why_add(w, "read", a->path, true, rule, shown_because(w, a, rule), NULL);
	}
}

/* A grant of a file itself would win over one of its directory. */
static bool is_named(const struct why *w, const char *real)
{
	return listed_len(w, &w->policy->fs_read, real) == strlen(real);
}

/* What is allowed is so by a grant, the workspace, or because every command has it. */
static void add_writable(struct why *w, const struct asked *a)
{
	const char *rule = grant_of(w, a->real);
	const char *reason = !rule ? "every command has it"
			     : strcmp(rule, "fs.workspace") == 0
				     ? "it lies in the workspace, which keeps changes apart"
				     : "it is granted for writing";

	why_add(w, "write", a->path, true, rule, reason, NULL);
}

static void add_write(struct why *w, const struct asked *a)
{
	const char *name = protected_name(w->said.plan, a->real), *fix;

	if (name) {
		why_add(w, "write", a->path, false, "fs.protect",
			"it would run by itself later, and is protected in a write grant",
			w->said.plan->workspace ? NULL : said_protect_fix(&w->said, name));
	} else if (a->view == VIEW_DENIED) {
		why_add(w, "write", a->path, false, "fs.deny", "it is hidden on purpose", NULL);
	} else if (a->own == OWN_WRITABLE || (a->own == OWN_FREE && !(a->is_there && a->is_dir))) {
		why_add(w, "write", a->path, true, NULL,
			"it would be the command's own, not this one", NULL);
	} else if (a->own == OWN_SHOWN || a->view == VIEW_UNKNOWN) {
		why_add(w, "write", a->path, false, NULL, OWN_TEXT, NULL);
	} else if (a->is_there && faccessat(AT_FDCWD, a->real, W_OK, AT_EACCESS) < 0) {
		why_add(w, "write", a->path, false, NULL, "you may not write to it yourself", NULL);
	} else if (a->is_closed) {
		why_add(w, "write", a->path, false, NULL,
			"you may not make it in its directory yourself", NULL);
	} else if (a->view == VIEW_WRITABLE) {
		add_writable(w, a);
	} else {
		fix = said_write_fix(&w->said, a->path, a->real,
				     a->is_dir || (a->is_there && is_named(w, a->real)));
		why_add(w, "write", a->path, false, "fs.write",
			fix ? "nothing opens it for writing"
			    : "it is kept from commands on purpose",
			fix);
	}
}

static void judge(struct why *w, struct asked *a)
{
	char dir[PATH_MAX];
	size_t dir_len = path_dir_len(a->real);

	a->view = view_of(w->said.plan, a->real, a->is_dir);
	if (!a->is_there && a->view != VIEW_DENIED) {
		/* What may be done in its directory. */
		memcpy(dir, a->real, dir_len);
		dir[dir_len] = '\0';
		a->view = view_of(w->said.plan, dir_len ? dir : "/", true);
		a->is_closed = faccessat(AT_FDCWD, dir_len ? dir : "/", W_OK | X_OK, AT_EACCESS) <
			       0;
	}
	if (is_denied_ahead(w->subject.plan, a->real))
		a->view = VIEW_DENIED;
	a->own = view_own(w->said.plan, a->real);
	add_read(w, a);
	add_write(w, a);
}

/* It is not there: where it would be, if its directory is. */
static int judge_missing(struct why *w, const char *full, struct cordon_error *err)
{
	char dir[PATH_MAX], real[PATH_MAX];
	struct asked a = { .path = arena_strdup(&w->arena, full) };
	struct stat st;
	size_t len = path_dir_len(full);

	memcpy(dir, full, len);
	dir[len] = '\0';
	if (find_real(len ? dir : "/", real, &st) && S_ISDIR(st.st_mode))
		a.real = arena_printf(&w->arena, "%s/%s", real[1] ? real : "",
				      full + len + (full[len] == '/'));
	else
		a.real = a.path;
	if (!a.path || !a.real)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	if (a.real == a.path && !is_denied_ahead(w->subject.plan, a.real)) {
		why_add(w, "read", a.path, false, NULL, "it does not exist, or you may not see it",
			NULL);
		why_add(w, "write", a.path, false, NULL,
			"its directory does not exist, or you may not see it", NULL);
		return 0;
	}
	judge(w, &a);
	return 0;
}

int why_path(struct why *w, const char *typed, struct cordon_error *err)
{
	char full[PATH_MAX], real[PATH_MAX];
	const char *home = w->subject.plan->home;
	struct asked a = { .real = real };
	struct stat st;
	int r;

	if (typed[0] == '~' && home && (typed[1] == '/' || !typed[1]))
		r = path_normalise(home, typed[1] ? typed + 2 : ".", full, sizeof(full));
	else
		r = path_normalise(w->said.cwd, typed, full, sizeof(full));
	if (r < 0 || full[0] != '/')
		return cordon_err(err, CORDON_E_PATH, r < 0 ? -r : EINVAL, "cannot ask about '%s'",
				  typed);
	if (!find_real(full, real, &st))
		return judge_missing(w, full, err);
	/* What ".." leads to is known only now. */
	a.path = arena_strdup(&w->arena, path_has_dotdot(full) ? real : full);
	if (!a.path)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	a.is_there = true;
	a.is_dir = S_ISDIR(st.st_mode);
	a.is_socket = S_ISSOCK(st.st_mode);
	judge(w, &a);
	return 0;
}

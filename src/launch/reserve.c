/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reserved names: they do not exist, and a run must not create them.
 *
 * The kernel can cover an existing name with a mount, but not a missing one. So a placeholder,
 * which the run can neither open nor remove, reserves the name until the run ends. The last run
 * that uses the directory (locks.h) removes the placeholders. If a run is killed together with its
 * janitor, the next run takes its placeholders over and removes them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "format/janitor.h"
#include "format/placeholder.h"
#include "launch/launch.h"
#include "launch/locks.h"
#include "sys/calls.h"

#define TRIES 8

struct reserved_name {
	int dir_fd; /* the plan's */
	const struct dir_lock *lock;
	bool is_made; /* by us, not found */
	bool is_held; /* reserved, and not removed yet */
	char name[JANITOR_NAME_MAX];
};

static const struct timespec mark[2] = {
	{ PLACEHOLDER_SECONDS, PLACEHOLDER_NANOSECONDS },
	{ PLACEHOLDER_SECONDS, PLACEHOLDER_NANOSECONDS },
};

/* What stands in for a missing file must say the same. */
static bool has_text(const struct reserved_name *name, const char *text)
{
	char found[PLACEHOLDER_BYTES_MAX + 1];
	int fd = sys_openat(name->dir_fd, name->name,
			    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
	ssize_t n = fd < 0 ? -1 : read(fd, found, sizeof(found));

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)strlen(text) && memcmp(found, text, (size_t)n) == 0;
}

/* Is it the placeholder of another run, one that has ended or goes on? */
static bool is_reserved(const struct reserved_name *name, const char *text)
{
	struct stat st;

	if (fstatat(name->dir_fd, name->name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !is_placeholder(&st))
		return false;
	return text ? S_ISREG(st.st_mode) && has_text(name, text) : S_ISSOCK(st.st_mode);
}

static int create(const struct reserved_name *name, const char *text)
{
	int fd, r;

	if (!text)
		return sys_mknodat(name->dir_fd, name->name, S_IFSOCK | PLACEHOLDER_MODE);
	fd = sys_openat(name->dir_fd, name->name,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, PLACEHOLDER_MODE);
	if (fd < 0)
		return fd;
	r = (int)sys_write(fd, text, strlen(text));
	close(fd);
	if (r >= 0)
		return 0;
	unlinkat(name->dir_fd, name->name, 0);
	return r;
}

/* Reserves the name, possibly together with other runs. */
static int reserve(struct reserved_name *name, const char *text)
{
	for (int i = 0; i < TRIES; i++) {
		int r = create(name, text);

		if (r == 0 && utimensat(name->dir_fd, name->name, mark, AT_SYMLINK_NOFOLLOW) < 0) {
			r = -errno;
			unlinkat(name->dir_fd, name->name, 0);
			return r;
		}
		name->is_made = r == 0;
		name->is_held = r == 0 || (r == -EEXIST && is_reserved(name, text));
		if (name->is_held)
			return 0;
		if (r != -EEXIST)
			return r;
		/* Another run may be between creating and marking it. */
		usleep(1000);
	}
	return -EEXIST;
}

/* While another run reserves names here, too, they stay: that run removes them. */
static void remove_placeholder(struct reserved_name *name)
{
	struct stat st;

	if (fstatat(name->dir_fd, name->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    is_placeholder(&st) &&
	    (name->is_made || st.st_uid == geteuid() || name->lock->shared_fd >= 0))
		unlinkat(name->dir_fd, name->name, 0);
	name->is_held = false;
}

/* The index of @lock among those of the run. */
static size_t dir_of(const struct locks *locks, const struct dir_lock *lock)
{
	return (size_t)(lock - locks->v);
}

static void list_names(const struct locks *locks, const struct reserved *reserved,
		       struct janitor_order *ret, int *fds)
{
	ret->n_names = (uint32_t)reserved->n;
	ret->n_dirs = (uint32_t)locks->n;
	for (size_t i = 0; i < locks->n; i++) {
		fds[2 * i] = fds[2 * i + 1] = locks->v[i].fd;
		memcpy(ret->locks[i], locks->v[i].name, JANITOR_LOCK_MAX);
	}
	for (size_t i = 0; i < reserved->n; i++) {
		const struct reserved_name *name = &reserved->v[i];
		size_t dir = dir_of(locks, name->lock);

		fds[2 * dir + 1] = name->dir_fd;
		ret->dirs[i] = (uint8_t)dir;
		memcpy(ret->names[i], name->name, JANITOR_NAME_MAX);
	}
}

/* Removes the placeholders if we are killed, so it must exist before they do. */
static int start_janitor(struct cordon_launcher *l, const struct locks *locks,
			 struct reserved *reserved, int init_pid_fd, struct cordon_error *err)
{
	struct control_order order = { .type = CONTROL_JANITOR };
	struct janitor_order *names;
	int fds[JANITOR_FDS + 2 * JANITOR_DIRS_MAX], r;

	r = spawn_init(l, SPAWN_JANITOR, NULL, &reserved->janitor, err);
	if (r < 0)
		return r;
	names = calloc(1, sizeof(*names));
	if (!names)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	fds[JANITOR_FD_INIT] = init_pid_fd;
	fds[JANITOR_FD_SUPERVISOR] = l->self_fd;
	fds[JANITOR_FD_LOCKS] = locks->fd;
	list_names(locks, reserved, names, fds + JANITOR_FDS);
	r = spawn_send(reserved->janitor.ctl_fd, &order, fds,
		       (unsigned)(JANITOR_FDS + 2 * locks->n));
	if (r == 0)
		r = (int)sys_write(reserved->janitor.ctl_fd, names, sizeof(*names));
	free(names);
	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "cannot tell the janitor its names")
		     : 0;
}

static int refuse(const struct plan_reserved *from, int error, struct cordon_error *err)
{
	int r = cordon_err(err, error == EEXIST ? CORDON_E_STATE : CORDON_E_PATH, error,
			   "cannot keep '%s' from being created", from->path);

	cordon_err_hint(err, "--no-protect gives up the protection of names that run by "
			     "themselves later");
	return r;
}

/* The locks come first: while a run has one, no other removes a placeholder. */
static int take_locks(struct locks *locks, const struct plan *plan, struct reserved *ret,
		      struct cordon_error *err)
{
	for (size_t i = 0; i < plan->n_reserved; i++) {
		const struct plan_reserved *from = &plan->reserved[i];
		struct reserved_name *name = &ret->v[i];
		int r;

		if (strlen(from->name) >= sizeof(name->name))
			return refuse(from, ENAMETOOLONG, err);
		memcpy(name->name, from->name, strlen(from->name) + 1);
		name->dir_fd = from->dir_fd;
		r = locks_take(locks, name->dir_fd, &name->lock);
		if (r < 0)
			return refuse(from, -r, err);
		ret->n = i + 1;
	}
	return 0;
}

int reserve_names(struct cordon_launcher *l, struct locks *locks, const struct plan *plan,
		  int init_pid_fd, struct reserved *ret, struct cordon_error *err)
{
	int r;

	if (plan->n_reserved == 0)
		return 0;
	if (plan->n_reserved > JANITOR_NAMES_MAX)
		return cordon_err(err, CORDON_E_POLICY, 0,
				  "too many names that do not exist have to be protected");
	ret->v = calloc(plan->n_reserved, sizeof(*ret->v));
	if (!ret->v)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	r = take_locks(locks, plan, ret, err);
	if (r == 0)
		r = start_janitor(l, locks, ret, init_pid_fd, err);
	for (size_t i = 0; i < plan->n_reserved && r == 0; i++) {
		r = reserve(&ret->v[i], plan->reserved[i].text);
		if (r < 0)
			r = refuse(&plan->reserved[i], -r, err);
	}
	return r;
}

void reserve_clear(struct reserved *reserved, bool (*is_ours)(const struct dir_lock *lock))
{
	for (size_t i = 0; i < reserved->n; i++)
		if (reserved->v[i].is_held && is_ours(reserved->v[i].lock))
			remove_placeholder(&reserved->v[i]);
}

void reserve_release(struct cordon_launcher *l, struct reserved *reserved)
{
	reserve_clear(reserved, locks_is_last);
	if (reserved->janitor.ctl_fd >= 0) {
		ssize_t r = write(reserved->janitor.ctl_fd, "", 1);

		(void)r; /* it fails if the janitor has ended */
		spawned_done(l, &reserved->janitor);
	}
	free(reserved->v);
	*reserved = (struct reserved){ .janitor = SPAWNED_INIT };
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reserved names: they do not exist, and a run must not create them.
 *
 * The kernel can cover an existing name with a mount, but not a missing one. So a placeholder,
 * which the run can neither open nor remove, reserves the name until the run ends. A shared lock on
 * the directory says "in use": the last run to release it removes the placeholders. If a run is
 * killed together with its janitor, the next run takes its placeholders over and removes them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "format/janitor.h"
#include "format/placeholder.h"
#include "launch/launch.h"
#include "sys/calls.h"

#define TRIES 8

struct reserved_name {
	int dir_fd; /* open for reading, and locked */
	char name[JANITOR_NAME_MAX];
};

static const struct timespec mark[2] = {
	{ PLACEHOLDER_SECONDS, PLACEHOLDER_NANOSECONDS },
	{ PLACEHOLDER_SECONDS, PLACEHOLDER_NANOSECONDS },
};

static int is_reserved(const struct reserved_name *name)
{
	struct stat st;

	return fstatat(name->dir_fd, name->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       is_placeholder(&st);
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
static int reserve(const struct reserved_name *name, const char *text)
{
	for (int i = 0; i < TRIES; i++) {
		int r = create(name, text);

		if (r == 0 && utimensat(name->dir_fd, name->name, mark, AT_SYMLINK_NOFOLLOW) < 0) {
			r = -errno;
			unlinkat(name->dir_fd, name->name, 0);
			return r;
		}
		if (r == 0 || (r == -EEXIST && is_reserved(name)))
			return 0;
		if (r != -EEXIST)
			return r;
		/* Another run may be between creating and marking it. */
		usleep(1000);
	}
	return -EEXIST;
}

/* The lock comes first: while a run has it, no other removes a placeholder. */
static int lock_dir(const struct plan_reserved *from, struct reserved_name *name)
{
	name->dir_fd = sys_openat(from->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (name->dir_fd < 0)
		return name->dir_fd;
	for (int i = 0; i < TRIES * TRIES; i++) {
		if (flock(name->dir_fd, LOCK_SH | LOCK_NB) == 0)
			return 0;
		usleep(1000); /* another run is removing its placeholder */
	}
	return -EBUSY;
}

/* While another run reserves names here, too, they stay: that run removes them. */
static void release(struct reserved_name *name)
{
	if (name->dir_fd < 0)
		return;
	if (flock(name->dir_fd, LOCK_EX | LOCK_NB) == 0 && is_reserved(name))
		unlinkat(name->dir_fd, name->name, 0);
	/* Closing does not unlock: the janitor has the same open directory. */
	flock(name->dir_fd, LOCK_UN);
	close(name->dir_fd);
}

/* Removes the placeholders if we are killed, so it must exist before they do. */
static int start_janitor(struct cordon_launcher *l, struct reserved *reserved, int init_pid_fd,
			 struct cordon_error *err)
{
	struct control_order order = { .type = CONTROL_JANITOR, .count = (uint32_t)reserved->n };
	struct janitor_order *names;
	int fds[2 + JANITOR_NAMES_MAX], r;

	r = spawn_init(l, SPAWN_JANITOR, NULL, &reserved->janitor, err);
	if (r < 0)
		return r;
	names = calloc(1, sizeof(*names));
	if (!names)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	fds[0] = init_pid_fd;
	fds[1] = l->self_fd;
	for (size_t i = 0; i < reserved->n; i++) {
		fds[2 + i] = reserved->v[i].dir_fd;
		memcpy(names->names[i], reserved->v[i].name, JANITOR_NAME_MAX);
	}
	r = spawn_send(reserved->janitor.ctl_fd, &order, fds, (unsigned)(2 + reserved->n));
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

int reserve_names(struct cordon_launcher *l, const struct plan *plan, int init_pid_fd,
		  struct reserved *ret, struct cordon_error *err)
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
	for (size_t i = 0; i < plan->n_reserved; i++) {
		const struct plan_reserved *from = &plan->reserved[i];
		struct reserved_name *name = &ret->v[i];

		name->dir_fd = -1;
		ret->n = i + 1;
		if (strlen(from->name) >= sizeof(name->name))
			return refuse(from, ENAMETOOLONG, err);
		memcpy(name->name, from->name, strlen(from->name) + 1);
		r = lock_dir(from, name);
		if (r < 0)
			return refuse(from, -r, err);
	}
	r = start_janitor(l, ret, init_pid_fd, err);
	for (size_t i = 0; i < plan->n_reserved && r == 0; i++) {
		r = reserve(&ret->v[i], plan->reserved[i].text);
		if (r < 0)
			r = refuse(&plan->reserved[i], -r, err);
	}
	return r;
}

void reserve_release(struct cordon_launcher *l, struct reserved *reserved)
{
	/* Several names may share a directory: our locks must not block each other. */
	for (size_t i = 0; i < reserved->n; i++)
		flock(reserved->v[i].dir_fd, LOCK_UN);
	for (size_t i = 0; i < reserved->n; i++)
		release(&reserved->v[i]);
	if (reserved->janitor.ctl_fd >= 0) {
		ssize_t r = write(reserved->janitor.ctl_fd, "", 1);

		(void)r; /* it fails if the janitor has ended */
		spawned_done(l, &reserved->janitor);
	}
	free(reserved->v);
	*reserved = (struct reserved){ .janitor = SPAWNED_INIT };
}

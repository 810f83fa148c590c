/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that do not exist and must not come into being while a run has its hands on the directory.
 *
 * The kernel can cover an existing name with a mount, not a missing one. So a missing name is held
 * by a placeholder for the time of the run, which the run can neither open nor remove. A shared
 * lock on the directory says "in use": the last run to let go removes the placeholders, and those
 * of a run that was killed together with its janitor are taken over and removed by the next.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/launch.h"
#include "format/janitor.h"
#include "format/placeholder.h"
#include "sys/calls.h"

#define TRIES 8

struct hold {
	int dir_fd; /* open for reading, and locked */
	char name[JANITOR_NAME_MAX];
};

static const struct timespec mark[2] = {
	{ PLACEHOLDER_SECONDS, PLACEHOLDER_NANOSECONDS },
	{ PLACEHOLDER_SECONDS, PLACEHOLDER_NANOSECONDS },
};

static int is_held(const struct hold *hold)
{
	struct stat st;

	return fstatat(hold->dir_fd, hold->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       is_placeholder(&st);
}

static int create(const struct hold *hold, const char *text)
{
	int fd, r;

	if (!text)
		return sys_mknodat(hold->dir_fd, hold->name, S_IFSOCK | PLACEHOLDER_MODE);
	fd = sys_openat(hold->dir_fd, hold->name,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, PLACEHOLDER_MODE);
	if (fd < 0)
		return fd;
	r = (int)sys_write(fd, text, strlen(text));
	close(fd);
	if (r >= 0)
		return 0;
	unlinkat(hold->dir_fd, hold->name, 0);
	return r;
}

/* Takes the name, alone or together with other runs. */
static int take(const struct hold *hold, const char *text)
{
	for (int i = 0; i < TRIES; i++) {
		int r = create(hold, text);

		if (r == 0 && utimensat(hold->dir_fd, hold->name, mark, AT_SYMLINK_NOFOLLOW) < 0) {
			r = -errno;
			unlinkat(hold->dir_fd, hold->name, 0);
			return r;
		}
		if (r == 0 || (r == -EEXIST && is_held(hold)))
			return 0;
		if (r != -EEXIST)
			return r;
		/* Another run may be between creating and marking it. */
		usleep(1000);
	}
	return -EEXIST;
}

/* The lock comes first: nobody removes a placeholder while somebody has it. */
static int lock_dir(const struct plan_hold *from, struct hold *hold)
{
	hold->dir_fd = sys_openat(from->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (hold->dir_fd < 0)
		return hold->dir_fd;
	for (int i = 0; i < TRIES * TRIES; i++) {
		if (flock(hold->dir_fd, LOCK_SH | LOCK_NB) == 0)
			return 0;
		usleep(1000); /* somebody is removing his */
	}
	return -EBUSY;
}

/* Fails while another run holds names here too: that one removes them. */
static void let_go(struct hold *hold)
{
	if (hold->dir_fd < 0)
		return;
	if (flock(hold->dir_fd, LOCK_EX | LOCK_NB) == 0 && is_held(hold))
		unlinkat(hold->dir_fd, hold->name, 0);
	/* Closing does not unlock: the janitor has the same open directory. */
	flock(hold->dir_fd, LOCK_UN);
	close(hold->dir_fd);
}

/* A process that removes the placeholders if we are killed; it must be there before they are. */
static int start_janitor(struct cordon_launcher *l, struct holds *holds, int init_pid_fd,
			 struct cordon_error *err)
{
	struct control_order order = { .type = CONTROL_JANITOR, .count = (uint32_t)holds->n };
	struct janitor_order *names;
	int fds[2 + JANITOR_NAMES_MAX], r;

	r = spawn_init(l, SPAWN_JANITOR, NULL, &holds->janitor, err);
	if (r < 0)
		return r;
	names = calloc(1, sizeof(*names));
	if (!names)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	fds[0] = init_pid_fd;
	fds[1] = l->self_fd;
	for (size_t i = 0; i < holds->n; i++) {
		fds[2 + i] = holds->v[i].dir_fd;
		memcpy(names->names[i], holds->v[i].name, JANITOR_NAME_MAX);
	}
	r = spawn_send(holds->janitor.ctl_fd, &order, fds, (unsigned)(2 + holds->n));
	if (r == 0)
		r = (int)sys_write(holds->janitor.ctl_fd, names, sizeof(*names));
	free(names);
	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "cannot instruct the janitor") : 0;
}

static int refuse(const struct plan_hold *from, int error, struct cordon_error *err)
{
	int r = cordon_err(err, error == EEXIST ? CORDON_E_STATE : CORDON_E_PATH, error,
			   "cannot keep '%s' from being created", from->path);

	cordon_err_hint(err, "--no-protect gives up the protection of names that run by "
			     "themselves later");
	return r;
}

int holds_take(struct cordon_launcher *l, const struct plan *plan, int init_pid_fd,
	       struct holds *ret, struct cordon_error *err)
{
	int r;

	if (plan->n_holds == 0)
		return 0;
	if (plan->n_holds > JANITOR_NAMES_MAX)
		return cordon_err(err, CORDON_E_POLICY, 0,
				  "too many names that do not exist have to be protected");
	ret->v = calloc(plan->n_holds, sizeof(*ret->v));
	if (!ret->v)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	for (size_t i = 0; i < plan->n_holds; i++) {
		const struct plan_hold *from = &plan->holds[i];
		struct hold *hold = &ret->v[i];

		hold->dir_fd = -1;
		ret->n = i + 1;
		if (strlen(from->name) >= sizeof(hold->name))
			return refuse(from, ENAMETOOLONG, err);
		memcpy(hold->name, from->name, strlen(from->name) + 1);
		r = lock_dir(from, hold);
		if (r < 0)
			return refuse(from, -r, err);
	}
	r = start_janitor(l, ret, init_pid_fd, err);
	for (size_t i = 0; i < plan->n_holds && r == 0; i++) {
		r = take(&ret->v[i], plan->holds[i].text);
		if (r < 0)
			r = refuse(&plan->holds[i], -r, err);
	}
	return r;
}

void holds_release(struct cordon_launcher *l, struct holds *holds)
{
	/* Our own locks must not stand in each other's way: several names share a directory. */
	for (size_t i = 0; i < holds->n; i++)
		flock(holds->v[i].dir_fd, LOCK_UN);
	for (size_t i = 0; i < holds->n; i++)
		let_go(&holds->v[i]);
	if (holds->janitor.ctl_fd >= 0) {
		ssize_t r = write(holds->janitor.ctl_fd, "", 1);

		(void)r; /* gone already: nothing to dismiss */
		spawned_done(l, &holds->janitor);
	}
	free(holds->v);
	*holds = (struct holds){ .janitor = SPAWNED_INIT };
}

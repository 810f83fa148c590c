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
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "format/janitor.h"
#include "format/placeholder.h"
#include "git/put_aside.h"
#include "launch/launch.h"
#include "launch/locks.h"
#include "sys/calls.h"

#define TRIES 8

struct reserved_name {
	int dir_fd; /* the plan's */
	const struct dir_lock *lock;
	const char *text; /* of a file, NULL = a socket; the plan's */
	bool is_dir;
	bool is_made; /* by us, not found */
	bool is_held; /* reserved, and not removed yet */
	char name[JANITOR_NAME_MAX];
};

/* What was found out when others were made. */
struct made {
	const struct reserved_name *socket; /* NULL = none yet */
	int sticky_fd; /* a directory in which directories have their mark at once, -1 = none yet */
};

static const struct timespec mark[2] = {
	{ PLACEHOLDER_SECONDS, PLACEHOLDER_NANOSECONDS },
	{ PLACEHOLDER_SECONDS, PLACEHOLDER_NANOSECONDS },
};

/* What stands in for a missing file must say the same. */
static bool has_text(const struct reserved_name *name)
{
	char found[PLACEHOLDER_BYTES_MAX + 1];
	int fd = sys_openat(name->dir_fd, name->name,
			    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
	ssize_t n = fd < 0 ? -1 : read(fd, found, sizeof(found));

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)strlen(name->text) && memcmp(found, name->text, (size_t)n) == 0;
}

/* Is it the placeholder of another run, one that has ended or goes on? */
static bool is_reserved(const struct reserved_name *name)
{
	struct stat st;

	if (fstatat(name->dir_fd, name->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !is_placeholder(name->dir_fd, name->name, &st))
		return false;
	if (name->is_dir)
		return S_ISDIR(st.st_mode);
	return name->text ? S_ISREG(st.st_mode) && has_text(name) : S_ISSOCK(st.st_mode);
}

bool reserve_is_placeholder(const struct plan_reserved *from)
{
	struct reserved_name name = { .dir_fd = from->dir_fd,
				      .text = from->text,
				      .is_dir = from->is_dir };

	if (strlen(from->name) >= sizeof(name.name))
		return false;
	memcpy(name.name, from->name, strlen(from->name) + 1);
	return is_reserved(&name);
}

/*
 * An empty file gets its mark first. By its descriptor: in another user's directory the name may be
 * a link by now.
 */
static int open_to_host(int fd)
{
	if (futimens(fd, mark) < 0)
		return -errno;
	(void)!fchmod(fd, PLACEHOLDER_EMPTY_MODE); /* else it is for nobody to write to */
	return 0;
}

static int create(const struct reserved_name *name)
{
	int fd, r;

	if (name->is_dir)
		return sys_mkdirat(name->dir_fd, name->name, PLACEHOLDER_DIR_MODE);
	if (!name->text)
		return sys_mknodat(name->dir_fd, name->name, S_IFSOCK | PLACEHOLDER_MODE);
	fd = sys_openat(name->dir_fd, name->name,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, PLACEHOLDER_MODE);
	if (fd < 0)
		return fd;
	r = (int)sys_write(fd, name->text, strlen(name->text));
	if (r >= 0 && !*name->text)
		r = open_to_host(fd);
	close(fd);
	if (r >= 0)
		return 0;
	unlinkat(name->dir_fd, name->name, 0);
	return r;
}

/* A second name of a socket costs much less than a second socket. */
static bool is_linked(const struct reserved_name *name, const struct reserved_name *like)
{
	return like && !name->is_dir && !name->text && name->lock == like->lock &&
	       linkat(like->dir_fd, like->name, name->dir_fd, name->name, 0) == 0;
}

/*
 * A directory that we made has its mark already, unless the file system keeps no such bit or opens
 * it to all (is_placeholder()). What is true of one is true of its neighbours.
 */
static bool has_mark(const struct reserved_name *name, struct made *made)
{
	struct stat st;

	if (!name->is_dir)
		return false;
	if (made->sticky_fd != name->dir_fd &&
	    fstatat(name->dir_fd, name->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode) && (st.st_mode & (S_ISVTX | S_IWOTH)) == S_ISVTX)
		made->sticky_fd = name->dir_fd;
	return made->sticky_fd == name->dir_fd;
}

/* Reserves the name, possibly together with other runs. */
static int reserve(struct reserved_name *name, struct made *made)
{
	if (is_linked(name, made->socket)) {
		name->is_made = name->is_held = true;
		return 0;
	}
	for (int i = 0; i < TRIES; i++) {
		int r = create(name);

		if (r == 0 && !has_mark(name, made) &&
		    utimensat(name->dir_fd, name->name, mark, AT_SYMLINK_NOFOLLOW) < 0) {
			r = -errno;
			unlinkat(name->dir_fd, name->name, name->is_dir ? AT_REMOVEDIR : 0);
			return r;
		}
		name->is_made = r == 0;
		name->is_held = r == 0 || (r == -EEXIST && is_reserved(name));
		if (name->is_held)
			return 0;
		if (r != -EEXIST)
			return r;
		/* Another run may be between creating and marking it. */
		usleep(1000);
	}
	return -EEXIST;
}

/*
 * The kernel removes no directory that has something in it: the host uses it, and it is the host's
 * from now on. By its descriptor: in another user's directory the name may be a link by now, or
 * something else of ours.
 */
static void remove_dir(const struct reserved_name *name)
{
	struct stat st;
	int fd;

	if (unlinkat(name->dir_fd, name->name, AT_REMOVEDIR) == 0)
		return;
	fd = sys_openat(name->dir_fd, name->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
			0);
	if (fd < 0)
		return;
	/* What cannot be changed stays as it is. */
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && placeholder_is_marked(&st))
		(void)!fchmod(fd, st.st_mode & 0777);
	close(fd);
}

/* While another run reserves names here, too, they stay: that run removes them. */
static void remove_placeholder(struct reserved_name *name)
{
	struct stat st;

	name->is_held = false;
	/* The usual case needs no look: it is as we made it, or at least an empty directory. */
	if (name->is_made && name->is_dir && unlinkat(name->dir_fd, name->name, AT_REMOVEDIR) == 0)
		return;
	if (fstatat(name->dir_fd, name->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !(name->is_made || st.st_uid == geteuid() || st.st_uid == 0 ||
	      name->lock->shared_fd >= 0))
		return;
	/* One that we made may be on a file system that keeps no such bit. */
	if (S_ISDIR(st.st_mode) && (name->is_made || placeholder_is_marked(&st)))
		remove_dir(name);
	else if (is_placeholder(name->dir_fd, name->name, &st))
		(void)unlinkat(name->dir_fd, name->name, 0);
}

/* The index of @lock among those of the run. */
static size_t dir_of(const struct locks *locks, const struct dir_lock *lock)
{
	return (size_t)(lock - locks->v);
}

static void list_names(const struct locks *locks, const struct reserved *reserved,
		       struct janitor_order *ret, int *fds)
{
	/* Not by the janitor's clock, which may be late on a busy machine. */
	ret->since = locks->started_at.tv_sec - 1;
	ret->n_names = (uint32_t)reserved->n;
	ret->n_dirs = (uint32_t)locks->n;
	for (size_t i = 0; i < locks->n; i++) {
		const struct dir_lock *lock = &locks->v[i];

		/* Among the owner's is that of every run of root, too. */
		fds[2 * i] = fds[2 * i + 1] = lock->owner_fd >= 0 ? lock->shared_fd : lock->fd;
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
	/* With room for those names that there are. */
	size_t size = JANITOR_ORDER_BYTES(reserved->n);
	struct janitor_order *names;
	int fds[JANITOR_FDS + 2 * JANITOR_DIRS_MAX], r;

	r = spawn_init(l, SPAWN_JANITOR, NULL, &reserved->janitor, err);
	if (r < 0)
		return r;
	names = calloc(1, size);
	if (!names)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	fds[JANITOR_FD_INIT] = init_pid_fd;
	fds[JANITOR_FD_SUPERVISOR] = l->self_fd;
	fds[JANITOR_FD_LOCKS] = locks->fd;
	list_names(locks, reserved, names, fds + JANITOR_FDS);
	r = spawn_send(reserved->janitor.ctl_fd, &order, fds,
		       (unsigned)(JANITOR_FDS + 2 * locks->n));
	if (r == 0)
		r = (int)sys_write(reserved->janitor.ctl_fd, names, size);
	free(names);
	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "cannot tell the janitor its names")
		     : 0;
}

static void tell_janitor(const struct reserved *reserved, char what)
{
	ssize_t r = send(reserved->janitor.ctl_fd, &what, 1, MSG_NOSIGNAL);

	(void)r; /* it fails if the janitor has ended */
}

static int refuse(const struct plan_reserved *from, int error, struct cordon_error *err)
{
	int r = cordon_err(err, error == EEXIST ? CORDON_E_STATE : CORDON_E_PATH, error,
			   "cannot keep '%s' from being created", from->path);

	cordon_err_hint(err, "--no-protect gives up the protection of names that run by "
			     "themselves later");
	return r;
}

/* Another run may have begun to hold the directory that the plan found: names that we reserve in it
 * would keep that run from removing it. */
static bool is_placeholder_by_now(int dir_fd)
{
	struct stat st;

	return fstat(dir_fd, &st) == 0 && placeholder_is_marked(&st);
}

/* The locks come first: while a run has one, no other removes a placeholder. */
static int take_locks(struct locks *locks, const struct plan *plan, bool may_plan_again,
		      struct reserved *ret, struct cordon_error *err)
{
	for (size_t i = 0; i < plan->n_reserved; i++) {
		const struct plan_reserved *from = &plan->reserved[i];
		struct reserved_name *name = &ret->v[i];
		int r;

		if (strlen(from->name) >= sizeof(name->name))
			return refuse(from, ENAMETOOLONG, err);
		memcpy(name->name, from->name, strlen(from->name) + 1);
		name->dir_fd = from->dir_fd;
		name->text = from->text;
		name->is_dir = from->is_dir;
		if (i > 0 && name->dir_fd == name[-1].dir_fd) {
			name->lock = name[-1].lock;
			ret->n = i + 1;
			continue;
		}
		r = locks_take(locks, name->dir_fd, &name->lock);
		if (r == 0 && may_plan_again && is_placeholder_by_now(name->dir_fd))
			r = -EEXIST;
		if (r < 0)
			return refuse(from, -r, err);
		ret->n = i + 1;
	}
	return 0;
}

static int make_placeholders(const struct plan *plan, struct reserved *reserved,
			     struct cordon_error *err)
{
	struct made made = { NULL, -1 };

	for (size_t i = 0; i < plan->n_reserved; i++) {
		struct reserved_name *name = &reserved->v[i];
		int r = reserve(name, &made);

		if (r < 0)
			return refuse(&plan->reserved[i], -r, err);
		if (name->is_made && !name->is_dir && !name->text)
			made.socket = name;
	}
	tell_janitor(reserved, JANITOR_HOLD);
	return 0;
}

int reserve_names(struct cordon_launcher *l, struct locks *locks, const struct plan *plan,
		  int init_pid_fd, bool may_plan_again, struct reserved *ret,
		  struct cordon_error *err)
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
	r = take_locks(locks, plan, may_plan_again, ret, err);
	if (r == 0)
		r = start_janitor(l, locks, ret, init_pid_fd, err);
	return r < 0 ? r : make_placeholders(plan, ret, err);
}

static struct reserved_name *find(const struct reserved *reserved, const struct plan_reserved *name)
{
	for (size_t i = 0; i < reserved->n; i++)
		if (reserved->v[i].dir_fd == name->dir_fd &&
		    strcmp(reserved->v[i].name, name->name) == 0)
			return &reserved->v[i];
	return NULL;
}

static int add(struct reserved *reserved, struct locks *locks, const struct plan_reserved *name,
	       struct reserved_name **ret)
{
	struct reserved_name new = { .dir_fd = name->dir_fd,
				     .text = name->text,
				     .is_dir = name->is_dir },
			     *v;
	int r;

	if (strlen(name->name) >= sizeof(new.name))
		return -ENAMETOOLONG;
	memcpy(new.name, name->name, strlen(name->name) + 1);
	r = locks_take(locks, new.dir_fd, &new.lock);
	v = r < 0 ? NULL : realloc(reserved->v, (reserved->n + 1) * sizeof(*v));
	if (!v)
		return r < 0 ? r : -ENOMEM;
	reserved->v = v;
	v[reserved->n] = new;
	*ret = &v[reserved->n++];
	return 0;
}

int reserve_more(struct reserved *reserved, struct locks *locks, const struct plan_reserved *name)
{
	struct reserved_name *found = find(reserved, name);
	struct made made = { NULL, -1 };
	int r = found ? 0 : add(reserved, locks, name, &found);

	return r < 0 ? r : reserve(found, &made);
}

/* The names from @first to before @end, which are those of one directory. */
static void clear_dir(struct reserved_name *names, size_t first, size_t end)
{
	struct git_opened dir = { .fd = names[first].dir_fd };

	/* The command may have closed the directory to us. */
	git_open_dir(&dir);
	for (size_t i = first; i < end; i++)
		if (names[i].is_held)
			remove_placeholder(&names[i]);
	git_close_dir(&dir);
}

void reserve_clear(struct reserved *reserved, bool (*is_ours)(const struct dir_lock *lock))
{
	const struct reserved_name *v = reserved->v;
	size_t end;

	for (size_t first = 0; first < reserved->n; first = end) {
		bool is_held = false;

		for (end = first; end < reserved->n && v[end].dir_fd == v[first].dir_fd; end++)
			is_held |= v[end].is_held;
		if (is_held && is_ours(v[first].lock))
			clear_dir(reserved->v, first, end);
	}
}

void reserve_release(struct cordon_launcher *l, struct reserved *reserved)
{
	reserve_clear(reserved, locks_is_last);
	if (reserved->janitor.ctl_fd >= 0) {
		tell_janitor(reserved, JANITOR_DISMISSED);
		spawned_done(l, &reserved->janitor);
	}
	free(reserved->v);
	*reserved = (struct reserved){ .janitor = SPAWNED_INIT };
}

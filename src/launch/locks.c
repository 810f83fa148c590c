/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/locks.h"
#include "sys/calls.h"
#include "workspace/store/store.h"

#define PAUSE_US 1000
#define TRIES 10000 /* a run has a lock alone while it tidies up, on a busy machine for seconds */
#define OWNER_TRIES 1000 /* the owner's may be held for ever */

/* Opens @path if it is a directory of @uid, whose rights we have, that nobody else can use, and
 * that files can be made in (an image may have brought it, on a read-only disk): its descriptor or
 * -errno. */
static int open_own(const char *path, uid_t uid)
{
	struct stat st;
	int r, fd;

	r = sys_mkdirat(AT_FDCWD, path, 0700);
	if (r < 0 && r != -EEXIST)
		return r;
	fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	r = -EPERM;
	if (fstat(fd, &st) == 0 && st.st_uid == uid && !(st.st_mode & 077))
		r = faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0 ? -errno : fd;
	if (r < 0)
		close(fd);
	return r;
}

/* Below the state directory, which is made if it is missing. */
static int open_in_state(const char *state_dir, char *path, size_t size)
{
	char state[PATH_MAX];
	int n;

	if (ws_store_path(state_dir, state, sizeof(state), true, NULL) < 0 ||
	    ws_state_path(state_dir, state, sizeof(state), NULL) < 0)
		return -ENOENT;
	n = snprintf(path, size, "%s/locks", state);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : open_own(path, geteuid());
}

/* The place that the machine gives each user, then /tmp, where another may have been before. */
static int open_place(uid_t uid, char *path, size_t size)
{
	int fd;

	if (uid == 0)
		snprintf(path, size, "/run/cordon-locks");
	else
		snprintf(path, size, "/run/user/%u/cordon-locks", (unsigned)uid);
	fd = open_own(path, uid);
	if (fd >= 0)
		return fd;
	snprintf(path, size, "/tmp/cordon-locks-%u", (unsigned)uid);
	return open_own(path, uid);
}

/* If neither place is ours, the state directory. */
int locks_open(const char *state_dir, const struct timespec *started_at, struct locks **ret,
	       struct cordon_error *err)
{
	unsigned uid = (unsigned)geteuid();
	struct locks *locks = malloc(sizeof(*locks));

	if (!locks)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	locks->started_at = *started_at;
	locks->n = 0;
	locks->fd = open_place(uid, locks->path, sizeof(locks->path));
	if (locks->fd < 0)
		locks->fd = open_in_state(state_dir, locks->path, sizeof(locks->path));
	if (locks->fd < 0) {
		(void)cordon_err(err, CORDON_E_SYSTEM, -locks->fd,
				 "there is no place for locks: /run, /tmp/cordon-locks-%u and the "
				 "state directory cannot be used",
				 uid);
		(void)cordon_err_hint(err, "set XDG_STATE_HOME to a directory of your own");
		free(locks);
		return -CORDON_E_SYSTEM;
	}
	*ret = locks;
	return 0;
}

/* A run that tidies up removes the file: then it is nobody's lock any more. */
static bool is_current(const struct dir_lock *lock)
{
	struct stat st;

	return fstat(lock->fd, &st) == 0 && st.st_nlink > 0;
}

/*
 * Shared. A run that finds no other there writes down when it began, and so does not see an older
 * date. Between the exclusive and the shared lock another may do the same: neither has started its
 * command by then, so each date is early enough for both.
 */
static int lock_shared(const struct locks *locks, struct dir_lock *lock)
{
	ssize_t n;

	if (flock(lock->fd, LOCK_EX | LOCK_NB) == 0) {
		n = pwrite(lock->fd, &locks->started_at, sizeof(lock->since), 0);
		if (n != (ssize_t)sizeof(lock->since))
			return n < 0 ? -errno : -EIO;
	} else if (errno != EWOULDBLOCK) {
		return -errno;
	}
	if (flock(lock->fd, LOCK_SH | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	if (!is_current(lock))
		return -EAGAIN;
	n = pread(lock->fd, &lock->since, sizeof(lock->since), 0);
	return n == (ssize_t)sizeof(lock->since) ? 0 : n < 0 ? -errno : -EAGAIN;
}

static int take(const struct locks *locks, struct dir_lock *lock, int tries)
{
	const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	int r = -EBUSY;

	for (int i = 0; i < tries; i++) {
		lock->fd = sys_openat(locks->fd, lock->name, flags, 0600);
		if (lock->fd < 0)
			return lock->fd;
		r = lock_shared(locks, lock);
		if (r == 0)
			return 0;
		close(lock->fd);
		lock->fd = -1;
		if (r != -EAGAIN)
			return r;
		usleep(PAUSE_US);
	}
	return -EBUSY;
}

/* As the owner: nobody else could open what root makes there, nor does it lead root elsewhere. */
static void take_among_owners(const struct locks *locks, struct dir_lock *lock, uid_t owner)
{
	struct locks owners = { .started_at = locks->started_at };
	struct dir_lock beside = *lock;

	(void)setfsuid(owner);
	owners.fd = open_place(owner, owners.path, sizeof(owners.path));
	if (owners.fd >= 0 && take(&owners, &beside, OWNER_TRIES) == 0) {
		lock->shared_fd = beside.fd;
		lock->owner_fd = owners.fd;
	} else if (owners.fd >= 0) {
		close(owners.fd);
	}
	(void)setfsuid(geteuid());
}

int locks_take(struct locks *locks, int dir_fd, const struct dir_lock **ret)
{
	struct dir_lock *lock = &locks->v[locks->n];
	struct stat st;
	int r;

	if (fstat(dir_fd, &st) < 0)
		return -errno;
	for (size_t i = 0; i < locks->n; i++) {
		if (locks->v[i].dev == st.st_dev && locks->v[i].ino == st.st_ino) {
			*ret = &locks->v[i];
			return 0;
		}
	}
	if (locks->n == JANITOR_DIRS_MAX)
		return -E2BIG;
	*lock = (struct dir_lock){
		.dev = st.st_dev, .ino = st.st_ino, .fd = -1, .shared_fd = -1, .owner_fd = -1
	};
	snprintf(lock->name, sizeof(lock->name), "%llx-%llx", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	r = take(locks, lock, TRIES);
	if (r < 0)
		return r;
	if (st.st_mode & 022) {
		lock->shared_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)flock(lock->shared_fd, LOCK_SH | LOCK_NB);
	} else if (geteuid() == 0 && st.st_uid != 0) {
		take_among_owners(locks, lock, st.st_uid);
	}
	locks->n++;
	*ret = lock;
	return 0;
}

/*
 * A failed attempt to have it alone gives the shared lock up. It is taken again, so that no run
 * that begins now takes ours for over. If several do this at once, each may find another there; in
 * locks_is_last() one of them does not.
 */
bool locks_is_alone(const struct dir_lock *lock)
{
	if (locks_is_last(lock))
		return true;
	for (int i = 0; i < TRIES && flock(lock->fd, LOCK_SH | LOCK_NB) < 0; i++)
		usleep(PAUSE_US);
	(void)flock(lock->shared_fd, LOCK_SH | LOCK_NB);
	return false;
}

bool locks_is_last(const struct dir_lock *lock)
{
	return flock(lock->fd, LOCK_EX | LOCK_NB) == 0 &&
	       (lock->shared_fd < 0 || flock(lock->shared_fd, LOCK_EX | LOCK_NB) == 0);
}

void locks_close(struct locks *locks)
{
	if (!locks)
		return;
	for (size_t i = 0; i < locks->n; i++) {
		const struct dir_lock *lock = &locks->v[i];

		if (flock(lock->fd, LOCK_EX | LOCK_NB) == 0)
			unlinkat(locks->fd, lock->name, 0);
		/* Closing does not unlock: the janitor has the same open file. */
		flock(lock->fd, LOCK_UN);
		close(lock->fd);
		if (lock->owner_fd >= 0) {
			if (flock(lock->shared_fd, LOCK_EX | LOCK_NB) == 0)
				unlinkat(lock->owner_fd, lock->name, 0);
			flock(lock->shared_fd, LOCK_UN);
			close(lock->owner_fd);
		}
		if (lock->shared_fd >= 0)
			close(lock->shared_fd);
	}
	close(locks->fd);
	free(locks);
}

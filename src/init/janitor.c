/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The janitor: a process that outlives a killed supervisor for as long as it takes to remove the
 * placeholders of a run.
 *
 * It is started only for runs that reserve names. It runs outside the namespaces, with descriptors
 * of the directories and of their locks, which it so shares. A supervisor that ends a run
 * properly tidies up itself; it sends one byte to say that nothing is left to do, and closes the
 * socket.
 */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/stat.h>

#include "bare/raw.h"
#include "bare/socket.h"
#include "bare/wait.h"
#include "format/janitor.h"
#include "format/placeholder_mark.h"

#define LOCK_EX_NB (2 | 4)
#define LOCK_UN_NR 8
#define LOCK_TRIES 1000 /* in all */
#define LOCK_PAUSE_NS 1000000

static void __attribute__((noreturn)) leave(void)
{
	for (;;)
		raw_syscall(__NR_exit_group, 0, 0, 0, 0, 0, 0);
}

/* Waits until the sandbox's init is gone, so that no mount covers the names any more. */
static void wait_for_end(int init_pidfd)
{
	struct poll_entry poll = { init_pidfd, WAIT_IN, 0 };

	while (poll_wait(&poll, 1, 0) == -EINTR)
		;
}

/* Later than the supervisor removes them does no harm: then there is nothing to open. */
static void hold_dirs(struct janitor_order *o, const int *fds)
{
	for (uint32_t i = 0; i < o->n_names; i++) {
		o->names[i][JANITOR_NAME_MAX - 1] = 0;
		if (o->dirs[i] < o->n_dirs)
			raw_syscall(__NR_openat, fds[JANITOR_FDS + 2 * o->dirs[i] + 1],
				    RAW_ARG(o->names[i]),
				    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0, 0, 0);
	}
}

/* Waits for the supervisor: 1 if it says that all is tidy, 0 if it is gone. */
static int is_dismissed(struct janitor_order *o, const int *fds)
{
	struct poll_entry poll[2] = { { CTL_FD, WAIT_IN, 0 },
				      { fds[JANITOR_FD_SUPERVISOR], WAIT_IN, 0 } };
	char what = 0;
	long r;

	do {
		while (poll_wait(poll, 2, 0) == -EINTR)
			;
		r = raw_syscall(__NR_recvfrom, CTL_FD, RAW_ARG(&what), 1, MESSAGE_DONTWAIT, 0, 0);
		if (r == 1 && what == JANITOR_HOLD)
			hold_dirs(o, fds);
	} while ((r == 1 && what != JANITOR_DISMISSED) || r == -EINTR);
	return r == 1;
}

static int is_marked(const struct statx *st)
{
	return ((st->stx_mode & S_IFMT) == S_IFDIR && (st->stx_mode & S_ISVTX)) ||
	       (st->stx_mtime.tv_sec == PLACEHOLDER_SECONDS &&
		st->stx_mtime.tv_nsec == PLACEHOLDER_NANOSECONDS);
}

/*
 * Marked, or made by us a moment ago and not marked yet: the supervisor may have been killed
 * between the two. No other program makes such a thing (a socket, or a file of a few bytes, that
 * its owner cannot write; an empty directory) under these names during a run. An empty file that
 * its owner can write is marked before it gets that mode.
 */
static int is_placeholder(const struct statx *st, int64_t since)
{
	uint16_t type = st->stx_mode & S_IFMT;

	/* Another user's run has its own janitor. */
	if (st->stx_uid != (uint32_t)raw_syscall(__NR_geteuid, 0, 0, 0, 0, 0, 0))
		return 0;
	/* The kernel removes it only if it is empty. */
	if (type == S_IFDIR)
		return is_marked(st) || st->stx_ctime.tv_sec >= since;
	if (type == S_IFREG && st->stx_size == 0 && is_marked(st))
		return 1;
	if ((type != S_IFSOCK && type != S_IFREG) || st->stx_size > PLACEHOLDER_BYTES_MAX ||
	    (st->stx_mode & 0777 & ~PLACEHOLDER_MODE))
		return 0;
	return is_marked(st) || st->stx_ctime.tv_sec >= since;
}

/*
 * A live run has the lock for as long as it lasts. Another janitor has it only for a moment, but on
 * a busy machine it may lose its CPU in that moment. If both gave up, the placeholder would stay.
 */
static int lock_alone(int lock_fd, int *tries)
{
	while (raw_syscall(__NR_flock, lock_fd, LOCK_EX_NB, 0, 0, 0, 0) < 0) {
		if (--*tries < 0)
			return 0;
		sleep_ns(LOCK_PAUSE_NS);
	}
	return 1;
}

static void remove_placeholder(int dir_fd, const char *name, int64_t since)
{
	struct statx st;

	if (raw_syscall(__NR_statx, dir_fd, (long)name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS,
			(long)&st, 0) == 0 &&
	    is_placeholder(&st, since))
		raw_syscall(__NR_unlinkat, dir_fd, (long)name,
			    (st.stx_mode & S_IFMT) == S_IFDIR ? AT_REMOVEDIR : 0, 0, 0, 0);
}

/* Removes the placeholders of a directory, unless another run reserves names there too. */
static void tidy_dir(struct janitor_order *o, uint32_t dir, const int *fds, int64_t since,
		     int *tries)
{
	int lock_fd = fds[JANITOR_FDS + 2 * dir], dir_fd = fds[JANITOR_FDS + 2 * dir + 1];

	if (!lock_alone(lock_fd, tries))
		return;
	for (uint32_t i = 0; i < o->n_names; i++) {
		o->names[i][JANITOR_NAME_MAX - 1] = 0;
		if (o->dirs[i] == dir)
			remove_placeholder(dir_fd, o->names[i], since);
	}
	o->locks[dir][JANITOR_LOCK_MAX - 1] = 0;
	raw_syscall(__NR_unlinkat, fds[JANITOR_FD_LOCKS], (long)o->locks[dir], 0, 0, 0, 0);
	raw_syscall(__NR_flock, lock_fd, LOCK_UN_NR, 0, 0, 0, 0);
}

void run_janitor(const int *fds, int n_fds)
{
	static struct janitor_order names;
	int tries = LOCK_TRIES;
	long n;

	n = raw_syscall(__NR_read, CTL_FD, (long)&names, sizeof(names), 0, 0, 0);
	if (n < (long)offsetof(struct janitor_order, names) || names.n_names > JANITOR_NAMES_MAX ||
	    n != (long)JANITOR_ORDER_BYTES(names.n_names) || names.n_dirs > JANITOR_DIRS_MAX ||
	    n_fds != JANITOR_FDS + 2 * (int)names.n_dirs || is_dismissed(&names, fds))
		leave();
	wait_for_end(fds[JANITOR_FD_INIT]);
	for (uint32_t i = 0; i < names.n_dirs; i++)
		tidy_dir(&names, i, fds, names.since, &tries);
	leave();
}

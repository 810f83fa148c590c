/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Covers: the mounts of a plan over names that exist on the host, so that the guest cannot change,
 * move or read them. They hold as long as the host leaves those names alone. Two things end that:
 *
 * - The name gets another object or none (`mv new NAME`, `rm NAME`, `git config`). The kernel takes
 *   the mount away, and a change of mountinfo tells.
 * - The object gets another name (`mv NAME NAME~`, as editors save). The mount goes with the
 *   object, and nothing is told; what is made at NAME then is not covered. So the names are looked
 *   at from time to time. In a run that lasts the objects are watched with inotify instead, and
 *   init sleeps. Directories around them are not: what else happens there must wake nobody.
 *
 * Not from the start, since the kernel takes several milliseconds to end an inotify instance. It
 * allows a user a number of them, and no watch on a file he may not read: where one cannot be had
 * the names are looked at to the end.
 */
#include "init/init.h"

#include <asm/statfs.h>
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/inotify.h>
#include <linux/stat.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/text.h"
#include "bare/wait.h"
#include "init/mount_ops.h"
#include "init/procfs.h"

#define LOOK_NS (100 * MS)
#define LOOKS 10 /* then they are watched */
#define WATCH_FLAGS (IN_MOVE_SELF | IN_DONT_FOLLOW)
#define EVENTS_BYTES 4096
#define COVERS_MASKED_MAX 64
#define COVERS_NOTED_MAX 512 /* with more, any change of the mounts ends the run */
#define ST_RDONLY_BIT 1	     /* of f_flags */
#define NEVER (~(uint64_t)0)

static struct {
	int n;
	int is_watched; /* all of them */
	int looks;
	uint64_t looked_ns;
	int is_noted; /* which mount each is */
	uint32_t mounts[COVERS_NOTED_MAX];
	int masked_fds[COVERS_MASKED_MAX], n_masked; /* what masks cover: O_PATH */
} covers;

static const struct plan_op *op_at(const struct init *in, uint32_t i)
{
	return (const struct plan_op *)((const char *)in->plan + in->plan->ops_off) + i;
}

/* A name whose content is protected can be covered again (cover_again.c). What the guest may not
 * read could have been read, and around a directory that was moved while the guest may write to it
 * nothing is as it was. */
int covers_can_again(const struct init *in, uint32_t step)
{
	const struct plan_op *op = &op_at(in, 0)[step - STEP_PLAN_FIRST];

	return step && op->type == PLAN_OP_PIN && (op->flags & PLAN_RDONLY) &&
	       (op->flags & (PLAN_FILE | PLAN_PROTECTED));
}

/* Not those in the system's part of the view or where nothing but Cordon makes names. Steps with
 * rights of their own let something be executed: without the mount that is refused. */
int is_cover(const struct plan_op *op)
{
	if (op->flags & (PLAN_MKPOINT | PLAN_REUSED))
		return 0;
	return op->type == PLAN_OP_BIND || op->type == PLAN_OP_MASK ||
	       (op->type == PLAN_OP_PIN && !op->access);
}

void covers_count(const struct init *in)
{
	for (uint32_t i = in->plan->n_common_ops; i < in->plan->n_ops; i++)
		covers.n += is_cover(op_at(in, i));
	covers.looked_ns = now_ns();
}

/* Later the name leads to the mask, so what is below it has to be kept. */
void covers_keep(int object_fd)
{
	if (covers.n_masked < COVERS_MASKED_MAX)
		covers.masked_fds[covers.n_masked++] = object_fd;
	else
		close_fd(object_fd); /* covers_watch() will miss it */
}

static int watch_one(const struct init *in, const char *path, uint32_t flags)
{
	return raw_syscall(__NR_inotify_add_watch, in->moves_fd, RAW_ARG(path), flags, 0, 0, 0) >=
	       0;
}

/* A pin that covers the name with something else. */
static int is_by_other(const struct plan_op *op)
{
	return op->type == PLAN_OP_PIN && op->src;
}

static void covers_watch(struct init *in)
{
	int masks = 0, is_watched = 1;

	if (in->moves_fd < 0)
		in->moves_fd = (int)raw_syscall(__NR_inotify_init1, IN_CLOEXEC | IN_NONBLOCK, 0, 0,
						0, 0, 0);
	for (uint32_t i = in->plan->n_common_ops; is_watched && i < in->plan->n_ops; i++) {
		const struct plan_op *op = op_at(in, i);

		if (!is_cover(op))
			continue;
		/* A pin or bind shows the very object that it covers. With a file over it only when
		 * it was covered again (cover_again.c). */
		if (op->type == PLAN_OP_MASK || is_by_other(op))
			masks++;
		if (op->type != PLAN_OP_MASK)
			is_watched = watch_one(in, str_at(in, op->dst), WATCH_FLAGS);
	}
	if (masks != covers.n_masked)
		is_watched = 0;
	for (int i = 0; is_watched && i < masks; i++) {
		char path[PROC_PATH_MAX] = "/proc/self/fd/";

		append_number(path, str_len(path), sizeof(path), (uint64_t)covers.masked_fds[i]);
		is_watched = watch_one(in, path, IN_MOVE_SELF);
	}
	if (!is_watched)
		drop_fd(&in->moves_fd);
	covers.is_watched = is_watched;
}

/* 1, 0, or -errno: the command may have closed a directory on the way, even to us. */
static long has_cover(const struct plan_op *op, const struct init *in)
{
	struct statx st;
	long r = raw_syscall(__NR_statx, AT_FDCWD, RAW_ARG(str_at(in, op->dst)),
			     AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, RAW_ARG(&st), 0);

	return r < 0 ? r : (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

uint32_t covers_lost(const struct init *in)
{
	for (uint32_t i = in->plan->n_common_ops; i < in->plan->n_ops; i++)
		if (is_cover(op_at(in, i)) && has_cover(op_at(in, i), in) != 1)
			return STEP_PLAN_FIRST + i;
	return 0;
}

/* Is what this step mounted still there, or something as good: a cover that came with its object?
 */
static int is_mounted(const struct init *in, const struct plan_op *op)
{
	struct statfs fs;
	long r, fd = has_cover(op, in) == 1 ? raw4(__NR_openat, AT_FDCWD, str_at(in, op->dst),
						   O_PATH | O_NOFOLLOW | O_CLOEXEC, 0)
					    : -ENOENT;

	if (fd < 0)
		return 0;
	r = raw_syscall(__NR_fstatfs, fd, RAW_ARG(&fs), 0, 0, 0, 0);
	close_fd(fd);
	return r == 0 && (!(op->flags & PLAN_RDONLY) || (fs.f_flags & ST_RDONLY_BIT));
}

/* 0 = the kernel does not tell. */
static uint32_t mount_of(const struct init *in, const struct plan_op *op)
{
	struct statx st;
	long r = raw_syscall(__NR_statx, AT_FDCWD, RAW_ARG(str_at(in, op->dst)),
			     AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_MNT_ID, RAW_ARG(&st), 0);

	return r == 0 && (st.stx_mask & STATX_MNT_ID) ? (uint32_t)st.stx_mnt_id : 0;
}

void covers_note(const struct init *in)
{
	int n = 0;

	if (covers.is_noted || covers.n > COVERS_NOTED_MAX)
		return;
	for (uint32_t i = in->plan->n_common_ops; i < in->plan->n_ops; i++)
		if (is_cover(op_at(in, i)))
			covers.mounts[n++] =
				has_cover(op_at(in, i), in) == 1 ? mount_of(in, op_at(in, i)) : 0;
	covers.is_noted = 1;
}

void covers_renewed(const struct init *in, uint32_t step, uint32_t mount)
{
	int n = 0;

	for (uint32_t i = in->plan->n_common_ops; covers.is_noted && i < in->plan->n_ops; i++) {
		if (!is_cover(op_at(in, i)))
			continue;
		if (STEP_PLAN_FIRST + i == step)
			covers.mounts[n] = mount;
		n++;
	}
}

static int is_mount(const struct plan_op *op)
{
	return op->type == PLAN_OP_BIND || op->type == PLAN_OP_PRIVATE || op->type == PLAN_OP_PIN ||
	       op->type == PLAN_OP_MASK || op->type == PLAN_OP_OVERLAY;
}

long covers_swapped(const struct init *in)
{
	int n = 0;

	if (!covers.is_noted)
		return -ENODATA;
	for (uint32_t i = in->plan->n_common_ops; i < in->plan->n_ops; i++)
		if (is_mount(op_at(in, i)) && !is_mounted(in, op_at(in, i)))
			return -ENOENT;
	for (uint32_t i = in->plan->n_common_ops; i < in->plan->n_ops; i++) {
		uint32_t now = is_cover(op_at(in, i)) ? mount_of(in, op_at(in, i)) : 0;

		if (is_cover(op_at(in, i)) && (now == 0 || now != covers.mounts[n++]))
			return (long)(STEP_PLAN_FIRST + i);
	}
	return 0;
}

uint32_t covers_left_bare(const struct init *in, uint32_t after)
{
	uint32_t i = after ? after - STEP_PLAN_FIRST + 1 : in->plan->n_common_ops;

	for (; i < in->plan->n_ops; i++)
		if (is_cover(op_at(in, i))) {
			long r = has_cover(op_at(in, i), in);

			if (r != 1 && r != -EACCES)
				return STEP_PLAN_FIRST + i;
		}
	return 0;
}

/*
 * Something was moved. If every name has its cover all the same, it was another name of the object,
 * or what is there now is not watched.
 */
static void take_moves(const struct init *in)
{
	char events[EVENTS_BYTES];

	while (raw_syscall(__NR_read, in->moves_fd, RAW_ARG(events), sizeof(events), 0, 0, 0) > 0)
		;
	covers.is_watched = 0;
}

/* New objects have the names. Before they are looked at again. */
int covers_changed(struct init *in)
{
	struct poll_entry poll[2] = { { in->mounts_fd, WAIT_PRI, 0 },
				      { in->moves_fd, WAIT_IN, 0 } };
	const struct duration no_time = { 0, 0 };

	if (poll_wait(poll, 2, &no_time) == 0)
		return 0;
	if (poll[1].revents)
		take_moves(in);
	if (in->moves_fd >= 0)
		covers_watch(in);
	return 1;
}

uint64_t covers_next(uint64_t now)
{
	if (!covers.n || covers.is_watched)
		return NEVER;
	return covers.looked_ns + LOOK_NS > now ? covers.looked_ns + LOOK_NS - now : 0;
}

uint32_t covers_check(struct init *in, int has_moved)
{
	uint64_t now = now_ns();
	uint32_t lost;

	if (has_moved)
		take_moves(in);
	else if (covers_next(now) != 0)
		return 0;
	covers.looked_ns = now;
	/* Before the look, so that nothing is missed between the two. */
	if (++covers.looks == LOOKS || (has_moved && covers.n_masked == 0))
		covers_watch(in);
	lost = covers_lost(in);
	/* Not at the start of a run: most are over before anything changes. */
	if (!lost)
		covers_note(in);
	return lost;
}

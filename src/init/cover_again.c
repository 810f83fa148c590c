/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Covers names again that were replaced on the host: a process of its own, started by the
 * supervisor when the run's init asks for it and has stopped the tree. Init itself has no
 * capability any more. The owner of its user namespace has all of them there, so this process
 * enters the run's user and mount namespaces. It stays outside of the pid namespace, out of the
 * tree's sight.
 *
 * Should: cover what the name stands for now, and make sure that the guest cannot change that any
 * more. A cover is not enough: the guest may have opened the new object before it was covered.
 * So it must have no other name, and nothing in the tree may have it open or mapped, or have a
 * descriptor on its way in a socket. What was found is only true if nothing has run meanwhile:
 * stopped tasks can be continued by a timer, so each one's context switches are compared.
 * Mustn't: follow links, open anything but regular files and directories, or say that all is well
 * if something could not be looked at.
 *
 * The supervisor gets each object, or why it is none, and judges what is in it (launch/covers.c).
 */
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/stat.h>
#include <linux/utsname.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/text.h"
#include "bare/wait.h"
#include "init/fdpass.h"
#include "init/init.h"
#include "init/mount_ops.h"
#include "init/procfs.h"
#include "init/tree.h"

#define TRIES 100	 /* if something runs, or the name is replaced again */
#define STILL_TRIES 5000 /* until everything has stopped; the machine may be busy */
#define MISSING_TRIES 300
#define PAUSE_NS (1 * MS)
#define OBJECTS_MAX 64
#define THREADS_MAX 65536
#define FDS_MAX 65536
#define STATUS_MAX 8192
#define INFO_MAX 1024
#define LINE_MAX 32768
#define HASH_FACTOR 1099511628211u
#define STATX_WANTED (STATX_TYPE | STATX_INO | STATX_NLINK | STATX_MNT_ID)

struct object {
	uint32_t step;
	int fd;		/* for reading, -1 = a placeholder, which cannot be read */
	long error;	/* why there is none: -errno */
	int is_held;	/* the tree has it open or mapped */
	uint16_t type;	/* S_IFMT of its mode */
	uint32_t mount; /* that covers it, 0 = not known */
	uint32_t dev_major, dev_minor;
	uint64_t ino;
};

static struct {
	struct object v[OBJECTS_MAX];
	int n;
	uint32_t step;	 /* what is being worked on */
	uint32_t wanted; /* is covered again also if it has a cover; 0 = none */
	int is_held;	 /* the tree has something on its way in a socket: any of them */
} again;

/* All tasks: are they stopped, and have they run since? */
struct stand {
	uint64_t hash;
	int is_still;
};

/* Calls @each for every task of the tree until it returns something else than 0. */
static long each_task(struct init *in, long (*each)(struct init *in, int pid, int tid, void *arg),
		      void *arg)
{
	static int pids[TREE_MAX], tids[THREADS_MAX];
	int n = tree_list(in, pids);
	long r = n == TREE_MAX ? -E2BIG : 0;

	for (int i = 0; r == 0 && i < n; i++) {
		long n_tids = proc_entries(in->proc_fd, pids[i], "task", tids, THREADS_MAX);

		if (n_tids == -ENOENT || n_tids == -ESRCH)
			continue;
		r = n_tids < 0 ? n_tids : n_tids == THREADS_MAX ? -E2BIG : 0;
		for (long k = 0; r == 0 && k < n_tids; k++)
			r = each(in, pids[i], tids[k], arg);
	}
	return r == -ENOENT || r == -ESRCH ? -EAGAIN : r; /* one has ended: begin again */
}

static char state_of(const char *status)
{
	static const char key[] = "\nState:\t";
	size_t i = 0;

	/* The name comes before it, with every line end escaped. */
	for (; *status && key[i]; status++)
		i = *status == key[i] ? i + 1 : *status == key[0];
	return *status;
}

/*
 * The parent of a vfork child stops only when the child lets it go on. Any other call that waits
 * for a disk or a lock has to be waited for: open() and link() may have found the new object by its
 * name already, and would get hold of it after everything was looked at.
 */
static int waits_for_vfork(const struct init *in, int pid, int tid)
{
	char path[PROC_PATH_MAX], text[INFO_MAX];
	uint64_t number;
	long n = proc_read(in->proc_fd, 0, proc_path_in(pid, "task", tid, "syscall", path), text,
			   sizeof(text));

	/* "running", or the number of the call and its arguments */
	if (n <= 0 || proc_numbers(text, &number, 1) != 1)
		return 0;
#ifdef __NR_vfork /* elsewhere clone() is the only way */
	if (number == __NR_vfork)
		return 1;
#endif
	return number == __NR_clone;
}

static long note_task(struct init *in, int pid, int tid, void *arg)
{
	struct stand *stand = arg;
	char path[PROC_PATH_MAX], text[STATUS_MAX], state;
	long n = proc_read(in->proc_fd, 0, proc_path_in(pid, "task", tid, "status", path), text,
			   sizeof(text));
	uint64_t switches;

	if (n < 0)
		return n;
	state = state_of(text);
	switches = proc_field(text, "voluntary_ctxt_switches:") +
		   proc_field(text, "nonvoluntary_ctxt_switches:");
	if (state != 'T' && state != 't' && state != 'Z' && state != 'X' &&
	    !(state == 'D' && waits_for_vfork(in, pid, tid)))
		stand->is_still = 0;
	stand->hash = (stand->hash ^ (uint64_t)tid) * HASH_FACTOR;
	stand->hash = (stand->hash ^ switches) * HASH_FACTOR;
	return 0;
}

static long take_stand(struct init *in, struct stand *ret)
{
	*ret = (struct stand){ .is_still = 1 };
	return each_task(in, note_task, ret);
}

static long await_still(struct init *in, struct stand *ret)
{
	for (int i = 0; i < STILL_TRIES; i++) {
		long r = take_stand(in, ret);

		if (r < 0 && r != -EAGAIN)
			return r;
		if (r == 0 && ret->is_still)
			return 0;
		sleep_ns(PAUSE_NS);
	}
	return -ETIMEDOUT;
}

static void note_held(const struct statx *st)
{
	for (int i = 0; i < again.n; i++)
		if (again.v[i].ino == st->stx_ino && again.v[i].dev_major == st->stx_dev_major &&
		    again.v[i].dev_minor == st->stx_dev_minor)
			again.v[i].is_held = 1;
}

/* A descriptor on its way could be anything. */
static long look_at_socket(struct init *in, int pid, int tid, int fd)
{
	char path[PROC_PATH_MAX], text[INFO_MAX];
	size_t at;
	long n;

	proc_path_in(pid, "task", tid, "fdinfo/", path);
	at = str_len(path);
	append_number(path, at, sizeof(path), (uint64_t)fd);
	n = proc_read(in->proc_fd, 0, path, text, sizeof(text));
	if (n < 0)
		return n;
	again.is_held |= proc_field(text, "scm_fds:") != 0;
	return 0;
}

static long look_at_fd(struct init *in, int pid, int tid, int fd)
{
	char path[PROC_PATH_MAX];
	struct statx st;
	long r;

	proc_path_in(pid, "task", tid, "fd/", path);
	append_number(path, str_len(path), sizeof(path), (uint64_t)fd);
	r = raw_syscall(__NR_statx, in->proc_fd, RAW_ARG(path),
			AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_WANTED, RAW_ARG(&st), 0);
	if (r < 0)
		return r;
	note_held(&st);
	return (st.stx_mode & S_IFMT) == S_IFSOCK ? look_at_socket(in, pid, tid, fd) : 0;
}

/*
 * Kernels before 6.3 do not count what waits in connections that nobody has accepted. Such a
 * connection is a socket without an inode, which is the seventh field. A guest has one network
 * namespace.
 */
static void look_at_unix_socket(void *arg, const char *line)
{
	uint64_t ino = 1;

	(void)arg;
	for (int fields = 0; *line && fields < 6; line++) {
		fields += *line == ' ';
		while (*line == ' ' && line[1] == ' ')
			line++;
	}
	if (proc_numbers(line, &ino, 1) == 1 && ino == 0)
		again.is_held = 1;
}

static int counts_backlogs(void)
{
	struct new_utsname names;
	uint64_t major, minor;
	const char *rest = names.release;

	if (raw_syscall(__NR_uname, RAW_ARG(&names), 0, 0, 0, 0, 0) < 0 ||
	    proc_numbers(rest, &major, 1) != 1)
		return 0;
	while (*rest && *rest != '.')
		rest++;
	return major > 6 ||
	       (major == 6 && *rest && proc_numbers(rest + 1, &minor, 1) == 1 && minor >= 3);
}

static long look_at_backlogs(struct init *in)
{
	static char text[LINE_MAX];

	if (counts_backlogs())
		return 0;
	return proc_lines(in->proc_fd, 1, "net/unix", text, sizeof(text), look_at_unix_socket, 0);
}

/* "from-to rights offset device INODE path" */
static void look_at_mapping(void *arg, const char *line)
{
	uint64_t ino = 0;

	(void)arg;
	for (int fields = 0; *line && fields < 4; line++)
		fields += *line == ' ';
	proc_numbers(line, &ino, 1);
	/* Of whichever device: what is shown there need not be what stat() says. */
	for (int i = 0; i < again.n; i++)
		again.v[i].is_held |= ino == again.v[i].ino;
}

/* The dead have no memory. One that has died meanwhile shows in the stand. */
static long unless_gone(long r)
{
	return r == -ENOENT || r == -ESRCH ? 0 : r;
}

static long look_at_task(struct init *in, int pid, int tid, void *arg)
{
	static const char *const links[] = { "exe", "cwd" };
	static int fds[FDS_MAX];
	static char text[LINE_MAX];
	char path[PROC_PATH_MAX];
	struct statx st;
	long n, r;

	(void)arg;
	n = proc_entries(in->proc_fd, 0, proc_path_in(pid, "task", tid, "fd", path), fds, FDS_MAX);
	if (n < 0 || n == FDS_MAX)
		return n < 0 ? unless_gone(n) : -E2BIG;
	for (long i = 0; i < n; i++) {
		r = look_at_fd(in, pid, tid, fds[i]);
		if (r < 0)
			return r;
	}
	/* Each thread has the same; but the first one may have ended, and then it has none. */
	for (int i = 0; i < 2; i++) {
		r = raw_syscall(__NR_statx, in->proc_fd,
				RAW_ARG(proc_path_in(pid, "task", tid, links[i], path)),
				AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_WANTED, RAW_ARG(&st),
				0);
		if (r == 0)
			note_held(&st);
	}
	return unless_gone(proc_lines(in->proc_fd, 0, proc_path_in(pid, "task", tid, "maps", path),
				      text, sizeof(text), look_at_mapping, 0));
}

/* --- covering --- */

static struct object *object_of(uint32_t step)
{
	for (int i = 0; i < again.n; i++)
		if (again.v[i].step == step)
			return &again.v[i];
	if (again.n == OBJECTS_MAX)
		return 0;
	again.v[again.n] = (struct object){ .step = step, .fd = -1 };
	return &again.v[again.n++];
}

/* For a moment it may be missing: an editor renames the old file, then makes the new one. */
static long open_object(const struct init *in, const char *path, struct statx *ret)
{
	static int tries = MISSING_TRIES; /* for all names together */
	long r, fd = open_in_root(in, path);

	for (; fd == -ENOENT && tries > 0; tries--) {
		sleep_ns(PAUSE_NS);
		fd = open_in_root(in, path);
	}
	if (fd < 0)
		return fd;
	r = raw5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_WANTED, ret);
	if (r < 0)
		close_fd(fd);
	return r < 0 ? r : fd;
}

/* The covered name, for the supervisor to read. */
static long open_to_read(const struct init *in, const char *path, struct object *o)
{
	const struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
				      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
						 RESOLVE_NO_MAGICLINKS };
	struct statx st;
	long r, fd = raw4(__NR_openat2, in->root_fd, below_root(path), &how, sizeof(how));

	if (fd < 0)
		return fd;
	r = raw5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_WANTED, &st);
	if (r == 0 &&
	    (st.stx_ino != o->ino || st.stx_dev_major != o->dev_major ||
	     st.stx_dev_minor != o->dev_minor || !(st.stx_attributes & STATX_ATTR_MOUNT_ROOT)))
		r = -EAGAIN; /* replaced again */
	o->mount = st.stx_mask & STATX_MNT_ID ? (uint32_t)st.stx_mnt_id : 0;
	close_fd(o->fd);
	o->fd = r < 0 ? -1 : (int)fd;
	if (r < 0)
		close_fd(fd);
	return r;
}

/* A directory in the place of a directory, a file or a placeholder in that of a file. */
static int is_of_kind(const struct plan_op *op, uint16_t type)
{
	return op->flags & PLAN_FILE ? type == S_IFREG || type == S_IFSOCK : type == S_IFDIR;
}

/* A placeholder: there is nothing to read, but its cover has to be there. */
static long look_at_placeholder(const struct init *in, const char *path, struct object *o)
{
	struct statx st;
	long r, fd = open_in_root(in, path);

	close_fd(o->fd);
	o->fd = -1;
	if (fd < 0)
		return -EAGAIN;
	r = raw5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_WANTED, &st);
	close_fd(fd);
	if (r == 0 && (st.stx_ino != o->ino || !(st.stx_attributes & STATX_ATTR_MOUNT_ROOT)))
		return -EAGAIN;
	o->mount = r == 0 && (st.stx_mask & STATX_MNT_ID) ? (uint32_t)st.stx_mnt_id : 0;
	return r;
}

static long cover_object_of(struct init *in, const struct plan_op *op, struct object *o)
{
	const char *path = str_at(in, op->dst);
	struct statx st;
	long r, fd = open_object(in, path, &st);

	if (fd < 0)
		return fd == -ELOOP ? -EINVAL : fd;
	o->type = st.stx_mode & S_IFMT;
	r = is_of_kind(op, o->type) ? cover_by_itself((int)fd, op) : -EINVAL;
	close_fd(fd);
	if (r < 0)
		return r == -ENOENT ? -EAGAIN : r;
	o->ino = st.stx_ino;
	o->dev_major = st.stx_dev_major;
	o->dev_minor = st.stx_dev_minor;
	return o->type == S_IFSOCK ? look_at_placeholder(in, path, o) : open_to_read(in, path, o);
}

/* What stands at the name, or that nothing can, is told; nothing else may go wrong. */
static long cover_one(struct init *in, const struct plan_op *op, uint32_t step)
{
	struct object *o = object_of(step);
	long r;

	if (!o)
		return -E2BIG;
	if (!covers_can_again(in, step))
		return -EOPNOTSUPP;
	r = cover_object_of(in, op, o);
	o->error = r;
	return r == -ENOENT || r == -EINVAL ? 0 : r;
}

/* The cover of an object that got this name was made when nobody looked at the object. */
static int is_wanted(uint32_t step)
{
	for (int i = 0; i < again.n; i++)
		if (again.v[i].step == step)
			return again.v[i].error != 0;
	return step == again.wanted;
}

static int has_cover(const struct init *in, const struct plan_op *op)
{
	struct statx st;
	long fd = open_in_root(in, str_at(in, op->dst)), r;

	if (fd < 0)
		return 0;
	r = raw5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_WANTED, &st);
	close_fd(fd);
	return r == 0 && (st.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

static long cover_all(struct init *in)
{
	const struct plan_op *ops = (const void *)((const char *)in->plan + in->plan->ops_off);
	long r = 0;

	for (uint32_t i = in->plan->n_common_ops; r == 0 && i < in->plan->n_ops; i++) {
		again.step = STEP_PLAN_FIRST + i;
		if (!is_cover(&ops[i]) || (has_cover(in, &ops[i]) && !is_wanted(again.step)))
			continue;
		r = cover_one(in, &ops[i], again.step);
	}
	return r;
}

/* Each time: what has run meanwhile may have given one of them a second name. */
static long check_names(void)
{
	struct statx st = { .stx_nlink = 0 };

	for (int i = 0; i < again.n; i++) {
		struct object *o = &again.v[i];
		long r;

		o->is_held = 0;
		if (o->fd < 0 || o->error == -ENOENT || o->error == -EINVAL)
			continue;
		again.step = o->step;
		r = raw5(__NR_statx, o->fd, "", AT_EMPTY_PATH, STATX_WANTED, &st);
		if (r < 0)
			return r;
		if (!st.stx_nlink) /* it was replaced again */
			return -EAGAIN;
		o->error = o->type == S_IFREG && st.stx_nlink != 1 ? -EMLINK : 0;
	}
	return 0;
}

static void note_all_held(void)
{
	for (int i = 0; i < again.n; i++)
		if (again.v[i].error == 0 && (again.is_held || again.v[i].is_held))
			again.v[i].error = -EBUSY;
}

static long try_once(struct init *in)
{
	struct stand before = { 0 }, after;
	long r = cover_all(in); /* soon, and again when nothing runs */

	if (r == 0)
		r = await_still(in, &before);
	if (r == 0)
		r = cover_all(in);
	if (r == 0)
		r = check_names();
	again.is_held = 0;
	if (r == 0 && again.n)
		r = each_task(in, look_at_task, 0);
	if (r == 0 && again.n)
		r = look_at_backlogs(in);
	if (r == 0)
		r = take_stand(in, &after);
	if (r == 0 && (before.hash != after.hash || !after.is_still))
		r = -EAGAIN;
	if (r == 0)
		note_all_held();
	return r;
}

static long enter(struct init *in, const int *fds, int n_fds)
{
	long r;

	if (n_fds != 2)
		return -EBADMSG;
	in->plan = map_plan(in, fds[0]);
	r = raw2(__NR_setns, fds[1], CLONE_NEWUSER | CLONE_NEWNS);
	if (r < 0)
		return r;
	r = raw4(__NR_openat, AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	if (r < 0)
		return r;
	in->root_fd = (int)r;
	r = raw4(__NR_openat, AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (r < 0)
		return r;
	in->proc_fd = (int)r;
	return 0;
}

void run_cover(struct init *in, uint32_t step, const int *fds, int n_fds)
{
	struct control_report *report = &in->report;
	long r = enter(in, fds, n_fds);

	again.wanted = step;

	for (int i = 0; r == 0 && i < TRIES; i++) {
		r = try_once(in);
		if (r != -EAGAIN)
			break;
		r = i + 1 < TRIES ? 0 : r;
	}
	report->type = CONTROL_COVERED;
	for (int i = 0; r == 0 && i < again.n; i++) {
		const struct object *o = &again.v[i];

		report->uncovered = o->step;
		report->sys_errno = (int32_t)-o->error;
		report->mount = o->mount;
		r = pass_fds(CTL_FD, report, sizeof(*report), &o->fd, o->fd >= 0 && !o->error);
	}
	report->type = CONTROL_LOOKED;
	report->uncovered = again.step;
	report->sys_errno = (int32_t)-r;
	pass_fds(CTL_FD, report, sizeof(*report), 0, 0);
	for (;;)
		raw_syscall(__NR_exit_group, 0, 0, 0, 0, 0, 0);
}

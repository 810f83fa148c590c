/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A deleted file tells its blocks through any descriptor, through /proc/PID/exe and, if it is a
 * directory, through a thread's cwd. One that is only mapped tells how much of it is mapped, which
 * may be a single page of a large file. Descriptors in the queue of a socket, and those of a
 * process that made itself undumpable, cannot be seen.
 */
#include "init/watch/unlinked.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/kcmp.h>
#include <linux/stat.h>

#include "bare/raw.h"
#include "bare/text.h"
#include "bare/wait.h"
#include "init/procfs.h"
#include "init/tree.h"
#include "init/watch/figures.h"

#define OBJECTS 4096 /* a power of two */
#define DESCRIPTORS_MAX 8192
#define THREADS_MAX 4096
#define LINES_BYTES 65536
#define TEXT_MAX 4608
#define MOMENT_NS 2000000
#define TRIES 3

/* Deleted files, each counted once. */
static struct object {
	uint64_t ino;
	uint64_t mapped; /* bytes from the first to the last one that is */
	uint64_t from;
	int is_described; /* something has told its size */
} objects[OBJECTS];
static unsigned n_objects;

struct look {
	struct init *in;
	const struct init *live;
	struct unlinked *found;
	long left; /* descriptors that may still be looked at */
	int is_blind;
	int has_memory; /* the thread that is looked at has shown some */
};

/* NULL if there is no room. */
static struct object *find(uint64_t ino)
{
	unsigned at = (unsigned)(ino * 2654435761u) % OBJECTS;

	while (objects[at].ino && objects[at].ino != ino)
		at = (at + 1) % OBJECTS;
	if (!objects[at].ino) {
		if (n_objects > OBJECTS * 3 / 4)
			return NULL;
		n_objects++;
		objects[at] = (struct object){ .ino = ino };
	}
	return &objects[at];
}

/* R, S, D ... as /proc tells it; X = it is gone. */
static char state_of(const struct look *l, int pid, int thread)
{
	char path[PROC_PATH_MAX], text[512];
	long n;

	proc_path_in(pid, "task", thread, "stat", path);
	n = proc_read(l->in->proc_fd, 0, path, text, sizeof(text));
	/* "PID (name) state ..." */
	while (n > 0 && text[n - 1] != ')')
		n--;
	return n > 0 ? text[n + 1] : 'X';
}

/* The dead have nothing open, but some kernels refuse to let us look at them. */
static int is_dead(const struct look *l, int pid)
{
	char state = state_of(l, pid, pid);

	return state == 'Z' || state == 'X';
}

static void note_error(struct look *l, int pid, long r)
{
	if (r < 0 && r != -ENOENT && r != -ESRCH && pid != l->live->exact_pid && !is_dead(l, pid))
		l->is_blind = 1;
}

/* Does @path, as the kernel tells it, lie in a watched directory? */
static int is_inside(const struct look *l, const char *path)
{
	for (int i = 0; i < l->in->n_watched; i++) {
		const char *dir = l->in->watched[i].path;
		size_t prefix = str_len(dir);

		if (starts_with(path, dir) && (path[prefix] == '/' || prefix == 1))
			return 1;
	}
	return 0;
}

static int is_watched_dev(const struct init *in, uint64_t major, uint64_t minor)
{
	uint64_t dev = major << 32 | minor;

	for (int i = 0; i < in->n_watched; i++)
		if (dev == in->watched[i].devs[0] || dev == in->watched[i].devs[1])
			return 1;
	return 0;
}

static int ends_deleted(const char *s)
{
	static const char mark[] = " (deleted)";
	size_t n = str_len(s);

	return n >= sizeof(mark) && starts_with(s + n - (sizeof(mark) - 1), mark);
}

/* @target: what the kernel says that the link leads to. */
static void look_at_file(struct look *l, const char *path, const char *target)
{
	struct object *o;
	struct statx st;
	int is_gone;

	if (raw_syscall(__NR_statx, l->in->proc_fd, RAW_ARG(path), 0,
			STATX_TYPE | STATX_NLINK | STATX_BLOCKS | STATX_INO, RAW_ARG(&st), 0) < 0)
		return;
	/* An overlay always reports one link for a directory that the base has, too. */
	is_gone = st.stx_nlink == 0 || ((st.stx_mode & S_IFMT) == S_IFDIR && ends_deleted(target));
	if (!is_gone || !is_watched_dev(l->in, st.stx_dev_major, st.stx_dev_minor))
		return;
	o = find(st.stx_ino);
	if (!o) {
		l->is_blind = 1;
	} else if (!o->is_described) {
		o->is_described = 1;
		l->found->bytes += st.stx_blocks * STAT_BLOCK;
		l->found->inodes++;
	}
}

/* The text of the link comes from the kernel. It is read before the file is asked, which may lie on
 * a file system that does not answer. */
static void look_at_descriptor(struct look *l, int pid, int fd)
{
	char path[PROC_PATH_MAX], text[TEXT_MAX];
	long n;

	proc_path_in(pid, "fd", fd, "", path);
	n = raw_syscall(__NR_readlinkat, l->in->proc_fd, RAW_ARG(path), RAW_ARG(text),
			sizeof(text) - 1, 0, 0);
	if (n == -ENAMETOOLONG)
		look_at_file(l, path, "");
	if (n <= 0)
		return;
	text[n] = 0;
	if (is_inside(l, text)) {
		look_at_file(l, path, text);
	} else if (starts_with(text, "socket:")) {
		proc_path_in(pid, "fdinfo", fd, "", path);
		if (proc_read(l->in->proc_fd, 0, path, text, sizeof(text)) > 0 &&
		    proc_field(text, "scm_fds:") > 0)
			l->is_blind = 1;
	}
}

/* One of the links of a thread that keep their target in use, as a descriptor does. */
static void look_at_link(struct look *l, int pid, int thread, const char *name)
{
	char path[PROC_PATH_MAX], text[TEXT_MAX];
	long n;

	proc_path_in(pid, "task", thread, name, path);
	n = raw_syscall(__NR_readlinkat, l->in->proc_fd, RAW_ARG(path), RAW_ARG(text),
			sizeof(text) - 1, 0, 0);
	text[n > 0 ? n : 0] = 0;
	if (n == -ENAMETOOLONG)
		look_at_file(l, path, "");
	else if (n < 0)
		note_error(l, pid, n);
	else if (is_inside(l, text))
		look_at_file(l, path, text);
}

static void look_at_table(struct look *l, int pid)
{
	static int fds[DESCRIPTORS_MAX];
	long n = proc_entries(l->in->proc_fd, pid, "fd", fds, DESCRIPTORS_MAX);

	note_error(l, pid, n);
	l->left -= n > 0 ? n : 0;
	if (l->left < 0 || n == DESCRIPTORS_MAX)
		l->is_blind = 1;
	for (long i = 0; i < n && l->left >= 0; i++)
		look_at_descriptor(l, pid, fds[i]);
}

/* "start-end perms offset major:minor inode   path" */
static void look_at_mapping(void *arg, const char *line)
{
	uint64_t start, end, offset, major, minor, ino;
	struct look *l = arg;
	struct object *o;

	l->has_memory = 1;
	line = read_hex(line, &start);
	if (*line != '-')
		return;
	line = read_hex(line + 1, &end);
	for (int i = 0; i < 6; i++)
		if (!*line++)
			return;
	line = read_hex(line, &offset);
	line = read_hex(line + 1, &major);
	line = read_hex(line + 1, &minor);
	if (proc_numbers(line, &ino, 1) != 1 || !ino || !ends_deleted(line))
		return;
	while (*line && *line != '/')
		line++;
	/* Some file systems show another device here than stat() does. */
	if (!is_watched_dev(l->in, major, minor) && !is_inside(l, line))
		return;
	o = find(ino);
	if (!o) {
		l->is_blind = 1;
		return;
	}
	/* Several mappings may show the same bytes. */
	end = offset + (end - start);
	if (o->mapped) {
		end = most(end, o->from + o->mapped);
		offset = least(offset, o->from);
	}
	o->from = offset;
	o->mapped = end - offset;
}

/* Returns whether there are any. */
static int look_at_mappings(struct look *l, int pid)
{
	static char text[LINES_BYTES];

	l->has_memory = 0;
	note_error(l, pid,
		   proc_lines(l->in->proc_fd, pid, "maps", text, sizeof(text), look_at_mapping, l));
	return l->has_memory;
}

/* All threads share the memory and the program, but one that is ending shows nothing of them any
 * more, even before it says that it is dead. */
static void look_at_memory(struct look *l, int pid, const int *threads, long n)
{
	for (long i = 0; i < n; i++)
		if (look_at_mappings(l, threads[i])) {
			look_at_link(l, pid, threads[i], "exe");
			return;
		}
	if (n > 0 && !is_dead(l, pid) && pid != l->live->exact_pid)
		l->is_blind = 1;
}

/* A thread can have a table of descriptors and a directory of its own. */
static void look_at_process(struct look *l, int pid)
{
	static int threads[THREADS_MAX];
	long n = proc_entries(l->in->proc_fd, pid, "task", threads, THREADS_MAX);

	note_error(l, pid, n);
	look_at_table(l, pid);
	look_at_memory(l, pid, threads, n);
	if (n == THREADS_MAX)
		l->is_blind = 1;
	for (long i = 0; i < n && !l->is_blind; i++) {
		look_at_link(l, pid, threads[i], "cwd");
		if (threads[i] != pid &&
		    raw_syscall(__NR_kcmp, pid, threads[i], KCMP_FILES, 0, 0, 0) != 0)
			look_at_table(l, threads[i]);
	}
}

/* Returns whether all could be looked at. */
static int look_at_tree(struct init *in, const struct init *live, struct unlinked *ret)
{
	static int pids[TREE_MAX];
	struct look l = { .in = in, .live = live, .found = ret, .left = DESCRIPTORS_MAX };
	int n = tree_list(in, pids);

	*ret = (struct unlinked){ 0 };
	memset(objects, 0, sizeof(objects));
	n_objects = 0;
	/* Go on even if one cannot be seen: what the others have open counts for certain. */
	for (int i = 0; i < n; i++)
		look_at_process(&l, pids[i]);
	for (unsigned i = 0; i < OBJECTS; i++)
		if (objects[i].mapped && !objects[i].is_described) {
			ret->mapped_bytes += objects[i].mapped;
			ret->mapped_inodes++;
			ret->is_hidden = 1;
		}
	return !l.is_blind && n < TREE_MAX;
}

void unlinked_find(struct init *in, const struct init *live, struct unlinked *ret)
{
	/* A process that is just ending or executing something cannot be looked at for a moment. */
	for (int i = 0; i < TRIES; i++) {
		if (look_at_tree(in, live, ret))
			return;
		sleep_ns(MOMENT_NS);
	}
	ret->is_hidden = 1;
}

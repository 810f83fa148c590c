/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Should: tell which files of the command vanish with the private home and /tmp, so that a user
 * whose results were written there learns about it.
 * Mustn't: cost anything if there is nothing to tell, or more than a moment whatever the guest has
 * made; follow a link, or look at anything that stays.
 *
 * This is a service and no protection: what cannot be read is not counted. The tree is gone, so
 * nothing changes meanwhile (at level `landlock` the files lie in a directory of the host that is
 * closed to others). A tmpfs without new inodes is not looked at. Otherwise the walk ends after a
 * number of names and a time, and goes only so deep. Names decide first (lost_names.c): most of
 * what tools leave is passed over without a system call.
 */
#include "init/init.h"

#include <asm/stat.h>
#include <asm/unistd.h>
#include <linux/fcntl.h>
#include <linux/openat2.h>
#include <linux/stat.h>

#include "bare/dirents.h"
#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/wait.h"
#include "init/lost_names.h"
#include "init/watch/watch.h"

#define NAMES_MAX 4096 /* in each of the two places */
#define DEPTH_MAX 12
#define TIME_MAX_NS 50000000u
#define ENTRIES_BYTES 2048

struct level {
	struct dir_cursor cursor;
	const char *name; /* in the listing of the level above; NULL at the top */
	size_t path_len;  /* of the way to it, with the slash after it */
	char entries[ENTRIES_BYTES] __attribute__((aligned(8)));
};

static struct level levels[DEPTH_MAX];

static struct {
	int is_tmp, level;
	uint64_t dev, end_ns;
	uint64_t home_ino; /* it may lie in /tmp, and is counted by itself; 0 = not known */
	uint32_t n_names, n_found;
	/* The way to the directory, as long as it fits: behind that no example is taken. */
	char path[CONTROL_EXAMPLE_MAX];
} walk;

static struct control_lost lost;

static long open_dir(long parent, const char *name, uint64_t resolve)
{
	const struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | resolve,
	};

	return raw_syscall(__NR_openat2, parent, RAW_ARG(name), RAW_ARG(&how), sizeof(how), 0, 0);
}

static int look_at(long dir, const char *name, struct stat *ret)
{
	return raw_syscall(__NR_newfstatat, dir, RAW_ARG(name), RAW_ARG(ret), AT_SYMLINK_NOFOLLOW,
			   0, 0) == 0;
}

static int has_marker(long dir)
{
	struct stat st;

	for (int i = 0; lost_markers[i]; i++)
		if (look_at(dir, lost_markers[i], &st))
			return 1;
	return 0;
}

/* Adds @name to the way to its directory: the new length; 0 = there is no room for it. */
static size_t path_with(const char *name)
{
	size_t at = levels[walk.level].path_len, len = str_len(name);

	if (at + len + 1 > sizeof(walk.path))
		return 0;
	memcpy(walk.path + at, name, len + 1);
	return at + len;
}

static void count_file(const char *name)
{
	size_t len;

	walk.n_found++;
	len = lost.example[0] ? 0 : path_with(name);
	if (!len)
		return;
	memcpy(lost.example, walk.path, len + 1);
	lost.is_tmp = (uint32_t)walk.is_tmp;
}

static void enter(long fd, const char *name, size_t path_len)
{
	struct level *l = &levels[walk.level];

	l->cursor = (struct dir_cursor){ fd, l->entries, sizeof(l->entries), 0, 0 };
	l->name = name;
	l->path_len = path_len;
}

static void go_down(const char *name)
{
	size_t end = 0;
	long fd;

	if (walk.level + 1 == DEPTH_MAX) {
		lost.has_more = 1;
		return;
	}
	fd = open_dir(levels[walk.level].cursor.fd, name, RESOLVE_NO_XDEV);
	if (fd < 0)
		return;
	if (has_marker(fd)) {
		close_fd(fd);
		return;
	}
	end = path_with(name);
	if (end)
		walk.path[end++] = '/';
	walk.level++;
	enter(fd, name, end ? end : sizeof(walk.path));
}

static void take_entry(const char *name)
{
	const struct level *l = &levels[walk.level];
	const struct lost_place at = { walk.is_tmp, walk.level, l->name };
	int is_missed = lost_is_missed(&at, name), is_searched = lost_is_searched(&at, name);
	struct stat st;

	if ((!is_missed && !is_searched) || !look_at(l->cursor.fd, name, &st) ||
	    st.st_dev != walk.dev)
		return;
	if ((st.st_mode & S_IFMT) == S_IFDIR && is_searched && st.st_ino != walk.home_ino)
		go_down(name);
	if ((st.st_mode & S_IFMT) == S_IFREG && is_missed && st.st_size > 0)
		count_file(name);
}

static int is_too_much(void)
{
	return ++walk.n_names > NAMES_MAX || (walk.n_names % 64 == 0 && now_ns() > walk.end_ns);
}

/* Consumes @fd; how many files there are. */
static uint32_t count_in(long fd, int is_tmp)
{
	walk.is_tmp = is_tmp;
	walk.level = 0;
	walk.n_names = walk.n_found = 0;
	enter(fd, 0, 0);
	while (walk.level >= 0) {
		struct level *l = &levels[walk.level];
		const struct dir_entry *e = dir_next(&l->cursor);

		if (e && is_too_much()) {
			lost.has_more = 1;
			walk.n_names = NAMES_MAX; /* nor in the directories above */
			e = 0;
		}
		if (e) {
			take_entry(e->name);
			continue;
		}
		close_fd(l->cursor.fd);
		walk.level--;
	}
	return walk.n_found;
}

/* Opens a place whose files are lost. In a view of its own that is the run's tmpfs, whatever else
 * may be mounted there. */
static long open_place(const struct init *in, const char *path, struct stat *ret)
{
	struct stat root;
	long fd = open_dir(AT_FDCWD, path, 0);

	if (fd < 0)
		return fd;
	if (raw_syscall(__NR_fstat, fd, RAW_ARG(ret), 0, 0, 0, 0) == 0 &&
	    (in->plan->level != PLAN_LEVEL_NAMESPACES ||
	     (look_at(AT_FDCWD, "/", &root) && root.st_dev == ret->st_dev)))
		return fd;
	close_fd(fd);
	return -1;
}

void tell_lost_files(struct init *in)
{
	const char *tmp = in->plan->level == PLAN_LEVEL_NAMESPACES ? "/tmp" : in->scratch;
	struct stat st;
	long fd;

	if (!watch_has_new_files(in))
		return;
	walk.end_ns = now_ns() + TIME_MAX_NS;
	fd = in->plan->lost_home ? open_place(in, str_at(in, in->plan->lost_home), &st) : -1;
	if (fd >= 0) {
		walk.dev = st.st_dev;
		lost.home = count_in(fd, 0);
		walk.home_ino = st.st_ino;
	}
	fd = in->plan->flags & PLAN_LOSES_TMP && tmp ? open_place(in, tmp, &st) : -1;
	if (fd >= 0) {
		walk.dev = st.st_dev;
		lost.tmp = count_in(fd, 1);
	}
	if (!lost.home && !lost.tmp)
		return;
	lost.type = CONTROL_LOST;
	raw_syscall(__NR_write, CTL_FD, RAW_ARG(&lost), sizeof(lost), 0, 0, 0);
}

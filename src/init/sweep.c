/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing the private directory of a run at level `landlock`, whether or not there still is a
 * supervisor. (If init itself is killed, the supervisor does it: launch/scratch.c.)
 *
 * The guest made the tree: no link is followed, and its depth costs neither stack nor descriptors,
 * since a directory that is not empty is moved up to the top first. The guest is dead by now.
 */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/fcntl.h>

#include "bare/dirents.h"
#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/text.h"

#define PASSES_MAX 100000
#define ENTRIES_BYTES 4096
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static long remove_name(long dir, const char *name, int flags)
{
	return raw_syscall(__NR_unlinkat, dir, (long)name, flags, 0, 0, 0);
}

/*
 * Opens a directory and gives us the rights to it that the guest may have taken away, before
 * anything is done in it. Only what was opened as a directory is changed: a link never is.
 */
static long open_dir(long parent, const char *name)
{
	char path[32];
	long dir, fd = raw_syscall(__NR_openat, parent, (long)name, O_PATH | DIR_FLAGS, 0, 0, 0);

	if (fd < 0)
		return fd;
	text_number(path, sizeof(path), "/proc/self/fd/", (unsigned long)fd);
	raw_syscall(__NR_fchmodat, AT_FDCWD, (long)path, 0700, 0, 0, 0);
	dir = raw_syscall(__NR_openat, fd, (long)".", DIR_FLAGS, 0, 0, 0);
	close_fd(fd);
	return dir;
}

static void new_name(char *out, unsigned long number)
{
	static const char prefix[] = ".gone-";

	memcpy(out, prefix, sizeof(prefix) - 1);
	out += sizeof(prefix) - 1;
	do
		*out++ = (char)('a' + number % 16);
	while ((number /= 16) != 0);
	*out = 0;
}

/* Removes what can be removed from @dir; directories that are not empty move up to @top. */
static unsigned empty_dir(long top, long dir, unsigned long *counter)
{
	char buffer[ENTRIES_BYTES] __attribute__((aligned(8))) = { 0 };
	char name[40];
	struct dir_cursor cursor = { .fd = dir, .buffer = buffer, .size = sizeof(buffer) };
	const struct dir_entry *e;
	unsigned done = 0;

	while ((e = dir_next(&cursor))) {
		long sub;

		if (remove_name(dir, e->name, 0) >= 0 ||
		    remove_name(dir, e->name, AT_REMOVEDIR) >= 0) {
			done++;
			continue;
		}
		/* Moving a directory needs the right to write to it. */
		sub = open_dir(dir, e->name);
		if (sub < 0)
			continue;
		close_fd(sub);
		new_name(name, (*counter)++);
		if (raw_syscall(__NR_renameat, dir, (long)e->name, top, (long)name, 0, 0) >= 0)
			done++;
	}
	return done;
}

/* Empties each directory that lies directly in @top into @top; how much was done. */
static unsigned sweep_pass(long top, unsigned long *counter)
{
	char buffer[ENTRIES_BYTES] __attribute__((aligned(8))) = { 0 };
	struct dir_cursor cursor = { .fd = top, .buffer = buffer, .size = sizeof(buffer) };
	const struct dir_entry *e;
	unsigned done = 0;

	raw_syscall(__NR_lseek, top, 0, 0, 0, 0, 0);
	while ((e = dir_next(&cursor))) {
		long dir;

		if (remove_name(top, e->name, 0) >= 0) {
			done++;
			continue;
		}
		dir = open_dir(top, e->name);
		if (dir >= 0) {
			done += empty_dir(top, dir, counter);
			close_fd(dir);
		}
		if (remove_name(top, e->name, AT_REMOVEDIR) >= 0)
			done++;
	}
	return done;
}

void sweep_scratch(const char *path)
{
	unsigned long counter = 0;
	long top = open_dir(AT_FDCWD, path);

	if (top < 0)
		return;
	/* Each pass takes a level off everything; one that gets nowhere is the last. */
	for (int i = 0; i < PASSES_MAX; i++)
		if (remove_name(AT_FDCWD, path, AT_REMOVEDIR) >= 0 || !sweep_pass(top, &counter))
			break;
	close_fd(top);
}

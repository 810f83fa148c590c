/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing the private directory of a run at level `landlock`, whether or not there still is a
 * supervisor. (If init itself is killed, the supervisor does it: launch/scratch.c.)
 *
 * The tree is the guest's: nothing is followed, and its depth costs neither stack nor descriptors,
 * since a directory that is not empty is moved up beside its top first. The guest is dead by now.
 */
#include "init/init.h"

#include <asm/unistd_64.h>
#include <linux/fcntl.h>

#include "sys/raw.h"

#define PASSES_MAX 100000
#define ENTRIES_BYTES 4096
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct entry {
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

static int is_dot(const char *name)
{
	return name[0] == '.' && (name[1] == 0 || (name[1] == '.' && name[2] == 0));
}

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
	static const char prefix[] = "/proc/self/fd/";
	char path[sizeof(prefix) + 10], digits[10], *end = path + sizeof(prefix) - 1;
	long dir, fd = raw_syscall(__NR_openat, parent, (long)name, O_PATH | DIR_FLAGS, 0, 0, 0);
	int n = 0;

	if (fd < 0)
		return fd;
	memcpy(path, prefix, sizeof(prefix));
	for (long rest = fd; n == 0 || rest; rest /= 10)
		digits[n++] = (char)('0' + rest % 10);
	while (n > 0)
		*end++ = digits[--n];
	*end = 0;
	raw_syscall(__NR_chmod, (long)path, 0700, 0, 0, 0, 0);
	dir = raw_syscall(__NR_openat, fd, (long)".", DIR_FLAGS, 0, 0, 0);
	raw_syscall(__NR_close, fd, 0, 0, 0, 0, 0);
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

/* Removes what can be removed of @dir; directories that are full move up to @top. */
static unsigned empty_dir(long top, long dir, unsigned long *counter)
{
	char buffer[ENTRIES_BYTES] __attribute__((aligned(8))) = { 0 };
	char name[40];
	unsigned done = 0;
	long n;

	while ((n = raw_syscall(__NR_getdents64, dir, (long)buffer, sizeof(buffer), 0, 0, 0)) > 0)
		for (long at = 0; at < n;) {
			const struct entry *e = (const void *)(buffer + at);
			long sub;

			at += e->len;
			if (is_dot(e->name))
				continue;
			if (remove_name(dir, e->name, 0) >= 0 ||
			    remove_name(dir, e->name, AT_REMOVEDIR) >= 0) {
				done++;
				continue;
			}
			/* Moving a directory needs the right to write to it. */
			sub = open_dir(dir, e->name);
			if (sub < 0)
				continue;
			raw_syscall(__NR_close, sub, 0, 0, 0, 0, 0);
			new_name(name, (*counter)++);
			if (raw_syscall(__NR_renameat, dir, (long)e->name, top, (long)name, 0, 0) >=
			    0)
				done++;
		}
	return done;
}

/* Empties each directory that lies directly in @top into @top; how much was done. */
static unsigned sweep_pass(long top, unsigned long *counter)
{
	char buffer[ENTRIES_BYTES] __attribute__((aligned(8))) = { 0 };
	unsigned done = 0;
	long n;

	raw_syscall(__NR_lseek, top, 0, 0, 0, 0, 0);
	while ((n = raw_syscall(__NR_getdents64, top, (long)buffer, sizeof(buffer), 0, 0, 0)) > 0)
		for (long at = 0; at < n;) {
			const struct entry *e = (const void *)(buffer + at);
			long dir;

			at += e->len;
			if (is_dot(e->name))
				continue;
			if (remove_name(top, e->name, 0) >= 0) {
				done++;
				continue;
			}
			dir = open_dir(top, e->name);
			if (dir >= 0) {
				done += empty_dir(top, dir, counter);
				raw_syscall(__NR_close, dir, 0, 0, 0, 0, 0);
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
	raw_syscall(__NR_close, top, 0, 0, 0, 0, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Giving a name in a directory that the command could write to another one, and back again. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "git/put_aside.h"

#define SUFFIX ".aside-by-cordon"
#define TRIES_MAX 100
#define NO_REPLACE 1 /* RENAME_NOREPLACE */

static int rename_to(int dir_fd, const char *name, const char *aside)
{
	struct stat st;

	if (syscall(SYS_renameat2, dir_fd, name, dir_fd, aside, NO_REPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* A file system without that flag; nobody else is at work here. */
	if (fstatat(dir_fd, aside, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return renameat(dir_fd, name, dir_fd, aside) < 0 ? -errno : 0;
}

int git_put_aside(int dir_fd, const char *name, char *suffix, size_t size)
{
	char aside[NAME_MAX + 64], self[32];
	struct stat st;
	int r = -EEXIST, is_opened = 0;

	for (int i = 0; r == -EEXIST && i < TRIES_MAX; i++) {
		snprintf(suffix, size, i ? "%s.%d" : "%s", SUFFIX, i);
		snprintf(aside, sizeof(aside), "%s%s", name, suffix);
		r = rename_to(dir_fd, name, aside);
		if (r == -EACCES && !is_opened && fstat(dir_fd, &st) == 0) {
			/* The command may have closed its directory; it belongs to us. */
			snprintf(self, sizeof(self), "/proc/self/fd/%d", dir_fd);
			is_opened = chmod(self, (st.st_mode & 07777) | 0700) == 0;
			if (is_opened)
				r = rename_to(dir_fd, name, aside);
		}
	}
	if (is_opened)
		chmod(self, st.st_mode & 07777);
	return r;
}

/* @text as one word of a shell command. */
static void add_word(struct strbuf *sb, const char *text)
{
	if (strspn(text,
		   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+:@%-") ==
	    strlen(text)) {
		strbuf_puts(sb, text);
		return;
	}
	strbuf_putc(sb, '\'');
	for (; *text; text++) {
		if (*text == '\'')
			strbuf_puts(sb, "'\\''");
		else
			strbuf_putc(sb, *text);
	}
	strbuf_putc(sb, '\'');
}

const char *git_put_aside_undo(struct arena *arena, const char *aside, const char *path)
{
	struct strbuf sb = STRBUF_INIT;
	const char *fix = NULL;

	strbuf_puts(&sb, *path == '-' ? "mv -- " : "mv ");
	add_word(&sb, aside);
	strbuf_putc(&sb, ' ');
	add_word(&sb, path);
	if (!sb.failed)
		fix = arena_strdup(arena, sb.data);
	strbuf_done(&sb);
	return fix;
}

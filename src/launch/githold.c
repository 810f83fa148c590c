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

#include "launch/gitlinks.h"

#define HELD ".held-by-cordon"
#define HELD_TRIES 100
#define NO_REPLACE 1 /* RENAME_NOREPLACE */

static int rename_to(int dir_fd, const char *name, const char *held)
{
	struct stat st;

	if (syscall(SYS_renameat2, dir_fd, name, dir_fd, held, NO_REPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* A file system without that flag; nobody else is at work here. */
	if (fstatat(dir_fd, held, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return renameat(dir_fd, name, dir_fd, held) < 0 ? -errno : 0;
}

int git_hold_name(int dir_fd, const char *name, char *suffix, size_t size)
{
	char held[NAME_MAX + 64], self[32];
	struct stat st;
	int r = -EEXIST, is_opened = 0;

	for (int i = 0; r == -EEXIST && i < HELD_TRIES; i++) {
		snprintf(suffix, size, i ? "%s.%d" : "%s", HELD, i);
		snprintf(held, sizeof(held), "%s%s", name, suffix);
		r = rename_to(dir_fd, name, held);
		if (r == -EACCES && !is_opened && fstat(dir_fd, &st) == 0) {
			/* The command may have closed its directory; it belongs to us. */
			snprintf(self, sizeof(self), "/proc/self/fd/%d", dir_fd);
			is_opened = chmod(self, (st.st_mode & 07777) | 0700) == 0;
			if (is_opened)
				r = rename_to(dir_fd, name, held);
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

const char *git_hold_fix(struct arena *arena, const char *held, const char *path)
{
	struct strbuf sb = STRBUF_INIT;
	const char *fix = NULL;

	strbuf_puts(&sb, *path == '-' ? "mv -- " : "mv ");
	add_word(&sb, held);
	strbuf_putc(&sb, ' ');
	add_word(&sb, path);
	if (!sb.failed)
		fix = arena_strdup(arena, sb.data);
	strbuf_done(&sb);
	return fix;
}

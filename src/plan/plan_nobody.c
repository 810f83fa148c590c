/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level landlock, started by root. Ids cannot be mapped there, so a command with another id than
 * root's reaches of root's files what their modes allow to all. Where that is enough the run gets
 * the id that it has at level namespaces. It then cannot open what only root may: files of /proc,
 * device nodes in a grant, other processes of root. Otherwise it keeps uid 0 (isolation.missing has
 * `uid`).
 *
 * Enough means: nothing of root's is to be written, and what is granted, the directories above it
 * and the names directly in it can be read by all. What lies deeper is not looked at.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "plan/plan_internal.h"

#define ENTRIES_MAX 256 /* in more than that something may be closed */

static bool is_open_to(const struct stat *st, mode_t wanted)
{
	/* What a link leads to is granted by itself; sockets and devices are better closed. */
	if (!S_ISDIR(st->st_mode) && !S_ISREG(st->st_mode))
		return true;
	if (S_ISDIR(st->st_mode))
		wanted |= S_IXOTH;
	return (st->st_mode & wanted) == wanted;
}

/* Can all reach it? */
static bool is_path_open(const char *path)
{
	char above[PATH_MAX];
	struct stat st;

	for (size_t len = path_dir_len(path); len > 1; len = path_dir_len(above)) {
		memcpy(above, path, len);
		above[len] = '\0';
		if (stat(above, &st) < 0 || !is_open_to(&st, 0))
			return false;
	}
	return true;
}

static bool are_entries_open(const char *path)
{
	CLEANUP(close_dir) DIR *dir = opendir(path);
	struct dirent *entry;
	struct stat st;
	int n = 0;

	if (!dir)
		return false;
	while ((entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (n++ == ENTRIES_MAX ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !is_open_to(&st, S_IROTH))
			return false;
	}
	return true;
}

static bool is_grant_open(const struct grant *g)
{
	struct stat st;

	if (!is_path_open(g->real) || stat(g->real, &st) < 0)
		return false;
	/* Others' files are not root's to give away by a mode; what it made is to be its own. */
	if (g->write)
		return st.st_uid == NOBODY_ID && (st.st_mode & S_IWUSR);
	if (!is_open_to(&st, S_IROTH))
		return false;
	return g->origin == GRANT_TOOL || !g->is_dir || are_entries_open(g->real);
}

void plan_choose_nobody(struct build *b)
{
	const char *program = b->program.exec_path;
	struct stat st;

	b->is_nobody = false;
	if (!b->in->may_be_nobody || !b->is_root || b->policy->user || b->in->is_self ||
	    b->in->private_dir || b->in->code || b->in->workspace ||
	    b->in->level != PLAN_LEVEL_LANDLOCK || !plan_devices_are_open(b))
		return;
	if (program &&
	    (!is_path_open(program) || stat(program, &st) < 0 || !is_open_to(&st, S_IXOTH)))
		return;
	for (size_t i = 0; i < b->n_grants; i++) {
		const struct grant *g = b->grants[i];

		if (!g->is_dropped && g->origin != GRANT_SYSTEM && !is_grant_open(g))
			return;
	}
	b->is_nobody = true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Theory of operation. What cannot be read or followed to its end is not plain. Of a repository
 * that was there before, only what git obeys is looked at, and it is left alone if none of that has
 * changed: it is the user's, who may have any settings. Whether `.git` was moved there shows in the
 * ctimes of both it and the directory around it; git that works there changes the former alone.
 */
#include "git/plain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/path.h"
#include "git/fingerprint.h"
#include "git/follow.h"
#include "git/inside.h"
#include "git/read.h"
#include "git/settings.h"

#define CONFIG_MAX ((size_t)64 << 10) /* bytes; what git itself writes is far smaller */
#define HOOKS_MAX 256

struct judge {
	const struct git_plain *how;
	int dir_fd;
	bool is_plain;
	bool is_changed; /* something that git obeys was */
	bool is_linked;	 /* the directory at hand is that of a linked work tree */
	int error;	 /* -ENOMEM */
};

static void note_time(struct judge *j, const struct stat *st)
{
	j->is_changed |= !git_is_later(&j->how->since, &st->st_ctim);
}

/* The state of @name; false = there is nothing, or nothing that says anything: another run may
 * reserve the name. */
static bool look_at(struct judge *j, int git_fd, const char *name, struct stat *st)
{
	if (fstatat(git_fd, name, st, AT_SYMLINK_NOFOLLOW) < 0) {
		j->is_plain &= errno == ENOENT;
		return false;
	}
	if (S_ISSOCK(st->st_mode) || (S_ISREG(st->st_mode) && st->st_size == 0))
		return false;
	note_time(j, st);
	return true;
}

/* core.worktree may only say what is so anyway. */
static bool is_own_work_tree(const struct judge *j, int git_fd, const char *path)
{
	struct stat here, there;

	return fstat(j->dir_fd, &here) == 0 && fstatat(git_fd, path, &there, 0) == 0 &&
	       here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

static void judge_config(struct judge *j, int git_fd, const char *name)
{
	char work_tree[PATH_MAX], *text = NULL;
	struct stat st;
	size_t len;
	int r;

	if (!look_at(j, git_fd, name, &st))
		return;
	r = S_ISREG(st.st_mode) ? git_read_file(git_fd, name, CONFIG_MAX, &text, &len) : -EINVAL;
	if (r == -ENOMEM)
		j->error = r;
	j->is_plain &= r == 0 && git_settings_are_plain(text, len, work_tree) &&
		       (!work_tree[0] || is_own_work_tree(j, git_fd, work_tree));
	free(text);
}

static bool is_sample(const char *name)
{
	size_t len = strlen(name);

	return len > 7 && strcmp(name + len - 7, ".sample") == 0;
}

static void judge_hook(struct judge *j, int hooks_fd, const char *name)
{
	struct stat st;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return;
	if (fstatat(hooks_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		j->is_plain = false;
		return;
	}
	note_time(j, &st);
	if (is_sample(name))
		return;
	j->is_plain &= S_ISREG(st.st_mode) && !(st.st_mode & 0111);
}

static void judge_hooks(struct judge *j, int dir_fd, const char *name)
{
	struct dirent *entry;
	struct stat st;
	DIR *dir;
	int fd, n = 0;

	if (!look_at(j, dir_fd, name, &st))
		return;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		j->is_plain = false;
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((errno = 0, entry = readdir(dir)) != NULL && ++n < HOOKS_MAX)
		judge_hook(j, dirfd(dir), entry->d_name);
	j->is_plain &= !entry && !errno;
	closedir(dir);
}

/* Called for what is not allowed. */
static int found_inside(void *ctx, int dir_fd, const char *name, const char *path, mode_t mode)
{
	static const char *const judged[] = { "config", "config.worktree", "commondir", "hooks" };
	struct judge *j = ctx;

	(void)dir_fd;
	(void)name;
	for (size_t i = 0; i < ARRAY_SIZE(judged); i++)
		if (strcmp(path, judged[i]) == 0)
			return 0;
	/* What is in these is judged where a `.git` file leads there. */
	if (S_ISDIR(mode) && (strcmp(path, "modules") == 0 || strcmp(path, "worktrees") == 0))
		return 0;
	/* The way back from there. */
	if (j->is_linked && S_ISREG(mode) && strcmp(path, "gitdir") == 0)
		return 0;
	j->is_plain = false;
	return 1;
}

static void judge_inside(struct judge *j, int git_fd)
{
	static const struct git_inside nothing;
	const struct git_inside_search search = {
		.before = &nothing,
		.found = found_inside,
		.ctx = j,
	};
	struct stat st;
	int r;

	/* Git writes through it. */
	if (!j->how->is_new) {
		if (fstatat(git_fd, "index", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISLNK(st.st_mode)) {
			note_time(j, &st);
			j->is_plain = false;
		}
		return;
	}
	r = git_inside_search(&search, git_fd);
	if (r == -ENOMEM)
		j->error = r;
	j->is_plain &= r == 0;
}

static bool is_in_work_tree(const struct judge *j, int fd)
{
	char top[PATH_MAX], path[PATH_MAX];

	return git_path_of(j->how->top_fd, top) == 0 && git_path_of(fd, path) == 0 &&
	       path_is_within(top, path);
}

static void judge_dir(struct judge *j, int git_fd)
{
	j->is_plain &= is_in_work_tree(j, git_fd);
	judge_config(j, git_fd, "config");
	judge_config(j, git_fd, "config.worktree");
	judge_hooks(j, git_fd, "hooks");
	if (j->is_plain || !j->is_changed)
		judge_inside(j, git_fd);
}

static void judge_common(struct judge *j, int git_fd)
{
	char *text = NULL;
	struct stat st;
	int r, fd;

	if (!look_at(j, git_fd, "commondir", &st))
		return;
	r = S_ISREG(st.st_mode) ? git_read_pointer(git_fd, "commondir", "", &text) : -EINVAL;
	if (r <= 0) {
		j->error = r == -ENOMEM ? r : j->error;
		j->is_plain = false;
		return;
	}
	j->is_linked = strcmp(text, ".") != 0;
	fd = j->is_linked ? git_open_path(git_fd, text, O_DIRECTORY, 0) : -1;
	free(text);
	if (!j->is_linked)
		return;
	if (fd < 0) {
		j->is_plain = false;
		return;
	}
	judge_dir(j, fd);
	close(fd);
}

static int judge_users(void *ctx, enum git_obeyed what, const char *path)
{
	struct judge *j = ctx;
	char work_dir[PATH_MAX];

	if (what == GIT_OBEYED_HOOKS && git_path_of(j->dir_fd, work_dir) == 0 &&
	    path_is_within(work_dir, path))
		judge_hooks(j, AT_FDCWD, path);
	return 0;
}

/* Hooks that the user's own config names by a relative path lie in each work tree. */
static void judge_users_hooks(struct judge *j)
{
	const struct git_user user = { .home = j->how->home, .variable = getenv };
	char work_dir[PATH_MAX];
	const struct git_follow follow = {
		.user = &user,
		.work_dir = work_dir,
		.found = judge_users,
		.ctx = j,
	};

	if (!user.home || git_path_of(j->dir_fd, work_dir) < 0)
		return;
	if (git_follow(&follow, NULL) == -ENOMEM)
		j->error = -ENOMEM;
}

/* Where `.git`, which is a link or a file, leads; -1 = nowhere from here. */
static int follow(struct judge *j, const struct stat *st, bool *says_nothing)
{
	char *text = NULL;
	int r, fd;

	note_time(j, st);
	if (S_ISLNK(st->st_mode)) {
		j->is_plain = false;
		fd = git_open_path(j->dir_fd, ".git", O_DIRECTORY, 0);
		return fd < 0 ? -1 : fd;
	}
	r = git_read_pointer(j->dir_fd, ".git", "gitdir: ", &text);
	if (r <= 0) {
		*says_nothing = r == 0;
		j->error = r == -ENOMEM ? r : 0;
		j->is_plain = false;
		return -1;
	}
	fd = git_open_path(j->dir_fd, text, O_DIRECTORY, 0);
	free(text);
	j->is_plain &= fd >= 0;
	return fd < 0 ? -1 : fd;
}

/* `.git` is a directory: was it perhaps moved there? */
static void note_move(struct judge *j, const struct stat *dot_git)
{
	struct stat st;

	if (git_is_later(&j->how->since, &dot_git->st_ctim))
		return;
	if (fstat(j->dir_fd, &st) < 0 || !git_is_later(&j->how->since, &st.st_ctim))
		j->is_changed = true;
}

int git_plain_judge(const struct git_plain *how, int dir_fd, int *ret_git_fd)
{
	struct judge j = { .how = how, .dir_fd = dir_fd, .is_plain = true };
	bool says_nothing = false;
	struct stat st;
	int fd;

	*ret_git_fd = -1;
	if (fstatat(dir_fd, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return GIT_VERDICT_NONE;
	if (S_ISDIR(st.st_mode)) {
		note_move(&j, &st);
		fd = git_open_path(dir_fd, ".git", O_DIRECTORY | O_NOFOLLOW, 0);
		j.is_plain &= fd >= 0;
	} else if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) {
		fd = follow(&j, &st, &says_nothing);
	} else {
		return GIT_VERDICT_NONE; /* git waits for a pipe, which is found by its name */
	}
	if (fd >= 0) {
		judge_common(&j, fd);
		judge_dir(&j, fd);
		judge_users_hooks(&j);
	}
	if (j.error || says_nothing) {
		if (fd >= 0)
			close(fd);
		return j.error ? j.error : GIT_VERDICT_NONE;
	}
	*ret_git_fd = fd;
	return j.is_plain || !(how->is_new || j.is_changed) ? GIT_VERDICT_PLAIN
							    : GIT_VERDICT_HOSTILE;
}

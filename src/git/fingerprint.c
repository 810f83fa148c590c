/* SPDX-License-Identifier: Apache-2.0 */
#include "git/fingerprint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "git/follow.h"
#include "git/read.h"

#define HOOKS_MAX 256 /* names in a directory of hooks */

/* One file, as far as its change shows. */
struct record {
	uint64_t dev, ino;
	uint64_t seconds, nanoseconds, size;
	uint32_t mode, unused;
};

bool git_is_later(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

/* Without times: a directory in which git works changes all the time. */
static void add_object(struct git_fingerprint *fp, const struct stat *st)
{
	const struct record rec = { .dev = st->st_dev,
				    .ino = st->st_ino,
				    .mode = st->st_mode & S_IFMT };

	if (git_is_later(&st->st_ctim, &fp->newest))
		fp->newest = st->st_ctim;
	strbuf_add(&fp->files, &rec, sizeof(rec));
}

static void add_state(struct git_fingerprint *fp, const struct stat *st, struct git_effort *effort)
{
	const struct record rec = {
		.dev = st->st_dev,
		.ino = st->st_ino,
		.seconds = (uint64_t)st->st_ctim.tv_sec,
		.nanoseconds = (uint64_t)st->st_ctim.tv_nsec,
		.size = (uint64_t)st->st_size,
		.mode = st->st_mode,
	};

	if (git_is_later(&st->st_ctim, &effort->newest))
		effort->newest = st->st_ctim;
	if (git_is_later(&st->st_ctim, &fp->newest))
		fp->newest = st->st_ctim;
	strbuf_add(&fp->files, &rec, sizeof(rec));
}

int git_count_step(struct git_effort *effort)
{
	return ++effort->steps > GIT_STEPS_MAX ? -E2BIG : 0;
}

/*
 * What another run may have put there to keep the name from being made, and anything else that says
 * no more than a missing file: something empty, a socket, a commondir that names its own directory.
 */
static bool says_nothing(int dir_fd, const char *name, const struct stat *st)
{
	char *text = NULL;
	bool ret;

	if (S_ISSOCK(st->st_mode) || (S_ISREG(st->st_mode) && st->st_size == 0))
		return true;
	if (strcmp(name, "commondir") != 0 || !S_ISREG(st->st_mode) || st->st_size != 2 ||
	    git_read_pointer(dir_fd, name, "", &text) <= 0)
		return false;
	ret = strcmp(text, ".") == 0;
	free(text);
	return ret;
}

/* A name and, if it is a link, what it leads to. */
static int add_name(struct git_fingerprint *fp, int dir_fd, const char *name,
		    struct git_effort *effort)
{
	static const struct record missing;
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    says_nothing(dir_fd, name, &st)) {
		strbuf_add(&fp->files, &missing, sizeof(missing));
		return git_count_step(effort);
	}
	add_state(fp, &st, effort);
	if (S_ISLNK(st.st_mode) && fstatat(dir_fd, name, &st, 0) == 0)
		add_state(fp, &st, effort);
	return git_count_step(effort);
}

/* A hook can be changed without its directory changing. */
static int add_hooks(struct git_fingerprint *fp, int dir_fd, const char *name,
		     struct git_effort *effort)
{
	int r = add_name(fp, dir_fd, name, effort), fd, n = 0;
	struct dirent *entry;
	DIR *dir;

	if (r < 0)
		return r;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -errno;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		r = ++n > HOOKS_MAX ? -E2BIG : add_name(fp, fd, entry->d_name, effort);
	}
	closedir(dir);
	return r;
}

static int add_config(struct git_fingerprint *fp, int git_fd, struct git_effort *effort)
{
	static const char *const names[] = { "config", "config.worktree", "commondir" };
	struct stat st;
	int r = 0;

	if (fstat(git_fd, &st) < 0)
		return -errno;
	add_object(fp, &st);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++)
		r = add_name(fp, git_fd, names[i], effort);
	return r == 0 ? add_hooks(fp, git_fd, "hooks", effort) : r;
}

/*
 * `.git` in @dir_fd: a directory, a link to one, or a file that names one. -ENOENT if it is
 * something else. What leads nowhere from here may lead somewhere for git (/proc/self/cwd):
 * -EINVAL.
 */
static int open_repository(int dir_fd, const struct stat *dot_git)
{
	struct stat st = *dot_git;
	char *text = NULL;
	int fd, r;

	if (S_ISLNK(st.st_mode) && fstatat(dir_fd, ".git", &st, 0) < 0)
		return -EINVAL;
	if (S_ISDIR(st.st_mode)) {
		fd = git_open_path(dir_fd, ".git", O_DIRECTORY, 0);
		return fd < 0 ? -EINVAL : fd;
	}
	if (!S_ISREG(st.st_mode))
		return -ENOENT;
	r = git_read_pointer(dir_fd, ".git", "gitdir: ", &text);
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	fd = git_open_path(dir_fd, text, O_DIRECTORY, 0);
	free(text);
	return fd < 0 ? -EINVAL : fd;
}

static int add_common(struct git_fingerprint *fp, int git_fd, struct git_effort *effort)
{
	char *text = NULL;
	int r = git_read_pointer(git_fd, "commondir", "", &text), fd;

	if (r <= 0)
		return r;
	fd = git_open_path(git_fd, text, O_DIRECTORY, 0);
	free(text);
	if (fd < 0)
		return 0; /* git gives up there, too */
	r = add_config(fp, fd, effort);
	close(fd);
	return r;
}

struct followed {
	struct git_fingerprint *fp;
	struct git_effort *effort;
	const char *work_dir;
};

static int add_followed(void *ctx, enum git_obeyed what, const char *path)
{
	const struct followed *f = ctx;

	if (what == GIT_OBEYED_INCLUDE)
		return add_name(f->fp, AT_FDCWD, path, f->effort);
	return what == GIT_OBEYED_HOOKS ? add_hooks(f->fp, AT_FDCWD, path, f->effort) : 0;
}

/*
 * Hooks that the user's own config names by a relative path lie in each work tree. Other files that
 * it names are not the nested repository's, and the plan protects them.
 */
static int add_of_user(void *ctx, enum git_obeyed what, const char *path)
{
	const struct followed *f = ctx;
	struct stat st;

	if (what != GIT_OBEYED_HOOKS || !path_is_within(f->work_dir, path) || lstat(path, &st) < 0)
		return 0;
	return add_hooks(f->fp, AT_FDCWD, path, f->effort);
}

/*
 * What the configs include and name. A directory that is too deep for a path, or a config that
 * cannot be read to its end, is followed as far as possible: the rest is compared all the same,
 * while a repository that "cannot be told" would not be.
 */
static int add_named(struct git_fingerprint *fp, int dir_fd, const char *home,
		     struct git_effort *effort)
{
	const struct git_user user = { .home = home, .variable = getenv };
	char git_dir[PATH_MAX], work_dir[PATH_MAX];
	struct followed followed = { fp, effort, work_dir };
	struct git_follow follow = {
		.work_dir = work_dir,
		.found = add_followed,
		.ctx = &followed,
	};

	fp->own_len = fp->files.len;
	if (git_path_of(fp->git_fd, git_dir) < 0 || git_path_of(dir_fd, work_dir) < 0)
		return 0;
	if (git_follow(&follow, git_dir) == -ENOMEM)
		return -ENOMEM;
	follow.user = &user;
	follow.found = add_of_user;
	return home && git_follow(&follow, NULL) == -ENOMEM ? -ENOMEM : 0;
}

int git_fingerprint_take(int dir_fd, const char *home, struct git_fingerprint *ret,
			 struct git_effort *effort)
{
	struct git_fingerprint fp = GIT_FINGERPRINT_INIT;
	struct stat st;
	int r;

	if (fstatat(dir_fd, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	fp.git_fd = open_repository(dir_fd, &st);
	if (fp.git_fd < 0)
		return fp.git_fd == -ENOENT ? 0 : fp.git_fd;
	if (S_ISDIR(st.st_mode))
		add_object(&fp, &st);
	else
		add_state(&fp, &st, effort);
	r = add_config(&fp, fp.git_fd, effort);
	if (r == 0)
		r = add_common(&fp, fp.git_fd, effort);
	if (r == 0)
		r = add_named(&fp, dir_fd, home, effort);
	if (r == 0 && fp.files.failed)
		r = -ENOMEM;
	if (r < 0) {
		git_fingerprint_done(&fp);
		return r;
	}
	*ret = fp;
	return 1;
}

void git_fingerprint_done(struct git_fingerprint *fp)
{
	if (fp->git_fd >= 0)
		close(fp->git_fd);
	fp->git_fd = -1;
	strbuf_done(&fp->files);
}

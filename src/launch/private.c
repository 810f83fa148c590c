/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DIR, given by the caller:
 *
 *	tmp/, home/	what runs see as /tmp and home; they own what is in them
 *	held		the last known usage of both, for limits.disk
 *
 * Only the caller can write to DIR, and no run can reach it, so its three names are what we made
 * them. Everything below tmp and home was made by runs; only runs open it, and tree_remove()
 * removes it. A run that begins while another one makes these directories sees them complete or
 * not at all.
 */
#include "launch/private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/path.h"
#include "base/way.h"
#include "launch/launch.h"
#include "plan/plan_read.h"
#include "sys/calls.h"
#include "workspace/tree/tree.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define USAGE_MAX 96
#define HEX "0123456789abcdef"
#define TEMP_LEN 17

/* The directory by path, name and open parent. */
struct dir_at {
	char path[PATH_MAX];
	const char *name; /* last component, in @path */
	int parent_fd;
};

static int find_dir(const char *typed, struct dir_at *ret, struct cordon_error *err)
{
	struct way way;
	int r;

	ret->parent_fd = -1;
	if (typed[0] != '/') {
		r = cordon_err(err, CORDON_E_USAGE, 0,
			       "the private directory '%s' is not an absolute path", typed);
		cordon_err_hint(err, "begin it with '/'");
		return r;
	}
	r = path_normalise(NULL, typed, ret->path, sizeof(ret->path));
	if (r < 0)
		return cordon_err(err, CORDON_E_PATH, -r, "the private directory '%s'", typed);
	if (strcmp(ret->path, "/") == 0)
		return cordon_err(err, CORDON_E_PATH, 0, "'/' cannot be a private directory");
	ret->name = strrchr(ret->path, '/') + 1;
	r = way_open(ret->path, path_dir_len(ret->path), &way);
	ret->parent_fd = way.fd;
	if (r == 0)
		return 0;
	if (way.refused[0])
		return way_error(&way, "the private directory ", typed, -r, err);
	r = cordon_err(err, CORDON_E_PATH, -r, "cannot make the private directory '%s'", typed);
	cordon_err_hint(err, "the directory above it has to exist");
	return r;
}

/* 0 with *ret_fd = -1: it does not exist, and @make is false. */
static int open_dir(const struct dir_at *at, bool make, int *ret_fd, struct cordon_error *err)
{
	int fd, r;

	if (make && mkdirat(at->parent_fd, at->name, 0700) < 0 && errno != EEXIST)
		return cordon_err(err, CORDON_E_PATH, errno,
				  "cannot make the private directory '%s'", at->path);
	fd = openat(at->parent_fd, at->name, DIR_FLAGS);
	*ret_fd = fd;
	if (fd >= 0 || (errno == ENOENT && !make))
		return 0;
	r = cordon_err(err, CORDON_E_PATH, errno, "cannot use '%s' as a private directory",
		       at->path);
	if (errno == ENOTDIR || errno == ELOOP)
		cordon_err_hint(err, "it has to be a directory itself, not a link or a file");
	return r;
}

static int check_dir(const struct dir_at *at, int fd, mode_t *ret_mode, struct cordon_error *err)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return cordon_err(err, CORDON_E_PATH, errno, "the private directory '%s'",
				  at->path);
	*ret_mode = st.st_mode;
	if (st.st_uid != geteuid()) {
		r = cordon_err(err, CORDON_E_PATH, 0,
			       "the private directory '%s' belongs to user %u, not to you",
			       at->path, (unsigned)st.st_uid);
		cordon_err_hint(
			err, "use a directory that belongs to you, or one that does not exist yet");
		return r;
	}
	if (st.st_mode & (S_IWGRP | S_IWOTH)) {
		r = cordon_err(err, CORDON_E_PATH, 0,
			       "others can write to the private directory '%s'", at->path);
		cordon_err_hint(err, "chmod 700 '%s'", at->path);
		return r;
	}
	return 0;
}

static bool is_our_name(const char *name)
{
	/* A run was killed in make_part(). */
	if (name[0] == '.' && strlen(name) == TEMP_LEN && strspn(name + 1, HEX) == TEMP_LEN - 1)
		return true;
	return strcmp(name, "tmp") == 0 || strcmp(name, "home") == 0 ||
	       strcmp(name, PRIVATE_USAGE_FILE) == 0 || strcmp(name, ".") == 0 ||
	       strcmp(name, "..") == 0;
}

static bool is_plain_file(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/*
 * A mistyped path must not hand a user's own tmp to a command, or remove it: many directories have
 * a tmp. @files_too: refuse plain files as well. Otherwise they may be there, since callers keep
 * notes about the directory in it.
 */
static int check_names(const struct dir_at *at, int dir_fd, bool files_too,
		       struct cordon_error *err)
{
	int r = 0, fd = openat(dir_fd, ".", DIR_FLAGS);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		r = cordon_err(err, CORDON_E_PATH, errno, "the private directory '%s'", at->path);
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		if (is_our_name(entry->d_name) ||
		    (!files_too && is_plain_file(dir_fd, entry->d_name)))
			continue;
		r = cordon_err(err, CORDON_E_PATH, 0, "'%s' is not a private directory", at->path);
		cordon_err_hint(err, "there is something else in it%s",
				files_too ? "; nothing was removed"
					  : ": name one that is empty or does not exist");
	}
	closedir(dir);
	return r;
}

/* Under a temporary name until it is complete. */
static int make_part(int dir_fd, const char *name, mode_t mode, uid_t uid, gid_t gid)
{
	char temp[32];
	uint64_t number;
	int r = 0;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EIO;
	snprintf(temp, sizeof(temp), ".%016" PRIx64, number);
	if (mkdirat(dir_fd, temp, 0700) < 0)
		return -errno;
	if ((uid != geteuid() && fchownat(dir_fd, temp, uid, gid, AT_SYMLINK_NOFOLLOW) < 0) ||
	    fchmodat(dir_fd, temp, mode, 0) < 0)
		r = -errno;
	if (r == 0)
		r = sys_renameat2(dir_fd, temp, name, RENAME_NOREPLACE);
	/* A filesystem without that flag. */
	if (r == -EINVAL)
		r = sys_renameat2(dir_fd, temp, name, 0);
	if (r < 0)
		(void)unlinkat(dir_fd, temp, AT_REMOVEDIR);
	/* Another run was faster. */
	return r == -ENOTEMPTY || r == -EEXIST ? 0 : r;
}

struct owner {
	uint32_t uid, gid;
};

static int refuse_part(const char *path, const struct stat *st, const struct owner *owner,
		       struct cordon_error *err)
{
	int r;

	if (!S_ISDIR(st->st_mode))
		r = cordon_err(err, CORDON_E_PATH, 0,
			       "'%s' in the private directory is not a directory", path);
	else
		r = cordon_err(err, CORDON_E_PATH, 0,
			       "'%s' belongs to user %u, but the run is user %u", path,
			       (unsigned)st->st_uid, (unsigned)owner->uid);
	cordon_err_hint(err, "another private directory is needed for this run");
	return r;
}

/* Opens tmp or home. @mode: of a new one, and restored if a run has changed it. */
static int open_part(const struct run_private *p, const char *name, mode_t mode,
		     const struct owner *owner, bool make, struct plan_private_dir *ret,
		     struct cordon_error *err)
{
	const int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
	struct stat st;
	int r = 0, fd = openat(p->dir_fd, name, flags);

	if (fd < 0 && errno == ENOENT && !make)
		return 0;
	if (fd < 0 && errno == ENOENT) {
		r = make_part(p->dir_fd, name, mode, owner->uid, owner->gid);
		fd = r < 0 ? -1 : openat(p->dir_fd, name, flags);
	}
	if (fd < 0 || fstat(fd, &st) < 0) {
		r = cordon_err(err, CORDON_E_PATH, r < 0 ? -r : errno,
			       "cannot prepare '%s' in the private directory", ret->path);
		if (fd >= 0)
			close(fd);
		return r;
	}
	if (!S_ISDIR(st.st_mode) || st.st_uid != owner->uid) {
		close(fd);
		return refuse_part(ret->path, &st, owner, err);
	}
	if (make && (st.st_mode & 07777) != mode && fchmodat(p->dir_fd, name, mode, 0) < 0) {
		r = cordon_err(err, CORDON_E_PATH, errno, "cannot restore the mode of '%s'",
			       ret->path);
		close(fd);
		return r;
	}
	ret->fd = fd;
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	return 0;
}

/* Without links: init follows none. */
static const char *real_path(struct arena *arena, const struct dir_at *at)
{
	char link[64], real[PATH_MAX];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", at->parent_fd);
	len = readlink(link, real, sizeof(real) - 1);
	if (len <= 0 || real[0] != '/')
		return NULL;
	real[len] = '\0';
	return arena_printf(arena, "%s/%s", len == 1 ? "" : real, at->name);
}

/* A malformed file means that the usage is unknown. */
static void read_usage(struct run_private *p)
{
	uint64_t *const numbers[] = { &p->usage_bytes, &p->usage_inodes, &p->seen_bytes,
				      &p->seen_inodes };
	char text[USAGE_MAX + 1], *at = text;
	int fd = openat(p->dir_fd, PRIVATE_USAGE_FILE,
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, USAGE_MAX);
	size_t i = 0;

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	p->seen_bytes = p->seen_inodes = 0;
	while (i < ARRAY_SIZE(numbers) && *at >= '0' && *at <= '9') {
		*numbers[i++] = strtoull(at, &at, 10);
		at += *at == ' ';
	}
	if ((i != 2 && i != 4) || *at != '\n' || p->usage_inodes == CONTROL_UNKNOWN) {
		p->usage_bytes = p->usage_inodes = CONTROL_UNKNOWN;
		p->seen_bytes = p->seen_inodes = 0;
	}
}

/* The last run left directories that the next cannot enter. We can. */
static void look_into_locked(struct run_private *p)
{
	struct tree_usage tmp, home;

	if (p->seen_inodes == 0 || tree_closed_usage(p->plan.tmp.fd, &tmp) < 0 ||
	    tree_closed_usage(p->plan.home.fd, &home) < 0)
		return;
	p->locked_bytes = tmp.bytes + home.bytes;
	p->locked_inodes = tmp.inodes + home.inodes;
	p->usage_bytes = p->seen_bytes + p->locked_bytes;
	p->usage_inodes = p->seen_inodes + p->locked_inodes;
}

static int open_all(const struct plan_input *in, bool make, struct arena *arena,
		    struct run_private *ret, struct cordon_error *err)
{
	struct owner owner;
	mode_t mode = 0700;
	struct dir_at at = { .name = "", .parent_fd = -1 };
	int r = plan_outer_ids(in, &owner.uid, &owner.gid, err);

	if (r == 0)
		r = find_dir(in->options->private_dir, &at, err);
	if (r < 0)
		return r;
	r = open_dir(&at, make, &ret->dir_fd, err);
	if (r == 0 && ret->dir_fd >= 0)
		r = check_dir(&at, ret->dir_fd, &mode, err);
	if (r == 0 && ret->dir_fd >= 0)
		r = check_names(&at, ret->dir_fd, false, err);
	if (r == 0) {
		const char *dir = real_path(arena, &at);

		ret->plan.dir = dir;
		ret->plan.tmp.path = dir ? arena_printf(arena, "%s/tmp", dir) : NULL;
		ret->plan.home.path = dir ? arena_printf(arena, "%s/home", dir) : NULL;
		if (!ret->plan.tmp.path || !ret->plan.home.path)
			r = cordon_err(err, CORDON_E_PATH, ENAMETOOLONG,
				       "the private directory '%s'", at.path);
	}
	/* Mode 01777 inside, like any /tmp; but 01700 if other users can enter DIR. */
	if (r == 0 && ret->dir_fd >= 0)
		r = open_part(ret, "tmp", mode & 077 ? 01700 : 01777, &owner, make, &ret->plan.tmp,
			      err);
	if (r == 0 && ret->dir_fd >= 0)
		r = open_part(ret, "home", 0700, &owner, make, &ret->plan.home, err);
	close(at.parent_fd);
	return r;
}

static int check_level(const struct plan_input *in, struct cordon_error *err)
{
	int r;

	if (in->level != PLAN_LEVEL_LANDLOCK || in->machine->uid != 0 || !in->policy->user)
		return 0;
	r = cordon_err(err, CORDON_E_UNSUPPORTED, 0,
		       "level landlock cannot show root's private directory to another user "
		       "(--user)");
	cordon_err_hint(err, "start it as that user");
	return r;
}

int private_begin(struct cordon_run *run, const struct cordon_policy *policy, int level,
		  struct cordon_error *err)
{
	const struct plan_input in = {
		.policy = policy,
		.options = &run->options,
		.level = level,
		.machine = &run->launcher->machine,
	};
	int r;

	if (!run->options.private_dir)
		return 0;
	/* A second try at another level may need another owner. */
	private_close(&run->private_dir);
	r = check_level(&in, err);
	if (r == 0)
		r = open_all(&in, true, &run->arena, &run->private_dir, err);
	if (r < 0) {
		private_close(&run->private_dir);
		return r;
	}
	read_usage(&run->private_dir);
	look_into_locked(&run->private_dir);
	return 0;
}

int private_pretend(struct plan_input *input, struct arena *arena, struct run_private *ret,
		    struct cordon_error *err)
{
	int r = check_level(input, err);

	if (r == 0)
		r = open_all(input, false, arena, ret, err);
	if (r == 0)
		input->private_dir = &ret->plan;
	return r;
}

const struct plan_private *private_plan(const struct run_private *p)
{
	return p->dir_fd >= 0 ? &p->plan : NULL;
}

void private_usage(const struct cordon_run *run, struct control_limits *ret)
{
	const struct run_private *p = &run->private_dir;
	bool is_known = ret->usage_bytes != CONTROL_UNKNOWN && p->usage_bytes != CONTROL_UNKNOWN;

	if (p->dir_fd < 0)
		return;
	ret->usage_bytes = is_known ? ret->usage_bytes + p->usage_bytes : CONTROL_UNKNOWN;
	ret->usage_inodes = is_known ? ret->usage_inodes + p->usage_inodes : CONTROL_UNKNOWN;
	ret->locked_bytes += p->locked_bytes;
	ret->locked_inodes += p->locked_inodes;
}

/* Init counted both: neither home nor /tmp was a grant. */
static bool is_counted(const struct plan *plan)
{
	const struct plan_header *h = plan->block;
	const struct plan_op *ops = plan_ops(h);
	unsigned n = 0;

	for (uint32_t i = 0; i < h->n_ops; i++)
		n += !!(ops[i].flags & PLAN_PRIVATE_DIR);
	return n == 2;
}

/* The next run cannot count what lies in directories that it may not enter. */
static void write_usage(struct run_private *p, const struct control_report *rep)
{
	const struct run_private now = {
		.usage_bytes = rep->private_bytes + rep->unnamed_bytes,
		.usage_inodes = rep->private_inodes + rep->unnamed_inodes,
		.seen_bytes = rep->hits & CONTROL_HIT_LOCKED ? rep->private_bytes : 0,
		.seen_inodes = rep->hits & CONTROL_HIT_LOCKED ? rep->private_inodes : 0,
	};
	char text[USAGE_MAX];
	int n, fd;

	if (now.usage_bytes == p->usage_bytes && now.usage_inodes == p->usage_inodes &&
	    now.seen_bytes == p->seen_bytes && now.seen_inodes == p->seen_inodes)
		return;
	n = snprintf(text, sizeof(text), "%" PRIu64 " %" PRIu64, now.usage_bytes, now.usage_inodes);
	if (now.seen_inodes)
		n += snprintf(text + n, sizeof(text) - (size_t)n, " %" PRIu64 " %" PRIu64,
			      now.seen_bytes, now.seen_inodes);
	fd = openat(p->dir_fd, PRIVATE_USAGE_FILE,
		    O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	/* One write of fixed size: a reader sees the old text or the new. */
	memset(text + n, '\n', sizeof(text) - (size_t)n);
	if (pwrite(fd, text, sizeof(text), 0) != (ssize_t)sizeof(text))
		(void)unlinkat(p->dir_fd, PRIVATE_USAGE_FILE, 0);
	close(fd);
}

void private_end(struct cordon_run *run)
{
	const struct control_report *rep = &run->report;

	if (run->private_dir.dir_fd < 0)
		return;
	if (rep->type == CONTROL_ENDED && rep->usage_bytes != CONTROL_UNKNOWN && run->plan &&
	    is_counted(run->plan))
		write_usage(&run->private_dir, rep);
	private_close(&run->private_dir);
}

void private_close(struct run_private *p)
{
	int *const fds[] = { &p->plan.tmp.fd, &p->plan.home.fd, &p->dir_fd };

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (*fds[i] >= 0)
			close(TAKE_FD(*fds[i]));
}

int private_open_dir(const char *path, int *ret_fd, struct cordon_error *err)
{
	struct dir_at at;
	mode_t mode;
	int fd = -1, r = find_dir(path, &at, err);

	if (r < 0 || at.parent_fd < 0)
		return r;
	r = open_dir(&at, false, &fd, err);
	close(at.parent_fd);
	if (r == 0 && fd < 0)
		r = cordon_err(err, CORDON_E_PATH, ENOENT, "the private directory '%s'", path);
	if (r == 0)
		r = check_dir(&at, fd, &mode, err);
	if (r < 0 && fd >= 0)
		close(fd);
	if (r == 0)
		*ret_fd = fd;
	return r;
}

static int remove_checked(const struct dir_at *at, int fd, struct cordon_error *err)
{
	mode_t mode;
	int r = check_dir(at, fd, &mode, err);

	if (r == 0)
		r = check_names(at, fd, true, err);
	if (r < 0)
		return r;
	r = tree_remove(at->parent_fd, at->name);
	if (r < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -r,
				  "cannot remove all of the private directory '%s'", at->path);
	return 0;
}

int cordon_private_remove(const char *dir, struct cordon_error *err)
{
	struct dir_at at = { .name = "", .parent_fd = -1 };
	int r, fd = -1;

	if (!dir)
		return cordon_err(err, CORDON_E_USAGE, 0, "there is no directory to remove");
	r = find_dir(dir, &at, err);
	if (r < 0)
		return r;
	r = open_dir(&at, false, &fd, err);
	if (r == 0 && fd >= 0)
		r = remove_checked(&at, fd, err);
	if (fd >= 0)
		close(fd);
	close(at.parent_fd);
	return r;
}

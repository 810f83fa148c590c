/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The private directories that the Python package keeps (bindings/python/pycordon/_store.py), all
 *in one directory of the user's own:
 *
 *	sID	one sandbox: tmp, home and held (private.c), lock, which each of its users holds
 *		shared, and meta.json, which says whether it was meant to be kept
 *	.sID…	one that is being removed
 *	.c…	the code of a single run, with a lock as well
 *
 * Should: remove nothing that is in use or may be in the making. Mustn't: follow a link, or walk
 * into what guests made other than by the functions for that.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cordon/run.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json_read.h"
#include "base/macros.h"
#include "workspace/store/store.h"
#include "workspace/tree/cursor.h"
#include "workspace/tree/tree.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define HEX "0123456789abcdef"
#define ID_LEN 9 /* s and eight digits */
#define META_MAX 65536
#define YOUNG_S 60 /* it may be in the making */
#define WHY_LEFT "left by a program that was killed"
#define WHY_UNUSED "kept, and not used for so long"

/* One directory of sandboxes. */
struct place {
	int fd;
	char path[PATH_MAX];
};

struct kept {
	struct cordon_private_info info;
	char path[PATH_MAX];
	int fd, lock_fd; /* -1 = none */
	bool is_young;
};

struct gc {
	int64_t older_than_s;
	bool is_dry;
	void (*told)(void *arg, const struct cordon_private_info *info, const char *why);
	void *arg;
	uint64_t n;
	int first; /* error, or 0 */
	struct cordon_error *err;
};

static bool is_ours(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* Opens @top/@below/sandboxes, of which the last two must be ours: 1, or 0 if there is none. @top
 * may lead over links, as for everybody. */
static int open_place(const char *top, const char *below, struct place *ret)
{
	char link[64];
	int top_fd = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC), parent_fd, fd = -1;
	ssize_t n = -1;

	parent_fd = top_fd < 0 ? -1 : openat(top_fd, below, DIR_FLAGS);
	if (parent_fd >= 0 && is_ours(parent_fd))
		fd = openat(parent_fd, "sandboxes", DIR_FLAGS);
	if (top_fd >= 0)
		close(top_fd);
	if (parent_fd >= 0)
		close(parent_fd);
	if (fd < 0)
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (is_ours(fd))
		n = readlink(link, ret->path, sizeof(ret->path) - 1);
	if (n <= 0 || ret->path[0] != '/') {
		close(fd);
		return 0;
	}
	ret->path[n] = '\0';
	ret->fd = fd;
	return 1;
}

/* The first is where sandboxes usually lie, the second for who has no home. */
static int open_places(struct place ret[2])
{
	char state[PATH_MAX], name[32], *last;
	const char *tmp = getenv("TMPDIR");
	int n = 0;

	/* Without a home there is only the second. */
	if (ws_state_path(NULL, state, sizeof(state), NULL) == 0) {
		last = strrchr(state, '/');
		*last = '\0';
		n += open_place(state[0] ? state : "/", last + 1, &ret[n]);
	}
	snprintf(name, sizeof(name), "cordon-%u", (unsigned)geteuid());
	n += open_place(tmp && tmp[0] == '/' ? tmp : "/tmp", name, &ret[n]);
	return n;
}

static bool is_id(const char *name)
{
	return name[0] == 's' && strlen(name) == ID_LEN && strspn(name + 1, HEX) == ID_LEN - 1;
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* What no guest can set: the time of change of what belongs to it, the others of the rest. */
static void read_times(struct kept *k)
{
	static const char *const names[] = { "meta.json", "lock", "held", "tmp", "home" };
	struct stat st;

	if (fstat(k->fd, &st) < 0)
		return;
	k->is_young = time(NULL) - st.st_mtim.tv_sec < YOUNG_S;
	k->info.created_s = k->info.used_s = st.st_mtim.tv_sec;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (fstatat(k->fd, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		k->info.used_s = later(k->info.used_s,
				       S_ISDIR(st.st_mode) ? st.st_ctim.tv_sec : st.st_mtim.tv_sec);
		if (i == 0)
			k->info.created_s = st.st_mtim.tv_sec;
	}
}

/* One that is damaged, or was never written, is of no use to anybody. */
static bool was_kept(int dir_fd)
{
	struct arena arena = ARENA_INIT;
	const struct json_value *doc = NULL, *keep = NULL;
	int fd = openat(dir_fd, "meta.json", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char *text = fd < 0 ? NULL : malloc(META_MAX);
	ssize_t n = text ? read_full(fd, text, META_MAX) : -1;

	if (fd >= 0)
		close(fd);
	if (n > 0 && n < META_MAX &&
	    json_read(text, (size_t)n, "meta.json", &arena, &doc, NULL) == 0 &&
	    doc->type == JSON_OBJECT)
		keep = json_get(doc, "keep");
	n = keep && keep->type == JSON_TRUE;
	arena_done(&arena);
	free(text);
	return n;
}

static void kept_close(struct kept *k)
{
	if (k->lock_fd >= 0)
		close(k->lock_fd);
	if (k->fd >= 0)
		close(k->fd);
	k->fd = k->lock_fd = -1;
}

/* Opens one; as long as it is open and not in use, nobody else can begin to use it. 0: it is gone,
 * or not ours. */
static int kept_open(const struct place *p, const char *name, struct kept *ret)
{
	*ret = (struct kept){ .fd = openat(p->fd, name, DIR_FLAGS), .lock_fd = -1 };
	if (ret->fd < 0)
		return 0;
	if (!is_ours(ret->fd) || (size_t)snprintf(ret->path, sizeof(ret->path), "%s/%s", p->path,
						  name) >= sizeof(ret->path)) {
		kept_close(ret);
		return 0;
	}
	ret->info.id = ret->path + strlen(p->path) + 1;
	ret->info.dir = ret->path;
	read_times(ret);
	/* Its maker locks it first, without waiting: our lock must not be in his way. */
	if (ret->is_young && faccessat(ret->fd, "meta.json", F_OK, 0) < 0) {
		ret->info.in_use = true;
		return 1;
	}
	ret->lock_fd = openat(ret->fd, "lock", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (ret->lock_fd >= 0)
		ret->info.in_use = flock(ret->lock_fd, LOCK_EX | LOCK_NB) < 0;
	else
		ret->info.in_use = errno != ENOENT || ret->is_young;
	ret->info.is_kept = was_kept(ret->fd);
	return 1;
}

static void add_usage(struct kept *k, const char *part)
{
	int fd = openat(k->fd, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct tree_usage usage = { 0, 0 };
	bool is_partial = false;

	if (fd < 0)
		return;
	if (tree_usage(fd, &usage, &is_partial) < 0)
		is_partial = true;
	close(fd);
	k->info.bytes += usage.bytes;
	k->info.files += usage.inodes;
	k->info.is_partial |= is_partial;
}

static void read_usage(struct kept *k)
{
	add_usage(k, "tmp");
	add_usage(k, "home");
}

int cordon_private_list(int (*call)(void *arg, const struct cordon_private_info *info), void *arg,
			struct cordon_error *err)
{
	struct place places[2];
	int n = open_places(places), r = 0;

	for (int i = 0; i < n; i++) {
		struct names names = { 0 };

		if (r == 0)
			r = names_read(places[i].fd, &names);
		for (size_t j = 0; r == 0 && j < names.n; j++) {
			struct kept k;

			if (!is_id(names.v[j]) || !kept_open(&places[i], names.v[j], &k))
				continue;
			/* Not for as long as the tree is looked at. */
			if (k.lock_fd >= 0)
				close(TAKE_FD(k.lock_fd));
			read_usage(&k);
			r = call(arg, &k.info) ? 1 : 0;
			kept_close(&k);
		}
		names_done(&names);
		close(places[i].fd);
	}
	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "cannot list the private directories")
		     : 0;
}

/* --- removing --------------------------------------------------------------------------------- */

/* What is ours goes first: the rest is a private directory like any other. */
static int finish(const struct place *p, const char *name, struct cordon_error *err)
{
	char path[PATH_MAX];
	int fd = openat(p->fd, name, DIR_FLAGS);

	if (fd < 0)
		return errno == ENOENT ? 0
				       : cordon_err(err, CORDON_E_PATH, errno,
						    "cannot open '%s/%s'", p->path, name);
	(void)unlinkat(fd, "meta.json", 0);
	(void)unlinkat(fd, "lock", 0);
	close(fd);
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", p->path, name) >= sizeof(path))
		return cordon_err(err, CORDON_E_PATH, ENAMETOOLONG, "the directory of sandboxes");
	return cordon_private_remove(path, err);
}

/* Under another name, so that nobody finds it any more and the next one knows it for half removed.
 */
static int remove_kept(const struct place *p, const char *name, struct cordon_error *err)
{
	char gone[ID_LEN + 16];
	uint32_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return cordon_err(err, CORDON_E_SYSTEM, EIO, "no random numbers");
	snprintf(gone, sizeof(gone), ".%s%08" PRIx32, name, number);
	if (renameat(p->fd, name, p->fd, gone) < 0)
		return errno == ENOENT ? 0
				       : cordon_err(err, CORDON_E_PATH, errno,
						    "cannot remove '%s/%s'", p->path, name);
	return finish(p, gone, err);
}

static int remove_code(const struct place *p, const char *name, struct cordon_error *err)
{
	int r = tree_remove(p->fd, name);

	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "cannot remove '%s/%s'", p->path, name)
		     : 0;
}

static const char *why_remove(const struct gc *gc, const struct kept *k)
{
	if (k->info.in_use)
		return NULL;
	if (!k->info.is_kept)
		return k->is_young ? NULL : WHY_LEFT;
	return gc->older_than_s >= 0 && time(NULL) - k->info.used_s >= gc->older_than_s ? WHY_UNUSED
											: NULL;
}

/* The first failure is told; the others are removed all the same. */
static void keep_error(struct gc *gc, int r, const struct cordon_error *err)
{
	if (r == 0 || gc->first)
		return;
	gc->first = r;
	if (gc->err)
		*gc->err = *err;
}

/* It is told once it is gone, or would be. */
static void collect(struct gc *gc, const struct place *p, const char *name,
		    int (*remove)(const struct place *p, const char *name,
				  struct cordon_error *err),
		    struct kept *k, const char *why)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	int r = 0;

	read_usage(k);
	if (!gc->is_dry)
		r = remove(p, name, &err);
	keep_error(gc, r, &err);
	if (r < 0)
		return;
	gc->n++;
	if (gc->told)
		gc->told(gc->arg, &k->info, why);
}

static void look_at_one(struct gc *gc, const struct place *p, const char *name)
{
	bool is_code = strncmp(name, ".c", 2) == 0, is_half = strncmp(name, ".s", 2) == 0;
	const char *why;
	struct kept k;
	struct stat st;

	if ((!is_code && !is_half && !is_id(name)) || !kept_open(p, name, &k))
		return;
	why = why_remove(gc, &k);
	/* Who removes one that was renamed may still be at it. */
	if (is_half)
		why = fstat(k.fd, &st) == 0 && time(NULL) - st.st_ctim.tv_sec >= YOUNG_S ? WHY_LEFT
											 : NULL;
	if (why)
		collect(gc, p, name,
			is_half	  ? finish
			: is_code ? remove_code
				  : remove_kept,
			&k, why);
	kept_close(&k);
}

int cordon_private_gc(int64_t older_than_s, int dry_run,
		      void (*told)(void *arg, const struct cordon_private_info *info,
				   const char *why),
		      void *arg, uint64_t *ret_n, struct cordon_error *err)
{
	struct gc gc = { .older_than_s = older_than_s,
			 .is_dry = dry_run,
			 .told = told,
			 .arg = arg,
			 .err = err };
	struct place places[2];
	int n = open_places(places);

	for (int i = 0; i < n; i++) {
		struct names names = { 0 };
		struct cordon_error failed = CORDON_ERROR_INIT;
		int r = names_read(places[i].fd, &names);

		if (r < 0)
			keep_error(&gc,
				   cordon_err(&failed, CORDON_E_SYSTEM, -r, "cannot list '%s'",
					      places[i].path),
				   &failed);
		for (size_t j = 0; r == 0 && j < names.n; j++)
			look_at_one(&gc, &places[i], names.v[j]);
		names_done(&names);
		close(places[i].fd);
	}
	if (ret_n)
		*ret_n = gc.n;
	return gc.first;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/workspace_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "workspace/changes/changes.h"
#include "workspace/store/store.h"
#include "workspace/tree/tree.h"

static void join(char *ret, size_t size, const char *root, const char *path)
{
	snprintf(ret, size, "%s/%s", root, path);
}

static void make_way(const char *path)
{
	char way[4096];

	snprintf(way, sizeof(way), "%s", path);
	for (char *s = strchr(way + 1, '/'); s; s = strchr(s + 1, '/')) {
		*s = '\0';
		mkdir(way, 0755);
		*s = '/';
	}
}

int rig_file(const char *root, const char *path, const char *text)
{
	char full[4096];
	FILE *f;
	int r;

	join(full, sizeof(full), root, path);
	make_way(full);
	f = fopen(full, "we");
	if (!f)
		return -1;
	r = fputs(text, f) < 0 ? -1 : 0;
	if (fclose(f) != 0)
		r = -1;
	return r;
}

int rig_mode(const char *root, const char *path, unsigned mode)
{
	char full[4096];

	join(full, sizeof(full), root, path);
	return chmod(full, mode);
}

int rig_link(const char *root, const char *path, const char *target)
{
	char full[4096];

	join(full, sizeof(full), root, path);
	make_way(full);
	return symlink(target, full);
}

int rig_dir(const char *root, const char *path)
{
	char full[4096];

	join(full, sizeof(full), root, path);
	make_way(full);
	return mkdir(full, 0755);
}

int rig_remove(const char *root, const char *path)
{
	char full[4096];
	char *slash;
	int fd, r;

	join(full, sizeof(full), root, path);
	slash = strrchr(full, '/');
	*slash = '\0';
	fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	r = tree_remove(fd, slash + 1);
	close(fd);
	return r < 0 ? -1 : 0;
}

int rig_whiteout(const char *root, const char *path)
{
	char full[4096];

	join(full, sizeof(full), root, path);
	make_way(full);
	return mknod(full, S_IFCHR, makedev(0, 0));
}

int rig_opaque(const char *root, const char *path)
{
	char full[4096];

	join(full, sizeof(full), root, path);
	make_way(full);
	if (mkdir(full, 0755) < 0 && errno != EEXIST)
		return -1;
	return setxattr(full, "user.overlay.opaque", "y", 1, 0);
}

const char *rig_read(const char *root, const char *path)
{
	static char text[65536];
	char full[4096];
	ssize_t n;
	int fd;

	join(full, sizeof(full), root, path);
	fd = open(full, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return "";
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

int rig_exists(const char *root, const char *path)
{
	struct stat st;
	char full[4096];

	join(full, sizeof(full), root, path);
	return lstat(full, &st) == 0;
}

/* --- listing --- */

static char **lines;
static size_t n_lines, root_len;
static const char *list_root;

static int add_line(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	char line[8192], target[4096] = "";
	const char *name = path + root_len;

	(void)flag;
	if (ftw->level == 0)
		return 0;
	name++;
	if (S_ISLNK(st->st_mode)) {
		ssize_t n = readlink(path, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = '\0';
		snprintf(line, sizeof(line), "%s -> %s", name, target);
	} else if (S_ISREG(st->st_mode)) {
		snprintf(line, sizeof(line), "%s %o '%.3000s'", name, st->st_mode & 07777,
			 rig_read(list_root, name));
	} else {
		snprintf(line, sizeof(line), "%s%s %o", name,
			 S_ISDIR(st->st_mode)	 ? "/"
			 : S_ISFIFO(st->st_mode) ? "|"
						 : "?",
			 st->st_mode & 07777);
	}
	lines = reallocarray(lines, n_lines + 1, sizeof(*lines));
	if (!lines)
		abort();
	lines[n_lines++] = strdup(line);
	return 0;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

char *rig_list(const char *root)
{
	size_t len = 1;
	char *ret, *end;

	n_lines = 0;
	root_len = strlen(root);
	list_root = root;
	nftw(root, add_line, 32, FTW_PHYS);
	if (n_lines)
		qsort(lines, n_lines, sizeof(*lines), compare);
	for (size_t i = 0; i < n_lines; i++)
		len += strlen(lines[i]) + 1;
	ret = end = malloc(len);
	if (!ret)
		abort();
	for (size_t i = 0; i < n_lines; i++) {
		size_t n = strlen(lines[i]);

		memcpy(end, lines[i], n);
		end += n;
		*end++ = '\n';
		free(lines[i]);
	}
	*end = '\0';
	free(lines);
	lines = NULL;
	return ret;
}

/* --- the workspace --- */

/* Stamps are never later than the exact clock, and never earlier than the coarse one. */
void rig_tick(void)
{
	struct timespec apart, now, ms = { .tv_nsec = 1000000 };

	clock_gettime(CLOCK_REALTIME, &apart);
	do {
		nanosleep(&ms, NULL);
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	} while (now.tv_sec < apart.tv_sec ||
		 (now.tv_sec == apart.tv_sec && now.tv_nsec <= apart.tv_nsec));
}

static const char *where = "/tmp";

int rig_where(const char *dir)
{
	char path[64];
	int r;

	where = "/tmp";
	if (!dir)
		return 1;
	snprintf(path, sizeof(path), "%s/cordon-ws-XXXXXX", dir);
	if (!mkdtemp(path))
		return 0;
	r = setxattr(path, "user.cordon", "x", 1, 0);
	rmdir(path);
	if (r == 0)
		where = dir;
	return r == 0;
}

void rig_start(struct workspace_rig *rig)
{
	memset(rig, 0, sizeof(*rig));
	snprintf(rig->dir, sizeof(rig->dir), "%s/cordon-ws-XXXXXX", where);
	if (!mkdtemp(rig->dir))
		abort();
	snprintf(rig->base, sizeof(rig->base), "%s/base", rig->dir);
	snprintf(rig->state, sizeof(rig->state), "%s/state", rig->dir);
	snprintf(rig->canary, sizeof(rig->canary), "%s/canary", rig->dir);
	mkdir(rig->base, 0755);
	mkdir(rig->state, 0700);
	mkdir(rig->canary, 0755);
	rig_file(rig->canary, "passwd", "canary\n");
	rig_file(rig->canary, "sub/f", "canary\n");
}

int rig_canary_is_whole(const struct workspace_rig *rig)
{
	char *list = rig_list(rig->canary);
	int r = strcmp(list, "passwd 644 'canary\n'\nsub/ 755\nsub/f 644 'canary\n'\n") == 0;

	free(list);
	return r;
}

int rig_begin(struct workspace_rig *rig, int mechanism)
{
	struct ws_create create = {
		.state_dir = rig->state,
		.base = rig->base,
		.mechanism = mechanism,
	};
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_workspace *ws;
	struct stat st;
	int r;

	rig_tick();
	if (stat(rig->base, &st) < 0)
		return -1;
	create.base_dev = st.st_dev;
	create.base_ino = st.st_ino;
	r = ws_create(&create, &ws, &err);
	if (r == 0) {
		snprintf(rig->id, sizeof(rig->id), "%s", ws->meta.id);
		snprintf(rig->content, sizeof(rig->content), "%s/%s", ws->path,
			 ws_is_overlay(ws) ? "upper" : "tree");
		rig_tick();
		r = ws_begin_run(ws, &err);
		cordon_workspace_close(ws);
		rig_tick();
	}
	if (r < 0)
		printf("# rig: %s\n", err.msg);
	return r;
}

int rig_end(struct workspace_rig *rig)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_workspace *ws;
	int r;

	r = cordon_workspace_open(rig->state, rig->id, &ws, &err);
	if (r == 0) {
		r = ws_lock(ws, &err);
		if (r == 0)
			r = ws_settle(ws, NULL, NULL, &err);
		cordon_workspace_close(ws);
	}
	if (r < 0)
		printf("# rig: %s\n", err.msg);
	rig_tick();
	return r;
}

void rig_done(struct workspace_rig *rig)
{
	char *slash = strrchr(rig->dir, '/');
	int r;

	*slash = '\0';
	r = rig_remove(rig->dir, slash + 1);
	*slash = '/';
	if (r < 0)
		printf("# rig: cannot remove %s\n", rig->dir);
}

static void on_told(void *arg, const struct cordon_change *change, int outcome,
		    const struct cordon_error *err)
{
	static const char *const names[] = { "?",	 "applied", "refused",
					     "conflict", "skipped", "failed" };
	struct rig_told *told = arg;
	size_t len = strlen(told->text);

	snprintf(told->text + len, sizeof(told->text) - len, "%s %s\n", names[outcome],
		 change->path);
	if (err)
		snprintf(told->why, sizeof(told->why), "%s", err->msg);
}

int rig_commit(const struct workspace_rig *rig, const struct cordon_commit_options *options,
	       struct cordon_commit_result *ret, struct rig_told *told, struct cordon_error *err)
{
	struct cordon_commit_options own = CORDON_COMMIT_OPTIONS_INIT;
	struct cordon_workspace *ws;
	int r;

	if (options)
		own = *options;
	if (told) {
		memset(told, 0, sizeof(*told));
		own.told = on_told;
		own.arg = told;
	}
	r = cordon_workspace_open(rig->state, rig->id, &ws, err);
	if (r < 0)
		return r;
	r = cordon_workspace_commit(ws, &own, ret, err);
	cordon_workspace_close(ws);
	return r;
}

static int count(void *arg, const struct cordon_change *change)
{
	if (getenv("RIG_VERBOSE"))
		printf("# still %s %s\n", cordon_change_kind_name(change->kind), change->path);
	++*(int *)arg;
	return 0;
}

int rig_changes(const struct workspace_rig *rig)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_workspace *ws;
	int n = 0, r;

	r = cordon_workspace_open(rig->state, rig->id, &ws, &err);
	if (r < 0)
		return r;
	r = cordon_workspace_changes(ws, count, &n, &err);
	cordon_workspace_close(ws);
	return r < 0 ? r : n;
}

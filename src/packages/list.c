/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the cache, and removing what is not needed any more. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cache_path.h"
#include "base/err.h"
#include "base/json_read.h"
#include "packages/packages.h"
#include "workspace/tree/tree.h"

/* The names in the cache, read before anything is changed. */
static int read_names(const struct cache *cache, struct arena *arena, struct strlist *ret,
		      struct cordon_error *err)
{
	int fd = openat(cache->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int r = 0;

	if (!dir) {
		r = cordon_err(err, CORDON_E_SYSTEM, errno, "%s", cache->path);
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		const char *name = arena_strdup(arena, entry->d_name);

		if (!name || strlist_add(arena, ret, name) < 0)
			r = cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	}
	closedir(dir);
	return r;
}

static uint64_t number(const struct json_value *object, const char *key)
{
	const struct json_value *v = json_get(object, key);

	return v && v->type == JSON_INTEGER && v->integer > 0 ? (uint64_t)v->integer : 0;
}

struct layer {
	struct arena arena;
	struct strbuf text;
	struct cordon_layer_info info;
};

static void layer_done(struct layer *l)
{
	strbuf_done(&l->text);
	arena_done(&l->arena);
}

static bool is_in_use(const struct cache *cache, const char *key)
{
	int fd = lock_open(cache, key, true, LOCK_TRY, NULL);

	if (fd >= 0)
		close(fd);
	return fd == -EWOULDBLOCK;
}

/* 0, or -errno: it is damaged or gone. */
static int layer_read(const struct cache *cache, const char *key, struct layer *ret)
{
	char name[KEY_SIZE + 32];
	const struct json_value *manifest;
	struct stat st;
	int r;

	*ret = (struct layer){ .text = STRBUF_INIT };
	ret->info.key = key;
	ret->info.dir = arena_printf(&ret->arena, "%s/%s", cache->path, key);
	snprintf(name, sizeof(name), "%s/" MANIFEST, key);
	r = cache_read(cache->fd, name, MANIFEST_MAX, &ret->text);
	if (r < 0 || !ret->info.dir || !ret->text.data)
		return r < 0 ? r : -ENOMEM;
	ret->info.manifest = ret->text.data;
	if (json_read(ret->text.data, ret->text.len, name, &ret->arena, &manifest, NULL) < 0 ||
	    manifest->type != JSON_OBJECT)
		return -EINVAL;
	ret->info.bytes = number(manifest, "bytes");
	ret->info.files = number(manifest, "files");
	ret->info.created_s = (int64_t)number(manifest, "created");
	snprintf(name, sizeof(name), LOCK_PREFIX "%s", key);
	ret->info.used_s = fstatat(cache->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0
				   ? st.st_mtim.tv_sec
				   : ret->info.created_s;
	return 0;
}

int cordon_packages_list(int (*call)(void *arg, const struct cordon_layer_info *info), void *arg,
			 struct cordon_error *err)
{
	struct arena arena = ARENA_INIT;
	struct strlist names = { 0 };
	struct cache cache;
	int r = cache_open(CACHE_PACKAGES, false, &cache, err), stop = 0;

	if (r < 0 || cache.fd < 0)
		return r;
	r = read_names(&cache, &arena, &names, err);
	for (size_t i = 0; r == 0 && !stop && i < names.n; i++) {
		struct layer l;

		if (!is_key(names.v[i]))
			continue;
		if (layer_read(&cache, names.v[i], &l) == 0) {
			l.info.in_use = is_in_use(&cache, names.v[i]);
			stop = call(arg, &l.info);
		}
		layer_done(&l);
	}
	arena_done(&arena);
	cache_close(&cache);
	return r;
}

struct gc {
	const struct cache *cache;
	int64_t older_than_s, now;
	int dry_run;
	void (*told)(void *arg, const struct cordon_layer_info *info);
	void *arg;
	uint64_t n;
	struct cordon_error *err;
};

static int remove_name(const struct gc *gc, const char *name)
{
	int r = tree_remove(gc->cache->fd, name);

	return r < 0 ? cordon_err(gc->err, CORDON_E_SYSTEM, -r, "cannot remove '%s/%s'",
				  gc->cache->path, name)
		     : 0;
}

/* Exclusively locked: nobody uses it or makes it. The lock goes last. */
static int remove_layer(const struct gc *gc, const char *key, bool has_layer)
{
	char name[KEY_SIZE + 16];
	int r = 0;

	snprintf(name, sizeof(name), OLD_PREFIX "%s", key);
	if (has_layer && renameat(gc->cache->fd, key, gc->cache->fd, name) < 0)
		return cordon_err(gc->err, CORDON_E_SYSTEM, errno, "'%s/%s'", gc->cache->path, key);
	r = remove_name(gc, name);
	if (r == 0) {
		snprintf(name, sizeof(name), NEW_PREFIX "%s", key);
		r = remove_name(gc, name);
	}
	snprintf(name, sizeof(name), LOCK_PREFIX "%s", key);
	if (r == 0 && unlinkat(gc->cache->fd, name, 0) < 0 && errno != ENOENT)
		r = cordon_err(gc->err, CORDON_E_SYSTEM, errno, "'%s/%s'", gc->cache->path, name);
	return r;
}

static int look_at(struct gc *gc, const char *key)
{
	struct stat st;
	struct layer l;
	/* Before the lock file is made, if it was missing. */
	int is_damaged = layer_read(gc->cache, key, &l) < 0;
	int r = 0, fd = lock_open(gc->cache, key, true, LOCK_TRY, NULL);
	bool has_layer;

	if (fd >= 0) {
		has_layer = fstatat(gc->cache->fd, key, &st, AT_SYMLINK_NOFOLLOW) == 0;
		if (!has_layer || is_damaged || gc->now - l.info.used_s >= gc->older_than_s) {
			if (has_layer) {
				gc->n++;
				if (gc->told)
					gc->told(gc->arg, &l.info);
			}
			r = gc->dry_run ? 0 : remove_layer(gc, key, has_layer);
		}
		close(fd);
	}
	layer_done(&l);
	return r;
}

/* The key in a name of ours; NULL = it has none. */
static const char *key_in(const char *name)
{
	static const char *const prefixes[] = { "", LOCK_PREFIX, NEW_PREFIX, OLD_PREFIX };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
		size_t len = strlen(prefixes[i]);

		if (strncmp(name, prefixes[i], len) == 0 && is_key(name + len))
			return name + len;
	}
	return NULL;
}

int cordon_packages_gc(int64_t older_than_s, int dry_run,
		       void (*told)(void *arg, const struct cordon_layer_info *info), void *arg,
		       uint64_t *ret_n, struct cordon_error *err)
{
	struct cache cache;
	struct gc gc = { .cache = &cache,
			 .older_than_s = older_than_s,
			 .now = (int64_t)time(NULL),
			 .dry_run = dry_run,
			 .told = told,
			 .arg = arg,
			 .err = err };
	struct strlist names = { 0 }, seen = { 0 };
	struct arena arena = ARENA_INIT;
	int r = cache_open(CACHE_PACKAGES, false, &cache, err);

	if (r == 0 && cache.fd >= 0)
		r = read_names(&cache, &arena, &names, err);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		const char *key = key_in(names.v[i]);

		if (!key || strlist_has(&seen, key))
			continue;
		if (strlist_add(&arena, &seen, key) < 0)
			r = cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
		else
			r = look_at(&gc, key);
	}
	arena_done(&arena);
	cache_close(&cache);
	if (ret_n)
		*ret_n = gc.n;
	return r;
}

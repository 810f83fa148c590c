/* SPDX-License-Identifier: Apache-2.0 */
/* The guests in the cache: what there is, and which one this command can use. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json_read.h"
#include "guest.h"

#define ABOUT_MAX ((size_t)4096)

static int is_image_key(const char *name)
{
	return strlen(name) == MICROVM_KEY_SIZE - 1 &&
	       strspn(name, "0123456789abcdef") == MICROVM_KEY_SIZE - 1;
}

static void copy_text(const struct json_value *object, const char *key, char *buf, size_t size)
{
	const struct json_value *v = json_get(object, key);

	if (v && v->type == JSON_STRING)
		snprintf(buf, size, "%s", v->text);
}

static int64_t number(const struct json_value *object, const char *key)
{
	const struct json_value *v = json_get(object, key);

	return v && v->type == JSON_INTEGER && v->integer > 0 ? v->integer : 0;
}

/* What its about.json says. A guest without one was not finished. */
static void read_about(const struct cache *cache, const char *agent, struct microvm_image *image)
{
	struct strbuf sb = STRBUF_INIT;
	struct arena arena = ARENA_INIT;
	const struct json_value *doc = NULL;
	int dir = openat(cache->fd, image->key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir >= 0 && cache_read(dir, MICROVM_ABOUT, ABOUT_MAX, &sb) == 0 && sb.data &&
	    json_read(sb.data, sb.len, MICROVM_ABOUT, &arena, &doc, NULL) == 0 &&
	    doc->type == JSON_OBJECT) {
		copy_text(doc, "kernel", image->kernel, sizeof(image->kernel));
		copy_text(doc, "agent", image->agent, sizeof(image->agent));
		image->made_s = number(doc, "made");
		image->bytes = (uint64_t)number(doc, "bytes");
		image->is_whole = faccessat(dir, MICROVM_KERNEL, R_OK, 0) == 0 &&
				  faccessat(dir, MICROVM_INITRAMFS, R_OK, 0) == 0;
		image->is_ours = image->is_whole && agent && strcmp(image->agent, agent) == 0;
	}
	if (dir >= 0)
		close(dir);
	arena_done(&arena);
	strbuf_done(&sb);
}

int microvm_images(const struct cache *cache, const char *agent,
		   int (*call)(void *arg, const struct microvm_image *image), void *arg,
		   struct cordon_error *err)
{
	const struct dirent *e;
	int fd, stop = 0;
	DIR *dir;

	if (cache->fd < 0)
		return 0;
	fd = openat(cache->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot read '%s'", cache->path);
	while (!stop && (e = readdir(dir))) {
		struct microvm_image image = { .kernel = "" };

		if (!is_image_key(e->d_name) && !microvm_is_unfinished(e->d_name))
			continue;
		snprintf(image.key, sizeof(image.key), "%.32s", e->d_name);
		if (is_image_key(e->d_name))
			read_about(cache, agent, &image);
		stop = call(arg, &image);
	}
	closedir(dir);
	return 0;
}

static int keep_newest(void *arg, const struct microvm_image *image)
{
	struct microvm_image *best = arg;

	if (image->is_ours && (!best->is_ours || image->made_s > best->made_s))
		*best = *image;
	return 0;
}

int microvm_image_find(const struct cache *cache, const char *agent, struct microvm_image *ret,
		       struct cordon_error *err)
{
	struct microvm_image best = { .kernel = "" };
	int r = microvm_images(cache, agent, keep_newest, &best, err);

	if (r < 0 || !best.is_ours)
		return r;
	*ret = best;
	return 1;
}

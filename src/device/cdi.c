/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Container Device Interface: specifications that say what a container needs for a GPU. Nodes are
 * known without them; where the driver's libraries lie may not be. Only JSON is read: YAML, which
 * the interface allows as well, would need a parser for files that nvidia-ctk writes in either, and
 * libcordon depends on nothing but libc. Whoever misses one is told so (device_cdi_yaml()).
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_read.h"
#include "device/device.h"

#define FILES_MAX 32
#define FILE_MAX ((size_t)1 << 20)
#define MOUNTS_MAX 4096

static const char *const places[] = { "/etc/cdi", "/var/run/cdi" };

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* The directory of the first mount whose file is called @library, or that and a version. */
static const char *dir_in_edits(struct arena *arena, const struct json_value *owner,
				const char *library)
{
	const struct json_value *edits = owner ? json_get(owner, "containerEdits") : NULL;
	const struct json_value *mounts =
		edits && edits->type == JSON_OBJECT ? json_get(edits, "mounts") : NULL;
	size_t len = strlen(library), n = 0;

	if (!mounts || mounts->type != JSON_ARRAY)
		return NULL;
	for (const struct json_value *m = mounts->first; m && n < MOUNTS_MAX; m = m->next, n++) {
		const struct json_value *path = m->type == JSON_OBJECT ? json_get(m, "hostPath")
								       : NULL;
		const char *slash;

		if (!path || path->type != JSON_STRING || path->text[0] != '/' ||
		    strlen(path->text) >= PATH_MAX)
			continue;
		slash = strrchr(path->text, '/');
		if (slash == path->text || strncmp(slash + 1, library, len) != 0 ||
		    (slash[1 + len] != '\0' && slash[1 + len] != '.'))
			continue;
		return arena_strndup(arena, path->text, (size_t)(slash - path->text));
	}
	return NULL;
}

static const char *dir_in_spec(struct arena *arena, const struct json_value *spec,
			       const char *library)
{
	const struct json_value *devices;
	const char *dir;

	if (spec->type != JSON_OBJECT)
		return NULL;
	dir = dir_in_edits(arena, spec, library);
	devices = json_get(spec, "devices");
	if (dir || !devices || devices->type != JSON_ARRAY)
		return dir;
	for (const struct json_value *d = devices->first; !dir && d; d = d->next)
		if (d->type == JSON_OBJECT)
			dir = dir_in_edits(arena, d, library);
	return dir;
}

static const char *dir_in_file(struct arena *arena, const char *root, const char *path,
			       const char *library)
{
	const struct json_value *spec = NULL;
	struct arena tree = ARENA_INIT;
	const char *dir = NULL;
	char *text = malloc(FILE_MAX + 1);
	ssize_t len = text ? device_read(root, path, text, FILE_MAX + 1) : -1;

	/* A file that cannot be read says nothing, and what it would say is not needed for safety.
	 */
	if (len > 0 && (size_t)len < FILE_MAX &&
	    json_read(text, (size_t)len, path, &tree, &spec, NULL) == 0)
		dir = dir_in_spec(arena, spec, library);
	arena_done(&tree);
	free(text);
	return dir;
}

static bool ends_in(const char *name, const char *end)
{
	size_t len = strlen(name), end_len = strlen(end);

	return len > end_len && strcmp(name + len - end_len, end) == 0;
}

static DIR *open_place(struct arena *arena, const char *root, const char *place)
{
	char *full = device_path(arena, root, place);

	return full ? opendir(full) : NULL;
}

const char *device_cdi_yaml(struct arena *arena, const char *root)
{
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		CLEANUP(close_dir) DIR *dir = open_place(arena, root, places[i]);
		struct dirent *entry;

		while (dir && (entry = readdir(dir)) != NULL)
			if (ends_in(entry->d_name, ".yaml") || ends_in(entry->d_name, ".yml"))
				return arena_printf(arena, "%s/%s", places[i], entry->d_name);
	}
	return NULL;
}

const char *device_library_cdi(struct arena *arena, const char *root, const char *library)
{
	const char *found = NULL;

	for (size_t i = 0; !found && i < ARRAY_SIZE(places); i++) {
		CLEANUP(close_dir) DIR *dir = open_place(arena, root, places[i]);
		struct dirent *entry;
		int n = 0;

		while (!found && dir && n < FILES_MAX && (entry = readdir(dir)) != NULL) {
			char path[PATH_MAX];

			if (!ends_in(entry->d_name, ".json"))
				continue;
			n++;
			snprintf(path, sizeof(path), "%s/%.255s", places[i], entry->d_name);
			found = dir_in_file(arena, root, path, library);
		}
	}
	return found;
}

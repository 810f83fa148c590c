/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's GPUs: from what the driver says in /proc, or by the names of the nodes where a container
 * has no such directory. The order is that of the addresses, as nvidia-smi and CUDA count.
 */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "device/device.h"

#define INFORMATION_MAX 4096
#define ACCESS_MAX 256
#define CAP_NODE "/dev/nvidia-caps/nvidia-cap%u"

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static DIR *open_dir(const char *root, const char *path)
{
	char full[PATH_MAX];

	if (snprintf(full, sizeof(full), "%s%s", root, path) >= (int)sizeof(full))
		return NULL;
	return opendir(full);
}

/* The value of "Label: value" in @text. */
static const char *value_of(struct arena *arena, const char *text, const char *label)
{
	const char *at = strstr(text, label);
	size_t len;

	if (!at)
		return NULL;
	at += strlen(label);
	at += strspn(at, " \t");
	len = strcspn(at, "\n");
	while (len > 0 && isspace((unsigned char)at[len - 1]))
		len--;
	return len > 0 ? arena_strndup(arena, at, len) : NULL;
}

static struct gpu *add(struct arena *arena, const char *root, struct gpu_list *list,
		       unsigned number)
{
	struct gpu *gpu = arena_add(arena, &list->v, &list->n, &list->cap, sizeof(*list->v));
	char *full;

	if (!gpu)
		return NULL;
	gpu->vendor = GPU_NVIDIA;
	gpu->name = "NVIDIA";
	gpu->number = number;
	gpu->node = arena_printf(arena, "/dev/nvidia%u", number);
	full = gpu->node ? device_path(arena, root, gpu->node) : NULL;
	if (!full)
		return NULL;
	gpu->is_there = access(full, F_OK) == 0;
	return gpu;
}

static int by_address(const void *a, const void *b)
{
	return strcmp(((const struct gpu *)a)->pci, ((const struct gpu *)b)->pci);
}

static int by_number(const void *a, const void *b)
{
	const struct gpu *one = a, *two = b;

	return (one->number > two->number) - (one->number < two->number);
}

static int add_described(struct arena *arena, const char *root, const char *address,
			 struct gpu_list *list)
{
	char path[PATH_MAX], text[INFORMATION_MAX];
	const char *minor, *name;
	struct gpu *gpu;

	snprintf(path, sizeof(path), DEVICE_NVIDIA_PROC "/gpus/%.255s/information", address);
	if (device_read(root, path, text, sizeof(text)) <= 0)
		return 0;
	minor = value_of(arena, text, "Device Minor:");
	if (!minor || !isdigit((unsigned char)*minor))
		return 0;
	gpu = add(arena, root, list, (unsigned)strtoul(minor, NULL, 10));
	if (!gpu)
		return -1;
	gpu->pci = arena_strdup(arena, address);
	name = value_of(arena, text, "Model:");
	gpu->name = name ? name : gpu->name;
	gpu->uuid = value_of(arena, text, "GPU UUID:");
	/* Question marks: nobody has used the GPU since the driver was loaded. */
	if (gpu->uuid && strchr(gpu->uuid, '?'))
		gpu->uuid = NULL;
	return gpu->pci ? 0 : -1;
}

/* nvidia0 and the like, for a container that has the nodes and not the driver's directory. */
static int add_by_node(struct arena *arena, const char *root, const char *name,
		       struct gpu_list *list)
{
	const char *digits = name + strlen("nvidia");
	size_t len;

	if (strncmp(name, "nvidia", strlen("nvidia")) != 0)
		return 0;
	len = strspn(digits, "0123456789");
	if (len == 0 || len > 3 || digits[len])
		return 0;
	return add(arena, root, list, (unsigned)strtoul(digits, NULL, 10)) ? 0 : -1;
}

int gpu_find_nvidia(struct arena *arena, const char *root, struct gpu_list *ret)
{
	CLEANUP(close_dir) DIR *gpus = open_dir(root, DEVICE_NVIDIA_PROC "/gpus");
	CLEANUP(close_dir) DIR *nodes = gpus ? NULL : open_dir(root, "/dev");
	DIR *dir = gpus ? gpus : nodes;
	struct dirent *entry;
	int r = 0;

	ret->has_nvidia_driver = gpus != NULL;
	while (r == 0 && dir && ret->n < GPUS_MAX && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		r = gpus ? add_described(arena, root, entry->d_name, ret)
			 : add_by_node(arena, root, entry->d_name, ret);
	}
	if (r == 0 && ret->n > 1)
		qsort(ret->v, ret->n, sizeof(*ret->v), gpus ? by_address : by_number);
	return r;
}

/* The node that a file "access" names. */
static int add_cap(struct arena *arena, const char *root, const char *path, struct strlist *ret)
{
	char text[ACCESS_MAX];
	const char *minor, *node;

	if (device_read(root, path, text, sizeof(text)) <= 0)
		return 0;
	minor = value_of(arena, text, "DeviceFileMinor:");
	if (!minor || !isdigit((unsigned char)*minor) || ret->n >= GPU_CAPS_MAX)
		return 0;
	node = arena_printf(arena, CAP_NODE, (unsigned)strtoul(minor, NULL, 10));
	return !node || strlist_add(arena, ret, node) < 0 ? -1 : 0;
}

/* Of each directory in @path that is called @prefix and a number: its "access", and, if there is
 * @next, those of the directories in it. */
static int add_caps(struct arena *arena, const char *root, const char *path, const char *prefix,
		    const char *next, struct strlist *ret)
{
	CLEANUP(close_dir) DIR *dir = open_dir(root, path);
	struct dirent *entry;
	char below[PATH_MAX];
	int r = 0;

	while (r == 0 && dir && (entry = readdir(dir)) != NULL) {
		size_t len = strlen(prefix);

		if (strncmp(entry->d_name, prefix, len) != 0 ||
		    !isdigit((unsigned char)entry->d_name[len]))
			continue;
		snprintf(below, sizeof(below), "%.1024s/%.255s/access", path, entry->d_name);
		r = add_cap(arena, root, below, ret);
		if (r < 0 || !next)
			continue;
		snprintf(below, sizeof(below), "%.1024s/%.255s", path, entry->d_name);
		r = add_caps(arena, root, below, next, NULL, ret);
	}
	return r;
}

int gpu_nvidia_caps(struct arena *arena, const char *root, unsigned number, struct strlist *ret)
{
	char path[128];

	snprintf(path, sizeof(path), DEVICE_NVIDIA_PROC "/capabilities/gpu%u/mig", number);
	return add_caps(arena, root, path, "gi", "ci", ret);
}

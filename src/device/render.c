/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs of the kernel's own graphics drivers (amdgpu, i915, xe and others), each with its render
 * node. NVIDIA's are left out: what computes on them does not use that node.
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

#define RENDER "renderD"
#define VENDOR_NVIDIA 0x10de
#define VENDOR_AMD 0x1002
#define VENDOR_INTEL 0x8086

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static unsigned long vendor_of(const char *root, const char *name)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), "/sys/class/drm/%.64s/device/vendor", name);
	if (device_read(root, path, text, sizeof(text)) <= 0)
		return 0;
	return strtoul(text, NULL, 16);
}

/* The real path of the GPU's directory in /sys, without @root. */
static const char *sys_of(struct arena *arena, const char *root, const char *name)
{
	char path[PATH_MAX], real[PATH_MAX], top[PATH_MAX] = "";

	snprintf(path, sizeof(path), "%s/sys/class/drm/%.64s/device", root, name);
	if (!realpath(path, real) || (*root && !realpath(root, top)) ||
	    strncmp(real, top, strlen(top)) != 0 ||
	    strncmp(real + strlen(top), "/sys/devices/", strlen("/sys/devices/")) != 0)
		return NULL;
	return arena_strdup(arena, real + strlen(top));
}

/* The name of its driver. */
static const char *driver_of(struct arena *arena, const char *root, const char *name)
{
	char path[PATH_MAX], text[PATH_MAX];
	const char *slash;
	ssize_t len;

	snprintf(path, sizeof(path), "%s/sys/class/drm/%.64s/device/driver", root, name);
	len = readlink(path, text, sizeof(text) - 1);
	if (len <= 0)
		return NULL;
	text[len] = '\0';
	slash = strrchr(text, '/');
	return arena_strdup(arena, slash ? slash + 1 : text);
}

static int add(struct arena *arena, const char *root, const char *name, unsigned long vendor,
	       struct gpu_list *list)
{
	static const char *const names[GPU_VENDOR_MAX] = { [GPU_NVIDIA] = "NVIDIA",
							   [GPU_AMD] = "AMD",
							   [GPU_INTEL] = "Intel",
							   [GPU_OTHER] = "GPU" };
	struct gpu *gpu = arena_add(arena, &list->v, &list->n, &list->cap, sizeof(*list->v));
	const char *driver;

	if (!gpu)
		return -1;
	gpu->vendor = vendor == VENDOR_AMD     ? GPU_AMD
		      : vendor == VENDOR_INTEL ? GPU_INTEL
					       : GPU_OTHER;
	gpu->number = (unsigned)strtoul(name + strlen(RENDER), NULL, 10);
	gpu->node = arena_printf(arena, "/dev/dri/%s", name);
	gpu->sys = sys_of(arena, root, name);
	if (gpu->sys && strchr(strrchr(gpu->sys, '/'), ':'))
		gpu->pci = strrchr(gpu->sys, '/') + 1;
	driver = driver_of(arena, root, name);
	gpu->name = driver ? arena_printf(arena, "%s (%s)", names[gpu->vendor], driver)
			   : names[gpu->vendor];
	gpu->is_there = true;
	return gpu->node && gpu->name ? 0 : -1;
}

static int by_number(const void *a, const void *b)
{
	const struct gpu *one = a, *two = b;

	return (one->number > two->number) - (one->number < two->number);
}

static bool is_render(const char *name)
{
	const char *digits = name + strlen(RENDER);

	return strncmp(name, RENDER, strlen(RENDER)) == 0 && *digits && strlen(digits) <= 4 &&
	       strspn(digits, "0123456789") == strlen(digits);
}

int gpu_find_render(struct arena *arena, const char *root, struct gpu_list *ret)
{
	char *path = device_path(arena, root, "/dev/dri");
	CLEANUP(close_dir) DIR *dir = path ? opendir(path) : NULL;
	size_t first = ret->n;
	struct dirent *entry;
	int r = path ? 0 : -1;

	while (r == 0 && dir && ret->n < GPUS_MAX && (entry = readdir(dir)) != NULL) {
		unsigned long vendor;

		if (!is_render(entry->d_name))
			continue;
		vendor = vendor_of(root, entry->d_name);
		if (vendor != VENDOR_NVIDIA)
			r = add(arena, root, entry->d_name, vendor, ret);
	}
	if (ret->n > first + 1)
		qsort(ret->v + first, ret->n - first, sizeof(*ret->v), by_number);
	return r;
}

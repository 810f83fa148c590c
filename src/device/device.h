/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices of this machine that a run may be given: its GPUs, with the nodes and files that
 * their drivers need, and the nodes that nobody may be given.
 *
 * Nothing is opened but text files of /proc, /sys and /etc: to open a GPU's node starts the GPU.
 * @root is put before every path that is looked at: "" on a real machine, a directory in tests.
 */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/arena.h"

#define GPUS_MAX 64
#define GPU_CAPS_MAX 256 /* nodes of the parts that a GPU is divided into (MIG) */

#define DEVICE_NVIDIA_PROC "/proc/driver/nvidia"
#define DEVICE_NVIDIA_CONTROL "/dev/nvidiactl"
#define DEVICE_NVIDIA_UVM "/dev/nvidia-uvm"
#define DEVICE_AMD_KFD "/dev/kfd"

enum gpu_vendor {
	GPU_NVIDIA,
	GPU_AMD,
	GPU_INTEL,
	GPU_OTHER,
	GPU_VENDOR_MAX
};

struct gpu {
	int vendor;	  /* enum gpu_vendor */
	const char *name; /* the model, or the driver's name */
	const char *uuid; /* NULL = not known */
	const char *pci;  /* address, such as 0000:19:00.0; NULL = not known */
	const char *node; /* /dev/nvidia0, /dev/dri/renderD128 */
	const char *sys;  /* its directory in /sys, a real path; NULL = none */
	unsigned number;  /* at the end of the node's name */
	bool is_there;	  /* the node exists */
};

struct gpu_list {
	struct gpu *v; /* NVIDIA's by their address, then the others by their number */
	size_t n, cap;
	bool has_nvidia_driver; /* of the kernel */
};

/* 0, or -1 when memory is out. All strings live in @arena. */
int gpu_find_all(struct arena *arena, const char *root, struct gpu_list *ret) CHECK_RESULT;

/* nvidia.c and render.c: the two parts of it. */
int gpu_find_nvidia(struct arena *arena, const char *root, struct gpu_list *ret) CHECK_RESULT;
int gpu_find_render(struct arena *arena, const char *root, struct gpu_list *ret) CHECK_RESULT;

/* The nodes of the parts that NVIDIA's GPU @number is divided into. */
int gpu_nvidia_caps(struct arena *arena, const char *root, unsigned number,
		    struct strlist *ret) CHECK_RESULT;

/*
 * Where the loader finds library @name: its path by /etc/ld.so.cache; NULL = not there, or the file
 * is no such cache.
 */
const char *device_library_cached(struct arena *arena, const char *root, const char *name);

/* The directory that a CDI specification (JSON, in /etc/cdi or /var/run/cdi) names for @library,
 * which may have a version at its end; NULL = none does. */
const char *device_library_cdi(struct arena *arena, const char *root, const char *library);

/* A CDI specification in YAML, which is not read; NULL = there is none. */
const char *device_cdi_yaml(struct arena *arena, const char *root);

/* Directories in which drivers put their libraries though no loader looks there. NULL-terminated.
 */
extern const char *const device_library_dirs[];

/* Directories in which every loader looks. NULL-terminated. */
extern const char *const device_default_dirs[];

/* Why nobody may be given the character device @rdev; NULL = it may be given. */
const char *device_refusal(const char *root, dev_t rdev);

/* A text file of the kernel's, as a string; its length, or -errno. */
ssize_t device_read(const char *root, const char *path, char *ret, size_t size);

/* @root followed by @path; NULL when memory is out. */
char *device_path(struct arena *arena, const char *root, const char *path);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading /proc without libc. The kernel writes what is read there, but some names in it are chosen
 * by the guest, so nothing is searched for behind such a name.
 */
#ifndef INIT_PROCFS_H
#define INIT_PROCFS_H

#include <stddef.h>
#include <stdint.h>

#define PROC_PATH_MAX 64

/* "PID/name" or, for pid 0, "name". Returns @ret. */
const char *proc_path(int pid, const char *name, char ret[PROC_PATH_MAX]);
/* "PID/list/number" and "/name", if there is one. */
const char *proc_path_in(int pid, const char *list, int number, const char *name,
			 char ret[PROC_PATH_MAX]);

/* The first @size - 1 bytes of /proc/PID/name (pid 0: /proc/name) and a NUL; their number, or
 * -errno. */
long proc_read(int proc_fd, int pid, const char *name, char *ret, size_t size);

/* What stands behind "key" at the start of a line, or NULL. */
const char *proc_find(const char *text, const char *key);
/* The number behind "key" at the start of a line, as the kernel's lists of fields have it; 0 if
 * there is none. */
uint64_t proc_field(const char *text, const char *key);

/* The same for a mask in hexadecimal digits. */
uint64_t proc_mask(const char *text, const char *key);

/* The whole numbers of a line, from @text on, until one is missing: how many. */
int proc_numbers(const char *text, uint64_t *ret, int max);

/* Calls @each with every line of /proc/PID/name, without its end; @text is room for the longest and
 * more. 0 or -errno. */
long proc_lines(int proc_fd, int pid, const char *name, char *text, size_t size,
		void (*each)(void *arg, const char *line), void *arg);

/* The pid of the newest task of the pid namespace; 0 = unknown. */
uint64_t proc_newest(int proc_fd);

/* The entries of a directory that are numbers, at most @max of them; how many, or -errno. */
long proc_entries(int proc_fd, int pid, const char *name, int *ret, int max);

#endif

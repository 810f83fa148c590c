/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching the tree while it runs: the limits that no single system call enforces (time, memory and
 * CPU of all processes together), and the figures of the receipt.
 */
#ifndef INIT_WATCH_WATCH_H
#define INIT_WATCH_WATCH_H

#include "init/init.h"

/* Before anything runs: records the existing use, which is not the command's. */
void watch_prepare(struct init *in);
/* When the command has been started. */
void watch_start(struct init *in);
/* Does what is due and notes the limit that was broken, if one was, in the report. Returns the
 * nanoseconds until it wants to be called again. */
uint64_t watch_tick(struct init *in);
/* The tree was asked to end: it must be able to run for that. */
void watch_release(struct init *in);
/* The last look, when the tree is gone. */
void watch_end(struct init *in);
/* May there be more files in the private directories than before the command ran? */
int watch_has_new_files(const struct init *in);

/* Sessions: adds what the living processes use now. */
void watch_count(struct init *in, struct control_count *count);

/* cpu.c: CPU time that processes of the tree were seen to use. */
uint64_t cpu_observed_us(void);

/* watched_dirs.c: the directories under limits.disk. */
/* While the view is built: the upper directory of an overlay lies in @dir_fd. */
long disk_take_upper(struct init *in, int dir_fd);
/* The same for a directory that is kept between runs, which appears at @path. */
long disk_take_private(struct init *in, int object_fd, const char *path);
/* When the view is complete: finds the workspace in it. */
long disk_open(struct init *in);

/*
 * cgroup.c: the run's control group, of which init has three files and no path. Without one (no
 * descriptors) all of this does nothing.
 */
/* Right before the command is started: what is used from now on is the command's, and the kernel
 * enforces its share of the CPUs, so that the watch need not. */
long cgroup_begin(struct init *in);
/* Notes it in the report if the limit of memory has killed a process. */
void cgroup_check_memory(struct init *in);
/* Lifts the share of the CPUs: the tree must be able to run in order to end. */
void cgroup_release_cpu(struct init *in);
/* CPU time of the tree without our own. 0 if there is no group to ask; nothing is changed then. */
int cgroup_cpu_used(struct init *in, uint64_t *ret_user_us, uint64_t *ret_system_us);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control group for each run, where the caller may make some (version 2, "delegation"): the
 * kernel then enforces the limits of the whole tree exactly.
 *
 * Theory of operation. Once per launcher, and only when a run has a limit that it helps with, the
 * place for new groups is looked for: the nearest directory from our group upwards that is ours and
 * hands the controllers down (cgroup_find.c). Each run makes one group there, writes its limits
 * and clones init right into it, which is the cheap way in; where clone3 is refused init is moved.
 * Init has descriptors of three of its files (memory.events, cpu.stat, cpu.max), with which it
 * notices the end of memory and tells CPU time. The caller's processes are never moved.
 *
 * A group can be removed once it is empty, and init is still in it when it reports: so it goes to
 * the graveyard with init (launcher.c). A killed supervisor leaves an empty directory behind. Each
 * live one is locked (flock) until its owner ends; the next launcher removes those without a lock.
 *
 * Anything that fails here leaves the run to init's watch, and the plan says so.
 */
#ifndef LAUNCH_CGROUP_H
#define LAUNCH_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CGROUP_NAME_MAX 48
#define CGROUP_PREFIX "cordon-"

/* Where new groups can be made. */
struct cgroup_home {
	int state;  /* 0 = not looked for yet, 1 = there is one, -1 = there is none */
	int dir_fd; /* -1 = none */
	bool has_cpu;
	char *path; /* for people; owned */
};

#define CGROUP_HOME_INIT { 0, -1, false, NULL }

/* The group of one run; none if dir_fd is -1. */
struct cgroup {
	int dir_fd;	     /* locked while it is in use */
	unsigned init_tasks; /* init's tasks in it: the limit is the command's plus these */
	bool has_cpu;	     /* it can enforce a share of the CPUs */
	char name[CGROUP_NAME_MAX];
};

#define CGROUP_INIT { -1, 0, false, "" }
#define CGROUP_FILES 3 /* that init can be given */

/* 0 = none */
struct cgroup_limits {
	uint64_t memory_bytes, procs;
	unsigned init_tasks; /* see above */
	bool kills_group;    /* the end of memory ends all of it, init too */
};

struct control_report;

/* Looks for the place, if that has not been done. -errno says why there is none. */
int cgroup_home_find(struct cgroup_home *home);
void cgroup_home_done(struct cgroup_home *home);

int cgroup_make(const struct cgroup_home *home, const struct cgroup_limits *limits,
		struct cgroup *ret);
/* Moves a process into it. */
int cgroup_enter(const struct cgroup *cgroup, pid_t pid);
/* Opens what init needs: memory.events, cpu.stat and, with @cpu, cpu.max. How many, or -errno. */
int cgroup_open_files(const struct cgroup *cgroup, bool cpu, int ret_fds[CGROUP_FILES]);
/* Ends everything in it in one stroke (since 5.14). */
int cgroup_kill(const struct cgroup *cgroup);
/* Waits until it is empty; -ETIMEDOUT. */
int cgroup_wait_empty(const struct cgroup *cgroup, int timeout_ms);
/* Puts the kernel's figures into @report. 1 if the group's memory limit has killed. */
int cgroup_account(const struct cgroup *cgroup, bool is_reported, struct control_report *report);
/* Removes and forgets it. With -EBUSY it is kept, for another try. */
int cgroup_remove(const struct cgroup_home *home, struct cgroup *cgroup);
/* Forgets it without another try. */
void cgroup_forget(struct cgroup *cgroup);

/* cgroup_find.c; the parts that need no machine */
/* Our group's path from the text of /proc/self/cgroup. */
int cgroup_parse_self(const char *text, char ret[PATH_MAX]);
/* From the text of /proc/self/mountinfo: where the hierarchy is mounted, and the directory of the
 * group @self in it. Only below /sys, which no run can be allowed to write to: it could raise its
 * limits. */
int cgroup_parse_mount(const char *text, const char *self, char ret_mount[PATH_MAX],
		       char ret_dir[PATH_MAX]);
bool cgroup_has_word(const char *text, const char *word);
/* The number behind "key " at the start of a line; 0 if there is none. */
uint64_t cgroup_field(const char *text, const char *key);
bool cgroup_is_name(const char *name);
/* The start of a file, as text. Its length or -errno. */
int cgroup_read(int dir_fd, const char *name, char *ret, size_t size);
int cgroup_write(int dir_fd, const char *name, const char *text);

#endif

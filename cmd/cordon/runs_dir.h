/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that live, on disk: ID.run in the directory of sessions (session_dir.h), which every sandbox
 * hides from its command. There is no process that keeps a list.
 *
 * A run lives as long as its supervisor has the first byte of that file locked. It is a lock that
 * belongs to a process, so the kernel says which one it is; a number in a file could be another
 * process's by now. The first line is what the run says of itself. At its end it adds its
 * exit status and its receipt, a line each, and removes the name: who waits for the lock has the
 * file open and reads that.
 *
 * The file gets its name when it is locked and complete. So one that nobody has locked is what a
 * killed supervisor left, for ever, and whoever finds it removes it. To look never takes a lock.
 */
#ifndef CMD_CORDON_RUNS_DIR_H
#define CMD_CORDON_RUNS_DIR_H

#include <stdint.h>
#include <sys/types.h>

#include <cordon/error.h>

#include "base/arena.h"
#include "base/json_read.h"
#include "base/strbuf.h"

#define RUN_ID_CHARS 8

/* The supervisor's side. */
struct run_entry {
	int dir_fd, fd; /* -1 = not listed */
	off_t len;	/* of the first line */
	char id[RUN_ID_CHARS + 1];
};

#define RUN_ENTRY_INIT { .dir_fd = -1, .fd = -1 }

/* Makes the directory, before the plan of a run decides what has to be hidden. */
void run_entry_prepare(void);
/* Lists this process as a run that says @about of itself, one line of JSON. 0 or -errno. */
int run_entry_make(struct run_entry *ret, const struct strbuf *about);
/* The end. Nothing happens if it is not listed. @receipt: one line of JSON, or NULL. */
void run_entry_end(struct run_entry *entry, int status, const char *receipt);

/* The other side. */
struct run_seen {
	int fd;	   /* the file, -1 in a list */
	pid_t pid; /* of the supervisor; -1 = not to be seen from here */
	char id[RUN_ID_CHARS + 1];
	struct arena arena;
	const struct json_value *about;
	int64_t started_ms;
	off_t end_at; /* what follows the first line, as long as that was when it was read */
};

/* The one run whose id begins with @id. */
int run_find(const char *id, struct run_seen *ret, struct cordon_error *err);
/* Calls @each (may be NULL) for every run that lives, by age; removes what killed supervisors left.
 */
void run_each(void (*each)(void *arg, const struct run_seen *run), void *arg);
void run_seen_done(struct run_seen *run);
/* Whether @run's supervisor is still the same process. */
int run_is_alive(const struct run_seen *run);
/*
 * Waits for the end. *ret_status: the run's exit status, -1 = there is none, since the supervisor
 * was killed. *ret_receipt: JSON, to be freed, or NULL.
 */
int run_wait(struct run_seen *run, int *ret_status, char **ret_receipt, struct cordon_error *err);

#endif

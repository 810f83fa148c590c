/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the command said: lines of its output that have the text of an error (said.c), and what may
 * be true about the names in them: protected ones (said_names.c), and those that the command does
 * not see or may not write to (said_paths.c).
 */
#ifndef LAUNCH_SAID_H
#define LAUNCH_SAID_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "launch/launch.h"
#include "launch/view.h"

#define SAID_BUSY 0x01u
#define SAID_READ_ONLY 0x02u
#define SAID_NOT_DIR 0x04u
#define SAID_EXISTS 0x08u
#define SAID_DENIED 0x10u
#define SAID_NO_DEVICE 0x20u
#define SAID_OTHER_MOUNT 0x40u
#define SAID_MISSING 0x80u
#define SAID_NOT_PERMITTED 0x100u /* EPERM, which Landlock never says of a file */
#define SAID_ONLY_ROOT 0x200u	  /* a program that looked who it is */
#define SAID_NO_PROTOCOL 0x400u
#define SAID_NO_FAMILY 0x800u
#define SAID_MANY_FILES 0x1000u
#define SAID_NO_CONNECTION 0x2000u
#define SAID_NO_HOST 0x4000u
#define SAID_TOO_LARGE 0x10000u
#define SAID_NO_DAEMON 0x20000u
#define SAID_NO_TASK 0x40000u
#define SAID_INVALID 0x8000u /* EINVAL: as ids that are not mapped inside give it */
#define SAID_RIGHTS_ERRORS (SAID_DENIED | SAID_NOT_PERMITTED | SAID_ONLY_ROOT)

struct said_line {
	const char *begin, *end;
	const char *text; /* of an error, the first one */
	unsigned errors;  /* whose text is in it */
};

struct said {
	const struct said_subject *subject;
	const struct plan_header *plan; /* the block of subject->plan */
	const char *cwd;
	struct said_name *names; /* said_names.c; NULL = not needed yet */
	size_t n_names;
	bool has_protected; /* and lines about them count */
	int line_errno;	    /* of the line that is looked at; 0 = it has none, or more than one */
	struct cordon_denial *denials;
	size_t n_denials;
	unsigned n_lines;
	unsigned n_looks; /* at names on the host */
	unsigned n_programs;
	unsigned n_tables; /* of sockets, read */
};

/* Adds a denial with this target, unless there are enough. */
void said_tell(struct said *said, const char *what, const char *target, const char *rule,
	       const char *fix);

/* The same, once for each refusal. */
void said_tell_once(struct said *said, const char *what, const char *target, const char *rule,
		    const char *fix);

/* A limit; both strings may be NULL, if memory is out. */
#define SAID_MAYBE " (may have been reached)"
void said_tell_limit(struct said *said, const char *rule, const char *target, const char *fix);

/* Does the text at @p begin with @text, in small letters? */
bool said_begins_with(const char *p, const char *end, const char *text);

/* May a path begin at @p, or end there? */
bool said_is_begin(const char *p, const struct said_line *line);
bool said_is_end(const char *p, const char *end);

/* As the caller would type it. */
const char *said_shown(const struct plan *plan, const char *path);

/* Tells about the protected names in the line; false = nothing can be told for sure any more. */
bool said_names_line(struct said *said, const struct said_line *line);

/* Where @path leads on the host, with the caller's rights; false = nowhere, or it cannot be told
 * without waiting. */
bool said_find_real(const char *path, bool may_follow, char real[PATH_MAX], mode_t *ret_mode);

/* "-r PATH"; NULL if it should not be advised. */
const char *said_read_fix(const struct said *said, const char *path, const char *real);

/* "-w" with the directory of @path, or with @path if that is one; NULL if it should not be advised.
 */
const char *said_write_fix(const struct said *said, const char *path, const char *real,
			   bool is_dir);

/* "--workspace DIR" in the place of the write grant that the protected name lies in; NULL = none.
 */
const char *said_protect_fix(const struct said *said, const char *path);

/* A program in the caller's PATH. */
struct said_found {
	char path[PATH_MAX], real[PATH_MAX];
	size_t dir_len; /* of path */
};

enum said_wanted {
	SAID_WANT_SEEN, /* by the command */
	SAID_WANT_ANY
};

/* The first of this name. */
bool said_find_program(const struct said *said, const char *name, size_t len,
		       enum said_wanted wanted, struct said_found *ret);
/* -r DIR, of the name in PATH, and of the file that it leads to if that lies elsewhere. */
const char *said_program_fix(const struct said *said, const struct said_found *found);
/* Does the run have a list of programs? */
bool said_has_list(const struct plan_header *h);

/* These are true if the line is explained. What is asked for by name and refused to every command;
 * programs; hosts. */
bool said_refused_line(struct said *said, const struct said_line *line);
bool said_programs_line(struct said *said, const struct said_line *line);
bool said_net_line(struct said *said, const struct said_line *line);

/* Tells about the paths in the line that the command does not see, or may not write to. */
void said_paths_line(struct said *said, const struct said_line *line);

#endif

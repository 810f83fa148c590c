/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the command said: lines of its output that have the text of an error (said.c), and what may
 * be true about the names in them: protected ones (said_names.c), and those that the command does
 * not see or may not write to (said_paths.c).
 */
#ifndef LAUNCH_SAID_H
#define LAUNCH_SAID_H

#include <stdbool.h>
#include <stddef.h>

#include "launch/launch.h"

#define SAID_BUSY 0x01u
#define SAID_READ_ONLY 0x02u
#define SAID_NOT_DIR 0x04u
#define SAID_EXISTS 0x08u
#define SAID_DENIED 0x10u
#define SAID_NO_DEVICE 0x20u
#define SAID_OTHER_MOUNT 0x40u
#define SAID_MISSING 0x80u

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
	struct cordon_denial *denials;
	size_t n_denials;
	unsigned n_lines;
	unsigned n_looks; /* at names on the host */
};

/* Adds a denial with this target, unless there are enough. */
void said_tell(struct said *said, const char *what, const char *target, const char *rule,
	       const char *fix);

/* May a path begin at @p, or end there? */
bool said_is_begin(const char *p, const struct said_line *line);
bool said_is_end(const char *p, const char *end);

/* As the caller would type it. */
const char *said_shown(const struct plan *plan, const char *path);

/* Tells about the protected names in the line; false = nothing can be told for sure any more. */
bool said_names_line(struct said *said, const struct said_line *line);

/* Tells about the paths in the line that the command does not see, or may not write to. */
void said_paths_line(struct said *said, const struct said_line *line);

#endif

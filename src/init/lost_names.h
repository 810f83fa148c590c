/* SPDX-License-Identifier: Apache-2.0 */
/* Which files a user would miss, as far as their names tell. Freestanding, no system calls. */
#ifndef INIT_LOST_NAMES_H
#define INIT_LOST_NAMES_H

/* Where a name lies. */
struct lost_place {
	int is_tmp;	   /* in /tmp, at whatever depth; else in the home */
	int depth;	   /* 0 = directly in it */
	const char *above; /* the directory's own name; NULL at depth 0 */
};

/* Would the file @name be missed? */
int lost_is_missed(const struct lost_place *at, const char *name);
/* May there be such files in the directory @name? */
int lost_is_searched(const struct lost_place *at, const char *name);

/* In a directory that has an entry of one of these names all is a tool's own; NULL ends them. */
extern const char *const lost_markers[];

#endif

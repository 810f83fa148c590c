/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns for names, as shells and ignore files have them.
 *
 *	*  ?  [abc]  [a-z]  [!abc]	within one name; a leading dot is nothing special
 *	@(a|b)  !(a|b)			one of these texts; any text but these. Once in a name
 *	\c				the character itself
 *	**				as a whole component: any number of directories
 *
 * No system calls. The time is bounded by the product of the lengths.
 */
#ifndef BASE_GLOB_H
#define BASE_GLOB_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GLOB_PARTS_MAX 60 /* components of a pattern */

/* Has @text anything in it that makes it a pattern? */
bool glob_is_pattern(const char *text);

/* Does the pattern apply at any depth of every directory: no slash in it, or "**" first? */
bool glob_is_anywhere(const char *text);

/* Does @name match the component at @part? */
bool glob_match_name(const char *part, size_t len, const char *name);

/* A pattern split into components, which stay in their texts. */
struct glob {
	size_t n;
	struct {
		const char *at;
		size_t len;
		bool is_literal;
	} part[GLOB_PARTS_MAX];
};

/* @dir: components that stand for themselves, before those of @text. 0, or -E2BIG: too many. */
int glob_init(struct glob *ret, const char *dir, const char *text);

/* If the component at @part stands for one name only: that name into @ret, true. */
bool glob_plain_name(const char *part, size_t len, char ret[NAME_MAX + 1]);

/* Writes @text so that it stands for itself: 0, or -ENAMETOOLONG. */
int glob_escape(const char *text, char *ret, size_t size);

/*
 * Matching along a path: which components have been matched so far, as a set of bits. Begin with
 * glob_start(), go on with glob_step() for each name; 0 = nothing below can match.
 */
uint64_t glob_start(const struct glob *glob);
uint64_t glob_step(const struct glob *glob, uint64_t state, const char *name);
bool glob_is_matched(const struct glob *glob, uint64_t state);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine offers, layer by layer, and the remedy for what is missing. */
#ifndef CORDON_CHECK_H
#define CORDON_CHECK_H

#include <stddef.h>

#include <cordon/error.h>
#include <cordon/run.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct cordon_check;

struct cordon_check_item {
	const char *name;   /* such as "user", "landlock", "seccomp" */
	const char *state;  /* "yes", "no" or "partial" */
	const char *detail; /* what was found */
	const char *remedy; /* what to do about it, NULL = nothing to do */
};

/** Tries each layer for real, in short-lived processes. Free *ret with cordon_check_free(). */
int cordon_check_new(struct cordon_launcher *launcher, struct cordon_check **ret,
		     struct cordon_error *err);
/** Frees the check and its items. NULL is fine. */
void cordon_check_free(struct cordon_check *check);
/** How many items there are. */
size_t cordon_check_count(const struct cordon_check *check);
/** The item at index @i, NULL past the end. Valid until the check is freed. */
const struct cordon_check_item *cordon_check_item(const struct cordon_check *check, size_t i);
/** Best level a run can have here (enum cordon_level), 0 = none. */
int cordon_check_level(const struct cordon_check *check);
/** As JSON; free with cordon_free(). */
int cordon_check_to_json(const struct cordon_check *check, char **ret, struct cordon_error *err);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* For the files of this directory only. */
#ifndef POLICY_POLICY_INTERNAL_H
#define POLICY_POLICY_INTERNAL_H

#include "base/macros.h"
#include "policy/keys.h"
#include "policy/policy.h"

void policy_init(struct cordon_policy *policy);
void policy_done(struct cordon_policy *policy);

/* Adds everything @src has set to @dst. All or nothing. */
int policy_merge(struct cordon_policy *dst, const struct cordon_policy *src,
		 struct cordon_error *err) CHECK_RESULT;

/*
 * Takes one value (for lists: one entry) in the form of the command line, checks it and stores a
 * copy. @base_dir: what relative paths are relative to, NULL = keep them. Messages start with the
 * key's name.
 */
int policy_put(struct cordon_policy *policy, const struct policy_key *key, const char *text,
	       const char *base_dir, struct cordon_error *err) CHECK_RESULT;

/* The same for a whole number: seconds of a duration, bytes of a size, a count. */
int policy_put_int(struct cordon_policy *policy, const struct policy_key *key, int64_t value,
		   struct cordon_error *err) CHECK_RESULT;

/* The same for an on/off value. */
void policy_put_bool(struct cordon_policy *policy, const struct policy_key *key, int value);

/* Says that a list was given, even if it turns out to be empty. */
void policy_touch(struct cordon_policy *policy, const struct policy_key *key);

#define POLICY_HERE "." /* what presets grant: the current directory */

/* A workspace takes the place of the write grant of a preset: that one is a start, and would let
 * the command change the very directory of which it has a copy. */
void policy_settle_here(struct cordon_policy *policy);

/* Where the value is stored, by the key's type. */
struct strlist *policy_list(struct cordon_policy *policy, const struct policy_key *key);
int64_t *policy_number(struct cordon_policy *policy, const struct policy_key *key);
int *policy_choice(struct cordon_policy *policy, const struct policy_key *key);
const char **policy_string(struct cordon_policy *policy, const struct policy_key *key);

/* Adds a checked @text to a list that does not have it yet. */
int policy_add_entry(struct cordon_policy *policy, const struct policy_key *key, const char *text,
		     struct cordon_error *err) CHECK_RESULT;

/* The types of the group "net", for policy_put(). */
int policy_put_net_rule(struct cordon_policy *policy, const struct policy_key *key,
			const char *text, struct cordon_error *err) CHECK_RESULT;
int policy_put_publish(struct cordon_policy *policy, const struct policy_key *key, const char *text,
		       struct cordon_error *err) CHECK_RESULT;

/* gpu.c: the value of the key "gpu". */
int policy_put_gpu(struct cordon_policy *policy, const struct policy_key *key, const char *text,
		   struct cordon_error *err) CHECK_RESULT;

/* "unknown key '...'" with a suggestion. */
int policy_unknown_key(const char *name, struct cordon_error *err);

/* json_out.c */
int policy_is_set(const struct cordon_policy *policy, const struct policy_key *key);
struct json_writer;
void policy_write_value(struct json_writer *w, const struct cordon_policy *policy,
			const struct policy_key *key, const char *name);

int policy_nomem(struct cordon_error *err);

#endif

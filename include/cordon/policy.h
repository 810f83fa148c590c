/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy: what a run may do, as data.
 *
 * A policy starts empty (everything closed, the defaults of the policy reference) and is filled by
 * presets, JSON documents and single settings, in the order of the calls. Lists add up; a later
 * single value replaces an earlier one; deny beats allow.
 *
 * Ownership: the caller frees policies with cordon_policy_free(). All strings are copied. A call
 * that fails leaves the policy as it was. Threads: two threads must not change one policy at once;
 * starting any number of runs from a policy that does not change is safe. Fork: a policy is plain
 * memory.
 */
#ifndef CORDON_POLICY_H
#define CORDON_POLICY_H

#include <stddef.h>

#include <cordon/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct cordon_policy;

/** Makes an empty policy. Free it with cordon_policy_free(). */
int cordon_policy_new(struct cordon_policy **ret, struct cordon_error *err);

/** Frees the policy; runs that were started from it do not need it any more. NULL is fine. */
void cordon_policy_free(struct cordon_policy *policy);

/** Makes an independent copy. Free it with cordon_policy_free(). */
int cordon_policy_copy(const struct cordon_policy *policy, struct cordon_policy **ret,
		       struct cordon_error *err);

/** Merges a built-in preset: "agent", "python", "node", "build" or "strict". */
int cordon_policy_preset(struct cordon_policy *policy, const char *name, struct cordon_error *err);

/** Merges a JSON document. @name is used in messages (a file name). Relative paths in the
 * document are relative to @base_dir (NULL = the current directory at the start of a run). */
int cordon_policy_json(struct cordon_policy *policy, const char *text, size_t len, const char *name,
		       const char *base_dir, struct cordon_error *err);

/** Merges the JSON document in file @path; relative paths are relative to the file. */
int cordon_policy_file(struct cordon_policy *policy, const char *path, struct cordon_error *err);

/**
 * Adds or sets one value by its key in the policy reference, written as on the command line:
 * ("fs.read", "./data"), ("limits.wall", "30s"), ("env.set", "NAME=VALUE"), ("fs.protect", "off").
 */
int cordon_policy_set(struct cordon_policy *policy, const char *key, const char *value,
		      struct cordon_error *err);

/** The policy as canonical JSON; the caller frees *ret with cordon_free(). */
int cordon_policy_to_json(const struct cordon_policy *policy, char **ret, struct cordon_error *err);

/** One value of a policy, as text; lists have one for each entry. */
struct cordon_policy_setting {
	const char *key;	  /* "fs.read" */
	const char *value;	  /* as a flag takes it; NULL = not set, the default counts */
	const char *from;	  /* the name of the policy that says so, or "default" */
	const char *flag;	  /* long option without dashes */
	const char *default_text; /* the default in words */
};

/** Calls @call for every value that the @n policies in @sources add up to if they are merged in
 * this order, and for every key that none of them sets, in the order of the policy reference.
 * @names are theirs. What is passed is valid during the call. */
int cordon_policy_settings(const struct cordon_policy *const *sources, const char *const *names,
			   size_t n,
			   void (*call)(void *arg, const struct cordon_policy_setting *setting),
			   void *arg, struct cordon_error *err);

/** The JSON Schema of policies (static storage). */
const char *cordon_policy_schema(void);

/** Frees memory handed out by libcordon as `char *`. NULL is fine. */
void cordon_free(void *memory);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

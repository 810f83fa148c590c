/* SPDX-License-Identifier: Apache-2.0 */
/* Policies as objects: made, copied, merged, changed, freed. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "policy/policy_internal.h"

void policy_init(struct cordon_policy *policy)
{
	memset(policy, 0, sizeof(*policy));
	policy->protect = -1;
	policy->wall_ms = policy->grace_ms = policy->memory_bytes = policy->procs = -1;
	policy->cpu_milli = policy->cpu_time_ms = policy->open_files = -1;
	policy->disk_bytes = policy->file_size_bytes = policy->output_bytes = -1;
	policy->output_end = -1;
	policy->net_max_bytes = -1;
	policy->isolation = -1;
}

void policy_done(struct cordon_policy *policy)
{
	arena_done(&policy->arena);
	policy_init(policy);
}

int cordon_policy_new(struct cordon_policy **ret, struct cordon_error *err)
{
	struct cordon_policy *policy;

	if (!ret)
		return cordon_err(err, CORDON_E_USAGE, 0, "cordon_policy_new: ret is NULL");
	policy = malloc(sizeof(*policy));
	if (!policy)
		return policy_nomem(err);
	policy_init(policy);
	*ret = policy;
	return 0;
}

void cordon_policy_free(struct cordon_policy *policy)
{
	if (!policy)
		return;
	policy_done(policy);
	free(policy);
}

static int add_list(struct cordon_policy *dst, const struct policy_key *key,
		    const struct strlist *src, struct cordon_error *err)
{
	size_t i;
	int r = 0;

	for (i = 0; i < src->n && r == 0; i++)
		r = policy_put(dst, key, src->v[i], NULL, err);
	return r;
}

/* Adds what @src has set; its values were checked when they got there. */
static int add_all(struct cordon_policy *dst, const struct cordon_policy *src,
		   struct cordon_error *err)
{
	size_t i;
	int r = 0;

	for (i = 0; i < policy_keys_count && r == 0; i++) {
		const struct policy_key *key = &policy_keys[i];
		const void *at = (const char *)src + key->offset;

		if (policy_type_is_list(key->type)) {
			r = add_list(dst, key, at, err);
		} else if (policy_type_is_string(key->type)) {
			const char *text = *(const char *const *)at;

			if (text)
				r = policy_put(dst, key, text, NULL, err);
		} else if (key->type == POLICY_TYPE_BOOL || key->type == POLICY_TYPE_PROTECT ||
			   key->type == POLICY_TYPE_LEVEL) {
			if (*(const int *)at >= 0)
				*policy_choice(dst, key) = *(const int *)at;
		} else if (*(const int64_t *)at >= 0) {
			*policy_number(dst, key) = *(const int64_t *)at;
		}
	}
	if (src->commands_set)
		dst->commands_set = 1;
	return r;
}

/* As far as this one knows. */
static int here_is_presets(const struct cordon_policy *policy)
{
	return policy->here_is_presets || !strlist_has(&policy->fs_write, POLICY_HERE);
}

int policy_merge(struct cordon_policy *dst, const struct cordon_policy *src,
		 struct cordon_error *err)
{
	struct cordon_policy merged;
	int r;

	policy_init(&merged);
	r = add_all(&merged, dst, err);
	if (r == 0)
		r = add_all(&merged, src, err);
	if (r < 0) {
		policy_done(&merged);
		return r;
	}
	merged.here_is_presets = here_is_presets(dst) && here_is_presets(src) &&
				 strlist_has(&merged.fs_write, POLICY_HERE);
	policy_settle_here(&merged);
	policy_done(dst);
	*dst = merged;
	return 0;
}

int cordon_policy_copy(const struct cordon_policy *policy, struct cordon_policy **ret,
		       struct cordon_error *err)
{
	struct cordon_policy *copy = NULL;
	int r;

	if (!policy || !ret)
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "cordon_policy_copy: an argument is NULL");
	r = cordon_policy_new(&copy, err);
	if (!copy)
		return r;
	r = add_all(copy, policy, err);
	if (r < 0) {
		cordon_policy_free(copy);
		return r;
	}
	copy->here_is_presets = policy->here_is_presets;
	*ret = copy;
	return 0;
}

/* "A,B" adds two entries. All of them are checked before the first is added. */
static int set_list(struct cordon_policy *policy, const struct policy_key *key, const char *value,
		    struct cordon_error *err)
{
	struct cordon_policy entries;
	const char *at = value;
	int r = 0;

	policy_init(&entries);
	policy_touch(&entries, key);
	while (r == 0 && *value) {
		size_t len = strcspn(at, ",");
		const char *one = arena_strndup(&entries.arena, at, len);

		r = one ? policy_put(&entries, key, one, NULL, err) : policy_nomem(err);
		if (!at[len])
			break;
		at += len + 1;
	}
	if (r == 0)
		r = policy_merge(policy, &entries, err);
	policy_done(&entries);
	return r;
}

int cordon_policy_set(struct cordon_policy *policy, const char *key_name, const char *value,
		      struct cordon_error *err)
{
	const struct policy_key *key;

	if (!policy || !key_name || !value)
		return cordon_err(err, CORDON_E_USAGE, 0, "cordon_policy_set: an argument is NULL");
	key = policy_key_find(key_name);
	if (!key)
		return policy_unknown_key(key_name, err);
	if (key->type == POLICY_TYPE_COMMANDS || key->type == POLICY_TYPE_LAYERS ||
	    key->type == POLICY_TYPE_LIMITS)
		return set_list(policy, key, value, err);
	return policy_put(policy, key, value, NULL, err);
}

void cordon_free(void *memory)
{
	free(memory);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The value of the key "gpu": which GPUs there are is the plan's business; here is the form. */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "policy/policy_internal.h"

#define TEXT_MAX 1024
#define INDEX_DIGITS_MAX 2
#define RENDER_DIGITS_MAX 4
#define UUID_MAX 64

static size_t digits_of(const char *s, size_t len)
{
	size_t n = 0;

	while (n < len && isdigit((unsigned char)s[n]))
		n++;
	return n;
}

static bool is_uuid(const char *s, size_t len)
{
	static const char prefix[] = "GPU-";
	size_t n = sizeof(prefix) - 1;

	if (len <= n || len > UUID_MAX || strncmp(s, prefix, n) != 0)
		return false;
	for (; n < len; n++)
		if (!isxdigit((unsigned char)s[n]) && s[n] != '-')
			return false;
	return true;
}

static bool is_render(const char *s, size_t len)
{
	static const char prefix[] = "renderD";
	size_t n = sizeof(prefix) - 1;

	return len > n && len <= n + RENDER_DIGITS_MAX && strncmp(s, prefix, n) == 0 &&
	       digits_of(s + n, len - n) == len - n;
}

static bool is_name(const char *s, size_t len)
{
	if (len > 0 && len <= INDEX_DIGITS_MAX && digits_of(s, len) == len)
		return true;
	return is_uuid(s, len) || is_render(s, len);
}

static int refuse(const struct policy_key *key, const char *text, size_t len,
		  struct cordon_error *err)
{
	cordon_err(err, CORDON_E_POLICY, 0, "%s: '%.*s' names no GPU", key->name,
		   (int)(len < 80 ? len : 80), text);
	if (len > 4 && strncmp(text, "MIG-", 4) == 0)
		cordon_err_hint(err, "a part of a GPU cannot be given alone: name the GPU");
	else
		cordon_err_hint(err, "all, none, numbers as nvidia-smi counts (0,1), UUIDs "
				     "(GPU-...) or render nodes (renderD128)");
	return -CORDON_E_POLICY;
}

int policy_put_gpu(struct cordon_policy *policy, const struct policy_key *key, const char *text,
		   struct cordon_error *err)
{
	const char *copy, *at = text;

	if (strlen(text) > TEXT_MAX)
		return cordon_err(err, CORDON_E_POLICY, 0, "%s: longer than %d bytes", key->name,
				  TEXT_MAX);
	while (strcmp(text, "all") != 0 && strcmp(text, "none") != 0) {
		size_t len = strcspn(at, ",");

		if (!is_name(at, len))
			return refuse(key, at, len, err);
		if (!at[len])
			break;
		at += len + 1;
	}
	copy = arena_strdup(&policy->arena, text);
	if (!copy)
		return policy_nomem(err);
	*policy_string(policy, key) = copy;
	return 0;
}

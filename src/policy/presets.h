/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in policies, as lists of settings. */
#ifndef POLICY_PRESETS_H
#define POLICY_PRESETS_H

#include <stddef.h>

struct policy_setting {
	const char *key, *value; /* as for cordon_policy_set() */
};

struct policy_preset {
	const char *name;
	const char *doc; /* one line */
	const struct policy_setting *settings;
	size_t n_settings;
};

extern const struct policy_preset policy_presets[];
extern const size_t policy_presets_count;

#endif

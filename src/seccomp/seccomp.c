/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "base/macros.h"
#include "seccomp/seccomp.h"

/* The first ABI that restricts TCP, and the first that restricts pathname Unix sockets. */
#define LANDLOCK_ABI_TCP 4
#define LANDLOCK_ABI_UNIX 9

static const char *const variant_names[] = {
	[SECCOMP_NAMESPACES] = "namespaces",
	[SECCOMP_LANDLOCK] = "landlock",
	[SECCOMP_LANDLOCK_NO_UNIX] = "landlock-no-unix",
	[SECCOMP_LANDLOCK_OLD] = "landlock-old",
	[SECCOMP_NAMESPACES_COMMANDS] = "namespaces-commands",
	[SECCOMP_LANDLOCK_COMMANDS] = "landlock-commands",
	[SECCOMP_LANDLOCK_NO_UNIX_COMMANDS] = "landlock-no-unix-commands",
	[SECCOMP_LANDLOCK_OLD_COMMANDS] = "landlock-old-commands",
};
_Static_assert(ARRAY_SIZE(variant_names) == SECCOMP_VARIANT_MAX, "every variant has a name");

const struct seccomp_filter *seccomp_filter_get(unsigned int variant)
{
	return variant < SECCOMP_VARIANT_MAX ? &seccomp_filters[variant] : NULL;
}

const char *seccomp_variant_name(unsigned int variant)
{
	return variant < SECCOMP_VARIANT_MAX ? variant_names[variant] : NULL;
}

enum seccomp_variant seccomp_variant_for_landlock(int abi)
{
	if (abi >= LANDLOCK_ABI_UNIX)
		return SECCOMP_LANDLOCK;
	return abi >= LANDLOCK_ABI_TCP ? SECCOMP_LANDLOCK_NO_UNIX : SECCOMP_LANDLOCK_OLD;
}

enum seccomp_variant seccomp_variant_with_commands(enum seccomp_variant variant)
{
	if (variant >= SECCOMP_NAMESPACES_COMMANDS)
		return variant;
	return variant + (SECCOMP_NAMESPACES_COMMANDS - SECCOMP_NAMESPACES);
}

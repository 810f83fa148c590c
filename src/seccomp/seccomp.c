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
	[SECCOMP_LANDLOCK_NET] = "landlock-net",
	[SECCOMP_LANDLOCK_NO_UNIX_NET] = "landlock-no-unix-net",
	[SECCOMP_LANDLOCK_COMMANDS_NET] = "landlock-commands-net",
	[SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_NET] = "landlock-no-unix-commands-net",
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
	if (variant < SECCOMP_NAMESPACES_COMMANDS)
		return variant + (SECCOMP_NAMESPACES_COMMANDS - SECCOMP_NAMESPACES);
	if (variant == SECCOMP_LANDLOCK_NET || variant == SECCOMP_LANDLOCK_NO_UNIX_NET)
		return variant + (SECCOMP_LANDLOCK_COMMANDS_NET - SECCOMP_LANDLOCK_NET);
	return variant;
}

enum seccomp_variant seccomp_variant_with_net(enum seccomp_variant variant)
{
	static const struct {
		enum seccomp_variant plain, net;
	} flavours[] = {
		{ SECCOMP_LANDLOCK, SECCOMP_LANDLOCK_NET },
		{ SECCOMP_LANDLOCK_NO_UNIX, SECCOMP_LANDLOCK_NO_UNIX_NET },
		{ SECCOMP_LANDLOCK_COMMANDS, SECCOMP_LANDLOCK_COMMANDS_NET },
		{ SECCOMP_LANDLOCK_NO_UNIX_COMMANDS, SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_NET },
	};

	for (size_t i = 0; i < ARRAY_SIZE(flavours); i++)
		if (flavours[i].plain == variant)
			return flavours[i].net;
	return variant;
}

int seccomp_variant_has_net(unsigned int variant)
{
	return variant >= SECCOMP_LANDLOCK_NET && variant < SECCOMP_VARIANT_MAX;
}

int seccomp_variant_has_unix(unsigned int variant)
{
	static const unsigned char has_unix[SECCOMP_VARIANT_MAX] = {
		[SECCOMP_NAMESPACES] = 1,	   [SECCOMP_LANDLOCK] = 1,
		[SECCOMP_NAMESPACES_COMMANDS] = 1, [SECCOMP_LANDLOCK_COMMANDS] = 1,
		[SECCOMP_LANDLOCK_NET] = 1,	   [SECCOMP_LANDLOCK_COMMANDS_NET] = 1,
	};

	return variant < SECCOMP_VARIANT_MAX && has_unix[variant];
}

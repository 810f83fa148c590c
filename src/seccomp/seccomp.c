/* SPDX-License-Identifier: Apache-2.0 */
#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/falloc.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

#include "base/macros.h"
#include "seccomp/seccomp.h"

/* The first ABI that restricts TCP, signals, and pathname Unix sockets. */
#define LANDLOCK_ABI_TCP 4
#define LANDLOCK_ABI_SIGNALS 6
#define LANDLOCK_ABI_UNIX 9

/* Older names of fallocate(), which the kernel accepts for any file. */
#define IOC_RESVSP 0x40305828u
#define IOC_RESVSP64 0x4030582au
#define IOC_ZERO_RANGE 0x40305839u

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
	[SECCOMP_LANDLOCK_NO_UNIX_SIGNALS] = "landlock-no-unix-signals",
	[SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_SIGNALS] = "landlock-no-unix-commands-signals",
	[SECCOMP_LANDLOCK_NO_UNIX_NET_SIGNALS] = "landlock-no-unix-net-signals",
	[SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_NET_SIGNALS] = "landlock-no-unix-commands-net-signals",
	[SECCOMP_LANDLOCK_OLD_SIGNALS] = "landlock-old-signals",
	[SECCOMP_LANDLOCK_OLD_COMMANDS_SIGNALS] = "landlock-old-commands-signals",
};
_Static_assert(ARRAY_SIZE(variant_names) == SECCOMP_VARIANT_MAX, "every variant has a name");

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF_EQUAL(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, yes, no)
#define IF_ANY(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, k, yes, no)

/* The main filter handles other architectures and x32; its stricter verdict wins. The kernel uses
 * the low halves of the arguments. */
static const struct sock_filter no_reserve[] = {
	LOAD(nr),
	IF_EQUAL(__NR_fallocate, 0, 2),
	LOAD(args[1]),
	IF_ANY(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE, 6, 5),
	IF_EQUAL(__NR_ioctl, 0, 5),
	LOAD(args[1]),
	IF_EQUAL(IOC_RESVSP, 2, 0),
	IF_EQUAL(IOC_RESVSP64, 1, 0),
	IF_EQUAL(IOC_ZERO_RANGE, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

const struct seccomp_filter seccomp_no_reserve = { no_reserve, ARRAY_SIZE(no_reserve) };

static const struct sock_filter no_landlock[] = {
	LOAD(nr),
	BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, __NR_landlock_create_ruleset, 0, 2),
	BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, __NR_landlock_restrict_self, 1, 0),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
_Static_assert(__NR_landlock_restrict_self == __NR_landlock_create_ruleset + 2, "neighbours");

const struct seccomp_filter seccomp_no_landlock = { no_landlock, ARRAY_SIZE(no_landlock) };

#ifndef __NR_setxattrat
#define __NR_setxattrat 463
#endif

static const struct sock_filter no_attributes[] = {
	LOAD(nr),
	IF_EQUAL(__NR_setxattr, 3, 0),
	IF_EQUAL(__NR_lsetxattr, 2, 0),
	IF_EQUAL(__NR_fsetxattr, 1, 0),
	IF_EQUAL(__NR_setxattrat, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

const struct seccomp_filter seccomp_no_attributes = { no_attributes, ARRAY_SIZE(no_attributes) };

#define CLONE_VM_ 0x100u
#define CLONE_VFORK_ 0x4000u
#define CLONE_THREAD_ 0x10000u

static const struct sock_filter no_shared_memory[] = {
	LOAD(nr),
	IF_EQUAL(__NR_clone, 0, 4),
	LOAD(args[0]),
	BPF_STMT(BPF_ALU | BPF_AND | BPF_K, CLONE_VM_ | CLONE_VFORK_ | CLONE_THREAD_),
	IF_EQUAL(CLONE_VM_, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

const struct seccomp_filter seccomp_no_shared_memory = { no_shared_memory,
							 ARRAY_SIZE(no_shared_memory) };

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

enum seccomp_variant seccomp_variant_with_signals(enum seccomp_variant variant, int abi)
{
	static const struct {
		enum seccomp_variant plain, signals;
	} flavours[] = {
		{ SECCOMP_LANDLOCK_NO_UNIX, SECCOMP_LANDLOCK_NO_UNIX_SIGNALS },
		{ SECCOMP_LANDLOCK_NO_UNIX_COMMANDS, SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_SIGNALS },
		{ SECCOMP_LANDLOCK_NO_UNIX_NET, SECCOMP_LANDLOCK_NO_UNIX_NET_SIGNALS },
		{ SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_NET,
		  SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_NET_SIGNALS },
		{ SECCOMP_LANDLOCK_OLD, SECCOMP_LANDLOCK_OLD_SIGNALS },
		{ SECCOMP_LANDLOCK_OLD_COMMANDS, SECCOMP_LANDLOCK_OLD_COMMANDS_SIGNALS },
	};

	for (size_t i = 0; abi < LANDLOCK_ABI_SIGNALS && i < ARRAY_SIZE(flavours); i++)
		if (flavours[i].plain == variant)
			return flavours[i].signals;
	return variant;
}

int seccomp_variant_has_net(unsigned int variant)
{
	return (variant >= SECCOMP_LANDLOCK_NET &&
		variant <= SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_NET) ||
	       variant == SECCOMP_LANDLOCK_NO_UNIX_NET_SIGNALS ||
	       variant == SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_NET_SIGNALS;
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

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SECCOMP_SECCOMP_H
#define SECCOMP_SECCOMP_H

/*
 * The system call filters, compiled at build time from syscalls.tbl by tools/gen-filters.py.
 *
 * Nothing here needs a C library: the arrays and functions link into the freestanding init as
 * well as into the library. The caller installs a filter:
 *
 *	const struct seccomp_filter *f = seccomp_filter_get(variant);
 *	struct sock_fprog prog = { .len = f->len, .filter = (struct sock_filter *)f->insns };
 *
 * A filter refuses what it does not know with ENOSYS and ends the process on system calls of
 * another architecture. It refuses mount, unshare, setns and chroot, so it is installed last. The
 * variants for runs without namespaces hand changes of metadata (and those for runs with a network
 * also connect) to a listener; without one these calls give ENOSYS.
 */

struct sock_filter;

enum seccomp_variant {
	SECCOMP_NAMESPACES,	  /* own namespaces */
	SECCOMP_LANDLOCK,	  /* no namespaces, Landlock ABI 9 or later */
	SECCOMP_LANDLOCK_NO_UNIX, /* no namespaces, Landlock ABI 4 to 8 */
	SECCOMP_LANDLOCK_OLD,	  /* no namespaces, Landlock ABI 1 to 3 */
	/* The same for runs that may execute listed programs only, in the same order. */
	SECCOMP_NAMESPACES_COMMANDS,
	SECCOMP_LANDLOCK_COMMANDS,
	SECCOMP_LANDLOCK_NO_UNIX_COMMANDS,
	SECCOMP_LANDLOCK_OLD_COMMANDS,
	/* Some hosts may be reached: connect() goes to the listener, too. */
	SECCOMP_LANDLOCK_NET,
	SECCOMP_LANDLOCK_NO_UNIX_NET,
	SECCOMP_LANDLOCK_COMMANDS_NET,
	SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_NET,
	/* Landlock ABI 1 to 5: signals go to the listener, and those of OLD truncate() as well. */
	SECCOMP_LANDLOCK_NO_UNIX_SIGNALS,
	SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_SIGNALS,
	SECCOMP_LANDLOCK_NO_UNIX_NET_SIGNALS,
	SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_NET_SIGNALS,
	SECCOMP_LANDLOCK_OLD_SIGNALS,
	SECCOMP_LANDLOCK_OLD_COMMANDS_SIGNALS,
	SECCOMP_VARIANT_MAX,
};

struct seccomp_filter {
	const struct sock_filter *insns;
	unsigned short len;
};

/*
 * A second filter, under the others, for runs whose disk space is watched: it refuses to
 * reserve space in one call, which no watch could stop in time. Those calls say EOPNOTSUPP, as some
 * file systems do, and C libraries then write zeros. Giving space back is allowed.
 */
extern const struct seccomp_filter seccomp_no_reserve;

/*
 * Another, for runs whose memory init's watch limits: rulesets have any number of rules, which are
 * kernel memory that only a control group counts. It says what a kernel without Landlock says.
 */
extern const struct seccomp_filter seccomp_no_landlock;

/*
 * Another, for runs as uid 0 without namespaces, whose tasks the kernel does not count: processes
 * that share their memory without waiting for one another are made ten times as fast as others, too
 * fast to be caught. Threads, vfork() and posix_spawn() are not meant.
 */
extern const struct seccomp_filter seccomp_no_shared_memory;

/*
 * Another, for runs that execute an image: all of them have the same file, and its extended
 * attributes, which no seal protects, would lead from one to the other.
 */
extern const struct seccomp_filter seccomp_no_attributes;

/* Indexed by variant; never NULL inside. */
extern const struct seccomp_filter seccomp_filters[SECCOMP_VARIANT_MAX];

/* NULL if @variant is not valid: it may come straight from a plan. */
const struct seccomp_filter *seccomp_filter_get(unsigned int variant);

/* "namespaces", "landlock", ...; NULL if @variant is not valid. */
const char *seccomp_variant_name(unsigned int variant);

/* The variant for runs without namespaces on a kernel with this Landlock ABI (1 or more). */
enum seccomp_variant seccomp_variant_for_landlock(int abi);

/* The flavour of @variant for an allow-list of programs; itself if it is one already. */
enum seccomp_variant seccomp_variant_with_commands(enum seccomp_variant variant);

/* The flavour of @variant for runs with a network; itself if there is none: with namespaces none
 * is needed, and where Landlock does not restrict TCP there can be no network. */
enum seccomp_variant seccomp_variant_with_net(enum seccomp_variant variant);

/* The flavour of @variant for runs whose signals init sends; itself where Landlock keeps them
 * inside, which it does from @abi 6 on, and with namespaces. Comes last, after the two above. */
enum seccomp_variant seccomp_variant_with_signals(enum seccomp_variant variant, int abi);

/* Does connect() go to the listener? @variant may come straight from a plan. */
int seccomp_variant_has_net(unsigned int variant);

/* Can Unix sockets be made that are not permanently connected? */
int seccomp_variant_has_unix(unsigned int variant);

#endif

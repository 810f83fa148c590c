/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock as the newest kernels know it; the headers of the build machine lag behind.
 *
 * Each right appears with the ABI version that brought it. A kernel refuses a ruleset that handles
 * a right it does not know, so the mask has to fit the version exactly (LL_FS_RIGHTS and so on).
 */
#ifndef UAPI_LANDLOCK_H
#define UAPI_LANDLOCK_H

#include <stdint.h>

#define LL_CREATE_RULESET_VERSION (1u << 0)

/* The newest version whose rights are in this file. */
#define LANDLOCK_ABI_KNOWN 10

#define LL_FS_EXECUTE (1ull << 0)
#define LL_FS_WRITE_FILE (1ull << 1)
#define LL_FS_READ_FILE (1ull << 2)
#define LL_FS_READ_DIR (1ull << 3)
#define LL_FS_REMOVE_DIR (1ull << 4)
#define LL_FS_REMOVE_FILE (1ull << 5)
#define LL_FS_MAKE_CHAR (1ull << 6)
#define LL_FS_MAKE_DIR (1ull << 7)
#define LL_FS_MAKE_REG (1ull << 8)
#define LL_FS_MAKE_SOCK (1ull << 9)
#define LL_FS_MAKE_FIFO (1ull << 10)
#define LL_FS_MAKE_BLOCK (1ull << 11)
#define LL_FS_MAKE_SYM (1ull << 12)
#define LL_FS_REFER (1ull << 13)	/* ABI 2, Linux 5.19 */
#define LL_FS_TRUNCATE (1ull << 14)	/* ABI 3, Linux 6.2 */
#define LL_FS_IOCTL_DEV (1ull << 15)	/* ABI 5, Linux 6.10 */
#define LL_FS_RESOLVE_UNIX (1ull << 16) /* ABI 9 */

#define LL_NET_BIND_TCP (1ull << 0)	    /* ABI 4, Linux 6.7 */
#define LL_NET_CONNECT_TCP (1ull << 1)	    /* ABI 4 */
#define LL_NET_BIND_UDP (1ull << 2)	    /* ABI 10 */
#define LL_NET_CONNECT_SEND_UDP (1ull << 3) /* ABI 10 */
#define LL_NET_TCP (LL_NET_BIND_TCP | LL_NET_CONNECT_TCP)

#define LL_SCOPE_ABSTRACT_UNIX (1ull << 0) /* ABI 6, Linux 6.12 */
#define LL_SCOPE_SIGNAL (1ull << 1)	   /* ABI 6 */

/* The only rights a rule on something that is not a directory may have. */
#define LL_FS_FILE_RIGHTS                                                                          \
	(LL_FS_EXECUTE | LL_FS_WRITE_FILE | LL_FS_READ_FILE | LL_FS_TRUNCATE | LL_FS_IOCTL_DEV)

static inline uint64_t landlock_fs_rights(int abi)
{
	uint64_t rights = 0;

	if (abi >= 1)
		rights |= LL_FS_REFER - 1;
	if (abi >= 2)
		rights |= LL_FS_REFER;
	if (abi >= 3)
		rights |= LL_FS_TRUNCATE;
	if (abi >= 5)
		rights |= LL_FS_IOCTL_DEV;
	if (abi >= 9)
		rights |= LL_FS_RESOLVE_UNIX;
	return rights;
}

static inline uint64_t landlock_net_rights(int abi)
{
	if (abi >= 10)
		return LL_NET_TCP | LL_NET_BIND_UDP | LL_NET_CONNECT_SEND_UDP;
	return abi >= 4 ? LL_NET_TCP : 0;
}

static inline uint64_t landlock_scopes(int abi)
{
	return abi >= 6 ? LL_SCOPE_ABSTRACT_UNIX | LL_SCOPE_SIGNAL : 0;
}

#endif

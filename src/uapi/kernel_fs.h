/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UAPI_KERNEL_FS_H
#define UAPI_KERNEL_FS_H

/*
 * File systems that are interfaces of the kernel. What they show is the host's own state (its
 * processes, devices, queues, huge pages), wherever they are mounted; none of it is granted by a
 * grant of a directory. Not here: devtmpfs, which the kernel calls a tmpfs; devices in a grant
 * cannot be opened (`nodev`).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static const struct kernel_fs {
	const char *name;
	uint32_t magic;
} kernel_fs[] = {
	{ "proc", 0x9fa0 },	     { "sysfs", 0x62656572 },	   { "cgroup", 0x27e0eb },
	{ "cgroup2", 0x63677270 },   { "cpuset", 0x27e0eb },	   { "debugfs", 0x64626720 },
	{ "tracefs", 0x74726163 },   { "configfs", 0x62656570 },   { "securityfs", 0x73636673 },
	{ "bpf", 0xcafe4a11 },	     { "pstore", 0x6165676c },	   { "efivarfs", 0xde5e81e4 },
	{ "selinuxfs", 0xf97cff8c }, { "smackfs", 0x43415d53 },	   { "binfmt_misc", 0x42494e4d },
	{ "hugetlbfs", 0x958458f6 }, { "mqueue", 0x19800202 },	   { "devpts", 0x1cd1 },
	{ "fusectl", 0x65735543 },   { "rpc_pipefs", 0x67596969 }, { "nfsd", 0x6e667364 },
	{ "resctrl", 0x07655821 },   { "binder", 0x6c6f6f70 },	   { "functionfs", 0xa647361 },
	{ "gadgetfs", 0xaee71ee7 },  { "xenfs", 0xabba1974 },
};

/* By what statfs() says; NULL if it is none. */
static inline const char *kernel_fs_of(uint64_t magic)
{
	for (size_t i = 0; i < sizeof(kernel_fs) / sizeof(kernel_fs[0]); i++)
		if (kernel_fs[i].magic == (uint32_t)magic)
			return kernel_fs[i].name;
	return NULL;
}

/* By the type in mountinfo. */
static inline bool is_kernel_fs(const char *type)
{
	for (size_t i = 0; i < sizeof(kernel_fs) / sizeof(kernel_fs[0]); i++) {
		const char *a = kernel_fs[i].name, *b = type;

		while (*a && *a == *b)
			a++, b++;
		if (*a == *b)
			return true;
	}
	return false;
}

#endif

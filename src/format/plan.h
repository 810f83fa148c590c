/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan as init reads it: one flat block, offsets instead of pointers, no decisions left in it.
 *
 * Theory of operation. The supervisor resolves a policy against this machine and writes the outcome
 * here; init maps the block read-only from a sealed memfd, checks every offset once
 * (plan_read_check) and then carries out `ops` in order. Stdio pipes and detached mounts travel as
 * descriptors beside the block. Strings are NUL-terminated and
 * lie in [strings_off, size); offset 0 means "no string".
 */
#ifndef FORMAT_PLAN_H
#define FORMAT_PLAN_H

#include <stdint.h>

#define PLAN_MAGIC 0x4e4c5043u
#define PLAN_VERSION 6
#define PLAN_SIZE_MAX (8u << 20)
#define PLAN_OPS_MAX 8192
#define PLAN_RLIMITS_MAX 16
#define PLAN_MOUNT_FDS_MAX 1024
#define PLAN_NET_PORTS_MAX 64

enum plan_op_type {
	PLAN_OP_DIR = 1, /* directory `dst` with `mode` in the root tmpfs; fine if it exists */
	PLAN_OP_SYMLINK, /* symbolic link `dst` with text `src` in the root tmpfs */
	PLAN_OP_FILE,	 /* file `dst` with `mode` and the `data_len` bytes at offset `src` */
	PLAN_OP_BIND,	 /* the object `src` (or mount descriptor `fd_index`) appears at `dst` */
	PLAN_OP_PRIVATE, /* directory `dst` of the root tmpfs becomes writable */
	PLAN_OP_PROC,	 /* a new procfs at `dst`, its sys/ read-only */
	PLAN_OP_DEVPTS,	 /* a new devpts instance at `dst` */
	PLAN_OP_PIN,   /* `dst` is mounted over itself, or the view's file `src` over it: cannot be
			  renamed or removed any more */
	PLAN_OP_MASK,  /* `dst` is covered by an object that cannot be opened */
	PLAN_OP_UPPER, /* `src` (or `fd_index`) has the "upper" and "work" of the next step */
	PLAN_OP_OVERLAY, /* `src` (or `fd_index`) below that upper directory appears at `dst` */
	PLAN_OP_RULE,	 /* Landlock rule for the object `src`; nothing is mounted */
	PLAN_OP_MAX
};

/* plan_op.flags */
#define PLAN_RDONLY 0x1u    /* mount read-only (with everything below it) */
#define PLAN_NOEXEC 0x2u    /* mount noexec */
#define PLAN_FILE 0x4u	    /* the object is not a directory */
#define PLAN_MKPOINT 0x8u   /* create the mount point first: in the root tmpfs; MASK: in the view */
#define PLAN_IDENTITY 0x10u /* the object must have the given dev and ino */
#define PLAN_DEVICE 0x20u   /* a device node: without nodev */
#define PLAN_REUSED 0x40u   /* `dst` lies where earlier runs wrote: no link on the way to it */
#define PLAN_IF_THERE 0x100u   /* RULE: nothing is granted if the object is gone or another one */
#define PLAN_UNMAPPED 0x200u   /* `src` is readable for the run's user: no id mapping */
#define PLAN_PROTECTED 0x400u  /* PIN: because of fs.protect, and not for a name above it */
#define PLAN_PRIVATE_DIR 0x80u /* `src` belongs to the run: no id mapping; its usage counts */

struct plan_op {
	uint16_t type, flags;
	uint32_t mode;
	uint32_t dst, src; /* string offsets */
	uint32_t data_len;
	int32_t fd_index; /* index of a passed detached mount, -1 = open `src` */
	uint32_t dev_major, dev_minor;
	uint64_t ino;
	uint64_t access; /* Landlock rights of a rule on this object, 0 = no rule */
};

struct plan_rlimit {
	uint32_t resource, pad;
	uint64_t soft, hard;
};

/* plan_header.flags */
#define PLAN_MAP_SELF 0x1u     /* init maps its ids itself, first of all (started by a user) */
#define PLAN_SETIDS 0x2u       /* init takes inner_uid/inner_gid by setresuid (started by root) */
#define PLAN_DROP_GROUPS 0x4u  /* and drops supplementary groups */
#define PLAN_PDEATHSIG 0x8u    /* the supervisor runs on its main thread: parent-death signal too */
#define PLAN_LOOPBACK_UP 0x10u /* raise lo */
#define PLAN_TERMINAL 0x20u    /* the command gets a terminal, and no stream is handed over */
#define PLAN_NET_ALLOW 0x40u   /* every address leads to the gateway, on the ports below */
#define PLAN_FILES 0x100u      /* nothing is executed: files are served (cordon/files.h) */
#define PLAN_SESSION 0x400u    /* nothing is executed yet: commands come by CONTROL_EXEC */
#define PLAN_LOSES_TMP                                                                             \
	0x200u /* what is left in /tmp (level landlock: TMPDIR) is gone afterwards                 \
		*/

enum plan_level {
	PLAN_LEVEL_LANDLOCK = 1,
	PLAN_LEVEL_NAMESPACES = 2
};

struct plan_header {
	uint32_t magic, version, size, strings_off;
	uint32_t level, flags;
	uint32_t ops_off, n_ops;
	uint32_t argv_off, n_argv; /* arrays of string offsets */
	uint32_t envp_off, n_envp;
	uint32_t exec_path; /* 0 with PLAN_FILES and PLAN_SESSION */
	uint32_t cwd, hostname;
	uint32_t workspace; /* its path, as the command sees it; 0 = none */
	uint32_t inner_uid, inner_gid, outer_uid, outer_gid;
	uint32_t filter; /* enum seccomp_variant */
	uint32_t n_mount_fds;
	uint32_t n_rlimits;
	uint32_t n_net_ports;
	uint32_t n_common_ops; /* the first steps are the same for each run: a parked init did them
				*/
	uint32_t lost_home; /* the home, if what is left in it is gone afterwards; 0 = it is not */
	uint64_t handled_fs, handled_net, scoped; /* Landlock ruleset */
	uint64_t tmpfs_bytes, tmpfs_inodes;
	struct plan_rlimit rlimits[PLAN_RLIMITS_MAX];
	uint16_t net_ports[PLAN_NET_PORTS_MAX];
};

#endif

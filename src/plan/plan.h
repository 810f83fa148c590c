/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a policy to a plan: everything a run needs, resolved against this machine.
 *
 * plan_build() opens each granted object once, by descriptor, and writes down what it is (device
 * and inode) and where it lies; init uses that very object or fails. The outcome is one flat block
 * for init (plan_format.h) and the few things only the supervisor can do: the descriptors that
 * become detached mounts, and the names that have to be reserved by a placeholder.
 *
 * Order of the steps in the block (level namespaces): root and system directories, /etc, /proc and
 * /dev, private directories, then grants, pins and masks with each path after all its ancestors, so
 * that init needs no sorting and no recursion. Every directory that has to be made on the root
 * tmpfs is a step of its own.
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cordon/run.h>

#include "base/arena.h"
#include "format/gateway.h"
#include "format/meter.h"
#include "format/plan.h"
#include "git/nested.h"
#include "policy/policy.h"
#include "probe/probe.h"

struct plan;

struct plan_input {
	const struct cordon_policy *policy;
	const struct cordon_run_options *options;
	int level; /* enum plan_level */
	const struct probe_machine *machine;
	int is_main_thread; /* the parent-death signal can be used */
	/* Level landlock: a directory of mode 0700 the launcher made for this run, with a directory
	 * "home" in it. */
	const char *tmpdir;
	bool has_cgroup;     /* the run's own limits memory and tasks, counts CPU time ... */
	bool has_cgroup_cpu; /* ... and the share of the CPUs */
	const struct plan_workspace *workspace; /* NULL = none */
	const struct plan_private *private_dir; /* NULL = none */
	const struct plan_private_dir *code;	/* the run's program; NULL = none */
	const char *lock_dir;			/* hidden from the command; NULL = none */
	bool may_be_nobody;  /* level landlock, root: another id can be taken (probe.h) */
	uint16_t proxy_port; /* level landlock, with a network: the proxy's, on 127.0.0.1; else 0 */
	/* Level landlock, for the calling process itself: there is no command to start, no private
	 * directory, no environment and no limit of a tree. argv[0], if there is one, is the
	 * program that runs already. */
	bool is_self;
	/* Level namespaces: called as soon as the common steps are known, with a plan of nothing
	 * else, which lives no longer than the call. An error of it is one of plan_build().
	 * NULL = no need. */
	int (*common_is_known)(void *ctx, const struct plan *common, struct cordon_error *err);
	void *ctx;
};

/* The directory that the run sees a copy-on-write view of (fs.workspace), and where that is kept.
 */
struct plan_workspace {
	const char *base; /* real path */
	dev_t base_dev;
	ino_t base_ino;
	const char *dir;     /* absolute: of the layers (upper, work), or of the copy itself */
	int dir_fd;	     /* the same, borrowed */
	const char *content; /* absolute: upper layer or copy, where files of earlier runs lie */
	bool is_copy;
};

/* One of the two directories of a private directory, or the one with the run's program. */
struct plan_private_dir {
	const char *path; /* real */
	int fd;		  /* O_PATH, borrowed; -1 = it is not there (a plan that is only shown) */
	dev_t dev;
	ino_t ino;
};

/* The directory that keeps /tmp and home between runs. */
struct plan_private {
	const char *dir; /* real path */
	struct plan_private_dir tmp, home;
};

/* Limits that init or the supervisor enforces; 0 = none, unless said otherwise. */
struct plan_limits {
	uint64_t wall_ms;
	int64_t output_bytes;	 /* -1 = not set */
	int64_t file_size_bytes; /* -1 = not set */
	bool output_end;	 /* reaching it ends the run */
	uint64_t grace_ms;
	uint64_t memory_bytes;
	uint64_t cpu_milli, cpu_time_ms;
	uint64_t procs;	       /* the kernel allows the tree no more */
	uint64_t end_at_procs; /* the run is ended beyond it */
	uint64_t disk_bytes;   /* what the tmpfs lets the command have */
	/* Of workspace and private directory; the run is ended beyond it. */
	uint64_t workspace_bytes, workspace_inodes;
};

/*
 * A name that does not exist yet and must not come into being: the launcher reserves it with a
 * placeholder (placeholder.h) before init runs and removes that after the run. If the name exists
 * by then, planning has to be repeated.
 */
struct plan_reserved {
	int dir_fd;	  /* O_PATH; owned by the plan, and the same for neighbours */
	const char *name; /* one component */
	const char *path; /* full path, for messages */
	const char *text; /* content of the placeholder; NULL = a socket that cannot be opened */
	bool is_dir;	  /* an empty directory instead */
};

/* A port of the sandbox's that the host shall reach. The launcher opens the host's side. */
struct plan_publish {
	struct net_addr addr;
	uint16_t host_port; /* 0 = any that is free */
	uint16_t port;	    /* inside */
	int protocol;	    /* enum gateway_protocol; UDP of an entry follows its TCP */
};

struct plan {
	struct arena arena;
	struct arena block_arena; /* of @block, before plan_map_block() */
	void *block;		  /* struct plan_header and what belongs to it */
	size_t block_size;
	bool is_mapped;
	int *mount_fds; /* O_PATH, owned by the plan; [i] becomes the detached mount of fd_index i
			 */
	size_t n_mount_fds;
	struct plan_reserved *reserved;
	size_t n_reserved;
	struct plan_reserved
		*absent; /* protected names that are not held: new ones are put aside */
	size_t n_absent;
	struct git_repo
		*repos; /* for the launcher to look at; its descriptors belong to the plan */
	size_t n_repos;
	/* Names that init makes in the workspace to cover them: nothing the command made. Relative
	 * to the base. */
	const char **covered;
	size_t n_covered;
	const char *cwd, *home;	 /* the caller's, for messages; NULL = none */
	const char *caller_path; /* the caller's PATH, the same */
	const char **notes;	 /* remarks for a terminal, one line each; NULL-terminated */
	const char **late_notes; /* the same, for a command that did not find a program */
	const char **layers;	 /* for the receipt; NULL-terminated */
	const char **missing;	 /* for the receipt; NULL-terminated */
	struct plan_limits limits;
	struct cordon_held *enforced;
	size_t n_enforced;
	const struct gateway_config *gateway; /* NULL = no network beyond the sandbox's own */
	struct plan_publish *publish;
	size_t n_publish;
	/* NULL = there is nothing to measure. The launcher adds the processes. */
	const struct meter_order *meter;
	const char *meter_library; /* real path */
};

/* Before there is a plan: the limits that a control group could enforce, and whether one is wanted
 * for them (one is not free). Looks at policy, options, level and machine only. */
void plan_tree_limits(const struct plan_input *input, struct plan_limits *ret);
bool plan_wants_cgroup(const struct plan_input *input, bool has_cpu);

/* The ids that a run has on the host. */
int plan_outer_ids(const struct plan_input *input, uint32_t *ret_uid, uint32_t *ret_gid,
		   struct cordon_error *err);

/* The caller frees *ret with plan_free(). Nothing on the machine is changed. */
int plan_build(const struct plan_input *input, struct plan **ret, struct cordon_error *err);
void plan_free(struct plan *plan);
/*
 * The block is in the memory file @fd, which cannot change any more. From now on it is read there,
 * if it is read at all: a run may last for hours, and needs no second copy. Best effort.
 */
void plan_map_block(struct plan *plan, int fd);

/* The whole plan, readable; the caller frees *ret with free(). */
int plan_to_json(const struct plan *plan, int pretty, char **ret, struct cordon_error *err);

/* Does @plan begin with the very steps and identity that an init parked with @parked has? */
bool plan_has_common(const struct plan *plan, const struct plan *parked);

const char *plan_op_name(unsigned type);

#endif

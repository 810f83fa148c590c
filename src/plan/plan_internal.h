/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/plan.
 *
 * How a plan comes about (plan_build.c calls these in order):
 *	plan_env.c	who and where: home, user name, environment
 *	plan_collect.c	which grants there are, and where the command starts
 *	plan_grants.c	paths -> opened objects (`grants`), with the links on the way to them
 *	plan_workspace.c a directory shown copy-on-write
 *	plan_private.c	/tmp and home that are kept between runs
 *	plan_search.c	the command's PATH, and credentials beside the programs in it
 *	plan_commands.c	the allow-list of programs
 *	plan_device.c	devices of the host, and for GPUs plan_gpu.c
 *	plan_deny.c	fs.deny -> marks, or at level landlock a finer set of grants
 *	plan_protect*.c	protected names -> marks
 *	plan_view.c	the system part of the view -> steps
 *	plan_layout.c	grants and marks, ancestors first -> steps
 *	plan_keep.c	what outlives all this -> the plan's own memory
 *	plan_block.c	steps -> the flat block
 */
#ifndef PLAN_PLAN_INTERNAL_H
#define PLAN_PLAN_INTERNAL_H

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/path.h"
#include "discover/discover.h"
#include "plan/plan.h"
#include "uapi/landlock.h"

#define NOBODY_ID 65534u /* on the host, of what root starts, unless the policy names a user */
#define PLAN_DENY_ENTRIES_MAX 4096 /* siblings listed to leave one name out (level landlock) */

/* One step with its strings still in the arena. */
struct step {
	struct plan_op op;
	const char *dst, *src;
};

/* A symbolic link that a typed path went through. */
struct plan_link {
	const char *path; /* real directory + name */
	const char *text;
	uid_t owner;
};

enum grant_origin {
	GRANT_SYSTEM,	/* level landlock: the system part of the view */
	GRANT_CWD,	/* the caller's directory, by default */
	GRANT_TOOL,	/* an installation that discovery found */
	GRANT_EXPLICIT, /* fs.read, fs.write */
};

struct grant {
	const char *typed, *real;
	int fd; /* O_PATH, -1 once given away */
	int origin;
	bool write, is_dir, is_dropped;
	bool is_workspace;
	bool is_expanded; /* dropped: each name in it is granted instead (level landlock) ... */
	bool is_list;	  /* ... and it can be listed, for nothing in it is secret by its name */
	bool is_listed;	  /* one of many names in a directory, which may be gone soon */
	bool is_exec;	  /* a file of the allow-list of programs */
	mode_t type;
	dev_t dev;
	ino_t ino;
};

/* A device of the host that the run may open. */
struct plan_device {
	const char *path; /* real */
	struct stat st;
};

/* What is enforced at one path inside the view. The order is the precedence at equal paths. */
enum mark_kind {
	MARK_PIN,	/* cannot be renamed */
	MARK_READ_ONLY, /* and cannot be changed */
	MARK_GRANT,
	MARK_MASK, /* cannot be seen */
};

struct mark {
	const char *path;
	int kind; /* enum mark_kind */
	bool is_file;
	struct grant *grant;
	/* The name does not exist: reserve it with a placeholder of this content, or by an empty
	 * directory if it is not for a file. */
	const char *placeholder_text;
	bool is_reserved, is_deny;
	bool is_empty_inside; /* reserved by a socket, over which the command sees an empty file */
	bool is_protect;      /* by fs.protect */
	bool is_own;	      /* something that Cordon keeps, not what the policy denies */
	size_t order;	      /* of several with the same path and kind, the first one counts */
};

/* Where a mount of the system part of the view lies. */
struct common_mount {
	const char *path;
};

struct build {
	const struct plan_input *in;
	const struct cordon_policy *policy;
	struct plan *plan;
	struct arena *arena; /* freed when the plan is made */
	struct cordon_error *err;

	const char *cwd;	/* the caller's, absolute, as given */
	const char *typed_home; /* what "~" means; NULL = unknown */
	const char *cwd_real;	/* NULL if there is none to be had */
	const char *home;	/* as given: HOME inside */
	const char *home_real;	/* as the kernel sees it; equal to home if that does not exist */
	const char *user_name;
	const char *passwd; /* the host's user database, "" if unreadable */
	bool is_root, is_commands;
	bool is_nobody; /* level landlock, started by root: the run has NOBODY_ID */

	struct discover_result program;
	struct discover_exec_file *exec_files;
	size_t n_exec_files;

	struct grant **grants;
	size_t n_grants, cap_grants;
	struct plan_link *links;
	size_t n_links, cap_links;
	struct mark *marks;
	size_t n_marks, cap_marks;
	struct plan_device *devices;
	size_t n_devices, cap_devices;
	struct plan_gpus *gpus; /* plan_gpu.c; NULL = none are asked for */
	struct step *steps;
	size_t n_steps, cap_steps;
	size_t n_common_steps; /* of the system part of the view */
	struct common_mount *common;
	size_t n_common, cap_common;
	struct strlist made; /* directories and links of the root tmpfs */
	struct strlist notes, late_notes, layers, missing, env;
	struct plan_reserved *reserved;
	size_t n_reserved, cap_reserved;
	struct plan_reserved *absent;
	size_t n_absent, cap_absent;
	struct strlist covered;
	struct git_repo *repos;
	size_t n_repos, cap_repos;
	struct cordon_held *enforced;
	size_t n_enforced, cap_enforced;
	int *mount_fds;
	size_t n_mount_fds, cap_mount_fds;
	struct plan_publish *publish;
	size_t n_publish, cap_publish;

	const char *start_dir;	   /* where the command starts */
	bool has_empty_file;	   /* plan_layout.c: its step is there */
	struct plan_header header; /* without what plan_write_block() counts */
};

/* plan_build.c */
int plan_nomem(struct build *b);
#define PLAN_ADD_TO(b, in, v, n, cap)                                                              \
	arena_add((b)->arena, &(in)->v, &(in)->n, &(in)->cap, sizeof(*(in)->v))
#define PLAN_ADD(b, v, n, cap) arena_add((b)->arena, &(b)->v, &(b)->n, &(b)->cap, sizeof(*(b)->v))
int plan_note(struct build *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The same, shown when the command has ended because a program was not found. */
int plan_late_note(struct build *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
int plan_list_add(struct build *b, struct strlist *list, const char *s);

static inline void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* plan_block.c */
struct step *plan_step(struct build *b, unsigned type, const char *dst, const char *src);
int plan_fill_header(struct build *b);
int plan_write_block(struct build *b);
/* Only what stands in the header and the steps so far, which are the common ones. */
int plan_write_common(struct build *b, struct plan *ret);
/* The step's object is this very one. */
void plan_set_identity(struct step *step, dev_t dev, ino_t ino);
/* A run started by root: the step gets a mount of @fd, which only the supervisor can make. Takes
 * @fd over. */
int plan_pass_fd(struct build *b, struct step *step, int fd);

/* plan_keep.c */
/* Copies everything that @plan points to into its arena; false = memory is out. */
bool plan_keep(struct plan *plan);

/* plan_env.c */
int plan_find_home(struct build *b);
int plan_build_env(struct build *b);
int plan_build_ids(struct build *b, struct plan_header *h);
int plan_env_set(struct build *b, const char *name, const char *value);
/* Is @dir, a real path, a home directory or does it contain one? */
bool plan_contains_home(const struct build *b, const char *dir);

/* plan_limits.c */
int plan_build_limits(struct build *b, struct plan_header *h);

/* plan_net.c */
bool plan_has_egress(const struct build *b);
int plan_build_net(struct build *b);
void plan_net_header(const struct build *b, struct plan_header *h);
int plan_proxy_env(struct build *b);

/* plan_path.c */
struct resolved {
	const char *real;    /* of the object, or of the last directory that exists */
	const char *missing; /* names that do not exist, NULL if all do */
	struct stat st;	     /* of real */
	struct plan_link *links;
	size_t n_links;
	int last_link;	     /* index of the link that the path itself names, -1 = none */
	struct strlist left; /* directories that the path enters and leaves again by ".." */
	const char *failed;  /* the name at which the walk failed, NULL = no memory for it */
};
/* Walks an absolute path name by name. 0 or -errno; then only the links, `left` and `failed` are
 * set. */
int plan_resolve(struct build *b, const char *path, struct resolved *ret);
/* A path of the policy, absolute and normalised: "~" is the caller's home. -errno */
int plan_typed_path(const struct build *b, const char *typed, char ret[PATH_MAX]);
/* The first of the names that do not exist, as a path; NULL when memory is out. */
const char *plan_first_missing(struct build *b, const struct resolved *res);
/* Opens the object itself (O_PATH), following no link at the end; -errno. */
int plan_open_real(const char *real);
/* Opens with links followed, and what the kernel says its path is; -errno. */
int plan_open_path(struct build *b, const char *path, const char **ret_real);
const char *plan_join(struct build *b, const char *dir, const char *name);
char *plan_read_small(struct build *b, const char *path, size_t max); /* NULL: cannot be read */
bool plan_is_below(const char *dir, const char *path);		      /* and not equal */
int plan_path_cmp(const char *a, const char *b);		      /* ancestors first */

/* plan_collect.c */
int plan_collect_grants(struct build *b);
/* In a grant, also one of which each name is granted by itself. */
bool plan_is_shown(const struct build *b, const char *path);
int plan_choose_start_dir(struct build *b);

/* plan_grants.c */
/* As the caller has it; NULL = not known. */
const char *plan_caller_path(const struct build *b);
int plan_add_grant(struct build *b, const char *typed, int origin, bool write, struct grant **ret);
/* @g says what kind it is. Takes @fd, opened from @path, in any case. */
int plan_add_opened(struct build *b, const char *path, int fd, struct grant *g, struct grant **ret);
/* /proc, /sys and /dev, of which the sandbox has its own. */
bool plan_is_kernel_place(const char *real);
/* What to do about @path, which was typed as @typed and does not exist. */
void plan_hint_missing(struct build *b, const char *typed, const char *path, bool write);
int plan_add_links(struct build *b, const struct plan_link *links, size_t n);
/* The innermost grant that is not dropped and contains @path; NULL = none. */
const struct grant *plan_grant_of(const struct build *b, const char *path, bool only_write);

/* plan_search.c */
/* Hides the credentials that some tools keep in their installation. */
int plan_hide_credentials(struct build *b);
/* The command's PATH, and notes about programs that it will not find there. */
int plan_set_path(struct build *b);

/* plan_commands.c */
int plan_collect_commands(struct build *b, const struct discover_input *in);
int plan_command_rules(struct build *b);
int plan_choose_filter(const struct build *b);
/* Rules for a tree of which only what is no directory of programs may be read: as steps of
 * @step_type, PLAN_OP_RULE (by host path) or PLAN_OP_PIN (inside the view). */
int plan_split_tree(struct build *b, const char *tree, unsigned step_type);

/* plan_device.c */
int plan_collect_devices(struct build *b);
int plan_add_device(struct build *b, const char *typed);
/* Can all users open them? */
bool plan_devices_are_open(const struct build *b);
int plan_device_steps(struct build *b);
int plan_device_rules(struct build *b);

/* plan_gpu.c */
int plan_collect_gpus(struct build *b);
int plan_gpu_steps(struct build *b);
int plan_gpu_rules(struct build *b);
int plan_gpu_env(struct build *b);
bool plan_has_nvidia(const struct build *b);
/* NVIDIA's GPUs of the run. */
void plan_meter_gpus(const struct build *b, struct meter_order *ret);

/* plan_meter.c */
int plan_build_meter(struct build *b);

/* plan_nobody.c */
void plan_choose_nobody(struct build *b);

/* plan_deny.c */
int plan_apply_deny(struct build *b);
int plan_deny_name(struct build *b, const char *typed);
/* Hides what lies at this real path. */
int plan_deny_found(struct build *b, const char *path, bool is_file);
int plan_expand_for_landlock(struct build *b);
/* Level landlock: read grants around @path, which is Cordon's own, are granted without it. */
int plan_leave_out(struct build *b, const char *path);

/* plan_deny_glob.c */
int plan_deny_patterns(struct build *b);

/* plan_mounts.c: level landlock */
int plan_check_mounts(struct build *b);

/* plan_protect.c */
int plan_apply_protect(struct build *b);

/* plan_workspace.c */
bool plan_in_workspace(const struct build *b, const char *path);
/* Of @path, which lies in the workspace's base: what the command calls it; NULL = no memory. */
const char *plan_workspace_path(struct build *b, const char *path);
int plan_grant_workspace(struct build *b);
/* Level landlock: refuses what a copy cannot go together with. */
int plan_check_copy(struct build *b);
/* The step that shows the workspace; *ret_is_base: its object is the grant's. */
int plan_workspace_step(struct build *b, const struct grant *g, struct step **ret,
			bool *ret_is_base);
int plan_cover_in_workspace(struct build *b, const struct mark *m);
int plan_hide_store(struct build *b);
const char *plan_workspace_command(struct build *b, const char *command);
const char *plan_workspace_seen(struct build *b, const char *path);

/* plan_private.c */
/* Is @place, /tmp or the home directory, one that is kept? */
bool plan_keeps_tmp(const struct build *b);
bool plan_keeps_home(const struct build *b);
/* Is what a run leaves in /tmp gone afterwards? */
bool plan_loses_tmp(const struct build *b);
/* The home, if what a run leaves in it is gone afterwards; NULL = it is not. */
const char *plan_lost_home(const struct build *b);
int plan_private_steps(struct build *b);
/* Once all steps are there: marks those that put something where earlier runs wrote. */
void plan_private_mark(struct build *b);
int plan_private_rules(struct build *b);
int plan_hide_private(struct build *b);
/* Level landlock: the directories of runs in /tmp, this one's and others'. */
int plan_hide_scratch(struct build *b);
/* Is it the name of a private directory of a run at level landlock? */
bool plan_is_scratch(const char *name);
/* Does @path, as the command says it, lie in what is kept? 1 = yes: *ret_rest is the part of it
 * below *ret_dir. */
int plan_in_private(const struct build *b, const char *path,
		    const struct plan_private_dir **ret_dir, const char **ret_rest);
/* The command's path, if it names a file of an earlier run in the private directory: where that
 * lies for us, and *ret_seen for the command. NULL = look it up as usual. */
const char *plan_private_command(struct build *b, const char *command, const char **ret_seen);

/* plan_packages.c: no command writes where package layers are kept. */
int plan_protect_packages(struct build *b);

/* plan_mark.c */
int plan_mark(struct build *b, const char *path, int kind, bool is_file);
int plan_mark_missing(struct build *b, const char *path, int kind, const char *text);
/* The same with a socket as the placeholder, over which the command sees an empty file. */
int plan_mark_missing_file(struct build *b, const char *path);
/* The same with an empty directory as the placeholder, which is read-only inside. */
int plan_mark_missing_dir(struct build *b, const char *path);
/* Pins every directory between the write grant around @path and @path. */
int plan_pin_parents(struct build *b, const char *path);

/* plan_view.c */
bool plan_var_tmp_is_link(const struct build *b); /* to /tmp, at level namespaces */
uint64_t plan_rights(const struct build *b, uint64_t wanted, bool is_dir);
int plan_system_view(struct build *b);
int plan_system_rules(struct build *b);
int plan_make_parents(struct build *b, const char *path);
/* What the command may do in directories of its own. */
uint64_t plan_private_rights(const struct build *b);
bool plan_is_denied(const struct build *b, const char *path);
bool plan_in_common(const struct build *b, const char *path);

/* plan_layout.c */
int plan_layout(struct build *b);
int plan_layout_rules(struct build *b);

#define RIGHTS_READ (LL_FS_READ_FILE | LL_FS_READ_DIR)
#define RIGHTS_RUN (RIGHTS_READ | LL_FS_EXECUTE)
#define RIGHTS_WRITE                                                                               \
	(LL_FS_WRITE_FILE | LL_FS_REMOVE_DIR | LL_FS_REMOVE_FILE | LL_FS_MAKE_DIR |                \
	 LL_FS_MAKE_REG | LL_FS_MAKE_SOCK | LL_FS_MAKE_FIFO | LL_FS_MAKE_SYM | LL_FS_REFER |       \
	 LL_FS_TRUNCATE)

/* stat() or, with AT_SYMLINK_NOFOLLOW, lstat(), after what another run may just be making: a
 * placeholder without its date would be taken for a file of the user's. */
int plan_stat(const char *path, struct stat *ret, int flags);

#endif

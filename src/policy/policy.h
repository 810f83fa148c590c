/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy model: one struct behind JSON, flags and API calls.
 *
 * An unset value is -1 (numbers) or NULL (strings). The plan fills in the defaults, so that merging
 * can tell what was set.
 */
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include <stdint.h>

#include <cordon/policy.h>

#include "base/arena.h"

#define POLICY_LIST_MAX 1024		  /* entries per list */
#define POLICY_FILE_MAX ((size_t)1 << 20) /* bytes of a policy document */

#define POLICY_DEFAULT_PROCS 256
#define POLICY_DEFAULT_OPEN_FILES 1024
#define POLICY_DEFAULT_DISK_BYTES (256LL << 20)
#define POLICY_DEFAULT_GRACE_MS 1000

/* What becomes of names that run by themselves later; the values of fs.protect. */
enum policy_protect {
	POLICY_PROTECT_OFF,
	POLICY_PROTECT_ON,
	POLICY_PROTECT_EXISTING, /* missing ones may be made, and are put aside afterwards */
	POLICY_PROTECT_MAX
};

struct cordon_policy {
	struct arena arena;

	struct strlist fs_read, fs_write, fs_deny; /* absolute, or relative to the run's cwd */
	int here_is_presets;   /* "." is in fs_write because a preset says so, and nothing else */
	const char *workspace; /* the same, of a directory */
	int protect;	       /* enum policy_protect, -1 unset */
	const char *cwd;

	struct strlist env_pass; /* NAME or PREFIX* */
	struct strlist env_set;	 /* NAME=VALUE, later wins */

	struct strlist commands; /* program names or paths; meaningful if commands_set */
	int commands_set;	 /* an empty list allows only the command itself */

	const char *gpu;	/* "all", "none" or names with commas between them; NULL unset */
	struct strlist devices; /* paths of character devices */

	struct strlist net_allow, net_deny; /* rules as net_rule_format() writes them */
	struct strlist net_publish;	    /* as net_publish_format() writes them */
	int64_t net_max_bytes;

	int64_t wall_ms, grace_ms, memory_bytes, procs, cpu_milli, cpu_time_ms, open_files;
	int64_t disk_bytes, file_size_bytes, output_bytes;
	int output_end;		    /* -1 unset, 0 cut the stream, 1 end the run */
	struct strlist best_effort; /* names of limits */

	int isolation;		/* enum cordon_level, -1 unset */
	struct strlist require; /* layer names */
	const char *user;	/* "UID[:GID]" for runs started by root */
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A further command of a session, as init reads it: one flat block beside CONTROL_EXEC, built like
 * a plan (format/plan.h): offsets instead of pointers, strings in [strings_off, size), each
 * NUL-terminated. Init maps it read-only from a sealed memfd and checks it once
 * (command_read_check).
 */
#ifndef FORMAT_COMMAND_H
#define FORMAT_COMMAND_H

#include <stdint.h>

#define COMMAND_MAGIC 0x444d4343u
#define COMMAND_VERSION 1
#define COMMAND_SIZE_MAX (4u << 20)
#define COMMAND_STRINGS_MAX 65536u /* arguments, variables and paths together */
#define COMMAND_CHANNEL_FD 3	   /* where a command finds its channel */

struct command_header {
	uint32_t magic, version, size, strings_off;
	uint32_t argv_off, n_argv; /* arrays of string offsets */
	uint32_t envp_off, n_envp;
	uint32_t paths_off, n_paths; /* what may be executed: the first that exists */
	uint32_t cwd;		     /* 0 = where the session starts */
	uint32_t pad;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of each stage: what init reports when it fails (control_report.op), and what the
 * gateway does (gateway_account.failed_at).
 *
 * Errors and receipts show the numbers, and docs/errors.md lists them: a new step gets the next
 * free number, and none changes. The texts are in steps.c.
 */
#ifndef FORMAT_STEPS_H
#define FORMAT_STEPS_H

#include <stdbool.h>

enum step_start {
	STEP_START_SIGNALS = 1,
	STEP_START_DUMPABLE,
	STEP_START_RECEIVE,
	STEP_START_ORDER,
	STEP_START_PLAN_SIZE,
	STEP_START_PLAN_MAP,
	STEP_START_PLAN_CHECK,
	STEP_START_MOUNTS,
	STEP_START_MOUNTS_ORDER,
	STEP_START_PDEATHSIG,
	STEP_START_SUPERVISOR,
	STEP_START_LEVEL,
	STEP_START_OOM_SCORE,
	STEP_START_MAX
};

enum step_userns {
	STEP_USERNS_SETGROUPS_FILE = 1,
	STEP_USERNS_UID_MAP,
	STEP_USERNS_GID_MAP,
	STEP_USERNS_GROUPS,
	STEP_USERNS_SET_GID,
	STEP_USERNS_SET_UID,
	STEP_USERNS_PDEATHSIG,
	STEP_USERNS_DUMPABLE,
	STEP_USERNS_OUTER_ROOT,
	STEP_USERNS_UID,
	STEP_USERNS_GID,
	STEP_USERNS_HOSTNAME,
	STEP_USERNS_SUBREAPER,
	STEP_USERNS_UNSHARE,
	STEP_USERNS_PROC,
	STEP_USERNS_MAX
};

enum step_mounts {
	STEP_MOUNTS_FSOPEN = 1,
	STEP_MOUNTS_SIZE,
	STEP_MOUNTS_INODES,
	STEP_MOUNTS_MODE,
	STEP_MOUNTS_CREATE,
	STEP_MOUNTS_FSMOUNT,
	STEP_MOUNTS_ATTACH,
	STEP_MOUNTS_READ_ONLY,
	STEP_MOUNTS_ENTER,
	STEP_MOUNTS_PIVOT,
	STEP_MOUNTS_DETACH,
	STEP_MOUNTS_CHDIR,
	STEP_MOUNTS_CWD,
	STEP_MOUNTS_HOST_ROOT,
	STEP_MOUNTS_COMMON,
	STEP_MOUNTS_WATCH,
	STEP_MOUNTS_UNCOVERED,
	STEP_MOUNTS_PROC,
	STEP_MOUNTS_WORKSPACE,
	STEP_MOUNTS_MAX
};

/* STAGE_MOUNTS: step i of the plan is reported as this plus i. */
#define STEP_PLAN_FIRST 100

enum step_net {
	STEP_NET_CLONE = 1,
	STEP_NET_UNSHARE,
	STEP_NET_SOCKET,
	STEP_NET_LOOPBACK,
	STEP_NET_ENTER,
	STEP_NET_NETLINK = 10,
	STEP_NET_ROUTE,
	STEP_NET_LISTEN,
	STEP_NET_HAND_OVER,
	STEP_NET_PROXY_PORT = 20,
	STEP_NET_AWAIT,
	STEP_NET_PROC,
	STEP_NET_LISTENER,
	STEP_NET_MAX
};

enum step_limits {
	STEP_LIMITS_RLIMITS = 1,
	STEP_LIMITS_CPU_SHARE,
	STEP_LIMITS_WATCH,
	STEP_LIMITS_BASELINE,
	STEP_LIMITS_MAX
};

enum step_caps {
	STEP_CAPS_KEYRING = 1,
	STEP_CAPS_BOUNDING,
	STEP_CAPS_AMBIENT,
	STEP_CAPS_SECUREBITS,
	STEP_CAPS_DROP,
	STEP_CAPS_CHECK,
	STEP_CAPS_NO_NEW_PRIVS,
	STEP_CAPS_MAX
};

enum step_landlock {
	STEP_LANDLOCK_RULESET = 1,
	STEP_LANDLOCK_RESTRICT,
	STEP_LANDLOCK_MAX
};

enum step_seccomp {
	STEP_SECCOMP_FILTER = 1,
	STEP_SECCOMP_BROKER,
	STEP_SECCOMP_TASKS,
	STEP_SECCOMP_MAX
};

enum step_exec {
	STEP_EXEC_EXECVE = 0,
	STEP_EXEC_SESSION,
	STEP_EXEC_PDEATHSIG,
	STEP_EXEC_STDIO,
	STEP_EXEC_SIGNALS,
	STEP_EXEC_CLOSE,
	STEP_EXEC_ARGUMENTS,
	STEP_EXEC_CLONE,
	STEP_EXEC_SIGNALFD,
	STEP_EXEC_TERMINAL,
	STEP_EXEC_PTMX,
	STEP_EXEC_PTY,
	STEP_EXEC_SERVE,
	STEP_EXEC_MAX
};

enum gateway_step {
	GATEWAY_STEP_CONFIG = 1,
	GATEWAY_STEP_RESOLVER,
	GATEWAY_STEP_EPOLL,
	GATEWAY_STEP_LISTEN,
	GATEWAY_STEP_PUBLISH,
	GATEWAY_STEP_READY,
	GATEWAY_STEP_FDS,
	GATEWAY_STEP_ROUTES,
	GATEWAY_STEP_LIMITS = 101,
	GATEWAY_STEP_IDS,
	GATEWAY_STEP_CAPS,
	GATEWAY_STEP_PRIVILEGES,
	GATEWAY_STEP_LANDLOCK,
	GATEWAY_STEP_FILTER,
	GATEWAY_STEP_MAX
};

/* The rest is for the supervisor; the freestanding programs need numbers only. */

/* What a step was doing, for an error message; NULL if there is no such step. */
const char *step_text(unsigned stage, unsigned step);
const char *gateway_step_text(unsigned step);

/*
 * Does a failure of this step mean that the machine refuses namespaces? Only then may a run start
 * again at level landlock. A step that a guest can make fail must not say so: it could bring the
 * level of the next run down.
 */
bool step_means_no_namespaces(unsigned stage, unsigned step);

#endif

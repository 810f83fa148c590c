/* SPDX-License-Identifier: Apache-2.0 */
#include "format/steps.h"

#include <assert.h>
#include <stddef.h>

#include <cordon/error.h>

#include "base/macros.h"
#include "format/stage.h"

struct step {
	const char *text;
	bool no_namespaces; /* step_means_no_namespaces() */
};

static const struct step start_steps[] = {
	[STEP_START_SIGNALS] = { "blocking signals" },
	[STEP_START_DUMPABLE] = { "making init unreadable" },
	[STEP_START_RECEIVE] = { "receiving the plan" },
	[STEP_START_ORDER] = { "understanding the order" },
	[STEP_START_PLAN_SIZE] = { "measuring the plan" },
	[STEP_START_PLAN_MAP] = { "mapping the plan" },
	[STEP_START_PLAN_CHECK] = { "checking the plan" },
	[STEP_START_MOUNTS] = { "receiving the mounts" },
	[STEP_START_MOUNTS_ORDER] = { "counting the mounts" },
	[STEP_START_PDEATHSIG] = { "asking for a parent-death signal" },
	[STEP_START_SUPERVISOR] = { "the supervisor died" },
	[STEP_START_LEVEL] = { "comparing the level with the plan" },
	[STEP_START_OOM_SCORE] = { "becoming the first choice of the out-of-memory killer" },
};
static_assert(ARRAY_SIZE(start_steps) == STEP_START_MAX, "a text for each step");

static const struct step userns_steps[] = {
	[STEP_USERNS_SETGROUPS_FILE] = { "closing setgroups", true },
	[STEP_USERNS_UID_MAP] = { "mapping the user id", true },
	[STEP_USERNS_GID_MAP] = { "mapping the group id", true },
	[STEP_USERNS_GROUPS] = { "dropping supplementary groups", true },
	[STEP_USERNS_SET_GID] = { "taking the group id", true },
	[STEP_USERNS_SET_UID] = { "taking the user id", true },
	[STEP_USERNS_PDEATHSIG] = { "asking for a parent-death signal again", true },
	[STEP_USERNS_DUMPABLE] = { "making init unreadable again", true },
	[STEP_USERNS_OUTER_ROOT] = { "refusing to be root outside", true },
	[STEP_USERNS_UID] = { "checking the user id", true },
	[STEP_USERNS_GID] = { "checking the group id", true },
	[STEP_USERNS_HOSTNAME] = { "setting the host name", true },
	[STEP_USERNS_SUBREAPER] = { "becoming the parent of orphans", true },
	[STEP_USERNS_UNSHARE] = { "creating mount, ipc, uts and cgroup namespaces", true },
	[STEP_USERNS_PROC] = { "opening /proc", true },
};
static_assert(ARRAY_SIZE(userns_steps) == STEP_USERNS_MAX, "a text for each step");

static const struct step mounts_steps[] = {
	[STEP_MOUNTS_FSOPEN] = { "opening a tmpfs for the new root", true },
	[STEP_MOUNTS_SIZE] = { "limiting the bytes of the new root", true },
	[STEP_MOUNTS_INODES] = { "limiting the files of the new root", true },
	[STEP_MOUNTS_MODE] = { "setting the mode of the new root", true },
	[STEP_MOUNTS_CREATE] = { "creating the new root", true },
	[STEP_MOUNTS_FSMOUNT] = { "mounting the new root", true },
	[STEP_MOUNTS_ATTACH] = { "attaching the new root", true },
	[STEP_MOUNTS_READ_ONLY] = { "making the new root read-only", true },
	[STEP_MOUNTS_ENTER] = { "going to the new root", true },
	[STEP_MOUNTS_PIVOT] = { "entering the new root", true },
	[STEP_MOUNTS_DETACH] = { "detaching the old root", true },
	[STEP_MOUNTS_CHDIR] = { "leaving the old root", true },
	[STEP_MOUNTS_CWD] = { "entering the working directory" },
	[STEP_MOUNTS_HOST_ROOT] = { "opening the host's root", true },
	[STEP_MOUNTS_COMMON] = { "comparing the common steps of the plan" },
	[STEP_MOUNTS_WATCH] = { "watching the mounts" },
	[STEP_MOUNTS_UNCOVERED] = { "a covered name was replaced" },
	[STEP_MOUNTS_PROC] = { "opening /proc" },
	[STEP_MOUNTS_WORKSPACE] = { "finding the workspace" },
	[STEP_MOUNTS_KERNEL] = { "covering what the kernel has mounted below a grant" },
};
static_assert(ARRAY_SIZE(mounts_steps) == STEP_MOUNTS_MAX, "a text for each step");

static const struct step net_steps[] = {
	[STEP_NET_CLONE] = { "starting the builder of the net namespace", true },
	[STEP_NET_UNSHARE] = { "creating the net namespace", true },
	[STEP_NET_SOCKET] = { "opening a socket in the net namespace", true },
	[STEP_NET_LOOPBACK] = { "raising the loopback device", true },
	[STEP_NET_ENTER] = { "entering the net namespace", true },
	[STEP_NET_CPUS] = { "using both processors again" },
	[STEP_NET_NETLINK] = { "speaking to the kernel's router" },
	[STEP_NET_ROUTE] = { "routing every address to the gateway" },
	[STEP_NET_LISTEN] = { "listening on the allowed ports" },
	[STEP_NET_HAND_OVER] = { "handing the listeners to the gateway" },
	[STEP_NET_PROXY_PORT] = { "finding the proxy's port" },
	[STEP_NET_AWAIT] = { "waiting for the gateway" },
	[STEP_NET_PROC] = { "reading /proc, which connections need at level landlock" },
	[STEP_NET_LISTENER] = { "listening for connections (a seccomp filter with a listener)" },
};
static_assert(ARRAY_SIZE(net_steps) == STEP_NET_MAX, "a text for each step");

static const struct step limits_steps[] = {
	[STEP_LIMITS_RLIMITS] = { "setting resource limits" },
	[STEP_LIMITS_CPU_SHARE] = { "setting the share of the CPUs" },
	[STEP_LIMITS_WATCH] = { "watching the limits of the tree" },
	[STEP_LIMITS_BASELINE] = { "counting what is there before the command" },
	[STEP_LIMITS_QUOTAS] = { "limiting inotify in the user namespace" },
};
static_assert(ARRAY_SIZE(limits_steps) == STEP_LIMITS_MAX, "a text for each step");

static const struct step caps_steps[] = {
	[STEP_CAPS_KEYRING] = { "making a session keyring" },
	[STEP_CAPS_BOUNDING] = { "dropping the bounding set" },
	[STEP_CAPS_AMBIENT] = { "clearing the ambient set" },
	[STEP_CAPS_SECUREBITS] = { "locking the securebits" },
	[STEP_CAPS_DROP] = { "dropping the capabilities" },
	[STEP_CAPS_CHECK] = { "checking that no capability is left" },
	[STEP_CAPS_NO_NEW_PRIVS] = { "setting no_new_privs" },
};
static_assert(ARRAY_SIZE(caps_steps) == STEP_CAPS_MAX, "a text for each step");

static const struct step landlock_steps[] = {
	[STEP_LANDLOCK_RULESET] = { "creating the ruleset" },
	[STEP_LANDLOCK_RESTRICT] = { "entering the Landlock domain" },
};
static_assert(ARRAY_SIZE(landlock_steps) == STEP_LANDLOCK_MAX, "a text for each step");

static const struct step seccomp_steps[] = {
	[STEP_SECCOMP_FILTER] = { "installing the filter" },
	[STEP_SECCOMP_BROKER] = { "preparing the broker of system calls" },
};
static_assert(ARRAY_SIZE(seccomp_steps) == STEP_SECCOMP_MAX, "a text for each step");

static const struct step exec_steps[] = {
	[STEP_EXEC_EXECVE] = { "executing the program" },
	[STEP_EXEC_SESSION] = { "making a session" },
	[STEP_EXEC_PDEATHSIG] = { "asking for a parent-death signal" },
	[STEP_EXEC_STDIO] = { "taking the standard streams" },
	[STEP_EXEC_SIGNALS] = { "unblocking signals" },
	[STEP_EXEC_CLOSE] = { "closing other descriptors" },
	[STEP_EXEC_ARGUMENTS] = { "copying arguments and environment" },
	[STEP_EXEC_CLONE] = { "starting the command's process" },
	[STEP_EXEC_SIGNALFD] = { "listening for signals" },
	[STEP_EXEC_TERMINAL] = { "taking the terminal" },
	[STEP_EXEC_PTMX] = { "opening /dev/ptmx" },
	[STEP_EXEC_PTY] = { "making a terminal" },
	[STEP_EXEC_SERVE] = { "starting to serve files" },
};
static_assert(ARRAY_SIZE(exec_steps) == STEP_EXEC_MAX, "a text for each step");

static const char *const gateway_steps[] = {
	[GATEWAY_STEP_CONFIG] = "reading its rules",
	[GATEWAY_STEP_RESOLVER] = "reading the resolver's configuration",
	[GATEWAY_STEP_EPOLL] = "making an epoll descriptor",
	[GATEWAY_STEP_LISTEN] = "taking over the listeners",
	[GATEWAY_STEP_PUBLISH] = "taking over published ports",
	[GATEWAY_STEP_READY] = "saying that it is ready",
	[GATEWAY_STEP_FDS] = "having enough descriptors",
	[GATEWAY_STEP_ROUTES] = "opening a socket for questions about routes",
	[GATEWAY_STEP_LIMITS] = "limiting its resources",
	[GATEWAY_STEP_IDS] = "becoming another user",
	[GATEWAY_STEP_CAPS] = "dropping its capabilities",
	[GATEWAY_STEP_PRIVILEGES] = "giving up privileges",
	[GATEWAY_STEP_LANDLOCK] = "entering its Landlock domain",
	[GATEWAY_STEP_FILTER] = "entering its system call filter",
};
static_assert(ARRAY_SIZE(gateway_steps) == GATEWAY_STEP_MAX, "a text for each step");

#define STAGE_STEPS(v) v, ARRAY_SIZE(v)

static const struct {
	const char *name;
	const struct step *steps;
	size_t n;
} stages[] = {
	[STAGE_OUTSIDE] = { "outside", NULL, 0 },
	[STAGE_START] = { "start", STAGE_STEPS(start_steps) },
	[STAGE_USERNS] = { "userns", STAGE_STEPS(userns_steps) },
	[STAGE_MOUNTS] = { "mounts", STAGE_STEPS(mounts_steps) },
	[STAGE_NET] = { "net", STAGE_STEPS(net_steps) },
	[STAGE_LIMITS] = { "limits", STAGE_STEPS(limits_steps) },
	[STAGE_CAPS] = { "caps", STAGE_STEPS(caps_steps) },
	[STAGE_LANDLOCK] = { "landlock", STAGE_STEPS(landlock_steps) },
	[STAGE_SECCOMP] = { "seccomp", STAGE_STEPS(seccomp_steps) },
	[STAGE_EXEC] = { "exec", STAGE_STEPS(exec_steps) },
};
static_assert(ARRAY_SIZE(stages) == STAGE_MAX, "a name for each stage");

const char *cordon_stage_name(unsigned stage)
{
	return stage < STAGE_MAX ? stages[stage].name : "unknown";
}

static const struct step *step_find(unsigned stage, unsigned step)
{
	static const struct step none = { NULL, false };

	return stage < STAGE_MAX && step < stages[stage].n ? &stages[stage].steps[step] : &none;
}

const char *step_text(unsigned stage, unsigned step)
{
	return step_find(stage, step)->text;
}

bool step_means_no_namespaces(unsigned stage, unsigned step)
{
	return step_find(stage, step)->no_namespaces;
}

const char *gateway_step_text(unsigned step)
{
	return step < GATEWAY_STEP_MAX ? gateway_steps[step] : NULL;
}

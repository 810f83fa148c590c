/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/keys.h"

#include <assert.h>
#include <string.h>

#include <cordon/run.h>

#include "base/nearest.h"
#include "policy/policy.h"

#define AT(member) offsetof(struct cordon_policy, member)

#define WALL_MS_MAX (366LL * 24 * 3600 * 1000)
#define PROCS_MAX (1LL << 22)	   /* the kernel's ceiling for pid_max */
#define OPEN_FILES_MIN 4	   /* stdio and the one descriptor that a dynamic linker needs */
#define OPEN_FILES_MAX (1LL << 20) /* the kernel's default for fs.nr_open */
#define OUTPUT_MAX (1LL << 40)
#define GRACE_MS_MAX (3600LL * 1000)
#define MEMORY_MIN (1LL << 20) /* the smallest program needs this much */
#define SIZE_MAX_ANY (1LL << 50)
#define CPU_MILLI_MIN 10
#define CPU_MILLI_MAX (4096LL * 1000)
#define CPU_TIME_MS_MIN 10 /* resolution of the CPU clock of another process */
#define DISK_MIN (64LL << 10)

const struct policy_key policy_keys[] = {
	{
		.name = "fs.read",
		.type = POLICY_TYPE_PATHS,
		.offset = AT(fs_read),
		.short_flag = 'r',
		.flag = "read",
		.arg = "PATH",
		.default_text = "the system's runtime, the program's own installation and the "
				"current directory (never a home directory)",
		.doc = "Files and directories that can be read and executed.",
	},
	{
		.name = "fs.write",
		.type = POLICY_TYPE_PATHS,
		.offset = AT(fs_write),
		.short_flag = 'w',
		.flag = "write",
		.arg = "PATH",
		.default_text = "private /tmp, home and /dev/shm",
		.doc = "Files and directories that can be read and written.",
	},
	{
		.name = "fs.deny",
		.type = POLICY_TYPE_PATHS,
		.offset = AT(fs_deny),
		.flag = "deny",
		.arg = "PATH",
		.default_text = "nothing",
		.doc = "Paths that stay hidden, also inside grants and when they do not exist yet; "
		       "patterns (**/.env, *.pem) hide what matches when the run starts.",
	},
	{
		.name = "fs.workspace",
		.type = POLICY_TYPE_PATH,
		.offset = AT(workspace),
		.flag = "workspace",
		.arg = "DIR",
		.default_text = "none",
		.doc = "Directory that the command may change without changing it: what it writes "
		       "is kept apart until it is committed or discarded.",
	},
	{
		.name = "fs.protect",
		.type = POLICY_TYPE_PROTECT,
		.offset = AT(protect),
		.flag = "protect",
		.arg = "on|existing|off",
		.default_text = "on",
		.doc = "Names that run by themselves later (git hooks and config, shell, editor "
		       "and agent files) stay read-only inside write grants, and missing ones "
		       "cannot be made; existing: they can be made, and are put aside afterwards.",
	},
	{
		.name = "cwd",
		.type = POLICY_TYPE_PATH,
		.offset = AT(cwd),
		.short_flag = 'C',
		.flag = "cwd",
		.arg = "DIR",
		.default_text = "the caller's current directory if it is visible, otherwise home",
		.doc = "Directory that the command starts in; must lie inside a grant.",
	},
	{
		.name = "env.pass",
		.type = POLICY_TYPE_ENV_NAMES,
		.offset = AT(env_pass),
		.short_flag = 'e',
		.flag = "env",
		.arg = "NAME[=VALUE]",
		.default_text = "LANG, LC_*, TZ, TERM, COLUMNS and LINES",
		.doc = "Environment variables that are passed on: NAME or PREFIX*.",
	},
	{
		.name = "env.set",
		.type = POLICY_TYPE_ENV_VALUES,
		.offset = AT(env_set),
		.short_flag = 'e',
		.flag = "env",
		.arg = "NAME[=VALUE]",
		.default_text = "PATH (the caller's, without what is not visible), HOME, USER, "
				"LOGNAME, SHELL and PWD",
		.doc = "Environment variables with the values they get.",
	},
	{
		.name = "commands",
		.type = POLICY_TYPE_COMMANDS,
		.offset = AT(commands),
		.flag = "commands",
		.arg = "NAME,...",
		.default_text = "everything that is visible",
		.doc = "Only these programs (names or paths) and the command itself can be "
		       "executed.",
	},
	{
		.name = "gpu",
		.type = POLICY_TYPE_GPU,
		.offset = AT(gpu),
		.flag = "gpu",
		.arg = "all|N,...|UUID",
		.default_text = "none",
		.doc = "GPUs that can be used: all, none, or numbers, UUIDs and names of render "
		       "nodes "
		       "(0,1 or renderD128).",
	},
	{
		.name = "devices",
		.type = POLICY_TYPE_PATHS,
		.offset = AT(devices),
		.flag = "device",
		.arg = "PATH",
		.default_text = "null, zero, full, random, urandom and terminals of its own",
		.doc = "Character devices of the host that can be opened (/dev/fuse, "
		       "/dev/dri/renderD128).",
	},
	{
		.name = "net.allow",
		.type = POLICY_TYPE_NET_RULES,
		.offset = AT(net_allow),
		.flag = "net-allow",
		.arg = "HOST[:PORT,...]",
		.default_text = "nothing: there is no network",
		.doc = "Hosts that can be connected to: names, *.NAME, addresses, networks or "
		       "localhost; without ports 80 and 443.",
	},
	{
		.name = "net.deny",
		.type = POLICY_TYPE_NET_RULES,
		.offset = AT(net_deny),
		.flag = "net-deny",
		.arg = "HOST[:PORT,...]",
		.default_text = "nothing",
		.doc = "Exceptions from net.allow, in the same form; without ports all of them.",
	},
	{
		.name = "net.publish",
		.type = POLICY_TYPE_PUBLISH,
		.offset = AT(net_publish),
		.flag = "publish",
		.arg = "[[ADDRESS:]HOSTPORT:]PORT[/tcp|/udp]",
		.default_text = "nothing",
		.doc = "Ports inside that the host can connect to, at 127.0.0.1 unless an address "
		       "is given.",
	},
	{
		.name = "net.max",
		.type = POLICY_TYPE_SIZE,
		.offset = AT(net_max_bytes),
		.min = 1,
		.max = SIZE_MAX_ANY,
		.flag = "net-max",
		.arg = "SIZE",
		.default_text = "none",
		.doc = "Bytes that can go through the network in both directions together.",
	},
	{
		.name = "limits.wall",
		.type = POLICY_TYPE_DURATION,
		.offset = AT(wall_ms),
		.min = 1,
		.max = WALL_MS_MAX,
		.short_flag = 't',
		.flag = "timeout",
		.arg = "DURATION",
		.default_text = "none on the command line, 30s in the API",
		.doc = "Time after which the run is ended: 500ms, 30s, 5m, 1h.",
	},
	{
		.name = "limits.grace",
		.type = POLICY_TYPE_DURATION,
		.offset = AT(grace_ms),
		.min = 0,
		.max = GRACE_MS_MAX,
		.flag = "grace",
		.arg = "DURATION",
		.default_text = "1s",
		.doc = "Time between the signal that asks a run to end and the one that ends it; "
		       "0s asks nothing.",
	},
	{
		.name = "limits.memory",
		.type = POLICY_TYPE_SIZE,
		.offset = AT(memory_bytes),
		.min = MEMORY_MIN,
		.max = SIZE_MAX_ANY,
		.short_flag = 'm',
		.flag = "memory",
		.arg = "SIZE",
		.default_text = "none on the command line, 256M in the API",
		.doc = "Memory that the whole run really uses, its private directories included.",
	},
	{
		.name = "limits.procs",
		.type = POLICY_TYPE_COUNT,
		.offset = AT(procs),
		.min = 1,
		.max = PROCS_MAX,
		.short_flag = 'P',
		.flag = "procs",
		.arg = "N",
		.default_text = "256",
		.doc = "Processes and threads of the whole run together.",
	},
	{
		.name = "limits.cpu",
		.type = POLICY_TYPE_SHARE,
		.offset = AT(cpu_milli),
		.min = CPU_MILLI_MIN,
		.max = CPU_MILLI_MAX,
		.flag = "cpus",
		.arg = "F",
		.default_text = "none",
		.doc = "CPUs that the whole run may keep busy on average: 0.5, 1, 2.5.",
	},
	{
		.name = "limits.cpu_time",
		.type = POLICY_TYPE_DURATION,
		.offset = AT(cpu_time_ms),
		.min = CPU_TIME_MS_MIN,
		.max = WALL_MS_MAX,
		.flag = "cpu-time",
		.arg = "DURATION",
		.default_text = "none",
		.doc = "CPU time of the whole run, after which it is ended.",
	},
	{
		.name = "limits.open_files",
		.type = POLICY_TYPE_COUNT,
		.offset = AT(open_files),
		.min = OPEN_FILES_MIN,
		.max = OPEN_FILES_MAX,
		.flag = "open-files",
		.arg = "N",
		.default_text = "1024",
		.doc = "Descriptors that each process can have open.",
	},
	{
		.name = "limits.disk",
		.type = POLICY_TYPE_SIZE,
		.offset = AT(disk_bytes),
		.min = DISK_MIN,
		.max = SIZE_MAX_ANY,
		.flag = "disk",
		.arg = "SIZE",
		.default_text = "256M",
		.doc = "Data in the private directories (/tmp, home and /dev/shm) together; one "
		       "file or directory for each 4K.",
	},
	{
		.name = "limits.file_size",
		.type = POLICY_TYPE_SIZE,
		.offset = AT(file_size_bytes),
		.min = 1,
		.max = SIZE_MAX_ANY,
		.flag = "file-size",
		.arg = "SIZE",
		.default_text = "none",
		.doc = "Size beyond which no file can be written.",
	},
	{
		.name = "limits.output",
		.type = POLICY_TYPE_SIZE,
		.offset = AT(output_bytes),
		.min = 1,
		.max = OUTPUT_MAX,
		.flag = "max-output",
		.arg = "SIZE",
		.default_text =
			"none on the command line, 1M per stream in the API and with --json",
		.doc = "Bytes of each output stream that are kept: 64K, 1M, 2G.",
	},
	{
		.name = "limits.output_end",
		.type = POLICY_TYPE_BOOL,
		.offset = AT(output_end),
		.flag = "end-on-output",
		.default_text = "off",
		.doc = "End the run when a stream reaches limits.output, instead of cutting the "
		       "stream.",
	},
	{
		.name = "isolation",
		.type = POLICY_TYPE_LEVEL,
		.offset = AT(isolation),
		.flag = "isolation",
		.arg = "LEVEL",
		.default_text = "auto",
		.doc = "Isolation level: auto (the highest that this machine offers without a "
		       "virtual machine), landlock, namespaces or microvm.",
	},
	{
		.name = "require",
		.type = POLICY_TYPE_LAYERS,
		.offset = AT(require),
		.flag = "require",
		.arg = "LAYER,...",
		.default_text = "nothing beyond what the isolation level needs",
		.doc = "Layers without which the command must not run.",
	},
	{
		.name = "best_effort",
		.type = POLICY_TYPE_LIMITS,
		.offset = AT(best_effort),
		.flag = "best-effort",
		.arg = "LIMIT,...",
		.default_text = "none",
		.doc = "Limits without which the command may run where they cannot be enforced.",
	},
	{
		.name = "user",
		.type = POLICY_TYPE_USER,
		.offset = AT(user),
		.flag = "user",
		.arg = "UID[:GID]",
		.default_text = "the caller; 65534 for runs started by root",
		.doc = "Host ids of the run when it is started by root; never 0.",
	},
};
const size_t policy_keys_count = ARRAY_SIZE(policy_keys);

const char *const policy_level_names[] = {
	[CORDON_LEVEL_AUTO] = "auto",
	[CORDON_LEVEL_LANDLOCK] = "landlock",
	[CORDON_LEVEL_NAMESPACES] = "namespaces",
	[CORDON_LEVEL_MICROVM] = "microvm",
};
static_assert(ARRAY_SIZE(policy_level_names) == CORDON_LEVEL_MAX, "a name for each level");

const char *const policy_protect_names[] = {
	[POLICY_PROTECT_OFF] = "off",
	[POLICY_PROTECT_ON] = "on",
	[POLICY_PROTECT_EXISTING] = "existing",
};
static_assert(ARRAY_SIZE(policy_protect_names) == POLICY_PROTECT_MAX, "a name for each value");

const char *const policy_layer_names[] = {
	"user",	    "mount",   "pid",	  "net",    "ipc",     "uts",
	"landlock", "seccomp", "rlimits", "cgroup", "protect", "kvm",
};
const size_t policy_layer_names_count = ARRAY_SIZE(policy_layer_names);

const char *const policy_limit_names[] = {
	"wall", "memory", "procs", "cpu", "cpu_time", "open_files", "disk", "file_size", "output",
};
const size_t policy_limit_names_count = ARRAY_SIZE(policy_limit_names);

/* Keys of a document that are not settings; a typo may mean one of them. */
static const char *const document_keys[] = { "preset", "version", "$schema", "fs",
					     "env",    "net",	  "limits" };

const struct policy_key *policy_key_find(const char *name)
{
	size_t i;

	for (i = 0; i < policy_keys_count; i++)
		if (strcmp(policy_keys[i].name, name) == 0)
			return &policy_keys[i];
	return NULL;
}

const char *policy_key_suggest(const char *name)
{
	struct nearest n;
	size_t i;

	nearest_init(&n, name);
	for (i = 0; i < ARRAY_SIZE(document_keys); i++)
		nearest_offer(&n, document_keys[i]);
	for (i = 0; i < policy_keys_count; i++)
		nearest_offer(&n, policy_keys[i].name);
	return n.best;
}

int policy_key_is_group(const char *name)
{
	size_t len = strlen(name), i;

	for (i = 0; i < policy_keys_count; i++)
		if (strncmp(policy_keys[i].name, name, len) == 0 && policy_keys[i].name[len] == '.')
			return 1;
	return 0;
}

int policy_type_is_string(enum policy_type type)
{
	return type == POLICY_TYPE_PATH || type == POLICY_TYPE_USER || type == POLICY_TYPE_GPU;
}

int policy_type_is_list(enum policy_type type)
{
	return type == POLICY_TYPE_PATHS || type == POLICY_TYPE_ENV_NAMES ||
	       type == POLICY_TYPE_ENV_VALUES || type == POLICY_TYPE_COMMANDS ||
	       type == POLICY_TYPE_LAYERS || type == POLICY_TYPE_LIMITS ||
	       type == POLICY_TYPE_NET_RULES || type == POLICY_TYPE_PUBLISH;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/macros.h"
#include "base/nearest.h"
#include "base/units.h"
#include "foreign.h"
#include "verbs.h"

#define RUN VERB_BIT(VERB_RUN)
#define SHOW VERB_BIT(VERB_POLICY_SHOW)
#define START VERB_BIT(VERB_SESSION_START)
#define EXEC VERB_BIT(VERB_SESSION_EXEC)
#define POOL_START VERB_BIT(VERB_POOL_START)
#define MCP VERB_BIT(VERB_MCP)
#define WHY VERB_BIT(VERB_WHY)
#define POLICY (RUN | SHOW | WHY | START | POOL_START | MCP)
#define WS_DIFF VERB_BIT(VERB_WORKSPACE_DIFF)
#define WS_COMMIT VERB_BIT(VERB_WORKSPACE_COMMIT)
#define WS_DISCARD VERB_BIT(VERB_WORKSPACE_DISCARD)
#define WS_EXPORT VERB_BIT(VERB_WORKSPACE_EXPORT)
#define WS_GC VERB_BIT(VERB_WORKSPACE_GC)
#define WS_LISTS                                                                                   \
	(VERB_BIT(VERB_WORKSPACE_LIST) | VERB_BIT(VERB_WORKSPACE_STATUS) | WS_DIFF | WS_COMMIT |   \
	 WS_GC)
#define CACHE_GC VERB_BIT(VERB_CACHE_GC)
#define CACHE (VERB_BIT(VERB_CACHE_LIST) | CACHE_GC)
#define MICROVM_SETUP VERB_BIT(VERB_MICROVM_SETUP)
#define MICROVM_GC VERB_BIT(VERB_MICROVM_GC)
#define MICROVM (MICROVM_SETUP | MICROVM_GC | VERB_BIT(VERB_MICROVM_STATUS))
#define SANDBOX_GC VERB_BIT(VERB_SANDBOX_GC)
#define SANDBOX (VERB_BIT(VERB_SANDBOX_LIST) | SANDBOX_GC)
#define NEW VERB_BIT(VERB_NEW)
#define SESSION_LISTS                                                                              \
	(START | EXEC | VERB_BIT(VERB_SESSION_LS) | VERB_BIT(VERB_SESSION_PS) |                    \
	 VERB_BIT(VERB_SESSION_STOP) | VERB_BIT(VERB_PS))
#define KILL VERB_BIT(VERB_KILL)
#define RUN_LISTS (VERB_BIT(VERB_INSPECT) | KILL | VERB_BIT(VERB_LOGS) | VERB_BIT(VERB_WAIT))
#define LISTS                                                                                      \
	(SESSION_LISTS | RUN_LISTS | RUN | SHOW | WHY | NEW | VERB_BIT(VERB_CHECK) |               \
	 VERB_BIT(VERB_POLICY_VALIDATE) | WS_LISTS | CACHE | MICROVM | SANDBOX |                   \
	 VERB_BIT(VERB_POOL_STATUS))
#define ALL UINT64_MAX

static_assert(VERB_MAX <= 64, "struct option keeps the verbs in 64 bits");
static_assert(OPT_MAX <= 128, "struct parsed keeps the options seen in 128 bits");

/* clang-format off */
const struct option option_table[OPT_MAX] = {
	[OPT_READ] = { "read", 'r', GROUP_FILES, COMPLETE_FILE, POLICY, "PATH", "fs.read", NULL,
		"let the command read PATH (may be repeated)" },
	[OPT_WRITE] = { "write", 'w', GROUP_FILES, COMPLETE_FILE, POLICY, "PATH", "fs.write", NULL,
		"let it read and write PATH (may be repeated)" },
	[OPT_DENY] = { "deny", 0, GROUP_FILES, COMPLETE_FILE, POLICY, "PATH", "fs.deny", NULL,
		"hide PATH or what matches a pattern, even in grants" },
	[OPT_WORKSPACE] = { "workspace", 0, GROUP_FILES, COMPLETE_DIR, POLICY, "DIR",
		"fs.workspace", NULL,
		"let it change DIR, and keep the changes apart" },
	[OPT_NAME] = { "name", 0, GROUP_FILES, COMPLETE_NONE, RUN | MCP, "NAME", NULL, NULL,
		"name of the workspace: continued if it exists" },
	[OPT_FROM] = { "from", 0, GROUP_FILES, COMPLETE_NONE, RUN, "NAME", NULL, NULL,
		"begin with a copy of another workspace" },
	[OPT_ON_EXIT] = { "on-exit", 0, GROUP_FILES, COMPLETE_WORDS, RUN, "WHAT", NULL,
		"keep commit discard",
		"keep (default), commit (on success) or discard" },
	[OPT_DIFF] = { "diff", 0, GROUP_FILES, COMPLETE_NONE, RUN, NULL, NULL, NULL,
		"list what was changed, at the end" },
	[OPT_PRIVATE] = { "private", 0, GROUP_FILES, COMPLETE_DIR, RUN | START | POOL_START | MCP,
		"DIR", NULL, NULL,
		"keep its /tmp and home in DIR, for later runs" },
	[OPT_PROTECT] = { "protect", 0, GROUP_FILES, COMPLETE_WORDS, POLICY, "VALUE",
		"fs.protect", "on existing off",
		"git hooks, editor config: on, existing or off" },
	[OPT_NO_PROTECT] = { "no-protect", 0, GROUP_FILES, COMPLETE_NONE, POLICY, NULL,
		"fs.protect", NULL,
		"the same as --protect off" },
	[OPT_COMMANDS] = { "commands", 0, GROUP_FILES, COMPLETE_NONE, POLICY, "A,B,...",
		"commands", NULL,
		"only these programs can be executed" },
	[OPT_GPU] = { "gpu", 0, GROUP_FILES, COMPLETE_WORDS, POLICY, "all|N,...", "gpu", "all none",
		"let it use these GPUs: all, numbers or UUIDs" },
	[OPT_DEVICE] = { "device", 0, GROUP_FILES, COMPLETE_FILE, POLICY, "PATH", "devices", NULL,
		"let it open this character device (/dev/fuse)" },
	[OPT_CWD] = { "cwd", 'C', GROUP_FILES, COMPLETE_DIR, POLICY | EXEC, "DIR", "cwd", NULL,
		"start in DIR, which must be inside a grant" },
	[OPT_ENV] = { "env", 'e', GROUP_FILES, COMPLETE_NONE, POLICY | EXEC, "NAME[=VALUE]", "env.pass",
		NULL,
		"pass on or set an environment variable" },
	[OPT_WITH] = { "with", 0, GROUP_FILES, COMPLETE_NONE, RUN | START, "PACKAGE", NULL, NULL,
		"install NAME[==VERSION] (pip) or npm:NAME[@VERSION]" },
	[OPT_WITH_FILE] = { "with-file", 0, GROUP_FILES, COMPLETE_FILE, RUN | START, "FILE", NULL, NULL,
		"the same for a requirements or package-lock.json" },
	[OPT_WITH_BUILD] = { "with-build", 0, GROUP_FILES, COMPLETE_NONE, RUN | START, NULL, NULL, NULL,
		"let packages run code to be installed" },

	[OPT_NET_ALLOW] = { "net-allow", 0, GROUP_NET, COMPLETE_NONE, POLICY, "HOST", "net.allow", NULL,
		"let it connect to HOST[:PORT,...] (may be repeated)" },
	[OPT_NET_DENY] = { "net-deny", 0, GROUP_NET, COMPLETE_NONE, POLICY, "HOST", "net.deny", NULL,
		"but not to HOST[:PORT,...] (may be repeated)" },
	[OPT_PUBLISH] = { "publish", 0, GROUP_NET, COMPLETE_NONE, POLICY, "PORT", "net.publish", NULL,
		"let the host reach [HOSTPORT:]PORT on 127.0.0.1" },
	[OPT_NET_MAX] = { "net-max", 0, GROUP_NET, COMPLETE_NONE, POLICY, "SIZE", "net.max", NULL,
		"network traffic, both ways together (64M, 2G)" },
	[OPT_NET_LOG] = { "net-log", 0, GROUP_NET, COMPLETE_FILE, RUN, "FILE", NULL, NULL,
		"write one JSON line per connection to FILE" },

	[OPT_PRESET] = { "preset", 0, GROUP_POLICY, COMPLETE_WORDS, POLICY, "NAME", NULL,
		"agent python node build strict",
		"agent, python, node, build or strict" },
	[OPT_POLICY] = { "policy", 'p', GROUP_POLICY, COMPLETE_FILE, POLICY, "FILE", NULL, NULL,
		"merge the policy in FILE (JSON)" },
	[OPT_ISOLATION] = { "isolation", 0, GROUP_POLICY, COMPLETE_WORDS, POLICY, "LEVEL",
		"isolation", "auto namespaces landlock microvm",
		"auto, namespaces or landlock" },
	[OPT_REQUIRE] = { "require", 0, GROUP_POLICY, COMPLETE_WORDS, POLICY, "LAYER[,...]",
		"require", "user mount pid net ipc uts landlock seccomp rlimits cgroup protect",
		"do not run without these layers" },
	[OPT_USER] = { "user", 0, GROUP_POLICY, COMPLETE_NONE, POLICY, "UID[:GID]", "user", NULL,
		"run as this id (only when started by root)" },

	[OPT_TIMEOUT] = { "timeout", 't', GROUP_LIMITS, COMPLETE_NONE, POLICY | EXEC, "DUR",
		"limits.wall", NULL,
		"end it after DUR (500ms, 30s, 5m; default: never)" },
	[OPT_GRACE] = { "grace", 0, GROUP_LIMITS, COMPLETE_NONE, POLICY, "DUR",
		"limits.grace", NULL,
		"from SIGTERM to SIGKILL (default 1s, 0 = none)" },
	[OPT_MEMORY] = { "memory", 'm', GROUP_LIMITS, COMPLETE_NONE, POLICY, "SIZE",
		"limits.memory", NULL,
		"memory of the whole tree (64M, 2G; default: any)" },
	[OPT_PROCS] = { "procs", 'P', GROUP_LIMITS, COMPLETE_NONE, POLICY, "N", "limits.procs",
		NULL,
		"tasks of the whole tree (default 256)" },
	[OPT_CPUS] = { "cpus", 0, GROUP_LIMITS, COMPLETE_NONE, POLICY, "F", "limits.cpu", NULL,
		"CPUs the tree may use (0.5, 2)" },
	[OPT_CPU_TIME] = { "cpu-time", 0, GROUP_LIMITS, COMPLETE_NONE, POLICY, "DUR",
		"limits.cpu_time", NULL,
		"end the command after DUR of CPU time" },
	[OPT_OPEN_FILES] = { "open-files", 0, GROUP_LIMITS, COMPLETE_NONE, POLICY, "N",
		"limits.open_files", NULL,
		"open files of each process (default 1024)" },
	[OPT_DISK] = { "disk", 0, GROUP_LIMITS, COMPLETE_NONE, POLICY, "SIZE", "limits.disk",
		NULL,
		"private /tmp, home, /dev/shm (default 256M)" },
	[OPT_FILE_SIZE] = { "file-size", 0, GROUP_LIMITS, COMPLETE_NONE, POLICY, "SIZE",
		"limits.file_size", NULL,
		"no file grows beyond SIZE" },
	[OPT_MAX_OUTPUT] = { "max-output", 0, GROUP_LIMITS, COMPLETE_NONE, POLICY | EXEC, "SIZE",
		"limits.output", NULL,
		"output per stream (64k, 1M; with --json 1M)" },
	[OPT_END_ON_OUTPUT] = { "end-on-output", 0, GROUP_LIMITS, COMPLETE_NONE, POLICY & ~START, NULL,
		"limits.output_end", NULL,
		"end the run at that limit" },
	[OPT_BEST_EFFORT] = { "best-effort", 0, GROUP_LIMITS, COMPLETE_WORDS, POLICY,
		"LIMIT,...", "best_effort",
		"wall memory procs cpu cpu_time open_files disk file_size output",
		"run even if LIMIT cannot be enforced here" },

	[OPT_WARM] = { "warm", 0, GROUP_RESULT, COMPLETE_NONE, RUN, NULL, NULL, NULL,
		"take a sandbox of 'cordon pool', if one fits" },
	[OPT_INTERACTIVE] = { "interactive", 'i', GROUP_RESULT, COMPLETE_NONE, RUN, NULL, NULL,
		NULL,
		"a terminal of its own (default: if you are at one)" },
	[OPT_NO_TERMINAL] = { "no-terminal", 0, GROUP_RESULT, COMPLETE_NONE, RUN, NULL, NULL, NULL,
		"none: streams pass, control sequences are removed" },
	[OPT_JSON] = { "json", 0, GROUP_RESULT, COMPLETE_NONE, LISTS, NULL, NULL, NULL,
		"print JSON on standard output" },
	[OPT_RECEIPT] = { "receipt", 0, GROUP_RESULT, COMPLETE_FILE, RUN | START | MCP, "FILE", NULL, NULL,
		"write the account of the run to FILE" },
	[OPT_USAGE] = { "usage", 0, GROUP_RESULT, COMPLETE_NONE, RUN, NULL, NULL, NULL,
		"show what the run used, at its end" },
	[OPT_DRY_RUN] = { "dry-run", 0, GROUP_RESULT, COMPLETE_NONE, RUN, NULL, NULL, NULL,
		"print the plan as JSON and run nothing" },
	[OPT_QUIET] = { "quiet", 'q', GROUP_RESULT, COMPLETE_NONE,
		RUN | START | EXEC | MCP | MICROVM_SETUP, NULL, NULL, NULL,
		"no notes, only errors" },
	[OPT_VERBOSE] = { "verbose", 'v', GROUP_RESULT, COMPLETE_NONE, RUN, NULL, NULL, NULL,
		"show the level and the time of each stage" },
	[OPT_PATCH] = { "patch", 0, GROUP_RESULT, COMPLETE_NONE, WS_DIFF, NULL, NULL, NULL,
		"show the changes of each file, line by line" },
	[OPT_STAT] = { "stat", 0, GROUP_RESULT, COMPLETE_NONE, WS_DIFF, NULL, NULL, NULL,
		"show how many lines of each file changed" },
	[OPT_EXCLUDE] = { "exclude", 0, GROUP_RESULT, COMPLETE_FILE, WS_COMMIT, "PATH", NULL, NULL,
		"leave PATH out (may be repeated)" },
	[OPT_ASK] = { "interactive", 'i', GROUP_RESULT, COMPLETE_NONE, WS_COMMIT, NULL, NULL, NULL,
		"ask for each change" },
	[OPT_OURS] = { "ours", 0, GROUP_RESULT, COMPLETE_NONE, WS_COMMIT, NULL, NULL, NULL,
		"in a conflict keep what the base has" },
	[OPT_THEIRS] = { "theirs", 0, GROUP_RESULT, COMPLETE_NONE, WS_COMMIT, NULL, NULL, NULL,
		"in a conflict take what the workspace has" },
	[OPT_FORCE] = { "force", 0, GROUP_RESULT, COMPLETE_NONE, WS_COMMIT, NULL, NULL, NULL,
		"the same as --theirs" },
	[OPT_ALL] = { "all", 0, GROUP_RESULT, COMPLETE_NONE, WS_DISCARD, NULL, NULL, NULL,
		"all workspaces" },
	[OPT_YES] = { "yes", 'y', GROUP_RESULT, COMPLETE_NONE, WS_DISCARD | MCP, NULL, NULL, NULL,
		"do not ask" },
	[OPT_FORMAT] = { "format", 0, GROUP_RESULT, COMPLETE_WORDS, WS_EXPORT, "FORMAT", NULL,
		"tar patch",
		"tar or patch (default patch, tar for a FILE.tar)" },
	[OPT_OUTPUT] = { "output", 'o', GROUP_RESULT, COMPLETE_FILE, WS_EXPORT, "FILE", NULL, NULL,
		"write to FILE, not to standard output" },
	[OPT_OLDER_THAN] = { "older-than", 0, GROUP_RESULT, COMPLETE_NONE, WS_GC | CACHE_GC | SANDBOX_GC,
		"DUR", NULL, NULL,
		"those not used for DUR (36h, 30d)" },
	[OPT_ONLY_SAY] = { "dry-run", 0, GROUP_RESULT, COMPLETE_NONE,
		WS_COMMIT | WS_GC | CACHE_GC | MICROVM_GC | SANDBOX_GC, NULL, NULL, NULL,
		"only show what would happen" },
	[OPT_LIST] = { "list", 0, GROUP_RESULT, COMPLETE_NONE, NEW, NULL, NULL, NULL,
		"list the frameworks" },
	[OPT_RENEW] = { "renew", 0, GROUP_RESULT, COMPLETE_NONE, MICROVM_SETUP, NULL, NULL, NULL,
		"make it again, with the kernel of today" },
	[OPT_SESSION_NAME] = { "name", 0, GROUP_RESULT, COMPLETE_NONE, START, "NAME", NULL, NULL,
		"name of the session (default: a new one)" },
	[OPT_IDLE] = { "idle", 0, GROUP_LIMITS, COMPLETE_NONE, START | POOL_START, "DUR", NULL, NULL,
		"end it after DUR without a command (default 30m)" },
	[OPT_SIZE] = { "size", 0, GROUP_LIMITS, COMPLETE_NONE, POOL_START, "N", NULL, NULL,
		"how many sandboxes wait (1 to 256, default 2)" },
	[OPT_DETACH] = { "detach", 'd', GROUP_RESULT, COMPLETE_NONE, EXEC, NULL, NULL, NULL,
		"do not wait; keep its output for 'session logs'" },
	[OPT_KEEP] = { "keep", 0, GROUP_RESULT, COMPLETE_NONE, EXEC, NULL, NULL, NULL,
		"let the command go on if this process is killed" },
	[OPT_KILL_REST] = { "kill-rest", 0, GROUP_RESULT, COMPLETE_NONE, EXEC, NULL, NULL, NULL,
		"end what the command leaves behind" },
	[OPT_SIGNAL] = { "signal", 's', GROUP_RESULT, COMPLETE_WORDS, KILL, "SIGNAL", NULL,
		"TERM INT HUP QUIT USR1 USR2 TSTP CONT",
		"send this one (default TERM)" },
	[OPT_NOW] = { "now", 0, GROUP_RESULT, COMPLETE_NONE, KILL, NULL, NULL, NULL,
		"end it at once, without a grace" },
	[OPT_SERVE_FILES] = { "serve-files", 0, GROUP_RESULT, COMPLETE_NONE, EXEC, NULL, NULL, NULL,
		"no command: answer requests about files" },
	[OPT_CHANNEL] = { "channel", 0, GROUP_RESULT, COMPLETE_NONE, EXEC, "FD", NULL, NULL,
		"the command gets our descriptor FD as its 3" },
	[OPT_INTERPRETER] = { "interpreter", 0, GROUP_RESULT, COMPLETE_NONE, EXEC, "NAME", NULL, NULL,
		"join the session's interpreter NAME, or start it" },
	[OPT_DIRECT] = { "direct", 0, GROUP_FILES, COMPLETE_NONE, MCP, NULL, NULL, NULL,
		"write to the workspace's directory itself" },
	[OPT_ALLOW_COMMIT] = { "allow-commit", 0, GROUP_FILES, COMPLETE_NONE, MCP, NULL, NULL, NULL,
		"let a client commit what it changed" },
	[OPT_WRAP] = { "wrap", 0, GROUP_RESULT, COMPLETE_NONE, MCP, NULL, NULL, NULL,
		"run another MCP server in a sandbox" },
	[OPT_WRAP_CONFIG] = { "wrap-config", 0, GROUP_RESULT, COMPLETE_FILE, MCP, "FILE", NULL,
		NULL,
		"wrap all servers that a client's FILE names" },
	[OPT_PRINT_CONFIG] = { "print-config", 0, GROUP_RESULT, COMPLETE_WORDS, MCP, "CLIENT", NULL,
		"claude cursor vscode codex opencode",
		"claude, cursor, vscode, codex or opencode" },
	[OPT_SELFTEST] = { "selftest", 0, GROUP_RESULT, COMPLETE_NONE, MCP, NULL, NULL, NULL,
		"play a client: what works (here, or of -- COMMAND)" },
	[OPT_HELP] = { "help", 'h', GROUP_RESULT, COMPLETE_NONE, ALL, NULL, NULL, NULL,
		"print this help" },
};
/* clang-format on */

const char *const option_group_names[GROUP_MAX] = {
	[GROUP_FILES] = "Files and environment",
	[GROUP_NET] = "Network",
	[GROUP_POLICY] = "Policy",
	[GROUP_LIMITS] = "Limits",
	[GROUP_RESULT] = "Output",
};

struct parser {
	int verb;
	char **words;
	size_t next; /* the word to look at next */
	struct parsed *out;
	struct cordon_error *err;
};

const char *parsed_value(const struct parsed *p, int id)
{
	for (size_t i = p->n_options; i-- > 0;) {
		if (p->options[i].id == id)
			return p->options[i].value;
	}
	return NULL;
}

/* A shell leaves "--receipt=~/x" alone. Paths of the policy are the library's to read. */
static const char *with_home(int id, const char *value)
{
	const struct option *o = &option_table[id];
	char home[PATH_MAX], *path;
	size_t size;

	if (!value || value[0] != '~' || (value[1] && value[1] != '/') || o->key ||
	    id == OPT_EXCLUDE || (o->complete != COMPLETE_FILE && o->complete != COMPLETE_DIR) ||
	    !home_directory(home, sizeof(home)))
		return value;
	size = strlen(home) + strlen(value);
	path = malloc(size);
	if (path)
		snprintf(path, size, "%s%s", home, value + 1);
	return path;
}

/* Other programs mean standard output by "-"; here it would be a file of that name. */
static int check_file_name(struct parser *ps, int id, const char *value)
{
	static const struct {
		int id;
		const char *hint;
	} files[] = {
		{ OPT_RECEIPT, "--json is for standard output, './-' for a file of that name" },
		{ OPT_NET_LOG, "'./-' for a file of that name" },
		{ OPT_OUTPUT, "leave -o out for standard output, './-' for a file of that name" },
	};

	for (size_t i = 0; value && !strcmp(value, "-") && i < ARRAY_SIZE(files); i++) {
		if (files[i].id != id)
			continue;
		cordon_err(ps->err, CORDON_E_USAGE, 0, "--%s: '-' is not a file name",
			   option_table[id].name);
		return cordon_err_hint(ps->err, "%s", files[i].hint);
	}
	return 0;
}

static int keep(struct parser *ps, int id, const char *value)
{
	struct parsed *out = ps->out;
	int r = check_file_name(ps, id, value);

	if (r < 0)
		return r;
	if (out->n_options == out->cap) {
		size_t cap = out->cap ? 2 * out->cap : 16;
		struct parsed_option *grown = realloc(out->options, cap * sizeof(*grown));

		if (!grown)
			return cordon_err(ps->err, CORDON_E_NOMEM, 0, "out of memory");
		out->options = grown;
		out->cap = cap;
	}
	out->options[out->n_options].id = id;
	out->options[out->n_options].value = with_home(id, value);
	if (value && !out->options[out->n_options].value)
		return cordon_err(ps->err, CORDON_E_NOMEM, 0, "out of memory");
	out->n_options++;
	out->seen[id / 64] |= (uint64_t)1 << (id % 64);
	return 0;
}

/* The long option named by the first @len bytes of @name, -1 if @verb has no such option. */
static int find_long(int verb, const char *name, size_t len)
{
	for (int i = 0; i < OPT_MAX; i++) {
		const struct option *o = &option_table[i];

		if ((o->verbs & VERB_BIT(verb)) && !strncmp(o->name, name, len) && !o->name[len])
			return i;
	}
	return -1;
}

static int find_short(int verb, char letter)
{
	for (int i = 0; i < OPT_MAX; i++) {
		const struct option *o = &option_table[i];

		if ((o->verbs & VERB_BIT(verb)) && o->letter == letter)
			return i;
	}
	return -1;
}

static int unknown_long(struct parser *ps, const char *name, size_t len)
{
	const char *hint = ps->verb == VERB_RUN ? foreign_option(name, len) : NULL;
	char word[NEAREST_LEN_MAX];
	struct nearest near;

	cordon_err(ps->err, CORDON_E_USAGE, 0, "unknown option '--%.*s'", (int)len, name);
	if (hint)
		return cordon_err_hint(ps->err, "%s", hint);
	if (len < sizeof(word)) {
		memcpy(word, name, len);
		word[len] = '\0';
		nearest_init(&near, word);
		for (int i = 0; i < OPT_MAX; i++) {
			if (option_table[i].verbs & VERB_BIT(ps->verb))
				nearest_offer(&near, option_table[i].name);
		}
		if (near.best)
			return cordon_err_hint(ps->err, "did you mean '--%s'?", near.best);
	}
	return cordon_err_hint(ps->err, "try 'cordon %s --help'", verb_table[ps->verb].name);
}

static int missing_value(struct parser *ps, int id)
{
	const struct option *o = &option_table[id];

	return cordon_err(ps->err, CORDON_E_USAGE, 0, "option '--%s' needs a value: %s", o->name,
			  o->arg);
}

/*
 * Takes the next word as a value. A value may begin with a dash, but "--" is more likely a
 * forgotten value than a file of that name (which can be written "./--").
 */
static int take_next(struct parser *ps, int id)
{
	const char *value = ps->words[ps->next];

	if (!value || !strcmp(value, "--"))
		return missing_value(ps, id);
	ps->next++;
	return keep(ps, id, value);
}

static int parse_long(struct parser *ps, const char *name)
{
	size_t len = strcspn(name, "=");
	int id = find_long(ps->verb, name, len);

	if (id < 0)
		return unknown_long(ps, name, len);
	if (name[len]) {
		if (!option_table[id].arg)
			return cordon_err(ps->err, CORDON_E_USAGE, 0,
					  "option '--%s' takes no value", option_table[id].name);
		return keep(ps, id, name + len + 1);
	}
	if (option_table[id].arg)
		return take_next(ps, id);
	return keep(ps, id, NULL);
}

/* -it COMMAND, which is a time limit here that is none. */
static int is_docker_terminal(const struct parser *ps, const char *letters)
{
	const char *next = ps->words[ps->next];
	int64_t ms;

	if (ps->verb != VERB_RUN || (strcmp(letters, "it") != 0 && strcmp(letters, "ti") != 0))
		return 0;
	return letters[0] == 't' || !next || units_parse_duration(next, &ms, NULL) < 0;
}

/* "-q", "-qv", "-t5s", "-t 5s", "-qt5s". */
static int parse_short(struct parser *ps, const char *letters)
{
	if (is_docker_terminal(ps, letters)) {
		cordon_err(ps->err, CORDON_E_USAGE, 0, "'-%s' means -i and -t DUR here", letters);
		return cordon_err_hint(ps->err, "%s", foreign_option("tty", 3));
	}
	for (; *letters; letters++) {
		int id = find_short(ps->verb, *letters);

		if (id < 0) {
			/* A whole character, so that the message shows what was typed. */
			int len = 1;

			while (((unsigned char)letters[len] & 0xc0) == 0x80)
				len++;
			cordon_err(ps->err, CORDON_E_USAGE, 0, "unknown option '-%.*s'", len,
				   letters);
			if (ps->verb == VERB_RUN && *letters == 'c')
				return cordon_err_hint(ps->err, "%s", foreign_option("c", 1));
			return cordon_err_hint(ps->err, "try 'cordon %s --help'",
					       verb_table[ps->verb].name);
		}
		if (option_table[id].arg)
			return letters[1] ? keep(ps, id, letters + 1) : take_next(ps, id);
		if (keep(ps, id, NULL) < 0)
			return -CORDON_E_NOMEM;
	}
	return 0;
}

int options_parse(int verb, char **argv, struct parsed *ret, struct cordon_error *err)
{
	struct parsed out = { .verb = verb };
	struct parser ps = { .verb = verb, .words = argv, .out = &out, .err = err };
	size_t n_operands = 0;
	int r = 0;

	while (argv[ps.next]) {
		char *word = argv[ps.next];

		if (word[0] != '-' || !word[1]) {
			if (!verb_table[verb].permute)
				break;
			/* Operands gather at the front of the array, over words already seen. */
			argv[n_operands++] = word;
			ps.next++;
			continue;
		}
		ps.next++;
		if (!strcmp(word, "--"))
			break;
		r = word[1] == '-' ? parse_long(&ps, word + 2) : parse_short(&ps, word + 1);
		if (r < 0) {
			free(out.options);
			return r;
		}
	}
	if (verb_table[verb].permute) {
		while (argv[ps.next])
			argv[n_operands++] = argv[ps.next++];
		argv[n_operands] = NULL;
		out.rest = argv;
	} else {
		out.rest = argv + ps.next;
	}
	while (out.rest[out.n_rest])
		out.n_rest++;
	*ret = out;
	return 0;
}

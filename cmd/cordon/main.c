/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command `cordon`.
 *
 * A run of a short program takes about two milliseconds, so everything here must be cheap: no
 * locale, no stdio, no allocation beyond what a verb needs, and no freeing at the end of what the
 * kernel takes back anyway.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json_write.h"
#include "base/nearest.h"
#include "foreign.h"
#include "mcp/mcp.h"
#include "microvm/microvm.h"
#include "out.h"
#include "verbs.h"

unsigned closed_at_start;

#define WORKSPACE_CHOICE                                                                           \
	"Without ID, NAME or DIR: the workspace over the current directory or the\n"               \
	"nearest one above it.\n"

const struct verb_group verb_groups[VERB_GROUPS] = {
	{ "policy", "Policies: what a run may do, as data." },
	{ "workspace",
	  "Workspaces: what runs changed, kept apart until you commit or discard it." },
	{ "cache", "Packages that were installed for runs (--with)." },
	{ "microvm", "Guests of level microvm: a small virtual machine with its own kernel." },
	{ "sandbox", "Private files that sandboxes of the Python package keep between runs." },
	{ "pool", "Empty sandboxes made ahead, for 'cordon run --warm'." },
	{ "session", "Sessions: several commands in one sandbox, which outlives them." },
};

/* clang-format off */
const struct verb verb_table[VERB_MAX] = {
	[VERB_RUN] = { "run", "[OPTIONS] [--] COMMAND [ARG...]",
		"run a command in a sandbox",
		"Without options the command has no network and writes nothing of yours; it\n"
		"reads the system's files, its own installation and the current directory.\n"
		"Its /tmp and home are private and gone at the end. Examples:\n"
		"  cordon run python3 script.py\n"
		"  cordon run -w . -t 5m -- make test\n"
		"  cordon run --workspace . --diff -- sh install.sh\n"
		"  cordon run --net-allow example.com -- curl https://example.com\n"
		"  cordon run -- sh -c 'ls | wc -l'\n", 0,
		cmd_run },
	[VERB_CHECK] = { "check", "[--json]",
		"show what this machine offers, layer by layer",
		"Exit status: 0 all of level namespaces, 1 only level landlock, 125 neither.\n", 1,
		cmd_check },
	[VERB_WHY] = { "why", "[OPTIONS] PATH|HOST|PROGRAM",
		"say whether a run might use it, and what would allow it",
		"Takes the options of 'cordon run' that decide it. Nothing runs. Examples:\n"
		"  cordon why ~/data\n"
		"  cordon why --net-allow example.com example.com:8080\n"
		"  cordon why --preset node npm\n", 1,
		cmd_why },
	[VERB_EXPLAIN] = { "explain", "RECEIPT",
		"say what a run was refused, and the options that allow it",
		"RECEIPT is what 'cordon run --receipt FILE' or --json wrote; - is standard\n"
		"input. "
		"Example:\n"
		"  cordon run --receipt r.json -- make; cordon explain r.json\n", 1,
		cmd_explain },
	[VERB_POLICY_SHOW] = { "policy show", "[OPTIONS] [--] [COMMAND [ARG...]]",
		"print the effective policy; with COMMAND also its plan", NULL, 0,
		cmd_policy_show },
	[VERB_POLICY_VALIDATE] = { "policy validate", "[--json] FILE...",
		"check policy files", NULL, 1,
		cmd_policy_validate },
	[VERB_POLICY_SCHEMA] = { "policy schema", "",
		"print the JSON Schema of policies", NULL, 1,
		cmd_policy_schema },
	[VERB_WORKSPACE_LIST] = { "workspace list", "[--json]",
		"list the workspaces", NULL, 1,
		cmd_workspace_list },
	[VERB_WORKSPACE_STATUS] = { "workspace status", "[--json] [ID|NAME|DIR]",
		"show the state of one workspace",
		WORKSPACE_CHOICE, 1,
		cmd_workspace_status },
	[VERB_WORKSPACE_DIFF] = { "workspace diff", "[OPTIONS] [ID|NAME|DIR [PATH...]]",
		"show what was changed in a workspace",
		"PATHs are relative to the workspace's directory, or absolute and below it.\n"
		WORKSPACE_CHOICE, 1,
		cmd_workspace_diff },
	[VERB_WORKSPACE_COMMIT] = { "workspace commit", "[OPTIONS] [ID|NAME|DIR [PATH...]]",
		"apply all changes, or some, to the directory",
		"PATHs are relative to the workspace's directory, or absolute and below it.\n"
		"Risky changes are committed only if their exact path is given.\n"
		WORKSPACE_CHOICE
		"Exit status: 0 all was applied, 1 something was refused or is in conflict, 125\n"
		"an error; repeat the command to finish.\n", 1,
		cmd_workspace_commit },
	[VERB_WORKSPACE_DISCARD] = { "workspace discard", "[OPTIONS] [ID|NAME|DIR...]",
		"remove workspaces with all their changes",
		WORKSPACE_CHOICE, 1,
		cmd_workspace_discard },
	[VERB_WORKSPACE_EXPORT] = { "workspace export", "[OPTIONS] [ID|NAME|DIR [PATH...]]",
		"write the changes as a patch or an archive",
		"PATHs are relative to the workspace's directory, or absolute and below it.\n"
		WORKSPACE_CHOICE, 1,
		cmd_workspace_export },
	[VERB_WORKSPACE_GC] = { "workspace gc", "[OPTIONS]",
		"remove workspaces that are no longer needed",
		"Removes workspaces without changes and without a name, and unfinished ones.\n", 1,
		cmd_workspace_gc },
	[VERB_CACHE_LIST] = { "cache list", "[--json]",
		"list the packages that runs can use", NULL, 1,
		cmd_cache_list },
	[VERB_CACHE_GC] = { "cache gc", "[OPTIONS]",
		"remove packages that were not used for 30 days",
		"--older-than says how long, if not 30 days. What a run uses now stays.\n", 1,
		cmd_cache_gc },
	[VERB_MICROVM_SETUP] = { "microvm setup", "[OPTIONS]",
		"make the guest that level microvm starts",
		"Takes the installed kernel, or fetches the distribution's with apt-get (70 MB)\n"
		"without installing it. 'cordon run' does it by itself when there is none.\n", 1,
		cmd_microvm_setup },
	[VERB_MICROVM_STATUS] = { "microvm status", "[--json]",
		"show QEMU, the acceleration and the guests", NULL, 1,
		cmd_microvm_status },
	[VERB_MICROVM_GC] = { "microvm gc", "[OPTIONS]",
		"remove guests that this command does not use",
		"Those of other versions, of older kernels, and unfinished ones.\n", 1,
		cmd_microvm_gc },
	[VERB_SANDBOX_LIST] = { "sandbox list", "[--json]",
		"list the private files of sandboxes", NULL, 1,
		cmd_sandbox_list },
	[VERB_SANDBOX_GC] = { "sandbox gc", "[OPTIONS]",
		"remove private files that are no longer needed",
		"Removes what killed programs left; what was kept on purpose only with\n"
		"--older-than, by its last use. What is in use stays.\n", 1,
		cmd_sandbox_gc },
	[VERB_POOL_START] = { "pool start", "[OPTIONS] [--] [PROGRAM]",
		"start a process that makes sandboxes ahead",
		"The options are those of the runs that will use them: 'cordon run --warm' with\n"
		"others is started as without a pool. One for each user.\n", 0,
		cmd_pool_start },
	[VERB_POOL_STATUS] = { "pool status", "[--json]",
		"show how many sandboxes wait and were used", NULL, 1,
		cmd_pool_status },
	[VERB_POOL_STOP] = { "pool stop", "",
		"end it; runs that have begun go on", NULL, 1,
		cmd_pool_stop },
	[VERB_SESSION_START] = { "session start", "[OPTIONS] [--] [PROGRAM]",
		"start a session and print its name",
		"The options are those of 'cordon run' and hold for the whole session; -t is how\n"
		"long it may live (default 24h). With PROGRAM its installation can be used.\n", 0,
		cmd_session_start },
	[VERB_SESSION_EXEC] = { "session exec", "[OPTIONS] NAME [--] COMMAND [ARG...]",
		"run a command in a session",
		"The exit status is the command's, as with 'cordon run'. What it leaves running\n"
		"goes on in the session. It gets no terminal of its own.\n", 0,
		cmd_session_exec },
	[VERB_SESSION_PUT] = { "session put", "NAME FILE PATH",
		"copy a file into a session", NULL, 1,
		cmd_session_put },
	[VERB_SESSION_GET] = { "session get", "NAME PATH FILE|-",
		"copy a file out of a session", NULL, 1,
		cmd_session_get },
	[VERB_SESSION_LS] = { "session ls", "[--json] NAME [PATH]",
		"list a directory of a session", NULL, 1,
		cmd_session_ls },
	[VERB_SESSION_LOGS] = { "session logs", "NAME NUMBER",
		"print what a detached command has written", NULL, 1,
		cmd_session_logs },
	[VERB_SESSION_PS] = { "session ps", "[--json] NAME",
		"list the commands of a session", NULL, 1,
		cmd_session_ps },
	[VERB_SESSION_ENV] = { "session env", "NAME VARIABLE=VALUE...",
		"set variables for its commands from now on", NULL, 1,
		cmd_session_env },
	[VERB_SESSION_PAUSE] = { "session pause", "NAME",
		"stop every process of a session", NULL, 1,
		cmd_session_pause },
	[VERB_SESSION_RESUME] = { "session resume", "NAME",
		"let them go on", NULL, 1,
		cmd_session_resume },
	[VERB_SESSION_KILL] = { "session kill", "NAME NUMBER [SIGNAL]",
		"end a command of a session, or send it a signal", NULL, 1,
		cmd_session_kill },
	[VERB_SESSION_STOP] = { "session stop", "[--json] NAME",
		"end a session; --json prints its receipt", NULL, 1,
		cmd_session_stop },
	[VERB_PS] = { "ps", "[--json]",
		"list the runs that last, and the sessions",
		"A run is listed when it has lasted for half a second, under an id of which the\n"
		"first few letters are enough for the other verbs.\n", 1,
		cmd_ps },
	[VERB_INSPECT] = { "inspect", "[--json] RUN",
		"show a run that lasts, with its policy", NULL, 1,
		cmd_inspect },
	[VERB_KILL] = { "kill", "[OPTIONS] RUN",
		"end a run, or send it a signal",
		"As a signal to 'cordon run' itself: the command gets it, and has its grace.\n", 1,
		cmd_kill },
	[VERB_LOGS] = { "logs", "[--json] RUN",
		"print what a run has written to its log",
		"Only a run whose output goes to a file has one:\n"
		"  cordon run -- make > log 2>&1 &\n", 1,
		cmd_logs },
	[VERB_WAIT] = { "wait", "[--json] RUN",
		"wait for a run, and exit with its status",
		"--json prints the status and the receipt.\n", 1,
		cmd_wait },
	[VERB_MCP] = { "mcp", "[OPTIONS] | --wrap [OPTIONS] -- SERVER [ARG...]",
		"serve sandboxed commands to MCP clients, or wrap a server",
		"No argument of a call can widen the policy. Without them a call has 2 minutes,\n"
		"1 GiB, and 64 KiB of each output. Examples:\n"
		"  cordon mcp --workspace .\n"
		"  cordon mcp --print-config claude --workspace .\n"
		"  cordon mcp --wrap --net-allow api.github.com -- SERVER\n", 0,
		cmd_mcp },
	[VERB_NEW] = { "new", "[--json] FRAMEWORK DIR | --list",
		"make a project whose tools run in a sandbox",
		"FRAMEWORK is crewai, autogen, openai-agents or langchain. DIR must be empty\n"
		"or not exist yet; its name becomes the project's.\n", 1,
		cmd_new },
	[VERB_COMPLETION] = { "completion", "bash|zsh|fish",
		"print a completion script for a shell", NULL, 1,
		cmd_completion },
	[VERB_HELP] = { "help", "[VERB]",
		"explain a verb", NULL, 1,
		cmd_help },
};
/* clang-format on */

/* A later open() must never land on a standard descriptor that the caller had closed. */
static int fill_standard_fds(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		if (open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd)
			return -1;
		closed_at_start |= 1u << fd;
	}
	return 0;
}

int verb_find(const char *first, const char *second, size_t *ret_words)
{
	for (int i = 0; i < VERB_MAX; i++) {
		const char *name = verb_table[i].name;
		size_t len = strcspn(name, " ");

		if (strncmp(name, first, len) != 0 || first[len])
			continue;
		if (!name[len]) {
			*ret_words = 1;
			return i;
		}
		if (second && !strcmp(name + len + 1, second)) {
			*ret_words = 2;
			return i;
		}
	}
	return -1;
}

const struct verb_group *verb_group_find(const char *word)
{
	for (size_t i = 0; i < VERB_GROUPS; i++) {
		if (!strcmp(verb_groups[i].name, word))
			return &verb_groups[i];
	}
	return NULL;
}

const char *verb_in_group(int i, const struct verb_group *group)
{
	const char *name = verb_table[i].name;
	size_t len = strlen(group->name);

	return !strncmp(name, group->name, len) && name[len] == ' ' ? name + len + 1 : NULL;
}

void verb_group_words(const struct verb_group *group, const char *between, struct strbuf *sb)
{
	int is_first = 1;

	for (int i = 0; i < VERB_MAX; i++) {
		const char *word = verb_in_group(i, group);

		if (!word)
			continue;
		if (!is_first)
			strbuf_puts(sb, between);
		strbuf_puts(sb, word);
		is_first = 0;
	}
}

/* The first word is a group; the second is missing or wrong. */
static void unknown_in_group(const struct verb_group *group, const char *second,
			     struct cordon_error *err)
{
	struct strbuf words = STRBUF_INIT;
	struct nearest near;

	nearest_init(&near, second ? second : "");
	for (int i = 0; i < VERB_MAX; i++) {
		if (verb_in_group(i, group))
			nearest_offer(&near, verb_in_group(i, group));
	}
	if (!second) {
		verb_group_words(group, ", ", &words);
		cordon_err(err, CORDON_E_USAGE, 0, "'%s' needs one of: %s", group->name,
			   words.failed ? "?" : words.data);
		strbuf_done(&words);
	} else {
		cordon_err(err, CORDON_E_USAGE, 0, "unknown verb '%s %s'", group->name, second);
	}
	/* The only group whose list is a verb by itself. */
	if (second && !strcmp(group->name, "session") && !strcmp(second, "list"))
		cordon_err_hint(err, "'cordon ps' lists the sessions");
	else if (second && near.best)
		cordon_err_hint(err, "did you mean '%s'?", near.best);
	else
		cordon_err_hint(err, "try 'cordon %s --help'", group->name);
}

/* An option where a verb should be. */
static int unknown_option(const char *word)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct nearest near;

	nearest_init(&near, word);
	nearest_offer(&near, "--help");
	nearest_offer(&near, "--version");
	cordon_err(&err, CORDON_E_USAGE, 0, "unknown option '%s'", word);
	/* A letter is near to every other. */
	if (near.best && word[1] == '-')
		cordon_err_hint(&err, "did you mean '%s'?", near.best);
	else
		cordon_err_hint(&err, "try 'cordon --help'");
	say_error(&err);
	return STATUS_FAILED;
}

/* The second word of verbs alone, such as 'logs'. */
static int hint_with_group(const char *word, struct cordon_error *err)
{
	struct strbuf names = STRBUF_INIT;
	int n = 0;

	for (int i = 0; i < VERB_MAX; i++) {
		const char *name = verb_table[i].name, *blank = strchr(name, ' ');

		if (blank && !strcmp(blank + 1, word))
			strbuf_printf(&names, "%s'%s'", n++ ? " or " : "", name);
	}
	if (n && !names.failed)
		cordon_err_hint(err, "did you mean %s?", names.data);
	strbuf_done(&names);
	return n;
}

int verb_unknown(const char *first, const char *second)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	const struct verb_group *group = verb_group_find(first);
	struct nearest near;

	if (group) {
		unknown_in_group(group, second, &err);
		say_error(&err);
		return STATUS_FAILED;
	}
	if (first[0] == '-' && strcmp(first, "--") != 0)
		return unknown_option(first);
	nearest_init(&near, first);
	for (int i = 0; i < VERB_MAX; i++) {
		/* Two letters are near to every other two. */
		if (!strchr(verb_table[i].name, ' ') && strlen(verb_table[i].name) > 2)
			nearest_offer(&near, verb_table[i].name);
	}
	for (size_t i = 0; i < VERB_GROUPS; i++)
		nearest_offer(&near, verb_groups[i].name);
	if (strcmp(first, "--") != 0)
		cordon_err(&err, CORDON_E_USAGE, 0, "unknown verb '%s'", first);
	else
		cordon_err(&err, CORDON_E_USAGE, 0, "no verb given");
	if (near.best && !hint_with_group(first, &err))
		cordon_err_hint(&err, "did you mean '%s'?", near.best);
	else if (!foreign_verb(first, second, &err) && !hint_with_group(first, &err))
		cordon_err_hint(&err, "try 'cordon --help'");
	say_error(&err);
	return STATUS_FAILED;
}

int status_of_error(const struct cordon_error *err)
{
	if (err->code == CORDON_E_NOT_FOUND)
		return STATUS_NOT_FOUND;
	if (err->code == CORDON_E_NOT_EXECUTABLE)
		return STATUS_NOT_EXECUTABLE;
	return STATUS_FAILED;
}

static int print_version(void)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_printf(&sb, "cordon %s\n", cordon_version());
	return out_finish(&sb, 0);
}

/* A caller that asked for JSON gets JSON, even if the rest of the line is wrong. */
static int wants_json(char *const *words)
{
	for (; *words && strcmp(*words, "--") != 0; words++) {
		if (!strcmp(*words, "--json"))
			return 1;
	}
	return 0;
}

static int run_verb(int verb, char **words)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	static struct parsed args; /* static, so that leak checkers still see it at the end */
	int json = verb == VERB_RUN && wants_json(words);

	if (options_parse(verb, words, &args, &err) < 0) {
		say_error(&err);
		return json ? run_report_failure(&err) : STATUS_FAILED;
	}
	if (parsed_has(&args, OPT_HELP))
		return help_verb(STDOUT_FILENO, verb);
	return verb_table[verb].run(&args);
}

static int is_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h");
}

/*
 * Descriptors in flight of all of a user's processes count against the sender's soft limit
 * (unix(7), ETOOMANYREFS). A command inside can keep as many in flight as its limit allows, which
 * is lower than this one, so it cannot prevent further runs. The policy sets the limit of commands.
 */
static void raise_open_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	const struct verb_group *group;
	size_t words = 0;
	int (*role)(void);
	int verb;

	if (fill_standard_fds() < 0)
		return STATUS_FAILED;
	/* So that a write beyond ulimit -f is an error that can be reported; init undoes this. */
	(void)sigaction(SIGXFSZ, &ignore, NULL);
	raise_open_files();
	role = microvm_role(argv[0]);
	if (role)
		return role();
	if (argc < 2) {
		help_top(STDERR_FILENO);
		return STATUS_FAILED;
	}
	verb = verb_find(argv[1], argv[2], &words);
	if (verb >= 0)
		return run_verb(verb, argv + 1 + words);
	if (is_help(argv[1]))
		return help_top(STDOUT_FILENO);
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V") ||
	    (!strcmp(argv[1], "version") && !argv[2]))
		return print_version();
	group = verb_group_find(argv[1]);
	if (group && argv[2] && is_help(argv[2]))
		return help_group(STDOUT_FILENO, group);
	return verb_unknown(argv[1], argv[2]);
}

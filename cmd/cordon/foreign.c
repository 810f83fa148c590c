/* SPDX-License-Identifier: Apache-2.0 */
#include "foreign.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"

#define SHOWN_MAX 200 /* of a line that is repeated in a hint */
#define SHELL_CHARACTERS " \t\n|&;<>()$`*?{}"

static const char read_path[] = "-r PATH shows it, at the same path inside";
static const char write_path[] = "-w PATH lets it be written, at the same path inside";
static const char volume[] = "-r DIR shows it, -w DIR lets it be written, at the same path inside";
static const char network[] = "there is no network but what --net-allow HOST names";
static const char always[] = "that is always so; leave it out";
static const char shell_line[] = "a shell's line: cordon run -- sh -c 'LINE'";
static const char policies[] = "--preset NAME, or -p FILE for a policy of your own";
static const char hidden[] = "only what is granted is there; --deny PATH hides something inside it";

/* bubblewrap, firejail, Docker and Podman, Deno and Node, sandbox-exec, nsjail. */
static const struct {
	const char *name, *hint;
} foreign[] = {
	{ "allow-all", "say what it may do: -r, -w, --net-allow, -e" },
	{ "allow-env", "-e NAME passes a variable on" },
	{ "allow-fs-read", read_path },
	{ "allow-fs-write", write_path },
	{ "allow-net", "--net-allow HOST" },
	{ "allow-read", read_path },
	{ "allow-run", "every program that is visible can be run; --commands A,B limits that" },
	{ "allow-write", write_path },
	{ "bind", write_path },
	{ "bind-try", write_path },
	{ "bindmount", write_path },
	{ "bindmount_ro", read_path },
	{ "blacklist", hidden },
	{ "c", shell_line },
	{ "cap-drop", always },
	{ "chdir", "-C DIR" },
	{ "clearenv", always },
	{ "dev", always },
	{ "dev-bind", write_path },
	{ "die-with-parent", always },
	{ "env-file", "-e NAME=VALUE, once for each" },
	{ "mount", volume },
	{ "net", network },
	{ "network", network },
	{ "new-session", always },
	{ "no-network", always },
	{ "private-dev", always },
	{ "private-tmp", always },
	{ "proc", always },
	{ "profile", policies },
	{ "read-only", always },
	{ "rm", "nothing is kept; leave it out" },
	{ "ro-bind", read_path },
	{ "ro-bind-try", read_path },
	{ "seccomp", always },
	{ "security-opt", always },
	{ "setenv", "-e NAME=VALUE" },
	{ "share-net", network },
	{ "tmpfs", "/tmp and home are private; --disk SIZE says how much they hold" },
	{ "tty", "the command has a terminal when you are at one; -i insists" },
	{ "unshare-all", always },
	{ "unshare-ipc", always },
	{ "unshare-net", always },
	{ "unshare-pid", always },
	{ "unshare-user", always },
	{ "volume", volume },
	{ "whitelist", volume },
	{ "workdir", "-C DIR" },
};

const char *foreign_option(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++) {
		if (!strncmp(foreign[i].name, name, len) && !foreign[i].name[len])
			return foreign[i].hint;
	}
	return NULL;
}

/* NAME=VALUE before a command, as in a shell. */
static int is_assignment(const char *word)
{
	size_t len =
		strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

	return len > 0 && word[len] == '=' && (word[0] < '0' || word[0] > '9');
}

void foreign_command(const struct parsed *args, struct cordon_error *err)
{
	const char *word = args->rest[0];

	if (parsed_has(args, OPT_VERBOSE) && strchr("/.~", word[0]) && strchr(word, ':'))
		cordon_err_hint(err, "-v is --verbose here; %s", volume);
	else if (is_assignment(word))
		cordon_err_hint(err, "-e NAME=VALUE, before the command, sets a variable");
	else if (args->n_rest > 1 || !strpbrk(word, SHELL_CHARACTERS))
		return;
	else if (strchr(word, '\'') || strlen(word) > SHOWN_MAX)
		cordon_err_hint(err, "%s", shell_line);
	else
		cordon_err_hint(err, "a shell's line: cordon run -- sh -c '%s'", word);
}

void foreign_in_session(char *const *words, struct cordon_error *err)
{
	if (words[0][0] == '-')
		cordon_err_hint(err, "options come before the session's name");
	else if (is_assignment(words[0]))
		cordon_err_hint(err, "-e NAME=VALUE, before the session's name, sets a variable");
	else if (!words[1] && strpbrk(words[0], SHELL_CHARACTERS))
		cordon_err_hint(err, "a shell's line: cordon session exec NAME -- sh -c 'LINE'");
}

static int is_executable(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static int is_program(const char *word)
{
	const char *path = getenv("PATH");
	char file[PATH_MAX];

	if (!*word || strchr(word, '/'))
		return *word && is_executable(word);
	while (path && *path) {
		int len = (int)strcspn(path, ":");
		int n = snprintf(file, sizeof(file), "%.*s/%s", len, path, word);

		if (path[0] == '/' && n < (int)sizeof(file) && is_executable(file))
			return 1;
		path += len + (path[len] == ':');
	}
	return 0;
}

int foreign_verb(const char *first, const char *second, struct cordon_error *err)
{
	const char *command = first;

	if (!strcmp(first, "--") || !strcmp(first, "exec"))
		command = second && !strcmp(second, "--") ? NULL : second;
	if (!command || !is_program(command))
		return 0;
	cordon_err_hint(err, "to run it: cordon run -- %s", command);
	return 1;
}

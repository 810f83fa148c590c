/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may make layers: interpreters and installers of the system, and no others.
 *
 * Whoever makes a layer decides what later runs in every project import, and gets the password of
 * the index. So it must be nothing that a run could have written. A virtual environment lies in a
 * project, and runs write to projects: its interpreter may be replaced and say about itself what it
 * likes, its pip, .pth files and pyvenv.cfg run before anything of ours does. Hence links are
 * followed to their end and the program is executed by its real path, where none of that is beside
 * it, and the real path must be one that only the administrator changes.
 *
 * For root's own runs the owner says little: what they write in a grant is root's, too. There the
 * places decide, and what this run can write to is none.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/path.h"
#include "packages/packages.h"
#include "policy/policy.h"
#include "sys/calls.h"

#define HEAD_MAX 4096 /* the kernel reads less of a "#!" line */

static const char *const places[] = { "/usr", "/bin", "/opt", "/nix/store" };

static bool is_in_place(const char *real)
{
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		if (path_is_within(places[i], real))
			return true;
	}
	return false;
}

/*
 * Does root alone decide about the file and the directories above it? A directory where everybody
 * removes only what is his own (the store of Nix) is fine, since what is root's in it stays. Not
 * "/" itself: who can change that has replaced all of the system, and us.
 */
static bool is_roots(const char *real)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s", real);
	if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != 0 || st.st_mode & 022)
		return false;
	for (;;) {
		size_t len = path_dir_len(path);

		if (len <= 1)
			return len == 1;
		path[len] = '\0';
		if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != 0 ||
		    (st.st_mode & 022 && !(st.st_mode & S_ISVTX)))
			return false;
	}
}

static bool is_below(const char *cwd, const char *dir, const char *real)
{
	char path[PATH_MAX], there[PATH_MAX];

	return path_normalise(cwd, dir, path, sizeof(path)) >= 0 && realpath(path, there) &&
	       path_is_within(there, real);
}

/* By a run that uses the packages. */
static bool can_be_written(const struct cordon_packages_options *options, const char *real)
{
	const struct cordon_policy *policy = options->policy;
	char here[PATH_MAX];
	const char *cwd = options->cwd ? options->cwd : getcwd(here, sizeof(here));

	for (size_t i = 0; policy && i < policy->fs_write.n; i++) {
		if (is_below(cwd, policy->fs_write.v[i], real))
			return true;
	}
	return policy && policy->workspace && is_below(cwd, policy->workspace, real);
}

int system_program(const struct request *rq, const char *path, const char **ret_real,
		   struct cordon_error *err)
{
	char real[PATH_MAX];
	const char *why = NULL;

	if (!realpath(path, real))
		return cordon_err(err, CORDON_E_PATH, errno, "'%s'", path);
	if (!is_in_place(real))
		why = "it lies outside /usr, /bin, /opt and /nix/store";
	else if (!is_roots(real))
		why = "others than root can change it";
	else if (can_be_written(rq->options, real))
		why = "the command can write to it";
	if (why) {
		(void)cordon_err(err, CORDON_E_USAGE, 0,
				 "packages need an interpreter of the system, and '%s' is not: %s",
				 path, why);
		(void)cordon_err_hint(err,
				      rq->installer == INSTALLER_PIP
					      ? "name /usr/bin/python3, or install what you need "
						"in the virtual environment"
					      : "use the system's node and npm, or install what "
						"you need in the project");
		return -CORDON_E_USAGE;
	}
	*ret_real = arena_strdup(rq->arena, real);
	return *ret_real ? 0 : cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
}

/* --- programs of packages -----------------------------------------------------------------------
 */

/* A word of a "#!" line that is a path: does it lead to the system? */
static bool is_system_word(const char *word)
{
	char real[PATH_MAX];

	if (path_has_dotdot(word) || !is_in_place(word))
		return false;
	return !realpath(word, real) || is_in_place(real);
}

/* @line: what follows "#!". The first word is a path; others may be (for env). */
static bool is_system_line(char *line)
{
	char *rest = NULL;
	const char *word = strtok_r(line, " \t\r", &rest);

	if (!word || word[0] != '/')
		return false;
	for (; word; word = strtok_r(NULL, " \t\r", &rest)) {
		if (strchr(word, '/') && !is_system_word(word))
			return false;
	}
	return true;
}

static int check_program(int tree_fd, const char *dir, const char *name, struct cordon_error *err)
{
	char path[NAME_MAX + 64], head[HEAD_MAX + 1];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = sys_openat2(tree_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
			 RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
	/* A link to nothing is no program, and neither is a directory. */
	if (fd == -ENOENT)
		return 0;
	n = fd < 0 ? fd : read(fd, head, HEAD_MAX);
	n = n < 0 && fd >= 0 ? -errno : n;
	if (fd >= 0)
		close(fd);
	if (n == -EISDIR)
		return 0;
	if (n >= 0) {
		head[n] = '\0';
		head[strcspn(head, "\n")] = '\0';
		if (strncmp(head, "#!", 2) != 0 || is_system_line(head + 2))
			return 0;
	}
	(void)cordon_err(err, CORDON_E_SETUP, 0,
			 "the packages' program '%s' leads to files that are not the system's",
			 name);
	(void)cordon_err_hint(err, "use another version of the package, or another package");
	return -CORDON_E_SETUP;
}

/*
 * To start a script, a run shows the installation of its interpreter. A package must not choose
 * which of the user's directories that is.
 */
int system_check_programs(const struct request *rq, int tree_fd, struct cordon_error *err)
{
	const char *dir = rq->installer == INSTALLER_PIP ? "bin" : "node_modules/.bin";
	int r = 0, fd = sys_openat2(tree_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	struct dirent *e;
	DIR *d;

	if (fd == -ENOENT)
		return 0;
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		if (fd >= 0)
			close(fd);
		return cordon_err(err, CORDON_E_SYSTEM, fd < 0 ? -fd : errno,
				  "cannot look at the packages' programs");
	}
	while (r == 0 && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = check_program(tree_fd, dir, e->d_name, err);
	}
	closedir(d);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What a git config orders, and everything that git obeys on account of a repository. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "git/config.h"
#include "git/follow.h"
#include "git/read.h"

#include "tap.h"

static char seen[8192];

static void say(const char *what, const char *text)
{
	size_t len = strlen(seen);

	snprintf(seen + len, sizeof(seen) - len, "%s %s\n", what, text);
}

static int see_order(void *ctx, enum git_order what, const char *value)
{
	static const char *const names[] = { "hooks", "include", "worktree", "command" };

	(void)ctx;
	say(names[what], value);
	return 0;
}

static const char *orders_of(const char *text, size_t len)
{
	/* Of its exact size, so that a sanitizer sees a byte too many. */
	char *copy = malloc(len ? len : 1);

	seen[0] = '\0';
	memcpy(copy, text, len);
	CHECK_INT(git_config_orders(copy, len, see_order, NULL), 0);
	free(copy);
	return seen;
}

static void test_orders(void)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "", "" },
		{ "[core]\n\thooksPath = a/b\n", "hooks a/b\n" },
		{ "[CORE]HOOKSPATH=x", "hooks x\n" },
		{ "[core] hooksPath = a ; b\n", "hooks a\n" },
		{ "[core] hooksPath = \"a ; b\" # c\n", "hooks a ; b\n" },
		{ "[core] hooksPath =   a  b  \n", "hooks a  b\n" },
		{ "[core] hooksPath = \" a \" \n", "hooks  a \n" },
		{ "[core] hooksPath = a\\\nb\n", "hooks ab\n" },
		{ "[core] hooksPath = a\\\r\nb\r\n", "hooks ab\n" },
		{ "[core] hooksPath = \"a\\\"b\\\\c\"\n", "hooks a\"b\\c\n" },
		{ "[core] hooksPath = a\\tb\n", "hooks a\tb\n" },
		{ "[core] hooksPath = a\\", "hooks a\n" },
		{ "[core] hooksPath\n[core] hooksPath =\n", "" },
		{ "# [core]\n; hooksPath = x\nhooksPath = y\n", "" },
		{ "[core]\nname = hooksPath = x\n", "" },
		{ "\xef\xbb\xbf[include]path=a\n", "include a\n" },
		{ "[include]\npath = a\npath = b\n", "include a\ninclude b\n" },
		{ "[includeIf \"gitdir:a]b\"] path = x\n", "include x\n" },
		{ "[includeIf \"a\\\"]b\"] path = x\n", "include x\n" },
		{ "[extensions]\nworktreeConfig\n", "worktree \n" },
		{ "[init] templateDir = a\n", "hooks a\n" },
		{ "[filter \"x\"]\nclean = a b\nrequired = true\n", "command a b\n" },
		{ "[alias] st = !a/b c\n[core]\nfsmonitor\neditor = e\n[pager] x = !a\n",
		  "command e\ncommand !a\n" },
		{ "[branch \"m\"]\nmerge = refs/heads/m\n[remote \"o\"]\nurl = a/b\n", "" },
		{ "[extensions] worktreeConfig = true\n", "worktree true\n" },
		/* Git gives up there; what follows is seen all the same. */
		{ "[core\n= x\n[core]hooksPath=a\n", "hooks a\n" },
		{ "[core] 1 = x\n\thooksPath = a\n", "hooks a\n" },
	};
	static const char nul[] = "[core]\n# a\0b\nhooksPath = a\n";
	char text[PATH_MAX + 64], *end = text + snprintf(text, sizeof(text), "[core]hooksPath=");

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		CHECK_STR(orders_of(cases[i].text, strlen(cases[i].text)), cases[i].want);
	CHECK_STR(orders_of(nul, sizeof(nul) - 1), "hooks a\n");
	/* Too long for a path. */
	memset(end, 'x', PATH_MAX);
	CHECK_STR(orders_of(text, (size_t)(end - text) + PATH_MAX), "");
	CHECK_INT(strlen(orders_of(text, (size_t)(end - text) + PATH_MAX - 1)),
		  strlen("hooks \n") + PATH_MAX - 1);
}

static char top[PATH_MAX];

static void sh(const char *script)
{
	char command[2 * PATH_MAX];

	snprintf(command, sizeof(command), "cd '%s' && { %s; }", top, script);
	CHECK_MSG(system(command) == 0, "%s", script);
}

static int see_obeyed(void *ctx, enum git_obeyed what, const char *path)
{
	static const char *const names[] = { "dir", "config", "include", "hooks", "program" };
	size_t len = strlen(top);

	(void)ctx;
	if (strncmp(path, top, len) == 0)
		say(names[what], path + len + 1);
	else if (strcmp(path, "/etc/gitconfig") != 0)
		say(names[what], path);
	return 0;
}

static char *no_variable(const char *name)
{
	(void)name;
	return NULL;
}

static char *path_variable(const char *name)
{
	static char path[] = "bin:/opt/git/bin::/";

	return strcmp(name, "PATH") == 0 ? path : NULL;
}

static int see_closed(void *ctx, const char *path, int error)
{
	(void)ctx;
	say(error == -ENOENT ? "unknown" : "closed", path);
	return 0;
}

static const char *obeyed(const char *git_dir, bool has_home, bool with_dormant)
{
	char home[PATH_MAX + 16], dir[PATH_MAX + 64], work[PATH_MAX + 16];
	const struct git_user user = { home, no_variable };
	const struct git_follow follow = { .user = has_home ? &user : NULL,
					   .work_dir = work,
					   .with_dormant = with_dormant,
					   .found = see_obeyed };

	snprintf(home, sizeof(home), "%s/home", top);
	snprintf(work, sizeof(work), "%s/w", top);
	snprintf(dir, sizeof(dir), "%s/%s", top, git_dir ? git_dir : "");
	seen[0] = '\0';
	CHECK_INT(git_follow(&follow, git_dir ? dir : NULL), 0);
	return seen;
}

static void test_configs(void)
{
	sh("mkdir -p w/.git home");
	CHECK_STR(obeyed("w/.git", false, false), "dir w/.git\nconfig w/.git/config\n");
	sh("printf '[core]\\nhooksPath = h\\n[include]\\npath = ../i\\n' > w/.git/config;"
	   "printf '[include]\\npath = i\\npath = sub/../i\\npath = ~/j\\n' > w/i; mkdir w/sub");
	CHECK_STR(obeyed("w/.git", true, false),
		  "dir w/.git\nconfig w/.git/config\nconfig home/.config/git/config\n"
		  "config home/.gitconfig\nhooks w/h\ninclude w/.git/../i\ninclude w/i\n"
		  "include w/sub/../i\ninclude home/j\n");
	/* A relative include is relative to the name, not to what a link there leads to. */
	sh("mkdir home/dot; ln -s dot/rc home/.gitconfig; rm w/.git/config;"
	   "printf '[include]\\npath = inc\\n[core]\\nhooksPath = ~\\n' > home/dot/rc");
	CHECK_STR(obeyed(NULL, true, false),
		  "config home/.config/git/config\nconfig home/.gitconfig\ninclude home/inc\n"
		  "hooks home\n");
	sh("rm home/.gitconfig");
}

/* "~name/" and "%(prefix)/", where the user is known. */
static void test_expanded_paths(void)
{
	char dir[PATH_MAX + 16];
	struct git_user user = { NULL, path_variable,
				 "bo:x:1:1::/home/b:/bin/sh\nbob:x:2:2:Bob:/home/bob:/bin/sh\nno" };
	struct git_follow follow = {
		.user = &user, .work_dir = "/work", .found = see_obeyed, .closed = see_closed
	};

	snprintf(dir, sizeof(dir), "%s/w/.git", top);
	sh("printf '[core]\nhooksPath = ~bob/h\nhooksPath = ~bob\nhooksPath = ~no/h\nhooksPath = "
	   "~//h\n"
	   "hooksPath = %%(prefix)//h\n' > w/.git/config");
	seen[0] = '\0';
	CHECK_INT(git_follow(&follow, dir), 0);
	CHECK_STR(seen, "dir w/.git\nconfig w/.git/config\nhooks /home/bob/h\nhooks /home/bob\n"
			"unknown ~no/h\nhooks /usr/h\nhooks /opt/git/h\nhooks /h\n");
	user.home = "/home/me";
	sh("printf '[core]\nhooksPath = ~//h\n' > w/.git/config");
	seen[0] = '\0';
	CHECK_INT(git_follow(&follow, dir), 0);
	CHECK(strstr(seen, "\nhooks /home/me/h\n") != NULL);
	sh("rm w/.git/config");
}

/* Files that commands name, as far as they exist. */
static void test_commands(void)
{
	sh("mkdir -p w/t home/bin; : > w/t/f; : > w/t/g; : > home/bin/e;"
	   "printf '[filter \"x\"]\\nclean = \"sh -c \\\\\"./t/f; x=t/g\\\\\" %%f\"\\nsmudge = "
	   "t/none t t/ /\\n' > w/.git/config;"
	   "printf '[core]\\neditor = ~/bin/e -w\\n[pager]\\nx = !t/g\\n[user]\\nname = t/f\\n' >> "
	   "w/.git/config");
	CHECK_STR(obeyed("w/.git", true, false),
		  "dir w/.git\nconfig w/.git/config\nconfig home/.config/git/config\n"
		  "config home/.gitconfig\nprogram w/t/f\nprogram w/t/g\n"
		  "program home/bin/e\nprogram w/t/g\n");
	sh("rm w/.git/config");
}

static void test_work_trees(void)
{
	sh("mkdir -p m/worktrees/w; echo ../.. > m/worktrees/w/commondir; : > m/config");
	CHECK_STR(obeyed("m/worktrees/w", false, false),
		  "dir m/worktrees/w\nconfig m/worktrees/w/config\ndir m\nconfig m/config\n");
	/* The shared config decides whether those of work trees count. */
	sh("printf '[extensions]\\nworktreeConfig = true\\n' > m/config;"
	   "printf '[core]\\nhooksPath = h\\n' > m/worktrees/w/config.worktree");
	CHECK_STR(obeyed("m/worktrees/w", false, false),
		  "dir m/worktrees/w\nconfig m/worktrees/w/config\ndir m\nconfig m/config\n"
		  "config m/worktrees/w/config.worktree\nconfig m/config.worktree\nhooks w/h\n");
	sh(": > m/config");
	CHECK_STR(obeyed("m/worktrees/w", false, true),
		  "dir m/worktrees/w\nconfig m/worktrees/w/config\ndir m\nconfig m/config\n"
		  "config m/worktrees/w/config.worktree\nconfig m/config.worktree\nhooks w/h\n");
}

/* What is too large is an error, never nothing. */
static void test_maxima(void)
{
	char dir[PATH_MAX + 16];
	const struct git_follow follow = { .work_dir = top, .found = see_obeyed };

	snprintf(dir, sizeof(dir), "%s/w/.git", top);
	sh("head -c 1048577 /dev/zero > w/.git/config");
	CHECK_INT(git_follow(&follow, dir), -EFBIG);
	sh("{ echo '[include]'; seq -f 'path = %g' 1 300; } > w/.git/config");
	CHECK_INT(git_follow(&follow, dir), -E2BIG);
	sh("rm w/.git/config; mkfifo w/.git/config");
	CHECK_INT(git_follow(&follow, dir), 0);
	sh("rm w/.git/config; head -c 9000 /dev/zero > w/.git/commondir");
	CHECK_INT(git_follow(&follow, dir), -EFBIG);
	sh("rm w/.git/commondir");
}

static void test_locate(void)
{
	struct git_location at;
	char dir[PATH_MAX + 16], want[PATH_MAX + 16];

	sh("mkdir -p r/.git/objects r/.git/refs r/a/b l; echo ref: refs/heads/x > r/.git/HEAD; "
	   "echo gitdir: ../r/.git > l/.git");
	snprintf(dir, sizeof(dir), "%s/r/a/b", top);
	snprintf(want, sizeof(want), "%s/r/.git", top);
	CHECK_INT(git_locate(dir, &at), 1);
	CHECK_STR(at.git_dir, want);
	snprintf(dir, sizeof(dir), "%s/r", top);
	CHECK_STR(at.work_dir, dir);
	snprintf(dir, sizeof(dir), "%s/l", top);
	CHECK_INT(git_locate(dir, &at), 1);
	CHECK_STR(at.git_dir, want);
	CHECK_STR(at.work_dir, dir);
	/* Git gives up at a file that leads nowhere, and passes over what is neither. */
	sh("echo gitdir: nowhere > l/.git; mkfifo r/a/.git");
	CHECK_INT(git_locate(dir, &at), 0);
	snprintf(dir, sizeof(dir), "%s/r/a", top);
	CHECK_INT(git_locate(dir, &at), 1);
	CHECK_STR(at.git_dir, want);
	CHECK_INT(git_locate("relative", &at), 0);
	/* Nor does it stop at a directory that is no repository. */
	sh("rm r/a/.git; mkdir -p r/a/.git/objects; echo ref: refs/heads/x > r/a/.git/HEAD");
	CHECK_INT(git_locate(dir, &at), 1);
	CHECK_STR(at.git_dir, want);
	sh("mkdir r/a/.git/refs; echo nothing > r/a/.git/HEAD");
	CHECK_INT(git_locate(dir, &at), 1);
	CHECK_STR(at.git_dir, want);
	sh("rm r/a/.git/HEAD; ln -s refs/heads/x r/a/.git/HEAD");
	CHECK_INT(git_locate(dir, &at), 1);
	CHECK(strcmp(at.git_dir, want) != 0);
}

static void test_pointers(void)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "gitdir: a", "a" },
		{ "gitdir: a\r\n\n", "a" },
		{ "gitdir: a\nb\n", "a\nb" },
		{ "gitdir: ~/a", "~/a" },
		{ "gitdir:a", NULL },
		{ "gitdir: \n", NULL },
		{ "", NULL },
	};
	char path[PATH_MAX + 16], *text;
	FILE *f;

	snprintf(path, sizeof(path), "%s/pointer", top);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		f = fopen(path, "w");
		fputs(cases[i].text, f);
		fclose(f);
		text = NULL;
		CHECK_INT(git_read_pointer(-1, path, "gitdir: ", &text), cases[i].want ? 1 : 0);
		if (cases[i].want)
			CHECK_STR(text, cases[i].want);
		free(text);
	}
	sh("rm -rf ./*");
	rmdir(top);
}

static void test_setup(void)
{
	char name[] = "/tmp/cordon-git-XXXXXX";

	CHECK(mkdtemp(name) && realpath(name, top));
}

TAP_MAIN(test_orders, test_setup, test_configs, test_expanded_paths, test_commands, test_work_trees,
	 test_maxima, test_locate, test_pointers)

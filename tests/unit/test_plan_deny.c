/* SPDX-License-Identifier: Apache-2.0 */
/* fs.deny and fs.protect: what is covered, pinned, held, and what stays usable. */
#include "format/placeholder.h"
#include "test_plan_lib.h"

/* What fs.protect makes of a name. */
#define HELD (PLAN_RDONLY | PLAN_PROTECTED)

static struct fixture f;

static void test_deny_in_read_grant(void)
{
	fx_init(&f);
	fx_file(&f, "data/secret", "x");
	fx_dir(&f, "data/keys");
	fx_set(&f, "fs.deny", "data/secret");
	fx_set(&f, "fs.deny", "data/keys");
	FX_BUILD(&f);
	CHECK_INT(op_get(&f, PLAN_OP_MASK, "data/secret")->flags, PLAN_FILE);
	CHECK_INT(op_get(&f, PLAN_OP_MASK, "data/keys")->flags, 0);
	/* The guest cannot rename anything there. */
	CHECK_INT(op_find(&f, PLAN_OP_PIN, "data"), -1);
	fx_done(&f);
}

static void test_deny_in_write_grant_pins_parents(void)
{
	fx_init(&f);
	fx_dir(&f, "ws/a/b");
	fx_file(&f, "ws/a/b/secret", "x");
	fx_set(&f, "fs.write", "ws");
	fx_set(&f, "fs.deny", "ws/a/b/secret");
	FX_BUILD(&f);
	CHECK(op_find(&f, PLAN_OP_BIND, "ws") < op_find(&f, PLAN_OP_PIN, "ws/a"));
	CHECK(op_find(&f, PLAN_OP_PIN, "ws/a") < op_find(&f, PLAN_OP_PIN, "ws/a/b"));
	CHECK(op_find(&f, PLAN_OP_PIN, "ws/a/b") < op_find(&f, PLAN_OP_MASK, "ws/a/b/secret"));
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/a")->flags, 0);
	fx_done(&f);
}

static void test_deny_of_a_missing_name(void)
{
	fx_init(&f);
	fx_set(&f, "fs.write", "ws");
	fx_set(&f, "fs.deny", "ws/new/secret");
	FX_BUILD(&f);
	CHECK(is_reserved(&f, "ws/new"));
	CHECK(op_find(&f, 0, "ws/new") > op_find(&f, PLAN_OP_BIND, "ws"));
	CHECK_INT(op_find(&f, 0, "ws/new/secret"), -1);
	fx_done(&f);
}

static void test_deny_of_a_placeholder(void)
{
	const struct timespec times[2] = { { PLACEHOLDER_SECONDS, PLACEHOLDER_NANOSECONDS },
					   { PLACEHOLDER_SECONDS, PLACEHOLDER_NANOSECONDS } };

	/* Another run holds the name: it has to be held by this one as well. */
	fx_init(&f);
	fx_file(&f, "ws/.mcp.json", "");
	fx_file(&f, "ws/secret", "");
	for (int i = 0; i < 2; i++) {
		const char *path = fx_path(&f, i ? "ws/secret" : "ws/.mcp.json");

		CHECK(chmod(path, PLACEHOLDER_MODE) == 0);
		CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
	}
	fx_set(&f, "fs.write", "ws");
	fx_set(&f, "fs.deny", "ws/secret");
	FX_BUILD(&f);
	CHECK(is_reserved(&f, "ws/.mcp.json"));
	CHECK(is_reserved(&f, "ws/secret"));
	fx_done(&f);
}

static void test_deny_of_a_link(void)
{
	fx_init(&f);
	fx_file(&f, "ws/target", "x");
	fx_link(&f, "ws/link", "target");
	fx_set(&f, "fs.write", "ws");
	fx_set(&f, "fs.deny", "ws/link");
	FX_BUILD(&f);
	CHECK_INT(op_get(&f, PLAN_OP_MASK, "ws/link")->flags, PLAN_FILE);
	CHECK_INT(op_get(&f, PLAN_OP_MASK, "ws/target")->flags, PLAN_FILE);
	fx_done(&f);
}

static void test_deny_beats_allow(void)
{
	fx_init(&f);
	fx_dir(&f, "ws/in");
	fx_set(&f, "fs.write", "ws/in");
	fx_set(&f, "fs.deny", "ws");
	FX_BUILD(&f);
	CHECK_INT(op_find(&f, PLAN_OP_BIND, "ws/in"), -1);
	CHECK(op_find(&f, PLAN_OP_MASK, "ws") >= 0);
	/* The caller's own directory denied: the command starts at home. */
	fx_set(&f, "fs.deny", ".");
	FX_BUILD(&f);
	CHECK_STR(env_get(&f, "PWD"), f.home);
	fx_set(&f, "cwd", "ws");
	CHECK_INT(fx_build(&f), -CORDON_E_PATH);
	fx_done(&f);
}

static void test_deny_of_the_system(void)
{
	static const char *const paths[] = { "/", "/usr", "/proc", "/dev/null" };

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		fx_init(&f);
		fx_set(&f, "fs.deny", paths[i]);
		CHECK_INT(fx_build(&f), -CORDON_E_PATH);
		fx_done(&f);
	}
	fx_init(&f);
	fx_set(&f, "fs.deny", "/usr/share");
	fx_set(&f, "fs.deny", "/etc/ssl");
	FX_BUILD(&f);
	CHECK(op_find(&f, PLAN_OP_MASK, "/usr/share") > op_find(&f, PLAN_OP_BIND, "/usr"));
	CHECK_INT(op_find(&f, PLAN_OP_BIND, "/etc/ssl/certs"), -1);
	fx_done(&f);
}

static void make_repository(void)
{
	fx_dir(&f, "ws/.git/hooks");
	fx_dir(&f, "ws/.git/objects");
	fx_dir(&f, "ws/.git/refs");
	fx_dir(&f, "ws/.git/modules");
	fx_file(&f, "ws/.git/HEAD", "ref: refs/heads/main\n");
	fx_file(&f, "ws/.git/config",
		"[core]\n\tbare = false\n\tHooksPath = \"tools/hooks\" ; ours\n"
		"[include]\n\tpath = ../shared.cfg\n[user] name = x\n");
}

/* Of a run that was killed, or of one that began when there was no repository yet. */
static void test_placeholders_are_taken_over(void)
{
	static const struct {
		const char *name;
		mode_t type;
	} left[] = {
		{ "ws/.husky", S_IFDIR },
		{ "ws/lefthook.yml", S_IFSOCK },
		{ "ws/.envrc", S_IFREG },
		{ "ws/.mcp.json", S_IFSOCK },
	};
	const struct timespec times[2] = { { PLACEHOLDER_SECONDS, PLACEHOLDER_NANOSECONDS },
					   { PLACEHOLDER_SECONDS, PLACEHOLDER_NANOSECONDS } };

	fx_init(&f);
	make_repository();
	for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
		const char *path = fx_path(&f, left[i].name);

		CHECK((S_ISDIR(left[i].type) ? mkdir(path, 0755)
					     : mknod(path, left[i].type | 0444, 0)) == 0);
		CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
	}
	fx_set(&f, "fs.write", "ws");
	FX_BUILD(&f);
	for (size_t i = 0; i < f.plan->n_reserved; i++)
		for (size_t k = 0; k < ARRAY_SIZE(left); k++)
			if (strcmp(f.plan->reserved[i].path, fx_path(&f, left[k].name)) == 0) {
				CHECK_INT(f.plan->reserved[i].is_dir, S_ISDIR(left[k].type));
				CHECK_INT(f.plan->reserved[i].text != NULL, S_ISREG(left[k].type));
			}
	for (size_t i = 0; i < ARRAY_SIZE(left); i++)
		CHECK(is_reserved(&f, left[i].name));
	/* Over a socket the command sees an empty file. */
	CHECK(op_get(&f, PLAN_OP_PIN, "ws/.mcp.json")->src != 0);
	CHECK(op_get(&f, PLAN_OP_PIN, "ws/opencode.json")->src != 0);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/.envrc")->src, 0);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/lefthook.yml")->src, 0);
	fx_done(&f);
}

static void test_repository(void)
{
	fx_init(&f);
	make_repository();
	fx_dir(&f, "ws/tools/hooks");
	fx_file(&f, "ws/shared.cfg", "[include]\npath = cfg/more\n[include]\npath = shared.cfg\n");
	fx_dir(&f, "ws/cfg/hooks");
	fx_dir(&f, "ws/own");
	fx_file(&f, "../home/.gitconfig", "[core]\nhooksPath = own\n");
	fx_file(&f, "ws/cfg/more", "[core]\nhooksPath = cfg/hooks\n");
	fx_file(&f, "ws/global.cfg", "[user]\nname = x\n");
	fx_dir(&f, "ws/conf");
	fx_set(&f, "fs.write", "ws");
	setenv("GIT_CONFIG_GLOBAL", fx_path(&f, "ws/global.cfg"), 1);
	setenv("XDG_CONFIG_HOME", fx_path(&f, "ws/conf"), 1);
	FX_BUILD(&f);
	unsetenv("GIT_CONFIG_GLOBAL");
	unsetenv("XDG_CONFIG_HOME");
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/.git")->flags, 0);
	CHECK(op_find(&f, PLAN_OP_PIN, "ws/.git") < op_find(&f, PLAN_OP_PIN, "ws/.git/hooks"));
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/.git/hooks")->flags, HELD);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/.git/config")->flags, HELD | PLAN_FILE);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/.git/modules")->flags, HELD);
	/* core.hooksPath and included files, wherever they are. */
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/tools")->flags, 0);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/tools/hooks")->flags, HELD);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/shared.cfg")->flags, HELD | PLAN_FILE);
	/* What those include and name in turn. */
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/cfg/more")->flags, HELD | PLAN_FILE);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/cfg/hooks")->flags, HELD);
	/* What the user's own config names in every repository. */
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/own")->flags, HELD);
	/* And that config itself, where a variable of git's has put it into a grant. */
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/global.cfg")->flags, HELD | PLAN_FILE);
	CHECK(is_reserved(&f, "ws/conf/git"));
	/* A readable placeholder that changes nothing. */
	CHECK(is_reserved(&f, "ws/.git/commondir"));
	for (size_t i = 0; i < f.plan->n_reserved; i++) {
		if (strcmp(f.plan->reserved[i].path, fx_path(&f, "ws/.git/commondir")) == 0)
			CHECK_STR(f.plan->reserved[i].text, ".\n");
	}
	/* What git has to write. */
	CHECK_INT(op_find(&f, 0, "ws/.git/HEAD"), -1);
	CHECK_INT(op_find(&f, 0, "ws/.git/objects"), -1);
	CHECK(!is_reserved(&f, "ws/.git"));
	/* The directory itself cannot become one, and `git diff HEAD` stays unambiguous. */
	CHECK(!is_reserved(&f, "ws/HEAD"));
	CHECK(is_reserved(&f, "ws/refs"));
	CHECK(is_reserved(&f, "ws/commondir"));
	CHECK(is_reserved(&f, "ws/.git/worktrees"));
	fx_done(&f);
}

/* What makes a directory a repository's own, beside `.git` and without it. */
static void test_bare(void)
{
	fx_init(&f);
	make_repository();
	fx_file(&f, "ws/HEAD", "ref: refs/heads/main\n");
	fx_dir(&f, "ws/objects");
	fx_set(&f, "fs.write", "ws");
	FX_BUILD(&f);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/.git/config")->flags, HELD | PLAN_FILE);
	CHECK(is_reserved(&f, "ws/refs"));
	CHECK(is_reserved(&f, "ws/commondir"));
	fx_dir(&f, "ws/refs");
	FX_BUILD(&f);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/.git/config")->flags, HELD | PLAN_FILE);
	CHECK(is_reserved(&f, "ws/config"));
	CHECK(is_reserved(&f, "ws/hooks"));
	CHECK_INT(op_find(&f, 0, "ws/HEAD"), -1);
	CHECK_INT(op_find(&f, 0, "ws/refs"), -1);
	fx_done(&f);

	fx_init(&f);
	fx_file(&f, "ws/HEAD", "ref: refs/heads/main\n");
	fx_dir(&f, "ws/objects");
	fx_dir(&f, "ws/refs");
	fx_file(&f, "ws/config", "[core]\nbare = true\n");
	fx_set(&f, "fs.write", "ws");
	FX_BUILD(&f);
	CHECK(is_reserved(&f, "ws/.git"));
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/config")->flags, HELD | PLAN_FILE);
	CHECK(is_reserved(&f, "ws/worktrees"));
	CHECK_INT(op_find(&f, 0, "ws/objects"), -1);
	fx_done(&f);

	/* `commondir` says where objects and refs are. */
	fx_init(&f);
	fx_file(&f, "ws/commondir", "elsewhere\n");
	fx_set(&f, "fs.write", "ws");
	FX_BUILD(&f);
	CHECK(is_reserved(&f, "ws/HEAD"));
	fx_file(&f, "ws/HEAD", "ref: refs/heads/main\n");
	FX_BUILD(&f);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/commondir")->flags, HELD | PLAN_FILE);
	CHECK(is_reserved(&f, "ws/elsewhere"));
	fx_done(&f);
}

/* The repository lies above the grant, or elsewhere: what its config names may lie inside. */
static void test_repository_elsewhere(void)
{
	static const char config[] =
		"[core]\nhooksPath = pkg/hooks\n[include]\npath = ../pkg/cfg\n";

	fx_init(&f);
	fx_dir(&f, "ws/.git/objects");
	fx_dir(&f, "ws/.git/refs");
	fx_file(&f, "ws/.git/HEAD", "ref: refs/heads/main\n");
	fx_file(&f, "ws/.git/config", config);
	fx_dir(&f, "ws/pkg/hooks");
	fx_file(&f, "ws/pkg/cfg", "");
	/* The fixture's user is not the one who calls, and git ignores other users' configs. */
	f.machine.uid = geteuid();
	fx_set(&f, "fs.write", "ws/pkg");
	FX_BUILD(&f);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/pkg/hooks")->flags, HELD);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/pkg/cfg")->flags, HELD | PLAN_FILE);
	CHECK_INT(op_find(&f, 0, "ws/.git/config"), -1);
	fx_done(&f);

	fx_init(&f);
	fx_dir(&f, "main/.git/worktrees/w");
	fx_file(&f, "main/.git/config", "[core]\nhooksPath = hooks\n");
	fx_file(&f, "main/.git/worktrees/w/commondir", "../..\n");
	fx_file(&f, "ws/.git", "gitdir: ../main/.git/worktrees/w\n");
	fx_dir(&f, "ws/hooks");
	fx_set(&f, "fs.write", "ws");
	FX_BUILD(&f);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/hooks")->flags, HELD);
	fx_done(&f);
}

static void test_worktree(void)
{
	fx_init(&f);
	fx_dir(&f, "main/.git/worktrees/w");
	fx_dir(&f, "main/.git/hooks");
	fx_file(&f, "main/.git/config", "");
	fx_file(&f, "main/.git/worktrees/w/commondir", "../..\n");
	fx_file(&f, "ws/.git", "gitdir: ../main/.git/worktrees/w\n");
	fx_set(&f, "fs.write", "ws");
	fx_set(&f, "fs.write", "main/.git");
	FX_BUILD(&f);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/.git")->flags, HELD | PLAN_FILE);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "main/.git/hooks")->flags, HELD);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "main/.git/config")->flags, HELD | PLAN_FILE);
	CHECK(is_reserved(&f, "main/.git/worktrees/w/config") ||
	      op_find(&f, 0, "main/.git/worktrees") >= 0);
	fx_done(&f);
}

/* What only a work tree's own config, or a link as `.git` or as a config, leads to. */
static void test_what_is_named_indirectly(void)
{
	fx_init(&f);
	fx_dir(&f, "main/.git/worktrees/w");
	fx_file(&f, "main/.git/config", "[extensions]\nworktreeConfig = true\n");
	fx_file(&f, "main/.git/worktrees/w/commondir", "../..\n");
	fx_file(&f, "main/.git/worktrees/w/config.worktree", "[core]\nhooksPath = hooks\n");
	fx_file(&f, "ws/pointer", "gitdir: ../main/.git/worktrees/w\n");
	fx_link(&f, "ws/.git", "pointer");
	fx_dir(&f, "ws/hooks");
	fx_dir(&f, "ws/dotfiles");
	fx_file(&f, "ws/dotfiles/rc", "[include]\npath = ws/link.cfg\n");
	fx_link(&f, "../home/.gitconfig", "../project/ws/dotfiles/rc");
	fx_link(&f, "../home/ws", "../project/ws");
	fx_file(&f, "ws/link.cfg", "");
	fx_set(&f, "fs.write", "ws");
	FX_BUILD(&f);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/.git")->flags, HELD | PLAN_FILE);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/pointer")->flags, HELD | PLAN_FILE);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/hooks")->flags, HELD);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/dotfiles/rc")->flags, HELD | PLAN_FILE);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/link.cfg")->flags, HELD | PLAN_FILE);
	CHECK_INT(f.plan->n_repos, 1);
	fx_done(&f);
}

static void test_no_repository(void)
{
	fx_init(&f);
	fx_dir(&f, "ws/.vscode");
	fx_set(&f, "fs.write", "ws");
	FX_BUILD(&f);
	CHECK(is_reserved(&f, "ws/.git"));
	CHECK(is_reserved(&f, "ws/HEAD"));
	CHECK(is_reserved(&f, "ws/.mcp.json"));
	CHECK(!is_reserved(&f, "ws/.vscode"));
	CHECK(!is_reserved(&f, "ws/.gitmodules"));
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/.vscode")->flags, HELD);
	CHECK(!is_reserved(&f, "ws/.bashrc"));
	fx_done(&f);
}

static void test_protected_link(void)
{
	fx_init(&f);
	fx_dir(&f, "ws/settings");
	fx_link(&f, "ws/.vscode", "settings");
	fx_set(&f, "fs.write", "ws");
	FX_BUILD(&f);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/.vscode")->flags, HELD | PLAN_FILE);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/settings")->flags, HELD);
	fx_done(&f);
}

/* Every link and directory on the way stays, and what is missing at its end. */
static void test_way_to_a_protected_name(void)
{
	fx_init(&f);
	make_repository();
	fx_dir(&f, "ws/real/hooks");
	fx_dir(&f, "ws/real/other");
	fx_link(&f, "ws/mid", "real");
	fx_link(&f, "ws/first", "mid/hooks");
	fx_file(&f, "ws/.git/config", "[core]\nhooksPath = real/other/../../first\n");
	fx_link(&f, "ws/.idea", "nowhere/at/all");
	fx_link(&f, "ws/.husky", "nothing");
	fx_link(&f, "ws/.codex", "loop");
	fx_link(&f, "ws/loop", ".codex");
	fx_file(&f, "ws/file", "");
	fx_link(&f, "ws/.gemini", "file/x");
	fx_link(&f, "ws/.cursor", "gone/../settings");
	fx_set(&f, "fs.write", "ws");
	FX_BUILD(&f);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/first")->flags, HELD | PLAN_FILE);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/mid")->flags, HELD | PLAN_FILE);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/real/hooks")->flags, HELD);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/real/other")->flags, 0);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/.idea")->flags, HELD | PLAN_FILE);
	CHECK(is_reserved(&f, "ws/nowhere"));
	CHECK(is_reserved(&f, "ws/nothing"));
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/.codex")->flags, HELD | PLAN_FILE);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/loop")->flags, HELD | PLAN_FILE);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/file")->flags, HELD | PLAN_FILE);
	CHECK(is_reserved(&f, "ws/gone"));
	fx_done(&f);
}

static void test_protection_is_lifted(void)
{
	fx_init(&f);
	make_repository();
	fx_dir(&f, "ws/.vscode");
	fx_set(&f, "fs.write", "ws");
	fx_set(&f, "fs.write", "ws/.vscode");
	fx_set(&f, "fs.write", "ws/.git/hooks");
	FX_BUILD(&f);
	CHECK_INT(op_find(&f, 0, "ws/.vscode"), -1);
	CHECK_INT(op_find(&f, 0, "ws/.git/hooks"), -1);
	CHECK(op_find(&f, PLAN_OP_PIN, "ws/.git/config") >= 0);
	fx_set(&f, "fs.protect", "off");
	FX_BUILD(&f);
	CHECK_INT(op_find(&f, PLAN_OP_PIN, "ws/.git/config"), -1);
	CHECK_INT(f.plan->n_reserved, 0);
	fx_done(&f);
}

static void test_grant_below_a_protected_name(void)
{
	fx_init(&f);
	fx_dir(&f, "ws/.claude/notes");
	fx_set(&f, "fs.write", "ws");
	fx_set(&f, "fs.write", "ws/.claude/notes");
	FX_BUILD(&f);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, "ws/.claude")->flags, HELD);
	CHECK(!(op_get(&f, PLAN_OP_BIND, "ws/.claude/notes")->flags & PLAN_RDONLY));
	CHECK(op_find(&f, 0, "ws/.claude") < op_find(&f, 0, "ws/.claude/notes"));
	fx_done(&f);
}

static void test_home_granted(void)
{
	char path[PATH_MAX + 32];

	fx_init(&f);
	fx_file(&f, "../home/.gitconfig", "[include]\npath = work\n");
	fx_file(&f, "../home/work", "[core]\nhooksPath = ~/githooks\n");
	fx_set(&f, "fs.write", f.home);
	FX_BUILD(&f);
	/* What the user's git obeys is protected without a repository, too. */
	snprintf(path, sizeof(path), "%s/work", f.home);
	CHECK_INT(op_get(&f, PLAN_OP_PIN, path)->flags, HELD | PLAN_FILE);
	snprintf(path, sizeof(path), "%s/githooks", f.home);
	CHECK(is_reserved(&f, path));
	snprintf(path, sizeof(path), "%s/.bashrc", f.home);
	CHECK(is_reserved(&f, path));
	snprintf(path, sizeof(path), "%s/.ssh", f.home);
	CHECK(is_reserved(&f, path));
	/* The first missing name of several. */
	snprintf(path, sizeof(path), "%s/.local", f.home);
	CHECK(is_reserved(&f, path));
	CHECK(list_has(f.plan->notes, "your home directory can be changed by the command"));
	fx_done(&f);
}

TAP_MAIN(test_deny_in_read_grant, test_deny_in_write_grant_pins_parents,
	 test_deny_of_a_missing_name, test_deny_of_a_placeholder, test_placeholders_are_taken_over,
	 test_deny_of_a_link, test_deny_beats_allow, test_deny_of_the_system, test_repository,
	 test_bare, test_repository_elsewhere, test_worktree, test_what_is_named_indirectly,
	 test_no_repository, test_protected_link, test_way_to_a_protected_name,
	 test_protection_is_lifted, test_grant_below_a_protected_name, test_home_granted)

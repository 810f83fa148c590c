/* SPDX-License-Identifier: Apache-2.0 */
/* Which names and links deserve a second look. */
#include <fcntl.h>

#include "workspace/changes/changes.h"

#include "tap.h"

static unsigned risks(const char *path, int type, unsigned mode)
{
	struct ws_node node = {
		.kind = CORDON_CHANGE_ADDED,
		.type = (uint8_t)type,
		.mode = (uint16_t)mode,
		.target = type == CORDON_FILE_SYMLINK ? "x" : NULL,
	};

	return ws_risks(path, &node);
}

static unsigned file(const char *path)
{
	return risks(path, CORDON_FILE_REGULAR, 0644);
}

static unsigned dir(const char *path)
{
	return risks(path, CORDON_FILE_DIRECTORY, 0755);
}

static void check_all(const char *const *paths, unsigned want)
{
	for (; *paths; paths++)
		CHECK_MSG(file(*paths) == want, "%s: %#x, expected %#x", *paths, file(*paths),
			  want);
}

static void test_protected(void)
{
	static const char *const paths[] = {
		".mcp.json",
		"sub/.mcp.json",
		".vscode/tasks.json",
		"a/b/.vscode/settings.json",
		".idea/x",
		".claude/settings.json",
		"x/.claude/commands/y",
		".cursor/a",
		".codex/a",
		".gemini/a",
		".envrc",
		"deep/er/.envrc",
		".devcontainer/devcontainer.json",
		".husky/pre-commit",
		".gitmodules",
		".ripgreprc",
		".VSCode/tasks.json",
		".ENVRC",
		/* at the top only */
		".bashrc",
		".profile",
		".zshenv",
		".ssh/authorized_keys",
		".gnupg/x",
		".gitconfig",
		".config/autostart/x",
		".local/bin/ls",
		".local/share/applications/x.desktop",
		".cargo/bin/x",
		".Bashrc",
		/* git */
		".git/hooks/pre-commit",
		".git/config",
		".git/config.worktree",
		".git/commondir",
		".git/info/attributes",
		".git/objects/info/alternates",
		".git/modules/a/config",
		".git/modules/a/b/hooks/x",
		".git/worktrees/w/gitdir",
		".git/worktrees/w/commondir",
		".git/worktrees/w/config.worktree",
		"sub/.git/config",
		"sub/.git/hooks/x",
		".GIT/hooks/x",
		".Git/Config",
		"git~1/config",
		".git",
		"sub/.git",
		".GIT",
		"HEAD",
		"sub/HEAD",
		".git/.git/hooks/x",
		".git/x/.git/config",
		".git/modules/.git/b/config",
		".git/.envrc",
		NULL,
	};

	check_all(paths, CORDON_RISK_PROTECTED);
}

static void test_harmless(void)
{
	static const char *const paths[] = {
		"README.md",
		"src/main.c",
		"x.bashrc",
		"sub/.bashrc",
		"sub/.ssh/config",
		"bin/tool",
		"sub/.local/bin/ls",
		"local/bin/ls",
		".local/share/other/x",
		".git/index",
		".git/HEAD",
		".git/refs/heads/config",
		".git/refs/heads/hooks/x",
		".git/objects/ab/cdef",
		".git/info/exclude",
		".git/logs/HEAD",
		".gitignore",
		".github/CODEOWNERS",
		"workflows/x.yml",
		"sub/workflows/x",
		"requirements.md",
		"x.pthx",
		"pth",
		"config",
		"hooks/x",
		"Makefile",
		"head",
		"vscode/x",
		".envrc2",
		"node_modules/x/index.js",
		"venv/lib/x.py",
		"lock",
		NULL,
	};

	check_all(paths, 0);
	CHECK_INT(dir(".git"), 0);
	CHECK_INT(dir("sub/.git"), 0);
}

static void test_other_names(void)
{
	static const char *const ci[] = {
		".github/workflows/ci.yml",
		"sub/.github/workflows/ci.yml",
		".github/actions/x/action.yml",
		".gitlab-ci.yml",
		".circleci/config.yml",
		"Jenkinsfile",
		"Jenkinsfile.release",
		"azure-pipelines.yml",
		".travis.yml",
		".drone.yml",
		".buildkite/pipeline.yml",
		"bitbucket-pipelines.yml",
		NULL,
	};
	static const char *const locks[] = {
		"package-lock.json",
		"a/b/package-lock.json",
		"npm-shrinkwrap.json",
		"yarn.lock",
		"pnpm-lock.yaml",
		"bun.lock",
		"bun.lockb",
		"poetry.lock",
		"uv.lock",
		"Pipfile.lock",
		"pdm.lock",
		"requirements.txt",
		"requirements-dev.txt",
		"Cargo.lock",
		"cargo.lock",
		"go.sum",
		"Gemfile.lock",
		"composer.lock",
		"flake.lock",
		NULL,
	};
	static const char *const startup[] = {
		"x.pth",
		"lib/site-packages/x.pth",
		"sitecustomize.py",
		"usercustomize.py",
		"tests/conftest.py",
		"sub/.npmrc",
		"sub/.yarnrc.yml",
		".pnp.cjs",
		".pre-commit-config.yaml",
		"build.rs",
		".tool-versions",
		".python-version",
		"node_modules/.bin/eslint",
		"web/node_modules/.bin/eslint",
		"venv/bin/python",
		".venv/bin/activate",
		".gitattributes",
		"sub/.gitattributes",
		NULL,
	};

	check_all(ci, CORDON_RISK_CI);
	check_all(locks, CORDON_RISK_LOCKFILE);
	check_all(startup, CORDON_RISK_STARTUP);
	CHECK_INT(file(".npmrc"), CORDON_RISK_STARTUP | CORDON_RISK_PROTECTED);
	CHECK_INT(file("x\033y"), CORDON_RISK_NAME);
	CHECK_INT(file("dir\n/y"), CORDON_RISK_NAME);
	CHECK_INT(file("\xc3\x28"), CORDON_RISK_NAME);
	CHECK_INT(file("\xe2\x80\xaegnp.exe"), CORDON_RISK_NAME); /* turns the text around */
	CHECK_INT(file("gr\xc3\xbc\xc3\x9f"), 0);
}

static void test_types(void)
{
	struct ws_node node = { .kind = CORDON_CHANGE_DELETED,
				.old_type = CORDON_FILE_REGULAR,
				.old_mode = 04755 };

	CHECK_INT(risks("p", CORDON_FILE_REGULAR, 0755), CORDON_RISK_EXECUTABLE);
	CHECK_INT(risks("p", CORDON_FILE_REGULAR, 0645), CORDON_RISK_EXECUTABLE);
	CHECK_INT(risks("p", CORDON_FILE_REGULAR, 04644), CORDON_RISK_SETID);
	CHECK_INT(risks("p", CORDON_FILE_REGULAR, 02755),
		  CORDON_RISK_SETID | CORDON_RISK_EXECUTABLE);
	CHECK_INT(risks("d", CORDON_FILE_DIRECTORY, 02755), 0);
	CHECK_INT(risks("p", CORDON_FILE_FIFO, 0644), CORDON_RISK_SPECIAL);
	CHECK_INT(risks("p", CORDON_FILE_SOCKET, 0644), CORDON_RISK_SPECIAL);
	CHECK_INT(risks("p", CORDON_FILE_DEVICE, 0644), CORDON_RISK_SPECIAL);
	/* A link in place of what git looks into. */
	CHECK_INT(risks(".git", CORDON_FILE_SYMLINK, 0777), CORDON_RISK_PROTECTED);
	CHECK_INT(risks(".git/info", CORDON_FILE_SYMLINK, 0777), CORDON_RISK_PROTECTED);
	CHECK_INT(risks(".git/objects/info", CORDON_FILE_SYMLINK, 0777), CORDON_RISK_PROTECTED);
	CHECK_INT(risks("l", CORDON_FILE_SYMLINK, 0777), 0);
	/* What goes is no program, but a protected name is one. */
	CHECK_INT(ws_risks("p", &node), 0);
	CHECK_INT(ws_risks(".envrc", &node), CORDON_RISK_PROTECTED);
	CHECK_INT(ws_risks("go.sum", &node), CORDON_RISK_LOCKFILE);
	/* Attributes are looked at elsewhere and stay. */
	node.risks = CORDON_RISK_ATTRIBUTE | CORDON_RISK_CI;
	CHECK_INT(ws_risks("p", &node), CORDON_RISK_ATTRIBUTE);
	/* A .git that was a file and becomes a directory, and the other way. */
	node = (struct ws_node){ .kind = CORDON_CHANGE_TYPE,
				 .old_type = CORDON_FILE_REGULAR,
				 .type = CORDON_FILE_DIRECTORY };
	CHECK_INT(ws_risks("x/.git", &node), CORDON_RISK_PROTECTED);
}

static void test_programs(void)
{
	struct ws_node node = { .kind = CORDON_CHANGE_MODE,
				.type = CORDON_FILE_REGULAR,
				.old_type = CORDON_FILE_REGULAR,
				.mode = 0755,
				.old_mode = 0644 };

	CHECK_INT(ws_risks("p", &node), CORDON_RISK_EXECUTABLE);
	node.old_mode = 0777;
	CHECK_INT(ws_risks("p", &node), 0);
	node.kind = CORDON_CHANGE_MODIFIED;
	CHECK_INT(ws_risks("p", &node), CORDON_RISK_EXECUTABLE);
	node.mode = node.old_mode = 0644;
	CHECK_INT(ws_risks("p", &node), 0);
}

static void test_links(void)
{
	static const struct {
		const char *path, *target;
		bool is_out;
	} links[] = {
		{ "l", "x", false },
		{ "l", "x/y", false },
		{ "l", ".", false },
		{ "l", "./x", false },
		{ "l", "", false },
		/* x may be a link itself */
		{ "l", "x/..", true },
		{ "l", "x/y/../z", true },
		{ "l", "..x", false },
		{ "l", "...", false },
		{ "l", "/etc/shadow", true },
		{ "l", "/", true },
		{ "l", "..", true },
		{ "l", "../x", true },
		{ "l", "x/../..", true },
		{ "l", "x/../../x", true },
		{ "l", ".//..", true },
		{ "a/l", "..", false },
		{ "a/l", "../x", false },
		{ "a/l", "../a/../x", true },
		{ "a/l", "../..", true },
		{ "a/l", "../../a/x", true },
		{ "a/b/l", "../../x", false },
		{ "a/b/l", "../../../x", true },
		{ "a/b/l", "..//..//x", false },
	};
	struct ws_node node = { .kind = CORDON_CHANGE_ADDED, .type = CORDON_FILE_SYMLINK };

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		CHECK_MSG(ws_link_leads_out(links[i].path, links[i].target) == links[i].is_out,
			  "%s -> %s", links[i].path, links[i].target);
		node.target = links[i].target;
		CHECK_INT(ws_risks(links[i].path, &node),
			  links[i].is_out ? CORDON_RISK_LINK_OUT : 0);
	}
}

TAP_MAIN(test_protected, test_harmless, test_other_names, test_types, test_programs, test_links)

/* SPDX-License-Identifier: Apache-2.0 */
/* Which names and links deserve a second look. */
#include <sys/socket.h>
#include <sys/un.h>

#include "test_workspace_changes_lib.h"

/* An empty base and an empty workspace. */
static void empty(void)
{
	int fd = openat(top_fd, "ws", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK_INT(tree_remove(fd, "upper"), 0);
	CHECK_INT(tree_remove(top_fd, "base"), 0);
	CHECK_INT(mkdirat(fd, "upper", 0755), 0);
	CHECK_INT(mkdirat(top_fd, "base", 0755), 0);
	close(fd);
}

/* The risks of the one change that there is, then an empty workspace. */
static unsigned collected(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_workspace ws;
	struct ws_changes changes;
	unsigned ret;

	open_ws(&ws, CORDON_MECHANISM_OVERLAY);
	CHECK_INT(ws_collect(&ws, &changes, &err), 0);
	close_ws(&ws);
	ret = changes.n > 0 ? changes.v[changes.n - 1].risks : UINT16_MAX;
	ws_changes_done(&changes);
	empty();
	return ret;
}

/* The directories on the way to @path, which begins with BASE or UP. */
static void make_way(const char *path)
{
	char way[PATH_MAX], *slash;

	snprintf(way, sizeof(way), "%s", path);
	slash = strchr(way + strlen(path[0] == 'b' ? BASE : UP), '/');
	for (; slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		put_dir(way);
		*slash = '/';
	}
}

static unsigned link_risks(const char *path, const char *target)
{
	make_way(fmt(UP "%s", path));
	put_link(fmt(UP "%s", path), target);
	return collected();
}

static void put_socket(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", top_fd, path);
	CHECK_INT(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
}

static unsigned risks(const char *path, int type, unsigned mode)
{
	const char *up = fmt(UP "%s", path);

	if (type == CORDON_FILE_SYMLINK)
		return link_risks(path, "x");
	make_way(up);
	if (type == CORDON_FILE_REGULAR)
		put_mode(up, "", mode);
	else if (type == CORDON_FILE_DIRECTORY)
		put_dir(up);
	else if (type == CORDON_FILE_SOCKET)
		put_socket(up);
	else
		CHECK_INT(mknodat(top_fd, up, mode | (type == CORDON_FILE_FIFO ? S_IFIFO : S_IFCHR),
				  makedev(1, 3)),
			  0);
	if (type == CORDON_FILE_DIRECTORY)
		CHECK_INT(fchmodat(top_fd, up, mode, 0), 0);
	return collected();
}

/* What is in the base goes. */
static unsigned deleted(const char *path)
{
	make_way(fmt(BASE "%s", path));
	put_mode(fmt(BASE "%s", path), "", 04755);
	put_whiteout(fmt(UP "%s", path));
	return collected();
}

static unsigned modified(unsigned old_mode, const char *old_text, unsigned mode, const char *text)
{
	put_mode(BASE "p", old_text, old_mode);
	put_mode(UP "p", text, mode);
	return collected();
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
	for (; *paths; paths++) {
		unsigned got = file(*paths);

		CHECK_MSG(got == want, "%s: %#x, expected %#x", *paths, got, want);
	}
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
		".devcontainer.json",
		"a/.zed/tasks.json",
		"opencode.json",
		".hg/hgrc",
		".pre-commit-config.yaml",
		"lefthook.yml",
		"a/b/.hg/hgrc",
		".jj/repo/config.toml",
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
		/* not on git's allow-list */
		".git/HEAD", /* without content */
		".git/anything",
		".git/info/grafts",
		".git/branches/origin",
		".git/svn/.caches/x",
		".git/logs/.git/index",
		"sub/.git/lost-found/x",
		NULL,
	};

	REQUIRE(set_up());
	check_all(paths, CORDON_RISK_PROTECTED);
	tear_down();
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
		".git/ORIG_HEAD",
		".git/packed-refs",
		".git/rebase-merge/git-rebase-todo",
		"sub/.git/logs/refs/heads/main",
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

	REQUIRE(set_up());
	check_all(paths, 0);
	CHECK_INT(dir(".git"), 0);
	CHECK_INT(dir("sub/.git"), 0);
	tear_down();
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

	REQUIRE(set_up());
	check_all(ci, CORDON_RISK_CI);
	check_all(locks, CORDON_RISK_LOCKFILE);
	check_all(startup, CORDON_RISK_STARTUP);
	CHECK_INT(file(".npmrc"), CORDON_RISK_STARTUP | CORDON_RISK_PROTECTED);
	CHECK_INT(file("x\033y"), CORDON_RISK_NAME);
	CHECK_INT(file("dir\n/y"), CORDON_RISK_NAME);
	CHECK_INT(file("\xc3\x28"), CORDON_RISK_NAME);
	CHECK_INT(file("\xe2\x80\xaegnp.exe"), CORDON_RISK_NAME); /* turns the text around */
	CHECK_INT(file("gr\xc3\xbc\xc3\x9f"), 0);
	tear_down();
}

static void test_types(void)
{
	REQUIRE(set_up());
	CHECK_INT(risks("p", CORDON_FILE_REGULAR, 0755), CORDON_RISK_EXECUTABLE);
	CHECK_INT(risks("p", CORDON_FILE_REGULAR, 0645), CORDON_RISK_EXECUTABLE);
	CHECK_INT(risks("p", CORDON_FILE_REGULAR, 04644), CORDON_RISK_SETID);
	CHECK_INT(risks("p", CORDON_FILE_REGULAR, 02755),
		  CORDON_RISK_SETID | CORDON_RISK_EXECUTABLE);
	CHECK_INT(risks("d", CORDON_FILE_DIRECTORY, 02755), 0);
	CHECK_INT(risks("p", CORDON_FILE_FIFO, 0644), CORDON_RISK_SPECIAL);
	CHECK_INT(risks("p", CORDON_FILE_SOCKET, 0644), CORDON_RISK_SPECIAL);
	if (geteuid() == 0)
		CHECK_INT(risks("p", CORDON_FILE_DEVICE, 0644), CORDON_RISK_SPECIAL);
	/* A link in place of what git looks into. */
	CHECK_INT(risks(".git", CORDON_FILE_SYMLINK, 0777), CORDON_RISK_PROTECTED);
	CHECK_INT(risks(".git/info", CORDON_FILE_SYMLINK, 0777), CORDON_RISK_PROTECTED);
	CHECK_INT(risks(".git/objects/info", CORDON_FILE_SYMLINK, 0777), CORDON_RISK_PROTECTED);
	CHECK_INT(risks("l", CORDON_FILE_SYMLINK, 0777), 0);
	/* What goes is no program, but a protected name is one. */
	CHECK_INT(deleted("p"), 0);
	CHECK_INT(deleted(".envrc"), CORDON_RISK_PROTECTED);
	CHECK_INT(deleted("go.sum"), CORDON_RISK_LOCKFILE);
	if (geteuid() == 0) {
		put(UP "p", "");
		set_attribute(UP "p", "trusted.test", "y");
		CHECK_INT(collected(), CORDON_RISK_ATTRIBUTE);
	}
	/* A .git that was a file and becomes a directory, and the other way. */
	put_dir(BASE "x");
	put(BASE "x/.git", "");
	CHECK_INT(risks("x/.git", CORDON_FILE_DIRECTORY, 0755), CORDON_RISK_PROTECTED);
	put_dir(BASE "x");
	put_dir(BASE "x/.git");
	CHECK_INT(file("x/.git"), CORDON_RISK_PROTECTED);
	tear_down();
}

static void test_programs(void)
{
	REQUIRE(set_up());
	CHECK_INT(modified(0644, "a", 0755, "a"), CORDON_RISK_EXECUTABLE);
	CHECK_INT(modified(0777, "a", 0755, "a"), 0);
	CHECK_INT(modified(0777, "a", 0755, "b"), CORDON_RISK_EXECUTABLE);
	CHECK_INT(modified(0644, "a", 0644, "b"), 0);
	tear_down();
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

	REQUIRE(set_up());
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		unsigned got = link_risks(links[i].path, links[i].target);

		CHECK_MSG(got == (links[i].is_out ? CORDON_RISK_LINK_OUT : 0), "%s -> %s: %#x",
			  links[i].path, links[i].target, got);
	}
	tear_down();
}

static unsigned with_text(const char *path, const char *text)
{
	make_way(fmt(UP "%s", path));
	put(fmt(UP "%s", path), text);
	return collected();
}

/* A bare repository in the base, under any name. */
static void put_bare(void)
{
	put_dir(BASE "b");
	put_dir(BASE "b/objects");
	put_dir(BASE "b/refs");
	put(BASE "b/HEAD", "ref: refs/heads/main\n");
}

/* Links, special files and what has the wrong content, where plain files would be fine. */
static void test_in_repositories(void)
{
	static const char *const paths[] = { ".git/logs/HEAD", ".git/refs/heads/main",
					     ".git/objects/ab/cd", "a/.git/modules/m/logs/HEAD" };

	REQUIRE(set_up());
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		CHECK_INT(file(paths[i]), 0);
		CHECK_INT(link_risks(paths[i], "x"), CORDON_RISK_PROTECTED);
		CHECK_INT(risks(paths[i], CORDON_FILE_FIFO, 0644),
			  CORDON_RISK_PROTECTED | CORDON_RISK_SPECIAL);
	}
	CHECK_INT(link_risks(".git/logs", "hooks"), CORDON_RISK_PROTECTED);
	CHECK_INT(with_text(".git/HEAD", "ref: refs/heads/main\n"), 0);
	CHECK_INT(with_text(".git/HEAD", "ref: ../config\n"), CORDON_RISK_PROTECTED);
	CHECK_INT(with_text(".git/ORIG_HEAD", "ref: refs/heads/main\n"), CORDON_RISK_PROTECTED);
	CHECK_INT(with_text(".git/rebase-merge/git-rebase-todo", "pick 1\n"), 0);
	CHECK_INT(with_text(".git/rebase-merge/git-rebase-todo", "pick 1\nexec x\n"),
		  CORDON_RISK_PROTECTED);
	put_bare();
	CHECK_INT(file("b/refs/heads/main"), 0);
	put_bare();
	CHECK_INT(link_risks("b/logs", "hooks"), CORDON_RISK_PROTECTED);
	put_bare();
	CHECK_INT(file("b/anything"), CORDON_RISK_PROTECTED);
	put_dir(BASE "b");
	put(BASE "b/HEAD", "ref: refs/heads/main\n");
	CHECK_INT(file("b/commondir"), CORDON_RISK_PROTECTED);
	/* No repository: nobody asks. */
	CHECK_INT(link_risks("logs/HEAD2", "x"), 0);
	tear_down();
}

/* An index of version 2 with one entry, or none if @path is NULL. */
static unsigned with_index(const char *at, const char *path)
{
	unsigned char image[256] = "DIRC\0\0\0\2";
	size_t len = 12, path_len = path ? strlen(path) : 0;
	char text[sizeof(image)];
	int fd;

	if (path) {
		image[11] = 1;
		image[len + 26] = 0x81; /* mode 0100644 */
		image[len + 27] = 0xa4;
		image[len + 61] = (unsigned char)path_len;
		for (size_t i = 0; i < path_len; i++)
			image[len + 62 + i] = (unsigned char)path[i];
		len += (62 + path_len + 8) / 8 * 8;
	}
	len += 20; /* the checksum, which is not asked for */
	snprintf(text, sizeof(text), UP "%s", at);
	make_way(text);
	fd = openat(top_fd, text, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK_INT(write(fd, image, len), (ssize_t)len);
	close(fd);
	return collected();
}

/* Git believes the paths that it reads in an index. */
static void test_indexes(void)
{
	static const char *const at[] = { ".git/index", ".git/modules/a/index" };

	REQUIRE(set_up());
	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		CHECK_INT(with_index(at[i], NULL), 0);
		CHECK_INT(with_index(at[i], "src/main.c"), 0);
		CHECK_INT(with_index(at[i], ".git/hooks/post-checkout"), CORDON_RISK_PROTECTED);
		CHECK_INT(with_index(at[i], "../home/.bashrc"), CORDON_RISK_PROTECTED);
		CHECK_INT(with_text(at[i], "no index"), CORDON_RISK_PROTECTED);
		CHECK_INT(file(at[i]), CORDON_RISK_PROTECTED);
		CHECK_INT(link_risks(at[i], "x"), CORDON_RISK_PROTECTED);
	}
	tear_down();
}

/* A repository in the base, at @at. */
static void put_repository(const char *at)
{
	static const char *const files[] = { "HEAD", "packed-refs", "refs/heads/main",
					     "objects/ab/cdef", "objects/pack/pack-1.pack" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char path[PATH_MAX], *slash;

		snprintf(path, sizeof(path), BASE "%s/%s", at, files[i]);
		for (slash = strchr(path + strlen(BASE), '/'); slash;
		     slash = strchr(slash + 1, '/')) {
			*slash = '\0';
			(void)mkdirat(top_fd, path, 0755);
			*slash = '/';
		}
		put(path, "x\n");
	}
}

static void check_lost(const char *at, const char *gone, bool is_opaque, const char *want)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	const struct ws_lost *lost = NULL;
	struct cordon_workspace ws;
	struct ws_changes changes;

	put_repository(at);
	make_way(fmt(UP "%s", gone));
	if (is_opaque) {
		put_dir(fmt(UP "%s", gone));
		set_attribute(fmt(UP "%s", gone), "user.overlay.opaque", "y");
	} else {
		put_whiteout(fmt(UP "%s", gone));
	}
	open_ws(&ws, CORDON_MECHANISM_OVERLAY);
	CHECK_INT(ws_collect(&ws, &changes, &err), 0);
	close_ws(&ws);
	for (size_t i = 0; i < changes.n; i++) {
		const struct ws_node *n = &changes.v[i];

		CHECK_MSG(!n->lost || !n->kind || (n->risks & CORDON_RISK_PROTECTED), "%s: %s",
			  gone, n->name);
		if (n->lost)
			lost = n->lost;
	}
	CHECK_MSG(!lost == !want, "%s: %s is lost", gone, lost ? lost->what : "nothing");
	if (lost && want) {
		CHECK_STR(lost->what, want);
		CHECK_STR(lost->path, at);
	}
	ws_changes_done(&changes);
	empty();
}

/* What a repository needs, and what git may remove. */
static void test_lost_repositories(void)
{
	static const char *const at[] = { ".git", "a/.git", "bare" };
	static const struct {
		const char *gone;
		bool is_opaque, is_lost;
	} cases[] = {
		{ "", false, true },
		{ "", true, true },
		{ "/HEAD", false, true },
		{ "/packed-refs", false, true },
		{ "/objects", false, true },
		{ "/objects", true, true },
		{ "/objects/pack", false, true },
		{ "/refs", false, true },
		{ "/refs/heads", false, true },
		{ "/refs/heads/main", false, false },
		{ "/objects/ab", false, false },
		{ "/objects/ab/cdef", false, false },
		{ "/objects/pack/pack-1.pack", false, false },
	};

	REQUIRE(set_up());
	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(cases); k++) {
			char gone[64];

			snprintf(gone, sizeof(gone), "%s%s", at[i], cases[k].gone);
			check_lost(at[i], gone, cases[k].is_opaque, cases[k].is_lost ? gone : NULL);
		}
	}
	check_lost("a/.git", "a", false, "a/.git");
	check_lost("a/.git", "a", true, "a/.git");
	tear_down();
}

TAP_MAIN(test_protected, test_harmless, test_other_names, test_types, test_programs, test_links,
	 test_in_repositories, test_indexes, test_lost_repositories)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names are compared without regard to case, as some file systems do. On the others this costs
 * nothing.
 */
#include "base/autorun.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/ascii.h"
#include "base/macros.h"

/* In a project directory. */
const struct autorun_name autorun_project[] = {
	{ ".mcp.json", true, false },	 /* tools that an agent starts */
	{ ".vscode", true, true },	 /* tasks, settings with commands */
	{ ".idea", true, true },	 /* run configurations, start-up tasks */
	{ ".claude", true, true },	 /* agents: hooks and commands */
	{ ".cursor", true, true },	 /* the same */
	{ ".codex", true, true },	 /* the same */
	{ ".gemini", true, true },	 /* the same */
	{ ".envrc", true, false },	 /* direnv */
	{ ".devcontainer", true, true }, /* commands on opening */
	{ ".devcontainer.json", true, false },
	{ ".zed", true, true },			     /* tasks, settings with commands */
	{ ".windsurf", true, true },		     /* agents: the same as above */
	{ ".aider.conf.yml", true, false },	     /* commands for lint and test */
	{ "opencode.json", true, false },	     /* tools that an agent starts */
	{ ".jj", true, true },			     /* a repository: its config names programs */
	{ ".hg/hgrc", true, false },		     /* hooks */
	{ ".pre-commit-config.yaml", false, false }, /* obeyed by a hook that is there already */
	{ "lefthook.yml", false, false },	     /* the same */
	{ ".husky", false, false }, /* git hooks, if the repository's config says so */
	{ ".gitmodules", false,
	  false },			/* a placeholder would upset git; URLs are checked by git */
	{ ".ripgreprc", false, false }, /* read only if a variable points there */
	{ NULL, false, false },
};

/* In a home directory; three components at most. */
const struct autorun_name autorun_home[] = {
	/* shells */
	{ ".bashrc", true, false },
	{ ".bash_profile", true, false },
	{ ".bash_login", true, false },
	{ ".bash_logout", true, false },
	{ ".bash_aliases", true, false },
	{ ".bash_completion", true, false },
	{ ".profile", true, false },
	{ ".zshrc", true, false },
	{ ".zprofile", true, false },
	{ ".zshenv", true, false },
	{ ".zlogin", true, false },
	{ ".zlogout", true, false },
	{ ".cshrc", true, false },
	{ ".kshrc", true, false },
	{ ".login", true, false },
	{ ".inputrc", false, false },
	{ ".pam_environment", true, false },
	{ ".oh-my-zsh", false, false },
	/* sessions */
	{ ".xprofile", true, false },
	{ ".xinitrc", true, false },
	{ ".xsession", true, false },
	{ ".xsessionrc", true, false },
	/* keys, and programs that they start */
	{ ".ssh", true, true },
	{ ".gnupg", true, true },
	{ ".aws", true, true },
	{ ".kube", true, true },
	{ ".docker", true, true },
	/* tools that run what their settings name */
	{ ".gitconfig", true, false },
	{ ".hgrc", true, false },
	{ ".claude.json", true, false },
	{ ".config", true, true },
	{ ".npmrc", true, false },
	{ ".yarnrc", true, false },
	{ ".yarnrc.yml", true, false },
	{ ".vimrc", true, false },
	{ ".vim", true, true },
	{ ".emacs", true, false },
	{ ".emacs.d", true, true },
	{ ".tmux.conf", true, false },
	{ ".screenrc", true, false },
	{ ".gdbinit", true, false },
	{ ".lldbinit", true, false },
	{ ".Rprofile", true, false },
	{ ".irbrc", true, false },
	/* programs that are in PATH or are imported */
	{ "bin", true, true },
	{ "go/bin", true, true },
	{ ".local/bin", true, true },
	{ ".local/lib", true, true },
	{ ".local/share/applications", true, true },
	{ ".local/share/systemd", true, true },
	{ ".local/share/dbus-1", true, true },
	{ ".cargo/bin", true, true },
	{ ".cargo/env", true, false },
	{ ".cargo/config.toml", true, false },
	{ ".rustup", false, true },
	{ ".nvm", false, false },
	{ ".pyenv", false, false },
	{ NULL, false, false },
};

/* Anywhere in a tree, or in any directory called @in. One * stands for any bytes. A directory that
 * matches stands for everything in it. */
static const struct pattern {
	const char *name, *in;
	unsigned what;
} patterns[] = {
	{ "workflows", ".github", AUTORUN_CI },
	{ "actions", ".github", AUTORUN_CI },
	{ ".gitlab-ci.yml", NULL, AUTORUN_CI },
	{ ".gitlab-ci.yaml", NULL, AUTORUN_CI },
	{ "ci", ".gitlab", AUTORUN_CI },
	{ "workflows", ".gitea", AUTORUN_CI },
	{ "workflows", ".forgejo", AUTORUN_CI },
	{ ".circleci", NULL, AUTORUN_CI },
	{ "Jenkinsfile*", NULL, AUTORUN_CI },
	{ "azure-pipelines*.yml", NULL, AUTORUN_CI },
	{ ".azure-pipelines", NULL, AUTORUN_CI },
	{ ".travis.yml", NULL, AUTORUN_CI },
	{ ".appveyor.yml", NULL, AUTORUN_CI },
	{ "appveyor.yml", NULL, AUTORUN_CI },
	{ ".drone.yml", NULL, AUTORUN_CI },
	{ ".buildkite", NULL, AUTORUN_CI },
	{ ".cirrus.yml", NULL, AUTORUN_CI },
	{ ".woodpecker*", NULL, AUTORUN_CI },
	{ ".semaphore", NULL, AUTORUN_CI },
	{ ".teamcity", NULL, AUTORUN_CI },
	{ ".builds", NULL, AUTORUN_CI },
	{ ".build.yml", NULL, AUTORUN_CI },
	{ "bitbucket-pipelines.yml", NULL, AUTORUN_CI },
	{ "cloudbuild.y*ml", NULL, AUTORUN_CI },
	{ "buildspec.y*ml", NULL, AUTORUN_CI },
	{ "package-lock.json", NULL, AUTORUN_LOCKFILE },
	{ "npm-shrinkwrap.json", NULL, AUTORUN_LOCKFILE },
	{ "yarn.lock", NULL, AUTORUN_LOCKFILE },
	{ "pnpm-lock.yaml", NULL, AUTORUN_LOCKFILE },
	{ "bun.lock", NULL, AUTORUN_LOCKFILE },
	{ "bun.lockb", NULL, AUTORUN_LOCKFILE },
	{ "deno.lock", NULL, AUTORUN_LOCKFILE },
	{ "poetry.lock", NULL, AUTORUN_LOCKFILE },
	{ "uv.lock", NULL, AUTORUN_LOCKFILE },
	{ "pylock*.toml", NULL, AUTORUN_LOCKFILE },
	{ "Pipfile.lock", NULL, AUTORUN_LOCKFILE },
	{ "pdm.lock", NULL, AUTORUN_LOCKFILE },
	{ "pixi.lock", NULL, AUTORUN_LOCKFILE },
	{ "conda-lock.yml", NULL, AUTORUN_LOCKFILE },
	{ "requirements*.txt", NULL, AUTORUN_LOCKFILE },
	{ "constraints*.txt", NULL, AUTORUN_LOCKFILE },
	{ "Cargo.lock", NULL, AUTORUN_LOCKFILE },
	{ "go.sum", NULL, AUTORUN_LOCKFILE },
	{ "Gemfile.lock", NULL, AUTORUN_LOCKFILE },
	{ "composer.lock", NULL, AUTORUN_LOCKFILE },
	{ "mix.lock", NULL, AUTORUN_LOCKFILE },
	{ "pubspec.lock", NULL, AUTORUN_LOCKFILE },
	{ "Podfile.lock", NULL, AUTORUN_LOCKFILE },
	{ "Package.resolved", NULL, AUTORUN_LOCKFILE },
	{ "packages.lock.json", NULL, AUTORUN_LOCKFILE },
	{ "gradle.lockfile", NULL, AUTORUN_LOCKFILE },
	{ "flake.lock", NULL, AUTORUN_LOCKFILE },
	{ ".terraform.lock.hcl", NULL, AUTORUN_LOCKFILE },
	{ "*.pth", NULL, AUTORUN_STARTUP },
	{ "sitecustomize.py", NULL, AUTORUN_STARTUP },
	{ "usercustomize.py", NULL, AUTORUN_STARTUP },
	{ "conftest.py", NULL, AUTORUN_STARTUP },
	{ ".npmrc", NULL, AUTORUN_STARTUP },
	{ ".yarnrc*", NULL, AUTORUN_STARTUP },
	{ "releases", ".yarn", AUTORUN_STARTUP },
	{ "plugins", ".yarn", AUTORUN_STARTUP },
	{ ".pnp.*", NULL, AUTORUN_STARTUP },
	{ ".pnpmfile.cjs", NULL, AUTORUN_STARTUP },
	{ ".gitattributes", NULL, AUTORUN_STARTUP },
	{ "config*", ".cargo", AUTORUN_STARTUP },
	{ "build.rs", NULL, AUTORUN_STARTUP },
	{ ".tool-versions", NULL, AUTORUN_STARTUP },
	{ ".mise.toml", NULL, AUTORUN_STARTUP },
	{ "mise.toml", NULL, AUTORUN_STARTUP },
	{ ".python-version", NULL, AUTORUN_STARTUP },
	{ ".ruby-version", NULL, AUTORUN_STARTUP },
	{ ".node-version", NULL, AUTORUN_STARTUP },
	{ ".nvmrc", NULL, AUTORUN_STARTUP },
	{ "rust-toolchain*", NULL, AUTORUN_STARTUP },
	{ ".gdbinit", NULL, AUTORUN_STARTUP },
	{ ".lldbinit", NULL, AUTORUN_STARTUP },
	{ ".vimrc", NULL, AUTORUN_STARTUP },
	{ ".exrc", NULL, AUTORUN_STARTUP },
	{ ".nvim.lua", NULL, AUTORUN_STARTUP },
	{ ".dir-locals*.el", NULL, AUTORUN_STARTUP },
	{ ".Rprofile", NULL, AUTORUN_STARTUP },
	{ ".irbrc", NULL, AUTORUN_STARTUP },
	{ ".pryrc", NULL, AUTORUN_STARTUP },
	{ ".direnv", NULL, AUTORUN_STARTUP },
	{ ".bin", "node_modules", AUTORUN_STARTUP },
	{ "bin", "venv", AUTORUN_STARTUP },
	{ "bin", ".venv", AUTORUN_STARTUP },
	{ "pyvenv.cfg", NULL, AUTORUN_STARTUP },
	{ ".bazelrc", NULL, AUTORUN_STARTUP },
};

/* Where in a repository's directory. */
enum git_area {
	GIT_NONE = 0,
	GIT_DIR,	  /* the directory itself */
	GIT_INFO,	  /* info/ */
	GIT_OBJECTS,	  /* objects/ */
	GIT_OBJECTS_INFO, /* objects/info/ */
	GIT_LOOSE,	  /* below modules/ or worktrees/: repositories at any depth */
	GIT_OTHER,
};

/* Git executes these, takes settings from them, or finds the rest of the repository by them. */
static const char *const git_names[] = { "hooks", "config", "config.worktree", "commondir",
					 "gitdir" };
static const char *const git_info_names[] = { "attributes" };
static const char *const git_objects_names[] = { "alternates", "http-alternates" };

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcasecmp(name, names[i]) == 0)
			return true;
	}
	return false;
}

bool autorun_is_git(const char *name)
{
	return strcasecmp(name, ".git") == 0 || strcasecmp(name, "git~1") == 0;
}

static bool is_git_special(enum git_area area, const char *name, bool is_link)
{
	bool is_name = is_one_of(name, git_names, ARRAY_SIZE(git_names));
	bool is_info = is_one_of(name, git_info_names, ARRAY_SIZE(git_info_names));
	bool is_objects = is_one_of(name, git_objects_names, ARRAY_SIZE(git_objects_names));

	switch (area) {
	case GIT_DIR:
		/* A link could move info, modules and the like elsewhere. */
		return is_name || is_link;
	case GIT_INFO:
		return is_info;
	case GIT_OBJECTS:
		return is_link && strcasecmp(name, "info") == 0;
	case GIT_OBJECTS_INFO:
		return is_objects;
	case GIT_LOOSE:
		return is_name || is_info || is_objects || is_link;
	case GIT_NONE:
	case GIT_OTHER:
		break;
	}
	return false;
}

/* Does the component [@pattern, @pattern + @len), which may have one *, match @name? */
static bool component_matches(const char *pattern, size_t len, const char *name)
{
	size_t name_len, before, after;
	const char *star;

	/* The first byte decides most cases. */
	if (pattern[0] != '*' && ascii_lower(pattern[0]) != ascii_lower(name[0]))
		return false;
	star = memchr(pattern, '*', len);
	if (!star)
		return strncasecmp(pattern, name, len) == 0 && name[len] == '\0';
	before = (size_t)(star - pattern);
	after = len - before - 1;
	name_len = strlen(name);
	return name_len >= before + after && strncasecmp(pattern, name, before) == 0 &&
	       strncasecmp(star + 1, name + name_len - after, after) == 0;
}

static bool pattern_matches(const struct pattern *p, const struct autorun_dir *dir,
			    const char *name)
{
	return component_matches(p->name, strlen(p->name), name) &&
	       (!p->in || (dir->name && component_matches(p->in, strlen(p->in), dir->name)));
}

/* How many components @path has, if they are the last ones on the way to @name in @dir; else 0. */
static unsigned path_matches(const char *path, const struct autorun_dir *dir, const char *name)
{
	const char *names[] = { name, dir->name, dir->above };
	size_t end = strlen(path);

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		size_t start = end;

		while (start > 0 && path[start - 1] != '/')
			start--;
		if (!names[i] || !component_matches(path + start, end - start, names[i]))
			return 0;
		if (start == 0)
			return i + 1;
		end = start - 1;
	}
	return 0;
}

static bool is_home_name(const struct autorun_dir *dir, const char *name)
{
	unsigned depth = dir->is_below_top ? 0 : 1 + !!dir->name + !!dir->above;

	if (depth == 0 && dir->home == 0)
		return false;
	for (const struct autorun_name *n = autorun_home; n->path; n++) {
		unsigned len = path_matches(n->path, dir, name);

		/* Many projects have a bin/ that is not in PATH. */
		if (len > 0 && (len == dir->home || (len == depth && n->path[0] == '.')))
			return true;
	}
	return false;
}

/* Anywhere in a tree: each directory may become a project of its own. */
static bool is_project_name(const struct autorun_dir *dir, const char *name)
{
	for (const struct autorun_name *n = autorun_project; n->path; n++) {
		if (path_matches(n->path, dir, name) > 0)
			return true;
	}
	return false;
}

unsigned autorun_class(const struct autorun_dir *dir, const char *name, bool is_dir, bool is_link)
{
	unsigned ret = dir->all;

	/* With objects/ and refs/ beside it, git takes the directory for a repository. */
	if (!is_dir && !dir->in_git && strcmp(name, "HEAD") == 0)
		ret |= AUTORUN_PROTECTED;
	/* The other names keep their meaning in what looks like a repository: anyone can create
	 * the names that make it look like one. */
	if (is_git_special(dir->git, name, is_link) || (!is_dir && autorun_is_git(name)) ||
	    is_project_name(dir, name) || is_home_name(dir, name))
		ret |= AUTORUN_PROTECTED;
	/* Branches may have any of the names that follow. */
	if (dir->in_git)
		return ret;
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		if (pattern_matches(&patterns[i], dir, name))
			ret |= patterns[i].what;
	}
	return ret;
}

static enum git_area enter_git(enum git_area area, const char *name)
{
	/* At any depth: git obeys the nearest one. */
	if (area != GIT_LOOSE && autorun_is_git(name))
		return GIT_DIR;
	switch (area) {
	case GIT_NONE:
		return GIT_NONE;
	case GIT_DIR:
		if (strcasecmp(name, "info") == 0)
			return GIT_INFO;
		if (strcasecmp(name, "objects") == 0)
			return GIT_OBJECTS;
		if (strcasecmp(name, "modules") == 0 || strcasecmp(name, "worktrees") == 0)
			return GIT_LOOSE;
		return GIT_OTHER;
	case GIT_OBJECTS:
		return strcasecmp(name, "info") == 0 ? GIT_OBJECTS_INFO : GIT_OTHER;
	case GIT_LOOSE:
		return GIT_LOOSE;
	case GIT_INFO:
	case GIT_OBJECTS_INFO:
	case GIT_OTHER:
		break;
	}
	return GIT_OTHER;
}

void autorun_enter(const struct autorun_dir *dir, const char *name, struct autorun_dir *ret)
{
	struct autorun_dir to = {
		.name = name,
		.above = dir->name,
		.is_below_top = dir->above != NULL,
		.home = (uint8_t)(dir->home && dir->home < 3 ? dir->home + 1 : 0),
		.in_git = dir->in_git || autorun_is_git(name),
		.git = (uint8_t)enter_git(dir->git, name),
		.all = (uint8_t)autorun_class(dir, name, true, false),
	};

	*ret = to;
}

void autorun_is_repository(struct autorun_dir *dir)
{
	if (dir->git != GIT_LOOSE)
		dir->git = GIT_DIR;
}

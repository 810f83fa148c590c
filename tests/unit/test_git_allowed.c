/* SPDX-License-Identifier: Apache-2.0 */
/* What may come to lie in a repository's own directory unseen. */
#include <string.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "git/allowed.h"

#include "tap.h"

#define OID "0123456789abcdef0123456789abcdef01234567"

static void check_all(const char *const *paths, mode_t mode, enum git_allowed want)
{
	for (; *paths; paths++) {
		enum git_allowed got = git_allowed(*paths, mode);

		CHECK_MSG(got == want, "%s: %d, expected %d", *paths, (int)got, (int)want);
	}
}

static const char *const data[] = {
	"index",
	"index.lock",
	"packed-refs",
	"COMMIT_EDITMSG",
	"MERGE_MSG",
	"description",
	"shallow",
	"sharedindex.0123456789abcdef0123456789abcdef01234567",
	"info/exclude",
	"info/sparse-checkout",
	"logs/HEAD",
	"logs/refs/heads/a/b",
	"objects/ab/cdef",
	"objects/pack/pack-0123456789abcdef0123456789abcdef01234567.idx",
	"objects/pack/multi-pack-index",
	"objects/info/packs",
	"objects/info/commit-graph",
	"objects/info/commit-graphs/graph-0123456789abcdef0123456789abcdef01234567.graph",
	"rebase-merge/done",
	"rebase-apply/0001",
	"sequencer/head",
	"rr-cache/0123456789abcdef0123456789abcdef01234567/preimage",
	"modules/a/index",
	"modules/a/b/objects/ab/cd",
	"modules/a/logs/HEAD",
	"worktrees/w/index",
	"HEAD.lock",
	NULL,
};

static void test_data_is_allowed(void)
{
	static const char *const refs[] = { "refs/heads/config", "refs/heads/hooks/x", "refs/stash",
					    "modules/a/refs/tags/v1", NULL };
	static const char *const heads[] = { "HEAD",	       "ORIG_HEAD",	   "FETCH_HEAD",
					     "modules/a/HEAD", "worktrees/w/HEAD", NULL };
	static const char *const todos[] = { "rebase-merge/git-rebase-todo", "sequencer/todo",
					     "worktrees/w/rebase-merge/git-rebase-todo", NULL };
	static const char *const dirs[] = { "refs",	  "refs/heads",	  "logs/refs/heads",
					    "objects/ab", "objects/pack", "branches",
					    "info",	  "modules/a/b",  "worktrees/w",
					    NULL };

	check_all(data, S_IFREG | 0644, GIT_ALLOWED_YES);
	check_all(refs, S_IFREG | 0644, GIT_ALLOWED_REF);
	check_all(heads, S_IFREG | 0644, GIT_ALLOWED_HEAD);
	check_all(todos, S_IFREG | 0644, GIT_ALLOWED_TODO);
	check_all(dirs, S_IFDIR | 0755, GIT_ALLOWED_YES);
}

static void test_nothing_but_plain_files(void)
{
	static const mode_t modes[] = { S_IFLNK | 0777, S_IFIFO | 0644,	 S_IFSOCK | 0644,
					S_IFCHR | 0644, S_IFREG | 04755, S_IFREG | 02755 };

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		check_all(data, modes[i], GIT_ALLOWED_NO);
	CHECK_INT(git_allowed("index", S_IFDIR | 0755), GIT_ALLOWED_NO);
	CHECK_INT(git_allowed("refs", S_IFREG | 0644), GIT_ALLOWED_NO);
}

static void test_the_rest_is_not_allowed(void)
{
	static const char *const files[] = {
		"config",
		"Config",
		"config.lock",
		"config.worktree",
		"commondir",
		"gitdir",
		"hooks",
		"hooks/pre-commit",
		"HOOKS/pre-commit",
		"head",
		"info/attributes",
		"info/grafts",
		"objects/info/alternates",
		"objects/info/http-alternates",
		"objects/config",
		"objects/pack/config",
		"branches/origin",
		"remotes/origin",
		"svn/.caches/x.yaml",
		"fsmonitor--daemon.ipc",
		"anything",
		"anything/index",
		"logs/.git/config",
		"refs/.git",
		"modules/a/config",
		"modules/a/b/hooks/x",
		"modules/refs/config",
		"modules/refs/heads/Config",
		"modules/logs/hooks/x",
		"modules/objects/HEAD",
		"worktrees/w/commondir",
		"worktrees/w/gitdir",
		"worktrees/w/config.worktree",
		"refs//x",
		"",
		NULL,
	};
	static const char *const dirs[] = { "hooks",	    "HEAD",	  "x", ".git",
					    "modules/.git", "branches/a", NULL };

	check_all(files, S_IFREG | 0644, GIT_ALLOWED_NO);
	check_all(dirs, S_IFDIR | 0755, GIT_ALLOWED_NO);
}

static void test_heads(void)
{
	static const struct {
		const char *name, *text;
		bool want;
	} cases[] = {
		{ "HEAD", "ref: refs/heads/main\n", true },
		{ "HEAD", "ref: refs/heads/a.b/c", true },
		{ "HEAD", OID "\n", true },
		{ "HEAD", "", false },
		{ "HEAD", "junk\n", false },
		{ "HEAD", "ref: ../x\n", false },
		{ "HEAD", "ref: refs/../../x\n", false },
		{ "HEAD", "ref: refs/heads/..\n", false },
		{ "HEAD", "ref: refs/heads/a b\n", false },
		{ "HEAD", "ref: refs/\n", false },
		{ "HEAD", "ref: config\n", false },
		{ "HEAD", "ref: refs/heads/a\nmore\n", false },
		{ "ORIG_HEAD", OID "\n", true },
		{ "ORIG_HEAD", "ref: refs/heads/main\n", false },
		{ "ORIG_HEAD", OID "0\n", false },
		{ "MERGE_HEAD", OID "\n" OID "\n", true },
		{ "FETCH_HEAD", OID "\t\tbranch 'main' of ../x\n", true },
		{ "FETCH_HEAD", "", true },
		{ "NOTES_MERGE_REF", "ref: refs/notes/x\n", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		CHECK_MSG(git_head_is_sound(cases[i].name, cases[i].text, strlen(cases[i].text)) ==
				  cases[i].want,
			  "%s: %s", cases[i].name, cases[i].text);
}

static void test_todos(void)
{
	static const struct {
		const char *text;
		bool want;
	} cases[] = {
		{ "", false },
		{ "pick " OID " x\n# exec is a remark\n", false },
		{ "pick 1 exec\nfixup 2\n", false },
		{ "xyz\n", false },
		{ "exec true\n", true },
		{ "pick 1\n  \texec true", true },
		{ "pick 1\nx true\n", true },
		{ "x\ttrue\n", true },
		{ "\rx true\n", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		CHECK_MSG(git_todo_runs(cases[i].text, strlen(cases[i].text)) == cases[i].want,
			  "%s", cases[i].text);
}

static void test_contents(void)
{
	static const struct {
		const char *path, *text;
		bool want;
	} cases[] = {
		{ "index", "/$;", true },
		{ "config", "", false },
		{ "HEAD", "ref: refs/heads/x\n", true },
		{ "HEAD", "x", false },
		{ "sequencer/todo", "pick 1\n", true },
		{ "sequencer/todo", "exec 1\n", false },
		{ "rebase-merge/strategy", "ort", true },
		{ "rebase-merge/strategy", "x/../prog", false },
		{ "rebase-apply/apply-opt", " '--whitespace=fix'", true },
		{ "rebase-apply/apply-opt", " '--directory=../x'", false },
		{ "rebase-apply/apply-opt", " '--build-fake-ancestor=.envrc'", false },
		{ "rebase-apply/apply-opt", " '--bui=.envrc'", false },
		{ "rebase-apply/apply-opt", " '-'\\!'-bui=.envrc'", false },
		{ "rebase-merge/gpg_sign_opt", "", true },
		{ "rebase-merge/gpg_sign_opt", "-S", false },
		{ "sequencer/opts", "[options]\n\tGPG-sign = k\n", false },
		{ "sequencer/opts", "[options]\n\tno-commit = true\n", true },
		{ "sequencer/opts", "[options]\n\tstrategy = a/b\n", false },
		{ "BISECT_NAMES", " 'src/a b'\n", true },
		{ "BISECT_NAMES", "'a'; touch x\n", false },
		{ "BISECT_NAMES", "$(touch x)", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *slash = strrchr(cases[i].path, '/');

		CHECK_MSG(git_content_is_sound(git_allowed(cases[i].path, S_IFREG | 0644),
					       slash ? slash + 1 : cases[i].path, cases[i].text,
					       strlen(cases[i].text)) == cases[i].want,
			  "%s: %s", cases[i].path, cases[i].text);
	}
	CHECK(!git_content_is_sound(GIT_ALLOWED_WORDS, "strategy", "a\0b", 3));
}

TAP_MAIN(test_data_is_allowed, test_nothing_but_plain_files, test_the_rest_is_not_allowed,
	 test_heads, test_todos, test_contents)

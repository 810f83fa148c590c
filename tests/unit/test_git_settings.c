/* SPDX-License-Identifier: Apache-2.0 */
/* What may be different in a repository's config that was replaced during a run, and what clones
 * have. */
#include <string.h>

#include "base/macros.h"
#include "git/settings.h"

#include "tap.h"

#define CORE                                                                                       \
	"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"               \
	"\tlogallrefupdates = true\n"
#define ORIGIN                                                                                     \
	"[remote \"origin\"]\n\turl = https://example.com/a.git\n"                                 \
	"\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
#define LFS "[filter \"lfs\"]\n\tprocess = git-lfs filter-process\n\trequired = true\n"
#define MAIN "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n"

static bool may(const char *before, const char *now, char key[GIT_SETTING_MAX])
{
	return git_settings_may_change(before, strlen(before), now, strlen(now), key);
}

static void test_what_git_writes_every_day(void)
{
	static const char *const now[] = {
		CORE ORIGIN LFS,
		/* git remote add, git push -u, git switch --track */
		CORE ORIGIN LFS "[remote \"fork\"]\n\turl = git@example.com:me/a.git\n"
				"\tfetch = +refs/heads/*:refs/remotes/fork/*\n",
		CORE ORIGIN LFS MAIN,
		CORE ORIGIN LFS "[branch \"x\"]\n\tremote = .\n\tmerge = refs/heads/main\n"
				"\trebase = true\n\tvscode-merge-base = origin/main\n",
		CORE ORIGIN LFS "[remote \"l\"]\n\turl = ssh://me@example.com:22/a\n",
		/* git config */
		CORE ORIGIN LFS "[user]\n\tname = A. B\n\temail = a@b\n",
		CORE ORIGIN LFS "[pull]\n\trebase = false\n[MERGE]\n\tff = only\n",
		CORE ORIGIN LFS "[push]\n\tdefault = current\n\tautoSetupRemote = true\n",
		CORE ORIGIN LFS "[init]\n\tdefaultBranch = trunk/x\n",
		CORE ORIGIN "\tprune = true\n\ttagOpt = --no-tags\n" LFS,
		CORE ORIGIN LFS "[branch]\n\tautoSetupMerge = inherit\n\tautoSetupRebase = always\n"
				"\tsort = -committerdate\n[tag]\n\tsort = version:refname\n",
		CORE ORIGIN LFS "[status]\n\tshowUntrackedFiles = no\n[log]\n\tdate = iso-strict\n",
		/* comments and blanks say nothing */
		"# hello\n" CORE "\n; there\n" ORIGIN "\n\n" LFS,
		CORE ORIGIN "[filter \"lfs\"]\n  process=git-lfs filter-process\nrequired  = true",
	};
	char key[GIT_SETTING_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(now); i++)
		CHECK_MSG(may(CORE ORIGIN LFS, now[i], key), "%zu: %s", i, key);
}

static void test_what_git_obeys(void)
{
	static const struct {
		const char *now, *key;
	} cases[] = {
		{ CORE ORIGIN LFS "[core]\n\tfsmonitor = evil\n", "core.fsmonitor" },
		{ CORE ORIGIN LFS "[core]\n\thooksPath = /tmp/x\n", "core.hookspath" },
		{ CORE ORIGIN LFS "[CORE]\n\tHOOKSPATH = /tmp/x\n", "core.hookspath" },
		{ CORE ORIGIN LFS "[core]\n\tbare = true\n", "core.bare" },
		{ CORE ORIGIN LFS "[include]\n\tpath = ../x\n", "include.path" },
		{ CORE ORIGIN LFS "[includeIf \"gitdir:/\"]\n\tpath = x\n",
		  "includeif.gitdir:/.path" },
		{ CORE ORIGIN LFS "[alias]\n\tst = !evil\n", "alias.st" },
		{ CORE ORIGIN LFS "[url \"ext::\"]\n\tinsteadOf = https://\n",
		  "url.ext::.insteadof" },
		{ CORE ORIGIN LFS "[remote \"o\"]\n\tuploadpack = evil\n", "remote.o.uploadpack" },
		{ CORE ORIGIN LFS "[remote \"o\"]\n\turl = ext::sh -c evil\n", "remote.o.url" },
		{ CORE ORIGIN LFS "[remote \"o\"]\n\turl = evil://x\n", "remote.o.url" },
		{ CORE ORIGIN LFS "[remote \"o\"]\n\turl = -x\n", "remote.o.url" },
		{ CORE ORIGIN LFS "[remote \"o\"]\n\turl = ssh://-oProxyCommand=x/\n",
		  "remote.o.url" },
		{ CORE ORIGIN LFS "[remote \"o\"]\n\turl = \"ext::sh\"\n", "remote.o.url" },
		/* a push there runs its hooks */
		{ CORE ORIGIN LFS "[remote \"l\"]\n\turl = /srv/git/a.git\n", "remote.l.url" },
		{ CORE ORIGIN LFS "[remote \"l\"]\n\turl = ../a.git\n", "remote.l.url" },
		{ CORE ORIGIN LFS "[remote \"l\"]\n\turl = a\n", "remote.l.url" },
		{ CORE ORIGIN LFS "[remote \"l\"]\n\turl = ./a:b\n", "remote.l.url" },
		{ CORE ORIGIN LFS "[remote \"l\"]\n\turl = :a\n", "remote.l.url" },
		{ CORE ORIGIN LFS "[remote \"l\"]\n\turl = file:///srv/a\n", "remote.l.url" },
		/* the next push would go elsewhere */
		{ CORE "[remote \"origin\"]\n\turl = https://evil\n" LFS, "remote.origin.url" },
		{ CORE ORIGIN "\tpushurl = https://evil\n" LFS, "remote.origin.pushurl" },
		{ CORE ORIGIN LFS "[branch \"main\"]\n\tremote = https://evil\n",
		  "branch.main.remote" },
		{ CORE ORIGIN LFS "[remote]\n\tpushDefault = evil\n", "remote.pushdefault" },
		{ CORE ORIGIN LFS "[branch \"main\"]\n\tmerge = --evil\n", "branch.main.merge" },
		{ CORE ORIGIN LFS "[push]\n\tdefault = matching\n", "push.default" },
		{ CORE ORIGIN LFS "[push]\n\tdefault = upstream\n", "push.default" },
		{ CORE ORIGIN LFS "[push]\n\tdefault\n", "push.default" },
		{ CORE ORIGIN LFS "[push]\n\tgpgSign = true\n", "push.gpgsign" },
		{ CORE ORIGIN LFS "[branch]\n\tsort = --evil\n", "branch.sort" },
		{ CORE ORIGIN "\tmirror = true\n" LFS, "remote.origin.mirror" },
		{ CORE ORIGIN "\tpush = refs/heads/*:refs/heads/*\n" LFS, "remote.origin.push" },
		{ CORE ORIGIN "\ttagOpt = --upload-pack=x\n" LFS, "remote.origin.tagopt" },
		{ CORE ORIGIN LFS "[core]\n\teol = $(evil)\n", "core.eol" },
		/* a remote without an address is a directory of that name */
		{ CORE LFS, "remote.origin.url" },
		{ CORE "[remote \"origin\"]\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n" LFS,
		  "remote.origin.url" },
		{ CORE "[remote \"upstream\"]\n\turl = https://example.com/a.git\n" LFS,
		  "remote.origin.url" },
		/* what is gone counts, too, and so does the order */
		{ CORE ORIGIN, "filter.lfs.process" },
		{ LFS CORE ORIGIN, "core.repositoryformatversion" },
		/* not as git writes it */
		{ CORE ORIGIN LFS "[core] fsmonitor = evil\n", "" },
		{ CORE ORIGIN LFS "[core.x]\n\tfsmonitor = evil\n", "" },
		{ CORE ORIGIN LFS "[user]\n\tname = \"a\n", "" },
		{ CORE ORIGIN LFS "[user]\n\tname = a \\\n", "user.name" },
		{ CORE ORIGIN LFS "[user]\n\tname = a \\\n[core]\n\tfsmonitor = evil\n",
		  "user.fsmonitor" },
		{ CORE ORIGIN LFS "[user]\r\n\tname = a\r\n", "" },
		{ CORE ORIGIN LFS "\xef\xbb\xbf[user]\n", "" },
		{ "x = y\n" CORE ORIGIN LFS, "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char key[GIT_SETTING_MAX];
		bool ok = may(CORE ORIGIN LFS, cases[i].now, key);

		CHECK_MSG(!ok && strcmp(key, cases[i].key) == 0, "%zu: %d '%s', expected '%s'", i,
			  ok, key, cases[i].key);
	}
}

/* A branch that had a remote is pushed there, or where the user's other remotes lead. */
static void test_where_a_branch_is_pushed_to(void)
{
#define FORK "[remote \"fork\"]\n\turl = https://example.com/fork.git\n"
	static const struct {
		const char *before, *now, *key;
	} cases[] = {
		/* git push -u, git branch -u, git branch -d */
		{ CORE ORIGIN FORK MAIN,
		  CORE ORIGIN FORK "[branch \"main\"]\n\tremote = fork\n"
				   "\tmerge = refs/heads/main\n",
		  NULL },
		{ CORE ORIGIN MAIN,
		  CORE ORIGIN MAIN "[branch \"x\"]\n\tremote = origin\n"
				   "\tmerge = refs/heads/x\n",
		  NULL },
		{ CORE ORIGIN MAIN, CORE ORIGIN "[branch \"main\"]\n\tremote = .\n", NULL },
		{ CORE ORIGIN "[branch \"main\"]\n\tremote = .\n", CORE ORIGIN MAIN, NULL },
		{ CORE ORIGIN MAIN, CORE ORIGIN, NULL },
		/* the first remote of all */
		{ CORE, CORE FORK "[branch \"main\"]\n\tremote = fork\n", NULL },
		/* a new one, for a branch that has one or goes to origin by itself */
		{ CORE ORIGIN MAIN, CORE ORIGIN FORK "[branch \"main\"]\n\tremote = fork\n",
		  "branch.main.remote" },
		{ CORE ORIGIN, CORE ORIGIN FORK "[branch \"main\"]\n\tremote = fork\n",
		  "branch.main.remote" },
		{ CORE ORIGIN MAIN, CORE ORIGIN FORK MAIN "\tpushRemote = fork\n",
		  "branch.main.pushremote" },
		{ CORE "[branch \"main\"]\n\tremote = x\n",
		  CORE FORK "[branch \"main\"]\n\tremote = fork\n", "branch.main.remote" },
		/* another branch on the other side */
		{ CORE ORIGIN MAIN,
		  CORE ORIGIN
		  "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/production\n",
		  "branch.main.merge" },
		/* an address that is gone */
		{ CORE ORIGIN "\tpushurl = https://example.com/b\n", CORE ORIGIN,
		  "remote.origin.pushurl" },
		{ CORE ORIGIN FORK MAIN, CORE FORK MAIN, "remote.origin.url" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char key[GIT_SETTING_MAX];
		bool ok = may(cases[i].before, cases[i].now, key);

		CHECK_MSG(ok == !cases[i].key && strcmp(key, ok ? "" : cases[i].key) == 0,
			  "%zu: %d '%s'", i, ok, key);
	}
}

static void test_nothing_and_everything(void)
{
	char key[GIT_SETTING_MAX];

	CHECK(may("", "", key));
	CHECK(may("", "[user]\n\tname = x\n", key));
	CHECK(!git_settings_may_change("", 0, "[user]\n\tname = \0x\n", 19, key));
}

static bool are_plain(const char *text)
{
	char work_tree[PATH_MAX];

	return git_settings_are_plain(text, strlen(text), work_tree);
}

static void test_what_clones_have(void)
{
	static const char *const texts[] = {
		"",
		CORE,
		CORE ORIGIN MAIN,
		CORE "[remote \"origin\"]\n\turl = /srv/a\n",
		CORE "[remote \"origin\"]\n\turl = ../a b\n",
		CORE "[remote \"origin\"]\n\turl = file:///srv/a\n",
		CORE "\tsymlinks = false\n\tignorecase = true\n\tprecomposeunicode = true\n",
		CORE "[submodule]\n\tactive = .\n" ORIGIN
		     "[submodule \"s\"]\n\tactive = true\n\turl = https://example.com/s\n",
		CORE ORIGIN "\ttagOpt = --no-tags\n[gc]\n\tauto = 0\n",
		CORE ORIGIN "\tpromisor = true\n\tpartialclonefilter = blob:none\n"
			    "[extensions]\n\tpartialClone = origin\n",
		CORE "[extensions]\n\tobjectFormat = sha256\n\trefStorage = reftable\n",
		CORE
		"\tsparseCheckout = true\n\tsparseCheckoutCone = true\n[index]\n\tsparse = true\n"
		"[extensions]\n\tworktreeConfig = true\n",
	};
	char work_tree[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		CHECK_MSG(are_plain(texts[i]), "%zu", i);
	CHECK(git_settings_are_plain("[core]\nworktree = ../../s\n", 26, work_tree));
	CHECK(strcmp(work_tree, "../../s") == 0);
}

static void test_what_clones_do_not_have(void)
{
	static const char *const texts[] = {
		CORE LFS,
		CORE "\tfsmonitor = x\n",
		CORE "\thooksPath = .husky\n",
		CORE "\tsshCommand = x\n",
		CORE "\teditor = x\n",
		CORE "\tpager = x\n",
		CORE "\tattributesFile = x\n",
		CORE "\tgitProxy = x\n",
		CORE "\taskPass = x\n",
		CORE "[include]\n\tpath = x\n",
		CORE "[includeIf \"gitdir:/\"]\n\tpath = x\n",
		CORE "[alias]\n\tst = !x\n",
		CORE "[diff]\n\texternal = x\n",
		CORE "[diff \"x\"]\n\ttextconv = x\n",
		CORE "[merge \"x\"]\n\tdriver = x\n",
		CORE "[credential]\n\thelper = !x\n",
		CORE "[gpg]\n\tprogram = x\n",
		CORE "[extensions]\n\tother = true\n",
		CORE "[remote \"o\"]\n\turl = ext::x\n",
		CORE "[remote \"o\"]\n\turl = -x\n",
		CORE "[remote \"o\"]\n\turl = ssh://-x/y\n",
		CORE ORIGIN "\tuploadpack = x\n",
		CORE ORIGIN "\tvcs = x\n",
		CORE ORIGIN "\ttagOpt = --upload-pack=x\n",
		CORE "[url \"ext::x \"]\n\tinsteadOf = https://\n",
		CORE "[protocol \"ext\"]\n\tallow = always\n",
		CORE "[submodule \"s\"]\n\tupdate = !x\n",
		CORE "[branch \"main\"]\n\tremote = ext::x\n",
		/* git would fetch by itself, by a program or a path */
		CORE "[remote \"o\"]\n\turl = ../x\n\tpromisor = true\n",
		CORE "[remote \"o\"]\n\turl = ssh://h/x\n[extensions]\n\tpartialClone = o\n",
		"[core]\n\tbare = false # \\\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		CHECK_MSG(!are_plain(texts[i]), "%zu", i);
}

TAP_MAIN(test_what_git_writes_every_day, test_what_git_obeys, test_where_a_branch_is_pushed_to,
	 test_nothing_and_everything, test_what_clones_have, test_what_clones_do_not_have)

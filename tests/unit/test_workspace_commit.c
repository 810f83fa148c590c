/* SPDX-License-Identifier: Apache-2.0 */
/* Committing a workspace: what is applied, what is not, and what must stay as it is. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cordon/workspace.h>

#include "lib/tap.h"
#include "lib/workspace_rig.h"

static struct workspace_rig rig;
static struct rig_told told;
static struct cordon_commit_result result;
static struct cordon_error err;

static int commit(const struct cordon_commit_options *options)
{
	err = (struct cordon_error)CORDON_ERROR_INIT;
	return rig_commit(&rig, options, &result, &told, &err);
}

static int has_told(const char *line)
{
	const char *s = strstr(told.text, line);

	return s && (s == told.text || s[-1] == '\n') && s[strlen(line)] == '\n';
}

#define CHECK_TOLD(line) CHECK_MSG(has_told(line), "not told: %s; but:\n%s", line, told.text)
#define CHECK_BASE(path, text) CHECK_STR(rig_read(rig.base, path), text)
#define CHECK_COMMIT(options)                                                                      \
	do {                                                                                       \
		int r_ = commit(options);                                                          \
		CHECK_MSG(r_ == 0, "commit: %d %s (%s)", r_, err.msg, err.hint);                   \
	} while (0)

static void nothing_of_ours_is_left(void)
{
	char *list = rig_list(rig.base), *state = rig_list(rig.state);

	CHECK_MSG(!strstr(list, ".cordon-commit-"), "left in the base:\n%s", list);
	CHECK_MSG(!strstr(state, "/journal"), "left in the state:\n%s", state);
	CHECK(rig_canary_is_whole(&rig));
	free(list);
	free(state);
}

/* Every kind of change there is. */
static void test_golden(void)
{
	char *list;

	rig_start(&rig);
	rig_file(rig.base, "same", "same\n");
	rig_file(rig.base, "mod", "old\n");
	rig_file(rig.base, "gone", "gone\n");
	rig_file(rig.base, "mode", "mode\n");
	rig_link(rig.base, "link", "same");
	rig_file(rig.base, "d/to-file/a/b", "x\n");
	rig_file(rig.base, "to-dir", "x\n");
	rig_file(rig.base, "opaque/old", "x\n");
	rig_file(rig.base, "opaque/kept", "old\n");
	rig_file(rig.base, "dead/a/b/c", "x\n");
	rig_file(rig.base, "old-name", "a text that is long enough to be known again\n");
	REQUIRE(rig_begin(&rig, CORDON_MECHANISM_OVERLAY) == 0);
	rig_file(rig.content, "same", "same\n");
	rig_file(rig.content, "mod", "new\n");
	CHECK_INT(rig_whiteout(rig.content, "gone"), 0);
	rig_file(rig.content, "mode", "mode\n");
	rig_mode(rig.content, "mode", 0600);
	rig_link(rig.content, "link", "mod");
	rig_dir(rig.content, "d");
	rig_file(rig.content, "d/to-file", "a file now\n");
	rig_file(rig.content, "to-dir/in/it", "below\n");
	CHECK_INT(rig_opaque(rig.content, "opaque"), 0);
	rig_file(rig.content, "opaque/kept", "new\n");
	rig_file(rig.content, "opaque/sub/new", "new\n");
	CHECK_INT(rig_whiteout(rig.content, "dead"), 0);
	rig_file(rig.content, "added/x/y", "deep\n");
	rig_mode(rig.content, "added/x", 0500);
	rig_whiteout(rig.content, "old-name");
	rig_file(rig.content, "new-name", "a text that is long enough to be known again\n");
	rig_file(rig.content, "name\n\033[31m\xff", "odd\n");
	rig_file(rig.content, "-rf", "odd\n");
	REQUIRE(rig_end(&rig) == 0);
	CHECK_COMMIT(NULL);
	CHECK_INT(result.conflicts, 0);
	CHECK_INT(result.failed, 0);
	CHECK_INT(result.refused, 0);
	CHECK_INT(result.is_empty, 1);
	list = rig_list(rig.base);
	CHECK_STR(list, "-rf 644 'odd\n'\n"
			"added/ 755\n"
			"added/x/ 500\n"
			"added/x/y 644 'deep\n'\n"
			"d/ 755\n"
			"d/to-file 644 'a file now\n'\n"
			"link -> mod\n"
			"mod 644 'new\n'\n"
			"mode 600 'mode\n'\n"
			"name\n\033[31m\xff 644 'odd\n'\n"
			"new-name 644 'a text that is long enough to be known again\n'\n"
			"opaque/ 755\n"
			"opaque/kept 644 'new\n'\n"
			"opaque/sub/ 755\n"
			"opaque/sub/new 644 'new\n'\n"
			"same 644 'same\n'\n"
			"to-dir/ 755\n"
			"to-dir/in/ 755\n"
			"to-dir/in/it 644 'below\n'\n");
	free(list);
	CHECK_INT(rig_changes(&rig), 0);
	list = rig_list(rig.content);
	/* What never was a change may stay. */
	CHECK_STR(list, "same 644 'same\n'\n");
	free(list);
	nothing_of_ours_is_left();
	rig_done(&rig);
}

/* What is refused, and what is done if its very path is given. */
static void test_risky(void)
{
	const char *dir[] = { ".", NULL };
	const char *named[] = { "suid", "./out", "fifo//", ".git/hooks/pre-commit", NULL };
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;
	char path[512];
	struct stat st;

	rig_start(&rig);
	rig_file(rig.base, "x", "x\n");
	rig_dir(rig.base, ".git/hooks");
	REQUIRE(rig_begin(&rig, CORDON_MECHANISM_OVERLAY) == 0);
	rig_file(rig.content, "suid", "suid\n");
	rig_mode(rig.content, "suid", 06755);
	rig_link(rig.content, "out", "/etc/shadow");
	rig_link(rig.content, "out2", "../canary/passwd");
	snprintf(path, sizeof(path), "%s/fifo", rig.content);
	CHECK_INT(mkfifo(path, 0644), 0);
	rig_file(rig.content, ".git/hooks/pre-commit", "#!/bin/sh\n");
	rig_file(rig.content, "plain", "plain\n");
	REQUIRE(rig_end(&rig) == 0);
	options.paths = dir;
	CHECK_COMMIT(&options);
	CHECK_INT(result.applied, 1);
	CHECK_INT(result.refused, 5);
	CHECK_INT(result.is_empty, 0);
	CHECK_TOLD("refused suid");
	CHECK_TOLD("refused out");
	CHECK_TOLD("refused out2");
	CHECK_TOLD("refused fifo");
	CHECK_TOLD("refused .git/hooks/pre-commit");
	CHECK(!rig_exists(rig.base, "suid"));
	CHECK(!rig_exists(rig.base, "out"));
	CHECK(!rig_exists(rig.base, "fifo"));
	CHECK_BASE("plain", "plain\n");
	options.paths = named;
	CHECK_COMMIT(&options);
	CHECK_INT(result.applied, 4);
	snprintf(path, sizeof(path), "%s/suid", rig.base);
	CHECK(stat(path, &st) == 0 && (st.st_mode & 07777) == 06755);
	snprintf(path, sizeof(path), "%s/fifo", rig.base);
	CHECK(lstat(path, &st) == 0 && S_ISFIFO(st.st_mode));
	snprintf(path, sizeof(path), "%s/out", rig.base);
	CHECK(lstat(path, &st) == 0 && S_ISLNK(st.st_mode));
	CHECK_BASE(".git/hooks/pre-commit", "#!/bin/sh\n");
	CHECK_INT(rig_changes(&rig), 1);
	nothing_of_ours_is_left();
	rig_done(&rig);
}

static void make_conflicts(void)
{
	rig_start(&rig);
	rig_file(rig.base, "both", "old\n");
	rig_file(rig.base, "mine", "old\n");
	rig_file(rig.base, "dead", "old\n");
	rig_file(rig.base, "away/x", "old\n");
	rig_file(rig.base, "rm/a", "old\n");
	rig_begin(&rig, CORDON_MECHANISM_OVERLAY);
	rig_file(rig.content, "both", "guest\n");
	rig_file(rig.content, "mine", "guest\n");
	rig_file(rig.content, "new", "guest\n");
	rig_whiteout(rig.content, "dead");
	rig_file(rig.content, "away/y", "guest\n");
	rig_whiteout(rig.content, "rm");
	rig_end(&rig);
	rig_file(rig.base, "both", "host!\n");
	rig_file(rig.base, "new", "host\n");
	rig_file(rig.base, "dead", "host\n");
	rig_remove(rig.base, "away");
	rig_file(rig.base, "rm/b", "host\n");
}

static void test_conflicts_refuse(void)
{
	char *before, *after;

	make_conflicts();
	before = rig_list(rig.base);
	CHECK_COMMIT(NULL);
	after = rig_list(rig.base);
	CHECK_STR(after, before);
	CHECK_TOLD("conflict both");
	CHECK_TOLD("conflict new");
	CHECK_TOLD("conflict dead");
	CHECK_TOLD("conflict rm/b");
	CHECK_INT(result.applied, 0);
	free(before);
	free(after);
	nothing_of_ours_is_left();
	rig_done(&rig);
}

static void test_conflicts_ours(void)
{
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;

	make_conflicts();
	options.conflicts = CORDON_CONFLICTS_OURS;
	CHECK_COMMIT(&options);
	CHECK_BASE("both", "host!\n");
	CHECK_BASE("mine", "guest\n");
	CHECK_BASE("new", "host\n");
	CHECK_BASE("dead", "host\n");
	/* A new file is no conflict with its directory being gone: nothing is lost. */
	CHECK_BASE("away/y", "guest\n");
	CHECK(!rig_exists(rig.base, "rm/a"));
	CHECK_BASE("rm/b", "host\n");
	CHECK_INT(result.is_empty, 0);
	nothing_of_ours_is_left();
	rig_done(&rig);
}

static void test_conflicts_theirs(void)
{
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;

	make_conflicts();
	options.conflicts = CORDON_CONFLICTS_THEIRS;
	CHECK_COMMIT(&options);
	CHECK_BASE("both", "guest\n");
	CHECK_BASE("mine", "guest\n");
	CHECK_BASE("new", "guest\n");
	CHECK(!rig_exists(rig.base, "dead"));
	CHECK_BASE("away/y", "guest\n");
	CHECK(!rig_exists(rig.base, "rm"));
	CHECK_INT(result.conflicts, 0);
	CHECK_INT(result.is_empty, 1);
	CHECK_INT(rig_changes(&rig), 0);
	nothing_of_ours_is_left();
	rig_done(&rig);
}

/* A change that the host made itself in the same way is none. */
static void test_already_there(void)
{
	rig_start(&rig);
	rig_file(rig.base, "f", "old\n");
	rig_begin(&rig, CORDON_MECHANISM_OVERLAY);
	rig_file(rig.content, "f", "new\n");
	rig_file(rig.content, "g", "new\n");
	rig_end(&rig);
	rig_file(rig.base, "f", "new\n");
	rig_file(rig.base, "g", "new\n");
	CHECK_COMMIT(NULL);
	CHECK_INT(result.conflicts, 0);
	CHECK_INT(result.is_empty, 1);
	rig_done(&rig);
}

static void make_tree(void)
{
	rig_start(&rig);
	rig_file(rig.base, "keep", "x\n");
	rig_begin(&rig, CORDON_MECHANISM_OVERLAY);
	rig_file(rig.content, "a/1", "1\n");
	rig_file(rig.content, "a/2", "2\n");
	rig_file(rig.content, "a/b/3", "3\n");
	rig_file(rig.content, "c/4", "4\n");
	rig_whiteout(rig.content, "keep");
	rig_end(&rig);
}

static void test_paths(void)
{
	const char *paths[] = { "./a/", "c//4", NULL }, *exclude[] = { "a/b", "nothing", NULL };
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;

	make_tree();
	options.paths = paths;
	options.exclude = exclude;
	CHECK_COMMIT(&options);
	CHECK_BASE("a/1", "1\n");
	CHECK_BASE("a/2", "2\n");
	CHECK_BASE("c/4", "4\n");
	CHECK(!rig_exists(rig.base, "a/b"));
	CHECK(rig_exists(rig.base, "keep"));
	CHECK_INT(result.applied, 3);
	CHECK_TOLD("skipped a/b/3");
	CHECK_TOLD("skipped keep");
	CHECK_INT(rig_changes(&rig) > 0, 1);
	CHECK_COMMIT(NULL);
	CHECK_BASE("a/b/3", "3\n");
	CHECK(!rig_exists(rig.base, "keep"));
	CHECK_INT(result.is_empty, 1);
	rig_done(&rig);
}

static void test_wrong_paths(void)
{
	const char *typo[] = { "a/b/33", NULL }, *up[] = { "../canary", NULL };
	const char *absolute[] = { "/etc/passwd", NULL };
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;
	char *before, *after;

	make_tree();
	before = rig_list(rig.base);
	options.paths = typo;
	CHECK_INT(commit(&options), -CORDON_E_PATH);
	CHECK_MSG(strstr(err.hint, "a/b/3"), "hint: %s", err.hint);
	options.paths = up;
	CHECK_INT(commit(&options), -CORDON_E_PATH);
	options.paths = absolute;
	CHECK_INT(commit(&options), -CORDON_E_PATH);
	options.paths = NULL;
	options.conflicts = 17;
	CHECK_INT(commit(&options), -CORDON_E_USAGE);
	after = rig_list(rig.base);
	CHECK_STR(after, before);
	free(before);
	free(after);
	rig_done(&rig);
}

static char asked[512];
static int answer_stop;

static int choose(void *arg, const struct cordon_change *change)
{
	size_t len = strlen(asked);

	(void)arg;
	snprintf(asked + len, sizeof(asked) - len, "%s ", change->path);
	if (answer_stop)
		return -1;
	return strcmp(change->path, "a/2") != 0;
}

static void test_choose(void)
{
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;

	make_tree();
	rig_file(rig.content, ".git/objects/aa/bb", "o\n");
	rig_file(rig.content, ".git/refs/heads/main", "ref: refs/heads/r\n");
	rig_file(rig.content, ".git/HEAD", "ref: refs/heads/main\n");
	options.choose = choose;
	answer_stop = 1;
	asked[0] = '\0';
	CHECK_INT(commit(&options), -CORDON_E_STATE);
	CHECK(!rig_exists(rig.base, "a"));
	answer_stop = 0;
	asked[0] = '\0';
	CHECK_COMMIT(&options);
	CHECK_STR(asked, ".git a/1 a/2 a/b/3 c/4 keep ");
	CHECK(!rig_exists(rig.base, "a/2"));
	CHECK_BASE("a/1", "1\n");
	CHECK_TOLD("skipped a/2");
	CHECK_BASE(".git/HEAD", "ref: refs/heads/main\n");
	rig_done(&rig);
}

static void test_dry_run(void)
{
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;
	char *before, *after;

	make_tree();
	before = rig_list(rig.base);
	options.dry_run = 1;
	CHECK_COMMIT(&options);
	CHECK_INT(result.applied, 5);
	CHECK_INT(result.is_empty, 0);
	after = rig_list(rig.base);
	CHECK_STR(after, before);
	nothing_of_ours_is_left();
	free(before);
	free(after);
	rig_done(&rig);
}

/* What a branch contains: the name of a commit. */
#define REF(n) "012345678901234567890123456789012345678" #n "\n"

/* A repository: all or nothing, and never while git is at work. */
static void test_git(void)
{
	const char *only_ref[] = { ".git/refs/heads/main", NULL };
	const char *exclude[] = { ".git/logs/HEAD", NULL };
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;

	rig_start(&rig);
	rig_file(rig.base, ".git/HEAD", "ref: refs/heads/main\n");
	rig_file(rig.base, ".git/refs/heads/main", REF(1));
	rig_file(rig.base, ".git/logs/HEAD", "1\n");
	rig_file(rig.base, ".git/config", "[core]\n");
	rig_begin(&rig, CORDON_MECHANISM_OVERLAY);
	rig_file(rig.content, ".git/refs/heads/main", REF(2));
	rig_file(rig.content, ".git/logs/HEAD", "2\n");
	rig_file(rig.content, ".git/objects/12/34", "2\n");
	rig_file(rig.content, ".git/config", "[core]\n\tfsmonitor = evil\n");
	rig_file(rig.content, ".git/index.lock", "");
	rig_file(rig.content, "src", "2\n");
	rig_end(&rig);
	options.exclude = exclude;
	CHECK_COMMIT(&options);
	CHECK_BASE("src", "2\n");
	CHECK_BASE(".git/refs/heads/main", REF(1));
	CHECK(!rig_exists(rig.base, ".git/objects"));
	rig_file(rig.base, ".git/HEAD.lock", "");
	CHECK_COMMIT(NULL);
	CHECK_TOLD("conflict .git/logs/HEAD");
	CHECK_MSG(strstr(told.why, "git is at work"), "why: %s", told.why);
	CHECK_BASE(".git/logs/HEAD", "1\n");
	rig_remove(rig.base, ".git/HEAD.lock");
	rig_file(rig.base, ".git/logs/HEAD", "host\n");
	CHECK_COMMIT(NULL);
	CHECK_TOLD("conflict .git/refs/heads/main");
	CHECK_BASE(".git/refs/heads/main", REF(1));
	options.exclude = NULL;
	options.paths = only_ref;
	options.conflicts = CORDON_CONFLICTS_THEIRS;
	CHECK_COMMIT(&options);
	CHECK_BASE(".git/refs/heads/main", REF(2));
	CHECK_BASE(".git/logs/HEAD", "2\n");
	CHECK_BASE(".git/objects/12/34", "2\n");
	CHECK_BASE(".git/config", "[core]\n");
	CHECK(!rig_exists(rig.base, ".git/index.lock"));
	nothing_of_ours_is_left();
	rig_done(&rig);
}

/* The base's directory became a link: nothing goes through it. */
static void test_parent_is_link(void)
{
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;
	char path[256];

	rig_start(&rig);
	rig_file(rig.base, "sub/passwd", "old\n");
	rig_file(rig.base, "sub/dead", "old\n");
	rig_file(rig.base, "other", "old\n");
	rig_begin(&rig, CORDON_MECHANISM_OVERLAY);
	rig_file(rig.content, "sub/passwd", "guest\n");
	rig_file(rig.content, "sub/new", "guest\n");
	rig_whiteout(rig.content, "sub/dead");
	rig_file(rig.content, "other", "guest\n");
	rig_end(&rig);
	rig_remove(rig.base, "sub");
	snprintf(path, sizeof(path), "%s", rig.canary);
	rig_link(rig.base, "sub", path);
	rig_file(rig.canary, "passwd", "canary\n");
	for (int how = CORDON_CONFLICTS_REFUSE; how <= CORDON_CONFLICTS_THEIRS; how++) {
		options.conflicts = how;
		CHECK_COMMIT(&options);
		if (how == CORDON_CONFLICTS_THEIRS)
			break;
		CHECK_TOLD("conflict sub/passwd");
		CHECK_TOLD("conflict sub/new");
		CHECK(rig_canary_is_whole(&rig));
	}
	/* The workspace's directory took the place of the link itself. */
	CHECK_BASE("sub/passwd", "guest\n");
	CHECK_BASE("other", "guest\n");
	nothing_of_ours_is_left();
	rig_done(&rig);
}

/* The guest put a link where a directory was, and something at the same path in a later run. */
static void test_link_for_directory(void)
{
	const char *named[] = { "sub", NULL };
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;
	char *list;

	rig_start(&rig);
	rig_file(rig.base, "sub/f", "old\n");
	rig_begin(&rig, CORDON_MECHANISM_OVERLAY);
	rig_link(rig.content, "sub", rig.canary);
	rig_end(&rig);
	CHECK_COMMIT(NULL);
	CHECK_TOLD("refused sub");
	/* What was in it went all the same: the guest deleted it. */
	CHECK(rig_canary_is_whole(&rig));
	options.paths = named;
	CHECK_COMMIT(&options);
	list = rig_list(rig.base);
	CHECK_MSG(!strncmp(list, "sub -> ", 7), "%s", list);
	free(list);
	CHECK(rig_canary_is_whole(&rig));
	rig_done(&rig);
}

/* Attributes: the guest's own come along, the overlay's and those with powers do not. */
static void test_attributes(void)
{
	char path[512], value[16];
	struct stat st;

	rig_start(&rig);
	rig_file(rig.base, "f", "old\n");
	rig_begin(&rig, CORDON_MECHANISM_OVERLAY);
	rig_file(rig.content, "f", "new\n");
	snprintf(path, sizeof(path), "%s/f", rig.content);
	CHECK_INT(setxattr(path, "user.mine", "1", 1, 0), 0);
	CHECK_INT(setxattr(path, "user.overlay.origin", "x", 1, 0), 0);
	CHECK_INT(setxattr(path, "user.overlay.overlay.opaque", "y", 1, 0), 0);
	CHECK_INT(utimensat(AT_FDCWD, path, (struct timespec[2]){ { 1, 0 }, { 1234567, 89 } }, 0),
		  0);
	rig_end(&rig);
	CHECK_COMMIT(NULL);
	snprintf(path, sizeof(path), "%s/f", rig.base);
	CHECK_INT(getxattr(path, "user.mine", value, sizeof(value)), 1);
	CHECK_INT(getxattr(path, "user.overlay.origin", value, sizeof(value)), -1);
	CHECK_INT(getxattr(path, "user.overlay.opaque", value, sizeof(value)), -1);
	CHECK_INT(getxattr(path, "user.overlay.overlay.opaque", value, sizeof(value)), -1);
	CHECK(stat(path, &st) == 0 && st.st_mtim.tv_sec == 1234567 && st.st_mtim.tv_nsec == 89);
	rig_done(&rig);
}

/* Root's commits leave what was there to its owner; what is new is root's. */
static void test_owner(void)
{
	char path[512];
	struct stat st;

	if (geteuid() != 0)
		SKIP("only root can keep others' files theirs");
	rig_start(&rig);
	rig_file(rig.base, "f", "old\n");
	snprintf(path, sizeof(path), "%s/f", rig.base);
	CHECK_INT(chown(path, 12345, 12346), 0);
	rig_begin(&rig, CORDON_MECHANISM_OVERLAY);
	rig_file(rig.content, "f", "new\n");
	rig_file(rig.content, "g", "new\n");
	rig_end(&rig);
	CHECK_COMMIT(NULL);
	CHECK(stat(path, &st) == 0 && st.st_uid == 12345 && st.st_gid == 12346);
	snprintf(path, sizeof(path), "%s/g", rig.base);
	CHECK(stat(path, &st) == 0 && st.st_uid == 0);
	rig_done(&rig);
}

static void test_copy(void)
{
	rig_start(&rig);
	rig_file(rig.base, "mod", "old\n");
	rig_file(rig.base, "gone/a", "old\n");
	rig_file(rig.base, "same", "same\n");
	REQUIRE(rig_begin(&rig, CORDON_MECHANISM_COPY) == 0);
	rig_file(rig.content, "mod", "new\n");
	rig_file(rig.content, "added/x", "new\n");
	rig_remove(rig.content, "gone");
	REQUIRE(rig_end(&rig) == 0);
	rig_file(rig.base, "host", "host\n");
	CHECK_COMMIT(NULL);
	CHECK_INT(result.applied, 3);
	CHECK_INT(result.is_empty, 1);
	CHECK_BASE("mod", "new\n");
	CHECK_BASE("added/x", "new\n");
	CHECK_BASE("host", "host\n");
	CHECK(!rig_exists(rig.base, "gone"));
	CHECK_INT(rig_changes(&rig), 0);
	nothing_of_ours_is_left();
	rig_done(&rig);
}

/* The host put something into a directory that the guest deleted. */
static void test_copy_directory_is_not_empty(void)
{
	rig_start(&rig);
	rig_file(rig.base, "gone/a", "old\n");
	REQUIRE(rig_begin(&rig, CORDON_MECHANISM_COPY) == 0);
	rig_remove(rig.content, "gone");
	REQUIRE(rig_end(&rig) == 0);
	rig_file(rig.base, "gone/host", "host\n");
	CHECK_COMMIT(NULL);
	CHECK_BASE("gone/host", "host\n");
	CHECK_BASE("gone/a", "old\n");
	rig_done(&rig);
}

/* Some of what an opaque directory hides stays in the base. */
static void test_opaque_in_parts(void)
{
	const char *paths[] = { "d/new", "d/sub/f", NULL };
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;

	rig_start(&rig);
	rig_file(rig.base, "d/hidden", "old\n");
	rig_file(rig.base, "d/sub/hidden", "old\n");
	rig_begin(&rig, CORDON_MECHANISM_OVERLAY);
	rig_opaque(rig.content, "d");
	rig_file(rig.content, "d/new", "new\n");
	rig_file(rig.content, "d/sub/f", "new\n");
	rig_end(&rig);
	options.paths = paths;
	CHECK_COMMIT(&options);
	CHECK_BASE("d/new", "new\n");
	CHECK_BASE("d/hidden", "old\n");
	CHECK_INT(result.applied, 2);
	/* Still hidden in the workspace, and still to be committed. */
	CHECK_INT(rig_changes(&rig), 2);
	CHECK_COMMIT(NULL);
	CHECK(!rig_exists(rig.base, "d/hidden"));
	CHECK(!rig_exists(rig.base, "d/sub/hidden"));
	CHECK_BASE("d/sub/f", "new\n");
	CHECK_INT(rig_changes(&rig), 0);
	CHECK_INT(result.is_empty, 1);
	rig_done(&rig);
}

/* Trees that the guest closed to everybody, and that are deeper than any path. */
static void test_hostile_shapes(void)
{
	const int depth = 3000;
	int fd, next, ok = 1;
	struct stat st = { 0 };

	rig_start(&rig);
	rig_file(rig.base, "x", "x\n");
	rig_begin(&rig, CORDON_MECHANISM_OVERLAY);
	rig_file(rig.content, "closed/in/f", "new\n");
	rig_mode(rig.content, "closed/in/f", 0);
	rig_mode(rig.content, "closed/in", 0);
	rig_mode(rig.content, "closed", 0);
	fd = open(rig.content, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < depth && ok; i++) {
		ok = mkdirat(fd, "dir", 0755) == 0;
		next = openat(fd, "dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	next = openat(fd, "leaf", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK(next >= 0);
	/* Larger than any disk. */
	CHECK(ftruncate(next, (off_t)1 << 42) == 0);
	close(next);
	close(fd);
	REQUIRE(rig_end(&rig) == 0);
	CHECK_COMMIT(NULL);
	CHECK_INT(result.is_empty, 1);
	fd = open(rig.base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < depth && fd >= 0; i++) {
		next = openat(fd, "dir", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	CHECK(fd >= 0 && fstatat(fd, "leaf", &st, 0) == 0 && st.st_size == (off_t)1 << 42);
	CHECK_INT((int)st.st_blocks, 0);
	close(fd);
	fd = open(rig.base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fstatat(fd, "closed", &st, 0) == 0 && (st.st_mode & 07777) == 0);
	close(fd);
	rig_done(&rig);
}

/* A thousand files: more than one batch. */
static void test_many(void)
{
	char name[64];

	rig_start(&rig);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "d%d/old%d", i % 7, i);
		rig_file(rig.base, name, "old\n");
	}
	rig_begin(&rig, CORDON_MECHANISM_OVERLAY);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "d%d/old%d", i % 7, i);
		if (i % 3)
			rig_file(rig.content, name, "new\n");
		else
			rig_whiteout(rig.content, name);
	}
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "e%d/new%d", i % 200, i);
		rig_file(rig.content, name, "new\n");
	}
	rig_end(&rig);
	CHECK_COMMIT(NULL);
	CHECK_INT(result.applied, 1300);
	CHECK_INT(result.is_empty, 1);
	CHECK_INT(rig_changes(&rig), 0);
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "d%d/old%d", i % 7, i);
		CHECK_BASE(name, i % 3 ? "new\n" : "");
	}
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "e%d/new%d", i % 200, i);
		CHECK_BASE(name, "new\n");
	}
	nothing_of_ours_is_left();
	rig_done(&rig);
}

TAP_MAIN(test_golden, test_risky, test_conflicts_refuse, test_conflicts_ours, test_conflicts_theirs,
	 test_already_there, test_paths, test_wrong_paths, test_choose, test_dry_run, test_git,
	 test_parent_is_link, test_link_for_directory, test_attributes, test_owner, test_copy,
	 test_copy_directory_is_not_empty, test_opaque_in_parts, test_hostile_shapes, test_many)

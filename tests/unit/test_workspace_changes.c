/* SPDX-License-Identifier: Apache-2.0 */
/* What changed, found in layers and copies that are made by hand. */
#include "test_workspace_changes_lib.h"

#include <sched.h>
#include <sys/time.h>
#include <sys/wait.h>

static void test_files(void)
{
	REQUIRE(set_up());
	put(BASE "same", "x");
	put(UP "same", "x");
	put(BASE "content", "x");
	put(UP "content", "y");
	put(BASE "longer", "x");
	put(UP "longer", "xx");
	put(BASE "mode", "x");
	put_mode(UP "mode", "x", 0600);
	put(BASE "both", "x");
	put_mode(UP "both", "y", 0600);
	put(UP "added", "x");
	put(BASE "gone", "x2");
	put_whiteout(UP "gone");
	put_whiteout(UP "never-was");
	put(BASE "untouched", "x");
	put(BASE "attribute", "x");
	put(UP "attribute", "x");
	set_attribute(UP "attribute", "user.colour", "red");
	put(BASE "attribute2", "x");
	put(UP "attribute2", "x");
	set_attribute(BASE "attribute2", "user.colour", "red");
	set_attribute(UP "attribute2", "user.colour", "blue");
	put(BASE "kernels", "x");
	put(UP "kernels", "x");
	set_attribute(UP "kernels", "user.overlay.origin", "x");
	CHECK_STR(overlay(), "A added\nP attribute\nP attribute2\nM both\nM content\nD gone\n"
			     "M longer\nP mode\n");
	tear_down();
}

static void test_details(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf path = STRBUF_INIT, from = STRBUF_INIT;
	struct cordon_workspace ws;
	struct ws_changes changes;
	struct cordon_change c;

	REQUIRE(set_up());
	put(BASE "f", "xyz");
	put_mode(UP "f", "x", 0600);
	put_link(BASE "l", "a");
	put_link(UP "l", "b");
	open_ws(&ws, CORDON_MECHANISM_OVERLAY);
	REQUIRE(ws_collect(&ws, &changes, &err) == 0);
	REQUIRE(changes.n == 2);
	ws_node_change(&changes, 0, &path, &from, &c);
	CHECK_STR(c.path, "f");
	CHECK_INT(c.size, 1);
	CHECK_INT(c.old_size, 3);
	CHECK_INT(c.mode, 0600);
	CHECK_INT(c.old_mode, 0644);
	CHECK_INT(c.type, CORDON_FILE_REGULAR);
	CHECK_INT(c.old_type, CORDON_FILE_REGULAR);
	CHECK(!c.target && !c.old_target && !c.from);
	ws_node_change(&changes, 1, &path, &from, &c);
	CHECK_INT(c.kind, CORDON_CHANGE_SYMLINK);
	CHECK_STR(c.target, "b");
	CHECK_STR(c.old_target, "a");
	ws_changes_done(&changes);
	close_ws(&ws);
	strbuf_done(&path);
	strbuf_done(&from);
	tear_down();
}

static void test_directories(void)
{
	REQUIRE(set_up());
	put_dir(BASE "d");
	put(BASE "d/old", "x");
	put_dir(UP "d");
	put(UP "d/new", "x y");
	put_dir(BASE "same");
	put_dir(UP "same");
	put_dir(BASE "closed");
	put_dir(UP "closed");
	CHECK(fchmodat(top_fd, UP "closed", 0700, 0) == 0);
	put_dir(UP "empty");
	put_dir(UP "full");
	put(UP "full/x", "full");
	put_dir(BASE "attr");
	put_dir(UP "attr");
	set_attribute(UP "attr", "user.colour", "red");
	/* Names sort by bytes within a directory; what is in one comes before its neighbours. */
	put(UP "d-", "3");
	put(UP "d.", "4");
	CHECK_STR(overlay(), "P attr/\nP closed/\nA d/new\nA d-\nA d.\nA empty/\n[A full/]\n"
			     "A full/x\n");
	tear_down();
}

static void test_deleted_trees(void)
{
	REQUIRE(set_up());
	put_dir(BASE "d");
	put_dir(BASE "d/e");
	put_dir(BASE "d/hollow");
	put(BASE "d/e/f", "1");
	put(BASE "d/g", "2");
	put_link(BASE "d/h", "g");
	put_whiteout(UP "d");
	put_dir(BASE "hollow");
	put_whiteout(UP "hollow");
	CHECK_STR(overlay(), "[D d/]\n[D d/e/]\nD d/e/f\nD d/g\nD d/h\nD d/hollow/\nD hollow/\n");
	tear_down();
}

static void test_opaque(void)
{
	REQUIRE(set_up());
	put_dir(BASE "d");
	put(BASE "d/a", "a");
	put(BASE "d/b", "b");
	put(BASE "d/c", "c");
	put_dir(BASE "d/sub");
	put(BASE "d/sub/x", "sub");
	put_opaque(UP "d");
	put(UP "d/b", "b");
	put(UP "d/c", "other");
	put(UP "d/n", "new");
	/* Below it nothing shows through either. */
	put_dir(BASE "d/both");
	put(BASE "d/both/hidden", "hidden");
	put_dir(UP "d/both");
	/* Over nothing: only a directory. */
	put_opaque(UP "e");
	put(UP "e/f", "ef");
	CHECK_STR(overlay(),
		  "D d/a\nD d/both/hidden\nM d/c\nA d/n\n[D d/sub/]\nD d/sub/x\n[A e/]\nA e/f\n");
	/* The kernel has another value, which hides nothing by itself but says that empty files
	 * may be whiteouts. */
	set_attribute(UP "d", "user.overlay.opaque", "x");
	put(UP "d/a", "");
	set_attribute(UP "d/a", "user.overlay.whiteout", "y");
	put(UP "d/n", "");
	CHECK_STR(overlay(), "D d/a\nM d/c\nA d/n\n[A e/]\nA e/f\n");
	/* Elsewhere such an attribute means nothing. */
	put(UP "w", "");
	set_attribute(UP "w", "user.overlay.whiteout", "y");
	put(BASE "w", "");
	CHECK_STR(overlay(), "D d/a\nM d/c\nA d/n\n[A e/]\nA e/f\n");
	tear_down();
}

static void test_types(void)
{
	REQUIRE(set_up());
	put_dir(BASE "dir-file");
	put(BASE "dir-file/x", "1");
	put(UP "dir-file", "2");
	put(BASE "file-dir", "3");
	put_dir(UP "file-dir");
	put(UP "file-dir/y", "4");
	put(BASE "file-link", "5");
	put_link(UP "file-link", "x");
	put_dir(BASE "dir-link");
	put(BASE "dir-link/z", "6");
	put_link(UP "dir-link", "dir-file");
	put_link(BASE "link-dir", "x");
	put_dir(UP "link-dir");
	CHECK(mknodat(top_fd, UP "fifo", S_IFIFO | 0600, 0) == 0);
	put_link(BASE "same-link", "x");
	put_link(UP "same-link", "x");
	CHECK_STR(overlay_risks(),
		  "T dir-file\nD dir-file/x\nT dir-link\nD dir-link/z\nA fifo special\n"
		  "T file-dir/\nA file-dir/y\nT file-link\nT link-dir/\n");
	tear_down();
}

static void test_renames(void)
{
	REQUIRE(set_up());
	put(BASE "old", "some content");
	put_whiteout(UP "old");
	put(UP "new", "some content");
	put(BASE "empty", "");
	put_whiteout(UP "empty");
	put(UP "empty2", "");
	/* Of several the one with the same name, in whatever order. */
	put_dir(BASE "a");
	put_dir(BASE "b");
	put(BASE "a/x", "one");
	put(BASE "b/y", "one");
	put_whiteout(UP "a");
	put_whiteout(UP "b");
	put_dir(UP "c");
	put(UP "c/y", "one");
	put_dir(UP "d");
	put_mode(UP "d/x", "one", 0600);
	put(UP "d/z", "one");
	CHECK_STR(overlay(), "[D a/]\n[D b/]\n[A c/]\nR c/y < b/y\n[A d/]\nR d/x < a/x\nA d/z\n"
			     "D empty\nA empty2\nR new < old\n");
	tear_down();
}

/* A change that the user has to decide on is not hidden in a pair. */
static void test_no_renames(void)
{
	REQUIRE(set_up());
	put(BASE ".envrc", "export X=1");
	put_whiteout(UP ".envrc");
	put(UP "harmless", "export X=1");
	put(BASE "tool", "a program");
	put_whiteout(UP "tool");
	put_mode(UP "tool2", "a program", 04755);
	put(BASE "q", "12345");
	put_whiteout(UP "q");
	put(UP "r", "12346");
	CHECK_STR(overlay_risks(),
		  "D .envrc protected\nA harmless\nD q\nA r\nD tool\nA tool2 set-id executable\n");
	tear_down();
}

static void test_renamed_program(void)
{
	REQUIRE(set_up());
	put_mode(BASE "p", "a program", 0755);
	put_whiteout(UP "p");
	put_mode(UP "p2", "a program", 0755);
	put_mode(BASE "q", "text", 0644);
	put_whiteout(UP "q");
	put_mode(UP "q2", "text", 0755);
	CHECK_STR(overlay_risks(), "R p2 < p\nR q2 < q executable\n");
	tear_down();
}

static void test_hard_links(void)
{
	REQUIRE(set_up());
	put(UP "a", "linked");
	CHECK(linkat(top_fd, UP "a", top_fd, UP "b", 0) == 0);
	put(BASE "b", "other");
	CHECK_STR(overlay(), "A a\nM b\n");
	tear_down();
}

static void make_sparse(const char *path, off_t size, off_t at, const char *text)
{
	int fd = openat(top_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	CHECK_MSG(fd >= 0 && ftruncate(fd, size) == 0 &&
			  pwrite(fd, text, strlen(text), at) == (ssize_t)strlen(text),
		  "%s: %s", path, strerror(errno));
	close(fd);
}

static void test_sparse(void)
{
	off_t huge = (off_t)8 << 40; /* would take hours to read */

	REQUIRE(set_up());
	make_sparse(BASE "same", huge, huge / 2, "here");
	make_sparse(UP "same", huge, huge / 2, "here");
	make_sparse(BASE "other", huge, huge / 2, "here");
	make_sparse(UP "other", huge, huge / 2, "herE");
	make_sparse(BASE "elsewhere", huge, huge / 2, "here");
	make_sparse(UP "elsewhere", huge, huge / 4, "here");
	/* Data that is zero equals a hole. */
	make_sparse(BASE "zeros", 1 << 20, 0, "");
	make_sparse(UP "zeros", 1 << 20, 0, "");
	{
		int fd = openat(top_fd, UP "zeros", O_WRONLY | O_CLOEXEC);
		char zeros[65536] = { 0 };

		CHECK(pwrite(fd, zeros, sizeof(zeros), 300000) == sizeof(zeros));
		close(fd);
	}
	CHECK_STR(overlay(), "M elsewhere\nM other\n");
	tear_down();
}

static void test_closed(void)
{
	REQUIRE(set_up());
	put_dir(UP "d");
	put(UP "d/f", "x");
	put(BASE "g", "x");
	put_mode(UP "g", "x", 0);
	CHECK(fchmodat(top_fd, UP "d", 0, 0) == 0);
	CHECK_STR(overlay(), "[A d/]\nA d/f\nP g\n");
	CHECK(fchmodat(top_fd, UP "d", 0700, 0) == 0);
	tear_down();
}

static void test_names(void)
{
	REQUIRE(set_up());
	put(UP "a\nb", "1");
	put(UP "-rf", "2");
	put(UP "\xff", "3");
	put_dir(UP "esc\033[2J");
	put(UP "esc\033[2J/x", "4");
	CHECK_STR(overlay_risks(), "A -rf\nA a\nb name\n[A esc\033[2J/] name\n"
				   "A esc\033[2J/x name\nA \xff name\n");
	tear_down();
}

/* Further down than a path can be long. */
static void test_deep(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_workspace ws;
	struct ws_changes changes;
	struct strbuf path = STRBUF_INIT;
	const int depth = 5000;
	int fd, next;

	REQUIRE(set_up());
	fd = openat(top_fd, UP ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < depth && fd >= 0; i++) {
		CHECK(mkdirat(fd, "deeper", 0755) == 0);
		next = openat(fd, "deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	REQUIRE(fd >= 0);
	CHECK(symlinkat("../x", fd, "link") == 0);
	close(fd);
	open_ws(&ws, CORDON_MECHANISM_OVERLAY);
	REQUIRE(ws_collect(&ws, &changes, &err) == 0);
	CHECK_INT(changes.n, depth + 1);
	ws_node_path(&changes, (uint32_t)depth, &path);
	CHECK_INT(path.len, 7 * depth + 4);
	CHECK_STR(path.data + path.len - 11, "deeper/link");
	CHECK(!(changes.v[depth].risks & CORDON_RISK_LINK_OUT));
	strbuf_done(&path);
	ws_changes_done(&changes);
	close_ws(&ws);
	tear_down();
}

static void test_repository(void)
{
	REQUIRE(set_up());
	put_dir(BASE ".git");
	put(BASE ".git/config", "1");
	put(BASE ".git/MERGE_MSG", "2");
	put_dir(UP ".git");
	put(UP ".git/config", "3");
	put(UP ".git/MERGE_MSG", "4");
	put_dir(BASE "bare");
	put_dir(BASE "bare/objects");
	put(BASE "bare/HEAD", "5");
	put_dir(UP "bare");
	put(UP "bare/config", "6");
	put(UP "bare/other", "7");
	put_dir(UP "new");
	put_dir(UP "new/objects");
	put(UP "new/HEAD", "8");
	CHECK_STR(overlay_risks(),
		  "M .git/MERGE_MSG\nM .git/config protected\nA bare/config protected\n"
		  "A bare/other\n[A new/]\nA new/HEAD protected\nA new/objects/\n");
	tear_down();
}

/* Two names that anybody can make take the meaning from no others. */
static void test_false_repository(void)
{
	REQUIRE(set_up());
	put_dir(BASE ".git");
	put_dir(BASE "tests");
	put_dir(BASE "tests/bare");
	put_dir(BASE "tests/bare/objects");
	put(BASE "tests/bare/HEAD", "1");
	put(UP "HEAD", "2");
	put_dir(UP "objects");
	put(UP ".envrc", "3");
	put_dir(UP ".git");
	put_dir(UP ".git/hooks");
	put(UP ".git/hooks/x", "4");
	put_dir(UP ".git/deep");
	put_dir(UP ".git/deep/objects");
	put(UP ".git/deep/HEAD", "5");
	put(UP ".git/deep/config", "6");
	put_dir(UP "tests");
	put_dir(UP "tests/bare");
	put(UP "tests/bare/config", "7");
	CHECK_STR(overlay_risks(), "A .envrc protected\n[A .git/deep/] protected\n"
				   "A .git/deep/HEAD protected\nA .git/deep/config protected\n"
				   "A .git/deep/objects/ protected\n"
				   "[A .git/hooks/] protected\nA .git/hooks/x protected\n"
				   "A HEAD protected\nA objects/\nA tests/bare/config protected\n");
	tear_down();
}

static void test_summary_and_json(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_summary s;
	struct cordon_workspace ws;
	char *json = NULL;

	REQUIRE(set_up());
	put_dir(UP "d");
	put_mode(UP "d/run\xff", "x", 0755);
	put_link(UP "out", "/etc/shadow");
	put(BASE "gone", "x2");
	put_whiteout(UP "gone");
	open_ws(&ws, CORDON_MECHANISM_OVERLAY);
	ws.info = (struct cordon_workspace_info){ .id = "w1", .base = "/b", .mechanism = 1 };
	REQUIRE(cordon_workspace_summary(&ws, &s, &err) == 0);
	CHECK_INT(s.added, 2);
	CHECK_INT(s.deleted, 1);
	CHECK_INT(s.risky, 2);
	CHECK_INT(s.refused, 1);
	REQUIRE(cordon_workspace_to_json(&ws, 0, &json, &err) == 0);
	CHECK_STR(
		json,
		"{\"id\":\"w1\",\"name\":null,\"base\":\"/b\",\"parent\":null,\"mechanism\":"
		"\"overlay\",\"runs\":0,\"created\":0,\"used\":0,\"in_use\":false,"
		"\"commit_begun\":false,\"summary\":{\"added\":2,\"modified\":0,\"deleted\":1,"
		"\"renamed\":0,\"mode\":0,\"symlink\":0,\"type\":0,\"risky\":2,\"refused\":1},"
		"\"changes\":["
		"{\"path\":\"d\",\"kind\":\"added\",\"type\":\"directory\",\"old_type\":null,"
		"\"mode\":\"0755\",\"old_mode\":null,\"size\":null,\"old_size\":null,"
		"\"target\":null,\"old_target\":null,\"from\":null,\"risk\":[],"
		"\"refused\":false,\"in_git\":false,\"listed\":false},"
		"{\"path\":\"d/run\\udcff\",\"kind\":\"added\",\"type\":\"file\",\"old_type\":null,"
		"\"mode\":\"0755\",\"old_mode\":null,\"size\":1,\"old_size\":null,"
		"\"target\":null,\"old_target\":null,\"from\":null,"
		"\"risk\":[\"executable\",\"name\"],"
		"\"refused\":false,\"in_git\":false,\"listed\":true},"
		"{\"path\":\"gone\",\"kind\":\"deleted\",\"type\":null,\"old_type\":\"file\","
		"\"mode\":null,\"old_mode\":\"0644\",\"size\":null,\"old_size\":2,"
		"\"target\":null,\"old_target\":null,\"from\":null,\"risk\":[],"
		"\"refused\":false,\"in_git\":false,\"listed\":true},"
		"{\"path\":\"out\",\"kind\":\"added\",\"type\":\"symlink\",\"old_type\":null,"
		"\"mode\":\"0777\",\"old_mode\":null,\"size\":null,\"old_size\":null,"
		"\"target\":\"/etc/shadow\",\"old_target\":null,\"from\":null,"
		"\"risk\":[\"link-out\"],"
		"\"refused\":true,\"in_git\":false,\"listed\":true}]}");
	free(json);
	close_ws(&ws);
	tear_down();
}

static bool write_map(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* Gives a file the capability to bind low ports, as root of a user namespace may. */
static bool give_capability(const char *path)
{
	const unsigned char value[20] = { 1, 0, 0, 2, 0, 4 };
	unsigned uid = getuid(), gid = getgid();
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) == 0 && write_map("/proc/self/setgroups", "deny") &&
				      write_map("/proc/self/uid_map", fmt("0 %u 1", uid)) &&
				      write_map("/proc/self/gid_map", fmt("0 %u 1", gid)) &&
				      setxattr(path, "security.capability", value, sizeof(value),
					       0) == 0
			      ? 0
			      : 1);
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

static void test_power_attribute(void)
{
	REQUIRE(set_up());
	put_mode(UP "p", "program", 0755);
	put_mode(UP "q", "another", 0);
	if (!give_capability(fmt("%s/" UP "p", top)) || !give_capability(fmt("%s/" UP "q", top))) {
		tear_down();
		SKIP("no user namespace that may set capabilities of files");
	}
	put(UP "r", "text");
	set_attribute(UP "r", "user.security", "x");
	CHECK_STR(overlay_risks(), "A p attribute executable\nA q attribute\nA r\n");
	tear_down();
}

/* --- copies -------------------------------------------------------------------------------------
 */

static struct timespec copied;

static void copy_base(void)
{
	int from = openat(top_fd, "base", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int to = openat(top_fd, "ws/tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct tree_copy copy = { 0 };

	CHECK_INT(tree_copy(from, to, &copy), 0);
	close(from);
	close(to);
	copied = tick();
}

static const char *copy(void)
{
	return collect(CORDON_MECHANISM_COPY, copied, false);
}

static void test_copy(void)
{
	const char *want = "A added\nM dir/f\nD gone\n[D gone-dir/]\nD gone-dir/x\nL link\nP mode\n"
			   "R renamed < to-rename\nA type/\n";

	REQUIRE(set_up());
	put(BASE "same", "x");
	put_dir(BASE "dir");
	put(BASE "dir/f", "x");
	put(BASE "dir/g", "x");
	put(BASE "gone", "gone");
	put_dir(BASE "gone-dir");
	put(BASE "gone-dir/x", "gone2");
	put(BASE "mode", "mode");
	put_link(BASE "link", "x");
	put(BASE "to-rename", "rename me");
	/* The host's own changes, later. */
	put(BASE "host-changed", "x");
	put(BASE "host-deleted", "x");
	tick();
	CHECK(rmdir(fmt("%s/ws/tree", top)) == 0);
	put_dir("ws/tree");
	tick();
	copy_base();
	CHECK_STR(copy(), "");
	put("ws/tree/added", "new");
	put("ws/tree/dir/f", "y");
	CHECK(unlinkat(top_fd, "ws/tree/gone", 0) == 0);
	CHECK(unlinkat(top_fd, "ws/tree/gone-dir/x", 0) == 0);
	CHECK(unlinkat(top_fd, "ws/tree/gone-dir", AT_REMOVEDIR) == 0);
	CHECK(fchmodat(top_fd, "ws/tree/mode", 0600, 0) == 0);
	CHECK(unlinkat(top_fd, "ws/tree/link", 0) == 0);
	put_link("ws/tree/link", "y");
	CHECK(renameat(top_fd, "ws/tree/to-rename", top_fd, "ws/tree/renamed") == 0);
	put("ws/tree/same", "x"); /* written, and the same */
	put_dir("ws/tree/type");
	put(BASE "host-changed", "y");
	CHECK(unlinkat(top_fd, BASE "host-deleted", 0) == 0);
	put(BASE "host-added", "z");
	put_dir(BASE "host-dir");
	put(BASE "host-dir/x", "z");
	CHECK_STR(copy(), want);
	tear_down();
}

/* A directory that is moved keeps the times of what is in it. */
static void test_copy_moved(void)
{
	REQUIRE(set_up());
	put_dir(BASE "v1");
	put_dir(BASE "v1/sub");
	put(BASE "v1/sub/f", "first");
	put_dir(BASE "v2");
	put_dir(BASE "v2/sub");
	put(BASE "v2/sub/f", "secnd");
	put(BASE "v2/only", "only in 2");
	tick();
	CHECK(rmdir(fmt("%s/ws/tree", top)) == 0);
	put_dir("ws/tree");
	copy_base();
	CHECK(renameat(top_fd, "ws/tree/v1", top_fd, "ws/tree/v0") == 0);
	CHECK(renameat(top_fd, "ws/tree/v2", top_fd, "ws/tree/v1") == 0);
	CHECK_STR(copy(), "[A v0/]\n[A v0/sub/]\nA v0/sub/f\nR v1/only < v2/only\nM v1/sub/f\n"
			  "[D v2/]\n[D v2/sub/]\nD v2/sub/f\n");
	tear_down();
}

/* Without a time everything is compared. */
static void test_copy_timeless(void)
{
	REQUIRE(set_up());
	put(BASE "a", "x");
	put(BASE "b", "x");
	put("ws/tree/a", "x");
	put("ws/tree/c", "yy");
	copied = (struct timespec){ 0 };
	CHECK_STR(copy(), "D b\nA c\n");
	tear_down();
}

TAP_MAIN(test_files, test_details, test_directories, test_deleted_trees, test_opaque, test_types,
	 test_renames, test_no_renames, test_renamed_program, test_hard_links, test_sparse,
	 test_closed, test_names, test_deep, test_repository, test_false_repository,
	 test_power_attribute, test_summary_and_json, test_copy, test_copy_moved,
	 test_copy_timeless)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patches and archives of workspaces: git and tar make the same of them as the workspace has.
 *
 * The upper directory is filled by hand, as an overlay would leave it; `want` gets the same changes
 * in the plain way.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "tap.h"
#include "workspace/export/export.h"
#include "workspace/store/store.h"

static char dir[] = "/tmp/ws-export-XXXXXX";
static struct cordon_workspace *ws;

/* sh with $D, $B(ase), $U(pper), $W(ant) and the current directory $D. */
__attribute__((format(printf, 1, 2))) static int sh(const char *fmt, ...)
{
	char script[8192];
	int n, status;
	va_list ap;

	n = snprintf(
		script, sizeof(script),
		"set -e; export D=%s; B=$D/base W=$D/want; U=$(echo $D/state/workspaces/w*/upper); "
		"export LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CEILING_DIRECTORIES=/tmp HOME=$D; cd "
		"$D; ",
		dir);
	va_start(ap, fmt);
	vsnprintf(script + n, sizeof(script) - (size_t)n, fmt, ap);
	va_end(ap);
	status = system(script); /* NOLINT(cert-env33-c) */
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int has_tool(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/usr/bin/%s", name);
	return access(path, X_OK) == 0;
}

static int begin(const char *fill)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct ws_create create = { .mechanism = CORDON_MECHANISM_OVERLAY };
	char base[64], state[64];
	struct stat st;

	snprintf(dir, sizeof(dir), "/tmp/ws-export-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	if (sh("umask 022; mkdir base; cd base; %s", fill) != 0)
		return -1;
	snprintf(base, sizeof(base), "%s/base", dir);
	snprintf(state, sizeof(state), "%s/state", dir);
	if (stat(base, &st) < 0)
		return -1;
	create.state_dir = state;
	create.base = base;
	create.base_dev = st.st_dev;
	create.base_ino = st.st_ino;
	if (ws_create(&create, &ws, &err) < 0) {
		printf("# %s\n", err.msg);
		return -1;
	}
	ws_unlock(ws);
	return sh("cp -a base want");
}

static void end(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	CHECK_INT(cordon_workspace_discard(ws, &err), 0);
	ws = NULL;
	sh("chmod -R u+rwX . ; cd /; rm -rf $D");
}

/* What the guest is supposed to have done: @script runs in the upper directory and in `want`. There
 * are helpers: `gone PATH` deletes, `into DIR` makes a directory of the base appear there.
 */
static int change(const char *script)
{
	return sh("umask 022; into() { mkdir -p $1; }; gone() { mkdir -p $(dirname $1); rm -rf $1; "
		  "mknod $1 c 0 0; }; cd $U; %s",
		  script) ||
	       sh("umask 022; into() { :; }; gone() { rm -rf $1; }; cd $W; %s", script);
}

static int open_out(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

static int export_to(const char *name, int format, const char *const *paths,
		     struct cordon_error *err)
{
	int fd = open_out(name);
	int r = format ? cordon_workspace_export(ws, format, paths, fd, err)
		       : cordon_workspace_patch(ws, paths, fd, err);

	close(fd);
	return r;
}

#define LISTING                                                                                    \
	"find . -mindepth 1 \\( -type d -printf 'd %%p\\n' -o -type l -printf 'l %%p %%l\\n' -o "  \
	"-type f -executable -printf 'x %%p\\n' -o -printf 'f %%p\\n' \\) | sort"

/* Does git make `want` of the base by the patch, and the base of `want` by its reverse? */
static void check_git(void)
{
	CHECK_INT(sh("rm -rf got; cp -a base got; cd got; git apply --whitespace=nowarn ../patch"),
		  0);
	CHECK_INT(sh("find want got -type d -empty -delete; diff -r --no-dereference got want"), 0);
	CHECK_INT(
		sh("cd got; " LISTING " >../l1; cd ../want; " LISTING " >../l2; diff ../l1 ../l2"),
		0);
	CHECK_INT(sh("cd got; git apply -R --whitespace=nowarn ../patch; cd ..; mkdir -p got; "
		     "cp -a base plain; find plain got -type d -empty -delete; "
		     "diff -r --no-dereference got plain"),
		  0);
}

static void test_git_patch(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	if (!has_tool("git"))
		SKIP("no git");
	REQUIRE(begin("printf 'a\\nb\\nc\\n' >text; printf 'no newline' >open; : >empty; "
		      "mkdir -p sub/deep other; seq 1 2000 >sub/deep/numbers; echo x >sub/gone; "
		      "head -c 200000 /dev/urandom >bin; printf 'z\\0z' >bin2; echo prog >tool; "
		      "ln -s text link; ln -s text link2; echo file >tolink; ln -s text tofile; "
		      "seq 1 50 >moved; echo hello >other/one; echo k >keep; "
		      "printf 'cr\\r\\nlf\\n' >crlf; printf 'x\\ny' >last") == 0);
	REQUIRE(change("printf 'a\\nB\\nc\\nd\\n' >text; printf 'no newline\\n' >open; "
		       "into sub/deep; seq 1 2000 | sed 's/^7.*0$/x/' >sub/deep/numbers; "
		       "gone sub/gone; (head -c 70000 /dev/zero; echo tail) >bin; gone bin2; "
		       "printf 'new\\0bin' >newbin; echo prog >tool; chmod 755 tool; "
		       "rm -f link; ln -s 'elsewhere/\303\244 b' link; gone link2; "
		       "rm -f tolink; ln -s nowhere tolink; rm -f tofile; echo plain >tofile; "
		       "gone moved; into other; seq 1 50 >other/moved; : >new-empty; "
		       "mkdir newdir; printf 'one\\n' >'newdir/with blank'; "
		       "printf 'q\\n' >\"$(printf 'odd\\tname\\n\"q\\\\\\033[31m')\"; "
		       "echo u >\"$(printf 'uml\\303\\244ut')\"; echo v >\"$(printf 'bad\\377')\"; "
		       "printf 'lf\\ncr\\r\\n' >crlf; printf 'x\\nz' >last; gone empty; "
		       "echo '--- a/text' >dashes; echo x >-rf") == 0);
	CHECK_INT(export_to("patch", CORDON_EXPORT_PATCH, NULL, &err), 0);
	CHECK_STR(err.msg, "");
	check_git();
	CHECK_INT(sh("grep -q '^rename from moved$' patch"), 0);
	CHECK_INT(sh("grep -q '^similarity index 100%%$' patch"), 0);
	CHECK_INT(sh("grep -qF '\"b/uml\\303\\244ut\"' patch"), 0);
	/* No control byte of a name is in it as it is; the content here has none but CR. */
	CHECK_INT(sh("! tr -d '\\n\\t\\r' <patch | grep -q '[[:cntrl:]]'"), 0);
	end();
}

static void test_directories_and_files(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	if (!has_tool("git"))
		SKIP("no git");
	REQUIRE(begin("mkdir -p a/b c; echo 1 >a/b/1; echo 2 >a/2; echo f >f; echo c >c/c; echo o "
		      ">o; "
		      "mkdir n; echo n >n/n") == 0);
	REQUIRE(change("gone a; rm -f f; mkdir f; echo in >f/in; rm -rf c; echo file >c; "
		       "rm -rf n; ln -s o n") == 0);
	CHECK_INT(sh("setfattr -n user.overlay.opaque -v y $U/f 2>/dev/null || true"), 0);
	CHECK_INT(export_to("patch", CORDON_EXPORT_PATCH, NULL, &err), 0);
	CHECK_STR(err.msg, "");
	check_git();
	end();
}

static void test_shown_patch(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	const char *const paths[] = { "./d/", NULL };

	REQUIRE(begin("echo a >a; echo mode >m; printf 'x\\0y' >bin; mkdir d; echo 1 >d/1") == 0);
	REQUIRE(change("echo mode >m; chmod 600 m; printf 'x\\0yz' >bin; mkfifo fifo; gone a; "
		       "into d; echo 2 >d/1; mkdir -p .git/hooks; echo evil >.git/hooks/x") == 0);
	CHECK_INT(export_to("patch", 0, NULL, &err), 0);
	CHECK_STR(err.msg, "");
	CHECK_INT(sh("grep -qx 'Binary files a/bin (3 bytes) and b/bin (4 bytes) differ' patch"),
		  0);
	CHECK_INT(sh("grep -qx 'new mode 100600' patch"), 0);
	CHECK_INT(sh("grep -qx 'This is a fifo' patch"), 0);
	CHECK_INT(sh("grep -qx 'diff --git a/.git/hooks/x b/.git/hooks/x' patch"), 0);
	CHECK_INT(sh("! grep -q '^index' patch"), 0);
	CHECK_INT(export_to("patch", 0, paths, &err), 0);
	CHECK_INT(sh("grep '^diff' patch >l; echo 'diff --git a/d/1 b/d/1' | diff - l"), 0);
	/* For git: the FIFO and .git are left out, and a mode git does not have is no change. */
	CHECK_INT(export_to("patch", CORDON_EXPORT_PATCH, NULL, &err), 2);
	CHECK_INT(sh("! grep -q 'hooks\\|fifo\\|b/m$' patch"), 0);
	end();
}

static void test_hostile(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	REQUIRE(begin("echo a >a") == 0);
	REQUIRE(change("truncate -s 8T huge; mkdir closed; echo s >closed/s; "
		       "chmod 0 closed/s; chmod 0 closed; ln -s /etc/shadow out") == 0);
	CHECK_INT(export_to("patch", 0, NULL, &err), 0);
	CHECK_STR(err.msg, "");
	CHECK_INT(sh("grep -q '^Binary files /dev/null and b/huge (8796093022208 bytes) "
		     "differ' "
		     "patch"),
		  0);
	CHECK_INT(sh("grep -qx '+/etc/shadow' patch && grep -qx '+s' patch"), 0);
	CHECK_INT(export_to("patch", CORDON_EXPORT_PATCH, NULL, &err), -CORDON_E_PATH);
	CHECK(strstr(err.msg, "'huge' has 8796093022208 bytes"));
	CHECK(strstr(err.hint, "tar"));
	err = (struct cordon_error)CORDON_ERROR_INIT;
	CHECK_INT(export_to("tar", CORDON_EXPORT_TAR, NULL, &err), -CORDON_E_PATH);
	CHECK(strstr(err.msg, "'huge'"));
	end();
}

static void test_deep(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	REQUIRE(begin("echo a >a") == 0);
	REQUIRE(sh("cd $U; i=0; while [ $i -lt 2000 ]; do mkdir d; cd -P d; i=$((i+1)); done; echo "
		   "x "
		   ">f") == 0);
	CHECK_INT(export_to("patch", CORDON_EXPORT_PATCH, NULL, &err), 0);
	CHECK_STR(err.msg, "");
	CHECK_INT(sh("[ $(head -1 patch | tr -cd / | wc -c) = 4002 ]"), 0);
	CHECK_INT(export_to("tar", CORDON_EXPORT_TAR, NULL, &err), 0);
	if (has_tool("tar"))
		CHECK_INT(sh("[ $(tar tf tar | tail -1 | wc -c) = 4002 ]"), 0);
	end();
}

static void test_tar(void)
{
	static const char long_name[] =
		"mkdir -p $L; echo long >$L/f; ln -s $L/$L/$L/$L/$L $L/link; "
		"echo latin >\"$(printf 'bad\\377')\"; echo uml >\"$(printf 'uml\\303\\244ut')\"; ";
	struct cordon_error err = CORDON_ERROR_INIT;
	char script[1024];

	if (!has_tool("tar"))
		SKIP("no tar");
	snprintf(script, sizeof(script),
		 "L=$(printf '%%060d' 7); %s echo s >suid; chmod 4755 suid; mkfifo fifo; "
		 "gone gone; gone dir; into sub; gone sub/x; echo w >.wh.keep; mkdir -m 700 empty; "
		 "printf 'text' >text; touch -d '2001-02-03 04:05:06.789 UTC' text; "
		 "touch -d '1960-01-01 00:00:00.5 UTC' $L/f; seq 1 30000 >big",
		 long_name);
	REQUIRE(begin("echo g >gone; mkdir -p dir/in sub; echo y >dir/in/y; echo x >sub/x; "
		      "echo t >text; echo k >keep") == 0);
	REQUIRE(change(script) == 0);
	CHECK_INT(export_to("tar", CORDON_EXPORT_TAR, NULL, &err), 2); /* fifo, .wh.keep */
	CHECK_STR(err.msg, "");
	CHECK_INT(sh("mkdir got; tar xpf tar --no-same-owner -C got 2>/dev/null"), 0);
	/* Deleted names, the topmost ones only. */
	CHECK_INT(sh("cd got; find . -name '.wh.*' | sort >../l1; cd ..; "
		     "printf './.wh.dir\\n./.wh.gone\\n./sub/.wh.sub\\n' | sed 's/wh.sub/wh.x/' | "
		     "diff - l1"),
		  0);
	CHECK_INT(sh("find got -name '.wh.*' -delete; rm want/.wh.keep want/fifo want/keep; "
		     "chmod u-s want/suid; rmdir want/sub got/sub; diff -r --no-dereference got "
		     "want"),
		  0);
	CHECK_INT(sh("for t in got want; do (cd $t; find . -mindepth 1 ! -type l ! -path './0*' "
		     "-printf '%%p %%m\\n' | sort >../$t.l); done; diff got.l want.l"),
		  0);
	CHECK_INT(sh("[ $(stat -c %%.9Y got/text) = $(stat -c %%.9Y want/text) ]"), 0);
	CHECK_INT(sh("[ $(stat -c %%.9Y got/0*/f) = $(stat -c %%.9Y want/0*/f) ]"), 0);
	end();
}

/* Holes stay holes, in every tar that knows them, and under names of any kind. */
static void test_holes(void)
{
	static const char *const readers[] = {
		"tar xpf tar --no-same-owner -C got",
		"bsdtar -x -f tar --no-same-owner -C got",
		"python3 -c 'import tarfile; tarfile.open(\"tar\").extractall(\"got\")'",
	};
	static const char *const tools[] = { "tar", "bsdtar", "python3" };
	struct cordon_error err = CORDON_ERROR_INIT;

	REQUIRE(begin("echo a >a") == 0);
	REQUIRE(change("truncate -s 40M hole; truncate -s 30M ends; "
		       "printf 1 | dd of=ends bs=1 seek=31457279 conv=notrunc status=none; "
		       "printf x >begins; truncate -s 20M begins; : >empty; seq 1 9999 >plain; "
		       "for i in 1 9 17 4095; do printf $i | "
		       "dd of=many bs=8192 seek=$i conv=notrunc status=none; done; "
		       "mkdir $(printf '%%0120d' 7); cp --sparse=always begins $(printf '%%0120d' "
		       "7)/b; cp --sparse=always begins \"$(printf 'uml\\303\\244ut')\"") == 0);
	CHECK_INT(export_to("tar", CORDON_EXPORT_TAR, NULL, &err), 0);
	CHECK_STR(err.msg, "");
	CHECK_INT(sh("[ $(stat -c %%s tar) -lt 400000 ]"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		if (!has_tool(tools[i]))
			continue;
		CHECK_INT(sh("rm -rf got; mkdir got; %s; cp -a base/a got/; diff -r got want && "
			     "[ $(du -sk got | cut -f1) -lt 2000 ]",
			     readers[i]),
			  0);
	}
	end();
}

#define NOWHERE "../../dev/null"

/* One file under many names is written once for each: an archive must not grow without a bound. */
static void test_names_of_one_file(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	REQUIRE(begin("echo a >a") == 0);
	REQUIRE(sh("cd $U; mkdir x; head -c 40M /dev/urandom >x/0; for i in 1 2 3; do ln x/0 x/$i; "
		   "done") == 0);
	CHECK_INT(export_to(NOWHERE, CORDON_EXPORT_TAR, NULL, &err), 0);
	REQUIRE(sh("cd $U; for i in 4 5 6 7 8 9 a b c d e f; do ln x/0 x/$i; done") == 0);
	CHECK_INT(export_to(NOWHERE, CORDON_EXPORT_TAR, NULL, &err), -CORDON_E_PATH);
	CHECK(strstr(err.msg, "much larger than the workspace"));
	CHECK_INT(export_to(NOWHERE, CORDON_EXPORT_TAR, (const char *const[]){ "x/1", NULL }, &err),
		  0);
	end();
}

/* Holes have no place in a patch, and paths of all directories grow with the square of the depth.
 */
static void test_bombs(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	REQUIRE(begin("echo a >a") == 0);
	REQUIRE(sh("cd $U; for i in $(seq 9); do truncate -s 60M $i; done") == 0);
	CHECK_INT(export_to("out", CORDON_EXPORT_TAR, NULL, &err), 0);
	CHECK_INT(sh("[ $(stat -c %%s out) -lt 40000 ]"), 0);
	CHECK_INT(export_to(NOWHERE, CORDON_EXPORT_PATCH, NULL, &err), -CORDON_E_PATH);
	if (!has_tool("python3"))
		SKIP("no Python");
	CHECK_INT(sh("cd $U; rm *; python3 -c 'import os\nfor i in range(1600): os.mkdir(\"n\" * "
		     "250); "
		     "os.chdir(\"n\" * 250)'"),
		  0);
	CHECK_INT(export_to(NOWHERE, CORDON_EXPORT_TAR, NULL, &err), -CORDON_E_PATH);
	end();
}

static void test_no_reader(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	REQUIRE(begin("echo a >a") == 0);
	REQUIRE(change("seq 1 1000 >a") == 0);
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	REQUIRE(full >= 0);
	CHECK_INT(cordon_workspace_patch(ws, NULL, full, &err), -CORDON_E_SYSTEM);
	CHECK_INT(err.sys_errno, ENOSPC);
	CHECK_INT(cordon_workspace_export(ws, CORDON_EXPORT_TAR, NULL, full, &err),
		  -CORDON_E_SYSTEM);
	CHECK_INT(cordon_workspace_export(ws, 9, NULL, full, &err), -CORDON_E_USAGE);
	close(full);
	end();
}

static void check_quote(const char *path, const char *want)
{
	struct strbuf sb = STRBUF_INIT;

	git_quote(&sb, "a/", path);
	CHECK_STR(sb.data, want);
	strbuf_done(&sb);
}

static void test_names(void)
{
	char id[GIT_ID_SIZE];

	check_quote("x y", "a/x y");
	check_quote("a\"b", "\"a/a\\\"b\"");
	check_quote("a\\b", "\"a/a\\\\b\"");
	check_quote("\a\b\t\n\v\f\r\x01\x1b\x7f", "\"a/\\a\\b\\t\\n\\v\\f\\r\\001\\033\\177\"");
	check_quote("\xc3\xa4", "\"a/\\303\\244\"");
	CHECK(git_refuses(".git", false));
	CHECK(git_refuses("a/.GIT/x", false));
	CHECK(git_refuses("a/git~1", false));
	CHECK(git_refuses(".git. ./x", false));
	CHECK(git_refuses("x/.git::$INDEX_ALLOCATION/y", false));
	CHECK(git_refuses("a/.gitmodules", true));
	CHECK(!git_refuses("a/.gitmodules", false));
	CHECK(!git_refuses(".gitignore", false));
	CHECK(!git_refuses("a.git/git/x", false));
	CHECK(!git_refuses("git~10", false));
	git_blob_id("", 0, id);
	CHECK_STR(id, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
	git_blob_id("hello\n", 6, id);
	CHECK_STR(id, "ce013625030ba8dba906f756967f9e9ca394464a");
}

TAP_MAIN(test_git_patch, test_directories_and_files, test_shown_patch, test_hostile, test_deep,
	 test_tar, test_holes, test_names_of_one_file, test_bombs, test_no_reader, test_names)

/* SPDX-License-Identifier: Apache-2.0 */
/* Which names in the private home and /tmp are told about at the end, and which are tools' own. */
#include <stdlib.h>
#include <string.h>

/* Part of the freestanding init, in no library; nothing in it needs one. */
#include "init/lost_names.c"

#include "base/macros.h"
#include "tests/lib/tap.h"

static const struct lost_place home = { 0, 0, NULL }, tmp = { 1, 0, NULL };

/* As mkstemp() and others draw them. */
#define GLIBC "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#define PYTHON "abcdefghijklmnopqrstuvwxyz0123456789_"
#define HEX "0123456789abcdef"
#define DRAWS 2000

static void check_all(const struct lost_place *at, const char *const *names, int want)
{
	for (; *names; names++) {
		if (lost_is_missed(at, *names) != want)
			printf("# %s\n", *names);
		CHECK_INT(lost_is_missed(at, *names), want);
	}
}

static void test_home_files(void)
{
	static const char *const missed[] = {
		"results.csv",	    "notes",	   "a",
		"Makefile",	    "report-2026", "f1",
		"out.bin",	    "build.log",   "my file",
		"Zeugnis_2026.pdf", "tmux.conf",   "a.tar.gz",
		"\xff\xfe",	    "\033[2J",	   "x.\033[31m",
		"core-values.md",   "nohup.out",   NULL,
	};
	static const char *const others[] = {
		".bash_history",    ".x.swp",	     "x.txt~",	   "#x#",
		"tmp.Ab3dE6fGhI",   "core",	     "core.4711",  "vgcore.12",
		"hs_err_pid12.log", "x.pyc",	     "dump.rdb",   "gmon.out",
		"tmpabc",	    "poetry.lock",   "server.pid", "foo.Ab3dEf",
		"fooq7x2k9",	    "npm-debug.log", "x.save",	   NULL,
	};

	check_all(&home, missed, 1);
	check_all(&home, others, 0);
}

static void test_tmp_files(void)
{
	static const char *const missed[] = {
		"report.txt",
		"results.csv",
		"plot.png",
		"out.json",
		"results-2026-01-31.csv",
		"results_20260131.csv",
		"run_202601311745.json",
		"data.tar.gz",
		"temperature.csv",
		"template.html",
		"screenshot.png",
		"sorted.csv",
		"nodes.json",
		"MyReport.pdf",
		"REPORT.PDF",
		"model.pt",
		"chart2.svg",
		"2026report.md",
		"a.c",
		NULL,
	};
	static const char *const others[] = {
		"report",
		"tmpx.csv",
		"tmp.txt",
		"temp.csv",
		"npm-1-2.json",
		"pip-log.txt",
		".x.csv",
		"x.log",
		"ccAb12.s",
		"cc9xKqZt.c",
		"sortAbC3dE",
		"node-1763425123123.json",
		"x-1763425123.txt",
		"3f786850e387550fdab836ed7e6dc881de23001b.json",
		"0b1f6a2c-77aa-4c2e-9d0f-1b2c3d4e5f60.json",
		"report-0YyHEy.csv",
		"report-aB3xZ9.csv",
		"x.sock",
		"x.lock",
		"core",
		"v8-compile-cache.json",
		"npm-debug.log",
		"pytest.xml",
		NULL,
	};

	check_all(&tmp, missed, 1);
	check_all(&tmp, others, 0);
}

static void test_directories(void)
{
	static const struct lost_place in_go = { 0, 1, "go" }, in_other = { 0, 1, "src" },
				       deep = { 0, 2, "go" };

	CHECK(lost_is_searched(&home, "out"));
	CHECK(lost_is_searched(&home, "go"));
	CHECK(lost_is_searched(&in_go, "src"));
	CHECK(!lost_is_searched(&in_go, "pkg"));
	CHECK(!lost_is_searched(&in_go, "bin"));
	CHECK(lost_is_searched(&in_other, "pkg"));
	CHECK(lost_is_searched(&deep, "pkg"));
	CHECK(!lost_is_searched(&home, ".cache"));
	CHECK(!lost_is_searched(&home, "node_modules"));
	CHECK(!lost_is_searched(&in_other, "node_modules"));
	CHECK(!lost_is_searched(&home, "R"));
	CHECK(lost_is_searched(&in_other, "R"));
	CHECK(lost_is_searched(&tmp, "out"));
	CHECK(!lost_is_searched(&tmp, "hsperfdata_ada"));
	CHECK(!lost_is_searched(&tmp, "pytest-of-ada"));
	CHECK(!lost_is_searched(&tmp, "go-build123456"));
	CHECK(!lost_is_searched(&tmp, "pip-install-k3jd9x_2"));
	CHECK(!lost_is_searched(&tmp, "RtmpAbC1dE"));
	CHECK(!lost_is_searched(&tmp, "lu1234abcd.tmp"));
	CHECK(!lost_is_searched(&tmp, "systemd-private-x"));
	CHECK(!lost_is_searched(&tmp, "node-compile-cache"));
}

/* How many of the names that tools draw would be told about, of DRAWS. */
static unsigned told(const char *prefix, const char *letters, unsigned n, const char *suffix)
{
	unsigned found = 0, seed = 1;

	for (unsigned i = 0; i < DRAWS; i++) {
		char drawn[33] = "", name[64];

		for (unsigned k = 0; k < n; k++)
			drawn[k] = letters[(size_t)rand_r(&seed) % strlen(letters)];
		snprintf(name, sizeof(name), "%s%s%s", prefix, drawn, suffix);
		found += (unsigned)lost_is_missed(&tmp, name);
	}
	return found;
}

static void test_drawn_names(void)
{
	/* Without the extension of a document never. */
	CHECK_INT(told("foo", GLIBC, 6, ""), 0);
	CHECK_INT(told("foo.", GLIBC, 10, ""), 0);
	CHECK_INT(told("tmp", PYTHON, 8, ".csv"), 0);
	/* With one by chance only. */
	CHECK(told("foo-", GLIBC, 6, ".csv") < DRAWS / 20);
	CHECK(told("foo-", PYTHON, 8, ".json") < DRAWS / 5);
	CHECK(told("foo-", HEX, 32, ".json") < DRAWS / 100);
}

TAP_MAIN(test_home_files, test_tmp_files, test_directories, test_drawn_names)

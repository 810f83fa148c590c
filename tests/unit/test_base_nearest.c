/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"
#include "tap.h"

static const char *const keys[] = { "fs.read", "fs.write", "fs.deny", "limits.wall", "limits.procs",
				    "cwd",     "timeout",  "net",     "pid" };

static void test_suggestions(void)
{
	static const struct {
		const char *word, *want;
	} rows[] = {
		{ "fs.raed", "fs.read" },
		{ "fs.red", "fs.read" },
		{ "fs.reads", "fs.read" },
		{ "FS.READ", "fs.read" },
		{ "read", "fs.read" },
		{ "wall", "limits.wall" },
		{ "limits.proc", "limits.procs" },
		{ "limit.procs", "limits.procs" },
		{ "time", "timeout" },
		{ "cdw", "cwd" },
		{ "nte", "net" },
		{ "zzzzzz", NULL },
		{ "x", NULL },
		{ "", NULL },
		{ "entirely different", NULL },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_STR(nearest_in_list(rows[i].word, keys, sizeof(keys) / sizeof(keys[0])),
			  rows[i].want);
	/* One that was begun comes before one that was misspelt. */
	CHECK_STR(nearest_in_list("cpu", (const char *const[]){ "gpu", "cpus", "cpu-time" }, 3),
		  "cpus");
	CHECK_STR(nearest_in_list("fs.", (const char *const[]){ "fs", "fs.read" }, 2), "fs");
	CHECK_STR(nearest_in_list("abc", NULL, 0), NULL);
}

static void test_distance(void)
{
	char long_a[100], long_b[100];

	CHECK_INT(nearest_distance("", "", 3), 0);
	CHECK_INT(nearest_distance("abc", "abc", 3), 0);
	CHECK_INT(nearest_distance("abc", "acb", 3), 1);
	CHECK_INT(nearest_distance("abc", "", 3), 3);
	CHECK_INT(nearest_distance("abc", "abcd", 3), 1);
	CHECK_INT(nearest_distance("abc", "xyz", 2), 3);
	CHECK_INT(nearest_distance("kitten", "sitting", 5), 3);
	CHECK_INT(nearest_distance("kitten", "sitting", 2), 3);
	CHECK_INT(nearest_distance("ab", "ba", 0), 1);
	memset(long_a, 'a', sizeof(long_a));
	long_a[NEAREST_LEN_MAX] = '\0';
	memcpy(long_b, long_a, sizeof(long_b));
	CHECK_INT(nearest_distance(long_a, long_b, 3), 0);
	long_a[NEAREST_LEN_MAX] = 'a';
	long_a[NEAREST_LEN_MAX + 1] = '\0';
	CHECK_INT(nearest_distance(long_a, long_b, 3), 4);
}

TAP_MAIN(test_suggestions, test_distance)

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/path.h"
#include "tap.h"

static void test_normalise(void)
{
	static const struct {
		const char *base, *path, *want;
	} rows[] = {
		{ NULL, "/", "/" },
		{ NULL, "//", "/" },
		{ NULL, "/a//b/./c/", "/a/b/c" },
		{ NULL, "/..", "/" },
		{ NULL, "/../../a", "/a" },
		{ NULL, "/a/..", "/a/.." },
		{ NULL, "/a/../b", "/a/../b" },
		{ NULL, "a", "a" },
		{ NULL, "./a", "a" },
		{ NULL, ".", "." },
		{ NULL, "./", "." },
		{ NULL, "..", ".." },
		{ NULL, "../a/", "../a" },
		{ NULL, "...", "..." },
		{ NULL, "/...", "/..." },
		{ NULL, "/..a", "/..a" },
		{ "/base", "a", "/base/a" },
		{ "/base/", "./a", "/base/a" },
		{ "/base", "/a", "/a" },
		{ "/base", "..", "/base/.." },
		{ "/base", ".", "/base" },
		{ "/", "a", "/a" },
		{ "/", "..", "/" },
		{ "rel", "a", "rel/a" },
		{ ".", "a", "a" },
		{ ".", ".", "." },
	};
	char out[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int r = path_normalise(rows[i].base, rows[i].path, out, sizeof(out));

		CHECK_STR(out, rows[i].want);
		CHECK_INT(r, strlen(rows[i].want));
	}
	CHECK_INT(path_normalise(NULL, "", out, sizeof(out)), -EINVAL);
	CHECK_INT(path_normalise("", "a", out, sizeof(out)), -EINVAL);
	CHECK_INT(path_normalise(NULL, "/abc", out, 5), 4);
	CHECK_INT(path_normalise(NULL, "/abc", out, 4), -ENAMETOOLONG);
	CHECK_INT(path_normalise("/a", "bc", out, 5), -ENAMETOOLONG);
	CHECK_INT(path_normalise("/a", "bc", out, 6), 5);
	CHECK_INT(path_normalise(NULL, "/", out, 1), -ENAMETOOLONG);
	CHECK_INT(path_normalise(NULL, "/", out, 2), 1);
}

static void test_within(void)
{
	static const struct {
		const char *parent, *child;
		int want;
	} rows[] = {
		{ "/a", "/a", 1 },   { "/a", "/a/b", 1 },    { "/a", "/ab", 0 },
		{ "/a/b", "/a", 0 }, { "/", "/", 1 },	     { "/", "/x", 1 },
		{ "/", "x", 0 },     { "/a", "/a/../b", 0 }, { "/a/..", "/a/..", 0 },
		{ ".", "a/b", 1 },   { ".", ".", 1 },	     { ".", "/a", 0 },
		{ "a", "a/b", 1 },   { "a", "ab", 0 },	     { "", "/a", 0 },
		{ "/a", "", 0 },     { ".", "", 0 },	     { "/a", "/a/..b", 1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_MSG(path_is_within(rows[i].parent, rows[i].child) == rows[i].want,
			  "within '%s' '%s'", rows[i].parent, rows[i].child);
}

static void test_take_name(void)
{
	char rest[NAME_MAX + 32] = "//a/../b/", name[NAME_MAX + 1];

	CHECK_INT(path_take_name(rest, name), 1);
	CHECK_STR(name, "a");
	CHECK_INT(path_take_name(rest, name), 1);
	CHECK_STR(name, "..");
	CHECK_INT(path_take_name(rest, name), 1);
	CHECK_STR(name, "b");
	CHECK_INT(path_take_name(rest, name), 0);
	memset(rest, 'x', NAME_MAX + 1);
	rest[NAME_MAX + 1] = '\0';
	CHECK_INT(path_take_name(rest, name), -ENAMETOOLONG);
}

static void test_parts(void)
{
	CHECK(path_has_dotdot(".."));
	CHECK(path_has_dotdot("a/.."));
	CHECK(path_has_dotdot("a//../b"));
	CHECK(!path_has_dotdot("a/..b/c.."));
	CHECK(!path_has_dotdot(""));
	CHECK_INT(path_dir_len("/a/b"), 2);
	CHECK_INT(path_dir_len("/a"), 1);
	CHECK_INT(path_dir_len("a"), 0);
	CHECK_INT(path_dir_len("a/b"), 1);
}

TAP_MAIN(test_normalise, test_within, test_take_name, test_parts)

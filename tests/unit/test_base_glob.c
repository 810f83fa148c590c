/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns for names and paths. */
#include <errno.h>
#include <string.h>

#include "base/glob.h"
#include "tap.h"

static void test_names(void)
{
	static const struct {
		const char *pattern, *name;
		bool is_match;
	} cases[] = {
		{ "*.pem", "a.pem", true },
		{ "*.pem", ".pem", true },
		{ "*.pem", "a.pem.txt", false },
		{ ".env.*", ".env.local", true },
		{ ".env.*", ".env", false },
		{ "*", ".hidden", true },
		{ "a?c", "abc", true },
		{ "a?c", "ac", false },
		{ "[ab]x", "bx", true },
		{ "[ab]x", "cx", false },
		{ "[!ab]x", "cx", true },
		{ "[^ab]x", "ax", false },
		{ "[a-c]", "b", true },
		{ "[a-c]", "d", false },
		{ "[]x]", "]", true },
		{ "[x", "[x", true }, /* no end: an ordinary character */
		{ "a\\*b", "a*b", true },
		{ "a\\*b", "axb", false },
		{ "a*b*c", "aXbYbZc", true },
		{ "a*b*c", "aXbYbZ", false },
		{ "id_@(rsa|dsa)", "id_rsa", true },
		{ "id_@(rsa|dsa)", "id_rsa.pub", false },
		{ ".env!(.example|.sample)", ".env", true },
		{ ".env!(.example|.sample)", ".env.local", true },
		{ ".env!(.example|.sample)", ".env.example", false },
		{ "!(a)b", "ab", false },
		{ "!(a)b", "xb", true },
		{ "*.@(key|p12)", "x.key", true },
		{ "*.@(key|p12)", "x.keys", false },
		{ "@(a", "@(a", true },
		{ "", "", true },
		{ "", "x", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK_MSG(glob_match_name(cases[i].pattern, strlen(cases[i].pattern),
					  cases[i].name) == cases[i].is_match,
			  "'%s' and '%s'", cases[i].pattern, cases[i].name);
}

static bool match_path(const char *pattern, const char *path)
{
	struct glob glob;
	char copy[256], *name, *save = NULL;
	uint64_t state;

	if (glob_init(&glob, NULL, pattern) < 0)
		return false;
	state = glob_start(&glob);
	snprintf(copy, sizeof(copy), "%s", path);
	for (name = strtok_r(copy, "/", &save); name; name = strtok_r(NULL, "/", &save))
		state = glob_step(&glob, state, name);
	return glob_is_matched(&glob, state);
}

static void test_paths(void)
{
	CHECK(match_path("**/.env", ".env"));
	CHECK(match_path("**/.env", "a/b/.env"));
	CHECK(!match_path("**/.env", "a/.env/b"));
	CHECK(match_path("a/**/b", "a/b"));
	CHECK(match_path("a/**/b", "a/x/y/b"));
	CHECK(!match_path("a/**/b", "x/a/b"));
	CHECK(match_path("/a/*/c", "/a/b/c"));
	CHECK(!match_path("/a/*/c", "/a/b/d/c"));
	CHECK(match_path("**/a/**/b", "x/a/y/a/z/b"));
}

static void test_kinds(void)
{
	struct glob glob;
	char deep[256] = "";

	CHECK(glob_is_pattern("*.pem") && glob_is_pattern("a/b?") && glob_is_pattern("[x"));
	CHECK(glob_is_pattern("@(a)") && glob_is_pattern("a!(b|c)"));
	CHECK(!glob_is_pattern(".env") && !glob_is_pattern("a@b(c)") && !glob_is_pattern("!x"));
	CHECK(glob_is_anywhere("*.pem") && glob_is_anywhere("**/.env"));
	CHECK(!glob_is_anywhere("./*.pem") && !glob_is_anywhere("a/**/.env"));
	for (int i = 0; i < GLOB_PARTS_MAX; i++)
		memcpy(deep + 2 * i, "a/", 3);
	CHECK_INT(glob_init(&glob, NULL, deep), 0);
	memcpy(deep + strlen(deep), "b", 2);
	CHECK_INT(glob_init(&glob, NULL, deep), -E2BIG);
}

/* A directory in front of a pattern stands for itself. */
static void test_literal(void)
{
	struct glob glob;
	char name[NAME_MAX + 1], text[64];
	uint64_t state;

	CHECK_INT(glob_init(&glob, "/a[1]/**", "*.pem"), 0);
	state = glob_step(&glob, glob_start(&glob), "a[1]");
	CHECK(state != 0 && glob_step(&glob, glob_start(&glob), "a1") == 0);
	state = glob_step(&glob, state, "**");
	CHECK(glob_is_matched(&glob, glob_step(&glob, state, "x.pem")));
	CHECK(glob_plain_name("a\\[1]", 5, name));
	CHECK_STR(name, "a[1]");
	CHECK(!glob_plain_name("a*", 2, name) && !glob_plain_name("@(a)", 4, name));
	CHECK_INT(glob_escape("a[1]!(*", text, sizeof(text)), 0);
	CHECK_STR(text, "a\\[1]\\!(\\*");
	CHECK(glob_match_name(text, strlen(text), "a[1]!(*"));
	CHECK_INT(glob_escape("aaaa", text, 4), -ENAMETOOLONG);
}

/* A pattern made to be slow is not. */
static void test_time(void)
{
	char name[256];

	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	CHECK(!glob_match_name("*a*a*a*a*a*a*a*a*a*a*a*b", 24, name));
	CHECK(!glob_match_name("*a*a*a*!(a)*a*a*a*b", 19, name));
}

TAP_MAIN(test_names, test_paths, test_kinds, test_literal, test_time)

/* SPDX-License-Identifier: Apache-2.0 */
/* Which directories a .gitignore keeps `git add .` out of, without a doubt. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "git/ignored.h"

#include "tap.h"

static bool is_ignored(const char *text, const char *path)
{
	char copy[256];
	const struct git_ignore ignore = { .text = copy, .len = strlen(text) };

	snprintf(copy, sizeof(copy), "%s", text);
	return git_is_ignored(&ignore, path);
}

static const struct {
	const char *text, *path;
	bool is_ignored;
} cases[] = {
	{ "", "a", false },
	{ "a", "a", true },
	{ "a", "b", false },
	{ "a", "ab", false },
	{ "a", "x/a", true },
	{ "a\n", "x/y/a", true },
	{ "a/\n", "a", true },
	{ "a/\n", "x/a", true },
	{ "/a/\n", "a", true },
	{ "/a\n", "x/a", false },
	{ "x/a\n", "x/a", true },
	{ "x/a\n", "y/x/a", false },
	{ "**/a\n", "x/y/a", true },
	{ "**/x/a\n", "x/a", false }, /* not understood */
	{ "x/**\n", "x/a", false },
	{ "*\n", "a", true },
	{ "*\n", "x/a", true },
	{ "/*\n", "a", true },
	{ "/*\n", "x/a", false },
	{ "*.x/\n", "a.x", true },
	{ "*.x/\n", "a.y", false },
	{ "a*b*c\n", "aXXbYYc", true },
	{ "a*b*c\n", "aXXcYYb", false },
	{ "x/*/c\n", "x/y/c", true },
	{ "x/*/c\n", "x/y/z/c", false },
	{ "# a\n", "# a", false },
	{ "a  \n", "a", true },
	{ "a\r\n", "a", true },
	{ "\xef\xbb\xbf"
	  "a\n",
	  "a", true },
	{ "[ab]\n", "a", false },
	{ "?\n", "a", false },
	{ "\\a\n", "a", false },
	{ "A\n", "a", false },
	/* exceptions */
	{ "a\n!a\n", "a", false },
	{ "!a\na\n", "a", true },
	{ "a\n!b\n", "a", true },
	{ "a\n!*\n", "a", false },
	{ "a\n!A\n", "a", false },
	{ "a\n![b]\n", "a", false },
	{ "a\n![b]\na\n", "a", true },
	{ "a\n!/x/a\n", "a", true },
	{ "a\n!/x/a\n", "x/a", false },
	{ "a\n!**/x/a\n", "x/a", false },
	{ "\xef\xbb\xbf!a\n", "a", false },
};

static void test_patterns(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		CHECK_MSG(is_ignored(cases[i].text, cases[i].path) == cases[i].is_ignored,
			  "%zu: '%s' of '%s'", i, cases[i].path, cases[i].text);
}

static void test_the_nearest_file_has_the_say(void)
{
	char outer_text[] = "a\nb\n", inner_text[] = "!a\n/c\n";
	struct git_ignore outer = { .text = outer_text, .len = strlen(outer_text) };
	struct git_ignore inner = {
		.above = &outer, .dir_len = 1, .text = inner_text, .len = strlen(inner_text)
	};

	CHECK(git_is_ignored(&outer, "a") && git_is_ignored(&outer, "x/a"));
	CHECK(!git_is_ignored(&inner, "x/a") && git_is_ignored(&inner, "x/b"));
	CHECK(git_is_ignored(&inner, "x/c") && !git_is_ignored(&inner, "x/y/c"));
	CHECK(!git_ignore_has_changed(&inner));
	outer.is_changed = true;
	CHECK(git_ignore_has_changed(&inner));
	inner.is_blind = true;
	CHECK(!git_is_ignored(&inner, "x/b"));
}

static void put(int dir_fd, const void *data, size_t len)
{
	int fd = openat(dir_fd, ".gitignore", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(fd >= 0 && write(fd, data, len) == (ssize_t)len);
	close(fd);
}

static struct git_ignore reread(int dir_fd, const struct timespec *since, bool dir_changed)
{
	struct git_ignore ret = { .above = NULL };

	CHECK(git_ignore_read(dir_fd, ".gitignore", since, dir_changed, &ret) == 0);
	git_ignore_done(&ret);
	return ret;
}

static void test_files(void)
{
	char name[] = "/tmp/cordon-ignored.XXXXXX";
	const struct timespec past = { .tv_sec = 1 }, future = { .tv_sec = (time_t)1 << 40 };
	struct git_ignore got;
	char *large = calloc(1, GIT_IGNORE_MAX + 1);
	int fd = open(mkdtemp(name) ? name : "", O_PATH | O_DIRECTORY | O_CLOEXEC);

	CHECK(fd >= 0 && large);
	got = reread(fd, &past, false);
	CHECK(!got.is_changed && !got.is_blind && got.len == 0);
	CHECK(reread(fd, &past, true).is_changed); /* it may be gone */
	put(fd, "a\n", 2);
	got = reread(fd, &future, true);
	CHECK(!got.is_changed && !got.is_blind && got.len == 2);
	CHECK(reread(fd, &past, false).is_changed);
	put(fd, "a\0b\n", 4);
	CHECK(reread(fd, &future, false).is_blind);
	memset(large, '\n', GIT_IGNORE_MAX + 1);
	put(fd, large, GIT_IGNORE_MAX + 1);
	CHECK(reread(fd, &future, false).is_blind);
	CHECK(unlinkat(fd, ".gitignore", 0) == 0 && symlinkat("x", fd, ".gitignore") == 0);
	got = reread(fd, &future, false);
	CHECK(got.is_blind && got.is_changed);
	free(large);
	unlinkat(fd, ".gitignore", 0);
	close(fd);
	CHECK(rmdir(name) == 0);
}

TAP_MAIN(test_patterns, test_the_nearest_file_has_the_say, test_files)

/* SPDX-License-Identifier: Apache-2.0 */
/* Line diffs: applied again, compared with the longest common subsequence, and given to diff's
 * companions where they are installed. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/textdiff.h"
#include "tap.h"

static uint64_t seed = 88172645463325252u;

static unsigned next_random(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)(seed >> 11) % n;
}

static void unified(const char *a, const char *b, struct strbuf *sb)
{
	struct textdiff d;

	REQUIRE(textdiff_make(a, strlen(a), b, strlen(b), 0, &d) == 0);
	textdiff_unified(&d, 3, sb);
	textdiff_done(&d);
}

static void check_unified(const char *a, const char *b, const char *want)
{
	struct strbuf sb = STRBUF_INIT;

	unified(a, b, &sb);
	CHECK_STR(sb.data ? sb.data : "", want);
	strbuf_done(&sb);
}

static void test_known(void)
{
	check_unified("", "", "");
	check_unified("a\n", "a\n", "");
	check_unified("", "a\n", "@@ -0,0 +1 @@\n+a\n");
	check_unified("a\n", "", "@@ -1 +0,0 @@\n-a\n");
	check_unified("a\nb\n", "", "@@ -1,2 +0,0 @@\n-a\n-b\n");
	check_unified("a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n");
	check_unified("a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
	check_unified("a\n", "a", "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n");
	check_unified("x\na", "y\na",
		      "@@ -1,2 +1,2 @@\n-x\n+y\n a\n\\ No newline at end of file\n");
	check_unified("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\n5\n6\n7\n8\nx\n",
		      "@@ -6,4 +6,4 @@\n 6\n 7\n 8\n-9\n+x\n");
	/* Six equal lines between two changes: one hunk; seven: two. */
	check_unified("a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n",
		      "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n");
	check_unified("a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n",
		      "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n"
		      "@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n");
	/* What was added ends where the next thing begins. */
	check_unified("x\n{\n1\n}\n{\n3\n}\ny\n", "X\n{\n1\n}\n{\n2\n}\n{\n3\n}\nY\n",
		      "@@ -1,8 +1,11 @@\n-x\n+X\n {\n 1\n }\n {\n+2\n+}\n+{\n 3\n }\n-y\n+Y\n");
	check_unified("\n\n\n", "\n\n", "@@ -1,3 +1,2 @@\n \n \n-\n");
}

static void test_bytes(void)
{
	static const char a[] = "a\0b\nc\n", b[] = "a\0x\nc\n";
	struct strbuf sb = STRBUF_INIT;
	struct textdiff d;

	REQUIRE(textdiff_make(a, sizeof(a) - 1, b, sizeof(b) - 1, 0, &d) == 0);
	CHECK_INT(d.n, 1);
	textdiff_unified(&d, 3, &sb);
	CHECK_INT(sb.len, strlen("@@ -1,2 +1,2 @@\n") + 5 + 5 + 3);
	textdiff_done(&d);
	strbuf_done(&sb);
}

/* The new text, made of the old one and the edits. */
static void apply(const struct textdiff *d, struct strbuf *sb)
{
	uint32_t a = 0;

	for (size_t i = 0; i < d->n; i++) {
		const struct textdiff_edit *e = &d->edits[i];

		CHECK(e->a >= a && (i == 0 || e->a > a) && e->na + e->nb > 0);
		strbuf_add(sb, d->old_side.data + d->old_side.start[a],
			   d->old_side.start[e->a] - d->old_side.start[a]);
		strbuf_add(sb, d->new_side.data + d->new_side.start[e->b],
			   d->new_side.start[e->b + e->nb] - d->new_side.start[e->b]);
		a = e->a + e->na;
	}
	strbuf_add(sb, d->old_side.data + d->old_side.start[a],
		   d->old_side.start[d->old_side.n] - d->old_side.start[a]);
}

static size_t changed_lines(const struct textdiff *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++)
		n += d->edits[i].na + d->edits[i].nb;
	return n;
}

#define LCS_MAX 64

/* How many lines must change at least, by the textbook. */
static size_t least_changes(const struct textdiff *d)
{
	static unsigned t[LCS_MAX + 1][LCS_MAX + 1];
	const struct textdiff_side *a = &d->old_side, *b = &d->new_side;

	memset(t, 0, sizeof(t));
	for (uint32_t i = a->n; i-- > 0;) {
		for (uint32_t j = b->n; j-- > 0;) {
			uint32_t la = a->start[i + 1] - a->start[i];
			uint32_t lb = b->start[j + 1] - b->start[j];

			if (la == lb && !memcmp(a->data + a->start[i], b->data + b->start[j], la))
				t[i][j] = t[i + 1][j + 1] + 1;
			else
				t[i][j] = t[i + 1][j] > t[i][j + 1] ? t[i + 1][j] : t[i][j + 1];
		}
	}
	return a->n + b->n - 2 * t[0][0];
}

static void random_text(struct strbuf *sb, unsigned lines, unsigned alphabet)
{
	strbuf_add(sb, "", 0);
	for (unsigned i = 0; i < lines; i++)
		strbuf_printf(sb, "%c%s", 'a' + (int)next_random(alphabet),
			      i + 1 < lines || next_random(2) ? "\n" : "");
}

static void test_random(void)
{
	for (unsigned round = 0; round < 20000; round++) {
		struct strbuf a = STRBUF_INIT, b = STRBUF_INIT, made = STRBUF_INIT;
		unsigned alphabet = 1 + next_random(8);
		struct textdiff d;

		random_text(&a, next_random(LCS_MAX), alphabet);
		random_text(&b, next_random(LCS_MAX), alphabet);
		REQUIRE(textdiff_make(a.data, a.len, b.data, b.len, 0, &d) == 0);
		CHECK(!d.is_rough);
		strbuf_add(&made, "", 0);
		apply(&d, &made);
		CHECK_STR(made.data, b.data);
		CHECK_INT(changed_lines(&d), least_changes(&d));
		textdiff_done(&d);
		/* With hardly anything to spend it is longer, and as right. */
		REQUIRE(textdiff_make(a.data, a.len, b.data, b.len, 1 + next_random(60), &d) == 0);
		made.len = 0;
		strbuf_add(&made, "", 0);
		apply(&d, &made);
		CHECK_STR(made.data, b.data);
		textdiff_done(&d);
		strbuf_done(&a);
		strbuf_done(&b);
		strbuf_done(&made);
	}
}

static void test_bounds(void)
{
	size_t len = 2u * (TEXTDIFF_LINES_MAX + 1u);
	char *a = malloc(len), *b = malloc(len);
	struct strbuf made = STRBUF_INIT;
	struct textdiff d;

	if (!a || !b)
		abort();
	for (size_t i = 0; i < len; i += 2) {
		a[i] = (char)('a' + next_random(2));
		b[i] = (char)('a' + next_random(2));
		a[i + 1] = b[i + 1] = '\n';
	}
	CHECK_INT(textdiff_make(a, len, b, len, 0, &d), -E2BIG);
	/* Two million lines with a million differences: given up, and right. */
	len -= 2;
	REQUIRE(textdiff_make(a, len, b, len, 0, &d) == 0);
	CHECK(d.is_rough);
	apply(&d, &made);
	CHECK(made.len == len && memcmp(made.data, b, len) == 0);
	textdiff_done(&d);
	strbuf_done(&made);
	free(a);
	free(b);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	REQUIRE(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static int run(char *const argv[])
{
	extern char **environ;
	pid_t pid;
	int status;

	if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) != 0)
		return -1;
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* git takes what was written for what it is. */
static void test_git_applies(void)
{
	char dir[] = "/tmp/textdiff-XXXXXX";
	char path[64], patch[64];

	if (access("/usr/bin/git", X_OK) != 0)
		SKIP("no git");
	REQUIRE(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/f", dir);
	snprintf(patch, sizeof(patch), "%s/p", dir);
	for (unsigned round = 0; round < 60; round++) {
		struct strbuf a = STRBUF_INIT, b = STRBUF_INIT, sb = STRBUF_INIT;
		char *argv[] = { "/usr/bin/git",	"-C",  dir, "apply",
				 "--whitespace=nowarn", patch, NULL };
		char got[4096];
		ssize_t n;
		int fd;

		random_text(&a, 1 + next_random(60), 2 + next_random(20));
		random_text(&b, 1 + next_random(60), 2 + next_random(20));
		strbuf_puts(&sb, "diff --git a/f b/f\n--- a/f\n+++ b/f\n");
		unified(a.data, b.data, &sb);
		write_file(path, a.data);
		write_file(patch, sb.data);
		if (strcmp(a.data, b.data) != 0)
			CHECK_INT(run(argv), 0);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = read(fd, got, sizeof(got) - 1);
		close(fd);
		REQUIRE(n >= 0);
		got[n] = '\0';
		CHECK_STR(got, b.data);
		strbuf_done(&a);
		strbuf_done(&b);
		strbuf_done(&sb);
	}
	unlink(path);
	unlink(patch);
	rmdir(dir);
}

TAP_MAIN(test_known, test_bytes, test_random, test_bounds, test_git_applies)

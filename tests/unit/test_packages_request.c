/* SPDX-License-Identifier: Apache-2.0 */
/* From words and files to a request: what is the same wish, what is none, and the index's secrets.
 */
#include "packages/packages.h"

#include <stdlib.h>
#include <unistd.h>

#include "tap.h"

struct fixture {
	struct arena arena;
	struct request requests[INSTALLER_MAX];
	struct cordon_packages_options options;
	struct cordon_error err;
};

static int read_words(struct fixture *f, const char *const *words)
{
	*f = (struct fixture){ .options = CORDON_PACKAGES_OPTIONS_INIT };
	f->options.specs = words;
	return request_read(f->requests, &f->arena, &f->options, &f->err);
}

static int read_one(struct fixture *f, const char *word)
{
	const char *words[] = { word, NULL };

	return read_words(f, words);
}

static const char *wanted(const struct fixture *f, enum installer installer, size_t i)
{
	const struct strlist *l = &f->requests[installer].wanted;

	return i < l->n ? l->v[i] : NULL;
}

static void test_same_wish(void)
{
	static const char *const pairs[][2] = {
		{ "Requests", "requests" },
		{ "zope.interface==5", "zope-interface==5" },
		{ "a__b", "a-b" },
		{ " one  >= 1.0 , < 2 ", "one>=1.0,<2" },
		{ "one[x, y]", "one[x,y]" },
		{ "one ; python_version  < '3.9'", "one; python_version < '3.9'" },
	};
	struct fixture f;

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		CHECK_INT(read_one(&f, pairs[i][0]), 0);
		CHECK_STR(wanted(&f, INSTALLER_PIP, 0), pairs[i][1]);
		arena_done(&f.arena);
	}
}

static void test_sorted(void)
{
	static const char *const words[] = { "two", "npm:b", "one", "TWO", "npm:a@1", NULL };
	struct fixture f;

	CHECK_INT(read_words(&f, words), 0);
	CHECK_STR(wanted(&f, INSTALLER_PIP, 0), "one");
	CHECK_STR(wanted(&f, INSTALLER_PIP, 1), "two");
	CHECK(!wanted(&f, INSTALLER_PIP, 2));
	CHECK_STR(wanted(&f, INSTALLER_NPM, 0), "a@1");
	CHECK_STR(wanted(&f, INSTALLER_NPM, 1), "b@latest");
	arena_done(&f.arena);
}

static void test_refused(void)
{
	static const char *const words[] = { "",
					     "-r x",
					     "--pre",
					     "./x",
					     "a/b",
					     "x @ y",
					     "npm:",
					     "npm:A",
					     "npm:a@",
					     "npm:@a",
					     "npm:@a/",
					     "npm:a@b:c",
					     "npm:a/b",
					     "npm:.a",
					     "npm:a@/x",
					     "npm:a b",
					     "one\n-e .",
					     "*",
					     "\303\244",
					     "one -e .",
					     "one\t1",
					     "one\f",
					     "one\\",
					     "one==${X}",
					     "one\302\205",
					     "one; a --pre",
					     "npm:a@.",
					     "npm:a@..",
					     "npm:a@ .x",
					     "npm:a@x.tgz",
					     "npm:a@x.TAR.gz" };
	struct fixture f;

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		CHECK_INT(read_one(&f, words[i]), -CORDON_E_USAGE);
		arena_done(&f.arena);
	}
}

static int read_text(struct fixture *f, const char *text)
{
	char path[] = "/tmp/cordon-unit-XXXXXX";
	const char *files[] = { path, NULL };
	int fd = mkstemp(path), r;

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	*f = (struct fixture){ .options = CORDON_PACKAGES_OPTIONS_INIT };
	f->options.files = files;
	r = request_read(f->requests, &f->arena, &f->options, &f->err);
	close(fd);
	unlink(path);
	return r;
}

static void test_files(void)
{
	static const char *const wrong[] = {
		"one; a\t--pre",
		"one --hash sha256:00",
		"one --hash=sha256:",
		"one --hash=:00",
		"one --hash=sha256:0g",
		"one --hash=sha256:00 x",
		"one --hash=sha256:00\f--pre",
		"one --hash=sha256:00\302\205--pre",
		"one @ file:x --hash=sha256:00",
		"one==${X} --hash=sha256:00",
		"one\\",
		"one\f --hash=sha256:00",
		"one - --hash=sha256:00",
	};
	struct fixture f;

	CHECK_INT(read_text(&f, "# all\r\nOne == 1 # why\r\n\n  two\\\n >=2\nthree"), 0);
	CHECK_STR(wanted(&f, INSTALLER_PIP, 0), "one==1");
	CHECK_STR(wanted(&f, INSTALLER_PIP, 1), "three");
	CHECK_STR(wanted(&f, INSTALLER_PIP, 2), "two>=2");
	CHECK(!f.requests[INSTALLER_PIP].has_hashes);
	arena_done(&f.arena);
	CHECK_INT(read_text(&f, "one==1 \\\n  --hash=sha256:00 \\\n --hash=sha256:11\n"), 0);
	CHECK(f.requests[INSTALLER_PIP].has_hashes && f.requests[INSTALLER_PIP].wanted.n == 1);
	CHECK(strstr(wanted(&f, INSTALLER_PIP, 0), "sha256:11") != NULL);
	arena_done(&f.arena);
	CHECK(read_text(&f, "-i http://x\n") < 0);
	arena_done(&f.arena);
	CHECK(read_text(&f, "one --config-settings=x\n") < 0);
	arena_done(&f.arena);
	CHECK_INT(read_text(&f, "one==1; python_version > '3'\t--hash=sha256:aF\t# why\n"), 0);
	CHECK_STR(wanted(&f, INSTALLER_PIP, 0), "one==1; python_version > '3' --hash=sha256:aF");
	arena_done(&f.arena);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		CHECK_INT(read_text(&f, wrong[i]), -CORDON_E_USAGE);
		arena_done(&f.arena);
	}
	CHECK_INT(read_text(&f, ""), 0);
	CHECK(request_is_empty(&f.requests[INSTALLER_PIP]));
	arena_done(&f.arena);
}

static void check_index(const char *url, const char *clean, const char *rule, size_t secrets)
{
	struct fixture f;
	struct request *rq = &f.requests[INSTALLER_PIP];

	CHECK_INT(read_one(&f, "one"), 0);
	CHECK_INT(index_add(rq, url, &f.err), 0);
	CHECK_STR(rq->index.v[0], clean);
	CHECK_STR(rq->hosts.v[0], rule);
	CHECK_INT((int)rq->secrets.n, (int)secrets);
	arena_done(&f.arena);
}

static void test_index(void)
{
	static const char *const wrong[] = { "",
					     "x",
					     "file:///x",
					     "http://",
					     "ftp://x.org",
					     "http://x:0/",
					     "http://x:y/",
					     "http://x:70000/" };
	struct fixture f;

	check_index("https://x.org/simple", "https://x.org/simple", "x.org:443", 0);
	check_index("http://x.org:8080", "http://x.org:8080", "x.org:8080", 0);
	check_index("https://ada:pw@x.org/s", "https://x.org/s", "x.org:443", 2);
	check_index("https://token@x.org/s", "https://x.org/s", "x.org:443", 1);
	check_index("http://127.0.0.1:81/", "http://127.0.0.1:81/", "localhost:81", 0);
	check_index("http://[::1]:81/", "http://[::1]:81/", "localhost:81", 0);
	check_index("http://[fd00::2]/", "http://[fd00::2]/", "[fd00::2]:80", 0);
	check_index("https://a:b@c@x.org/", "https://x.org/", "x.org:443", 2);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		CHECK_INT(read_one(&f, "one"), 0);
		CHECK_INT(index_add(&f.requests[0], wrong[i], &f.err), -CORDON_E_USAGE);
		arena_done(&f.arena);
	}
}

static void test_default_index(void)
{
	static const char *const taken[] = { "https://x.org/simple", "http://a.b-c.example:8080",
					     "https://1.example.com" };
	static const char *const refused[] = {
		"https://localhost/",
		"http://a.localhost/",
		"http://printer.local/",
		"https://localhost./",
		"https://intranet/",
		"http://127.0.0.1/",
		"http://127.1/",
		"http://0x7f.0x1/",
		"http://[::1]/",
		"http://[fd00::2.a]/",
		"http://169.254.169.254/",
		"http://a.LOCAL/",
		"https://a:b@x.org/",
		"http://.org/",
		"http://x,y.org/",
		"http://*.org/",
		"ftp://x.org/",
		"http://a.localdomain/",
	};

	for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++)
		CHECK(index_is_public(taken[i]));
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		CHECK(!index_is_public(refused[i]));
}

/* Neither the order of words nor a password changes the key; everything else does. */
static void test_key(void)
{
	static const char *const words[] = { "one", "two", NULL }, *const turned[] = { "two", "One",
										       NULL };
	static const char *const urls[] = { "https://a:b@x.org/", "https://x.org/",
					    "https://y.org/" };
	char keys[3][KEY_SIZE];
	struct fixture f;

	for (size_t i = 0; i < 3; i++) {
		struct request *rq = &f.requests[INSTALLER_PIP];

		CHECK_INT(read_words(&f, i == 0 ? words : turned), 0);
		CHECK_INT(index_add(rq, urls[i], &f.err), 0);
		rq->platform = "p";
		CHECK_INT(request_make_key(rq, &f.err), 0);
		memcpy(keys[i], rq->key, KEY_SIZE);
		CHECK(is_key(keys[i]));
		rq->program = "/usr/bin/other";
		CHECK_INT(request_make_key(rq, &f.err), 0);
		CHECK(strcmp(rq->key, keys[i]) != 0);
		rq->program = NULL;
		f.options.may_build = 1;
		CHECK_INT(request_make_key(rq, &f.err), 0);
		CHECK(strcmp(rq->key, keys[i]) != 0);
		arena_done(&f.arena);
	}
	CHECK_STR(keys[0], keys[1]);
	CHECK(strcmp(keys[1], keys[2]) != 0);
}

TAP_MAIN(test_same_wish, test_sorted, test_refused, test_files, test_index, test_default_index,
	 test_key)

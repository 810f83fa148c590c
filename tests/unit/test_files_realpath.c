/* SPDX-License-Identifier: Apache-2.0 */
/* The file protocol's REALPATH: links, dots, names that are not there, loops, lengths. */
#include "test_files_lib.h"

static const struct {
	const char *path;
	int error;
	const char *below; /* the answer below the directory; NULL = `whole` is the answer */
	const char *whole;
} cases[] = {
	{ "file", 0, "file", NULL },
	{ "./d//.//e/../e/", 0, "d/e", NULL },
	{ "missing", 0, "missing", NULL },
	{ "missing/and/../below", 0, "missing/below", NULL },
	{ "file/below", 0, "file/below", NULL },
	{ "to-dir/missing", 0, "d/e/missing", NULL },
	{ "to-dir/..", 0, "d", NULL },
	{ "d/up/missing", 0, "out/missing", NULL },
	{ "d/up/../file", 0, "file", NULL },
	{ "dangling", 0, "gone", NULL },
	{ "chain", 0, "file", NULL },
	{ "root/usr/..", 0, NULL, "/" },
	{ "root/../../..", 0, NULL, "/" },
	{ "/", 0, NULL, "/" },
	{ "//usr//", 0, NULL, "/usr" },
	{ "root/usr", 0, NULL, "/usr" },
	{ "loop", ELOOP, NULL, "" },
	{ "d/loop1/q", ELOOP, NULL, "" },
	{ "grows", ELOOP, NULL, "" },
};
#define N_CASES (sizeof(cases) / sizeof(cases[0]))

static void make_links(const struct fx *f)
{
	CHECK_INT(mkdir(fx_host(f, "d"), 0755), 0);
	CHECK_INT(mkdir(fx_host(f, "d/e"), 0755), 0);
	fx_file(f, "file", "x");
	CHECK_INT(symlink("d/e", fx_host(f, "to-dir")), 0);
	CHECK_INT(symlink("../out", fx_host(f, "d/up")), 0);
	CHECK_INT(symlink("gone", fx_host(f, "dangling")), 0);
	CHECK_INT(symlink("./d/../chain2", fx_host(f, "chain")), 0);
	CHECK_INT(symlink("to-dir/../../file", fx_host(f, "chain2")), 0);
	CHECK_INT(symlink("/", fx_host(f, "root")), 0);
	CHECK_INT(symlink("loop", fx_host(f, "loop")), 0);
	CHECK_INT(symlink("loop2", fx_host(f, "d/loop1")), 0);
	CHECK_INT(symlink("loop1", fx_host(f, "d/loop2")), 0);
	CHECK_INT(symlink("grows/and/grows", fx_host(f, "grows")), 0);
}

static void check_cases(const char *level)
{
	char want[2 * PATH_MAX];
	struct fx f;

	fx_init(&f, level);
	make_links(&f);
	for (size_t i = 0; i < N_CASES; i++)
		fx_ask(&f, CORDON_FILES_REALPATH, 0, cases[i].path, NULL, NULL, NULL);
	fx_run(&f);
	for (size_t i = 0; i < N_CASES; i++) {
		printf("# %s\n", cases[i].path);
		snprintf(want, sizeof(want), "%s/%s", f.dir, cases[i].below ? cases[i].below : "");
		fx_expect(&f, cases[i].error, cases[i].below ? want : cases[i].whole);
	}
	fx_ended(&f, 0);
	fx_done(&f);
}

static void test_links_and_dots(void)
{
	check_cases("namespaces");
	check_cases("landlock");
}

/* Targets that add up to more than a path may have: an error, not a cut. */
static void test_too_long(void)
{
	char name[201], target[PATH_MAX] = "";
	struct fx f;

	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (int i = 0; i < 19; i++) {
		strcat(target, name);
		strcat(target, "/");
	}
	fx_init(&f, "namespaces");
	CHECK_INT(symlink(target, fx_host(&f, "long")), 0);
	snprintf(target, sizeof(target), "long/%s/%s", name, name);
	fx_ask(&f, CORDON_FILES_REALPATH, 0, "long", NULL, NULL, NULL);
	fx_ask(&f, CORDON_FILES_REALPATH, 0, target, NULL, NULL, NULL);
	fx_run(&f);
	CHECK_INT(fx_take(&f).error, 0);
	CHECK_INT(fx_take(&f).error, ENAMETOOLONG);
	fx_ended(&f, 0);
	fx_done(&f);
}

TAP_MAIN(test_links_and_dots, test_too_long)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file protocol through the library: each operation and what can be in its way, at both levels.
 * As root everything is done once more as an ordinary user.
 */
#include "test_files_lib.h"

#include <sys/socket.h>
#include <sys/un.h>

#define READ_MAX(from, most)                                                                       \
	(&(const struct cordon_files_request){ .offset = (from), .max = (most) })
#define MODE(bits) (&(const struct cordon_files_request){ .mode = (bits) })
#define DEPTH(levels, most)                                                                        \
	(&(const struct cordon_files_request){ .depth = (levels), .max = (most) })

/* Reading and writing. */
static void test_content(struct fx *f)
{
	const struct cordon_files_request script = { .mode = 0755, .data_len = 3 };
	struct fx_answer a;
	struct stat st;

	fx_write(f, 0, "new", "hello");
	fx_ask(f, CORDON_FILES_READ, 0, "new", NULL, NULL, NULL);
	fx_write(f, 0, "new", "bye");
	fx_write(f, CORDON_FILES_APPEND, "new", ", all");
	fx_ask(f, CORDON_FILES_READ, 0, fx_host(f, "new"), NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_READ, 0, "new", NULL, READ_MAX(1, 4), NULL);
	fx_ask(f, CORDON_FILES_READ, 0, "new", NULL, READ_MAX(4, 4), NULL);
	fx_ask(f, CORDON_FILES_READ, 0, "new", NULL, READ_MAX(100, 0), NULL);
	fx_write(f, CORDON_FILES_EXCL, "new", "never");
	fx_write(f, 0, "a/b/c", "no");
	fx_write(f, CORDON_FILES_PARENTS, "a/b/c", "deep");
	fx_write(f, CORDON_FILES_PARENTS, "a/b/c", "deeper");
	fx_write(f, CORDON_FILES_PARENTS, "new/b", "below a file");
	fx_ask(f, CORDON_FILES_READ, 0, "a/b/c", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_WRITE, 0, "new", NULL, &script, "#!x");
	fx_write(f, 0, "", "no name");
	fx_run(f);
	fx_expect(f, 0, "");
	fx_expect(f, 0, "hello");
	fx_expect(f, 0, "");
	fx_expect(f, 0, "");
	fx_expect(f, 0, "bye, all");
	a = fx_take(f);
	CHECK(a.len == 4 && memcmp(a.data, "ye, ", 4) == 0 && a.flags == CORDON_FILES_MORE);
	a = fx_take(f);
	CHECK(a.len == 4 && memcmp(a.data, " all", 4) == 0 && a.flags == 0);
	fx_expect(f, 0, "");
	fx_expect(f, EEXIST, "");
	fx_expect(f, ENOENT, "");
	fx_expect(f, 0, "");
	fx_expect(f, 0, "");
	fx_expect(f, ENOTDIR, "");
	fx_expect(f, 0, "deeper");
	fx_expect(f, 0, "");
	fx_expect(f, ENOENT, "");
	fx_ended(f, 0);
	CHECK(lstat(fx_host(f, "a/b/c"), &st) == 0 && (st.st_mode & 07777) == 0644);
	CHECK(st.st_uid == geteuid());
	CHECK(lstat(fx_host(f, "new"), &st) == 0 && (st.st_mode & 07777) == 0755);
}

/* What is no regular file is neither waited for nor written to. */
static void test_types(struct fx *f)
{
	static const char *const names[] = { "fifo", "socket", "dir", "loop", "/dev/null" };
	static const int errors[] = { ENODEV, ENODEV, EISDIR, ELOOP, ENODEV };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", fx_host(f, "socket"));
	CHECK_INT(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	CHECK_INT(mkfifo(fx_host(f, "fifo"), 0666), 0);
	CHECK_INT(mkdir(fx_host(f, "dir"), 0755), 0);
	CHECK_INT(symlink("loop", fx_host(f, "loop")), 0);
	fx_file(f, "file", "x");
	CHECK_INT(symlink("file", fx_host(f, "link")), 0);
	for (size_t i = 0; i < 5; i++) {
		fx_ask(f, CORDON_FILES_READ, 0, names[i], NULL, NULL, NULL);
		fx_write(f, 0, names[i], "text");
	}
	fx_ask(f, CORDON_FILES_READ, CORDON_FILES_NOFOLLOW, "link", NULL, NULL, NULL);
	fx_write(f, CORDON_FILES_NOFOLLOW, "link", "text");
	fx_ask(f, CORDON_FILES_READ, 0, "link", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_LIST, 0, "link", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_LIST, 0, "loop", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_STAT, 0, "loop", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REALPATH, 0, "loop", NULL, NULL, NULL);
	fx_run(f);
	for (size_t i = 0; i < 5; i++) {
		fx_expect(f, errors[i], "");
		fx_expect(f, errors[i], "");
	}
	fx_expect(f, ELOOP, "");
	fx_expect(f, ELOOP, "");
	fx_expect(f, 0, "x");
	fx_expect(f, ENOTDIR, "");
	fx_expect(f, ELOOP, "");
	fx_expect(f, ELOOP, "");
	fx_expect(f, ELOOP, "");
	fx_ended(f, 0);
}

static void test_stat(struct fx *f)
{
	struct fx_record record;
	struct fx_answer a;
	struct stat st;
	size_t at = 0;

	fx_file(f, "file", "12345");
	CHECK_INT(symlink("file", fx_host(f, "link")), 0);
	CHECK_INT(lstat(fx_host(f, "file"), &st), 0);
	fx_ask(f, CORDON_FILES_STAT, 0, "link", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_STAT, CORDON_FILES_NOFOLLOW, "link", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_STAT, 0, "missing", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_STAT, 0, "file/below", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_READLINK, 0, "link", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_READLINK, 0, "file", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REALPATH, 0, "../../tmp/../link", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REALPATH, 0, "link", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REALPATH, 0, ".", NULL, NULL, NULL);
	fx_run(f);
	a = fx_take(f);
	CHECK(fx_record(&a, &at, &record) && at == a.len);
	CHECK_INT(record.head.size, 5);
	CHECK_INT(record.head.mtime_ns, st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
	CHECK_INT(record.head.mode, st.st_mode);
	CHECK_INT(record.head.name_len + record.head.target_len, 0);
	a = fx_take(f);
	at = 0;
	CHECK(fx_record(&a, &at, &record) && at == a.len);
	CHECK(S_ISLNK(record.head.mode) && record.head.target_len == 4 &&
	      memcmp(record.target, "file", 4) == 0);
	fx_expect(f, ENOENT, "");
	fx_expect(f, ENOTDIR, "");
	fx_expect(f, 0, "file");
	fx_expect(f, EINVAL, "");
	fx_expect(f, 0, "/link");
	fx_expect(f, 0, fx_host(f, "file"));
	fx_expect(f, 0, f->dir);
	fx_ended(f, 0);
}

static void test_names(struct fx *f)
{
	char long_path[CORDON_FILES_PATH_MAX + 1];
	struct stat st;

	memset(long_path, 'x', sizeof(long_path) - 1);
	long_path[sizeof(long_path) - 1] = '\0';
	fx_file(f, "one", "1");
	fx_file(f, "two", "2");
	fx_ask(f, CORDON_FILES_MKDIR, 0, "d/e", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_MKDIR, CORDON_FILES_PARENTS, "d/e//f/", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_MKDIR, CORDON_FILES_PARENTS, "d/e", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_MKDIR, CORDON_FILES_EXIST_OK, "d/e", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_MKDIR, CORDON_FILES_EXIST_OK, "one", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_MKDIR, CORDON_FILES_EXIST_OK, "/", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_MKDIR, 0, "m", NULL, MODE(0711), NULL);
	fx_ask(f, CORDON_FILES_RENAME, CORDON_FILES_EXCL, "one", "two", NULL, NULL);
	fx_ask(f, CORDON_FILES_RENAME, 0, "one", "two", NULL, NULL);
	fx_ask(f, CORDON_FILES_RENAME, 0, "one", "two", NULL, NULL);
	fx_ask(f, CORDON_FILES_READ, 0, "two", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_CHMOD, 0, "two", NULL, MODE(0600), NULL);
	fx_ask(f, CORDON_FILES_CHMOD, 0, "nobody", NULL, MODE(0600), NULL);
	fx_ask(f, CORDON_FILES_CHMOD, 0, "two", NULL, MODE(04755), NULL);
	fx_ask(f, CORDON_FILES_SYMLINK, 0, "s", "/some/where", NULL, NULL);
	fx_ask(f, CORDON_FILES_SYMLINK, 0, "s", "/else", NULL, NULL);
	fx_ask(f, CORDON_FILES_READLINK, 0, "s", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_STAT, 0, long_path, NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_RENAME, 0, "two", long_path, NULL, NULL);
	fx_run(f);
	fx_expect(f, ENOENT, "");
	fx_expect(f, 0, "");
	fx_expect(f, EEXIST, "");
	fx_expect(f, 0, "");
	fx_expect(f, EEXIST, "");
	fx_expect(f, 0, "");
	fx_expect(f, 0, "");
	fx_expect(f, EEXIST, "");
	fx_expect(f, 0, "");
	fx_expect(f, ENOENT, "");
	fx_expect(f, 0, "1");
	fx_expect(f, 0, "");
	fx_expect(f, ENOENT, "");
	fx_expect(f, EPERM, "");
	fx_expect(f, 0, "");
	fx_expect(f, EEXIST, "");
	fx_expect(f, 0, "/some/where");
	fx_expect(f, ENAMETOOLONG, "");
	fx_expect(f, ENAMETOOLONG, "");
	fx_ended(f, 0);
	CHECK(lstat(fx_host(f, "m"), &st) == 0 && (st.st_mode & 07777) == 0711);
	CHECK(lstat(fx_host(f, "two"), &st) == 0 && (st.st_mode & 07777) == 0600);
	CHECK(lstat(fx_host(f, "d/e/f"), &st) == 0 && (st.st_mode & 07777) == 0755);
}

static void test_list(struct fx *f)
{
	struct fx_record record;
	struct fx_answer a;

	CHECK_INT(mkdir(fx_host(f, "d"), 0755), 0);
	CHECK_INT(mkdir(fx_host(f, "d/e"), 0755), 0);
	CHECK_INT(mkdir(fx_host(f, "d/e/g"), 0755), 0);
	CHECK_INT(mkdir(fx_host(f, "other"), 0755), 0);
	fx_file(f, "d/e/g/deep", "1234");
	fx_file(f, "top", "12");
	CHECK_INT(symlink("d", fx_host(f, "to d")), 0);
	CHECK_INT(symlink("..", fx_host(f, "d/up")), 0);
	fx_ask(f, CORDON_FILES_LIST, 0, ".", NULL, DEPTH(1, 0), NULL);
	fx_ask(f, CORDON_FILES_LIST, 0, ".", NULL, DEPTH(2, 0), NULL);
	fx_ask(f, CORDON_FILES_LIST, 0, f->dir, NULL, DEPTH(0, 0), NULL);
	fx_ask(f, CORDON_FILES_LIST, 0, ".", NULL, DEPTH(0, 3), NULL);
	fx_ask(f, CORDON_FILES_LIST, 0, ".", NULL, DEPTH(1, 4), NULL);
	fx_ask(f, CORDON_FILES_LIST, 0, "to d", NULL, DEPTH(1, 0), NULL);
	fx_ask(f, CORDON_FILES_LIST, CORDON_FILES_NOFOLLOW, "to d", NULL, DEPTH(1, 0), NULL);
	fx_ask(f, CORDON_FILES_LIST, 0, "other", NULL, DEPTH(0, 0), NULL);
	fx_ask(f, CORDON_FILES_LIST, 0, "nobody", NULL, DEPTH(0, 0), NULL);
	fx_run(f);
	a = fx_take(f);
	CHECK_INT(fx_count(&a), 4);
	CHECK(fx_find(&a, "top", &record) && record.head.size == 2 && S_ISREG(record.head.mode));
	CHECK(fx_find(&a, "to d", &record) && record.head.target_len == 1 && *record.target == 'd');
	a = fx_take(f);
	CHECK_INT(fx_count(&a), 6);
	CHECK(fx_find(&a, "d/e", &record) && S_ISDIR(record.head.mode));
	a = fx_take(f);
	CHECK_INT(fx_count(&a), 8);
	CHECK_INT(a.flags, 0);
	CHECK(fx_find(&a, "d/e/g/deep", &record) && record.head.size == 4);
	a = fx_take(f);
	CHECK_INT(fx_count(&a), 3);
	CHECK_INT(a.flags, CORDON_FILES_MORE);
	a = fx_take(f);
	CHECK_INT(fx_count(&a), 4);
	CHECK_INT(a.flags, 0);
	a = fx_take(f);
	CHECK_INT(fx_count(&a), 2);
	fx_expect(f, ENOTDIR, "");
	fx_expect(f, 0, "");
	fx_expect(f, ENOENT, "");
	fx_ended(f, 0);
}

/* What is closed to its owner is closed, also when root started the run. */
static void test_closed(struct fx *f)
{
	struct fx_record record;
	struct fx_answer a;

	fx_file(f, "shut", "secret");
	CHECK_INT(chmod(fx_host(f, "shut"), 0), 0);
	CHECK_INT(mkdir(fx_host(f, "dir"), 0755), 0);
	CHECK_INT(mkdir(fx_host(f, "half"), 0755), 0);
	CHECK_INT(mkdir(fx_host(f, "half/sub"), 0755), 0);
	fx_file(f, "half/file", "1");
	CHECK_INT(chmod(fx_host(f, "dir"), 0), 0);
	CHECK_INT(chmod(fx_host(f, "half"), 0400), 0);
	fx_ask(f, CORDON_FILES_READ, 0, "shut", NULL, NULL, NULL);
	fx_write(f, 0, "shut", "x");
	fx_ask(f, CORDON_FILES_LIST, 0, "dir", NULL, DEPTH(1, 0), NULL);
	fx_write(f, 0, "dir/x", "x");
	fx_ask(f, CORDON_FILES_STAT, 0, "dir/x", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_LIST, 0, ".", NULL, DEPTH(0, 0), NULL);
	fx_ask(f, CORDON_FILES_REMOVE, 0, "half/file", NULL, NULL, NULL);
	fx_run(f);
	fx_expect(f, EACCES, "");
	fx_expect(f, EACCES, "");
	fx_expect(f, EACCES, "");
	fx_expect(f, EACCES, "");
	fx_expect(f, EACCES, "");
	a = fx_take(f);
	CHECK_INT(a.error, 0);
	CHECK_INT(a.flags, CORDON_FILES_SKIPPED);
	CHECK_INT(fx_count(&a), 5);
	CHECK(fx_find(&a, "half/file", &record) && record.head.mode == S_IFREG);
	fx_expect(f, EACCES, "");
	fx_ended(f, 0);
}

static void test_remove(struct fx *f)
{
	struct stat st;

	CHECK_INT(mkdir(fx_host(f, "tree"), 0755), 0);
	CHECK_INT(mkdir(fx_host(f, "tree/shut"), 0755), 0);
	CHECK_INT(mkdir(fx_host(f, "tree/shut/in"), 0755), 0);
	CHECK_INT(mkdir(fx_host(f, "tree/ro"), 0755), 0);
	CHECK_INT(mkdir(fx_host(f, "keep"), 0755), 0);
	fx_file(f, "tree/shut/in/file", "");
	fx_file(f, "tree/ro/file", "");
	fx_file(f, "keep/file", "");
	CHECK_INT(symlink("../keep", fx_host(f, "tree/link")), 0);
	CHECK_INT(symlink("keep", fx_host(f, "link")), 0);
	CHECK_INT(mkfifo(fx_host(f, "tree/fifo"), 0600), 0);
	CHECK_INT(chmod(fx_host(f, "tree/shut/in"), 0), 0);
	CHECK_INT(chmod(fx_host(f, "tree/shut"), 0), 0);
	CHECK_INT(chmod(fx_host(f, "tree/ro"), 0555), 0);
	fx_ask(f, CORDON_FILES_REMOVE, 0, "tree", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, "tree", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, "tree", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, "link/", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, "/", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, "//", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, ".", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, f->dir, NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, "/tmp", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, "keep/..", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, "keep/.", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, "", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, 0, "keep/file", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, 0, "keep", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_LIST, 0, ".", NULL, NULL, NULL);
	fx_run(f);
	fx_expect(f, ENOTEMPTY, "");
	fx_expect(f, 0, "");
	fx_expect(f, ENOENT, "");
	fx_expect(f, 0, "");
	for (int i = 0; i < 6; i++)
		fx_expect(f, EBUSY, "");
	fx_expect(f, EINVAL, "");
	fx_expect(f, ENOENT, "");
	fx_expect(f, 0, "");
	fx_expect(f, 0, "");
	fx_expect(f, 0, "");
	fx_ended(f, 0);
	CHECK(lstat(fx_host(f, "tree"), &st) < 0 && errno == ENOENT);
}

/* One bad request is the end, with status 2; what came before is answered. */
static void test_malformed(struct fx *f)
{
	const struct cordon_files_request good = { .magic = CORDON_FILES_MAGIC,
						   .op = CORDON_FILES_STAT,
						   .path_len = 1 };
	struct cordon_files_request bad[12];
	size_t n = 0;

	for (size_t i = 0; i < 12; i++)
		bad[i] = good;
	bad[n++].magic++;
	bad[n++].op = 0;
	bad[n++].op = CORDON_FILES_OP_MAX;
	bad[n++].flags = CORDON_FILES_RECURSIVE;
	bad[n++].flags = 64;
	bad[n++].mode = 010000;
	bad[n++].path_len = CORDON_FILES_PATH_MAX + 1;
	bad[n++].path2_len = 1;
	bad[n++].data_len = 1;
	bad[n++].path_len = 2; /* more than there is */
	bad[n++].path_len = UINT32_MAX;
	for (size_t i = 0; i < n; i++) {
		fx_ask(f, CORDON_FILES_READLINK, 0, "nobody", NULL, NULL, NULL);
		fx_put(f, &bad[i], sizeof(bad[i]));
		fx_put(f, ".", 1);
		fx_run(f);
		fx_expect(f, ENOENT, "");
		fx_ended(f, CORDON_FILES_MALFORMED);
	}
	fx_ask(f, CORDON_FILES_STAT, 0, ".", NULL, NULL, NULL);
	f->n--;
	fx_put(f, "", 1); /* NUL */
	fx_run(f);
	fx_ended(f, CORDON_FILES_MALFORMED);
	fx_put(f, &good, sizeof(good) - 1);
	fx_run(f);
	fx_ended(f, CORDON_FILES_MALFORMED);
	fx_run(f);
	fx_ended(f, 0);
}

/* Links that lead out of the view lead nowhere, though they work outside. */
static void test_escape(struct fx *f)
{
	char outside[] = "/var/tmp/cordon-files-XXXXXX", secret[64], text[8] = "";
	FILE *file;
	int fd;

	REQUIRE(mkdtemp(outside) != NULL);
	snprintf(secret, sizeof(secret), "%s/secret", outside);
	file = fopen(secret, "w");
	REQUIRE(file != NULL);
	fputs("secret", file);
	fclose(file);
	CHECK_INT(symlink(secret, fx_host(f, "to secret")), 0);
	CHECK_INT(symlink(outside, fx_host(f, "to dir")), 0);
	/* the positive control */
	fd = open(fx_host(f, "to secret"), O_RDONLY | O_CLOEXEC);
	CHECK_INT(read(fd, text, sizeof(text)), 6);
	close(fd);
	fx_ask(f, CORDON_FILES_READ, 0, "to secret", NULL, NULL, NULL);
	fx_write(f, 0, "to secret", "overwritten");
	fx_write(f, CORDON_FILES_PARENTS, "to dir/new/file", "new");
	fx_ask(f, CORDON_FILES_LIST, 0, "to dir", NULL, DEPTH(0, 0), NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, "to dir/secret", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_REMOVE, CORDON_FILES_RECURSIVE, "to dir/", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_CHMOD, 0, "to secret", NULL, MODE(0777), NULL);
	fx_ask(f, CORDON_FILES_RENAME, 0, secret, "mine", NULL, NULL);
	fx_ask(f, CORDON_FILES_READ, 0, "/etc/shadow", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_WRITE, 0, "/etc/passwd", NULL, NULL, NULL);
	fx_run(f);
	for (int i = 0; i < 10; i++) {
		struct fx_answer a = fx_take(f);

		/* The link itself lies inside. */
		CHECK_MSG(i == 5 ? a.error == 0
				 : a.error == ENOENT || a.error == EACCES || a.error == EROFS ||
					   a.error == EPERM || a.error == EXDEV,
			  "answer %d: %d", i, a.error);
		CHECK_INT((int)a.len, 0);
	}
	fx_ended(f, 0);
	file = fopen(secret, "r");
	REQUIRE(file != NULL);
	CHECK(fread(text, 1, sizeof(text), file) == 6 && memcmp(text, "secret", 6) == 0);
	fclose(file);
	CHECK_INT(unlink(secret), 0);
	CHECK_INT(rmdir(outside), 0);
}

/* Rights are the policy's: a grant to read is none to write. */
static void test_rights(struct fx *f)
{
	static const char *const level_error[] = { "landlock", "namespaces" };
	int closed = strcmp(f->level, level_error[0]) == 0 ? EACCES : EROFS;
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_run *run = NULL;

	fx_file(f, "file", "text");
	cordon_policy_free(f->policy);
	CHECK_INT(cordon_policy_new(&f->policy, &f->err), 0);
	CHECK_INT(cordon_policy_set(f->policy, "isolation", f->level, &f->err), 0);
	CHECK_INT(cordon_policy_set(f->policy, "fs.read", f->dir, &f->err), 0);
	/* An allow-list without anything that could be started does not matter. */
	CHECK_INT(cordon_policy_set(f->policy, "commands", "ls", &f->err), 0);
	fx_ask(f, CORDON_FILES_READ, 0, "file", NULL, NULL, NULL);
	fx_write(f, 0, "file", "x");
	fx_write(f, 0, "new", "x");
	fx_ask(f, CORDON_FILES_REMOVE, 0, "file", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_MKDIR, 0, "dir", NULL, NULL, NULL);
	fx_ask(f, CORDON_FILES_RENAME, 0, "file", "file2", NULL, NULL);
	fx_ask(f, CORDON_FILES_READ, 0, "/usr/bin/env", NULL, NULL, NULL);
	fx_run(f);
	fx_expect(f, 0, "text");
	for (int i = 0; i < 5; i++)
		fx_expect(f, closed, "");
	fx_expect(f, EACCES, "");
	fx_ended(f, 0);

	options.files = options.terminal = 1;
	CHECK_INT(cordon_run_start(f->launcher, f->policy, &options, &run, &f->err),
		  -CORDON_E_USAGE);
}

FX_TESTS(test_content, test_types, test_stat, test_names, test_list, test_closed, test_remove,
	 test_malformed, test_escape, test_rights)
TAP_MAIN(test_namespaces, test_landlock, test_namespaces_as_user, test_landlock_as_user)

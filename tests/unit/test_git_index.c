/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a git index: what git writes in each format, and what an adversary makes of it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "git/index.h"
#include "git/fingerprint.h"
#include "tap.h"

#define FILE_MAX 65536
#define LINK_MODE 0160000u
#define FILE_MODE 0100644u

struct got {
	char text[4096]; /* "mode path\n" of each entry */
	unsigned n;
};

static int see(void *ctx, uint32_t mode, const char *path, size_t len)
{
	struct got *got = ctx;
	size_t used = strlen(got->text);

	CHECK(strlen(path) == len);
	snprintf(got->text + used, sizeof(got->text) - used, "%o %s\n", mode, path);
	got->n++;
	return 0;
}

static int read_it(const void *data, size_t size, unsigned hash_len, struct got *got,
		   struct git_index_info *info)
{
	/* An exact copy, so that the address sanitizer sees a read past the end. */
	void *copy = malloc(size ? size : 1);
	int r;

	memset(got, 0, sizeof(*got));
	if (!copy)
		abort();
	memcpy(copy, data, size);
	r = git_index_read(copy, size, hash_len, see, got, info);
	free(copy);
	return r;
}

/* --- by hand ------------------------------------------------------------------------------------
 */

struct image {
	unsigned char data[FILE_MAX];
	size_t len;
};

static void put(struct image *im, const void *data, size_t len)
{
	memcpy(im->data + im->len, data, len);
	im->len += len;
}

static void put32(struct image *im, uint32_t v)
{
	const unsigned char b[4] = { (unsigned char)(v >> 24), (unsigned char)(v >> 16),
				     (unsigned char)(v >> 8), (unsigned char)v };

	put(im, b, 4);
}

static void put_zeros(struct image *im, size_t n)
{
	memset(im->data + im->len, 0, n);
	im->len += n;
}

static void begin(struct image *im, uint32_t version, uint32_t n)
{
	im->len = 0;
	put(im, "DIRC", 4);
	put32(im, version);
	put32(im, n);
}

/* @name_len: what the flags say. Version 4: @strip bytes of the last name go. */
static void entry(struct image *im, int version, uint32_t mode, const char *name, size_t name_len,
		  unsigned strip)
{
	size_t start = im->len;
	unsigned char flags[2] = { (unsigned char)(name_len >> 8), (unsigned char)name_len };
	unsigned char varint = (unsigned char)strip;

	put_zeros(im, 24);
	put32(im, mode);
	put_zeros(im, 12 + 20);
	put(im, flags, 2);
	if (version == 4)
		put(im, &varint, 1);
	put(im, name, strlen(name));
	if (version == 4)
		put_zeros(im, 1);
	else
		put_zeros(im, 8 - (im->len - start) % 8);
}

static void extension(struct image *im, const char *sign, const void *body, size_t len)
{
	put(im, sign, 4);
	put32(im, (uint32_t)len);
	put(im, body, len);
}

static int read_image(struct image *im, struct got *got, struct git_index_info *info)
{
	put_zeros(im, 20);
	return read_it(im->data, im->len, 20, got, info);
}

static void test_versions(void)
{
	static struct image im;
	struct git_index_info info;
	struct got got;

	for (uint32_t v = 2; v <= 3; v++) {
		begin(&im, v, 2);
		entry(&im, (int)v, FILE_MODE, "dir/file", 8, 0);
		entry(&im, (int)v, LINK_MODE, "nested", 6, 0);
		CHECK_INT(read_image(&im, &got, &info), 0);
		CHECK_STR(got.text, "100644 dir/file\n160000 nested\n");
		CHECK(!info.has_base);
	}
	begin(&im, 4, 3);
	entry(&im, 4, FILE_MODE, "dir/file", 8, 0);
	entry(&im, 4, LINK_MODE, "sub", 7, 4);
	entry(&im, 4, LINK_MODE, "x", 1, 7);
	CHECK_INT(read_image(&im, &got, &info), 0);
	CHECK_STR(got.text, "100644 dir/file\n160000 dir/sub\n160000 x\n");
	for (uint32_t v = 0; v < 8; v++) {
		begin(&im, v, 0);
		CHECK_INT(read_image(&im, &got, &info), v >= 2 && v <= 4 ? 0 : -EINVAL);
	}
}

static void test_lengths_that_disagree(void)
{
	static struct image im;
	struct git_index_info info;
	struct got got;

	for (int v = 2; v <= 4; v++) {
		for (size_t said = 0; said < 0x1000; said++) {
			begin(&im, (uint32_t)v, 1);
			entry(&im, v, LINK_MODE, "nested", said, 0);
			CHECK_INT(read_image(&im, &got, &info), said == 6 ? 0 : -EINVAL);
		}
	}
	begin(&im, 4, 2);
	entry(&im, 4, FILE_MODE, "a", 1, 0);
	entry(&im, 4, LINK_MODE, "b", 1, 2);
	CHECK_INT(read_image(&im, &got, &info), -EINVAL);
	/* More entries are said than there are, and fewer. */
	for (uint32_t n = 0; n < 5; n++) {
		begin(&im, 2, n);
		entry(&im, 2, FILE_MODE, "a", 1, 0);
		entry(&im, 2, LINK_MODE, "b", 1, 0);
		CHECK_INT(read_image(&im, &got, &info), n == 2 ? 0 : -EINVAL);
	}
	begin(&im, 2, 0xffffffff);
	entry(&im, 2, FILE_MODE, "a", 1, 0);
	CHECK_INT(read_image(&im, &got, &info), -EINVAL);
}

/* Bit 14 of the flags: two more bytes before the name, in whatever version. */
static void test_extended_flags(void)
{
	static struct image im;
	struct git_index_info info;
	struct got got;

	begin(&im, 3, 1);
	put_zeros(&im, 24);
	put32(&im, LINK_MODE);
	put_zeros(&im, 12 + 20);
	put(&im, "\x40\x03\x20\x00", 4);
	put(&im, "abc\0\0\0\0\0", 8 - (40 + 20 + 4 + 3) % 8 + 3);
	CHECK_INT(read_image(&im, &got, &info), 0);
	CHECK_STR(got.text, "160000 abc\n");
}

static void test_long_names(void)
{
	static struct image im;
	struct git_index_info info;
	static char name[5000];
	struct got got;

	memset(name, 'a', sizeof(name) - 1);
	for (int v = 2; v <= 4; v += 2) {
		for (size_t len = 4090; len < 4100; len++) {
			name[len] = '\0';
			begin(&im, (uint32_t)v, 1);
			entry(&im, v, FILE_MODE, name, len < 0xfff ? len : 0xfff, 0);
			CHECK_INT(read_image(&im, &got, &info), len < 4096 ? 0 : -EINVAL);
			name[len] = 'a';
		}
	}
}

static void test_extensions(void)
{
	static struct image im;
	struct git_index_info info;
	unsigned char hash[20];
	struct got got;
	size_t end;

	memset(hash, 0xab, sizeof(hash));
	begin(&im, 2, 0);
	extension(&im, "XTRA", "12345", 5);
	extension(&im, "link", hash, 20);
	CHECK_INT(read_image(&im, &got, &info), 0);
	CHECK(info.has_base && memcmp(info.base, hash, 20) == 0);
	/* Twice; too short; longer than the file; of no base. */
	begin(&im, 2, 0);
	extension(&im, "link", hash, 20);
	extension(&im, "link", hash, 20);
	CHECK_INT(read_image(&im, &got, &info), -EINVAL);
	begin(&im, 2, 0);
	extension(&im, "link", hash, 19);
	CHECK_INT(read_image(&im, &got, &info), -EINVAL);
	begin(&im, 2, 0);
	put(&im, "XTRA\xff\xff\xff\xff", 8);
	CHECK_INT(read_image(&im, &got, &info), -EINVAL);
	begin(&im, 2, 0);
	memset(hash, 0, sizeof(hash));
	extension(&im, "link", hash, 20);
	CHECK_INT(read_image(&im, &got, &info), 0);
	CHECK(!info.has_base);
	/* A second list of extensions, hidden in the body of one. */
	for (int is_true = 0; is_true < 2; is_true++) {
		begin(&im, 2, 1);
		entry(&im, 2, FILE_MODE, "a", 1, 0);
		end = im.len;
		put(&im, "XTRA", 4);
		put32(&im, 8 + 24);
		put(&im, "EOIE", 4);
		put32(&im, 24);
		put32(&im, (uint32_t)(is_true ? end : end + 8));
		put_zeros(&im, 20);
		CHECK_INT(read_image(&im, &got, &info), is_true ? 0 : -EINVAL);
	}
}

/* Git may read the entries by a table of blocks: it must lead to the same ones. */
static void test_blocks(void)
{
	static struct image im;
	struct git_index_info info;
	struct got got;

	for (int v = 2; v <= 4; v += 2) {
		for (int how = 0; how < 6; how++) {
			struct image table = { .len = 0 };
			size_t second;

			begin(&im, (uint32_t)v, 2);
			entry(&im, v, FILE_MODE, "ab", 2, 0);
			second = im.len;
			/* Version 4: a block must begin with a whole name. */
			entry(&im, v, FILE_MODE, v == 4 && how == 5 ? "c" : "ac", 2,
			      v == 4 && how == 5 ? 1 : 2);
			put32(&table, how == 4 ? 2 : 1);
			put32(&table, how == 1 ? 13 : 12);
			put32(&table, 1);
			put32(&table, (uint32_t)(how == 2 ? second + 1 : second));
			put32(&table, how == 3 ? 2 : 1);
			extension(&im, "IEOT", table.data, table.len);
			CHECK_INT(read_image(&im, &got, &info),
				  how == 0 || (how == 5 && v == 2) ? 0 : -EINVAL);
		}
	}
}

static void test_clean_paths(void)
{
	static const char *const good[] = { "a", "a/b", "..a", "a..", ".gitx", "a/.b/c", "-", " " };
	static const char *const bad[] = { "",	   "/",	   "/a",       "a/",
					   "a//b", ".",	   "..",       "a/..",
					   "../a", "./a",  "a/./b",    "a/../b",
					   "a/.",  ".git", "a/.git/b", ".GIT/hooks/x" };

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		CHECK_MSG(git_index_path_is_clean(good[i], strlen(good[i])), "'%s'", good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_MSG(!git_index_path_is_clean(bad[i], strlen(bad[i])), "'%s'", bad[i]);
	CHECK(!git_index_path_is_clean("a\0b", 3));
}

/* --- by git -------------------------------------------------------------------------------------
 */

static char dir[] = "/tmp/cordon-gitindex-XXXXXX";

/* A git hook that runs the tests has variables that name its own repository. */
static int sh(const char *script)
{
	char line[4096];

	snprintf(line, sizeof(line),
		 "cd %s && unset $(git rev-parse --local-env-vars) && "
		 "export HOME=%s GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a "
		 "GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b && { %s; } "
		 ">/dev/null 2>&1",
		 dir, dir, script);
	return system(line); /* NOLINT(cert-env33-c) */
}

static size_t load(const char *name, unsigned char data[FILE_MAX])
{
	char path[256];
	size_t len;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rb");
	if (!f)
		return 0;
	len = fread(data, 1, FILE_MAX, f);
	fclose(f);
	return len;
}

/* Whatever is cut off or changed: an answer, and never a read outside. */
static void maltreat(const unsigned char *data, size_t size, unsigned hash_len)
{
	static unsigned char copy[FILE_MAX];
	struct git_index_info info;
	struct got got;

	for (size_t len = 0; len < size; len++)
		read_it(data, len, hash_len, &got, &info);
	memcpy(copy, data, size);
	for (size_t i = 0; i < size; i++) {
		static const unsigned char values[] = { 0, 1, 0x7f, 0x80, 0xff };

		for (size_t k = 0; k < sizeof(values); k++) {
			copy[i] = values[k];
			read_it(copy, size, hash_len, &got, &info);
		}
		copy[i] = data[i];
	}
}

static void test_what_git_writes(void)
{
	static const struct {
		const char *script;
		unsigned hash_len;
	} made[] = {
		{ "git update-index --index-version 2", 20 },
		{ "git add -N later", 20 },
		{ "git update-index --index-version 4", 20 },
		{ "git -c index.threads=2 update-index --force-write-index", 20 },
	};
	static unsigned char data[FILE_MAX];
	struct git_index_info info;
	struct got got;
	size_t len;

	REQUIRE(mkdtemp(dir) != NULL);
	REQUIRE(sh("git init -q . && mkdir dir && echo x > dir/f && echo y > later && "
		   "git init -q nested && git -C nested commit -q --allow-empty -m x && "
		   "git init -q dir/sub && git -C dir/sub commit -q --allow-empty -m x && "
		   "git add dir nested") == 0);
	for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
		CHECK_INT(sh(made[i].script), 0);
		len = load(".git/index", data);
		CHECK_INT(read_it(data, len, made[i].hash_len, &got, &info), 0);
		CHECK(strstr(got.text, "100644 dir/f\n"));
		CHECK(strstr(got.text, "160000 dir/sub\n"));
		CHECK(strstr(got.text, "160000 nested\n"));
		CHECK(read_it(data, len, 52 - made[i].hash_len, &got, &info) < 0);
		maltreat(data, len, made[i].hash_len);
	}
	/* Split: the rest is in another file. */
	CHECK_INT(sh("git update-index --split-index && git rm -qf --cached nested"), 0);
	len = load(".git/index", data);
	CHECK_INT(read_it(data, len, 20, &got, &info), 0);
	CHECK(info.has_base);
	maltreat(data, len, 20);
	/* SHA-256 */
	CHECK_INT(sh("git init -q --object-format=sha256 big && cd big && echo x > f && "
		     "git init -q --object-format=sha256 n && "
		     "git -C n commit -q --allow-empty -m x && git add f n"),
		  0);
	len = load("big/.git/index", data);
	CHECK_INT(read_it(data, len, 32, &got, &info), 0);
	CHECK_STR(got.text, "100644 f\n160000 n\n");
	CHECK(read_it(data, len, 20, &got, &info) < 0);
	maltreat(data, len, 32);
}

/* --- what git obeys in a directory --------------------------------------------------------------
 */

static int is_changed_by(const char *script)
{
	struct git_fingerprint before = GIT_FINGERPRINT_INIT, after = GIT_FINGERPRINT_INIT;
	struct git_effort effort = { 0 };
	char path[256];
	int fd, r, changed;

	snprintf(path, sizeof(path), "%s/nested", dir);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = git_fingerprint_take(fd, NULL, &before, &effort);
	CHECK_INT(r, 1);
	usleep(20000);
	CHECK_INT(sh(script), 0);
	r = git_fingerprint_take(fd, NULL, &after, &effort);
	CHECK_INT(r, 1);
	changed = before.files.len != after.files.len ||
		  (before.files.len &&
		   memcmp(before.files.data, after.files.data, before.files.len) != 0);
	git_fingerprint_done(&before);
	git_fingerprint_done(&after);
	close(fd);
	return changed;
}

static void test_fingerprints(void)
{
	CHECK(!is_changed_by("true"));
	CHECK(!is_changed_by("cd nested && echo x > f && git add f && git commit -qm f && git gc"));
	CHECK(is_changed_by("git -C nested config a.b c"));
	CHECK(is_changed_by("touch -d yesterday nested/.git/config"));
	CHECK(is_changed_by("echo x > nested/.git/hooks/new"));
	CHECK(is_changed_by("chmod 755 nested/.git/hooks/new"));
	CHECK(is_changed_by("echo x > nested/.git/config.worktree"));
	CHECK(is_changed_by("echo . > nested/.git/commondir"));
	/* What the config includes and names. */
	CHECK(is_changed_by("git -C nested config core.hooksPath hk && git -C nested config "
			    "include.path ../inc"));
	CHECK(is_changed_by("mkdir nested/hk"));
	CHECK(is_changed_by("echo x > nested/hk/post-index-change"));
	CHECK(is_changed_by("chmod 755 nested/hk/post-index-change"));
	CHECK(is_changed_by("echo > nested/inc"));
	CHECK(!is_changed_by("echo > nested/other"));
	CHECK(is_changed_by("cp -a nested/.git nested/g; mv nested/.git nested/h; "
			    "mv nested/g nested/.git"));
	CHECK(is_changed_by("mv nested/.git nested/g; echo gitdir: g > nested/.git"));
	CHECK(!is_changed_by("touch nested/g"));
	CHECK(is_changed_by("echo x > nested/g/hooks/other"));
	CHECK(is_changed_by("rm nested/.git; ln -s g nested/.git"));
}

/* What git would not enter, and what must not be waited for. */
static void test_no_repository(void)
{
	static const struct {
		const char *script;
		int want;
	} made[] = {
		{ "true", 0 },
		{ "mkfifo nested/.git", 0 },
		{ "rm nested/.git; ln -s /dev/zero nested/.git", 0 },
		{ "rm nested/.git; echo nothing > nested/.git", 0 },
		/* Nowhere, or only from where git runs. */
		{ "echo gitdir: nowhere > nested/.git", -EINVAL },
		{ "echo gitdir: /proc/self/cwd/nested > nested/.git", -EINVAL },
		{ "rm nested/.git; ln -s nowhere nested/.git", -EINVAL },
		{ "rm nested/.git; ln -s .git nested/.git", -EINVAL },
		{ "rm nested/.git; ln -s /proc/self/cwd nested/.git", -EINVAL },
	};
	struct git_fingerprint fp = GIT_FINGERPRINT_INIT;
	struct git_effort effort = { 0 };
	char path[256];
	int fd;

	CHECK_INT(sh("rm -rf nested; mkdir nested"), 0);
	snprintf(path, sizeof(path), "%s/nested", dir);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
		CHECK_INT(sh(made[i].script), 0);
		CHECK_INT(git_fingerprint_take(fd, NULL, &fp, &effort), made[i].want);
	}
	CHECK_INT(sh("rm nested/.git; { echo gitdir: x; head -c 9000 /dev/zero; } > nested/.git"),
		  0);
	CHECK_INT(git_fingerprint_take(fd, NULL, &fp, &effort), -EFBIG);
	close(fd);
	CHECK_INT(sh("rm -rf ./* ./.git"), 0);
	rmdir(dir);
}

TAP_MAIN(test_versions, test_lengths_that_disagree, test_extended_flags, test_long_names,
	 test_extensions, test_blocks, test_clean_paths, test_what_git_writes, test_fingerprints,
	 test_no_repository)

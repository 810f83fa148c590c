/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is found in an upper directory (or a copy), against the kernel's own view.
 *
 * A real overlay over a small random tree is changed at random through its mount point. Then the
 * merged tree is compared with the base, file by file, by code that knows nothing of layers. Both
 * must say the same, in the same order.
 */
#include "test_workspace_changes_lib.h"

#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#define ROUNDS 200
#define COPY_ROUNDS 60
#define OPS 60

static uint64_t seed;

static unsigned dice(unsigned sides)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % sides;
}

/* --- a random tree, and random changes ----------------------------------------------------------
 */

static const char *random_path(const char *under)
{
	static const char *const names[] = { "a", "b", "c", "d", "e-", "f\nf" };
	char path[PATH_MAX];
	unsigned depth = 1 + dice(3);
	int len = snprintf(path, sizeof(path), "%s", under);

	for (unsigned i = 0; i < depth; i++)
		len += snprintf(path + len, sizeof(path) - (size_t)len, "/%s", names[dice(6)]);
	return fmt("%s", path);
}

static const char *random_text(void)
{
	static const char *const texts[] = { "", "1", "2", "one text", "the other" };

	return texts[dice(5)];
}

static void write_text(const char *path, int flags, const char *text)
{
	int fd = open(path, flags | O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);

	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0)
		printf("# %s: %s\n", path, strerror(errno));
	close(fd);
}

static void remove_all(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *d;
	char name[PATH_MAX];

	while (dir && (d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, d->d_name);
		if (unlink(name) < 0)
			remove_all(name);
	}
	if (dir)
		closedir(dir);
	rmdir(path);
}

/* As ln, mv, chmod and so on would; what fails, fails. */
static void change(const char *under, bool is_setup)
{
	char path[PATH_MAX], other[PATH_MAX];
	struct stat st;
	int r = 0;

	snprintf(path, sizeof(path), "%s", random_path(under));
	snprintf(other, sizeof(other), "%s", random_path(under));
	switch (is_setup ? dice(6) : dice(16)) {
	case 0:
	case 1:
		write_text(path, O_TRUNC, random_text());
		break;
	case 2:
	case 3:
		r = mkdir(path, 0755);
		break;
	case 4:
		r = symlink(random_text(), path);
		break;
	case 5:
		if (lstat(path, &st) == 0 && !S_ISLNK(st.st_mode))
			r = setxattr(path, "user.x", "12", 1 + dice(2), 0);
		break;
	case 6:
		write_text(path, O_APPEND, random_text());
		break;
	case 7:
		r = rename(path, other);
		break;
	case 8:
		r = link(path, other);
		break;
	case 9:
		r = unlink(path);
		break;
	case 10:
		r = rmdir(path);
		break;
	case 11:
		if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
			remove_all(path);
		break;
	case 12:
		if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
			remove_all(path);
			r = mkdir(path, 0755);
		}
		break;
	case 13:
		if (lstat(path, &st) == 0 && !S_ISLNK(st.st_mode))
			r = chmod(path, dice(2) ? 0700 : 0755);
		break;
	case 14:
		r = mkfifo(path, 0644);
		break;
	default:
		r = removexattr(path, "user.x");
		break;
	}
	(void)r;
}

/* --- the naive comparison -----------------------------------------------------------------------
 */

static struct strbuf naive = STRBUF_INIT;

static int all_names(const struct dirent *d)
{
	return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static bool is_hollow(const char *path)
{
	struct dirent **v;
	int n = scandir(path, &v, all_names, NULL);

	for (int i = 0; i < n; i++)
		free(v[i]);
	if (n >= 0)
		free(v);
	return n == 0;
}

static bool has_same_text(const char *a, const char *b)
{
	char x[64] = "", y[64] = "";
	int a_fd = open(a, O_RDONLY | O_CLOEXEC), b_fd = open(b, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(a_fd, x, sizeof(x)), m = read(b_fd, y, sizeof(y));

	close(a_fd);
	close(b_fd);
	return n == m && n >= 0 && memcmp(x, y, (size_t)n) == 0;
}

static bool has_same_attribute(const char *a, const char *b)
{
	char x[8] = "", y[8] = "";

	return lgetxattr(a, "user.x", x, sizeof(x)) == lgetxattr(b, "user.x", y, sizeof(y)) &&
	       memcmp(x, y, sizeof(x)) == 0;
}

static bool has_same_link(const char *a, const char *b)
{
	char x[64] = "", y[64] = "";

	return readlink(a, x, sizeof(x)) == readlink(b, y, sizeof(y)) && strcmp(x, y) == 0;
}

static char kind_of(const char *base, const char *merged, const struct stat *b,
		    const struct stat *m)
{
	bool is_other = (b->st_mode & 07777) != (m->st_mode & 07777);

	if ((b->st_mode & S_IFMT) != (m->st_mode & S_IFMT))
		return 'T';
	if (S_ISLNK(m->st_mode))
		return has_same_link(base, merged) ? 0 : 'L';
	if (S_ISREG(m->st_mode) && !has_same_text(base, merged))
		return 'M';
	if (S_ISFIFO(m->st_mode))
		return is_other ? 'P' : 0;
	return is_other || !has_same_attribute(base, merged) ? 'P' : 0;
}

static void naive_line(char kind, const char *rel, bool is_dir, bool is_listed)
{
	strbuf_printf(&naive, "%s%c %s%s%s\n", is_listed ? "" : "[", kind, rel, is_dir ? "/" : "",
		      is_listed ? "" : "]");
}

static void naive_dir(const char *base, const char *merged, const char *rel);

static void naive_entry(const char *base, const char *merged, const char *rel)
{
	struct stat b, m;
	bool has_base = base && lstat(base, &b) == 0, has_merged = merged && lstat(merged, &m) == 0;
	bool base_dir = has_base && S_ISDIR(b.st_mode);
	bool merged_dir = has_merged && S_ISDIR(m.st_mode);
	char kind;

	if (has_base && has_merged) {
		kind = kind_of(base, merged, &b, &m);
		if (kind)
			naive_line(kind, rel, merged_dir, true);
	} else if (has_merged) {
		naive_line('A', rel, merged_dir, !merged_dir || is_hollow(merged));
	} else {
		naive_line('D', rel, base_dir, !base_dir || is_hollow(base));
	}
	if (base_dir || merged_dir)
		naive_dir(base_dir ? base : NULL, merged_dir ? merged : NULL, rel);
}

static void naive_dir(const char *base, const char *merged, const char *rel)
{
	struct dirent **b = NULL, **m = NULL;
	int n_b = base ? scandir(base, &b, all_names, by_bytes) : 0, i = 0;
	int n_m = merged ? scandir(merged, &m, all_names, by_bytes) : 0, j = 0;

	while (i < n_b || j < n_m) {
		int order = i == n_b ? 1 : j == n_m ? -1 : strcmp(b[i]->d_name, m[j]->d_name);
		const char *name = order <= 0 ? b[i]->d_name : m[j]->d_name;
		char x[PATH_MAX], y[PATH_MAX], z[PATH_MAX];

		snprintf(x, sizeof(x), "%s/%s", base ? base : "", name);
		snprintf(y, sizeof(y), "%s/%s", merged ? merged : "", name);
		snprintf(z, sizeof(z), "%s%s%s", rel, *rel ? "/" : "", name);
		naive_entry(order <= 0 ? x : NULL, order >= 0 ? y : NULL, z);
		i += order <= 0;
		j += order >= 0;
	}
	for (i = 0; i < n_b; i++)
		free(b[i]);
	for (j = 0; j < n_m; j++)
		free(m[j]);
	free(b);
	free(m);
}

/* --- the layers ---------------------------------------------------------------------------------
 */

/* Renames are taken apart again; each must be one. */
static void dump_plain(const struct ws_changes *changes, const char *content, struct strbuf *out,
		       unsigned *ret_bad)
{
	static const char letters[] = "?AMDAPLT";
	struct strbuf path = STRBUF_INIT, from = STRBUF_INIT;

	for (uint32_t i = 0; i < changes->n; i++) {
		struct cordon_change c;
		bool is_dir, is_listed;

		if (changes->v[i].kind == 0)
			continue;
		ws_node_change(changes, i, &path, &from, &c);
		is_dir = (c.type ? c.type : c.old_type) == CORDON_FILE_DIRECTORY;
		is_listed = c.is_listed || changes->v[i].is_renamed_away;
		strbuf_printf(out, "%s%c %s%s%s\n", is_listed ? "" : "[", letters[c.kind], c.path,
			      is_dir ? "/" : "", is_listed ? "" : "]");
		if (c.kind == CORDON_CHANGE_RENAMED &&
		    (!has_same_text(fmt("%s/base/%s", top, c.from),
				    fmt("%s/%s/%s", top, content, c.path)) ||
		     !changes->v[changes->v[i].from].is_renamed_away))
			++*ret_bad;
	}
	strbuf_done(&path);
	strbuf_done(&from);
}

/* Do both say the same about what is now in @merged (below the top)? */
static bool is_same(unsigned round, const char *merged, int mechanism, struct timespec created)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf found = STRBUF_INIT;
	struct cordon_workspace ws;
	struct ws_changes changes;
	unsigned bad = 0;
	bool ok;

	naive.len = 0;
	strbuf_puts(&naive, "");
	naive_dir(fmt("%s/base", top), fmt("%s/%s", top, merged), "");
	if (mechanism == CORDON_MECHANISM_OVERLAY && umount2(fmt("%s/merged", top), 0) < 0)
		printf("# umount: %s\n", strerror(errno));
	open_ws(&ws, mechanism);
	ws.meta.created = created;
	strbuf_puts(&found, "");
	ok = ws_collect(&ws, &changes, &err) == 0;
	if (ok)
		dump_plain(&changes, mechanism == CORDON_MECHANISM_OVERLAY ? "ws/upper" : "ws/tree",
			   &found, &bad);
	ok = ok && !bad && strcmp(found.data, naive.data) == 0;
	if (!ok)
		printf("# round %u: %s (%u bad renames)\n--- naive\n%s--- found\n%s", round,
		       err.msg, bad, naive.data, found.data);
	strbuf_done(&found);
	ws_changes_done(&changes);
	close_ws(&ws);
	return ok;
}

/* One round. 0 = both say the same, 1 = they do not, 2 = it cannot be done here. */
static int play_overlay(unsigned round)
{
	bool ok;

	seed = 20260000 + round;
	if (!set_up() || mkdirat(top_fd, "merged", 0755) < 0 || mkdirat(top_fd, "work", 0755) < 0)
		return 1;
	for (unsigned i = 0; i < OPS; i++)
		change(fmt("%s/base", top), true);
	if (mount("overlay", fmt("%s/merged", top), "overlay", 0,
		  fmt("lowerdir=%s/base,upperdir=%s/ws/upper,workdir=%s/work,userxattr,index=off,"
		      "xino=off,metacopy=off,volatile",
		      top, top, top)) < 0) {
		printf("# overlay: %s\n", strerror(errno));
		return 2;
	}
	for (unsigned i = 0; i < OPS; i++)
		change(fmt("%s/merged", top), false);
	ok = is_same(round, "merged", CORDON_MECHANISM_OVERLAY, (struct timespec){ 0 });
	tear_down();
	return ok ? 0 : 1;
}

/* The same with a copy, in which directories can be moved as well. */
static void test_random_copies(void)
{
	unsigned failed = 0;

	for (unsigned round = 0; round < COPY_ROUNDS && failed < 3; round++) {
		struct tree_copy copy = { 0 };
		struct timespec created;
		int from, to;

		seed = 20270000 + round;
		REQUIRE(set_up());
		CHECK(unlinkat(top_fd, "ws/tree", AT_REMOVEDIR) == 0);
		for (unsigned i = 0; i < OPS; i++)
			change(fmt("%s/base", top), true);
		tick();
		put_dir("ws/tree");
		from = openat(top_fd, "base", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		to = openat(top_fd, "ws/tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK_INT(tree_copy(from, to, &copy), 0);
		close(from);
		close(to);
		created = tick();
		for (unsigned i = 0; i < OPS; i++)
			change(fmt("%s/ws/tree", top), false);
		failed += !is_same(round, "ws/tree", CORDON_MECHANISM_COPY, created);
		tear_down();
	}
	strbuf_done(&naive);
	CHECK_INT(failed, 0);
}

static bool write_map(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

static int play_all(void)
{
	unsigned uid = getuid(), gid = getgid();
	int failed = 0;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return 2;
	if (!write_map("/proc/self/setgroups", "deny") ||
	    !write_map("/proc/self/uid_map", fmt("%u %u 1", uid, uid)) ||
	    !write_map("/proc/self/gid_map", fmt("%u %u 1", gid, gid)))
		return 2;
	for (unsigned round = 0; round < ROUNDS && failed < 3; round++) {
		int r = play_overlay(round);

		if (r == 2)
			return 2;
		failed += r;
	}
	strbuf_done(&naive);
	return failed ? 1 : 0;
}

static void test_random_overlays(void)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		int r = play_all();

		tear_down();
		fflush(stdout);
		_exit(r);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid);
	REQUIRE(WIFEXITED(status));
	if (WEXITSTATUS(status) == 2)
		SKIP("no overlay in a user namespace here");
	CHECK_INT(WEXITSTATUS(status), 0);
}

TAP_MAIN(test_random_overlays, test_random_copies)

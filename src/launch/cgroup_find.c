/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks for the place where Cordon may make control groups.
 *
 * A directory is ours if we own it and may write to the two files that matter; the kernel's
 * documentation calls this delegation. Root could write anywhere, so for root it must lie at or
 * below one that a service manager has marked as delegated (the attribute "delegate"). Nothing is
 * ever made in a directory that another program manages.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/io.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "launch/cgroup.h"
#include "sys/calls.h"

#define MOUNTS_MAX ((size_t)4 << 20)
#define SMALL_MAX 4096
#define SWEEP_MAX 256 /* directories looked at */

int cgroup_read(int dir_fd, const char *name, char *ret, size_t size)
{
	int fd = sys_openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read(fd, ret, size - 1);
	if (n < 0)
		n = -errno;
	else
		ret[n] = '\0';
	close(fd);
	return (int)n;
}

int cgroup_write(int dir_fd, const char *name, const char *text)
{
	int fd = sys_openat(dir_fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = sys_write(fd, text, strlen(text));
	close(fd);
	return n < 0 ? (int)n : 0;
}

bool cgroup_has_word(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *s = text; (s = strstr(s, word)); s += len)
		if ((s == text || s[-1] == ' ') && (!s[len] || strchr(" \n", s[len])))
			return true;
	return false;
}

uint64_t cgroup_field(const char *text, const char *key)
{
	size_t len = strlen(key);

	while (text) {
		if (strncmp(text, key, len) == 0 && text[len] == ' ')
			return strtoull(text + len + 1, NULL, 10);
		text = strchr(text, '\n');
		text += !!text;
	}
	return 0;
}

bool cgroup_is_name(const char *name)
{
	size_t n;

	if (strncmp(name, CGROUP_PREFIX, strlen(CGROUP_PREFIX)) != 0)
		return false;
	name += strlen(CGROUP_PREFIX);
	n = strspn(name, "0123456789");
	return n > 0 && name[n] == '-' && strlen(name + n + 1) == 16 &&
	       strspn(name + n + 1, "0123456789abcdef") == 16;
}

int cgroup_parse_self(const char *text, char ret[PATH_MAX])
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		if (strncmp(text, "0::/", 4) == 0) {
			if (len - 3 >= PATH_MAX)
				return -ENAMETOOLONG;
			memcpy(ret, text + 3, len - 3);
			ret[len - 3] = '\0';
			/* Outside of our cgroup namespace, or removed. */
			return strncmp(ret, "/..", 3) == 0 || strstr(ret, " (deleted)") ? -ENOENT
											: 0;
		}
		text += len + (text[len] == '\n');
	}
	return -ENOENT;
}

static bool is_octal(const char *s)
{
	return s[0] >= '0' && s[0] <= '3' && s[1] >= '0' && s[1] <= '7' && s[2] >= '0' &&
	       s[2] <= '7';
}

/* One field of mountinfo, unescaped. Returns what follows, NULL at the end. */
static const char *take_field(const char *line, char *ret, size_t size)
{
	size_t n = 0;

	while (*line && *line != ' ' && *line != '\n') {
		char c = *line++;

		if (c == '\\' && is_octal(line)) {
			c = (char)((line[0] - '0') * 64 + (line[1] - '0') * 8 + (line[2] - '0'));
			line += 3;
		}
		if (n + 1 >= size)
			return NULL;
		ret[n++] = c;
	}
	ret[n] = '\0';
	return *line == ' ' ? line + 1 : NULL;
}

/* Joins the mount point with what @self has below the mount's root. */
static int join(const char *mount, const char *root, const char *self, char ret[PATH_MAX])
{
	size_t root_len = strcmp(root, "/") == 0 ? 0 : strlen(root), mount_len = strlen(mount), len;

	if (strncmp(self, root, root_len) != 0 || (self[root_len] && self[root_len] != '/'))
		return -ENOENT;
	self += root_len;
	len = strcmp(self, "/") == 0 ? 0 : strlen(self);
	if (mount_len + len >= PATH_MAX)
		return -ENAMETOOLONG;
	memcpy(ret, mount, mount_len);
	memcpy(ret + mount_len, self, len);
	ret[mount_len + len] = '\0';
	return 0;
}

/* id parent major:minor ROOT MOUNT options optional... - TYPE ... */
int cgroup_parse_mount(const char *text, const char *self, char ret_mount[PATH_MAX],
		       char ret_dir[PATH_MAX])
{
	char root[PATH_MAX], skipped[PATH_MAX];

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		const char *s = text, *end = text + strcspn(text, "\n"), *dash;

		dash = memmem(text, (size_t)(end - text), " - cgroup2 ", 11);
		if (!dash)
			continue;
		for (int i = 0; s && i < 3; i++)
			s = take_field(s, skipped, sizeof(skipped));
		s = s ? take_field(s, root, sizeof(root)) : NULL;
		s = s ? take_field(s, ret_mount, PATH_MAX) : NULL;
		if (s && path_is_within("/sys", ret_mount) &&
		    join(ret_mount, root, self, ret_dir) == 0)
			return 0;
	}
	return -ENOENT;
}

static int read_path(const char *path, struct strbuf *ret)
{
	int fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	int r;

	if (fd < 0)
		return fd;
	ret->max = MOUNTS_MAX;
	r = read_strbuf(fd, ret);
	close(fd);
	return r;
}

static int find_self(char ret_mount[PATH_MAX], char ret_dir[PATH_MAX])
{
	struct strbuf text = STRBUF_INIT;
	char self[PATH_MAX] = "";
	int r = read_path("/proc/self/cgroup", &text);

	if (r == 0)
		r = cgroup_parse_self(text.data, self);
	strbuf_done(&text);
	if (r < 0)
		return r;
	text = (struct strbuf)STRBUF_INIT;
	r = read_path("/proc/self/mountinfo", &text);
	if (r == 0)
		r = cgroup_parse_mount(text.data, self, ret_mount, ret_dir);
	strbuf_done(&text);
	return r;
}

static bool is_ours(int dir_fd)
{
	struct stat st;

	return fstat(dir_fd, &st) == 0 && st.st_uid == geteuid() &&
	       faccessat(dir_fd, "cgroup.procs", W_OK, AT_EACCESS) == 0 &&
	       faccessat(dir_fd, "cgroup.subtree_control", W_OK, AT_EACCESS) == 0;
}

static bool is_delegated(int dir_fd)
{
	static const char *const names[] = { "trusted.delegate", "user.delegate" };
	char value[2];

	for (int i = 0; i < 2; i++)
		if (fgetxattr(dir_fd, names[i], value, sizeof(value)) == 1 && value[0] == '1')
			return true;
	return false;
}

/* Do groups in the directory have the controllers that are needed? */
static bool hands_down(int dir_fd, bool *ret_cpu)
{
	char text[SMALL_MAX];

	if (cgroup_read(dir_fd, "cgroup.subtree_control", text, sizeof(text)) < 0)
		return false;
	*ret_cpu = cgroup_has_word(text, "cpu");
	return cgroup_has_word(text, "memory") && cgroup_has_word(text, "pids");
}

/* A group that has processes cannot hand controllers down. */
static bool make_it_hand_down(int dir_fd, bool *ret_cpu)
{
	char text[SMALL_MAX];

	if (cgroup_read(dir_fd, "cgroup.procs", text, sizeof(text)) != 0 ||
	    cgroup_read(dir_fd, "cgroup.controllers", text, sizeof(text)) < 0 ||
	    !cgroup_has_word(text, "memory") || !cgroup_has_word(text, "pids") ||
	    cgroup_write(dir_fd, "cgroup.subtree_control", "+memory +pids") < 0)
		return false;
	if (cgroup_has_word(text, "cpu"))
		cgroup_write(dir_fd, "cgroup.subtree_control", "+cpu");
	return hands_down(dir_fd, ret_cpu);
}

/* Is @dir at or below a directory of ours that was delegated to us? */
static bool was_delegated(const char *dir, const char *mount)
{
	char path[PATH_MAX];
	size_t len = strlen(dir);

	memcpy(path, dir, len + 1);
	while (len > strlen(mount)) {
		int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		bool ours = fd >= 0 && is_ours(fd), delegated = ours && is_delegated(fd);

		if (fd >= 0)
			close(fd);
		if (delegated || !ours)
			return delegated;
		while (path[--len] != '/')
			;
		path[len] = '\0';
	}
	return false;
}

/* 1 = found, 0 = try the parent, <0 = give up. */
static int try_dir(const char *dir, const char *mount, struct cgroup_home *home)
{
	int fd = sys_openat(AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0);
	int r = 0;

	if (fd < 0)
		return fd;
	if (!is_ours(fd) || (geteuid() == 0 && !was_delegated(dir, mount)))
		r = -EACCES;
	else if (hands_down(fd, &home->has_cpu) || make_it_hand_down(fd, &home->has_cpu))
		r = 1;
	if (r == 1) {
		home->path = strdup(dir);
		r = home->path ? 1 : -ENOMEM;
	}
	if (r == 1)
		home->dir_fd = fd;
	else
		close(fd);
	return r;
}

/*
 * Removes the groups of killed supervisors. If the exclusive lock can be taken, the owner is dead;
 * the kernel refuses to remove a group that has processes.
 */
static void sweep(int home_fd)
{
	int fd = openat(home_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!dir && fd >= 0)
		close(fd);
	/* Another launcher is making a group: a later one sweeps. */
	if (dir && flock(fd, LOCK_EX | LOCK_NB) < 0) {
		closedir(dir);
		return;
	}
	for (int i = 0; dir && i < SWEEP_MAX && (entry = readdir(dir));) {
		int sub;

		if (entry->d_type != DT_DIR || !cgroup_is_name(entry->d_name))
			continue;
		i++;
		sub = openat(home_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (sub < 0)
			continue;
		if (flock(sub, LOCK_EX | LOCK_NB) == 0)
			unlinkat(home_fd, entry->d_name, AT_REMOVEDIR);
		close(sub);
	}
	if (dir)
		closedir(dir);
}

static int find(struct cgroup_home *home)
{
	char mount[PATH_MAX], dir[PATH_MAX];
	int r = find_self(mount, dir);

	while (r == 0) {
		char *slash;

		r = try_dir(dir, mount, home);
		if (r != 0)
			break;
		slash = strrchr(dir, '/');
		if (strcmp(dir, mount) == 0 || !slash)
			r = -ENOENT;
		else
			*slash = '\0';
	}
	return r;
}

int cgroup_home_find(struct cgroup_home *home)
{
	int r;

	if (home->state)
		return home->state > 0 ? 0 : -ENOENT;
	r = find(home);
	if (r == 1) {
		home->state = 1;
		sweep(home->dir_fd);
		return 0;
	}
	cgroup_home_done(home);
	/* Transient exhaustion: look again next time. */
	if (r != -EMFILE && r != -ENFILE && r != -ENOMEM)
		home->state = -1;
	return r;
}

void cgroup_home_done(struct cgroup_home *home)
{
	if (home->dir_fd >= 0)
		close(home->dir_fd);
	free(home->path);
	*home = (struct cgroup_home)CGROUP_HOME_INIT;
}

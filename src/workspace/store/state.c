/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory: where it is, and whether it is ours alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/path.h"
#include "workspace/store/store_dir.h"

#define STORE_NAME "/workspaces"

static int set_path(char *buf, size_t size, const char *dir, const char *rest,
		    struct cordon_error *err)
{
	char joined[PATH_MAX];
	int n = snprintf(joined, sizeof(joined), "%s%s", dir, rest);

	if (n < 0 || (size_t)n >= sizeof(joined) || path_normalise(NULL, joined, buf, size) < 0)
		return cordon_err(err, CORDON_E_PATH, ENAMETOOLONG, "state directory");
	return 0;
}

int ws_state_path(const char *state_dir, char *buf, size_t size, struct cordon_error *err)
{
	const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (state_dir) {
		if (state_dir[0] == '/')
			return set_path(buf, size, state_dir, "", err);
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "the state directory must be an absolute path, not '%s'",
				  state_dir);
	}
	if (xdg && *xdg) {
		if (xdg[0] == '/')
			return set_path(buf, size, xdg, "/cordon", err);
		(void)cordon_err(err, CORDON_E_USAGE, 0,
				 "XDG_STATE_HOME must be an absolute path, not '%s'", xdg);
		(void)cordon_err_hint(err, "unset it, and ~/.local/state is used");
		return -CORDON_E_USAGE;
	}
	if (home && home[0] == '/')
		return set_path(buf, size, home, "/.local/state/cordon", err);
	(void)cordon_err(err, CORDON_E_USAGE, 0,
			 "there is no place for workspaces: HOME is not set");
	(void)cordon_err_hint(err, "set HOME or XDG_STATE_HOME");
	return -CORDON_E_USAGE;
}

int ws_store_path(const char *state_dir, char *buf, size_t size, bool make,
		  struct cordon_error *err)
{
	struct store store;
	size_t len;
	int r = store_open(&store, state_dir, make, err);

	if (r < 0)
		return r;
	store_close(&store);
	len = strlen(store.path) + 1;
	if (len > size)
		return cordon_err(err, CORDON_E_PATH, ENAMETOOLONG, "state directory");
	memcpy(buf, store.path, len);
	return 0;
}

/* Makes what is missing of @path, for us alone. */
static int make_all(const char *path)
{
	char part[PATH_MAX];
	const char *end = path;

	while (*end) {
		struct stat st;
		size_t len;

		end += 1 + strcspn(end + 1, "/");
		len = (size_t)(end - path);
		memcpy(part, path, len);
		part[len] = '\0';
		/* Automounted and read-only directories give other errors than EEXIST. */
		if (mkdir(part, 0700) < 0 && errno != EEXIST) {
			int e = errno;

			if (stat(part, &st) < 0 || !S_ISDIR(st.st_mode))
				return -e;
		}
	}
	return 0;
}

/* It is the caller's own directory that refuses, and nothing around Cordon. */
static int place_error(struct cordon_error *err, int error, const char *what, const char *path)
{
	cordon_err(err, CORDON_E_SYSTEM, error, "the state directory %s cannot be %s", path, what);
	if (err && !err->hint[0])
		cordon_err_hint(err, "set XDG_STATE_HOME to a directory of your own");
	return -CORDON_E_SYSTEM;
}

/* Opens @path, the last step of which must be a directory of ours; *ret_fd = -1 if it is missing.
 */
static int open_own(const char *path, bool make, int *ret_fd, struct cordon_error *err)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	struct stat st;
	int fd = open(path, flags);

	*ret_fd = -1;
	if (fd < 0 && errno == ENOENT) {
		int r = make ? make_all(path) : 0;

		if (!make)
			return 0;
		if (r < 0)
			return place_error(err, -r, "made", path);
		fd = open(path, flags);
	}
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR)) {
		(void)cordon_err(err, CORDON_E_PATH, 0,
				 "%s is a link or no directory, workspaces are not kept there",
				 path);
		(void)cordon_err_hint(err, "move it away, or set XDG_STATE_HOME to its real place");
		return -CORDON_E_PATH;
	}
	if (fd < 0)
		return place_error(err, errno, "opened", path);
	if (fstat(fd, &st) < 0) {
		int e = errno;

		close(fd);
		return place_error(err, e, "read", path);
	}
	if (st.st_uid == geteuid() && !(st.st_mode & 022)) {
		*ret_fd = fd;
		return 0;
	}
	close(fd);
	if (st.st_uid != geteuid()) {
		(void)cordon_err(err, CORDON_E_PATH, 0, "%s belongs to another user (%u)", path,
				 (unsigned)st.st_uid);
		(void)cordon_err_hint(err, "set XDG_STATE_HOME to a directory of your own");
	} else {
		(void)cordon_err(err, CORDON_E_PATH, 0, "others may write to %s (mode %04o)", path,
				 (unsigned)st.st_mode & 07777);
		(void)cordon_err_hint(err, "chmod go-w '%s'", path);
	}
	return -CORDON_E_PATH;
}

int store_open(struct store *store, const char *state_dir, bool make, struct cordon_error *err)
{
	char state[PATH_MAX] = "";
	int state_fd, r;

	store->fd = -1;
	store->path[0] = '\0';
	r = ws_state_path(state_dir, state, sizeof(state), err);
	if (r == 0)
		r = set_path(store->path, sizeof(store->path), state, STORE_NAME, err);
	if (r < 0)
		return r;
	r = open_own(state, make, &state_fd, err);
	if (r < 0 || state_fd < 0)
		return r;
	close(state_fd);
	return open_own(store->path, make, &store->fd, err);
}

void store_close(struct store *store)
{
	if (store->fd >= 0)
		close(store->fd);
	store->fd = -1;
}

int store_lock(const struct store *store, struct cordon_error *err)
{
	while (flock(store->fd, LOCK_EX) < 0) {
		if (errno != EINTR)
			return cordon_err(err, CORDON_E_SYSTEM, errno, "%s", store->path);
	}
	return 0;
}

void store_unlock(const struct store *store)
{
	(void)flock(store->fd, LOCK_UN);
}

bool ws_is_id(const char *s)
{
	return s[0] == 'w' && strspn(s + 1, "0123456789abcdef") == 8 && s[9] == '\0';
}

bool ws_is_name(const char *name)
{
	size_t len = strlen(name);

	return len >= 1 && len <= 64 && name[0] != '.' && name[0] != '-' && !ws_is_id(name) &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
		       len;
}

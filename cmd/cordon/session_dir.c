/* SPDX-License-Identifier: Apache-2.0 */
#include "session_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/session_place.h"
#include "out.h"
#include "session_peer.h"

#define BACKLOG 64
#define CONNECT_S 2
#define SUFFIX_KEY ".key"
#define SUFFIX_SOCKET ".sock"
#define FILE_MAX (SESSION_NAME_MAX + 8)

int session_check_name(const char *name, struct cordon_error *err)
{
	size_t len = strlen(name);
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._-";

	if (len > 0 && len <= SESSION_NAME_MAX && name[0] != '.' && name[0] != '-' &&
	    strspn(name, allowed) == len)
		return 0;
	cordon_err(err, CORDON_E_USAGE, 0, "'%s' cannot be the name of a session", name);
	cordon_err_hint(err, "letters, digits, '.', '_' and '-', %d at most", SESSION_NAME_MAX);
	return -CORDON_E_USAGE;
}

int session_open_place(unsigned i, int may_make)
{
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (!session_place_is_used(i, (unsigned)geteuid()))
		return -ENOENT;
	session_place(i, (unsigned)geteuid(), path, sizeof(path));
	if (may_make && mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & 077) &&
	    (!may_make || faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0))
		return fd;
	close(fd);
	return -EPERM;
}

int session_no_place(const char *what, struct cordon_error *err)
{
	char first[PATH_MAX], second[PATH_MAX];

	session_place(0, (unsigned)geteuid(), first, sizeof(first));
	session_place(1, (unsigned)geteuid(), second, sizeof(second));
	cordon_err(err, CORDON_E_SYSTEM, 0,
		   "there is no place for %s: neither %s nor %s "
		   "can be used",
		   what, first, second);
	cordon_err_hint(err, "they must be directories of yours with mode 0700");
	return -CORDON_E_SYSTEM;
}

static void file_name(const char *name, const char *suffix, char ret[FILE_MAX])
{
	snprintf(ret, FILE_MAX, "%s%s", name, suffix);
}

/* The address of a socket in @dir_fd, whatever the length of its path. */
static void set_address(struct sockaddr_un *address, int dir_fd, const char *name)
{
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/%s%s", dir_fd,
		 name, SUFFIX_SOCKET);
}

static void remove_files(int dir_fd, const char *name)
{
	char file[FILE_MAX];

	/* The key last: as long as it is there, nobody else takes the name. */
	file_name(name, SUFFIX_SOCKET, file);
	(void)unlinkat(dir_fd, file, 0);
	file_name(name, SUFFIX_KEY, file);
	(void)unlinkat(dir_fd, file, 0);
}

#define LOCK_TRIES 20
#define LOCK_PAUSE_US 1000

/* Somebody who only looks has a lock for a moment, too; so who starts a session asks again. */
static int try_lock(int fd, int is_start)
{
	for (int i = 0; i < (is_start ? LOCK_TRIES : 1); i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return 1;
		if (is_start)
			usleep(LOCK_PAUSE_US);
	}
	return 0;
}

/* Opens the key of @name: its descriptor or -errno. *ret_alive: its supervisor lives. If not, the
 * lock is ours. */
static int open_key(int dir_fd, const char *name, int flags, int *ret_alive)
{
	char file[FILE_MAX];
	struct stat st;
	int fd;

	file_name(name, SUFFIX_KEY, file);
	fd = openat(dir_fd, file, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0600);
	if (fd < 0)
		return -errno;
	*ret_alive = !try_lock(fd, flags & O_CREAT);
	/* It may have been removed between open() and flock(), or is being made. */
	if (!*ret_alive &&
	    (fstat(fd, &st) < 0 || st.st_nlink == 0 || (st.st_size == 0 && !(flags & O_CREAT)))) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

static int write_key(struct session_place *p)
{
	unsigned char bytes[SESSION_KEY_CHARS / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(p->key + 2 * i, 3, "%02x", bytes[i]);
	if (ftruncate(p->key_fd, 0) < 0)
		return -errno;
	return pwrite(p->key_fd, p->key, SESSION_KEY_CHARS, 0) == SESSION_KEY_CHARS ? 0 : -EIO;
}

static int is_taken(const char *name, struct cordon_error *err)
{
	cordon_err(err, CORDON_E_STATE, 0, "session '%s' is running already", name);
	cordon_err_hint(err, "choose another --name, or end it with 'cordon session stop %s'",
			name);
	return -CORDON_E_STATE;
}

/* The name may be in use in another place. */
static int check_other_places(const char *name, struct cordon_error *err)
{
	for (unsigned i = 0; i < SESSION_PLACES; i++) {
		int dir_fd = session_open_place(i, 0), is_alive = 0, fd;

		if (dir_fd < 0)
			continue;
		fd = open_key(dir_fd, name, 0, &is_alive);
		if (fd >= 0)
			close(fd);
		close(dir_fd);
		if (is_alive)
			return is_taken(name, err);
	}
	return 0;
}

static int listen_at(const struct session_place *p)
{
	struct sockaddr_un address;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;

	if (fd < 0)
		return -errno;
	set_address(&address, p->dir_fd, p->name);
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
	    listen(fd, BACKLOG) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

int session_claim(const char *name, struct session_place *ret, int *ret_listen_fd,
		  struct cordon_error *err)
{
	char file[FILE_MAX];
	int is_alive = 0, r = check_other_places(name, err);

	if (r < 0)
		return r;
	*ret = (struct session_place){ -1, -1, "", "" };
	for (unsigned i = 0; ret->dir_fd < 0 && i < SESSION_PLACES; i++)
		ret->dir_fd = session_open_place(i, 1);
	if (ret->dir_fd < 0)
		return session_no_place("sessions", err);
	snprintf(ret->name, sizeof(ret->name), "%s", name);
	do
		ret->key_fd = open_key(ret->dir_fd, name, O_CREAT, &is_alive);
	while (ret->key_fd == -ESTALE);
	if (ret->key_fd >= 0 && is_alive) {
		close(ret->key_fd);
		close(ret->dir_fd);
		return is_taken(name, err);
	}
	file_name(name, SUFFIX_SOCKET, file);
	if (ret->key_fd >= 0)
		(void)unlinkat(ret->dir_fd, file, 0); /* of a killed one */
	r = ret->key_fd < 0 ? ret->key_fd : write_key(ret);
	if (r == 0)
		r = *ret_listen_fd = listen_at(ret);
	if (r >= 0)
		return 0;
	session_unclaim(ret);
	return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot make the socket of session '%s'", name);
}

void session_unclaim(struct session_place *p)
{
	if (p->key_fd >= 0) {
		remove_files(p->dir_fd, p->name);
		close(p->key_fd);
	}
	if (p->dir_fd >= 0)
		close(p->dir_fd);
	p->dir_fd = p->key_fd = -1;
}

static int connect_at(int dir_fd, const char *name)
{
	const struct timeval some = { .tv_sec = CONNECT_S }, none = { 0 };
	struct sockaddr_un address;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

	if (fd < 0)
		return -errno;
	set_address(&address, dir_fd, name);
	/* Its queue may be full, if it is stopped. */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &some, sizeof(some));
	r = connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
	if (r == 0 && session_peer_is_free(fd, session_count_filters(0)))
		return fd;
	r = r < 0 ? r : -EPERM;
	close(fd);
	return r;
}

static void say_stale(const char *name)
{
	say_line("session '%s' is gone: its supervisor was killed, and its sandbox with it", name);
}

int session_connect(const char *name, char ret_key[SESSION_KEY_CHARS + 1], struct cordon_error *err)
{
	if (session_check_name(name, err) < 0)
		return -CORDON_E_USAGE;
	for (unsigned i = 0; i < SESSION_PLACES; i++) {
		int dir_fd = session_open_place(i, 0), is_alive = 0, key_fd, fd;
		ssize_t n;

		if (dir_fd < 0)
			continue;
		key_fd = open_key(dir_fd, name, 0, &is_alive);
		if (key_fd >= 0 && !is_alive) {
			remove_files(dir_fd, name);
			say_stale(name);
		}
		n = key_fd >= 0 && is_alive ? pread(key_fd, ret_key, SESSION_KEY_CHARS, 0) : -1;
		if (key_fd >= 0)
			close(key_fd);
		fd = n == SESSION_KEY_CHARS ? connect_at(dir_fd, name) : -1;
		close(dir_fd);
		if (n != SESSION_KEY_CHARS)
			continue;
		ret_key[SESSION_KEY_CHARS] = '\0';
		if (fd >= 0)
			return fd;
		if (fd == -EPERM) {
			cordon_err(err, CORDON_E_STATE, 0,
				   "who answers for session '%s' is confined: nothing was sent",
				   name);
			cordon_err_hint(err, "a sandboxed command has made it; end that run, or "
					     "take another name");
			return -CORDON_E_STATE;
		}
		if (fd == -EAGAIN) {
			cordon_err(err, CORDON_E_STATE, 0, "session '%s' does not answer", name);
			cordon_err_hint(err, "its supervisor may be stopped: 'kill -CONT' lets it "
					     "go on");
			return -ETIMEDOUT;
		}
		return cordon_err(err, CORDON_E_SYSTEM, -fd, "cannot connect to session '%s'",
				  name);
	}
	cordon_err(err, CORDON_E_STATE, 0, "there is no session '%s'", name);
	cordon_err_hint(err, "'cordon ps' lists the sessions");
	return -CORDON_E_STATE;
}

struct names {
	char (*v)[SESSION_NAME_MAX + 1];
	size_t n, cap;
};

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int keep_name(struct names *names, const char *name)
{
	if (names->n == names->cap) {
		size_t cap = names->cap ? 2 * names->cap : 16;
		void *grown = realloc(names->v, cap * sizeof(*names->v));

		if (!grown)
			return -1;
		names->v = grown;
		names->cap = cap;
	}
	snprintf(names->v[names->n++], sizeof(*names->v), "%s", name);
	return 0;
}

/* "NAME.key" -> NAME into @ret; 0 if it is another file. */
static int name_of(const char *file, char ret[SESSION_NAME_MAX + 1])
{
	size_t len = strlen(file), suffix = strlen(SUFFIX_KEY);

	if (len <= suffix || len - suffix > SESSION_NAME_MAX ||
	    strcmp(file + len - suffix, SUFFIX_KEY) != 0)
		return 0;
	snprintf(ret, SESSION_NAME_MAX + 1, "%.*s", (int)(len - suffix), file);
	return session_check_name(ret, NULL) == 0;
}

static void look_at(int dir_fd, const char *name, struct names *names)
{
	int is_alive = 0, fd = open_key(dir_fd, name, 0, &is_alive);

	if (fd < 0)
		return;
	if (is_alive) {
		(void)keep_name(names, name);
	} else {
		remove_files(dir_fd, name);
		say_stale(name);
	}
	close(fd);
}

int session_each(void (*each)(void *arg, const char *name), void *arg, struct cordon_error *err)
{
	struct names names = { 0 };

	(void)err;
	for (unsigned i = 0; i < SESSION_PLACES; i++) {
		int dir_fd = session_open_place(i, 0);
		DIR *dir = dir_fd < 0 ? NULL : fdopendir(dir_fd);
		const struct dirent *entry;
		char name[SESSION_NAME_MAX + 1];

		while (dir && (entry = readdir(dir)))
			if (name_of(entry->d_name, name))
				look_at(dir_fd, name, &names);
		if (dir)
			closedir(dir);
	}
	if (names.n)
		qsort(names.v, names.n, sizeof(*names.v), compare);
	for (size_t i = 0; i < names.n; i++)
		each(arg, names.v[i]);
	free(names.v);
	return 0;
}

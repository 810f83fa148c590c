/* SPDX-License-Identifier: Apache-2.0 */
#include "pool_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/session_place.h"
#include "session_dir.h"

#define FILE_NAME ".pool"
#define SOCKET_NAME ".pool.sock"
#define TELL_MAX 1024
#define BACKLOG 64
#define CLAIM_TRIES 100
#define PROOF_MIN 70

static int open_file(int dir_fd, int flags)
{
	return openat(dir_fd, FILE_NAME, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags,
		      0600);
}

/* Who has locked the file, 0 = nobody. It is the kernel that says so. */
static pid_t holder_of(int file_fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(file_fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK || lock.l_pid <= 0)
		return 0;
	return lock.l_pid;
}

static void set_address(struct sockaddr_un *address, int dir_fd)
{
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/" SOCKET_NAME,
		 dir_fd);
}

static int is_taken(pid_t pid, struct cordon_error *err)
{
	cordon_err(err, CORDON_E_STATE, 0, "a pool is running already (process %d)", (int)pid);
	cordon_err_hint(err, "end it with 'cordon pool stop'");
	return -CORDON_E_STATE;
}

/* The lock of the file that has the name: 0, -EAGAIN with *ret_pid, or -errno. */
static int lock_file(struct pool_place *p, pid_t *ret_pid)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct stat st;

	for (int i = 0; i < CLAIM_TRIES; i++) {
		p->file_fd = open_file(p->dir_fd, O_CREAT);
		if (p->file_fd < 0)
			return -errno;
		if (fcntl(p->file_fd, F_SETLK, &lock) == 0 && fstat(p->file_fd, &st) == 0 &&
		    st.st_nlink > 0)
			return 0;
		/* Locked, or removed by one that has just ended. */
		*ret_pid = holder_of(p->file_fd);
		close(p->file_fd);
		p->file_fd = -1;
		if (*ret_pid)
			return -EAGAIN;
	}
	return -EBUSY;
}

static int listen_in(int dir_fd)
{
	struct sockaddr_un address;
	int r, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	(void)unlinkat(dir_fd, SOCKET_NAME, 0); /* of a killed one */
	set_address(&address, dir_fd);
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
	    listen(fd, BACKLOG) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

int pool_claim(struct pool_place *ret, int *ret_listen_fd, struct cordon_error *err)
{
	pid_t pid = pool_find(NULL);
	int r;

	if (pid)
		return is_taken(pid, err);
	*ret = (struct pool_place)POOL_PLACE_INIT;
	for (unsigned i = 0; ret->dir_fd < 0 && i < SESSION_PLACES; i++)
		ret->dir_fd = session_open_place(i, 1);
	if (ret->dir_fd < 0)
		return session_no_place("a pool", err);
	r = lock_file(ret, &pid);
	if (r == 0)
		r = *ret_listen_fd = listen_in(ret->dir_fd);
	if (r >= 0)
		return 0;
	pool_unclaim(ret);
	return r == -EAGAIN ? is_taken(pid, err)
			    : cordon_err(err, CORDON_E_SYSTEM, -r, "cannot make the pool's socket");
}

void pool_unclaim(struct pool_place *p)
{
	if (p->file_fd >= 0) {
		/* The locked file last: as long as it is there, nobody else takes the place. */
		(void)unlinkat(p->dir_fd, SOCKET_NAME, 0);
		(void)unlinkat(p->dir_fd, FILE_NAME, 0);
		close(p->file_fd);
	}
	if (p->dir_fd >= 0)
		close(p->dir_fd);
	*p = (struct pool_place)POOL_PLACE_INIT;
}

int pool_tell(const struct pool_place *p, int proof, const char *json)
{
	char text[TELL_MAX];
	int n;

	/* One write of fixed size: a reader sees the old text or the new. */
	memset(text, '\n', sizeof(text));
	n = snprintf(text, sizeof(text), "%d\n%s", proof, json);
	if (n < 0 || (size_t)n >= sizeof(text))
		return -E2BIG;
	text[n] = '\n';
	return pwrite(p->file_fd, text, sizeof(text), 0) == (ssize_t)sizeof(text) ? 0 : -EIO;
}

int pool_connect(int *ret_proof)
{
	for (unsigned i = 0; i < SESSION_PLACES; i++) {
		struct sockaddr_un address;
		char text[16] = "";
		int dir_fd = session_open_place(i, 0), file_fd, fd = -1;
		ssize_t n = -1;

		if (dir_fd < 0)
			continue;
		file_fd = openat(dir_fd, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (file_fd >= 0) {
			n = read(file_fd, text, sizeof(text) - 1);
			close(file_fd);
		}
		if (n > 0 && text[0] >= '0' && text[0] <= '9') {
			*ret_proof = (int)strtol(text, NULL, 10);
			set_address(&address, dir_fd);
			fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		}
		/* It does not wait for one whose queue is full either. */
		if (fd >= 0 &&
		    connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
			close(fd);
			fd = -1;
		}
		close(dir_fd);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

/* Nobody has it locked: what is left of one that was killed goes, if nobody takes the place now. */
static void remove_stale(int dir_fd, int file_fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct stat st;

	if (fcntl(file_fd, F_SETLK, &lock) < 0 || fstat(file_fd, &st) < 0 || st.st_nlink == 0)
		return;
	(void)unlinkat(dir_fd, SOCKET_NAME, 0);
	(void)unlinkat(dir_fd, FILE_NAME, 0);
}

pid_t pool_find(struct strbuf *ret_json)
{
	pid_t pid = 0;

	for (unsigned i = 0; pid == 0 && i < SESSION_PLACES; i++) {
		char text[TELL_MAX + 1], *json;
		int dir_fd = session_open_place(i, 0), fd = dir_fd < 0 ? -1 : open_file(dir_fd, 0);
		ssize_t n = fd < 0 ? 0 : read_full(fd, text, TELL_MAX);

		if (fd >= 0) {
			pid = holder_of(fd);
			if (!pid)
				remove_stale(dir_fd, fd);
			close(fd);
		}
		if (dir_fd >= 0)
			close(dir_fd);
		text[n > 0 ? n : 0] = '\0';
		json = strchr(text, '\n');
		if (pid && ret_json && json)
			strbuf_add(ret_json, json + 1, strcspn(json + 1, "\n"));
	}
	return pid;
}

/*
 * A command that may write to /tmp can make the place there before there is a pool, and give the
 * name to a file that another program has locked.
 */
int pool_has_proof(pid_t pid)
{
	static const char start[] = "/memfd:cordon-";
	char path[64], name[PATH_MAX];
	struct dirent *entry;
	int found = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), entry->d_name, name, sizeof(name));

		/* Its number is long: other memory files have words. */
		found = n > PROOF_MIN && memcmp(name, start, sizeof(start) - 1) == 0;
	}
	if (dir)
		closedir(dir);
	return found;
}

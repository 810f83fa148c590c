/* SPDX-License-Identifier: Apache-2.0 */
#include "runs_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/session_place.h"
#include "session_dir.h"
#include "session_peer.h"

#define SUFFIX_RUN ".run"
#define SUFFIX_NEW ".new" /* is being made, or was */
#define FILE_MAX (RUN_ID_CHARS + 8)
#define ABOUT_MAX ((size_t)64 << 10) /* the first line */
#define RECORD_MAX ((size_t)1 << 20) /* both */
#define ENTRIES_MAX 10000	     /* names that are looked at */
#define RUNS_MAX 1024
#define MAKE_TRIES 8

/* The lock and the question who has it: the first byte. */
static struct flock life(short type)
{
	return (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
}

/* Supervisor */

void run_entry_prepare(void)
{
	char path[PATH_MAX];

	for (unsigned i = 0; i < SESSION_PLACES; i++) {
		session_place(i, (unsigned)geteuid(), path, sizeof(path));
		if (session_place_is_used(i, (unsigned)geteuid()))
			(void)mkdir(path, 0700);
	}
}

/* A file beyond this limit of the caller's own would end us by a signal. */
static int may_write(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= RECORD_MAX;
}

/* In @entry->dir_fd. -EEXIST, -ENOENT: another process tidied up or has the name; try another one.
 */
static int make_in_place(struct run_entry *entry, const struct strbuf *about)
{
	struct flock lock = life(F_WRLCK);
	char new_name[FILE_MAX], name[FILE_MAX];
	uint32_t number;
	int fd, r;

	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
		return -EIO;
	snprintf(entry->id, sizeof(entry->id), "%08x", number);
	snprintf(new_name, sizeof(new_name), "%s%s", entry->id, SUFFIX_NEW);
	snprintf(name, sizeof(name), "%s%s", entry->id, SUFFIX_RUN);
	fd = openat(entry->dir_fd, new_name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return -errno;
	r = fcntl(fd, F_SETLK, &lock) < 0 || fchmod(fd, 0600) < 0 ? -errno : 0;
	if (r == 0)
		r = write_full(fd, about->data, about->len);
	if (r == 0 && syscall(SYS_renameat2, entry->dir_fd, new_name, entry->dir_fd, name,
			      1 /* RENAME_NOREPLACE */) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(entry->dir_fd, new_name, 0);
		close(fd);
		return r;
	}
	entry->fd = fd;
	entry->len = (off_t)about->len;
	return 0;
}

int run_entry_make(struct run_entry *ret, const struct strbuf *about)
{
	int r = -EPERM;

	if (about->failed || about->len > ABOUT_MAX || !may_write())
		return -EFBIG;
	/* What others left, so that it cannot pile up where nobody looks. Not later: to close a
	 * second descriptor of our own file would unlock it. */
	run_each(NULL, NULL);
	for (unsigned i = 0; ret->dir_fd < 0 && i < SESSION_PLACES; i++)
		ret->dir_fd = session_open_place(i, 1);
	if (ret->dir_fd < 0)
		return -EPERM;
	for (int i = 0; ret->fd < 0 && i < MAKE_TRIES; i++) {
		r = make_in_place(ret, about);
		if (r != -EEXIST && r != -ENOENT)
			break;
	}
	if (r < 0) {
		close(ret->dir_fd);
		ret->dir_fd = -1;
	}
	return r;
}

void run_entry_end(struct run_entry *entry, int status, const char *receipt)
{
	struct strbuf sb = STRBUF_INIT;
	char name[FILE_MAX];

	if (entry->fd < 0)
		return;
	snprintf(name, sizeof(name), "%s%s", entry->id, SUFFIX_RUN);
	strbuf_printf(&sb, "{\"status\":%d}\n", status);
	if (receipt && ABOUT_MAX + strlen(receipt) < RECORD_MAX)
		strbuf_printf(&sb, "%s\n", receipt);
	if (!sb.failed && ftruncate(entry->fd, entry->len) == 0)
		(void)write_full(entry->fd, sb.data, sb.len);
	strbuf_done(&sb);
	(void)unlinkat(entry->dir_fd, name, 0);
	close(entry->dir_fd);
	close(entry->fd);
	entry->dir_fd = entry->fd = -1;
}

/* The other side */

/* The supervisor of the run whose file @fd is: 0 = nobody, -1 = not to be seen from here. */
static pid_t holder(int fd)
{
	struct flock lock = life(F_RDLCK);

	if (fcntl(fd, F_GETLK, &lock) < 0)
		return -1;
	if (lock.l_type == F_UNLCK)
		return 0;
	return lock.l_pid > 0 ? lock.l_pid : -1;
}

int run_is_alive(const struct run_seen *run)
{
	return run->pid > 0 && holder(run->fd) == run->pid;
}

/* "ID@suffix"? */
static int is_entry(const char *file, const char *suffix)
{
	return strlen(file) == RUN_ID_CHARS + strlen(suffix) &&
	       strspn(file, "0123456789abcdef") == RUN_ID_CHARS &&
	       !strcmp(file + RUN_ID_CHARS, suffix);
}

/*
 * Opens what should be a run's file, but may have been made by anybody who got at the directory: a
 * link is not followed, a FIFO or device not opened, and another's file not read.
 */
static int open_entry(int dir_fd, const char *file)
{
	struct stat st;
	int fd;

	if (fstatat(dir_fd, file, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return -1;
	fd = openat(dir_fd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    st.st_nlink == 1 && st.st_size <= (off_t)RECORD_MAX)
		return fd;
	close(fd);
	return -1;
}

/* The line that begins at *at, without its end, to be freed; NULL if it is not whole. *at is then
 * the next one's. */
static char *take_line(int fd, off_t *at, size_t max)
{
	char *text = malloc(max), *line = NULL;
	ssize_t n = text ? read_full_at(fd, text, max, *at) : -1;
	const char *end = n > 0 ? memchr(text, '\n', (size_t)n) : NULL;

	if (end)
		line = strndup(text, (size_t)(end - text));
	if (line)
		*at += end + 1 - text;
	free(text);
	return line;
}

/* It as an object in @arena, or NULL. */
static const struct json_value *read_line(int fd, off_t *at, size_t max, struct arena *arena)
{
	const struct json_value *root = NULL;
	char *line = take_line(fd, at, max);

	if (line && (json_read(line, strlen(line), "run", arena, &root, NULL) < 0 ||
		     root->type != JSON_OBJECT))
		root = NULL;
	free(line);
	return root;
}

/* A command in a sandbox has more filters than who asks, and made that file itself. */
static int is_confined(pid_t pid)
{
	long own = session_count_filters(0), its = session_count_filters(pid);

	return own < 0 || its < 0 || its > own;
}

void run_seen_done(struct run_seen *run)
{
	if (run->fd >= 0)
		close(run->fd);
	run->fd = -1;
	arena_done(&run->arena);
}

/* 1 = *ret is a run that lives, with its file open. What is left of a killed one is removed. */
static int look_at(int dir_fd, const char *file, struct run_seen *ret)
{
	int is_new = is_entry(file, SUFFIX_NEW);
	const struct json_value *started;

	if (!is_new && !is_entry(file, SUFFIX_RUN))
		return 0;
	*ret = (struct run_seen){ .fd = open_entry(dir_fd, file), .arena = ARENA_INIT };
	if (ret->fd < 0)
		return 0;
	ret->pid = holder(ret->fd);
	/* Whose file vanishes while it is being made makes another one. */
	if (ret->pid == 0)
		(void)unlinkat(dir_fd, file, 0);
	snprintf(ret->id, sizeof(ret->id), "%.*s", RUN_ID_CHARS, file);
	if (ret->pid && !is_new && !(ret->pid > 0 && is_confined(ret->pid)))
		ret->about = read_line(ret->fd, &ret->end_at, ABOUT_MAX, &ret->arena);
	if (!ret->about) {
		run_seen_done(ret);
		return 0;
	}
	started = json_get(ret->about, "started_ms");
	/* Anybody's number: an age is to be counted from it. */
	ret->started_ms = started && started->type == JSON_INTEGER && started->integer > 0
				  ? started->integer
				  : 0;
	return 1;
}

/* Calls @call for each run that lives, until it returns other than 0; it owns the run. */
static void walk(int (*call)(void *arg, struct run_seen *run), void *arg)
{
	int left = ENTRIES_MAX, is_over = 0;

	for (unsigned i = 0; i < SESSION_PLACES; i++) {
		int dir_fd = session_open_place(i, 0);
		DIR *dir = dir_fd < 0 ? NULL : fdopendir(dir_fd);
		const struct dirent *entry;
		struct run_seen run;

		while (dir && !is_over && left-- > 0 && (entry = readdir(dir)))
			if (look_at(dir_fd, entry->d_name, &run))
				is_over = call(arg, &run);
		if (dir)
			closedir(dir);
	}
}

struct gathered {
	struct run_seen *v;
	size_t n;
};

static int gather(void *arg, struct run_seen *run)
{
	struct gathered *g = arg;
	void *grown = realloc(g->v, (g->n + 1) * sizeof(*g->v));

	if (!grown) {
		run_seen_done(run);
		return 1;
	}
	g->v = grown;
	close(run->fd);
	run->fd = -1;
	g->v[g->n++] = *run;
	return g->n == RUNS_MAX;
}

static int drop(void *arg, struct run_seen *run)
{
	(void)arg;
	run_seen_done(run);
	return 0;
}

static int by_age(const void *a, const void *b)
{
	const struct run_seen *x = a, *y = b;

	if (x->started_ms != y->started_ms)
		return x->started_ms < y->started_ms ? -1 : 1;
	return strcmp(x->id, y->id);
}

void run_each(void (*each)(void *arg, const struct run_seen *run), void *arg)
{
	struct gathered g = { NULL, 0 };

	if (!each) {
		walk(drop, NULL);
		return;
	}
	walk(gather, &g);
	if (g.n)
		qsort(g.v, g.n, sizeof(*g.v), by_age);
	for (size_t i = 0; i < g.n; i++) {
		each(arg, &g.v[i]);
		run_seen_done(&g.v[i]);
	}
	free(g.v);
}

struct search {
	const char *id;
	struct run_seen *ret;
	int n;
};

static int match(void *arg, struct run_seen *run)
{
	struct search *s = arg;

	if (strncmp(run->id, s->id, strlen(s->id)) != 0 || s->n++) {
		run_seen_done(run);
		return s->n > 1;
	}
	*s->ret = *run;
	return 0;
}

int run_find(const char *id, struct run_seen *ret, struct cordon_error *err)
{
	struct search s = { id, ret, 0 };

	if (*id && strlen(id) <= RUN_ID_CHARS)
		walk(match, &s);
	if (s.n == 1)
		return 0;
	if (s.n) {
		run_seen_done(ret);
		cordon_err(err, CORDON_E_STATE, 0, "more than one run begins with '%s'", id);
		cordon_err_hint(err, "'cordon ps' lists them");
		return -CORDON_E_STATE;
	}
	cordon_err(err, CORDON_E_STATE, 0, "there is no run '%s'", id);
	cordon_err_hint(err, "'cordon ps' lists the runs that last; it may have ended");
	return -CORDON_E_STATE;
}

int run_wait(struct run_seen *run, int *ret_status, char **ret_receipt, struct cordon_error *err)
{
	struct flock lock = life(F_RDLCK);
	const struct json_value *end, *status;
	off_t at = run->end_at;

	while (fcntl(run->fd, F_SETLKW, &lock) < 0)
		if (errno != EINTR)
			return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot wait for run '%s'",
					  run->id);
	end = read_line(run->fd, &at, RECORD_MAX, &run->arena);
	status = end ? json_get(end, "status") : NULL;
	*ret_status = status && status->type == JSON_INTEGER && status->integer >= 0 &&
				      status->integer <= 255
			      ? (int)status->integer
			      : -1;
	*ret_receipt = NULL;
	if (*ret_status < 0)
		return 0;
	*ret_receipt = take_line(run->fd, &at, RECORD_MAX);
	if (*ret_receipt &&
	    (json_read(*ret_receipt, strlen(*ret_receipt), "run", &run->arena, &end, NULL) < 0 ||
	     end->type != JSON_OBJECT)) {
		free(*ret_receipt);
		*ret_receipt = NULL;
	}
	return 0;
}

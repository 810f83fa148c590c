/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon session put, get, ls: a command of the session that serves files (cordon/files.h), with
 * the rights of any other command there, and its protocol spoken over two pipes. What comes back is
 * the guest's and is believed nothing: sizes are checked, names are escaped.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json_write.h"
#include "out.h"
#include "output_file.h"
#include "session.h"
#include "verbs.h"
#include "workspace.h"

#define BUFFER 65536
#define TIME_MS "600000"
#define LIST_MAX (CORDON_FILES_LIST_BYTES + (1u << 20))

struct files {
	struct session_client client;
	int to_fd, from_fd;
};

static int files_open(const char *name, struct files *f, struct cordon_error *err)
{
	static const char *const strings[] = { "", TIME_MS, "0", "fr", "ffn", "0", "files" };
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct wire reply = WIRE_INIT;
	int in[2], out[2], fds[2], r;

	(void)sigaction(SIGPIPE, &ignore, NULL);
	r = session_open(name, &f->client, err);
	if (r < 0)
		return r;
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot create a pipe");
	fds[0] = in[0];
	fds[1] = out[1];
	r = session_send(&f->client, WIRE_EXEC, strings, 7, fds, 2, err);
	close(in[0]);
	close(out[1]);
	f->to_fd = in[1];
	f->from_fd = out[0];
	if (r == 0)
		r = session_receive(&f->client, &reply, err);
	wire_reset(&reply);
	return r < 0 ? r : 0;
}

static int garbled(struct cordon_error *err)
{
	return cordon_err(err, CORDON_E_STATE, 0, "the session ended before all was done");
}

static int send_request(const struct files *f, struct cordon_files_request *q, const char *path,
			struct cordon_error *err)
{
	q->magic = CORDON_FILES_MAGIC;
	q->path_len = (uint32_t)strlen(path);
	if (q->path_len == 0 || q->path_len > CORDON_FILES_PATH_MAX)
		return cordon_err(err, CORDON_E_PATH, 0, "'%s' is no path", path);
	if (write_full(f->to_fd, q, sizeof(*q)) < 0 || write_full(f->to_fd, path, q->path_len) < 0)
		return garbled(err);
	return 0;
}

/* The answer's data goes to @take, its end decides. */
static int read_answer_to(const struct files *f, const char *path,
			  int (*take)(void *arg, const char *data, size_t len), void *arg,
			  struct cordon_error *err)
{
	static char buffer[BUFFER];
	struct cordon_files_end end;
	uint32_t len;
	int r = 0;

	for (;;) {
		if (read_full(f->from_fd, &len, sizeof(len)) != (ssize_t)sizeof(len))
			return garbled(err);
		if (len == 0)
			break;
		if (len > CORDON_FILES_CHUNK_MAX ||
		    read_full(f->from_fd, buffer, len) != (ssize_t)len)
			return garbled(err);
		if (r == 0)
			r = take(arg, buffer, len);
	}
	if (read_full(f->from_fd, &end, sizeof(end)) != (ssize_t)sizeof(end))
		return garbled(err);
	if (end.error)
		return cordon_err(err, CORDON_E_PATH, end.error, "'%s' in the session", path);
	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "cannot write") : 0;
}

static int take_nothing(void *arg, const char *data, size_t len)
{
	(void)arg;
	(void)data;
	(void)len;
	return 0;
}

static int take_to_fd(void *arg, const char *data, size_t len)
{
	return write_full(*(const int *)arg, data, len);
}

static int take_to_buffer(void *arg, const char *data, size_t len)
{
	struct strbuf *sb = arg;

	if (sb->len + len > LIST_MAX)
		return -EFBIG;
	strbuf_add(sb, data, len);
	return sb->failed ? -ENOMEM : 0;
}

/* put */

static int send_file(const struct files *f, int fd, uint64_t size, struct cordon_error *err)
{
	static char buffer[BUFFER];

	/* Exactly as much as was announced, whatever becomes of the file meanwhile. */
	while (size > 0) {
		size_t most = size < sizeof(buffer) ? (size_t)size : sizeof(buffer);
		ssize_t n = read_full(fd, buffer, most);

		if (n < 0)
			return cordon_err(err, CORDON_E_PATH, (int)-n, "cannot read the file");
		if ((size_t)n < most)
			memset(buffer + n, 0, most - (size_t)n);
		if (write_full(f->to_fd, buffer, most) < 0)
			return 0; /* the answer says why */
		size -= most;
	}
	return 0;
}

/* Its size is not known ahead. */
#define PIPE_HINT "for a pipe: cordon session exec NAME -- sh -c 'cat > PATH'"
#define DIRECTORY_HINT "for a directory: tar c DIR | cordon session exec NAME -- tar x"

int cmd_session_put(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_files_request q = { .op = CORDON_FILES_WRITE, .flags = CORDON_FILES_PARENTS };
	struct files f;
	struct stat st;
	int fd;

	if (session_operands(args, 3, 3, &err) < 0)
		return session_fail(&err);
	/* A FIFO would wait for its writer. */
	fd = open(args->rest[1], O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		cordon_err(&err, CORDON_E_PATH, errno, "cannot read '%s'", args->rest[1]);
		if (!strcmp(args->rest[1], "-"))
			cordon_err_hint(&err, "%s", PIPE_HINT);
		return session_fail(&err);
	}
	if (!S_ISREG(st.st_mode)) {
		cordon_err(&err, CORDON_E_PATH, 0, "'%s' is not a regular file", args->rest[1]);
		cordon_err_hint(&err, "%s", S_ISDIR(st.st_mode) ? DIRECTORY_HINT : PIPE_HINT);
		return session_fail(&err);
	}
	q.data_len = (uint64_t)st.st_size;
	q.mode = st.st_mode & 0777;
	if (files_open(args->rest[0], &f, &err) < 0 ||
	    send_request(&f, &q, args->rest[2], &err) < 0 ||
	    send_file(&f, fd, q.data_len, &err) < 0 ||
	    read_answer_to(&f, args->rest[2], take_nothing, NULL, &err) < 0)
		return session_fail(&err);
	return 0;
}

/* get */

/* Where the file system can, without a name, so that nothing stays if we are killed. */
static int open_temporary(int dir_fd, const char *name, int *ret_is_named)
{
	int fd = openat(dir_fd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);

	*ret_is_named = fd < 0;
	if (fd < 0)
		fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
			    0666);
	return fd < 0 ? -errno : fd;
}

/* Into a new file beside it, which takes the name when all is there. */
static int get_to_file(const struct files *f, const char *remote, const char *local,
		       struct cordon_error *err)
{
	const char *name;
	char temporary[64], path[32];
	struct stat st;
	int dir_fd = output_open_dir("", local, &name, err), fd, r, is_named;

	if (dir_fd < 0)
		return dir_fd;
	snprintf(temporary, sizeof(temporary), ".cordon-get-%d", (int)getpid());
	/* A device, as root, would be gone; and who names a link means what it leads to. */
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode)) {
		close(dir_fd);
		cordon_err(err, CORDON_E_PATH, 0, "cannot write '%s': not a regular file", local);
		return cordon_err_hint(err, "'-' is standard output");
	}
	fd = open_temporary(dir_fd, temporary, &is_named);
	if (fd < 0) {
		close(dir_fd);
		return cordon_err(err, CORDON_E_PATH, -fd, "cannot write '%s'", local);
	}
	r = read_answer_to(f, remote, take_to_fd, &fd, err);
	if (r == 0 && !is_named) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (linkat(AT_FDCWD, path, dir_fd, temporary, AT_SYMLINK_FOLLOW) < 0)
			r = cordon_err(err, CORDON_E_PATH, errno, "cannot write '%s'", local);
	}
	if (close(fd) < 0 && r == 0)
		r = cordon_err(err, CORDON_E_PATH, errno, "cannot write '%s'", local);
	if (r == 0 && renameat(dir_fd, temporary, dir_fd, name) < 0)
		r = cordon_err(err, CORDON_E_PATH, errno, "cannot write '%s'", local);
	if (r < 0)
		(void)unlinkat(dir_fd, temporary, 0);
	close(dir_fd);
	return r;
}

int cmd_session_get(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_files_request q = { .op = CORDON_FILES_READ };
	int out_fd = STDOUT_FILENO, r;
	struct files f;

	if (session_operands(args, 3, 3, &err) < 0 || files_open(args->rest[0], &f, &err) < 0 ||
	    send_request(&f, &q, args->rest[1], &err) < 0)
		return session_fail(&err);
	r = strcmp(args->rest[2], "-") == 0
		    ? read_answer_to(&f, args->rest[1], take_to_fd, &out_fd, &err)
		    : get_to_file(&f, args->rest[1], args->rest[2], &err);
	return r < 0 ? session_fail(&err) : 0;
}

/* ls */

static char type_letter(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return 'd';
	case S_IFLNK:
		return 'l';
	case S_IFREG:
		return '-';
	default:
		return '?';
	}
}

static void list_record(struct strbuf *sb, struct json_writer *w, int is_json,
			const struct cordon_files_record *rec, const char *name)
{
	char size[HUMAN_MAX];

	if (is_json) {
		json_open_object(w, NULL);
		json_bytes(w, "name", name, rec->name_len);
		json_uint(w, "size", rec->size);
		json_uint(w, "mode", rec->mode);
		json_int(w, "mtime_ns", rec->mtime_ns);
		json_close_object(w);
		return;
	}
	strbuf_printf(sb, "%c%04o  %8s  ", type_letter(rec->mode), (unsigned)rec->mode & 07777u,
		      human_size(rec->size, size));
	strbuf_add_escaped(sb, name, rec->name_len);
	strbuf_putc(sb, '\n');
}

static int list_all(const struct strbuf *data, struct strbuf *out, int is_json)
{
	struct json_writer w;
	size_t at = 0;

	json_writer_init(&w, out, 0);
	if (is_json)
		json_open_array(&w, NULL);
	while (at < data->len) {
		struct cordon_files_record rec;

		if (data->len - at < sizeof(rec))
			return -1;
		memcpy(&rec, data->data + at, sizeof(rec));
		at += sizeof(rec);
		if (rec.name_len > CORDON_FILES_PATH_MAX ||
		    rec.target_len > CORDON_FILES_PATH_MAX ||
		    (size_t)rec.name_len + rec.target_len > data->len - at)
			return -1;
		list_record(out, &w, is_json, &rec, data->data + at);
		at += (size_t)rec.name_len + rec.target_len;
	}
	if (is_json) {
		json_close_array(&w);
		strbuf_putc(out, '\n');
	}
	return 0;
}

int cmd_session_ls(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_files_request q = { .op = CORDON_FILES_LIST, .depth = 1 };
	struct strbuf data = STRBUF_INIT, out = STRBUF_INIT;
	const char *path = args->n_rest == 2 ? args->rest[1] : ".";
	struct files f;

	if (session_operands(args, 1, 2, &err) < 0 || files_open(args->rest[0], &f, &err) < 0 ||
	    send_request(&f, &q, path, &err) < 0 ||
	    read_answer_to(&f, path, take_to_buffer, &data, &err) < 0)
		return session_fail(&err);
	if (list_all(&data, &out, parsed_has(args, OPT_JSON)) < 0) {
		garbled(&err);
		return session_fail(&err);
	}
	return out_finish(&out, 0);
}

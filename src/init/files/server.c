/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's loop: a request, what it asks for, an answer.
 *
 * Should: answer every well-formed request, also one that fails.
 * Mustn't: go on after a malformed one: the beginning of the next one is unknown then.
 */
#include "init/files/files.h"
#include "init/files/server.h"
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/mman.h>

#include "bare/raw.h"
#include "bare/signals.h"

#define STDIN_FD 0
#define STDOUT_FD 1

static void __attribute__((noreturn)) leave(int status)
{
	for (;;)
		raw_syscall(__NR_exit_group, status, 0, 0, 0, 0, 0);
}

/* Reads @len bytes. 0 if there was nothing at all; half of something is the end. */
static int take_all(void *to, size_t len)
{
	size_t done = 0;

	while (done < len) {
		long n = raw_syscall(__NR_read, STDIN_FD, RAW_ARG((char *)to + done),
				     (long)(len - done), 0, 0, 0);

		if (n == -EINTR)
			continue;
		if (n == 0 && done == 0)
			return 0;
		if (n <= 0)
			leave(CORDON_FILES_MALFORMED);
		done += (size_t)n;
	}
	return 1;
}

size_t serve_take(struct server *s, uint64_t max)
{
	size_t len = max < sizeof(s->data) ? (size_t)max : sizeof(s->data);

	if (len && !take_all(s->data, len))
		leave(CORDON_FILES_MALFORMED);
	return len;
}

static void send_all(const void *from, size_t len)
{
	for (size_t done = 0; done < len;) {
		long n = raw_syscall(__NR_write, STDOUT_FD, RAW_ARG((const char *)from + done),
				     (long)(len - done), 0, 0, 0);

		if (n == -EINTR)
			continue;
		if (n <= 0)
			leave(1); /* the client is gone */
		done += (size_t)n;
	}
}

void serve_flush(struct server *s)
{
	if (!s->n_out)
		return;
	s->out_len = s->n_out;
	send_all(&s->out_len, sizeof(s->out_len) + s->n_out);
	s->n_out = 0;
}

void serve_put(struct server *s, const void *data, size_t len)
{
	while (len > 0) {
		size_t room = sizeof(s->out) - s->n_out, n = len < room ? len : room;

		memcpy(s->out + s->n_out, data, n);
		s->n_out += (uint32_t)n;
		data = (const char *)data + n;
		len -= n;
		if (s->n_out == sizeof(s->out))
			serve_flush(s);
	}
}

static void answer(struct server *s, long r)
{
	const struct {
		uint32_t none;
		struct cordon_files_end end;
	} __attribute__((packed)) tail = { 0, { (int32_t)-r, r < 0 ? 0 : s->end_flags } };

	serve_flush(s);
	send_all(&tail, sizeof(tail));
}

/* 0 at the end of the requests. */
static int take_request(struct server *s)
{
	struct cordon_files_request *request = &s->request;

	if (!take_all(request, sizeof(*request)))
		return 0;
	if (serve_check_request(request) < 0)
		leave(CORDON_FILES_MALFORMED);
	if ((request->path_len && !take_all(s->path, request->path_len)) ||
	    (request->path2_len && !take_all(s->path2, request->path2_len)))
		leave(CORDON_FILES_MALFORMED);
	if (serve_check_path(s->path, request->path_len) < 0 ||
	    serve_check_path(s->path2, request->path2_len) < 0)
		leave(CORDON_FILES_MALFORMED);
	s->end_flags = 0;
	return 1;
}

static long carry_out(struct server *s)
{
	switch (s->request.op) {
	case CORDON_FILES_READ:
		return serve_read(s);
	case CORDON_FILES_WRITE:
		return serve_write(s);
	case CORDON_FILES_STAT:
		return serve_stat(s);
	case CORDON_FILES_LIST:
		return serve_list(s);
	case CORDON_FILES_MKDIR:
		return serve_mkdir(s);
	case CORDON_FILES_REMOVE:
		return serve_remove(s);
	case CORDON_FILES_RENAME:
		return serve_rename(s);
	case CORDON_FILES_CHMOD:
		return serve_chmod(s);
	case CORDON_FILES_REALPATH:
		return serve_realpath(s);
	case CORDON_FILES_READLINK:
		return serve_readlink(s);
	case CORDON_FILES_SYMLINK:
		return serve_symlink(s);
	default:
		return -EINVAL;
	}
}

void serve_files(void)
{
	/* A limit on file sizes shall give an error (EFBIG), not a signal. */
	const uint64_t blocked = SIGNAL_BIT(SIGPIPE_NR) | SIGNAL_BIT(SIGXFSZ_NR);
	struct server *s;
	long r;

	raw_syscall(__NR_rt_sigprocmask, SIG_SETMASK_NR, RAW_ARG(&blocked), 0, KERNEL_SIGSET_BYTES,
		    0, 0);
	/* Most of it is never touched, and takes no memory then. */
	r = raw_syscall(__NR_mmap, 0, sizeof(*s), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (r <= 0)
		leave(1);
	s = (struct server *)r;
	s->uid = (uint32_t)raw_syscall(__NR_getuid, 0, 0, 0, 0, 0, 0);
	while (take_request(s))
		answer(s, carry_out(s));
	leave(0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard streams. The guest only has ends of our pipes, so nothing it does to them (flags,
 * offsets, modes) reaches the caller's descriptors.
 *
 * Nothing here blocks, although the caller's descriptors cannot be made non-blocking (other
 * processes may share their flags): a pipe is written with SPLICE_F_NONBLOCK or, once poll() says
 * that it is ready, in pieces that the kernel takes whole. While bytes wait for the other side, no
 * more are read: back-pressure reaches the guest, memory stays bounded.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/termclean.h"
#include "launch/launch.h"
#include "sys/calls.h"

#define CHUNK 65536
#define CLEAN_CHUNK 4096
#define TERMINAL_BUFFER 65536 /* more than the kernel keeps between the two ends of one */
#define ROUNDS 16	      /* pieces moved before other streams get their turn */

/*
 * A terminal that polls as ready may take one byte and block on the next. A second open file has
 * its own flags, so it can be non-blocking. -1: not a terminal, or it cannot be opened.
 */
static int open_terminal(int fd)
{
	char path[32];
	int new_fd, ret;

	if (!isatty(fd))
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	new_fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (new_fd < 0 || new_fd > 2)
		return new_fd;
	ret = fcntl(new_fd, F_DUPFD_CLOEXEC, 3);
	close(new_fd);
	return ret;
}

static int set_peer(struct relay *r, int fd, struct cordon_error *err)
{
	struct stat st;

	r->peer_fd = r->is_terminal && !r->is_input ? open_terminal(fd) : -1;
	if (r->peer_fd < 0)
		r->peer_fd = sys_fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (r->peer_fd < 0)
		return cordon_err(err, CORDON_E_USAGE, -r->peer_fd,
				  "cannot use descriptor %d as a stream", fd);
	if (fstat(r->peer_fd, &st) < 0)
		return cordon_err(err, CORDON_E_USAGE, errno,
				  "cannot use descriptor %d as a stream", fd);
	r->peer_is_pipe = S_ISFIFO(st.st_mode);
	r->peer_is_file = S_ISREG(st.st_mode);
	if (r->is_input && r->peer_is_file)
		r->file_offset = lseek(r->peer_fd, 0, SEEK_CUR);
	return 0;
}

static int make_pipe(struct relay *r, int *ret_guest_fd, struct cordon_error *err)
{
	int fds[2], e = sys_pipe(fds);

	if (e < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -e, "cannot create a pipe");
	*ret_guest_fd = r->is_input ? fds[0] : fds[1];
	r->pipe_fd = r->is_input ? fds[1] : fds[0];
	e = sys_fcntl(r->pipe_fd, F_SETFL, O_NONBLOCK);
	/* Opening /dev/stdin opens the pipe again: allow that in its direction only. */
	if (e >= 0 && fchmod(r->pipe_fd, r->is_input ? 0444 : 0222) < 0)
		e = -errno;
	return e < 0 ? cordon_err(err, CORDON_E_SYSTEM, -e, "cannot set up a pipe") : 0;
}

int relay_init(struct relay *r, const struct cordon_stream *stream, int is_input,
	       int64_t limit_bytes, int *ret_guest_fd, struct cordon_error *err)
{
	int e;

	*r = (struct relay){ .mode = stream->mode,
			     .pipe_fd = -1,
			     .peer_fd = -1,
			     .unread_fd = -1,
			     .is_input = is_input,
			     .is_terminal = !ret_guest_fd,
			     .last_bytes = -1,
			     .limit = limit_bytes > 0 ? (uint64_t)limit_bytes : 0 };
	if (stream->mode == CORDON_STREAM_JOIN)
		return 0;
	e = ret_guest_fd ? make_pipe(r, ret_guest_fd, err) : 0;
	if (e < 0)
		return e;
	if (stream->mode == CORDON_STREAM_DATA) {
		r->data = stream->data;
		r->data_len = stream->data_len;
	}
	if (stream->mode == CORDON_STREAM_CAPTURE && r->limit) {
		r->head_max = (size_t)((r->limit + 1) / 2);
		r->tail_max = (size_t)(r->limit / 2);
	}
	if (stream->mode != CORDON_STREAM_FD)
		return 0;
	if (stream->clean && !is_input) {
		r->clean = calloc(1, sizeof(*r->clean));
		if (!r->clean)
			return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	}
	e = set_peer(r, stream->fd, err);
	if (e == 0 && r->is_input && r->peer_is_file && ret_guest_fd) {
		r->unread_fd = sys_fcntl(*ret_guest_fd, F_DUPFD_CLOEXEC, 3);
		if (r->unread_fd < 0)
			return cordon_err(err, CORDON_E_SYSTEM, -r->unread_fd,
					  "cannot set up a pipe");
	}
	return e;
}

static void drop_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void relay_done(struct relay *r)
{
	drop_fd(&r->pipe_fd);
	drop_fd(&r->peer_fd);
	drop_fd(&r->unread_fd);
	free(r->buffer);
	free(r->clean);
	free(r->head);
	free(r->tail);
	r->buffer = r->head = r->tail = NULL;
	r->clean = NULL;
}

int relay_is_over(const struct relay *r)
{
	return r->pipe_fd < 0 && r->start == r->end;
}

/* Registers for @events on @fd, or takes the registration away when they are 0. */
static void arm(int epoll_fd, int fd, int *armed, int events)
{
	if (fd < 0 || *armed == events)
		return;
	if (events == 0)
		sys_epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, 0, 0);
	else
		/* Fails for regular files, which are always ready. */
		sys_epoll_ctl(epoll_fd, *armed ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd,
			      (uint32_t)events, 0);
	*armed = events;
}

static void close_pipe(struct relay *r, int epoll_fd)
{
	arm(epoll_fd, r->pipe_fd, &r->pipe_armed, 0);
	drop_fd(&r->pipe_fd);
}

static int ensure_buffer(struct relay *r)
{
	if (!r->buffer) {
		r->capacity = r->clean ? TERMCLEAN_OUT_SIZE(CLEAN_CHUNK) : CHUNK;
		r->buffer = malloc(r->capacity);
	}
	return r->buffer ? 0 : -ENOMEM;
}

static int is_ready(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, 0) > 0;
}

/* The caller takes no more output. A closed pipe is an ordinary end, anything else a loss. */
static void peer_is_gone(struct relay *r, int error)
{
	r->peer_failed = 1;
	if (error != EPIPE)
		r->write_errno = error;
}

/* Writes buffered bytes to the caller: 1 all written, 0 it is not ready. */
static int flush_to_peer(struct relay *r)
{
	while (r->start < r->end) {
		size_t n = r->end - r->start;
		ssize_t done;

		if (!r->peer_is_file) {
			if (!is_ready(r->peer_fd, POLLOUT))
				return 0;
			/* A pipe or terminal that is ready takes this much without blocking. */
			if (n > PIPE_BUF)
				n = PIPE_BUF;
		}
		done = write(r->peer_fd, r->buffer + r->start, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0 && errno == EAGAIN)
			return 0;
		if (done <= 0) {
			peer_is_gone(r, done < 0 ? errno : EIO);
			r->start = r->end = 0;
			return 1;
		}
		r->start += (size_t)done;
	}
	r->start = r->end = 0;
	return 1;
}

static size_t count(struct relay *r, size_t n)
{
	uint64_t before = r->total;

	r->total += n;
	if (!r->limit || r->total <= r->limit)
		return n;
	r->truncated = 1;
	return before >= r->limit ? 0 : (size_t)(r->limit - before);
}

static int grow(char **buffer, size_t len, size_t add, size_t max, size_t *capacity)
{
	size_t want = len + add, size = *capacity ? *capacity : 4096;
	char *bigger;

	if (want <= *capacity)
		return 0;
	while (size < want)
		size *= 2;
	if (max && size > max)
		size = max > want ? max : want;
	bigger = realloc(*buffer, size);
	if (!bigger)
		return -ENOMEM;
	*buffer = bigger;
	*capacity = size;
	return 0;
}

/* Keeps the last bytes, in a ring. */
static int keep_end(struct relay *r, const char *data, size_t n)
{
	if (n == 0 || r->tail_max == 0)
		return 0;
	if (!r->tail) {
		r->tail = malloc(r->tail_max);
		if (!r->tail)
			return -ENOMEM;
	}
	if (n > r->tail_max) {
		data += n - r->tail_max;
		n = r->tail_max;
	}
	while (n > 0) {
		size_t part = r->tail_max - r->tail_pos;

		if (part > n)
			part = n;
		memcpy(r->tail + r->tail_pos, data, part);
		r->tail_pos = (r->tail_pos + part) % r->tail_max;
		r->tail_len = r->tail_len + part > r->tail_max ? r->tail_max : r->tail_len + part;
		data += part;
		n -= part;
	}
	return 0;
}

/* Keeps the first half of the limit, and the last half of what follows. */
static int keep(struct relay *r, const char *data, size_t n)
{
	size_t head = n;

	if (r->limit && head > r->head_max - r->head_len)
		head = r->head_max - r->head_len;
	if (head) {
		if (grow(&r->head, r->head_len, head, r->head_max, &r->capacity) < 0)
			return -ENOMEM;
		memcpy(r->head + r->head_len, data, head);
		r->head_len += head;
	}
	return keep_end(r, data + head, n - head);
}

void relay_keep_end(struct relay *r)
{
	if (r->mode == CORDON_STREAM_CAPTURE)
		return;
	r->keeps_end = 1;
	r->tail_max = RELAY_END_BYTES;
}

int relay_captured(struct relay *r, struct cordon_output *ret)
{
	size_t total = r->head_len + r->tail_len;

	if (r->tail_len) {
		size_t capacity = r->head_len, begin = 0, first;

		if (grow(&r->head, r->head_len, r->tail_len, 0, &capacity) < 0)
			return -ENOMEM;
		if (r->tail_len == r->tail_max)
			begin = r->tail_pos;
		first = r->tail_len - begin;
		memcpy(r->head + r->head_len, r->tail + begin, first);
		memcpy(r->head + r->head_len + first, r->tail, begin);
		r->head_len = total;
		r->tail_len = 0;
	}
	ret->data = r->head;
	ret->len = r->head_len;
	return 0;
}

size_t relay_copy(const struct relay *r, char **buf)
{
	size_t begin = r->tail_len && r->tail_len == r->tail_max ? r->tail_pos : 0;
	size_t first = r->tail_len - begin;
	char *copy = realloc(*buf, r->head_len + r->tail_len + 1);

	if (!copy)
		return 0;
	*buf = copy;
	if (r->head_len)
		memcpy(copy, r->head, r->head_len);
	if (r->tail_len) {
		memcpy(copy + r->head_len, r->tail + begin, first);
		memcpy(copy + r->head_len + first, r->tail, begin);
	}
	return r->head_len + r->tail_len;
}

void relay_stop_capture(struct relay *r)
{
	if (r->mode == CORDON_STREAM_CAPTURE)
		r->mode = CORDON_STREAM_NULL;
}

/* The end of the output: flushes the cleaner. */
static void end_output(struct relay *r, int epoll_fd)
{
	close_pipe(r, epoll_fd);
	if (r->clean && !r->peer_failed && r->start == r->end && ensure_buffer(r) == 0) {
		r->start = 0;
		r->end = termclean_finish(r->clean, r->buffer);
	}
}

static void use_up(struct relay *r, ssize_t n)
{
	if (r->last_bytes >= 0)
		r->last_bytes -= n;
}

/* Pipe to pipe without copying: 1 moved, 0 one side is not ready, -1 copy instead. */
static int splice_out(struct relay *r, int epoll_fd)
{
	size_t most = r->last_bytes >= 0 && r->last_bytes < CHUNK ? (size_t)r->last_bytes : CHUNK;
	ssize_t n = splice(r->pipe_fd, NULL, r->peer_fd, NULL, most, SPLICE_F_NONBLOCK);

	if (n == 0) {
		close_pipe(r, epoll_fd);
		return 1;
	}
	if (n > 0) {
		r->total += (uint64_t)n;
		use_up(r, n);
		return 1;
	}
	if (errno == EPIPE) {
		peer_is_gone(r, EPIPE);
		return 1;
	}
	return errno == EAGAIN ? 0 : -1;
}

/* Reads one piece from the guest: 1 progress, 0 nothing there. */
static int read_guest(struct relay *r, int epoll_fd)
{
	char stack_buffer[CLEAN_CHUNK], *to = stack_buffer;
	size_t room = sizeof(stack_buffer), n;
	ssize_t got;

	/* Most streams stay silent, so a buffer is made for the first bytes only. */
	if (r->mode == CORDON_STREAM_FD && !r->clean && r->buffer) {
		to = r->buffer;
		room = r->capacity;
	}
	if (r->last_bytes >= 0 && (int64_t)room > r->last_bytes)
		room = (size_t)r->last_bytes;
	got = read(r->pipe_fd, to, room);
	if (got > 0)
		use_up(r, got);
	if (got < 0 && errno == EINTR)
		return 1;
	/* EIO: the terminal was closed. */
	if (got < 0 && errno != EAGAIN && !(r->is_terminal && errno == EIO))
		return -errno;
	if (got < 0 && errno == EAGAIN && r->last_bytes < 0)
		return 0;
	if (got <= 0) {
		end_output(r, epoll_fd);
		return 1;
	}
	if (r->mode == CORDON_STREAM_CAPTURE) {
		count(r, (size_t)got);
		return keep(r, to, (size_t)got) < 0 ? -ENOMEM : 1;
	}
	if (r->keeps_end)
		(void)keep_end(r, to, (size_t)got); /* without memory less is told */
	n = count(r, (size_t)got);
	if (r->mode != CORDON_STREAM_FD || n == 0)
		return 1;
	if (ensure_buffer(r) < 0)
		return -ENOMEM;
	r->start = 0;
	r->end = n;
	if (r->clean)
		r->end = termclean_feed(r->clean, to, n, r->buffer);
	else if (to != r->buffer)
		memcpy(r->buffer, to, n);
	return 1;
}

/* Nothing more will come out of the pipe: no event may be waited for there. */
static int is_ending(const struct relay *r)
{
	return r->pipe_fd < 0 || r->last_bytes == 0;
}

/* Nothing has to be seen or counted on the way. */
static int can_splice(const struct relay *r)
{
	return r->peer_is_pipe && !r->clean && !r->limit && !r->is_terminal && !r->keeps_end;
}

static int pump_output(struct relay *r, int epoll_fd)
{
	int wait_for_peer = 0;

	for (int i = 0; (i < ROUNDS || is_ending(r)) && !relay_is_over(r); i++) {
		int e;

		if (r->start < r->end && !flush_to_peer(r)) {
			wait_for_peer = 1;
			break;
		}
		/* No reader: the guest's next write must fail as in a pipeline. */
		if ((r->peer_failed || r->last_bytes == 0) && r->pipe_fd >= 0)
			end_output(r, epoll_fd);
		if (r->pipe_fd < 0)
			continue;
		if (can_splice(r)) {
			e = splice_out(r, epoll_fd);
			if (e == 0 && r->last_bytes >= 0 && !is_ready(r->pipe_fd, POLLIN)) {
				r->last_bytes = 0;
				continue;
			}
			if (e == 0) {
				/* Either side may be the one that is not ready. */
				wait_for_peer = is_ready(r->pipe_fd, POLLIN) &&
						!is_ready(r->peer_fd, POLLOUT);
				break;
			}
			if (e > 0)
				continue;
		}
		e = read_guest(r, epoll_fd);
		if (e < 0)
			return e;
		if (e == 0)
			break;
	}
	arm(epoll_fd, r->pipe_fd, &r->pipe_armed, wait_for_peer ? 0 : EPOLLIN);
	arm(epoll_fd, r->peer_fd, &r->peer_armed,
	    wait_for_peer || r->start < r->end ? EPOLLOUT : 0);
	return 0;
}

/* Gets the next bytes for the guest: 1 some or the end, 0 none yet. */
static int fill_input(struct relay *r)
{
	char first[CLEAN_CHUNK], *to = r->buffer ? r->buffer : first;
	size_t room = r->buffer ? r->capacity : sizeof(first);
	ssize_t got;

	if (r->mode != CORDON_STREAM_FD || r->peer_fd < 0)
		return 1;
	if (r->peer_is_file && r->file_offset >= 0)
		/* Not read(): the caller shares the position, which moves only by what the guest
		 * has read. */
		got = pread(r->peer_fd, to, room, (off_t)(r->file_offset + (int64_t)r->total));
	else if (!is_ready(r->peer_fd, POLLIN))
		return 0;
	else
		got = read(r->peer_fd, to, room);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got > 0 && !r->buffer) {
		if (ensure_buffer(r) < 0)
			return -ENOMEM;
		memcpy(r->buffer, first, (size_t)got);
	}
	r->start = 0;
	r->end = got > 0 ? (size_t)got : 0;
	if (got > 0)
		r->total += (uint64_t)got;
	return 1;
}

static void end_input(struct relay *r, int epoll_fd)
{
	arm(epoll_fd, r->peer_fd, &r->peer_armed, 0);
	close_pipe(r, epoll_fd);
}

static int pump_input(struct relay *r, int epoll_fd)
{
	int wait_for_peer = 0;

	for (int i = 0; i < ROUNDS && r->pipe_fd >= 0; i++) {
		const char *from = r->data ? r->data : r->buffer;
		size_t end = r->data ? r->data_len : r->end;
		ssize_t n;

		if (r->start == end) {
			int e = r->data ? 1 : fill_input(r);

			if (e < 0)
				return e;
			wait_for_peer = e == 0;
			if (e == 0)
				break;
			if (r->data || r->end == 0)
				end_input(r, epoll_fd);
			continue;
		}
		n = write(r->pipe_fd, from + r->start, end - r->start);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0 && errno != EINTR)
			end_input(r, epoll_fd); /* the guest closed its input */
		r->start += n > 0 ? (size_t)n : 0;
	}
	if (r->pipe_fd < 0)
		return 0;
	/* Wait for the one side that is not ready. */
	arm(epoll_fd, r->pipe_fd, &r->pipe_armed, wait_for_peer ? 0 : EPOLLOUT);
	arm(epoll_fd, r->peer_fd, &r->peer_armed, wait_for_peer ? EPOLLIN : 0);
	return 0;
}

static int pump(struct relay *r, int epoll_fd)
{
	if (r->mode == CORDON_STREAM_JOIN || r->is_held || relay_is_over(r))
		return 0;
	return r->is_input ? pump_input(r, epoll_fd) : pump_output(r, epoll_fd);
}

/*
 * A write to a closed pipe raises SIGPIPE, which would kill a caller that does not expect it. So it
 * is blocked for this thread meanwhile, and consumed if it was not pending before.
 */
int relay_pump_all(struct relay *const relays[], int n, int epoll_fd)
{
	const struct timespec now = { 0, 0 };
	sigset_t sigpipe, old, pending;
	int r = 0, was_pending;

	sigemptyset(&sigpipe);
	sigaddset(&sigpipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &sigpipe, &old);
	was_pending = sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE);
	for (int i = 0; i < n && r == 0; i++)
		r = pump(relays[i], epoll_fd);
	if (!was_pending)
		while (sigtimedwait(&sigpipe, NULL, &now) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

void relay_last_output(struct relay *r)
{
	int waiting = 0;

	/* A process outside the tree may have the other end: only bytes written so far count. */
	if (r->is_terminal)
		waiting = TERMINAL_BUFFER; /* not all of it can be counted */
	else if (r->pipe_fd >= 0 && ioctl(r->pipe_fd, FIONREAD, &waiting) < 0)
		waiting = 0;
	r->last_bytes = waiting;
}

void relay_give_up(struct relay *r, int epoll_fd)
{
	if (r->mode == CORDON_STREAM_JOIN || relay_is_over(r))
		return;
	peer_is_gone(r, ETIMEDOUT);
	r->lost = 1;
	r->start = r->end = 0;
	arm(epoll_fd, r->peer_fd, &r->peer_armed, 0);
	close_pipe(r, epoll_fd);
}

void relay_forget(struct relay *r, int epoll_fd)
{
	arm(epoll_fd, r->pipe_fd, &r->pipe_armed, 0);
	arm(epoll_fd, r->peer_fd, &r->peer_armed, 0);
}

void relay_close_input(struct relay *r, int epoll_fd)
{
	int unread = 0;

	if (r->unread_fd >= 0 && ioctl(r->unread_fd, FIONREAD, &unread) == 0) {
		int64_t waiting = (int64_t)(r->end - r->start) + unread;

		if (waiting > (int64_t)r->total)
			waiting = (int64_t)r->total;
		lseek(r->peer_fd, (off_t)(r->file_offset + (int64_t)r->total - waiting), SEEK_SET);
	}
	drop_fd(&r->unread_fd);
	end_input(r, epoll_fd);
	r->start = r->end = 0;
}

uint64_t run_output_bytes(const struct cordon_run *run)
{
	return run->out.total + run->err.total;
}

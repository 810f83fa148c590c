/* SPDX-License-Identifier: Apache-2.0 */
#include "session_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE 65536

static void take_fds(struct wire *w, struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (w->n_fds < WIRE_FDS_MAX)
				w->fds[w->n_fds++] = fd;
			else
				close(fd);
		}
	}
}

/* No further than the end of this message: what follows is the next one's, with descriptors. */
static ssize_t receive_some(struct wire *w, int fd, char *to, size_t room)
{
	union {
		char space[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { to, room };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n;

	do
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	take_fds(w, &msg);
	return n;
}

static int check_head(const struct wire_head *h, uint32_t max)
{
	if (h->magic != WIRE_MAGIC || h->type == 0 || h->type >= WIRE_MAX || h->size > max ||
	    h->n_strings > WIRE_STRINGS_MAX)
		return -EBADMSG;
	return 0;
}

/* Exactly as many strings as announced, and nothing behind the last. */
static int split(struct wire *w)
{
	const char *at = w->in.data, *end = at + w->head.size;

	w->strings = calloc(w->head.n_strings + 1, sizeof(*w->strings));
	if (!w->strings)
		return -ENOMEM;
	if (w->head.type == WIRE_DATA)
		return w->head.n_strings == 0 ? 1 : -EBADMSG;
	for (uint32_t i = 0; i < w->head.n_strings; i++) {
		const char *nul = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;

		if (!nul)
			return -EBADMSG;
		w->strings[i] = at;
		at = nul + 1;
	}
	return at == end ? 1 : -EBADMSG;
}

int wire_receive(struct wire *w, int fd, uint32_t max)
{
	char piece[PIECE];

	for (;;) {
		size_t have = w->in.len;
		size_t want = w->has_head ? w->head.size : sizeof(w->head);
		ssize_t n;

		if (have == want && w->has_head)
			return split(w);
		if (have == want) {
			memcpy(&w->head, w->in.data, sizeof(w->head));
			if (check_head(&w->head, max) < 0)
				return -EBADMSG;
			w->has_head = 1;
			w->in.len = 0;
			continue;
		}
		want -= have;
		n = receive_some(w, fd, piece, want < sizeof(piece) ? want : sizeof(piece));
		if (n == -EAGAIN)
			return 0;
		if (n <= 0)
			return n < 0 ? (int)n : -EPIPE;
		strbuf_add(&w->in, piece, (size_t)n);
		if (w->in.failed)
			return -ENOMEM;
	}
}

void wire_reset(struct wire *w)
{
	for (int i = 0; i < w->n_fds; i++)
		if (w->fds[i] >= 0)
			close(w->fds[i]);
	free(w->strings);
	strbuf_done(&w->in);
	*w = (struct wire)WIRE_INIT;
}

void wire_add(struct strbuf *sb, uint32_t type, const char *const *strings, size_t n)
{
	struct wire_head head = { .magic = WIRE_MAGIC, .type = type, .n_strings = (uint32_t)n };

	for (size_t i = 0; i < n; i++)
		head.size += (uint32_t)strlen(strings[i]) + 1;
	strbuf_add(sb, &head, sizeof(head));
	for (size_t i = 0; i < n; i++)
		strbuf_add(sb, strings[i], strlen(strings[i]) + 1);
}

void wire_add_data(struct strbuf *sb, const void *data, size_t len)
{
	const struct wire_head head = { .magic = WIRE_MAGIC,
					.type = WIRE_DATA,
					.size = (uint32_t)len };

	strbuf_add(sb, &head, sizeof(head));
	strbuf_add(sb, data, len);
}

int wire_send(int fd, const struct strbuf *sb, const int *fds, int n_fds)
{
	union {
		char space[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	size_t done = 0;

	if (sb->failed)
		return -ENOMEM;
	while (done < sb->len) {
		struct iovec iov = { sb->data + done, sb->len - done };
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
		ssize_t n;

		if (done == 0 && n_fds > 0) {
			struct cmsghdr *header = &control.align;

			memset(&control, 0, sizeof(control));
			msg.msg_control = &control;
			msg.msg_controllen = CMSG_SPACE((size_t)n_fds * sizeof(int));
			header->cmsg_level = SOL_SOCKET;
			header->cmsg_type = SCM_RIGHTS;
			header->cmsg_len = CMSG_LEN((size_t)n_fds * sizeof(int));
			memcpy(CMSG_DATA(header), fds, (size_t)n_fds * sizeof(int));
		}
		n = sendmsg(fd, &msg, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return 0;
}

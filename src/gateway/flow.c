/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/flow.h"

#include <asm/unistd.h>
#include <linux/errno.h>

#define PIPES_MAX (2 * GATEWAY_CONNECTIONS_MAX)
#define PIPES_KEPT 8 /* idle ones that stay open; the first are the large ones */
#define PIPE_BYTES (1 << 20)
#define PIPE_FLAGS (02000000 | 04000) /* CLOEXEC, NONBLOCK */
#define F_SETPIPE_SZ_NR 1031
#define SPLICE_MOVE_NR 1
#define SPLICE_NONBLOCK_NR 2
#define SHUT_WR_NR 1
#define TURN_BYTES (8u << 20) /* what one direction may move before others have theirs */

/* Read and write end, each one more than the descriptor: 0 = not open. */
static struct {
	int ends[2];
	bool is_busy;
} pipes[PIPES_MAX];
static int n_idle;

static int take_pipe(void)
{
	int empty = -1, ends[2] = { -1, -1 };

	for (int i = 0; i < PIPES_MAX; i++) {
		if (pipes[i].is_busy)
			continue;
		if (pipes[i].ends[0]) {
			pipes[i].is_busy = true;
			n_idle--;
			return i;
		}
		if (empty < 0)
			empty = i;
		if (n_idle == 0)
			break;
	}
	if (empty < 0 || raw_syscall(__NR_pipe2, (long)ends, PIPE_FLAGS, 0, 0, 0, 0) < 0)
		return -1;
	/*
	 * Larger pipes for the few connections that are busy at once. The kernel limits all pipes
	 * of a user together, and beyond that gives tiny ones only: many connections must not do
	 * that to the user's other programs.
	 */
	if (empty < PIPES_KEPT)
		raw_syscall(__NR_fcntl, ends[1], F_SETPIPE_SZ_NR, PIPE_BYTES, 0, 0, 0);
	pipes[empty].ends[0] = ends[0] + 1;
	pipes[empty].ends[1] = ends[1] + 1;
	pipes[empty].is_busy = true;
	return empty;
}

static void close_pipe(int i)
{
	close_fd(pipes[i].ends[0] - 1);
	close_fd(pipes[i].ends[1] - 1);
	pipes[i].ends[0] = pipes[i].ends[1] = 0;
}

static void give_pipe(int i, bool is_empty)
{
	pipes[i].is_busy = false;
	if (is_empty && n_idle < PIPES_KEPT)
		n_idle++;
	else
		close_pipe(i);
}

void flow_close(struct flow *flow)
{
	if (flow->pipe >= 0)
		give_pipe(flow->pipe, flow->in_pipe == 0);
	flow->pipe = -1;
	flow->in_pipe = 0;
}

static long splice(int from, int to, uint64_t len)
{
	return raw_syscall(__NR_splice, from, 0, to, 0, (long)(len < PIPE_BYTES ? len : PIPE_BYTES),
			   SPLICE_MOVE_NR | SPLICE_NONBLOCK_NR);
}

/* read() takes what splice() does not: all but the urgent byte itself. */
static long copy(const struct flow *flow)
{
	static char data[4096]; /* fits into any empty pipe */
	long n = sock_recv(flow->from, data, flow->left < sizeof(data) ? flow->left : sizeof(data));

	if (n <= 0)
		return n;
	return raw_syscall(__NR_write, pipes[flow->pipe].ends[1] - 1, (long)data, n, 0, 0, 0);
}

/* From the sender into the pipe: how many bytes, 0 = its end, or -errno. */
static long fill(struct flow *flow)
{
	long n;

	if (flow->pipe < 0)
		flow->pipe = take_pipe();
	if (flow->pipe < 0)
		return -EMFILE;
	n = splice(flow->from, pipes[flow->pipe].ends[1] - 1, flow->left);
	/* Before an urgent byte splice() may also return 0, and we may not know of that byte yet.
	 */
	if (n == 0 || (n == -EAGAIN && flow->is_urgent))
		n = copy(flow);
	if (n > 0) {
		flow->in_pipe = (uint32_t)n;
		if (flow->left != FLOW_ALL)
			flow->left -= (uint64_t)n;
	}
	return n;
}

enum flow_state flow_put(struct gateway *g, struct flow *flow, const char *data, size_t len)
{
	long n;

	if (flow->pipe < 0)
		flow->pipe = take_pipe();
	if (flow->pipe < 0 || flow->in_pipe)
		return FLOW_BROKEN;
	n = raw_syscall(__NR_write, pipes[flow->pipe].ends[1] - 1, (long)data, (long)len, 0, 0, 0);
	/* Also if it is not all: the pipe must not be given to another flow then. */
	flow->in_pipe = n > 0 ? (uint32_t)n : 0;
	if (n == (long)len)
		return FLOW_MORE;
	/* The user's pages for pipes are used up, here or elsewhere, so the pipe is small. All
	 * bytes before these were delivered, so they can be sent without it. */
	flow_close(flow);
	if (len > bytes_left(g))
		return FLOW_TOO_MUCH;
	n = sock_send(flow->to, data, len);
	if (n > 0) {
		flow->moved += (uint64_t)n;
		count_bytes(g, flow->is_in, (uint64_t)n);
	}
	return n == (long)len ? FLOW_MORE : FLOW_BROKEN;
}

/* From the pipe to the receiver, at most @max bytes. */
static long drain(struct flow *flow, uint64_t max)
{
	long n = splice(pipes[flow->pipe].ends[0] - 1, flow->to,
			flow->in_pipe < max ? flow->in_pipe : max);

	if (n > 0) {
		flow->in_pipe -= (uint32_t)n;
		flow->moved += (uint64_t)n;
	}
	return n;
}

static enum flow_state finish(struct flow *flow)
{
	if (flow->has_end && !flow->is_shut) {
		flow->is_shut = true;
		raw_syscall(__NR_shutdown, flow->to, SHUT_WR_NR, 0, 0, 0, 0);
	}
	return FLOW_DONE;
}

enum flow_state flow_pump(struct gateway *g, struct flow *flow)
{
	uint64_t turn = 0;
	long n;

	while (turn < TURN_BYTES) {
		if (flow->in_pipe) {
			uint64_t max = bytes_left(g);

			if (max == 0)
				return FLOW_TOO_MUCH;
			n = drain(flow, max);
			if (n == -EAGAIN)
				return FLOW_WAITS;
			if (n <= 0)
				return FLOW_BROKEN;
			turn += (uint64_t)n;
			count_bytes(g, flow->is_in, (uint64_t)n);
			continue;
		}
		if (flow->has_end || flow->left == 0) {
			flow_close(flow);
			return finish(flow);
		}
		n = fill(flow);
		if (n > 0)
			continue;
		flow_close(flow);
		if (n == -EAGAIN)
			return FLOW_WAITS;
		if (n < 0)
			return FLOW_BROKEN;
		flow->has_end = true;
	}
	return FLOW_MORE;
}

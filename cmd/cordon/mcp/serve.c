/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop. It ends when the client has closed its end, or is not there any more, or a signal says
 * so; whatever runs then is ended, and waited for.
 */
#include <errno.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "session.h"
#include "verbs.h"

#define LAST_MS 1000   /* for calls that run when the client has closed its end */
#define GOODBYE_MS 500 /* for the client to read the last answers */

int64_t mcp_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int is_signalled(int fd)
{
	struct signalfd_siginfo info;
	int is_end = 0;

	while (read(fd, &info, sizeof(info)) == sizeof(info))
		is_end |= info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM ||
			  info.ssi_signo == SIGHUP || info.ssi_signo == SIGQUIT;
	return is_end;
}

/* Calls that are over go, and with them what they used. */
static void sweep(struct server *s)
{
	struct call **at = &s->calls;

	while (*at) {
		struct call *call = *at;

		if (call->state == CALL_OVER && call->job.state != JOB_RUNS) {
			*at = call->next;
			call_free(call);
			s->has_news = 1;
		} else {
			at = &call->next;
		}
	}
}

/* Something is left of jobs that are over: it ends, with the box. */
static void look_for_rest(struct server *s, struct box *box)
{
	struct cordon_session_usage usage;

	if (!box->session || box->is_over || box->jobs || s->n_sessions ||
	    s->looked_at == s->n_done)
		return;
	s->looked_at = s->n_done;
	if (cordon_session_usage(box->session, &usage, NULL) < 0 || usage.tasks > 0)
		box_end(box);
}

/* -1 = no time. */
static int64_t earlier(int64_t a, int64_t b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

static int timeout_of(const struct server *s, int64_t end_ms)
{
	int64_t next = end_ms, now = mcp_now_ms();

	for (const struct call *call = s->calls; call; call = call->next)
		next = earlier(next, call_next_ms(call));
	for (const struct session *one = s->sessions; one; one = one->next)
		for (int i = 0; i < LANGUAGE_MAX; i++)
			next = earlier(next, interp_next_ms(&one->interps[i]));
	/* Calls may have waited for what has become free. */
	if (s->has_news)
		return 0;
	if (next < 0)
		return -1;
	return next > now ? (int)(next - now) : 0;
}

struct waits {
	struct pollfd fds[MCP_POLL_MAX];
	int n, in, out;
};

static void collect(struct server *s, int signal_fd, struct waits *w)
{
	w->n = 0;
	w->in = w->out = -1;
	w->fds[w->n++] = (struct pollfd){ .fd = signal_fd, .events = POLLIN };
	if (!s->in_ended && client_queued(s) < MCP_QUEUE_MAX) {
		w->in = w->n;
		w->fds[w->n++] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
	}
	/* Without events it tells when nobody reads any more. */
	w->out = w->n;
	w->fds[w->n++] =
		(struct pollfd){ .fd = s->out_fd, .events = client_queued(s) ? POLLOUT : 0 };
	if (s->box.session && !s->box.is_over)
		w->fds[w->n++] = (struct pollfd){ .fd = cordon_session_fd(s->box.session),
						  .events = POLLIN };
	w->n += sessions_wait(s, w->fds + w->n);
	for (struct call *call = s->calls; call; call = call->next)
		w->n += call_waits(call, w->fds + w->n);
}

static void step_all(struct server *s, const struct waits *w)
{
	box_look(&s->box);
	sessions_look(s);
	for (struct call *call = s->calls; call; call = call->next)
		call_step(call, w->fds, w->n);
	/* What a client waits for comes before sandboxes for the next calls are made, which happens
	 * when a run is freed. */
	client_flush(s);
	sweep(s);
	methods_sweep(s);
	sessions_sweep(s);
	look_for_rest(s, &s->box);
}

/* All that has been said goes out, if it is read. */
static void say_goodbye(struct server *s)
{
	int64_t until = mcp_now_ms() + GOODBYE_MS;

	while (client_queued(s) && !s->out_failed) {
		struct pollfd p = { .fd = s->out_fd, .events = POLLOUT };
		int64_t left = until - mcp_now_ms();

		if (left <= 0 || poll(&p, 1, (int)left) <= 0)
			return;
		client_flush(s);
	}
}

static void end_all(struct server *s)
{
	for (struct call *call = s->calls; call; call = call->next) {
		job_cancel(&call->job);
		helper_cancel(&call->helper);
		call_end(call);
	}
	while (s->calls) {
		struct call *call = s->calls;

		s->calls = call->next;
		call_free(call);
	}
	methods_sweep(s);
	sessions_end(s);
	box_end(&s->box);
	box_free(&s->box);
}

int server_serve(struct server *s, int signal_fd)
{
	static struct waits w;
	int64_t end_ms = -1;
	int timeout;

	while (!s->out_failed) {
		collect(s, signal_fd, &w);
		timeout = timeout_of(s, end_ms);
		s->has_news = 0;
		if (poll(w.fds, (nfds_t)w.n, timeout) < 0 && errno != EINTR)
			break;
		if (w.fds[0].revents && is_signalled(signal_fd))
			break;
		if (w.fds[w.out].revents & (POLLERR | POLLHUP | POLLNVAL))
			break;
		client_flush(s);
		if (w.in >= 0 && w.fds[w.in].revents)
			client_read(s);
		step_all(s, &w);
		if (s->in_ended && end_ms < 0)
			end_ms = mcp_now_ms() + LAST_MS;
		if (s->in_ended && (!s->calls || mcp_now_ms() >= end_ms))
			break;
	}
	end_all(s);
	say_goodbye(s);
	return 0;
}

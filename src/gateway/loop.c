/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop: one epoll descriptor, one earliest time. */
#include "gateway/gateway.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/time.h>

#define DRAIN_NS (2 * SECOND)
#define DRAIN_MAX_NS (5 * SECOND)
#define EPOLL_CTL_ADD 1
#define EPOLL_CTL_DEL 2

long source_open(struct gateway *g, struct source *w, int fd, uint32_t events,
		 void (*ready)(struct gateway *, struct source *, uint32_t), void *owner)
{
	struct event event = { events, w };
	long r = raw_syscall(__NR_epoll_ctl, g->epoll_fd, EPOLL_CTL_ADD, fd, (long)&event, 0, 0);

	if (r < 0)
		return r;
	*w = (struct source){ fd, ready, owner };
	return 0;
}

/* Events already read in this turn must not reach the next user of the slot. */
static void forget_events(struct gateway *g, const struct source *w)
{
	for (int i = g->at_event; i < g->n_events; i++) {
		if (g->events[i].source == w)
			g->events[i].source = NULL;
	}
}

void source_close(struct gateway *g, struct source *w)
{
	if (w->fd < 0)
		return;
	forget_events(g, w);
	drop_fd(&w->fd);
}

int source_release(struct gateway *g, struct source *w)
{
	struct event none = { 0, NULL };
	int fd = w->fd;

	if (fd < 0)
		return -1;
	forget_events(g, w);
	raw_syscall(__NR_epoll_ctl, g->epoll_fd, EPOLL_CTL_DEL, fd, (long)&none, 0, 0);
	w->fd = -1;
	return fd;
}

void wake_at(struct gateway *g, uint64_t when_ns)
{
	if (when_ns < g->wake_ns)
		g->wake_ns = when_ns;
}

static int wait_ms(const struct gateway *g)
{
	uint64_t ms;

	if (conn_is_busy())
		return 0;
	if (g->wake_ns == NEVER)
		return -1;
	if (g->wake_ns <= g->now_ns)
		return 0;
	/* Rounded up: waking early would only mean waking twice. */
	ms = (g->wake_ns - g->now_ns + MS - 1) / MS;
	return ms > 3600000 ? 3600000 : (int)ms;
}

/* Each module looks at its own times and says when it wants to be asked again. */
static void expire(struct gateway *g)
{
	g->wake_ns = g->drained_ns ? g->drained_ns : NEVER;
	resolve_expire(g);
	dns_expire(g);
	conn_expire(g);
	publish_expire(g);
}

/*
 * The guest is gone, but the last bytes it sent may not have arrived: a program that sends and
 * exits relies on the kernel for that. They get time while they move, up to a limit.
 */
static bool goes_on(struct gateway *g)
{
	static uint64_t seen_bytes, last_ns;
	uint64_t bytes = g->account->bytes_out;

	if (!g->is_over)
		return true;
	if (last_ns == 0)
		last_ns = g->now_ns + DRAIN_MAX_NS;
	if (g->drained_ns == 0 || bytes != seen_bytes) {
		seen_bytes = bytes;
		g->drained_ns = g->now_ns + DRAIN_NS;
		if (g->drained_ns > last_ns)
			g->drained_ns = last_ns;
	}
	wake_at(g, g->drained_ns); /* each time: expire() forgets it */
	return !g->is_cut_short && g->now_ns < g->drained_ns && conn_are_unsent();
}

void run_loop(struct gateway *g)
{
	while (goes_on(g)) {
		long n = raw_syscall(__NR_epoll_pwait, g->epoll_fd, (long)g->events, EVENTS_MAX,
				     wait_ms(g), 0, 8);

		if (n < 0 && n != -EINTR)
			return;
		g->now_ns = now_ns();
		g->n_events = n < 0 ? 0 : (int)n;
		for (g->at_event = 0; g->at_event < g->n_events;) {
			struct event *e = &g->events[g->at_event++];

			if (e->source && e->source->fd >= 0)
				e->source->ready(g, e->source, e->events);
		}
		g->n_events = g->at_event = 0;
		conn_pump_again(g);
		if (g->wake_ns <= g->now_ns)
			expire(g);
	}
}

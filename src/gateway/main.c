/* SPDX-License-Identifier: Apache-2.0 */
/* The gateway's start: takes its descriptors, confines itself, says that it is ready. */
#include "gateway/gateway.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/mman.h>
#include <linux/prctl.h>

#include "bare/signals.h"
#include "gateway/message.h"

#define EPOLL_CLOEXEC_NR 02000000
#define SEEK_END_NR 2
#define PROT_RW 3
#define PROT_R 1
#define FDS_BASE 300	     /* listeners, sockets of lookups, our own */
#define FDS_PER_CONNECTION 6 /* two ends and two pipes; or one end and attempts to dial */

static struct gateway gateway;

static void __attribute__((noreturn)) leave(int status)
{
	for (;;)
		raw_syscall(__NR_exit_group, status, 0, 0, 0, 0, 0);
}

/* The socket to init closes with us, which stops the run; the supervisor reads why. */
static void __attribute__((noreturn)) fail(unsigned step, long negative_errno)
{
	if (gateway.account) {
		gateway.account->failed_errno = (int32_t)-negative_errno;
		gateway.account->failed_at = step;
	}
	leave(1);
}

static long map_file(int fd, long prot, long flags, size_t min, const void **ret, size_t *ret_size)
{
	long size = raw_syscall(__NR_lseek, fd, 0, SEEK_END_NR, 0, 0, 0), at;

	if (size < 0)
		return size;
	if ((size_t)size < min)
		return -EBADMSG;
	at = raw_syscall(__NR_mmap, 0, size, prot, flags, fd, 0);
	close_fd(fd);
	if (at < 0 && at > -4096)
		return at;
	*ret = (const void *)at;
	*ret_size = (size_t)size;
	return 0;
}

static bool config_is_sound(const struct gateway_config *c, size_t size)
{
	if (c->magic != GATEWAY_MAGIC || c->size != size || c->n_allow > NET_RULES_MAX ||
	    c->n_deny > NET_RULES_MAX || c->n_ports > NET_PORTS_MAX ||
	    c->n_publish > GATEWAY_PUBLISH_MAX)
		return false;
	return size >= sizeof(*c) + (c->n_allow + c->n_deny) * sizeof(c->rules[0]);
}

/* Takes the start message and maps what came with it. */
static void take_start(struct gateway *g)
{
	struct received got;
	const void *at;
	size_t size;
	long r = message_receive(CTL_FD, &got, 0);
	unsigned next = 4;

	/* Without an account there is nowhere to report: the supervisor sees us end. */
	if (r < 0 || got.n_fds < 4)
		leave(1);
	r = map_file(got.fds[1], PROT_RW, MAP_SHARED, sizeof(struct gateway_account), &at, &size);
	if (r < 0)
		leave(1);
	g->account = (struct gateway_account *)(uintptr_t)at;
	r = map_file(got.fds[0], PROT_R, MAP_PRIVATE, sizeof(struct gateway_config), &at, &size);
	if (r < 0)
		fail(GATEWAY_STEP_CONFIG, r);
	g->config = at;
	if (!config_is_sound(g->config, size))
		fail(GATEWAY_STEP_CONFIG, -EBADMSG);
	g->init_fd = got.fds[2];
	g->life_fd = got.fds[3];
	g->log_fd = g->config->flags & GATEWAY_LOG ? got.fds[next++] : -1;
	if (got.n_fds != next + g->config->n_publish)
		fail(GATEWAY_STEP_CONFIG, -EBADMSG);
	for (unsigned i = 0; i < g->config->n_publish; i++)
		g->publish_fds[i] = got.fds[next + i];
	g->rules = (struct net_rules){ g->config->rules, g->config->rules + g->config->n_allow,
				       g->config->n_allow, g->config->n_deny };
}

/* No signal may end or steer it; a broken pipe is an error of the call. */
static void prepare_process(void)
{
	const uint64_t all = ~(uint64_t)0;

	raw_syscall(__NR_rt_sigprocmask, SIG_BLOCK_NR, (long)&all, 0, 8, 0, 0);
	raw_syscall(__NR_prctl, PR_SET_NAME, (long)"cordon-gateway", 0, 0, 0, 0);
	/* The caller may want to unmount its current directory. */
	raw_syscall(__NR_chdir, (long)"/", 0, 0, 0, 0, 0);
}

/* Level namespaces: the listeners, which init made inside. */
static void take_listeners(struct gateway *g)
{
	const struct gateway_config *c = g->config;
	struct received got;
	long r = message_receive(g->init_fd, &got, 0);
	unsigned expected = c->n_allow ? 2 + c->n_ports : 0;

	if (r < 0)
		fail(GATEWAY_STEP_LISTEN, r);
	if (got.n_fds != expected || got.hello.n_fds != expected)
		fail(GATEWAY_STEP_LISTEN, -EBADMSG);
	g->has_v6 = got.hello.has_v6 != 0;
	if (expected == 0)
		return;
	r = dns_open(g, got.fds[0], got.fds[1]);
	for (unsigned i = 0; i < c->n_ports && r >= 0; i++)
		r = conn_listen(g, got.fds[2 + i], c->ports[i]);
	if (r < 0)
		fail(GATEWAY_STEP_LISTEN, r);
}

/* Init sends what was asked for (publish) or, at level landlock, the guest's connections. */
static void init_ready(struct gateway *g, struct source *w, uint32_t events)
{
	(void)events;
	for (int i = 0; i < 16; i++) {
		struct received got;
		long r = message_receive(w->fd, &got, MESSAGE_DONTWAIT);

		if (r == -EAGAIN || r == -EINTR)
			return;
		/* No descriptor was free for it: only that one is lost. */
		if (r == -EBADMSG)
			got.n_fds = 0;
		else if (r < 0) {
			/* Init is gone, and with it the sandbox. */
			g->is_over = true;
			source_close(g, w);
			conn_accept_last(g);
			return;
		}
		if (!(g->config->flags & GATEWAY_PROXY))
			publish_from_init(g, got.hello.id, got.n_fds ? got.fds[0] : -1);
		else if (got.n_fds)
			conn_take(g, got.fds[0]);
		for (unsigned k = 1; k < got.n_fds; k++)
			drop_fd(&got.fds[k]);
	}
}

/* The supervisor closes its end to stop us; a byte before that means: at once. */
static void supervisor_ready(struct gateway *g, struct source *w, uint32_t events)
{
	char byte;

	(void)events;
	g->is_over = true;
	g->is_cut_short |= sock_recv(w->fd, &byte, 1) > 0;
	source_release(g, w); /* it stays open: closing it tells that all is done */
	conn_accept_last(g);
}

/* It was killed. A process that it had forked may still have the sockets open. */
static void supervisor_died(struct gateway *g, struct source *w, uint32_t events)
{
	(void)events;
	g->is_over = g->is_cut_short = true;
	source_close(g, w);
}

__attribute__((noreturn, used)) void gateway_main(void);
void gateway_main(void)
{
	static struct source supervisor, life, init;
	struct gateway *g = &gateway;
	uint64_t n_fds = 0;
	unsigned step = 0;
	long r;

	prepare_process();
	/* While the supervisor is still planning. */
	r = resolve_setup();
	take_start(g);
	if (r < 0 && g->config->n_allow)
		fail(GATEWAY_STEP_RESOLVER, r);
	g->wake_ns = NEVER;
	g->now_ns = now_ns();
	r = raw_syscall(__NR_epoll_create1, EPOLL_CLOEXEC_NR, 0, 0, 0, 0, 0);
	if (r < 0)
		fail(GATEWAY_STEP_EPOLL, r);
	g->epoll_fd = (int)r;
	g->spare_fd = (int)sock_open(false, false);
	g->route_fd = -1;
	r = g->config->n_allow ? route_open(g) : 0;
	if (r < 0)
		fail(GATEWAY_STEP_ROUTES, r);
	r = confine(g->config, &step, &n_fds);
	if (r < 0)
		fail(step, r);
	if (n_fds < FDS_BASE + FDS_PER_CONNECTION)
		fail(GATEWAY_STEP_FDS, -EMFILE);
	g->max_connections = (uint32_t)((n_fds - FDS_BASE) / FDS_PER_CONNECTION);
	if (g->max_connections > GATEWAY_CONNECTIONS_MAX)
		g->max_connections = GATEWAY_CONNECTIONS_MAX;
	if (!(g->config->flags & GATEWAY_PROXY))
		take_listeners(g);
	r = publish_open(g);
	if (r < 0)
		fail(GATEWAY_STEP_PUBLISH, r);
	r = source_open(g, &supervisor, CTL_FD, EVENT_IN, supervisor_ready, NULL);
	if (r >= 0)
		r = source_open(g, &life, g->life_fd, EVENT_IN, supervisor_died, NULL);
	if (r >= 0)
		r = source_open(g, &init, g->init_fd, EVENT_IN, init_ready, NULL);
	if (r < 0)
		fail(GATEWAY_STEP_EPOLL, r);
	g->account->is_ready = 1;
	r = message_send_byte(g->init_fd, 'r');
	if (r < 0)
		fail(GATEWAY_STEP_READY, r);
	run_loop(g);
	conn_end_all(g);
	/* The supervisor waits for this, not for the rest. */
	for (int fd = CTL_FD; fd <= 2; fd++)
		close_fd(fd);
	leave(0);
}

ARCH_START("", "gateway_main");

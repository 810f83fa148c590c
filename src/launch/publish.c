/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of published ports. Opened here, so that a port in use is reported at once. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/gateway.h"
#include "launch/launch.h"
#include "net/addr.h"
#include "sys/calls.h"

#define BACKLOG 128
#define PICK_TRIES 32

static socklen_t fill_address(const struct net_addr *addr, uint16_t port,
			      struct sockaddr_storage *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (addr->is_v6) {
		struct sockaddr_in6 *sa = (void *)ret;

		sa->sin6_family = AF_INET6;
		sa->sin6_port = htons(port);
		memcpy(&sa->sin6_addr, addr->bytes, 16);
		return sizeof(*sa);
	}
	struct sockaddr_in *sa = (void *)ret;

	sa->sin_family = AF_INET;
	sa->sin_port = htons(port);
	memcpy(&sa->sin_addr, addr->bytes, 4);
	return sizeof(*sa);
}

/* A socket on @port (0 = any) of the host; *ret_port is the one it got. -errno on failure. */
static int open_one(const struct plan_publish *p, uint16_t port, uint16_t *ret_port)
{
	int is_tcp = p->protocol == GATEWAY_TCP, on = 1, r;
	struct sockaddr_storage sa;
	socklen_t len = fill_address(&p->addr, port, &sa);
	int fd = sys_socket(sa.ss_family,
			    (is_tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return fd;
	if (sa.ss_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (is_tcp)
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	r = sys_bind(fd, (const struct sockaddr *)&sa, len);
	if (r == 0 && is_tcp)
		r = sys_listen(fd, BACKLOG);
	if (r == 0)
		r = sys_getsockname(fd, (struct sockaddr *)&sa, &len);
	if (r < 0) {
		close(fd);
		return r;
	}
	*ret_port = ntohs(sa.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&sa)->sin6_port
						   : ((struct sockaddr_in *)&sa)->sin_port);
	return fd;
}

static int refuse(const struct plan_publish *p, int r, struct cordon_error *err)
{
	char text[NET_ADDR_TEXT_MAX];
	const char *addr = net_addr_format(&p->addr, text);
	const char *protocol = p->protocol == GATEWAY_TCP ? "TCP" : "UDP";

	cordon_err(err, CORDON_E_SETUP, -r, "cannot publish at %s port %u (%s)", addr, p->host_port,
		   protocol);
	if (err)
		err->stage = STAGE_NET;
	if (r == -EADDRINUSE)
		cordon_err_hint(err, "choose another one, or let one be picked: --publish 0:%u",
				p->port);
	if (r == -EACCES)
		cordon_err_hint(err, "ports below 1024 are the system's: --publish %u:%u",
				p->port < 1024 ? p->port + 8000u : p->port, p->port);
	if (r == -EADDRNOTAVAIL)
		cordon_err_hint(err, "%s is not an address of this machine", addr);
	return -CORDON_E_SETUP;
}

/* Are these the two protocols of one entry? */
static int is_pair(const struct plan_publish *a, const struct plan_publish *b)
{
	return a->protocol == GATEWAY_TCP && b->protocol == GATEWAY_UDP && a->port == b->port &&
	       a->host_port == b->host_port && net_addr_equal(&a->addr, &b->addr);
}

/* Both protocols of an entry get the same port, so a picked one must be free for both. */
static int open_entry(const struct plan_publish *p, size_t n, int *fds, uint16_t *ret_port,
		      struct cordon_error *err)
{
	int r = 0;

	for (int i = 0; i < PICK_TRIES; i++) {
		fds[0] = r = open_one(&p[0], p->host_port, ret_port);
		if (r < 0)
			return refuse(&p[0], r, err);
		if (n == 1)
			return 0;
		fds[1] = r = open_one(&p[1], *ret_port, ret_port);
		if (r >= 0)
			return 0;
		close(fds[0]);
		if (p->host_port != 0 || r != -EADDRINUSE)
			break;
	}
	return refuse(&p[1], r, err);
}

static int note_published(struct cordon_run *run, const struct plan_publish *p, uint16_t host_port)
{
	struct cordon_published *entry = &run->gateway.published[run->gateway.n_published++];
	char text[NET_ADDR_TEXT_MAX];

	entry->address = arena_strdup(&run->arena, net_addr_format(&p->addr, text));
	entry->port = p->port;
	entry->host_port = host_port;
	entry->protocol = p->protocol == GATEWAY_TCP ? "tcp" : "udp";
	return entry->address ? 0 : -1;
}

int publish_listen(struct cordon_run *run, int *ret_fds, struct cordon_error *err)
{
	const struct plan *plan = run->plan;
	size_t done = 0;
	int r = 0;

	run->gateway.n_published = 0;
	if (plan->n_publish == 0)
		return 0;
	run->gateway.published =
		arena_alloc(&run->arena, plan->n_publish * sizeof(*run->gateway.published));
	if (!run->gateway.published)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	while (done < plan->n_publish && r == 0) {
		const struct plan_publish *p = &plan->publish[done];
		size_t n = done + 1 < plan->n_publish && is_pair(&p[0], &p[1]) ? 2 : 1;
		uint16_t port = 0;

		r = open_entry(p, n, ret_fds + done, &port, err);
		if (r < 0)
			break;
		for (size_t i = 0; i < n; i++)
			r |= note_published(run, &p[i], port);
		done += n;
	}
	if (r == 0)
		return (int)done;
	for (size_t i = 0; i < done; i++)
		close(ret_fds[i]);
	return r < -1 ? r : cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
}

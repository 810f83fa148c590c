/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/child.h"
#include "launch/image.h"
#include "launch/launch.h"
#include "launch/net_proxy.h"
#include "sys/calls.h"

#define FIRST_PUBLISH 5

static int is_wanted(const struct cordon_policy *policy)
{
	return policy->net_allow.n > 0 || policy->net_publish.n > 0;
}

static int system_error(struct cordon_error *err, int r, const char *what)
{
	r = cordon_err(err, CORDON_E_SETUP, -r, "%s", what);
	if (err)
		err->stage = STAGE_NET;
	return r;
}

/* Once per launcher. */
static int program_fd(struct cordon_launcher *l, struct cordon_error *err)
{
	int fd;

	pthread_mutex_lock(&l->lock);
	if (l->gateway_fd < 0)
		l->gateway_fd = launcher_program_fd("cordon-gateway", cordon_gateway_image,
						    cordon_gateway_image_len, err);
	fd = l->gateway_fd;
	pthread_mutex_unlock(&l->lock);
	return fd;
}

int gateway_open(struct cordon_run *run, const struct cordon_policy *policy, int level,
		 struct cordon_error *err)
{
	struct run_gateway *g = &run->gateway;
	int pair[2], fds[2], r;

	if (!is_wanted(policy))
		return 0;
	if (level == PLAN_LEVEL_LANDLOCK) {
		r = net_proxy_bind(fds, &g->proxy_port, err);
		if (r < 0)
			return r;
		g->proxy_fd = fds[0];
		g->proxy_guard_fd = fds[1];
	}
	r = sys_socketpair(pair);
	if (r < 0)
		return system_error(err, r, "cannot create the socket between init and gateway");
	g->init_fd = pair[0];
	g->peer_fd = pair[1];
	return 0;
}

static int make_config_fd(const struct gateway_config *config, int has_log)
{
	const struct gateway_config *c = config;
	int fd = sys_memfd_create("cordon-gateway", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint32_t flags = c->flags | (has_log ? GATEWAY_LOG : 0);
	int r;

	if (fd < 0)
		return fd;
	r = sys_write(fd, c, c->size) == (ssize_t)c->size ? 0 : -ENOSPC;
	if (r == 0 && pwrite(fd, &flags, sizeof(flags), offsetof(struct gateway_config, flags)) !=
			      (ssize_t)sizeof(flags))
		r = -ENOSPC;
	if (r == 0)
		r = sys_fcntl(fd, F_ADD_SEALS, SEALS);
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

static int spawn(struct cordon_run *run, struct cordon_error *err)
{
	struct run_gateway *g = &run->gateway;
	char name[] = "cordon-gateway";
	struct child_args child = { .argv = { name, NULL } };
	int fds[2], r;

	child.init_fd = program_fd(run->launcher, err);
	if (child.init_fd < 0)
		return child.init_fd;
	r = sys_socketpair(fds);
	if (r < 0)
		return system_error(err, r, "cannot create the gateway's socket");
	child.ctl_fd = fds[1];
	r = sys_clone_vfork(0, &g->pid_fd, child_exec_init, &child);
	close(fds[1]);
	g->ctl_fd = fds[0];
	if (r < 0)
		return system_error(err, r, "cannot start the gateway");
	if (child.error)
		return system_error(err, (int)child.error, "cannot execute the gateway");
	r = sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, g->pid_fd, EPOLLIN, 0);
	return r < 0 ? system_error(err, r, "cannot monitor the gateway") : 0;
}

/* Only after the last step here can the command start. */
static int tell(struct cordon_run *run, struct cordon_error *err)
{
	struct run_gateway *g = &run->gateway;
	int has_log = run->options.net_log_fd > 0;
	int fds[FIRST_PUBLISH + GATEWAY_PUBLISH_MAX], r;
	unsigned n = 4, n_shared;
	void *account = NULL;

	fds[0] = make_config_fd(run->plan->gateway, has_log);
	if (fds[0] < 0)
		return system_error(err, fds[0], "cannot write the gateway's rules");
	fds[1] = shared_fd("cordon-account", sizeof(*g->account), &account);
	if (fds[1] < 0) {
		close(fds[0]);
		return system_error(err, fds[1], "cannot prepare the gateway");
	}
	g->account = account;
	fds[2] = g->peer_fd;
	g->peer_fd = -1;
	fds[3] = run->launcher->self_fd;
	if (has_log)
		fds[n++] = run->options.net_log_fd;
	n_shared = n;
	r = publish_listen(run, fds + n, err);
	if (r >= 0) {
		n += (unsigned)r;
		r = send_with_fds(g->ctl_fd, "s", 1, fds, n);
		/* It has died; init reports that it does not answer. */
		if (r == -EPIPE || r == -ECONNRESET)
			r = 0;
		if (r < 0)
			r = system_error(err, r, "cannot tell the gateway its rules");
	}
	for (unsigned i = 0; i < n; i++) {
		if (i < 3 || i >= n_shared)
			close(fds[i]);
	}
	return r;
}

int gateway_start(struct cordon_run *run, struct cordon_error *err)
{
	int r;

	if (!run->plan->gateway)
		return 0;
	if (run->gateway.peer_fd < 0)
		return cordon_err(err, CORDON_E_STATE, 0, "there is no socket for the gateway");
	r = spawn(run, err);
	return r < 0 ? r : tell(run, err);
}

void gateway_delivered(struct run_gateway *g)
{
	if (g->init_fd >= 0)
		close(g->init_fd);
	if (g->proxy_fd >= 0)
		close(g->proxy_fd);
	g->init_fd = g->proxy_fd = -1;
}

static int has_ended(const struct run_gateway *g)
{
	struct pollfd p = { .fd = g->pid_fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

void gateway_check(struct cordon_run *run)
{
	struct run_gateway *g = &run->gateway;
	siginfo_t info = { .si_pid = 0 };

	if (g->pid_fd < 0 || g->is_lost || g->is_ended || !has_ended(g))
		return;
	g->is_lost = 1;
	sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_DEL, g->pid_fd, 0, 0);
	/* WNOWAIT: the graveyard collects it. */
	if (waitid(P_PIDFD, (id_t)g->pid_fd, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 ||
	    info.si_pid == 0)
		return;
	/* It ends normally when init does, which we may notice later. */
	if (info.si_code == CLD_EXITED && info.si_status == 0) {
		g->is_lost = 0;
		g->is_ended = 1;
	} else if (info.si_code != CLD_EXITED) {
		g->wait_status = info.si_status;
	}
}

/* It closes the socket just before exit, which takes longer. */
static int has_closed(const struct run_gateway *g)
{
	struct pollfd p = { .fd = g->ctl_fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

int gateway_end(struct cordon_run *run)
{
	struct run_gateway *g = &run->gateway;

	if (g->pid_fd < 0 || g->ctl_fd < 0 || g->is_lost)
		return 1;
	if (!g->is_ended) {
		g->is_ended = 1;
		/* A run that was ended early does not wait for its bytes to go out. */
		if (run->ending || run->report.limit != CONTROL_LIMIT_NONE)
			(void)!send(g->ctl_fd, "q", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		shutdown(g->ctl_fd, SHUT_WR);
		sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, g->ctl_fd, EPOLLIN, 0);
	}
	return has_closed(g);
}

void gateway_done(struct cordon_launcher *l, struct run_gateway *g)
{
	struct cgroup none = CGROUP_INIT;

	gateway_delivered(g);
	if (g->peer_fd >= 0)
		close(g->peer_fd);
	if (g->proxy_guard_fd >= 0)
		close(g->proxy_guard_fd);
	if (g->ctl_fd >= 0)
		close(g->ctl_fd);
	if (g->pid_fd >= 0) {
		/* It ends when the socket closes, unless it is stuck. */
		if (!g->is_ended)
			sys_pidfd_send_signal(g->pid_fd, SIGKILL);
		graveyard_bury(l, g->pid_fd, &none);
	}
	if (g->account)
		munmap(g->account, sizeof(*g->account));
	*g = (struct run_gateway)RUN_GATEWAY_INIT;
}

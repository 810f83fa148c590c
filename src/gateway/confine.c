/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Should: leave the gateway nothing but sockets. No ids of root, no capabilities, no files, no
 * other processes, no memory beyond its tables; TCP to the allowed ports only; any system call that
 * relaying does not need kills it.
 * Mustn't: come after the first byte from inside the sandbox; go on if any part of it fails.
 *
 * Where the kernel has no Landlock (the sandbox then says so, too) the filter still has no call
 * that opens a file or makes a process.
 */
#include "gateway/gateway.h"

#include <asm/unistd.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>

#include "uapi/landlock.h"

#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule 445
#define __NR_landlock_restrict_self 446
#endif

#define RULE_NET_PORT 2
#define LIMIT_CORE 4 /* RLIMIT_CORE and so on */
#define LIMIT_NOFILE 7
#define LIMIT_AS 9
#define MEMORY_MAX (32u << 20)
#define FDS_WANTED 2048
#define DNS_PORT 53
#define NO_CORE 1 /* as a limit: no core file and no pipe to a core handler */

struct limit {
	uint64_t soft, hard;
};

static long set_limit(int resource, uint64_t value)
{
	const struct limit limit = { value, value };

	return raw_syscall(__NR_prlimit64, 0, resource, (long)&limit, 0, 0, 0);
}

static long set_limits(uint64_t *ret_fds)
{
	struct limit fds = { 0, 0 };
	long r = raw_syscall(__NR_prlimit64, 0, LIMIT_NOFILE, 0, (long)&fds, 0, 0);

	if (r < 0)
		return r;
	*ret_fds = fds.hard < FDS_WANTED ? fds.hard : FDS_WANTED;
	r = set_limit(LIMIT_NOFILE, *ret_fds);
	if (r >= 0)
		r = set_limit(LIMIT_AS, MEMORY_MAX);
	if (r >= 0)
		r = set_limit(LIMIT_CORE, NO_CORE);
	return r;
}

static long take_ids(const struct gateway_config *c)
{
	long r;

	if (c->uid == GATEWAY_NO_ID)
		return 0;
	r = raw_syscall(__NR_setgroups, 0, 0, 0, 0, 0, 0);
	if (r >= 0)
		r = raw_syscall(__NR_setresgid, c->gid, c->gid, c->gid, 0, 0, 0);
	if (r >= 0)
		r = raw_syscall(__NR_setresuid, c->uid, c->uid, c->uid, 0, 0, 0);
	return r;
}

/* Dropped and read back. */
static long drop_caps(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
	long r = raw_syscall(__NR_capset, (long)&header, (long)data, 0, 0, 0, 0);

	if (r < 0)
		return r;
	for (int i = 0; i < 2; i++)
		data[i].effective = data[i].permitted = data[i].inheritable = ~0u;
	r = raw_syscall(__NR_capget, (long)&header, (long)data, 0, 0, 0, 0);
	if (r < 0)
		return r;
	for (int i = 0; i < 2; i++) {
		if (data[i].effective | data[i].permitted | data[i].inheritable)
			return -EPERM;
	}
	return raw_syscall(__NR_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0);
}

static long allow_port(int ruleset, uint16_t port)
{
	const struct {
		uint64_t access, port;
	} attr = { LL_NET_CONNECT_TCP, port };

	return raw_syscall(__NR_landlock_add_rule, ruleset, RULE_NET_PORT, (long)&attr, 0, 0, 0);
}

/* No file at all; of TCP, what the rules name, the resolver's and what is published. */
static long add_ports(const struct gateway_config *c, int ruleset)
{
	long r = c->n_allow ? allow_port(ruleset, DNS_PORT) : 0;

	for (uint32_t i = 0; i < c->n_ports && r >= 0; i++)
		r = allow_port(ruleset, c->ports[i]);
	for (uint32_t i = 0; i < c->n_publish && r >= 0; i++)
		r = allow_port(ruleset, c->publish[i].port);
	return r;
}

static long enter_landlock(const struct gateway_config *c)
{
	const struct {
		uint64_t fs, net, scoped;
	} attr = { c->handled_fs, c->handled_net, c->scoped };
	size_t size = sizeof(attr);
	long fd, r = 0;

	if (!c->handled_fs)
		return 0;
	if (!c->scoped)
		size = c->handled_net ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
	fd = raw_syscall(__NR_landlock_create_ruleset, (long)&attr, (long)size, 0, 0, 0, 0);
	if (fd < 0)
		return fd;
	if (c->handled_net)
		r = add_ports(c, (int)fd);
	if (r >= 0)
		r = raw_syscall(__NR_landlock_restrict_self, fd, 0, 0, 0, 0, 0);
	close_fd(fd);
	return r;
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define PERMIT(nr) IS(nr, 0, 1), ALLOW

/* Low halves only: the kernel takes these arguments as int. */
static const struct sock_filter filter[] = {
	LOAD(arch),
	IS(ARCH_AUDIT, 1, 0),
	KILL,
	LOAD(nr),
	PERMIT(__NR_splice),
	PERMIT(__NR_epoll_pwait),
	PERMIT(__NR_recvfrom),
	PERMIT(__NR_sendto),
	PERMIT(__NR_clock_gettime),
	PERMIT(__NR_close),
	PERMIT(__NR_epoll_ctl),
	PERMIT(__NR_accept4),
	PERMIT(__NR_connect),
	PERMIT(__NR_getsockname),
	PERMIT(__NR_getsockopt),
	PERMIT(__NR_shutdown),
	PERMIT(__NR_recvmsg),
	PERMIT(__NR_sendmsg),
	PERMIT(__NR_pipe2),
	PERMIT(__NR_write),
	PERMIT(__NR_getrandom),
	PERMIT(__NR_restart_syscall),
	PERMIT(__NR_exit_group),
	/* setsockopt: of sockets, TCP and IP in general; nothing of netfilter's lives there */
	IS(__NR_setsockopt, 0, 6),
	LOAD(args[1]),
	IS(1 /* SOL_SOCKET */, 3, 0),
	IS(6 /* SOL_TCP */, 2, 0),
	IS(41 /* SOL_IPV6 */, 1, 0),
	IS(0 /* SOL_IP */, 0, 1),
	ALLOW,
	/* fcntl: the size of a pipe */
	LOAD(nr),
	IS(__NR_fcntl, 0, 3),
	LOAD(args[1]),
	IS(1031 /* F_SETPIPE_SZ */, 0, 1),
	ALLOW,
	/* socket: TCP and UDP over IP */
	LOAD(nr),
	IS(__NR_socket, 1, 0),
	KILL,
	LOAD(args[0]),
	IS(2 /* AF_INET */, 1, 0),
	IS(10 /* AF_INET6 */, 0, 5),
	LOAD(args[1]),
	BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf),
	IS(1 /* SOCK_STREAM */, 1, 0),
	IS(2 /* SOCK_DGRAM */, 0, 1),
	ALLOW,
	KILL,
};

static long enter_filter(void)
{
	const struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]),
					    (struct sock_filter *)(uintptr_t)filter };

	return raw_syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program, 0, 0, 0);
}

long confine(const struct gateway_config *config, unsigned *ret_step, uint64_t *ret_fds)
{
	long r;

	*ret_step = GATEWAY_STEP_LIMITS;
	r = set_limits(ret_fds);
	if (r < 0)
		return r;
	*ret_step = GATEWAY_STEP_IDS;
	r = take_ids(config);
	if (r < 0)
		return r;
	*ret_step = GATEWAY_STEP_CAPS;
	r = drop_caps();
	if (r < 0)
		return r;
	*ret_step = GATEWAY_STEP_PRIVILEGES;
	r = raw_syscall(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0);
	/* After the ids: taking them would make it dumpable again. */
	if (r >= 0)
		r = raw_syscall(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0, 0);
	if (r < 0)
		return r;
	*ret_step = GATEWAY_STEP_LANDLOCK;
	r = enter_landlock(config);
	if (r < 0)
		return r;
	*ret_step = GATEWAY_STEP_FILTER;
	return enter_filter();
}

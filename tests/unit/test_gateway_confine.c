/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is left to the gateway once it has confined itself. Each probe runs twice in a process of
 * its own, free and confined: what a relay needs works both times, what it must not do works
 * outside (the positive control) and ends the process or is refused inside. The gateway is a
 * program of its own, so its source is part of the test.
 */
#include "bare/fd.c"
#include "gateway/confine.c"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "probe/probe.h"
#include "tests/lib/tap.h"

#define ALLOWED_PORT 8443
#define OTHER_PORT 8444

static struct gateway_config config;
static int listener_fds[2]; /* on ALLOWED_PORT and OTHER_PORT, if they were free */

static int do_open(void)
{
	return open("/etc/passwd", O_RDONLY);
}

static int do_open_write(void)
{
	return open("/tmp", O_TMPFILE | O_WRONLY, 0600);
}

static int do_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid < 0 ? -1 : waitpid(pid, NULL, 0) < 0 ? -1 : 0;
}

static int do_exec(void)
{
	char *const argv[] = { (char *)(uintptr_t)"true", NULL };

	return execv("/bin/true", argv);
}

static int do_kill(void)
{
	return kill(getppid(), 0);
}

static int do_unix(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static int do_netlink(void)
{
	return socket(AF_NETLINK, SOCK_RAW, 0);
}

static int do_udp_option(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), value = 0;
	socklen_t len = sizeof(value);

	/* SOL_UDP; asking is free, setting is not one of the levels that a relay needs */
	if (fd < 0 || getsockopt(fd, IPPROTO_UDP, 1, &value, &len) < 0)
		return -1;
	return setsockopt(fd, IPPROTO_UDP, 1, &value, sizeof(value));
}

static int do_dup(void)
{
	return fcntl(0, F_DUPFD, 10);
}

static int do_packet(void)
{
	/* An invalid protocol of a valid family: the kernel refuses what the filter lets through.
	 */
	return socket(AF_INET, SOCK_SEQPACKET, 0) < 0 && errno == ESOCKTNOSUPPORT ? 0 : -1;
}

static int do_options(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, 1, &on, sizeof(on)) < 0)
		return -1;
	return setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

static int do_prctl(void)
{
	return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) < 0 ? -1 : 0;
}

static int do_mmap(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
			       MAP_FAILED
		       ? -1
		       : 0;
}

static int do_listen(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	return fd < 0 ? -1 : listen(fd, 1);
}

static int do_sockets(void)
{
	int fds[2];

	if (socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0) < 0)
		return -1;
	return pipe2(fds, O_CLOEXEC) < 0 ? -1 : write(fds[1], "x", 1) == 1 ? 0 : -1;
}

static int connect_to(uint16_t port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	return fd < 0 ? -1 : connect(fd, (const struct sockaddr *)&sa, sizeof(sa));
}

static int do_allowed_port(void)
{
	return connect_to(ALLOWED_PORT);
}

static int do_other_port(void)
{
	return connect_to(OTHER_PORT);
}

/* How a process ends in which @probe runs: 0 it worked, 1 it was refused, 2 it was ended. */
static int outcome(int (*probe)(void), int is_confined)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		unsigned step;
		uint64_t n_fds;

		if (is_confined && confine(&config, &step, &n_fds) < 0)
			_exit(9);
		syscall(SYS_exit_group, probe() < 0 ? 1 : 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	return WTERMSIG(status) == SIGSYS ? 2 : -1;
}

static void test_probes(void)
{
	const struct {
		const char *name;
		int (*probe)(void);
		int confined; /* as outcome() says */
	} rows[] = {
		{ "open", do_open, 2 },
		{ "open to write", do_open_write, 2 },
		{ "fork", do_fork, 2 },
		{ "execve", do_exec, 2 },
		{ "kill", do_kill, 2 },
		{ "Unix socket", do_unix, 2 },
		{ "netlink", do_netlink, 2 },
		{ "prctl", do_prctl, 2 },
		{ "mmap", do_mmap, 2 },
		{ "listen", do_listen, 2 },
		{ "option of UDP", do_udp_option, 2 },
		{ "dup", do_dup, 2 },
		{ "other type of socket", do_packet, 2 },
		{ "options", do_options, 0 },
		{ "sockets and pipes", do_sockets, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int outside = outcome(rows[i].probe, 0), inside = outcome(rows[i].probe, 1);

		CHECK_MSG(outside == 0, "%s outside: %d", rows[i].name, outside);
		CHECK_MSG(inside == rows[i].confined, "%s inside: %d", rows[i].name, inside);
	}
}

static int listen_on(uint16_t port)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, 8) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Of TCP, the allowed ports only. */
static void test_ports(void)
{
	listener_fds[0] = listen_on(ALLOWED_PORT);
	listener_fds[1] = listen_on(OTHER_PORT);
	REQUIRE(listener_fds[0] >= 0 && listener_fds[1] >= 0);
	CHECK_INT(outcome(do_allowed_port, 0), 0);
	CHECK_INT(outcome(do_other_port, 0), 0);
	CHECK_INT(outcome(do_allowed_port, 1), 0);
	CHECK_INT(outcome(do_other_port, 1), config.handled_net ? 1 : 0);
}

/* Ids and capabilities are gone, also when root started it. */
static void test_identity(void)
{
	char path[64], line[256], value[128];
	int ready[2], go[2], checks = 0;
	unsigned step;
	uint64_t n_fds;
	pid_t pid;
	FILE *f;

	REQUIRE(pipe2(ready, O_CLOEXEC) == 0 && pipe2(go, O_CLOEXEC) == 0);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		char byte = confine(&config, &step, &n_fds) < 0 ? 'x' : 'k';

		(void)!write(ready[1], &byte, 1);
		(void)!syscall(SYS_recvfrom, go[0], &byte, 1, 0, NULL, NULL);
		for (;;)
			syscall(SYS_epoll_pwait, -1, NULL, 0, 0, NULL, 8);
	}
	REQUIRE(pid > 0);
	REQUIRE(read(ready[0], line, 1) == 1 && line[0] == 'k');
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "r");
	REQUIRE(f != NULL);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "CapEff: %127s", value) == 1 ||
		    sscanf(line, "CapPrm: %127s", value) == 1 ||
		    sscanf(line, "CapInh: %127s", value) == 1 ||
		    sscanf(line, "CapAmb: %127s", value) == 1) {
			CHECK_STR(value, "0000000000000000");
			checks++;
		} else if (sscanf(line, "NoNewPrivs: %127s", value) == 1) {
			CHECK_STR(value, "1");
			checks++;
		} else if (sscanf(line, "Seccomp: %127s", value) == 1) {
			CHECK_STR(value, "2");
			checks++;
		} else if (sscanf(line, "Uid: %127s", value) == 1) {
			CHECK(strtoul(value, NULL, 10) != 0);
			checks++;
		}
	}
	fclose(f);
	CHECK_INT(checks, 7);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A protection that cannot be had is an error, and says which. */
static void test_failures(void)
{
	struct gateway_config bad = config;
	unsigned step = 0;
	uint64_t n_fds;
	pid_t pid;
	int status;

	bad.handled_fs = ~0ull; /* rights that no kernel knows */
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		long r = confine(&bad, &step, &n_fds);

		_exit(r < 0 ? (int)step : 0);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	CHECK_INT(WEXITSTATUS(status), config.handled_fs ? GATEWAY_STEP_LANDLOCK : 0);
}

static void test_setup(void)
{
	struct probe_machine m;

	probe_machine(&m);
	config.uid = config.gid = geteuid() == 0 ? 65534 : GATEWAY_NO_ID;
	config.handled_fs = m.landlock_fs;
	config.handled_net = m.landlock_net & LL_NET_TCP;
	config.scoped = m.landlock_scoped;
	config.n_allow = 1;
	config.n_ports = 1;
	config.ports[0] = ALLOWED_PORT;
	CHECK(m.landlock_abi > 0 || !config.handled_fs);
}

TAP_MAIN(test_setup, test_probes, test_ports, test_identity, test_failures)

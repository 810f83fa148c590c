/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that confined itself: each attack works before and fails after, and what the policy
 * grants goes on working.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "test_confine_lib.h"

static struct sockaddr_in listener_at = { .sin_family = AF_INET };
static struct sockaddr_un local_at = { .sun_family = AF_UNIX };

static void files(void)
{
	const char *const cat[] = { "/bin/cat", secret, NULL };
	char inside[96], beside[96], name[96];
	struct stat st;

	snprintf(inside, sizeof(inside), "%s/new-%u", granted, geteuid());
	snprintf(beside, sizeof(beside), "%s/new-%u", outside, geteuid());
	snprintf(name, sizeof(name), "%s/moved-%u", granted, geteuid());
	CHECK_INT(try_open(secret, O_RDONLY), 0);
	CHECK_INT(try_open(beside, O_WRONLY | O_CREAT), 0);
	CHECK_INT(chmod(beside, 0600), 0);
	CHECK_INT(try_exec(cat), 0);
	CONFINE("fs.write", granted, NULL);
	CHECK_INT(try_open(secret, O_RDONLY), EACCES);
	CHECK_INT(try_open(secret, O_WRONLY), EACCES);
	CHECK_INT(try_open(outside, O_RDONLY | O_DIRECTORY), EACCES);
	CHECK_INT(truncate(secret, 0), -1);
	CHECK_INT(unlink(beside), -1);
	CHECK_INT(rename(beside, name), -1);
	CHECK_INT(link(beside, name), -1);
	CHECK_INT(chmod(beside, 0777), -1);
	CHECK_INT(try_exec(cat), 1);
	CHECK(stat(secret, &st) == 0 && st.st_size > 0);
	/* What is granted, and what everybody has. */
	CHECK_INT(try_open(inside, O_WRONLY | O_CREAT), 0);
	CHECK_INT(rename(inside, name), 0);
	CHECK_INT(unlink(name), 0);
	CHECK_INT(try_open("/etc/passwd", O_RDONLY), 0);
	CHECK_INT(try_open("/etc/shadow", O_RDONLY), EACCES);
	CHECK_INT(try_open("/dev/null", O_RDWR), 0);
	CHECK_INT(try_open("/tmp/cordon-confine-nothing", O_WRONLY | O_CREAT), EACCES);
}

static void test_files(void)
{
	each_way(files);
}

/* Also what was there before: a link, a descriptor of a directory. */
static void detours(void)
{
	char link_path[96];
	int dir_fd = open(outside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int file_fd = open(secret, O_RDONLY | O_CLOEXEC);
	char byte;

	snprintf(link_path, sizeof(link_path), "%s/link-%u", granted, geteuid());
	CHECK_INT(symlink(secret, link_path), 0);
	CHECK_INT(try_open(link_path, O_RDONLY), 0);
	CONFINE("fs.write", granted, NULL);
	CHECK_INT(try_open(link_path, O_RDONLY), EACCES);
	CHECK_INT(openat(dir_fd, "secret", O_RDONLY | O_CLOEXEC), -1);
	/* As documented: what is open stays so. */
	CHECK_INT(read(file_fd, &byte, 1), 1);
	CHECK_INT(try_open("/proc/1/environ", O_RDONLY), EACCES);
	CHECK_INT(try_open("/proc/self/status", O_RDONLY), 0);
}

static void test_detours(void)
{
	each_way(detours);
}

static int try_connect(int domain, const void *address, socklen_t len)
{
	int fd = socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0), r = 0;

	if (fd < 0)
		return errno;
	if (connect(fd, address, len) < 0)
		r = errno;
	close(fd);
	return r;
}

static int try_send(int fd)
{
	return sendto(fd, "x", 1, 0, (const void *)&listener_at, sizeof(listener_at)) < 0 ? errno
											  : 0;
}

static int try_udp(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;

	if (fd < 0)
		return errno;
	r = try_send(fd);
	close(fd);
	return r;
}

static int try_listen(void)
{
	const struct sockaddr_in any = { .sin_family = AF_INET,
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r = 0;

	if (fd < 0)
		return errno;
	if (bind(fd, (const void *)&any, sizeof(any)) < 0 || listen(fd, 1) < 0)
		r = errno;
	close(fd);
	return r;
}

static void network(void)
{
	int pair[2], before = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHECK_INT(try_send(before), 0);
	CHECK_INT(try_connect(AF_INET, &listener_at, sizeof(listener_at)), 0);
	CHECK_INT(try_connect(AF_UNIX, &local_at, sizeof(local_at)), 0);
	CHECK_INT(try_udp(), 0);
	CHECK_INT(try_listen(), 0);
	CONFINE(NULL);
	CHECK(try_connect(AF_INET, &listener_at, sizeof(listener_at)) != 0);
	CHECK(try_connect(AF_UNIX, &local_at, sizeof(local_at)) != 0);
	CHECK(try_udp() != 0);
	/* A socket that was there: the filter cannot see where it sends to. */
	CHECK_INT(try_send(before), landlock_abi() >= 10 ? EACCES : 0);
	close(before);
	CHECK(try_listen() != 0);
	/* Event loops need these. */
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	CHECK_INT(write(pair[0], "x", 1), 1);
}

static void test_network(void)
{
	socklen_t len = sizeof(listener_at);
	int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int local = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	listener_at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_INT(bind(tcp, (const void *)&listener_at, sizeof(listener_at)), 0);
	CHECK_INT(getsockname(tcp, (void *)&listener_at, &len), 0);
	CHECK_INT(listen(tcp, 8), 0);
	snprintf(local_at.sun_path, sizeof(local_at.sun_path), "%s/socket", outside);
	CHECK_INT(bind(local, (const void *)&local_at, sizeof(local_at)), 0);
	CHECK_INT(listen(local, 8), 0);
	each_way(network);
	close(tcp);
	close(local);
}

/* Of the same user, and there until *ret_life is closed: a confined parent's death signal does not
 * reach it. */
static pid_t start_victim(int *ret_life)
{
	int ready[2], life[2];
	char byte;
	pid_t pid;

	if (pipe(ready) < 0 || pipe(life) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		close(life[1]);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
		if (write(ready[1], "x", 1) == 1)
			while (read(life[0], &byte, 1) < 0)
				;
		_exit(0);
	}
	close(life[0]);
	*ret_life = life[1];
	if (read(ready[0], &byte, 1) != 1)
		return -1;
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static ssize_t read_memory(pid_t pid, const void *address)
{
	char byte;
	const struct iovec here = { &byte, 1 };
	const struct iovec there = { (void *)(uintptr_t)address, 1 };

	return process_vm_readv(pid, &here, 1, &there, 1, 0);
}

static void processes(void)
{
	char mem[64];
	int status, life = -1;
	pid_t victim = start_victim(&life);

	snprintf(mem, sizeof(mem), "/proc/%d/mem", (int)victim);
	CHECK_INT(ptrace(PTRACE_ATTACH, victim, NULL, NULL), 0);
	CHECK_INT(waitpid(victim, &status, 0), victim);
	CHECK_INT(ptrace(PTRACE_DETACH, victim, NULL, NULL), 0);
	CHECK_INT(read_memory(victim, place), 1);
	CHECK_INT(try_open(mem, O_RDONLY), 0);
	CHECK_INT(kill(victim, 0), 0);
	CONFINE(NULL);
	CHECK_INT(ptrace(PTRACE_ATTACH, victim, NULL, NULL), -1);
	CHECK_INT(read_memory(victim, place), -1);
	CHECK_INT(try_open(mem, O_RDONLY), EACCES);
	/* Scopes came with ABI 6. */
	CHECK_INT(kill(victim, SIGTERM), landlock_abi() >= 6 ? -1 : 0);
	CHECK_INT(kill(getpid(), 0), 0);
	close(life);
	CHECK_INT(waitpid(victim, &status, 0), victim);
	/* It went by itself, not by our signal. */
	CHECK(landlock_abi() < 6 || status == 0);
}

static void test_processes(void)
{
	each_way(processes);
}

static char id_program[96];

/* Exits with 7 if it has the rights of another process. */
static int try_setuid(void)
{
	const char *const argv[] = { "/bin/sh", "-c", "test \"$(\"$0\" -u)\" = 20001 || exit 7",
				     id_program, NULL };

	return try_exec(argv);
}

static void setuid_program(void)
{
	CHECK_INT(try_setuid(), 7);
	CONFINE("fs.read", granted, NULL);
	CHECK_INT(try_setuid(), 0);
}

static void test_setuid_program(void)
{
	char command[256];

	if (geteuid() != 0)
		SKIP("only root can make a set-user-id program");
	snprintf(id_program, sizeof(id_program), "%s/id", granted);
	snprintf(command, sizeof(command), "cp /usr/bin/id %s && chmod 4755 %s", id_program,
		 id_program);
	CHECK_INT(system(command), 0);
	run_in_child(setuid_program, 1);
}

static void *read_secret(void *arg)
{
	*(int *)arg = try_open(secret, O_RDONLY);
	return NULL;
}

/* Children and threads, at once and later, have the same. */
static void descendants(void)
{
	int result = 0, status = 0;
	pthread_t thread;
	pid_t pid;

	CONFINE(NULL);
	CHECK_INT(pthread_create(&thread, NULL, read_secret, &result), 0);
	CHECK_INT(pthread_join(thread, NULL), 0);
	CHECK_INT(result, EACCES);
	pid = fork();
	if (pid == 0)
		_exit(try_open(secret, O_RDONLY) == EACCES ? 0 : 1);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
}

static void test_descendants(void)
{
	each_way(descendants);
}

static void privileges(void)
{
	FILE *f;
	char line[128];
	int n_caps = 0, n_others = 0;

	CONFINE(NULL);
	f = fopen("/proc/self/status", "re");
	REQUIRE(f != NULL);
	while (fgets(line, sizeof(line), f)) {
		const char *value = strchr(line, ':');

		/* A user's bounding set stays, and no_new_privs makes it powerless. */
		if (strncmp(line, "Cap", 3) == 0 &&
		    (geteuid() == 0 || strncmp(line, "CapBnd", 6) != 0)) {
			n_caps++;
			CHECK_MSG(strtoull(value + 1, NULL, 16) == 0, "%s", line);
		}
		if (strncmp(line, "NoNewPrivs:", 11) == 0 || strncmp(line, "Seccomp:", 8) == 0) {
			n_others++;
			CHECK_MSG(strtol(value + 1, NULL, 10) > 0, "%s", line);
		}
	}
	fclose(f);
	CHECK_INT(n_caps, geteuid() == 0 ? 5 : 4);
	CHECK_INT(n_others, 2);
	CHECK_INT(getgroups(0, NULL), 0);
	CHECK_INT(unshare(0x10000000), -1); /* CLONE_NEWUSER */
}

static void test_privileges(void)
{
	each_way(privileges);
}

TAP_MAIN(set_up, test_files, test_detours, test_network, test_processes, test_setuid_program,
	 test_descendants, test_privileges, tear_down)

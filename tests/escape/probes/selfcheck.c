/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All protections in one look: selfcheck REPORT CANARY PORT PID LEVEL PROTECTED
 *
 * First leaves a mark in REPORT that the command ran at all, then writes one row per protection:
 * `held` or `open`. CANARY is a file outside, PORT a TCP port on the host's loopback, PID a process
 * outside, LEVEL the isolation level, PROTECTED a protected name inside the write grant.
 *
 * Made to be run while single system calls are failed from outside, which may hit the probe's own
 * calls. So everything is looked at twice: an attempt that succeeds once has succeeded, and a
 * state that was seen once is there.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "probe.h"

#define ROWS_MAX 64
#define PASSES 2

static struct {
	const char *name;
	int seen, succeeded, is_attempt;
} rows[ROWS_MAX];

static const char *report, *canary, *protected_name;
static int namespaces, port;
static pid_t outsider;

static int find(const char *name)
{
	int i = 0;

	while (rows[i].name && strcmp(rows[i].name, name))
		i++;
	rows[i].name = name;
	return i;
}

/* A state that must be there. */
static void state(const char *name, int is_so)
{
	rows[find(name)].seen |= is_so;
}

/* An attempt that must not succeed. */
static void attempt(const char *name, int succeeds)
{
	int i = find(name);

	rows[i].is_attempt = 1;
	rows[i].succeeded |= succeeds;
}

static void note(const char *format, ...)
{
	char text[128];
	va_list args;
	int fd = -1, len, tries;

	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (tries = 0; fd < 0 && tries < 3; tries++)
		fd = open(report, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	for (tries = 0; tries < 3; tries++)
		if (write(fd, text, (size_t)len) == len)
			break;
	if (close(fd) < 0)
		close(fd);
}

static void status_rows(void)
{
	static const char *const caps[] = { "CapInh:", "CapPrm:", "CapEff:", "CapAmb:", "CapBnd:" };
	/* Without a namespace of its own an ordinary user cannot empty the bounding set. */
	int wanted = namespaces || getuid() == 0 ? 5 : 4, zero = 0;
	FILE *file = fopen("/proc/self/status", "re");
	char line[512];
	int i;

	while (file && fgets(line, sizeof(line), file)) {
		for (i = 0; i < wanted; i++)
			if (!strncmp(line, caps[i], 7))
				zero += strtoull(line + 7, NULL, 16) == 0;
		if (!strncmp(line, "NoNewPrivs:", 11))
			state("no-new-privs", atoi(line + 11) == 1);
		if (!strncmp(line, "Seccomp:", 8))
			state("seccomp", atoi(line + 8) == 2);
		if (!strncmp(line, "Umask:", 6))
			state("umask", strtol(line + 6, NULL, 8) == 022);
	}
	state("caps", zero == wanted);
	if (file)
		fclose(file);
}

static void map_row(void)
{
	FILE *file = fopen("/proc/self/uid_map", "re");
	unsigned long inner, outer = 0, count;

	if (file && fscanf(file, "%lu %lu %lu", &inner, &outer, &count) == 3)
		state("host-uid", outer != 0);
	if (file)
		fclose(file);
}

static int can_connect(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0;
}

static void limit_rows(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_CORE, &lim) == 0)
		state("core", lim.rlim_max <= 1);
	if (getrlimit(RLIMIT_NOFILE, &lim) == 0)
		state("open-files", lim.rlim_cur == 1024 && lim.rlim_max == 1024);
	if (getrlimit(RLIMIT_NPROC, &lim) == 0)
		state("procs", lim.rlim_max <= 1 << 20);
}

static int foreign_fds(void)
{
	int fd, n = 0;

	for (fd = 3; fd < 64; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int many_processes(void)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int n = 0;

	while (dir && (entry = readdir(dir)))
		n += entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
	if (dir)
		closedir(dir);
	return n > 4;
}

static int can_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void look(void)
{
	struct stat st;

	status_rows();
	limit_rows();
	state("session", getsid(0) == getpid());
	attempt("read-outside", can_open(canary, O_RDONLY));
	attempt("write-outside", can_open(canary, O_WRONLY));
	attempt("chmod-outside", chmod(canary, 0666) == 0);
	attempt("read-system", can_open("/etc/shadow", O_RDONLY));
	attempt("write-system", can_open("/usr/cordon-planted", O_WRONLY | O_CREAT));
	attempt("network", can_connect());
	attempt("signal", kill(outsider, 0) == 0);
	attempt("unshare", unshare(CLONE_NEWUSER) == 0);
	if (!namespaces)
		return;
	map_row();
	attempt("protect", can_open(protected_name, O_WRONLY | O_CREAT));
	attempt("stat-outside", stat(canary, &st) == 0);
	attempt("umount", umount2("/proc", MNT_DETACH) == 0);
	attempt("process-list", many_processes());
	state("pid", getppid() == 1);
	attempt("root-writable", can_open("/planted", O_WRONLY | O_CREAT));
}

int main(int argc, char **argv)
{
	int i;

	if (argc != 7)
		return 2;
	attempt("fds", foreign_fds() > 0);
	report = argv[1];
	canary = argv[2];
	port = atoi(argv[3]);
	outsider = atoi(argv[4]);
	namespaces = !strcmp(argv[5], "namespaces");
	protected_name = argv[6];
	note("ran held\n");
	for (i = 0; i < PASSES; i++)
		look();
	for (i = 0; rows[i].name; i++) {
		int ok = rows[i].is_attempt ? !rows[i].succeeded : rows[i].seen;

		note("%s %s\n", rows[i].name, ok ? "held" : "open");
	}
	note("done held\n");
	return 0;
}

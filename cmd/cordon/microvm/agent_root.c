/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Should: bring up the few devices there are, show the host's directories at their own paths, set
 * clock and random numbers right, all before the command starts.
 * Mustn't: go on if any of it fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/random.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "agent.h"
#include "guest.h"

#define NEW "/new"
#define PORT_WAIT_US 2000
#define PORT_TRIES 30000 /* a minute */
#define ENTROPY_BYTES 64
#define NS_PER_S 1000000000

/*
 * Loose: what was read once is not asked for again, and what is written goes out later, at the
 * latest at the end. What the host changes meanwhile may not be seen.
 */
#define FILES_OPTIONS "trans=virtio,version=9p2000.L,access=any,cache=loose,msize=512000"

static void must(int r, const char *what)
{
	if (r < 0)
		agent_give_up(what, errno);
}

static void load_modules(void)
{
	char path[64];

	for (int i = 0;; i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/%02d", MICROVM_MODULES, i);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return;
		if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST)
			agent_give_up("a kernel module", errno);
		close(fd);
		(void)unlink(path);
	}
}

static void open_ports(void)
{
	for (int fd = AGENT_IN_FD; fd < AGENT_FD_END; fd++) {
		int port = -1;
		char path[32];

		snprintf(path, sizeof(path), "/dev/vport0p%d", fd - AGENT_IN_FD + 1);
		for (int i = 0; port < 0 && i < PORT_TRIES; i++) {
			port = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
			if (port < 0)
				(void)usleep(PORT_WAIT_US);
		}
		if (port < 0 || dup3(port, fd, O_CLOEXEC) < 0)
			agent_give_up(path, errno);
		close(port);
	}
}

int agent_prepare(void)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t set;
	int fd;

	must(mount("dev", "/dev", "devtmpfs", 0, NULL), "/dev");
	must(mount("proc", "/proc", "proc", 0, NULL), "/proc");
	load_modules();
	open_ports();
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	must(sigprocmask(SIG_BLOCK, &set, NULL), "signals");
	must(sigaction(SIGPIPE, &ignore, NULL), "signals");
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	must(fd, "signals");
	return fd;
}

static void take(struct agent_request *r, char field, const char *text, size_t *n_argv,
		 size_t *n_env)
{
	int ok = 1;

	switch (field) {
	case FIELD_UID:
		ok = microvm_number(text, 1, UINT32_MAX - 1, &r->uid) == 0;
		break;
	case FIELD_GID:
		ok = microvm_number(text, 0, UINT32_MAX - 1, &r->gid) == 0;
		break;
	case FIELD_UMASK:
		ok = microvm_number(text, 0, 0777, &r->umask) == 0;
		break;
	case FIELD_TIME:
		ok = microvm_number(text, 0, INT64_MAX / 2, &r->time_ns) == 0;
		break;
	case FIELD_CWD:
		r->cwd = text;
		break;
	case FIELD_POLICY:
		r->policy = text;
		break;
	case FIELD_ENTROPY:
		r->entropy = text;
		break;
	case FIELD_DIR:
		ok = r->n_dirs < MICROVM_DIRS_MAX;
		if (ok)
			r->dirs[r->n_dirs++] = text;
		break;
	case FIELD_LINK:
		ok = r->n_links < MICROVM_DIRS_MAX;
		if (ok)
			r->links[r->n_links] = text;
		break;
	case FIELD_TARGET:
		ok = r->n_links < MICROVM_DIRS_MAX && r->links[r->n_links];
		if (ok)
			r->targets[r->n_links++] = text;
		break;
	case FIELD_ARG:
		ok = *n_argv < AGENT_LIST_MAX;
		if (ok)
			r->argv[(*n_argv)++] = text;
		break;
	case FIELD_ENV:
		ok = *n_env < AGENT_LIST_MAX;
		if (ok)
			r->env[(*n_env)++] = text;
		break;
	default:
		ok = 0;
	}
	if (!ok)
		agent_give_up("a request that cannot be read", EPROTO);
}

void agent_read_request(struct microvm_message *message, struct agent_request *ret)
{
	static const char *const before[] = { "cordon",	       "run",	      "-q",
					      "--no-terminal", "--policy",    AGENT_POLICY,
					      "--receipt",     AGENT_RECEIPT, "--" };
	size_t n_argv = 0, n_env = 0;
	const char *text;
	char field;
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->gid = ret->umask = -1;
	ret->argv = calloc(AGENT_LIST_MAX + 1, sizeof(*ret->argv));
	ret->env = calloc(AGENT_LIST_MAX + 1, sizeof(*ret->env));
	if (!ret->argv || !ret->env)
		agent_give_up("memory", ENOMEM);
	for (size_t i = 0; i < sizeof(before) / sizeof(*before); i++)
		ret->argv[n_argv++] = before[i];
	while ((r = microvm_next(message, &field, &text)) > 0)
		take(ret, field, text, &n_argv, &n_env);
	if (r < 0 || !ret->uid || ret->gid < 0 || ret->umask < 0 || !ret->time_ns || !ret->cwd ||
	    !ret->policy || !ret->entropy)
		agent_give_up("a request that cannot be read", EPROTO);
}

static void set_clock(int64_t ns)
{
	struct timespec now = { .tv_sec = (time_t)(ns / NS_PER_S),
				.tv_nsec = (long)(ns % NS_PER_S) };

	must(clock_settime(CLOCK_REALTIME, &now), "the clock");
}

static void set_memory(void)
{
	static const struct {
		const char *path, *text;
	} settings[] = {
		/* The run's own limit says what is too much, as outside. */
		{ "/proc/sys/vm/overcommit_memory", "1" },
		/* What was written reaches the host's files within a second or two. */
		{ "/proc/sys/vm/dirty_writeback_centisecs", "100" },
		{ "/proc/sys/vm/dirty_expire_centisecs", "100" },
	};

	for (size_t i = 0; i < sizeof(settings) / sizeof(*settings); i++) {
		int fd = open(settings[i].path, O_WRONLY | O_CLOEXEC);

		must(fd, settings[i].path);
		if (write_full(fd, settings[i].text, strlen(settings[i].text)) < 0)
			agent_give_up(settings[i].path, EIO);
		close(fd);
	}
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The machine has nothing of its own that the host could not foresee. */
static void add_entropy(const char *hex)
{
	/* struct rand_pool_info, which ends with a list of words */
	struct {
		int entropy_count, buf_size;
		unsigned char bytes[ENTROPY_BYTES];
	} pool = { .entropy_count = ENTROPY_BYTES * 8, .buf_size = ENTROPY_BYTES };
	int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);

	must(fd, "/dev/urandom");
	for (size_t i = 0; i < ENTROPY_BYTES; i++) {
		int high = digit(hex[2 * i]), low = high < 0 ? -1 : digit(hex[2 * i + 1]);

		if (low < 0)
			agent_give_up("the entropy", EPROTO);
		pool.bytes[i] = (unsigned char)(high << 4 | low);
	}
	must(ioctl(fd, RNDADDENTROPY, &pool), "the entropy");
	must(ioctl(fd, RNDRESEEDCRNG), "the entropy");
	close(fd);
}

static void make_dir(const char *path, unsigned mode)
{
	if (mkdir(path, mode) < 0 && errno != EEXIST)
		agent_give_up(path, errno);
	must(chmod(path, mode), path);
}

static void make_device(const char *path, unsigned major, unsigned minor)
{
	must(mknod(path, S_IFCHR | 0666, makedev(major, minor)), path);
	must(chmod(path, 0666), path);
}

static void make_devices(void)
{
	static const struct {
		const char *path, *target;
	} links[] = { { NEW "/dev/fd", "/proc/self/fd" },
		      { NEW "/dev/stdin", "/proc/self/fd/0" },
		      { NEW "/dev/stdout", "/proc/self/fd/1" },
		      { NEW "/dev/stderr", "/proc/self/fd/2" },
		      { NEW "/dev/ptmx", "pts/ptmx" } };

	make_dir(NEW "/dev", 0755);
	make_device(NEW "/dev/null", 1, 3);
	make_device(NEW "/dev/zero", 1, 5);
	make_device(NEW "/dev/full", 1, 7);
	make_device(NEW "/dev/random", 1, 8);
	make_device(NEW "/dev/urandom", 1, 9);
	make_device(NEW "/dev/tty", 5, 0);
	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++)
		must(symlink(links[i].target, links[i].path), links[i].path);
	make_dir(NEW "/dev/shm", 01777);
	make_dir(NEW "/dev/pts", 0755);
	must(mount("devpts", NEW "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		   "newinstance,ptmxmode=0666,mode=0600"),
	     "/dev/pts");
	make_dir(NEW "/proc", 0755);
	must(mount("proc", NEW "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "/proc");
}

static void make_files(const struct agent_request *r)
{
	char path[PATH_MAX], tag[24];

	for (size_t i = 0; i < r->n_dirs; i++) {
		snprintf(path, sizeof(path), NEW "/%s", r->dirs[i]);
		snprintf(tag, sizeof(tag), "d%zu", i);
		make_dir(path, 0755);
		must(mount(tag, path, "9p", MS_NOSUID | MS_NODEV, FILES_OPTIONS), path);
	}
	for (size_t i = 0; i < r->n_links; i++) {
		snprintf(path, sizeof(path), NEW "/%s", r->links[i]);
		must(symlink(r->targets[i], path), path);
	}
}

static void write_file(const char *path, const void *data, size_t len, unsigned mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	int r;

	must(fd, path);
	r = write_full(fd, data, len);
	if (r < 0)
		agent_give_up(path, -r);
	must(fchmod(fd, mode), path);
	close(fd);
}

static void make_command(const struct agent_request *r)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	size_t len;
	void *self;

	make_dir(NEW AGENT_DIR, 0755);
	if (microvm_self(&self, &len, &err) < 0)
		agent_give_up(err.msg, EIO);
	write_file(NEW AGENT_COMMAND, self, len, 0755);
	free(self);
	write_file(NEW AGENT_POLICY, r->policy, strlen(r->policy), 0644);
	make_dir(NEW AGENT_OUT, 0700);
	must(chown(NEW AGENT_OUT, (uid_t)r->uid, (gid_t)r->gid), "a directory");
}

void agent_make_root(const struct agent_request *r)
{
	int fd;

	set_clock(r->time_ns);
	add_entropy(r->entropy);
	set_memory();
	must(sethostname("cordon", 6), "the host name");
	must(mount("root", NEW, "tmpfs", MS_NOSUID, "mode=0755"), "the root");
	make_files(r);
	make_devices();
	make_command(r);
	/* When memory is short something of the command's is ended, not we. */
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	must(fd, "oom_score_adj");
	must(write_full(fd, "-1000\n", 6), "oom_score_adj");
	close(fd);
	must(chdir(NEW), "the root");
	must(mount(".", "/", NULL, MS_MOVE, NULL), "the root");
	must(chroot("."), "the root");
	must(chdir("/"), "the root");
}

void agent_become(const struct agent_request *r)
{
	const struct sigaction usual = { .sa_handler = SIG_DFL };
	sigset_t none;
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write_full(fd, "0\n", 2) < 0)
		return;
	close(fd);
	/* Where the caller is, if it is to be seen. */
	if (chdir(r->cwd) < 0 && chdir("/") < 0)
		return;
	if (setsid() < 0 || setgroups(0, NULL) < 0 || setgid((gid_t)r->gid) < 0 ||
	    setuid((uid_t)r->uid) < 0)
		return;
	(void)umask((mode_t)r->umask);
	sigemptyset(&none);
	if (sigaction(SIGPIPE, &usual, NULL) < 0 || sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		return;
	execve(AGENT_COMMAND, (char *const *)(uintptr_t)r->argv, (char *const *)(uintptr_t)r->env);
}

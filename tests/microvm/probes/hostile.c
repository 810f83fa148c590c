/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PID 1 of a guest that belongs to the attacker: what a command is that has taken over the guest's
 * kernel. HOSTILE says at compile time what it does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	READY = 3,
	REQUEST = 4,
	EXIT = 6
};

static int ctl, out;

static void send_message(uint32_t type, const void *data, uint32_t len)
{
	uint32_t head[2] = { type, len };

	(void)!write(ctl, head, sizeof(head));
	(void)!write(ctl, data, len);
}

static int open_port(int n)
{
	char path[32];
	int fd = -1;

	snprintf(path, sizeof(path), "/dev/vport0p%d", n);
	for (int i = 0; fd < 0 && i < 20000; i++) {
		fd = open(path, O_RDWR);
		if (fd < 0)
			usleep(2000);
	}
	return fd;
}

static void prepare(void)
{
	char path[32];

	mount("dev", "/dev", "devtmpfs", 0, NULL);
	mount("proc", "/proc", "proc", 0, NULL);
	for (int i = 0; i < 32; i++) {
		int fd;

		snprintf(path, sizeof(path), "/modules/%02d", i);
		fd = open(path, O_RDONLY);
		if (fd >= 0)
			syscall(SYS_finit_module, fd, "", 0);
	}
	out = open_port(2);
	ctl = open_port(4);
}

#define FIELDS(kind, code, number, n_out) "k" kind "\0c" code "\0s" number "\0o" n_out "\0e0\0m"

static void attack(void)
{
	char buf[65536];

	memset(buf, 'A', sizeof(buf));
#if HOSTILE == 1 /* says that it ended well, and has sent nothing of what it says it has */
	{
		static const char fields[] = FIELDS("1", "0", "0", "5");

		(void)!write(out, "hello", 5);
		send_message(EXIT, fields, sizeof(fields));
	}
#elif HOSTILE == 2 /* a message that is longer than any can be */
	send_message(EXIT, buf, 1u << 30);
#elif HOSTILE == 3 /* says hello as if it were the host's own program */
	send_message(1, "U0\0G0\0Detc", 11);
#elif HOSTILE == 4 /* a kind that only the host can give */
	{
		static const char fields[] = FIELDS("9999", "0", "0", "0");

		send_message(EXIT, fields, sizeof(fields));
	}
#elif HOSTILE == 5 /* never stops */
	for (;;)
		(void)!write(ctl, buf, sizeof(buf));
#elif HOSTILE == 6
	reboot(RB_AUTOBOOT);
#elif HOSTILE == 7
	{
		int fd = open("/proc/sysrq-trigger", O_WRONLY);

		(void)!write(fd, "c", 1);
	}
#elif HOSTILE == 8 /* output without end, and no word about it */
	for (;;)
		(void)!write(out, buf, sizeof(buf));
#elif HOSTILE == 9 /* ended, twice */
	{
		static const char fields[] = FIELDS("1", "3", "0", "0");

		send_message(EXIT, fields, sizeof(fields));
		send_message(EXIT, fields, sizeof(fields));
	}
#endif
}

int main(void)
{
	uint32_t head[2];

	prepare();
	send_message(READY, "", 0);
	/* The host says what is to be run. */
	if (read(ctl, head, sizeof(head)) == sizeof(head))
		attack();
	for (;;)
		pause();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Terminal tricks on standard input and on a terminal of our own. */
#include <linux/kd.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "probe.h"

static long push(int fd, unsigned long request)
{
	char c = 'X';

	return syscall(SYS_ioctl, fd, request, &c);
}

static long linux_console(int fd, unsigned long request)
{
	char sub = 6; /* TIOCL_GETSHIFTSTATE: harmless where it is allowed */

	return syscall(SYS_ioctl, fd, request, &sub);
}

static long own_terminal(unsigned long request)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave;

	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		return -1;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -1;
	setsid();
	if (ioctl(slave, TIOCSCTTY, 0) < 0)
		return -1;
	return push(slave, request);
}

static long own_sti(void *arg)
{
	(void)arg;
	return own_terminal(TIOCSTI);
}

static long own_sti_high(void *arg)
{
	(void)arg;
	return own_terminal(0x100000000UL | TIOCSTI);
}

int main(void)
{
	int tty;

	row("sti", push(0, TIOCSTI));
	row("sti-high", push(0, 0x100000000UL | TIOCSTI));
	row("sti-high2", push(0, 0xdeadbeef00000000UL | TIOCSTI));
	row("sti-stdout", push(1, TIOCSTI));
	row("tioclinux", linux_console(0, TIOCLINUX));
	row("tioclinux-high", linux_console(0, 0x100000000UL | TIOCLINUX));
	row("setctty", ioctl(0, TIOCSCTTY, 1));
	row("setd", ioctl(0, TIOCSETD, &(int){ 0 }));
	row("winsize", ioctl(0, TIOCSWINSZ, &(struct winsize){ .ws_row = 7, .ws_col = 7 }));
	row("tcsets", ioctl(0, TCGETS, &(struct termios){ 0 }));
	tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	row("dev-tty", tty);
	row_child("own-sti", own_sti, NULL);
	row_child("own-sti-high", own_sti_high, NULL);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes a file's mode again and again while signals come all the time.
 *
 * interrupt FILE [restart]: prints how many signals came, how many calls failed with EINTR, how
 * many of these had an effect all the same, and how many other calls had not the effect they
 * should.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/time.h>

#define CALLS 4000
#define EVERY_US 37

static volatile unsigned n_signals;

static void count(int number)
{
	(void)number;
	n_signals++;
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? 0 : st.st_mode & 0777;
}

int main(int argc, char **argv)
{
	const struct itimerval often = { { 0, EVERY_US }, { 0, EVERY_US } };
	struct sigaction action = { .sa_handler = count, .sa_flags = argc > 2 ? SA_RESTART : 0 };
	unsigned interrupted = 0, undone = 0, wrong = 0;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < CALLS; i++) {
		mode_t before = mode_of(argv[1]), want = before ^ 011;
		int r = chmod(argv[1], want), error = errno;
		mode_t now = mode_of(argv[1]);

		if (r < 0 && error == EINTR) {
			interrupted++;
			undone += now != before;
		} else {
			wrong += r < 0 || now != want;
		}
	}
	printf("signals %s\ninterrupted %u\nundone %u\nwrong %u\n", n_signals ? "some" : "none",
	       interrupted, undone, wrong);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kills a supervisor at random moments: killer ROUNDS SEED MODE SUPERVISOR ARG... MARK
 *
 * MODE: `kill` SIGKILL mostly, other signals too; `stop` the supervisor is stopped first; `init`
 * its children are stopped first and continued when it is dead; `end` nothing is killed. Prints
 * what it found as `name number` lines and the failures on standard error. Run in the write grant
 * of SUPERVISOR.
 */
#include "reckon.h"

#define SHORT_US 4000	/* a whole set-up takes about that long */
#define LONG_US 30000	/* the command is up by then, mostly */
#define HEEDED_US 20000 /* how long a signal that the supervisor can handle may take to end it */

static const int signals[] = { SIGTERM, SIGINT,	 SIGHUP,  SIGQUIT, SIGSEGV, SIGABRT,  SIGBUS,
			       SIGFPE,	SIGILL,	 SIGTRAP, SIGSYS,  SIGXCPU, SIGALRM,  SIGVTALRM,
			       SIGPROF, SIGUSR1, SIGUSR2, SIGIO,   SIGPWR,  SIGSTKFLT };

static unsigned by_kill, by_other, by_itself;

static unsigned choose(unsigned n)
{
	return (unsigned)random() % n;
}

static pid_t start(char **argv)
{
	pid_t pid = vfork();

	if (pid == 0)
		exec_quietly(argv);
	return pid;
}

/* Waits for @pid for @us; 1 when it is collected. */
static int ends_within(pid_t pid, unsigned us)
{
	uint64_t until = now_us() + us;
	int status;

	do {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return 1;
		nap_us(50);
	} while (now_us() < until);
	return 0;
}

static unsigned children_of(pid_t pid, int *ret, unsigned max)
{
	char path[64];
	unsigned n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	f = fopen(path, "re");
	while (f && n < max && fscanf(f, "%d", &ret[n]) == 1)
		n++;
	if (f)
		fclose(f);
	return n;
}

/* Ends the supervisor; the time of its death. */
static uint64_t end_by_signal(pid_t pid)
{
	int sig = choose(10) < 7 ? SIGKILL : signals[choose(sizeof(signals) / sizeof(*signals))];

	kill(pid, sig);
	if (sig != SIGKILL && ends_within(pid, HEEDED_US)) {
		by_other++;
		return now_us();
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	by_kill++;
	return now_us();
}

static uint64_t end_stopped(pid_t pid)
{
	kill(pid, SIGSTOP);
	nap_us(choose(SHORT_US));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	by_kill++;
	return now_us();
}

static uint64_t end_with_stopped_init(pid_t pid)
{
	int inits[8];
	unsigned n = children_of(pid, inits, 8);
	uint64_t died;

	for (unsigned i = 0; i < n; i++)
		kill(inits[i], SIGSTOP);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	by_kill++;
	nap_us(choose(SHORT_US));
	died = now_us();
	/* No other process can have got their pids: they are ours to collect. */
	for (unsigned i = 0; i < n; i++)
		kill(inits[i], SIGCONT);
	return died;
}

static uint64_t end_supervisor(const char *mode, pid_t pid)
{
	if (!strcmp(mode, "end")) {
		waitpid(pid, NULL, 0);
		by_itself++;
		return now_us();
	}
	nap_us(choose(4) ? choose(SHORT_US) : choose(LONG_US));
	if (waitpid(pid, NULL, WNOHANG) == pid) {
		by_itself++;
		return now_us();
	}
	if (!strcmp(mode, "stop"))
		return end_stopped(pid);
	if (!strcmp(mode, "init"))
		return end_with_stopped_init(pid);
	return end_by_signal(pid);
}

int main(int argc, char **argv)
{
	unsigned rounds;

	if (argc < 5)
		return 2;
	rounds = (unsigned)atoi(argv[1]);
	srandom((unsigned)atoi(argv[2]));
	reckon_init(argv + 4);
	for (unsigned i = 0; i < rounds; i++) {
		time_t since = time(NULL);
		pid_t pid = start(argv + 4);

		if (pid < 0)
			return 2;
		reckon(end_supervisor(argv[3], pid), since);
	}
	reckon_print();
	printf("by_kill %u\nby_other %u\nby_itself %u\n", by_kill, by_other, by_itself);
	return 0;
}

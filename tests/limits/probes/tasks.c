/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes tasks in every way there is: tasks HOW COUNT [HOLD_MS]
 *
 * Tries COUNT times and goes on when refused; all that came to life stay until the end. Prints
 * `made N refused M ERRNO`, ERRNO that of the first refusal. `short` makes COUNT children one after
 * the other, four alive at a time, and any refusal ends it with status 1.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include "../../escape/probes/probe.h"

static unsigned hold_ms = 500;

/* Shared by all tasks that are made. */
static struct tally {
	unsigned made, refused;
	int first;
	int over;
} *tally;

static void sleep_ms(unsigned ms)
{
	struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

static void linger(void)
{
	while (!__atomic_load_n(&tally->over, __ATOMIC_RELAXED))
		sleep_ms(5);
}

static void count(long rc)
{
	int none = 0;

	if (rc >= 0) {
		__atomic_add_fetch(&tally->made, 1, __ATOMIC_RELAXED);
		return;
	}
	__atomic_compare_exchange_n(&tally->first, &none, errno, 0, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	__atomic_add_fetch(&tally->refused, 1, __ATOMIC_RELAXED);
}

static void by_fork(void)
{
	pid_t pid = fork();

	if (!pid) {
		linger();
		_exit(0);
	}
	count(pid);
}

/* Each vfork child is made by a child of its own, which waits for it without being able to do
 * anything else: two tasks.
 */
static void by_vfork(void)
{
	pid_t pid = fork();

	if (!pid) {
		pid_t inner = vfork();

		if (!inner) {
			count(0);
			linger();
			_exit(0);
		}
		if (inner < 0)
			count(inner);
		_exit(0);
	}
	count(pid);
}

static int lingers(void *arg)
{
	(void)arg;
	linger();
	return 0;
}

/* Shares everything with its maker except that it is a process. */
static void by_clone(void)
{
	char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	count(stack == MAP_FAILED ? -1
				  : clone(lingers, stack + 65536,
					  CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, NULL));
}

static void *lingers_too(void *arg)
{
	(void)arg;
	linger();
	return NULL;
}

static void by_thread(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	errno = pthread_create(&thread, &attr, lingers_too, NULL);
	count(errno ? -1 : 0);
}

static void by_double_fork(void)
{
	pid_t pid = fork();

	if (!pid) {
		setsid();
		by_fork();
		_exit(0);
	}
	if (pid < 0)
		count(pid);
	else
		waitpid(pid, NULL, 0);
}

/* Four makers at once, each in a session of its own. */
static void storm(unsigned tries)
{
	unsigned maker, i;

	for (maker = 0; maker < 4; maker++) {
		if (fork())
			continue;
		setsid();
		signal(SIGCHLD, SIG_IGN);
		for (i = 0; i < tries / 4; i++)
			by_fork();
		linger();
		_exit(0);
	}
	sleep_ms(300);
}

static pid_t gone_at_once(int shared)
{
	pid_t pid = shared ? vfork() : fork();

	if (!pid)
		_exit(0);
	return pid;
}

static int run_short(unsigned tries)
{
	unsigned alive = 0, i;

	for (i = 0; i < tries; i++) {
		pid_t pid = gone_at_once(i & 1);

		count(pid);
		if (pid > 0)
			alive++;
		if (alive >= 4 && wait(NULL) > 0)
			alive--;
	}
	while (wait(NULL) > 0)
		;
	printf("made %u refused %u\n", tally->made, tally->refused);
	return tally->refused != 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*make)(void);
	} ways[] = {
		{ "fork", by_fork },	  { "vfork", by_vfork },	{ "clone", by_clone },
		{ "threads", by_thread }, { "double", by_double_fork },
	};
	unsigned tries, i, way;

	if (argc < 3)
		return 2;
	tries = (unsigned)atoi(argv[2]);
	if (argc > 3)
		hold_ms = (unsigned)atoi(argv[3]);
	tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (tally == MAP_FAILED)
		return 2;
	if (!strcmp(argv[1], "short"))
		return run_short(tries);
	if (!strcmp(argv[1], "storm"))
		storm(tries);
	for (way = 0; way < sizeof(ways) / sizeof(*ways); way++)
		for (i = 0; !strcmp(argv[1], ways[way].name) && i < tries; i++)
			ways[way].make();
	sleep_ms(hold_ms);
	printf("made %u refused %u %s\n", tally->made, tally->refused,
	       tally->first ? errno_name(tally->first) : "-");
	fflush(stdout);
	tally->over = 1;
	while (wait(NULL) > 0)
		;
	return 0;
}

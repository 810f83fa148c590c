/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is left of a run whose supervisor is dead, as killer.c and stepper.c see it.
 *
 * The program is a subreaper: whatever outlives the supervisor becomes its child, wherever it
 * hides, so "no child left" is the proof, and the time until then is measured. Independent of that:
 * the lock that each process of the guest holds can be had, no process carries the guest's mark,
 * and neither the write grant nor /tmp holds anything of the run.
 */
#ifndef ESCAPE_RECKON_H
#define ESCAPE_RECKON_H

#include <ctype.h>
#include <dirent.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <time.h>

#include "probe.h"

#define PROMISE_US 200000   /* the tree is gone this long after the supervisor's death */
#define PATIENCE_US 2000000 /* what is not gone then stays */
#define CMDLINE_MAX 8192

static struct {
	const char *dir, *mark;
	unsigned marked_before; /* the parents of this program may name the mark, too */
	unsigned rounds, ran, late, survived, held, marked, litter, worst_us;
	uint64_t sum_us;
} tally;

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void nap_us(long us)
{
	nanosleep(&(struct timespec){ us / 1000000, us % 1000000 * 1000 }, NULL);
}

static size_t read_cmdline(const char *pid, char *ret)
{
	char path[300];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, ret, CMDLINE_MAX);
	if (fd >= 0)
		close(fd);
	return n > 0 ? (size_t)n : 0;
}

static int has_cmdline(const char *pid, const char *text)
{
	char line[CMDLINE_MAX];
	size_t n = read_cmdline(pid, line);

	return memmem(line, n, text, strlen(text)) != NULL;
}

/* How many processes but this one carry @text in their arguments. */
static unsigned count_marked(const char *text)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	unsigned found = 0;

	while (proc && (entry = readdir(proc)))
		if (isdigit(entry->d_name[0]) && atoi(entry->d_name) != getpid())
			found += has_cmdline(entry->d_name, text);
	if (proc)
		closedir(proc);
	return found;
}

static void list_children(const char *why)
{
	FILE *f = fopen("/proc/thread-self/children", "re");
	char pid[32], line[CMDLINE_MAX];

	while (f && fscanf(f, "%31s", pid) == 1) {
		size_t n = read_cmdline(pid, line);

		for (size_t i = 0; i < n; i++)
			line[i] = line[i] ? line[i] : ' ';
		fprintf(stderr, "round %u: %s: %s %.*s\n", tally.rounds, why, pid,
			(int)(n < 100 ? n : 100), line);
	}
	if (f)
		fclose(f);
}

static void kill_children(void)
{
	FILE *f = fopen("/proc/thread-self/children", "re");
	int pid;

	while (f && fscanf(f, "%d", &pid) == 1)
		kill(pid, SIGKILL);
	if (f)
		fclose(f);
}

/* Collects every child; what is traced and stops is let go. 1 when none is left. */
static int collect(void)
{
	for (;;) {
		int status;
		pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);

		if (pid < 0)
			return errno == ECHILD;
		if (pid == 0)
			return 0;
		if (WIFSTOPPED(status))
			ptrace(PTRACE_DETACH, pid, 0, 0);
	}
}

/* Waits until the tree is gone, counted from @died; 0 when it does not go. */
static int await_end(uint64_t died)
{
	uint64_t took;

	while (!collect()) {
		if (now_us() - died > PATIENCE_US)
			return 0;
		nap_us(100);
	}
	took = now_us() - died;
	tally.sum_us += took;
	if (took > tally.worst_us)
		tally.worst_us = (unsigned)took;
	if (took > PROMISE_US) {
		tally.late++;
		fprintf(stderr, "round %u: gone after %ju us only\n", tally.rounds,
			(uintmax_t)took);
	}
	return 1;
}

static int is_ours(const char *name)
{
	static const char *const known[] = { ".", "..", "alive", "ran", "heartbeat" };

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (!strcmp(name, known[i]))
			return 1;
	return 0;
}

/* A private directory of this caller that is younger than the round and not in use. */
static int is_scratch_left(const char *name, time_t since)
{
	char path[300];
	struct stat st;

	if (strncmp(name, "cordon-", 7) || strlen(name) != 23)
		return 0;
	snprintf(path, sizeof(path), "/tmp/%s", name);
	for (int i = 0; i < 50; i++) {
		if (lstat(path, &st) < 0 || st.st_uid != geteuid() || st.st_ctime < since)
			return 0;
		/* Some other program's run: its init names the directory, and ours is dead. */
		if (count_marked(path))
			return 0;
		nap_us(10000);
	}
	return 1;
}

static void check_litter(time_t since)
{
	DIR *dir = opendir(tally.dir);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (!is_ours(entry->d_name)) {
			fprintf(stderr, "round %u: left in the grant: %s\n", tally.rounds,
				entry->d_name);
			tally.litter++;
			unlinkat(dirfd(dir), entry->d_name, 0);
		}
	if (dir)
		closedir(dir);
	dir = opendir("/tmp");
	while (dir && (entry = readdir(dir)))
		if (is_scratch_left(entry->d_name, since)) {
			fprintf(stderr, "round %u: left: /tmp/%s\n", tally.rounds, entry->d_name);
			tally.litter++;
		}
	if (dir)
		closedir(dir);
}

static void check_lock(void)
{
	int fd = open("alive", O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) {
		fprintf(stderr, "round %u: the lock is still held\n", tally.rounds);
		tally.held++;
	}
	if (fd >= 0)
		close(fd);
}

/* The supervisor died at @died: everything else must have, too. */
static void reckon(uint64_t died, time_t since)
{
	if (!await_end(died)) {
		tally.survived++;
		list_children("survives");
	}
	check_lock();
	if (count_marked(tally.mark) > tally.marked_before) {
		fprintf(stderr, "round %u: a process with the mark lives\n", tally.rounds);
		tally.marked++;
	}
	while (!collect())
		kill_children();
	check_litter(since);
	tally.ran += access("ran", F_OK) == 0;
	unlink("ran");
	unlink("heartbeat");
	tally.rounds++;
}

static void reckon_init(char **argv)
{
	tally.mark = "no mark";
	for (; *argv; argv++)
		tally.mark = *argv; /* the last argument */
	tally.dir = ".";
	tally.marked_before = count_marked(tally.mark);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_TIMERSLACK, 1000);
}

static void reckon_print(void)
{
	printf("rounds %u\nran %u\nlate %u\nsurvived %u\nheld %u\nmarked %u\nlitter %u\n",
	       tally.rounds, tally.ran, tally.late, tally.survived, tally.held, tally.marked,
	       tally.litter);
	printf("worst_us %u\nmean_us %u\n", tally.worst_us,
	       tally.rounds ? (unsigned)(tally.sum_us / tally.rounds) : 0);
}

static void __attribute__((noreturn)) exec_quietly(char **argv)
{
	int null = open("/dev/null", O_RDWR);

	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	execv(argv[0], argv);
	_exit(127);
}

#endif

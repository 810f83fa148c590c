/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands for NVIDIA's libnvidia-ml.so.1: one GPU, /dev/nvidia0, with 80 GiB. It asks the test what
 *to say: call number N for processes opens the pipe "sayN" beside the library and waits for lines
 *of
 *
 *	PID MEMORY PERCENT	a process, for this call and the next one for utilization
 *	PID attack PERCENT	its memory is 1 MiB and what could be done (attack(), below)
 *	count N			the library says that it has told of N processes
 *	crash, spin		what it does instead of an answer
 *
 * A test that does not answer makes it hang.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PLACE "/opt/nvidia/lib64/"

struct process {
	unsigned pid;
	unsigned long long memory;
	unsigned instances[2];
};

struct utilization {
	unsigned pid;
	unsigned long long time_us;
	unsigned sm, rest[3];
};

static struct process said[16];
static unsigned percents[16], n_said, n_calls;

static int can_open(const char *path, int flags)
{
	int fd = open(path, flags, 0600);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static int is_forked(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	return pid > 0;
}

/* One bit for each thing that the meter shall not be able to do. */
unsigned long long attack(int execute)
{
	char environ_path[64];
	unsigned long long could = 0;

	snprintf(environ_path, sizeof(environ_path), "/proc/%d/environ", (int)getppid());
	could |= (unsigned long long)(socket(AF_INET, SOCK_STREAM, 0) >= 0) << 0;
	could |= (unsigned long long)(socket(AF_UNIX, SOCK_STREAM, 0) >= 0) << 1;
	could |= (unsigned long long)can_open("/tmp/cordon-fake-nvml", O_WRONLY | O_CREAT) << 2;
	could |= (unsigned long long)can_open("/etc/passwd", O_RDONLY) << 3;
	could |= (unsigned long long)(kill(getppid(), 0) == 0) << 4;
	could |= (unsigned long long)is_forked() << 5;
	could |= (unsigned long long)can_open(environ_path, O_RDONLY) << 6;
	could |= (unsigned long long)can_open("/dev/fuse", O_RDWR) << 7;
	unlink("/tmp/cordon-fake-nvml");
	if (execute)
		execl("/bin/true", "true", NULL);
	return could;
}

static void spin(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	for (;;)
		;
}

static void add(const char *pid, const char *memory, const char *percent)
{
	said[n_said].pid = (unsigned)atol(pid);
	said[n_said].memory = strcmp(memory, "attack") == 0 ? (1 << 20) | attack(1)
							    : strtoull(memory, NULL, 10);
	percents[n_said++] = (unsigned)atol(percent);
}

int nvmlInit_v2(void)
{
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned *ret)
{
	*ret = 1;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret)
{
	*ret = said;
	return index == 0 && can_open("/dev/nvidia0", O_RDWR) && can_open("/dev/nvidiactl", O_RDWR)
		       ? 0
		       : 2;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **ret)
{
	(void)address;
	(void)ret;
	return 6;
}

int nvmlDeviceGetMinorNumber(void *gpu, unsigned *ret)
{
	*ret = 0;
	return gpu == said ? 0 : 2;
}

int nvmlDeviceGetMemoryInfo(void *gpu, unsigned long long ret[3])
{
	(void)gpu;
	ret[0] = 80ull << 30;
	ret[1] = ret[0];
	ret[2] = 0;
	return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *n, struct process *ret)
{
	char path[64], line[128], words[3][32];
	unsigned count = ~0u;
	FILE *file;

	(void)gpu;
	snprintf(path, sizeof(path), PLACE "say%u", n_calls++);
	file = fopen(path, "re");
	n_said = 0;
	while (file && fgets(line, sizeof(line), file) && n_said < 16) {
		int got = sscanf(line, "%31s %31s %31s", words[0], words[1], words[2]);

		if (strcmp(words[0], "crash") == 0)
			abort();
		if (strcmp(words[0], "spin") == 0)
			spin();
		if (strcmp(words[0], "count") == 0)
			count = (unsigned)atol(words[1]);
		else if (got == 3)
			add(words[0], words[1], words[2]);
	}
	if (file)
		fclose(file);
	if (*n < n_said)
		return 7;
	memcpy(ret, said, n_said * sizeof(said[0]));
	*n = count != ~0u ? count : n_said;
	return 0;
}

int nvmlDeviceGetProcessUtilization(void *gpu, struct utilization *ret, unsigned *n,
				    unsigned long long since)
{
	struct timespec now;

	(void)gpu;
	clock_gettime(CLOCK_REALTIME, &now);
	if (n_said == 0)
		return 6;
	for (unsigned i = 0; i < n_said; i++)
		ret[i] = (struct utilization){ said[i].pid,
					       (unsigned long long)now.tv_sec * 1000000 +
						       (unsigned long long)now.tv_nsec / 1000,
					       percents[i],
					       { 0, 0, 0 } };
	*n = ret[0].time_us > since ? n_said : 0;
	return 0;
}

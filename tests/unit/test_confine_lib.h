/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of cordon_confine_self(): each case runs in a child of its own, since nothing can be
 * taken back; started by root, once as root and once as an ordinary user.
 */
#ifndef TESTS_UNIT_TEST_CONFINE_LIB_H
#define TESTS_UNIT_TEST_CONFINE_LIB_H

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cordon/cordon.h>

#include "tap.h"

#define OTHER_UID 20001 /* an ordinary user with nothing of its own on the machine */

/* place/: outside (a secret and room for everybody), granted (for writing) */
static char place[] = "/tmp/cordon-confine-XXXXXX";
static char outside[64], secret[80], granted[64];

static inline void put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK_MSG(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s: %s", path,
		  strerror(errno));
	close(fd);
}

static void set_up(void)
{
	umask(0);
	REQUIRE(mkdtemp(place) != NULL);
	chmod(place, 0755);
	snprintf(outside, sizeof(outside), "%s/outside", place);
	snprintf(granted, sizeof(granted), "%s/granted", place);
	snprintf(secret, sizeof(secret), "%s/secret", outside);
	CHECK_INT(mkdir(outside, 0777), 0);
	CHECK_INT(mkdir(granted, 0777), 0);
	put_file(secret, "for nobody\n");
	chmod(secret, 0666);
	/* Not in what is granted by default. */
	CHECK_INT(chdir("/"), 0);
}

static void tear_down(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", place);
	CHECK_INT(system(command), 0);
}

static inline void run_in_child(void (*fn)(void), int as_user)
{
	pid_t pid;
	int status = 0;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		tap_failures = 0;
		if (as_user &&
		    (setgroups(0, NULL) < 0 || setresgid(OTHER_UID, OTHER_UID, OTHER_UID) < 0 ||
		     setresuid(OTHER_UID, OTHER_UID, OTHER_UID) < 0))
			_exit(99);
		/* A change of ids makes it unreadable, for itself too. */
		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
		fn();
		fflush(stdout);
		_exit(tap_failures ? 1 : 0);
	}
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "as %s: wait status %#x",
		  as_user ? "user" : "caller", (unsigned)status);
}

/* @fn in a child: once with our own ids, once as an ordinary user. */
static inline void each_way(void (*fn)(void))
{
	run_in_child(fn, 0);
	if (geteuid() == 0)
		run_in_child(fn, 1);
}

/* Confines with keys and values, up to a NULL. */
static inline int confine(struct cordon_error *err, ...)
{
	struct cordon_policy *policy = NULL;
	const char *key;
	va_list ap;
	int r = cordon_policy_new(&policy, err);

	va_start(ap, err);
	while (r == 0 && (key = va_arg(ap, const char *)) != NULL)
		r = cordon_policy_set(policy, key, va_arg(ap, const char *), err);
	va_end(ap);
	if (r == 0)
		r = cordon_confine_self(policy, NULL, err);
	cordon_policy_free(policy);
	return r;
}

#define CONFINE(...)                                                                               \
	do {                                                                                       \
		struct cordon_error err_ = CORDON_ERROR_INIT;                                      \
		int r_ = confine(&err_, __VA_ARGS__);                                              \
		CHECK_MSG(r_ == 0, "%s (%s)", err_.msg, err_.hint);                                \
	} while (0)

/* 0 or the errno with which opening fails. */
static inline int try_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

/* Exit status of a program started by a child, 126 if it could not be. */
static inline int try_exec(const char *const argv[])
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		dup2(null, 1);
		dup2(null, 2);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(126);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static inline int landlock_abi(void)
{
	return (int)syscall(444, NULL, 0, 1);
}

#endif

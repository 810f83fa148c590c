/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work on the files of a workspace, by a process of our own program. A guest may have left as many
 * files there as its limits allow, and the loop must not wait for them.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"
#include "server.h"
#include "verbs.h"

#define OUTPUT_MAX ((size_t)4 << 20)
#define CHUNK 65536

/* Our own program, with standard output and errors into @fd. 0 or an errno. */
static int spawn(const char *const *argv, int fd, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, pipe;
	int r;

	sigemptyset(&none);
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	r = posix_spawnattr_init(&attr);
	if (r != 0)
		return r;
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &pipe);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	r = posix_spawn_file_actions_init(&actions);
	if (r == 0) {
		r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
		r = r ? r : posix_spawn_file_actions_adddup2(&actions, fd, 1);
		r = r ? r : posix_spawn_file_actions_adddup2(&actions, fd, 2);
		/* The words are not changed: the type is an old one. */
		r = r ? r
		      : posix_spawn(ret, "/proc/self/exe", &actions, &attr,
				    (char *const *)(uintptr_t)argv, environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	posix_spawnattr_destroy(&attr);
	return r;
}

void helper_start(struct call *call, const char *const *argv, void (*then)(struct call *call))
{
	struct helper *helper = &call->helper;
	struct cordon_error err = CORDON_ERROR_INIT;
	int fds[2], r;

	helper_free(helper);
	helper->is_cut = 0;
	helper->has_to_end = call->is_commit;
	call->then = then;
	if (pipe2(fds, O_CLOEXEC) < 0) {
		cordon_err(&err, CORDON_E_SYSTEM, errno, "cannot make a pipe");
		answer_error(call, &err);
		return;
	}
	r = spawn(argv, fds[1], &helper->pid);
	close(fds[1]);
	if (r != 0) {
		cordon_err(&err, CORDON_E_SYSTEM, r, "cannot make a process");
		close(fds[0]);
		helper->pid = 0;
		answer_error(call, &err);
		return;
	}
	helper->fd = fds[0];
}

static void collect(struct helper *helper)
{
	int status = 0;

	if (helper->fd >= 0)
		close(helper->fd);
	helper->fd = -1;
	if (helper->pid > 0) {
		while (waitpid(helper->pid, &status, 0) < 0 && errno == EINTR)
			;
		helper->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	}
	helper->pid = 0;
}

int helper_read(struct helper *helper)
{
	char buffer[CHUNK];
	ssize_t n = read(helper->fd, buffer, sizeof(buffer));

	if (n < 0 && errno == EINTR)
		return 0;
	if (n > 0 && !helper->is_cut && helper->out.len + (size_t)n <= OUTPUT_MAX) {
		strbuf_add(&helper->out, buffer, (size_t)n);
		return 0;
	}
	if (n > 0) { /* more than anyone reads */
		helper->is_cut = 1;
		if (helper->has_to_end)
			return 0;
		helper_cancel(helper);
	}
	collect(helper);
	return 1;
}

void helper_cancel(struct helper *helper)
{
	if (helper->pid > 0)
		(void)kill(helper->pid, SIGKILL);
}

void helper_free(struct helper *helper)
{
	helper_cancel(helper);
	collect(helper);
	strbuf_done(&helper->out);
	helper->out = (struct strbuf)STRBUF_INIT;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two runs at once in one poll loop: nothing blocks, and each is handled when it has something to
 * do. The descriptors work in any event loop.
 *
 *	cc eventloop.c $(pkg-config --cflags --libs cordon) -o eventloop
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <cordon/cordon.h>

#define N_RUNS 2

static const char *const commands[N_RUNS][4] = {
	{ "/bin/sh", "-c", "sleep 0.2; echo slow", NULL },
	{ "/bin/sh", "-c", "echo fast", NULL },
};

static int start(struct cordon_launcher *launcher, const struct cordon_policy *policy,
		 const char *const *argv, struct cordon_run **ret, struct cordon_error *err)
{
	static const char *const environment[] = { "PATH=/usr/bin:/bin", NULL };
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;

	options.argv = argv;
	options.envp = environment;
	options.out.mode = CORDON_STREAM_CAPTURE;
	options.err.mode = CORDON_STREAM_JOIN;
	return cordon_run_start(launcher, policy, &options, ret, err);
}

static void report(int i, const struct cordon_result *result)
{
	printf("run %d: %s, status %d: %.*s", i, cordon_kind_name(result->kind), result->status,
	       (int)result->out.len, result->out.data);
}

/* The descriptor of a run that is over becomes negative, which poll() skips. */
static int loop(struct cordon_run *const *runs, struct cordon_error *err)
{
	struct pollfd fds[N_RUNS];
	int left = N_RUNS;

	for (int i = 0; i < N_RUNS; i++) {
		fds[i].fd = cordon_run_fd(runs[i]);
		fds[i].events = POLLIN;
	}
	while (left > 0) {
		if (poll(fds, N_RUNS, -1) < 0 && errno != EINTR)
			return -CORDON_E_SYSTEM;
		for (int i = 0; i < N_RUNS; i++) {
			int r;

			if (fds[i].fd < 0 || !fds[i].revents)
				continue;
			r = cordon_run_process(runs[i], err);
			if (r < 0)
				return r;
			if (r == 1) {
				report(i, cordon_run_result(runs[i]));
				fds[i].fd = -1;
				left--;
			}
		}
	}
	return 0;
}

int main(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_launcher *launcher = NULL;
	struct cordon_policy *policy = NULL;
	struct cordon_run *runs[N_RUNS] = { NULL };
	int r;

	r = cordon_launcher_new(&launcher, &err);
	if (r >= 0)
		r = cordon_policy_new(&policy, &err);
	if (r >= 0)
		r = cordon_policy_set(policy, "limits.wall", "5s", &err);
	for (int i = 0; i < N_RUNS && r >= 0; i++)
		r = start(launcher, policy, commands[i], &runs[i], &err);
	if (r >= 0)
		r = loop(runs, &err);
	if (r < 0)
		fprintf(stderr, "eventloop: %s\n", err.msg);

	for (int i = 0; i < N_RUNS; i++)
		cordon_run_free(runs[i]);
	cordon_policy_free(policy);
	cordon_launcher_free(launcher);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

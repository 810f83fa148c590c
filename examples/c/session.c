/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several commands in one sandbox. Each argument is a line for the shell; they run one after the
 * other and share files, processes and the network inside.
 *
 *	cc session.c $(pkg-config --cflags --libs cordon) -o session
 *	./session 'sleep 60 & echo $! > /tmp/pid' 'test -d /proc/$(cat /tmp/pid) && echo it goes on'
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <cordon/cordon.h>

/* One command, until it has ended. What it leaves running goes on in the session. */
static int run_line(struct cordon_session *session, const char *line, struct cordon_error *err)
{
	const char *const argv[] = { "sh", "-c", line, NULL };
	struct cordon_exec_options options = CORDON_EXEC_OPTIONS_INIT;
	struct cordon_command *command = NULL;
	const struct cordon_result *result;
	int r;

	options.argv = argv;
	options.out.mode = CORDON_STREAM_CAPTURE;
	options.err.mode = CORDON_STREAM_JOIN;
	options.wall_ms = 10000;
	options.orphans = CORDON_ORPHANS_KEEP;
	r = cordon_session_exec(session, &options, &command, err);
	if (r >= 0)
		r = cordon_command_wait(command, -1, err);
	if (r >= 0) {
		result = cordon_command_result(command);
		fwrite(result->out.data, 1, result->out.len, stdout);
		printf("[%s, status %d]\n", cordon_kind_name(result->kind), result->status);
	}
	cordon_command_free(command);
	return r;
}

static int run_lines(struct cordon_session *session, char **lines, int n, struct cordon_error *err)
{
	struct cordon_session_usage usage;
	int r = 0;

	for (int i = 0; i < n && r >= 0; i++)
		r = run_line(session, lines[i], err);
	if (r >= 0)
		r = cordon_session_usage(session, &usage, err);
	if (r >= 0)
		printf("up for %.0f ms, %llu tasks\n", usage.uptime_ms,
		       (unsigned long long)usage.tasks);
	return r;
}

/* Every process of the session gets SIGTERM, and is gone when this returns. */
static int stop(struct cordon_session *session, struct cordon_error *err)
{
	int r = cordon_session_end(session, SIGTERM, err);

	if (r >= 0)
		r = cordon_session_wait(session, -1, err);
	if (r >= 0)
		printf("session: %s\n", cordon_kind_name(cordon_session_result(session)->kind));
	return r;
}

int main(int argc, char **argv)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_launcher *launcher = NULL;
	struct cordon_policy *policy = NULL;
	struct cordon_session *session = NULL;
	int r;

	r = cordon_launcher_new(&launcher, &err);
	if (r >= 0)
		r = cordon_policy_new(&policy, &err);
	if (r >= 0) /* of the session as a whole, which otherwise has no end */
		r = cordon_policy_set(policy, "limits.wall", "1m", &err);
	if (r >= 0)
		r = cordon_session_start(launcher, policy, &options, &session, &err);
	if (r >= 0)
		r = run_lines(session, argv + 1, argc - 1, &err);
	if (r >= 0)
		r = stop(session, &err);
	if (r < 0)
		fprintf(stderr, "session: %s%s%s\n", err.msg, err.hint[0] ? "; " : "", err.hint);
	cordon_session_free(session);
	cordon_policy_free(policy);
	cordon_launcher_free(launcher);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

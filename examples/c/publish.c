/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a web server in a sandbox for some seconds and says where to reach it. The server may
 *connect only to the hosts that were named; what else it tried is listed at the end.
 *
 *	cc publish.c $(pkg-config --cflags --libs cordon) -o publish
 *	./publish 60s example.com:443
 */
#include <stdio.h>
#include <stdlib.h>

#include <cordon/cordon.h>

static void say_where(const struct cordon_run *run)
{
	size_t n;
	const struct cordon_published *ports = cordon_run_published(run, &n);

	for (size_t i = 0; i < n; i++)
		printf("port %u is at %s:%u\n", ports[i].port, ports[i].address,
		       ports[i].host_port);
	fflush(stdout);
}

static int report(const struct cordon_result *result)
{
	printf("%ju bytes in, %ju bytes out\n", (uintmax_t)result->net_bytes_in,
	       (uintmax_t)result->net_bytes_out);
	for (size_t i = 0; i < result->n_denials; i++)
		printf("refused: %s %s\n", result->denials[i].what, result->denials[i].target);
	if (result->error.code)
		fprintf(stderr, "publish: %s (%s)\n", result->error.msg, result->error.hint);
	/* It is meant to end when its time is up. */
	return result->kind == CORDON_KIND_TIMEOUT ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	static const char *const command[] = { "python3", "-m", "http.server", "8000", NULL };
	static const char *const environment[] = { "PATH=/usr/bin:/bin", NULL };
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_launcher *launcher = NULL;
	struct cordon_policy *policy = NULL;
	struct cordon_run *run = NULL;
	int status = EXIT_FAILURE;

	options.argv = command;
	options.envp = environment;

	/* Port 8000 inside, any port of 127.0.0.1 outside. */
	if (cordon_launcher_new(&launcher, &err) < 0 || cordon_policy_new(&policy, &err) < 0 ||
	    cordon_policy_set(policy, "limits.wall", argc > 1 ? argv[1] : "2s", &err) < 0 ||
	    cordon_policy_set(policy, "net.publish", "0:8000/tcp", &err) < 0)
		goto done;
	for (int i = 2; i < argc; i++) {
		if (cordon_policy_set(policy, "net.allow", argv[i], &err) < 0)
			goto done;
	}
	if (cordon_run_start(launcher, policy, &options, &run, &err) < 0)
		goto done;
	say_where(run);
	if (cordon_run_wait(run, -1, &err) < 0)
		goto done;
	status = report(cordon_run_result(run));
done:
	if (err.code)
		fprintf(stderr, "publish: %s%s%s\n", err.msg, err.hint[0] ? "; " : "", err.hint);
	cordon_run_free(run);
	cordon_policy_free(policy);
	cordon_launcher_free(launcher);
	return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets a shell script change a directory without changing it, shows what it did, and commits what
 * is not risky. The rest is discarded.
 *
 *	cc workspace.c $(pkg-config --cflags --libs cordon) -o workspace
 *	./workspace DIR 'echo hello > greeting'
 */
#include <stdio.h>
#include <stdlib.h>

#include <cordon/cordon.h>

/* Names come from the sandbox and are not safe to print on a terminal. */
static void print_name(const char *name)
{
	for (; *name; name++) {
		unsigned char c = (unsigned char)*name;

		if (c < ' ' || c >= 0x7f)
			printf("\\x%02x", c);
		else
			putchar(c);
	}
}

static int print_change(void *arg, const struct cordon_change *change)
{
	(void)arg;
	if (!change->is_listed)
		return 0;
	printf("%-8s ", cordon_change_kind_name(change->kind));
	print_name(change->path);
	for (unsigned bit = 1; bit <= change->risks; bit <<= 1) {
		if (change->risks & bit)
			printf(" [%s]", cordon_risk_name(bit));
	}
	putchar('\n');
	return 0;
}

static int is_harmless(void *arg, const struct cordon_change *change)
{
	(void)arg;
	return change->risks == 0;
}

static int review(const char *id, struct cordon_error *err)
{
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;
	struct cordon_commit_result done = { 0 };
	struct cordon_workspace *ws;
	int r;

	r = cordon_workspace_open(NULL, id, &ws, err);
	if (r < 0)
		return r;
	options.choose = is_harmless;
	r = cordon_workspace_changes(ws, print_change, NULL, err);
	if (r == 0)
		r = cordon_workspace_commit(ws, &options, &done, err);
	if (r < 0) {
		/* Nothing is lost: it can be opened again by its id. */
		cordon_workspace_close(ws);
		return r;
	}
	printf("%ju committed, %ju left out, %ju in conflict\n", (uintmax_t)done.applied,
	       (uintmax_t)(done.refused + done.skipped), (uintmax_t)done.conflicts);
	return cordon_workspace_discard(ws, err);
}

static int run_in(const char *dir, const char *script, struct cordon_error *err)
{
	const char *const command[] = { "sh", "-c", script, NULL };
	const char *const environment[] = { "PATH=/usr/bin:/bin", NULL };
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_launcher *launcher = NULL;
	struct cordon_policy *policy = NULL;
	const struct cordon_result *result;
	struct cordon_run *run = NULL;
	int status = EXIT_FAILURE;

	options.argv = command;
	options.envp = environment;
	if (cordon_launcher_new(&launcher, err) < 0 || cordon_policy_new(&policy, err) < 0 ||
	    cordon_policy_set(policy, "fs.workspace", dir, err) < 0 ||
	    cordon_policy_set(policy, "cwd", dir, err) < 0 ||
	    cordon_policy_set(policy, "limits.wall", "10s", err) < 0 ||
	    cordon_run_start(launcher, policy, &options, &run, err) < 0 ||
	    cordon_run_wait(run, -1, err) < 0)
		goto done;
	result = cordon_run_result(run);
	status = result->status;
	if (result->error.code)
		*err = result->error;
	else if (!result->workspace->is_kept)
		printf("nothing was changed\n");
	else if (review(result->workspace->id, err) < 0)
		status = EXIT_FAILURE;
done:
	cordon_run_free(run);
	cordon_policy_free(policy);
	cordon_launcher_free(launcher);
	return status;
}

int main(int argc, char **argv)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	int status;

	if (argc != 3) {
		fprintf(stderr, "usage: workspace DIR SCRIPT\n");
		return EXIT_FAILURE;
	}
	status = run_in(argv[1], argv[2], &err);
	if (err.code)
		fprintf(stderr, "workspace: %s%s%s\n", err.msg, err.hint[0] ? "; " : "", err.hint);
	return status;
}

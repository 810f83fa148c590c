/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the lines of its input after confining itself: it can read the descriptor that is already
 * open, and do nothing else.
 *
 *	cc confine.c $(pkg-config --cflags --libs cordon) -o confine
 *	./confine /etc/passwd
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cordon/cordon.h>

/* There is no way back. */
static int confine(struct cordon_error *err)
{
	struct cordon_policy *policy = NULL;
	int r = cordon_policy_new(&policy, err);

	if (r == 0)
		r = cordon_policy_set(policy, "limits.cpu_time", "5s", err);
	/* No program may be started either. */
	if (r == 0)
		r = cordon_policy_json(policy, "{\"commands\": []}", strlen("{\"commands\": []}"),
				       "policy", NULL, err);
	if (r == 0)
		r = cordon_confine_self(policy, NULL, err);
	cordon_policy_free(policy);
	return r;
}

int main(int argc, char **argv)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	FILE *input = argc > 1 ? fopen(argv[1], "re") : stdin, *output;
	unsigned long lines = 0;
	int c;

	if (!input) {
		perror("confine");
		return EXIT_FAILURE;
	}
	if (confine(&err) < 0) {
		fprintf(stderr, "confine: %s%s%s\n", err.msg, err.hint[0] ? "; " : "", err.hint);
		fclose(input);
		return EXIT_FAILURE;
	}
	while ((c = getc(input)) != EOF)
		lines += c == '\n';
	printf("lines:  %lu\n", lines);
	output = fopen("/tmp/confine-was-here", "we");
	if (output)
		fclose(output);
	else
		printf("/tmp:   %s\n", strerror(errno));
	fclose(input);
	return EXIT_SUCCESS;
}

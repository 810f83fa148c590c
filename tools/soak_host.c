/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The long-lived host of tools/soak.py: runs of every kind through the library, from two threads.
 *
 *	soak_host DIR < orders
 *
 * DIR holds grant/, to be written to, and garbage, a file that no kernel executes. Orders: `go N`
 * makes N runs and answers `done N BAD`; `end` frees the launcher and answers `ended`; end of file
 * ends the program. What went wrong is said on standard error.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cordon/cordon.h>

#define THREADS 2
#define WAIT_MS 60000
#define ARGS_MAX 4
#define KEYS_MAX 4
#define RARE 10

struct sort {
	const char *kind; /* as the receipt names it; NULL = the start itself is refused with
			     @refusal */
	int status;
	int refusal;
	const char *argv[ARGS_MAX];
	const char *keys[KEYS_MAX][2];
	const char *in, *out; /* given and expected; NULL = nothing, not looked at */
	int is_rare;	      /* takes long: one turn in RARE */
	int cancel_us;	      /* cancelled so long after the start at most; -1 = freed in mid-run */
};

#define SH(script) { "/bin/sh", "-c", script, NULL }

static const struct sort sorts[] = {
	{ .kind = "exited", .argv = { "/bin/true" } },
	{ .kind = "exited", .argv = { "/bin/true" }, .keys = { { "isolation", "landlock" } } },
	{ .kind = "exited", .status = 7, .argv = SH("exit 7") },
	{ .kind = "exited", .status = 124, .argv = SH("exit 124") },
	{ .kind = "exited", .status = 137, .argv = SH("exit 137") },
	{ .kind = "exited", .argv = { "/bin/cat" }, .in = "some input", .out = "some input" },
	{ .kind = "exited",
	  .argv = { "/bin/cat" },
	  .in = "some input",
	  .out = "some input",
	  .keys = { { "isolation", "landlock" } } },
	{ .kind = "exited",
	  .argv = SH("f=$(mktemp made.XXXXXX) && rm $f && (sleep 20 &) && echo out"),
	  .out = "out\n",
	  .keys = { { "fs.write", "grant" }, { "cwd", "grant" } } },
	{ .kind = "exited",
	  .argv = SH("f=$(mktemp made.XXXXXX) && rm $f && (sleep 20 &) && echo out"),
	  .out = "out\n",
	  .keys = { { "fs.write", "grant" }, { "cwd", "grant" }, { "isolation", "landlock" } } },
	{ .kind = "exited",
	  .argv = SH("mkdir -p $HOME/a/b /tmp/c/d && echo > $HOME/a/b/x; echo > /dev/shm/y"),
	  .keys = { { "isolation", "namespaces" } } },
	{ .kind = "exited",
	  .argv = SH("mkdir -p $HOME/a/b $TMPDIR/c/d && chmod 0 $HOME/a && echo > $TMPDIR/c/d/x"),
	  .keys = { { "isolation", "landlock" } } },
	{ .kind = "signaled", .status = 128 + SIGUSR1, .argv = SH("kill -USR1 $$") },
	{ .kind = "signaled", .status = 128 + SIGKILL, .argv = SH("kill -KILL $$") },
	{ .kind = "timeout",
	  .status = 124,
	  .argv = { "/bin/sleep", "30" },
	  .keys = { { "limits.wall", "5ms" } } },
	{ .kind = "timeout",
	  .status = 124,
	  .argv = SH("(setsid sleep 30 &); sleep 30"),
	  .keys = { { "limits.wall", "8ms" }, { "isolation", "landlock" } } },
	{ .kind = "cancelled", .status = -1, .argv = { "/bin/sleep", "30" }, .cancel_us = 4000 },
	{ .kind = "cancelled",
	  .status = -1,
	  .argv = SH("(setsid sleep 30 &); sleep 30"),
	  .keys = { { "isolation", "landlock" } },
	  .cancel_us = 4000 },
	{ .kind = "freed", .argv = { "/bin/sleep", "30" }, .cancel_us = -1 },
	{ .kind = "freed",
	  .argv = { "/bin/sleep", "30" },
	  .keys = { { "isolation", "landlock" }, { "fs.write", "grant" } },
	  .cancel_us = -1 },
	{ .kind = "output",
	  .status = 137,
	  .argv = { "/usr/bin/yes" },
	  .keys = { { "limits.output", "4K" }, { "limits.output_end", "on" } } },
	{ .kind = "exited",
	  .argv = SH("exec head -c 100000 /dev/zero"),
	  .keys = { { "limits.output", "4K" }, { "isolation", "landlock" } } },
	{ .kind = "memory",
	  .status = 137,
	  .is_rare = 1,
	  .argv = { "/usr/bin/tail", "/dev/zero" },
	  .keys = { { "limits.memory", "32M" } } },
	{ .kind = "memory",
	  .status = 137,
	  .is_rare = 1,
	  .argv = { "/usr/bin/tail", "/dev/zero" },
	  .keys = { { "limits.memory", "32M" }, { "isolation", "landlock" } } },
	{ .kind = "cpu_time",
	  .status = 124,
	  .is_rare = 1,
	  .argv = SH("while :; do :; done"),
	  .keys = { { "limits.cpu_time", "20ms" } } },
	{ .refusal = -CORDON_E_NOT_EXECUTABLE, .argv = { "./garbage" } },
	{ .refusal = -CORDON_E_NOT_FOUND, .argv = { "/nonexistent/program" } },
	{ .refusal = -CORDON_E_PATH,
	  .argv = { "/bin/true" },
	  .keys = { { "fs.write", "no/such/directory" } } },
};

#define N_SORTS (sizeof(sorts) / sizeof(*sorts))

static struct cordon_launcher *launcher;
static struct cordon_policy *policies[N_SORTS];
static atomic_uint left, bad;
static unsigned turn; /* which sort comes next, over all orders */

static void say(const struct sort *sort, const char *what, const char *got)
{
	fprintf(stderr, "soak_host: %s %s (wanted %s): %s %s\n", sort->argv[0],
		sort->argv[2] ? sort->argv[2] : "", sort->kind ? sort->kind : "a refusal", what,
		got);
}

static int is_right(const struct sort *sort, const struct cordon_result *res)
{
	char *json = NULL, number[32];
	int ok;

	snprintf(number, sizeof(number), "%d", res->status);
	if (strcmp(cordon_kind_name(res->kind), sort->kind) != 0) {
		say(sort, cordon_kind_name(res->kind), res->error.msg);
		return 0;
	}
	if (sort->status >= 0 && res->status != sort->status) {
		say(sort, "status", number);
		return 0;
	}
	if (sort->out && (res->out.len != strlen(sort->out) ||
			  memcmp(res->out.data, sort->out, res->out.len) != 0)) {
		say(sort, "another output", "");
		return 0;
	}
	ok = cordon_result_to_json(res, 1, &json, NULL) == 0 && strstr(json, sort->kind);
	if (!ok)
		say(sort, "no receipt", "");
	cordon_free(json);
	return ok;
}

static int one_run(const struct sort *sort, const struct cordon_policy *policy)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run *run = NULL;
	int r;

	options.argv = sort->argv;
	options.out.mode = options.err.mode = CORDON_STREAM_CAPTURE;
	if (sort->in) {
		options.in.mode = CORDON_STREAM_DATA;
		options.in.data = sort->in;
		options.in.data_len = strlen(sort->in);
	}
	r = cordon_run_start(launcher, policy, &options, &run, &err);
	if (!sort->kind || r < 0) {
		if (r != sort->refusal)
			say(sort, "start", r < 0 ? err.msg : "went on");
		cordon_run_free(run);
		return r == sort->refusal;
	}
	if (sort->cancel_us) {
		usleep((useconds_t)(random() % 4000));
		if (sort->cancel_us > 0)
			cordon_run_cancel(run, &err);
	}
	if (sort->cancel_us >= 0) {
		r = cordon_run_wait(run, WAIT_MS, &err);
		if (r != 1)
			say(sort, "wait", r < 0 ? err.msg : "hangs");
		r = r == 1 && is_right(sort, cordon_run_result(run));
	} else {
		r = 1;
	}
	cordon_run_free(run);
	return r;
}

static void *work(void *arg)
{
	for (;;) {
		unsigned n = atomic_load(&left);

		while (n > 0 && !atomic_compare_exchange_weak(&left, &n, n - 1))
			;
		if (n == 0)
			return arg;
		n += turn;
		n = sorts[n % N_SORTS].is_rare && n / N_SORTS % RARE ? 0 : n % N_SORTS;
		if (!one_run(&sorts[n], policies[n]))
			atomic_fetch_add(&bad, 1);
	}
}

static int go(unsigned n)
{
	pthread_t threads[THREADS];

	atomic_store(&left, n);
	atomic_store(&bad, 0);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, NULL) != 0)
			return -1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	turn += n;
	printf("done %u %u\n", n, atomic_load(&bad));
	return fflush(stdout);
}

static int prepare(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	if (cordon_launcher_new(&launcher, &err) < 0)
		goto fail;
	for (size_t i = 0; i < N_SORTS; i++) {
		if (cordon_policy_new(&policies[i], &err) < 0)
			goto fail;
		for (int k = 0; k < KEYS_MAX && sorts[i].keys[k][0]; k++)
			if (cordon_policy_set(policies[i], sorts[i].keys[k][0], sorts[i].keys[k][1],
					      &err) < 0)
				goto fail;
	}
	return 0;
fail:
	fprintf(stderr, "soak_host: %s\n", err.msg);
	return -1;
}

static void let_go(void)
{
	for (size_t i = 0; i < N_SORTS; i++) {
		cordon_policy_free(policies[i]);
		policies[i] = NULL;
	}
	cordon_launcher_free(launcher);
	launcher = NULL;
}

int main(int argc, char **argv)
{
	char order[64];
	unsigned n;

	if (argc != 2 || chdir(argv[1]) < 0 || prepare() < 0)
		return 2;
	while (fgets(order, sizeof(order), stdin)) {
		if (sscanf(order, "go %u", &n) == 1 && launcher) {
			if (go(n) != 0)
				return 2;
		} else if (!strcmp(order, "end\n")) {
			let_go();
			printf("ended\n");
			fflush(stdout);
		}
	}
	return 0;
}

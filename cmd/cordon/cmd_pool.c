/* SPDX-License-Identifier: Apache-2.0 */
/* cordon pool start, status, stop. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json_read.h"
#include "base/units.h"
#include "detach.h"
#include "out.h"
#include "pool_server.h"
#include "session_peer.h"
#include "verbs.h"
#include "workspace.h"

#define IDLE_DEFAULT_MS (30 * 60 * 1000)
#define SIZE_DEFAULT 2
#define STOP_MS 10000
#define STATUS_NONE 1 /* of `status`: there is no pool */

/* Of the process that starts, and of the one that stays. */
static struct pool_server server = { .place = POOL_PLACE_INIT, .listen_fd = -1 };

struct start {
	const struct cordon_policy *policy;
	const struct cordon_run_options *options;
};

static int fail(const struct cordon_error *err)
{
	say_error(err);
	return STATUS_FAILED;
}

static int check_operands(const struct parsed *args, size_t max, struct cordon_error *err)
{
	if (args->n_rest <= max)
		return 0;
	(void)cordon_err(err, CORDON_E_USAGE, 0, "'%s' takes no argument '%s'",
			 verb_table[args->verb].name, args->rest[max]);
	(void)cordon_err_hint(err, "try 'cordon %s --help'", verb_table[args->verb].name);
	return -CORDON_E_USAGE;
}

/* start */

static int read_options(const struct parsed *args, struct cordon_error *err)
{
	const char *idle = parsed_value(args, OPT_IDLE), *size = parsed_value(args, OPT_SIZE);
	char *end;
	long n;

	server.idle_ms = IDLE_DEFAULT_MS;
	server.size = SIZE_DEFAULT;
	if (idle && units_parse_duration(idle, &server.idle_ms, err) < 0) {
		cordon_err_prefix(err, "--idle");
		return -CORDON_E_USAGE;
	}
	if (!size)
		return 0;
	errno = 0;
	n = strtol(size, &end, 10);
	if (size[0] < '0' || size[0] > '9' || *end || errno || n < 1 || n > CORDON_POOL_MAX)
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "--size: '%s' is not a number from 1 to %d", size,
				  CORDON_POOL_MAX);
	server.size = (unsigned)n;
	return 0;
}

/* Two lines at most: the error and what helps, or nothing. */
static int tell_error(int fd, const struct cordon_error *err)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_puts(&sb, err->msg);
	strbuf_putc(&sb, '\n');
	strbuf_puts(&sb, err->hint);
	(void)write_full(fd, sb.data, sb.len);
	strbuf_done(&sb);
	return STATUS_FAILED;
}

/* A pool that can give nothing away is an error now, and not a riddle later. */
static int fill(const struct start *start, struct cordon_error *err)
{
	struct cordon_pool_options options = CORDON_POOL_OPTIONS_INIT;
	struct cordon_launcher *launcher;
	struct cordon_pool_stats stats;
	int r;

	if (session_count_filters(0) != 0) {
		r = cordon_err(err, CORDON_E_STATE, 0,
			       "this process has system call filters, which other processes "
			       "cannot be seen to share");
		cordon_err_hint(err, "runs are started one by one here");
		return r;
	}
	options.parked = server.size;
	options.refill = CORDON_REFILL_BY_HAND;
	r = cordon_launcher_new(&launcher, err);
	if (r == 0)
		r = cordon_pool_new(launcher, start->policy, start->options, &options, &server.pool,
				    err);
	if (r == 0)
		r = server.proof = cordon_pool_share(server.pool, err);
	if (r < 0)
		return r;
	cordon_pool_stats(server.pool, &stats);
	if (stats.parked > 0)
		return 0;
	r = cordon_pool_refill(server.pool, err);
	if (r == 0)
		r = cordon_err(err, CORDON_E_UNSUPPORTED, 0,
			       "nothing can be made ahead at level landlock");
	return r > 0 ? 0 : r;
}

/* In the process that stays. */
static int serve(void *arg, int fd)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	const struct start *start = arg;

	detach_close(fd, -1);
	/* Relative paths of the policy were read by then, as for a run. */
	if (pool_claim(&server.place, &server.listen_fd, &err) < 0)
		return tell_error(fd, &err);
	server.signal_fd = detach_signals();
	if (fill(start, &err) < 0 || pool_publish(&server, pool_now_ms()) < 0 ||
	    detach_leave_terminal() < 0) {
		cordon_pool_free(server.pool);
		pool_unclaim(&server.place);
		if (!err.code)
			cordon_err(&err, CORDON_E_SYSTEM, 0, "cannot start the pool");
		return tell_error(fd, &err);
	}
	close(fd);
	pool_serve(&server);
	cordon_pool_free(server.pool);
	return 0;
}

int cmd_pool_start(const struct parsed *args)
{
	static const char *const none[] = { "sh", NULL };
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run_options options;
	struct cordon_policy *policy = NULL;
	struct start start = { NULL, &options };
	struct strbuf sb = STRBUF_INIT;
	char home[PATH_MAX], *hint;
	int fd = -1;

	if (check_operands(args, 1, &err) < 0 || read_options(args, &err) < 0 ||
	    cordon_policy_new(&policy, &err) < 0 || policy_from_options(policy, args, &err) < 0)
		return fail(&err);
	run_options_init(&options, args, home, sizeof(home));
	if (run_private_option(&options, args, &err) < 0)
		return fail(&err);
	if (!args->n_rest)
		options.argv = none;
	start.policy = policy;
	if (detach(serve, &start, &fd, &err) < 0)
		return fail(&err);
	(void)read_strbuf(fd, &sb);
	if (sb.len) {
		strbuf_putc(&sb, '\0');
		hint = sb.failed ? NULL : strchr(sb.data, '\n');
		if (hint)
			*hint++ = '\0';
		cordon_err(&err, CORDON_E_STATE, 0, "%s", sb.failed ? "out of memory" : sb.data);
		if (hint && *hint)
			cordon_err_hint(&err, "%s", hint);
		return fail(&err);
	}
	/* It said nothing: it serves, unless it was killed. */
	if (pool_find(NULL))
		return 0;
	cordon_err(&err, CORDON_E_SYSTEM, 0, "the pool's process was killed");
	return fail(&err);
}

/* status */

static int64_t number(const struct json_value *doc, const char *key)
{
	const struct json_value *v = json_get(doc, key);

	return v && v->type == JSON_INTEGER ? strtoll(v->text, NULL, 10) : 0;
}

static void add_status(struct strbuf *sb, const char *json, size_t len)
{
	struct arena arena = ARENA_INIT;
	const struct json_value *doc = NULL;
	char idle[UNITS_TEXT_MAX];
	int64_t idle_ms;

	if (json_read(json, len, "status", &arena, &doc, NULL) == 0 && doc->type == JSON_OBJECT) {
		idle_ms = number(doc, "idle_ms");
		strbuf_printf(sb, "process %jd: %jd of %jd sandboxes wait, %jd used so far",
			      (intmax_t)number(doc, "pid"), (intmax_t)number(doc, "parked"),
			      (intmax_t)number(doc, "size"), (intmax_t)number(doc, "warm"));
		if (idle_ms)
			strbuf_printf(sb, "; ends after %s without a run",
				      units_format_duration(idle_ms, idle));
		strbuf_putc(sb, '\n');
	} else {
		strbuf_puts(sb, "a pool is being started\n");
	}
	arena_done(&arena);
}

int cmd_pool_status(const struct parsed *args)
{
	struct strbuf told = STRBUF_INIT, sb = STRBUF_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	int is_json = parsed_has(args, OPT_JSON);
	pid_t pid;

	if (check_operands(args, 0, &err) < 0)
		return fail(&err);
	pid = pool_find(&told);
	if (is_json)
		strbuf_printf(&sb, "{\"running\": %s, \"pool\": ", pid ? "true" : "false");
	if (is_json && pid && told.len)
		strbuf_add(&sb, told.data, told.len);
	else if (is_json)
		strbuf_puts(&sb, "null");
	else if (pid)
		add_status(&sb, told.data ? told.data : "", told.len);
	else
		strbuf_puts(&sb, "no pool is running\n");
	if (is_json)
		strbuf_puts(&sb, "}\n");
	strbuf_done(&told);
	return out_finish(&sb, pid ? 0 : STATUS_NONE);
}

/* stop */

int cmd_pool_stop(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct pollfd p = { .fd = -1, .events = POLLIN };
	pid_t pid;

	if (check_operands(args, 0, &err) < 0)
		return fail(&err);
	pid = pool_find(NULL);
	if (!pid) {
		cordon_err(&err, CORDON_E_STATE, 0, "no pool is running");
		return fail(&err);
	}
	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	/* The number may have become another process's: ask again, now that it is held. */
	if (p.fd < 0 || pool_find(NULL) != pid)
		return 0;
	if (!pool_has_proof(pid)) {
		cordon_err(&err, CORDON_E_STATE, 0,
			   "process %d keeps the pool's place, but is no pool that serves",
			   (int)pid);
		cordon_err_hint(&err, "remove what is named .pool in /tmp/cordon-sessions-%u",
				(unsigned)geteuid());
		return fail(&err);
	}
	if (syscall(SYS_pidfd_send_signal, p.fd, SIGTERM, NULL, 0) < 0 && errno != ESRCH) {
		cordon_err(&err, CORDON_E_SYSTEM, errno, "cannot end the pool's process %d",
			   (int)pid);
		return fail(&err);
	}
	if (poll(&p, 1, STOP_MS) > 0)
		return 0;
	cordon_err(&err, CORDON_E_STATE, 0, "the pool's process %d does not end", (int)pid);
	cordon_err_hint(&err, "kill -9 %d ends it; runs that have begun go on", (int)pid);
	return fail(&err);
}

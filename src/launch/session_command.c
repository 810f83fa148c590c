/* SPDX-License-Identifier: Apache-2.0 */
/* A session's command: what init is told about it, and its result. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/path.h"
#include "format/command.h"
#include "format/steps.h"
#include "launch/session.h"
#include "plan/command_read.h"
#include "plan/plan_read.h"
#include "sys/calls.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"
#define STATUS_TIMEOUT 124
#define STATUS_FAILED 125
#define STATUS_KILLED 137

/* Strings on their way into a block. */
struct list {
	const char **v;
	size_t n;
};

static int add(struct list *list, struct arena *arena, const char *s)
{
	/* Doubled at powers of two. */
	if ((list->n & (list->n - 1)) == 0) {
		const char **v = arena_alloc(arena, (list->n ? 2 * list->n : 1) * sizeof(*v));

		if (!v)
			return -1;
		if (list->n)
			memcpy(v, list->v, list->n * sizeof(*v));
		list->v = v;
	}
	if (!s)
		return -1;
	list->v[list->n++] = s;
	return 0;
}

static bool is_same_name(const char *a, const char *b)
{
	size_t len = strcspn(a, "=");

	return strncmp(a, b, len) == 0 && b[len] == '=';
}

static bool has_name(const char *const *env, const char *variable)
{
	for (; env && *env; env++)
		if (is_same_name(variable, *env))
			return true;
	return false;
}

/* The session's environment, and what the command has in its place or besides. */
static int build_env(const struct cordon_session *s, const char *const *own, struct arena *arena,
		     struct list *ret)
{
	const struct plan_header *h = s->run->plan->block;

	for (uint32_t i = 0; i < h->n_envp; i++) {
		const char *variable = plan_string(h, plan_envp(h)[i]);

		if (!has_name(own, variable) && add(ret, arena, variable) < 0)
			return -1;
	}
	for (; own && *own; own++)
		if (strchr(*own, '=') && add(ret, arena, *own) < 0)
			return -1;
	return 0;
}

static const char *find_path(const struct list *env)
{
	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], "PATH=", 5) == 0)
			return env->v[i] + 5;
	return DEFAULT_PATH;
}

/* Where the program may be, inside: that is looked up there, by the kernel. */
static int build_paths(const char *name, const char *path, struct arena *arena, struct list *ret)
{
	if (strchr(name, '/'))
		return add(ret, arena, name);
	while (*path) {
		size_t len = strcspn(path, ":");

		if (len &&
		    add(ret, arena, arena_printf(arena, "%.*s/%s", (int)len, path, name)) < 0)
			return -1;
		path += len + (path[len] == ':');
	}
	return ret->n ? 0 : add(ret, arena, name);
}

static size_t size_of(const struct list *list)
{
	size_t size = 0;

	for (size_t i = 0; i < list->n; i++)
		size += strlen(list->v[i]) + 1;
	return size;
}

static uint32_t put(char *block, size_t *pos, const char *s)
{
	size_t at = *pos, len = strlen(s) + 1;

	memcpy(block + at, s, len);
	*pos += len;
	return (uint32_t)at;
}

static void put_list(char *block, size_t *pos, uint32_t off, const struct list *list)
{
	uint32_t *offsets = (uint32_t *)(void *)(block + off);

	for (size_t i = 0; i < list->n; i++)
		offsets[i] = put(block, pos, list->v[i]);
}

static char *write_block(const struct list *argv, const struct list *env, const struct list *paths,
			 const char *cwd, struct arena *arena, size_t *ret_size)
{
	struct command_header head = { .magic = COMMAND_MAGIC, .version = COMMAND_VERSION };
	size_t n_all = argv->n + env->n + paths->n, size, pos;
	char *block;

	head.argv_off = sizeof(head);
	head.n_argv = (uint32_t)argv->n;
	head.envp_off = head.argv_off + head.n_argv * 4;
	head.n_envp = (uint32_t)env->n;
	head.paths_off = head.envp_off + head.n_envp * 4;
	head.n_paths = (uint32_t)paths->n;
	head.strings_off = (uint32_t)(sizeof(head) + n_all * 4);
	size = head.strings_off + size_of(argv) + size_of(env) + size_of(paths) +
	       (cwd ? strlen(cwd) : 0) + 1;
	if (n_all > COMMAND_STRINGS_MAX || size > COMMAND_SIZE_MAX)
		return NULL;
	head.size = (uint32_t)size;
	block = arena_alloc(arena, size);
	if (!block)
		return NULL;
	memset(block, 0, size);
	pos = head.strings_off;
	put_list(block, &pos, head.argv_off, argv);
	put_list(block, &pos, head.envp_off, env);
	put_list(block, &pos, head.paths_off, paths);
	if (cwd)
		head.cwd = put(block, &pos, cwd);
	memcpy(block, &head, sizeof(head));
	*ret_size = size;
	return command_read_check(block, size) == 0 ? block : NULL;
}

static const char *const files_argv[] = { "files", NULL };

int command_block_fd(struct cordon_session *s, const struct cordon_exec_options *o,
		     struct cordon_command *c, struct cordon_error *err)
{
	const char *const *words = o->files ? files_argv : o->argv;
	struct list argv = { 0 }, env = { 0 }, paths = { 0 };
	struct arena arena = { 0 };
	char *block = NULL;
	size_t size = 0;
	int r = 0, fd;

	if (!words || !words[0])
		return cordon_err(err, CORDON_E_USAGE, 0, "there is no command to run");
	for (size_t i = 0; r == 0 && words[i]; i++)
		r = add(&argv, &arena, words[i]);
	if (r == 0)
		r = build_env(s, o->env, &arena, &env);
	if (r == 0)
		r = build_paths(words[0], find_path(&env), &arena, &paths);
	c->name = strdup(words[0]);
	c->cwd = o->cwd ? strdup(o->cwd) : NULL;
	c->n_paths = paths.n;
	if (r == 0)
		block = write_block(&argv, &env, &paths, o->cwd, &arena, &size);
	if (!block || !c->name || (o->cwd && !c->cwd)) {
		arena_done(&arena);
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "arguments and environment are too large, or memory is out");
	}
	fd = sealed_fd("cordon-command", block, size);
	arena_done(&arena);
	return fd < 0 ? cordon_err(err, CORDON_E_SYSTEM, -fd, "cannot store the command") : fd;
}

/* Results. */

static void exec_error(const struct cordon_command *c, struct cordon_error *err)
{
	int e = c->report.sys_errno;
	bool is_missing = e == ENOENT || e == ENOTDIR;

	if (is_missing && !strchr(c->name, '/')) {
		cordon_err(err, CORDON_E_NOT_FOUND, 0, "command '%s' not found in the session",
			   c->name);
		cordon_err_hint(err, "it looks in the PATH inside; start the session with --read "
				     "for its directory, or give its path");
		return;
	}
	cordon_err(err, is_missing ? CORDON_E_NOT_FOUND : CORDON_E_NOT_EXECUTABLE, e,
		   "cannot execute '%s'", c->name);
	if (e == EACCES)
		cordon_err_hint(err, "is it executable, and inside a grant of the session? see "
				     "--read and --commands");
	else if (e == ENOEXEC)
		cordon_err_hint(err, "a script needs a first line such as #!/bin/sh");
	else if (is_missing)
		cordon_err_hint(err, "it, or its interpreter, is not inside the sandbox");
}

static void fill_failed(struct cordon_command *c)
{
	struct cordon_result *res = &c->result;
	const struct control_report as_report = { .type = CONTROL_FAILED,
						  .stage = c->report.stage,
						  .op = c->report.op,
						  .sys_errno = c->report.sys_errno };

	res->kind = CORDON_KIND_SANDBOX_ERROR;
	res->status = STATUS_FAILED;
	if (c->report.stage == STAGE_EXEC && c->report.op == STEP_EXEC_EXECVE) {
		res->kind = CORDON_KIND_SPAWN_FAILED;
		exec_error(c, &res->error);
		res->status = res->error.code == CORDON_E_NOT_FOUND ? 127 : 126;
	} else if (c->report.stage == STAGE_MOUNTS && c->report.op == STEP_MOUNTS_CWD) {
		cordon_err(&res->error, CORDON_E_PATH, c->report.sys_errno, "cannot start in '%s'",
			   c->cwd ? c->cwd : "?");
		cordon_err_hint(&res->error, "the directory has to exist inside");
	} else if (c->report.stage == STAGE_EXEC && c->report.op == STEP_EXEC_CLONE) {
		cordon_err(&res->error, CORDON_E_SYSTEM, c->report.sys_errno,
			   "the session cannot start a process");
		cordon_err_hint(&res->error, "has it reached its limit of tasks? see --procs");
	} else {
		result_stage_error(c->session->run->plan, &as_report, &res->error);
	}
}

static void fill_ended(struct cordon_command *c)
{
	struct cordon_result *res = &c->result;
	int status = c->report.wait_status;

	if (WIFSIGNALED(status)) {
		res->kind = CORDON_KIND_SIGNALED;
		res->signal = WTERMSIG(status);
		res->status = STATUS_KILLED - SIGKILL + res->signal;
	} else {
		res->kind = CORDON_KIND_EXITED;
		res->exit_code = WEXITSTATUS(status);
		res->status = res->exit_code;
	}
	if (c->report.limit == CONTROL_LIMIT_WALL) {
		res->kind = CORDON_KIND_TIMEOUT;
		res->status = STATUS_TIMEOUT;
	} else if (c->report.on_order) {
		res->kind = CORDON_KIND_CANCELLED;
	}
}

static void fill_output(struct relay *relay, struct cordon_output *out)
{
	out->total_bytes = relay->total;
	out->truncated = relay->truncated | relay->lost;
	out->write_errno = relay->write_errno;
	if (relay->mode != CORDON_STREAM_CAPTURE)
		return;
	if (relay_captured(relay, out) < 0)
		out->truncated = 1;
	if (!out->data)
		out->data = "";
}

static double ms_between(uint64_t from, uint64_t to)
{
	return from && to > from ? (double)(to - from) / 1e6 : 0;
}

static void fill_rest(struct cordon_command *c, bool has_run)
{
	static const char *const none[] = { NULL };
	const struct cordon_run *run = c->session->run;
	struct cordon_result *res = &c->result;
	const struct control_command *rep = &c->report;

	fill_output(&c->out, &res->out);
	fill_output(&c->err, &res->err);
	res->duration_ms = ms_between(c->started_ns, rep->ended_ns ? rep->ended_ns : clock_ns());
	res->setup_ms = ms_between(c->started_ns, rep->started_ns);
	res->run_ms = ms_between(rep->started_ns, rep->ended_ns);
	res->cpu_user_ms = (double)rep->user_us / 1e3;
	res->cpu_system_ms = (double)rep->system_us / 1e3;
	res->max_memory_bytes = rep->memory_bytes;
	res->layers = res->missing = none;
	res->level = ((const struct plan_header *)run->plan->block)->level == PLAN_LEVEL_NAMESPACES
			     ? CORDON_LEVEL_NAMESPACES
			     : CORDON_LEVEL_LANDLOCK;
	if (!has_run)
		return;
	res->layers = (const char *const *)run->plan->layers;
	res->missing = (const char *const *)run->plan->missing;
	res->limits = run->plan->enforced;
	res->n_limits = run->plan->n_enforced;
}

/* What it was refused, as far as its own words tell. */
static void look_at_words(struct cordon_command *c)
{
	const struct plan *plan = c->session->run->plan;
	const struct plan_header *h = plan->block;
	char cwd[PATH_MAX];
	const struct said_subject subject = {
		.plan = plan,
		.arena = &c->arena,
		.cwd = cwd,
		.out = &c->out,
		.err = &c->err,
		.has_failed = said_has_failed(&c->result),
		.tells_files = c->session->run->options.tells_files,
	};

	if (path_normalise(plan_string(h, h->cwd), c->cwd ? c->cwd : ".", cwd, sizeof(cwd)) < 0)
		return;
	c->result.n_denials = said_look(&subject, c->denials);
}

void command_fill_result(struct cordon_command *c)
{
	bool has_run = c->report.type == CONTROL_EXEC_ENDED;

	c->result.exit_code = -1;
	c->result.usage_known = 1;
	if (has_run)
		fill_ended(c);
	else
		fill_failed(c);
	fill_rest(c, has_run);
	if (!has_run)
		return;
	look_at_words(c);
	c->result.n_denials += refusals_of_network(c, &c->arena, c->denials + c->result.n_denials);
	c->result.denials = c->denials;
}

/* The limits that ended the session, which are the command's as well. The strings live as long as
 * the session does. */
static void add_limits(struct cordon_command *c, const struct cordon_result *whole)
{
	size_t n = 0;

	for (size_t i = 0; i < whole->n_denials && n < ARRAY_SIZE(c->denials); i++)
		if (strncmp(whole->denials[i].rule, "limits.", 7) == 0)
			c->denials[n++] = whole->denials[i];
	c->result.denials = c->denials;
	c->result.n_denials = n;
}

void command_fill_ended(struct cordon_command *c)
{
	const struct cordon_result *whole = cordon_run_result(c->session->run);
	struct cordon_result *res = &c->result;

	res->exit_code = -1;
	res->signal = SIGKILL;
	res->kind = CORDON_KIND_CANCELLED;
	res->status = STATUS_KILLED;
	if (whole && whole->kind != CORDON_KIND_EXITED && whole->kind != CORDON_KIND_SIGNALED) {
		res->kind = whole->kind;
		res->status = whole->status;
		res->error = whole->error;
		add_limits(c, whole);
		if (whole->kind == CORDON_KIND_SANDBOX_ERROR)
			res->signal = 0;
	}
	fill_rest(c, res->kind != CORDON_KIND_SANDBOX_ERROR);
}

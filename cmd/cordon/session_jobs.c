/* SPDX-License-Identifier: Apache-2.0 */
#include "session_jobs.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json_write.h"
#include "explain.h"
#include "out.h"
#include "session_env.h"
#include "session_shared.h"

#define JOBS_MAX 256
#define KEPT_MAX 32 /* detached commands that are over, for `logs` */

static struct job jobs[JOBS_MAX];
static unsigned last_number;

static void reply_no_job(const struct session_server *s, struct client *c, const char *text)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	cordon_err(&err, CORDON_E_STATE, 0, "%s", text);
	cordon_err_hint(&err, "'cordon session ps %s' lists the commands", s->place.name);
	clients_reply_error(c, &err);
}

static struct job *find_job(unsigned number)
{
	for (int i = 0; number && i < JOBS_MAX; i++)
		if (jobs[i].number == number)
			return &jobs[i];
	return NULL;
}

static void forget_job(struct job *job)
{
	if (job->client)
		job->client->job = NULL;
	cordon_command_free(job->command);
	*job = (struct job){ 0 };
}

/* The oldest ones that are over make room. */
static void limit_kept(void)
{
	struct job *oldest;
	int n;

	do {
		oldest = NULL;
		n = 0;
		for (int i = 0; i < JOBS_MAX; i++) {
			if (!jobs[i].number || !jobs[i].is_over)
				continue;
			n++;
			if (!oldest || jobs[i].number < oldest->number)
				oldest = &jobs[i];
		}
		if (n > KEPT_MAX)
			forget_job(oldest);
	} while (n > KEPT_MAX);
}

static struct job *new_job(void)
{
	for (int i = 0; i < JOBS_MAX; i++)
		if (!jobs[i].number)
			return &jobs[i];
	return NULL;
}

static int64_t number_of(const char *text, int64_t max)
{
	char *end;
	long long value;

	if (text[0] < '0' || text[0] > '9')
		return -1;
	errno = 0;
	value = strtoll(text, &end, 10);
	return *end || errno || value > max ? -1 : value;
}

static int set_stream(struct cordon_stream *s, char letter, const struct wire *w, int *next)
{
	switch (letter) {
	case 'n':
		s->mode = CORDON_STREAM_NULL;
		return 0;
	case 'j':
		s->mode = CORDON_STREAM_JOIN;
		return 0;
	case 'c':
		s->mode = CORDON_STREAM_CAPTURE;
		return 0;
	case 'f':
	case 'p':
		if (*next >= w->n_fds)
			return -1;
		s->mode = letter == 'f' ? CORDON_STREAM_FD : CORDON_STREAM_PASS;
		s->fd = w->fds[(*next)++];
		s->clean = isatty(s->fd);
		return 0;
	default:
		return -1;
	}
}

static void keep_words(struct job *job, const char *const *argv)
{
	struct strbuf sb = STRBUF_INIT;

	for (; *argv && sb.len < JOB_WORDS_MAX; argv++) {
		if (sb.len)
			strbuf_putc(&sb, ' ');
		strbuf_add_escaped(&sb, *argv, strnlen(*argv, JOB_WORDS_MAX));
	}
	snprintf(job->words, sizeof(job->words), "%s", sb.data ? sb.data : "");
	strbuf_done(&sb);
}

int job_read_exec(const struct wire *w, size_t first, struct cordon_exec_options *o,
		  const char ***ret_env)
{
	const char **text = w->strings + first;
	size_t n = w->head.n_strings - first, n_env;
	int next = 0;

	if (w->head.n_strings < first + 7 || strlen(text[4]) != 3)
		return -1;
	o->cwd = text[0][0] ? text[0] : NULL;
	o->wall_ms = number_of(text[1], INT64_MAX / 1000000);
	o->output_bytes = number_of(text[2], INT64_MAX / 4);
	if (o->wall_ms < 0 || o->output_bytes < 0 || number_of(text[5], WIRE_STRINGS_MAX) < 0)
		return -1;
	n_env = (size_t)number_of(text[5], WIRE_STRINGS_MAX);
	if (n_env + 6 >= n)
		return -1;
	if (set_stream(&o->in, text[4][0], w, &next) < 0 ||
	    set_stream(&o->out, text[4][1], w, &next) < 0 ||
	    set_stream(&o->err, text[4][2], w, &next) < 0)
		return -1;
	if (strchr(text[3], WIRE_CHANNEL))
		o->channel_fd = next < w->n_fds ? w->fds[next++] : -1;
	if (next != w->n_fds || (strchr(text[3], WIRE_CHANNEL) && o->channel_fd < 0))
		return -1;
	o->orphans = strchr(text[3], WIRE_KILL_REST) ? CORDON_ORPHANS_KILL : CORDON_ORPHANS_KEEP;
	o->files = strchr(text[3], WIRE_FILES) != NULL;
	o->argv = text + 6 + n_env;
	*ret_env = session_env_with(text + 6, n_env);
	if (!*ret_env)
		return -1;
	o->env = *ret_env;
	return 0;
}

int job_begin(struct session_server *s, const struct cordon_exec_options *o, struct job **ret,
	      struct cordon_error *err)
{
	struct job *job = new_job();
	int r;

	if (!job) {
		cordon_err(err, CORDON_E_USAGE, 0, "there are too many commands in this session");
		return -CORDON_E_USAGE;
	}
	r = cordon_session_exec(s->session, o, &job->command, err);
	if (r < 0)
		return r;
	job->number = ++last_number;
	job->started_ms = server_now_ms();
	keep_words(job, o->argv);
	*ret = job;
	return 0;
}

void job_exec(struct session_server *s, struct client *c)
{
	struct cordon_exec_options o = CORDON_EXEC_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	const char **env = NULL, *flags, *text;
	struct job *job = NULL;
	char number[16];

	if (job_read_exec(&c->wire, 1, &o, &env) < 0) {
		clients_reply_usage(c, "the request is not to be understood");
		return;
	}
	flags = c->wire.strings[4];
	if (job_begin(s, &o, &job, &err) < 0 || !job) {
		clients_reply_error(c, &err);
	} else {
		job->is_detached = strchr(flags, WIRE_DETACHED) != NULL;
		job->keeps = job->is_detached || strchr(flags, WIRE_KEEP);
		if (!job->is_detached) {
			job->client = c;
			c->job = job;
		}
		snprintf(number, sizeof(number), "%u", job->number);
		text = number;
		clients_reply(c, WIRE_STARTED, &text, 1);
	}
	free(env);
}

void job_tell_ended(struct client *c, const struct cordon_result *res)
{
	char status[48], *json = NULL;
	const char *strings[3] = { status, "", "" };
	struct strbuf told = STRBUF_INIT;

	snprintf(status, sizeof(status), "%d %d %d", res->status, res->out.write_errno,
		 res->err.write_errno);
	if (cordon_result_to_json(res, 1, &json, NULL) == 0)
		strings[1] = json;
	out_collect(&told);
	explain_words(res);
	out_collect(NULL);
	if (told.len && !told.failed)
		strings[2] = told.data;
	clients_reply(c, WIRE_ENDED, strings, 3);
	strbuf_done(&told);
	c->is_closing = 1;
	cordon_free(json);
}

/* One that has ended: its client gets the receipt. */
static void settle(struct job *job)
{
	const struct cordon_result *res = cordon_command_result(job->command);

	if (!res || job->is_over)
		return;
	job->is_over = 1;
	job->status = res->status;
	job->kind = cordon_kind_name(res->kind);
	if (job->is_detached)
		return;
	if (job->shared)
		shared_ended(job->shared, res);
	if (job->client)
		job_tell_ended(job->client, res);
	forget_job(job);
}

void jobs_settle(void)
{
	for (int i = 0; i < JOBS_MAX; i++)
		if (jobs[i].number)
			settle(&jobs[i]);
	limit_kept();
}

void jobs_list(struct json_writer *w)
{
	json_open_array(w, "commands");
	for (unsigned number = 1; number <= last_number; number++) {
		const struct job *job = find_job(number);

		if (!job)
			continue;
		json_open_object(w, NULL);
		json_uint(w, "number", job->number);
		json_string(w, "command", job->words);
		json_bool(w, "detached", job->is_detached);
		if (job->shared)
			json_string(w, "interpreter", job->shared->name);
		json_bool(w, "running", !job->is_over);
		json_int(w, "age_ms", server_now_ms() - job->started_ms);
		if (job->is_over) {
			json_string(w, "kind", job->kind);
			json_int(w, "status", job->status);
		}
		json_close_object(w);
	}
	json_close_array(w);
}

void job_kill(const struct session_server *s, struct client *c)
{
	const struct wire *w = &c->wire;
	int64_t number = w->head.n_strings == 3 ? number_of(w->strings[1], UINT32_MAX) : -1;
	int64_t signal = w->head.n_strings == 3 ? number_of(w->strings[2], 64) : -1;
	struct job *job = number > 0 ? find_job((unsigned)number) : NULL;
	struct cordon_error err = CORDON_ERROR_INIT;

	if (!job || job->is_over || signal < 1) {
		reply_no_job(s, c, "no command of this number runs in the session");
		return;
	}
	if (signal == SIGKILL && job->shared)
		shared_end(job->shared);
	if (signal == SIGKILL ? cordon_command_end(job->command, SIGKILL, 0, &err) < 0
			      : cordon_command_signal(job->command, (int)signal, &err) < 0)
		clients_reply_error(c, &err);
	else
		clients_reply_ok(c, "");
}

void job_logs(const struct session_server *s, struct client *c)
{
	const struct wire *w = &c->wire;
	int64_t number = w->head.n_strings == 2 ? number_of(w->strings[1], UINT32_MAX) : -1;
	struct job *job = number > 0 ? find_job((unsigned)number) : NULL;
	const struct cordon_result *res = job ? cordon_command_result(job->command) : NULL;
	struct cordon_output out, err;

	if (!job || !job->is_detached) {
		reply_no_job(s, c,
			     "there is no output of such a command: only that of detached "
			     "ones is kept");
		return;
	}
	/* Why it could not be started is said nowhere else. */
	if (res && res->error.code) {
		clients_reply_error(c, &res->error);
		return;
	}
	cordon_command_output(job->command, &out, &err);
	wire_add_data(&c->out, out.data, out.len);
}

/* About the command of this connection. */
void job_signal(struct client *c)
{
	const struct wire *w = &c->wire;
	int64_t signal = w->head.n_strings == 2 ? number_of(w->strings[1], 64) : -1;

	if (signal >= 1 && c->member)
		shared_signal(c, (int)signal, w->head.type == WIRE_END);
	if (signal < 1 || !c->job)
		return;
	if (w->head.type == WIRE_SIGNAL)
		(void)cordon_command_signal(c->job->command, (int)signal, NULL);
	else
		(void)cordon_command_end(c->job->command, (int)signal, signal == SIGKILL ? 0 : 1000,
					 NULL);
}

int jobs_run(void)
{
	for (int i = 0; i < JOBS_MAX; i++)
		if (jobs[i].number && !jobs[i].is_over &&
		    (!jobs[i].shared || shared_is_used(jobs[i].shared)))
			return 1;
	return 0;
}

unsigned jobs_counted(void)
{
	return last_number;
}

void jobs_forget(void)
{
	for (int i = 0; i < JOBS_MAX; i++)
		if (jobs[i].number)
			forget_job(&jobs[i]);
}

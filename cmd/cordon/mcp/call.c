/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of tools. A call has one job at a time and says what comes after it; when it has sent its
 * answer, or is cancelled, it is over, and the loop frees it.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "session.h"

#define PROGRESS_MS 200	     /* between two messages with output */
#define HEARTBEAT_MS 5000    /* between two without */
#define PROGRESS_BYTES 4096u /* of each output in one message */

static void put_line(struct line *line)
{
	if (--line->refs > 0)
		return;
	arena_done(&line->arena);
	free(line);
}

int call_new(struct server *s, struct line *line, struct batch *batch, const struct rpc_message *m,
	     int is_modern)
{
	const struct json_value *meta = json_get(m->params, "_meta");
	const struct json_value *name = json_get(m->params, "name");
	struct call *call = calloc(1, sizeof(*call));
	struct call **end = &s->calls;

	if (!call)
		return -1;
	call->server = s;
	call->line = line;
	line->refs++;
	call->batch = batch;
	call->tool = tool_find(s, name->text);
	call->args = json_get(m->params, "arguments");
	call->is_modern = is_modern;
	call->state = CALL_RUNS;
	call->kept = (struct strbuf)STRBUF_INIT;
	call->helper.fd = -1;
	call->helper.out = (struct strbuf)STRBUF_INIT;
	memcpy(call->id, m->id, sizeof(call->id));
	if (!meta || meta->type != JSON_OBJECT ||
	    rpc_id(json_get(meta, "progressToken"), call->token) < 0)
		call->token[0] = '\0';
	call->began_ms = call->told_ms = call->looked_ms = mcp_now_ms();
	while (*end)
		end = &(*end)->next;
	*end = call;
	s->n_calls++;
	if (args_check(call) == 0)
		call->tool->start(call);
	return 0;
}

void call_free(struct call *call)
{
	struct server *s = call->server;

	if (call->job.state != JOB_NONE) {
		job_free(&call->job);
		s->n_jobs--;
	}
	helper_free(&call->helper);
	if (call->interp)
		execute_forget(call);
	session_put(call->session);
	if (call->is_commit)
		s->is_committing = 0;
	strbuf_done(&call->kept);
	put_line(call->line);
	s->n_calls--;
	s->n_done++;
	free(call);
}

void call_end(struct call *call)
{
	struct strbuf none = STRBUF_INIT;

	if (call->state == CALL_OVER)
		return;
	call->state = CALL_OVER;
	if (call->batch)
		methods_answer(call->server, TAKE_PTR(call->batch), &none);
}

/* Which sandbox the call's job runs in. NULL with *ret_busy 0: one of its own. */
static struct box *choose_box(struct call *call, int *ret_busy)
{
	struct server *s = call->server;
	struct box *box = call->session	    ? session_box(call->session)
			  : s->workspace[0] ? &s->box
					    : NULL;

	*ret_busy = box && s->is_committing;
	if (!box)
		return NULL;
	/* The next one begins when the last job of this one has been answered. */
	if (box == &s->box && box->is_over && !box->jobs)
		box_free(box);
	*ret_busy |= box == &s->box && (box->is_over || box->is_ending);
	return box;
}

static void start_job(struct call *call)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct server *s = call->server;
	int is_busy, r = 0;
	struct box *box = choose_box(call, &is_busy);

	if (call->session && !session_lives(call->session)) {
		answer_refuse(call, "the session has ended: create_session makes a new one");
		return;
	}
	if (is_busy || s->n_jobs >= MCP_JOBS_MAX || (box && box->jobs >= MCP_JOBS_MAX - 4)) {
		call->state = CALL_WAITS;
		return;
	}
	call->state = CALL_RUNS;
	if (box == &s->box && !box->session)
		r = box_start(s, box, 1, &err);
	if (r >= 0)
		r = job_start(s, box, &call->spec, &call->job, &err);
	if (r < 0) {
		answer_error(call, &err);
		return;
	}
	s->n_jobs++;
}

void call_job(struct call *call, void (*then)(struct call *call))
{
	if (call->job.state != JOB_NONE) {
		job_free(&call->job);
		call->server->n_jobs--;
	}
	call->then = then;
	start_job(call);
}

void call_later(struct call *call)
{
	call->state = CALL_WAITS;
	call->is_unbegun = 1;
}

int call_may_answer(const struct call *call)
{
	return client_queued(call->server) < MCP_QUEUE_MAX;
}

int call_waits(struct call *call, struct pollfd *fds)
{
	int n = 0;

	if (call->job.state == JOB_RUNS && call->job.run)
		fds[n++] = (struct pollfd){ .fd = cordon_run_fd(call->job.run), .events = POLLIN };
	if (call->helper.fd >= 0 && call_may_answer(call))
		fds[n++] = (struct pollfd){ .fd = call->helper.fd, .events = POLLIN };
	return n;
}

int64_t call_next_ms(const struct call *call)
{
	if (call->state == CALL_OVER || !call->token[0])
		return -1;
	return call->looked_ms + PROGRESS_MS;
}

/* How many bytes at the end of @data are the beginning of a character. */
static size_t begun_character(const char *data, size_t len)
{
	for (size_t k = 1; k < UTF8_MAX && k <= len; k++) {
		unsigned char c = (unsigned char)data[len - k];
		size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;

		if (c < 0x80)
			return 0;
		if (c >= 0xc0)
			return whole > k ? k : 0;
	}
	return 0;
}

/* What is new of a stream, as far as it was kept; a character that is not whole yet waits. */
static void add_stream(struct strbuf *sb, const struct cordon_output *out, uint64_t *told)
{
	uint64_t news = out->total_bytes - *told;
	/* Cut in the middle: its second half is the end of the stream, the first one is old. */
	size_t most = out->total_bytes > out->len ? out->len / 2 : out->len, n, begun;
	const char *data;

	if (most > PROGRESS_BYTES)
		most = PROGRESS_BYTES;
	n = news < most ? (size_t)news : most;
	data = out->data + out->len - n;
	begun = begun_character(data, n);
	*told = out->total_bytes - begun;
	/* What was left out may end within a character. */
	for (; n < news && n > begun && ((unsigned char)*data & 0xc0) == 0x80; n--, news--)
		data++;
	rpc_clean(sb, data, n - begun);
}

static void add_news(struct strbuf *sb, struct call *call)
{
	struct cordon_output out = { .data = "" }, err = out;

	if (call->interp)
		execute_output(call, &out, &err);
	else if (call->job.state == JOB_RUNS && !call->spec.files)
		job_output(&call->job, &out, &err);
	else
		return;
	add_stream(sb, &out, &call->told_bytes[0]);
	add_stream(sb, &err, &call->told_bytes[1]);
}

/* Nothing of it runs yet: why that is, so that nobody takes it for one that hangs. */
static void add_waiting(struct strbuf *text, struct call *call, int64_t now)
{
	if (call->told_ms > call->began_ms && now - call->told_ms < HEARTBEAT_MS)
		return;
	strbuf_puts(text, call->server->is_committing ? "waiting until the changes are committed\n"
						      : "waiting until another call is over\n");
}

static void tell_progress(struct call *call, int64_t now)
{
	struct strbuf sb = STRBUF_INIT, text = STRBUF_INIT;
	char seconds[32];
	struct json_writer w;

	if (!call->token[0] || now <= call->told_ms || now - call->looked_ms < PROGRESS_MS)
		return;
	call->looked_ms = now;
	if (call->state == CALL_WAITS ||
	    (call->interp && call->interp->call && call->interp->call != call))
		add_waiting(&text, call, now);
	else if (client_queued(call->server) < MCP_QUEUE_MAX / 8)
		add_news(&text, call);
	if (!text.len && now - call->told_ms < HEARTBEAT_MS) {
		strbuf_done(&text);
		return;
	}
	call->told_ms = now;
	json_writer_init(&w, &sb, 0);
	json_open_object(&w, NULL);
	json_string(&w, "jsonrpc", "2.0");
	json_string(&w, "method", "notifications/progress");
	json_open_object(&w, "params");
	json_raw(&w, "progressToken", call->token);
	/* It grows with every message, which output that stands still would not. */
	json_raw(&w, "progress", server_seconds(now - call->began_ms, seconds));
	if (text.len && !text.failed)
		json_bytes(&w, "message", text.data, text.len);
	json_close_object(&w);
	json_close_object(&w);
	if (client_queued(call->server) < MCP_QUEUE_MAX)
		client_send(call->server, &sb);
	strbuf_done(&sb);
	strbuf_done(&text);
}

static int is_ready(int fd, const struct pollfd *fds, int n)
{
	for (int i = 0; i < n; i++)
		if (fds[i].fd == fd)
			return fds[i].revents != 0;
	return 0;
}

static void step_job(struct call *call, const struct pollfd *fds, int n)
{
	job_look(&call->job, call->job.run && is_ready(cordon_run_fd(call->job.run), fds, n));
	if (call->job.state == JOB_DONE && call_may_answer(call))
		call->then(call);
}

void call_step(struct call *call, const struct pollfd *fds, int n)
{
	if (call->state == CALL_OVER) {
		/* Cancelled: it goes when its job is gone. */
		job_look(&call->job,
			 call->job.run && is_ready(cordon_run_fd(call->job.run), fds, n));
		return;
	}
	if (call->state == CALL_WAITS && call->is_unbegun)
		call->tool->start(call);
	else if (call->state == CALL_WAITS)
		start_job(call);
	else if (call->interp)
		execute_step(call);
	else if (call->job.state != JOB_NONE)
		step_job(call, fds, n);
	else if (call->helper.pid && is_ready(call->helper.fd, fds, n) && call_may_answer(call) &&
		 helper_read(&call->helper) == 1)
		call->then(call);
	if (call->state != CALL_OVER && call->token[0])
		tell_progress(call, mcp_now_ms());
}

void call_cancel(struct server *s, const char *id)
{
	for (struct call *call = s->calls; call; call = call->next) {
		if (call->state == CALL_OVER || strcmp(call->id, id) != 0)
			continue;
		job_cancel(&call->job);
		helper_cancel(&call->helper);
		call_end(call);
		return;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/* execute: code in an interpreter of a session, and what came of it. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "session.h"

#define SAID_MAX ((size_t)8 << 10) /* of the errors that code has written, which are judged */

/* What the code was refused, and the words that were judged. */
struct refusals {
	const struct cordon_denial *denials;
	size_t n;
	struct strbuf words;
	const struct cordon_result
		*whole; /* of the sandbox, which a limit has ended; NULL = not so */
};

void tool_execute(struct call *call)
{
	const char *language, *code;
	int which = 0;

	if (args_session(call) < 0 || args_string(call, "code", 1, &code) < 0 ||
	    args_string(call, "language", 0, &language) < 0 ||
	    args_timeout(call, &call->spec.wall_ms) < 0)
		return;
	if (!call->session) {
		answer_refuse(call, "'session' is missing: create_session makes one");
		return;
	}
	while (language && which < LANGUAGE_MAX && strcmp(language_names[which], language) != 0)
		which++;
	if (which == LANGUAGE_MAX) {
		answer_refuse(call, "'language' can be python, javascript or bash here");
		return;
	}
	call->code = code;
	call->interp = &call->session->interps[which];
	execute_step(call);
}

void execute_forget(struct call *call)
{
	struct interp *i = call->interp;

	call->interp = NULL;
	if (i->call != call)
		return;
	/* Cancelled: the code must not go on. */
	if (!i->is_done)
		interp_kill(i, "its call was cancelled");
	i->call = NULL;
}

void execute_output(const struct call *call, struct cordon_output *ret_out,
		    struct cordon_output *ret_err)
{
	struct cordon_output *const ret[] = { ret_out, ret_err };
	const struct interp *i = call->interp;

	for (int k = 0; k < 2; k++) {
		*ret[k] = (struct cordon_output){ .data = "" };
		if (i->call != call || !i->output[k].data)
			continue;
		ret[k]->data = i->output[k].data;
		ret[k]->len = ret[k]->total_bytes = i->output[k].len;
	}
}

static int is_image(const char *mime)
{
	return !strcmp(mime, "image/png") || !strcmp(mime, "image/jpeg") ||
	       !strcmp(mime, "image/gif") || !strcmp(mime, "image/webp");
}

/* Text as text, anything else as base64. */
static void write_forms(struct json_writer *w, const char *key, unsigned n,
			const char (*mimes)[CHANNEL_MIME_MAX], const size_t *sizes,
			const char *data)
{
	json_open_object(w, key);
	for (unsigned k = 0; k < n; k++) {
		struct strbuf text = STRBUF_INIT;

		if (!strncmp(mimes[k], "text/", 5) || strstr(mimes[k], "json") ||
		    strstr(mimes[k], "svg") || strstr(mimes[k], "javascript"))
			rpc_clean(&text, data, sizes[k]);
		else
			answer_base64(&text, data, sizes[k]);
		json_bytes(w, mimes[k], text.data ? text.data : "", text.len);
		w->out->failed |= text.failed;
		strbuf_done(&text);
		data += sizes[k];
	}
	json_close_object(w);
}

/* The form that a model understands best: a picture, or plain text, or what there is. */
static void show_forms(struct answer *a, unsigned n, const char (*mimes)[CHANNEL_MIME_MAX],
		       const size_t *sizes, const char *data)
{
	const char *text = NULL;
	size_t text_len = 0;

	for (unsigned k = 0; k < n; data += sizes[k], k++) {
		if (is_image(mimes[k])) {
			answer_image(a, mimes[k], data, sizes[k]);
			return;
		}
		if (!strcmp(mimes[k], "text/plain") || (!text && !strncmp(mimes[k], "text/", 5))) {
			text = data;
			text_len = sizes[k];
		}
	}
	if (text)
		answer_text(a, text, text_len);
}

static void write_error(struct json_writer *w, const struct interp *i)
{
	static const char *const keys[] = { "name", "message", "traceback" };
	const char *data = i->answer_data.data ? i->answer_data.data : "";

	json_open_object(w, "error");
	for (int k = 0; k < 3; k++) {
		struct strbuf text = STRBUF_INIT;

		rpc_clean(&text, data, i->answer.sizes[k]);
		json_bytes(w, keys[k], text.data ? text.data : "", text.len);
		w->out->failed |= text.failed;
		strbuf_done(&text);
		data += i->answer.sizes[k];
	}
	json_close_object(w);
}

static void write_stream(struct json_writer *w, struct answer *a, const char *key,
			 const struct strbuf *sb)
{
	struct strbuf text = STRBUF_INIT;

	rpc_clean(&text, sb->data ? sb->data : "", sb->len);
	if (sb->len)
		answer_text(a, sb->data, sb->len);
	json_bytes(w, key, text.data ? text.data : "", text.len);
	w->out->failed |= text.failed;
	strbuf_done(&text);
}

/* What was refused, of the code's own words and by the network, or which limit has ended all. */
static void find_refusals(struct call *call, int is_ok, struct refusals *ret)
{
	const struct interp *i = call->interp;
	const struct strbuf *said = &i->output[1];
	const struct box *box = call->session->box;
	size_t skip = said->len > SAID_MAX ? said->len - SAID_MAX : 0;

	if (!is_ok) {
		strbuf_add(&ret->words, said->data ? said->data + skip : "", said->len - skip);
		strbuf_putc(&ret->words, '\n');
		if (!i->doom && i->answer_data.data)
			strbuf_add(&ret->words, i->answer_data.data, i->answer_data.len);
	}
	if (ret->words.failed ||
	    cordon_command_refusals(i->command, ret->words.data ? ret->words.data : "",
				    ret->words.len, &ret->denials, &ret->n, NULL) < 0)
		ret->n = 0;
	if (!i->doom || !box->is_over || !box->error.code)
		return;
	ret->whole = cordon_session_result(box->session);
	if (ret->whole) {
		ret->denials = ret->whole->denials;
		ret->n = ret->whole->n_denials;
	}
}

static void say_end(struct call *call, struct answer *a, const struct refusals *refused, int is_ok)
{
	const struct interp *i = call->interp;
	struct strbuf sb = STRBUF_INIT;
	const char *data = i->answer_data.data ? i->answer_data.data : "";
	size_t skip;

	if (i->is_new)
		strbuf_puts(&sb, "this is a new interpreter without the state of the one before, "
				 "which has ended; ");
	if (i->doom) {
		strbuf_printf(&sb, "the interpreter was ended, and its state is gone: %s", i->doom);
	} else if (i->answer.is_error) {
		/* The traceback has name and message in it, if there is one. */
		skip = i->answer.sizes[0] + i->answer.sizes[1];
		if (i->answer.sizes[2])
			answer_text(a, data + skip, i->answer.sizes[2]);
		else
			answer_text(a, data, skip);
	}
	if (i->timed_out)
		strbuf_printf(&sb, "%sits time was over%s", i->doom ? "; " : "",
			      i->doom ? "" : ", and it was interrupted; its state is kept");
	else if (!i->doom && i->answer.status > 0)
		strbuf_printf(&sb, "status %lld", i->answer.status);
	else if (is_ok && !a->content.len)
		strbuf_puts(&sb, "it has come to its end; no output");
	if (i->is_cut[0] || i->is_cut[1])
		strbuf_printf(&sb, "%sthe output was cut", sb.len ? "; " : "");
	if (refused->whole)
		account_explain(&sb, call, refused->whole);
	else
		account_denials(&sb, call, refused->denials, refused->n);
	if (!is_ok && !refused->words.failed)
		account_no_network(&sb, call, refused->words.data ? refused->words.data : "",
				   refused->words.len);
	skip = sb.len && sb.data[0] == '\n';
	if (sb.len && !sb.failed)
		answer_text(a, sb.data + skip, sb.len - skip);
	strbuf_done(&sb);
}

static void write_rest(struct json_writer *w, const struct interp *i,
		       const struct refusals *refused)
{
	answer_denials(w, refused->denials, refused->n);
	json_open_object(w, "truncated");
	json_bool(w, "stdout", i->is_cut[0]);
	json_bool(w, "stderr", i->is_cut[1]);
	json_close_object(w);
	if (!i->doom && i->answer.status >= 0)
		json_int(w, "status", i->answer.status);
	else
		json_null(w, "status");
	json_bool(w, "timed_out", i->timed_out);
	json_bool(w, "ended", i->doom != NULL);
	json_bool(w, "restarted", i->is_new);
}

static void finish(struct call *call)
{
	struct interp *i = call->interp;
	struct refusals refused = { .words = STRBUF_INIT };
	struct answer a = ANSWER_INIT;
	struct json_writer w;
	int is_whole = !i->doom && !i->answer.is_error;
	int is_ok = is_whole && !i->timed_out && i->answer.status <= 0;

	find_refusals(call, is_ok, &refused);
	json_writer_init(&w, &a.data, 0);
	json_open_object(&w, NULL);
	json_bool(&w, "ok", is_ok);
	write_stream(&w, &a, "stdout", &i->output[0]);
	write_stream(&w, &a, "stderr", &i->output[1]);
	json_open_array(&w, "displays");
	for (size_t k = 0; k < i->n_displays; k++) {
		const struct display *d = &i->displays[k];

		w.out->failed |= d->data.failed;
		if (d->data.failed)
			break;
		write_forms(&w, NULL, d->n, d->mimes, d->sizes, d->data.data);
		show_forms(&a, d->n, d->mimes, d->sizes, d->data.data);
	}
	json_close_array(&w);
	if (is_whole && i->answer.n_parts && i->answer_data.data) {
		write_forms(&w, "result", i->answer.n_parts, i->answer.mimes, i->answer.sizes,
			    i->answer_data.data);
		show_forms(&a, i->answer.n_parts, i->answer.mimes, i->answer.sizes,
			   i->answer_data.data);
	} else {
		json_null(&w, "result");
	}
	if (!i->doom && i->answer.is_error)
		write_error(&w, i);
	else
		json_null(&w, "error");
	write_rest(&w, i, &refused);
	json_close_object(&w);
	say_end(call, &a, &refused, is_ok);
	strbuf_done(&refused.words);
	a.is_error = !is_ok;
	i->is_new = 0;
	i->was_told = i->doom != NULL;
	answer_send(call, &a);
}

void execute_step(struct call *call)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct interp *i = call->interp;
	struct box *box = call->session->box;

	if (i->call == call) {
		if (i->is_done && call_may_answer(call))
			finish(call);
		return;
	}
	if (call->session->is_closed || !session_lives(call->session)) {
		answer_refuse(call, "the session has ended: create_session makes a new one");
		return;
	}
	if (i->state == INTERP_NONE && call->number) {
		answer_refuse(call, "the interpreter could not be used: %s",
			      i->doom ? i->doom : "it has ended");
		return;
	}
	if (i->state == INTERP_NONE) {
		call->number = 1;
		if (interp_start(i, box, (int)(i - call->session->interps), &err) < 0) {
			answer_error(call, &err);
			return;
		}
	}
	if (i->state == INTERP_IDLE && !i->call)
		interp_run(i, call, call->code, call->spec.wall_ms);
}

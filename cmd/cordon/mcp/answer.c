/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of a call: items of text for a model, and the same as data for a program. What a guest
 * has written is an item of its own, so that nothing it writes can pass for our words.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/macros.h"
#include "server.h"

static void begin_item(struct answer *a, struct json_writer *w, const char *type)
{
	if (a->content.len)
		strbuf_putc(&a->content, ',');
	json_writer_init(w, &a->content, 0);
	json_open_object(w, NULL);
	json_string(w, "type", type);
}

void answer_text(struct answer *a, const char *text, size_t len)
{
	struct strbuf clean = STRBUF_INIT;
	struct json_writer w;

	rpc_clean(&clean, text, len);
	begin_item(a, &w, "text");
	json_bytes(&w, "text", clean.data ? clean.data : "", clean.len);
	json_close_object(&w);
	a->content.failed |= clean.failed;
	strbuf_done(&clean);
}

void answer_base64(struct strbuf *sb, const void *data, size_t len)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789+/";
	const unsigned char *p = data;

	for (size_t i = 0; p && i < len; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16;
		char four[4];

		v |= i + 1 < len ? (uint32_t)p[i + 1] << 8 : 0;
		v |= i + 2 < len ? p[i + 2] : 0;
		four[0] = letters[v >> 18];
		four[1] = letters[v >> 12 & 63];
		four[2] = i + 1 < len ? letters[v >> 6 & 63] : '=';
		four[3] = i + 2 < len ? letters[v & 63] : '=';
		strbuf_add(sb, four, 4);
	}
}

void answer_image(struct answer *a, const char *type, const void *data, size_t len)
{
	struct strbuf text = STRBUF_INIT;
	struct json_writer w;

	answer_base64(&text, data, len);
	begin_item(a, &w, "image");
	json_bytes(&w, "data", text.data ? text.data : "", text.len);
	json_string(&w, "mimeType", type);
	json_close_object(&w);
	a->content.failed |= text.failed;
	strbuf_done(&text);
}

void answer_send(struct call *call, struct answer *a)
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;

	if (call->state == CALL_OVER)
		goto done;
	rpc_open_result(&w, &sb, call->id);
	json_open_array(&w, "content");
	if (a->content.len && !a->content.failed)
		json_raw(&w, NULL, a->content.data);
	json_close_array(&w);
	if (a->data.len && !a->data.failed)
		json_raw(&w, "structuredContent", a->data.data);
	json_bool(&w, "isError", a->is_error);
	if (call->is_modern)
		json_string(&w, "resultType", "complete");
	rpc_close_result(&w);
	if (sb.failed || a->content.failed || a->data.failed) {
		strbuf_done(&sb);
		sb = (struct strbuf)STRBUF_INIT;
		rpc_error(&sb, call->id, RPC_INTERNAL_ERROR, "out of memory", NULL);
	}
	call->state = CALL_OVER;
	methods_answer(call->server, TAKE_PTR(call->batch), &sb);
done:
	strbuf_done(&sb);
	strbuf_done(&a->content);
	strbuf_done(&a->data);
}

void answer_refuse(struct call *call, const char *fmt, ...)
{
	struct answer a = ANSWER_INIT;
	char text[600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	a.is_error = 1;
	answer_text(&a, text, strlen(text));
	answer_send(call, &a);
}

void answer_error(struct call *call, const struct cordon_error *err)
{
	answer_refuse(call, "%s%s%s%s", err->msg, err->hint[0] ? " (" : "", err->hint,
		      err->hint[0] ? ")" : "");
}

/*
 * The library carries bytes that are no UTF-8 as lone surrogates, \udc80 to \udcff, which many
 * readers of JSON refuse. In names they become U+FFFD here.
 */
void answer_without_surrogates(char *json)
{
	static const char instead[] = "\\ufffd";

	for (char *p = json; p && *p; p++) {
		if (*p != '\\')
			continue;
		if (!strncmp(p, "\\udc", 4) && p[4] && p[5])
			for (size_t i = 0; instead[i]; i++)
				p[i] = instead[i];
		p++;
	}
}

static void write_clean(struct json_writer *w, const char *key, const char *text)
{
	struct strbuf clean = STRBUF_INIT;

	if (!text) {
		json_null(w, key);
		return;
	}
	rpc_clean(&clean, text, strlen(text));
	json_bytes(w, key, clean.data ? clean.data : "", clean.len);
	w->out->failed |= clean.failed;
	strbuf_done(&clean);
}

void answer_denials(struct json_writer *w, const struct cordon_denial *denials, size_t n)
{
	json_open_array(w, "denials");
	for (size_t i = 0; i < n; i++) {
		json_open_object(w, NULL);
		write_clean(w, "what", denials[i].what);
		write_clean(w, "target", denials[i].target);
		write_clean(w, "rule", denials[i].rule);
		write_clean(w, "fix", denials[i].fix);
		write_clean(w, "how", denials[i].how);
		if (denials[i].count)
			json_uint(w, "count", denials[i].count);
		if (denials[i].sys_errno)
			json_int(w, "errno", denials[i].sys_errno);
		if (denials[i].program)
			write_clean(w, "program", denials[i].program);
		json_close_object(w);
	}
	json_close_array(w);
}

static void write_output(struct json_writer *w, const char *key, const char *exact_key,
			 const struct cordon_output *out)
{
	struct strbuf clean = STRBUF_INIT, exact = STRBUF_INIT;

	if (rpc_clean(&clean, out->data ? out->data : "", out->len))
		answer_base64(&exact, out->data, out->len);
	json_bytes(w, key, clean.data ? clean.data : "", clean.len);
	if (exact.len)
		json_bytes(w, exact_key, exact.data, exact.len);
	w->out->failed |= clean.failed | exact.failed;
	strbuf_done(&clean);
	strbuf_done(&exact);
}

static void write_receipt(struct answer *a, const struct cordon_result *result)
{
	char *text = NULL;
	struct json_writer w;
	struct strbuf more = STRBUF_INIT;

	if (cordon_result_to_json(result, 0, &text, NULL) < 0) {
		a->data.failed = 1;
		return;
	}
	answer_without_surrogates(text);
	/* Two objects become one. */
	json_writer_init(&w, &more, 0);
	json_open_object(&w, NULL);
	write_output(&w, "stdout", "stdout_base64", &result->out);
	write_output(&w, "stderr", "stderr_base64", &result->err);
	json_close_object(&w);
	strbuf_add(&a->data, text, strlen(text) - 1);
	if (more.failed) {
		a->data.failed = 1;
	} else {
		strbuf_putc(&a->data, ',');
		strbuf_add(&a->data, more.data + 1, more.len - 1);
	}
	strbuf_done(&more);
	cordon_free(text);
}

void answer_receipt(struct call *call, struct answer *a)
{
	const struct cordon_result *result = job_result(&call->job);
	struct strbuf words = STRBUF_INIT;

	if (result->out.len)
		answer_text(a, result->out.data, result->out.len);
	if (result->err.len)
		answer_text(a, result->err.data, result->err.len);
	account_add(&words, call, result);
	answer_text(a, words.data ? words.data : "", words.len);
	a->content.failed |= words.failed;
	strbuf_done(&words);
	write_receipt(a, result);
	a->is_error = result->kind != CORDON_KIND_EXITED;
}

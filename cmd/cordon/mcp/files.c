/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file operation is one job that serves files (cordon/files.h): with the view, the rights and
 * the limits of a command, so what a command may not read no tool can. Requests are ours; the
 * answer comes from inside and is believed nothing.
 */
#include "files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define OVERHEAD ((size_t)1 << 20) /* of an answer: the lengths of its chunks */

int files_request(struct call *call, struct cordon_files_request *q, const char *path,
		  const void *data, size_t len, void (*then)(struct call *call))
{
	size_t path_len = strlen(path);

	if (args_session(call) < 0)
		return -1;
	if (path_len == 0 || path_len > CORDON_FILES_PATH_MAX) {
		answer_refuse(call, "'path' has to have 1 to %u bytes", CORDON_FILES_PATH_MAX);
		return -1;
	}
	q->magic = CORDON_FILES_MAGIC;
	call->is_write = q->op == CORDON_FILES_WRITE;
	q->path_len = (uint32_t)path_len;
	q->data_len = len;
	strbuf_done(&call->kept);
	call->kept = (struct strbuf)STRBUF_INIT;
	strbuf_add(&call->kept, q, sizeof(*q));
	strbuf_add(&call->kept, path, path_len);
	strbuf_add(&call->kept, data, len);
	if (call->kept.failed) {
		answer_refuse(call, "out of memory");
		return -1;
	}
	call->spec = (struct job_spec){
		.argv = NULL,
		.input = call->kept.data,
		.input_len = call->kept.len,
		.wall_ms = call->server->wall_ms,
		.output_bytes = FILES_DATA_MAX + OVERHEAD,
		.files = 1,
	};
	call_job(call, then);
	return 0;
}

/* Takes the chunks and the end off @out; 0, or -1 if it has another form. */
static int parse(const struct cordon_output *out, struct strbuf *data, struct cordon_files_end *end)
{
	const char *p = out->data;
	size_t left = out->len;
	uint32_t len;

	for (;;) {
		if (left < sizeof(len))
			return -1;
		memcpy(&len, p, sizeof(len));
		p += sizeof(len);
		left -= sizeof(len);
		if (len == 0)
			break;
		if (len > CORDON_FILES_CHUNK_MAX || len > left)
			return -1;
		strbuf_add(data, p, len);
		p += len;
		left -= len;
	}
	if (left != sizeof(*end) || data->failed)
		return -1;
	memcpy(end, p, sizeof(*end));
	return 0;
}

/* What an operation that failed would have said as a command: the library judges such words. Where
 * a directory of the path is not shown, making it fails as on a file system that is read-only. */
static const char *words_of(struct call *call, const char *path, int error)
{
	int is_write = call->is_write;

	return arena_printf(&call->line->arena, "cannot %s '%s': %s%s", is_write ? "write" : "read",
			    path, is_write && error == EROFS ? "No such file or directory, " : "",
			    strerror(error));
}

static void add_refusals(struct strbuf *sb, struct call *call, const char *path, int error)
{
	const char *words = words_of(call, path, error);
	const struct cordon_denial *denials = NULL;
	size_t n = 0;
	int r;

	if (!words)
		return;
	r = call->job.run
		    ? cordon_run_refusals(call->job.run, words, strlen(words), &denials, &n, NULL)
		    : cordon_command_refusals(call->job.command, words, strlen(words), &denials, &n,
					      NULL);
	if (r == 0)
		account_denials(sb, call, denials, n);
}

/* It failed: why, and as an item of its own what was refused. */
static void refuse(struct call *call, const struct cordon_result *result, const char *path,
		   int error)
{
	struct strbuf what = STRBUF_INIT, more = STRBUF_INIT;
	struct answer a = ANSWER_INIT;

	a.is_error = 1;
	if (error) {
		strbuf_putc(&what, '\'');
		strbuf_add_escaped(&what, path, strlen(path));
		strbuf_printf(&what, "': %s", strerror(error));
		add_refusals(&more, call, path, error);
	} else {
		strbuf_printf(&what, "the file operation was ended (%s)",
			      cordon_kind_name(result->kind));
	}
	account_explain(&more, call, result);
	if (!more.len && (error == EROFS || error == EACCES))
		strbuf_puts(&more, "\nget_limits says what the operator allows");
	answer_text(&a, what.data ? what.data : "", what.len);
	if (more.len && !more.failed)
		answer_text(&a, more.data + 1, more.len - 1);
	strbuf_done(&what);
	strbuf_done(&more);
	answer_send(call, &a);
}

int files_answer(struct call *call, const char *path, struct strbuf *data, unsigned *ret_flags)
{
	const struct cordon_result *result = job_result(&call->job);
	struct cordon_files_end end;

	if (!result) {
		answer_error(call, &call->job.error);
		return -1;
	}
	if (result->error.code) {
		answer_error(call, &result->error);
		return -1;
	}
	if (result->kind != CORDON_KIND_EXITED) {
		refuse(call, result, path, 0);
		return -1;
	}
	if (result->out.truncated || parse(&result->out, data, &end) < 0) {
		answer_refuse(call, "the sandbox's answer is garbled");
		return -1;
	}
	if (end.error) {
		refuse(call, result, path, end.error);
		return -1;
	}
	*ret_flags = end.flags;
	return 0;
}

static int letter(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int files_from_base64(const char *text, struct strbuf *ret)
{
	size_t len = strlen(text);

	if (len % 4)
		return -1;
	for (size_t i = 0; i < len; i += 4) {
		int is_last = i + 4 == len, pads = 0;
		uint32_t v = 0;
		char three[3];

		for (int k = 0; k < 4; k++) {
			char c = text[i + (size_t)k];
			int bits = letter(c);

			if (c == '=' && is_last && k >= 2) {
				pads++;
				bits = 0;
			} else if (bits < 0 || pads) {
				return -1;
			}
			v = v << 6 | (uint32_t)bits;
		}
		three[0] = (char)(v >> 16);
		three[1] = (char)(v >> 8);
		three[2] = (char)v;
		strbuf_add(ret, three, 3 - (size_t)pads);
	}
	return ret->failed ? -1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* read_file, write_file, edit_file and list_files. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/utf8.h"
#include "files.h"

#define READ_DEFAULT 65536 /* what a model reads costs */
#define LIST_MAX 2000	   /* entries */
#define EDITED_MAX                                                                                 \
	RPC_LINE_MAX /* bytes of a file after an edit: as many as can be written at once */

static const char *path_of(const struct call *call)
{
	const struct json_value *v = call->args ? json_get(call->args, "path") : NULL;

	return v && v->type == JSON_STRING ? v->text : ".";
}

static void put_string(struct json_writer *w, const char *key, const char *text, size_t len)
{
	struct strbuf clean = STRBUF_INIT;

	rpc_clean(&clean, text, len);
	json_bytes(w, key, clean.data ? clean.data : "", clean.len);
	w->out->failed |= clean.failed;
	strbuf_done(&clean);
}

/* read_file */

static const char *image_type(const struct strbuf *data)
{
	static const struct {
		const char *magic, *type;
		size_t len, at;
	} types[] = {
		{ "\x89PNG\r\n\x1a\n", "image/png", 8, 0 },
		{ "\xff\xd8\xff", "image/jpeg", 3, 0 },
		{ "GIF8", "image/gif", 4, 0 },
		{ "WEBP", "image/webp", 4, 8 },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (data->len >= types[i].at + types[i].len &&
		    !memcmp(data->data + types[i].at, types[i].magic, types[i].len))
			return types[i].type;
	return NULL;
}

static int is_text(const char *data, size_t len)
{
	uint32_t cp;

	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_decode(data + i, len - i, &cp);
		if (n == 0 || cp == 0)
			return 0;
	}
	return 1;
}

/* Text is cut before a character that would not be whole. */
static size_t cut_at(const struct strbuf *data, size_t most)
{
	size_t n = most;

	if (n >= data->len)
		return data->len;
	while (n > 0 && most - n < 4 && ((unsigned char)data->data[n] & 0xc0) == 0x80)
		n--;
	return n;
}

static void read_done(struct call *call)
{
	struct strbuf data = STRBUF_INIT, base64 = STRBUF_INIT;
	struct answer a = ANSWER_INIT;
	int64_t most = READ_DEFAULT;
	const char *type;
	struct json_writer w;
	unsigned flags;
	size_t n;

	if (files_answer(call, path_of(call), &data, &flags) < 0 ||
	    args_count(call, "limit", FILES_DATA_MAX, &most) < 0)
		goto done;
	type = image_type(&data);
	n = type && !(flags & CORDON_FILES_MORE) ? data.len : cut_at(&data, (size_t)most);
	json_writer_init(&w, &a.data, 0);
	json_open_object(&w, NULL);
	if (is_text(data.data ? data.data : "", n)) {
		answer_text(&a, data.data ? data.data : "", n);
		put_string(&w, "content", data.data ? data.data : "", n);
		json_string(&w, "encoding", "utf-8");
	} else {
		answer_base64(&base64, data.data, n);
		if (type)
			answer_image(&a, type, data.data, n);
		else
			answer_text(&a, base64.data, base64.len);
		json_bytes(&w, "content", base64.data, base64.len);
		json_string(&w, "encoding", "base64");
	}
	json_uint(&w, "bytes", n);
	json_bool(&w, "more", n < data.len || flags & CORDON_FILES_MORE);
	json_close_object(&w);
	a.data.failed |= base64.failed;
	answer_send(call, &a);
done:
	strbuf_done(&data);
	strbuf_done(&base64);
}

void tool_read_file(struct call *call)
{
	struct cordon_files_request q = { .op = CORDON_FILES_READ, .max = FILES_DATA_MAX };
	int64_t offset = 0, limit = 0;
	const char *path;

	if (args_string(call, "path", 1, &path) < 0 ||
	    args_count(call, "offset", INT64_MAX / 2, &offset) < 0 ||
	    args_count(call, "limit", FILES_DATA_MAX, &limit) < 0)
		return;
	q.offset = (uint64_t)offset;
	(void)files_request(call, &q, path, NULL, 0, read_done);
}

/* write_file and edit_file */

static void write_done(struct call *call)
{
	struct strbuf none = STRBUF_INIT;
	struct answer a = ANSWER_INIT;
	struct json_writer w;
	char text[80];
	unsigned flags;

	if (files_answer(call, path_of(call), &none, &flags) == 0) {
		snprintf(text, sizeof(text), "written: %" PRIu64 " bytes", call->number);
		answer_text(&a, text, strlen(text));
		json_writer_init(&w, &a.data, 0);
		json_open_object(&w, NULL);
		json_string(&w, "path", path_of(call));
		json_uint(&w, "bytes", call->number);
		json_close_object(&w);
		answer_send(call, &a);
	}
	strbuf_done(&none);
}

void tool_write_file(struct call *call)
{
	struct cordon_files_request q = { .op = CORDON_FILES_WRITE, .flags = CORDON_FILES_PARENTS };
	const char *path, *content, *encoding;
	struct strbuf data = STRBUF_INIT;
	int append = 0;

	if (args_string(call, "path", 1, &path) < 0 ||
	    args_string(call, "content", 1, &content) < 0 ||
	    args_string(call, "encoding", 0, &encoding) < 0 ||
	    args_bool(call, "append", &append) < 0)
		return;
	if (!encoding || !strcmp(encoding, "utf-8")) {
		strbuf_puts(&data, content);
	} else if (strcmp(encoding, "base64") != 0 || files_from_base64(content, &data) < 0) {
		answer_refuse(call, strcmp(encoding, "base64") ? "'encoding' can be utf-8 or base64"
							       : "'content' is no base64");
		strbuf_done(&data);
		return;
	}
	q.flags |= append ? CORDON_FILES_APPEND : 0;
	call->number = data.len;
	(void)files_request(call, &q, path, data.data, data.len, write_done);
	strbuf_done(&data);
}

static void edit_written(struct call *call)
{
	struct strbuf none = STRBUF_INIT;
	struct answer a = ANSWER_INIT;
	struct json_writer w;
	char text[80];
	unsigned flags;

	if (files_answer(call, path_of(call), &none, &flags) == 0) {
		snprintf(text, sizeof(text), "replaced %" PRIu64 " time%s", call->number,
			 call->number == 1 ? "" : "s");
		answer_text(&a, text, strlen(text));
		json_writer_init(&w, &a.data, 0);
		json_open_object(&w, NULL);
		json_string(&w, "path", path_of(call));
		json_uint(&w, "replacements", call->number);
		json_close_object(&w);
		answer_send(call, &a);
	}
	strbuf_done(&none);
}

/* @data with each @before as @after, unless @ret is NULL; returns how many there are. */
static uint64_t replace(const struct strbuf *data, const char *before, const char *after,
			struct strbuf *ret)
{
	size_t len = strlen(before), after_len = strlen(after), at = 0;
	const char *found;
	uint64_t n = 0;

	while (at < data->len && (found = memmem(data->data + at, data->len - at, before, len))) {
		size_t next = (size_t)(found - data->data);

		if (ret) {
			strbuf_add(ret, data->data + at, next - at);
			strbuf_add(ret, after, after_len);
		}
		at = next + len;
		n++;
	}
	if (ret)
		strbuf_add(ret, data->data + at, data->len - at);
	return n;
}

/* Few bytes of a call can make very many of a file. Neither factor is above 2^24. */
static int is_too_long(const struct strbuf *data, const char *before, const char *after, uint64_t n)
{
	return data->len - n * strlen(before) + n * strlen(after) > EDITED_MAX;
}

static void write_edited(struct call *call, const struct strbuf *data, const char *before,
			 const char *after)
{
	struct cordon_files_request q = { .op = CORDON_FILES_WRITE };
	struct strbuf edited = STRBUF_INIT;

	(void)replace(data, before, after, &edited);
	if (edited.failed)
		answer_refuse(call, "out of memory");
	else
		(void)files_request(call, &q, path_of(call), edited.data, edited.len, edit_written);
	strbuf_done(&edited);
}

static void edit_read(struct call *call)
{
	struct strbuf data = STRBUF_INIT;
	const char *before = json_get(call->args, "old_text")->text;
	const char *after = json_get(call->args, "new_text")->text;
	unsigned flags;
	int all = 0;

	if (files_answer(call, path_of(call), &data, &flags) < 0 ||
	    args_bool(call, "replace_all", &all) < 0)
		goto done;
	call->number = replace(&data, before, after, NULL);
	if (flags & CORDON_FILES_MORE)
		answer_refuse(call, "the file is too large to be edited: more than %zu bytes",
			      FILES_DATA_MAX);
	else if (call->number == 0)
		answer_refuse(call, "'old_text' does not occur in the file");
	else if (call->number > 1 && !all)
		answer_refuse(call,
			      "'old_text' occurs %" PRIu64
			      " times: give more of what is around it, or replace_all",
			      call->number);
	else if (is_too_long(&data, before, after, call->number))
		answer_refuse(call, "the file would become too large: more than %zu bytes",
			      EDITED_MAX);
	else
		write_edited(call, &data, before, after);
done:
	strbuf_done(&data);
}

void tool_edit_file(struct call *call)
{
	struct cordon_files_request q = { .op = CORDON_FILES_READ, .max = FILES_DATA_MAX };
	const char *path, *before, *after;
	int all = 0;

	if (args_string(call, "path", 1, &path) < 0 ||
	    args_string(call, "old_text", 1, &before) < 0 ||
	    args_string(call, "new_text", 1, &after) < 0 ||
	    args_bool(call, "replace_all", &all) < 0)
		return;
	if (!*before) {
		answer_refuse(call, "'old_text' is empty");
		return;
	}
	(void)files_request(call, &q, path, NULL, 0, edit_read);
}

/* list_files */

static const char *type_name(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "link";
	case S_IFREG:
		return "file";
	default:
		return "other";
	}
}

static void add_entry(struct strbuf *text, struct json_writer *w,
		      const struct cordon_files_record *rec, const char *name)
{
	strbuf_add_escaped(text, name, rec->name_len);
	strbuf_puts(text, S_ISDIR(rec->mode) ? "/\n" : S_ISLNK(rec->mode) ? "@\n" : "\n");
	json_open_object(w, NULL);
	put_string(w, "path", name, rec->name_len);
	json_string(w, "type", type_name(rec->mode));
	json_uint(w, "size", rec->size);
	json_close_object(w);
}

/* -1: the records have another form. */
static int add_entries(const struct strbuf *data, struct strbuf *text, struct json_writer *w)
{
	size_t at = 0;

	while (at < data->len) {
		struct cordon_files_record rec;

		if (data->len - at < sizeof(rec))
			return -1;
		memcpy(&rec, data->data + at, sizeof(rec));
		at += sizeof(rec);
		if (rec.name_len > CORDON_FILES_PATH_MAX ||
		    rec.target_len > CORDON_FILES_PATH_MAX ||
		    (size_t)rec.name_len + rec.target_len > data->len - at)
			return -1;
		add_entry(text, w, &rec, data->data + at);
		at += (size_t)rec.name_len + rec.target_len;
	}
	return 0;
}

static void list_done(struct call *call)
{
	struct strbuf data = STRBUF_INIT, text = STRBUF_INIT;
	struct answer a = ANSWER_INIT;
	struct json_writer w;
	unsigned flags;

	if (files_answer(call, path_of(call), &data, &flags) < 0)
		goto done;
	json_writer_init(&w, &a.data, 0);
	json_open_object(&w, NULL);
	json_open_array(&w, "entries");
	if (add_entries(&data, &text, &w) < 0) {
		answer_refuse(call, "the sandbox's answer is garbled");
		strbuf_done(&a.data);
		goto done;
	}
	json_close_array(&w);
	json_bool(&w, "more", (flags & CORDON_FILES_MORE) != 0);
	json_close_object(&w);
	if (flags & CORDON_FILES_MORE)
		strbuf_puts(&text, "... and more\n");
	answer_text(&a, text.data ? text.data : "", text.len);
	a.content.failed |= text.failed;
	answer_send(call, &a);
done:
	strbuf_done(&data);
	strbuf_done(&text);
}

void tool_list_files(struct call *call)
{
	struct cordon_files_request q = { .op = CORDON_FILES_LIST, .max = LIST_MAX };
	int64_t depth = 1;
	const char *path;

	if (args_string(call, "path", 0, &path) < 0 || args_count(call, "depth", 64, &depth) < 0)
		return;
	q.depth = (uint32_t)depth;
	(void)files_request(call, &q, path ? path : ".", NULL, 0, list_done);
}

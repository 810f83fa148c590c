/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meta.json.
 *
 * A path that is not UTF-8 is written as {"hex": "..."}. Numbers that may need all 64 bits are
 * strings, since JSON parsers disagree about large ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "base/utf8.h"
#include "workspace/store/store_dir.h"

#define META_FORMAT 1
#define META_BYTES_MAX 65535

/* --- writing ------------------------------------------------------------------------------------
 */

static bool is_utf8(const char *s)
{
	size_t len = strlen(s), n;
	uint32_t cp;

	for (; len > 0; s += n, len -= n) {
		n = utf8_decode(s, len, &cp);
		if (n == 0)
			return false;
	}
	return true;
}

static void put_path(struct json_writer *w, const char *key, const char *path)
{
	struct strbuf hex = STRBUF_INIT;

	if (!path || is_utf8(path)) {
		json_string(w, key, path);
		return;
	}
	for (const char *p = path; *p; p++)
		strbuf_printf(&hex, "%02x", (unsigned char)*p);
	json_open_object(w, key);
	json_string(w, "hex", hex.data);
	json_close_object(w);
	if (hex.failed)
		w->out->failed = 1;
	strbuf_done(&hex);
}

static void put_number(struct json_writer *w, const char *key, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	json_string(w, key, text);
}

static void put_time(struct json_writer *w, const char *key, const struct timespec *t)
{
	json_open_object(w, key);
	json_int(w, "s", t->tv_sec);
	json_int(w, "ns", t->tv_nsec);
	json_close_object(w);
}

static void put_meta(struct strbuf *sb, const struct ws_meta *meta)
{
	struct json_writer w;

	json_writer_init(&w, sb, 1);
	json_open_object(&w, NULL);
	json_int(&w, "format", META_FORMAT);
	json_string(&w, "id", meta->id);
	json_string(&w, "name", meta->name);
	put_path(&w, "base", meta->base);
	json_string(&w, "parent", meta->parent);
	json_string(&w, "mechanism", cordon_mechanism_name(meta->mechanism));
	put_number(&w, "base_device", meta->base_dev);
	put_number(&w, "base_inode", meta->base_ino);
	put_number(&w, "base_filesystem", meta->base_fsid);
	put_time(&w, "made", &meta->made);
	put_time(&w, "began", &meta->began);
	put_time(&w, "created", &meta->created);
	put_time(&w, "used", &meta->used);
	put_number(&w, "runs", meta->runs);
	json_bool(&w, "dirty", meta->is_dirty);
	put_time(&w, "run_started", &meta->run_started);
	if (meta->since.tv_sec != 0)
		put_time(&w, "since", &meta->since);
	json_close_object(&w);
	strbuf_putc(sb, '\n');
}

int meta_write(int dir_fd, const struct ws_meta *meta, bool is_durable)
{
	struct strbuf sb = STRBUF_INIT;
	int r;

	put_meta(&sb, meta);
	r = sb.failed ? -ENOMEM : store_file_replace(dir_fd, "meta.json", &sb, is_durable);
	strbuf_done(&sb);
	return r;
}

/* --- reading ------------------------------------------------------------------------------------
 */

static bool get_number(const struct json_value *o, const char *key, uint64_t *ret)
{
	const struct json_value *v = json_get(o, key);
	char *end;

	if (!v || v->type != JSON_STRING || strspn(v->text, "0123456789") != strlen(v->text) ||
	    !*v->text)
		return false;
	errno = 0;
	*ret = strtoull(v->text, &end, 10);
	return errno == 0;
}

static bool get_time(const struct json_value *o, const char *key, struct timespec *ret)
{
	const struct json_value *v = json_get(o, key), *s, *ns;

	if (!v || v->type != JSON_OBJECT)
		return false;
	s = json_get(v, "s");
	ns = json_get(v, "ns");
	if (!s || s->type != JSON_INTEGER || !ns || ns->type != JSON_INTEGER)
		return false;
	if (ns->integer < 0 || ns->integer > 999999999)
		return false;
	*ret = (struct timespec){ .tv_sec = s->integer, .tv_nsec = ns->integer };
	return true;
}

/* A string or null. */
static bool get_text(const struct json_value *o, const char *key, const char **ret)
{
	const struct json_value *v = json_get(o, key);

	if (!v || (v->type != JSON_STRING && v->type != JSON_NULL))
		return false;
	*ret = v->type == JSON_STRING ? v->text : NULL;
	return true;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool get_path(const struct json_value *o, const char *key, struct arena *arena,
		     const char **ret)
{
	const struct json_value *v = json_get(o, key);
	size_t n;
	char *path;

	if (!v || v->type != JSON_OBJECT)
		return get_text(o, key, ret);
	v = json_get(v, "hex");
	if (!v || v->type != JSON_STRING)
		return false;
	n = strlen(v->text);
	path = n % 2 == 0 ? arena_alloc(arena, n / 2 + 1) : NULL;
	if (!path)
		return false;
	for (size_t i = 0; i < n / 2; i++) {
		int high = hex_digit(v->text[2 * i]), low = hex_digit(v->text[2 * i + 1]);

		if (high < 0 || low < 0 || high + low == 0)
			return false;
		path[i] = (char)(high * 16 + low);
	}
	*ret = path;
	return true;
}

static bool get_mechanism(const struct json_value *o, int *ret)
{
	const char *text;

	if (!get_text(o, "mechanism", &text) || !text)
		return false;
	for (int i = 1; i < CORDON_MECHANISM_MAX; i++) {
		if (strcmp(text, cordon_mechanism_name(i)) == 0) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static bool get_bool(const struct json_value *o, const char *key, bool *ret)
{
	const struct json_value *v = json_get(o, key);

	if (!v || (v->type != JSON_TRUE && v->type != JSON_FALSE))
		return false;
	*ret = v->type == JSON_TRUE;
	return true;
}

static bool get_identity(const struct json_value *o, struct ws_meta *m)
{
	uint64_t dev, ino;

	if (!get_number(o, "base_device", &dev) || !get_number(o, "base_inode", &ino) ||
	    !get_number(o, "base_filesystem", &m->base_fsid))
		return false;
	m->base_dev = (dev_t)dev;
	m->base_ino = (ino_t)ino;
	return true;
}

static bool get_history(const struct json_value *o, struct ws_meta *m)
{
	return get_time(o, "made", &m->made) && get_time(o, "began", &m->began) &&
	       get_time(o, "created", &m->created) && get_time(o, "used", &m->used) &&
	       get_number(o, "runs", &m->runs) && get_bool(o, "dirty", &m->is_dirty) &&
	       get_time(o, "run_started", &m->run_started) &&
	       (!json_get(o, "since") || get_time(o, "since", &m->since));
}

/* NULL, or what is wrong. */
static const char *get_meta(const struct json_value *o, const char *id, struct arena *arena,
			    struct ws_meta *m)
{
	const struct json_value *format = o->type == JSON_OBJECT ? json_get(o, "format") : NULL;

	if (!format || format->type != JSON_INTEGER)
		return "no format";
	if (format->integer != META_FORMAT)
		return "written by another version of Cordon";
	if (!get_text(o, "id", &m->id) || !m->id || strcmp(m->id, id) != 0)
		return "the id is another";
	if (!get_text(o, "name", &m->name) || (m->name && !ws_is_name(m->name)))
		return "bad name";
	if (!get_path(o, "base", arena, &m->base) || !m->base || m->base[0] != '/')
		return "bad base";
	if (!get_text(o, "parent", &m->parent) || (m->parent && !ws_is_id(m->parent)))
		return "bad parent";
	if (!get_mechanism(o, &m->mechanism))
		return "bad mechanism";
	if (!get_identity(o, m))
		return "bad identity of the base";
	if (!get_history(o, m))
		return "bad times";
	return NULL;
}

static int is_damaged(struct cordon_error *err, const char *path, const char *why)
{
	(void)cordon_err(err, CORDON_E_STATE, 0, "%s/meta.json is damaged: %s", path, why);
	/* Not gc --older-than: that would remove others, too. */
	(void)cordon_err_hint(err, "remove that directory if nothing in it is needed any more");
	return -CORDON_E_STATE;
}

static int parse(const struct strbuf *text, const char *id, const char *path, struct arena *arena,
		 struct ws_meta *ret, struct cordon_error *err)
{
	struct ws_meta meta = { .usage_bytes = WS_USAGE_UNKNOWN, .usage_inodes = WS_USAGE_UNKNOWN };
	struct cordon_error why = CORDON_ERROR_INIT;
	const struct json_value *o;
	const char *wrong;
	int r = json_read(text->data, text->len, "meta.json", arena, &o, &why);

	if (r == -CORDON_E_NOMEM)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	wrong = r < 0 ? why.msg : get_meta(o, id, arena, &meta);
	if (wrong)
		return is_damaged(err, path, wrong);
	*ret = meta;
	return 0;
}

int meta_read(int dir_fd, const char *id, const char *path, struct arena *arena,
	      struct ws_meta *ret, struct cordon_error *err)
{
	struct strbuf text = STRBUF_INIT;
	int r;

	text.max = META_BYTES_MAX;
	r = store_file_read(dir_fd, "meta.json", &text);
	if (r == 0)
		r = parse(&text, id, path, arena, ret, err);
	else if (r == -ENOENT || r == -EFBIG)
		r = is_damaged(err, path, r == -ENOENT ? "it is missing" : "it is too long");
	else
		r = cordon_err(err, r == -ENOMEM ? CORDON_E_NOMEM : CORDON_E_SYSTEM, -r,
			       "%s/meta.json", path);
	strbuf_done(&text);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "toml.h"

#include <string.h>

#include "base/ascii.h"
#include "base/err.h"
#include "toml_text.h"

/* The parts of a key, and where they are. */
struct key {
	const char *parts[TOML_DEPTH_MAX];
	size_t n, at, prefix_len;
};

const struct toml_value *toml_of(const struct json_value *v)
{
	return (const struct toml_value *)(const void *)v;
}

/* Tables. */

static struct toml_value *find(const struct toml_value *table, const char *key)
{
	for (struct json_value *v = table->v.first; v; v = v->next)
		if (!strcmp(v->key, key))
			return (struct toml_value *)(void *)v;
	return NULL;
}

static struct toml_value *add(struct toml_reader *rd, struct toml_value *to, const char *key,
			      enum json_type type)
{
	struct toml_value *new;

	if (rd->n_values++ == TOML_VALUES_MAX) {
		(void)toml_fail(rd, "more than %d values", TOML_VALUES_MAX);
		return NULL;
	}
	new = arena_alloc(rd->arena, sizeof(*new));
	if (!new) {
		(void)cordon_err(rd->err, CORDON_E_NOMEM, 0, "out of memory");
		return NULL;
	}
	*new = (struct toml_value){ .v = { .type = type, .key = key } };
	if (!to)
		return new;
	if (to->last)
		to->last->v.next = &new->v;
	else
		to->v.first = &new->v;
	to->last = new;
	to->v.integer++;
	return new;
}

/* The table below @table that a part of a key names; it is made if there is none. Of an array of
 * tables that is the last one. */
static struct toml_value *step(struct toml_reader *rd, struct toml_value *table, const char *part)
{
	struct toml_value *next = find(table, part);

	if (!next)
		return add(rd, table, part, JSON_OBJECT);
	if (next->v.type == JSON_ARRAY && !next->is_closed)
		next = next->last;
	if (next->v.type == JSON_OBJECT && !next->is_closed)
		return next;
	(void)toml_fail(rd, "'%.80s' is no table that can be added to", part);
	return NULL;
}

static struct toml_value *walk(struct toml_reader *rd, struct toml_value *table,
			       const struct key *key, size_t n)
{
	for (size_t i = 0; table && i < n; i++)
		table = step(rd, table, key->parts[i]);
	return table;
}

/* Keys. */

static int is_bare(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || ascii_is_digit(c) || c == '_' ||
	       c == '-';
}

static const char *read_part(struct toml_reader *rd)
{
	const char *begin = rd->pos, *part;

	if (toml_at(rd, "\"\"\"") || toml_at(rd, "'''")) {
		(void)toml_fail(rd, "a key cannot have several lines");
		return NULL;
	}
	if (toml_at(rd, "\"") || toml_at(rd, "'"))
		return toml_string(rd);
	while (rd->pos < rd->end && is_bare(*rd->pos))
		rd->pos++;
	if (rd->pos == begin) {
		(void)toml_fail(rd, "a key is missing");
		return NULL;
	}
	part = arena_strndup(rd->arena, begin, (size_t)(rd->pos - begin));
	if (!part)
		(void)cordon_err(rd->err, CORDON_E_NOMEM, 0, "out of memory");
	return part;
}

static int read_key(struct toml_reader *rd, struct key *key)
{
	key->n = 0;
	key->at = (size_t)(rd->pos - rd->text);
	do {
		if (key->n == TOML_DEPTH_MAX)
			return toml_fail(rd, "a key has more than %d parts", TOML_DEPTH_MAX);
		toml_skip_blanks(rd);
		key->prefix_len = (size_t)(rd->pos - rd->text) - key->at;
		key->parts[key->n] = read_part(rd);
		if (!key->parts[key->n++])
			return -1;
		toml_skip_blanks(rd);
	} while (toml_take(rd, "."));
	return 0;
}

/* Values. */

static int read_value(struct toml_reader *rd, struct toml_value *to, const char *key,
		      struct toml_value **ret);

static int read_array(struct toml_reader *rd, struct toml_value *array)
{
	array->is_closed = 1;
	rd->pos++;
	for (;;) {
		struct toml_value *item = NULL;

		toml_skip_lines(rd);
		if (toml_take(rd, "]"))
			return 0;
		if (read_value(rd, array, NULL, &item) < 0)
			return -1;
		toml_skip_lines(rd);
		if (toml_take(rd, "]"))
			return 0;
		if (!toml_take(rd, ","))
			return toml_fail(rd, "a comma or the end of a list is missing");
	}
}

static int read_pair(struct toml_reader *rd, struct toml_value *table, int is_inline)
{
	struct toml_value *at, *value = NULL;
	struct key key;

	if (read_key(rd, &key) < 0)
		return -1;
	if (!toml_take(rd, "="))
		return toml_fail(rd, "'=' is missing");
	toml_skip_blanks(rd);
	at = walk(rd, table, &key, key.n - 1);
	if (!at)
		return -1;
	if (find(at, key.parts[key.n - 1]))
		return toml_fail(rd, "the key '%.80s' is there twice", key.parts[key.n - 1]);
	if (read_value(rd, at, key.parts[key.n - 1], &value) < 0 || !value)
		return -1;
	value->key_at = key.at;
	value->prefix_len = key.prefix_len;
	value->is_inline = is_inline;
	return 0;
}

/* Newer revisions allow several lines, and a comma at the end. */
static int read_table(struct toml_reader *rd, struct toml_value *table)
{
	rd->pos++;
	for (;;) {
		toml_skip_lines(rd);
		if (toml_take(rd, "}"))
			break;
		if (read_pair(rd, table, 1) < 0)
			return -1;
		toml_skip_lines(rd);
		if (toml_take(rd, "}"))
			break;
		if (!toml_take(rd, ","))
			return toml_fail(rd, "a comma or the end of a table is missing");
	}
	table->is_closed = 1;
	return 0;
}

/* Numbers, dates, true, false: what they mean does not matter here. */
static int read_word(struct toml_reader *rd, struct toml_value *value)
{
	const char *begin = rd->pos;
	size_t len;

	while (rd->pos < rd->end && (is_bare(*rd->pos) || strchr("+.:", *rd->pos)))
		rd->pos++;
	/* "1979-05-27 07:32:00" */
	if (rd->pos - begin == 10 && begin[4] == '-' && rd->end - rd->pos > 1 && *rd->pos == ' ' &&
	    ascii_is_digit(rd->pos[1]))
		for (rd->pos++;
		     rd->pos < rd->end && (is_bare(*rd->pos) || strchr("+.:", *rd->pos));)
			rd->pos++;
	len = (size_t)(rd->pos - begin);
	if (len == 4 && !memcmp(begin, "true", 4))
		value->v.type = JSON_TRUE;
	else if (len == 5 && !memcmp(begin, "false", 5))
		value->v.type = JSON_FALSE;
	else if (len && (ascii_is_digit(*begin) || strchr("+-in", *begin)))
		value->v.text = arena_strndup(rd->arena, begin, len);
	else
		return toml_fail(rd, "a value is missing");
	return 0;
}

static int read_value(struct toml_reader *rd, struct toml_value *to, const char *key,
		      struct toml_value **ret)
{
	char c = rd->pos < rd->end ? *rd->pos : '\0';
	enum json_type type = c == '"' || c == '\'' ? JSON_STRING
			      : c == '['	    ? JSON_ARRAY
			      : c == '{'	    ? JSON_OBJECT
						    : JSON_NUMBER;
	struct toml_value *value = add(rd, to, key, type);
	const char *begin = rd->pos;
	int r = 0;

	if (!value)
		return -1;
	if (rd->depth++ == TOML_DEPTH_MAX)
		return toml_fail(rd, "nested deeper than %d levels", TOML_DEPTH_MAX);
	value->at = (size_t)(begin - rd->text);
	if (type == JSON_STRING) {
		value->v.text = toml_string(rd);
		r = value->v.text ? 0 : -1;
	} else if (type == JSON_ARRAY) {
		r = read_array(rd, value);
	} else if (type == JSON_OBJECT) {
		r = read_table(rd, value);
	} else {
		r = read_word(rd, value);
	}
	rd->depth--;
	value->len = (size_t)(rd->pos - begin);
	*ret = value;
	return r;
}

/* "[a.b]", or "[[a.b]]", which adds a table to a list. */
static struct toml_value *read_header(struct toml_reader *rd, struct toml_value *root)
{
	int is_list = toml_take(rd, "[[");
	struct toml_value *table, *list;
	struct key key;

	if (!is_list)
		rd->pos++;
	if (read_key(rd, &key) < 0)
		return NULL;
	if (!toml_take(rd, is_list ? "]]" : "]")) {
		(void)toml_fail(rd, "the end of a table's name is missing");
		return NULL;
	}
	if (!is_list)
		return walk(rd, root, &key, key.n);
	table = walk(rd, root, &key, key.n - 1);
	list = table ? find(table, key.parts[key.n - 1]) : NULL;
	if (table && !list)
		list = add(rd, table, key.parts[key.n - 1], JSON_ARRAY);
	if (list && (list->v.type != JSON_ARRAY || list->is_closed)) {
		(void)toml_fail(rd, "'%.80s' is no list of tables", key.parts[key.n - 1]);
		return NULL;
	}
	return list ? add(rd, list, NULL, JSON_OBJECT) : NULL;
}

int toml_read(const char *text, size_t len, const char *name, struct arena *arena,
	      const struct json_value **ret, struct cordon_error *err)
{
	struct toml_reader rd = { .text = text,
				  .pos = text,
				  .end = text + len,
				  .name = name,
				  .arena = arena,
				  .err = err };
	struct toml_value *root, *table;
	int r = toml_check(&rd);

	if (r < 0)
		return -CORDON_E_POLICY;
	table = root = add(&rd, NULL, NULL, JSON_OBJECT);
	if (!root)
		return -CORDON_E_NOMEM;
	for (toml_skip_lines(&rd); r == 0 && rd.pos < rd.end; toml_skip_lines(&rd)) {
		if (*rd.pos == '[') {
			table = read_header(&rd, root);
			r = table ? 0 : -1;
		} else {
			r = read_pair(&rd, table, 0);
		}
		if (r == 0)
			r = toml_end_line(&rd);
		if (r < 0)
			break;
	}
	if (r < 0)
		return -CORDON_E_POLICY;
	*ret = &root->v;
	return 0;
}

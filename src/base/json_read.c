/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the text, one character of look-ahead, recursion no deeper than the cap.
 * json_read() puts the reader's position in front of an error's message, so code that finds an
 * error further back moves the position there first.
 */
#include "base/json_read.h"

#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "base/err.h"
#include "base/utf8.h"

#define WORD_SHOWN 20

struct reader {
	const char *pos, *end;
	unsigned line, column, depth;
	struct arena *arena;
	struct cordon_error *err;
};

static int no_memory(struct reader *rd)
{
	return cordon_err(rd->err, CORDON_E_NOMEM, 0, "out of memory");
}

static int at(const struct reader *rd, char c)
{
	return rd->pos < rd->end && *rd->pos == c;
}

static int at_digit(const struct reader *rd)
{
	return rd->pos < rd->end && ascii_is_digit(*rd->pos);
}

/* Steps over one character of @bytes bytes, not a newline. */
static void take(struct reader *rd, size_t bytes)
{
	rd->pos += bytes;
	rd->column++;
}

static void skip_space(struct reader *rd)
{
	for (; rd->pos < rd->end; rd->pos++) {
		if (*rd->pos == '\n') {
			rd->line++;
			rd->column = 1;
		} else if (*rd->pos == ' ' || *rd->pos == '\t' || *rd->pos == '\r') {
			rd->column++;
		} else {
			return;
		}
	}
}

static int bad_byte(struct reader *rd)
{
	return cordon_err(rd->err, CORDON_E_POLICY, 0, "byte 0x%02x is not valid UTF-8 here",
			  (unsigned)(unsigned char)*rd->pos);
}

static int expected(struct reader *rd, const char *what)
{
	uint32_t cp = 0;
	size_t n;

	if (rd->pos == rd->end)
		return cordon_err(rd->err, CORDON_E_POLICY, 0,
				  "expected %s, found the end of the document", what);
	n = utf8_decode(rd->pos, (size_t)(rd->end - rd->pos), &cp);
	if (n == 0)
		return bad_byte(rd);
	if (utf8_is_control(cp))
		return cordon_err(rd->err, CORDON_E_POLICY, 0, "expected %s, found U+%04X", what,
				  (unsigned)cp);
	cordon_err(rd->err, CORDON_E_POLICY, 0, "expected %s, found '%.*s'", what, (int)n, rd->pos);
	if (cp == '/' || cp == '#')
		cordon_err_hint(rd->err, "JSON has no comments");
	return -CORDON_E_POLICY;
}

/* The four digits after \u. */
static int read_hex(struct reader *rd, uint32_t *ret)
{
	uint32_t value = 0;
	int i;

	for (i = 0; i < 4; i++) {
		int digit = rd->pos < rd->end ? ascii_hex_value(*rd->pos) : -1;

		if (digit < 0)
			return expected(rd, "four hexadecimal digits after \\u");
		value = value << 4 | (uint32_t)digit;
		take(rd, 1);
	}
	*ret = value;
	return 0;
}

/* What follows \u, including the other half of a surrogate pair. */
static int read_code_point(struct reader *rd, uint32_t *ret)
{
	unsigned column = rd->column - 2; /* the backslash */
	uint32_t high = 0, low = 0;
	int r = read_hex(rd, &high);

	if (r < 0)
		return r;
	if (high >= 0xd800 && high <= 0xdbff && rd->end - rd->pos >= 2 && rd->pos[0] == '\\' &&
	    rd->pos[1] == 'u') {
		take(rd, 1);
		take(rd, 1);
		r = read_hex(rd, &low);
		if (r < 0)
			return r;
	}
	if (high == 0) {
		rd->column = column;
		return cordon_err(rd->err, CORDON_E_POLICY, 0, "NUL characters are not allowed");
	}
	if (high < 0xd800 || high > 0xdfff) {
		*ret = high;
		return 0;
	}
	if (high > 0xdbff || low < 0xdc00 || low > 0xdfff) {
		rd->column = column;
		return cordon_err(rd->err, CORDON_E_POLICY, 0, "unpaired surrogate \\u%04x",
				  (unsigned)high);
	}
	*ret = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
	return 0;
}

static int read_escape(struct reader *rd, uint32_t *ret)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *hit;

	take(rd, 1);
	if (at(rd, 'u')) {
		take(rd, 1);
		return read_code_point(rd, ret);
	}
	hit = rd->pos < rd->end ? memchr(from, *rd->pos, sizeof(from) - 1) : NULL;
	if (!hit)
		return expected(rd, "one of \"\\/bfnrtu after a backslash");
	take(rd, 1);
	*ret = (uint32_t)to[hit - from];
	return 0;
}

/* One character of a string that is not the closing quote; adds it to @out. */
static int read_character(struct reader *rd, char **out)
{
	uint32_t cp = 0;
	size_t n;
	int r;

	if (*rd->pos == '\\') {
		r = read_escape(rd, &cp);
		if (r < 0)
			return r;
		*out += utf8_encode(cp, *out);
		return 0;
	}
	n = utf8_decode(rd->pos, (size_t)(rd->end - rd->pos), &cp);
	if (n == 0)
		return bad_byte(rd);
	if (cp == 0)
		return cordon_err(rd->err, CORDON_E_POLICY, 0, "NUL characters are not allowed");
	if (cp < 0x20)
		return cordon_err(rd->err, CORDON_E_POLICY, 0,
				  "control character U+%04X in a string must be escaped",
				  (unsigned)cp);
	memcpy(*out, rd->pos, n);
	*out += n;
	take(rd, n);
	return 0;
}

static int read_string(struct reader *rd, const char **ret)
{
	unsigned line = rd->line, column = rd->column;
	const char *p = rd->pos + 1;
	char *text, *out;
	int r;

	/* An escape is never shorter than what it stands for, so this is room enough. */
	while (p < rd->end && *p != '"')
		p += *p == '\\' && p + 1 < rd->end ? 2 : 1;
	text = out = arena_alloc(rd->arena, (size_t)(p - rd->pos));
	if (!text)
		return no_memory(rd);
	take(rd, 1);
	while (rd->pos < rd->end && *rd->pos != '"') {
		r = read_character(rd, &out);
		if (r < 0)
			return r;
	}
	if (rd->pos == rd->end) {
		rd->line = line;
		rd->column = column;
		return cordon_err(rd->err, CORDON_E_POLICY, 0, "this string has no closing quote");
	}
	take(rd, 1);
	*out = '\0';
	*ret = text;
	return 0;
}

static int skip_digits(struct reader *rd)
{
	if (!at_digit(rd))
		return expected(rd, "a digit");
	while (at_digit(rd))
		take(rd, 1);
	return 0;
}

/* Whether @text, an optional minus and digits, fits into 64 bits. */
static int to_integer(const char *text, int64_t *ret)
{
	int is_negative = *text == '-';
	int64_t value = 0;

	for (text += is_negative; *text; text++) {
		int digit = is_negative ? '0' - *text : *text - '0';

		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return 0;
	}
	*ret = value;
	return 1;
}

static int read_number(struct reader *rd, struct json_value *value)
{
	const char *start = rd->pos;
	int r, is_whole = 1;

	if (at(rd, '-'))
		take(rd, 1);
	if (at(rd, '0') && rd->end - rd->pos > 1 && ascii_is_digit(rd->pos[1]))
		return cordon_err(rd->err, CORDON_E_POLICY, 0,
				  "a number must not have leading zeros");
	r = skip_digits(rd);
	if (r == 0 && at(rd, '.')) {
		is_whole = 0;
		take(rd, 1);
		r = skip_digits(rd);
	}
	if (r == 0 && (at(rd, 'e') || at(rd, 'E'))) {
		is_whole = 0;
		take(rd, 1);
		if (at(rd, '+') || at(rd, '-'))
			take(rd, 1);
		r = skip_digits(rd);
	}
	if (r < 0)
		return r;
	value->text = arena_strndup(rd->arena, start, (size_t)(rd->pos - start));
	if (!value->text)
		return no_memory(rd);
	value->type = is_whole && to_integer(value->text, &value->integer) ? JSON_INTEGER
									   : JSON_NUMBER;
	return 0;
}

static int read_word(struct reader *rd, struct json_value *value)
{
	static const struct {
		const char *word;
		enum json_type type;
	} words[] = { { "null", JSON_NULL }, { "false", JSON_FALSE }, { "true", JSON_TRUE } };
	size_t n = 0, i;

	while (rd->pos + n < rd->end && ((rd->pos[n] | 0x20) >= 'a' && (rd->pos[n] | 0x20) <= 'z'))
		n++;
	for (i = 0; i < ARRAY_SIZE(words); i++) {
		if (n != strlen(words[i].word) || memcmp(rd->pos, words[i].word, n) != 0)
			continue;
		rd->pos += n;
		rd->column += (unsigned)n;
		value->type = words[i].type;
		return 0;
	}
	if (n < 2)
		return expected(rd, "a value");
	return cordon_err(rd->err, CORDON_E_POLICY, 0, "expected a value, found '%.*s'",
			  (int)(n < WORD_SHOWN ? n : WORD_SHOWN), rd->pos);
}

static int by_key(const void *a, const void *b)
{
	const struct json_value *x = *(const struct json_value *const *)a;
	const struct json_value *y = *(const struct json_value *const *)b;
	int r = strcmp(x->key, y->key);

	if (r != 0)
		return r;
	if (x->key_line != y->key_line)
		return x->key_line < y->key_line ? -1 : 1;
	return x->key_column < y->key_column ? -1 : x->key_column > y->key_column;
}

/* By sorting: comparing all pairs would take too long with as many keys as a document can have. */
static int check_duplicates(struct reader *rd, const struct json_value *object)
{
	size_t n = (size_t)object->integer, i = 0;
	const struct json_value **sorted, *member;

	if (n < 2)
		return 0;
	sorted = arena_alloc(rd->arena, n * sizeof(*sorted));
	if (!sorted)
		return no_memory(rd);
	for (member = object->first; member; member = member->next)
		sorted[i++] = member;
	qsort(sorted, n, sizeof(*sorted), by_key);
	for (i = 1; i < n; i++) {
		if (strcmp(sorted[i - 1]->key, sorted[i]->key) != 0)
			continue;
		rd->line = sorted[i]->key_line;
		rd->column = sorted[i]->key_column;
		return cordon_err(rd->err, CORDON_E_POLICY, 0, "duplicate key '%.80s'",
				  sorted[i]->key);
	}
	return 0;
}

/* "key": */
static int read_key(struct reader *rd, struct json_value *member)
{
	int r;

	if (!at(rd, '"'))
		return expected(rd, "a key in double quotes");
	member->key_line = rd->line;
	member->key_column = rd->column;
	r = read_string(rd, &member->key);
	if (r < 0)
		return r;
	skip_space(rd);
	if (!at(rd, ':'))
		return expected(rd, "':' after a key");
	take(rd, 1);
	skip_space(rd);
	return 0;
}

static int read_value(struct reader *rd, struct json_value *value);

static int read_children(struct reader *rd, struct json_value *parent)
{
	const int is_object = parent->type == JSON_OBJECT;
	const char close = is_object ? '}' : ']';
	struct json_value *child, **tail = &parent->first;
	int r;

	if (++rd->depth > JSON_READ_DEPTH_MAX)
		return cordon_err(rd->err, CORDON_E_POLICY, 0, "nested deeper than %d levels",
				  JSON_READ_DEPTH_MAX);
	take(rd, 1);
	skip_space(rd);
	while (parent->integer > 0 || !at(rd, close)) {
		child = arena_alloc(rd->arena, sizeof(*child));
		if (!child)
			return no_memory(rd);
		r = is_object ? read_key(rd, child) : 0;
		if (r == 0)
			r = read_value(rd, child);
		if (r < 0)
			return r;
		*tail = child;
		tail = &child->next;
		parent->integer++;
		skip_space(rd);
		if (at(rd, close))
			break;
		if (!at(rd, ','))
			return expected(rd, is_object ? "',' or '}'" : "',' or ']'");
		take(rd, 1);
		skip_space(rd);
	}
	take(rd, 1);
	rd->depth--;
	return is_object ? check_duplicates(rd, parent) : 0;
}

static int read_value(struct reader *rd, struct json_value *value)
{
	value->line = rd->line;
	value->column = rd->column;
	if (at(rd, '{') || at(rd, '[')) {
		value->type = at(rd, '{') ? JSON_OBJECT : JSON_ARRAY;
		return read_children(rd, value);
	}
	if (at(rd, '"')) {
		value->type = JSON_STRING;
		return read_string(rd, &value->text);
	}
	if (at(rd, '-') || at_digit(rd))
		return read_number(rd, value);
	return read_word(rd, value);
}

static int read_text(struct reader *rd, struct json_value *root)
{
	int r;

	if (rd->end - rd->pos >= 3 && memcmp(rd->pos, "\xef\xbb\xbf", 3) == 0)
		return cordon_err(rd->err, CORDON_E_POLICY, 0,
				  "the document starts with a byte order mark");
	skip_space(rd);
	r = read_value(rd, root);
	if (r < 0)
		return r;
	skip_space(rd);
	return rd->pos == rd->end ? 0 : expected(rd, "the end of the document");
}

int json_read(const char *text, size_t len, const char *name, struct arena *arena,
	      const struct json_value **ret, struct cordon_error *err)
{
	struct reader rd = { text, text + len, 1, 1, 0, arena, err };
	struct json_value *root;
	int r;

	if (len > JSON_READ_BYTES_MAX)
		return cordon_err(err, CORDON_E_POLICY, 0, "%.100s: larger than %zu bytes", name,
				  JSON_READ_BYTES_MAX);
	root = arena_alloc(arena, sizeof(*root));
	r = root ? read_text(&rd, root) : no_memory(&rd);
	if (r == 0)
		*ret = root;
	else if (r != -CORDON_E_NOMEM)
		cordon_err_prefix(err, "%.100s:%u:%u", name, rd.line, rd.column);
	return r;
}

const struct json_value *json_get(const struct json_value *object, const char *key)
{
	const struct json_value *member;

	if (object->type != JSON_OBJECT)
		return NULL;
	for (member = object->first; member; member = member->next)
		if (strcmp(member->key, key) == 0)
			return member;
	return NULL;
}

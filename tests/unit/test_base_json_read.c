/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON reader: what it takes, what it refuses and where it says the fault is. */
#include <time.h>

#include "base/json_read.h"
#include "base/strbuf.h"
#include "tap.h"

/* Strings as they are in quotes, numbers as they were written with '#' before whole ones. */
static void show(struct strbuf *out, const struct json_value *value)
{
	static const char *const words[] = { "null", "false", "true" };
	const struct json_value *child;
	int64_t n = 0;

	if (value->key)
		strbuf_printf(out, "%s:", value->key);
	switch (value->type) {
	case JSON_NULL:
	case JSON_FALSE:
	case JSON_TRUE:
		strbuf_puts(out, words[value->type]);
		return;
	case JSON_INTEGER:
		strbuf_printf(out, "#%lld", (long long)value->integer);
		return;
	case JSON_NUMBER:
		strbuf_puts(out, value->text);
		return;
	case JSON_STRING:
		strbuf_printf(out, "\"%s\"", value->text);
		return;
	case JSON_ARRAY:
	case JSON_OBJECT:
	case JSON_MAX:
		break;
	}
	strbuf_putc(out, value->type == JSON_ARRAY ? '[' : '{');
	for (child = value->first; child; child = child->next, n++) {
		if (n > 0)
			strbuf_putc(out, ',');
		show(out, child);
	}
	strbuf_putc(out, value->type == JSON_ARRAY ? ']' : '}');
	CHECK_INT(value->integer, n);
}

/* In a block of exactly its size, so that a step past the end is seen. */
static int read_copy(const char *text, size_t len, struct arena *arena,
		     const struct json_value **ret, struct cordon_error *err)
{
	char *copy = malloc(len ? len : 1);
	int r;

	if (!copy)
		abort();
	memcpy(copy, text, len);
	r = json_read(copy, len, "d", arena, ret, err);
	free(copy);
	return r;
}

static const struct {
	const char *text, *tree;
} good[] = {
	{ "null", "null" },
	{ "true", "true" },
	{ "false", "false" },
	{ " \t\r\n null \n", "null" },
	{ "0", "#0" },
	{ "-0", "#0" },
	{ "7", "#7" },
	{ "-7", "#-7" },
	{ "1234567890", "#1234567890" },
	{ "9223372036854775807", "#9223372036854775807" },
	{ "-9223372036854775808", "#-9223372036854775808" },
	{ "9223372036854775808", "9223372036854775808" },
	{ "-9223372036854775809", "-9223372036854775809" },
	{ "18446744073709551616", "18446744073709551616" },
	{ "0.5", "0.5" },
	{ "-0.0", "-0.0" },
	{ "1.50", "1.50" },
	{ "1e2", "1e2" },
	{ "1E2", "1E2" },
	{ "1e+2", "1e+2" },
	{ "1e-2", "1e-2" },
	{ "0e0", "0e0" },
	{ "0.1E+01", "0.1E+01" },
	{ "1e999999", "1e999999" },
	{ "\"\"", "\"\"" },
	{ "\"a b\"", "\"a b\"" },
	{ "\"\x7f\"", "\"\x7f\"" },
	{ "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
	{ "\"\\\"\\\\\\/\"", "\"\"\\/\"" },
	{ "\"\\b\\f\\n\\r\\t\"", "\"\b\f\n\r\t\"" },
	{ "\"\\u0041\\u00e9\\u20AC\"", "\"A\xc3\xa9\xe2\x82\xac\"" },
	{ "\"\\u007f\\u0080\\u07ff\\u0800\"", "\"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\"" },
	{ "\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\"" },
	{ "\"\\uD800\\uDC00\\uDBFF\\uDFFF\"", "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"" },
	{ "\"\\ud7ff\\ue000\\uffff\"", "\"\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\"" },
	{ "\"\\u0001\\u001f\"", "\"\x01\x1f\"" },
	{ "\"\xef\xbb\xbf\"", "\"\xef\xbb\xbf\"" },
	{ "\"\xe2\x80\xa8\"", "\"\xe2\x80\xa8\"" },
	{ "\"// no comment\"", "\"// no comment\"" },
	{ "[]", "[]" },
	{ "[ ]", "[]" },
	{ "[\n]", "[]" },
	{ "[1]", "[#1]" },
	{ "[1,2 , 3\n]", "[#1,#2,#3]" },
	{ "[[],[[]],{}]", "[[],[[]],{}]" },
	{ "[null,true,false,\"x\",-1.5]", "[null,true,false,\"x\",-1.5]" },
	{ "[\"\\\\\",\"\\\"\"]", "[\"\\\",\"\"\"]" },
	{ "{}", "{}" },
	{ "{ }", "{}" },
	{ "{\"a\":1}", "{a:#1}" },
	{ " { \"a\" : 1 , \"b\" : { \"a\" : [ ] } } ", "{a:#1,b:{a:[]}}" },
	{ "{\"\":0}", "{:#0}" },
	{ "{\"a\":1,\"A\":2,\"a \":3}", "{a:#1,A:#2,a :#3}" },
	{ "{\"z\":1,\"y\":2,\"x\":3}", "{z:#1,y:#2,x:#3}" },
	{ "{\"\\u0061\":1,\"b\":2}", "{a:#1,b:#2}" },
};

static void test_good(void)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct cordon_error err = CORDON_ERROR_INIT;
		const struct json_value *root = NULL;
		struct arena arena = ARENA_INIT;
		struct strbuf out = STRBUF_INIT;

		CHECK_INT(read_copy(good[i].text, strlen(good[i].text), &arena, &root, &err), 0);
		CHECK_STR(err.msg, "");
		if (root)
			show(&out, root);
		CHECK_STR(out.data, good[i].tree);
		strbuf_done(&out);
		arena_done(&arena);
	}
}

static const struct {
	const char *text, *message;
} bad[] = {
	{ "", "d:1:1: expected a value, found the end of the document" },
	{ "   ", "d:1:4: expected a value, found the end of the document" },
	{ "\n\n", "d:3:1: expected a value, found the end of the document" },
	{ "\xef\xbb\xbf{}", "d:1:1: the document starts with a byte order mark" },
	{ "\xff\xfe{", "d:1:1: byte 0xff is not valid UTF-8 here" },
	{ "\xc2\xa0[]", "d:1:1: expected a value, found '\xc2\xa0'" },
	{ "\v1", "d:1:1: expected a value, found U+000B" },
	{ "\f1", "d:1:1: expected a value, found U+000C" },
	{ "nul", "d:1:1: expected a value, found 'nul'" },
	{ "nullx", "d:1:1: expected a value, found 'nullx'" },
	{ "null0", "d:1:5: expected the end of the document, found '0'" },
	{ "Null", "d:1:1: expected a value, found 'Null'" },
	{ "TRUE", "d:1:1: expected a value, found 'TRUE'" },
	{ "True", "d:1:1: expected a value, found 'True'" },
	{ "t", "d:1:1: expected a value, found 't'" },
	{ "NaN", "d:1:1: expected a value, found 'NaN'" },
	{ "-NaN", "d:1:2: expected a digit, found 'N'" },
	{ "Infinity", "d:1:1: expected a value, found 'Infinity'" },
	{ "-Infinity", "d:1:2: expected a digit, found 'I'" },
	{ "undefined", "d:1:1: expected a value, found 'undefined'" },
	{ "averyverylongwordindeedwhichiscut",
	  "d:1:1: expected a value, found 'averyverylongwordind'" },
	{ "1 2", "d:1:3: expected the end of the document, found '2'" },
	{ "[] []", "d:1:4: expected the end of the document, found '['" },
	{ "{}}", "d:1:3: expected the end of the document, found '}'" },
	{ "[1]x", "d:1:4: expected the end of the document, found 'x'" },
	{ "null,", "d:1:5: expected the end of the document, found ','" },
	{ "// c\n1", "d:1:1: expected a value, found '/'" },
	{ "[1, /* c */ 2]", "d:1:5: expected a value, found '/'" },
	{ "{} # c", "d:1:4: expected the end of the document, found '#'" },
	{ "+1", "d:1:1: expected a value, found '+'" },
	{ "-", "d:1:2: expected a digit, found the end of the document" },
	{ "--1", "d:1:2: expected a digit, found '-'" },
	{ "- 1", "d:1:2: expected a digit, found ' '" },
	{ "01", "d:1:1: a number must not have leading zeros" },
	{ "-01", "d:1:2: a number must not have leading zeros" },
	{ "00", "d:1:1: a number must not have leading zeros" },
	{ "0x10", "d:1:2: expected the end of the document, found 'x'" },
	{ "1.", "d:1:3: expected a digit, found the end of the document" },
	{ ".5", "d:1:1: expected a value, found '.'" },
	{ "-.5", "d:1:2: expected a digit, found '.'" },
	{ "1.e1", "d:1:3: expected a digit, found 'e'" },
	{ "1e", "d:1:3: expected a digit, found the end of the document" },
	{ "1e+", "d:1:4: expected a digit, found the end of the document" },
	{ "1e1.5", "d:1:4: expected the end of the document, found '.'" },
	{ "1_000", "d:1:2: expected the end of the document, found '_'" },
	{ "1,5", "d:1:2: expected the end of the document, found ','" },
	{ "\xef\xbc\x91", "d:1:1: expected a value, found '\xef\xbc\x91'" },
	{ "\"", "d:1:1: this string has no closing quote" },
	{ "\"abc", "d:1:1: this string has no closing quote" },
	{ "[\n \"abc", "d:2:2: this string has no closing quote" },
	{ "\"abc\\",
	  "d:1:6: expected one of \"\\/bfnrtu after a backslash, found the end of the document" },
	{ "\"abc\\\"", "d:1:1: this string has no closing quote" },
	{ "'abc'", "d:1:1: expected a value, found '''" },
	{ "\"a\nb\"", "d:1:3: control character U+000A in a string must be escaped" },
	{ "\"a\tb\"", "d:1:3: control character U+0009 in a string must be escaped" },
	{ "\"a\x1f\"", "d:1:3: control character U+001F in a string must be escaped" },
	{ "\"\\x41\"", "d:1:3: expected one of \"\\/bfnrtu after a backslash, found 'x'" },
	{ "\"\\'\"", "d:1:3: expected one of \"\\/bfnrtu after a backslash, found '''" },
	{ "\"\\\xc3\xa9\"",
	  "d:1:3: expected one of \"\\/bfnrtu after a backslash, found '\xc3\xa9'" },
	{ "\"\\u\"", "d:1:4: expected four hexadecimal digits after \\u, found '\"'" },
	{ "\"\\u12\"", "d:1:6: expected four hexadecimal digits after \\u, found '\"'" },
	{ "\"\\u123g\"", "d:1:7: expected four hexadecimal digits after \\u, found 'g'" },
	{ "\"\\u 123\"", "d:1:4: expected four hexadecimal digits after \\u, found ' '" },
	{ "\"\\u+123\"", "d:1:4: expected four hexadecimal digits after \\u, found '+'" },
	{ "\"\\U0041\"", "d:1:3: expected one of \"\\/bfnrtu after a backslash, found 'U'" },
	{ "\"\\u0000\"", "d:1:2: NUL characters are not allowed" },
	{ "\"ab\\ud800\"", "d:1:4: unpaired surrogate \\ud800" },
	{ "\"ab\\udc00\"", "d:1:4: unpaired surrogate \\udc00" },
	{ "\"\\ud800x\"", "d:1:2: unpaired surrogate \\ud800" },
	{ "\"\\ud800\\n\"", "d:1:2: unpaired surrogate \\ud800" },
	{ "\"\\ud800\\u0041\"", "d:1:2: unpaired surrogate \\ud800" },
	{ "\"\\ud800\\ud800\"", "d:1:2: unpaired surrogate \\ud800" },
	{ "\"\\ud800\\u0000\"", "d:1:2: unpaired surrogate \\ud800" },
	{ "\"\\ud800\\udc0\"", "d:1:13: expected four hexadecimal digits after \\u, found '\"'" },
	{ "\"\\ud800\\u",
	  "d:1:10: expected four hexadecimal digits after \\u, found the end of the document" },
	{ "\"\\ud800\\", "d:1:2: unpaired surrogate \\ud800" },
	{ "\"\\ude00\\ud83d\"", "d:1:2: unpaired surrogate \\ude00" },
	{ "\"\x80\"", "d:1:2: byte 0x80 is not valid UTF-8 here" },
	{ "\"\xc3\"", "d:1:2: byte 0xc3 is not valid UTF-8 here" },
	{ "\"\xc3(\"", "d:1:2: byte 0xc3 is not valid UTF-8 here" },
	{ "\"\xc0\xaf\"", "d:1:2: byte 0xc0 is not valid UTF-8 here" },
	{ "\"\xe0\x80\xaf\"", "d:1:2: byte 0xe0 is not valid UTF-8 here" },
	{ "\"\xed\xa0\x80\"", "d:1:2: byte 0xed is not valid UTF-8 here" },
	{ "\"\xf4\x90\x80\x80\"", "d:1:2: byte 0xf4 is not valid UTF-8 here" },
	{ "\"\xf8\x88\x80\x80\x80\"", "d:1:2: byte 0xf8 is not valid UTF-8 here" },
	{ "\"\xe2\x82", "d:1:2: byte 0xe2 is not valid UTF-8 here" },
	{ "[\xe9]", "d:1:2: byte 0xe9 is not valid UTF-8 here" },
	{ "[", "d:1:2: expected a value, found the end of the document" },
	{ "[1", "d:1:3: expected ',' or ']', found the end of the document" },
	{ "[1,", "d:1:4: expected a value, found the end of the document" },
	{ "[1,]", "d:1:4: expected a value, found ']'" },
	{ "[,1]", "d:1:2: expected a value, found ','" },
	{ "[,]", "d:1:2: expected a value, found ','" },
	{ "[1,,2]", "d:1:4: expected a value, found ','" },
	{ "[1 2]", "d:1:4: expected ',' or ']', found '2'" },
	{ "[1:2]", "d:1:3: expected ',' or ']', found ':'" },
	{ "[1}", "d:1:3: expected ',' or ']', found '}'" },
	{ "]", "d:1:1: expected a value, found ']'" },
	{ "[\"a\",\n\n  x]", "d:3:3: expected a value, found 'x'" },
	{ "{", "d:1:2: expected a key in double quotes, found the end of the document" },
	{ "{\"a\"", "d:1:5: expected ':' after a key, found the end of the document" },
	{ "{\"a\":", "d:1:6: expected a value, found the end of the document" },
	{ "{\"a\":1", "d:1:7: expected ',' or '}', found the end of the document" },
	{ "{\"a\":1,", "d:1:8: expected a key in double quotes, found the end of the document" },
	{ "{\"a\":1,}", "d:1:8: expected a key in double quotes, found '}'" },
	{ "{,}", "d:1:2: expected a key in double quotes, found ','" },
	{ "{\"a\" 1}", "d:1:6: expected ':' after a key, found '1'" },
	{ "{\"a\"=1}", "d:1:5: expected ':' after a key, found '='" },
	{ "{\"a\"::1}", "d:1:6: expected a value, found ':'" },
	{ "{\"a\":1:2}", "d:1:7: expected ',' or '}', found ':'" },
	{ "{\"a\":}", "d:1:6: expected a value, found '}'" },
	{ "{a:1}", "d:1:2: expected a key in double quotes, found 'a'" },
	{ "{'a':1}", "d:1:2: expected a key in double quotes, found '''" },
	{ "{1:1}", "d:1:2: expected a key in double quotes, found '1'" },
	{ "{null:1}", "d:1:2: expected a key in double quotes, found 'n'" },
	{ "{[]:1}", "d:1:2: expected a key in double quotes, found '['" },
	{ "{\"a\"]", "d:1:5: expected ':' after a key, found ']'" },
	{ "{\"a\":1]", "d:1:7: expected ',' or '}', found ']'" },
	{ "{\"a\",\"b\"}", "d:1:5: expected ':' after a key, found ','" },
	{ "{\"a\":1 \"b\":2}", "d:1:8: expected ',' or '}', found '\"'" },
	{ "{\"a\":1,\n \"b\":2,\n \"a\":3}", "d:3:2: duplicate key 'a'" },
	{ "{\"a\":1,\"\\u0061\":2}", "d:1:8: duplicate key 'a'" },
	{ "{\"b\":{\"\":1,\"\":1}}", "d:1:12: duplicate key ''" },
	{ "{\"\xc3\xa9\xc3\xa9\":1,\"\xc3\xa9\xc3\xa9\":2}",
	  "d:1:9: duplicate key '\xc3\xa9\xc3\xa9'" },
	{ "[\"\xf0\x9f\x98\x80\", x]", "d:1:7: expected a value, found 'x'" },
	{ "[1\r\n,\r\n!]", "d:3:1: expected a value, found '!'" },
};

static void test_bad(void)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct cordon_error err = CORDON_ERROR_INIT;
		const struct json_value *root = NULL;
		struct arena arena = ARENA_INIT;
		size_t len = strlen(bad[i].text);

		CHECK_INT(read_copy(bad[i].text, len, &arena, &root, &err), -CORDON_E_POLICY);
		CHECK_STR(err.msg, bad[i].message);
		CHECK(root == NULL);
		CHECK_INT(read_copy(bad[i].text, len, &arena, &root, NULL), -CORDON_E_POLICY);
		arena_done(&arena);
	}
}

/* A NUL is a byte like any other to the length, and allowed nowhere. */
static void test_nul(void)
{
	static const struct {
		const char *text;
		size_t len;
		const char *message;
	} cases[] = {
		{ "\0", 1, "d:1:1: expected a value, found U+0000" },
		{ "1\0", 2, "d:1:2: expected the end of the document, found U+0000" },
		{ "\"a\0\"", 4, "d:1:3: NUL characters are not allowed" },
		{ "{\"a\0b\":1}", 9, "d:1:4: NUL characters are not allowed" },
		{ "\"\\\0\"", 4,
		  "d:1:3: expected one of \"\\/bfnrtu after a backslash, found U+0000" },
		{ "\"\\u12\0\x34\"", 8,
		  "d:1:6: expected four hexadecimal digits after \\u, found U+0000" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct json_value *root = NULL;
		struct arena arena = ARENA_INIT;
		struct cordon_error err;

		CHECK_INT(read_copy(cases[i].text, cases[i].len, &arena, &root, &err),
			  -CORDON_E_POLICY);
		CHECK_STR(err.msg, cases[i].message);
		arena_done(&arena);
	}
}

static void test_places(void)
{
	static const char text[] = "{\"a\": [10,\n\t\"\xc3\xa9\", {}],\r\n \"b\" : true}";
	const struct json_value *root = NULL, *a, *b;
	struct arena arena = ARENA_INIT;

	CHECK_INT(read_copy(text, strlen(text), &arena, &root, NULL), 0);
	REQUIRE(root && root->type == JSON_OBJECT);
	a = json_get(root, "a");
	b = json_get(root, "b");
	REQUIRE(a && b && !json_get(root, "c") && !json_get(a, "a"));
	CHECK(a->next == b && !b->next && root->first == a);
	CHECK(root->line == 1 && root->column == 1 && !root->key);
	CHECK(a->key_line == 1 && a->key_column == 2 && a->line == 1 && a->column == 7);
	CHECK(b->key_line == 3 && b->key_column == 2 && b->line == 3 && b->column == 8);
	CHECK(a->first->line == 1 && a->first->column == 8);
	CHECK_STR(a->first->text, "10");
	CHECK(a->first->next->line == 2 && a->first->next->column == 2);
	CHECK(a->first->next->next->line == 2 && a->first->next->next->column == 7);
	arena_done(&arena);
}

static void test_hint(void)
{
	const struct json_value *root = NULL;
	struct arena arena = ARENA_INIT;
	struct cordon_error err;

	CHECK_INT(json_read("[] // x", 7, "d", &arena, &root, &err), -CORDON_E_POLICY);
	CHECK_STR(err.hint, "JSON has no comments");
	arena_done(&arena);
}

static void test_depth(void)
{
	char text[2 * JSON_READ_DEPTH_MAX + 3];

	for (size_t depth = JSON_READ_DEPTH_MAX; depth <= JSON_READ_DEPTH_MAX + 1; depth++) {
		int want = depth > JSON_READ_DEPTH_MAX ? -CORDON_E_POLICY : 0;
		const struct json_value *root = NULL;
		struct arena arena = ARENA_INIT;

		memset(text, '[', depth);
		memset(text + depth, ']', depth);
		CHECK_INT(read_copy(text, 2 * depth, &arena, &root, NULL), want);
		arena_done(&arena);
	}
	/* Depth is what is open at a time, not what was ever opened. */
	struct strbuf wide = STRBUF_INIT;
	const struct json_value *root = NULL;
	struct arena arena = ARENA_INIT;

	strbuf_puts(&wide, "[[]");
	for (int i = 0; i < 4 * JSON_READ_DEPTH_MAX; i++)
		strbuf_puts(&wide, ",[{}]");
	strbuf_puts(&wide, "]");
	CHECK_INT(read_copy(wide.data, wide.len, &arena, &root, NULL), 0);
	arena_done(&arena);
	strbuf_done(&wide);
}

/* '$' stands for the number. */
static void add_item(struct strbuf *out, const char *item, unsigned n)
{
	size_t len = strcspn(item, "$");

	strbuf_add(out, item, len);
	if (item[len])
		strbuf_printf(out, "%06x%s", n, item + len + 1);
}

/* Documents as large as a policy may be, of the shapes that cost most. */
static void test_large(void)
{
	static const struct {
		const char *head, *item, *tail;
	} shapes[] = {
		{ "{\"a\":0", ",\"$\":0", "}" },
		{ "{\"a\":0", ",\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa$\":0", "}" },
		{ "[0", ",0", "]" },
		{ "[0", ",[]", "]" },
		{ "\"", "\\u00e9", "\"" },
		{ "\"", "\\\"", "\"" },
		{ "\"", "x", "" },
		{ "", " ", "1" },
		{ "1", "0", "" },
	};
	clock_t start = clock();

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct strbuf text = STRBUF_INIT;
		const struct json_value *root = NULL;
		struct arena arena = ARENA_INIT;

		strbuf_puts(&text, shapes[i].head);
		for (unsigned n = 0; text.len < ((size_t)1 << 20); n++)
			add_item(&text, shapes[i].item, n);
		strbuf_puts(&text, shapes[i].tail);
		CHECK_INT(read_copy(text.data, text.len, &arena, &root, NULL),
			  i == 6 ? -CORDON_E_POLICY : 0);
		arena_done(&arena);
		strbuf_done(&text);
	}
	/* A few milliseconds each; what is quadratic takes minutes. */
	CHECK((clock() - start) / CLOCKS_PER_SEC < 20);
}

static void test_too_large(void)
{
	const size_t len = JSON_READ_BYTES_MAX + 1;
	const struct json_value *root = NULL;
	struct arena arena = ARENA_INIT;
	struct cordon_error err;
	char *text = malloc(len);

	REQUIRE(text);
	memset(text, ' ', len);
	text[0] = '1';
	CHECK_INT(json_read(text, len - 1, "d", &arena, &root, &err), 0);
	CHECK_INT(json_read(text, len, "d", &arena, &root, &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg, "d: larger than 16777216 bytes");
	free(text);
	arena_done(&arena);
}

TAP_MAIN(test_good, test_bad, test_nul, test_places, test_hint, test_depth, test_large,
	 test_too_large)

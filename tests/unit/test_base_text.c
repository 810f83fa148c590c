/* SPDX-License-Identifier: Apache-2.0 */
/* Arena, string buffer and JSON writer. */
#include <locale.h>
#include <math.h>

#include "base/arena.h"
#include "base/json_write.h"
#include "base/strbuf.h"
#include "tap.h"

static void test_arena(void)
{
	struct arena arena = ARENA_INIT;
	struct strlist list = { 0 };
	char name[16];

	for (size_t size = 0; size < 300; size++) {
		unsigned char *p = arena_alloc(&arena, size);

		REQUIRE(p != NULL);
		CHECK(((uintptr_t)p & (_Alignof(max_align_t) - 1)) == 0);
		for (size_t i = 0; i < size; i++)
			CHECK(p[i] == 0);
		memset(p, 0xff, size);
	}
	CHECK(arena_alloc(&arena, 1 << 20) != NULL);
	CHECK(arena_alloc(&arena, SIZE_MAX) == NULL);
	CHECK(arena_alloc(&arena, SIZE_MAX - 8) == NULL);
	CHECK(arena_strndup(&arena, "x", SIZE_MAX) == NULL);
	CHECK_STR(arena_strdup(&arena, "abc"), "abc");
	CHECK_STR(arena_strndup(&arena, "abcdef", 2), "ab");
	CHECK_STR(arena_printf(&arena, "%s-%d", "x", 7), "x-7");
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		REQUIRE(strlist_add(&arena, &list, arena_strdup(&arena, name)) == 0);
	}
	CHECK_INT(list.n, 1000);
	CHECK_STR(list.v[0], "n0");
	CHECK_STR(list.v[999], "n999");
	CHECK(strlist_has(&list, "n500"));
	CHECK(!strlist_has(&list, "n1000"));
	arena_done(&arena);
	CHECK(arena.blocks == NULL);
	arena_done(&arena);
}

static void test_strbuf(void)
{
	struct strbuf sb = STRBUF_INIT;
	char *text;

	text = strbuf_take(&sb);
	CHECK_STR(text, "");
	free(text);
	strbuf_puts(&sb, "a");
	strbuf_putc(&sb, 'b');
	strbuf_add(&sb, "cd", 2);
	strbuf_add(&sb, NULL, 0);
	strbuf_printf(&sb, "%0300d", 1);
	CHECK_INT(sb.len, 304);
	text = strbuf_take(&sb);
	CHECK(text && strncmp(text, "abcd000", 7) == 0);
	free(text);

	strbuf_add_escaped(&sb, "ok\x1b]0;t\x07\xff", 9);
	text = strbuf_take(&sb);
	CHECK_STR(text, "ok\\x1b]0;t\\x07\\xff");
	free(text);
}

static void test_strbuf_cap_sticks(void)
{
	struct strbuf sb = { NULL, 0, 0, 10, 0 };

	strbuf_puts(&sb, "0123456789");
	CHECK(!sb.failed);
	strbuf_putc(&sb, 'x');
	CHECK(sb.failed);
	strbuf_puts(&sb, "");
	CHECK_INT(sb.len, 10);
	CHECK(strbuf_take(&sb) == NULL);
	strbuf_done(&sb);
	strbuf_add(&sb, "x", SIZE_MAX);
	CHECK(sb.failed);
	strbuf_done(&sb);
}

static char *write_sample(int pretty)
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;

	json_writer_init(&w, &sb, pretty);
	json_open_object(&w, NULL);
	json_string(&w, "s", "x\"\\\n\t\r\x01");
	json_string(&w, "none", NULL);
	json_open_array(&w, "a");
	json_int(&w, NULL, INT64_MIN);
	json_uint(&w, NULL, UINT64_MAX);
	json_bool(&w, NULL, 1);
	json_close_array(&w);
	json_open_object(&w, "e");
	json_close_object(&w);
	json_open_array(&w, "ea");
	json_close_array(&w);
	json_null(&w, "z");
	json_close_object(&w);
	return strbuf_take(&sb);
}

static void test_json_shape(void)
{
	char *text = write_sample(0);

	CHECK_STR(text,
		  "{\"s\":\"x\\\"\\\\\\n\\t\\r\\u0001\",\"none\":null,\"a\":[-9223372036854775808,"
		  "18446744073709551615,true],\"e\":{},\"ea\":[],\"z\":null}");
	free(text);
	text = write_sample(1);
	CHECK_STR(text,
		  "{\n  \"s\": \"x\\\"\\\\\\n\\t\\r\\u0001\",\n  \"none\": null,\n  \"a\": [\n"
		  "    -9223372036854775808,\n    18446744073709551615,\n    true\n  ],\n"
		  "  \"e\": {},\n  \"ea\": [],\n  \"z\": null\n}");
	free(text);
}

static void check_bytes(const char *in, size_t len, const char *want)
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;
	char *text;

	json_writer_init(&w, &sb, 0);
	json_bytes(&w, NULL, in, len);
	text = strbuf_take(&sb);
	CHECK_STR(text, want);
	free(text);
}

static void test_json_bytes(void)
{
	check_bytes("a\0b", 3, "\"a\\u0000b\"");
	check_bytes("\xff\x80", 2, "\"\\udcff\\udc80\"");
	check_bytes("\xc3\xbc", 2, "\"\xc3\xbc\"");
	check_bytes("\xc3", 1, "\"\\udcc3\"");
	check_bytes("\xed\xb3\xbf", 3, "\"\\udced\\udcb3\\udcbf\"");
	check_bytes("\x1b[1m\x7f", 5, "\"\\u001b[1m\\u007f\"");
	check_bytes("\xc2\x9b", 2, "\"\\u009b\"");
	check_bytes("\xe2\x80\xae", 3, "\"\\u202e\"");
	check_bytes("", 0, "\"\"");
}

static void check_ms(double value, const char *want)
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;
	char *text;

	json_writer_init(&w, &sb, 0);
	json_ms(&w, NULL, value);
	text = strbuf_take(&sb);
	CHECK_STR(text, want);
	free(text);
}

static void test_json_ms(void)
{
	/* Where the locale's decimal point is a comma, JSON's still is a point. */
	setlocale(LC_ALL, "de_DE.UTF-8");
	check_ms(0, "0.000");
	check_ms(3.2, "3.200");
	check_ms(0.0004, "0.000");
	check_ms(0.9996, "1.000");
	check_ms(-0.0001, "0.000");
	check_ms(-1.5, "-1.500");
	check_ms(123456789.125, "123456789.125");
	check_ms(NAN, "null");
	check_ms(INFINITY, "null");
	check_ms(-INFINITY, "null");
	setlocale(LC_ALL, "C");
}

static void test_json_misuse_fails(void)
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;

	json_writer_init(&w, &sb, 1);
	for (int i = 0; i < JSON_DEPTH_MAX; i++)
		json_open_array(&w, NULL);
	CHECK(!sb.failed);
	json_open_array(&w, NULL);
	CHECK(sb.failed);
	strbuf_done(&sb);
	json_writer_init(&w, &sb, 1);
	json_close_array(&w);
	CHECK(sb.failed);
	strbuf_done(&sb);
}

TAP_MAIN(test_arena, test_strbuf, test_strbuf_cap_sticks, test_json_shape, test_json_bytes,
	 test_json_ms, test_json_misuse_fails)

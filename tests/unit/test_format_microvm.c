/* SPDX-License-Identifier: Apache-2.0 */
/* What a guest of level microvm says: only what is due, whole and bounded is taken. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cordon/run.h>

#include "format/microvm.h"
#include "tap.h"

/* Nothing readable behind the end. */
static char *exact(const void *data, size_t len)
{
	char *copy = malloc(len ? len : 1);

	if (!copy)
		abort();
	memcpy(copy, data, len);
	return copy;
}

static void test_messages(void)
{
	struct strbuf sb = STRBUF_INIT;
	struct microvm_message m;
	size_t at = microvm_begin(&sb, MICROVM_SIGNAL);
	const char *text;
	char field;

	microvm_add_number(&sb, FIELD_NUMBER, 15);
	microvm_add(&sb, FIELD_ARG, "");
	microvm_end(&sb, at);
	for (size_t len = 0; len <= sb.len; len++) {
		char *copy = exact(sb.data, len);
		int64_t used = microvm_parse(copy, len, MICROVM_SIGNAL, 64, &m);

		CHECK_INT(used, len < sb.len ? 0 : (int64_t)sb.len);
		/* Another type is refused as soon as it is there, and so is one that is too long.
		 */
		CHECK_INT(microvm_parse(copy, len, MICROVM_EXIT, 64, &m), len < 4 ? 0 : -EPROTO);
		CHECK_INT(microvm_parse(copy, len, MICROVM_SIGNAL, sb.len - MICROVM_HEAD - 1, &m),
			  len < MICROVM_HEAD ? 0 : -EPROTO);
		free(copy);
	}
	CHECK_INT(microvm_parse(sb.data, sb.len, MICROVM_SIGNAL, 64, &m), (int64_t)sb.len);
	CHECK_INT(microvm_next(&m, &field, &text), 1);
	CHECK(field == FIELD_NUMBER && strcmp(text, "15") == 0);
	CHECK_INT(microvm_next(&m, &field, &text), 1);
	CHECK(field == FIELD_ARG && *text == '\0');
	CHECK_INT(microvm_next(&m, &field, &text), 0);
	strbuf_done(&sb);
}

static void test_fields_that_are_none(void)
{
	static const char *const data[] = { "N15", "" };
	static const size_t lens[] = { 3, 1 };

	for (size_t i = 0; i < ARRAY_SIZE(data); i++) {
		char *copy = exact(data[i], lens[i]);
		struct microvm_message m = { .data = copy, .len = lens[i] };
		const char *text;
		char field;

		CHECK_INT(microvm_next(&m, &field, &text), -EPROTO);
		free(copy);
	}
}

static void test_numbers(void)
{
	static const struct {
		const char *text;
		int64_t want;
		int is_ok;
	} rows[] = {
		{ "0", 0, 1 },
		{ "64", 64, 1 },
		{ "-1", -1, 1 },
		{ "065", 0, 0 },
		{ "65", 0, 0 },
		{ "-2", 0, 0 },
		{ "", 0, 0 },
		{ "-", 0, 0 },
		{ " 1", 0, 0 },
		{ "1 ", 0, 0 },
		{ "+1", 0, 0 },
		{ "0x1", 0, 0 },
		{ "1e1", 0, 0 },
		{ "9223372036854775808", 0, 0 },
		{ "99999999999999999999999999", 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int64_t got = 7;
		int r = microvm_number(rows[i].text, -1, 64, &got);

		CHECK_MSG(r == (rows[i].is_ok ? 0 : -EPROTO), "'%s' gives %d", rows[i].text, r);
		CHECK_INT(got, rows[i].is_ok ? rows[i].want : 7);
	}
}

static int parse(const char *data, size_t len, struct microvm_exit *ret)
{
	char *copy = exact(data, len);
	struct microvm_message m = { .type = MICROVM_EXIT, .data = copy, .len = len };
	int r = microvm_parse_exit(&m, ret);

	free(copy);
	return r;
}

static void test_an_end_comes_back_as_it_was_said(void)
{
	struct microvm_exit exit = { .kind = CORDON_KIND_SIGNALED,
				     .exit_code = -1,
				     .signal = 11,
				     .out_bytes = UINT64_C(1) << 40,
				     .err_bytes = 3,
				     .message = "why\n" },
			    got = { .kind = -7 };
	struct strbuf sb = STRBUF_INIT;

	microvm_add_exit(&sb, &exit);
	CHECK_INT(parse(sb.data + MICROVM_HEAD, sb.len - MICROVM_HEAD, &got), 0);
	CHECK_INT(got.kind, exit.kind);
	CHECK_INT(got.exit_code, -1);
	CHECK_INT(got.signal, 11);
	CHECK(got.out_bytes == exit.out_bytes && got.err_bytes == 3);
	CHECK_STR(got.message, "why\n");
	strbuf_done(&sb);
}

/* Without the NUL that the compiler adds. */
#define END(text) { (text), sizeof(text) - 1 }

static void test_ends_that_are_refused(void)
{
	static const struct {
		const char *data;
		size_t len;
	} rows[] = {
		END(""),
		END("k1\0c0\0s0\0o0\0e0\0"),	    /* no message */
		END("k1\0c0\0s0\0o0\0m\0"),	    /* a field is missing */
		END("k1\0k1\0c0\0s0\0o0\0e0\0m\0"), /* twice */
		END("k1\0c0\0s0\0o0\0e0\0m\0m\0"),
		END("k1\0c0\0s0\0o0\0e0\0m\0x0\0"), /* unknown */
		END("k1\0c0\0s0\0o0\0e0\0m"),	    /* cut off */
		END("k0\0c0\0s0\0o0\0e0\0m\0"),	    /* still running */
		END("k9\0c-1\0s0\0o0\0e0\0m\0"),    /* output: the host counts */
		END("k12\0c-1\0s0\0o0\0e0\0m\0"),   /* denied */
		END("k99\0c0\0s0\0o0\0e0\0m\0"),
		END("k1\0c-1\0s0\0o0\0e0\0m\0"), /* exited without a code */
		END("k1\0c0\0s9\0o0\0e0\0m\0"),	 /* ... and by a signal */
		END("k2\0c0\0s9\0o0\0e0\0m\0"),	 /* a signal and a code */
		END("k2\0c-1\0s0\0o0\0e0\0m\0"),
		END("k1\0c256\0s0\0o0\0e0\0m\0"),
		END("k1\0c0\0s65\0o0\0e0\0m\0"),
		END("k1\0c0\0s0\0o-1\0e0\0m\0"),
		END("k1\0c0\0s0\0o9223372036854775807\0e0\0m\0"),
	};
	struct microvm_exit got = { .kind = -7 };
	char long_text[MICROVM_MESSAGE_MAX + 64] = "k1\0c0\0s0\0o0\0e0\0m";
	const size_t head = sizeof("k1\0c0\0s0\0o0\0e0\0m") - 1;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_MSG(parse(rows[i].data, rows[i].len, &got) == -EPROTO, "row %zu", i);
	memset(long_text + head, 'x', MICROVM_MESSAGE_MAX);
	long_text[head + MICROVM_MESSAGE_MAX] = '\0';
	CHECK_INT(parse(long_text, head + MICROVM_MESSAGE_MAX + 1, &got), -EPROTO);
	CHECK_INT(got.kind, -7);
	/* One byte less fits. */
	long_text[head + MICROVM_MESSAGE_MAX - 1] = '\0';
	CHECK_INT(parse(long_text, head + MICROVM_MESSAGE_MAX, &got), 0);
}

TAP_MAIN(test_messages, test_fields_that_are_none, test_numbers,
	 test_an_end_comes_back_as_it_was_said, test_ends_that_are_refused)

/* SPDX-License-Identifier: Apache-2.0 */
/* Error texts: escaped, cut cleanly, never without their errno. */
#include <errno.h>

#include "base/err.h"
#include "format/stage.h"
#include "tap.h"

static struct cordon_error err;

static void test_code_and_message(void)
{
	errno = EBUSY;
	CHECK_INT(cordon_err(&err, CORDON_E_PATH, ENOENT, "cannot grant '%s'", "./dat"),
		  -CORDON_E_PATH);
	CHECK_STR(err.msg, "cannot grant './dat': no such file or directory");
	CHECK_INT(err.code, CORDON_E_PATH);
	CHECK_INT(err.sys_errno, ENOENT);
	CHECK_STR(err.hint, "");
	CHECK_INT(errno, EBUSY);

	CHECK_INT(cordon_err(&err, CORDON_E_USAGE, 0, "plain"), -CORDON_E_USAGE);
	CHECK_STR(err.msg, "plain");
	CHECK_INT(err.sys_errno, 0);
	cordon_err(&err, CORDON_E_SYSTEM, 4094, "odd");
	CHECK_STR(err.msg, "odd: errno 4094");
	cordon_err(&err, CORDON_E_SYSTEM, EISDIR, "x");
	CHECK_STR(err.msg, "x: is a directory");
}

static void test_remedies(void)
{
	/* By the errno alone, unless the caller knows better, and for no other error. */
	cordon_err(&err, CORDON_E_SYSTEM, EMFILE, "x");
	CHECK_STR(err.hint, "raise the limit of open files: ulimit -n");
	cordon_err_hint(&err, "other");
	CHECK_STR(err.hint, "other");
	cordon_err(&err, CORDON_E_SYSTEM, ENFILE, "x");
	CHECK_STR(err.hint, "the whole system's limit: sysctl fs.file-max");
	cordon_err(&err, CORDON_E_SYSTEM, EACCES, "x");
	CHECK_STR(err.hint, "");

	CHECK_INT(cordon_err_cwd(&err, ENOENT), -CORDON_E_PATH);
	CHECK_STR(err.msg, "the current directory was deleted");
	CHECK_STR(err.hint, "cd to one that exists");
	CHECK_INT(cordon_err_cwd(&err, EACCES), -CORDON_E_PATH);
	CHECK_STR(err.msg, "cannot get the path of the current directory: permission denied");
	CHECK_STR(err.hint, "");
}

static void test_null_is_fine(void)
{
	CHECK_INT(cordon_err_cwd(NULL, ENOENT), -CORDON_E_PATH);
	CHECK_INT(cordon_err(NULL, CORDON_E_NOMEM, 0, "%s", "x"), -CORDON_E_NOMEM);
	CHECK_INT(cordon_err_hint(NULL, "x"), 0);
	cordon_err_prefix(NULL, "x");
}

static void test_escapes(void)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "a\x1b[31mb", "a\\x1b[31mb" },
		{ "tab\tnew\nline\r", "tab\\x09new\\x0aline\\x0d" },
		{ "\x7f", "\\x7f" },
		{ "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" },
		{ "\xff\xfe", "\\xff\\xfe" },
		{ "\xc2\x9b", "\\u009b" },
		{ "\xe2\x80\xae", "\\u202e" },
		{ "\xe2\x80\x8f", "\\u200f" },	    /* right-to-left mark */
		{ "\xe2\x80\x8b", "\\u200b" },	    /* space without width */
		{ "\xe2\x80\x8d", "\xe2\x80\x8d" }, /* joiner */
		{ "\xe2\x80\xa8", "\\u2028" },
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },
		{ "\xc0\xaf", "\\xc0\\xaf" },
		{ "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },
		{ "\xe2\x82", "\\xe2\\x82" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cordon_err(&err, CORDON_E_PATH, 0, "%s", rows[i].in);
		CHECK_STR(err.msg, rows[i].out);
		cordon_err_hint(&err, "%s", rows[i].in);
		CHECK_STR(err.hint, rows[i].out);
	}
}

static void test_long_text_is_cut_at_a_character(void)
{
	char text[3000];

	/* Every length around the limits, with characters of each width and with escapes. */
	static const char *const fill[] = { "x",  "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
					    "\n", "\xff" };

	for (size_t f = 0; f < ARRAY_SIZE(fill); f++) {
		size_t width = strlen(fill[f]);

		for (size_t n = 1; n * width < sizeof(text) - 1; n += n < 260 ? 1 : 97) {
			size_t len;

			for (size_t i = 0; i < n; i++)
				memcpy(text + i * width, fill[f], width);
			text[n * width] = '\0';
			cordon_err(&err, CORDON_E_PATH, ENOENT, "%s", text);
			len = strlen(err.msg);
			CHECK(len < sizeof(err.msg));
			REQUIRE(len > 27);
			CHECK_STR(err.msg + len - 27, ": no such file or directory");
			/* Nothing but whole characters and escapes: escaping again changes nothing.
			 */
			CHECK(strncmp(err.msg, text, 1) == 0 || err.msg[0] == '\\');
			if (n * width > 300) {
				CHECK(strstr(err.msg, "...: no such") != NULL);
				CHECK(len > sizeof(err.msg) - 10);
			}
			if (width > 1)
				CHECK(strstr(err.msg, "\\x") == NULL);
		}
	}
}

static void test_hint_and_prefix(void)
{
	char text[400];

	cordon_err(&err, CORDON_E_POLICY, 0, "bad");
	CHECK_INT(cordon_err_hint(&err, "use %d", 7), -CORDON_E_POLICY);
	CHECK_STR(err.hint, "use 7");
	CHECK_STR(err.msg, "bad");
	cordon_err_prefix(&err, "limits.%s", "wall");
	CHECK_STR(err.msg, "limits.wall: bad");
	CHECK_STR(err.hint, "use 7");
	/* The old text as an argument of the new one. */
	cordon_err_hint(&err, "%s, %s", err.hint, "or 8");
	CHECK_STR(err.hint, "use 7, or 8");

	memset(text, 'p', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	cordon_err_prefix(&err, "%s\n", text);
	CHECK_STR(err.msg + strlen(err.msg) - 21, "...: limits.wall: bad");
	CHECK_INT(strlen(err.msg), sizeof(err.msg) - 1);

	cordon_err(&err, CORDON_E_POLICY, 0, "%s", text);
	cordon_err_prefix(&err, "file.json");
	CHECK(strncmp(err.msg, "file.json: ppp", 14) == 0);
	CHECK_STR(err.msg + strlen(err.msg) - 4, "p...");
	CHECK(strlen(err.msg) < sizeof(err.msg));
}

static void test_names(void)
{
	CHECK_STR(cordon_error_name(CORDON_E_POLICY), "policy");
	CHECK_STR(cordon_error_name(0), "none");
	CHECK_STR(cordon_error_name(-1), "unknown");
	CHECK_STR(cordon_error_name(CORDON_E_MAX), "unknown");
	CHECK_STR(cordon_stage_name(0), "outside");
	CHECK_STR(cordon_stage_name(STAGE_MOUNTS), "mounts");
	CHECK_STR(cordon_stage_name(9), "exec");
	CHECK_STR(cordon_stage_name(STAGE_MAX), "unknown");
	for (int i = 0; i < CORDON_E_MAX; i++)
		CHECK(cordon_error_name(i) != NULL);
	for (unsigned i = 0; i < STAGE_MAX; i++)
		CHECK(cordon_stage_name(i) != NULL);
}

TAP_MAIN(test_code_and_message, test_remedies, test_null_is_fine, test_escapes,
	 test_long_text_is_cut_at_a_character, test_hint_and_prefix, test_names)

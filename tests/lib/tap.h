/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_LIB_TAP_H
#define TESTS_LIB_TAP_H

/*
 * A small TAP producer for C unit tests.
 *
 *	static void test_adds(void)
 *	{
 *		CHECK(1 + 1 == 2);
 *		CHECK_INT(add(2, 3), 5);
 *		CHECK_STR(name(), "x");
 *	}
 *
 *	TAP_MAIN(test_adds, test_subtracts)
 *
 * Each function is one TAP point. A failed check prints where and why as a diagnostic and the
 * function goes on, so that one run shows all failures; REQUIRE() leaves the function instead.
 * Exit status: 0 all points passed or skipped, 1 otherwise. With CORDON_MUST_WORK=1 in the
 * environment a skipped point counts as a failure.
 */

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TAP_NAME_MAX 80
/* Diagnostics shown for one point at most. */
#define TAP_DIAG_MAX 50

static unsigned int tap_failures; /* failed checks of the running point */
static char tap_skip_reason[160];

__attribute__((format(printf, 3, 4), unused)) static void tap_fail(const char *file, int line,
								   const char *fmt, ...)
{
	va_list ap;

	if (tap_failures++ >= TAP_DIAG_MAX)
		return;
	printf("# %s:%d: ", file, line);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

__attribute__((unused)) static void tap_check_int(const char *file, int line, const char *expr,
						  intmax_t got, intmax_t want)
{
	if (got != want)
		tap_fail(file, line, "%s is %jd, expected %jd", expr, got, want);
}

__attribute__((unused)) static void tap_check_str(const char *file, int line, const char *expr,
						  const char *got, const char *want)
{
	if (got == want || (got && want && !strcmp(got, want)))
		return;
	tap_fail(file, line, "%s is \"%s\", expected \"%s\"", expr, got ? got : "(null)",
		 want ? want : "(null)");
}

/* clang-format off */
#define CHECK(cond) \
	do { if (!(cond)) tap_fail(__FILE__, __LINE__, "failed: %s", #cond); } while (0)
#define CHECK_MSG(cond, ...) \
	do { if (!(cond)) tap_fail(__FILE__, __LINE__, __VA_ARGS__); } while (0)
#define CHECK_INT(got, want) \
	tap_check_int(__FILE__, __LINE__, #got, (intmax_t)(got), (intmax_t)(want))
#define CHECK_STR(got, want) \
	tap_check_str(__FILE__, __LINE__, #got, (got), (want))
#define REQUIRE(cond) \
	do { \
		if (!(cond)) { \
			tap_fail(__FILE__, __LINE__, "required: %s", #cond); \
			return; \
		} \
	} while (0)
#define SKIP(...) \
	do { \
		snprintf(tap_skip_reason, sizeof(tap_skip_reason), __VA_ARGS__); \
		return; \
	} while (0)
/* clang-format on */

/* Cuts the next name out of "test_a, test_b"; returns where to go on. */
static const char *tap_next_name(const char *list, char name[TAP_NAME_MAX])
{
	size_t len = 0;

	while (*list == ' ' || *list == ',' || *list == '\n' || *list == '\t')
		list++;
	for (; *list && *list != ',' && *list != ' '; list++) {
		if (len < TAP_NAME_MAX - 1)
			name[len++] = *list;
	}
	name[len] = '\0';
	return list;
}

static int tap_run(void (*const tests[])(void), size_t count, const char *names)
{
	const char *must = getenv("CORDON_MUST_WORK");
	unsigned int failed_points = 0;
	char name[TAP_NAME_MAX];

	/* A crash must not lose the points before it. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	umask(022); /* tests compare modes */
	for (size_t i = 0; i < count; i++) {
		const char *skip = tap_skip_reason;

		names = tap_next_name(names, name);
		tap_failures = 0;
		tap_skip_reason[0] = '\0';
		tests[i]();
		if (*skip && must && !strcmp(must, "1"))
			tap_fail(name, 0, "skipped although CORDON_MUST_WORK=1: %s", skip);
		if (tap_failures > TAP_DIAG_MAX)
			printf("# ... and %u more\n", tap_failures - TAP_DIAG_MAX);
		if (tap_failures)
			failed_points++;
		printf("%sok %zu - %s%s%s\n", tap_failures ? "not " : "", i + 1, name,
		       *skip && !tap_failures ? " # SKIP " : "", tap_failures ? "" : skip);
	}
	printf("1..%zu\n", count);
	return failed_points ? 1 : 0;
}

#define TAP_MAIN(...)                                                                              \
	int main(void)                                                                             \
	{                                                                                          \
		static void (*const tests[])(void) = { __VA_ARGS__ };                              \
                                                                                                   \
		return tap_run(tests, sizeof(tests) / sizeof(tests[0]), #__VA_ARGS__);             \
	}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy reader. Whatever the bytes are: no crash, an error that is one clean line, and a
 * policy that was accepted writes itself to JSON that reads back as the same policy.
 *
 * The input is taken as a document, and each of its lines with a '=' as one setting.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cordon/policy.h>

#include "base/utf8.h"

#define SETTINGS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *s, size_t size)
{
	size_t len = strnlen(s, size);
	uint32_t cp;

	if (len == size)
		abort();
	while (len > 0) {
		size_t n = utf8_decode(s, len, &cp);

		if (n == 0 || utf8_is_control(cp))
			abort();
		s += n;
		len -= n;
	}
}

static void check_error(int r, const struct cordon_error *err)
{
	if (r >= 0)
		return;
	if (err->code != -r || !err->msg[0])
		abort();
	check_text(err->msg, sizeof(err->msg));
	check_text(err->hint, sizeof(err->hint));
}

static int is_utf8(const char *s)
{
	size_t len = strlen(s), n;
	uint32_t cp;

	for (; len > 0; s += n, len -= n) {
		n = utf8_decode(s, len, &cp);
		if (n == 0)
			return 0;
	}
	return 1;
}

/* Written, read and written again: both texts must be the same. */
static void check_round_trip(const struct cordon_policy *policy)
{
	struct cordon_policy *again = NULL, *copy = NULL;
	char *first = NULL, *second = NULL, *third = NULL;

	if (cordon_policy_to_json(policy, &first, NULL) < 0 || !is_utf8(first))
		abort();
	/* Bytes that are not UTF-8 are written as lone surrogates, which no reader takes back. */
	if (!strstr(first, "\\udc")) {
		if (cordon_policy_new(&again, NULL) < 0 ||
		    cordon_policy_json(again, first, strlen(first), "again", NULL, NULL) < 0 ||
		    cordon_policy_to_json(again, &second, NULL) < 0 || strcmp(first, second) != 0)
			abort();
	}
	if (cordon_policy_copy(policy, &copy, NULL) < 0 ||
	    cordon_policy_to_json(copy, &third, NULL) < 0 || strcmp(first, third) != 0)
		abort();
	cordon_policy_free(again);
	cordon_policy_free(copy);
	cordon_free(first);
	cordon_free(second);
	cordon_free(third);
}

static void try_document(const uint8_t *data, size_t size, const char *base_dir)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *policy = NULL;
	int r;

	if (cordon_policy_new(&policy, NULL) < 0)
		abort();
	r = cordon_policy_json(policy, (const char *)data, size, "in\x1bput", base_dir, &err);
	check_error(r, &err);
	check_round_trip(policy);
	cordon_policy_free(policy);
}

static void try_settings(const uint8_t *data, size_t size)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *policy = NULL;
	char *text = malloc(size + 1), *line, *rest, *equals;

	if (!text || cordon_policy_new(&policy, NULL) < 0)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	rest = text;
	for (int i = 0; i < SETTINGS_MAX && (line = strsep(&rest, "\n")); i++) {
		equals = strchr(line, '=');
		if (!equals)
			continue;
		*equals = '\0';
		check_error(cordon_policy_set(policy, line, equals + 1, &err), &err);
	}
	check_round_trip(policy);
	cordon_policy_free(policy);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_document(data, size, NULL);
	try_document(data, size, "/base");
	try_settings(data, size);
	return 0;
}

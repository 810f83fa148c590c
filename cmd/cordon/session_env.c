/* SPDX-License-Identifier: Apache-2.0 */
#include "session_env.h"

#include <stdlib.h>
#include <string.h>

#define VARIABLES_MAX 64
#define BYTES_MAX ((size_t)256 << 10)

static char *variables[VARIABLES_MAX];
static size_t n_variables;

/* The length of a name and its '='; 0 = it is no variable. */
static size_t name_len(const char *text)
{
	size_t n = strcspn(text, "=");

	return n && text[n] ? n + 1 : 0;
}

static int is_same_name(const char *a, const char *b)
{
	return name_len(a) == name_len(b) && !strncmp(a, b, name_len(a));
}

static size_t place_of(const char *text)
{
	size_t i = 0;

	while (i < n_variables && !is_same_name(variables[i], text))
		i++;
	return i;
}

static int fits(const char *const *given)
{
	size_t n = n_variables, bytes = 0;

	for (size_t i = 0; i < n_variables; i++)
		bytes += strlen(variables[i]);
	for (; *given; given++) {
		if (!name_len(*given))
			return 0;
		bytes += strlen(*given);
		n += place_of(*given) == n_variables;
	}
	return n <= VARIABLES_MAX && bytes <= BYTES_MAX;
}

void session_env_set(struct client *c)
{
	const char **given = c->wire.strings + 1;

	if (!fits(given)) {
		clients_reply_usage(c, "NAME=VALUE is needed; 64 variables and 256 KiB at most");
		return;
	}
	for (; *given; given++) {
		size_t i = place_of(*given);
		char *copy = strdup(*given);

		if (!copy) {
			clients_reply_usage(c, "out of memory");
			return;
		}
		free(i < n_variables ? variables[i] : NULL);
		variables[i] = copy;
		n_variables += i == n_variables;
	}
	clients_reply_ok(c, "");
}

static int is_among(const char *const *own, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++)
		if (is_same_name(own[i], text))
			return 1;
	return 0;
}

const char **session_env_with(const char *const *own, size_t n)
{
	const char **all = calloc(n_variables + n + 1, sizeof(*all));
	size_t count = 0;

	if (!all)
		return NULL;
	for (size_t i = 0; i < n_variables; i++)
		if (!is_among(own, n, variables[i]))
			all[count++] = variables[i];
	for (size_t i = 0; i < n; i++)
		all[count++] = own[i];
	return all;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "net/name.h"

#include <string.h>

#include "base/ascii.h"

#define LABEL_MAX 63

static bool is_label_byte(char c)
{
	return (c >= 'a' && c <= 'z') || ascii_is_digit(c) || c == '-' || c == '_';
}

/* Would a lenient parser of addresses take the (lower case) label for a number? */
static bool is_number(const char *label, size_t len)
{
	bool is_hex = len >= 2 && label[0] == '0' && label[1] == 'x';

	for (size_t i = is_hex ? 2 : 0; i < len; i++) {
		if (!ascii_is_digit(label[i]) && !(is_hex && label[i] >= 'a' && label[i] <= 'f'))
			return false;
	}
	return true;
}

static bool is_label(const char *label, size_t len)
{
	if (len == 0 || len > LABEL_MAX || label[0] == '-' || label[len - 1] == '-')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!is_label_byte(label[i]))
			return false;
	}
	return true;
}

int net_name_parse(const char *text, size_t len, char ret[NET_NAME_MAX + 1])
{
	size_t start = 0;

	ret[0] = '\0';
	if (len > 0 && text[len - 1] == '.')
		len--;
	if (len == 0 || len > NET_NAME_MAX)
		return -1;
	for (size_t i = 0; i < len; i++)
		ret[i] = ascii_lower(text[i]);
	ret[len] = '\0';
	for (size_t i = 0; i <= len; i++) {
		if (i < len && ret[i] != '.')
			continue;
		if (!is_label(ret + start, i - start) ||
		    (i == len && is_number(ret + start, i - start))) {
			ret[0] = '\0';
			return -1;
		}
		start = i + 1;
	}
	return 0;
}

static size_t length(const char *name)
{
	size_t len = 0;

	while (name[len])
		len++;
	return len;
}

bool net_name_equal(const char *a, const char *b)
{
	size_t len = length(a);

	return len == length(b) && memcmp(a, b, len) == 0;
}

bool net_name_is_below(const char *name, const char *parent)
{
	size_t len = length(name), parent_len = length(parent);

	/* At least one byte of a label, and the dot that ends it. */
	if (parent_len == 0 || len < parent_len + 2)
		return false;
	return name[len - parent_len - 1] == '.' &&
	       memcmp(name + len - parent_len, parent, parent_len) == 0;
}

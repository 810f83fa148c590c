/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host names: one strict grammar for everything that names a host, wherever it comes from (a rule,
 * a DNS question, a ClientHello, a Host header, a proxy request).
 *
 * A name is one to 253 bytes of labels of letters, digits, hyphens and underscores, 1 to 63 bytes
 * each, no hyphen at an end of one; one trailing dot is allowed and dropped. A name whose last
 * label is a number (decimal or 0x...) is refused: some resolvers would take it for an address.
 * Names are always compared in canonical form: lower case, no trailing dot.
 */
#ifndef NET_NAME_H
#define NET_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "format/net_rule.h"

/* The canonical form of the @len bytes at @text. 0, or -1 if they are no name. */
int net_name_parse(const char *text, size_t len, char ret[NET_NAME_MAX + 1]);

/* Both canonical. */
bool net_name_equal(const char *a, const char *b);

/* Does @name lie one or more labels below @parent? The parent itself does not. */
bool net_name_is_below(const char *name, const char *parent);

#endif

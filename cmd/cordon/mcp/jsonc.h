/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MCP_JSONC_H
#define MCP_JSONC_H

#include <cordon/error.h>

#include "base/strbuf.h"

/* Puts blanks in the place of comments and trailing commas of the file @name. */
int jsonc_blank(struct strbuf *text, const char *name, struct cordon_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MCP_CONFIG_FILE_H
#define MCP_CONFIG_FILE_H

#include <sys/stat.h>

#include <cordon/error.h>

#include "base/strbuf.h"

/* An ordinary file, and what it was when it was read. */
int config_read(const char *path, struct strbuf *text, struct stat *st, struct cordon_error *err);

/* Refused if the file is not as it was, @old. Owner and mode stay; a link stays a link. */
int config_replace(const char *path, const struct strbuf *text, const struct stat *old,
		   struct cordon_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration whose servers are being wrapped: what of its text changes. */
#ifndef MCP_WRAPPING_H
#define MCP_WRAPPING_H

#include <sys/stat.h>

#include "base/json_read.h"
#include "base/strbuf.h"
#include "config.h"

#define SERVERS_MAX 256

struct edit {
	size_t at, len; /* bytes of the old text that go */
	struct strbuf text;
};

struct wrapping {
	struct words words;
	struct strbuf old, new;
	struct strbuf plain; /* the old text as JSON, with everything at its place */
	const char *owner;   /* the key of the object whose servers these are */
	struct edit edits[2 * SERVERS_MAX];
	size_t n, n_wrapped, n_maps;
	struct {
		const char *owner, *name;
	} servers[4 * SERVERS_MAX];
	size_t n_servers;
	struct stat st; /* of the old text */
	int is_quiet, is_full, is_toml;
};

/* wrap_servers.c */
/* Notes what has to change at the servers of @object, which is what w->old says. */
int wrapping_find(struct wrapping *w, const struct json_value *object, int is_root,
		  struct cordon_error *err);
/* w->new from it. */
void wrapping_apply(struct wrapping *w);

#endif

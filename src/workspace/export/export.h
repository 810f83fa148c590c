/* SPDX-License-Identifier: Apache-2.0 */
/* What patches and archives share: a walk over the changes, and a way out for their bytes. */
#ifndef WORKSPACE_EXPORT_EXPORT_H
#define WORKSPACE_EXPORT_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "base/strbuf.h"
#include "workspace/changes/changes.h"
#include "workspace/changes/walker.h"
#include "workspace/store/store.h"

#define SINK_SIZE 65536

/* Collects bytes for a descriptor. The first failure sticks. */
struct sink {
	int fd;
	int error; /* -errno */
	size_t n;
	uint64_t total; /* bytes so far */
	char buf[SINK_SIZE];
};

void sink_add(struct sink *sink, const void *data, size_t len);
void sink_puts(struct sink *sink, const char *s);
void sink_printf(struct sink *sink, const char *fmt, ...) PRINTF_LIKE(2, 3);
int sink_flush(struct sink *sink); /* 0 or -errno */

struct export
{
	struct cordon_workspace *ws;
	struct ws_changes changes;
	struct walker content, base;
	int content_fd;
	const char *const *paths; /* NULL = everything */
	struct strbuf path, from; /* of the node that it is about */
	bool for_git;		  /* what git can apply, not what a person wants to see */
	int left_out;		  /* changes that the format cannot hold */
	int late_error;		  /* said at the end; the rest is written all the same */
	uint64_t covered;	  /* bytes that the changes themselves have on the disk */
	struct cordon_error *err;
	struct sink sink;
};

/* Goes over all nodes that @paths choose, renamed ones by either name; nodes on the way to others
 * (kind 0) are left out. @fn returns 0 to go on, or a negative code with the error set. Returns how
 * many changes were left out, or a negative code. */
int export_walk(struct export *x, int (*fn)(struct export *x, uint32_t node));

/* Makes everything that export_walk() needs. NULL: the error is set. */
struct export *export_begin(struct cordon_workspace *ws, const char *const *paths, int fd,
			    struct cordon_error *err);
void export_end(struct export *x);

/*
 * Names that share a file, long paths and holes make an export larger than the workspace, which
 * `limits.disk` bounds. It may be larger by this much.
 */
#define EXPORT_MORE_MAX ((uint64_t)256 << 20)
#define EXPORT_ENTRY_BYTES 4096 /* what limits.disk counts for a file without content */

/* @data bytes of @st are about to be written, as @out bytes. 0, or the error is set. */
int export_cover(struct export *x, const struct stat *st, uint64_t data, uint64_t out);

/* "cannot read 'path': ..." */
int export_failed(struct export *x, const char *path, int sys_errno);

/* git_patch.c */

/* A name as git writes it in patches: in quotes if there is anything unusual in it. */
void git_quote(struct strbuf *sb, const char *prefix, const char *path);
/* Would git refuse the path, since it could mean its own directory? */
bool git_refuses(const char *path, bool is_link);
#define GIT_ID_SIZE 41
void git_blob_id(const void *data, size_t len, char ret[GIT_ID_SIZE]);
/* "literal N" and the data in lines of base 85, as `git diff --binary` has it. */
void git_literal(struct sink *sink, const void *data, size_t len);

/* patch.c */
int patch_export(struct export *x);

/* tar.c */
int tar_export(struct export *x);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files that keep the base as it was. */
#ifndef WORKSPACE_RECORD_INTERNAL_H
#define WORKSPACE_RECORD_INTERNAL_H

#include <sys/stat.h>

#include "workspace/record.h"

#define WS_NO_RECORD UINT32_MAX
#define WS_RECORDS_MAX (2u << 20)

/* A forest like that of the changes: a record has a name and a parent. */
struct ws_record {
	const char *name;
	uint32_t parent, next; /* next: in the same chain of the table */
	bool is_live;	       /* else only a directory on the way */
	bool is_uncertain;     /* the base may have been changed before it was written down */
	bool is_whole;	       /* stands for everything below it as well */
	bool has_hash;
	uint8_t type; /* enum cordon_file_type; NONE = there was nothing */
	uint16_t mode;
	uint64_t size, ino;
	struct timespec mtime, ctime;
	struct timespec seen;	/* nothing older was changed since the run saw it */
	unsigned char hash[20]; /* of a file's content, of a link's text */
};

struct ws_records {
	struct arena arena;
	struct ws_record *v;
	size_t n, cap;
	uint32_t *table; /* heads of chains, by parent and name */
	size_t table_size;
	bool is_changed;
	bool is_damaged; /* the file could not be read and counts as empty */
};

struct ws_records *ws_records_new(void);
/* The record of @name below @parent (WS_NO_RECORD = the root), or WS_NO_RECORD. */
uint32_t ws_records_child(const struct ws_records *records, uint32_t parent, const char *name,
			  size_t len);
/* The same; makes one. WS_NO_RECORD: out of memory, or there are too many. */
uint32_t ws_records_make(struct ws_records *records, uint32_t parent, const char *name, size_t len);
/* The record of @path; else the nearest one above it that stands for everything below it. */
const struct ws_record *ws_records_find(const struct ws_records *records, const char *path,
					bool *ret_is_above);

#endif

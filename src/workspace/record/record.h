/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the base, by which a commit recognises conflicts.
 *
 * Recording the whole base before a run would cost as much as there is in it. After a run all
 * changed paths are known, and the base is recorded at those: identity, and a hash of the content
 * up to some amount. A file whose ctime is older than the run's start was not touched since the run
 * saw it, so the record is what the run saw. A younger one is recorded as uncertain. A record is
 * made once for each path and stays.
 *
 * At a commit, for a path of the base:
 *	equal to the workspace's version	-> nothing to do, no conflict
 *	record, certain, same identity		-> as it was
 *	record, certain, same type, mode, hash	-> as it was (touched, or rewritten with the same)
 *	no record (the supervisor was killed)	-> as it was if its ctime is before `created`
 *	anything else				-> conflict
 */
#ifndef WORKSPACE_RECORD_RECORD_H
#define WORKSPACE_RECORD_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "workspace/store/store.h"
#include "workspace/tree/compare.h"

#define WS_NO_RECORD UINT32_MAX
#define WS_RECORDS_MAX (2u << 20)

/* A forest like that of the changes: a record has a name and a parent. */
struct ws_record {
	const char *name;
	uint32_t parent, next; /* next: in the same chain of the table */
	bool is_live;	       /* else only a directory on the way */
	bool is_uncertain;     /* the base may have changed before it was recorded */
	bool is_whole;	       /* stands for everything below it as well */
	bool has_hash;
	uint8_t type; /* enum cordon_file_type; NONE = there was nothing */
	uint16_t mode;
	uint64_t size, ino;
	struct timespec mtime, ctime;
	struct timespec seen; /* nothing older was changed since the run saw it */
	struct ws_hash hash;  /* of a file's content, of a link's text */
};

struct ws_records {
	struct arena arena;
	struct ws_record *v;
	size_t n, cap;
	uint32_t *table; /* heads of chains, by parent and name */
	size_t table_size;
	bool is_changed;
};

/* A file that is damaged counts as empty. */
int ws_records_load(struct cordon_workspace *ws, struct ws_records **ret, struct cordon_error *err);
void ws_records_free(struct ws_records *records);

/* Forgets the record of a path that was committed. */
void ws_records_drop(struct ws_records *records, const char *path);
/* The same where the copy keeps what was committed: @st is what the base has now. */
void ws_records_keep(struct ws_records *records, const char *path, const struct stat *st);
int ws_records_save(struct cordon_workspace *ws, struct ws_records *records,
		    struct cordon_error *err);

struct ws_records *ws_records_new(void);
/* A hash of a name below its parent, for tables of forests. */
uint64_t ws_name_hash(uint32_t parent, const char *name, size_t len);
/* The record of @name below @parent (WS_NO_RECORD = the root), or WS_NO_RECORD. */
uint32_t ws_records_child(const struct ws_records *records, uint32_t parent, const char *name,
			  size_t len);
/* The same; makes one. WS_NO_RECORD: out of memory, or there are too many. */
uint32_t ws_records_make(struct ws_records *records, uint32_t parent, const char *name, size_t len);
/* The record of @path; else the nearest one above it that stands for everything below it. */
const struct ws_record *ws_records_find(const struct ws_records *records, const char *path,
					bool *ret_is_above);

#endif

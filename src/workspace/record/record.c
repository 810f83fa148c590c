/* SPDX-License-Identifier: Apache-2.0 */
/* Records in memory: a forest with a table to find children by. */
#include "workspace/record/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_MIN 256

uint64_t ws_name_hash(uint32_t parent, const char *name, size_t len)
{
	uint64_t h = (0xcbf29ce484222325u ^ parent) * 0x100000001b3u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)name[i]) * 0x100000001b3u;
	return h ^ h >> 29;
}

struct ws_records *ws_records_new(void)
{
	return calloc(1, sizeof(struct ws_records));
}

void ws_records_free(struct ws_records *records)
{
	if (!records)
		return;
	arena_done(&records->arena);
	free(records->v);
	free(records->table);
	free(records);
}

uint32_t ws_records_child(const struct ws_records *records, uint32_t parent, const char *name,
			  size_t len)
{
	uint32_t i;

	if (records->table_size == 0)
		return WS_NO_RECORD;
	i = records->table[ws_name_hash(parent, name, len) & (records->table_size - 1)];
	while (i != WS_NO_RECORD) {
		const struct ws_record *r = &records->v[i];

		if (r->parent == parent && strncmp(r->name, name, len) == 0 && r->name[len] == '\0')
			break;
		i = r->next;
	}
	return i;
}

static void link_record(struct ws_records *records, uint32_t i)
{
	struct ws_record *r = &records->v[i];
	size_t slot = ws_name_hash(r->parent, r->name, strlen(r->name)) & (records->table_size - 1);

	r->next = records->table[slot];
	records->table[slot] = i;
}

static int grow(struct ws_records *records)
{
	size_t size = records->table_size ? records->table_size * 2 : TABLE_MIN;
	struct ws_record *v;
	uint32_t *table;

	if (records->n < records->cap)
		return 0;
	if (records->n >= WS_RECORDS_MAX)
		return -E2BIG;
	v = reallocarray(records->v, size, sizeof(*v));
	if (!v)
		return -ENOMEM;
	records->v = v;
	table = calloc(size, sizeof(*table));
	if (!table)
		return -ENOMEM;
	free(records->table);
	records->table = table;
	records->table_size = records->cap = size;
	for (size_t i = 0; i < size; i++)
		table[i] = WS_NO_RECORD;
	for (uint32_t i = 0; i < records->n; i++)
		link_record(records, i);
	return 0;
}

uint32_t ws_records_make(struct ws_records *records, uint32_t parent, const char *name, size_t len)
{
	uint32_t i = ws_records_child(records, parent, name, len);

	if (i != WS_NO_RECORD)
		return i;
	if (grow(records) < 0)
		return WS_NO_RECORD;
	i = (uint32_t)records->n;
	records->v[i] = (struct ws_record){
		.name = arena_strndup(&records->arena, name, len),
		.parent = parent,
	};
	if (!records->v[i].name)
		return WS_NO_RECORD;
	records->n++;
	link_record(records, i);
	return i;
}

const struct ws_record *ws_records_find(const struct ws_records *records, const char *path,
					bool *ret_is_above)
{
	const struct ws_record *above = NULL;
	uint32_t at = WS_NO_RECORD;

	*ret_is_above = false;
	for (;;) {
		size_t len = strcspn(path, "/");

		at = ws_records_child(records, at, path, len);
		if (at == WS_NO_RECORD)
			break;
		path += len;
		if (*path == '\0') {
			if (records->v[at].is_live)
				return &records->v[at];
			break;
		}
		if (records->v[at].is_live && records->v[at].is_whole)
			above = &records->v[at];
		path++;
	}
	*ret_is_above = above != NULL;
	return above;
}

void ws_records_drop(struct ws_records *records, const char *path)
{
	bool is_above;
	const struct ws_record *r = ws_records_find(records, path, &is_above);

	if (r && !is_above) {
		records->v[r - records->v].is_live = false;
		records->is_changed = true;
	}
}

void ws_records_keep(struct ws_records *records, const char *path, const struct stat *st)
{
	uint32_t at = WS_NO_RECORD;
	struct ws_record *r;

	for (;;) {
		size_t len = strcspn(path, "/");

		at = ws_records_make(records, at, path, len);
		/* Too many records: only times tell then. */
		if (at == WS_NO_RECORD)
			return;
		path += len;
		if (*path == '\0')
			break;
		path++;
	}
	r = &records->v[at];
	r->is_live = true;
	r->is_uncertain = r->is_whole = r->has_hash = false;
	r->type = (uint8_t)ws_file_type(st->st_mode);
	r->mode = st->st_mode & 07777;
	r->size = (uint64_t)st->st_size;
	r->ino = st->st_ino;
	r->mtime = st->st_mtim;
	r->ctime = r->seen = st->st_ctim;
	records->is_changed = true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Finding nodes by name: an array sorted by a hash of parent and name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "workspace/commit/commit.h"

struct entry {
	uint64_t hash;
	uint32_t node;
};

struct node_index {
	const struct ws_changes *changes;
	size_t n;
	struct entry v[];
};

static int compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

int node_index_make(const struct ws_changes *changes, struct node_index **ret)
{
	struct node_index *index;

	index = malloc(sizeof(*index) + changes->n * sizeof(index->v[0]));
	if (!index)
		return -ENOMEM;
	index->changes = changes;
	index->n = changes->n;
	for (size_t i = 0; i < changes->n; i++) {
		const struct ws_node *node = &changes->v[i];

		index->v[i].hash = ws_name_hash(node->parent, node->name, strlen(node->name));
		index->v[i].node = (uint32_t)i;
	}
	qsort(index->v, index->n, sizeof(index->v[0]), compare);
	*ret = index;
	return 0;
}

void node_index_free(struct node_index *index)
{
	free(index);
}

uint32_t node_index_child(const struct node_index *index, uint32_t parent, const char *name,
			  size_t len)
{
	uint64_t hash = ws_name_hash(parent, name, len);
	size_t low = 0, high = index->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (index->v[mid].hash < hash)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < index->n && index->v[low].hash == hash; low++) {
		const struct ws_node *node = &index->changes->v[index->v[low].node];

		if (node->parent == parent && strlen(node->name) == len &&
		    memcmp(node->name, name, len) == 0)
			return index->v[low].node;
	}
	return WS_NO_NODE;
}

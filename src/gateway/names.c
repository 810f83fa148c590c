/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which address stands for which name. An address is never given to a second name, so that a
 * program may keep it.
 */
#include "gateway/gateway.h"

#define NAMES_MAX 4096
#define BUCKETS 4096 /* a power of two */

static struct name names[NAMES_MAX];
static uint16_t buckets[BUCKETS]; /* 1 + index of the first one, 0 = none */
static uint16_t nexts[NAMES_MAX];
static uint32_t n_names;

static uint32_t hash_of(const char *text)
{
	uint32_t h = 2166136261u;

	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 16777619u;
	return h & (BUCKETS - 1);
}

struct name *name_find(const char *text)
{
	for (uint32_t at = buckets[hash_of(text)]; at; at = nexts[at - 1]) {
		if (net_name_equal(names[at - 1].text, text))
			return &names[at - 1];
	}
	return NULL;
}

struct name *name_add(struct gateway *g, const char *text)
{
	struct name *name = name_find(text);
	uint32_t bucket;

	(void)g;
	if (name)
		return name;
	if (n_names == NAMES_MAX)
		return NULL;
	name = &names[n_names];
	for (size_t i = 0; i < NET_NAME_MAX && text[i]; i++)
		name->text[i] = text[i];
	name->number = GATEWAY_POOL_FIRST + n_names;
	bucket = hash_of(text);
	nexts[n_names] = buckets[bucket];
	buckets[bucket] = (uint16_t)++n_names;
	return name;
}

struct name *name_of(const struct net_addr *addr)
{
	static const uint8_t pool6[12] = GATEWAY_POOL6;
	const uint8_t *b = addr->bytes;
	uint32_t number;

	if (addr->is_v6) {
		if (memcmp(b, pool6, sizeof(pool6)) != 0)
			return NULL;
		b += sizeof(pool6);
	}
	number = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
	if (number < GATEWAY_POOL_NET + GATEWAY_POOL_FIRST ||
	    number - GATEWAY_POOL_NET - GATEWAY_POOL_FIRST >= n_names)
		return NULL;
	return &names[number - GATEWAY_POOL_NET - GATEWAY_POOL_FIRST];
}

void name_address(const struct name *name, bool is_v6, struct net_addr *ret)
{
	static const uint8_t pool6[12] = GATEWAY_POOL6;
	uint32_t number = GATEWAY_POOL_NET + name->number;
	uint8_t *b = ret->bytes;

	memset(ret, 0, sizeof(*ret));
	ret->is_v6 = is_v6;
	if (is_v6) {
		memcpy(b, pool6, sizeof(pool6));
		b += sizeof(pool6);
	}
	b[0] = (uint8_t)(number >> 24);
	b[1] = (uint8_t)(number >> 16);
	b[2] = (uint8_t)(number >> 8);
	b[3] = (uint8_t)number;
}

bool name_is_denied(const struct gateway *g, const struct name *name, uint16_t port)
{
	for (uint32_t i = 0; i < g->config->n_ports; i++) {
		if (g->config->ports[i] == port)
			return name->denied.ports >> i & 1;
	}
	return name->denied.ports != 0;
}

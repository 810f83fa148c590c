/* SPDX-License-Identifier: Apache-2.0 */
/* What is told to the supervisor: bytes, and what was refused. */
#include "gateway/gateway.h"

static bool is_same(const char *a, const char *b)
{
	size_t i = 0;

	while (a[i] && a[i] == b[i])
		i++;
	return a[i] == b[i];
}

/* The guest's text is cut, and loses everything that a terminal could take for a control sequence.
 */
static void keep_text(char *ret, size_t cap, const char *text)
{
	size_t i = 0;

	for (; text && text[i] && i + 1 < cap; i++)
		ret[i] = text[i] >= ' ' && text[i] < 0x7f ? text[i] : '?';
	memset(ret + i, 0, cap - i);
}

void deny(struct gateway *g, enum gateway_reason reason, const char *host, uint16_t port,
	  const char *other)
{
	struct gateway_account *a = g->account;
	struct gateway_denial new;

	memset(&new, 0, sizeof(new));
	new.reason = (uint16_t)reason;
	new.port = port;
	new.count = 1;
	keep_text(new.host, sizeof(new.host), host);
	keep_text(new.other, sizeof(new.other), other);
	for (uint32_t i = 0; i < a->n_denials; i++) {
		struct gateway_denial *d = &a->denials[i];

		if (d->reason == new.reason && d->port == new.port &&is_same(d->host, new.host) &&
		    is_same(d->other, new.other)) {
			d->count++;
			return;
		}
	}
	if (a->n_denials == GATEWAY_DENIALS_MAX) {
		a->n_more++;
		return;
	}
	a->denials[a->n_denials] = new;
	/* A reader sees complete entries only. */
	__atomic_store_n(&a->n_denials, a->n_denials + 1, __ATOMIC_RELEASE);
}

void count_bytes(struct gateway *g, bool is_in, uint64_t n)
{
	struct gateway_account *a = g->account;

	if (is_in)
		a->bytes_in += n;
	else
		a->bytes_out += n;
}

uint64_t bytes_left(const struct gateway *g)
{
	const struct gateway_account *a = g->account;
	uint64_t max = g->config->max_bytes, used = a->bytes_in + a->bytes_out + a->bytes_names;

	if (max == 0)
		return NEVER;
	return used < max ? max - used : 0;
}

enum gateway_reason reason_of(enum net_verdict verdict)
{
	switch (verdict) {
	case NET_DENIED:
		return GATEWAY_R_DENIED;
	case NET_OTHER_PORT:
		return GATEWAY_R_PORT;
	case NET_SPECIAL:
		return GATEWAY_R_SPECIAL;
	case NET_ALLOWED:
	case NET_NOT_LISTED:
		break;
	}
	return GATEWAY_R_NOT_LISTED;
}

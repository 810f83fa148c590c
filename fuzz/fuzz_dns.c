/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS messages, taken as a question and as the answer to one. What we answer can be read back, and
 * so can the question that we would ask on.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct net_addr some[] = { { 0, { 198, 18, 0, 16 } },
					{ 1, { 0xfd, 0x63, [15] = 16 } },
					{ 0, { 198, 18, 0, 17 } } };

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static void check_query(const struct dns_query *query)
{
	char again[NET_NAME_MAX + 1];
	size_t len = strnlen(query->shown, sizeof(query->shown));

	check(len < sizeof(query->shown) && query->question_len <= sizeof(query->question));
	for (size_t i = 0; i < len; i++)
		check(query->shown[i] > ' ' && query->shown[i] < 0x7f);
	if (!query->has_name)
		return;
	check(net_name_parse(query->name, strlen(query->name), again) == 0);
	check(!strcmp(again, query->name));
}

/* Our answer, read as the one who asked would. */
static void check_answer(const struct dns_query *query)
{
	uint8_t answer[DNS_ANSWER_MAX];
	struct dns_response got;
	size_t len, want = query->type == DNS_A ? 2 : query->type == DNS_AAAA;

	len = dns_write_answer(query, DNS_NOERROR, some, 3, "a.example", 60, answer);
	check(len >= 12 && len <= sizeof(answer));
	if (!query->has_name)
		return;
	check(dns_read_response(answer, len, query->id, query->name, (enum dns_type)query->type,
				&got) == 0);
	check(got.rcode == DNS_NOERROR && !got.is_truncated && got.n_addrs == want);
	check(want == 0 ||
	      (got.ttl == 60 && net_addr_equal(&got.addrs[0], &some[query->type != DNS_A])));
	len = dns_write_answer(query, DNS_NXDOMAIN, some, 3, "a.example", 60, answer);
	check(dns_read_response(answer, len, query->id, query->name, (enum dns_type)query->type,
				&got) == 0);
	check(got.rcode == DNS_NXDOMAIN && got.n_addrs == 0);
}

static void check_our_question(const struct dns_query *query)
{
	uint8_t msg[DNS_ANSWER_MAX];
	struct dns_query again;
	size_t len = dns_write_query(query->id, query->name, DNS_AAAA, msg);

	check(len > 0 && dns_read_query(msg, len, &again) == 0);
	check(again.id == query->id && again.type == DNS_AAAA && again.has_edns);
	check(again.has_name && !strcmp(again.name, query->name));
}

static void try_query(const uint8_t *data, size_t size)
{
	struct net_addr addr;
	struct dns_query query;
	int r = dns_read_query(data, size, &query);

	if (r < 0)
		return;
	check(r <= DNS_REFUSED);
	check_query(&query);
	dns_read_reverse(&query, &addr);
	if (r == 0) {
		check_answer(&query);
		if (query.has_name)
			check_our_question(&query);
	} else {
		uint8_t answer[DNS_ANSWER_MAX];

		check(dns_write_answer(&query, (enum dns_rcode)r, some, 3, NULL, 0, answer) >= 12);
	}
}

static void check_alias(void *arg, const char *alias)
{
	check(++*(unsigned *)arg <= 17 && (!alias || alias[0]));
}

static void try_response(const uint8_t *data, size_t size, enum dns_type type)
{
	struct dns_response got;
	unsigned n_aliases = 0;
	uint16_t id = size < 2 ? 0 : (uint16_t)(data[0] << 8 | data[1]);

	if (dns_read_response(data, size, id, "www.example.com", type, &got) < 0)
		return;
	check((unsigned)got.rcode <= DNS_REFUSED && got.n_addrs <= DNS_ADDRS_MAX);
	check(got.ttl <= INT32_MAX && (got.rcode == DNS_NOERROR || got.n_addrs == 0));
	for (size_t i = 0; i < got.n_addrs; i++)
		check(type == DNS_AAAA || !got.addrs[i].is_v6);
	if (got.n_addrs > 0)
		dns_read_aliases(data, size, "www.example.com", check_alias, &n_aliases);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_query(data, size);
	try_response(data, size, DNS_A);
	try_response(data, size, DNS_AAAA);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What DNS questions and answers have in common: names and records.
 *
 * Names are compared in wire format (length, label, ..., 0), without compression and in lower case.
 * So a byte of a label is never mistaken for a dot. Length bytes (at most 63) are not letters, so
 * one pass over all bytes makes lower case.
 */
#ifndef NET_DNS_WIRE_H
#define NET_DNS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/bytes.h"

#define DNS_HEADER_LEN 12
#define DNS_NAME_WIRE_MAX 255 /* with the root's 0 */
#define DNS_FIXED_LEN 10      /* of a record, between its name and its data */
#define DNS_CLASS_IN 1

#define DNS_FLAG_QR 0x8000u
#define DNS_FLAG_TC 0x0200u
#define DNS_FLAG_RD 0x0100u
#define DNS_FLAG_RA 0x0080u
#define DNS_OPCODE(flags) ((flags) >> 11 & 15u)
#define DNS_RCODE(flags) ((flags) & 15u)

struct dns_name {
	uint8_t len;
	uint8_t bytes[DNS_NAME_WIRE_MAX];
};

struct dns_record {
	struct dns_name owner;
	uint16_t type, rclass;
	uint32_t ttl;	       /* as it came */
	size_t data, data_len; /* where in the message */
};

/*
 * The name at @pos; *ret_end is where the message goes on after it. Pointers must lead strictly
 * backwards, before the start of the run of labels they end, so no byte is read twice. 0 or -1.
 */
int dns_name_read(const uint8_t *msg, size_t len, size_t pos, bool can_jump, struct dns_name *ret,
		  size_t *ret_end);

/* A canonical name (name.h) in wire format. 0 or -1. */
int dns_name_encode(const char *text, struct dns_name *ret);

bool dns_name_is(const struct dns_name *a, const struct dns_name *b);

/* Is @zone the name itself, or above it? */
bool dns_name_is_within(const struct dns_name *name, const struct dns_name *zone);

/* Reads the record at *pos and steps over it. */
int dns_record_read(const uint8_t *msg, size_t len, size_t *pos, struct dns_record *ret);

#endif

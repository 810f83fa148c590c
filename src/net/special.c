/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses are not hosts on the public internet: IANA's registries of special-purpose
 * addresses, multicast, unassigned addresses, and the services of cloud providers that hand out
 * credentials to anyone who can reach them.
 *
 * Anycast addresses of protocols (192.0.0.9, 2001:1::1 and the like) are global by the registries,
 * but they lead to a machine nearby, so they count as reserved here. The
 * networks of AS112 and AMT are ordinary ones.
 */
#include "net/addr.h"

#include <string.h>

#include "base/macros.h"

/* The reason is in the row, not behind a pointer, so that nothing here needs relocation. */
struct special {
	struct net_addr net;
	uint8_t prefix;
	char why[15]; /* "": an ordinary network within a special one */
};

/* clang-format off */
#define V4(...) { .bytes = { __VA_ARGS__ } }
#define V6(...) { .is_v6 = 1, .bytes = { __VA_ARGS__ } }
/* clang-format on */

/* The first row that fits counts. */
static const struct special specials[] = {
	{ V4(169, 254, 169, 254), 32, "metadata" }, /* nearly all providers */
	{ V4(169, 254, 170, 2), 32, "metadata" },   /* credentials of containers */
	{ V4(169, 254, 170, 23), 32, "metadata" },  /* credentials of pods */
	{ V4(169, 254, 0, 23), 32, "metadata" },
	{ V4(169, 254, 10, 10), 32, "metadata" },
	{ V4(100, 100, 100, 200), 32, "metadata" },
	{ V4(192, 0, 0, 192), 32, "metadata" },
	{ V4(168, 63, 129, 16), 32,
	  "metadata" }, /* in a public range, but the host's platform answers */
	{ V4(0, 0, 0, 0), 32, "unspecified" },
	{ V4(0, 0, 0, 0), 8, "reserved" },
	{ V4(10, 0, 0, 0), 8, "private" },
	{ V4(100, 64, 0, 0), 10, "shared" },
	{ V4(127, 0, 0, 0), 8, "loopback" },
	{ V4(169, 254, 0, 0), 16, "link-local" },
	{ V4(172, 16, 0, 0), 12, "private" },
	{ V4(192, 0, 0, 0), 24, "reserved" },
	{ V4(192, 0, 2, 0), 24, "documentation" },
	{ V4(192, 88, 99, 0), 24, "reserved" }, /* relays of 6to4 */
	{ V4(192, 168, 0, 0), 16, "private" },
	{ V4(198, 18, 0, 0), 15, "benchmarking" },
	{ V4(198, 51, 100, 0), 24, "documentation" },
	{ V4(203, 0, 113, 0), 24, "documentation" },
	{ V4(224, 0, 0, 0), 4, "multicast" },
	{ V4(255, 255, 255, 255), 32, "broadcast" },
	{ V4(240, 0, 0, 0), 4, "reserved" },

	{ V6(0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, 0x54), 128, "metadata" },
	{ V6(0xfd, 0x00, 0x0e, 0xc2, [15] = 0x23), 128, "metadata" },
	{ V6(0xfd, 0x20, 0x00, 0xce, [14] = 0x02, 0x54), 128, "metadata" },
	{ V6(0xfd, 0x00, 0x00, 0xc1, [12] = 0xa9, 0xfe, 0xa9, 0xfe), 128, "metadata" },
	{ V6(0xfd, 0x00, 0x00, 0x42, [15] = 0x42), 128, "metadata" },
	{ V6(0xfe, 0x80, [12] = 0xa9, 0xfe, 0xa9, 0xfe), 128, "metadata" },
	{ V6(0), 128, "unspecified" },
	{ V6([15] = 1), 128, "loopback" },
	{ V6(0x00, 0x64, 0xff, 0x9b, 0x00, 0x01), 48, "embedded" }, /* translators of one site */
	{ V6(0x01, 0x00), 64, "discard" },
	{ V6(0x20, 0x01, 0x00, 0x02), 48, "benchmarking" },
	{ V6(0x20, 0x01, 0x00, 0x03), 32, "" },		    /* AMT */
	{ V6(0x20, 0x01, 0x00, 0x04, 0x01, 0x12), 48, "" }, /* AS112 */
	{ V6(0x20, 0x01), 23, "reserved" },		    /* ORCHID, anycast ... */
	{ V6(0x20, 0x01, 0x0d, 0xb8), 32, "documentation" },
	{ V6(0x3f, 0xff), 20, "documentation" },
	{ V6(0x5f, 0x00), 16, "reserved" }, /* segment routing */
	{ V6(0xfc, 0x00), 7, "unique-local" },
	{ V6(0xfe, 0x80), 10, "link-local" },
	{ V6(0xfe, 0xc0), 10, "site-local" },
	{ V6(0xff, 0x00), 8, "multicast" },
};

/* Where IPv6 addresses embed IPv4 ones. */
struct embedding {
	struct net_addr net;
	uint8_t prefix;
	uint8_t at;   /* of the first of the four bytes */
	uint8_t flip; /* XOR mask: Teredo inverts the bits */
	bool is_open; /* leads to the embedded address and nowhere else */
};

static const struct embedding embeddings[] = {
	{ V6([10] = 0xff, 0xff), 96, 12, 0, true },	 /* mapped */
	{ V6(0), 96, 12, 0, false },			 /* compatible */
	{ V6(0x00, 0x64, 0xff, 0x9b), 96, 12, 0, true }, /* NAT64 */
	{ V6(0x20, 0x02), 16, 2, 0, false },		 /* 6to4 */
	{ V6(0x20, 0x01), 32, 12, 0xff, false },	 /* Teredo, the client's */
};

/* By its interface identifier, below any prefix. */
static bool is_isatap(const struct net_addr *addr)
{
	return addr->is_v6 && (addr->bytes[8] & 0xfc) == 0 && addr->bytes[9] == 0 &&
	       addr->bytes[10] == 0x5e && addr->bytes[11] == 0xfe;
}

/* NULL: the address's first bits embed nothing. */
static const struct embedding *find_embedding(const struct net_addr *addr, struct net_addr *ret)
{
	static const uint8_t zeros[15];

	/* :: and ::1 are no IPv4 addresses. */
	if (memcmp(addr->bytes, zeros, 15) == 0 && addr->bytes[15] <= 1)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(embeddings); i++) {
		const struct embedding *e = &embeddings[i];
		uint8_t inside[4];

		if (!net_addr_is_in(addr, &e->net, e->prefix))
			continue;
		for (int k = 0; k < 4; k++)
			inside[k] = addr->bytes[e->at + k] ^ e->flip;
		net_addr_from_v4(inside, ret);
		return e;
	}
	return NULL;
}

bool net_addr_embedded(const struct net_addr *addr, struct net_addr *ret)
{
	if (find_embedding(addr, ret))
		return true;
	if (!is_isatap(addr))
		return false;
	net_addr_from_v4(addr->bytes + 12, ret);
	return true;
}

bool net_addr_is_loopback(const struct net_addr *addr)
{
	static const struct net_addr v6 = V6([15] = 1);
	struct net_addr plain = *addr;

	if (addr->is_v6)
		net_addr_from_v6(addr->bytes, &plain);
	return plain.is_v6 ? net_addr_equal(&plain, &v6) : plain.bytes[0] == 127;
}

static const struct special *find_special(const struct net_addr *addr)
{
	for (size_t i = 0; i < ARRAY_SIZE(specials); i++) {
		if (net_addr_is_in(addr, &specials[i].net, specials[i].prefix))
			return &specials[i];
	}
	return NULL;
}

/* Ignores an IPv4 address embedded in @addr. */
static const char *outer_reason(const struct net_addr *addr, unsigned *ret_prefix)
{
	static const struct net_addr global_unicast = V6(0x20);
	const struct special *row = find_special(addr);

	if (row) {
		*ret_prefix = row->prefix;
		/* Linux treats it as loopback, so no network can contain it. */
		if (memcmp(row->why, "unspecified", sizeof("unspecified")) == 0)
			*ret_prefix = NET_ADDR_NEVER;
		return row->why[0] ? row->why : NULL;
	}
	*ret_prefix = 3;
	if (addr->is_v6 && !net_addr_is_in(addr, &global_unicast, 3))
		return "reserved";
	return NULL;
}

/* Decides by the IPv4 address @inside, which follows @before bits. */
static const char *reason_inside(const struct net_addr *inside, unsigned before, bool is_open,
				 unsigned *ret_prefix)
{
	const char *why = outer_reason(inside, ret_prefix);

	if (!why) {
		*ret_prefix = before;
		return is_open ? NULL : "embedded";
	}
	if (*ret_prefix != NET_ADDR_NEVER)
		*ret_prefix += before;
	return why;
}

const char *net_addr_special_net(const struct net_addr *addr, unsigned *ret_prefix)
{
	struct net_addr inside;
	const struct embedding *e = find_embedding(addr, &inside);
	const char *why;

	if (e)
		return reason_inside(&inside, e->prefix, e->is_open, ret_prefix);
	why = outer_reason(addr, ret_prefix);
	if (why || !is_isatap(addr))
		return why;
	net_addr_from_v4(addr->bytes + 12, &inside);
	return reason_inside(&inside, 96, false, ret_prefix);
}

const char *net_addr_special(const struct net_addr *addr)
{
	unsigned prefix;

	return net_addr_special_net(addr, &prefix);
}

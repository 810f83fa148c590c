/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command without a network tried. Its net namespace is its own, so what the kernel says
 * there is about the command alone.
 *
 * Names. Without a configuration a resolver asks 127.0.0.1. Nobody listens there, so the kernel
 * answers with an ICMP error that carries the question, and a raw socket receives these errors. It
 * takes no port that the command may want for itself, and answers nothing: a server of the
 * command's own is not disturbed, and what it answers leaves no error.
 *
 * Addresses. connect() fails before there is a packet. The kernel's counters know how often there
 * was no route, not to where. Reading them takes some 60 us, so it is left out after commands that
 * ran only briefly, unless they failed.
 *
 * Should: cost next to nothing, whatever the command sends. Mustn't: fail a run; it protects
 * nothing. At level landlock there is no net namespace, and nothing is known.
 */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/errno.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/socket.h"
#include "init/procfs.h"
#include "net/bytes.h"
#include "net/dns.h"

#define COUNTERS_BYTES 8192
#define BRIEF_NS 5000000 /* a hundred times what reading takes */

#define SOCK_FLAGS (02000000 | 04000) /* CLOEXEC, NONBLOCK */
#define ICMP 1
#define SOL_RAW_NR 255
#define ICMP_FILTER_NR 1
#define UNREACHABLE 3 /* ICMP type */
#define NO_PORT 3     /* its code */
#define ICMP_LEN 8
#define IP_LEN 20
#define UDP 17
#define UDP_LEN 8
#define DNS_PORT 53

/* A flood must not keep init busy: what comes after so many turns waits in the socket, which has
 * room for some 200, until the end. */
#define TURNS_MAX 1024
#define MESSAGES_PER_TURN 32
#define MESSAGES_AT_END 4096

static struct control_asked asked;
static uint64_t n_seen; /* errors about datagrams to closed ports */

static int begins_with(const char *text, const char *word)
{
	while (*word && *text == *word) {
		text++;
		word++;
	}
	return !*word;
}

static const char *next_line(const char *text)
{
	while (*text && *text != '\n')
		text++;
	return *text ? text + 1 : text;
}

static const char *next_word(const char *text)
{
	while (*text && *text != ' ' && *text != '\n')
		text++;
	return *text == ' ' ? text + 1 : text;
}

/* Of two lines that begin with @table the first has names, the second numbers. */
static uint64_t find_number(const char *text, const char *table, const char *name)
{
	uint64_t number = 0;

	for (; *text; text = next_line(text)) {
		const char *names = text, *numbers = next_line(text);

		if (!begins_with(text, table) || !begins_with(numbers, table))
			continue;
		while (*names && *names != '\n' && !begins_with(names, name)) {
			names = next_word(names);
			numbers = next_word(numbers);
		}
		if (begins_with(names, name))
			proc_numbers(numbers, &number, 1);
		break;
	}
	return number;
}

static int is_brief(const struct init *in)
{
	return in->report.command_ended_ns - in->report.stamps_ns[STAGE_EXEC] < BRIEF_NS &&
	       in->has_status && in->report.wait_status == 0;
}

static void read_counters(struct init *in)
{
	static char text[COUNTERS_BYTES];
	uint64_t no_ports = 0;

	if (proc_read(in->proc_fd, 0, "self/net/snmp", text, sizeof(text)) > 0) {
		in->report.no_routes = find_number(text, "Ip: ", "OutNoRoutes");
		no_ports = find_number(text, "Udp: ", "NoPorts");
	}
	if (proc_read(in->proc_fd, 0, "self/net/snmp6", text, sizeof(text)) > 0)
		in->report.no_routes += proc_field(text, "Ip6OutNoRoutes");
	asked.n_unread = no_ports > n_seen ? no_ports - n_seen : 0;
}

/* The header of an IP packet, or 0 if it is none of ours. */
static size_t ip_header(const uint8_t *packet, size_t len, uint8_t protocol)
{
	size_t header;

	if (len < IP_LEN || packet[0] >> 4 != 4 || packet[9] != protocol)
		return 0;
	header = (packet[0] & 15u) * 4u;
	return header >= IP_LEN && header <= len ? header : 0;
}

/* The question in a datagram that nobody took, as the kernel's error quotes it: its length. */
static size_t find_question(const uint8_t *packet, size_t len, const uint8_t **ret)
{
	size_t at = ip_header(packet, len, ICMP), inner, sent;

	if (!at || len - at < ICMP_LEN || packet[at] != UNREACHABLE || packet[at + 1] != NO_PORT)
		return 0;
	at += ICMP_LEN;
	inner = ip_header(packet + at, len - at, UDP);
	at += inner;
	if (!inner || len - at < UDP_LEN)
		return 0;
	n_seen++;
	if (be16_get(packet + at + 2) != DNS_PORT)
		return 0;
	sent = be16_get(packet + at + 4);
	if (sent <= UDP_LEN || sent > len - at)
		return 0;
	*ret = packet + at + UDP_LEN;
	return sent - UDP_LEN;
}

static int is_listed(const char *name)
{
	for (uint32_t i = 0; i < asked.n_names; i++) {
		if (net_name_equal(asked.names[i], name))
			return 1;
	}
	return 0;
}

/* Addresses in reverse and localhost are not for other machines to answer. */
static void note_question(const uint8_t *message, size_t len)
{
	static struct dns_query query;
	struct net_addr addr;
	const char *name;

	if (dns_read_query(message, len, &query) != 0 || dns_read_reverse(&query, &addr))
		return;
	name = query.has_name ? query.name : query.shown;
	if (net_name_equal(name, "localhost") || net_name_is_below(name, "localhost") ||
	    is_listed(name))
		return;
	if (asked.n_names == CONTROL_ASKED_MAX) {
		asked.has_more = 1;
		return;
	}
	memcpy(asked.names[asked.n_names++], name, str_len(name) + 1);
}

static void read_messages(int fd, int max)
{
	static uint8_t packet[DNS_MESSAGE_MAX];

	for (int i = 0; i < max; i++) {
		const uint8_t *question;
		long n = raw_syscall(__NR_recvfrom, fd, (long)packet, sizeof(packet),
				     MESSAGE_DONTWAIT, 0, 0);
		size_t len;

		if (n < 0)
			return;
		len = find_question(packet, (size_t)n, &question);
		if (len)
			note_question(question, len);
	}
}

void open_net_attempts(struct init *in)
{
	const uint32_t unwanted = ~(1u << UNREACHABLE);
	long r, fd;

	if (in->plan->flags & PLAN_NET_ALLOW)
		return;
	fd = raw_syscall(__NR_socket, AF_INET_NR, SOCK_RAW_NR | SOCK_FLAGS, ICMP, 0, 0, 0);
	if (fd < 0)
		return;
	r = raw_syscall(__NR_setsockopt, fd, SOL_RAW_NR, ICMP_FILTER_NR, (long)&unwanted,
			sizeof(unwanted), 0);
	if (r < 0)
		close_fd(fd);
	else
		in->attempts_fd = (int)fd;
}

int watch_net_attempts(struct init *in)
{
	static unsigned turns;

	read_messages(in->attempts_fd, MESSAGES_PER_TURN);
	return ++turns < TURNS_MAX && !asked.has_more;
}

void tell_net_attempts(struct init *in)
{
	if (in->plan->level != PLAN_LEVEL_NAMESPACES || (in->plan->flags & PLAN_NET_ALLOW))
		return;
	if (in->attempts_fd >= 0)
		read_messages(in->attempts_fd, MESSAGES_AT_END);
	if (!is_brief(in))
		read_counters(in);
	if (!asked.n_names && !asked.n_unread)
		return;
	asked.type = CONTROL_ASKED;
	raw_syscall(__NR_write, CTL_FD, (long)&asked, sizeof(asked), 0, 0, 0);
}

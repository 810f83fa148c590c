/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command without a network tried: its net namespace is its own, so the kernel's counters of
 * it are about the command alone. They know how often there was no way to an address, and how often
 * a datagram came to a port where nothing listens, as questions for names do (without a
 * configuration a resolver asks 127.0.0.1). They do not know which; a socket that listens would,
 * but it would take a port that the command may want for itself.
 *
 * Should: cost next to nothing. Reading takes some 50 us, so it is left out after commands that ran
 * only briefly. Mustn't: fail a run; it protects nothing.
 */
#include "init/init.h"

#include "init/procfs.h"

#define COUNTERS_BYTES 8192
#define BRIEF_NS 5000000 /* a hundred times what reading takes */

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

void count_net_attempts(struct init *in)
{
	static char text[COUNTERS_BYTES];

	if (in->plan->level != PLAN_LEVEL_NAMESPACES || (in->plan->flags & PLAN_NET_ALLOW) ||
	    in->report.command_ended_ns - in->report.stamps_ns[STAGE_EXEC] < BRIEF_NS)
		return;
	if (proc_read(in->proc_fd, 0, "self/net/snmp", text, sizeof(text)) > 0) {
		in->report.no_routes = find_number(text, "Ip: ", "OutNoRoutes");
		in->report.no_ports = find_number(text, "Udp: ", "NoPorts");
	}
	if (proc_read(in->proc_fd, 0, "self/net/snmp6", text, sizeof(text)) > 0) {
		in->report.no_routes += proc_field(text, "Ip6OutNoRoutes");
		in->report.no_ports += proc_field(text, "Udp6NoPorts");
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of connections: one JSON object per line, written in one piece to a file that the
 * supervisor opened. Names are canonical and other text is ours, so nothing needs escaping.
 */
#include "gateway/gateway.h"

#include <asm/unistd.h>
#include <linux/time.h>

#include "bare/text.h"

#define LINE_MAX_BYTES 1024
#define LOG_MAX_BYTES (64ull << 20)

static size_t put_string(char *line, size_t at, const char *key, const char *value)
{
	at = append_text(line, at, LINE_MAX_BYTES, key);
	if (!value)
		return append_text(line, at, LINE_MAX_BYTES, "null");
	at = append_text(line, at, LINE_MAX_BYTES, "\"");
	at = append_text(line, at, LINE_MAX_BYTES, value);
	return append_text(line, at, LINE_MAX_BYTES, "\"");
}

static size_t put_number(char *line, size_t at, const char *key, uint64_t value)
{
	at = append_text(line, at, LINE_MAX_BYTES, key);
	return append_number(line, at, LINE_MAX_BYTES, value);
}

/* A number of thousandths as "1.234". */
static size_t put_thousandths(char *line, size_t at, const char *key, uint64_t value)
{
	const char fraction[] = { '.', (char)('0' + value / 100 % 10),
				  (char)('0' + value / 10 % 10), (char)('0' + value % 10), 0 };

	at = put_number(line, at, key, value / 1000);
	return append_text(line, at, LINE_MAX_BYTES, fraction);
}

/* A guest can make connections for as long as it likes: the log has an end, and says so. */
static void write_line(struct gateway *g, const char *line, size_t len)
{
	static const char full[] = "{\"verdict\": \"log full\"}\n";
	static uint64_t written;

	if (written + len > LOG_MAX_BYTES) {
		line = full;
		len = sizeof(full) - 1;
	}
	raw_syscall(__NR_write, g->log_fd, (long)line, (long)len, 0, 0, 0);
	written += len;
	if (line == full)
		drop_fd(&g->log_fd);
}

void log_connection(struct gateway *g, const struct log_entry *entry)
{
	struct __kernel_timespec ts = { 0, 0 };
	char line[LINE_MAX_BYTES], addr[NET_ADDR_TEXT_MAX];
	size_t n;

	if (g->log_fd < 0)
		return;
	raw_syscall(__NR_clock_gettime, CLOCK_REALTIME, (long)&ts, 0, 0, 0, 0);
	n = put_thousandths(line, 0,
			    "{\"time\": ", (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / MS);
	n = put_string(line, n, ", \"name\": ", entry->name);
	n = put_string(line, n,
		       ", \"address\": ", entry->addr ? net_addr_format(entry->addr, addr) : NULL);
	n = put_number(line, n, ", \"port\": ", entry->port);
	n = put_number(line, n, ", \"bytes_in\": ", entry->bytes_in);
	n = put_number(line, n, ", \"bytes_out\": ", entry->bytes_out);
	n = put_string(line, n, ", \"verdict\": ", entry->verdict);
	n = put_thousandths(line, n, ", \"duration_ms\": ", entry->duration_ns / 1000);
	n = append_text(line, n, LINE_MAX_BYTES, "}\n");
	write_line(g, line, n);
}

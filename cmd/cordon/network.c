/* SPDX-License-Identifier: Apache-2.0 */
#include "network.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "out.h"
#include "output_file.h"

size_t network_published(const struct cordon_published *p, size_t n, char ret[PUBLISHED_LINE_MAX])
{
	int is_pair = n > 1 && p[0].port == p[1].port && p[0].host_port == p[1].host_port;
	int is_v6 = strchr(p->address, ':') != NULL;

	snprintf(ret, PUBLISHED_LINE_MAX, "port %u is at %s%s%s:%u (%s%s)", p->port,
		 is_v6 ? "[" : "", p->address, is_v6 ? "]" : "", p->host_port, p->protocol,
		 is_pair ? ", udp" : "");
	return is_pair ? 2 : 1;
}

void network_say_published(const struct cordon_run *run, int is_raw)
{
	size_t n;
	const struct cordon_published *p = cordon_run_published(run, &n);
	char line[PUBLISHED_LINE_MAX];

	for (size_t i = 0; i < n;) {
		i += network_published(p + i, n - i, line);
		say_line("%s", line);
		if (is_raw)
			(void)write_full(STDERR_FILENO, "\r", 1);
	}
}

int network_open_log(const char *path, int *ret_fd, struct cordon_error *err)
{
	int fd = output_open("the log ", path, O_APPEND, 0644, 0, err);

	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

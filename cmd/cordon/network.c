/* SPDX-License-Identifier: Apache-2.0 */
#include "network.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "out.h"
#include "output_file.h"

void network_say_published(const struct cordon_run *run, int is_raw)
{
	size_t n;
	const struct cordon_published *p = cordon_run_published(run, &n);

	for (size_t i = 0; i < n; i++) {
		int is_pair = i + 1 < n && p[i].port == p[i + 1].port &&
			      p[i].host_port == p[i + 1].host_port;
		int is_v6 = strchr(p[i].address, ':') != NULL;

		say_line("port %u is at %s%s%s:%u (%s%s)", p[i].port, is_v6 ? "[" : "",
			 p[i].address, is_v6 ? "]" : "", p[i].host_port, p[i].protocol,
			 is_pair ? ", udp" : "");
		if (is_raw)
			(void)write_full(STDERR_FILENO, "\r", 1);
		i += (size_t)is_pair;
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

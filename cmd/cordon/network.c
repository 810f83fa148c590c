/* SPDX-License-Identifier: Apache-2.0 */
#include "network.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "out.h"

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

/* Only a regular file, and no link, which an earlier run may have made. */
int network_open_log(const char *path, int *ret_fd, struct cordon_error *err)
{
	struct stat st;
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
		      0644);

	if (fd < 0)
		return cordon_err(err, CORDON_E_PATH, errno, "cannot write the log '%s'", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return cordon_err(err, CORDON_E_PATH, 0,
				  "cannot write the log '%s': not a regular file", path);
	}
	*ret_fd = fd;
	return 0;
}

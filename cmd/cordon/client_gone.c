/* SPDX-License-Identifier: Apache-2.0 */
#include "client_gone.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 2000 /* as clients have it, from the end of the input to SIGTERM */

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void client_gone_init(struct client_gone *c)
{
	*c = (struct client_gone){ .fds = { STDIN_FILENO, STDOUT_FILENO } };
}

int client_gone_prepare(const struct client_gone *c, struct pollfd fds[2], int timeout)
{
	int64_t left;

	/* Without events it tells when nobody is at the other end. */
	for (int k = 0; k < 2; k++)
		fds[k] = (struct pollfd){ .fd = c->fds[k] };
	if (!c->until_ms)
		return timeout;
	left = c->until_ms - now_ms();
	left = left > 0 ? left : 0;
	return timeout < 0 || left < timeout ? (int)left : timeout;
}

void client_gone_look(struct client_gone *c, const struct pollfd fds[2])
{
	for (int k = 0; k < 2; k++)
		if (fds[k].fd >= 0 && fds[k].revents) {
			c->fds[k] = -1;
			/* An end alone is no reason: the server may still work for the other. */
			if (c->fds[!k] < 0)
				c->until_ms = now_ms() + PATIENCE_MS;
		}
	if (c->until_ms && now_ms() >= c->until_ms) {
		c->until_ms = 0;
		(void)kill(getpid(), SIGTERM);
	}
}

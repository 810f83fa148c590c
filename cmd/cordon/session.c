/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "out.h"
#include "verbs.h"

#define ANSWER_MS 2000 /* a supervisor answers at once, unless it was stopped */

int session_fail(const struct cordon_error *err)
{
	say_error(err);
	return STATUS_FAILED;
}

int session_operands(const struct parsed *args, size_t min, size_t max, struct cordon_error *err)
{
	const struct verb *verb = &verb_table[args->verb];

	if (args->n_rest >= min && args->n_rest <= max)
		return 0;
	cordon_err(err, CORDON_E_USAGE, 0, "usage: cordon %s %s", verb->name, verb->operands);
	cordon_err_hint(err, "try 'cordon %s --help'", verb->name);
	return -CORDON_E_USAGE;
}

int session_open(const char *name, struct session_client *ret, struct cordon_error *err)
{
	ret->fd = session_connect(name, ret->key, err);
	return ret->fd < 0 ? ret->fd : 0;
}

int session_send(const struct session_client *c, uint32_t type, const char *const *strings,
		 size_t n, const int *fds, int n_fds, struct cordon_error *err)
{
	const char **all = calloc(n + 1, sizeof(*all));
	struct strbuf sb = STRBUF_INIT;
	int r;

	if (!all)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	all[0] = c->key;
	if (n)
		memcpy(all + 1, strings, n * sizeof(*all));
	wire_add(&sb, type, all, n + 1);
	free(all);
	if (sb.len > WIRE_REQUEST_MAX || n > WIRE_STRINGS_MAX - 1) {
		strbuf_done(&sb);
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "arguments and environment are too large");
	}
	r = wire_send(c->fd, &sb, fds, n_fds);
	strbuf_done(&sb);
	return r < 0 ? cordon_err(err, CORDON_E_STATE, -r, "the session does not listen") : 0;
}

int session_receive(const struct session_client *c, struct wire *ret, struct cordon_error *err)
{
	int r = wire_receive(ret, c->fd, WIRE_REPLY_MAX);

	if (r == 0)
		return 0;
	if (r < 0)
		return cordon_err(err, CORDON_E_STATE, r == -EPIPE || r == -ECONNRESET ? 0 : -r,
				  "the session has ended, or refuses this process");
	if (ret->head.type != WIRE_ERROR)
		return 1;
	if (ret->head.n_strings != 3)
		return cordon_err(err, CORDON_E_STATE, 0, "the session's answer is garbled");
	r = (int)strtol(ret->strings[0], NULL, 10);
	r = r > 0 && r != CORDON_E_NOT_FOUND && r != CORDON_E_NOT_EXECUTABLE ? r : CORDON_E_STATE;
	cordon_err(err, r, 0, "%s", ret->strings[1]);
	if (ret->strings[2][0])
		cordon_err_hint(err, "%s", ret->strings[2]);
	return -r;
}

static int no_answer(const char *name, int fd, struct cordon_error *err)
{
	struct ucred cred = { .pid = 0 };
	socklen_t len = sizeof(cred);

	(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	cordon_err(err, CORDON_E_STATE, 0,
		   "session '%s' does not answer: its supervisor, process %d, is stopped or busy",
		   name, (int)cred.pid);
	cordon_err_hint(err,
			"'kill -CONT %d' lets it go on, 'kill -KILL %d' ends it and its sandbox",
			(int)cred.pid, (int)cred.pid);
	return -ETIMEDOUT;
}

/* 1 = there is something to be read, or nothing ever will be; 0 = not in time. */
static int is_heard(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	do
		n = poll(&p, 1, ANSWER_MS);
	while (n < 0 && errno == EINTR);
	return n != 0;
}

/* Whether it answers a question that takes no time. */
static int answers(const char *name)
{
	struct session_client c;
	int r = session_open(name, &c, NULL);

	if (r < 0)
		return r != -ETIMEDOUT;
	r = session_send(&c, WIRE_STATUS, NULL, 0, NULL, 0, NULL) < 0 || is_heard(c.fd);
	close(c.fd);
	return r;
}

/* An end may take as long as the commands have time for it, so who waits for one asks between
 * whether anybody is there. */
static int await_answer(const char *name, const struct session_client *c, uint32_t type,
			struct cordon_error *err)
{
	while (!is_heard(c->fd))
		if (type == WIRE_STATUS || !answers(name))
			return no_answer(name, c->fd, err);
	return 0;
}

int session_ask(const char *name, uint32_t type, const char *const *strings, size_t n,
		struct wire *ret, struct cordon_error *err)
{
	struct session_client c;
	int r = session_open(name, &c, err);

	if (r < 0)
		return r;
	r = session_send(&c, type, strings, n, NULL, 0, err);
	if (r == 0)
		r = await_answer(name, &c, type, err);
	if (r == 0)
		r = session_receive(&c, ret, err);
	if (r == 1 && ret->head.type != WIRE_DATA &&
	    (ret->head.type != WIRE_OK || ret->head.n_strings != 1))
		r = cordon_err(err, CORDON_E_STATE, 0, "the session's answer is garbled");
	close(c.fd);
	return r < 0 ? r : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of `cordon session` share. */
#ifndef CMD_CORDON_SESSION_H
#define CMD_CORDON_SESSION_H

#include <cordon/cordon.h>

#include "base/strbuf.h"
#include "options.h"
#include "session_dir.h"
#include "session_wire.h"

/* A connection to the supervisor of a session. */
struct session_client {
	int fd;
	char key[SESSION_KEY_CHARS + 1];
};

int session_open(const char *name, struct session_client *ret, struct cordon_error *err);
/* Sends a request with @strings behind the key. */
int session_send(const struct session_client *c, uint32_t type, const char *const *strings,
		 size_t n, const int *fds, int n_fds, struct cordon_error *err);
/* Waits for a reply, which the caller resets. An error in it becomes *err. */
int session_receive(const struct session_client *c, struct wire *ret, struct cordon_error *err);
/* A request and its reply: the text of WIRE_OK, or the bytes of WIRE_DATA; the caller resets
 * @ret. -ETIMEDOUT: nobody answers. */
int session_ask(const char *name, uint32_t type, const char *const *strings, size_t n,
		struct wire *ret, struct cordon_error *err);
/* Exactly @min to @max operands, or an error that names the verb's operands. */
int session_operands(const struct parsed *args, size_t min, size_t max, struct cordon_error *err);
/* "1h5m": how long something has lasted. */
const char *human_time(int64_t ms, char ret[16]);
/* On a terminal without control sequences, as the output of a run; may come in parts. 0 or an exit
 * status. */
int print_output(const char *data, size_t len);
/* Says what went wrong; returns the exit status. */
int session_fail(const struct cordon_error *err);

#endif

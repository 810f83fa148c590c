/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between the supervisor of a session and its clients: a head, then strings, each with
 * its NUL, or bytes; descriptors may come with the first byte. Both sides check everything: sizes
 * have caps, the number of strings is the one that was announced.
 */
#ifndef CMD_CORDON_SESSION_WIRE_H
#define CMD_CORDON_SESSION_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#define WIRE_MAGIC 0x31535343u
#define WIRE_REQUEST_MAX (2u << 20)
#define WIRE_REPLY_MAX (64u << 20)
#define WIRE_STRINGS_MAX 65536u
#define WIRE_FDS_MAX 4

enum wire_type {
	/* Requests. The first string is the key. */
	WIRE_EXEC = 1, /* cwd, time in ms, output bytes, flags, streams, number of variables, these,
			  and the command's words; a descriptor for each stream 'f' or 'p'
			  (passed on as it is), and the channel */
	WIRE_STATUS,
	WIRE_PAUSE,
	WIRE_RESUME,
	WIRE_STOP,
	WIRE_KILL,   /* number of a command, signal */
	WIRE_LOGS,   /* number of a command */
	WIRE_SIGNAL, /* signal; on the connection of a command */
	WIRE_END,    /* the same, and end it after the grace; 9 = now */
	/* Replies. */
	WIRE_OK,      /* one string, JSON or "" */
	WIRE_ERROR,   /* code, message, hint */
	WIRE_STARTED, /* number */
	WIRE_ENDED,   /* exit status and why stdout, stderr were not written (errno, 0); receipt */
	WIRE_DATA,    /* bytes */
	/* Requests. Last: the numbers of the others stay what they are. */
	WIRE_JOIN, /* name of an interpreter, and as WIRE_EXEC what starts it if there is none;
		      stdout, stderr and the channel that it shall seem to have */
	WIRE_ENV,  /* NAME=VALUE, for each command from now on */
	WIRE_MAX
};

/* WIRE_EXEC: letters in its flags */
#define WIRE_DETACHED 'd' /* nobody waits for it; its output is kept for `logs` */
#define WIRE_KEEP 'k'	  /* it goes on if its client is gone */
#define WIRE_KILL_REST 'r'
#define WIRE_FILES 'f'
#define WIRE_CHANNEL 'c' /* one more descriptor, which is the command's 3 */

struct wire_head {
	uint32_t magic, type, size, n_strings; /* WIRE_DATA: n_strings is 0 */
};

/* A message that is being received. */
struct wire {
	struct strbuf in;
	struct wire_head head;
	int has_head;
	int fds[WIRE_FDS_MAX], n_fds;
	const char **strings; /* once it is complete; NULL-terminated */
};

#define WIRE_INIT { .in = STRBUF_INIT }

/* Takes what is there. 1 = a whole message, 0 = more has to come, <0 the other side is gone
 * (-EPIPE) or is not to be understood. Does not wait if @fd does not block. */
int wire_receive(struct wire *w, int fd, uint32_t max);
/* Makes room for the next one; closes descriptors that nobody took. */
void wire_reset(struct wire *w);
/* Adds one message to @sb. */
void wire_add(struct strbuf *sb, uint32_t type, const char *const *strings, size_t n);
void wire_add_data(struct strbuf *sb, const void *data, size_t len);
/* Sends all of it, the descriptors with the first byte: 0 or -errno. */
int wire_send(int fd, const struct strbuf *sb, const int *fds, int n_fds);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first lines of what an interpreter and its host say to each other
 * (bindings/python/pycordon/_channel.py): all that a supervisor has to know to tell where a message
 * ends. A request, "KIND TOKEN SIZE", comes from a client; a message, "TOKEN JSON", from the guest.
 */
#ifndef CMD_CORDON_SESSION_FRAME_H
#define CMD_CORDON_SESSION_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define FRAME_HEAD_MAX 65536
#define FRAME_REQUEST_HEAD_MAX 256
#define FRAME_REQUEST_MAX ((size_t)32 << 20) /* waits in memory until it is its turn */
#define FRAME_WORD_MAX 48
#define FRAME_PARTS_MAX 64

struct frame_request {
	char kind[FRAME_WORD_MAX], token[FRAME_WORD_MAX];
	int is_greeting; /* "SIZE LIMIT": what a driver is sent first */
	size_t head_len, data_len;
};

struct frame_message {
	char token[FRAME_WORD_MAX];
	int is_hello, is_last; /* it ends the request */
	int64_t signals;       /* -1 = not said */
	size_t head_len;
	uint64_t data_len;
};

/* 1 = the first line is whole, 0 = there is more to come, -1 = it is not to be understood. */
int frame_read_request(const char *data, size_t len, struct frame_request *ret);
int frame_read_message(const char *data, size_t len, struct frame_message *ret);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host and the guest of level microvm say to each other, over a virtio port.
 *
 * A message is a head (type and length, 32 bits each, little-endian) and fields: a letter, text, a
 * NUL. The host sends what it likes; what it reads it reads as hostile: a message is taken only if
 * it is the one that is due, no longer than it can be, and if every field is known and occurs once
 * where one is meant.
 */
#ifndef FORMAT_MICROVM_H
#define FORMAT_MICROVM_H

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "base/strbuf.h"

enum microvm_type {
	MICROVM_HELLO = 1, /* from the sandbox, before QEMU: what the policy has become */
	MICROVM_START,	   /* to it: QEMU's command line */
	MICROVM_READY,	   /* from the agent: it waits */
	MICROVM_REQUEST,   /* to it: what is to be run */
	MICROVM_SIGNAL,	   /* to it: for the command */
	MICROVM_EXIT,	   /* from it: how the command ended */
	MICROVM_TYPE_MAX
};

#define MICROVM_HEAD 8
#define MICROVM_HELLO_MAX ((size_t)1 << 20)
#define MICROVM_REQUEST_MAX ((size_t)8 << 20)
#define MICROVM_AGENT_MAX ((size_t)1024) /* READY and EXIT */

/* Fields of HELLO and REQUEST, which has those of HELLO and more. */
enum microvm_field {
	FIELD_UID = 'U',
	FIELD_GID = 'G',
	FIELD_UMASK = 'M',
	FIELD_CWD = 'C',
	FIELD_DIR = 'D',  /* in the root: exported as "d0", "d1" ... by their order */
	FIELD_LINK = 'L', /* in the root, followed by where it leads */
	FIELD_TARGET = 'l',
	FIELD_ENV = 'E',
	FIELD_ARG = 'A',
	FIELD_POLICY = 'P',
	FIELD_TIME = 'T',    /* nanoseconds since 1970 */
	FIELD_ENTROPY = 'R', /* hexadecimal */
	FIELD_NUMBER = 'N',  /* of SIGNAL */
};

#define MICROVM_DIRS_MAX 20 /* exports, which are devices of the machine */

/* Adds the head of a message without fields, and returns where it begins. */
size_t microvm_begin(struct strbuf *sb, unsigned type);
void microvm_add(struct strbuf *sb, char field, const char *text);
void microvm_add_number(struct strbuf *sb, char field, int64_t number);
/* Writes the length of the message that begins at @at. */
void microvm_end(struct strbuf *sb, size_t at);

/* A message that has arrived: points into what was read. */
struct microvm_message {
	unsigned type;
	const char *data;
	size_t len;
};

/*
 * The first message among @len bytes at @data, which must be of @type and no longer than @max:
 * how many bytes it takes, 0 = not all of it is there yet, -EPROTO = it is another one.
 */
int64_t microvm_parse(const void *data, size_t len, unsigned type, size_t max,
		      struct microvm_message *ret) CHECK_RESULT;

/* The next field of @message, which gets shorter: 1, 0 = there is none, -EPROTO. */
int microvm_next(struct microvm_message *message, char *ret_field,
		 const char **ret_text) CHECK_RESULT;

/* A decimal number from @min to @max, without anything around it: 0 or -EPROTO. */
int microvm_number(const char *text, int64_t min, int64_t max, int64_t *ret) CHECK_RESULT;

#define MICROVM_MESSAGE_MAX 200

/* The word of the guest about its command. */
struct microvm_exit {
	int kind; /* enum cordon_kind, one that a command can end with */
	int exit_code, signal;
	uint64_t out_bytes, err_bytes;	   /* written to the two ports before this */
	char message[MICROVM_MESSAGE_MAX]; /* why it could not be started; any bytes */
};

void microvm_add_exit(struct strbuf *sb, const struct microvm_exit *exit);
/* 0, or -EPROTO with *ret untouched. */
int microvm_parse_exit(const struct microvm_message *message,
		       struct microvm_exit *ret) CHECK_RESULT;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a receipt so that a reader sees the old file or the whole new one, never a part.
 *
 * The directory is opened before the run and used by descriptor afterwards: it may be inside a
 * write grant, and what the command renames or links there must not lead the receipt elsewhere.
 */
#ifndef CMD_CORDON_RECEIPT_H
#define CMD_CORDON_RECEIPT_H

#include <stddef.h>

#include <cordon/error.h>

struct receipt {
	int dir_fd; /* -1 = no receipt was asked for */
	const char *name;
	const char *path; /* for messages */
};

#define RECEIPT_INIT { -1, NULL, NULL }

/* Opens the directory of @path (borrowed) and checks that a receipt can be written there. */
int receipt_open(const char *path, struct receipt *ret, struct cordon_error *err);
int receipt_write(const struct receipt *receipt, const char *text, size_t len,
		  struct cordon_error *err);

#endif

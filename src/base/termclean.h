/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the output of an untrusted program harmless on a terminal.
 *
 * Theory of operation. Kept: printable UTF-8, tab, newline, carriage return. Removed without a
 * trace: well-formed escape sequences (colours, cursor movement, titles, clipboard, links, device
 * strings), since honest programs print them too. Shown as \xNN or \uNNNN: every other control
 * character, broken UTF-8 and the characters that reorder text.
 *
 * The ESC that starts a sequence is never passed on, so a mistake about where a sequence ends
 * cannot make the terminal see one: at worst some of it is shown, or some text is lost with it. How
 * much can be lost is bounded: a sequence ends at the first byte that cannot belong to it, a string
 * (OSC, DCS, APC, PM, SOS) also at the end of the line and after TERMCLEAN_STRING_MAX bytes.
 * The result does not depend on how the input is cut into pieces.
 */
#ifndef BASE_TERMCLEAN_H
#define BASE_TERMCLEAN_H

#include <stddef.h>

#define TERMCLEAN_STRING_MAX 4096
#define TERMCLEAN_SEQUENCE_MAX 128

struct termclean {
	int state;	/* 0 = ordinary text, so that {0} is a fresh cleaner */
	unsigned taken; /* bytes of the running sequence */
	unsigned char n_pending;
	char pending[4]; /* start of a UTF-8 character */
};

/* Space that termclean_feed() needs for @n bytes of input. */
#define TERMCLEAN_OUT_SIZE(n) (4 * (n) + 32)

/* Cleans @n bytes at @in into @out (TERMCLEAN_OUT_SIZE(n) bytes); returns the bytes written. */
size_t termclean_feed(struct termclean *tc, const char *in, size_t n, char *out);

/* At the end of the output: writes what is left (at most 32 bytes) and starts afresh. */
size_t termclean_finish(struct termclean *tc, char *out);

#endif

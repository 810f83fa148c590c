/* SPDX-License-Identifier: Apache-2.0 */
/* The message after CONTROL_JANITOR: the reserved names that the janitor removes. */
#ifndef FORMAT_JANITOR_H
#define FORMAT_JANITOR_H

#define JANITOR_NAMES_MAX 190 /* a descriptor each, in one message */
#define JANITOR_NAME_MAX 256

struct janitor_order {
	char names[JANITOR_NAMES_MAX][JANITOR_NAME_MAX];
};

#endif

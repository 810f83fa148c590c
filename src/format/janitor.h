/* SPDX-License-Identifier: Apache-2.0 */
/* What the janitor is told after CONTROL_JANITOR: one message with the names it looks after. */
#ifndef FORMAT_JANITOR_H
#define FORMAT_JANITOR_H

#define JANITOR_NAMES_MAX 190 /* a descriptor each, in one message */
#define JANITOR_NAME_MAX 256

struct janitor_order {
	char names[JANITOR_NAMES_MAX][JANITOR_NAME_MAX];
};

#endif

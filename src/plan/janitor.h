/* SPDX-License-Identifier: Apache-2.0 */
/* What the janitor is told after WIRE_JANITOR: one message with the names it looks after. */
#ifndef PLAN_JANITOR_H
#define PLAN_JANITOR_H

#define JANITOR_HOLDS_MAX 190 /* a descriptor each, in one message */
#define JANITOR_NAME_MAX 256

struct janitor_order {
	char names[JANITOR_HOLDS_MAX][JANITOR_NAME_MAX];
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The frameworks that `cordon new` has a project for. */
#ifndef CMD_CORDON_FRAMEWORKS_H
#define CMD_CORDON_FRAMEWORKS_H

struct framework {
	const char *name; /* also of its directory in templates/ */
	const char *summary;
};

#define FRAMEWORKS 4
extern const struct framework frameworks[FRAMEWORKS];

#endif

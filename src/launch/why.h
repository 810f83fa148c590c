/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of cordon_why() share: hosts and programs (why.c), paths (why_path.c). */
#ifndef LAUNCH_WHY_H
#define LAUNCH_WHY_H

#include "launch/said.h"

#define VERDICTS_MAX 2

struct why {
	const struct cordon_policy *policy;
	struct said said;
	struct said_subject subject;
	struct arena arena;
	struct cordon_verdict v[VERDICTS_MAX];
	size_t n;
};

void why_add(struct why *w, const char *what, const char *target, bool allowed, const char *rule,
	     const char *reason, const char *fix);

/* Two verdicts: whether it might be read, and whether it might be written to. */
int why_path(struct why *w, const char *typed, struct cordon_error *err);

#endif

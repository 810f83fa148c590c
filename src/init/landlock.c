/* SPDX-License-Identifier: Apache-2.0 */
/* The Landlock ruleset: filled while the view is built, enforced in the command's process. */
#include "init/init.h"

#include <asm/unistd.h>

#include "bare/raw.h"

#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule 445
#endif

#define RULE_PATH_BENEATH 1

/* Only the fields that are used: an older kernel refuses unknown ones unless they are zero. */
struct ruleset_attr {
	uint64_t handled_fs, handled_net, scoped;
};

struct path_beneath_attr {
	uint64_t access;
	int32_t fd;
} __attribute__((packed));

long landlock_create(struct init *in)
{
	const struct plan_header *plan = in->plan;
	const struct ruleset_attr attr = { plan->handled_fs, plan->handled_net, plan->scoped };
	size_t size = sizeof(attr);
	long fd;

	if (!plan->scoped)
		size = plan->handled_net ? 2 * sizeof(uint64_t) : sizeof(uint64_t);
	fd = raw3(__NR_landlock_create_ruleset, &attr, size, 0);
	if (fd >= 0)
		in->ruleset_fd = (int)fd;
	return fd;
}

long landlock_add(struct init *in, int object_fd, uint64_t access)
{
	const struct path_beneath_attr attr = { access, object_fd };

	if (access == 0 || in->ruleset_fd < 0)
		return 0;
	return raw4(__NR_landlock_add_rule, in->ruleset_fd, RULE_PATH_BENEATH, &attr, 0);
}

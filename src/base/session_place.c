/* SPDX-License-Identifier: Apache-2.0 */
#include "base/session_place.h"

#include <stdio.h>

void session_place(unsigned i, unsigned uid, char *ret, size_t size)
{
	if (i > 0)
		snprintf(ret, size, "/tmp/cordon-sessions-%u", uid);
	else if (uid == 0)
		snprintf(ret, size, "/run/cordon-sessions");
	else
		snprintf(ret, size, "/run/user/%u/cordon-sessions", uid);
}

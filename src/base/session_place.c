/* SPDX-License-Identifier: Apache-2.0 */
#include "base/session_place.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

void session_place(unsigned i, unsigned uid, char *ret, size_t size)
{
	if (i > 0)
		snprintf(ret, size, "/tmp/cordon-sessions-%u", uid);
	else if (uid == 0)
		snprintf(ret, size, "/run/cordon-sessions");
	else
		snprintf(ret, size, "/run/user/%u/cordon-sessions", uid);
}

int session_place_is_used(unsigned i, unsigned uid)
{
	char parent[64] = "/run";
	struct statvfs fs;
	struct stat st;
	int has_first;

	if (uid)
		snprintf(parent, sizeof(parent), "/run/user/%u", uid);
	/* Not its mode: who may write to it can change that. */
	has_first = lstat(parent, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid &&
		    statvfs(parent, &fs) == 0 && !(fs.f_flag & ST_RDONLY);
	return i == 0 ? has_first : !has_first;
}

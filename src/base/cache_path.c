/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cache_path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/path.h"

#define CORDON "/cordon/"

static int join(const char *dir, const char *rest, const char *what, char *buf, size_t size)
{
	char joined[PATH_MAX];
	int n = snprintf(joined, sizeof(joined), "%s%s%s", dir, rest, what);

	if (n < 0 || (size_t)n >= sizeof(joined))
		return -ENAMETOOLONG;
	n = path_normalise(NULL, joined, buf, size);
	return n < 0 ? n : 0;
}

void cache_home_path(const char *what, char *buf, size_t size)
{
	const char *home = getenv("HOME");

	if (!home || home[0] != '/' || join(home, "/.cache" CORDON, what, buf, size) < 0)
		buf[0] = '\0';
}

int cache_path(const char *what, char *buf, size_t size, struct cordon_error *err)
{
	const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	bool is_xdg = xdg && *xdg;
	const char *dir = is_xdg ? xdg : home;

	if (!dir || dir[0] != '/') {
		(void)cordon_err(err, CORDON_E_USAGE, 0,
				 is_xdg ? "XDG_CACHE_HOME is no absolute path"
					: "there is no cache directory: HOME is not set");
		(void)cordon_err_hint(err, "set XDG_CACHE_HOME to a directory of yours");
		return -CORDON_E_USAGE;
	}
	if (join(dir, is_xdg ? CORDON : "/.cache" CORDON, what, buf, size) < 0)
		return cordon_err(err, CORDON_E_PATH, ENAMETOOLONG, "the cache directory");
	return 0;
}

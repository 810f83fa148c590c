/* SPDX-License-Identifier: Apache-2.0 */
/* Where package layers are kept. The plan keeps commands from changing what is there. */
#ifndef BASE_CACHE_PATH_H
#define BASE_CACHE_PATH_H

#include <stddef.h>

#include <cordon/error.h>

#include "base/macros.h"

/* $XDG_CACHE_HOME/cordon/packages, or ~/.cache/cordon/packages, by the process's environment, as an
 * absolute path into @buf; it need not exist. */
int cache_packages_path(char *buf, size_t size, struct cordon_error *err) CHECK_RESULT;
/* The second of the two, whatever XDG_CACHE_HOME says; "" = HOME is not set. */
void cache_packages_home_path(char *buf, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Where package layers and the guests of level microvm are kept. The plan keeps commands from
 * changing what is there. */
#ifndef BASE_CACHE_PATH_H
#define BASE_CACHE_PATH_H

#include <stddef.h>

#include <cordon/error.h>

#include "base/macros.h"

#define CACHE_PACKAGES "packages"
#define CACHE_MICROVM "microvm"

/* $XDG_CACHE_HOME/cordon/WHAT, or ~/.cache/cordon/WHAT, by the process's environment, as an
 * absolute path into @buf; it need not exist. */
int cache_path(const char *what, char *buf, size_t size, struct cordon_error *err) CHECK_RESULT;
/* The second of the two, whatever XDG_CACHE_HOME says; "" = HOME is not set. */
void cache_home_path(const char *what, char *buf, size_t size);

#endif

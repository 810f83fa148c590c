/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions leave the library: those of the public headers, and no others.
 *
 * The library is compiled with hidden visibility. The build puts this file in front of each of its
 * sources (`-include`), so a function that a public header declares is visible wherever it is
 * defined, and need no mark. libcordon.map has the final say.
 */
#ifndef API_EXPORTS_H
#define API_EXPORTS_H

#pragma GCC visibility push(default)
#include <cordon/cordon.h>
#pragma GCC visibility pop

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_VERSION_H
#define CORDON_VERSION_H

#define CORDON_VERSION_MAJOR 0
#define CORDON_VERSION_MINOR 1
#define CORDON_VERSION_PATCH 0
#define CORDON_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/** Version of the library that is really loaded, such as "0.1.0". */
const char *cordon_version(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

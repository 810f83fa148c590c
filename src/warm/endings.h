/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARM_ENDINGS_H
#define WARM_ENDINGS_H

/* Looks at the libraries that are loaded now. @last is called when the process ends, after all
 * else. */
void endings_note(void (*last)(void)) __attribute__((visibility("hidden")));

#endif

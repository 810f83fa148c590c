/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic and units of the watch. */
#ifndef INIT_WATCH_FIGURES_H
#define INIT_WATCH_FIGURES_H

#include <stdint.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define STAT_BLOCK 512u /* of st_blocks */

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t above(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon-meter: asks NVIDIA's library (NVML) what the processes of one run use of its GPUs.
 *
 * Theory of operation. The library must not be loaded into the caller's process, so it gets one of
 * its own, outside the sandbox. The program is freestanding like init and gateway, but for one
 * thing: the machine's own dynamic loader starts it, so that it can dlopen() that library and what
 * it needs. It has neither ids of root nor capabilities, sees the system's directories, /proc and
 * the GPUs' nodes and writes nowhere (confine.c), and all this before the library comes in.
 *
 * It ends with the run: the supervisor kills it and does not wait. If the supervisor is gone, the
 * kernel kills it as its socket closes, whatever the library does meanwhile; and it looks itself.
 */
#ifndef METER_METER_H
#define METER_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "format/meter.h"

/* Leaves the meter only what the library needs; 0 or -errno. */
long meter_confine(const struct meter_order *order);

/* Is @pid, or was it when it was asked for first, a process below @init_pid? */
bool tree_has(uint32_t init_pid, uint32_t pid);

/* Loads the library and finds the GPUs; false = there is nothing to ask. */
bool nvml_open(const struct meter_order *order, int library_fd);
/* Asks once, and brings @account up to date. */
void nvml_sample(const struct meter_order *order, struct meter_account *account);

#endif

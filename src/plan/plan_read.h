/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a plan block. No C library: init uses this without one.
 *
 * After plan_read_check() returned 0 every offset, count and string of the block may be used
 * without further checks, as long as the bytes cannot change (init maps a sealed memfd).
 */
#ifndef PLAN_PLAN_READ_H
#define PLAN_PLAN_READ_H

#include <stddef.h>
#include <stdint.h>

#include "format/plan.h"

/* 0, or a small positive number that says which check failed (enum plan_read_fault). */
int plan_read_check(const void *block, size_t size);

enum plan_read_fault {
	PLAN_FAULT_NONE = 0,
	PLAN_FAULT_SIZE,
	PLAN_FAULT_MAGIC,
	PLAN_FAULT_HEADER,
	PLAN_FAULT_LAYOUT,
	PLAN_FAULT_OP,
	PLAN_FAULT_ARGV,
	PLAN_FAULT_ENVP,
	PLAN_FAULT_STRING,
	PLAN_FAULT_RLIMIT,
	PLAN_FAULT_MAX
};

/* The string at @off; "" for offset 0. */
static inline const char *plan_string(const struct plan_header *h, uint32_t off)
{
	return off ? (const char *)h + off : "";
}

static inline const struct plan_op *plan_ops(const struct plan_header *h)
{
	return (const struct plan_op *)(const void *)((const char *)h + h->ops_off);
}

static inline const uint32_t *plan_argv(const struct plan_header *h)
{
	return (const uint32_t *)(const void *)((const char *)h + h->argv_off);
}

static inline const uint32_t *plan_envp(const struct plan_header *h)
{
	return (const uint32_t *)(const void *)((const char *)h + h->envp_off);
}

#endif

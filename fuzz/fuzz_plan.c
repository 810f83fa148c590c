/* SPDX-License-Identifier: Apache-2.0 */
/* plan_read_check() over any bytes; a block that it accepts is read to the last string. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile size_t sink;

static void read_all(const struct plan_header *h)
{
	size_t sum = strlen(plan_string(h, h->exec_path));

	sum += strlen(plan_string(h, h->cwd));
	sum += strlen(plan_string(h, h->hostname));
	for (uint32_t i = 0; i < h->n_ops; i++) {
		const struct plan_op *op = plan_ops(h) + i;

		sum += strlen(plan_string(h, op->dst));
		if (op->type != PLAN_OP_FILE)
			sum += strlen(plan_string(h, op->src));
		for (uint32_t k = 0; k < op->data_len; k++)
			sum += (unsigned char)plan_string(h, op->src)[k];
		if (op->fd_index >= 0 && (uint32_t)op->fd_index >= h->n_mount_fds)
			abort();
	}
	for (uint32_t i = 0; i < h->n_argv; i++)
		sum += strlen(plan_string(h, plan_argv(h)[i]));
	for (uint32_t i = 0; i < h->n_envp; i++)
		sum += strlen(plan_string(h, plan_envp(h)[i]));
	for (uint32_t i = 0; i < h->n_rlimits; i++)
		sum += h->rlimits[i].resource;
	sink = sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	void *block;

	if (size < sizeof(struct plan_header)) {
		if (plan_read_check(data, size) == 0)
			abort();
		return 0;
	}
	/* Aligned as init maps it, and with nothing readable behind the end. */
	block = malloc(size);
	if (!block)
		return 0;
	memcpy(block, data, size);
	if (plan_read_check(block, size) == 0)
		read_all(block);
	free(block);
	return 0;
}

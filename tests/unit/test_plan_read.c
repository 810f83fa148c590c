/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of plan blocks: a good block passes, a broken one never does harm. */
#include <stddef.h>

#include "test_plan_lib.h"

static struct fixture f;
static struct plan_header *h;
static size_t size;

/* A copy of a real plan's block that may be broken. */
static int make_block(void)
{
	fx_init(&f);
	f.env[0] = "LANG=C";
	fx_set(&f, "fs.write", "ws");
	if (fx_build(&f) < 0)
		return -1;
	size = f.plan->block_size;
	h = malloc(size);
	return h ? 0 : -1;
}

static void restore(void)
{
	memcpy(h, f.plan->block, size);
}

static void drop_block(void)
{
	free(h);
	fx_done(&f);
}

#define BROKEN(change, fault)                                                                      \
	do {                                                                                       \
		restore();                                                                         \
		change;                                                                            \
		CHECK_INT(plan_read_check(h, size), fault);                                        \
	} while (0)

static struct plan_op *first_op(unsigned type)
{
	struct plan_op *ops = (struct plan_op *)(void *)((char *)h + h->ops_off);

	for (uint32_t i = 0; i < h->n_ops; i++) {
		if (ops[i].type == type)
			return &ops[i];
	}
	abort();
}

static void test_header(void)
{
	REQUIRE(make_block() == 0);
	BROKEN((void)0, PLAN_FAULT_NONE);
	BROKEN(h->magic++, PLAN_FAULT_MAGIC);
	BROKEN(h->version++, PLAN_FAULT_MAGIC);
	BROKEN(h->size--, PLAN_FAULT_LAYOUT);
	BROKEN(h->size++, PLAN_FAULT_LAYOUT);
	BROKEN(h->strings_off = (uint32_t)size, PLAN_FAULT_LAYOUT);
	BROKEN(h->strings_off = 0, PLAN_FAULT_LAYOUT);
	BROKEN(((char *)h)[size - 1] = 'x', PLAN_FAULT_LAYOUT);
	BROKEN(h->level = 0, PLAN_FAULT_HEADER);
	BROKEN(h->level = 3, PLAN_FAULT_HEADER);
	BROKEN(h->flags |= 0x8000, PLAN_FAULT_HEADER);
	BROKEN(h->outer_uid = 0, PLAN_FAULT_HEADER);
	BROKEN(h->n_argv = 0, PLAN_FAULT_HEADER);
	BROKEN(h->n_mount_fds = PLAN_MOUNT_FDS_MAX + 1, PLAN_FAULT_HEADER);
	BROKEN(h->n_ops = PLAN_OPS_MAX + 1, PLAN_FAULT_HEADER);
	BROKEN(h->n_rlimits = PLAN_RLIMITS_MAX + 1, PLAN_FAULT_RLIMIT);
	BROKEN(h->rlimits[0].resource = 16, PLAN_FAULT_RLIMIT);
	BROKEN(h->rlimits[0].soft = h->rlimits[0].hard + 1, PLAN_FAULT_RLIMIT);
	drop_block();
}

static void test_arrays(void)
{
	REQUIRE(make_block() == 0);
	BROKEN(h->ops_off = 0, PLAN_FAULT_LAYOUT);
	BROKEN(h->ops_off += 4, PLAN_FAULT_LAYOUT);
	BROKEN(h->ops_off = h->strings_off, PLAN_FAULT_LAYOUT);
	BROKEN(h->n_argv = UINT32_MAX, PLAN_FAULT_LAYOUT);
	BROKEN(h->argv_off = UINT32_MAX - 3, PLAN_FAULT_LAYOUT);
	BROKEN(h->envp_off++, PLAN_FAULT_LAYOUT);
	BROKEN(h->n_envp = 0x40000000, PLAN_FAULT_LAYOUT);
	BROKEN(*(uint32_t *)(void *)((char *)h + h->argv_off) = h->size, PLAN_FAULT_ARGV);
	BROKEN(*(uint32_t *)(void *)((char *)h + h->argv_off) = 0, PLAN_FAULT_ARGV);
	BROKEN(*(uint32_t *)(void *)((char *)h + h->envp_off) = 4, PLAN_FAULT_ENVP);
	BROKEN(h->exec_path = 0, PLAN_FAULT_STRING);
	/* A program or files, never both, and files never through a terminal. */
	BROKEN(h->flags |= PLAN_FILES, PLAN_FAULT_STRING);
	BROKEN((h->flags |= PLAN_FILES, h->exec_path = 0), PLAN_FAULT_NONE);
	BROKEN((h->flags |= PLAN_FILES | PLAN_TERMINAL, h->exec_path = 0), PLAN_FAULT_STRING);
	BROKEN(h->cwd = (uint32_t)size - 1, PLAN_FAULT_STRING);
	BROKEN(h->hostname = 8, PLAN_FAULT_STRING);
	BROKEN(h->workspace = 8, PLAN_FAULT_STRING);
	BROKEN(h->workspace = (uint32_t)size - 1, PLAN_FAULT_STRING);
	BROKEN(h->workspace = h->cwd, PLAN_FAULT_NONE);
	BROKEN(h->lost_home = 8, PLAN_FAULT_STRING);
	BROKEN(h->lost_home = (uint32_t)size - 1, PLAN_FAULT_STRING);
	BROKEN(h->lost_home = 0, PLAN_FAULT_NONE);
	drop_block();
}

static void test_steps(void)
{
	REQUIRE(make_block() == 0);
	BROKEN(first_op(PLAN_OP_BIND)->type = 0, PLAN_FAULT_OP);
	BROKEN(first_op(PLAN_OP_BIND)->type = PLAN_OP_MAX, PLAN_FAULT_OP);
	BROKEN(first_op(PLAN_OP_BIND)->flags |= 0x8000, PLAN_FAULT_OP);
	BROKEN(first_op(PLAN_OP_BIND)->dst = 0, PLAN_FAULT_OP);
	BROKEN(first_op(PLAN_OP_BIND)->src = 0, PLAN_FAULT_OP);
	BROKEN(first_op(PLAN_OP_BIND)->fd_index = 0, PLAN_FAULT_OP);
	BROKEN(first_op(PLAN_OP_BIND)->fd_index = -2, PLAN_FAULT_OP);
	BROKEN(first_op(PLAN_OP_BIND)->access = ~0ull, PLAN_FAULT_OP);
	BROKEN(first_op(PLAN_OP_DIR)->mode = 0100755, PLAN_FAULT_OP);
	BROKEN(first_op(PLAN_OP_DIR)->fd_index = 0, PLAN_FAULT_OP);
	BROKEN(first_op(PLAN_OP_FILE)->data_len = h->size, PLAN_FAULT_OP);
	BROKEN(first_op(PLAN_OP_SYMLINK)->src = 0, PLAN_FAULT_OP);
	BROKEN(first_op(PLAN_OP_SYMLINK)->data_len = 1, PLAN_FAULT_OP);
	/* Only a file is pinned by another, which has a path in the view. */
	BROKEN(first_op(PLAN_OP_PIN)->src = first_op(PLAN_OP_PIN)->dst, PLAN_FAULT_NONE);
	BROKEN(first_op(PLAN_OP_PIN)->src = h->size, PLAN_FAULT_OP);
	BROKEN((first_op(PLAN_OP_PIN)->src = first_op(PLAN_OP_PIN)->dst,
		first_op(PLAN_OP_PIN)->flags &= (uint16_t)~PLAN_FILE),
	       PLAN_FAULT_OP);
	/* A destination that leaves the new root, or is no absolute path. */
	BROKEN(memcpy((char *)h + first_op(PLAN_OP_PRIVATE)->dst, "/../a", 5), PLAN_FAULT_OP);
	BROKEN(*((char *)h + first_op(PLAN_OP_PRIVATE)->dst) = 't', PLAN_FAULT_OP);
	/* Without a mount namespace only rules are possible. */
	BROKEN(h->level = PLAN_LEVEL_LANDLOCK, PLAN_FAULT_OP);
	drop_block();
}

static void test_sizes(void)
{
	REQUIRE(make_block() == 0);
	for (size_t n = 0; n < size; n += 7) {
		/* An allocation of its own: the sanitizer sees every byte read too far. */
		void *part = malloc(n ? n : 1);

		REQUIRE(part != NULL);
		memcpy(part, f.plan->block, n);
		CHECK(plan_read_check(part, n) != 0);
		free(part);
	}
	CHECK_INT(plan_read_check(h, (size_t)PLAN_SIZE_MAX + 1), PLAN_FAULT_SIZE);
	drop_block();
}

/* Each single byte of header and steps changed: either refused or harmless to walk. */
static void test_every_byte(void)
{
	unsigned long sum = 0;

	REQUIRE(make_block() == 0);
	for (size_t i = 0; i < h->strings_off || i < sizeof(*h); i++) {
		restore();
		if (i >= h->strings_off)
			break;
		((unsigned char *)h)[i] ^= 0x80;
		if (plan_read_check(h, size) != 0)
			continue;
		for (uint32_t k = 0; k < h->n_ops; k++) {
			sum += strlen(plan_string(h, plan_ops(h)[k].dst));
			sum += strlen(plan_string(h, plan_ops(h)[k].src));
		}
		for (uint32_t k = 0; k < h->n_argv; k++)
			sum += strlen(plan_string(h, plan_argv(h)[k]));
		for (uint32_t k = 0; k < h->n_envp; k++)
			sum += strlen(plan_string(h, plan_envp(h)[k]));
	}
	CHECK(sum > 0);
	drop_block();
}

TAP_MAIN(test_header, test_arrays, test_steps, test_sizes, test_every_byte)

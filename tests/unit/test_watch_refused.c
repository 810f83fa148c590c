/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the limit of tasks may have been reached between two looks at the tree. */

/* Part of the freestanding init, in no library; what it asks is answered below. */
#include "init/watch/refused.c"

#include "tests/lib/tap.h"

#define LIMIT 16

static uint64_t newest;
static struct plan_header plan;
static struct init in;

uint64_t proc_newest(int proc_fd)
{
	(void)proc_fd;
	return newest;
}

int memory_room(struct init *init, uint64_t *ret_bytes, uint64_t *ret_inodes)
{
	(void)init, (void)ret_bytes, (void)ret_inodes;
	return 0;
}

static void start(void)
{
	plan.level = PLAN_LEVEL_NAMESPACES;
	in = (struct init){ .plan = &plan };
	in.limits.procs = LIMIT;
	newest = 2;
	refused_start(&in);
}

/* A look, while whose counting @meanwhile tasks are made that it does not see. */
static void look(uint64_t tasks, uint64_t meanwhile)
{
	refused_begin_look(&in);
	newest += meanwhile;
	refused_note_tasks(&in, tasks);
}

static int is_told(void)
{
	refused_end(&in);
	return (in.report.hits & CONTROL_HIT_MAYBE_PROCS) != 0;
}

static void test_between_looks(void)
{
	start();
	look(1, 0);
	newest += LIMIT - 1;
	CHECK(is_told());
	start();
	look(1, 0);
	newest += LIMIT - 2;
	CHECK(!is_told());
}

static void test_during_a_look(void)
{
	for (uint64_t meanwhile = 0; meanwhile < LIMIT; meanwhile++) {
		start();
		look(1, meanwhile);
		newest += LIMIT - 1 - meanwhile;
		CHECK(is_told());
		start();
		look(1, meanwhile);
		newest += LIMIT - 1 - meanwhile;
		look(3, 0);
		CHECK(is_told());
	}
}

/* Init's helpers take numbers, also those that it makes while it looks. */
static void test_helpers(void)
{
	start();
	look(1, 0);
	newest += LIMIT - 1;
	in.n_helpers = 1;
	CHECK(!is_told());
	start();
	refused_begin_look(&in);
	newest += LIMIT - 1;
	in.n_helpers = 1;
	refused_note_tasks(&in, 1);
	CHECK(!is_told());
}

/* After the largest number the first comes again. */
static void test_numbers_begin_again(void)
{
	start();
	newest = 32767;
	look(1, 0);
	in.report.hits = 0;
	newest = 300;
	CHECK(!is_told());
}

TAP_MAIN(test_between_looks, test_during_a_look, test_helpers, test_numbers_begin_again)

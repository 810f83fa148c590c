/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that live (runs_dir.h), as the verbs show them, and what a run says of itself. */
#ifndef CMD_CORDON_RUNS_H
#define CMD_CORDON_RUNS_H

#include <stdint.h>

#include <cordon/cordon.h>

#include "base/json_write.h"
#include "options.h"
#include "runs_dir.h"

#define LISTED_AFTER_MS 500 /* shorter runs are not listed, and pay nothing */

/* The listing of a run by its supervisor. */
struct listing {
	struct run_entry entry;
	int64_t started_ms; /* CLOCK_MONOTONIC */
	int is_done;	    /* it was tried */
};

#define LISTING_INIT { .entry = RUN_ENTRY_INIT }

void listing_start(struct listing *l);
/* How long until it is time, -1 = never again. */
int listing_left_ms(const struct listing *l);
/* Lists the run; 0 or -errno. */
int listing_make(struct listing *l, const struct parsed *args, const struct cordon_policy *policy,
		 const struct cordon_run *run);

/* Adds the runs that live: to the array that @w has open, or, if it is NULL, as a table. */
void runs_list(struct json_writer *w, struct strbuf *sb);

#endif

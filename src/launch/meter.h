/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's side of the meter (src/meter): what a run uses of NVIDIA's GPUs.
 *
 * It is a figure and no protection: if anything of it fails, the figure is unknown, and the run is
 * as it would be without. The run never waits for it, neither at the start nor at the end.
 */
#ifndef LAUNCH_METER_H
#define LAUNCH_METER_H

#include "format/meter.h"

struct cordon_launcher;
struct cordon_run;

struct run_meter {
	int ctl_fd; /* its end is the meter's */
	int pid_fd;
	struct meter_account *account; /* shared with the meter; NULL = there is none */
};

#define RUN_METER_INIT { .ctl_fd = -1, .pid_fd = -1 }

/* Starts it, if the plan has NVIDIA's GPUs and their library can be trusted. */
void meter_start(struct cordon_run *run);
/* Puts the figures into the result, those that can be true. */
void meter_account(struct cordon_run *run);
/* Kills it, and does not wait for its end. */
void meter_done(struct cordon_launcher *launcher, struct run_meter *meter);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the start and the end of a run have to do with its pool. */
#ifndef LAUNCH_POOL_H
#define LAUNCH_POOL_H

#include <stdbool.h>

struct cordon_launcher;
struct cordon_pool;
struct cordon_run;
struct mould;
struct parked;

/* The run's plan begins with something else: the init goes back, if it is as it was. */
void pool_give_back(struct cordon_launcher *launcher, struct parked *parked);
/* The run that took an init of @mould lets go of that. */
void pool_forget(struct cordon_pool *pool, struct mould *mould);
/* May the init that the run has from the pool be used? The last question before the command
 * starts; if not, the run is started cold. */
bool pool_may_use(struct cordon_run *run);
/* A run of the pool was freed; the reference is consumed. NULL is fine. */
void pool_run_freed(struct cordon_pool *pool);

#endif

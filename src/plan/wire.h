/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What supervisor and init say to each other over the control socket (SOCK_SEQPACKET, both ends
 * ours; the guest never sees it). Orders go in, reports come out; each is one fixed-size message.
 *
 * An init that has not been given WIRE_PLAN yet is parked: it sits in its namespaces and costs
 * nothing but memory. With WIRE_BASE it builds the part of the view that every run of such a plan
 * has, and waits again. When it is told what is the only difference between a cold and a parked
 * start.
 */
#ifndef PLAN_WIRE_H
#define PLAN_WIRE_H

#include <stdint.h>

#include "base/stage.h"

#define WIRE_FDS_MAX 200 /* descriptors in one message; the kernel takes 253 */

/*
 * Init's argument vector: one letter that says what it is to be and, if it is to map its own ids
 * (started by an ordinary user), the lines for its uid_map and gid_map. At level landlock: the
 * private directory of the run, which init removes if the supervisor is killed.
 */
#define INIT_ROLE_NAMESPACES 'n' /* unshares the other namespaces, then waits for its plan */
#define INIT_ROLE_LANDLOCK 'l'	 /* waits for its plan */
#define INIT_ROLE_HOLDER 'h'	 /* keeps its user namespace alive until the socket closes */

enum wire_order_type {
	WIRE_PLAN = 1, /* fds: plan memfd, stdin, stdout, stderr, supervisor's pidfd */
	WIRE_BASE,     /* fds: plan memfd, supervisor's pidfd; only the base of it, then wait */
	WIRE_MOUNTS,   /* fds: the next `count` detached mounts, in the plan's order */
	WIRE_SIGNAL,   /* send `arg` to the command's process group */
	WIRE_KILL,     /* end the tree and report */
	WIRE_JANITOR,  /* fds: see launch/holds.c; this process only tidies up */
};

struct wire_order {
	uint32_t type, arg, count, pad;
	int64_t fault_countdown, fault_errno; /* test builds only */
};

enum wire_report_type {
	WIRE_FAILED = 1, /* a stage failed: the command never ran */
	WIRE_ENDED,	 /* the command ran and its whole tree is gone */
};

struct wire_report {
	uint32_t type;
	uint32_t stage, op;
	int32_t sys_errno;
	int32_t wait_status; /* as waitpid gives it */
	uint32_t pad;
	uint64_t stamps_ns[STAGE_MAX]; /* CLOCK_MONOTONIC at the end of each stage */
	uint64_t ended_ns;
	uint64_t user_us, system_us, max_rss_kib;
};

#endif

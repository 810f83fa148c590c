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
	/* fds: plan memfd, stdin, stdout, stderr (unless WIRE_OWN_TERMINAL), supervisor's pidfd,
	 * the lock of the workspace (WIRE_LOCK), the socket to the gateway (WIRE_NET), the proxy's
	 * listener (WIRE_NET_PROXY); with a control group also its memory.events, cpu.stat and, for
	 * a share of the CPUs, cpu.max */
	WIRE_PLAN = 1,
	WIRE_BASE,    /* fds: plan memfd, supervisor's pidfd; only the base of it, then wait */
	WIRE_MOUNTS,  /* fds: the next `count` detached mounts, in the plan's order */
	WIRE_SIGNAL,  /* send `arg` to the command's process group */
	WIRE_END,     /* send `arg` to the command's process group, end the tree after the grace */
	WIRE_KILL,    /* end the tree and report */
	WIRE_JANITOR, /* fds: see launch/holds.c; this process only tidies up */
};

#define WIRE_UNKNOWN (~(uint64_t)0)

/* What init watches; 0 = no such limit. */
struct wire_limits {
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
	uint64_t grace_ns;
	uint64_t memory_bytes;
	uint64_t cpu_milli, cpu_time_ns;
	uint64_t procs;			  /* held by the kernel; to notice that it was reached */
	uint64_t end_at_procs;		  /* held by nobody else */
	uint64_t disk_bytes, disk_inodes; /* of workspace and private directory */
	uint64_t held_bytes, held_inodes; /* what they held before the run, or WIRE_UNKNOWN */
};

/* wire_order.flags of WIRE_PLAN */
#define WIRE_KEEP_ORPHANS 0x1u /* the tree outlives the command */
#define WIRE_OWN_TERMINAL 0x2u /* no standard streams come with it (PLAN_TERMINAL) */
#define WIRE_NET 0x4u	       /* a socket to the gateway comes with it */
#define WIRE_LOCK 0x10u	       /* the workspace's lock comes with it, before these */
#define WIRE_NET_PROXY 0x8u    /* and a listener: level landlock */

struct wire_order {
	uint32_t type, arg, count, flags;
	struct wire_limits limits;	      /* WIRE_PLAN */
	uint16_t rows, cols, pad[2];	      /* WIRE_PLAN with PLAN_TERMINAL: its size */
	int64_t fault_countdown, fault_errno; /* test builds only */
};

enum wire_report_type {
	WIRE_FAILED = 1, /* a stage failed: the command never ran */
	WIRE_ENDED,	 /* the command ran and its whole tree is gone */
	WIRE_ORPHANED,	 /* the command ended, what it left goes on (WIRE_KEEP_ORPHANS) */
	WIRE_TERMINAL,	 /* fd: the master of the command's terminal (PLAN_TERMINAL) */
};

/* The limit that ended a run. */
enum wire_limit {
	WIRE_LIMIT_NONE = 0,
	WIRE_LIMIT_WALL,
	WIRE_LIMIT_MEMORY,
	WIRE_LIMIT_CPU_TIME,
	WIRE_LIMIT_PROCS,
	WIRE_LIMIT_CPU, /* the share was not accepted */
	WIRE_LIMIT_DISK,
};

/* Limits that were reached and only refused something: wire_report.hits */
#define WIRE_HIT_PROCS 0x1u
#define WIRE_HIT_DISK 0x2u
#define WIRE_HIT_WORKSPACE 0x4u /* only seen when the command was over */
#define WIRE_HIT_LOCKED 0x8u	/* something that is kept could not be looked into at the end */

struct wire_report {
	uint32_t type;
	uint32_t stage, op;
	int32_t sys_errno;
	int32_t wait_status; /* as waitpid gives it */
	uint32_t limit;	     /* enum wire_limit */
	uint32_t hits;
	uint32_t obeyed;	       /* the supervisor wanted it to end */
	uint64_t stamps_ns[STAGE_MAX]; /* CLOCK_MONOTONIC at the end of each stage */
	uint64_t command_ended_ns;
	uint64_t ended_ns;
	uint64_t user_us, system_us;
	uint64_t memory_bytes; /* highest use of the whole tree that was seen */
	uint64_t procs;	       /* highest number of tasks that was seen */
	uint64_t disk_bytes;   /* highest use of private directories and workspace that was seen */
	/* What workspace and private directory were last seen to hold, or WIRE_UNKNOWN; the part of
	 * it that has a name in the latter; the part that has none or was not seen. */
	uint64_t held_bytes, held_inodes;
	uint64_t private_bytes, private_inodes;
	uint64_t hidden_bytes, hidden_inodes;
};

#endif

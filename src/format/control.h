/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of the control socket between supervisor and init (SOCK_SEQPACKET; the guest never
 * sees it). Orders go in, reports come out; each is one fixed-size message.
 *
 * An init without a plan is parked: it waits in its namespaces and costs nothing but memory.
 * CONTROL_COMMON makes it carry out the steps that such plans have in common, and wait again. A
 * cold and a parked start differ only in when the orders come.
 */
#ifndef FORMAT_CONTROL_H
#define FORMAT_CONTROL_H

#include <stdint.h>

#include "format/net_rule.h"
#include "format/stage.h"

#define CONTROL_FDS_MAX 200 /* descriptors in one message; the kernel takes 253 */

/*
 * Init's arguments: a letter for its role and, if it maps its ids itself (started by an ordinary
 * user), the lines for its uid_map and gid_map. At level landlock: the private directory of the
 * run, which init removes if the supervisor is killed.
 */
#define INIT_ROLE_NAMESPACES 'n' /* unshares the other namespaces, then waits for its plan */
/* The second letter: the supervisor will send a whole plan and then sleep (init/stage_net.c). */
#define INIT_PLAN_AT_ONCE '1'
#define INIT_ROLE_LANDLOCK 'l' /* waits for its plan */
#define INIT_ROLE_KEEPER 'h'   /* keeps its user namespace alive until the socket closes */
#define INIT_ROLE_JANITOR 'j'  /* removes what a killed supervisor leaves (janitor.h) */

enum control_order_type {
	/* fds: plan memfd, stdin, stdout, stderr (with CONTROL_NO_STDIO none of them, or stderr
	 * alone with CONTROL_STDERR), supervisor's pidfd, the lock of the workspace (CONTROL_LOCK),
	 * the socket to the gateway (CONTROL_NET), the socket that holds the proxy's port
	 * (CONTROL_NET_PROXY), the file to execute (CONTROL_IMAGE), the command's end of the
	 * channel (CONTROL_CHANNEL); with a control group also its memory.events, cpu.stat and, for
	 * a share of the CPUs, cpu.max */
	CONTROL_PLAN = 1,
	CONTROL_COMMON, /* fds: plan memfd, supervisor's pidfd; only its common steps, then wait */
	CONTROL_MOUNTS, /* fds: the next `count` detached mounts, in the plan's order */
	CONTROL_SIGNAL, /* send `arg` to the command's process group */
	CONTROL_END,  /* send `arg` to the command's process group, end the tree after the grace */
	CONTROL_KILL, /* end the tree and report */
	CONTROL_JANITOR, /* fds: see launch/reserve.c; this process only tidies up */
	CONTROL_COVER,	 /* fds: plan memfd, pidfd of the run's init; this process only covers names
			  */
	CONTROL_GO,	 /* start the command (CONTROL_WAIT) */
	CONTROL_RENEWED, /* the name of the plan's step `arg` has the mount `count` for a cover now
			  */
	CONTROL_GO_ON,	 /* all names are covered again */
	CONTROL_UNCOVERABLE, /* the name of the plan's step `arg` is not: end the tree and report */
	/* Sessions (PLAN_SESSION). `count` is the number that the supervisor gave the command. */
	CONTROL_EXEC,	     /* fds: block (format/command.h), stdin, stdout, stderr, and the
				channel with CONTROL_EXEC_CHANNEL; start a command */
	CONTROL_EXEC_SIGNAL, /* send `arg` to the process group of command `count` */
	CONTROL_EXEC_END,    /* the same to its tree; end that after limits.grace_ns */
	CONTROL_PAUSE,	     /* stop the whole tree */
	CONTROL_RESUME,
	CONTROL_COUNT, /* tell what the session uses now */
	CONTROL_ADOPT, /* fds: a pidfd; a parked init belongs to another supervisor from now on */
	CONTROL_BEGIN, /* the time of a run that was held begins: limits.deadline_ns */
};

#define CONTROL_UNKNOWN (~(uint64_t)0)

/* Limits that init enforces; 0 = none. */
struct control_limits {
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
	uint64_t grace_ns;
	uint64_t memory_bytes;
	uint64_t cpu_milli, cpu_time_ns;
	uint64_t procs;	       /* enforced by the kernel; to notice that it was reached */
	uint64_t end_at_procs; /* enforced by init alone */
	uint64_t disk_bytes, disk_inodes;     /* of workspace and private directory */
	uint64_t usage_bytes, usage_inodes;   /* of them before the run, or CONTROL_UNKNOWN */
	uint64_t locked_bytes, locked_inodes; /* in directories there that init cannot enter */
};

/* control_order.flags of CONTROL_PLAN */
#define CONTROL_KEEP_ORPHANS 0x1u /* the tree outlives the command */
#define CONTROL_NO_STDIO 0x2u	  /* no standard streams come with it (PLAN_TERMINAL) */
#define CONTROL_NET 0x4u	  /* a socket to the gateway comes with it */
#define CONTROL_LOCK 0x10u	  /* the workspace's lock comes with it, before these */
#define CONTROL_NET_PROXY 0x8u	  /* and the socket of the proxy's port: level landlock */
#define CONTROL_WAIT 0x40u	  /* set up everything, but start the command at CONTROL_GO only */
#define CONTROL_IMAGE 0x80u	  /* and the file to execute in place of the plan's exec_path */
#define CONTROL_CHANNEL 0x100u	  /* the command's end of the channel comes with it */
#define CONTROL_STDERR 0x20u	  /* with CONTROL_NO_STDIO: standard error is not the terminal */

/* control_order.flags of CONTROL_EXEC */
#define CONTROL_EXEC_FILES 0x1u	    /* nothing is executed: files are served (cordon/files.h) */
#define CONTROL_EXEC_KILL_REST 0x2u /* what the command leaves behind ends with it */
#define CONTROL_EXEC_CHANNEL 0x4u   /* it gets one more descriptor */
#define CONTROL_EXEC_IMAGE 0x8u	    /* the file of CONTROL_IMAGE is executed */

struct control_order {
	uint32_t type, arg, count, flags;
	struct control_limits limits;	      /* CONTROL_PLAN; time and grace of CONTROL_EXEC */
	uint16_t rows, cols, pad[2];	      /* CONTROL_PLAN with PLAN_TERMINAL: its size */
	int64_t fault_countdown, fault_errno; /* test builds only */
};

enum control_report_type {
	CONTROL_FAILED = 1, /* a stage failed: the command never ran */
	CONTROL_ENDED,	    /* the command ran and its whole tree is gone */
	CONTROL_ORPHANED,   /* the command ended, what it left goes on (CONTROL_KEEP_ORPHANS) */
	CONTROL_TERMINAL,   /* fd: the master of the command's terminal (PLAN_TERMINAL) */
	CONTROL_UNCOVERED,  /* a name has lost its cover; the tree is stopped until CONTROL_GO_ON */
	/* From the process that got CONTROL_COVER: */
	/* fd: what the name of step `uncovered` stands for now, for reading; none with `sys_errno`
	 * (why it cannot stay), or if that is a placeholder */
	CONTROL_COVERED,
	CONTROL_LOOKED,	 /* that was all; `sys_errno`: step `uncovered` could not be covered */
	CONTROL_ASKED,	 /* struct control_asked, before the report that it belongs to */
	CONTROL_BARE,	 /* the tree is gone, and the name of step `uncovered` has no cover */
	CONTROL_STOPPED, /* the command was stopped, as by Ctrl-Z (PLAN_TERMINAL) */
	CONTROL_LOST,	 /* struct control_lost, before CONTROL_ENDED */
	/* Sessions: struct control_command */
	CONTROL_EXEC_FAILED, /* the command never ran: stage, step, errno */
	CONTROL_EXEC_ENDED,
	CONTROL_COUNTED, /* struct control_count */
	CONTROL_ADOPTED, /* the answer to CONTROL_ADOPT: the old supervisor may end */
};

/* The limit that ended a run. */
enum control_limit {
	CONTROL_LIMIT_NONE = 0,
	CONTROL_LIMIT_WALL,
	CONTROL_LIMIT_MEMORY,
	CONTROL_LIMIT_CPU_TIME,
	CONTROL_LIMIT_PROCS,
	CONTROL_LIMIT_CPU, /* the share was not accepted */
	CONTROL_LIMIT_DISK,
};

/* control_report.hits: limits that were reached without ending the run */
#define CONTROL_HIT_PROCS 0x1u
#define CONTROL_HIT_DISK 0x2u
#define CONTROL_HIT_WORKSPACE 0x4u    /* noticed only after the command had ended */
#define CONTROL_HIT_LOCKED 0x8u	      /* a directory that is kept could not be read at the end */
#define CONTROL_HIT_MAYBE_PROCS 0x20u /* not seen, but it may have been */
#define CONTROL_HIT_MAYBE_DISK 0x40u
#define CONTROL_HIT_GROWN 0x10u /* the file system's growth showed it, not the run's files */

struct control_report {
	uint32_t type;
	uint32_t stage, op;
	int32_t sys_errno;
	int32_t wait_status; /* as waitpid gives it */
	uint32_t limit;	     /* enum control_limit */
	uint32_t hits;
	uint32_t on_order;  /* init ended it on the supervisor's order */
	uint32_t uncovered; /* the plan's step (as `op`) whose name lost its cover, 0 = unknown */
	uint32_t mount;	    /* CONTROL_COVERED: the id of its cover, 0 = not known */
	uint64_t stamps_ns[STAGE_MAX]; /* CLOCK_MONOTONIC at the end of each stage */
	uint64_t command_ended_ns;
	uint64_t ended_ns;
	uint64_t user_us, system_us;
	uint64_t memory_bytes; /* highest use of the whole tree that was seen */
	uint64_t procs;	       /* highest number of tasks that was seen */
	uint64_t disk_bytes;   /* highest use of private directories and workspace that was seen */
	/* Usage of workspace and private directory when last seen, or CONTROL_UNKNOWN; the part of
	 * it that has a name in the latter; the part that was not counted. */
	uint64_t usage_bytes, usage_inodes;
	uint64_t private_bytes, private_inodes;
	uint64_t unnamed_bytes, unnamed_inodes;
	/* Without net.allow: how often there was no route to an address. */
	uint64_t no_routes;
	uint64_t n_continued; /* orders to send SIGCONT that were carried out */
};

#define CONTROL_ASKED_MAX 16

/* Names that a command without a network asked for. Its own words: nothing in them is believed. */
struct control_asked {
	uint32_t type;
	uint32_t n_names;
	uint32_t has_more; /* there was no room for others */
	uint32_t pad;
	uint64_t n_unread; /* datagrams to closed ports that were not looked at */
	char names[CONTROL_ASKED_MAX][NET_NAME_MAX + 1]; /* printable */
};

#define CONTROL_EXAMPLE_MAX 256

/* Files that the command left where they vanish with the run. The guest chose their names. */
struct control_lost {
	uint32_t type;
	uint32_t home, tmp;		   /* how many, in the private home and in /tmp */
	uint32_t has_more;		   /* not everything was looked at */
	uint32_t is_tmp;		   /* where the example lies */
	char example[CONTROL_EXAMPLE_MAX]; /* the path of one, below home or /tmp; "" = none */
};

/* How a command of a session ended, or why it did not start. */
struct control_command {
	uint32_t type, number;
	uint32_t stage, op;
	int32_t sys_errno;
	int32_t wait_status; /* as waitpid gives it */
	uint32_t limit;	     /* CONTROL_LIMIT_WALL or none */
	uint32_t on_order;   /* init ended it on the supervisor's order */
	uint64_t started_ns, ended_ns;
	uint64_t user_us, system_us; /* of the command and the children it waited for */
	uint64_t memory_bytes;	     /* the largest of these processes */
};

/* What a session uses at the moment. */
struct control_count {
	uint32_t type, commands;
	uint64_t tasks, memory_bytes, cpu_us;
};

/* Whatever comes out. */
union control_message {
	uint32_t type;
	struct control_report report;
	struct control_asked asked;
	struct control_lost lost;
	struct control_command command;
	struct control_count count;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon-init: the small program that enters the layers and becomes PID 1 of the sandbox.
 *
 * Theory of operation. The supervisor clones a process straight into fresh namespaces and executes
 * this program in it, with the control socket as descriptor 0 and nothing else open. It has no
 * libc, no heap and no threads (but the broker's at level landlock): everything it needs is in the
 * plan, which it maps read-only. The stages run in a fixed order, each a function of its own file;
 * the first failure is reported as one fixed-size message and ends the process, and with it the
 * namespaces. Only when every stage has succeeded does it start the command, as a child that shares
 * its memory until exec (payload.c), and then it waits (reaper.c).
 */
#ifndef INIT_INIT_H
#define INIT_INIT_H

#include <stddef.h>
#include <stdint.h>

#include "format/control.h"
#include "format/plan.h"
#include "format/stage.h"
#include "format/steps.h"

#define CTL_FD 0 /* control socket */

#define WATCHED_MAX 3 /* workspace, /tmp, home */

/* A directory under limits.disk. */
struct watched_dir {
	int fd;
	const char *path; /* as the tree sees it */
	uint64_t devs[2]; /* devices that stat() may show for its files */
	int is_private;	  /* not the workspace, but a private directory that is kept between runs */
};

struct init {
	const struct plan_header *plan;
	int stdio[3];		       /* with a terminal: the same, but for stderr perhaps */
	int master_fd;		       /* of the command's terminal, until it is sent */
	uint16_t term_rows, term_cols; /* of the command's terminal */
	int supervisor_fd;	       /* pidfd */
	int gateway_fd;		       /* the socket to the gateway, -1 = no network */
	int image_fd;		       /* to execute in place of exec_path, -1 = none */
	int channel_fd;		       /* the command's end of the channel, -1 = none */
	int proxy_fd;		       /* level landlock: holds the proxy's port, -1 = no network */
	int attempts_fd;	       /* shows questions for names, -1 = none */
	int ruleset_fd;		       /* Landlock ruleset being filled, -1 = none */
	int root_fd;		       /* the new root */
	int host_fd;		       /* the old one, until the view is complete */
	int lock_fd;		       /* of the workspace: it is ours as long as this is open */
	int upper_fd;		       /* an overlay's upper directory, -1 = none */
	int quotas_fd;		       /* the user namespace's own limits, -1 = none */
	struct watched_dir watched[WATCHED_MAX];
	int n_watched;
	int has_submounts;    /* something is mounted below what was bound */
	long caller_umask;    /* for the command; what init makes has the modes it is given */
	uint32_t common_done; /* steps of the plan that were carried out while parked */
	int payload_pid, own_pid;
	uint64_t page_bytes; /* of the kernel's pages */
	int proc_fd;	     /* /proc, where the tree is found */
	int proc_seen;	     /* the tree was found there, since that was last set to 0 */
	long proc_error;     /* something there could not be read although it exists */
	uint64_t n_helpers;  /* that we made since the last look at the tree's tasks */
	long watch_error;    /* limits can no longer be watched: the run must end */
	int more_dead;	     /* there is more to reap */
	int exact_pid;	     /* the helper of watch/exact_count.c, 0 = none */
	int disk_pid;	     /* the helper of watch/disk.c, 0 = none */
	int is_making;	     /* one of them may exist whose number is not here yet */
	int has_status;	     /* how the command ended is known */
	int was_stopped;     /* the command was, as by Ctrl-Z, and it was not told yet */
	struct control_limits limits;
	int keep_orphans;    /* the tree outlives the command */
	int must_wait;	     /* for CONTROL_GO, before the command starts */
	int is_empty;	     /* sessions: no process is there */
	int is_lasting;	     /* memory of the set-up was given back */
	uint64_t kill_at_ns; /* the end of the grace */
	uint64_t n_cpus;
	uint64_t file_bytes; /* the most file pages that a process had mapped */
	int signal_fd;	     /* readable when a child has ended */
	int cgroup_fds[3];   /* memory.events, cpu.stat, cpu.max; -1 = not ours to use */
	int mounts_fd;	     /* readable when mounts have changed, -1 = no mount namespace */
	int is_uncovered;    /* the tree is stopped, until all names are covered */
	struct control_order late_order; /* that came meanwhile; type 0 = none */
	int moves_fd;	     /* readable when a covered object was moved, -1 = none is watched */
	const char *scratch; /* level landlock: the run's private directory */
	struct control_report report;
	int mount_fds[PLAN_MOUNT_FDS_MAX]; /* last: most runs have none */
};

/* One step failed: @op is its index within the stage. Never returns. */
void fail(struct init *in, int stage, unsigned op, long negative_errno) __attribute__((noreturn));
/* Notes the time at which a stage was done. */
void stamp(struct init *in, int stage);
const char *str_at(const struct init *in, uint32_t off);
size_t str_len(const char *s);

int receive_plan(struct init *in); /* receive.c: 1 = only the common steps, 0 = all */
const struct plan_header *map_plan(struct init *in, int fd); /* receive.c: checked */
void receive_go(struct init *in); /* receive.c: waits until the command may start */
/* receive.c: 1 got one, 0 none, <0 peer gone; *ret_n descriptors came with it, which are the
 * caller's. */
int receive_order(struct control_order *order, int ret_fds[CONTROL_FDS_MAX], int *ret_n);
void map_self(struct init *in, const char *uid_map, const char *gid_map); /* stage_userns.c */
void stage_userns(struct init *in);					  /* stage_userns.c */
void stage_common(struct init *in); /* stage_mounts.c: what does not depend on the run */
void stage_mounts(struct init *in); /* stage_mounts.c: the rest */
long mount_op(struct init *in, const struct plan_op *op); /* mount_ops.c */
void start_net(struct init *in); /* stage_net.c: begins, in the background */
/* stage_net.c: before waiting for a plan that comes soon */
void make_way_for_net(struct init *in);
void stage_net(struct init *in); /* stage_net.c: enters what was begun */
/* net_gateway.c: what the sandbox has to do with the network beyond its own loopback. */
void open_gateway(struct init *in);	   /* level namespaces: routes and listeners */
long await_gateway(const struct init *in); /* until it is ready to serve */
void serve_gateway(struct init *in);	   /* it wants a socket inside */
/* net_attempts.c: what a command without a network tries. */
void open_net_attempts(struct init *in);
int watch_net_attempts(struct init *in);	  /* there is news; 0 = do not look again */
void tell_net_attempts(struct init *in);	  /* the supervisor, and the report */
void limit_caps(struct init *in, int namespaces); /* stage_caps.c: needs no plan */
void stage_caps(struct init *in);		  /* stage_caps.c */
long cover_kernel_mounts(struct init *in);	  /* cover_mounts.c: once the view is complete */
/* covers.c: mounts that the host can take away from their names. */
void covers_count(const struct init *in); /* once the view is complete */
/* Keeps what the step covers with something else, before it does: @object_fd, which it takes over.
 */
void covers_keep(int object_fd);
/* A step whose name has no cover now, as an error's step; 0 = none. */
uint32_t covers_lost(const struct init *in);
/* The same at the end, from behind @after on (0 = all): only names that can be reached. */
uint32_t covers_left_bare(const struct init *in, uint32_t after);
/* The same if it is time to look; @has_moved: moves_fd is readable. */
uint32_t covers_check(struct init *in, int has_moved);
/* For when the mounts have changed and each name has a cover: a step whose cover came with another
 * object; 0 = none, all is as it was; -errno = not known, or something else is gone. */
long covers_swapped(const struct init *in);
/* Notes which mounts they are, once; and that the name of @step has another one now. */
void covers_note(const struct init *in);
void covers_renewed(const struct init *in, uint32_t step, uint32_t mount);
int is_cover(const struct plan_op *op);
int covers_can_again(const struct init *in, uint32_t step);
int covers_changed(struct init *in);		/* since that was last asked, or noticed */
uint64_t covers_next(uint64_t now);		/* nanoseconds until it is time */
long quotas_open(struct init *in, int proc_fd); /* quotas.c: while it can be written to */
void set_quotas(struct init *in);		/* quotas.c */
long landlock_create(struct init *in);		/* landlock.c: makes the ruleset */
long landlock_add(struct init *in, int object_fd, uint64_t access);
void start_payload(struct init *in); /* payload.c */
/* payload.c: the stack of the command's process until it executes something. Before, one of our own
 * helpers may have it that is gone by then. */
char *setup_stack(size_t *ret_size);
void setup_give_back(void); /* once the command runs */
/* terminal.c: a terminal for the command, if the plan wants one. */
void open_terminal(struct init *in);	/* before the command's process is made */
long take_terminal(struct init *in);	/* by that process; the master goes to the supervisor */
void release_terminal(struct init *in); /* once that process is there */
void open_signals(struct init *in);	/* reaper.c */
void monitor_mounts(struct init *in);	/* reaper.c: once the view is complete */
void sweep_scratch(const char *path);	/* sweep.c */
void tell_lost_files(struct init *in);	/* lost.c: the supervisor, once the tree is gone */
void supervise(struct init *in) __attribute__((noreturn)); /* reaper.c */
void run_cover(struct init *in, uint32_t step, const int *fds, int n_fds)
	__attribute__((noreturn));				       /* cover_again.c */
void run_janitor(const int *fds, int n_fds) __attribute__((noreturn)); /* janitor.c */

/* Freestanding C still lets the compiler call these. */
void *memcpy(void *dst, const void *src, size_t n);
void *memset(void *dst, int c, size_t n);

#endif

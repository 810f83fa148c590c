/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's side of a run.
 *
 * Theory of operation. A launcher keeps the init program in a sealed memfd and a pidfd of this
 * process. Starting a run spawns init straight into its user and pid namespaces (spawn.c; a parked
 * one was spawned earlier), builds the plan while init makes the other namespaces, reserves the
 * names that must not be created (reserve.c), turns grants into idmapped mounts if we are root
 * (idmap.c), and sends it all over. From then on everything is an event on one epoll
 * descriptor (run.c): bytes to relay (relay.c), init's report, the clock. The result comes from
 * init's report, never from anything the guest says (result.c).
 *
 * No globals, no threads, no signal handlers: a run is one heap object with descriptors.
 */
#ifndef LAUNCH_LAUNCH_H
#define LAUNCH_LAUNCH_H

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include <cordon/run.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "format/control.h"
#include "launch/cgroup.h"
#include "launch/gateway.h"
#include "launch/meter.h"
#include "launch/private.h"
#include "launch/workspace.h"
#include "plan/plan.h"
#include "probe/probe.h"

#define BACKSTOP_MS 500 /* how long init may be late before we act */
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define GRAVEYARD_MAX 64 /* ended inits whose exit has not been collected yet */

/* An init on its way out, and the control group that goes with it. */
struct grave {
	int pid_fd; /* -1 = collected */
	struct cgroup cgroup;
	int may_linger; /* nobody waits for it */
};

struct cordon_launcher {
	int init_fd;	    /* sealed memfd with the init program */
	int self_fd;	    /* pidfd of this process */
	pid_t pid;	    /* to notice use in a forked child */
	unsigned n_filters; /* of system calls, when it was made: other threads have them, too. Of
			       what a thread adds only the number could be compared */
	struct probe_machine machine;
	int no_namespaces; /* errno with which they failed before, 0 = they may work */

	pthread_mutex_t lock; /* protects what follows */
	struct grave graveyard[GRAVEYARD_MAX];
	unsigned n_graveyard;
	struct cgroup_home cgroups; /* does not change once found */
	int gateway_fd;		    /* sealed memfd with the gateway program, -1 = not made yet */
	int meter_fd;		    /* the same for the meter */
	int idmap_fd; /* user namespace for idmapped mounts (root only), -1 = not made yet */
	uint32_t idmap_uid, idmap_gid;
};

/* An init that waits for its plan. */
struct spawned {
	int ctl_fd;
	int pid_fd;
	pid_t pid;
	int level; /* enum plan_level */
	struct cgroup cgroup;
};

#define SPAWNED_INIT { -1, -1, 0, 0, CGROUP_INIT }

enum spawn_role {
	SPAWN_NAMESPACES,
	SPAWN_AT_ONCE, /* the same; its plan comes whole, and then we wait */
	SPAWN_LANDLOCK,
	SPAWN_KEEPER,
	SPAWN_JANITOR,
	SPAWN_COVER
};

/* Transient exhaustion. A guest can provoke it, so it must not bring the level down. */
bool error_is_transient(int error);
/* @scratch: level landlock, the private directory that init removes if we are killed. */
int spawn_init(struct cordon_launcher *launcher, enum spawn_role role, const char *scratch,
	       struct spawned *ret, struct cordon_error *err);
/* The same inside @cgroup, if possible. The group moves to *ret, or is removed. */
int spawn_init_into(struct cordon_launcher *launcher, enum spawn_role role, const char *scratch,
		    struct cgroup *cgroup, struct spawned *ret, struct cordon_error *err);
/* Ends it at once and forgets it. */
void spawned_done(struct cordon_launcher *launcher, struct spawned *spawned);
/* Hands over the common steps of a plan; init carries them out and waits. */
int spawn_deliver_common(struct cordon_launcher *launcher, struct spawned *spawned,
			 const struct plan *plan, struct cordon_error *err);
/* Makes it cover the names of a run again (init/cover_again.c); that of @step in any case. */
int spawn_deliver_cover(struct spawned *spawned, const struct plan *plan, uint32_t step,
			int init_pid_fd, struct cordon_error *err);
/* flags of spawn_deliver() */
#define DELIVER_MAPS 0x1	 /* the id maps, too */
#define DELIVER_KEEP_ORPHANS 0x2 /* the tree outlives the command */
#define DELIVER_WAIT 0x4	 /* init waits for spawn_go() before it starts the command */

/* Hands over the plan and its descriptors (@stdio not with PLAN_TERMINAL): from here on init works.
 * @order has the limits and the terminal's size in it; @gateway the sockets that init gets;
 * @lock_fd the lock of the workspace, -1 = none. */
int spawn_deliver(struct cordon_launcher *launcher, struct spawned *spawned, struct plan *plan,
		  struct control_order *order, const int stdio[3],
		  const struct run_gateway *gateway, int lock_fd, int image_fd, int channel_fd,
		  int flags, struct cordon_error *err);
/* Starts the command of an init that waits (DELIVER_WAIT). */
int spawn_go(const struct spawned *spawned, struct cordon_error *err);
/* Takes one report and the descriptor that came with it (-1 = none): 1 got it, 0 none there,
 * -errno the end. */
int spawn_receive(int ctl_fd, union control_message *ret, int *ret_fd);
int spawn_send(int ctl_fd, const struct control_order *order, const int *fds, unsigned n_fds);
/* A sealed memory file with these bytes, or -errno. */
int sealed_fd(const char *name, const void *block, size_t size);
/* Memory to share with a helper, which cannot shrink it while we read: the descriptor, or -errno.
 * *@ret is mapped for reading. */
int shared_fd(const char *name, size_t size, void **ret);
/* Sends one message with up to CONTROL_FDS_MAX descriptors. */
int send_with_fds(int socket_fd, const void *data, size_t size, const int *fds, unsigned n_fds);
/* Writes the id maps of a run started by root. */
int spawn_write_maps(pid_t pid, uint32_t inner_uid, uint32_t outer_uid, uint32_t inner_gid,
		     uint32_t outer_gid);

/*
 * An init made ahead that has carried out the common steps of a plan. It serves one run, started
 * with run_start_parked(), which owns it from then on; a run whose plan has other common steps is
 * started cold instead, and gives it back.
 */
struct parked {
	struct spawned spawned;
	struct plan *plan;
	uint64_t made_ns;
	struct mould *mould;	  /* referenced; NULL = it is no pool's */
	struct cordon_pool *pool; /* of a run: where it comes from, and may go back to */
};

#define PARKED_INIT { .spawned = SPAWNED_INIT }

/* Makes an init that carries out the common steps of @parked's plan. If that fails, the plan stays.
 */
int park(struct cordon_launcher *launcher, struct parked *parked, struct cordon_error *err);
void parked_done(struct cordon_launcher *launcher, struct parked *parked);
/* Without an init in @parked it is an ordinary start. The reference to its pool becomes the run's.
 */
int run_start_parked(struct cordon_launcher *launcher, struct parked *parked,
		     const struct cordon_policy *policy, const struct cordon_run_options *options,
		     struct cordon_run **ret, struct cordon_error *err);

/* Collects the exit of @pid_fd and removes @cgroup (both are consumed), now or later. */
void graveyard_bury(struct cordon_launcher *launcher, int pid_fd, struct cgroup *cgroup);
/* The same for a process that was killed and may be stuck in a driver: never waited for. */
void graveyard_leave(struct cordon_launcher *launcher, int pid_fd);
void graveyard_sweep(struct cordon_launcher *launcher, int wait);

/* Detached mounts of the plan's descriptors that show root's files as the run's. */
int idmap_make_mounts(struct cordon_launcher *launcher, const struct plan *plan, int *ret_fds,
		      struct cordon_error *err);

struct locks;
struct dir_lock;

struct reserved {
	struct reserved_name *v;
	size_t n;
	struct spawned janitor;
};

/* Creates the plan's placeholders. -CORDON_E_STATE: one of the names exists now, or (with
 * @may_plan_again) a directory of them is another run's placeholder: plan again. */
int reserve_names(struct cordon_launcher *launcher, struct locks *locks, const struct plan *plan,
		  int init_pid_fd, bool may_plan_again, struct reserved *ret,
		  struct cordon_error *err);
/* While the run goes on: reserves one of them again, or a name that was not missing before. The
 * janitor does not know the latter; the next run removes them if we are killed. 0 or -errno. */
int reserve_more(struct reserved *reserved, struct locks *locks, const struct plan_reserved *name);
/* Does a placeholder of the kind that @name would get stand there? */
bool reserve_is_placeholder(const struct plan_reserved *name);
/* Removes the placeholders in directories where @is_ours says that no other run is. */
void reserve_clear(struct reserved *reserved, bool (*is_ours)(const struct dir_lock *lock));
/* The same at the end, and lets the janitor go. The locks are the caller's. */
void reserve_release(struct cordon_launcher *launcher, struct reserved *reserved);

/* The end of what keeps runs in one directory from disturbing each other (run.c). */
void run_unlock(struct cordon_run *run);

#define RELAY_END_BYTES 16384

/* One direction of one standard stream. */
struct relay {
	int mode;    /* enum cordon_stream_mode */
	int pipe_fd; /* our end of the guest's pipe, -1 = done */
	int peer_fd; /* the caller's descriptor (our duplicate), -1 = none */
	int is_input, peer_is_pipe, peer_is_file;
	int is_terminal;	    /* pipe_fd is the master of the guest's terminal */
	int pipe_armed, peer_armed; /* registered with epoll, and for what */
	int64_t file_offset;	    /* input from a regular file: where it started */
	int unread_fd; /* input from a regular file: the guest's end, to count what it left */
	uint64_t total, limit; /* limit: 0 = none */
	int truncated;
	int peer_failed;    /* output: the caller's side is closed */
	int64_t last_bytes; /* output: what is still taken once the tree is gone, -1 = no end yet */
	int write_errno;    /* output: why the caller's side took no more, 0 = it did not fail */
	int keeps_end;	    /* output: the last RELAY_END_BYTES are kept, in `tail` */
	int lost;	    /* output: some was given up because it was not read in time */
	int is_held;	    /* input: it has not begun */
	struct termclean *clean;
	char *buffer; /* bytes on their way, between `start` and `end` */
	size_t start, end, capacity;
	const char *data; /* input from memory */
	size_t data_len;
	/* captured output: the first half of the limit, then a ring of the last half */
	char *head, *tail;
	size_t head_len, tail_len, tail_pos, head_max, tail_max;
};

/* @ret_guest_fd: NULL = a terminal, which comes with terminal_attach(). */
int relay_init(struct relay *relay, const struct cordon_stream *stream, int is_input,
	       int64_t limit_bytes, int *ret_guest_fd, struct cordon_error *err);
void relay_done(struct relay *relay);
/* Moves what can be moved without blocking and registers interest in the rest. */
int relay_pump_all(struct relay *const relays[], int n, int epoll_fd);
int relay_is_over(const struct relay *relay);
/* The guest is gone: what it did not read goes back to the caller's file. */
void relay_close_input(struct relay *relay, int epoll_fd);
/* The tree is gone: relays what it wrote, but not what others may write to the pipe now. */
void relay_last_output(struct relay *relay);
/* The caller has had its time to read: gives up what it did not take. */
void relay_give_up(struct relay *relay, int epoll_fd);
/* Takes both descriptors off the list. */
void relay_forget(struct relay *relay, int epoll_fd);
/* The caller has the captured bytes; later ones are only counted. */
void relay_stop_capture(struct relay *relay);
/* Keeps the end of output that is not captured, which costs a copy. */
void relay_keep_end(struct relay *relay);
/* A copy of what was captured so far, into *buf, which is the caller's to free: its length. */
size_t relay_copy(const struct relay *relay, char **buf);
/* Joins head and tail; the bytes belong to the relay. */
int relay_captured(struct relay *relay, struct cordon_output *ret);

/* A private directory for runs without a mount namespace. */
int scratch_name(struct arena *arena, const char **ret_path, int *ret_parent_fd,
		 struct cordon_error *err);
int scratch_make(const char *path, int parent_fd, struct cordon_error *err);
/* Gives it to another owner, before the command runs. */
int scratch_give(const char *path, int parent_fd, uid_t uid, gid_t gid, struct cordon_error *err);
void scratch_remove(int parent_fd, const char *path);

/* Protected names that the host replaces during the run (covers.c). */
struct run_covers {
	struct kept_name *v; /* what can be covered again, as it was */
	size_t n;
	struct spawned helper; /* which covers names again; pid_fd -1 = none */
	bool is_unsettled;     /* the end came before all that was replaced had been looked at */
	bool is_refused;       /* the run has to end, because of the name of ... */
	uint32_t step;	       /* ... this step of the plan, as in reports ... */
	int error;	       /* ... with -errno; or 0: ... */
	char key[128];	       /* ... this key in it is different */
	uint32_t bare;	       /* a step whose name had no cover when the tree was gone, 0 = none */
};

struct cordon_run {
	struct cordon_launcher *launcher;
	struct spawned spawned;
	struct plan *plan;
	struct locks *locks; /* of directories in which runs disturb each other; NULL = none yet */
	struct reserved reserved;
	struct git_snapshot *repositories; /* what lay in the plan's before the run */
	struct run_covers covers;
	struct run_gateway gateway;
	struct run_meter meter;
	struct run_workspace workspace;
	struct run_private private_dir;
	struct plan_private_dir code; /* with the run's program; fd -1 = none */
	struct relay in, out, err;
	int channel_fd;	      /* the caller's end of the channel, -1 = none */
	int channel_guest_fd; /* the command's, while it may be needed again; -1 = let go */
	int epoll_fd, timer_fd;
	uint64_t started_ns;
	uint64_t ordered_ns;	    /* when we were asked to end it, 0 = never */
	struct timespec started_at; /* by the clock that stamps files */
	pthread_mutex_t lock;	    /* held while the run is worked on, by whichever thread */
	int ending;		    /* enum cordon_kind: why we ended it, 0 = we did not */
	int reported, init_gone, over;
	int orphaning;	      /* the command has ended, the tree goes on */
	int orphaned;	      /* and the result is there */
	int closing;	      /* the tree is gone, and the streams know ... */
	uint64_t closed_ns;   /* ... since then */
	int resized;	      /* before there was a terminal */
	int is_stopped;	      /* the command, as by Ctrl-Z */
	uint64_t n_continued; /* how often we have continued it */
	int terminal_error;   /* why the command's terminal could not be taken: -errno */
	int out_of_memory;    /* the control group's limit has killed */
	struct control_report report;
	struct control_asked *asked; /* NULL = none, or not told */
	struct control_lost *lost;   /* the same */
	struct cordon_result result;
	int error_set;
	struct cordon_error error;
	int look_failed; /* what the command left in a repository could not be checked */
	struct cordon_error look_error;
	const char *scratch; /* level landlock */
	int scratch_parent_fd;
	struct arena arena;   /* copies for a second try at a lower level, names in the result */
	struct parked parked; /* to be used if it fits */
	int is_parked;	      /* init has taken the common steps of another plan, or ahead */
	struct cordon_session *session; /* that the run is; NULL = none */
	struct cordon_pool *pool;	/* that started the run, referenced; NULL = none */
	struct mould *mould;		/* of the pool's init that the run has; NULL = a new one */
	int is_stale;			/* that init may not be used, nothing has run */
	const char *why_cold;		/* it was offered an init (offer.c), and has none */
	const struct cordon_policy *retry_policy; /* NULL = no second try */
	int may_fall;				  /* to level landlock */
	struct cordon_policy *policy_copy;
	struct caller_state *caller; /* that it was started in, `ahead`; NULL = not known */
	struct cordon_run_options options;
	const char **notes;
	char *shown[2];		       /* what cordon_run_output() gave */
	struct cordon_denial *denials; /* of the result */
	size_t cap_denials;
};

/* start.c: level microvm is made of runs, by the command; a run does not have it. */
int run_refuse_microvm(const struct cordon_policy *policy, struct cordon_error *err);

/* relay.c: bytes of both outputs that have arrived here. */
uint64_t run_output_bytes(const struct cordon_run *run);

/* options.c: copies what the options point to, but for stream data. 0 or -1: out of memory. */
int run_options_keep(struct arena *arena, struct cordon_run_options *options);
/* pretend.c: the plan of a run that is not started. @given has the policy, the level and what else
 * is special about it; the rest is filled in. */
int pretend_run(struct cordon_launcher *launcher, const struct plan_input *given,
		const struct cordon_run_options *options, struct plan **ret,
		struct cordon_error *err);
/* The level such a run would have: what is to be had is found out by trying, once. */
int pretend_level(struct cordon_launcher *launcher, const struct cordon_policy *policy);

/* start.c: adds to what cordon_run_notes() returns; @note is kept. */
void run_add_note(struct cordon_run *run, const char *note);

/* Takes the master of the command's terminal, which is consumed: 0 or -errno. */
int terminal_attach(struct cordon_run *run, int master_fd);

/* run.c: until when we wait, @ms from now. */
int run_set_clock(struct cordon_run *run, uint64_t ms);

/* ahead.c: with the option `ahead`, takes down the state in which the run is started. */
void ahead_begin(struct cordon_run *run);
void ahead_made(struct cordon_run *run);
void ahead_forget(struct cordon_run *run);

/* channel.c */
/* Makes the channel if the options ask for one and there is none yet. */
int channel_open(struct cordon_run *run, struct cordon_error *err);
/* Everything is set up, and init has the command's end. */
void channel_started(struct cordon_run *run);
/* Lets go of the command's end when no second try can need it. @is_over: there is none. */
void channel_check(struct cordon_run *run, int is_over);
void channel_done(struct cordon_run *run);

/* cgroup_run.c */
/* Where a run gets a control group; NULL = it gets none. Reads what plan_wants_cgroup() reads. */
const struct cgroup_home *run_cgroup_home(struct cordon_launcher *launcher,
					  const struct plan_input *input);
/* A control group for the limits that it can enforce; without one init watches them. */
void run_make_cgroup(struct cordon_run *run, const struct cordon_policy *policy, int level,
		     struct cgroup *ret);
/* The same for a parked init, which was made before the limits were known. */
void run_move_parked(struct cordon_run *run, const struct cordon_policy *policy);

/* covers.c */
/* Before the run: what is in the configs of the plan's repositories. */
int covers_note(struct cordon_run *run, struct cordon_error *err);
/* Init has stopped the tree, since a name has lost its cover. */
void covers_begin(struct cordon_run *run, uint32_t step);
/* Takes what the helper says; once it is done the tree goes on or ends. */
void covers_process(struct cordon_run *run);
/* The tree is gone, and the name of @step had no cover. */
void covers_lost(struct cordon_run *run, uint32_t step);
/* What stands there now is judged. After the tree, before repositories_check(). */
void covers_end(struct cordon_run *run);
void covers_done(struct cordon_run *run);
/* The error of a run that had to end because of a name; false = it had not. */
bool covers_error(const struct cordon_run *run, struct cordon_error *err);
/* Puts aside what would run by itself later, and tells; @what: of the denial. */
void put_aside(struct cordon_run *run, const struct plan_reserved *name, const char *what);

/* repositories.c */
/* Before the run: records what lies in the plan's repositories. */
int repositories_note(struct cordon_run *run, struct cordon_error *err);
/* After it: puts aside what has changed, and adds it to the result's denials. If that cannot be
 * done, look_failed is set. */
void repositories_check(struct cordon_run *run);

/* @text as one word of a shell command. */
void add_shell_word(struct strbuf *sb, const char *text);

/* After it: puts aside what is new among the protected names that were not held. */
void absent_names_check(struct cordon_run *run);

/* said.c */
#define SAID_DENIALS_MAX 8 /* of one command */

/* A command that has ended, and what came out of it. */
struct said_subject {
	const struct plan *plan;
	struct arena *arena; /* of the denials' strings */
	const char *cwd;     /* that it started in, absolute; NULL = the plan's */
	struct relay *out, *err;
	bool has_failed;
	bool tells_files; /* the host may be asked about what the command does not see */
};

/* May the run's command say something that a denial can be made of? */
bool said_is_wanted(const struct plan *plan);
bool said_has_failed(const struct cordon_result *res);
/* A denial for each refusal that the command's own words name; how many there are. */
size_t said_look(const struct said_subject *subject, struct cordon_denial ret[SAID_DENIALS_MAX]);
/* The same of a text, which somebody else has read; subject->out and err do not matter. */
size_t said_look_at(const struct said_subject *subject, const char *text, size_t len,
		    struct cordon_denial ret[SAID_DENIALS_MAX]);
/* Adds those of the run's command to its result, whose kind is known. */
void said_account(struct cordon_run *run);

void result_fill(struct cordon_run *run);
/* The result becomes an error if what the command left could not be checked. */
void result_add_look(struct cordon_run *run);
/* Adds a denial, unless memory is out; without `how` it is "enforced". The strings must live as
 * long as the run. */
void result_deny(struct cordon_run *run, const struct cordon_denial *denial);
/* The step of the plan that init failed at; NULL if it was none of them. */
const struct plan_op *report_plan_op(const struct plan_header *h, const struct control_report *rep);
/* What went wrong inside, in words. */
void result_uncovered_error(const struct plan *plan, const struct control_report *report,
			    struct cordon_error *err);
void result_stage_error(const struct plan *plan, const struct control_report *report,
			struct cordon_error *err);
uint64_t clock_ns(void);
#define HINT_REFUSED                                                                               \
	"something around Cordon refuses the system call: a filter of a container or a service, "  \
	"or a security module"
/* The remedy where a system call was refused and no better one is known. */
void hint_if_refused(struct cordon_error *err);
/* A sealed memory file with a program of ours. */
int launcher_program_fd(const char *name, const void *image, size_t len, struct cordon_error *err);
/* publish.c: opens the host's side of what the plan publishes; how many sockets, or an error. */
int publish_listen(struct cordon_run *run, int *ret_fds, struct cordon_error *err);
/* The place for control groups, NULL if there is none. */
const struct cgroup_home *launcher_cgroups(struct cordon_launcher *launcher);

#endif

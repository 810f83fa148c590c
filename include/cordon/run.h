/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running a command under a policy.
 *
 * A launcher holds what can be prepared once (the sealed init program, facts about the machine). A
 * run is one command in one sandbox. Runs never block: cordon_run_start() starts one,
 * cordon_run_fd() is a descriptor to poll for reading, cordon_run_process() handles what happened,
 * and once that returned 1 cordon_run_result() has the account. cordon_run_wait() is a loop over
 * these for callers without an event loop.
 *
 * Threads: a launcher may be used by any number of threads at once. One run must be used by one
 * thread at a time, not necessarily the one that started it. The library has no globals, starts no
 * threads, installs no signal handlers and needs no SIGCHLD. A host gets that signal all the same
 * when a sandbox's init ends. Collecting init with waitpid(-1) does no harm, nor does ignoring
 * SIGCHLD.
 *
 * Fork: a forked child of the host must not use its parent's launchers or runs; it may close their
 * descriptors by exec. The sandbox dies with the process that started it, even if a forked child of
 * that process still holds copies of the descriptors.
 */
#ifndef CORDON_RUN_H
#define CORDON_RUN_H

#include <stddef.h>
#include <stdint.h>

#include <cordon/error.h>
#include <cordon/policy.h>
#include <cordon/workspace.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct cordon_launcher;
struct cordon_run;

/** Prepares a launcher: one is enough for a process. Free it with cordon_launcher_free(). */
int cordon_launcher_new(struct cordon_launcher **ret, struct cordon_error *err);

/** Frees the launcher; every run started from it must have been freed before. Waits until
 * the kernel has taken down ended runs (some milliseconds at most). NULL is fine. */
void cordon_launcher_free(struct cordon_launcher *launcher);

enum cordon_stream_mode {
	CORDON_STREAM_NULL = 0, /* stdin: at end of file; output: thrown away (counted) */
	CORDON_STREAM_CAPTURE,	/* output: kept in memory up to limits.output (default 1 MiB) */
	CORDON_STREAM_FD,	/* relayed from or to `fd`, which stays the caller's */
	CORDON_STREAM_DATA,	/* stdin only: the bytes at `data` */
	CORDON_STREAM_JOIN,	/* stderr only: goes wherever stdout goes, in order */
	CORDON_STREAM_PASS,	/* output of a session's command: `fd`, a pipe's end, is its own */
};

struct cordon_stream {
	int mode; /* enum cordon_stream_mode */
	int fd;
	const void *data; /* borrowed until the run is freed */
	size_t data_len;
	int clean; /* output to a terminal: remove control sequences */
};

struct cordon_run_options {
	size_t size; /* sizeof(struct cordon_run_options); set by the INIT macro */
	const char *const *argv;
	const char *const *envp; /* environment the policy picks from; NULL = none */
	const char *cwd;	 /* caller's directory for relative paths; NULL = getcwd() */
	const char *home;	 /* caller's home directory; NULL = from the user database */
	const char *search_path; /* PATH used to find argv[0]; NULL = from envp */
	struct cordon_stream in, out, err;
	/* time limit if the policy has none: milliseconds, 0 = 30 seconds, -1 = none */
	int64_t default_wall_ms;
	/* memory limit if the policy has none: bytes, 0 = 256 MiB, -1 = none */
	int64_t default_memory_bytes;
	int orphans; /* enum cordon_orphans */
	/*
	 * 1: the command gets a terminal of its own, which is its standard input, output and error
	 * and its controlling terminal. `in` is what is typed there, `out` is what appears there.
	 * With `err` NULL or JOIN, standard error appears there, too; in the other modes it is
	 * apart. Any descriptor will do. If it is a terminal, its
	 * settings are left alone: the caller makes it raw and restores it. Bytes pass unchanged,
	 * escape sequences included.
	 */
	int terminal;
	uint16_t rows, cols; /* its size; 0 = 24 and 80 */
	/* A descriptor to which one JSON line per connection is written when that ends (best opened
	 * to append). All lines are there when the run is over. It is duplicated and stays the
	 * caller's. 0 = none, unlike elsewhere, so that zeroed options have no log; negative = none
	 * too. */
	int net_log_fd;
	/*
	 * For policies with fs.workspace. A name or id: the workspace is continued if it exists,
	 * and made under this name if not. NULL = a new one without a name. `workspace_from`: a new
	 * one that begins as a copy of this one (name or id).
	 */
	const char *workspace_name, *workspace_from;
	/* Called now and then while cordon_run_start() copies a workspace, which may take long (see
	 * cordon_mechanism). Not 0 = stop; the run does not start. NULL = no calls. */
	int (*workspace_progress)(void *arg, uint64_t files, uint64_t bytes);
	void *workspace_arg;
	int workspace_changes; /* 1: the result lists what was changed */
	const char *state_dir; /* where workspaces are kept; NULL = $XDG_STATE_HOME/cordon or
				  ~/.local/state/cordon by the process's environment */
	/*
	 * 1: nothing is executed (`argv` does not matter). Instead the run serves the protocol of
	 * cordon/files.h on its standard input and output: files as a command of this policy would
	 * see them, with the rights it would have. Not together with `terminal`.
	 */
	int files;
	/*
	 * A directory (absolute path) that keeps the private part of the view from run
	 * to run: its `tmp` is /tmp, its `home` the home directory (level landlock: TMPDIR and
	 * HOME). It is made if it is missing, and so are these two; the way to it may go through no
	 * link that a command could have made (realpath() it first if it may). limits.disk holds
	 * over both together, with what is there already. Several runs may use one at the same
	 * time. NULL = fresh memory for each run. cordon_private_remove() removes one.
	 */
	const char *private_dir;
	/*
	 * A directory (absolute path) with the program of this run. The run sees it at
	 * CORDON_CODE_DIR (level landlock: at its own path) and cannot change it, and no other run
	 * sees it at all, not even one with the same `private_dir`. It must be readable for the
	 * run's user, and stays the caller's to remove. NULL = none.
	 */
	const char *code_dir;
	/*
	 * A sealed memory file (memfd_create()) that is executed in place of argv[0]'s file. All
	 * else is as for argv[0]: what it may do, what it sees, its arguments. It must have the
	 * seals WRITE, GROW, SHRINK and SEAL, so that no run can change it for the next. It is
	 * duplicated and stays the caller's. 0 = none, as with net_log_fd; negative = none too.
	 */
	int image_fd;
	/*
	 * 1: the command has one end of a stream socket as descriptor CORDON_CHANNEL_FD, and
	 * cordon_run_channel() is the other. It is for a program of the caller's own that talks to
	 * it beside the standard streams. Not together with `files`.
	 */
	int channel;
	/* Set by cordon_session_start() (session.h). Leave it 0. */
	int session;
	/* 1: the run is started ahead, for a user to come: cordon_run_is_as_new(). */
	int ahead;
	/*
	 * 1: a denial may say of a path that the command named that the host has it, for a person
	 * who sits there. 0: such denials are made by the policy alone, since who reads the result
	 * may have written the command, as a model does, and would learn which files there are.
	 */
	int tells_files;
	/*
	 * 1: the command is started now, and its time (limits.wall) and its standard input begin
	 * with cordon_run_begin(): for a program of the caller's own that waits at the channel
	 * until there is work. `in` must be CORDON_STREAM_NULL.
	 */
	int held;
};

#define CORDON_CODE_DIR "/run/cordon"
#define CORDON_CHANNEL_FD 3

/* What becomes of processes that the command leaves behind when it ends. */
enum cordon_orphans {
	CORDON_ORPHANS_KILL = 0, /* they end with it */
	/* The result is complete when the command has ended; what it left goes on, within the same
	 * limits, until the run is cancelled or freed. cordon_run_process() may be called further
	 * to relay what it writes. */
	CORDON_ORPHANS_KEEP,
};

#define CORDON_RUN_OPTIONS_INIT { .size = sizeof(struct cordon_run_options) }

enum cordon_kind {
	CORDON_KIND_NONE = 0, /* still running */
	CORDON_KIND_EXITED,
	CORDON_KIND_SIGNALED,
	CORDON_KIND_TIMEOUT,
	CORDON_KIND_CANCELLED,
	CORDON_KIND_SPAWN_FAILED,  /* the command could not be executed */
	CORDON_KIND_SANDBOX_ERROR, /* a protection failed: the command never ran */
	CORDON_KIND_MEMORY,	   /* ended at limits.memory */
	CORDON_KIND_CPU_TIME,	   /* ended at limits.cpu_time */
	CORDON_KIND_OUTPUT,	   /* ended at limits.output (limits.output_end) */
	CORDON_KIND_DISK,	   /* ended at limits.disk */
	CORDON_KIND_PROCS,	   /* ended at limits.procs, where the kernel cannot refuse */
	CORDON_KIND_DENIED,	   /* the policy itself refused to run the command */
	CORDON_KIND_MAX
};

enum cordon_level {
	CORDON_LEVEL_AUTO = 0,
	CORDON_LEVEL_LANDLOCK,
	CORDON_LEVEL_NAMESPACES,
	CORDON_LEVEL_MICROVM, /* `cordon run` only; the library refuses it */
	CORDON_LEVEL_MAX
};

struct cordon_output {
	const char *data; /* captured bytes, not NUL-terminated; NULL unless CAPTURE */
	size_t len;
	uint64_t total_bytes; /* how many the command wrote */
	int truncated;
	int write_errno; /* FD: why the rest could not be written (a full disk; ETIMEDOUT: it was
			  * not read in time), 0 = all was */
};

struct cordon_denial {
	const char *what;   /* "execve", "procs", ... */
	const char *target; /* what was refused */
	const char *rule;   /* policy key behind it */
	const char *fix;    /* flag that would allow it; NULL = none */
	/* How it is known. "enforced": by what refused it. "observed": Cordon saw signs of it, such
	 * as a counter of the kernel's. "said": the command named it in its output, and it is so.
	 */
	const char *how;
	/* These only where they are known. */
	uint64_t count;	     /* how often, 0 = not known */
	int sys_errno;	     /* what the command got, 0 = not known; with "said" by its own words */
	const char *program; /* that asked, by the name that it gave itself; NULL = not known */
};

/* What enforces a limit. */
struct cordon_held {
	const char *limit; /* "memory", "procs", ... */
	const char *by;	   /* "cgroup", "rlimit", "tmpfs", "watch" or "none" */
};

/* A port inside the sandbox and where it is reached on the host (net.publish). */
struct cordon_published {
	const char *address;  /* of the host: "127.0.0.1" */
	const char *protocol; /* "tcp" or "udp" */
	uint16_t host_port;
	uint16_t port; /* inside */
};

/* The workspace of a run (fs.workspace), which stays until it is committed or discarded. */
struct cordon_run_workspace {
	const char *id, *name, *base; /* name: NULL = none */
	int mechanism;		      /* enum cordon_mechanism */
	/* What differs from the base; known once the result is there. */
	struct cordon_summary summary;
	int is_settled;	     /* 0: the summary could not be made */
	int is_new;	     /* made for this run */
	int is_kept;	     /* 0: removed, as nothing was changed and it has no name */
	const char *changes; /* a JSON array, if the options ask for it; else NULL */
	/* What became of it, for the receipt: "kept" or "empty" (removed). A caller that commits or
	 * discards it puts its own word into a copy of this. */
	const char *outcome;
};

/* Files that the command left in its private home and /tmp, which are gone with the run. Only files
 * with content, and not what tools keep there for themselves (caches, state, temporary files). */
struct cordon_lost_files {
	uint64_t home, tmp; /* how many were found in each */
	int has_more;	    /* 1: not everything was looked at, there may be more */
	/* One of them, below the home or /tmp: "results.csv". NULL = none that is short enough. The
	 * command chose the bytes: clean them before they are shown. */
	const char *example;
	int is_example_tmp; /* it lies in /tmp */
};

#define CORDON_STAMPS_MAX 16

/* What is known of the GPUs that a run used. */
enum cordon_gpu_known {
	CORDON_GPU_MEMORY = 1,
	CORDON_GPU_UTILIZATION = 2
};

/** Account of one run; lives as long as the run. Fields may be added at the end. */
struct cordon_result {
	int kind;      /* enum cordon_kind */
	int exit_code; /* the command's own, -1 if it has none */
	int signal;    /* signal that ended it, 0 = none */
	int status;    /* exit status as the command line gives it (0-255) */
	struct cordon_output out, err;
	double duration_ms, setup_ms;
	double cpu_user_ms, cpu_system_ms;
	uint64_t max_memory_bytes; /* of the whole tree, the highest that was seen */
	int level;		   /* enum cordon_level that was really used */
	const char *const *layers; /* NULL-terminated names */
	const char *const *missing;
	const struct cordon_denial *denials;
	size_t n_denials;
	struct cordon_error error; /* code 0 unless SPAWN_FAILED or SANDBOX_ERROR */
	/* microseconds since the start of the run at which each stage was done, 0 = not reached */
	uint32_t stamps_us[CORDON_STAMPS_MAX];
	double run_ms;	    /* from the command's start to its end */
	double teardown_ms; /* from its end to that of the whole tree */
	uint64_t procs_peak, disk_bytes;
	int usage_known;		  /* 0: CPU, memory, tasks and disk are unknown */
	const struct cordon_held *limits; /* what enforced each limit */
	size_t n_limits;
	uint64_t net_bytes_in, net_bytes_out; /* through the gateway, to the sandbox and from it */
	const struct cordon_published *published;
	size_t n_published;
	const struct cordon_run_workspace *workspace; /* NULL = none */
	const struct cordon_lost_files *lost_files;   /* NULL = none */
	/* Of NVIDIA's GPUs, as far as the driver's library tells; of others nothing is known. */
	int gpu_known;			  /* enum cordon_gpu_known: which of the following */
	uint32_t gpu_utilization_percent; /* the mean, 0 to 100 */
	uint64_t max_gpu_memory_bytes;	  /* of the whole tree, the highest that was seen */
};

/** Starts a run. @policy and all of @options are used only during this call, except stream data.
 * On failure nothing runs. Failures found later (inside the sandbox) end the run with kind
 * SANDBOX_ERROR or SPAWN_FAILED. */
int cordon_run_start(struct cordon_launcher *launcher, const struct cordon_policy *policy,
		     const struct cordon_run_options *options, struct cordon_run **ret,
		     struct cordon_error *err);

/** Descriptor that polls readable when cordon_run_process() has something to do. Owned by the run.
 */
int cordon_run_fd(const struct cordon_run *run);

/** The caller's end of the channel, -1 = there is none. Non-blocking, and owned by the run. The
 * other side is the guest: bound every length, and read with recv() or read() only, since with
 * recvmsg() it could hand over descriptors. Until the command has written something the run may
 * hold a copy of its end, for a start at a lower level; cordon_run_process() lets go of it, so call
 * that before the first bytes are read. */
int cordon_run_channel(const struct cordon_run *run);

/** For a run that was started with `ahead`: 1 = it goes on, and one that the
 * calling thread started now would inherit the same: ids, capabilities, filters, limits, umask,
 * scheduling, control group, namespaces, Landlock domain. 0 = not so, or it cannot be told (level
 * landlock); then start another one. It says nothing about files that the host has put in the place
 * of others. */
int cordon_run_is_as_new(const struct cordon_run *run);

/** Begins a run that was started with `held`: its times count from now, and its standard input is
 * the @len bytes at @data (borrowed until the run is freed), or empty. @wall_ms: its time limit in
 * milliseconds; 0 = that of its start, -1 = none. The command hears of nothing: the caller tells it
 * through the channel. CORDON_E_STATE: it has begun already, is over, or is being ended. */
int cordon_run_begin(struct cordon_run *run, const void *data, size_t len, int64_t wall_ms,
		     struct cordon_error *err);

/** What the run publishes: *ret_n entries, which live as long as the run. Known as soon as it is
 * started; the host's ports are open by then, also those that were picked (HOSTPORT 0). */
const struct cordon_published *cordon_run_published(const struct cordon_run *run, size_t *ret_n);

/** Remarks worth showing to a person (NULL-terminated); valid as long as the run. Ask again when
 * the result is complete: there may be more at the end of the list. */
const char *const *cordon_run_notes(const struct cordon_run *run);

/** Handles what happened; never blocks. 0 = still running, 1 = the result is complete. */
int cordon_run_process(struct cordon_run *run, struct cordon_error *err);

/** 1 = the result is complete and no process is left. With CORDON_ORPHANS_KEEP the second may come
 * later than the first: cordon_run_fd() polls readable then, and cordon_run_process() finds out. */
int cordon_run_is_over(struct cordon_run *run);

/** Processes until the run is over or @timeout_ms passed (-1 = no limit). 0 = still running. */
int cordon_run_wait(struct cordon_run *run, int timeout_ms, struct cordon_error *err);

/** What was captured so far (CORDON_STREAM_CAPTURE). Valid until the next call, or the end of the
 * run. Not while another thread works on the run. */
void cordon_run_output(struct cordon_run *run, struct cordon_output *ret_out,
		       struct cordon_output *ret_err);

/** What a text of a run says about its errors, judged as the words of a command are (how "said"):
 * for runs that serve files, whose errors are no words. Not before the run has a result; *ret lives
 * as long as the run. */
int cordon_run_refusals(struct cordon_run *run, const char *text, size_t len,
			const struct cordon_denial **ret, size_t *ret_n, struct cordon_error *err);

/** Sends @signal to the command's process group. */
int cordon_run_signal(struct cordon_run *run, int signal, struct cordon_error *err);

/** 1 = the command has a terminal and was stopped there (Ctrl-Z), as a shell would notice it.
 * cordon_run_signal() with SIGCONT continues it. */
int cordon_run_is_stopped(struct cordon_run *run);

/** Changes the size of the command's terminal and sends SIGWINCH. An error if the run has no
 * terminal; nothing happens once the run is over. */
int cordon_run_resize(struct cordon_run *run, uint16_t rows, uint16_t cols,
		      struct cordon_error *err);

/** Asks the command to end: sends @signal to its process group, and ends the whole tree when the
 * policy's grace is over. The result's kind becomes CANCELLED. Any thread may call this. */
int cordon_run_end(struct cordon_run *run, int signal, struct cordon_error *err);

/** Ends the whole tree; the result's kind becomes CANCELLED. Not an error if the run is over. Any
 * thread may call this while another one waits for the run, but not while one frees it. */
int cordon_run_cancel(struct cordon_run *run, struct cordon_error *err);

/** The account of the run; NULL until cordon_run_process() returned 1. Valid until it is freed. */
const struct cordon_result *cordon_run_result(const struct cordon_run *run);

/** Ends the run if it is not over, and frees it. NULL is fine. */
void cordon_run_free(struct cordon_run *run);

/** Id of the workspace that @run has, or had; valid as long as @run. NULL: none. Any thread may
 * ask. */
const char *cordon_run_workspace(const struct cordon_run *run);

/** cordon_workspace_branch() of the workspace that @run has at this moment; the run goes on. What
 * it changes meanwhile is copied or not: for a copy of one moment the command must be at rest, and
 * only the caller can know. CORDON_E_STATE: it has none, or is over. */
int cordon_run_branch(struct cordon_run *run, uint64_t max_bytes, uint64_t max_files,
		      struct cordon_workspace **ret, struct cordon_error *err);

/** Removes a private directory (cordon_run_options.private_dir) with all that runs left in it. Not
 * an error if it does not exist. If a run still uses it, it may be removed in part, and that is an
 * error. A directory with other content stays as it is (CORDON_E_PATH). */
int cordon_private_remove(const char *dir, struct cordon_error *err);

/** Copies the private directory @from, with all that runs left in it, into the empty directory @to
 * (mode 0700), which is one afterwards. Blocks are shared where the filesystem can; FIFOs and
 * sockets are left out. @max_bytes and @max_files: more is an error; 0 = no bound. After an
 * error cordon_private_remove() removes what is there. What a run changes meanwhile is copied or
 * not. */
int cordon_private_copy(const char *from, const char *to, uint64_t max_bytes, uint64_t max_files,
			struct cordon_error *err);

/** Puts what runs left in the private directory @other in the place of what is in @dir, which goes
 * there. No run may use either. Each of /tmp and home changes its place at once: after an error
 * both are where they were, and who is killed meanwhile loses neither. Both must have both, on one
 * filesystem that can do that (NFS cannot). */
int cordon_private_exchange(const char *dir, const char *other, struct cordon_error *err);

/* A private directory that the Python package made for a sandbox. */
struct cordon_private_info {
	const char *id;		   /* the sandbox's, its name in the directory of all */
	const char *dir;	   /* absolute */
	uint64_t bytes, files;	   /* what runs left in it */
	int is_partial;		   /* there is more, in directories that are closed */
	int64_t created_s, used_s; /* seconds since 1970 */
	int is_kept;		   /* it was meant to outlive its program */
	int in_use;		   /* by a program, at this moment */
};

/** Calls @call for every private directory of the Python package; not 0 stops. They lie in
 * $XDG_STATE_HOME/cordon/sandboxes (or ~/.local/state), or in cordon-UID/sandboxes of the directory
 * for temporary files. What is passed is valid during the call. */
int cordon_private_list(int (*call)(void *arg, const struct cordon_private_info *info), void *arg,
			struct cordon_error *err);

/** Removes those that killed programs left, and with @older_than_s 0 or more also those that were
 * kept and not used for so many seconds. What is in use stays. @told (may be NULL) hears of each
 * that was removed. *ret_n (may be NULL): how many. If one could not be removed, the others are
 * all the same. */
int cordon_private_gc(int64_t older_than_s, int dry_run,
		      void (*told)(void *arg, const struct cordon_private_info *info,
				   const char *why),
		      void *arg, uint64_t *ret_n, struct cordon_error *err);

/** The receipt as JSON. @with_output: with stdout and stderr. Free with cordon_free(). */
int cordon_result_to_json(const struct cordon_result *result, int with_output, char **ret,
			  struct cordon_error *err);

/** The plan that cordon_run_start() would carry out, as JSON; nothing runs. Free with
 * cordon_free(). */
int cordon_plan_to_json(struct cordon_launcher *launcher, const struct cordon_policy *policy,
			const struct cordon_run_options *options, char **ret,
			struct cordon_error *err);

/* What a run would be allowed, and why. */
struct cordon_verdict {
	const char *what;   /* "read", "write", "connect" or "execve" */
	const char *target; /* what was asked about, in full */
	int allowed;
	const char *rule;   /* policy key that decides; NULL = none does */
	const char *reason; /* a sentence without its end */
	const char *fix;    /* flag that would allow it; NULL = none, or none is suggested */
};

/** Whether a run with this policy might use @subject: a path ("./x", "/x"), a host ("name.example",
 * "192.0.2.1:22") or a program ("git"). Nothing of it runs, and no host is asked; files of the
 * caller's are looked at. With isolation auto an empty sandbox is made once, to see what can be
 * had. *ret is an array of *ret_n verdicts (two for a path); free it with cordon_free().
 * @options: as for cordon_run_start(); argv may be NULL. */
int cordon_why(struct cordon_launcher *launcher, const struct cordon_policy *policy,
	       const struct cordon_run_options *options, const char *subject,
	       struct cordon_verdict **ret, size_t *ret_n, struct cordon_error *err);

/** Name of an enum cordon_kind as in receipts, such as "timeout"; "unknown" if it is none. */
const char *cordon_kind_name(int kind);
/** Name of an enum cordon_level, such as "landlock"; "unknown" if it is none. */
const char *cordon_level_name(int level);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

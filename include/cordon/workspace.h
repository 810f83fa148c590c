/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workspaces: copy-on-write views of directories, and what becomes of them.
 *
 * A run with fs.workspace sees a directory (the base) at its own path and may change everything in
 * it, while the base itself stays as it is. What was changed is kept in the user's state directory
 * ($XDG_STATE_HOME/cordon, ~/.local/state/cordon) until it is committed or discarded. Further
 * runs may continue a workspace; several may have the same base; one can begin as a copy of
 * another.
 *
 * Nothing here runs a program or trusts what it finds in a workspace: names, links, modes and
 * attributes are data.
 *
 * Threads: an opened workspace must be used by one thread at a time.
 */
#ifndef CORDON_WORKSPACE_H
#define CORDON_WORKSPACE_H

#include <stddef.h>
#include <stdint.h>

#include <cordon/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct cordon_workspace;

/* How the view is made. */
enum cordon_mechanism {
	CORDON_MECHANISM_OVERLAY = 1, /* an overlay over the base: costs nothing to make */
	CORDON_MECHANISM_REFLINK,     /* a copy that shares its blocks with the base */
	CORDON_MECHANISM_COPY,	      /* a plain copy */
	CORDON_MECHANISM_MAX
};

struct cordon_workspace_info {
	const char *id;	    /* "w3f9a2c71": stable, unique */
	const char *name;   /* NULL = none was given */
	const char *base;   /* absolute path of the directory */
	const char *parent; /* id of the workspace that this one began as a copy of, or NULL */
	int mechanism;	    /* enum cordon_mechanism */
	int in_use;	    /* a run or a commit has it at this moment */
	int commit_begun;   /* a commit was interrupted and can be repeated */
	uint64_t runs;
	int64_t created_s, used_s; /* seconds since 1970 */
};

enum cordon_change_kind {
	CORDON_CHANGE_ADDED = 1,
	CORDON_CHANGE_MODIFIED, /* content of a file */
	CORDON_CHANGE_DELETED,
	CORDON_CHANGE_RENAMED, /* the same content under another name; mode may differ */
	CORDON_CHANGE_MODE,    /* nothing but permissions or attributes */
	CORDON_CHANGE_SYMLINK, /* a link leads elsewhere */
	CORDON_CHANGE_TYPE,    /* a file became a directory, a directory a link ... */
	CORDON_CHANGE_MAX
};

enum cordon_file_type {
	CORDON_FILE_NONE = 0,
	CORDON_FILE_REGULAR,
	CORDON_FILE_DIRECTORY,
	CORDON_FILE_SYMLINK,
	CORDON_FILE_FIFO,
	CORDON_FILE_SOCKET,
	CORDON_FILE_DEVICE,
	CORDON_FILE_MAX
};

/* Why a change deserves a second look; those marked * are left out of a commit unless named. */
#define CORDON_RISK_SETID 0x1u	   /* * set-user-id, set-group-id */
#define CORDON_RISK_SPECIAL 0x2u   /* * FIFO, socket, device */
#define CORDON_RISK_LINK_OUT 0x4u  /* * a link that leads out of the directory */
#define CORDON_RISK_ATTRIBUTE 0x8u /* * security.* attributes */
#define CORDON_RISK_PROTECTED                                                                      \
	0x10u			     /* * runs by itself later: hooks, shell, editor, agents;      \
				      * or takes a repository's history away */
#define CORDON_RISK_EXECUTABLE 0x20u /* a new program, or a file that became one */
#define CORDON_RISK_CI 0x40u	     /* what build services run */
#define CORDON_RISK_LOCKFILE 0x80u   /* which packages are installed */
#define CORDON_RISK_STARTUP 0x100u   /* what an interpreter runs at its start (.pth ...) */
#define CORDON_RISK_NAME 0x200u	     /* a name with control bytes or not in UTF-8 */
#define CORDON_RISK_REFUSED 0x1fu

/** Name of one risk bit, such as "executable"; NULL if it is none. */
const char *cordon_risk_name(unsigned risk);
/** Name of an enum cordon_change_kind, such as "modified"; "unknown" if it is none. */
const char *cordon_change_kind_name(int kind);
/** Name of an enum cordon_file_type, such as "symlink"; "unknown" if it is none. */
const char *cordon_file_type_name(int type);
/** Name of an enum cordon_mechanism, such as "overlay"; "unknown" if it is none. */
const char *cordon_mechanism_name(int mechanism);

struct cordon_change {
	const char *path;		 /* relative to the base; any bytes but NUL */
	const char *from;		 /* RENAMED: the old path, else NULL */
	int kind;			 /* enum cordon_change_kind */
	int type, old_type;		 /* enum cordon_file_type; NONE where there is nothing */
	uint32_t mode, old_mode;	 /* permission bits, 07777 */
	uint64_t size, old_size;	 /* of regular files */
	const char *target, *old_target; /* of symbolic links, else NULL */
	unsigned risks;			 /* CORDON_RISK_* */
	int in_git; /* below a repository's .git: applied together with the rest of it or not at all
		     */
	int is_listed; /* 0: a directory that came or went with its content; not worth a line */
	/* The repository whose history this would take away: removed or replaced in the workspace,
	 * in whole or in a part that it needs. Nothing in it is committed unless this path, "." for
	 * the base itself, is given. Else NULL. */
	const char *lost;
};

struct cordon_summary {
	uint64_t added, modified, deleted, renamed, mode, symlink, type; /* directories left out */
	uint64_t risky, refused;
};

/** Opens the workspace whose id or name is @which, or the only one over the directory @which. The
 * state directory is @state_dir, or found by XDG_STATE_HOME and HOME in the environment if that is
 * NULL. Close *ret with cordon_workspace_close(). */
int cordon_workspace_open(const char *state_dir, const char *which, struct cordon_workspace **ret,
			  struct cordon_error *err);
/** Frees the handle; the workspace stays as it is. NULL is fine. */
void cordon_workspace_close(struct cordon_workspace *ws);

/** Valid until the workspace is closed. */
const struct cordon_workspace_info *cordon_workspace_info(const struct cordon_workspace *ws);

/** Calls @fn for each workspace, oldest first; it returns 0 to go on. */
int cordon_workspace_list(const char *state_dir,
			  int (*fn)(void *arg, const struct cordon_workspace_info *info), void *arg,
			  struct cordon_error *err);

/** Calls @fn for each change, sorted by path; it returns 0 to go on. The change and its strings are
 * valid during the call. While a run uses the workspace the list may be out of date at once. */
int cordon_workspace_changes(struct cordon_workspace *ws,
			     int (*fn)(void *arg, const struct cordon_change *change), void *arg,
			     struct cordon_error *err);
/** Counts the changes, as cordon_workspace_changes() would list them now. */
int cordon_workspace_summary(struct cordon_workspace *ws, struct cordon_summary *ret,
			     struct cordon_error *err);

/** One object: id, name, base, mechanism ..., and `changes`. Free with cordon_free(). */
int cordon_workspace_to_json(struct cordon_workspace *ws, int pretty, char **ret,
			     struct cordon_error *err);

/** Makes a workspace without a name that begins as a copy of @ws, over the same directory; from
 * then on the two are independent. Nothing is waited for until it is on the disk. More than
 * @max_bytes of content or @max_files entries (further names of a file are none, up to 16 for each)
 * is an error; 0 = no bound. Fails if a run or a commit has @ws. What changed in the directory
 * since the run began that has @ws, or whose branch @ws is, is a conflict for all runs of the new
 * one. Close *ret with cordon_workspace_close(); until then nobody else can use it. */
int cordon_workspace_branch(struct cordon_workspace *ws, uint64_t max_bytes, uint64_t max_files,
			    struct cordon_workspace **ret, struct cordon_error *err);

/* What to do where the base changed since the run saw it. */
enum cordon_conflicts {
	CORDON_CONFLICTS_REFUSE = 0, /* nothing at all is committed */
	CORDON_CONFLICTS_OURS,	     /* the base's version stays, the rest is committed */
	CORDON_CONFLICTS_THEIRS,     /* the workspace's version replaces it */
};

enum cordon_outcome {
	CORDON_OUTCOME_APPLIED = 1,
	CORDON_OUTCOME_REFUSED,	 /* risky, and not asked for by name */
	CORDON_OUTCOME_CONFLICT, /* the base changed */
	CORDON_OUTCOME_SKIPPED,	 /* not chosen */
	CORDON_OUTCOME_FAILED,	 /* see error */
};

struct cordon_commit_options {
	size_t size; /* sizeof(struct cordon_commit_options); set by the INIT macro */
	/* Relative paths; a directory means what is below it. NULL or empty = everything. What is
	 * refused otherwise is committed if its very path is here. NULL-terminated. */
	const char *const *paths;
	const char *const *exclude; /* the same, not to be committed */
	int conflicts;		    /* enum cordon_conflicts */
	int dry_run;		    /* only say what would happen */
	/* Asked for each change that would be applied (NULL = all): 1 yes, 0 no, negative = stop,
	 * nothing is committed. Everything below a .git is asked for once, with the path of it. */
	int (*choose)(void *arg, const struct cordon_change *change);
	/* Told what became of each; @err is set for FAILED and explains CONFLICT, and REFUSED where
	 * a repository would be lost. */
	void (*told)(void *arg, const struct cordon_change *change, int outcome,
		     const struct cordon_error *err);
	void *arg;
};

#define CORDON_COMMIT_OPTIONS_INIT { .size = sizeof(struct cordon_commit_options) }

struct cordon_commit_result {
	uint64_t applied, refused, conflicts, skipped, failed;
	int is_empty; /* nothing is left in the workspace */
};

/** Applies changes to the base, each file in one step (old or new, never half), durably. An error
 * means that it could not be finished: nothing is lost, what was applied stays applied, and
 * repeating the call finishes it. Conflicts and refusals are not errors; see the result. Changes
 * that were applied no longer count as changes of the workspace. */
int cordon_workspace_commit(struct cordon_workspace *ws,
			    const struct cordon_commit_options *options,
			    struct cordon_commit_result *ret, struct cordon_error *err);

/** Removes the workspace and everything in it, and closes it (also on failure). */
int cordon_workspace_discard(struct cordon_workspace *ws, struct cordon_error *err);

/** Writes unified diffs of the changes to @fd; of binary files only names and sizes. @paths as for
 * cordon_workspace_export(). */
int cordon_workspace_patch(struct cordon_workspace *ws, const char *const *paths, int fd,
			   struct cordon_error *err);

enum cordon_export {
	CORDON_EXPORT_TAR = 1, /* pax; what was deleted as .wh.NAME, as container layers have it */
	CORDON_EXPORT_PATCH,   /* for `git apply`, with binary files */
};

/** Writes the changes to @fd, all or those at @paths (relative; a directory means what is below
 * it). Returns how many were left out because the format cannot express them: FIFOs, sockets,
 * devices; for git also what lies in a .git; in archives names that begin with ".wh.". */
int cordon_workspace_export(struct cordon_workspace *ws, int format, const char *const *paths,
			    int fd, struct cordon_error *err);

struct cordon_gc_options {
	size_t size;
	int64_t older_than_s; /* also workspaces with changes that were not used for so
				 long; -1 = none */
	int dry_run;
	void (*told)(void *arg, const struct cordon_workspace_info *info, const char *why);
	void *arg;
	/* Asked about workspaces that have a name: 1 = without changes they are not needed, either,
	 * since a program has made the name up. NULL = no. */
	int (*is_disposable)(void *arg, const struct cordon_workspace_info *info);
	int only_disposable; /* nothing else is removed or looked at */
};

#define CORDON_GC_OPTIONS_INIT { .size = sizeof(struct cordon_gc_options), .older_than_s = -1 }

/** Removes workspaces without changes and without a name (see is_disposable), and half-made or
 * half-removed ones. Those whose base is gone are removed only if they are old enough. *ret_n: how
 * many. */
int cordon_workspace_gc(const char *state_dir, const struct cordon_gc_options *options,
			uint64_t *ret_n, struct cordon_error *err);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

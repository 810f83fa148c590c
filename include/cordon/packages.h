/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packages of Python (pip) and JavaScript (npm) for runs.
 *
 * A set of packages is installed once, by the installer of the machine in a sandbox of its own: it
 * reaches the package index and nothing else, sees no file of the user, and only wheels are used
 * and no scripts are run unless that is asked for. The result is a package layer: a directory in
 * the user's cache that no run can change. Later calls for the same set find it there.
 *
 * Where: $XDG_CACHE_HOME/cordon/packages, or ~/.cache/cordon/packages, by the process's
 * environment.
 *
 * Threads: as for launchers; one struct cordon_packages is used by one thread at a time. These
 * calls wait: an installation takes as long as it takes.
 */
#ifndef CORDON_PACKAGES_H
#define CORDON_PACKAGES_H

#include <stddef.h>
#include <stdint.h>

#include <cordon/error.h>
#include <cordon/policy.h>
#include <cordon/run.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct cordon_packages;

struct cordon_packages_options {
	size_t size; /* sizeof(struct cordon_packages_options); set by the INIT macro */
	/* NULL-terminated: "requests==2.32.3" is for pip, "npm:lodash@4" for npm. NULL = none. */
	const char *const *specs;
	/* NULL-terminated paths: requirements files for pip, whose hashes are enforced if there are
	 * any, or a package-lock.json with its package.json beside it. NULL = none. */
	const char *const *files;
	/* 1: packages may run code to be installed: pip builds source packages, npm runs scripts.
	 * It runs in the installer's sandbox. */
	int may_build;
	int only_cached; /* 1: an error if something is not installed yet */
	/* The interpreter the packages are for: a name or a path, which leads to one of the system:
	 * of root, below /usr, /bin, /opt or /nix/store. NULL = "python3". */
	const char *python;
	const char *const *envp; /* environment with settings of pip and npm; NULL = none */
	const char *cwd;	 /* for relative paths; NULL = getcwd() */
	const char *home;	 /* caller's home directory; NULL = no settings in files of it */
	const char *search_path; /* PATH to find python, npm and node; NULL = from envp */
	/* Rules (net.allow) for further hosts the installer may reach, separated by commas or
	 * spaces. NULL = none but the index. */
	const char *hosts;
	const char
		*isolation; /* level of the installer's sandbox, as the policy key; NULL = auto */
	int64_t max_bytes;  /* disk space for an installation, 0 = 8 GiB */
	/* Called with each line that the installer writes, without control characters and without
	 * passwords of the index. Not 0 = stop. NULL = no calls. */
	int (*line)(void *arg, const char *line);
	void *arg;
	/* Policy of the runs that use the packages: what they may write to is no place for an
	 * interpreter. NULL = not known. */
	const struct cordon_policy *policy;
};

#define CORDON_PACKAGES_OPTIONS_INIT { .size = sizeof(struct cordon_packages_options) }

/** Finds or makes the layers for a set of packages, and keeps them from being removed until *ret is
 * freed with cordon_packages_free(). An installer that fails is CORDON_E_SETUP, with its own last
 * error as the message. */
int cordon_packages_install(struct cordon_launcher *launcher,
			    const struct cordon_packages_options *options,
			    struct cordon_packages **ret, struct cordon_error *err);

/** Lets go of the layers, which stay in the cache. Runs that use them must be over. NULL is fine.
 */
void cordon_packages_free(struct cordon_packages *packages);

/** What a run needs to use the packages: *ret_dirs are to be granted for reading, *ret_env are
 * "NAME=VALUE" (PYTHONPATH, NODE_PATH), *ret_path are directories with programs, for the front of
 * PATH. All NULL-terminated, and valid as long as @packages. Each may be NULL. */
void cordon_packages_needs(const struct cordon_packages *packages, const char *const **ret_dirs,
			   const char *const **ret_env, const char *const **ret_path);

/** Adds the directories and variables to @policy. What the policy, or @envp through it, says about
 * such a variable comes after the layer. */
int cordon_packages_apply(const struct cordon_packages *packages, struct cordon_policy *policy,
			  const char *const *envp, struct cordon_error *err);

/* A package layer in the cache. */
struct cordon_layer_info {
	const char *key;      /* its name in the cache */
	const char *dir;      /* absolute */
	const char *manifest; /* JSON object: what was asked for and what was installed */
	uint64_t bytes, files;
	int64_t created_s, used_s; /* seconds since 1970 */
	int in_use;		   /* by a run, at this moment */
};

/** Calls @call for every layer in the cache; not 0 stops. What is passed is valid during the call.
 */
int cordon_packages_list(int (*call)(void *arg, const struct cordon_layer_info *info), void *arg,
			 struct cordon_error *err);

/** Removes layers that were not used for @older_than_s seconds and are not in use, and what killed
 * installations left. @told (may be NULL) hears of each layer. *ret_n (may be NULL): how many
 * layers. */
int cordon_packages_gc(int64_t older_than_s, int dry_run,
		       void (*told)(void *arg, const struct cordon_layer_info *info), void *arg,
		       uint64_t *ret_n, struct cordon_error *err);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

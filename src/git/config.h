/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a git config that make git obey files elsewhere, and which configs count. */
#ifndef GIT_CONFIG_H
#define GIT_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define GIT_CONFIG_MAX ((size_t)1 << 20) /* bytes of one config */

enum git_order {
	GIT_ORDER_HOOKS,    /* core.hooksPath: relative to the top of the work tree; also
			     * init.templateDir, from which new repositories get theirs */
	GIT_ORDER_INCLUDE,  /* include.path, includeIf.*.path: relative to the config's directory */
	GIT_ORDER_WORKTREE, /* extensions.worktreeConfig, whatever its value */
	GIT_ORDER_COMMAND,  /* a command line that git executes, mostly in the top of the work tree
			     */
};

/*
 * Calls @fn for each of them in @text. It returns 0 to go on; anything else ends the reading and is
 * returned. Git stops at the first error in a config; here that line is passed over, so nothing
 * that git obeys is missed. Values that are too long for a path are passed over.
 */
int git_config_orders(const char *text, size_t len,
		      int (*fn)(void *ctx, enum git_order what, const char *value), void *ctx);

/* Whose git it is. */
struct git_user {
	const char *home;		     /* absolute; NULL = none */
	char *(*variable)(const char *name); /* of his environment; NULL = it is not set */
	const char *passwd;		     /* the user database, for "~name/"; NULL = none */
};

/* Calls @fn with the path of each config that counts in every repository of @user: his own and the
 * system's, where git's variables say and where they are otherwise. They need not exist. */
int git_user_configs(const struct git_user *user, int (*fn)(void *ctx, const char *path),
		     void *ctx);

/* The home directory of the user who is called the first @len bytes of @name, by the lines of
 * @passwd (NULL = none). */
bool git_home_of(const char *passwd, const char *name, size_t len, char ret[PATH_MAX]);

#endif

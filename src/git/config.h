/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a git config that make git obey files elsewhere. */
#ifndef GIT_CONFIG_H
#define GIT_CONFIG_H

/* Nobody has longer ones; what is behind it is not looked at. */
#define GIT_CONFIG_MAX ((size_t)64 << 10)

enum git_order {
	GIT_ORDER_HOOKS,   /* core.hooksPath: relative to the top of the work tree */
	GIT_ORDER_INCLUDE, /* include.path, includeIf.*.path: relative to the config's directory */
};

/* Calls @fn for each, in @text, which is changed. It returns 0 to go on; anything else is returned.
 * What git would reject is passed over. */
int git_config_orders(char *text, int (*fn)(void *arg, enum git_order what, const char *value),
		      void *arg);

/* Calls @fn with the path of each config that counts in every repository of the user whose home is
 * @home: his own and the system's, where git's variables have them and where they are otherwise.
 * They need not exist. NULL = no home. */
int git_config_own(const char *home, int (*fn)(void *arg, const char *path), void *arg);

#endif

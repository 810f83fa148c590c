/* SPDX-License-Identifier: Apache-2.0 */
/* Filling in struct cordon_error. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <cordon/error.h>

#include "base/macros.h"

/*
 * Sets code, errno and message and returns -code, so that "set and return" is one statement. If
 * @sys_errno is not 0, ": " and its text are appended. @err may be NULL. Control bytes that came in
 * through %s are escaped.
 */
int cordon_err(struct cordon_error *err, int code, int sys_errno, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

/* Sets the remedy of an error that is already set; returns err->code negated (0 if err is NULL). */
int cordon_err_hint(struct cordon_error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The current directory has no path, which getcwd() reported as @sys_errno. */
int cordon_err_cwd(struct cordon_error *err, int sys_errno);

/* Puts "prefix: " before the message, for context on the way up. */
void cordon_err_prefix(struct cordon_error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif

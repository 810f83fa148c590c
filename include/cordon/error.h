/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of libcordon: one fixed-size shape, allocated by the caller.
 *
 * Every fallible function takes a `struct cordon_error *` as its last argument (may be NULL) and
 * returns 0 or a positive value on success, and the negative of one of the codes below on failure.
 * On success the error is left untouched.
 *
 * `msg` is one line without a trailing newline, `hint` is the remedy (may be empty). Both are
 * always NUL-terminated, and control bytes taken from names are escaped in them.
 */
#ifndef CORDON_ERROR_H
#define CORDON_ERROR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

enum cordon_error_code {
	CORDON_E_NONE = 0,
	CORDON_E_USAGE = 1,	     /* an argument of the call makes no sense */
	CORDON_E_POLICY = 2,	     /* the policy is malformed or contradictory */
	CORDON_E_PATH = 3,	     /* a path of the policy cannot be used */
	CORDON_E_NOT_FOUND = 4,	     /* the command was not found (exit 127) */
	CORDON_E_NOT_EXECUTABLE = 5, /* found but cannot be executed (exit 126) */
	CORDON_E_UNSUPPORTED = 6,    /* this machine lacks a required layer */
	CORDON_E_SETUP = 7,	     /* a stage inside the sandbox failed */
	CORDON_E_SYSTEM = 8,	     /* a system call in the caller's process failed */
	CORDON_E_NOMEM = 9,	     /* out of memory */
	CORDON_E_STATE = 10,	     /* the call does not fit the object's state */
	CORDON_E_MAX
};

struct cordon_error {
	int32_t code;	   /* enum cordon_error_code, 0 = no error */
	int32_t sys_errno; /* errno behind it, 0 = none */
	uint16_t stage;	   /* stage that failed inside the sandbox, 0 = outside */
	uint16_t op;	   /* index of the plan step within that stage */
	char msg[224];
	char hint[224];
};

#define CORDON_ERROR_INIT { 0, 0, 0, 0, "", "" }

/** Short stable name of a code, such as "policy". Never NULL. */
const char *cordon_error_name(int code);

/** Name of a set-up stage, such as "mounts"; "outside" for 0. Never NULL. */
const char *cordon_stage_name(unsigned stage);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

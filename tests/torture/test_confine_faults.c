/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every system call of cordon_confine_self() fails once. Either nothing was changed, or the error
 * says that the process is partly confined; and it never succeeds with a layer missing.
 */
#include "sys/calls.h"
#include "unit/test_confine_lib.h"

#define CALLS_MAX 2000

static long nth;
static int is_done;

static void fail_one(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *policy = NULL;
	int r, fired, is_free;

	CHECK_INT(cordon_policy_new(&policy, &err), 0);
	fault_arm(nth, ENOMEM);
	r = cordon_confine_self(policy, NULL, &err);
	fired = fault_arm(0, 0) == 0;
	cordon_policy_free(policy);
	is_free = try_open(secret, O_RDWR) == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 &&
		  prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0;
	if (r == 0) {
		CHECK_MSG(!fired, "call %ld failed without an error", nth);
		CHECK_INT(try_open(secret, O_RDONLY), EACCES);
		CHECK_INT(prctl(PR_GET_SECCOMP, 0, 0, 0, 0), 2);
		_exit(tap_failures ? 1 : 77);
	}
	CHECK(fired && err.msg[0] != 0);
	if (strstr(err.hint, "partly confined") != NULL)
		CHECK_INT(r, -CORDON_E_SETUP);
	else
		CHECK_MSG(is_free, "call %ld: %s, and the process is changed", nth, err.msg);
	CHECK_INT(waitpid(-1, NULL, WNOHANG | __WALL), -1);
}

static void each_call(int as_user)
{
	for (nth = 1, is_done = 0; nth < CALLS_MAX && !is_done && tap_failures == 0; nth++) {
		int status = 0;
		pid_t pid;

		fflush(stdout);
		pid = fork();
		if (pid == 0) {
			if (as_user && (setresgid(OTHER_UID, OTHER_UID, OTHER_UID) < 0 ||
					setresuid(OTHER_UID, OTHER_UID, OTHER_UID) < 0))
				_exit(99);
			prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
			fail_one();
			fflush(stdout);
			_exit(tap_failures ? 1 : 0);
		}
		CHECK_INT(waitpid(pid, &status, 0), pid);
		is_done = WIFEXITED(status) && WEXITSTATUS(status) == 77;
		CHECK_MSG(is_done || status == 0, "call %ld: wait status %#x", nth,
			  (unsigned)status);
	}
	CHECK_MSG(is_done && nth > 50, "%ld calls", nth);
}

static void test_each_call(void)
{
	each_call(0);
}

static void test_each_call_as_user(void)
{
	if (geteuid() != 0)
		SKIP("the same as before");
	each_call(1);
}

TAP_MAIN(set_up, test_each_call, test_each_call_as_user, tear_down)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Python module that freezes an interpreter which runs, so that it can go on in other sandboxes.
 *
 * Theory of operation. A forked copy is written, like everywhere (python.c says why): it has one
 * thread, and libraries have been told, as by any fork. It says how large it is, writes itself to
 * the interpreter's channel and ends. The host makes an image of that, which runs execute. In each
 * of them freeze() returns once more, to the driver that called it (drivers/python.py), which gets
 * a channel, opens files and goes on. What the kernel keeps of a process, and a fork would inherit,
 * is put back here.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "warm/frozen.h"

#define REASON_MAX 256
#define DONE '+' /* in place of a reason */

/* In the image, too. */
static struct {
	sigset_t signals;
	stack_t signal_stack;
	struct rlimit limits[RLIM_NLIMITS];
	mode_t umask;
} kept;

static void keep(void)
{
	kept.umask = umask(0);
	(void)umask(kept.umask);
	(void)sigaltstack(NULL, &kept.signal_stack);
	for (int i = 0; i < RLIM_NLIMITS; i++)
		(void)getrlimit((__rlimit_resource_t)i, &kept.limits[i]);
}

/* What the new sandbox forbids stays forbidden: then the call fails. */
static void give_back(void)
{
	(void)umask(kept.umask);
	if (!(kept.signal_stack.ss_flags & SS_DISABLE))
		(void)sigaltstack(&kept.signal_stack, NULL);
	for (int i = 0; i < RLIM_NLIMITS; i++)
		(void)setrlimit((__rlimit_resource_t)i, &kept.limits[i]);
}

static int announce(const struct freezing *how, uint64_t size)
{
	char head[256];
	int len = snprintf(head, sizeof(head), "%s {\"type\":\"image\",\"parts\":[%llu]}\n",
			   how->token, (unsigned long long)size);

	return len > 0 && len < (int)sizeof(head) && write(how->out, head, (size_t)len) == len ? 0
											       : -1;
}

/* In the copy. Returns in those that are made from it. */
static void write_copy(int out, int why, const char *token)
{
	const struct freezing how = {
		.out = out, .why = why, .is_only_thawed = 1, .announce = announce, .token = token
	};
	const uint64_t *stack;
	int r = freeze(&how, &stack);

	if (r > 0)
		return;
	if (r == 0)
		r = write(why, (const char[]){ DONE }, 1) == 1 ? 0 : -1;
	_exit(r == 0 ? 0 : 1);
}

static size_t read_reason(int fd, char *buf, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size - 1) {
		n = read(fd, buf + len, size - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	buf[len] = '\0';
	return len;
}

/* NULL: it is written. */
static const char *wait_for(pid_t pid, int why, char reason[REASON_MAX])
{
	size_t len = read_reason(why, reason, REASON_MAX);
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (len == 1 && reason[0] == DONE)
		return NULL;
	reason[strcspn(reason, "\n")] = '\0';
	return reason[0] ? reason : "its copy was killed";
}

/* freeze(fd, token): None when it is written, the reason why it cannot be, and True in a copy,
 * with all signals blocked. */
static PyObject *py_freeze(PyObject *self, PyObject *args)
{
	char reason[REASON_MAX];
	const char *token, *refused = NULL;
	sigset_t all;
	int out, why[2], error;
	pid_t pid;

	(void)self;
	if (!PyArg_ParseTuple(args, "is", &out, &token))
		return NULL;
	if (pipe2(why, O_CLOEXEC) < 0)
		return PyErr_SetFromErrno(PyExc_OSError);
	keep();
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &kept.signals);
	fflush(NULL);
	PyOS_BeforeFork();
	pid = fork();
	if (pid == 0) {
		PyOS_AfterFork_Child();
		write_copy(out, why[1], token);
		/* The C library remembers where the old heap ended. */
		(void)brk((void *)syscall(SYS_brk, 0));
		Py_RETURN_TRUE;
	}
	error = errno;
	PyOS_AfterFork_Parent();
	close(why[1]);
	refused = pid < 0 ? strerror(error) : wait_for(pid, why[0], reason);
	close(why[0]);
	sigprocmask(SIG_SETMASK, &kept.signals, NULL);
	if (refused)
		return PyUnicode_FromString(refused);
	Py_RETURN_NONE;
}

/* settle(): the last thing that a copy does before it goes on; signals wait until then. */
static PyObject *py_settle(PyObject *self, PyObject *args)
{
	(void)self;
	(void)args;
	give_back();
	sigprocmask(SIG_SETMASK, &kept.signals, NULL);
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
	{ "freeze", py_freeze, METH_VARARGS, NULL },
	{ "settle", py_settle, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};
static PyModuleDef_Slot slots[] = { { 0, NULL } };
static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "_fork",
	.m_methods = methods,
	.m_slots = slots,
};

PyMODINIT_FUNC PyInit__fork(void);

PyMODINIT_FUNC PyInit__fork(void)
{
	return PyModuleDef_Init(&definition);
}

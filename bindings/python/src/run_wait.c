/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a run, and handling what happens meanwhile. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

#define NS_PER_S 1000000000LL
#define WAIT_MAX_S 1e9 /* some thirty years */
#define CHECK_NS (NS_PER_S / 10)

/* Without the GIL: 1 the result is complete, 0 it is not, negative = error. */
static int process(struct run_object *self, struct cordon_run *run, struct cordon_error *err)
{
	int r;

	pthread_mutex_lock(&self->lock);
	r = cordon_run_process(run, err);
	pthread_mutex_unlock(&self->lock);
	return r;
}

/* With the GIL. */
static void set_done(struct run_object *self)
{
	if (!self->is_done && self->done_fd >= 0)
		eventfd_write(self->done_fd, 1);
	self->is_done = true;
}

PyObject *run_process(PyObject *object, PyObject *unused)
{
	struct run_object *self = (struct run_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run *run = run_enter(self);
	PyObject *got;
	int r;

	(void)unused;
	if (!run)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		r = process(self, run, &err);
	Py_END_ALLOW_THREADS
	if (r > 0)
		set_done(self);
	got = r < 0 ? raise_error(self->module, &err) : PyBool_FromLong(r);
	run_leave(self);
	return got;
}

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* One sleep until something happens. 1 go on, 0 the time is over, -errno. */
static int sleep_once(struct run_object *self, struct cordon_run *run, bool has_end,
		      long long end_ns)
{
	struct pollfd fds[] = {
		{ .fd = cordon_run_fd(run), .events = POLLIN },
		{ .fd = self->done_fd, .events = POLLIN },
	};
	long long left = has_end ? end_ns - now_ns() : 0;
	struct timespec spec;

	if (has_end && left <= 0)
		return 0;
	spec = (struct timespec){ left / NS_PER_S, left % NS_PER_S };
	if (ppoll(fds, 2, has_end ? &spec : NULL, NULL) >= 0)
		return 1;
	return -errno;
}

/* Without the GIL, until something needs it. 1 done, 0 time is over, -EINTR, other negative = @err.
 *
 * A signal that comes while the run is worked on, or just before the sleep, interrupts nothing, and
 * its handler can only be called with the GIL. So the thread that calls handlers looks after them
 * from time to time; to block signals here would only send them to other threads. */
static int wait_some(struct run_object *self, struct cordon_run *run, bool has_end,
		     long long end_ns, struct cordon_error *err)
{
	bool is_main = gettid() == getpid();
	long long check_ns = now_ns() + CHECK_NS;
	bool is_check = is_main && (!has_end || check_ns < end_ns);

	for (;;) {
		int r = process(self, run, err);

		if (r != 0)
			return r > 0 ? 1 : -EIO;
		if (is_check)
			r = sleep_once(self, run, true, check_ns) ?: -EINTR;
		else
			r = sleep_once(self, run, has_end, end_ns);
		if (r < 0 && r != -EINTR) {
			err->code = CORDON_E_SYSTEM;
			err->sys_errno = -r;
			snprintf(err->msg, sizeof(err->msg), "cannot wait for the run");
		}
		if (r <= 0)
			return r;
	}
}

static PyObject *wait_for(struct run_object *self, struct cordon_run *run, double seconds)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	bool has_end = seconds <= WAIT_MAX_S;
	long long end_ns = has_end ? now_ns() + (long long)(seconds * (double)NS_PER_S) : 0;
	int r;

	if (self->done_fd < 0)
		self->done_fd = eventfd(self->is_done, EFD_CLOEXEC | EFD_NONBLOCK);
	if (self->done_fd < 0)
		return PyErr_SetFromErrno(PyExc_OSError);
	for (;;) {
		Py_BEGIN_ALLOW_THREADS
			r = wait_some(self, run, has_end, end_ns, &err);
		Py_END_ALLOW_THREADS
		if (r > 0)
			set_done(self);
		if (r >= 0)
			return PyBool_FromLong(r);
		if (r != -EINTR)
			return raise_error(self->module, &err);
		/* Handlers run here; what they raise leaves the run as it is. */
		if (PyErr_CheckSignals() < 0)
			return NULL;
	}
}

PyObject *run_wait(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "timeout", NULL };
	struct run_object *self = (struct run_object *)object;
	PyObject *timeout = Py_None, *got;
	double seconds = HUGE_VAL;
	struct cordon_run *run;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:wait", names, &timeout))
		return NULL;
	if (timeout != Py_None) {
		seconds = PyFloat_AsDouble(timeout);
		if (seconds == -1.0 && PyErr_Occurred())
			return NULL;
		if (isnan(seconds)) {
			PyErr_SetString(PyExc_ValueError, "timeout is not a number");
			return NULL;
		}
		seconds = seconds < 0 ? 0 : seconds;
	}
	run = run_enter(self);
	if (!run)
		return NULL;
	got = wait_for(self, run, seconds);
	run_leave(self);
	return got;
}

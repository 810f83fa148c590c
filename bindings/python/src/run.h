/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files about runs. */
#ifndef BINDING_RUN_H
#define BINDING_RUN_H

#include "binding.h"

struct run_object {
	PyObject ob_base;
	PyObject *module;
	PyObject *weak;	    /* references that do not keep it alive */
	PyObject *launcher; /* must outlive the run */
	PyObject *data;	    /* bytes of stdin, which the run reads from */
	struct cordon_run *run;
	/* Held while the run is worked on, and while its result is copied. */
	pthread_mutex_t lock;
	pid_t pid;
	unsigned users;
	bool is_closed;
	bool is_done;
	/* Readable once the run is done: the run's own descriptor wakes only one of two waiting
	 * threads up for its end. -1 until a thread waits. */
	int done_fd;
};

/* The run for the time until run_leave(), or NULL with the exception set. */
struct cordon_run *run_enter(struct run_object *self);
void run_leave(struct run_object *self);

PyObject *run_process(PyObject *object, PyObject *unused);
PyObject *run_wait(PyObject *object, PyObject *args, PyObject *kwargs);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files about workspaces. */
#ifndef BINDING_WORKSPACE_H
#define BINDING_WORKSPACE_H

#include "binding.h"

struct workspace_object {
	PyObject ob_base;
	PyObject *module;
	/* Held while the workspace is used. Knows its owner, so that a callback that uses the same
	 * workspace gets an exception rather than waiting for itself. */
	pthread_mutex_t lock;
	struct cordon_workspace *ws; /* guarded by the lock; NULL = closed */
	pid_t pid;
	bool has_lock;
};

/* A call of the library that makes callbacks: where the GIL is let go and taken again. */
struct workspace_call {
	PyThreadState *thread;
	struct cordon_workspace *ws;
};

/* 0: with the lock and without the GIL. -1: with the GIL, the exception is set. */
int workspace_begin(struct workspace_object *self, struct workspace_call *call);
void workspace_end(struct workspace_object *self, struct workspace_call *call);

/* The id of a workspace that was just made, which is closed. */
PyObject *branch_id(struct cordon_workspace *ws);

PyObject *workspace_commit(PyObject *object, PyObject *args, PyObject *kwargs);
PyObject *workspace_info_dict(const struct cordon_workspace_info *info);
PyObject *workspace_change_dict(const struct cordon_change *change);

#endif

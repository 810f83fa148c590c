/* SPDX-License-Identifier: Apache-2.0 */
/* Workspace objects. */
#include <errno.h>
#include <unistd.h>

#include "workspace.h"

static int lock_init(struct workspace_object *self)
{
	pthread_mutexattr_t attr;
	int r = pthread_mutexattr_init(&attr);

	if (r == 0) {
		pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
		r = pthread_mutex_init(&self->lock, &attr);
		pthread_mutexattr_destroy(&attr);
	}
	self->has_lock = r == 0;
	return r;
}

static PyObject *workspace_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "which", "state_dir", NULL };
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	PyObject *which, *state_dir = NULL, *which_bytes = NULL, *state_bytes = NULL;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct workspace_object *self;
	int r = -1;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:Workspace", names, &which, &state_dir))
		return NULL;
	self = (struct workspace_object *)alloc(type, 0);
	if (!self)
		return NULL;
	self->pid = getpid();
	self->module = module_of_type(type);
	if (self->module && lock_init(self) == 0 && path_bytes(which, "which", &which_bytes) == 0 &&
	    path_bytes(state_dir, "state_dir", &state_bytes) == 0) {
		const char *name = which_bytes ? PyBytes_AsString(which_bytes) : "";
		const char *dir = state_bytes ? PyBytes_AsString(state_bytes) : NULL;

		Py_BEGIN_ALLOW_THREADS
			r = cordon_workspace_open(dir, name, &self->ws, &err);
		Py_END_ALLOW_THREADS
		if (r < 0)
			raise_error(self->module, &err);
	}
	Py_XDECREF(which_bytes);
	Py_XDECREF(state_bytes);
	if (r < 0) {
		if (!PyErr_Occurred())
			PyErr_NoMemory();
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

static void workspace_dealloc(PyObject *object)
{
	struct workspace_object *self = (struct workspace_object *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (self->pid == getpid()) {
		if (self->ws) {
			Py_BEGIN_ALLOW_THREADS
				cordon_workspace_close(self->ws);
			Py_END_ALLOW_THREADS
		}
		if (self->has_lock)
			pthread_mutex_destroy(&self->lock);
	}
	Py_XDECREF(self->module);
	free_object(object);
	Py_DECREF(type);
}

int workspace_begin(struct workspace_object *self, struct workspace_call *call)
{
	int r;

	if (check_pid(self->module, self->pid, "workspace") < 0)
		return -1;
	call->thread = PyEval_SaveThread();
	r = pthread_mutex_lock(&self->lock);
	call->ws = r == 0 ? self->ws : NULL;
	if (call->ws)
		return 0;
	if (r == 0)
		pthread_mutex_unlock(&self->lock);
	PyEval_RestoreThread(call->thread);
	raise_state(self->module, r == EDEADLK ? "this workspace is in use by the same thread"
					       : "this workspace is closed");
	return -1;
}

void workspace_end(struct workspace_object *self, struct workspace_call *call)
{
	pthread_mutex_unlock(&self->lock);
	PyEval_RestoreThread(call->thread);
}

struct collector {
	PyThreadState **thread;
	PyObject *list;
};

static int collect_change(void *arg, const struct cordon_change *change)
{
	struct collector *c = arg;
	int r;

	PyEval_RestoreThread(*c->thread);
	r = PyErr_CheckSignals() < 0 ? -1 : append(c->list, workspace_change_dict(change));
	*c->thread = PyEval_SaveThread();
	return r;
}

static PyObject *workspace_changes(PyObject *object, PyObject *unused)
{
	struct workspace_object *self = (struct workspace_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct workspace_call call;
	struct collector c = { &call.thread, PyList_New(0) };
	int r;

	(void)unused;
	if (!c.list)
		return NULL;
	if (workspace_begin(self, &call) < 0) {
		Py_DECREF(c.list);
		return NULL;
	}
	r = cordon_workspace_changes(call.ws, collect_change, &c, &err);
	workspace_end(self, &call);
	if (r < 0)
		raise_unless_set(self->module, &err);
	if (PyErr_Occurred())
		Py_CLEAR(c.list);
	return c.list;
}

static PyObject *workspace_info(PyObject *object, PyObject *unused)
{
	struct workspace_object *self = (struct workspace_object *)object;
	struct workspace_call call;
	PyObject *got;

	(void)unused;
	if (workspace_begin(self, &call) < 0)
		return NULL;
	PyEval_RestoreThread(call.thread);
	got = workspace_info_dict(cordon_workspace_info(call.ws));
	call.thread = PyEval_SaveThread();
	workspace_end(self, &call);
	return got;
}

static PyObject *workspace_summary(PyObject *object, PyObject *unused)
{
	struct workspace_object *self = (struct workspace_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_summary summary;
	struct workspace_call call;
	int r;

	(void)unused;
	if (workspace_begin(self, &call) < 0)
		return NULL;
	r = cordon_workspace_summary(call.ws, &summary, &err);
	workspace_end(self, &call);
	return r < 0 ? raise_error(self->module, &err) : summary_dict(&summary);
}

static PyObject *workspace_to_json(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "pretty", NULL };
	struct workspace_object *self = (struct workspace_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct workspace_call call;
	int pretty = 0, r;
	char *text = NULL;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:to_json", names, &pretty))
		return NULL;
	if (workspace_begin(self, &call) < 0)
		return NULL;
	r = cordon_workspace_to_json(call.ws, pretty, &text, &err);
	workspace_end(self, &call);
	return r < 0 ? raise_error(self->module, &err) : take_text(text);
}

/* Writes to a descriptor; @format 0 is a patch for people. The number of what was left out. */
static PyObject *write_to(PyObject *object, int format, PyObject *fd_object, PyObject *paths)
{
	struct workspace_object *self = (struct workspace_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strings wanted = STRINGS_INIT;
	struct workspace_call call;
	int fd = descriptor_of(fd_object, "fd"), r;

	if (fd < 0)
		return NULL;
	if ((paths && strings_from_sequence(&wanted, paths, "a path") < 0) ||
	    workspace_begin(self, &call) < 0) {
		strings_done(&wanted);
		return NULL;
	}
	if (format == 0)
		r = cordon_workspace_patch(call.ws, wanted.v, fd, &err);
	else
		r = cordon_workspace_export(call.ws, format, wanted.v, fd, &err);
	workspace_end(self, &call);
	strings_done(&wanted);
	return r < 0 ? raise_error(self->module, &err) : PyLong_FromLong(r);
}

static PyObject *workspace_patch(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "fd", "paths", NULL };
	PyObject *fd, *paths = NULL;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:patch", names, &fd, &paths))
		return NULL;
	return write_to(object, 0, fd, paths);
}

static PyObject *workspace_export(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "format", "fd", "paths", NULL };
	PyObject *format, *fd, *paths = NULL;
	int number = 0;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UO|O:export", names, &format, &fd, &paths))
		return NULL;
	if (PyUnicode_CompareWithASCIIString(format, "tar") == 0)
		number = CORDON_EXPORT_TAR;
	else if (PyUnicode_CompareWithASCIIString(format, "patch") == 0)
		number = CORDON_EXPORT_PATCH;
	else
		return PyErr_Format(PyExc_ValueError, "format must be 'tar' or 'patch', not %R",
				    format);
	return write_to(object, number, fd, paths);
}

PyObject *branch_id(struct cordon_workspace *ws)
{
	PyObject *id = PyUnicode_FromString(cordon_workspace_info(ws)->id);

	Py_BEGIN_ALLOW_THREADS
		cordon_workspace_close(ws);
	Py_END_ALLOW_THREADS
	return id;
}

static PyObject *workspace_branch(PyObject *object, PyObject *args)
{
	struct workspace_object *self = (struct workspace_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	unsigned long long max_bytes, max_files;
	struct cordon_workspace *ws = NULL;
	struct workspace_call call;
	int r;

	if (!PyArg_ParseTuple(args, "KK:branch", &max_bytes, &max_files) ||
	    workspace_begin(self, &call) < 0)
		return NULL;
	r = cordon_workspace_branch(call.ws, max_bytes, max_files, &ws, &err);
	workspace_end(self, &call);
	return r < 0 ? raise_error(self->module, &err) : branch_id(ws);
}

static PyObject *workspace_discard(PyObject *object, PyObject *unused)
{
	struct workspace_object *self = (struct workspace_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct workspace_call call;
	int r;

	(void)unused;
	if (workspace_begin(self, &call) < 0)
		return NULL;
	self->ws = NULL; /* closed in any case */
	r = cordon_workspace_discard(call.ws, &err);
	workspace_end(self, &call);
	if (r < 0)
		return raise_error(self->module, &err);
	Py_RETURN_NONE;
}

static PyObject *workspace_close(PyObject *object, PyObject *unused)
{
	struct workspace_object *self = (struct workspace_object *)object;
	struct workspace_call call;

	(void)unused;
	if (check_pid(self->module, self->pid, "workspace") < 0)
		return NULL;
	if (workspace_begin(self, &call) < 0) {
		if (self->ws)
			return NULL; /* a callback must not close it */
		PyErr_Clear();
		Py_RETURN_NONE;
	}
	self->ws = NULL;
	cordon_workspace_close(call.ws);
	workspace_end(self, &call);
	Py_RETURN_NONE;
}

static PyMethodDef workspace_methods[] = {
	{ "info", workspace_info, METH_NOARGS, "info(): id, name, base, mechanism ..." },
	{ "summary", workspace_summary, METH_NOARGS, "summary(): how many changes of each kind." },
	{ "changes", workspace_changes, METH_NOARGS, "changes(): list of dicts, by path." },
	{ "to_json", (PyCFunction)(void (*)(void))workspace_to_json, METH_VARARGS | METH_KEYWORDS,
	  "to_json(pretty=False): info, summary and changes." },
	{ "commit", (PyCFunction)(void (*)(void))workspace_commit, METH_VARARGS | METH_KEYWORDS,
	  "commit(paths=(), exclude=(), conflicts='refuse', dry_run=False, choose=None): dict." },
	{ "patch", (PyCFunction)(void (*)(void))workspace_patch, METH_VARARGS | METH_KEYWORDS,
	  "patch(fd, paths=()): unified diffs for people." },
	{ "export", (PyCFunction)(void (*)(void))workspace_export, METH_VARARGS | METH_KEYWORDS,
	  "export(format, fd, paths=()): 'tar' or 'patch'. How many changes were left out." },
	{ "branch", workspace_branch, METH_VARARGS,
	  "branch(max_bytes, max_files): id of a new workspace, a copy of this one." },
	{ "discard", workspace_discard, METH_NOARGS, "discard(): removes it, and closes it." },
	{ "close", workspace_close, METH_NOARGS, "close()." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot workspace_slots[] = {
	{ Py_tp_doc, "A copy-on-write view of a directory that runs have changed." },
	{ Py_tp_new, (void *)workspace_new },
	{ Py_tp_dealloc, (void *)workspace_dealloc },
	{ Py_tp_methods, workspace_methods },
	{ 0, NULL },
};

PyType_Spec workspace_spec = {
	.name = "pycordon._cordon.Workspace",
	.basicsize = sizeof(struct workspace_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = workspace_slots,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run objects. Calls go on while others wait: `users` counts the calls in progress, and a run that
 * is closed meanwhile is ended at once and freed by the last of them.
 */
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "run.h"
#include "workspace.h"

/* Needs Python.h before it. */
#include <structmember.h>

PyObject *run_object_new(PyObject *module, PyObject *launcher, struct cordon_run *run,
			 PyObject *data)
{
	struct module_state *state = PyModule_GetState(module);
	PyTypeObject *type = (PyTypeObject *)state->run_type;
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct run_object *self = (struct run_object *)alloc(type, 0);

	if (!self) {
		Py_BEGIN_ALLOW_THREADS
			cordon_run_free(run);
		Py_END_ALLOW_THREADS
		return NULL;
	}
	Py_INCREF(module);
	Py_INCREF(launcher);
	Py_XINCREF(data);
	self->module = module;
	self->launcher = launcher;
	self->data = data;
	self->run = run;
	self->pid = getpid();
	self->done_fd = -1;
	pthread_mutex_init(&self->lock, NULL);
	return (PyObject *)self;
}

static PyObject *run_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	(void)type;
	(void)args;
	(void)kwargs;
	PyErr_SetString(PyExc_TypeError, "runs are made by Launcher.start()");
	return NULL;
}

/* Ends and frees the run. With the GIL; lets go of it meanwhile. */
static void free_run(struct run_object *self)
{
	struct cordon_run *run = self->run;
	PyObject *data = self->data;

	self->run = NULL;
	self->data = NULL;
	if (run) {
		Py_BEGIN_ALLOW_THREADS
			cordon_run_free(run);
		Py_END_ALLOW_THREADS
	}
	if (self->done_fd >= 0)
		close(self->done_fd);
	self->done_fd = -1;
	Py_XDECREF(data);
}

static void run_dealloc(PyObject *object)
{
	struct run_object *self = (struct run_object *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (self->weak)
		PyObject_ClearWeakRefs(object);
	if (self->pid == getpid()) {
		free_run(self);
		pthread_mutex_destroy(&self->lock);
	} else {
		Py_CLEAR(self->data);
	}
	Py_XDECREF(self->launcher);
	Py_XDECREF(self->module);
	free_object(object);
	Py_DECREF(type);
}

struct cordon_run *run_enter(struct run_object *self)
{
	if (check_pid(self->module, self->pid, "run") < 0)
		return NULL;
	if (self->is_closed || !self->run) {
		raise_state(self->module, "this run is closed");
		return NULL;
	}
	self->users++;
	return self->run;
}

void run_leave(struct run_object *self)
{
	if (--self->users == 0 && self->is_closed)
		free_run(self);
}

enum order {
	ORDER_SIGNAL,
	ORDER_END,
	ORDER_CANCEL,
	ORDER_RESIZE,
};

/* What any thread may say while another one waits. */
static PyObject *give_order(PyObject *object, enum order order, int a, int b)
{
	struct run_object *self = (struct run_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run *run = run_enter(self);
	int r = 0;

	if (!run)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		switch (order) {
		case ORDER_SIGNAL:
			r = cordon_run_signal(run, a, &err);
			break;
		case ORDER_END:
			r = cordon_run_end(run, a, &err);
			break;
		case ORDER_CANCEL:
			r = cordon_run_cancel(run, &err);
			break;
		case ORDER_RESIZE:
			r = cordon_run_resize(run, (uint16_t)a, (uint16_t)b, &err);
			break;
		}
	Py_END_ALLOW_THREADS
	if (r < 0)
		raise_error(self->module, &err);
	run_leave(self);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *run_signal(PyObject *object, PyObject *args)
{
	int number;

	if (!PyArg_ParseTuple(args, "i:signal", &number))
		return NULL;
	return give_order(object, ORDER_SIGNAL, number, 0);
}

static PyObject *run_end(PyObject *object, PyObject *args)
{
	int number = SIGTERM;

	if (!PyArg_ParseTuple(args, "|i:end", &number))
		return NULL;
	return give_order(object, ORDER_END, number, 0);
}

static PyObject *run_cancel(PyObject *object, PyObject *unused)
{
	(void)unused;
	return give_order(object, ORDER_CANCEL, 0, 0);
}

static PyObject *run_resize(PyObject *object, PyObject *args)
{
	int rows, cols;

	if (!PyArg_ParseTuple(args, "ii:resize", &rows, &cols))
		return NULL;
	if (rows < 1 || rows > UINT16_MAX || cols < 1 || cols > UINT16_MAX) {
		PyErr_SetString(PyExc_ValueError, "rows and cols must be 1 to 65535");
		return NULL;
	}
	return give_order(object, ORDER_RESIZE, rows, cols);
}

static PyObject *run_fileno(PyObject *object, PyObject *unused)
{
	struct run_object *self = (struct run_object *)object;
	struct cordon_run *run = run_enter(self);
	int fd;

	(void)unused;
	if (!run)
		return NULL;
	fd = cordon_run_fd(run);
	run_leave(self);
	return PyLong_FromLong(fd);
}

static PyObject *run_channel(PyObject *object, PyObject *unused)
{
	struct run_object *self = (struct run_object *)object;
	struct cordon_run *run = run_enter(self);
	int fd;

	(void)unused;
	if (!run)
		return NULL;
	fd = cordon_run_channel(run);
	run_leave(self);
	return PyLong_FromLong(fd);
}

static PyObject *run_is_as_new(PyObject *object, PyObject *unused)
{
	struct run_object *self = (struct run_object *)object;
	struct cordon_run *run = run_enter(self);
	int is_so;

	(void)unused;
	if (!run)
		return NULL;
	is_so = cordon_run_is_as_new(run);
	run_leave(self);
	return PyBool_FromLong(is_so);
}

/* begin(data, wall_ms): it was started with `held`. */
static PyObject *run_begin(PyObject *object, PyObject *args)
{
	struct run_object *self = (struct run_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run *run;
	PyObject *data, *old;
	Py_ssize_t len;
	long long wall_ms;
	char *bytes;
	int r;

	if (!PyArg_ParseTuple(args, "SL:begin", &data, &wall_ms))
		return NULL;
	if (PyBytes_AsStringAndSize(data, &bytes, &len) < 0)
		return NULL;
	run = run_enter(self);
	if (!run)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		pthread_mutex_lock(&self->lock);
		r = cordon_run_begin(run, bytes, (size_t)len, wall_ms, &err);
		pthread_mutex_unlock(&self->lock);
	Py_END_ALLOW_THREADS
	if (r == 0) { /* the run reads from it */
		old = self->data;
		Py_INCREF(data);
		self->data = data;
		Py_XDECREF(old);
	} else {
		raise_error(self->module, &err);
	}
	run_leave(self);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *run_branch(PyObject *object, PyObject *args)
{
	struct run_object *self = (struct run_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	unsigned long long max_bytes, max_files;
	struct cordon_workspace *ws = NULL;
	struct cordon_run *run;
	PyObject *got;
	int r;

	if (!PyArg_ParseTuple(args, "KK:branch", &max_bytes, &max_files))
		return NULL;
	run = run_enter(self);
	if (!run)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		pthread_mutex_lock(&self->lock);
		r = cordon_run_branch(run, max_bytes, max_files, &ws, &err);
		pthread_mutex_unlock(&self->lock);
	Py_END_ALLOW_THREADS
	got = r < 0 ? raise_error(self->module, &err) : branch_id(ws);
	run_leave(self);
	return got;
}

static PyObject *run_workspace(PyObject *object, PyObject *unused)
{
	struct run_object *self = (struct run_object *)object;
	struct cordon_run *run = run_enter(self);
	const char *id;
	PyObject *got;

	(void)unused;
	if (!run)
		return NULL;
	id = cordon_run_workspace(run);
	got = id ? PyUnicode_FromString(id) : NULL;
	run_leave(self);
	if (!id)
		Py_RETURN_NONE;
	return got;
}

static PyObject *run_published(PyObject *object, PyObject *unused)
{
	struct run_object *self = (struct run_object *)object;
	struct cordon_run *run = run_enter(self);
	const struct cordon_published *published;
	PyObject *got;
	size_t n = 0;

	(void)unused;
	if (!run)
		return NULL;
	published = cordon_run_published(run, &n);
	got = published_list(published, n);
	run_leave(self);
	return got;
}

static PyObject *run_notes(PyObject *object, PyObject *unused)
{
	struct run_object *self = (struct run_object *)object;
	struct cordon_run *run = run_enter(self);
	PyObject *got;

	(void)unused;
	if (!run)
		return NULL;
	got = names_list(cordon_run_notes(run));
	run_leave(self);
	return got;
}

/*
 * A copy of the result, taken under the lock: while orphans go on, the rest of it may be filled in
 * later. What it points to lives as long as the run. False: there is none yet.
 */
static bool copy_result(struct run_object *self, struct cordon_run *run,
			struct cordon_result *result, struct cordon_run_workspace *workspace)
{
	const struct cordon_result *source;

	Py_BEGIN_ALLOW_THREADS
		pthread_mutex_lock(&self->lock);
		source = cordon_run_result(run);
		if (source) {
			*result = *source;
			if (source->workspace) {
				*workspace = *source->workspace;
				result->workspace = workspace;
			}
		}
		pthread_mutex_unlock(&self->lock);
	Py_END_ALLOW_THREADS
	return source != NULL;
}

static PyObject *run_result(PyObject *object, PyObject *unused)
{
	struct run_object *self = (struct run_object *)object;
	struct cordon_run *run = run_enter(self);
	struct cordon_run_workspace workspace;
	struct cordon_result result;
	PyObject *got;

	(void)unused;
	if (!run)
		return NULL;
	got = copy_result(self, run, &result, &workspace)
		      ? result_dict(&result)
		      : raise_state(self->module, "the run is not over");
	run_leave(self);
	return got;
}

static PyObject *run_receipt(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "with_output", NULL };
	struct run_object *self = (struct run_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run_workspace workspace;
	struct cordon_result result;
	struct cordon_run *run;
	PyObject *got = NULL;
	int with_output = 0, r;
	char *text = NULL;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:receipt", names, &with_output))
		return NULL;
	run = run_enter(self);
	if (!run)
		return NULL;
	if (copy_result(self, run, &result, &workspace)) {
		Py_BEGIN_ALLOW_THREADS
			r = cordon_result_to_json(&result, with_output, &text, &err);
		Py_END_ALLOW_THREADS
		got = r < 0 ? raise_error(self->module, &err) : take_text(text);
	} else {
		raise_state(self->module, "the run is not over");
	}
	run_leave(self);
	return got;
}

static PyObject *run_close(PyObject *object, PyObject *unused)
{
	struct run_object *self = (struct run_object *)object;

	(void)unused;
	if (check_pid(self->module, self->pid, "run") < 0)
		return NULL;
	if (self->is_closed)
		Py_RETURN_NONE;
	self->users++;
	self->is_closed = true;
	if (self->users > 1) {
		/* The others come back as soon as the tree is gone. */
		Py_BEGIN_ALLOW_THREADS
			cordon_run_cancel(self->run, NULL);
		Py_END_ALLOW_THREADS
	}
	run_leave(self);
	Py_RETURN_NONE;
}

static PyObject *run_done(PyObject *object, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct run_object *)object)->is_done);
}

static PyObject *run_over(PyObject *object, void *unused)
{
	struct run_object *self = (struct run_object *)object;
	struct cordon_run *run = run_enter(self);
	int over;

	(void)unused;
	if (!run)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		over = cordon_run_is_over(run);
	Py_END_ALLOW_THREADS
	run_leave(self);
	return PyBool_FromLong(over);
}

static PyMethodDef run_methods[] = {
	{ "fileno", run_fileno, METH_NOARGS,
	  "fileno(): polls readable when process() has something to do." },
	{ "process", run_process, METH_NOARGS,
	  "process(): handles what happened, never blocks. True: the result is complete." },
	{ "wait", (PyCFunction)(void (*)(void))run_wait, METH_VARARGS | METH_KEYWORDS,
	  "wait(timeout=None): until the result is complete (True) or the time is over." },
	{ "signal", run_signal, METH_VARARGS,
	  "signal(number): sends a signal to the command's process group." },
	{ "end", run_end, METH_VARARGS,
	  "end(signal=SIGTERM): asks the command to end; after the grace the tree is ended." },
	{ "cancel", run_cancel, METH_NOARGS, "cancel(): ends the whole tree." },
	{ "resize", run_resize, METH_VARARGS, "resize(rows, cols): of the command's terminal." },
	{ "channel", run_channel, METH_NOARGS,
	  "channel(): this end of the channel, -1: none. The run closes it." },
	{ "is_as_new", run_is_as_new, METH_NOARGS,
	  "is_as_new(): a run that this thread started now would inherit the same." },
	{ "begin", run_begin, METH_VARARGS,
	  "begin(data, wall_ms): begins a run that is held, with its standard input." },
	{ "branch", run_branch, METH_VARARGS,
	  "branch(max_bytes, max_files): id of a new workspace, a copy of the run's." },
	{ "workspace", run_workspace, METH_NOARGS,
	  "workspace(): id of the workspace that it has, None: none." },
	{ "published", run_published, METH_NOARGS,
	  "published(): list of (address, protocol, host_port, port)." },
	{ "notes", run_notes, METH_NOARGS, "notes(): remarks worth showing to a person." },
	{ "result", run_result, METH_NOARGS, "result(): the account of the run, as a dict." },
	{ "receipt", (PyCFunction)(void (*)(void))run_receipt, METH_VARARGS | METH_KEYWORDS,
	  "receipt(with_output=False): the receipt as JSON." },
	{ "close", run_close, METH_NOARGS, "close(): ends the run if it is not over, frees it." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef run_getset[] = {
	{ "done", run_done, NULL, "the result is complete", NULL },
	{ "over", run_over, NULL, "the result is complete and no process is left", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyMemberDef run_members[] = {
	{ "__weaklistoffset__", T_PYSSIZET, offsetof(struct run_object, weak), READONLY, NULL },
	{ NULL, 0, 0, 0, NULL },
};

static PyType_Slot run_slots[] = {
	{ Py_tp_doc,
	  "One command in one sandbox; ends with this object. Made by Launcher.start()." },
	{ Py_tp_new, (void *)run_new },
	{ Py_tp_dealloc, (void *)run_dealloc },
	{ Py_tp_methods, run_methods },
	{ Py_tp_getset, run_getset },
	{ Py_tp_members, run_members },
	{ 0, NULL },
};

PyType_Spec run_spec = {
	.name = "pycordon._cordon.Run",
	.basicsize = sizeof(struct run_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = run_slots,
};

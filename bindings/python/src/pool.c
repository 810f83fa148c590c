/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pool objects: sandboxes made ahead. Any method from any thread: `users` counts the calls in
 * progress, and a pool that is closed meanwhile is freed by the last of them.
 */
#include <unistd.h>

#include "binding.h"

struct pool_object {
	PyObject ob_base;
	PyObject *module;
	PyObject *launcher; /* must outlive the pool */
	struct cordon_pool *pool;
	pid_t pid;
	unsigned users;
	bool is_closed;
};

PyObject *pool_object_new(PyObject *module, PyObject *launcher, struct cordon_pool *pool)
{
	struct module_state *state = PyModule_GetState(module);
	PyTypeObject *type = (PyTypeObject *)state->pool_type;
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct pool_object *self = (struct pool_object *)alloc(type, 0);

	if (!self) {
		Py_BEGIN_ALLOW_THREADS
			cordon_pool_free(pool);
		Py_END_ALLOW_THREADS
		return NULL;
	}
	Py_INCREF(module);
	Py_INCREF(launcher);
	self->module = module;
	self->launcher = launcher;
	self->pool = pool;
	self->pid = getpid();
	return (PyObject *)self;
}

static PyObject *pool_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	(void)type;
	(void)args;
	(void)kwargs;
	PyErr_SetString(PyExc_TypeError, "pools are made by Launcher.pool()");
	return NULL;
}

/* With the GIL; lets go of it meanwhile. */
static void free_pool(struct pool_object *self)
{
	struct cordon_pool *pool = self->pool;

	self->pool = NULL;
	if (!pool)
		return;
	Py_BEGIN_ALLOW_THREADS
		cordon_pool_free(pool);
	Py_END_ALLOW_THREADS
}

static void pool_dealloc(PyObject *object)
{
	struct pool_object *self = (struct pool_object *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (self->pid == getpid())
		free_pool(self);
	Py_XDECREF(self->launcher);
	Py_XDECREF(self->module);
	free_object(object);
	Py_DECREF(type);
}

/* The pool for the time until leave(), or NULL with the exception set. */
static struct cordon_pool *enter(struct pool_object *self)
{
	if (check_pid(self->module, self->pid, "pool") < 0)
		return NULL;
	if (self->is_closed || !self->pool) {
		raise_state(self->module, "this pool is closed");
		return NULL;
	}
	self->users++;
	return self->pool;
}

static void leave(struct pool_object *self)
{
	if (--self->users == 0 && self->is_closed)
		free_pool(self);
}

static PyObject *pool_start(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct pool_object *self = (struct pool_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_pool *pool = enter(self);
	struct cordon_run *run = NULL;
	struct start_call call;
	PyObject *got = NULL;
	int r;

	if (!pool)
		return NULL;
	if (start_call_parse(&call, self->module, args, kwargs) == 0) {
		call.thread = PyEval_SaveThread();
		r = cordon_pool_start(pool, call.policy->policy, &call.options, &run, &err);
		PyEval_RestoreThread(call.thread);
		got = r < 0 ? raise_unless_set(self->module, &err)
			    : run_object_new(self->module, self->launcher, run, call.data);
	}
	start_call_done(&call);
	leave(self);
	return got;
}

static PyObject *pool_refill(PyObject *object, PyObject *unused)
{
	struct pool_object *self = (struct pool_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_pool *pool = enter(self);
	PyObject *got;
	int r;

	(void)unused;
	if (!pool)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		r = cordon_pool_refill(pool, &err);
	Py_END_ALLOW_THREADS
	got = r < 0 ? raise_error(self->module, &err) : PyLong_FromLong(r);
	leave(self);
	return got;
}

static PyObject *pool_stats(PyObject *object, PyObject *unused)
{
	struct pool_object *self = (struct pool_object *)object;
	struct cordon_pool *pool = enter(self);
	struct cordon_pool_stats stats;

	(void)unused;
	if (!pool)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		cordon_pool_stats(pool, &stats);
	Py_END_ALLOW_THREADS
	leave(self);
	return Py_BuildValue(
		"{s:I,s:K,s:K,s:K,s:K,s:K,s:K}", "parked", stats.parked, "warm",
		(unsigned long long)stats.warm, "cold", (unsigned long long)stats.cold, "misfits",
		(unsigned long long)stats.misfits, "stale", (unsigned long long)stats.stale, "made",
		(unsigned long long)stats.made, "dropped", (unsigned long long)stats.dropped);
}

static PyObject *pool_close(PyObject *object, PyObject *unused)
{
	struct pool_object *self = (struct pool_object *)object;

	(void)unused;
	if (check_pid(self->module, self->pid, "pool") < 0)
		return NULL;
	if (!self->is_closed) {
		self->users++;
		self->is_closed = true;
		leave(self);
	}
	Py_RETURN_NONE;
}

static PyMethodDef pool_methods[] = {
	{ "start", (PyCFunction)(void (*)(void))pool_start, METH_VARARGS | METH_KEYWORDS,
	  "start(policy, argv, *, ...): as Launcher.start(), with a parked init if one fits." },
	{ "refill", pool_refill, METH_NOARGS,
	  "refill(): parks what is missing; how many that were." },
	{ "stats", pool_stats, METH_NOARGS, "stats(): what became of the runs, as a dict." },
	{ "close", pool_close, METH_NOARGS, "close(): ends the parked inits." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot pool_slots[] = {
	{ Py_tp_doc, "Sandboxes made ahead. Made by Launcher.pool()." },
	{ Py_tp_new, (void *)pool_new },
	{ Py_tp_dealloc, (void *)pool_dealloc },
	{ Py_tp_methods, pool_methods },
	{ 0, NULL },
};

PyType_Spec pool_spec = {
	.name = "pycordon._cordon.Pool",
	.basicsize = sizeof(struct pool_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = pool_slots,
};

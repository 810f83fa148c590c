/* SPDX-License-Identifier: Apache-2.0 */
/* Launcher objects: starting runs, looking at plans and at the machine. */
#include <unistd.h>

#include "binding.h"

struct launcher_object {
	PyObject ob_base;
	PyObject *module;
	struct cordon_launcher *launcher;
	pid_t pid;
};

static PyObject *launcher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { NULL };
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct cordon_error err = CORDON_ERROR_INIT;
	struct launcher_object *self;
	int r;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":Launcher", names))
		return NULL;
	self = (struct launcher_object *)alloc(type, 0);
	if (!self)
		return NULL;
	self->pid = getpid();
	self->module = module_of_type(type);
	if (!self->module) {
		Py_DECREF(self);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
		r = cordon_launcher_new(&self->launcher, &err);
	Py_END_ALLOW_THREADS
	if (r < 0) {
		raise_error(self->module, &err);
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

static void launcher_dealloc(PyObject *object)
{
	struct launcher_object *self = (struct launcher_object *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (self->launcher && self->pid == getpid()) {
		/* It may wait for the last remains of ended runs. */
		Py_BEGIN_ALLOW_THREADS
			cordon_launcher_free(self->launcher);
		Py_END_ALLOW_THREADS
	}
	Py_XDECREF(self->module);
	free_object(object);
	Py_DECREF(type);
}

static PyObject *launcher_start(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct launcher_object *self = (struct launcher_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run *run = NULL;
	struct start_call call;
	PyObject *got = NULL;
	int r;

	if (check_pid(self->module, self->pid, "launcher") < 0)
		return NULL;
	if (start_call_parse(&call, self->module, args, kwargs) == 0) {
		call.thread = PyEval_SaveThread();
		r = cordon_run_start(self->launcher, call.policy->policy, &call.options, &run,
				     &err);
		PyEval_RestoreThread(call.thread);
		got = r < 0 ? raise_unless_set(self->module, &err)
			    : run_object_new(self->module, object, run, call.data);
	}
	start_call_done(&call);
	return got;
}

static PyObject *launcher_plan(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct launcher_object *self = (struct launcher_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct start_call call;
	PyObject *got = NULL;
	char *text = NULL;
	int r;

	if (check_pid(self->module, self->pid, "launcher") < 0)
		return NULL;
	if (start_call_parse(&call, self->module, args, kwargs) == 0) {
		call.thread = PyEval_SaveThread();
		r = cordon_plan_to_json(self->launcher, call.policy->policy, &call.options, &text,
					&err);
		PyEval_RestoreThread(call.thread);
		got = r < 0 ? raise_unless_set(self->module, &err) : take_text(text);
	}
	start_call_done(&call);
	return got;
}

static PyObject *launcher_check(PyObject *object, PyObject *unused)
{
	struct launcher_object *self = (struct launcher_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_check *check = NULL;
	char *text = NULL;
	int r;

	(void)unused;
	if (check_pid(self->module, self->pid, "launcher") < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		r = cordon_check_new(self->launcher, &check, &err);
		if (r >= 0) {
			r = cordon_check_to_json(check, &text, &err);
			cordon_check_free(check);
		}
	Py_END_ALLOW_THREADS
	return r < 0 ? raise_error(self->module, &err) : take_text(text);
}

static PyObject *launcher_pool(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct cordon_pool_options options = CORDON_POOL_OPTIONS_INIT;
	struct launcher_object *self = (struct launcher_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_pool *pool = NULL;
	PyObject *first, *rest, *got = NULL;
	Py_ssize_t n = PyTuple_Size(args);
	struct start_call call;
	long long max_age_ms;
	int r, is_parsed;

	if (check_pid(self->module, self->pid, "launcher") < 0)
		return NULL;
	first = PyTuple_GetSlice(args, 0, 2);
	rest = PyTuple_GetSlice(args, 2, n);
	is_parsed = first && rest &&
		    PyArg_ParseTuple(first, "IL:pool", &options.parked, &max_age_ms);
	if (is_parsed) {
		options.max_age_ms = max_age_ms;
		options.refill = CORDON_REFILL_BY_HAND;
		if (start_call_parse(&call, self->module, rest, kwargs) == 0) {
			call.thread = PyEval_SaveThread();
			r = cordon_pool_new(self->launcher, call.policy->policy, &call.options,
					    &options, &pool, &err);
			PyEval_RestoreThread(call.thread);
			got = r < 0 ? raise_unless_set(self->module, &err)
				    : pool_object_new(self->module, object, pool);
		}
		start_call_done(&call);
	}
	Py_XDECREF(first);
	Py_XDECREF(rest);
	return got;
}

static PyObject *launcher_packages(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct launcher_object *self = (struct launcher_object *)object;

	if (check_pid(self->module, self->pid, "launcher") < 0)
		return NULL;
	return packages_install(self->module, self->launcher, args, kwargs);
}

static PyObject *launcher_session(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct launcher_object *self = (struct launcher_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_session *session = NULL;
	struct start_call call;
	PyObject *got = NULL;
	int r;

	if (check_pid(self->module, self->pid, "launcher") < 0)
		return NULL;
	if (start_call_parse(&call, self->module, args, kwargs) == 0) {
		call.thread = PyEval_SaveThread();
		r = cordon_session_start(self->launcher, call.policy->policy, &call.options,
					 &session, &err);
		PyEval_RestoreThread(call.thread);
		got = r < 0 ? raise_unless_set(self->module, &err)
			    : session_object_new(self->module, object, session);
	}
	start_call_done(&call);
	return got;
}

static PyMethodDef launcher_methods[] = {
	{ "start", (PyCFunction)(void (*)(void))launcher_start, METH_VARARGS | METH_KEYWORDS,
	  "start(policy, argv, *, ...): starts a run. See _cordon.pyi for the arguments." },
	{ "plan", (PyCFunction)(void (*)(void))launcher_plan, METH_VARARGS | METH_KEYWORDS,
	  "plan(policy, argv, *, ...): what start() would do, as JSON; nothing runs." },
	{ "pool", (PyCFunction)(void (*)(void))launcher_pool, METH_VARARGS | METH_KEYWORDS,
	  "pool(parked, max_age_ms, policy, argv, *, ...): sandboxes made ahead for runs like "
	  "this." },
	{ "packages", (PyCFunction)(void (*)(void))launcher_packages, METH_VARARGS | METH_KEYWORDS,
	  "packages(specs, files, may_build=False, *, ...): finds or installs packages for runs." },
	{ "session", (PyCFunction)(void (*)(void))launcher_session, METH_VARARGS | METH_KEYWORDS,
	  "session(policy, argv, *, ...): a sandbox for commands that come later; argv[0] is a "
	  "program that they may use." },
	{ "check", launcher_check, METH_NOARGS,
	  "check(): what this machine offers, tried for real, as JSON." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot launcher_slots[] = {
	{ Py_tp_doc, "Holds what can be prepared once for any number of runs." },
	{ Py_tp_new, (void *)launcher_new },
	{ Py_tp_dealloc, (void *)launcher_dealloc },
	{ Py_tp_methods, launcher_methods },
	{ 0, NULL },
};

PyType_Spec launcher_spec = {
	.name = "pycordon._cordon.Launcher",
	.basicsize = sizeof(struct launcher_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = launcher_slots,
};

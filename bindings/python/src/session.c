/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions and their commands. A command keeps its session's object alive, so the library's session
 * is freed after all its commands; closing one before only ends it.
 */
#include <signal.h>
#include <unistd.h>

#include "binding.h"
#include "workspace.h"

#define SLICE_MS 10   /* of a wait: another thread may have handled what we wait for */
#define CLOSE_MS 5000 /* for the end of a closed session */

struct session_object {
	PyObject ob_base;
	PyObject *module;
	PyObject *launcher; /* must outlive the session */
	struct cordon_session *session;
	pid_t pid;
	bool is_closed;
};

struct command_object {
	PyObject ob_base;
	struct session_object *session;
	struct cordon_command *command;
	PyObject *data; /* bytes of stdin */
};

PyObject *session_object_new(PyObject *module, PyObject *launcher, struct cordon_session *session)
{
	struct module_state *state = PyModule_GetState(module);
	PyTypeObject *type = (PyTypeObject *)state->session_type;
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct session_object *self = (struct session_object *)alloc(type, 0);

	if (!self) {
		Py_BEGIN_ALLOW_THREADS
			cordon_session_free(session);
		Py_END_ALLOW_THREADS
		return NULL;
	}
	Py_INCREF(module);
	Py_INCREF(launcher);
	self->module = module;
	self->launcher = launcher;
	self->session = session;
	self->pid = getpid();
	return (PyObject *)self;
}

static PyObject *no_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	(void)type;
	(void)args;
	(void)kwargs;
	PyErr_SetString(PyExc_TypeError, "made by Launcher.session() and Session.exec()");
	return NULL;
}

static void session_dealloc(PyObject *object)
{
	struct session_object *self = (struct session_object *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (self->session && self->pid == getpid()) {
		Py_BEGIN_ALLOW_THREADS
			cordon_session_free(self->session);
		Py_END_ALLOW_THREADS
	}
	Py_XDECREF(self->launcher);
	Py_XDECREF(self->module);
	free_object(object);
	Py_DECREF(type);
}

/* The session, or NULL with the exception set. */
static struct cordon_session *open_session(struct session_object *self)
{
	if (check_pid(self->module, self->pid, "session") < 0)
		return NULL;
	if (self->is_closed) {
		raise_state(self->module, "this session is closed");
		return NULL;
	}
	return self->session;
}

static PyObject *session_fileno(PyObject *object, PyObject *unused)
{
	struct cordon_session *s = open_session((struct session_object *)object);

	(void)unused;
	return s ? PyLong_FromLong(cordon_session_fd(s)) : NULL;
}

static PyObject *session_process(PyObject *object, PyObject *unused)
{
	struct session_object *self = (struct session_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_session *s = open_session(self);
	int r;

	(void)unused;
	if (!s)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		r = cordon_session_process(s, &err);
	Py_END_ALLOW_THREADS
	return r < 0 ? raise_error(self->module, &err) : PyBool_FromLong(r);
}

static PyObject *order(PyObject *object,
		       int (*give)(struct cordon_session *, struct cordon_error *))
{
	struct session_object *self = (struct session_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_session *s = open_session(self);
	int r;

	if (!s)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		r = give(s, &err);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_error(self->module, &err);
	Py_RETURN_NONE;
}

static PyObject *session_pause(PyObject *object, PyObject *unused)
{
	(void)unused;
	return order(object, cordon_session_pause);
}

static PyObject *session_resume(PyObject *object, PyObject *unused)
{
	(void)unused;
	return order(object, cordon_session_resume);
}

static PyObject *session_usage(PyObject *object, PyObject *unused)
{
	struct session_object *self = (struct session_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_session *s = open_session(self);
	struct cordon_session_usage u;
	int r;

	(void)unused;
	if (!s)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		r = cordon_session_usage(s, &u, &err);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_error(self->module, &err);
	return Py_BuildValue(
		"{s:K,s:K,s:d,s:d,s:I,s:N}", "memory_bytes", (unsigned long long)u.memory_bytes,
		"tasks", (unsigned long long)u.tasks, "cpu_ms", u.cpu_ms, "uptime_ms", u.uptime_ms,
		"commands", u.commands, "paused", PyBool_FromLong(u.is_paused));
}

static PyObject *session_notes(PyObject *object, PyObject *unused)
{
	struct cordon_session *s = open_session((struct session_object *)object);

	(void)unused;
	return s ? names_list(cordon_session_notes(s)) : NULL;
}

static PyObject *session_published(PyObject *object, PyObject *unused)
{
	struct cordon_session *s = open_session((struct session_object *)object);
	const struct cordon_published *published;
	size_t n = 0;

	(void)unused;
	if (!s)
		return NULL;
	published = cordon_session_published(s, &n);
	return published_list(published, n);
}

static PyObject *session_workspace(PyObject *object, PyObject *unused)
{
	struct cordon_session *s = open_session((struct session_object *)object);
	const char *id;

	(void)unused;
	if (!s)
		return NULL;
	id = cordon_session_workspace(s);
	if (!id)
		Py_RETURN_NONE;
	return PyUnicode_FromString(id);
}

static PyObject *session_branch(PyObject *object, PyObject *args)
{
	struct session_object *self = (struct session_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	unsigned long long max_bytes, max_files;
	struct cordon_workspace *ws = NULL;
	struct cordon_session *s;
	int r;

	if (!PyArg_ParseTuple(args, "KK:branch", &max_bytes, &max_files))
		return NULL;
	s = open_session(self);
	if (!s)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		r = cordon_session_branch(s, max_bytes, max_files, &ws, &err);
	Py_END_ALLOW_THREADS
	return r < 0 ? raise_error(self->module, &err) : branch_id(ws);
}

/* Also of a closed one. */
static PyObject *session_result(PyObject *object, PyObject *unused)
{
	struct session_object *self = (struct session_object *)object;
	const struct cordon_result *res;

	(void)unused;
	if (check_pid(self->module, self->pid, "session") < 0)
		return NULL;
	res = cordon_session_result(self->session);
	if (!res)
		Py_RETURN_NONE;
	return result_dict(res);
}

static PyObject *session_close(PyObject *object, PyObject *args)
{
	struct session_object *self = (struct session_object *)object;
	int number = 0;

	if (!PyArg_ParseTuple(args, "|i:close", &number) ||
	    check_pid(self->module, self->pid, "session") < 0)
		return NULL;
	if (self->is_closed)
		Py_RETURN_NONE;
	self->is_closed = true;
	Py_BEGIN_ALLOW_THREADS
		if (number)
			(void)cordon_session_end(self->session, number, NULL);
		else
			(void)cordon_session_cancel(self->session, NULL);
		(void)cordon_session_wait(self->session, CLOSE_MS, NULL);
	Py_END_ALLOW_THREADS
	Py_RETURN_NONE;
}

/* --- commands --- */

struct exec_call {
	struct cordon_exec_options options;
	struct start_call streams; /* only its streams */
	struct strings argv, env;
	PyObject *cwd;
};

static int exec_parse(struct exec_call *call, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "argv",    "env",	    "cwd",  "stdin", "stdout",	   "stderr",
				 "wall_ms", "output_bytes", "keep", "files", "channel_fd", "image",
				 NULL };
	PyObject *argv, *env = NULL, *cwd = NULL, *in = NULL, *out = NULL, *err = NULL;
	struct cordon_exec_options *o = &call->options;
	long long wall_ms = 0, output_bytes = 0;
	int keep = 0, files = 0, channel_fd = -1, image = 0;

	*call = (struct exec_call){ .options = CORDON_EXEC_OPTIONS_INIT };
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OOOOOLLppip:exec", names, &argv, &env,
					 &cwd, &in, &out, &err, &wall_ms, &output_bytes, &keep,
					 &files, &channel_fd, &image))
		return -1;
	if (strings_from_sequence(&call->argv, argv, "argv") < 0 ||
	    (env && env != Py_None && strings_from_mapping(&call->env, env) < 0) ||
	    path_bytes(cwd, "cwd", &call->cwd) < 0 ||
	    start_call_streams(&call->streams, in, out, err) < 0)
		return -1;
	if (wall_ms < 0 || output_bytes < 0) {
		PyErr_SetString(PyExc_ValueError, "wall_ms and output_bytes must not be negative");
		return -1;
	}
	o->argv = call->argv.v;
	o->env = call->env.v;
	o->cwd = call->cwd ? PyBytes_AsString(call->cwd) : NULL;
	o->in = call->streams.options.in;
	o->out = call->streams.options.out;
	o->err = call->streams.options.err;
	o->wall_ms = wall_ms;
	o->output_bytes = output_bytes;
	o->orphans = keep ? CORDON_ORPHANS_KEEP : CORDON_ORPHANS_KILL;
	o->files = files;
	o->channel_fd = channel_fd;
	o->image = image;
	return 0;
}

static void exec_done(struct exec_call *call)
{
	strings_done(&call->argv);
	strings_done(&call->env);
	Py_XDECREF(call->cwd);
	Py_XDECREF(call->streams.data);
}

static PyObject *command_object_new(struct session_object *session, struct cordon_command *command,
				    PyObject *data)
{
	struct module_state *state = PyModule_GetState(session->module);
	PyTypeObject *type = (PyTypeObject *)state->command_type;
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct command_object *self = (struct command_object *)alloc(type, 0);

	if (!self) {
		cordon_command_free(command);
		return NULL;
	}
	Py_INCREF((PyObject *)session);
	Py_XINCREF(data);
	self->session = session;
	self->command = command;
	self->data = data;
	return (PyObject *)self;
}

static PyObject *session_exec(PyObject *object, PyObject *args, PyObject *kwargs)
{
	struct session_object *self = (struct session_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_session *s = open_session(self);
	struct cordon_command *command = NULL;
	struct exec_call call;
	PyObject *got = NULL;
	int r;

	if (!s)
		return NULL;
	if (exec_parse(&call, args, kwargs) == 0) {
		Py_BEGIN_ALLOW_THREADS
			r = cordon_session_exec(s, &call.options, &command, &err);
		Py_END_ALLOW_THREADS
		got = r < 0 ? raise_error(self->module, &err)
			    : command_object_new(self, command, call.streams.data);
	}
	exec_done(&call);
	return got;
}

static void command_dealloc(PyObject *object)
{
	struct command_object *self = (struct command_object *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (self->command && self->session->pid == getpid()) {
		Py_BEGIN_ALLOW_THREADS
			cordon_command_free(self->command);
		Py_END_ALLOW_THREADS
	}
	Py_XDECREF(self->data);
	Py_XDECREF((PyObject *)self->session);
	free_object(object);
	Py_DECREF(type);
}

static int check_command(const struct command_object *self)
{
	return check_pid(self->session->module, self->session->pid, "command");
}

static PyObject *command_wait(PyObject *object, PyObject *args)
{
	struct command_object *self = (struct command_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	double seconds = -1;
	long long slices;
	int r = 0;

	if (!PyArg_ParseTuple(args, "|d:wait", &seconds) || check_command(self) < 0)
		return NULL;
	slices = seconds < 0 || seconds > 1e9 ? -1 : (long long)(seconds * 1000 / SLICE_MS) + 1;
	while (r == 0 && slices-- != 0) {
		Py_BEGIN_ALLOW_THREADS
			r = cordon_command_wait(self->command, SLICE_MS, &err);
		Py_END_ALLOW_THREADS
		if (PyErr_CheckSignals() < 0)
			return NULL;
	}
	return r < 0 ? raise_error(self->session->module, &err) : PyBool_FromLong(r);
}

static PyObject *command_result(PyObject *object, PyObject *unused)
{
	struct command_object *self = (struct command_object *)object;
	const struct cordon_result *res;

	(void)unused;
	if (check_command(self) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		res = cordon_command_result(self->command);
	Py_END_ALLOW_THREADS
	if (!res)
		Py_RETURN_NONE;
	return result_dict(res);
}

static PyObject *command_signal(PyObject *object, PyObject *args)
{
	struct command_object *self = (struct command_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	int number, r;

	if (!PyArg_ParseTuple(args, "i:signal", &number) || check_command(self) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		r = cordon_command_signal(self->command, number, &err);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_error(self->session->module, &err);
	Py_RETURN_NONE;
}

static PyObject *command_end(PyObject *object, PyObject *args)
{
	struct command_object *self = (struct command_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	long long grace_ms = 0;
	int number = SIGKILL, r;

	if (!PyArg_ParseTuple(args, "|iL:end", &number, &grace_ms) || check_command(self) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		r = cordon_command_end(self->command, number, grace_ms, &err);
	Py_END_ALLOW_THREADS
	if (r < 0)
		return raise_error(self->session->module, &err);
	Py_RETURN_NONE;
}

static PyMethodDef session_methods[] = {
	{ "fileno", session_fileno, METH_NOARGS,
	  "fileno(): polls readable when process() has something to do." },
	{ "process", session_process, METH_NOARGS,
	  "process(): handles what happened, never blocks. True: the session is over." },
	{ "exec", (PyCFunction)(void (*)(void))session_exec, METH_VARARGS | METH_KEYWORDS,
	  "exec(argv, *, ...): starts a command. See _cordon.pyi for the arguments." },
	{ "pause", session_pause, METH_NOARGS, "pause(): stops every process." },
	{ "resume", session_resume, METH_NOARGS, "resume(): lets them go on." },
	{ "usage", session_usage, METH_NOARGS, "usage(): what the session uses now, as a dict." },
	{ "notes", session_notes, METH_NOARGS, "notes(): remarks worth showing to a person." },
	{ "published", session_published, METH_NOARGS,
	  "published(): list of (address, protocol, host_port, port)." },
	{ "workspace", session_workspace, METH_NOARGS,
	  "workspace(): id of the workspace that it has, or None." },
	{ "branch", session_branch, METH_VARARGS,
	  "branch(max_bytes, max_files): id of a new workspace, a copy of the session's." },
	{ "result", session_result, METH_NOARGS,
	  "result(): the account of the session; None until it is over." },
	{ "close", session_close, METH_VARARGS,
	  "close(signal=0): ends it; with a signal it has its grace to end." },
	{ NULL, NULL, 0, NULL },
};

static PyMethodDef command_methods[] = {
	{ "wait", command_wait, METH_VARARGS,
	  "wait(seconds=-1): until it has a result (True) or the time is over." },
	{ "result", command_result, METH_NOARGS,
	  "result(): the account of the command; None until it is there." },
	{ "signal", command_signal, METH_VARARGS, "signal(number): to its process group." },
	{ "end", command_end, METH_VARARGS,
	  "end(signal=SIGKILL, grace_ms=0): ends it and what it started." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot session_slots[] = {
	{ Py_tp_doc, "A sandbox for several commands. Made by Launcher.session()." },
	{ Py_tp_new, (void *)no_new },
	{ Py_tp_dealloc, (void *)session_dealloc },
	{ Py_tp_methods, session_methods },
	{ 0, NULL },
};

static PyType_Slot command_slots[] = {
	{ Py_tp_doc, "A command of a session; ends with this object. Made by Session.exec()." },
	{ Py_tp_new, (void *)no_new },
	{ Py_tp_dealloc, (void *)command_dealloc },
	{ Py_tp_methods, command_methods },
	{ 0, NULL },
};

PyType_Spec session_spec = {
	.name = "pycordon._cordon.Session",
	.basicsize = sizeof(struct session_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = session_slots,
};

PyType_Spec command_spec = {
	.name = "pycordon._cordon.Command",
	.basicsize = sizeof(struct command_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = command_slots,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of Launcher.start() and Launcher.plan(). */
#include <limits.h>

#include "binding.h"

/* Numbers and flags. */
struct numbers {
	long long wall_ms, memory_bytes;
	int keep_orphans, terminal, rows, cols, net_log_fd, workspace_changes, files, image_fd,
		channel, ahead, held;
};

/* As they come, borrowed. */
struct given {
	PyObject *policy, *argv, *env, *cwd, *home, *search_path, *in, *out, *err;
	PyObject *workspace_name, *workspace_from, *progress, *state_dir, *private_dir, *code_dir;
};

static int parse_data(struct start_call *call, PyObject *value)
{
	PyObject *view;
	char *data;
	Py_ssize_t len;

	if (PyBytes_Check(value)) {
		Py_INCREF(value);
		call->data = value;
	} else {
		/* A copy: the caller may change it during the run. */
		view = PyMemoryView_FromObject(value);
		call->data = view ? PyBytes_FromObject(view) : NULL;
		Py_XDECREF(view);
		if (!call->data) {
			PyErr_Format(PyExc_TypeError,
				     "stdin must be None, bytes or a file descriptor, not %R",
				     (PyObject *)Py_TYPE(value));
			return -1;
		}
	}
	if (PyBytes_AsStringAndSize(call->data, &data, &len) < 0)
		return -1;
	call->options.in.mode = CORDON_STREAM_DATA;
	call->options.in.data = data;
	call->options.in.data_len = (size_t)len;
	return 0;
}

static int parse_stdin(struct start_call *call, PyObject *value)
{
	int fd;

	if (!value || value == Py_None)
		return 0;
	if (!PyLong_Check(value))
		return parse_data(call, value);
	fd = descriptor_of(value, "stdin");
	call->options.in.mode = CORDON_STREAM_FD;
	call->options.in.fd = fd;
	return fd < 0 ? -1 : 0;
}

static int parse_output(struct cordon_stream *stream, PyObject *value, const char *what,
			bool may_join)
{
	if (!value) {
		stream->mode = CORDON_STREAM_CAPTURE;
		return 0;
	}
	if (!PyUnicode_Check(value)) {
		stream->mode = CORDON_STREAM_FD;
		stream->fd = descriptor_of(value, what);
		return stream->fd < 0 ? -1 : 0;
	}
	if (PyUnicode_CompareWithASCIIString(value, "capture") == 0)
		stream->mode = CORDON_STREAM_CAPTURE;
	else if (PyUnicode_CompareWithASCIIString(value, "null") == 0)
		stream->mode = CORDON_STREAM_NULL;
	else if (may_join && PyUnicode_CompareWithASCIIString(value, "join") == 0)
		stream->mode = CORDON_STREAM_JOIN;
	else {
		PyErr_Format(PyExc_ValueError,
			     "%s must be 'capture', 'null'%s or a file descriptor, not %R", what,
			     may_join ? ", 'join'" : "", value);
		return -1;
	}
	return 0;
}

static int parse_numbers(struct start_call *call, const struct numbers *n)
{
	struct cordon_run_options *o = &call->options;

	if (n->rows < 0 || n->rows > UINT16_MAX || n->cols < 0 || n->cols > UINT16_MAX) {
		PyErr_SetString(PyExc_ValueError, "rows and cols must be 0 to 65535");
		return -1;
	}
	if (n->wall_ms < -1 || n->memory_bytes < -1) {
		PyErr_SetString(PyExc_ValueError, "wall_ms and memory_bytes must be -1 or more");
		return -1;
	}
	o->rows = (uint16_t)n->rows;
	o->cols = (uint16_t)n->cols;
	o->default_wall_ms = n->wall_ms;
	o->default_memory_bytes = n->memory_bytes;
	o->orphans = n->keep_orphans ? CORDON_ORPHANS_KEEP : CORDON_ORPHANS_KILL;
	o->terminal = n->terminal != 0;
	o->workspace_changes = n->workspace_changes != 0;
	o->files = n->files != 0;
	o->channel = n->channel != 0;
	o->ahead = n->ahead != 0;
	o->held = n->held != 0;
	return 0;
}

/* -1 = none. The library takes 0 for none. */
static int parse_fd(int fd, const char *what, int *ret)
{
	PyObject *number;
	int r;

	if (fd == -1)
		return 0;
	number = PyLong_FromLong(fd);
	r = number ? descriptor_of(number, what) : -1;
	Py_XDECREF(number);
	if (r == 0)
		PyErr_Format(PyExc_ValueError, "%s cannot be descriptor 0", what);
	if (r <= 0)
		return -1;
	*ret = r;
	return 0;
}

static const char *pointer_of(PyObject *bytes)
{
	return bytes ? PyBytes_AsString(bytes) : NULL;
}

static int parse_paths(struct start_call *call, const struct given *g)
{
	struct cordon_run_options *o = &call->options;

	if (path_bytes(g->cwd, "cwd", &call->cwd) < 0 ||
	    path_bytes(g->home, "home", &call->home) < 0 ||
	    path_bytes(g->search_path, "search_path", &call->search_path) < 0 ||
	    path_bytes(g->workspace_name, "workspace_name", &call->workspace_name) < 0 ||
	    path_bytes(g->workspace_from, "workspace_from", &call->workspace_from) < 0 ||
	    path_bytes(g->state_dir, "state_dir", &call->state_dir) < 0)
		return -1;
	o->cwd = pointer_of(call->cwd);
	o->home = pointer_of(call->home);
	o->search_path = pointer_of(call->search_path);
	o->workspace_name = pointer_of(call->workspace_name);
	o->workspace_from = pointer_of(call->workspace_from);
	o->state_dir = pointer_of(call->state_dir);
	o->private_dir = pointer_of(call->private_dir);
	o->code_dir = pointer_of(call->code_dir);
	return 0;
}

/*
 * While a workspace is copied: ctrl-C ends it, and the caller's function hears of it. An exception
 * stays set until start() returns.
 */
static int progress(void *arg, uint64_t files, uint64_t bytes)
{
	struct start_call *call = arg;
	PyObject *got;
	int stop;

	PyEval_RestoreThread(call->thread);
	stop = PyErr_Occurred() || PyErr_CheckSignals() < 0;
	if (!stop && call->progress) {
		got = PyObject_CallFunction(call->progress, "KK", (unsigned long long)files,
					    (unsigned long long)bytes);
		/* False ends it; a callback that returns nothing does not. */
		stop = !got || got == Py_False;
		Py_XDECREF(got);
	}
	call->thread = PyEval_SaveThread();
	return stop;
}

static int parse_progress(struct start_call *call, PyObject *value)
{
	if (value && value != Py_None && !PyCallable_Check(value)) {
		PyErr_SetString(PyExc_TypeError, "workspace_progress must be callable");
		return -1;
	}
	call->progress = value == Py_None ? NULL : value;
	call->options.workspace_progress = progress;
	call->options.workspace_arg = call;
	return 0;
}

static int parse_words(struct start_call *call, const struct given *g)
{
	/* A session may have none; where one is needed the library says so. */
	if (g->argv != Py_None) {
		if (strings_from_sequence(&call->argv, g->argv, "argv") < 0)
			return -1;
		if (!call->argv.v[0] || !call->argv.v[0][0]) {
			PyErr_SetString(PyExc_ValueError, "argv is empty");
			return -1;
		}
		call->options.argv = call->argv.v;
	}
	if (!g->env || g->env == Py_None)
		return 0;
	if (strings_from_mapping(&call->env, g->env) < 0)
		return -1;
	call->options.envp = call->env.v;
	return 0;
}

int start_call_streams(struct start_call *call, PyObject *in, PyObject *out, PyObject *err)
{
	if (parse_stdin(call, in) < 0 || parse_output(&call->options.out, out, "stdout", false) < 0)
		return -1;
	return parse_output(&call->options.err, err, "stderr", true);
}

int start_call_parse(struct start_call *call, PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {
		"policy",
		"argv",
		"env",
		"cwd",
		"home",
		"search_path",
		"stdin",
		"stdout",
		"stderr",
		"wall_ms",
		"memory_bytes",
		"keep_orphans",
		"terminal",
		"rows",
		"cols",
		"net_log_fd",
		"workspace_name",
		"workspace_from",
		"workspace_changes",
		"workspace_progress",
		"state_dir",
		"private_dir",
		"code_dir",
		"files",
		"image_fd",
		"channel",
		"ahead",
		"held",
		NULL,
	};
	struct numbers n = { .net_log_fd = -1, .image_fd = -1 };
	struct given g = { NULL };

	*call = (struct start_call){ .options = CORDON_RUN_OPTIONS_INIT };
	if (!PyArg_ParseTupleAndKeywords(
		    args, kwargs, "OO|$OOOOOOOLLppiiiOOpOOOOpippp", names, &g.policy, &g.argv,
		    &g.env, &g.cwd, &g.home, &g.search_path, &g.in, &g.out, &g.err, &n.wall_ms,
		    &n.memory_bytes, &n.keep_orphans, &n.terminal, &n.rows, &n.cols, &n.net_log_fd,
		    &g.workspace_name, &g.workspace_from, &n.workspace_changes, &g.progress,
		    &g.state_dir, &g.private_dir, &g.code_dir, &n.files, &n.image_fd, &n.channel,
		    &n.ahead, &n.held))
		return -1;
	if (parse_numbers(call, &n) < 0 || parse_words(call, &g) < 0 ||
	    parse_stdin(call, g.in) < 0 ||
	    parse_output(&call->options.out, g.out, "stdout", false) < 0 ||
	    parse_output(&call->options.err, g.err, "stderr", true) < 0 ||
	    parse_fd(n.net_log_fd, "net_log_fd", &call->options.net_log_fd) < 0 ||
	    parse_fd(n.image_fd, "image_fd", &call->options.image_fd) < 0 ||
	    path_bytes(g.private_dir, "private_dir", &call->private_dir) < 0 ||
	    path_bytes(g.code_dir, "code_dir", &call->code_dir) < 0 || parse_paths(call, &g) < 0 ||
	    parse_progress(call, g.progress) < 0)
		return -1;
	if (call->options.terminal && !g.err)
		call->options.err.mode = CORDON_STREAM_JOIN; /* a terminal has one output */
	call->policy = policy_borrow(module, g.policy);
	return call->policy ? 0 : -1;
}

void start_call_done(struct start_call *call)
{
	strings_done(&call->argv);
	strings_done(&call->env);
	Py_XDECREF(call->cwd);
	Py_XDECREF(call->home);
	Py_XDECREF(call->search_path);
	Py_XDECREF(call->workspace_name);
	Py_XDECREF(call->workspace_from);
	Py_XDECREF(call->state_dir);
	Py_XDECREF(call->private_dir);
	Py_XDECREF(call->code_dir);
	Py_XDECREF(call->data);
	policy_release(call->policy);
}

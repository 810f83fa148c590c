/* SPDX-License-Identifier: Apache-2.0 */
/* What concerns this process and its directories rather than a run. */
#include "binding.h"

/* The interpreter as it was started: a virtual environment is found by that name. Bytes, or NULL.
 */
static PyObject *own_program(void)
{
	PyObject *executable = PySys_GetObject("executable"); /* borrowed */
	PyObject *bytes = NULL;

	if (!executable || !PyUnicode_Check(executable) || PyUnicode_GetLength(executable) <= 0)
		return NULL;
	if (path_bytes(executable, "sys.executable", &bytes) < 0)
		PyErr_Clear();
	return bytes;
}

static PyObject *confine(PyObject *module, PyObject *policy, PyObject *cwd, PyObject *home)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct policy_box *box = policy_borrow(module, policy);
	struct cordon_error err = CORDON_ERROR_INIT;
	const char *argv[] = { NULL, NULL };
	PyObject *program;
	int r;

	if (!box)
		return NULL;
	program = own_program();
	argv[0] = program ? PyBytes_AsString(program) : NULL;
	options.argv = argv[0] ? argv : NULL;
	options.cwd = cwd ? PyBytes_AsString(cwd) : NULL;
	options.home = home ? PyBytes_AsString(home) : NULL;
	/* With the GIL: no thread may come into being meanwhile. */
	r = cordon_confine_self(box->policy, &options, &err);
	policy_release(box);
	Py_XDECREF(program);
	if (r < 0)
		return raise_error(module, &err);
	Py_RETURN_NONE;
}

PyObject *module_confine(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "policy", "cwd", "home", NULL };
	PyObject *policy, *cwd = NULL, *home = NULL, *cwd_bytes = NULL, *home_bytes = NULL;
	PyObject *got = NULL;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:confine", names, &policy, &cwd, &home))
		return NULL;
	if (path_bytes(cwd, "cwd", &cwd_bytes) == 0 && path_bytes(home, "home", &home_bytes) == 0)
		got = confine(module, policy, cwd_bytes, home_bytes);
	Py_XDECREF(cwd_bytes);
	Py_XDECREF(home_bytes);
	return got;
}

PyObject *module_private_remove(PyObject *module, PyObject *path)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	PyObject *bytes;
	int r;

	if (path == Py_None) {
		PyErr_SetString(PyExc_TypeError, "dir must be str, bytes or os.PathLike");
		return NULL;
	}
	if (path_bytes(path, "dir", &bytes) < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
		r = cordon_private_remove(PyBytes_AsString(bytes), &err);
	Py_END_ALLOW_THREADS
	Py_DECREF(bytes);
	if (r < 0)
		return raise_error(module, &err);
	Py_RETURN_NONE;
}

PyObject *module_private_copy(PyObject *module, PyObject *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	unsigned long long bytes, files;
	PyObject *from, *to, *from_bytes = NULL, *to_bytes = NULL;
	int r = -1;

	if (!PyArg_ParseTuple(args, "O!O!KK:private_copy", &PyUnicode_Type, &from, &PyUnicode_Type,
			      &to, &bytes, &files))
		return NULL;
	if (path_bytes(from, "from", &from_bytes) == 0 && path_bytes(to, "to", &to_bytes) == 0) {
		Py_BEGIN_ALLOW_THREADS
			r = cordon_private_copy(PyBytes_AsString(from_bytes),
						PyBytes_AsString(to_bytes), bytes, files, &err);
		Py_END_ALLOW_THREADS
		if (r < 0)
			raise_error(module, &err);
	}
	Py_XDECREF(from_bytes);
	Py_XDECREF(to_bytes);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

PyObject *module_private_exchange(PyObject *module, PyObject *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	PyObject *dir, *other, *dir_bytes = NULL, *other_bytes = NULL;
	int r = -1;

	if (!PyArg_ParseTuple(args, "O!O!:private_exchange", &PyUnicode_Type, &dir, &PyUnicode_Type,
			      &other))
		return NULL;
	if (path_bytes(dir, "dir", &dir_bytes) == 0 &&
	    path_bytes(other, "other", &other_bytes) == 0) {
		Py_BEGIN_ALLOW_THREADS
			r = cordon_private_exchange(PyBytes_AsString(dir_bytes),
						    PyBytes_AsString(other_bytes), &err);
		Py_END_ALLOW_THREADS
		if (r < 0)
			raise_error(module, &err);
	}
	Py_XDECREF(dir_bytes);
	Py_XDECREF(other_bytes);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The one exception of this module; pycordon._errors makes a tree of it. */
#include <unistd.h>

#include "binding.h"

static int set_attribute(PyObject *exception, const char *name, PyObject *value)
{
	int r = value ? PyObject_SetAttrString(exception, name, value) : -1;

	Py_XDECREF(value);
	return r;
}

PyObject *raise_error(PyObject *module, const struct cordon_error *err)
{
	struct module_state *state = PyModule_GetState(module);
	PyObject *message = text_of(err->msg);
	PyObject *exception =
		message ? PyObject_CallFunctionObjArgs(state->error_type, message, NULL) : NULL;

	if (!exception) {
		Py_XDECREF(message);
		return NULL;
	}
	if (set_attribute(exception, "message", message) == 0 &&
	    set_attribute(exception, "code", PyLong_FromLong(err->code)) == 0 &&
	    set_attribute(exception, "name", text_of(cordon_error_name(err->code))) == 0 &&
	    set_attribute(exception, "errno", PyLong_FromLong(err->sys_errno)) == 0 &&
	    set_attribute(exception, "stage", text_of(cordon_stage_name(err->stage))) == 0 &&
	    set_attribute(exception, "hint", text_of(err->hint)) == 0)
		PyErr_SetObject(state->error_type, exception);
	Py_DECREF(exception);
	return NULL;
}

PyObject *raise_unless_set(PyObject *module, const struct cordon_error *err)
{
	return PyErr_Occurred() ? NULL : raise_error(module, err);
}

PyObject *raise_code(PyObject *module, int code, const char *message)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	err.code = code;
	snprintf(err.msg, sizeof(err.msg), "%s", message);
	return raise_error(module, &err);
}

PyObject *raise_state(PyObject *module, const char *message)
{
	return raise_code(module, CORDON_E_STATE, message);
}

int check_pid(PyObject *module, pid_t pid, const char *what)
{
	char message[128];

	if (pid == getpid())
		return 0;
	snprintf(message, sizeof(message), "this %s belongs to the process before fork", what);
	raise_state(module, message);
	return -1;
}

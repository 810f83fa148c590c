/* SPDX-License-Identifier: Apache-2.0 */
/* The module: its types, its functions, its constants. */
#include <stdlib.h>
#include <string.h>

#include "binding.h"

/* Python 3.12's Py_mod_multiple_interpreters and Py_MOD_PER_INTERPRETER_GIL_SUPPORTED, which the
 * headers for the limited API of 3.9 do not name. */
#define SLOT_MULTIPLE_INTERPRETERS 3
#define OWN_GIL_SUPPORTED ((void *)2)

#define OWNER "_owner" /* attribute of a type: the module that made it */

/* PyType_GetModule() is not in the limited API of 3.9. */
PyObject *module_of_type(PyTypeObject *type)
{
	return PyObject_GetAttrString((PyObject *)type, OWNER);
}

int add_type(PyObject *module, PyType_Spec *spec, PyObject **ret)
{
	const char *name = strrchr(spec->name, '.') + 1;

	*ret = PyType_FromSpec(spec);
	if (!*ret || PyObject_SetAttrString(*ret, OWNER, module) < 0)
		return -1;
	return PyObject_SetAttrString(module, name, *ret);
}

static PyObject *module_version(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	return text_of(cordon_version());
}

static PyObject *module_policy_schema(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	return text_of(cordon_policy_schema());
}

static PyMethodDef module_methods[] = {
	{ "version", module_version, METH_NOARGS, "version(): of libcordon." },
	{ "policy_schema", module_policy_schema, METH_NOARGS,
	  "policy_schema(): the JSON Schema of policies." },
	{ "workspace_list", (PyCFunction)(void (*)(void))module_workspace_list,
	  METH_VARARGS | METH_KEYWORDS, "workspace_list(state_dir=None): oldest first." },
	{ "workspace_gc", (PyCFunction)(void (*)(void))module_workspace_gc,
	  METH_VARARGS | METH_KEYWORDS,
	  "workspace_gc(state_dir=None, older_than=None, dry_run=False): what was removed, why." },
	{ "confine", (PyCFunction)(void (*)(void))module_confine, METH_VARARGS | METH_KEYWORDS,
	  "confine(policy, cwd=None, home=None): shuts this process in for good." },
	{ "private_copy", module_private_copy, METH_VARARGS,
	  "private_copy(dir, to, max_bytes, max_files): copies a private directory." },
	{ "private_exchange", module_private_exchange, METH_VARARGS,
	  "private_exchange(dir, other): exchanges what is in two private directories." },
	{ "private_remove", module_private_remove, METH_O,
	  "private_remove(dir): removes a private directory and all that is in it." },
	{ "file_states", module_file_states, METH_O,
	  "file_states(paths): what tells whether files have changed; each path ends with a "
	  "zero." },
	{ NULL, NULL, 0, NULL },
};

static int add_constants(PyObject *module)
{
	if (PyModule_AddStringConstant(module, "__version__", CORDON_VERSION) < 0 ||
	    PyModule_AddIntConstant(module, "NULL", CORDON_STREAM_NULL) < 0 ||
	    PyModule_AddIntConstant(module, "CAPTURE", CORDON_STREAM_CAPTURE) < 0 ||
	    PyModule_AddIntConstant(module, "JOIN", CORDON_STREAM_JOIN) < 0 ||
	    PyModule_AddIntConstant(module, "ORPHANS_KILL", CORDON_ORPHANS_KILL) < 0 ||
	    PyModule_AddIntConstant(module, "ORPHANS_KEEP", CORDON_ORPHANS_KEEP) < 0)
		return -1;
	return 0;
}

static int module_exec(PyObject *module)
{
	struct module_state *state = PyModule_GetState(module);

	state->error_type = PyErr_NewExceptionWithDoc(
		"pycordon._cordon.Error",
		"What libcordon could not do: message, code, name, errno, stage, hint.", NULL,
		NULL);
	if (!state->error_type || PyObject_SetAttrString(module, "Error", state->error_type) < 0 ||
	    add_type(module, &policy_spec, &state->policy_type) < 0 ||
	    add_type(module, &launcher_spec, &state->launcher_type) < 0 ||
	    add_type(module, &run_spec, &state->run_type) < 0 ||
	    add_type(module, &pool_spec, &state->pool_type) < 0 ||
	    add_type(module, &session_spec, &state->session_type) < 0 ||
	    add_type(module, &command_spec, &state->command_type) < 0 ||
	    add_type(module, &workspace_spec, &state->workspace_type) < 0)
		return -1;
	return add_constants(module);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct module_state *state = PyModule_GetState(module);

	Py_VISIT(state->error_type);
	Py_VISIT(state->policy_type);
	Py_VISIT(state->launcher_type);
	Py_VISIT(state->run_type);
	Py_VISIT(state->pool_type);
	Py_VISIT(state->session_type);
	Py_VISIT(state->command_type);
	Py_VISIT(state->workspace_type);
	return 0;
}

static int module_clear(PyObject *module)
{
	struct module_state *state = PyModule_GetState(module);

	Py_CLEAR(state->error_type);
	Py_CLEAR(state->policy_type);
	Py_CLEAR(state->launcher_type);
	Py_CLEAR(state->run_type);
	Py_CLEAR(state->pool_type);
	Py_CLEAR(state->session_type);
	Py_CLEAR(state->command_type);
	Py_CLEAR(state->workspace_type);
	return 0;
}

static void module_free(void *module)
{
	module_clear(module);
}

static PyModuleDef_Slot slots[] = {
	{ Py_mod_exec, (void *)module_exec },
	{ 0, NULL },
};

static PyModuleDef_Slot slots_since_3_12[] = {
	{ Py_mod_exec, (void *)module_exec },
	{ SLOT_MULTIPLE_INTERPRETERS, OWN_GIL_SUPPORTED },
	{ 0, NULL },
};

#define MODULE_DEF(with_slots)                                                                     \
	{                                                                                          \
		PyModuleDef_HEAD_INIT,                                                             \
		.m_name = "pycordon._cordon",                                                      \
		.m_doc = "libcordon as Python objects; use the package pycordon instead.",         \
		.m_size = sizeof(struct module_state),                                             \
		.m_methods = module_methods,                                                       \
		.m_slots = with_slots,                                                             \
		.m_traverse = module_traverse,                                                     \
		.m_clear = module_clear,                                                           \
		.m_free = module_free,                                                             \
	}

static PyModuleDef definition = MODULE_DEF(slots);
static PyModuleDef definition_since_3_12 = MODULE_DEF(slots_since_3_12);

PyMODINIT_FUNC PyInit__cordon(void);

PyMODINIT_FUNC PyInit__cordon(void)
{
	/* "3.12.1 (main, ...": an older Python refuses a slot that it does not know. */
	const char *version = Py_GetVersion();
	char *rest;
	long major = strtol(version, &rest, 10);
	long minor = *rest == '.' ? strtol(rest + 1, NULL, 10) : 0;

	if (major > 3 || (major == 3 && minor >= 12))
		return PyModuleDef_Init(&definition_since_3_12);
	return PyModuleDef_Init(&definition);
}

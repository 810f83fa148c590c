/* SPDX-License-Identifier: Apache-2.0 */
/* All workspaces of a user: listing and clearing up. Also their parts as dicts. */
#include <stdio.h>

#include "workspace.h"

PyObject *workspace_info_dict(const struct cordon_workspace_info *info)
{
	return Py_BuildValue(
		"{s:N,s:N,s:N,s:N,s:N,s:K,s:L,s:L,s:N,s:N}", "id", text_of(info->id), "name",
		text_of(info->name), "base", text_of(info->base), "parent", text_of(info->parent),
		"mechanism", text_of(cordon_mechanism_name(info->mechanism)), "runs",
		(unsigned long long)info->runs, "created", (long long)info->created_s, "used",
		(long long)info->used_s, "in_use", PyBool_FromLong(info->in_use), "commit_begun",
		PyBool_FromLong(info->commit_begun));
}

static PyObject *type_text(int type)
{
	return text_of(type == CORDON_FILE_NONE ? NULL : cordon_file_type_name(type));
}

static PyObject *mode_text(int type, unsigned mode)
{
	char text[8];

	snprintf(text, sizeof(text), "%04o", mode & 07777);
	return text_of(type == CORDON_FILE_NONE ? NULL : text);
}

static PyObject *size_of(int type, uint64_t size)
{
	if (type != CORDON_FILE_REGULAR)
		Py_RETURN_NONE;
	return PyLong_FromUnsignedLongLong(size);
}

static PyObject *risk_list(unsigned risks)
{
	const char *names[33];
	size_t n = 0;

	for (unsigned bit = 1; bit != 0 && bit <= risks; bit <<= 1) {
		if ((risks & bit) && cordon_risk_name(bit))
			names[n++] = cordon_risk_name(bit);
	}
	names[n] = NULL;
	return names_list(names);
}

/* The keys of one change in the JSON document. */
PyObject *workspace_change_dict(const struct cordon_change *c)
{
	PyObject *dict = PyDict_New();

	if (!dict)
		return NULL;
	if (put(dict, "path", text_of(c->path)) < 0 ||
	    put(dict, "kind", text_of(cordon_change_kind_name(c->kind))) < 0 ||
	    put(dict, "type", type_text(c->type)) < 0 ||
	    put(dict, "old_type", type_text(c->old_type)) < 0 ||
	    put(dict, "mode", mode_text(c->type, c->mode)) < 0 ||
	    put(dict, "old_mode", mode_text(c->old_type, c->old_mode)) < 0 ||
	    put(dict, "size", size_of(c->type, c->size)) < 0 ||
	    put(dict, "old_size", size_of(c->old_type, c->old_size)) < 0 ||
	    put(dict, "target", text_of(c->target)) < 0 ||
	    put(dict, "old_target", text_of(c->old_target)) < 0 ||
	    put(dict, "from", text_of(c->from)) < 0 || put(dict, "risk", risk_list(c->risks)) < 0 ||
	    put(dict, "refused", PyBool_FromLong((c->risks & CORDON_RISK_REFUSED) != 0)) < 0 ||
	    put(dict, "in_git", PyBool_FromLong(c->in_git)) < 0 ||
	    put(dict, "listed", PyBool_FromLong(c->is_listed)) < 0)
		Py_CLEAR(dict);
	return dict;
}

struct list_call {
	PyThreadState *thread;
	PyObject *list;
};

static int on_info(void *arg, const struct cordon_workspace_info *info)
{
	struct list_call *c = arg;
	int r;

	PyEval_RestoreThread(c->thread);
	r = PyErr_CheckSignals() < 0 ? -1 : append(c->list, workspace_info_dict(info));
	c->thread = PyEval_SaveThread();
	return r;
}

/* A callback cannot stop anything here; an exception waits until the rest is done. */
static void on_removed(void *arg, const struct cordon_workspace_info *info, const char *why)
{
	struct list_call *c = arg;

	PyEval_RestoreThread(c->thread);
	if (!PyErr_Occurred()) {
		PyObject *item = workspace_info_dict(info);

		if (item && put(item, "why", text_of(why)) == 0)
			PyList_Append(c->list, item);
		Py_XDECREF(item);
	}
	c->thread = PyEval_SaveThread();
}

/* Lists all workspaces, or with @gc removes some of them and lists those. */
static PyObject *collect(PyObject *module, PyObject *state_dir, const struct cordon_gc_options *gc)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct list_call c;
	PyObject *bytes;
	const char *dir;
	uint64_t n;
	int r;

	if (path_bytes(state_dir, "state_dir", &bytes) < 0)
		return NULL;
	dir = bytes ? PyBytes_AsString(bytes) : NULL;
	c.list = PyList_New(0);
	if (!c.list) {
		Py_XDECREF(bytes);
		return NULL;
	}
	c.thread = PyEval_SaveThread();
	if (gc) {
		struct cordon_gc_options options = *gc;

		options.told = on_removed;
		options.arg = &c;
		r = cordon_workspace_gc(dir, &options, &n, &err);
	} else {
		r = cordon_workspace_list(dir, on_info, &c, &err);
	}
	PyEval_RestoreThread(c.thread);
	Py_XDECREF(bytes);
	if (r < 0)
		raise_unless_set(module, &err);
	if (PyErr_Occurred())
		Py_CLEAR(c.list);
	return c.list;
}

PyObject *module_workspace_list(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "state_dir", NULL };
	PyObject *state_dir = NULL;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:workspace_list", names, &state_dir))
		return NULL;
	return collect(module, state_dir, NULL);
}

PyObject *module_workspace_gc(PyObject *module, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "state_dir", "older_than", "dry_run", NULL };
	struct cordon_gc_options options = CORDON_GC_OPTIONS_INIT;
	PyObject *state_dir = NULL, *older_than = Py_None;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOp:workspace_gc", names, &state_dir,
					 &older_than, &options.dry_run))
		return NULL;
	if (older_than != Py_None) {
		options.older_than_s = PyLong_AsLongLong(older_than);
		if (options.older_than_s == -1 && PyErr_Occurred())
			return NULL;
		if (options.older_than_s < 0) {
			PyErr_SetString(PyExc_ValueError, "older_than must not be negative");
			return NULL;
		}
	}
	return collect(module, state_dir, &options);
}

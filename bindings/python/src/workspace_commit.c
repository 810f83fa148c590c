/* SPDX-License-Identifier: Apache-2.0 */
/* Committing a workspace, and telling what became of each change. */
#include "workspace.h"

struct commit_call {
	struct workspace_call call;
	PyObject *choose; /* borrowed, NULL = everything */
	PyObject *told;	  /* list */
};

static const char *outcome_name(int outcome)
{
	static const char *const names[] = { "none",	 "applied", "refused",
					     "conflict", "skipped", "failed" };

	return outcome >= CORDON_OUTCOME_APPLIED && outcome <= CORDON_OUTCOME_FAILED
		       ? names[outcome]
		       : names[0];
}

/* 1 yes, 0 no, -1 stop with the exception set. */
static int ask(PyObject *choose, const struct cordon_change *change)
{
	PyObject *dict = workspace_change_dict(change), *got;
	int answer;

	if (!dict)
		return -1;
	got = PyObject_CallFunctionObjArgs(choose, dict, NULL);
	Py_DECREF(dict);
	if (!got)
		return -1;
	answer = PyObject_IsTrue(got);
	Py_DECREF(got);
	return answer;
}

static int on_choose(void *arg, const struct cordon_change *change)
{
	struct commit_call *c = arg;
	int r;

	PyEval_RestoreThread(c->call.thread);
	r = PyErr_Occurred() || PyErr_CheckSignals() < 0 ? -1 : 1;
	if (r > 0 && c->choose)
		r = ask(c->choose, change);
	c->call.thread = PyEval_SaveThread();
	return r;
}

static PyObject *told_dict(const struct cordon_change *change, int outcome,
			   const struct cordon_error *err)
{
	bool has_error = err && err->code != 0;

	return Py_BuildValue("{s:N,s:N,s:N,s:N,s:N,s:N}", "path", text_of(change->path), "from",
			     text_of(change->from), "kind",
			     text_of(cordon_change_kind_name(change->kind)), "outcome",
			     text_of(outcome_name(outcome)), "message",
			     text_of(has_error ? err->msg : NULL), "hint",
			     text_of(has_error && err->hint[0] ? err->hint : NULL));
}

/* A callback cannot stop a commit; an exception waits until that is finished. */
static void on_told(void *arg, const struct cordon_change *change, int outcome,
		    const struct cordon_error *err)
{
	struct commit_call *c = arg;

	PyEval_RestoreThread(c->call.thread);
	if (!PyErr_Occurred())
		append(c->told, told_dict(change, outcome, err));
	c->call.thread = PyEval_SaveThread();
}

static PyObject *commit_dict(const struct cordon_commit_result *result, PyObject *told)
{
	return Py_BuildValue(
		"{s:K,s:K,s:K,s:K,s:K,s:O,s:O}", "applied", (unsigned long long)result->applied,
		"refused", (unsigned long long)result->refused, "conflicts",
		(unsigned long long)result->conflicts, "skipped",
		(unsigned long long)result->skipped, "failed", (unsigned long long)result->failed,
		"is_empty", result->is_empty ? Py_True : Py_False, "changes", told);
}

static int parse_conflicts(PyObject *value, int *ret)
{
	*ret = CORDON_CONFLICTS_REFUSE;
	if (!value || PyUnicode_CompareWithASCIIString(value, "refuse") == 0)
		return 0;
	if (PyUnicode_CompareWithASCIIString(value, "ours") == 0) {
		*ret = CORDON_CONFLICTS_OURS;
		return 0;
	}
	if (PyUnicode_CompareWithASCIIString(value, "theirs") == 0) {
		*ret = CORDON_CONFLICTS_THEIRS;
		return 0;
	}
	PyErr_Format(PyExc_ValueError, "conflicts must be 'refuse', 'ours' or 'theirs', not %R",
		     value);
	return -1;
}

static PyObject *carry_out(struct workspace_object *self, struct commit_call *c,
			   struct cordon_commit_options *options)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_commit_result result;
	int r;

	options->choose = on_choose;
	options->told = on_told;
	options->arg = c;
	if (workspace_begin(self, &c->call) < 0)
		return NULL;
	r = cordon_workspace_commit(c->call.ws, options, &result, &err);
	workspace_end(self, &c->call);
	if (PyErr_Occurred())
		return NULL;
	return r < 0 ? raise_error(self->module, &err) : commit_dict(&result, c->told);
}

PyObject *workspace_commit(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "paths", "exclude", "conflicts", "dry_run", "choose", NULL };
	struct cordon_commit_options options = CORDON_COMMIT_OPTIONS_INIT;
	PyObject *paths = NULL, *exclude = NULL, *conflicts = NULL, *choose = NULL, *got = NULL;
	struct strings wanted = STRINGS_INIT, unwanted = STRINGS_INIT;
	struct commit_call c = { .told = NULL };

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOUpO:commit", names, &paths, &exclude,
					 &conflicts, &options.dry_run, &choose))
		return NULL;
	if (choose && choose != Py_None && !PyCallable_Check(choose)) {
		PyErr_SetString(PyExc_TypeError, "choose must be callable");
		return NULL;
	}
	c.choose = choose == Py_None ? NULL : choose;
	if (parse_conflicts(conflicts, &options.conflicts) == 0 &&
	    (!paths || strings_from_sequence(&wanted, paths, "a path") == 0) &&
	    (!exclude || strings_from_sequence(&unwanted, exclude, "a path") == 0))
		c.told = PyList_New(0);
	if (c.told) {
		options.paths = wanted.v;
		options.exclude = unwanted.v;
		got = carry_out((struct workspace_object *)object, &c, &options);
	}
	Py_XDECREF(c.told);
	strings_done(&wanted);
	strings_done(&unwanted);
	return got;
}

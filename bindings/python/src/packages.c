/* SPDX-License-Identifier: Apache-2.0 */
/* Launcher.packages(): packages for runs, and what keeps them from being removed. */
#include "binding.h"

#define CAPSULE "pycordon._cordon.packages"

struct call {
	struct cordon_packages_options options;
	struct strings specs, files, env;
	PyObject *python, *home, *search_path, *hosts, *isolation;
	PyObject *line; /* borrowed, or NULL */
	struct policy_box *policy;
	PyThreadState *thread;
};

/* Gives Ctrl-C a chance, whether or not anybody listens. */
static int told_line(void *arg, const char *line)
{
	struct call *call = arg;
	PyObject *text, *got;
	int stop;

	PyEval_RestoreThread(call->thread);
	stop = PyErr_CheckSignals() < 0;
	if (!stop && call->line) {
		text = text_of(line);
		got = text ? PyObject_CallFunctionObjArgs(call->line, text, NULL) : NULL;
		stop = !got;
		Py_XDECREF(got);
		Py_XDECREF(text);
	}
	call->thread = PyEval_SaveThread();
	return stop;
}

static const char *pointer_of(PyObject *bytes)
{
	return bytes ? PyBytes_AsString(bytes) : NULL;
}

static int parse(PyObject *module, struct call *call, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "specs", "files",	 "may_build", "python",	   "env",
				 "home",  "search_path", "hosts",     "isolation", "max_bytes",
				 "line",  "policy",	 NULL };
	PyObject *specs, *files, *env = NULL, *python = NULL, *home = NULL, *path = NULL;
	PyObject *hosts = NULL, *isolation = NULL, *line = Py_None, *policy = Py_None;
	long long max_bytes = 0;

	call->options = (struct cordon_packages_options)CORDON_PACKAGES_OPTIONS_INIT;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|p$OOOOOOLOO:packages", names, &specs,
					 &files, &call->options.may_build, &python, &env, &home,
					 &path, &hosts, &isolation, &max_bytes, &line, &policy) ||
	    strings_from_sequence(&call->specs, specs, "specs") < 0 ||
	    strings_from_sequence(&call->files, files, "files") < 0 ||
	    (env && strings_from_mapping(&call->env, env) < 0) ||
	    path_bytes(python, "python", &call->python) < 0 ||
	    path_bytes(home, "home", &call->home) < 0 ||
	    path_bytes(path, "search_path", &call->search_path) < 0 ||
	    path_bytes(hosts, "hosts", &call->hosts) < 0 ||
	    path_bytes(isolation, "isolation", &call->isolation) < 0)
		return -1;
	if (policy != Py_None) {
		call->policy = policy_borrow(module, policy);
		if (!call->policy)
			return -1;
		call->options.policy = call->policy->policy;
	}
	call->options.specs = call->specs.v;
	call->options.files = call->files.v;
	call->options.envp = call->env.v;
	call->options.python = pointer_of(call->python);
	call->options.home = pointer_of(call->home);
	call->options.search_path = pointer_of(call->search_path);
	call->options.hosts = pointer_of(call->hosts);
	call->options.isolation = pointer_of(call->isolation);
	call->options.max_bytes = max_bytes;
	call->options.line = told_line;
	call->options.arg = call;
	call->line = line == Py_None ? NULL : line;
	return 0;
}

static void call_done(struct call *call)
{
	strings_done(&call->specs);
	strings_done(&call->files);
	strings_done(&call->env);
	Py_XDECREF(call->python);
	Py_XDECREF(call->home);
	Py_XDECREF(call->search_path);
	Py_XDECREF(call->hosts);
	Py_XDECREF(call->isolation);
	if (call->policy)
		policy_release(call->policy);
}

static void free_packages(PyObject *capsule)
{
	cordon_packages_free(PyCapsule_GetPointer(capsule, CAPSULE));
}

/* (keeper, directories, variables, directories of programs) */
static PyObject *make_tuple(struct cordon_packages *packages)
{
	const char *const *dirs, *const *env, *const *path;
	PyObject *capsule = PyCapsule_New(packages, CAPSULE, free_packages);

	if (!capsule) {
		cordon_packages_free(packages);
		return NULL;
	}
	cordon_packages_needs(packages, &dirs, &env, &path);
	return Py_BuildValue("NNNN", capsule, names_list(dirs), names_list(env), names_list(path));
}

PyObject *packages_install(PyObject *module, struct cordon_launcher *launcher, PyObject *args,
			   PyObject *kwargs)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_packages *packages = NULL;
	PyObject *got = NULL;
	struct call call = { 0 };
	int r;

	if (parse(module, &call, args, kwargs) == 0) {
		call.thread = PyEval_SaveThread();
		r = cordon_packages_install(launcher, &call.options, &packages, &err);
		PyEval_RestoreThread(call.thread);
		got = r < 0 ? raise_unless_set(module, &err) : make_tuple(packages);
	}
	call_done(&call);
	return got;
}

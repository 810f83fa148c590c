/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pycordon._cordon: libcordon as Python objects, thin.
 *
 * Limited API of Python 3.9, so one file serves 3.9 and everything after it. There is no static
 * state: each interpreter of a process has a module of its own, and each object knows its module.
 *
 * Locks. The GIL guards the fields of an object. Calls that may wait, or take long, run without the
 * GIL. A thread takes an object's mutex only without the GIL, and releases it before it takes the
 * GIL again, except in callbacks that the library makes (workspaces): there the order is mutex,
 * then GIL, in every thread.
 *
 * Fork. A run, a pool and a launcher belong to the process that made them. In a forked child each
 * method raises, and freeing the object leaves everything as it is, since another thread of the
 * parent may have been in the middle of it.
 */
#ifndef BINDING_H
#define BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include <cordon/cordon.h>

/* What the module keeps for its objects. */
struct module_state {
	PyObject *error_type;
	PyObject *policy_type;
	PyObject *launcher_type;
	PyObject *run_type;
	PyObject *pool_type;
	PyObject *session_type;
	PyObject *command_type;
	PyObject *workspace_type;
};

/* --- error.c: exceptions --- */

/* All return NULL. */
PyObject *raise_error(PyObject *module, const struct cordon_error *err);
PyObject *raise_code(PyObject *module, int code, const char *message);
PyObject *raise_state(PyObject *module, const char *message);
/* Sets an exception unless there is one already: a callback's goes first. */
PyObject *raise_unless_set(PyObject *module, const struct cordon_error *err);
/* 0, or -1 with the exception set: @pid is not this process. */
int check_pid(PyObject *module, pid_t pid, const char *what);

/* --- convert.c: values --- */

/* Any bytes as text, as file names are: what is not UTF-8 becomes lone surrogates. NULL -> None. */
PyObject *text_of(const char *text);
PyObject *text_of_n(const char *text, size_t len);
/* Like text_of(), and frees @text with cordon_free(). */
PyObject *take_text(char *text);
/* Puts @value (a new reference, or NULL with the exception set) into @dict. */
int put(PyObject *dict, const char *key, PyObject *value);
/* The same at the end of @list. */
int append(PyObject *list, PyObject *value);
/* A path or name as bytes; None and NULL give NULL in *ret. 0, or -1 with the exception set. */
int path_bytes(PyObject *value, const char *what, PyObject **ret);
/* An open descriptor from an int (no bool). -1 with the exception set. */
int descriptor_of(PyObject *value, const char *what);

/* A NULL-terminated list of C strings whose bytes belong to `items`. */
struct strings {
	const char **v;
	PyObject *items; /* list of bytes */
};

#define STRINGS_INIT { NULL, NULL }
/* 0, or -1 with the exception set. Free with strings_done() in any case. */
int strings_from_sequence(struct strings *s, PyObject *sequence, const char *what);
int strings_from_mapping(struct strings *s, PyObject *mapping);
void strings_done(struct strings *s);

/* --- objects --- */

/* The module that made @type. New reference, or NULL with the exception set. */
PyObject *module_of_type(PyTypeObject *type);
/* Makes the type, adds it to @module and keeps it in *ret. */
int add_type(PyObject *module, PyType_Spec *spec, PyObject **ret);

extern PyType_Spec policy_spec, launcher_spec, run_spec, pool_spec, workspace_spec;
extern PyType_Spec session_spec, command_spec;

/* A policy that does not change any more, shared by its object and the calls that use it. */
struct policy_box {
	struct cordon_policy *policy;
	size_t refs; /* guarded by the GIL */
};

/* The policy as it is now, or NULL with the exception set. Release it with the GIL held. */
struct policy_box *policy_borrow(PyObject *module, PyObject *policy);
void policy_release(struct policy_box *box);

/* --- options.c: arguments of start() and plan() --- */

struct start_call {
	struct cordon_run_options options;
	struct strings argv, env;
	PyObject *cwd, *home, *search_path, *workspace_name, *workspace_from, *state_dir;
	PyObject *private_dir;
	PyObject *code_dir;
	PyObject *data;	    /* bytes of stdin */
	PyObject *progress; /* borrowed */
	struct policy_box *policy;
	PyThreadState *thread; /* while the GIL is released */
};

/* 0, or -1 with the exception set. start_call_done() in any case. */
int start_call_streams(struct start_call *call, PyObject *in, PyObject *out, PyObject *err);
int start_call_parse(struct start_call *call, PyObject *module, PyObject *args, PyObject *kwargs);
void start_call_done(struct start_call *call);

/* --- run.c, pool.c, result.c --- */

/* A run object that owns @run; @data is what its stdin is made of. NULL with the exception set, and
 * the run is freed then. */
PyObject *run_object_new(PyObject *module, PyObject *launcher, struct cordon_run *run,
			 PyObject *data);
/* A pool object that owns @pool; frees it if it cannot be made (NULL with the exception set). */
PyObject *pool_object_new(PyObject *module, PyObject *launcher, struct cordon_pool *pool);
/* The same for a session. */
PyObject *session_object_new(PyObject *module, PyObject *launcher, struct cordon_session *session);
PyObject *published_list(const struct cordon_published *published, size_t n);
PyObject *names_list(const char *const *names);
PyObject *result_dict(const struct cordon_result *result);
PyObject *summary_dict(const struct cordon_summary *summary);

/* --- packages.c --- */

PyObject *packages_install(PyObject *module, struct cordon_launcher *launcher, PyObject *args,
			   PyObject *kwargs);

/* --- functions of the module in other files --- */

PyObject *module_workspace_list(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *module_workspace_gc(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *module_confine(PyObject *module, PyObject *args, PyObject *kwargs);
PyObject *module_private_remove(PyObject *module, PyObject *args);
PyObject *module_private_copy(PyObject *module, PyObject *args);
PyObject *module_private_exchange(PyObject *module, PyObject *args);
PyObject *module_file_states(PyObject *module, PyObject *paths);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freezes a Python interpreter at the moment at which it opens its program: it has started by then,
 * and no Python code is on its stack.
 *
 * Taking an interpreter apart writes to nearly all of its memory, which here means copying it. So
 * the program is run, and ended, by this file, in the interpreter's own steps: threads, atexit, the
 * program's modules. What was there before it, which would only be freed, is left to the kernel.
 *
 * Loaded by LD_PRELOAD, with CORDON_WARM=DIRECTORY: `inside.py` there has the functions that are
 * called before it is frozen (prepare()) and in each process made from the image. The image goes to
 * standard output. CORDON_WARM_TRIAL=1 in the environment of a thawed process makes it write the
 * list of pages it has touched to standard error when it ends.
 *
 * Of Python only functions are used that every version since 3.8 has, by their names.
 */
/* The two names are two functions here. */
#undef _FILE_OFFSET_BITS

#include "warm/endings.h"
#include "warm/frozen.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FLUSH_FAILED 120 /* as the interpreter has it */
#define OUT 1
#define TELL 2

typedef FILE *open_function(const char *path, const char *mode);

struct object;

static struct {
	int (*gil_ensure)(void);
	void (*gil_release)(int);
	void (*before_fork)(void);
	void (*after_fork)(void);
	struct object *(*dict_new)(void);
	struct object *(*dict_get)(struct object *, const char *);
	int (*dict_set)(struct object *, const char *, struct object *);
	struct object *(*builtins)(void);
	struct object *(*dict_copy)(struct object *);
	struct object *(*run_string)(const char *, int, struct object *, struct object *);
	struct object *(*list_new)(long);
	int (*list_append)(struct object *, struct object *);
	struct object *(*bytes_new)(const char *);
	struct object *(*call)(struct object *, const char *, ...);
	void (*decref)(struct object *);
	void (*print_error)(void);
	int (*error_matches)(struct object *);
	void (*error_fetch)(struct object **, struct object **, struct object **);
	void (*error_normal)(struct object **, struct object **, struct object **);
	void (*error_restore)(struct object *, struct object *, struct object *);
	struct object *(*run_file)(FILE *, const char *, int, struct object *, struct object *, int,
				   void *);
	struct object *(*add_module)(const char *);
	struct object *(*module_dict)(struct object *);
	struct object *(*sys_get)(const char *);
	struct object *(*get)(struct object *, const char *);
	int (*is_true)(struct object *);
	struct object *(*method)(struct object *, const char *, const char *, ...);
	void (*error_clear)(void);
	int (*dict_del)(struct object *, const char *);
	void (*set_trace)(void *, struct object *);
	void (*set_profile)(void *, struct object *);
	void (*error_ignored)(struct object *);
	long (*as_long)(struct object *);
	void (*end)(int); /* does not return */
	struct object **system_exit, **interrupt, *none;
} py;

static const struct {
	const char *name;
	void *to;
} functions[] = {
	{ "PyGILState_Ensure", &py.gil_ensure },
	{ "PyGILState_Release", &py.gil_release },
	{ "PyOS_BeforeFork", &py.before_fork },
	{ "PyOS_AfterFork_Child", &py.after_fork },
	{ "PyDict_New", &py.dict_new },
	{ "PyDict_GetItemString", &py.dict_get },
	{ "PyDict_Copy", &py.dict_copy },
	{ "PyDict_SetItemString", &py.dict_set },
	{ "PyEval_GetBuiltins", &py.builtins },
	{ "PyRun_String", &py.run_string },
	{ "PyList_New", &py.list_new },
	{ "PyList_Append", &py.list_append },
	{ "PyBytes_FromString", &py.bytes_new },
	{ "PyObject_CallFunction", &py.call },
	{ "Py_DecRef", &py.decref },
	{ "PyErr_Print", &py.print_error },
	{ "PyErr_ExceptionMatches", &py.error_matches },
	{ "PyErr_Fetch", &py.error_fetch },
	{ "PyErr_NormalizeException", &py.error_normal },
	{ "PyErr_Restore", &py.error_restore },
	{ "PyRun_FileExFlags", &py.run_file },
	{ "PyImport_AddModule", &py.add_module },
	{ "PyModule_GetDict", &py.module_dict },
	{ "PyLong_AsLong", &py.as_long },
	{ "Py_Exit", &py.end },
	{ "PySys_GetObject", &py.sys_get },
	{ "PyObject_GetAttrString", &py.get },
	{ "PyObject_IsTrue", &py.is_true },
	{ "PyObject_CallMethod", &py.method },
	{ "PyErr_Clear", &py.error_clear },
	{ "PyErr_WriteUnraisable", &py.error_ignored },
	{ "_Py_NoneStruct", &py.none },
	{ "PyDict_DelItemString", &py.dict_del },
	{ "PyEval_SetTrace", &py.set_trace },
	{ "PyEval_SetProfile", &py.set_profile },
	{ "PyExc_SystemExit", &py.system_exit },
	{ "PyExc_KeyboardInterrupt", &py.interrupt },
};

#define PY_FILE_INPUT 257
#define SOURCE_MAX (64u << 10)

static int is_trial, is_thawed;

static int find_functions(void)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *found = dlsym(RTLD_DEFAULT, functions[i].name);

		if (!found) {
			fprintf(stderr, "freeze: this program has no %s\n", functions[i].name);
			return -1;
		}
		memcpy(functions[i].to, &found, sizeof(found));
	}
	/* The C library's memory and threads are what thaw.c knows. */
	if (!dlsym(RTLD_DEFAULT, "gnu_get_libc_version")) {
		fprintf(stderr, "freeze: this C library is not known\n");
		return -1;
	}
	return 0;
}

static open_function *next_open(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);
	open_function *ret;

	memcpy(&ret, &found, sizeof(ret));
	return ret;
}

/* A namespace with the functions of inside.py; NULL with a message. */
static struct object *load(const char *dir)
{
	static char source[SOURCE_MAX], path[FROZEN_PATH_MAX];
	struct object *names = py.dict_new(), *builtins, *done;
	size_t n;
	FILE *file;

	snprintf(path, sizeof(path), "%s/inside.py", dir);
	file = next_open("fopen")(path, "re");
	n = file ? fread(source, 1, sizeof(source) - 1, file) : 0;
	if (file)
		fclose(file);
	/* The program may change the builtins; these functions have their own. */
	builtins = py.dict_copy(py.builtins());
	if (n == 0 || n == sizeof(source) - 1 || !names || !builtins ||
	    py.dict_set(names, "__builtins__", builtins) < 0) {
		fprintf(stderr, "freeze: cannot read %s\n", path);
		return NULL;
	}
	done = py.run_string(source, PY_FILE_INPUT, names, names);
	if (!done)
		py.print_error();
	return done ? names : NULL;
}

/* What the function of inside.py returns, a number; -1 with a message if it fails. */
static long call(struct object *names, const char *name, const char *format, void *a, void *b)
{
	struct object *function = py.dict_get(names, name), *got;
	long value;

	got = function ? py.call(function, format, a, b) : NULL;
	value = got ? py.as_long(got) : -1;
	if (got)
		py.decref(got);
	else if (is_thawed)
		py.error_clear(); /* the program's output is its own */
	else
		py.print_error();
	return value;
}

static struct object *list_of(char *const *v)
{
	struct object *list = py.list_new(0);

	for (; list && *v; v++) {
		struct object *bytes = py.bytes_new(*v);

		if (!bytes || py.list_append(list, bytes) < 0)
			return NULL;
		py.decref(bytes);
	}
	return list;
}

/* In a process made from the image. */
static void go_on(struct object *names, const uint64_t *stack)
{
	char **argv = (char **)(uintptr_t)(stack + 1), **envp = argv + stack[0] + 1;
	struct object *args, *env;

	/* The C library remembers where the old heap ended. */
	if (brk((void *)syscall(SYS_brk, 0)) < 0)
		_exit(127);
	environ = envp;
	is_trial = getenv("CORDON_WARM_TRIAL") != NULL;
	is_thawed = 1;
	args = list_of(argv);
	env = list_of(envp);
	/* restore() executes the program itself if anything is not as it was. */
	if (!args || !env || call(names, "restore", "OO", args, env) < 0)
		_exit(127);
	py.decref(args);
	py.decref(env);
}

/* A forked copy is written: it has one thread, whatever the interpreter's modules have started, and
 * they have been told. */
static int freeze_copy(const uint64_t **ret)
{
	static const struct freezing how = { .out = OUT, .why = TELL };
	int status = 0, r;
	pid_t pid;

	fflush(NULL);
	py.before_fork();
	pid = fork();
	if (pid == 0) {
		py.after_fork();
		r = freeze(&how, ret);
		if (r > 0)
			return 1;
		_exit(r == 0 ? 0 : 1);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* A function that the program has set to follow its code shall not follow ours. */
static void watch_no_more(void)
{
	py.set_trace(NULL, NULL);
	py.set_profile(NULL, NULL);
}

/* The status that an exception means; it is printed if it is no exit. */
static int status_of_error(struct object *names, int *is_interrupt)
{
	struct object *type, *value, *trace;
	long status;

	*is_interrupt = py.error_matches(*py.interrupt);
	if (!py.error_matches(*py.system_exit)) {
		py.print_error();
		return 1;
	}
	py.error_fetch(&type, &value, &trace);
	py.error_normal(&type, &value, &trace);
	watch_no_more();
	status = call(names, "status_of", "(O)", value, NULL);
	if (status < 0) /* the interpreter decides */
		py.error_restore(type, value, trace), py.print_error();
	return (int)status;
}

/* 1 if what was written last cannot be. */
static int flush(const char *name, int is_end)
{
	struct object *stream = py.sys_get(name), *closed, *done;
	int is_closed = 0;

	if (!stream || stream == py.none)
		return 0;
	closed = py.get(stream, "closed");
	if (closed) {
		is_closed = py.is_true(closed);
		py.decref(closed);
	}
	if (!closed || is_closed < 0)
		py.error_clear();
	if (is_closed > 0)
		return 0;
	done = py.method(stream, "flush", NULL);
	if (done) {
		py.decref(done);
		return 0;
	}
	if (is_end && strcmp(name, "stdout") == 0)
		py.error_ignored(stream);
	else
		py.error_clear();
	return 1;
}

static int flush_both(int is_end)
{
	/* Each in its own order, as the interpreter has it. */
	if (is_end)
		return flush("stdout", 1) | flush("stderr", 1);
	return flush("stderr", 0) | flush("stdout", 0);
}

/* Called from here, so that no function of ours is in a traceback. */
static void call_for_program(struct object *names, const char *name)
{
	struct object *function = py.dict_get(names, name), *done;

	done = function ? py.call(function, NULL) : NULL;
	if (done)
		py.decref(done);
	else
		py.error_ignored(function ? function : py.none);
}

/* Ends the interpreter; returns what flushing returned, or does not return. */
static int finish(struct object *names, int status)
{
	int failed;

	call_for_program(names, "shut_threads");
	call_for_program(names, "run_exit_functions");
	watch_no_more();
	if (call(names, "is_alone", NULL, NULL, NULL) != 1)
		py.end(status); /* it has to stop the others */
	failed = flush_both(1);
	if (call(names, "end_modules", NULL, NULL, NULL) < 0)
		py.end(status);
	failed |= flush_both(0); /* told already */
	/* The C library's own, as the interpreter does it: before anything that exit() calls. */
	fflush(stdout);
	fflush(stderr);
	return failed;
}

static void __attribute__((noreturn)) run(struct object *names, const char *path, FILE *file)
{
	struct object *module = py.add_module("__main__"), *main_names, *done, *error[3];
	int is_interrupt = 0, status = 0;

	main_names = module ? py.module_dict(module) : NULL;
	if (!main_names)
		_exit(127);
	done = py.run_file(file, path, PY_FILE_INPUT, main_names, main_names, 1, NULL);
	if (!done)
		py.error_fetch(&error[0], &error[1], &error[2]);
	flush_both(0);
	if (py.dict_del(main_names, "__file__") < 0)
		py.error_clear();
	if (py.dict_del(main_names, "__cached__") < 0)
		py.error_clear();
	if (!done) {
		py.error_restore(error[0], error[1], error[2]);
		status = status_of_error(names, &is_interrupt);
	} else {
		py.decref(done);
	}
	if (finish(names, status))
		status = FLUSH_FAILED;
	if (is_interrupt) {
		signal(SIGINT, SIG_DFL);
		raise(SIGINT);
	}
	exit(status);
}

static void tell_trial(void)
{
	if (is_trial)
		frozen_tell_hot(TELL);
}

static void __attribute__((noreturn)) freeze_here(const char *dir, const char *path)
{
	const uint64_t *stack;
	struct object *names;
	FILE *file;

	if (find_functions() < 0)
		_exit(1);
	(void)py.gil_ensure();
	names = load(dir);
	if (!names || call(names, "prepare", "s", (void *)(uintptr_t)dir, NULL) < 0)
		_exit(1);
	endings_note(tell_trial);
	if (freeze_copy(&stack) < 0)
		_exit(1);
	go_on(names, stack);
	file = next_open("fopen")(path, "rbe");
	if (!file) {
		perror(path);
		_exit(127);
	}
	run(names, path, file);
}

static FILE *open_file(const char *name, const char *path, const char *mode)
{
	const char *dir = getenv("CORDON_WARM");
	size_t n = dir ? strlen(dir) : 0;

	/* The program lies beside the directory. */
	if (n && strncmp(path, dir, strrchr(dir, '/') - dir + 1) == 0 &&
	    strcmp(path + (strrchr(dir, '/') - dir + 1), "main.py") == 0)
		freeze_here(dir, path);
	return next_open(name)(path, mode);
}

__attribute__((visibility("default"))) FILE *fopen(const char *path, const char *mode)
{
	return open_file("fopen", path, mode);
}

__attribute__((visibility("default"))) FILE *fopen64(const char *path, const char *mode)
{
	return open_file("fopen64", path, mode);
}

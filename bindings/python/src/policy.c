/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policy objects. A change is made to a copy, which then replaces the old policy: a run that is
 * just being started from the old one is not disturbed, a change that fails changes nothing, and no
 * thread waits. A policy is plain memory, so it may be used after fork.
 */
#include <string.h>

#include "binding.h"

struct policy_object {
	PyObject ob_base;
	PyObject *module;
	struct policy_box *box;
};

/* One change, made without the GIL. */
struct change {
	int (*make)(struct cordon_policy *policy, const struct change *change,
		    struct cordon_error *err);
	const char *a, *b, *c;
	size_t len;
};

static struct policy_box *box_new(struct cordon_policy *policy)
{
	struct policy_box *box = PyMem_Malloc(sizeof(*box));

	if (!box) {
		cordon_policy_free(policy);
		PyErr_NoMemory();
		return NULL;
	}
	box->policy = policy;
	box->refs = 1;
	return box;
}

void policy_release(struct policy_box *box)
{
	if (!box || --box->refs > 0)
		return;
	cordon_policy_free(box->policy);
	PyMem_Free(box);
}

struct policy_box *policy_borrow(PyObject *module, PyObject *policy)
{
	struct module_state *state = PyModule_GetState(module);
	struct policy_box *box;

	if ((PyObject *)Py_TYPE(policy) != state->policy_type) {
		PyErr_Format(PyExc_TypeError, "policy must be a Policy, not %R",
			     (PyObject *)Py_TYPE(policy));
		return NULL;
	}
	box = ((struct policy_object *)policy)->box;
	box->refs++;
	return box;
}

/* Takes @module and @box over, also on failure. */
static PyObject *policy_object_new(PyTypeObject *type, PyObject *module, struct policy_box *box)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct policy_object *self = box ? (struct policy_object *)alloc(type, 0) : NULL;

	if (!self) {
		policy_release(box);
		Py_DECREF(module);
		return NULL;
	}
	self->module = module;
	self->box = box;
	return (PyObject *)self;
}

static PyObject *policy_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { NULL };
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *policy;
	PyObject *module;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, ":Policy", names))
		return NULL;
	module = module_of_type(type);
	if (!module)
		return NULL;
	if (cordon_policy_new(&policy, &err) < 0) {
		raise_error(module, &err);
		Py_DECREF(module);
		return NULL;
	}
	return policy_object_new(type, module, box_new(policy));
}

static void policy_dealloc(PyObject *object)
{
	struct policy_object *self = (struct policy_object *)object;
	PyTypeObject *type = Py_TYPE(object);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	policy_release(self->box);
	Py_XDECREF(self->module);
	free_object(object);
	Py_DECREF(type);
}

/* If another thread changed the policy meanwhile, the change is made again, to the new one. */
static PyObject *apply(struct policy_object *self, const struct change *change)
{
	for (;;) {
		struct cordon_error err = CORDON_ERROR_INIT;
		struct policy_box *old = self->box, *fresh;
		struct cordon_policy *copy = NULL;
		int r;

		old->refs++;
		Py_BEGIN_ALLOW_THREADS
			r = cordon_policy_copy(old->policy, &copy, &err);
			if (r == 0) {
				r = change->make(copy, change, &err);
				if (r < 0)
					cordon_policy_free(copy);
			}
		Py_END_ALLOW_THREADS
		policy_release(old);
		if (r < 0)
			return raise_error(self->module, &err);
		fresh = box_new(copy);
		if (!fresh)
			return NULL;
		if (self->box == old) {
			policy_release(self->box);
			self->box = fresh;
			Py_RETURN_NONE;
		}
		policy_release(fresh);
	}
}

static int make_preset(struct cordon_policy *policy, const struct change *change,
		       struct cordon_error *err)
{
	return cordon_policy_preset(policy, change->a, err);
}

static PyObject *policy_preset(PyObject *object, PyObject *args)
{
	struct change change = { .make = make_preset };

	if (!PyArg_ParseTuple(args, "s:preset", &change.a))
		return NULL;
	return apply((struct policy_object *)object, &change);
}

static int make_json(struct cordon_policy *policy, const struct change *change,
		     struct cordon_error *err)
{
	return cordon_policy_json(policy, change->a, change->len, change->b, change->c, err);
}

static PyObject *policy_json(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "text", "name", "base_dir", NULL };
	struct change change = { .make = make_json, .b = "policy" };
	PyObject *text, *bytes, *base_dir = NULL, *base_bytes, *got = NULL;
	char *data;
	Py_ssize_t len;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|sO:json", names, &text, &change.b,
					 &base_dir))
		return NULL;
	if (path_bytes(base_dir, "base_dir", &base_bytes) < 0)
		return NULL;
	/* File names in a document may be any bytes. */
	bytes = PyBytes_Check(text) ? PyBytes_FromObject(text)
				    : PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
	if (bytes && PyBytes_AsStringAndSize(bytes, &data, &len) == 0) {
		change.a = data;
		change.len = (size_t)len;
		change.c = base_bytes ? PyBytes_AsString(base_bytes) : NULL;
		got = apply((struct policy_object *)object, &change);
	}
	Py_XDECREF(bytes);
	Py_XDECREF(base_bytes);
	return got;
}

static int make_file(struct cordon_policy *policy, const struct change *change,
		     struct cordon_error *err)
{
	return cordon_policy_file(policy, change->a, err);
}

static PyObject *policy_file(PyObject *object, PyObject *path)
{
	struct change change = { .make = make_file };
	PyObject *bytes, *got;

	if (path == Py_None) {
		PyErr_SetString(PyExc_TypeError, "path must be str, bytes or os.PathLike");
		return NULL;
	}
	if (path_bytes(path, "path", &bytes) < 0)
		return NULL;
	change.a = PyBytes_AsString(bytes);
	got = apply((struct policy_object *)object, &change);
	Py_DECREF(bytes);
	return got;
}

static int make_set(struct cordon_policy *policy, const struct change *change,
		    struct cordon_error *err)
{
	return cordon_policy_set(policy, change->a, change->b, err);
}

static PyObject *policy_set(PyObject *object, PyObject *args)
{
	struct change change = { .make = make_set };
	PyObject *value, *bytes, *got;

	if (!PyArg_ParseTuple(args, "sO:set", &change.a, &value))
		return NULL;
	if (value == Py_None) {
		PyErr_SetString(PyExc_TypeError, "value must be str, bytes or os.PathLike");
		return NULL;
	}
	if (path_bytes(value, "value", &bytes) < 0)
		return NULL;
	change.b = PyBytes_AsString(bytes);
	got = apply((struct policy_object *)object, &change);
	Py_DECREF(bytes);
	return got;
}

/* The two objects share one policy until either is changed. */
static PyObject *policy_copy(PyObject *object, PyObject *unused)
{
	struct policy_object *self = (struct policy_object *)object;

	(void)unused;
	self->box->refs++;
	Py_INCREF(self->module);
	return policy_object_new(Py_TYPE(object), self->module, self->box);
}

static PyObject *policy_to_json(PyObject *object, PyObject *unused)
{
	struct policy_object *self = (struct policy_object *)object;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct policy_box *box = self->box;
	char *text = NULL;
	int r;

	(void)unused;
	box->refs++;
	Py_BEGIN_ALLOW_THREADS
		r = cordon_policy_to_json(box->policy, &text, &err);
	Py_END_ALLOW_THREADS
	policy_release(box);
	return r < 0 ? raise_error(self->module, &err) : take_text(text);
}

static PyMethodDef policy_methods[] = {
	{ "preset", policy_preset, METH_VARARGS, "preset(name): merges a built-in preset." },
	{ "json", (PyCFunction)(void (*)(void))policy_json, METH_VARARGS | METH_KEYWORDS,
	  "json(text, name='policy', base_dir=None): merges a JSON document." },
	{ "file", policy_file, METH_O, "file(path): merges the JSON document in a file." },
	{ "set", policy_set, METH_VARARGS,
	  "set(key, value): adds or sets one value, written as on the command line." },
	{ "copy", policy_copy, METH_NOARGS, "copy(): another policy with the same content." },
	{ "__copy__", policy_copy, METH_NOARGS, NULL },
	{ "__deepcopy__", policy_copy, METH_O, NULL },
	{ "to_json", policy_to_json, METH_NOARGS, "to_json(): the policy as canonical JSON." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot policy_slots[] = {
	{ Py_tp_doc, "What a run may do. A new policy allows nothing beyond the defaults." },
	{ Py_tp_new, (void *)policy_new },
	{ Py_tp_dealloc, (void *)policy_dealloc },
	{ Py_tp_methods, policy_methods },
	{ 0, NULL },
};

PyType_Spec policy_spec = {
	.name = "pycordon._cordon.Policy",
	.basicsize = sizeof(struct policy_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = policy_slots,
};

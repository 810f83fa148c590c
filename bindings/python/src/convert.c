/* SPDX-License-Identifier: Apache-2.0 */
/* Between Python's values and C's. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "binding.h"

PyObject *text_of_n(const char *text, size_t len)
{
	return PyUnicode_DecodeUTF8(text, (Py_ssize_t)len, "surrogateescape");
}

PyObject *text_of(const char *text)
{
	if (!text)
		Py_RETURN_NONE;
	return text_of_n(text, strlen(text));
}

PyObject *take_text(char *text)
{
	PyObject *got = text_of(text);

	cordon_free(text);
	return got;
}

int put(PyObject *dict, const char *key, PyObject *value)
{
	int r = value ? PyDict_SetItemString(dict, key, value) : -1;

	Py_XDECREF(value);
	return r;
}

/* What PyUnicode_FSConverter() says of a NUL or a wrong type does not name the argument. */
static PyObject *bytes_of(PyObject *value, const char *what)
{
	PyObject *bytes = NULL;

	if (PyUnicode_FSConverter(value, &bytes))
		return bytes;
	if (PyErr_ExceptionMatches(PyExc_TypeError))
		PyErr_Format(PyExc_TypeError, "%s must be str, bytes or os.PathLike, not %R", what,
			     (PyObject *)Py_TYPE(value));
	else if (PyErr_ExceptionMatches(PyExc_ValueError) &&
		 !PyErr_ExceptionMatches(PyExc_UnicodeError))
		PyErr_Format(PyExc_ValueError, "%s holds a NUL", what);
	return NULL;
}

int path_bytes(PyObject *value, const char *what, PyObject **ret)
{
	*ret = NULL;
	if (!value || value == Py_None)
		return 0;
	*ret = bytes_of(value, what);
	return *ret ? 0 : -1;
}

int descriptor_of(PyObject *value, const char *what)
{
	long fd;

	if (!PyLong_Check(value) || PyBool_Check(value)) {
		PyErr_Format(PyExc_TypeError, "%s: a file descriptor is an int, not %R", what,
			     (PyObject *)Py_TYPE(value));
		return -1;
	}
	fd = PyLong_AsLong(value);
	if (fd == -1 && PyErr_Occurred())
		PyErr_Clear();
	if (fd < 0 || fd > INT_MAX || fcntl((int)fd, F_GETFD) < 0) {
		PyErr_Format(PyExc_ValueError, "%s: %R is no open file descriptor", what, value);
		return -1;
	}
	return (int)fd;
}

/* Points v[] at the bytes that `items` owns. */
static int strings_finish(struct strings *s)
{
	Py_ssize_t n = PyList_Size(s->items);

	s->v = PyMem_Calloc((size_t)n + 1, sizeof(*s->v));
	if (!s->v) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		s->v[i] = PyBytes_AsString(PyList_GetItem(s->items, i));
		if (!s->v[i])
			return -1;
	}
	return 0;
}

int append(PyObject *list, PyObject *value)
{
	int r = value ? PyList_Append(list, value) : -1;

	Py_XDECREF(value);
	return r;
}

int strings_from_sequence(struct strings *s, PyObject *sequence, const char *what)
{
	PyObject *iterator, *item;

	if (PyUnicode_Check(sequence) || PyBytes_Check(sequence)) {
		PyErr_Format(PyExc_TypeError, "%s must be a sequence of words, not one string",
			     what);
		return -1;
	}
	s->items = PyList_New(0);
	iterator = s->items ? PyObject_GetIter(sequence) : NULL;
	if (!iterator)
		return -1;
	while ((item = PyIter_Next(iterator))) {
		int r = append(s->items, bytes_of(item, what));

		Py_DECREF(item);
		if (r < 0)
			break;
	}
	Py_DECREF(iterator);
	return PyErr_Occurred() ? -1 : strings_finish(s);
}

/* NAME=VALUE as bytes. */
static PyObject *variable(PyObject *pair)
{
	PyObject *name = PyTuple_GetItem(pair, 0), *value = PyTuple_GetItem(pair, 1), *both = NULL;
	PyObject *name_bytes = name ? bytes_of(name, "a name in env") : NULL;
	PyObject *value_bytes = name_bytes && value ? bytes_of(value, "a value in env") : NULL;

	if (value_bytes) {
		const char *text = PyBytes_AsString(name_bytes);

		if (text[0] == '\0' || strchr(text, '='))
			PyErr_Format(PyExc_ValueError, "illegal environment variable name %R",
				     name);
		else
			both = PyBytes_FromFormat("%s=%s", text, PyBytes_AsString(value_bytes));
	}
	Py_XDECREF(name_bytes);
	Py_XDECREF(value_bytes);
	return both;
}

int strings_from_mapping(struct strings *s, PyObject *mapping)
{
	PyObject *pairs = PyMapping_Items(mapping);
	Py_ssize_t n = pairs ? PyList_Size(pairs) : -1;

	s->items = pairs ? PyList_New(0) : NULL;
	for (Py_ssize_t i = 0; s->items && i < n; i++) {
		PyObject *pair = PyList_GetItem(pairs, i);

		if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
			PyErr_SetString(PyExc_TypeError, "env must be a mapping");
			break;
		}
		if (append(s->items, variable(pair)) < 0)
			break;
	}
	Py_XDECREF(pairs);
	return PyErr_Occurred() ? -1 : strings_finish(s);
}

void strings_done(struct strings *s)
{
	PyMem_Free((void *)s->v);
	Py_XDECREF(s->items);
	*s = (struct strings)STRINGS_INIT;
}

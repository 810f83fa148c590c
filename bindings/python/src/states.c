/* SPDX-License-Identifier: Apache-2.0 */
/* What tells whether files are still the same: of many at once, since it is asked before runs. */
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "binding.h"

#define NS_PER_S 1000000000u

struct state {
	uint64_t dev, ino, size, changed_ns;
};

/* The directory of the last path: most have the one of the path before, and need not be looked for
 * from the root then. */
struct place {
	const char *path;
	size_t len;
	int fd;
};

static void enter(struct place *place, const char *path, size_t len)
{
	char text[PATH_MAX];

	if (place->path && place->len == len && memcmp(place->path, path, len) == 0)
		return;
	if (place->fd >= 0)
		close(place->fd);
	place->path = path;
	place->len = len;
	place->fd = -1;
	if (len >= sizeof(text))
		return;
	memcpy(text, path, len);
	text[len] = '\0';
	place->fd = open(text, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Zeros: it is no file, or gone. */
static void look_at(struct place *place, const char *path, struct state *ret)
{
	const char *slash = strrchr(path, '/');
	struct stat st;

	if (!slash)
		return;
	enter(place, path, (size_t)(slash - path) + 1);
	if (place->fd < 0 || fstatat(place->fd, slash + 1, &st, 0) < 0 || !S_ISREG(st.st_mode))
		return;
	*ret = (struct state){ .dev = st.st_dev,
			       .ino = st.st_ino,
			       .size = (uint64_t)st.st_size,
			       .changed_ns = (uint64_t)st.st_mtim.tv_sec * NS_PER_S +
					     (uint64_t)st.st_mtim.tv_nsec };
}

/* file_states(paths): each absolute path ends with a zero byte. */
PyObject *module_file_states(PyObject *module, PyObject *paths)
{
	struct place place = { .path = NULL, .fd = -1 };
	struct state *states;
	const char *text;
	char *end;
	size_t n = 0;
	Py_ssize_t size;
	PyObject *got;

	(void)module;
	if (PyBytes_AsStringAndSize(paths, &end, &size) < 0)
		return NULL;
	text = end;
	for (Py_ssize_t i = 0; i < size; i++)
		n += !text[i];
	if (size > 0 && text[size - 1]) {
		PyErr_SetString(PyExc_ValueError, "the last path has no end");
		return NULL;
	}
	states = calloc(n ? n : 1, sizeof(*states));
	if (!states)
		return PyErr_NoMemory();
	Py_BEGIN_ALLOW_THREADS
		for (size_t i = 0; i < n; i++, text += strlen(text) + 1)
			look_at(&place, text, &states[i]);
		if (place.fd >= 0)
			close(place.fd);
	Py_END_ALLOW_THREADS
	got = PyBytes_FromStringAndSize((const char *)states, (Py_ssize_t)(n * sizeof(*states)));
	free(states);
	return got;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The account of a run as Python values: the keys of the JSON receipt (src/launch/receipt.c), with
 * output as bytes, and `status` and `write_errno` on top. */
#include "binding.h"

static PyObject *none(void)
{
	Py_RETURN_NONE;
}

static PyObject *unsigned_of(uint64_t value)
{
	return PyLong_FromUnsignedLongLong(value);
}

/* Rounded to three decimals, as in the receipt. */
static PyObject *ms_of(double value)
{
	uint64_t thousandths;

	if (!(value > -1e15 && value < 1e15))
		return none();
	thousandths = (uint64_t)((value < 0 ? -value : value) * 1000 + 0.5);
	return PyFloat_FromDouble((value < 0 ? -1.0 : 1.0) * (double)thousandths / 1000.0);
}

static PyObject *bytes_or_none(const struct cordon_output *output)
{
	if (!output->data)
		return none();
	return PyBytes_FromStringAndSize(output->data, (Py_ssize_t)output->len);
}

/* {"stdout": @out, "stderr": @err}; takes both over. */
static PyObject *pair(PyObject *out, PyObject *err)
{
	PyObject *dict = PyDict_New();

	if (!dict) {
		Py_XDECREF(out);
		Py_XDECREF(err);
		return NULL;
	}
	if (put(dict, "stdout", out) < 0) {
		Py_XDECREF(err);
		Py_DECREF(dict);
		return NULL;
	}
	if (put(dict, "stderr", err) < 0)
		Py_CLEAR(dict);
	return dict;
}

PyObject *names_list(const char *const *names)
{
	PyObject *list = PyList_New(0);

	for (; list && names && *names; names++) {
		if (append(list, text_of(*names)) < 0)
			Py_CLEAR(list);
	}
	return list;
}

PyObject *published_list(const struct cordon_published *p, size_t n)
{
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list && i < n; i++) {
		PyObject *item = Py_BuildValue("(NNii)", text_of(p[i].address),
					       text_of(p[i].protocol), (int)p[i].host_port,
					       (int)p[i].port);

		if (append(list, item) < 0)
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *published_dicts(const struct cordon_result *res)
{
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list && i < res->n_published; i++) {
		const struct cordon_published *p = &res->published[i];
		PyObject *item = Py_BuildValue("{s:i,s:N,s:i,s:N}", "port", (int)p->port, "address",
					       text_of(p->address), "host_port", (int)p->host_port,
					       "protocol", text_of(p->protocol));

		if (append(list, item) < 0)
			Py_CLEAR(list);
	}
	return list;
}

/* Only where they are known. */
static int add_details(PyObject *item, const struct cordon_denial *d)
{
	if ((d->count && put(item, "count", unsigned_of(d->count)) < 0) ||
	    (d->sys_errno && put(item, "errno", PyLong_FromLong(d->sys_errno)) < 0) ||
	    (d->program && put(item, "program", text_of(d->program)) < 0))
		return -1;
	return 0;
}

static PyObject *denials_of(const struct cordon_result *res)
{
	PyObject *list = PyList_New(0);

	for (size_t i = 0; list && i < res->n_denials; i++) {
		const struct cordon_denial *d = &res->denials[i];
		PyObject *item = Py_BuildValue("{s:N,s:N,s:N,s:N,s:N}", "what", text_of(d->what),
					       "target", text_of(d->target), "rule",
					       text_of(d->rule), "fix", text_of(d->fix), "how",
					       text_of(d->how));

		if (item && add_details(item, d) < 0)
			Py_CLEAR(item);
		if (append(list, item) < 0)
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *usage_of(const struct cordon_result *res)
{
	int is_known = res->usage_known;
	PyObject *dict = PyDict_New();

	if (!dict)
		return NULL;
	if (put(dict, "cpu_user_ms", is_known ? ms_of(res->cpu_user_ms) : none()) < 0 ||
	    put(dict, "cpu_system_ms", is_known ? ms_of(res->cpu_system_ms) : none()) < 0 ||
	    put(dict, "max_memory_bytes", is_known ? unsigned_of(res->max_memory_bytes) : none()) <
		    0 ||
	    put(dict, "procs_peak", is_known ? unsigned_of(res->procs_peak) : none()) < 0 ||
	    put(dict, "disk_bytes", is_known ? unsigned_of(res->disk_bytes) : none()) < 0 ||
	    put(dict, "max_gpu_memory_bytes",
		res->gpu_known & CORDON_GPU_MEMORY ? unsigned_of(res->max_gpu_memory_bytes)
						   : none()) < 0 ||
	    put(dict, "gpu_utilization_percent",
		res->gpu_known & CORDON_GPU_UTILIZATION ? unsigned_of(res->gpu_utilization_percent)
							: none()) < 0 ||
	    put(dict, "net_bytes_in", unsigned_of(res->net_bytes_in)) < 0 ||
	    put(dict, "net_bytes_out", unsigned_of(res->net_bytes_out)) < 0)
		Py_CLEAR(dict);
	return dict;
}

static PyObject *limits_of(const struct cordon_result *res)
{
	PyObject *dict = PyDict_New();

	for (size_t i = 0; dict && i < res->n_limits; i++) {
		if (put(dict, res->limits[i].limit, text_of(res->limits[i].by)) < 0)
			Py_CLEAR(dict);
	}
	return dict;
}

static PyObject *isolation_of(const struct cordon_result *res)
{
	return Py_BuildValue("{s:N,s:N,s:N,s:N}", "level", text_of(cordon_level_name(res->level)),
			     "layers", names_list(res->layers), "missing", names_list(res->missing),
			     "limits", limits_of(res));
}

PyObject *summary_dict(const struct cordon_summary *s)
{
	const struct {
		const char *name;
		uint64_t value;
	} counts[] = {
		{ "added", s->added },	   { "modified", s->modified }, { "deleted", s->deleted },
		{ "renamed", s->renamed }, { "mode", s->mode },		{ "symlink", s->symlink },
		{ "type", s->type },	   { "risky", s->risky },	{ "refused", s->refused },
	};
	PyObject *dict = PyDict_New();

	for (size_t i = 0; dict && i < sizeof(counts) / sizeof(counts[0]); i++) {
		if (put(dict, counts[i].name, unsigned_of(counts[i].value)) < 0)
			Py_CLEAR(dict);
	}
	return dict;
}

static PyObject *parse_json(const char *text)
{
	PyObject *module = PyImport_ImportModule("json");
	PyObject *got = module ? PyObject_CallMethod(module, "loads", "N", text_of(text)) : NULL;

	Py_XDECREF(module);
	return got;
}

static PyObject *workspace_of(const struct cordon_run_workspace *ws)
{
	PyObject *dict;

	if (!ws)
		return none();
	dict = PyDict_New();
	if (!dict)
		return NULL;
	if (put(dict, "id", text_of(ws->id)) < 0 || put(dict, "name", text_of(ws->name)) < 0 ||
	    put(dict, "base", text_of(ws->base)) < 0 ||
	    put(dict, "mechanism", text_of(cordon_mechanism_name(ws->mechanism))) < 0 ||
	    put(dict, "kept", PyBool_FromLong(ws->is_kept)) < 0 ||
	    put(dict, "outcome", text_of(ws->outcome)) < 0 ||
	    put(dict, "summary", ws->is_settled ? summary_dict(&ws->summary) : none()) < 0 ||
	    (ws->changes && put(dict, "changes", parse_json(ws->changes)) < 0))
		Py_CLEAR(dict);
	return dict;
}

static PyObject *lost_of(const struct cordon_lost_files *lost)
{
	const char *place = lost && lost->is_example_tmp ? "tmp" : "home";

	if (!lost)
		return none();
	return Py_BuildValue("{s:N,s:N,s:N,s:N,s:N}", "home", unsigned_of(lost->home), "tmp",
			     unsigned_of(lost->tmp), "more", PyBool_FromLong(lost->has_more),
			     "place", text_of(lost->example ? place : NULL), "example",
			     text_of(lost->example));
}

static PyObject *error_of(const struct cordon_error *error)
{
	if (error->code == 0)
		return none();
	return Py_BuildValue(
		"{s:N,s:N,s:i,s:N,s:N}", "code", text_of(cordon_error_name(error->code)), "stage",
		text_of(cordon_stage_name(error->stage)), "errno", (int)error->sys_errno, "message",
		text_of(error->msg), "hint", text_of(error->hint[0] ? error->hint : NULL));
}

static int put_head(PyObject *dict, const struct cordon_result *res)
{
	if (put(dict, "kind", text_of(cordon_kind_name(res->kind))) < 0 ||
	    put(dict, "exit_code", res->exit_code >= 0 ? PyLong_FromLong(res->exit_code) : none()) <
		    0 ||
	    put(dict, "signal", res->signal > 0 ? PyLong_FromLong(res->signal) : none()) < 0 ||
	    put(dict, "status", PyLong_FromLong(res->status)) < 0)
		return -1;
	return 0;
}

static int put_output(PyObject *dict, const struct cordon_result *res)
{
	if (put(dict, "stdout", bytes_or_none(&res->out)) < 0 ||
	    put(dict, "stderr", bytes_or_none(&res->err)) < 0 ||
	    put(dict, "truncated",
		pair(PyBool_FromLong(res->out.truncated), PyBool_FromLong(res->err.truncated))) <
		    0 ||
	    put(dict, "output_bytes",
		pair(unsigned_of(res->out.total_bytes), unsigned_of(res->err.total_bytes))) < 0 ||
	    put(dict, "write_errno",
		pair(PyLong_FromLong(res->out.write_errno),
		     PyLong_FromLong(res->err.write_errno))) < 0)
		return -1;
	return 0;
}

PyObject *result_dict(const struct cordon_result *res)
{
	PyObject *dict = PyDict_New();

	if (!dict)
		return NULL;
	if (put_head(dict, res) < 0 || put_output(dict, res) < 0 ||
	    put(dict, "duration_ms", ms_of(res->duration_ms)) < 0 ||
	    put(dict, "setup_ms", ms_of(res->setup_ms)) < 0 ||
	    put(dict, "run_ms", ms_of(res->run_ms)) < 0 ||
	    put(dict, "teardown_ms", ms_of(res->teardown_ms)) < 0 ||
	    put(dict, "usage", usage_of(res)) < 0 ||
	    put(dict, "isolation", isolation_of(res)) < 0 ||
	    put(dict, "denials", denials_of(res)) < 0 ||
	    put(dict, "published", published_dicts(res)) < 0 ||
	    put(dict, "workspace", workspace_of(res->workspace)) < 0 ||
	    put(dict, "lost_files", lost_of(res->lost_files)) < 0 ||
	    put(dict, "error", error_of(&res->error)) < 0)
		Py_CLEAR(dict);
	return dict;
}

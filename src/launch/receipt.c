/* SPDX-License-Identifier: Apache-2.0 */
/* The receipt as JSON: the same fields wherever a run's result is shown. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "format/workspace_json.h"
#include "launch/launch.h"

static void write_output(struct json_writer *w, const struct cordon_result *res)
{
	json_bytes(w, "stdout", res->out.data, res->out.len);
	json_bytes(w, "stderr", res->err.data, res->err.len);
}

static void write_truncated(struct json_writer *w, const struct cordon_result *res)
{
	json_open_object(w, "truncated");
	json_bool(w, "stdout", res->out.truncated);
	json_bool(w, "stderr", res->err.truncated);
	json_close_object(w);
	json_open_object(w, "output_bytes");
	json_uint(w, "stdout", res->out.total_bytes);
	json_uint(w, "stderr", res->err.total_bytes);
	json_close_object(w);
}

static void write_count(struct json_writer *w, const char *key, uint64_t value, int is_known)
{
	if (is_known)
		json_uint(w, key, value);
	else
		json_null(w, key);
}

static void write_ms(struct json_writer *w, const char *key, double value, int is_known)
{
	if (is_known)
		json_ms(w, key, value);
	else
		json_null(w, key);
}

static void write_usage(struct json_writer *w, const struct cordon_result *res)
{
	int is_known = res->usage_known;

	json_open_object(w, "usage");
	write_ms(w, "cpu_user_ms", res->cpu_user_ms, is_known);
	write_ms(w, "cpu_system_ms", res->cpu_system_ms, is_known);
	write_count(w, "max_memory_bytes", res->max_memory_bytes, is_known);
	write_count(w, "procs_peak", res->procs_peak, is_known);
	write_count(w, "disk_bytes", res->disk_bytes, is_known);
	write_count(w, "max_gpu_memory_bytes", res->max_gpu_memory_bytes,
		    res->gpu_known & CORDON_GPU_MEMORY);
	write_count(w, "gpu_utilization_percent", res->gpu_utilization_percent,
		    res->gpu_known & CORDON_GPU_UTILIZATION);
	json_uint(w, "net_bytes_in", res->net_bytes_in);
	json_uint(w, "net_bytes_out", res->net_bytes_out);
	json_close_object(w);
}

static void write_names(struct json_writer *w, const char *key, const char *const *names)
{
	json_open_array(w, key);
	for (; names && *names; names++)
		json_string(w, NULL, *names);
	json_close_array(w);
}

static void write_isolation(struct json_writer *w, const struct cordon_result *res)
{
	json_open_object(w, "isolation");
	json_string(w, "level", cordon_level_name(res->level));
	write_names(w, "layers", res->layers);
	write_names(w, "missing", res->missing);
	json_open_object(w, "limits");
	for (size_t i = 0; i < res->n_limits; i++)
		json_string(w, res->limits[i].limit, res->limits[i].by);
	json_close_object(w);
	json_close_object(w);
}

static void write_details(struct json_writer *w, const struct cordon_denial *d)
{
	if (d->count)
		json_uint(w, "count", d->count);
	if (d->sys_errno)
		json_int(w, "errno", d->sys_errno);
	if (d->program)
		json_string(w, "program", d->program);
}

static void write_denials(struct json_writer *w, const struct cordon_result *res)
{
	json_open_array(w, "denials");
	for (size_t i = 0; i < res->n_denials; i++) {
		json_open_object(w, NULL);
		json_string(w, "what", res->denials[i].what);
		json_string(w, "target", res->denials[i].target);
		json_string(w, "rule", res->denials[i].rule);
		json_string(w, "fix", res->denials[i].fix);
		json_string(w, "how", res->denials[i].how);
		write_details(w, &res->denials[i]);
		json_close_object(w);
	}
	json_close_array(w);
}

static void write_published(struct json_writer *w, const struct cordon_result *res)
{
	json_open_array(w, "published");
	for (size_t i = 0; i < res->n_published; i++) {
		json_open_object(w, NULL);
		json_uint(w, "port", res->published[i].port);
		json_string(w, "address", res->published[i].address);
		json_uint(w, "host_port", res->published[i].host_port);
		json_string(w, "protocol", res->published[i].protocol);
		json_close_object(w);
	}
	json_close_array(w);
}

static void write_workspace(struct json_writer *w, const struct cordon_run_workspace *ws)
{
	if (!ws) {
		json_null(w, "workspace");
		return;
	}
	json_open_object(w, "workspace");
	json_string(w, "id", ws->id);
	json_string(w, "name", ws->name);
	json_bytes(w, "base", ws->base, strlen(ws->base));
	json_string(w, "mechanism", cordon_mechanism_name(ws->mechanism));
	json_bool(w, "kept", ws->is_kept);
	json_string(w, "outcome", ws->outcome);
	if (ws->is_settled)
		workspace_summary_json(w, &ws->summary);
	else
		json_null(w, "summary");
	if (ws->changes)
		json_raw(w, "changes", ws->changes);
	json_close_object(w);
}

static void write_lost(struct json_writer *w, const struct cordon_lost_files *lost)
{
	if (!lost) {
		json_null(w, "lost_files");
		return;
	}
	json_open_object(w, "lost_files");
	json_uint(w, "home", lost->home);
	json_uint(w, "tmp", lost->tmp);
	json_bool(w, "more", lost->has_more);
	if (lost->example) {
		json_string(w, "place", lost->is_example_tmp ? "tmp" : "home");
		json_bytes(w, "example", lost->example, strlen(lost->example));
	} else {
		json_null(w, "place");
		json_null(w, "example");
	}
	json_close_object(w);
}

static void write_error(struct json_writer *w, const struct cordon_error *error)
{
	if (error->code == 0) {
		json_null(w, "error");
		return;
	}
	json_open_object(w, "error");
	json_string(w, "code", cordon_error_name(error->code));
	json_string(w, "stage", cordon_stage_name(error->stage));
	json_int(w, "errno", error->sys_errno);
	json_string(w, "message", error->msg);
	json_string(w, "hint", error->hint[0] ? error->hint : NULL);
	json_close_object(w);
}

int cordon_result_to_json(const struct cordon_result *res, int with_output, char **ret,
			  struct cordon_error *err)
{
	struct strbuf out = STRBUF_INIT;
	struct json_writer w;
	char *text;

	json_writer_init(&w, &out, 0);
	json_open_object(&w, NULL);
	json_string(&w, "kind", cordon_kind_name(res->kind));
	if (res->exit_code >= 0)
		json_int(&w, "exit_code", res->exit_code);
	else
		json_null(&w, "exit_code");
	if (res->signal > 0)
		json_int(&w, "signal", res->signal);
	else
		json_null(&w, "signal");
	if (with_output)
		write_output(&w, res);
	write_truncated(&w, res);
	json_ms(&w, "duration_ms", res->duration_ms);
	json_ms(&w, "setup_ms", res->setup_ms);
	json_ms(&w, "run_ms", res->run_ms);
	json_ms(&w, "teardown_ms", res->teardown_ms);
	write_usage(&w, res);
	write_isolation(&w, res);
	write_denials(&w, res);
	write_published(&w, res);
	write_workspace(&w, res->workspace);
	write_lost(&w, res->lost_files);
	write_error(&w, &res->error);
	json_close_object(&w);
	text = strbuf_take(&out);
	strbuf_done(&out);
	if (!text)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	*ret = text;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job: a run of its own, or a command in a box. Either has all layers, and its output is captured
 * up to its limit.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "server.h"

static void set_streams(const struct job_spec *spec, struct cordon_stream *in,
			struct cordon_stream *out, struct cordon_stream *err)
{
	in->mode = spec->input ? CORDON_STREAM_DATA : CORDON_STREAM_NULL;
	in->data = spec->input;
	in->data_len = spec->input_len;
	out->mode = err->mode = CORDON_STREAM_CAPTURE;
}

static int start_run(struct server *s, const struct job_spec *spec, struct job *job,
		     struct cordon_error *err)
{
	struct cordon_run_options options;
	struct cordon_policy *policy = NULL;
	char text[32];
	int r = cordon_policy_copy(s->policy, &policy, err);

	server_run_options(s, &options);
	snprintf(text, sizeof(text), "%lldms", (long long)spec->wall_ms);
	if (r >= 0)
		r = cordon_policy_set(policy, "limits.wall", text, err);
	snprintf(text, sizeof(text), "%lld", (long long)spec->output_bytes);
	if (r >= 0 && spec->output_bytes)
		r = cordon_policy_set(policy, "limits.output", text, err);
	options.argv = spec->argv;
	options.files = spec->files;
	set_streams(spec, &options.in, &options.out, &options.err);
	if (r >= 0 && s->pool)
		r = cordon_pool_start(s->pool, policy, &options, &job->run, err);
	else if (r >= 0)
		r = cordon_run_start(s->launcher, policy, &options, &job->run, err);
	cordon_policy_free(policy);
	return r;
}

static int start_command(struct box *box, const struct job_spec *spec, struct job *job,
			 struct cordon_error *err)
{
	struct cordon_exec_options options = CORDON_EXEC_OPTIONS_INIT;
	int r;

	options.argv = spec->argv;
	options.files = spec->files;
	options.wall_ms = spec->wall_ms;
	options.output_bytes = spec->output_bytes;
	options.orphans = CORDON_ORPHANS_KILL;
	set_streams(spec, &options.in, &options.out, &options.err);
	r = cordon_session_exec(box->session, &options, &job->command, err);
	if (r < 0)
		return r;
	job->box = box;
	box->jobs++;
	return 0;
}

int job_start(struct server *s, struct box *box, const struct job_spec *spec, struct job *job,
	      struct cordon_error *err)
{
	int r;

	*job = (struct job){ .state = JOB_NONE };
	r = box ? start_command(box, spec, job, err) : start_run(s, spec, job, err);
	if (r >= 0)
		job->state = JOB_RUNS;
	return r;
}

void job_look(struct job *job, int is_ready)
{
	if (job->state != JOB_RUNS)
		return;
	if (job->run) {
		if (!is_ready)
			return;
		if (cordon_run_process(job->run, &job->error) != 0)
			job->state = JOB_DONE;
		return;
	}
	if (cordon_command_result(job->command)) {
		job->state = JOB_DONE;
	} else if (job->box->is_over) {
		job->state = JOB_DONE;
		job->error = job->box->error;
		if (!job->error.code)
			cordon_err(&job->error, CORDON_E_STATE, 0, "the sandbox has ended");
	}
}

const struct cordon_result *job_result(const struct job *job)
{
	if (job->state != JOB_DONE || job->error.code)
		return NULL;
	return job->run ? cordon_run_result(job->run) : cordon_command_result(job->command);
}

void job_output(struct job *job, struct cordon_output *ret_out, struct cordon_output *ret_err)
{
	if (job->run)
		cordon_run_output(job->run, ret_out, ret_err);
	else
		cordon_command_output(job->command, ret_out, ret_err);
}

void job_cancel(struct job *job)
{
	if (job->state != JOB_RUNS)
		return;
	job->was_cancelled = 1;
	if (job->run)
		(void)cordon_run_cancel(job->run, NULL);
	else
		(void)cordon_command_end(job->command, SIGKILL, 0, NULL);
}

void job_free(struct job *job)
{
	cordon_run_free(job->run);
	cordon_command_free(job->command);
	if (job->box)
		job->box->jobs--;
	*job = (struct job){ .state = JOB_NONE };
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box: the sandbox that jobs share. It begins with the first job. When it ends, by a limit of the
 * policy that holds for all of it, the next job begins another one over the same workspace; its
 * private files are gone then.
 *
 * What a job leaves running ends with it, but for processes that went out of their session. So when
 * the last job is over and there is still something, the box ends, too.
 */
#include <string.h>

#include "base/err.h"
#include "base/macros.h"
#include "server.h"

int box_start(struct server *s, struct box *box, int has_workspace, struct cordon_error *err)
{
	struct cordon_run_options options;
	int r;

	server_run_options(s, &options);
	if (has_workspace)
		options.workspace_name = s->workspace;
	*box = (struct box){ .number = ++s->n_boxes };
	r = cordon_session_start(s->launcher, s->policy, &options, &box->session, err);
	if (r >= 0 && has_workspace)
		s->workspace_began = 1;
	return r;
}

/* The session is over: why, for the jobs that were in it. */
static void settle(struct box *box)
{
	const struct cordon_result *result = cordon_session_result(box->session);

	box->is_over = 1;
	if (box->error.code || !result)
		return;
	if (result->error.code) {
		box->error = result->error;
		return;
	}
	if (result->kind == CORDON_KIND_CANCELLED)
		return;
	cordon_err(&box->error, CORDON_E_STATE, 0, "the sandbox was ended (%s)",
		   cordon_kind_name(result->kind));
	if (result->n_denials && result->denials[0].fix)
		cordon_err_hint(&box->error, "%s", result->denials[0].fix);
}

void box_look(struct box *box)
{
	if (box->session && !box->is_over && cordon_session_process(box->session, &box->error) != 0)
		settle(box);
}

void box_end(struct box *box)
{
	if (!box->session || box->is_over)
		return;
	box->is_ending = 1;
	(void)cordon_session_cancel(box->session, NULL);
}

void box_free(struct box *box)
{
	cordon_session_free(TAKE_PTR(box->session));
	*box = (struct box){ .jobs = 0 };
}

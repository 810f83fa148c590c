/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the workspace when the server ends: it stays if anything was changed. */
#include "out.h"
#include "server.h"
#include "verbs.h"
#include "workspace.h"

void server_end_workspace(struct server *s)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_workspace *ws = NULL;
	struct cordon_summary summary;

	if (!s->workspace_began)
		return;
	/* It may have been committed and be gone. */
	if (cordon_workspace_open(NULL, s->workspace, &ws, &err) < 0)
		return;
	if (cordon_workspace_summary(ws, &summary, &err) < 0) {
		say_error(&err);
		cordon_workspace_close(ws);
		return;
	}
	if (summary_total(&summary) == 0 && !parsed_has(s->args, OPT_NAME)) {
		if (cordon_workspace_discard(ws, &err) < 0)
			say_error(&err);
		return;
	}
	cordon_workspace_close(ws);
	if (summary_total(&summary) && !parsed_has(s->args, OPT_QUIET))
		say_line("changes are kept in workspace %s; see 'cordon workspace diff %s'",
			 s->workspace, s->workspace);
}

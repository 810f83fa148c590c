/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the workspace when the server ends: it stays if anything was changed. A server
 * that was killed cannot see to that, so the next one does, and `cordon workspace gc`. */
#include <unistd.h>

#include "detach.h"
#include "out.h"
#include "server.h"
#include "verbs.h"
#include "workspace.h"

static int collect(void *arg, int fd)
{
	struct cordon_gc_options options = CORDON_GC_OPTIONS_INIT;

	(void)arg;
	/* Nothing of the client's: it has to see when this server ends. */
	if (detach_leave_terminal() < 0)
		return 1;
	detach_close(-1, -1);
	(void)fd;
	options.is_disposable = is_server_workspace;
	options.only_disposable = 1;
	return cordon_workspace_gc(NULL, &options, NULL, NULL) < 0;
}

/* In a process that nobody waits for: one that was never settled may take long. */
void workspace_collect(void)
{
	int fd;

	if (detach(collect, NULL, &fd, NULL) == 0)
		close(fd);
}

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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A branch of the workspace of a run that goes on.
 *
 * The run has the workspace's lock, and it stays locked: a commit or another run cannot come
 * between. For the branch it is as if this run had been killed at this moment: who opens it next
 * settles it, with what the base was when this run began. So do its own runs, which may go on with
 * what this one has read.
 */
#include "base/err.h"
#include "launch/launch.h"
#include "launch/workspace.h"
#include "workspace/store/store.h"

int cordon_run_branch(struct cordon_run *run, uint64_t max_bytes, uint64_t max_files,
		      struct cordon_workspace **ret, struct cordon_error *err)
{
	int r;

	*ret = NULL;
	if (!run->workspace.ws) {
		cordon_err(err, CORDON_E_STATE, 0, "the run has no workspace, or is over");
		return -CORDON_E_STATE;
	}
	r = ws_branch(run->workspace.ws, max_bytes, max_files, ret, err);
	if (r == 0)
		workspace_uncover(run, *ret);
	return r;
}

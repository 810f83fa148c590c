/* SPDX-License-Identifier: Apache-2.0 */
/* What the public interface says about a workspace, as the library and the command write it. */
#ifndef FORMAT_WORKSPACE_JSON_H
#define FORMAT_WORKSPACE_JSON_H

#include <cordon/workspace.h>

#include "base/json_write.h"

/* Into an open object, under the key "summary". */
static inline void workspace_summary_json(struct json_writer *w, const struct cordon_summary *s)
{
	json_open_object(w, "summary");
	json_uint(w, "added", s->added);
	json_uint(w, "modified", s->modified);
	json_uint(w, "deleted", s->deleted);
	json_uint(w, "renamed", s->renamed);
	json_uint(w, "mode", s->mode);
	json_uint(w, "symlink", s->symlink);
	json_uint(w, "type", s->type);
	json_uint(w, "risky", s->risky);
	json_uint(w, "refused", s->refused);
	json_close_object(w);
}

/* Into an open object: id, name, base and so on. */
static inline void workspace_info_json(struct json_writer *w,
				       const struct cordon_workspace_info *info)
{
	json_string(w, "id", info->id);
	json_string(w, "name", info->name);
	json_string(w, "base", info->base);
	json_string(w, "parent", info->parent);
	json_string(w, "mechanism", cordon_mechanism_name(info->mechanism));
	json_uint(w, "runs", info->runs);
	json_int(w, "created", info->created_s);
	json_int(w, "used", info->used_s);
	json_bool(w, "in_use", info->in_use);
	json_bool(w, "commit_begun", info->commit_begun);
}

#endif

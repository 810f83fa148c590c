/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workspace and its changes as JSON:
 *
 *	{ "id": "w3f9a2c71", "name": null, "base": "/home/u/project", "parent": null,
 *	  "mechanism": "overlay", "runs": 1, "created": 1760000000, "used": 1760000000,
 *	  "in_use": false, "commit_begun": false,
 *	  "summary": { "added": 1, "modified": 0, "deleted": 0, "renamed": 0, "mode": 0,
 *		       "symlink": 0, "type": 0, "risky": 1, "refused": 0 },
 *	  "changes": [
 *	    { "path": "tool.sh", "kind": "added", "type": "file", "old_type": null,
 *	      "mode": "0755", "old_mode": null, "size": 12, "old_size": null,
 *	      "target": null, "old_target": null, "from": null,
 *	      "risk": ["executable"], "refused": false, "in_git": false, "listed": true } ] }
 *
 * Every key is always present and may be null: old_* of what was added, the others of what was
 * deleted, sizes of what is not a file, targets of what is not a link. "listed" is false for
 * directories that were added or deleted with their content, which tables and the summary leave
 *out. Bytes that are not UTF-8 are written as base/json_write.h says.
 */
#include <stdio.h>

#include "base/err.h"
#include "format/workspace_json.h"
#include "workspace/changes/changes.h"
#include "workspace/store/store.h"

#define JSON_BYTES_MAX ((size_t)1 << 30)

static void write_type(struct json_writer *w, const char *key, int type)
{
	json_string(w, key, type == CORDON_FILE_NONE ? NULL : cordon_file_type_name(type));
}

static void write_mode(struct json_writer *w, const char *key, int type, unsigned mode)
{
	char text[8];

	snprintf(text, sizeof(text), "%04o", mode & 07777);
	json_string(w, key, type == CORDON_FILE_NONE ? NULL : text);
}

static void write_size(struct json_writer *w, const char *key, int type, uint64_t size)
{
	if (type == CORDON_FILE_REGULAR)
		json_uint(w, key, size);
	else
		json_null(w, key);
}

static void write_risks(struct json_writer *w, unsigned risks)
{
	json_open_array(w, "risk");
	for (unsigned bit = 1; bit != 0 && bit <= risks; bit <<= 1) {
		if (risks & bit)
			json_string(w, NULL, cordon_risk_name(bit));
	}
	json_close_array(w);
}

static void write_change(struct json_writer *w, const struct cordon_change *c)
{
	json_open_object(w, NULL);
	json_string(w, "path", c->path);
	json_string(w, "kind", cordon_change_kind_name(c->kind));
	write_type(w, "type", c->type);
	write_type(w, "old_type", c->old_type);
	write_mode(w, "mode", c->type, c->mode);
	write_mode(w, "old_mode", c->old_type, c->old_mode);
	write_size(w, "size", c->type, c->size);
	write_size(w, "old_size", c->old_type, c->old_size);
	json_string(w, "target", c->target);
	json_string(w, "old_target", c->old_target);
	json_string(w, "from", c->from);
	write_risks(w, c->risks);
	json_bool(w, "refused", (c->risks & CORDON_RISK_REFUSED) != 0);
	json_bool(w, "in_git", c->in_git);
	json_bool(w, "listed", c->is_listed);
	json_close_object(w);
}

static int write_changes(struct json_writer *w, const char *key, const struct ws_changes *changes)
{
	struct strbuf path = STRBUF_INIT, from = STRBUF_INIT;
	int failed;

	json_open_array(w, key);
	for (uint32_t i = 0; i < changes->n && !w->out->failed; i++) {
		struct cordon_change change;

		if (changes->v[i].kind == 0 || changes->v[i].is_renamed_away)
			continue;
		ws_node_change(changes, i, &path, &from, &change);
		if (path.failed || from.failed)
			break;
		write_change(w, &change);
	}
	json_close_array(w);
	failed = path.failed || from.failed;
	strbuf_done(&path);
	strbuf_done(&from);
	return failed ? -1 : 0;
}

char *ws_changes_to_json(const struct ws_changes *changes)
{
	struct strbuf out = STRBUF_INIT;
	struct json_writer w;
	char *text;

	out.max = JSON_BYTES_MAX;
	json_writer_init(&w, &out, 0);
	text = write_changes(&w, NULL, changes) < 0 ? NULL : strbuf_take(&out);
	strbuf_done(&out);
	return text;
}

int cordon_workspace_to_json(struct cordon_workspace *ws, int pretty, char **ret,
			     struct cordon_error *err)
{
	struct strbuf out = STRBUF_INIT;
	struct cordon_summary summary;
	struct ws_changes changes;
	struct json_writer w;
	int r = ws_collect(ws, &changes, err);

	if (r < 0)
		return r;
	out.max = JSON_BYTES_MAX;
	json_writer_init(&w, &out, pretty);
	json_open_object(&w, NULL);
	workspace_info_json(&w, cordon_workspace_info(ws));
	ws_summarise(&changes, &summary);
	workspace_summary_json(&w, &summary);
	r = write_changes(&w, "changes", &changes);
	json_close_object(&w);
	if (pretty)
		strbuf_putc(&out, '\n');
	ws_changes_done(&changes);
	*ret = r < 0 ? NULL : strbuf_take(&out);
	strbuf_done(&out);
	if (!*ret)
		return cordon_err(err, CORDON_E_STATE, 0,
				  "the changes of workspace %s do not fit into one document",
				  ws->meta.id);
	return 0;
}

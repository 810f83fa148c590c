/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tools. Which are offered depends on the operator's options alone. */
#include <string.h>

#include "output_schemas.h"
#include "server.h"

static const char *const run_command_names[] = { "command", "cwd",     "stdin",
						 "timeout", "session", NULL };
static const char *const run_code_names[] = {
	"code", "language", "cwd", "timeout", "session", NULL
};
static const char *const read_file_names[] = { "path", "offset", "limit", "session", NULL };
static const char *const write_file_names[] = { "path",	  "content", "encoding",
						"append", "session", NULL };
static const char *const edit_file_names[] = { "path",	      "old_text", "new_text",
					       "replace_all", "session",  NULL };
static const char *const list_files_names[] = { "path", "depth", "session", NULL };
static const char *const execute_names[] = { "session", "code", "language", "timeout", NULL };
static const char *const session_names[] = { "session", NULL };
static const char *const no_names[] = { NULL };

/* clang-format off */
const struct tool tools[] = {
	{ .name = "run_command", .title = "Run a command",
	  .description = "Runs a command in the sandbox and returns its output and exit code. A "
		"string is a line for the shell; a list is a program and its arguments. What it "
		"leaves running is ended.",
	  .input = SCHEMA_OBJECT(
		"\"command\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"array\",\"items\":"
		"{\"type\":\"string\"},\"minItems\":1}],\"description\":\"a line for the shell, or a "
		"program and its arguments\"},"
		SCHEMA_TEXT("cwd", "directory to start in") ","
		SCHEMA_TEXT("stdin", "standard input; empty if it is left out") ","
		SCHEMA_TIMEOUT "," SCHEMA_SESSION, "\"command\""),
	  .output = SCHEMA_RECEIPT, .names = run_command_names,
	  .is_destructive = 1, .is_open = 1, .start = tool_run_command },
	{ .name = "run_code", .title = "Run code",
	  .description = "Runs a piece of code in the sandbox, in a fresh interpreter, and returns "
		"its output and exit code. It prints what it wants to be seen.",
	  .input = SCHEMA_OBJECT(
		SCHEMA_TEXT("code", "the code, up to 120000 bytes") ","
		"\"language\":{\"type\":\"string\",\"enum\":[\"python\",\"javascript\",\"bash\","
		"\"sh\",\"ruby\",\"perl\",\"php\",\"lua\",\"r\"],\"description\":\"python if it is "
		"left out\"},"
		SCHEMA_TEXT("cwd", "directory to start in") ","
		SCHEMA_TIMEOUT "," SCHEMA_SESSION, "\"code\""),
	  .output = SCHEMA_RECEIPT, .names = run_code_names,
	  .is_destructive = 1, .is_open = 1, .start = tool_run_code },
	{ .name = "read_file", .title = "Read a file",
	  .description = "Reads a file of the sandbox: text as it is, pictures as pictures, "
		"anything else as base64.",
	  .input = SCHEMA_OBJECT(
		SCHEMA_TEXT("path", "absolute, or relative to where commands start") ","
		SCHEMA_COUNT("offset", "byte to begin with; 0 if it is left out") ","
		SCHEMA_COUNT("limit", "bytes of text at most; 65536 if it is left out") ","
		SCHEMA_SESSION,
		"\"path\""),
	  .output = SCHEMA_OBJECT(
		SCHEMA_TEXT("content", "the text, or base64") ","
		"\"encoding\":{\"type\":\"string\",\"enum\":[\"utf-8\",\"base64\"]},"
		SCHEMA_COUNT("bytes", "how many were read") ","
		SCHEMA_FLAG("more", "there is more in the file"),
		"\"content\",\"encoding\",\"bytes\",\"more\""),
	  .names = read_file_names, .is_read_only = 1, .is_idempotent = 1,
	  .start = tool_read_file },
	{ .name = "write_file", .title = "Write a file",
	  .description = "Writes a file in the sandbox; missing directories are made. An existing "
		"file is replaced.",
	  .input = SCHEMA_OBJECT(
		SCHEMA_TEXT("path", "absolute, or relative to where commands start") ","
		SCHEMA_TEXT("content", "what the file is to contain") ","
		"\"encoding\":{\"type\":\"string\",\"enum\":[\"utf-8\",\"base64\"],"
		"\"description\":\"of content; utf-8 if it is left out\"},"
		SCHEMA_FLAG("append", "add to the file instead") ","
		SCHEMA_SESSION,
		"\"path\",\"content\""),
	  .output = SCHEMA_OBJECT(
		SCHEMA_TEXT("path", "as it was given") ","
		SCHEMA_COUNT("bytes", "how many were written"), "\"path\",\"bytes\""),
	  .names = write_file_names, .is_destructive = 1, .start = tool_write_file },
	{ .name = "edit_file", .title = "Edit a file",
	  .description = "Replaces a piece of text in a file of the sandbox. It has to occur "
		"exactly once, unless replace_all is true.",
	  .input = SCHEMA_OBJECT(
		SCHEMA_TEXT("path", "absolute, or relative to where commands start") ","
		SCHEMA_TEXT("old_text", "what is there, exactly") ","
		SCHEMA_TEXT("new_text", "what is to be there") ","
		SCHEMA_FLAG("replace_all", "wherever it occurs") ","
		SCHEMA_SESSION,
		"\"path\",\"old_text\",\"new_text\""),
	  .output = SCHEMA_OBJECT(
		SCHEMA_TEXT("path", "as it was given") ","
		SCHEMA_COUNT("replacements", "how many"), "\"path\",\"replacements\""),
	  .names = edit_file_names, .is_destructive = 1, .start = tool_edit_file },
	{ .name = "list_files", .title = "List files",
	  .description = "Lists a directory of the sandbox. Links are not followed.",
	  .input = SCHEMA_OBJECT(
		SCHEMA_TEXT("path", "the directory; where commands start if it is left out") ","
		SCHEMA_COUNT("depth", "levels; 1 if it is left out, 0 for all") ","
		SCHEMA_SESSION, ""),
	  .output = SCHEMA_OBJECT(
		"\"entries\":{\"type\":\"array\",\"items\":" SCHEMA_OBJECT(
		SCHEMA_TEXT("path", "relative to the directory") ","
		SCHEMA_TEXT("type", "file, directory, link or other") ","
		SCHEMA_COUNT("size", "bytes"), "\"path\",\"type\",\"size\"") "},"
		SCHEMA_FLAG("more", "there are more, which are left out"),
		"\"entries\",\"more\""),
	  .names = list_files_names, .is_read_only = 1, .is_idempotent = 1,
	  .start = tool_list_files },
	{ .name = "create_session", .title = "Create a session",
	  .description = "Makes a sandbox that stays, with its files, processes and interpreters, "
		"until close_session or the end of this server. The other tools work in it when they "
		"are given its name; execute keeps state between calls.",
	  .input = SCHEMA_OBJECT("", ""),
	  .output = SCHEMA_OBJECT(SCHEMA_TEXT("session", "its name"), "\"session\""),
	  .names = no_names, .start = tool_create_session },
	{ .name = "execute", .title = "Execute code that keeps its state",
	  .description = "Runs code in a session's interpreter, as a cell of a notebook: variables "
		"and imports stay, the value of the last expression and figures come back.",
	  .input = SCHEMA_OBJECT(
		SCHEMA_TEXT("session", "of create_session") ","
		SCHEMA_TEXT("code", "the code") ","
		"\"language\":{\"type\":\"string\",\"enum\":[\"python\",\"javascript\",\"bash\"],"
		"\"description\":\"python if it is left out\"},"
		SCHEMA_TIMEOUT, "\"session\",\"code\""),
	  .output = SCHEMA_EXECUTION,
	  .names = execute_names, .is_destructive = 1, .is_open = 1, .start = tool_execute },
	{ .name = "close_session", .title = "Close a session",
	  .description = "Ends a session with everything that runs in it.",
	  .input = SCHEMA_OBJECT(SCHEMA_TEXT("session", "of create_session"), "\"session\""),
	  .output = SCHEMA_OBJECT("\"closed\":{\"const\":true}", "\"closed\""),
	  .names = session_names, .is_destructive = 1, .start = tool_close_session },
	{ .name = "workspace_diff", .title = "What was changed",
	  .description = "Shows what calls have changed in the workspace so far: as data all "
		"changes, as text a patch. Nothing of it is in the real directory before it is "
		"committed.",
	  .input = SCHEMA_OBJECT("", ""),
	  .output = SCHEMA_DIFF,
	  .names = no_names, .is_read_only = 1, .is_idempotent = 1,
	  .is_offered = tools_have_workspace, .start = tool_workspace_diff },
	{ .name = "workspace_commit", .title = "Commit the changes",
	  .description = "Applies the changes of the workspace to the real directory. What could "
		"run by itself later is left to the operator, and so are conflicts.",
	  .input = SCHEMA_OBJECT("", ""),
	  .output = SCHEMA_COMMIT, .names = no_names, .is_destructive = 1,
	  .is_offered = tools_may_commit, .start = tool_workspace_commit },
	{ .name = "get_limits", .title = "What is allowed",
	  .description = "Says what calls may do: files, network, time and memory. All of it is "
		"the operator's decision.",
	  .input = SCHEMA_OBJECT("", ""),
	  .output = SCHEMA_LIMITS,
	  .names = no_names, .is_read_only = 1, .is_idempotent = 1, .start = tool_get_limits },
	{ .name = NULL },
};
/* clang-format on */

const struct tool *tool_find(const struct server *s, const char *name)
{
	for (const struct tool *tool = tools; tool->name; tool++)
		if (!strcmp(tool->name, name) && (!tool->is_offered || tool->is_offered(s)))
			return tool;
	return NULL;
}

static void write_annotations(const struct server *s, const struct tool *tool,
			      struct json_writer *w)
{
	json_open_object(w, "annotations");
	json_string(w, "title", tool->title);
	json_bool(w, "readOnlyHint", tool->is_read_only);
	if (!tool->is_read_only) {
		json_bool(w, "destructiveHint", tool->is_destructive);
		json_bool(w, "idempotentHint", tool->is_idempotent);
	}
	json_bool(w, "openWorldHint", tool->is_open && s->has_network);
	json_close_object(w);
}

void tools_list(const struct server *s, struct json_writer *w)
{
	json_open_array(w, "tools");
	for (const struct tool *tool = tools; tool->name; tool++) {
		if (tool->is_offered && !tool->is_offered(s))
			continue;
		json_open_object(w, NULL);
		json_string(w, "name", tool->name);
		json_string(w, "title", tool->title);
		json_string(w, "description", tool->description);
		json_raw(w, "inputSchema", tool->input);
		json_raw(w, "outputSchema", tool->output);
		write_annotations(s, tool, w);
		json_close_object(w);
	}
	json_close_array(w);
}

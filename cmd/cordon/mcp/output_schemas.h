/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tools give back, key by key: no more and no less, which tests/python/test_mcp_schemas.py
 * holds every answer to. The receipt's fields are those of src/launch/receipt.c, a workspace's
 * those of src/workspace/changes/json.c.
 */
#ifndef MCP_OUTPUT_SCHEMAS_H
#define MCP_OUTPUT_SCHEMAS_H

#include "schemas.h"

/* clang-format off */
#define SCHEMA_BOTH(type) SCHEMA_OBJECT( \
	SCHEMA_PLAIN("stdout", type) "," SCHEMA_PLAIN("stderr", type), "\"stdout\",\"stderr\"")

#define SCHEMA_DENIALS SCHEMA_LIST("denials", SCHEMA_OBJECT( \
	SCHEMA_TEXT("what", "read, write, connect, memory, ...") "," \
	SCHEMA_TEXT("target", "what was refused") "," \
	SCHEMA_TEXT("rule", "the key of the policy behind it") "," \
	"\"fix\":{\"type\":[\"string\",\"null\"],\"description\":\"an option of the operator that " \
		"would allow it\"}," \
	"\"how\":{\"type\":\"string\",\"enum\":[\"enforced\",\"observed\",\"said\"]}," \
	SCHEMA_PLAIN("count", "integer") "," SCHEMA_PLAIN("errno", "integer") "," \
	SCHEMA_TEXT("program", "the name that it gave itself"), \
	"\"what\",\"target\",\"rule\",\"fix\",\"how\""))

#define SCHEMA_USAGE SCHEMA_OBJECT( \
	SCHEMA_OR_NULL("cpu_user_ms", "number") "," SCHEMA_OR_NULL("cpu_system_ms", "number") "," \
	SCHEMA_OR_NULL("max_memory_bytes", "integer") "," \
	SCHEMA_OR_NULL("procs_peak", "integer") "," SCHEMA_OR_NULL("disk_bytes", "integer") "," \
	SCHEMA_OR_NULL("max_gpu_memory_bytes", "integer") "," \
	SCHEMA_OR_NULL("gpu_utilization_percent", "integer") "," \
	SCHEMA_PLAIN("net_bytes_in", "integer") "," SCHEMA_PLAIN("net_bytes_out", "integer"), \
	"\"cpu_user_ms\",\"cpu_system_ms\",\"max_memory_bytes\",\"procs_peak\",\"disk_bytes\"," \
	"\"max_gpu_memory_bytes\",\"gpu_utilization_percent\"," \
	"\"net_bytes_in\",\"net_bytes_out\"")

#define SCHEMA_ISOLATION SCHEMA_OBJECT( \
	"\"level\":{\"type\":\"string\",\"enum\":[\"namespaces\",\"landlock\"]}," \
	SCHEMA_STRINGS("layers") "," SCHEMA_STRINGS("missing") "," \
	"\"limits\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}," \
		"\"description\":\"what enforces each\"}", \
	"\"level\",\"layers\",\"missing\",\"limits\"")

#define SCHEMA_PUBLISHED SCHEMA_LIST("published", SCHEMA_OBJECT( \
	SCHEMA_PLAIN("port", "integer") "," SCHEMA_PLAIN("address", "string") "," \
	SCHEMA_PLAIN("host_port", "integer") "," SCHEMA_PLAIN("protocol", "string"), \
	"\"port\",\"address\",\"host_port\",\"protocol\""))

#define SCHEMA_LOST SCHEMA_MAYBE("lost_files", SCHEMA_OBJECT( \
	SCHEMA_PLAIN("home", "integer") "," SCHEMA_PLAIN("tmp", "integer") "," \
	SCHEMA_FLAG("more", "they are too many to be counted") "," \
	SCHEMA_OR_NULL("place", "string") "," SCHEMA_OR_NULL("example", "string"), \
	"\"home\",\"tmp\",\"more\",\"place\",\"example\""))

#define SCHEMA_ERROR SCHEMA_MAYBE("error", SCHEMA_OBJECT( \
	SCHEMA_PLAIN("code", "string") "," SCHEMA_OR_NULL("stage", "string") "," \
	SCHEMA_PLAIN("errno", "integer") "," SCHEMA_PLAIN("message", "string") "," \
	SCHEMA_OR_NULL("hint", "string"), "\"code\",\"stage\",\"errno\",\"message\",\"hint\""))

/* The receipt, with output. A workspace belongs to the server's sandbox, not to one of its runs. */
#define SCHEMA_RECEIPT SCHEMA_OBJECT( \
	"\"kind\":{\"type\":\"string\",\"enum\":[\"exited\",\"signaled\",\"timeout\",\"memory\"," \
		"\"cpu_time\",\"output\",\"disk\",\"procs\",\"cancelled\",\"denied\"," \
		"\"spawn_failed\",\"sandbox_error\"]}," \
	SCHEMA_OR_NULL("exit_code", "integer") "," SCHEMA_OR_NULL("signal", "integer") "," \
	SCHEMA_TEXT("stdout", "U+FFFD stands for what is no UTF-8") "," \
	SCHEMA_TEXT("stderr", "U+FFFD stands for what is no UTF-8") "," \
	SCHEMA_TEXT("stdout_base64", "the exact bytes, if they are no UTF-8") "," \
	SCHEMA_TEXT("stderr_base64", "the exact bytes, if they are no UTF-8") "," \
	SCHEMA_PART("truncated", SCHEMA_BOTH("boolean")) "," \
	SCHEMA_PART("output_bytes", SCHEMA_BOTH("integer")) "," \
	SCHEMA_PLAIN("duration_ms", "number") "," SCHEMA_PLAIN("setup_ms", "number") "," \
	SCHEMA_PLAIN("run_ms", "number") "," SCHEMA_PLAIN("teardown_ms", "number") "," \
	SCHEMA_PART("usage", SCHEMA_USAGE) "," SCHEMA_PART("isolation", SCHEMA_ISOLATION) "," \
	SCHEMA_DENIALS "," SCHEMA_PUBLISHED "," SCHEMA_PLAIN("workspace", "null") "," \
	SCHEMA_LOST "," SCHEMA_ERROR, \
	"\"kind\",\"exit_code\",\"signal\",\"stdout\",\"stderr\",\"truncated\",\"output_bytes\"," \
	"\"duration_ms\",\"setup_ms\",\"run_ms\",\"teardown_ms\",\"usage\",\"isolation\"," \
	"\"denials\",\"published\",\"workspace\",\"lost_files\",\"error\"")

/* Of code: its forms by media type, text as text and anything else as base64. */
#define SCHEMA_FORMS "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}," \
	"\"description\":\"by media type: text as it is, anything else as base64\"}"

#define SCHEMA_EXECUTION SCHEMA_OBJECT( \
	SCHEMA_FLAG("ok", "it came to its end without an error") "," \
	SCHEMA_TEXT("stdout", "output") "," SCHEMA_TEXT("stderr", "error output") "," \
	SCHEMA_PART("truncated", SCHEMA_BOTH("boolean")) "," \
	SCHEMA_MAYBE("result", SCHEMA_FORMS) "," \
	SCHEMA_LIST("displays", SCHEMA_FORMS) "," \
	SCHEMA_MAYBE("error", SCHEMA_OBJECT(SCHEMA_PLAIN("name", "string") "," \
		SCHEMA_PLAIN("message", "string") "," SCHEMA_PLAIN("traceback", "string"), \
		"\"name\",\"message\",\"traceback\"")) "," \
	SCHEMA_DENIALS "," SCHEMA_OR_NULL("status", "integer") "," \
	SCHEMA_FLAG("timed_out", "it was interrupted when its time was over") "," \
	SCHEMA_FLAG("ended", "the interpreter has ended, its state is gone") "," \
	SCHEMA_FLAG("restarted", "the one before had ended: this began without its state"), \
	"\"ok\",\"stdout\",\"stderr\",\"truncated\",\"result\",\"displays\",\"error\"," \
	"\"denials\",\"status\",\"timed_out\",\"ended\",\"restarted\"")

#define SCHEMA_RISK SCHEMA_STRINGS("risk")

#define SCHEMA_SUMMARY SCHEMA_OBJECT( \
	SCHEMA_PLAIN("added", "integer") "," SCHEMA_PLAIN("modified", "integer") "," \
	SCHEMA_PLAIN("deleted", "integer") "," SCHEMA_PLAIN("renamed", "integer") "," \
	SCHEMA_PLAIN("mode", "integer") "," SCHEMA_PLAIN("symlink", "integer") "," \
	SCHEMA_PLAIN("type", "integer") "," SCHEMA_PLAIN("risky", "integer") "," \
	SCHEMA_PLAIN("refused", "integer"), \
	"\"added\",\"modified\",\"deleted\",\"renamed\",\"mode\",\"symlink\",\"type\",\"risky\"," \
	"\"refused\"")

#define SCHEMA_CHANGE SCHEMA_OBJECT( \
	SCHEMA_PLAIN("path", "string") "," SCHEMA_PLAIN("kind", "string") "," \
	SCHEMA_OR_NULL("type", "string") "," SCHEMA_OR_NULL("old_type", "string") "," \
	SCHEMA_OR_NULL("mode", "string") "," SCHEMA_OR_NULL("old_mode", "string") "," \
	SCHEMA_OR_NULL("size", "integer") "," SCHEMA_OR_NULL("old_size", "integer") "," \
	SCHEMA_OR_NULL("target", "string") "," SCHEMA_OR_NULL("old_target", "string") "," \
	SCHEMA_OR_NULL("from", "string") "," SCHEMA_RISK "," \
	SCHEMA_FLAG("refused", "it could run by itself later: the operator has to name it") "," \
	SCHEMA_PLAIN("in_git", "boolean") "," SCHEMA_PLAIN("listed", "boolean"), \
	"\"path\",\"kind\",\"type\",\"old_type\",\"mode\",\"old_mode\",\"size\",\"old_size\"," \
	"\"target\",\"old_target\",\"from\",\"risk\",\"refused\",\"in_git\",\"listed\"")

/* Before anything ran there is no workspace, and the list is all. */
#define SCHEMA_DIFF SCHEMA_OBJECT( \
	SCHEMA_PLAIN("id", "string") "," SCHEMA_OR_NULL("name", "string") "," \
	SCHEMA_PLAIN("base", "string") "," SCHEMA_OR_NULL("parent", "string") "," \
	SCHEMA_PLAIN("mechanism", "string") "," SCHEMA_PLAIN("runs", "integer") "," \
	SCHEMA_PLAIN("created", "integer") "," SCHEMA_PLAIN("used", "integer") "," \
	SCHEMA_PLAIN("in_use", "boolean") "," SCHEMA_PLAIN("commit_begun", "boolean") "," \
	SCHEMA_PART("summary", SCHEMA_SUMMARY) "," SCHEMA_LIST("changes", SCHEMA_CHANGE), \
	"\"changes\"")

/* The same; "more" comes alone, if the changes are too many to be listed. */
#define SCHEMA_COMMIT SCHEMA_OBJECT( \
	SCHEMA_PLAIN("id", "string") "," SCHEMA_OR_NULL("name", "string") "," \
	SCHEMA_PLAIN("base", "string") "," SCHEMA_PLAIN("dry_run", "boolean") "," \
	SCHEMA_LIST("changes", SCHEMA_OBJECT( \
		SCHEMA_PLAIN("path", "string") "," SCHEMA_OR_NULL("from", "string") "," \
		SCHEMA_PLAIN("kind", "string") "," SCHEMA_RISK "," \
		SCHEMA_TEXT("outcome", "applied, or why not") "," SCHEMA_OR_NULL("error", "string"), \
		"\"path\",\"from\",\"kind\",\"risk\",\"outcome\",\"error\"")) "," \
	SCHEMA_PLAIN("applied", "integer") "," SCHEMA_PLAIN("refused", "integer") "," \
	SCHEMA_PLAIN("conflicts", "integer") "," SCHEMA_PLAIN("skipped", "integer") "," \
	SCHEMA_PLAIN("failed", "integer") "," \
	SCHEMA_FLAG("removed", "nothing was left in the workspace") "," \
	SCHEMA_OR_NULL("error", "string") "," SCHEMA_FLAG("more", "true"), \
	"\"changes\"")

#define SCHEMA_LIMITS SCHEMA_OBJECT( \
	"\"policy\":{\"type\":\"object\",\"description\":\"as 'cordon policy show' prints it; 'cordon " \
		"policy schema' describes it\"}," \
	SCHEMA_PLAIN("timeout_ms", "integer") "," SCHEMA_PLAIN("memory_bytes", "integer") "," \
	SCHEMA_PLAIN("network", "boolean") "," \
	SCHEMA_MAYBE("workspace", SCHEMA_OBJECT( \
		SCHEMA_PLAIN("directory", "string") "," \
		"\"mode\":{\"type\":\"string\",\"enum\":[\"copy-on-write\",\"direct\"]}," \
		SCHEMA_PLAIN("may_commit", "boolean"), "\"directory\",\"mode\",\"may_commit\"")), \
	"\"policy\",\"timeout_ms\",\"memory_bytes\",\"network\",\"workspace\"")
/* clang-format on */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* JSON schemas of tools, as C strings that are put together. */
#ifndef MCP_SCHEMAS_H
#define MCP_SCHEMAS_H

#define SCHEMA_OBJECT(properties, required)                                                        \
	"{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required             \
	"],\"additionalProperties\":false}"

#define SCHEMA_OPEN_OBJECT(properties, required)                                                   \
	"{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required "]}"

#define SCHEMA_TEXT(name, description)                                                             \
	"\"" name "\":{\"type\":\"string\",\"description\":\"" description "\"}"

#define SCHEMA_COUNT(name, description)                                                            \
	"\"" name "\":{\"type\":\"integer\",\"minimum\":0,\"description\":\"" description "\"}"

#define SCHEMA_FLAG(name, description)                                                             \
	"\"" name "\":{\"type\":\"boolean\",\"description\":\"" description "\"}"

#define SCHEMA_TIMEOUT                                                                             \
	"\"timeout\":{\"type\":\"number\",\"exclusiveMinimum\":0,\"description\":\"seconds; less " \
	"than the server's limit, never more\"}"

#define SCHEMA_SESSION SCHEMA_TEXT("session", "work in this session (create_session)")

#define SCHEMA_OR_NULL(name, type) "\"" name "\":{\"type\":[\"" type "\",\"null\"]}"

/* The receipt, with output (src/launch/receipt.c). */
/* clang-format off */
#define SCHEMA_PLAIN(name, type) "\"" name "\":{\"type\":\"" type "\"}"

#define SCHEMA_RECEIPT \
	SCHEMA_TEXT("kind", "exited, signaled, timeout, memory, cpu_time, output, disk, procs, " \
			    "cancelled, denied, spawn_failed or sandbox_error") "," \
	SCHEMA_OR_NULL("exit_code", "integer") "," \
	SCHEMA_OR_NULL("signal", "integer") "," \
	SCHEMA_TEXT("stdout", "U+FFFD stands for what is no UTF-8") "," \
	SCHEMA_TEXT("stderr", "U+FFFD stands for what is no UTF-8") "," \
	SCHEMA_TEXT("stdout_base64", "the exact bytes, if they are no UTF-8") "," \
	SCHEMA_TEXT("stderr_base64", "the exact bytes, if they are no UTF-8") "," \
	SCHEMA_PLAIN("truncated", "object") "," \
	SCHEMA_PLAIN("output_bytes", "object") "," \
	SCHEMA_PLAIN("duration_ms", "number") "," \
	SCHEMA_PLAIN("setup_ms", "number") "," \
	SCHEMA_PLAIN("run_ms", "number") "," \
	SCHEMA_PLAIN("teardown_ms", "number") "," \
	SCHEMA_PLAIN("usage", "object") "," \
	SCHEMA_PLAIN("isolation", "object") "," \
	"\"denials\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{" \
		SCHEMA_PLAIN("what", "string") "," \
		SCHEMA_PLAIN("target", "string") "," \
		SCHEMA_PLAIN("rule", "string") "," \
		SCHEMA_OR_NULL("fix", "string") "," \
		SCHEMA_PLAIN("how", "string") "}}}," \
	SCHEMA_PLAIN("published", "array") "," \
	SCHEMA_OR_NULL("workspace", "object") "," \
	SCHEMA_OR_NULL("lost_files", "object") "," \
	SCHEMA_OR_NULL("error", "object")
/* clang-format on */

#define SCHEMA_RECEIPT_REQUIRED                                                                    \
	"\"kind\",\"exit_code\",\"signal\",\"stdout\",\"stderr\",\"duration_ms\",\"denials\","     \
	"\"error\""

#endif

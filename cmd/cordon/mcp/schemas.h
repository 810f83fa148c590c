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
#define SCHEMA_RECEIPT                                                                                                                                                                                                                                      \
	"\"kind\":{\"type\":\"string\",\"description\":\"exited, signaled, timeout, memory, "                                                                                                                                                               \
	"cpu_time, output, disk, procs, cancelled, denied, spawn_failed or "                                                                                                                                                                                \
	"sandbox_error\"}," SCHEMA_OR_NULL("exit_code", "integer") "," SCHEMA_OR_NULL("signal", "integer") "," SCHEMA_TEXT("stdout", "U+FFFD stands for what is no UTF-8") "," SCHEMA_TEXT("stderr", "U+FFFD stands for what is no UTF-8") "," SCHEMA_TEXT( \
		"stdout_base64",                                                                                                                                                                                                                            \
		"the exact bytes, if they are no UTF-8") "," SCHEMA_TEXT("stderr_base64",                                                                                                                                                                   \
									 "the exact bytes, if "                                                                                                                                                             \
									 "they are no UTF-8") ","                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      "tr"                                                                                                                                                          \
											      "un"                                                                                                                                                          \
											      "ca"                                                                                                                                                          \
											      "te"                                                                                                                                                          \
											      "d"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      ":{"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ty"                                                                                                                                                          \
											      "pe"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      "ob"                                                                                                                                                          \
											      "je"                                                                                                                                                          \
											      "ct"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "},"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ou"                                                                                                                                                          \
											      "tp"                                                                                                                                                          \
											      "ut"                                                                                                                                                          \
											      "_b"                                                                                                                                                          \
											      "yt"                                                                                                                                                          \
											      "es"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":{"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ty"                                                                                                                                                          \
											      "pe"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      "ob"                                                                                                                                                          \
											      "je"                                                                                                                                                          \
											      "ct"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "},"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "du"                                                                                                                                                          \
											      "ra"                                                                                                                                                          \
											      "ti"                                                                                                                                                          \
											      "on"                                                                                                                                                          \
											      "_m"                                                                                                                                                          \
											      "s"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      ":{"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ty"                                                                                                                                                          \
											      "pe"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      "nu"                                                                                                                                                          \
											      "mb"                                                                                                                                                          \
											      "er"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "},"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "se"                                                                                                                                                          \
											      "tu"                                                                                                                                                          \
											      "p_"                                                                                                                                                          \
											      "ms"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":{"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ty"                                                                                                                                                          \
											      "pe"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      "nu"                                                                                                                                                          \
											      "mb"                                                                                                                                                          \
											      "er"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "},"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ru"                                                                                                                                                          \
											      "n_"                                                                                                                                                          \
											      "ms"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":{"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ty"                                                                                                                                                          \
											      "pe"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      "nu"                                                                                                                                                          \
											      "mb"                                                                                                                                                          \
											      "er"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "},"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "te"                                                                                                                                                          \
											      "ar"                                                                                                                                                          \
											      "do"                                                                                                                                                          \
											      "wn"                                                                                                                                                          \
											      "_m"                                                                                                                                                          \
											      "s"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      ":{"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ty"                                                                                                                                                          \
											      "pe"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      "nu"                                                                                                                                                          \
											      "mb"                                                                                                                                                          \
											      "er"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "},"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "us"                                                                                                                                                          \
											      "ag"                                                                                                                                                          \
											      "e"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      ":{"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ty"                                                                                                                                                          \
											      "pe"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      "ob"                                                                                                                                                          \
											      "je"                                                                                                                                                          \
											      "ct"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "},"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "is"                                                                                                                                                          \
											      "ol"                                                                                                                                                          \
											      "at"                                                                                                                                                          \
											      "io"                                                                                                                                                          \
											      "n"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      ":{"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ty"                                                                                                                                                          \
											      "pe"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      "ob"                                                                                                                                                          \
											      "je"                                                                                                                                                          \
											      "ct"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "},"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "de"                                                                                                                                                          \
											      "ni"                                                                                                                                                          \
											      "al"                                                                                                                                                          \
											      "s"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      ":{"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ty"                                                                                                                                                          \
											      "pe"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      "ar"                                                                                                                                                          \
											      "ra"                                                                                                                                                          \
											      "y"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      ","                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      "it"                                                                                                                                                          \
											      "em"                                                                                                                                                          \
											      "s"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      ":{"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ty"                                                                                                                                                          \
											      "pe"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      "ob"                                                                                                                                                          \
											      "je"                                                                                                                                                          \
											      "ct"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ","                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      "pr"                                                                                                                                                          \
											      "op"                                                                                                                                                          \
											      "er"                                                                                                                                                          \
											      "ti"                                                                                                                                                          \
											      "es"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":{"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "wh"                                                                                                                                                          \
											      "at"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":{"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ty"                                                                                                                                                          \
											      "pe"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      "st"                                                                                                                                                          \
											      "ri"                                                                                                                                                          \
											      "ng"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "},"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ta"                                                                                                                                                          \
											      "rg"                                                                                                                                                          \
											      "et"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":{"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ty"                                                                                                                                                          \
											      "pe"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      "st"                                                                                                                                                          \
											      "ri"                                                                                                                                                          \
											      "ng"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "},"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ru"                                                                                                                                                          \
											      "le"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":{"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "ty"                                                                                                                                                          \
											      "pe"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      ":"                                                                                                                                                           \
											      "\""                                                                                                                                                          \
											      "st"                                                                                                                                                          \
											      "ri"                                                                                                                                                          \
											      "ng"                                                                                                                                                          \
											      "\""                                                                                                                                                          \
											      "}"                                                                                                                                                           \
											      "," SCHEMA_OR_NULL(                                                                                                                                           \
												      "fix",                                                                                                                                                \
												      "string") ","                                                                                                                                         \
														"\"how\":{\"type\":\"string\"}}}},\"published\":{\"type\":\"array\"}," SCHEMA_OR_NULL(                                                      \
															"workspace",                                                                                                                        \
															"object") "," SCHEMA_OR_NULL("lost_files",                                                                                          \
																		     "object") "," SCHEMA_OR_NULL("error",                                                                  \
																						  "object")

#define SCHEMA_RECEIPT_REQUIRED                                                                    \
	"\"kind\",\"exit_code\",\"signal\",\"stdout\",\"stderr\",\"duration_ms\",\"denials\","     \
	"\"error\""

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* JSON schemas of tools, as C strings that are put together. */
#ifndef MCP_SCHEMAS_H
#define MCP_SCHEMAS_H

#define SCHEMA_OBJECT(properties, required)                                                        \
	"{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required             \
	"],\"additionalProperties\":false}"

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

#define SCHEMA_PLAIN(name, type) "\"" name "\":{\"type\":\"" type "\"}"

#define SCHEMA_PART(name, schema) "\"" name "\":" schema

#define SCHEMA_LIST(name, items) "\"" name "\":{\"type\":\"array\",\"items\":" items "}"

#define SCHEMA_STRINGS(name) SCHEMA_LIST(name, "{\"type\":\"string\"}")

/* An object, or null if there is none. */
#define SCHEMA_MAYBE(name, object) "\"" name "\":{\"anyOf\":[" object ",{\"type\":\"null\"}]}"

#endif

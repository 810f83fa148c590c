/* SPDX-License-Identifier: Apache-2.0 */
/* cordon mcp --print-config: what a client's configuration needs to have this server. */
#include <string.h>

#include "base/err.h"
#include "base/json_write.h"
#include "base/macros.h"
#include "config.h"
#include "out.h"
#include "verbs.h"

static void add_args(struct json_writer *w, const struct words *words)
{
	json_string(w, NULL, "mcp");
	for (size_t i = 0; i < words->list.n; i++)
		json_string(w, NULL, words->list.v[i]);
}

/* {KEY: {"cordon": {"command": ..., "args": [...]}}} */
static void print_object(struct strbuf *sb, const struct words *words, const char *key,
			 const char *type)
{
	struct json_writer w;

	json_writer_init(&w, sb, 1);
	json_open_object(&w, NULL);
	json_open_object(&w, key);
	json_open_object(&w, "cordon");
	if (type)
		json_string(&w, "type", type);
	json_string(&w, "command", words->program);
	json_open_array(&w, "args");
	add_args(&w, words);
	json_close_array(&w);
	json_close_object(&w);
	json_close_object(&w);
	json_close_object(&w);
}

static void print_mcp_servers(struct strbuf *sb, const struct words *words)
{
	print_object(sb, words, "mcpServers", NULL);
}

static void print_servers(struct strbuf *sb, const struct words *words)
{
	print_object(sb, words, "servers", "stdio");
}

static void print_opencode(struct strbuf *sb, const struct words *words)
{
	struct json_writer w;

	json_writer_init(&w, sb, 1);
	json_open_object(&w, NULL);
	json_open_object(&w, "mcp");
	json_open_object(&w, "cordon");
	json_string(&w, "type", "local");
	json_open_array(&w, "command");
	json_string(&w, NULL, words->program);
	add_args(&w, words);
	json_close_array(&w);
	json_bool(&w, "enabled", 1);
	json_close_object(&w);
	json_close_object(&w);
	json_close_object(&w);
}

/* TOML, whose strings are written as those of JSON. */
static void print_codex(struct strbuf *sb, const struct words *words)
{
	struct json_writer w;

	strbuf_puts(sb, "[mcp_servers.cordon]\ncommand = ");
	json_writer_init(&w, sb, 0);
	json_string(&w, NULL, words->program);
	strbuf_puts(sb, "\nargs = ");
	json_writer_init(&w, sb, 0);
	json_open_array(&w, NULL);
	add_args(&w, words);
	json_close_array(&w);
}

static const struct {
	const char *name, *where;
	void (*print)(struct strbuf *sb, const struct words *words);
} clients[] = {
	{ "claude", ".mcp.json of a project, or claude_desktop_config.json", print_mcp_servers },
	{ "cursor", ".cursor/mcp.json, or ~/.cursor/mcp.json", print_mcp_servers },
	{ "vscode", ".vscode/mcp.json", print_servers },
	{ "codex", "~/.codex/config.toml", print_codex },
	{ "opencode", "opencode.json", print_opencode },
};

int mcp_print_config(const struct parsed *args)
{
	const char *name = parsed_value(args, OPT_PRINT_CONFIG);
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf sb = STRBUF_INIT;
	struct words words;

	for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
		if (strcmp(name, clients[i].name) != 0)
			continue;
		if (words_make(&words, args, &err) < 0) {
			say_error(&err);
			return STATUS_FAILED;
		}
		clients[i].print(&sb, &words);
		strbuf_putc(&sb, '\n');
		arena_done(&words.arena);
		if (!parsed_has(args, OPT_QUIET))
			say_line("this belongs into %s", clients[i].where);
		return out_finish(&sb, 0);
	}
	cordon_err(&err, CORDON_E_USAGE, 0, "--print-config: there is no client '%s'", name);
	cordon_err_hint(&err, "claude, cursor, vscode, codex or opencode");
	say_error(&err);
	return STATUS_FAILED;
}

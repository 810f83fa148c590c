/* SPDX-License-Identifier: Apache-2.0 */
/* What --wrap-config puts in front of one server's command. */
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/json_write.h"
#include "base/macros.h"
#include "wrap_words.h"

void wrap_word(struct strbuf *sb, const char *word)
{
	struct json_writer w;

	json_writer_init(&w, sb, 0);
	json_string(&w, NULL, word);
}

/* As a part of a file's name: different texts stay different. */
static void add_encoded(struct strbuf *sb, const char *text)
{
	if (!*text)
		strbuf_putc(sb, '%'); /* without a name it would be the directory of all */
	for (const char *at = text; *at; at++) {
		char c = ascii_lower(*at);
		int is_plain = (c >= 'a' && c <= 'z') || ascii_is_digit(c) || c == '-' ||
			       c == '_' || (c == '.' && at > text);

		if (is_plain)
			strbuf_putc(sb, *at);
		else
			strbuf_printf(sb, "%%%02X", (unsigned char)*at);
	}
}

/* Servers do not trust each other: what one of them keeps must not be run by the next. */
static void add_own(struct strbuf *sb, const char *word, char between, const char *owner,
		    const char *server)
{
	struct strbuf own = STRBUF_INIT;

	strbuf_puts(&own, word);
	strbuf_putc(&own, between);
	if (owner) {
		add_encoded(&own, owner);
		strbuf_putc(&own, ',');
	}
	add_encoded(&own, server);
	sb->failed |= own.failed;
	if (!own.failed)
		wrap_word(sb, own.data);
	strbuf_done(&own);
}

static int begins_with(const char *word, const char *with)
{
	return !strncmp(word, with, strlen(with));
}

int wrap_is_own(const char *word)
{
	return begins_with(word, "--private=") || begins_with(word, "--receipt=");
}

const char *wrap_variable(const struct json_value *entry)
{
	if (entry->type == JSON_OBJECT)
		entry = json_get(entry, "name");
	return entry && entry->type == JSON_STRING ? entry->text : NULL;
}

static void add_variable(struct strbuf *sb, const char *name)
{
	strbuf_puts(sb, ", ");
	wrap_word(sb, "-e");
	strbuf_puts(sb, ", ");
	wrap_word(sb, name);
}

void wrap_words(struct strbuf *sb, const struct words *words, const char *owner,
		const struct json_value *server, const struct wrap_env *env)
{
	wrap_word(sb, "mcp");
	strbuf_puts(sb, ", ");
	wrap_word(sb, "--wrap");
	for (size_t i = 0; i < words->list.n; i++) {
		const char *word = words->list.v[i];

		strbuf_puts(sb, ", ");
		if (begins_with(word, "--private="))
			add_own(sb, word, '/', owner, server->key);
		else if (begins_with(word, "--receipt="))
			add_own(sb, word, '.', owner, server->key);
		else
			wrap_word(sb, word);
	}
	/* What the client gives to the server is meant for it. */
	for (const struct json_value *v = env->own ? env->own->first : NULL; v; v = v->next)
		add_variable(sb, v->key);
	for (const struct json_value *v = env->passed ? env->passed->first : NULL; v; v = v->next)
		add_variable(sb, wrap_variable(v));
	strbuf_puts(sb, ", ");
	wrap_word(sb, "--");
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon policy show: each value of the policy and where it comes from.
 *
 * Each preset, file and flag is made into a policy of its own; the library says what they add up
 * to.
 */
#include "policy_show.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json_write.h"
#include "verbs.h"

#define KEY_WIDTH 18
#define FROM_WIDTH 16

struct sources {
	struct cordon_policy **policies;
	char **names;
	size_t n;
};

static void sources_done(struct sources *s)
{
	for (size_t i = 0; i < s->n; i++) {
		cordon_policy_free(s->policies[i]);
		free(s->names[i]);
	}
	free(s->policies);
	free(s->names);
}

static char *source_name(const struct parsed_option *p)
{
	const char *word = p->id == OPT_PRESET ? "preset " : p->id == OPT_POLICY ? "file " : "--";
	const char *rest = p->id == OPT_PRESET || p->id == OPT_POLICY ? p->value
								      : option_table[p->id].name;
	struct strbuf sb = STRBUF_INIT;

	strbuf_puts(&sb, word);
	strbuf_add_escaped(&sb, rest, strlen(rest));
	return strbuf_take(&sb);
}

static int add_source(struct sources *s, const struct parsed_option *p, struct cordon_error *err)
{
	const struct parsed one = { .options = (struct parsed_option[]){ *p }, .n_options = 1 };
	char *name;
	int r = cordon_policy_new(&s->policies[s->n], err);

	if (r < 0)
		return r;
	name = source_name(p);
	r = name ? policy_from_options(s->policies[s->n], &one, err)
		 : cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	s->names[s->n++] = name;
	return r;
}

/* Presets, then files, then flags, as they are merged. */
static int rank(int id)
{
	return id == OPT_PRESET ? 0 : id == OPT_POLICY ? 1 : 2;
}

static int collect(struct sources *s, const struct parsed *args, struct cordon_error *err)
{
	int r = 0;

	s->policies = calloc(args->n_options + 1, sizeof(struct cordon_policy *));
	s->names = calloc(args->n_options + 1, sizeof(*s->names));
	if (!s->policies || !s->names)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	for (int kind = 0; kind < 3; kind++)
		for (size_t i = 0; r >= 0 && i < args->n_options; i++)
			if (rank(args->options[i].id) == kind)
				r = add_source(s, &args->options[i], err);
	return r;
}

/* "none on the command line, 30s in the API": of the two, the first is ours. */
static size_t default_len(const char *text)
{
	const char *here = strstr(text, " on the command line");

	return here ? (size_t)(here - text) : strlen(text);
}

static void add_row(void *arg, const struct cordon_policy_setting *setting)
{
	struct strbuf *sb = arg;

	strbuf_printf(sb, "%-*s  %-*s  ", KEY_WIDTH, setting->key, FROM_WIDTH, setting->from);
	if (setting->value && !*setting->value)
		strbuf_puts(sb, "(nothing)");
	else if (setting->value)
		strbuf_add_escaped(sb, setting->value, strlen(setting->value));
	else
		strbuf_add(sb, setting->default_text, default_len(setting->default_text));
	strbuf_putc(sb, '\n');
}

static void add_object(void *arg, const struct cordon_policy_setting *setting)
{
	struct json_writer *w = arg;

	json_open_object(w, NULL);
	json_string(w, "key", setting->key);
	json_string(w, "value", setting->value);
	json_string(w, "from", setting->from);
	json_string(w, "default", setting->default_text);
	json_close_object(w);
}

static int settle(struct sources *s, void (*call)(void *, const struct cordon_policy_setting *),
		  void *arg, struct cordon_error *err)
{
	return cordon_policy_settings((const struct cordon_policy *const *)s->policies,
				      (const char *const *)s->names, s->n, call, arg, err);
}

int policy_show_text(const struct parsed *args, struct strbuf *sb, struct cordon_error *err)
{
	struct sources s = { NULL, NULL, 0 };
	int r = collect(&s, args, err);

	strbuf_printf(sb, "%-*s  %-*s  VALUE\n", KEY_WIDTH, "KEY", FROM_WIDTH, "FROM");
	if (r >= 0)
		r = settle(&s, add_row, sb, err);
	sources_done(&s);
	return r;
}

int policy_show_json(const struct parsed *args, struct strbuf *sb, struct cordon_error *err)
{
	struct sources s = { NULL, NULL, 0 };
	struct json_writer w;
	int r = collect(&s, args, err);

	json_writer_init(&w, sb, 1);
	json_open_array(&w, NULL);
	if (r >= 0)
		r = settle(&s, add_object, &w, err);
	json_close_array(&w);
	sources_done(&s);
	return r;
}

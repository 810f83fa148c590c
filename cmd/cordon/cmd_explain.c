/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon explain: what a run was refused, by its receipt, and the options that would allow it in
 * one line.
 *
 * A receipt is a file, and who wrote it is not known: its words are escaped, and an option is shown
 * only if it can be pasted into a shell and means nothing but that option.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json_read.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "discover/discover.h"
#include "out.h"
#include "verbs.h"

#define RECEIPT_BYTES_MAX ((size_t)16 << 20) /* with the output in it */
#define SHOWN_MAX 100
#define FIX_MAX 4096

struct denial {
	const char *what, *target, *rule, *fix, *how, *program;
	int64_t count; /* 0 = not known */
};

static int fail(const struct cordon_error *err)
{
	say_error(err);
	return STATUS_FAILED;
}

static int read_all(const char *path, struct strbuf *sb, struct cordon_error *err)
{
	int is_stdin = strcmp(path, "-") == 0;
	int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	char chunk[16384];
	ssize_t n;

	if (fd < 0)
		return cordon_err(err, CORDON_E_PATH, errno, "cannot read '%s'", path);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0 && sb->len <= RECEIPT_BYTES_MAX)
		strbuf_add(sb, chunk, (size_t)n);
	if (!is_stdin)
		close(fd);
	if (n < 0)
		return cordon_err(err, CORDON_E_PATH, errno, "cannot read '%s'", path);
	if (sb->len > RECEIPT_BYTES_MAX || sb->failed)
		return cordon_err(err, CORDON_E_USAGE, 0, "'%s' is too long for a receipt", path);
	return 0;
}

static const char *text_of(const struct json_value *object, const char *key)
{
	const struct json_value *v = json_get(object, key);

	return v && v->type == JSON_STRING ? v->text : NULL;
}

/* The next of a shell's words, without its quotes; NULL = there is none, or it is too long. */
static const char *next_word(const char **at, char ret[FIX_MAX])
{
	size_t n = 0;
	int is_quoted = 0;

	*at += strspn(*at, " ");
	if (!**at)
		return NULL;
	for (; **at && (is_quoted || **at != ' '); (*at)++) {
		if (n == FIX_MAX - 1)
			return NULL;
		if (**at == '\'')
			is_quoted = !is_quoted;
		else
			ret[n++] = **at;
	}
	ret[n] = '\0';
	return ret;
}

static const struct option *option_of(const char *word)
{
	for (int i = 0; i < OPT_MAX; i++) {
		const struct option *o = &option_table[i];

		if (!(o->verbs & VERB_BIT(VERB_RUN)) || !o->key || word[0] != '-')
			continue;
		if (word[1] == '-' ? word[2] && strcmp(o->name, word + 2) == 0
				   : o->letter && o->letter == word[1] && !word[2])
			return o;
	}
	return NULL;
}

/* A file may name any path, also one that a run would never be told to grant. */
static int may_grant(const char *path, int is_write)
{
	const char *home = getenv("HOME");
	char real[PATH_MAX], home_real[PATH_MAX];

	if (strcmp(path, ".") == 0)
		return 1;
	if (!realpath(path, real))
		return path[0] == '/' ? discover_may_advise(home, path, is_write)
				      : !path_has_dotdot(path) && path[0] != '~';
	return discover_may_advise(home && realpath(home, home_real) ? home_real : NULL, real,
				   is_write);
}

/* Is it what a run might have said? None offers devices, or all hosts at once. */
static int may_be_shown(const struct option *o, const char *value)
{
	if (strcmp(o->key, "fs.read") == 0 || strcmp(o->key, "fs.write") == 0)
		return may_grant(value, strcmp(o->key, "fs.write") == 0);
	if (strcmp(o->key, "net.allow") == 0)
		return !strpbrk(value, "*/");
	return strcmp(o->key, "devices") != 0 && strcmp(o->key, "gpu") != 0;
}

/* Options of `cordon run` with their values, and nothing else? */
static int are_options(const char *fix)
{
	char word[FIX_MAX], value[FIX_MAX];
	int n = 0;

	for (; next_word(&fix, word); n++) {
		const struct option *o = option_of(word);

		if (!o)
			return 0;
		if (!o->arg)
			continue;
		if (!next_word(&fix, value) || value[0] == '-')
			return 0;
		if (!may_be_shown(o, value))
			return 0;
	}
	return n > 0 && !*fix;
}

/* Nothing that a shell would do something else with. */
static int is_harmless(const char *fix)
{
	int is_quoted = 0;

	for (const char *p = fix; *p; p++) {
		if (*p == '\'')
			is_quoted = !is_quoted;
		else if (!isprint((unsigned char)*p) ||
			 (!is_quoted && !isalnum((unsigned char)*p) && !strchr(" /._-:,=@+%", *p)))
			return 0;
	}
	return !is_quoted;
}

static void add_denial(struct strbuf *sb, const struct denial *d)
{
	strbuf_puts(sb, "  ");
	strbuf_add_escaped(sb, d->what, strlen(d->what));
	strbuf_puts(sb, " '");
	strbuf_add_escaped(sb, d->target, strlen(d->target));
	strbuf_puts(sb, "' (");
	strbuf_add_escaped(sb, d->rule, strlen(d->rule));
	strbuf_puts(sb, ", ");
	strbuf_add_escaped(sb, d->how, strlen(d->how));
	if (d->program) {
		strbuf_puts(sb, ", by '");
		strbuf_add_escaped(sb, d->program, strlen(d->program));
		strbuf_putc(sb, '\'');
	}
	if (d->count > 1)
		strbuf_printf(sb, ", %jd times", (intmax_t)d->count);
	strbuf_puts(sb, d->fix ? "): " : "): no option is suggested");
	if (d->fix)
		strbuf_puts(sb, d->fix);
	strbuf_putc(sb, '\n');
}

/* The one path of "-r PATH" or "-w PATH"; 0 = it is another option, or more than one. */
static int path_of(const char *fix, const char *flag, char ret[FIX_MAX])
{
	size_t len = strlen(flag), n;
	const char *word;

	if (!fix || strlen(fix) >= FIX_MAX || strncmp(fix, flag, len) != 0)
		return 0;
	word = fix + len;
	n = strlen(word);
	if (word[0] == '\'' && n > 1 && strchr(word + 1, '\'') == word + n - 1) {
		word++;
		n -= 2;
	} else if (strpbrk(word, " '")) {
		return 0;
	}
	memcpy(ret, word, n);
	ret[n] = '\0';
	return 1;
}

/* A grant for writing shows what lies in it, and one for reading below it would close that. */
static int is_covered(const struct denial *v, size_t n, const char *fix)
{
	char path[FIX_MAX], dir[FIX_MAX];

	if (!path_of(fix, "-r ", path))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (path_of(v[i].fix, "-w ", dir) &&
		    (path_is_within(dir, path) ||
		     (strcmp(dir, ".") == 0 && path[0] != '/' && !path_has_dotdot(path))))
			return 1;
	return 0;
}

/* Is it among those before? */
static int is_known(const struct denial *v, size_t n, const char *fix)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].fix && strcmp(v[i].fix, fix) == 0)
			return 1;
	return 0;
}

static void add_end(struct strbuf *sb, const struct json_value *receipt)
{
	const struct json_value *code = json_get(receipt, "exit_code");
	const char *kind = text_of(receipt, "kind");

	strbuf_puts(sb, "the run ended: ");
	strbuf_add_escaped(sb, kind, strlen(kind));
	if (code && code->type == JSON_INTEGER)
		strbuf_printf(sb, ", with status %jd", (intmax_t)code->integer);
}

static void add_account(struct strbuf *sb, const struct denial *v, size_t n, size_t n_all)
{
	size_t n_fixes = 0;

	strbuf_puts(sb, n ? "\nit was refused:\n" : "\nnothing was refused that is known of\n");
	for (size_t i = 0; i < n; i++) {
		add_denial(sb, &v[i]);
		n_fixes += v[i].fix != NULL;
	}
	if (n_all > n)
		strbuf_printf(sb, "  and %zu more\n", n_all - n);
	if (n_fixes == 0)
		return;
	strbuf_puts(sb, "options that allow all of it, each to be judged by itself:\n ");
	for (size_t i = 0; i < n; i++)
		if (v[i].fix && !is_known(v, i, v[i].fix) && !is_covered(v, n, v[i].fix))
			strbuf_printf(sb, " %s", v[i].fix);
	strbuf_putc(sb, '\n');
}

/* The receipt's denials; how many, of *ret_all. -1: it is no receipt. */
static ssize_t take_denials(const struct json_value *receipt, struct denial v[SHOWN_MAX],
			    size_t *ret_all)
{
	const struct json_value *list = receipt->type == JSON_OBJECT ? json_get(receipt, "denials")
								     : NULL;
	size_t n = 0, n_all = 0;

	if (!list || list->type != JSON_ARRAY || !text_of(receipt, "kind"))
		return -1;
	for (const struct json_value *d = list->first; d; d = d->next, n_all++) {
		const struct json_value *count;
		struct denial one;

		if (d->type != JSON_OBJECT)
			return -1;
		one = (struct denial){ text_of(d, "what"),
				       text_of(d, "target"),
				       text_of(d, "rule"),
				       text_of(d, "fix"),
				       text_of(d, "how"),
				       text_of(d, "program"),
				       0 };
		count = json_get(d, "count");
		if (count && count->type == JSON_INTEGER)
			one.count = count->integer;
		if (!one.what || !one.target || !one.rule || !one.how)
			return -1;
		if (one.fix && !(is_harmless(one.fix) && are_options(one.fix)))
			one.fix = NULL;
		if (n < SHOWN_MAX)
			v[n++] = one;
	}
	*ret_all = n_all;
	return (ssize_t)n;
}

/* That of a session lies beside the session's name. */
static const struct json_value *receipt_in(const struct json_value *v)
{
	const struct json_value *inner = v->type == JSON_OBJECT ? json_get(v, "receipt") : NULL;

	return inner && inner->type == JSON_OBJECT ? inner : v;
}

int cmd_explain(const struct parsed *args)
{
	static struct denial v[SHOWN_MAX];
	struct cordon_error err = CORDON_ERROR_INIT;
	const struct json_value *receipt;
	struct strbuf text = STRBUF_INIT, sb = STRBUF_INIT;
	struct arena arena = ARENA_INIT;
	size_t n_all = 0;
	ssize_t n = -1;
	int r;

	if (args->n_rest != 1) {
		cordon_err(&err, CORDON_E_USAGE, 0, "'explain' takes one receipt");
		cordon_err_hint(&err, "write one with cordon run --receipt FILE");
		return fail(&err);
	}
	r = read_all(args->rest[0], &text, &err);
	if (r >= 0)
		r = json_read(text.len ? text.data : "", text.len, args->rest[0], &arena, &receipt,
			      &err);
	if (r >= 0) {
		receipt = receipt_in(receipt);
		n = take_denials(receipt, v, &n_all);
		if (n < 0)
			r = cordon_err(&err, CORDON_E_USAGE, 0, "'%s' is no receipt of a run",
				       args->rest[0]);
	}
	if (r >= 0) {
		add_end(&sb, receipt);
		add_account(&sb, v, (size_t)n, n_all);
	}
	strbuf_done(&text);
	arena_done(&arena);
	return r < 0 ? fail(&err) : out_finish(&sb, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of a run, for a model: the words that a person gets (explain.c), and that they are
 * about the operator's options, which no argument of a call can change.
 */
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "base/units.h"
#include "explain.h"
#include "out.h"
#include "server.h"

static void add_ending(struct strbuf *sb, const struct cordon_result *result)
{
	if (result->exit_code >= 0)
		strbuf_printf(sb, "exit code %d", result->exit_code);
	else if (result->signal)
		strbuf_printf(sb, "ended by signal %d", result->signal);
	else
		strbuf_printf(sb, "%s", cordon_kind_name(result->kind));
	strbuf_printf(sb, ", %.0f ms", result->duration_ms);
	if (result->out.truncated || result->err.truncated)
		strbuf_puts(sb, "; the output was cut in the middle: the limit of each stream is "
				"--max-output");
	if (result->out.len == 0 && result->err.len == 0)
		strbuf_puts(sb, "; no output");
}

/* That is no option's. */
static int is_own_limit(const struct call *call, const struct cordon_result *result)
{
	return result->kind == CORDON_KIND_TIMEOUT && call->spec.wall_ms < call->server->wall_ms;
}

static size_t first_line(const struct strbuf *sb)
{
	const char *end = sb->data ? strchr(sb->data, '\n') : NULL;

	return end ? (size_t)(end + 1 - sb->data) : 0;
}

/* Is all that was refused, refused for good? */
static int has_no_remedy(const struct cordon_result *result)
{
	if (result->kind != CORDON_KIND_EXITED || result->n_denials == 0)
		return 0;
	for (size_t i = 0; i < result->n_denials; i++)
		if (result->denials[i].fix)
			return 0;
	return 1;
}

static int is_about_hosts(const struct cordon_result *result)
{
	for (size_t i = 0; i < result->n_denials; i++)
		if (!strncmp(result->denials[i].rule, "net.", 4))
			return 1;
	return 0;
}

static const char *advice(const struct cordon_result *result)
{
	if (result->kind == CORDON_KIND_SPAWN_FAILED && result->error.sys_errno == E2BIG)
		return "That is the kernel's limit: one argument can have 128 KiB. Write it to a "
		       "file and run that, or give it as standard input.";
	/* account_no_network() says it of hosts that are not named. */
	if (has_no_remedy(result))
		return is_about_hosts(result)
			       ? "Trying the same again will not help."
			       : "No option of this server allows that. Trying the same "
				 "again will not help.";
	return "Options such as these belong to the operator of this server. Trying the same again "
	       "will not help: do without, or ask for the option.";
}

void account_explain(struct strbuf *sb, const struct call *call, const struct cordon_result *result)
{
	char wall[UNITS_TEXT_MAX];
	struct parsed_option limit = { OPT_TIMEOUT,
				       units_format_duration(call->spec.wall_ms, wall) };
	struct parsed args = { .options = &limit, .n_options = 1 };
	struct strbuf told = STRBUF_INIT;
	size_t skip = 0;

	/* The time limit is this call's; what was cut is told elsewhere. */
	args.seen[OPT_TIMEOUT / 64] |= UINT64_C(1) << (OPT_TIMEOUT % 64);
	args.seen[OPT_JSON / 64] |= UINT64_C(1) << (OPT_JSON % 64);
	out_collect(&told);
	explain_end(&args, result);
	out_collect(NULL);
	if (!told.failed && is_own_limit(call, result)) {
		strbuf_puts(sb, "\nthe time that this call asked for was over");
		skip = first_line(&told);
	}
	if (told.len > skip && !told.failed) {
		strbuf_putc(sb, '\n');
		strbuf_add(sb, told.data + skip, told.len - skip);
		strbuf_puts(sb, advice(result));
	}
	strbuf_done(&told);
}

void account_denials(struct strbuf *sb, const struct call *call,
		     const struct cordon_denial *denials, size_t n)
{
	const struct cordon_result result = {
		.kind = CORDON_KIND_EXITED,
		.exit_code = 1,
		.denials = denials,
		.n_denials = n,
	};

	account_explain(sb, call, &result);
}

/* How programs and libraries say that they cannot connect. */
static int is_about_network(const char *text, size_t len)
{
	static const char *const phrases[] = {
		"resolve host",	     "name resolution", "service not known", "getaddrinfo",
		"etwork is unreach", "EAI_AGAIN",	"ENOTFOUND",	     "ECONNREFUSED",
		"onnection refused", "ENETUNREACH",	"o address assoc",   "nable to connect",
	};

	for (size_t i = 0; i < ARRAY_SIZE(phrases); i++)
		if (memmem(text, len, phrases[i], strlen(phrases[i])))
			return 1;
	return 0;
}

void account_no_network(struct strbuf *sb, const struct call *call, const char *text, size_t len)
{
	if (!call->server->has_network && is_about_network(text, len))
		strbuf_puts(sb,
			    "\nthere is no network here: the operator of this server allows hosts "
			    "with --net-allow HOST. Trying the same again will not help");
}

void account_add(struct strbuf *sb, const struct call *call, const struct cordon_result *result)
{
	add_ending(sb, result);
	account_explain(sb, call, result);
	/* A run's own account mostly has the names it asked for, but a box's comes with its end. */
	if (result->exit_code > 0 && (!is_about_hosts(result) || has_no_remedy(result)))
		account_no_network(sb, call, result->err.data ? result->err.data : "",
				   result->err.len);
}

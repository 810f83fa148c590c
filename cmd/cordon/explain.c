/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "base/utf8.h"
#include "out.h"
#include "verbs.h"

#define DENIAL_LINES_MAX 10
#define SAID_NAMES_MAX 3
#define EXAMPLE_MAX 60 /* bytes of a file's name that are shown */
#define MIB 1048576.0

/* Why something in a repository was put aside. */
static const char *aside_reason(const char *what)
{
	if (strcmp(what, "nested repository") == 0)
		return "/.git': a repository inside a repository would run its own config for you";
	if (strcmp(what, "link in a repository") == 0)
		return "': git would write through this link for you";
	if (strcmp(what, "pipe in a work tree") == 0)
		return "': git would wait for this pipe";
	if (strcmp(what, "file in a repository") == 0)
		return "': git does not leave this there by itself";
	if (strcmp(what, "repository") == 0)
		return "': what the command left in it could not be checked";
	if (strcmp(what, "replaced config") == 0)
		return "': it was replaced during the run, and the old one is back";
	if (strcmp(what, "replaced name") == 0)
		return "': it came during the run, when the command could change it, and would run "
		       "by itself later";
	if (strcmp(what, "protected name") == 0)
		return "': it is new and would run by itself later";
	return "': it could make git run something";
}

static void explain_one_aside(const struct cordon_denial *d)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_printf(&sb, "cordon: %s '", d->fix ? "put aside" : "could not put aside");
	strbuf_add_escaped(&sb, d->target, strlen(d->target));
	strbuf_puts(&sb, aside_reason(d->what));
	if (d->fix) {
		/* What was put aside while the command ran may have been open in it. */
		strbuf_puts(&sb,
			    strcmp(d->what, "replaced name") == 0
				    ? "; look at it, the command may have changed it; to keep it: "
				    : "; to keep it: ");
		strbuf_add_escaped(&sb, d->fix, strlen(d->fix));
	}
	strbuf_putc(&sb, '\n');
	if (!sb.failed)
		(void)out_write(STDERR_FILENO, sb.data, sb.len);
	strbuf_done(&sb);
}

/* Cut at the limit, which is something other than output that was not read in time. */
static int is_cut(const struct cordon_output *out)
{
	return out->truncated && out->write_errno != ETIMEDOUT;
}

/* The file system's growth is told in a sentence of its own, not as an amount. */
static int is_sentence(const char *target)
{
	return strncmp(target, "the file system ", 16) == 0;
}

/* Returns 1 for a limit that was not seen to be reached but may have been, and says so. */
static int explain_maybe(const struct cordon_denial *d)
{
	static const char maybe[] = " (may have been reached)";
	size_t len = strlen(d->target), n = sizeof(maybe) - 1;

	if (len <= n || strcmp(d->target + len - n, maybe) != 0)
		return 0;
	say_line("the limit of %.*s may have been reached (raise it with %s)", (int)(len - n),
		 d->target, d->fix);
	return 1;
}

/* Limits that refused something; explain_ending() tells about one that ended the run. */
static void explain_limits(const struct cordon_result *result)
{
	for (size_t i = 0; i < result->n_denials; i++) {
		const struct cordon_denial *d = &result->denials[i];

		if (strncmp(d->rule, "limits.", 7) == 0 && explain_maybe(d))
			continue;
		if (result->kind != CORDON_KIND_PROCS && strcmp(d->rule, "limits.procs") == 0)
			say_line("the limit of %s was reached; more failed with EAGAIN (raise it "
				 "with %s)",
				 d->target, d->fix);
		if (result->kind != CORDON_KIND_DISK && strcmp(d->rule, "limits.disk") == 0)
			say_line("%s%s%s (raise it with %s)",
				 is_sentence(d->target) ? "" : "the limit of ", d->target,
				 is_sentence(d->target) ? "" : " was reached", d->fix);
		if (strcmp(d->rule, "limits.file_size") == 0)
			say_line("a file reached its limit of %s (raise it with %s)", d->target,
				 d->fix);
	}
}

/* A protected name that the command itself named, with an error. */
static int is_said(const struct cordon_denial *d)
{
	return strcmp(d->rule, "fs.protect") == 0 && strcmp(d->how, "said") == 0;
}

static int is_same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* 'a', 'b' and 2 more are protected: those that have the remedy of the one at @first. 1 = all of
 * them do not exist, and only could not be removed or replaced. */
static int add_said_names(struct strbuf *sb, const struct cordon_result *result, size_t first)
{
	const struct cordon_denial *end = result->denials + result->n_denials;
	const char *fix = result->denials[first].fix;
	size_t n = 0, n_new = 0, n_held = 0, shown = 0;

	for (const struct cordon_denial *d = result->denials + first; d < end; d++) {
		n += is_said(d) && is_same(d->fix, fix);
		n_new += is_said(d) && is_same(d->fix, fix) && strcmp(d->what, "create") == 0;
		n_held += is_said(d) && is_same(d->fix, fix) && strcmp(d->what, "placeholder") == 0;
	}
	for (const struct cordon_denial *d = result->denials + first; d < end; d++) {
		if (!is_said(d) || !is_same(d->fix, fix) || shown == SAID_NAMES_MAX)
			continue;
		strbuf_puts(sb, shown == 0 ? "'" : shown + 1 == n ? " and '" : ", '");
		strbuf_add_escaped(sb, d->target, strlen(d->target));
		strbuf_putc(sb, '\'');
		shown++;
	}
	if (n > shown)
		strbuf_printf(sb, " and %zu more", n - shown);
	if (n_held == n) {
		strbuf_printf(sb,
			      " only %s until the run is over, so the command could not remove or "
			      "replace %s",
			      n == 1 ? "holds a protected name" : "hold protected names",
			      n == 1 ? "it" : "them");
		return 1;
	}
	strbuf_printf(sb, " %s protected in a write grant, so the command could not %s%s%s %s",
		      n == 1 ? "is" : "are", n_new < n ? "change" : "",
		      n_new && n_new < n ? " or " : "", n_new ? "make" : "",
		      n == 1 ? "it" : "them");
	return 0;
}

/* One line for all names in the same grant. */
static void explain_said(const struct cordon_result *result)
{
	for (size_t i = 0; i < result->n_denials; i++) {
		const struct cordon_denial *d = &result->denials[i];
		struct strbuf sb = STRBUF_INIT;
		size_t k = 0;
		int is_held;

		while (k < i &&
		       !(is_said(&result->denials[k]) && is_same(result->denials[k].fix, d->fix)))
			k++;
		if (!is_said(d) || k < i)
			continue;
		strbuf_puts(&sb, "cordon: ");
		is_held = add_said_names(&sb, result, i);
		strbuf_puts(&sb, " (");
		if (d->fix) {
			strbuf_add_escaped(&sb, d->fix, strlen(d->fix));
			strbuf_puts(&sb, is_held ? " instead of -w needs none; "
						 : " instead of -w lets it, and you review the "
						   "change; ");
		}
		strbuf_puts(&sb, "--protect off gives the protection up)\n");
		if (!sb.failed)
			(void)out_write(STDERR_FILENO, sb.data, sb.len);
		strbuf_done(&sb);
	}
}

/* A path that the command named with an error, and why that was. */
static void add_path_reason(struct strbuf *sb, const struct cordon_denial *d)
{
	if (strcmp(d->what, "privilege") == 0) {
		strbuf_puts(sb, "' needs rights that no command has inside; no option gives them");
	} else if (strcmp(d->what, "socket") == 0) {
		strbuf_puts(sb, "' is not to be had inside; no option gives it");
	} else if (strcmp(d->rule, "commands") == 0) {
		strbuf_puts(sb, "' is not among the allowed commands");
		if (d->fix) {
			strbuf_puts(sb, " (allow it with ");
			strbuf_add_escaped(sb, d->fix, strlen(d->fix));
			strbuf_putc(sb, ')');
		}
	} else if (strcmp(d->rule, "fs.deny") == 0) {
		strbuf_puts(sb, "' is hidden from the command by --deny");
	} else if (strcmp(d->what, "connect") == 0) {
		strbuf_puts(sb, "' is a socket of the host, which the command does not see");
	} else if (!d->fix) {
		strbuf_puts(sb, "' is kept from commands on purpose; no option is suggested");
	} else if (strcmp(d->rule, "fs.read") == 0) {
		strbuf_puts(sb, "' is not shown to the command (show it with ");
		strbuf_add_escaped(sb, d->fix, strlen(d->fix));
		strbuf_putc(sb, ')');
	} else {
		strbuf_puts(sb, "' is closed to writing for the command (allow it with ");
		strbuf_add_escaped(sb, d->fix, strlen(d->fix));
		strbuf_puts(sb, ", or with --workspace instead of -w, and review the change)");
	}
}

static void explain_one_path(const struct cordon_denial *d)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_puts(&sb, "cordon: '");
	strbuf_add_escaped(&sb, d->target, strlen(d->target));
	add_path_reason(&sb, d);
	strbuf_putc(&sb, '\n');
	if (!sb.failed)
		(void)out_write(STDERR_FILENO, sb.data, sb.len);
	strbuf_done(&sb);
}

static void explain_paths(const struct cordon_result *result)
{
	for (size_t i = 0; i < result->n_denials; i++) {
		const struct cordon_denial *d = &result->denials[i];

		/* Hosts and limits have lines of their own. */
		if (strcmp(d->how, "said") == 0 && !is_said(d) &&
		    strncmp(d->rule, "net.", 4) != 0 && strncmp(d->rule, "limits.", 7) != 0)
			explain_one_path(d);
	}
}

void explain_words(const struct cordon_result *result)
{
	explain_said(result);
	explain_paths(result);
}

static void explain_put_aside(const struct cordon_result *result)
{
	size_t n = 0;

	for (size_t i = 0; i < result->n_denials; i++) {
		if (strcmp(result->denials[i].rule, "fs.protect") != 0 ||
		    is_said(&result->denials[i]))
			continue;
		if (n++ < DENIAL_LINES_MAX)
			explain_one_aside(&result->denials[i]);
	}
	if (n > DENIAL_LINES_MAX)
		say_line("and %zu more; --receipt lists them", n - DENIAL_LINES_MAX);
}

/* What the gateway refused. The guest's text in it has been cleaned. */
static void explain_network(const struct cordon_result *result)
{
	size_t n = 0;

	for (size_t i = 0; i < result->n_denials; i++) {
		const struct cordon_denial *d = &result->denials[i];

		if (strncmp(d->rule, "net.", 4) != 0)
			continue;
		if (n++ >= DENIAL_LINES_MAX)
			continue;
		if (strcmp(d->what, "gateway") == 0)
			say_line("the gateway: %s", d->target);
		else
			say_line("refused: %s%s %s%s%s%s", d->what,
				 strcmp(d->what, "connect") == 0 ? " to" : "", d->target,
				 d->fix ? " (allow it with " : "", d->fix ? d->fix : "",
				 d->fix ? ")" : "");
	}
	if (n > DENIAL_LINES_MAX)
		say_line("and %zu more; --receipt lists them", n - DENIAL_LINES_MAX);
}

static const char *denied_by(const struct cordon_result *result, const char *rule)
{
	for (size_t i = 0; i < result->n_denials; i++)
		if (strcmp(result->denials[i].rule, rule) == 0)
			return result->denials[i].target;
	return "";
}

/* Always shown, since nothing else says why the command ended. */
static void explain_ending(const struct parsed *args, const struct cordon_result *result)
{
	const char *wall = parsed_value(args, OPT_TIMEOUT), *target;
	char text[UNITS_TEXT_MAX];
	int64_t ms;
	int known;

	switch (result->kind) {
	case CORDON_KIND_TIMEOUT:
		known = wall && units_parse_duration(wall, &ms, NULL) >= 0;
		say_line("time limit%s%s reached; the command was ended (raise it with -t)",
			 known ? " of " : "", known ? units_format_duration(ms, text) : "");
		break;
	case CORDON_KIND_MEMORY:
		say_line("memory limit of %s reached; the command was ended (raise it with -m)",
			 denied_by(result, "limits.memory"));
		break;
	case CORDON_KIND_DISK:
		target = denied_by(result, "limits.disk");
		say_line("%s%s%s; the command was ended (raise it with --disk)",
			 is_sentence(target) ? "" : "limit of ", target,
			 is_sentence(target) ? "" : " reached");
		break;
	case CORDON_KIND_CPU_TIME:
		if (*denied_by(result, "limits.cpu")) {
			say_line("limit of %s was not accepted; the command was ended",
				 denied_by(result, "limits.cpu"));
			break;
		}
		say_line("CPU time limit of %s reached; the command was ended (raise it with "
			 "--cpu-time)",
			 denied_by(result, "limits.cpu_time"));
		break;
	case CORDON_KIND_OUTPUT:
		say_line("output limit reached; the command was ended (raise it with "
			 "--max-output)");
		break;
	case CORDON_KIND_PROCS:
		say_line("more than %s; the command was ended (raise it with -P)",
			 denied_by(result, "limits.procs"));
		break;
	default:
		break;
	}
}

/* The command chose the name: harmless on a terminal, and short. */
static void add_example(struct strbuf *sb, const char *name)
{
	size_t len = strlen(name), used = 0, n;
	char one[UTF8_ESCAPED_MAX];

	strbuf_puts(sb, ": '");
	while (len > 0 && used < EXAMPLE_MAX) {
		size_t taken = utf8_escape(name, len, one, &n);

		strbuf_add(sb, one, n);
		used += n;
		name += taken;
		len -= taken;
	}
	strbuf_puts(sb, len > 0 ? "...'" : "'");
}

static void explain_lost(const struct cordon_lost_files *lost)
{
	uint64_t n = lost->home + lost->tmp;
	int is_one = n == 1 && !lost->has_more;
	struct strbuf sb = STRBUF_INIT;

	strbuf_printf(&sb, "cordon: %s%ju file%s written to the private %s and %s gone",
		      lost->has_more ? "at least " : "", (uintmax_t)n, n == 1 ? " was" : "s were",
		      !lost->tmp    ? "home"
		      : !lost->home ? "/tmp"
				    : "home and /tmp",
		      n == 1 ? "is" : "are");
	if (lost->example)
		add_example(&sb, lost->example);
	if (lost->example && !is_one)
		strbuf_puts(&sb, " and others");
	strbuf_printf(&sb,
		      " (--private DIR keeps %s; or write to a directory given by -w or "
		      "--workspace)\n",
		      is_one ? "it" : "them");
	if (!sb.failed)
		(void)out_write(STDERR_FILENO, sb.data, sb.len);
	strbuf_done(&sb);
}

void explain_end(const struct parsed *args, const struct cordon_result *result)
{
	explain_ending(args, result);
	if (result->error.code)
		say_error(&result->error);
	if (parsed_has(args, OPT_QUIET))
		return;
	explain_limits(result);
	explain_network(result);
	explain_words(result);
	explain_put_aside(result);
	if (!parsed_has(args, OPT_JSON) && result->kind != CORDON_KIND_OUTPUT &&
	    (is_cut(&result->out) || is_cut(&result->err)))
		say_note("the output was cut at its limit (raise it with --max-output)");
	if (!parsed_has(args, OPT_JSON) && result->lost_files)
		explain_lost(result->lost_files);
}

int explain_loss(int write_errno, const char *name)
{
	struct cordon_error err = CORDON_ERROR_INIT;

	if (!write_errno)
		return 0;
	if (write_errno == ETIMEDOUT)
		cordon_err(&err, CORDON_E_SYSTEM, 0,
			   "the command's %s was not read in time; the rest was given up", name);
	else
		cordon_err(&err, CORDON_E_SYSTEM, write_errno, "cannot write the command's %s",
			   name);
	say_error(&err);
	return 1;
}

void explain_usage(const struct cordon_result *result)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_printf(&sb, "cordon: %s", cordon_kind_name(result->kind));
	if (result->exit_code >= 0)
		strbuf_printf(&sb, " %d", result->exit_code);
	else if (result->signal)
		strbuf_printf(&sb, " (signal %d)", result->signal);
	strbuf_printf(&sb, " after %.3f s (set-up %.1f ms, tear-down %.1f ms)\n",
		      result->duration_ms / 1e3, result->setup_ms, result->teardown_ms);
	if (!result->usage_known)
		strbuf_puts(&sb, "cordon: what it used is unknown, since init was killed\n");
	else
		strbuf_printf(
			&sb,
			"cordon: CPU %.3f s user, %.3f s system; memory %.1f MiB; %ju task%s; "
			"disk %.1f MiB\n",
			result->cpu_user_ms / 1e3, result->cpu_system_ms / 1e3,
			(double)result->max_memory_bytes / MIB, (uintmax_t)result->procs_peak,
			result->procs_peak == 1 ? "" : "s", (double)result->disk_bytes / MIB);
	if (result->gpu_known & CORDON_GPU_MEMORY)
		strbuf_printf(&sb, "cordon: GPU memory %.1f MiB\n",
			      (double)result->max_gpu_memory_bytes / MIB);
	if (result->gpu_known & CORDON_GPU_UTILIZATION)
		strbuf_printf(&sb, "cordon: GPU %u %% busy\n", result->gpu_utilization_percent);
	if (result->net_bytes_in || result->net_bytes_out)
		strbuf_printf(&sb, "cordon: network %ju bytes in, %ju bytes out\n",
			      (uintmax_t)result->net_bytes_in, (uintmax_t)result->net_bytes_out);
	strbuf_printf(&sb, "cordon: output %ju + %ju bytes%s; limits enforced by",
		      (uintmax_t)result->out.total_bytes, (uintmax_t)result->err.total_bytes,
		      result->out.truncated || result->err.truncated ? " (cut)" : "");
	for (size_t i = 0; i < result->n_limits; i++)
		strbuf_printf(&sb, "%s %s: %s", i ? "," : "", result->limits[i].limit,
			      result->limits[i].by);
	strbuf_puts(&sb, result->n_limits ? "\n" : " nothing\n");
	if (!sb.failed)
		(void)out_write(STDERR_FILENO, sb.data, sb.len);
	strbuf_done(&sb);
}

void explain_timings(const struct cordon_result *result)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_printf(&sb, "cordon: level %s;", cordon_level_name(result->level));
	for (const char *const *layer = result->layers; layer && *layer; layer++)
		strbuf_printf(&sb, " %s", *layer);
	for (const char *const *layer = result->missing; layer && *layer; layer++)
		strbuf_printf(&sb, "%s %s", layer == result->missing ? "; missing:" : "", *layer);
	strbuf_puts(&sb, "\ncordon: done after (us):");
	for (unsigned i = 0; i < CORDON_STAMPS_MAX; i++) {
		if (result->stamps_us[i])
			strbuf_printf(&sb, " %s %u", cordon_stage_name(i), result->stamps_us[i]);
	}
	strbuf_printf(
		&sb, "\ncordon: set-up %.3f ms, in all %.3f ms, CPU %.3f ms, memory %ju KiB\n",
		result->setup_ms, result->duration_ms, result->cpu_user_ms + result->cpu_system_ms,
		(uintmax_t)(result->max_memory_bytes >> 10));
	if (!sb.failed)
		(void)out_write(STDERR_FILENO, sb.data, sb.len);
	strbuf_done(&sb);
}

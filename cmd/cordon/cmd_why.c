/* SPDX-License-Identifier: Apache-2.0 */
/* cordon why: would it pass, by which rule, and what would allow it. */
#include <limits.h>
#include <string.h>

#include "base/err.h"
#include "base/json_write.h"
#include "out.h"
#include "verbs.h"

#define STATUS_REFUSED 1

static int fail(const struct cordon_error *err)
{
	say_error(err);
	return STATUS_FAILED;
}

/* "read: no, nothing shows it (fs.read); -r PATH allows it" */
static void add_line(struct strbuf *sb, const struct cordon_verdict *v)
{
	strbuf_printf(sb, "%s ", strcmp(v->what, "execve") == 0 ? "execute" : v->what);
	strbuf_add_escaped(sb, v->target, strlen(v->target));
	strbuf_printf(sb, ": %s, %s", v->allowed ? "yes" : "no", v->reason);
	if (v->rule)
		strbuf_printf(sb, " (%s)", v->rule);
	if (v->fix) {
		strbuf_puts(sb, "; allow it with ");
		strbuf_add_escaped(sb, v->fix, strlen(v->fix));
	}
	strbuf_putc(sb, '\n');
}

static void add_json(struct strbuf *sb, const char *subject, const struct cordon_verdict *v,
		     size_t n)
{
	struct json_writer w;

	json_writer_init(&w, sb, 1);
	json_open_object(&w, NULL);
	json_string(&w, "subject", subject);
	json_open_array(&w, "verdicts");
	for (size_t i = 0; i < n; i++) {
		json_open_object(&w, NULL);
		json_string(&w, "what", v[i].what);
		json_string(&w, "target", v[i].target);
		json_bool(&w, "allowed", v[i].allowed != 0);
		json_string(&w, "rule", v[i].rule);
		json_string(&w, "reason", v[i].reason);
		json_string(&w, "fix", v[i].fix);
		json_close_object(&w);
	}
	json_close_array(&w);
	json_close_object(&w);
	strbuf_putc(sb, '\n');
}

static int ask(const struct parsed *args, const struct cordon_policy *policy,
	       struct cordon_verdict **ret, size_t *ret_n, struct cordon_error *err)
{
	struct cordon_launcher *launcher;
	struct cordon_run_options options;
	char home[PATH_MAX];
	int r = cordon_launcher_new(&launcher, err);

	if (r < 0)
		return r;
	run_options_init(&options, args, home, sizeof(home));
	options.argv = NULL;
	r = cordon_why(launcher, policy, &options, args->rest[0], ret, ret_n, err);
	cordon_launcher_free(launcher);
	return r;
}

int cmd_why(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *policy = NULL;
	struct cordon_verdict *v = NULL;
	struct strbuf sb = STRBUF_INIT;
	size_t n = 0;
	int status;

	if (args->n_rest != 1) {
		cordon_err(&err, CORDON_E_USAGE, 0, "'why' takes one path, host or program");
		cordon_err_hint(&err, "try 'cordon why --help'");
		return fail(&err);
	}
	if (cordon_policy_new(&policy, &err) < 0 || policy_from_options(policy, args, &err) < 0 ||
	    ask(args, policy, &v, &n, &err) < 0) {
		cordon_policy_free(policy);
		return fail(&err);
	}
	cordon_policy_free(policy);
	if (parsed_has(args, OPT_JSON))
		add_json(&sb, args->rest[0], v, n);
	else
		for (size_t i = 0; i < n; i++)
			add_line(&sb, &v[i]);
	status = v[0].allowed ? 0 : STATUS_REFUSED;
	cordon_free(v);
	return out_finish(&sb, status);
}

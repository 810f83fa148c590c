/* SPDX-License-Identifier: Apache-2.0 */
/* cordon mcp: the verb. */
#include <unistd.h>

#include "base/err.h"
#include "config.h"
#include "base/macros.h"
#include "mcp.h"
#include "out.h"
#include "server.h"
#include "signals.h"
#include "verbs.h"

static int fail(const struct cordon_error *err)
{
	say_error(err);
	return STATUS_FAILED;
}

static int serve(const struct parsed *args)
{
	static struct server server;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct signals signals;
	int status;

	if (server_init(&server, args, &err) < 0 || signals_init(&signals, 0, &err) < 0)
		return fail(&err);
	if (isatty(STDIN_FILENO) && !parsed_has(args, OPT_QUIET))
		say_note("this is an MCP server: it waits for a client's messages on standard "
			 "input; Ctrl-C ends it");
	client_init(&server);
	status = server_serve(&server, signals.fd);
	client_done(&server);
	server_end_workspace(&server);
	server_done(&server);
	return status;
}

/* Somebody else's server, as `cordon run` would run it, without a terminal. */
static int wrap(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	static struct parsed run; /* used to the end of the process */

	run = *args;
	run.seen[OPT_NO_TERMINAL / 64] |= UINT64_C(1) << (OPT_NO_TERMINAL % 64);
	if (!args->n_rest) {
		cordon_err(&err, CORDON_E_USAGE, 0, "--wrap needs a server");
		cordon_err_hint(&err, "cordon mcp --wrap [OPTIONS] -- SERVER [ARG...]");
		return fail(&err);
	}
	return cmd_run(&run);
}

/* Which of the things that this verb does; OPT_MAX: it serves. -1: two at once. */
static int choose(const struct parsed *args, struct cordon_error *err)
{
	static const int modes[] = { OPT_WRAP, OPT_WRAP_CONFIG, OPT_PRINT_CONFIG, OPT_SELFTEST };
	int mode = OPT_MAX;

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		if (!parsed_has(args, modes[i]))
			continue;
		if (mode != OPT_MAX) {
			cordon_err(err, CORDON_E_USAGE, 0, "--%s and --%s exclude each other",
				   option_table[mode].name, option_table[modes[i]].name);
			return -1;
		}
		mode = modes[i];
	}
	return mode;
}

/* Options that some of it has no use for: better an error than silence. */
static int check(const struct parsed *args, int mode, struct cordon_error *err)
{
	static const struct {
		int id, with, or_with;
	} rules[] = {
		{ OPT_RECEIPT, OPT_WRAP, OPT_WRAP_CONFIG },
		{ OPT_PRIVATE, OPT_WRAP, OPT_WRAP_CONFIG },
		{ OPT_YES, OPT_WRAP_CONFIG, OPT_WRAP_CONFIG },
	};
	static const int serving[] = { OPT_DIRECT, OPT_ALLOW_COMMIT };

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (parsed_has(args, rules[i].id) && mode != rules[i].with &&
		    mode != rules[i].or_with)
			return cordon_err(err, CORDON_E_USAGE, 0, "--%s needs --%s",
					  option_table[rules[i].id].name,
					  option_table[rules[i].with].name);
	for (size_t i = 0; i < ARRAY_SIZE(serving); i++)
		if (parsed_has(args, serving[i]) && (mode == OPT_WRAP || mode == OPT_WRAP_CONFIG))
			return cordon_err(err, CORDON_E_USAGE, 0,
					  "--%s is for the server's own tools, not for --%s",
					  option_table[serving[i]].name, option_table[mode].name);
	if (mode == OPT_SELFTEST && args->n_rest && args->n_options > 1)
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "--selftest takes no other options beside a command: they belong "
				  "to that");
	if (args->n_rest && mode != OPT_WRAP && mode != OPT_SELFTEST) {
		cordon_err(err, CORDON_E_USAGE, 0, "unexpected word '%s'", args->rest[0]);
		return cordon_err_hint(err, "the server itself takes options only; --wrap -- "
					    "SERVER runs another one");
	}
	return 0;
}

int cmd_mcp(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	int mode = choose(args, &err);

	if (mode < 0 || check(args, mode, &err) < 0)
		return fail(&err);
	if (mode == OPT_WRAP)
		return wrap(args);
	if (mode == OPT_WRAP_CONFIG)
		return mcp_wrap_config(args);
	if (mode == OPT_PRINT_CONFIG)
		return mcp_print_config(args);
	return mode == OPT_SELFTEST ? mcp_selftest(args) : serve(args);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* cordon mcp: the verb. */
#include <unistd.h>

#include "base/err.h"
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

	if (args->n_rest) {
		cordon_err(&err, CORDON_E_USAGE, 0, "unexpected word '%s'", args->rest[0]);
		cordon_err_hint(&err, "the server itself takes options only; --wrap -- SERVER runs "
				      "another one");
		return fail(&err);
	}
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

int cmd_mcp(const struct parsed *args)
{
	return serve(args);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was refused to a command that goes on: its session's gateway counts, and whoever reads what
 * the command says on another way than standard error brings the words along. What a command was
 * refused from its start to its end is part of its result (session_command.c).
 */
#include <string.h>

#include "base/err.h"
#include "base/path.h"
#include "format/gateway.h"
#include "launch/gateway.h"
#include "launch/session.h"
#include "plan/plan_read.h"

void refusals_mark(struct cordon_command *c)
{
	const struct cordon_run *run = c->session->run;

	memset(c->refused, 0, sizeof(c->refused));
	for (uint32_t i = 0; i < gateway_n_refusals(run); i++)
		c->refused[i] = gateway_refusal(run, i, NULL, NULL);
}

/* More than are listed: which does not matter any more. */
static void add_rest(struct cordon_denial *ret, size_t *n, uint32_t n_more, struct arena *arena)
{
	const struct cordon_denial rest = {
		.what = "connect",
		.target = arena_printf(arena, "%u more that are not listed", n_more),
		.rule = "net.allow",
		.how = "enforced",
		.count = n_more,
	};

	if (n_more && rest.target)
		ret[(*n)++] = rest;
}

size_t refusals_of_network(struct cordon_command *c, struct arena *arena,
			   struct cordon_denial ret[REFUSALS_NET_MAX])
{
	const struct cordon_run *run = c->session->run;
	uint32_t n_more = 0;
	size_t n = 0;

	for (uint32_t i = 0; i < gateway_n_refusals(run); i++) {
		uint32_t count = gateway_refusal(run, i, NULL, NULL), new = count - c->refused[i];

		if (!new)
			continue;
		c->refused[i] = count;
		if (n + 1 >= REFUSALS_NET_MAX)
			n_more++;
		else if (gateway_refusal(run, i, arena, &ret[n]))
			ret[n++].count = new;
	}
	add_rest(ret, &n, n_more, arena);
	return n;
}

int cordon_command_refusals(struct cordon_command *c, const char *text, size_t len,
			    const struct cordon_denial **ret, size_t *ret_n,
			    struct cordon_error *err)
{
	struct cordon_run *run = c->session->run;
	char cwd[PATH_MAX];
	struct said_subject subject = {
		.arena = &c->later_arena,
		.has_failed = true,
		.tells_files = run->options.tells_files,
	};
	size_t n = 0;
	int r = 0;

	pthread_mutex_lock(&run->lock);
	arena_done(&c->later_arena);
	c->later_arena = (struct arena)ARENA_INIT;
	subject.plan = run->plan;
	if (run->plan && len) {
		const struct plan_header *h = run->plan->block;

		r = path_normalise(plan_string(h, h->cwd), c->cwd ? c->cwd : ".", cwd, sizeof(cwd));
		subject.cwd = cwd;
		n = r < 0 ? 0 : said_look_at(&subject, text, len, c->later);
	}
	n += refusals_of_network(c, &c->later_arena, c->later + n);
	pthread_mutex_unlock(&run->lock);
	if (r < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -r, "the command's directory");
	*ret = c->later;
	*ret_n = n;
	return 0;
}

int cordon_run_refusals(struct cordon_run *run, const char *text, size_t len,
			const struct cordon_denial **ret, size_t *ret_n, struct cordon_error *err)
{
	struct said_subject subject = {
		.arena = &run->arena,
		.has_failed = true,
		.tells_files = run->options.tells_files,
	};
	struct cordon_denial *denials;
	size_t n = 0;

	pthread_mutex_lock(&run->lock);
	denials = arena_alloc(&run->arena, SAID_DENIALS_MAX * sizeof(*denials));
	subject.plan = run->plan;
	if (denials && run->plan)
		n = said_look_at(&subject, text, len, denials);
	pthread_mutex_unlock(&run->lock);
	if (!denials)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	*ret = denials;
	*ret_n = n;
	return 0;
}

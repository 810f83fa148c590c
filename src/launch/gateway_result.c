/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the gateway's account to the receipt. The gateway has read the guest's bytes, so nothing in
 * the account is believed: counts are bounded, text is cut and cleaned, reasons must be known.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"
#include "format/steps.h"
#include "launch/gateway.h"
#include "launch/launch.h"
#include "net/rule.h"

int gateway_error(const struct cordon_run *run, struct cordon_error *err)
{
	const struct gateway_account *a = run->gateway.account;
	uint32_t step;
	const char *doing;

	if (!a || !a->failed_at)
		return 0;
	step = a->failed_at;
	doing = gateway_step_text(step);
	cordon_err(err, CORDON_E_SETUP, a->failed_errno > 0 ? a->failed_errno : EPROTO,
		   "the gateway failed at %s", doing ? doing : "starting");
	err->stage = STAGE_NET;
	if (step == GATEWAY_STEP_IDS)
		cordon_err_hint(err, "root needs CAP_SETUID and CAP_SETGID for --net-allow, so "
				     "that the gateway is not root; or start Cordon as a user");
	else if (step == GATEWAY_STEP_RESOLVER)
		cordon_err_hint(err, "it is read as a whole: /etc/hosts may have 8 MiB, "
				     "/etc/resolv.conf 256 KiB");
	else if (step == GATEWAY_STEP_FDS)
		cordon_err_hint(err, "the hard limit of open files is too low: ulimit -Hn 2048");
	else
		cordon_err_hint(err, "'cordon check' says what this machine offers");
	return 1;
}

/* A copy: the gateway can change its account at any time. */
struct refusal {
	unsigned reason, port;
	char host[NET_NAME_MAX + 1], other[NET_NAME_MAX + 1];
};

static void copy_text(char *ret, size_t cap, const char *text)
{
	size_t i;

	for (i = 0; i + 1 < cap && text[i]; i++)
		ret[i] = text[i] >= ' ' && text[i] < 0x7f ? text[i] : '?';
	ret[i] = '\0';
}

static const struct {
	const char *rule; /* policy key */
	const char *note; /* what the target does not say by itself */
} reasons[GATEWAY_R_MAX] = {
	[GATEWAY_R_NOT_LISTED] = { "net.allow", NULL },
	[GATEWAY_R_DENIED] = { "net.deny", NULL },
	[GATEWAY_R_PORT] = { "net.allow", NULL },
	[GATEWAY_R_SPECIAL] = { "net.allow", "its address is not public" },
	[GATEWAY_R_SNI] = { "net.allow", "a TLS hello for another name" },
	[GATEWAY_R_NO_SNI] = { "net.allow", "a TLS hello without a name" },
	[GATEWAY_R_NOT_TLS] = { "net.allow", "not TLS" },
	[GATEWAY_R_HOST] = { "net.allow", "a request for another host" },
	[GATEWAY_R_HTTP] = { "net.allow", "not a clear HTTP request" },
	[GATEWAY_R_CONNECTIONS] = { "net.allow", "too many connections at once" },
	[GATEWAY_R_RATE] = { "net.allow", "too many connections in a second" },
	[GATEWAY_R_BYTES] = { "net.max", "the bytes were used up" },
	[GATEWAY_R_NAMES] = { "net.allow", "too many different names" },
	[GATEWAY_R_ALIAS] = { "net.deny", "an alias of a name that is denied" },
	[GATEWAY_R_PROXY] = { "net.allow", "not a request that a proxy understands" },
};

/* "host:port", with brackets where they are needed. */
static const char *with_port(struct arena *arena, const char *host, unsigned port)
{
	if (port == 0)
		return arena_strdup(arena, host);
	return arena_printf(arena, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
}

/* Addresses that names get inside. Allowing one does not help. */
static bool is_of_pool(const struct net_addr *addr)
{
	static const struct net_addr pool = { 0, { 198, 18 } };
	static const struct net_addr pool6 = { 1, GATEWAY_POOL6 };

	return net_addr_is_in(addr, &pool, 15) || net_addr_is_in(addr, &pool6, 96);
}

/* Would it help to allow @host? Not if it is allowed already, or not a valid host. */
static bool can_be_allowed(const struct cordon_run *run, const char *host, unsigned port)
{
	const struct gateway_config *c = run->plan->gateway;
	const struct net_rules rules = { c->rules, c->rules + c->n_allow, c->n_allow, c->n_deny };
	struct net_addr addr;
	char name[NET_NAME_MAX + 1];

	if (port == 53)
		return false;
	if (net_addr_parse(host, strlen(host), &addr) == 0)
		return !is_of_pool(&addr) &&
		       net_judge_address(&rules, &addr, (uint16_t)port) != NET_DENIED;
	if (net_name_parse(host, strlen(host), name) < 0)
		return false;
	switch (net_judge_name(&rules, name, (uint16_t)port)) {
	case NET_NOT_LISTED:
	case NET_OTHER_PORT:
		return true;
	case NET_ALLOWED:
	case NET_DENIED:
	case NET_SPECIAL:
		break;
	}
	return false;
}

static const char *allow_flag(const struct cordon_run *run, struct arena *arena, const char *host,
			      unsigned port)
{
	const char *target;

	if (!can_be_allowed(run, host, port))
		return NULL;
	target = with_port(arena, host, port);
	return target ? arena_printf(arena, "--net-allow %s", target) : NULL;
}

/* The flag for an address that an allowed name has, with the ports of the name's rules. */
static const char *allow_address(const struct cordon_run *run, struct arena *arena,
				 const char *name, const char *addr)
{
	const struct gateway_config *c = run->plan->gateway;
	const struct net_rules rules = { c->rules, c->rules + c->n_allow, c->n_allow, c->n_deny };
	const char *fix;
	unsigned n = 0;

	fix = strchr(addr, ':') ? arena_printf(arena, "--net-allow [%s]", addr)
				: arena_printf(arena, "--net-allow %s", addr);
	for (uint32_t i = 0; i < c->n_ports && fix && n < NET_RULE_PORTS_MAX; i++) {
		if (net_judge_name(&rules, name, c->ports[i]) == NET_ALLOWED)
			fix = arena_printf(arena, "%s%c%u", fix, n++ ? ',' : ':', c->ports[i]);
	}
	return can_be_allowed(run, addr, 0) ? fix : NULL;
}

static const char *fix_of(const struct cordon_run *run, struct arena *arena,
			  const struct refusal *r)
{
	char size[UNITS_TEXT_MAX];

	switch (r->reason) {
	case GATEWAY_R_NOT_LISTED:
	case GATEWAY_R_PORT:
		return allow_flag(run, arena, r->host, r->port);
	case GATEWAY_R_SPECIAL:
		if (!r->other[0])
			return allow_flag(run, arena, r->host, r->port);
		return r->port ? allow_flag(run, arena, r->other, r->port)
			       : allow_address(run, arena, r->host, r->other);
	case GATEWAY_R_SNI:
	case GATEWAY_R_HOST:
		return allow_flag(run, arena, r->other, r->port);
	case GATEWAY_R_BYTES:
		return arena_printf(
			arena, "--net-max %s",
			units_format_size((int64_t)(2 * run->plan->gateway->max_bytes), size));
	default:
		return NULL;
	}
}

static const char *target_of(struct arena *arena, const struct refusal *r)
{
	bool is_other = r->reason == GATEWAY_R_SNI || r->reason == GATEWAY_R_HOST;
	const char *note = reasons[r->reason].note;
	const char *target = with_port(arena, is_other ? r->other : r->host, r->port);

	if (!target || !note)
		return target;
	if (r->reason == GATEWAY_R_PROXY)
		return arena_printf(arena, "the proxy (%s: %s)", note, r->other);
	if (is_other)
		return arena_printf(arena, "%s (%s, %s)", target, note, r->host);
	if (r->other[0])
		return arena_printf(arena, "%s (%s: %s)", target, note, r->other);
	return arena_printf(arena, "%s (%s)", target, note);
}

uint32_t gateway_refusal(const struct cordon_run *run, uint32_t i, struct arena *arena,
			 struct cordon_denial *ret)
{
	const struct gateway_account *a = run->gateway.account;
	struct refusal r = { .reason = 0 };
	uint32_t count;

	if (i >= gateway_n_refusals(run))
		return 0;
	r.reason = a->denials[i].reason;
	r.port = a->denials[i].port;
	count = __atomic_load_n(&a->denials[i].count, __ATOMIC_RELAXED);
	if (r.reason == 0 || r.reason >= GATEWAY_R_MAX)
		return 0;
	if (!ret)
		return count;
	copy_text(r.host, sizeof(r.host), a->denials[i].host);
	copy_text(r.other, sizeof(r.other), a->denials[i].other);
	*ret = (struct cordon_denial){
		.what = r.port || r.reason == GATEWAY_R_PROXY ? "connect" : "resolve",
		.target = target_of(arena, &r),
		.rule = reasons[r.reason].rule,
		.fix = fix_of(run, arena, &r),
		.how = "enforced",
		.count = count,
	};
	return ret->target ? count : 0;
}

uint32_t gateway_n_refusals(const struct cordon_run *run)
{
	const struct gateway_account *a = run->gateway.account;
	uint32_t n = a ? __atomic_load_n(&a->n_denials, __ATOMIC_ACQUIRE) : 0;

	return n < GATEWAY_DENIALS_MAX ? n : GATEWAY_DENIALS_MAX;
}

/* Without its gateway a run has no network; nothing was opened by its end. */
static void add_loss(struct cordon_run *run)
{
	const struct cordon_denial denial = {
		.what = "gateway",
		.target = run->gateway.wait_status
				  ? arena_printf(&run->arena,
						 "it was ended by signal %d; there was no network "
						 "from then on",
						 run->gateway.wait_status)
				  : "it ended; there was no network from then on",
		.rule = "net.allow",
	};

	if (denial.target)
		result_deny(run, &denial);
}

static void add_rest(struct cordon_run *run, uint32_t n)
{
	const struct cordon_denial denial = {
		.what = "connect",
		.target = arena_printf(&run->arena, "%u more that are not listed", n),
		.rule = "net.allow",
		.count = n,
	};

	if (denial.target)
		result_deny(run, &denial);
}

/* @count: 0 = not known. */
static void add_attempt(struct cordon_run *run, const char *what, const char *target,
			const char *fix, uint64_t count)
{
	const struct cordon_denial denial = {
		.what = what,
		.target = target,
		.rule = "net.allow",
		.fix = fix,
		.how = "observed",
		.count = count,
	};

	if (target)
		result_deny(run, &denial);
}

/* What a command without a network asked for: its own words, which init has cut and cleaned. */
static void add_asked(struct cordon_run *run, const struct control_asked *asked)
{
	for (uint32_t i = 0; i < asked->n_names && i < CONTROL_ASKED_MAX; i++) {
		char name[NET_NAME_MAX + 1], parsed[NET_NAME_MAX + 1];
		bool is_name;

		copy_text(name, sizeof(name), asked->names[i]);
		is_name = net_name_parse(name, strlen(name), parsed) == 0;
		add_attempt(run, "resolve", arena_strdup(&run->arena, name),
			    is_name ? arena_printf(&run->arena, "--net-allow %s", name) : NULL, 0);
	}
	if (asked->has_more)
		add_attempt(run, "resolve", "more names than are listed", NULL, 0);
	else if (asked->n_unread)
		add_attempt(run, "resolve",
			    arena_printf(&run->arena,
					 "perhaps %s names (datagrams to closed ports that were "
					 "not looked at: %ju)",
					 asked->n_names ? "other" : "some",
					 (uintmax_t)asked->n_unread),
			    NULL, 0);
}

/* There was no gateway that could know more. */
static void add_without_network(struct cordon_run *run)
{
	uint64_t n = run->report.no_routes;

	if (!run->plan || (run->plan->gateway && run->plan->gateway->n_allow))
		return;
	if (run->asked)
		add_asked(run, run->asked);
	if (n)
		add_attempt(run, "connect",
			    n == 1 ? "another machine by its address"
				   : arena_printf(&run->arena,
						  "other machines by their address, %ju times",
						  (uintmax_t)n),
			    "--net-allow ADDRESS", n);
}

void gateway_account(struct cordon_run *run)
{
	const struct gateway_account *a = run->gateway.account;
	struct cordon_result *res = &run->result;

	res->published = run->gateway.published;
	res->n_published = run->gateway.n_published;
	add_without_network(run);
	if (!a)
		return;
	res->net_bytes_in = a->bytes_in;
	res->net_bytes_out = a->bytes_out;
	for (uint32_t i = 0; i < gateway_n_refusals(run); i++) {
		struct cordon_denial denial;

		if (gateway_refusal(run, i, &run->arena, &denial))
			result_deny(run, &denial);
	}
	if (a->n_more)
		add_rest(run, a->n_more);
	if (run->gateway.is_lost && a->is_ready)
		add_loss(run);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a name to addresses. Nothing is sent for a name that no rule allows: callers check the
 * rules, and they are checked again here.
 *
 * A callback may call back in (ask again, cancel others). So a result is stored and its lookup
 * freed before any callback runs, and the waiters to be called are marked first and then taken one
 * at a time.
 */
#include "gateway/resolve.h"

#include <linux/errno.h>

#define TTL_MIN 5
#define TTL_MAX 300
#define TTL_NEGATIVE_MAX 30
#define TTL_FAILED 1  /* long enough to stop a storm, short enough for a network that comes back */
#define TTL_HOSTS 300 /* it never changes; until then it is not looked up again */
#define DELAY_NS (50 * MS) /* that the second family may be late (RFC 8305, 3) */

enum {
	V4,
	V6
};

struct lookup {
	struct name *name; /* NULL = this place is free */
	uint32_t candidate;
	bool had_failure, had_empty; /* of earlier candidates */
	uint32_t ttl;
	uint64_t late_ns; /* the second family is too late then */
	struct ask asks[2];
	char asked[NET_NAME_MAX + 1];
};

struct waiter {
	void (*done)(struct gateway *, void *, struct name *); /* NULL = free */
	void *arg;
	const struct lookup *lookup; /* NULL = it is over */
	struct name *name;
};

static struct lookup lookups[LOOKUPS_MAX];
static struct waiter waiters[WAITERS_MAX];
static uint8_t frames[LOOKUPS_MAX][2][2 + DNS_MESSAGE_MAX];
static unsigned n_lookups;

static uint32_t clamp(uint32_t value, uint32_t min, uint32_t max)
{
	return value < min ? min : value > max ? max : value;
}

static void set_failed(struct name *name, enum dns_rcode rcode)
{
	name->rcode = (uint8_t)rcode;
	name->n_addrs = 0;
	name->fresh_until_ns = 0;
	name->denied.ports = 0;
}

/* Calls those that wait for a lookup that is over. */
static void tell_waiters(struct gateway *g)
{
	for (size_t i = 0; i < WAITERS_MAX; i++) {
		struct waiter *w = &waiters[i];
		void (*done)(struct gateway *, void *, struct name *) = w->done;

		if (!done || w->lookup)
			continue;
		w->done = NULL;
		done(g, w->arg, w->name);
	}
}

static struct waiter *waiter_new(void)
{
	for (size_t i = 0; i < WAITERS_MAX; i++) {
		if (!waiters[i].done)
			return &waiters[i];
	}
	return NULL;
}

static void release(struct gateway *g, struct lookup *l)
{
	for (int i = V4; i <= V6; i++)
		ask_stop(g, &l->asks[i]);
	l->name = NULL;
	n_lookups--;
}

static void finish(struct gateway *g, struct lookup *l)
{
	release(g, l);
	for (size_t i = 0; i < WAITERS_MAX; i++) {
		if (waiters[i].done && waiters[i].lookup == l)
			waiters[i].lookup = NULL;
	}
	tell_waiters(g);
}

/*
 * May @asked be asked for, which stands for @name by the host's search list? Only for a name that
 * the rules name as a whole: below one with a star the guest chooses what is sent, and it would be
 * sent to domains that no rule knows.
 */
static bool may_ask(const struct net_rules *rules, const char *name, const char *asked)
{
	if (net_name_equal(name, asked))
		return true;
	for (size_t i = 0; i < rules->n_allow; i++) {
		const struct net_rule *rule = &rules->allow[i];

		if (rule->type == NET_RULE_NAME && net_name_equal(rule->name, name))
			/* A denied name must not be reached by another name for it. */
			return net_judge_name(rules, asked, 0) != NET_DENIED;
	}
	return false;
}

/* Both questions for the next name that there is to try; false if there is none. */
static bool next_candidate(struct gateway *g, struct lookup *l)
{
	int r;

	while ((r = resolve_candidate(&resolve_conf, l->name->text, l->candidate++, l->asked)) >=
	       0) {
		if (r == 0 || !may_ask(&g->rules, l->name->text, l->asked))
			continue;
		l->late_ns = NEVER;
		for (int i = V4; i <= V6; i++)
			ask_start(g, &l->asks[i], l->asked);
		return true;
	}
	return false;
}

static bool has_addrs(const struct ask *ask)
{
	return ask->state == ASK_DONE && ask->response.n_addrs > 0;
}

/* Is there nothing to wait for any more? */
static bool is_settled(struct gateway *g, struct lookup *l)
{
	const struct ask *v4 = &l->asks[V4], *v6 = &l->asks[V6];

	if (v4->state == ASK_DONE && v6->state == ASK_DONE)
		return true;
	if (!has_addrs(v4) && !has_addrs(v6))
		return false;
	if (l->late_ns == NEVER)
		l->late_ns = g->now_ns + DELAY_NS;
	wake_at(g, l->late_ns);
	return g->now_ns >= l->late_ns;
}

/* What both families say together about a name without addresses. */
static enum dns_rcode rcode_of(const struct lookup *l)
{
	enum dns_rcode a = l->asks[V4].response.rcode, b = l->asks[V6].response.rcode;

	/* A name that does not exist has no records at all, so one such answer would do. But some
	 * servers give it for a type they do not know, so not if the other one says it exists. */
	if (a == DNS_NXDOMAIN || b == DNS_NXDOMAIN)
		return a == DNS_NOERROR || b == DNS_NOERROR ? DNS_NOERROR : DNS_NXDOMAIN;
	return a == DNS_NOERROR && b == DNS_NOERROR ? DNS_NOERROR : DNS_SERVFAIL;
}

static void add_denied(struct denied_alias *ret, const struct denied_alias *more)
{
	if (ret->ports == 0)
		memcpy(ret->text, more->text, sizeof(ret->text));
	ret->ports |= more->ports;
}

static void keep_addresses(struct gateway *g, struct lookup *l)
{
	static const struct dns_response none;
	const struct dns_response *found[2];
	struct name *name = l->name;
	uint32_t ttl = TTL_MAX;

	memset(&name->denied, 0, sizeof(name->denied));
	/* By the search list: the name that it stands for. */
	if (!net_name_equal(name->text, l->asked))
		note_alias(g, &name->denied, l->asked);
	for (int i = V4; i <= V6; i++) {
		found[i] = has_addrs(&l->asks[i]) ? &l->asks[i].response : &none;
		if (found[i]->n_addrs > 0)
			add_denied(&name->denied, &l->asks[i].denied);
		if (found[i]->n_addrs > 0 && found[i]->ttl < ttl)
			ttl = found[i]->ttl;
	}
	name->rcode = DNS_NOERROR;
	name->n_addrs = (uint8_t)resolve_merge(found[V4], found[V6], name->addrs,
					       sizeof(name->addrs) / sizeof(name->addrs[0]));
	name->fresh_until_ns = g->now_ns + clamp(ttl, TTL_MIN, TTL_MAX) * SECOND;
}

/* No candidate has an address. */
static void keep_nothing(struct gateway *g, struct lookup *l)
{
	enum dns_rcode rcode = DNS_NXDOMAIN;
	uint32_t ttl = clamp(l->ttl, TTL_MIN, TTL_NEGATIVE_MAX);

	if (l->had_failure) {
		rcode = DNS_SERVFAIL;
		ttl = TTL_FAILED;
	} else if (l->had_empty) {
		rcode = DNS_NOERROR;
	}
	set_failed(l->name, rcode);
	l->name->fresh_until_ns = g->now_ns + ttl * SECOND;
}

/* Adds what this candidate came to; is there any use in trying another one? */
static bool goes_on(struct lookup *l)
{
	enum dns_rcode rcode = rcode_of(l);
	bool was_heard = l->asks[V4].was_heard || l->asks[V6].was_heard;
	/* A name with a dot that exists as it was asked for: the search list is not used. */
	bool is_meant = l->candidate == 1 && net_name_equal(l->asked, l->name->text);

	for (int i = V4; i <= V6; i++) {
		if (l->asks[i].response.ttl < l->ttl)
			l->ttl = l->asks[i].response.ttl;
	}
	if (rcode == DNS_SERVFAIL)
		l->had_failure = true;
	if (rcode == DNS_NOERROR)
		l->had_empty = true;
	/* Servers that do not answer will not answer for another name either. */
	return was_heard && (rcode == DNS_NXDOMAIN || !is_meant);
}

void lookup_step(struct gateway *g, struct lookup *l)
{
	while (is_settled(g, l)) {
		if (has_addrs(&l->asks[V4]) || has_addrs(&l->asks[V6])) {
			keep_addresses(g, l);
			finish(g, l);
			return;
		}
		if (!goes_on(l) || !next_candidate(g, l)) {
			keep_nothing(g, l);
			finish(g, l);
			return;
		}
	}
}

static struct lookup *lookup_of(const struct name *name)
{
	for (size_t i = 0; i < LOOKUPS_MAX && n_lookups > 0; i++) {
		if (lookups[i].name == name)
			return &lookups[i];
	}
	return NULL;
}

static bool is_wanted(const struct lookup *l)
{
	for (size_t i = 0; i < WAITERS_MAX; i++) {
		if (waiters[i].done && waiters[i].lookup == l)
			return true;
	}
	return false;
}

/* The index of a free place. One without waiters gives way; -1 if there is none. */
static int free_place(struct gateway *g)
{
	for (int i = 0; i < LOOKUPS_MAX; i++) {
		if (!lookups[i].name)
			return i;
	}
	for (int i = 0; i < LOOKUPS_MAX; i++) {
		if (is_wanted(&lookups[i]))
			continue;
		release(g, &lookups[i]);
		return i;
	}
	return -1;
}

static struct lookup *lookup_new(struct gateway *g, struct name *name)
{
	int at = free_place(g);
	struct lookup *l;

	if (at < 0)
		return NULL;
	l = &lookups[at];
	memset(l, 0, sizeof(*l));
	l->name = name;
	l->ttl = TTL_NEGATIVE_MAX;
	for (int i = V4; i <= V6; i++) {
		l->asks[i].source.fd = -1;
		l->asks[i].lookup = l;
		l->asks[i].is_v6 = i == V6;
		l->asks[i].frame = frames[at][i];
	}
	n_lookups++;
	return l;
}

/* Without asking a server: still known, the host itself, or in /etc/hosts. */
static bool is_known(struct gateway *g, struct name *name)
{
	static const struct net_addr loopback[2] = {
		{ .bytes = { 127, 0, 0, 1 } },
		{ .is_v6 = 1, .bytes = { [15] = 1 } },
	};
	size_t n;

	if (name->fresh_until_ns > g->now_ns)
		return true;
	if (net_name_equal(name->text, "localhost") || net_name_is_below(name->text, "localhost")) {
		memcpy(name->addrs, loopback, sizeof(loopback));
		n = 2;
	} else {
		struct net_addr addrs[DNS_ADDRS_MAX];

		n = hosts_find(&resolve_hosts, name->text, addrs, DNS_ADDRS_MAX);
		if (n == 0)
			return false;
		memcpy(name->addrs, addrs, n * sizeof(addrs[0]));
	}
	name->rcode = DNS_NOERROR;
	name->denied.ports = 0;
	name->n_addrs = (uint8_t)n;
	name->fresh_until_ns = g->now_ns + TTL_HOSTS * SECOND;
	return true;
}

void resolve(struct gateway *g, struct name *name,
	     void (*done)(struct gateway *, void *, struct name *), void *arg)
{
	struct lookup *l;
	struct waiter *w;

	if (net_judge_name(&g->rules, name->text, 0) != NET_ALLOWED) {
		set_failed(name, DNS_REFUSED);
		done(g, arg, name);
		return;
	}
	if (is_known(g, name)) {
		done(g, arg, name);
		return;
	}
	w = waiter_new();
	l = lookup_of(name);
	if (w && l) {
		*w = (struct waiter){ done, arg, l, name };
		return;
	}
	l = w ? lookup_new(g, name) : NULL;
	if (!l) {
		set_failed(name, DNS_SERVFAIL);
		done(g, arg, name);
		return;
	}
	*w = (struct waiter){ done, arg, l, name };
	if (next_candidate(g, l)) {
		lookup_step(g, l);
	} else {
		keep_nothing(g, l);
		finish(g, l);
	}
}

void resolve_cancel(void (*done)(struct gateway *, void *, struct name *), const void *arg)
{
	for (size_t i = 0; i < WAITERS_MAX; i++) {
		if (waiters[i].done == done && waiters[i].arg == arg)
			waiters[i].done = NULL;
	}
}

void resolve_expire(struct gateway *g)
{
	for (size_t i = 0; i < LOOKUPS_MAX && n_lookups > 0; i++) {
		struct lookup *l = &lookups[i];

		if (!l->name)
			continue;
		for (int k = V4; k <= V6; k++)
			ask_expire(g, &l->asks[k]);
		lookup_step(g, l);
	}
}

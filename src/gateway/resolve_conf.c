/* SPDX-License-Identifier: Apache-2.0 */
/* The host's resolver configuration: bytes in, tables out. */
#include "gateway/resolve.h"

#define TIMEOUT_DEFAULT 2
#define TIMEOUT_MAX 10
#define ATTEMPTS_DEFAULT 2
#define ATTEMPTS_MAX 5

struct text {
	const char *at;
	size_t len;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static size_t length(const char *s)
{
	size_t n = 0;

	while (s[n])
		n++;
	return n;
}

static bool text_is(const struct text *text, const char *word)
{
	return text->len == length(word) && memcmp(text->at, word, text->len) == 0;
}

/* Cuts the next line off @rest; false at the end. */
static bool next_line(struct text *rest, struct text *ret)
{
	size_t n = 0;

	if (rest->len == 0)
		return false;
	while (n < rest->len && rest->at[n] != '\n')
		n++;
	*ret = (struct text){ rest->at, n };
	if (n < rest->len)
		n++;
	rest->at += n;
	rest->len -= n;
	return true;
}

/* Cuts the next word off @line; false if there is none. */
static bool next_word(struct text *line, struct text *ret)
{
	size_t from = 0, to;

	while (from < line->len && is_blank(line->at[from]))
		from++;
	to = from;
	while (to < line->len && !is_blank(line->at[to]))
		to++;
	*ret = (struct text){ line->at + from, to - from };
	line->at += to;
	line->len -= to;
	return to > from;
}

static void cut_comment(struct text *line)
{
	size_t n = 0;

	while (n < line->len && line->at[n] != '#')
		n++;
	line->len = n;
}

/* Is @name one of the words of this line? */
static bool line_has(struct text *line, const char *name, size_t len)
{
	char canonical[NET_NAME_MAX + 1];
	struct text word;

	while (next_word(line, &word)) {
		/* It may have a dot at its end. */
		if ((word.len == len || word.len == len + 1) &&
		    net_name_parse(word.at, word.len, canonical) == 0 &&
		    net_name_equal(canonical, name))
			return true;
	}
	return false;
}

size_t hosts_find(const struct hosts *hosts, const char *name, struct net_addr *ret, size_t max)
{
	struct text rest = { hosts->text, hosts->len }, line, word;
	size_t n = 0, len = length(name);
	struct net_addr addr;

	while (n < max && next_line(&rest, &line)) {
		bool is_known = false;

		cut_comment(&line);
		if (!next_word(&line, &word) || !line_has(&line, name, len) ||
		    net_addr_parse(word.at, word.len, &addr) < 0)
			continue;
		for (size_t k = 0; k < n && !is_known; k++)
			is_known = net_addr_equal(&ret[k], &addr);
		if (!is_known)
			ret[n++] = addr;
	}
	return n;
}

static void add_server(struct resolve_conf *conf, const struct text *word)
{
	struct server server = { 0 };
	size_t n = 0;

	while (n < word->len && word->at[n] != '%')
		n++;
	if (conf->n_servers == SERVERS_MAX || net_addr_parse(word->at, n, &server.addr) < 0)
		return;
	if (n < word->len) {
		size_t zone_len = word->len - n - 1;

		if (!server.addr.is_v6 || zone_len == 0 || zone_len >= ZONE_MAX)
			return;
		memcpy(server.zone, word->at + n + 1, zone_len);
	}
	conf->servers[conf->n_servers++] = server;
}

/* Of several such lines the last one counts. */
static void set_search(struct resolve_conf *conf, struct text *line, size_t max)
{
	struct text word;

	conf->n_search = 0;
	while (conf->n_search < max && next_word(line, &word)) {
		if (net_name_parse(word.at, word.len, conf->search[conf->n_search]) == 0)
			conf->n_search++;
	}
}

/* "KEY:NUMBER": the number, 1 to @max; 0 if that is not what it says. */
static uint32_t read_option(const struct text *word, const char *key, uint32_t max)
{
	size_t at = length(key);
	uint32_t number = 0;

	if (word->len <= at || memcmp(word->at, key, at) != 0)
		return 0;
	for (; at < word->len; at++) {
		if (word->at[at] < '0' || word->at[at] > '9')
			return 0;
		number = number * 10 + (uint32_t)(word->at[at] - '0');
		if (number > max)
			number = max;
	}
	return number ? number : 1;
}

static void set_options(struct resolve_conf *conf, struct text *line)
{
	struct text word;

	while (next_word(line, &word)) {
		uint32_t timeout = read_option(&word, "timeout:", TIMEOUT_MAX);
		uint32_t attempts = read_option(&word, "attempts:", ATTEMPTS_MAX);

		if (timeout)
			conf->timeout_ns = timeout * SECOND;
		if (attempts)
			conf->attempts = attempts;
		if (text_is(&word, "use-vc"))
			conf->is_tcp = true;
	}
}

void resolve_conf_read(const char *text, size_t len, struct resolve_conf *ret)
{
	struct text rest = { text, len }, line, word;

	memset(ret, 0, sizeof(*ret));
	ret->timeout_ns = TIMEOUT_DEFAULT * SECOND;
	ret->attempts = ATTEMPTS_DEFAULT;
	while (next_line(&rest, &line)) {
		if (!next_word(&line, &word) || word.at[0] == '#' || word.at[0] == ';')
			continue;
		if (text_is(&word, "nameserver") && next_word(&line, &word))
			add_server(ret, &word);
		else if (text_is(&word, "search"))
			set_search(ret, &line, SEARCH_MAX);
		else if (text_is(&word, "domain"))
			set_search(ret, &line, 1);
		else if (text_is(&word, "options"))
			set_options(ret, &line);
	}
	if (ret->n_servers == 0) {
		/* None named: the local machine, as in every C library. */
		ret->servers[0] = (struct server){ .addr = { .bytes = { 127, 0, 0, 1 } } };
		ret->n_servers = 1;
	}
}

int resolve_candidate(const struct resolve_conf *conf, const char *name, unsigned nth,
		      char ret[NET_NAME_MAX + 1])
{
	size_t len = length(name), more;
	bool has_dot = false;
	unsigned as_it_is;

	for (size_t i = 0; i < len; i++)
		has_dot |= name[i] == '.';
	as_it_is = has_dot ? 0 : conf->n_search;
	if (nth > conf->n_search || len > NET_NAME_MAX)
		return -1;
	memcpy(ret, name, len + 1);
	if (nth == as_it_is)
		return 1;
	if (has_dot)
		nth--;
	more = length(conf->search[nth]);
	if (len + 1 + more > NET_NAME_MAX)
		return 0;
	ret[len] = '.';
	memcpy(ret + len + 1, conf->search[nth], more + 1);
	return 1;
}

size_t resolve_merge(const struct dns_response *v4, const struct dns_response *v6,
		     struct net_addr *ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < DNS_ADDRS_MAX; i++) {
		if (i < v6->n_addrs && n < max)
			ret[n++] = v6->addrs[i];
		if (i < v4->n_addrs && n < max)
			ret[n++] = v4->addrs[i];
	}
	return n;
}

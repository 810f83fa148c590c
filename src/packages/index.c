/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which index: what pip and npm would use for this user, read here, since their sandbox sees none
 * of the user's files. Passwords in an address go to the installer and nowhere else: not into the
 * key, the manifest, messages or lines.
 *
 * Not read: a .npmrc or pip.conf of a project, which came with somebody's files, and find-links.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "packages/packages.h"

#define CONFIG_MAX ((size_t)1 << 20)

static int no_memory(struct cordon_error *err)
{
	return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
}

const char *env_get(const char *const *envp, const char *name)
{
	size_t len = strlen(name);

	for (; envp && *envp; envp++) {
		if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=')
			return (*envp)[len + 1] ? *envp + len + 1 : NULL;
	}
	return NULL;
}

const char *search_path_of(const struct cordon_packages_options *options)
{
	return options->search_path ? options->search_path : env_get(options->envp, "PATH");
}

/* --- addresses ----------------------------------------------------------------------------------
 */

struct address {
	const char *userinfo; /* NULL = none */
	size_t userinfo_len;
	const char *host; /* without brackets */
	size_t host_len;
	const char *rest; /* from the host on, as it was written */
	unsigned port;
};

static int parse_address(const char *url, struct address *ret)
{
	bool is_https = strncmp(url, "https://", 8) == 0;
	const char *at, *host;
	char *end;

	*ret = (struct address){ .port = is_https ? 443 : 80 };
	if (!is_https && strncmp(url, "http://", 7) != 0)
		return -EINVAL;
	host = url + (is_https ? 8 : 7);
	at = memrchr(host, '@', strcspn(host, "/?#"));
	if (at) {
		ret->userinfo = host;
		ret->userinfo_len = (size_t)(at - host);
		host = at + 1;
	}
	ret->rest = ret->host = host;
	ret->host_len = strcspn(host, ":/?#");
	if (*host == '[') {
		ret->host++;
		ret->host_len = strcspn(ret->host, "]");
		host += ret->host_len + (host[ret->host_len + 1] ? 2 : 1);
	} else {
		host += ret->host_len;
	}
	if (*host == ':') {
		ret->port = (unsigned)strtoul(host + 1, &end, 10);
		if (end == host + 1 || (*end && !strchr("/?#", *end)))
			return -EINVAL;
	}
	return ret->host_len == 0 || ret->port == 0 || ret->port > 65535 ? -EINVAL : 0;
}

const char *index_without_secret(struct arena *arena, const char *url)
{
	struct address a;

	if (parse_address(url, &a) < 0)
		return NULL;
	return arena_printf(arena, "%s://%s", url[4] == 's' ? "https" : "http", a.rest);
}

static bool ends_with(const char *text, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len >= n && strncasecmp(text + len - n, end, n) == 0;
}

bool index_is_public_host(const char *host, size_t len)
{
	const char *dot = memrchr(host, '.', len);

	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)host[i]) && host[i] != '-' && host[i] != '.')
			return false;
	}
	/* The last part of an address of IPv4 is a number, in whatever way it is written. */
	return dot && dot > host && dot + 1 < host + len && isalpha((unsigned char)dot[1]) &&
	       !ends_with(host, len, ".localhost") && !ends_with(host, len, ".localdomain") &&
	       !ends_with(host, len, ".local");
}

bool index_is_public(const char *url)
{
	struct address a;

	return parse_address(url, &a) == 0 && !a.userinfo &&
	       index_is_public_host(a.host, a.host_len);
}

static bool host_is(const struct address *a, const char *name)
{
	return strlen(name) == a->host_len && strncasecmp(a->host, name, a->host_len) == 0;
}

static int add_rule(struct request *rq, const char *rule, struct cordon_error *err)
{
	if (!rule)
		return no_memory(err);
	if (strlist_has(&rq->hosts, rule))
		return 0;
	return strlist_add(rq->arena, &rq->hosts, rule) < 0 ? no_memory(err) : 0;
}

static int add_host(struct request *rq, const struct address *a, struct cordon_error *err)
{
	struct address own;
	bool is_v6 = memchr(a->host, ':', a->host_len) != NULL;
	int r;

	if (host_is(a, "127.0.0.1") || host_is(a, "::1") || host_is(a, "localhost"))
		return add_rule(rq, arena_printf(rq->arena, "localhost:%u", a->port), err);
	r = add_rule(rq,
		     arena_printf(rq->arena, is_v6 ? "[%.*s]:%u" : "%.*s:%u", (int)a->host_len,
				  a->host, a->port),
		     err);
	/* The installer's own index may keep its files on another host. */
	if (r == 0 && rq->default_files && rq->default_index &&
	    parse_address(rq->default_index, &own) == 0 && own.host_len == a->host_len &&
	    strncasecmp(own.host, a->host, a->host_len) == 0)
		r = add_rule(rq, arena_printf(rq->arena, "%s:443", rq->default_files), err);
	return r;
}

/* The whole of it, and the password alone. */
static int add_secret(struct request *rq, const struct address *a, struct cordon_error *err)
{
	const char *colon;
	char *text;

	if (!a->userinfo || a->userinfo_len == 0)
		return 0;
	text = arena_strndup(rq->arena, a->userinfo, a->userinfo_len);
	if (!text || strlist_add(rq->arena, &rq->secrets, text) < 0)
		return no_memory(err);
	colon = strchr(text, ':');
	if (colon && colon[1] && strlist_add(rq->arena, &rq->secrets, colon + 1) < 0)
		return no_memory(err);
	return 0;
}

int index_add(struct request *rq, const char *url, struct cordon_error *err)
{
	const char *clean = index_without_secret(rq->arena, url);
	struct address a;
	int r;

	if (!clean || parse_address(url, &a) < 0) {
		(void)cordon_err(err, CORDON_E_USAGE, 0,
				 "the package index is no address of a web server");
		(void)cordon_err_hint(err, "it begins with https:// or http://; see PIP_INDEX_URL, "
					   "pip.conf and .npmrc");
		return -CORDON_E_USAGE;
	}
	r = add_secret(rq, &a, err);
	if (r == 0)
		r = add_host(rq, &a, err);
	if (r == 0 && strlist_add(rq->arena, &rq->index, clean) < 0)
		r = no_memory(err);
	return r;
}

int index_hosts(struct request *rq, const char *list, struct cordon_error *err)
{
	int r = 0;

	while (r == 0 && list && *list) {
		size_t len = strcspn(list, ", ");

		if (len > 0)
			r = add_rule(rq, arena_strndup(rq->arena, list, len), err);
		list += len + strspn(list + len, ", ");
	}
	return r;
}

/* A file with certificates that the user's settings name. One that is missing is the installer's to
 * complain about. */
int index_file(struct request *rq, const char *path, struct cordon_error *err)
{
	if (path[0] != '/' || access(path, R_OK) < 0 || strlist_has(&rq->files, path))
		return 0;
	return strlist_add(rq->arena, &rq->files, path) < 0 ? no_memory(err) : 0;
}

/* --- configuration files ------------------------------------------------------------------------
 */

static int set_env(struct request *rq, const char *name, const char *value,
		   struct cordon_error *err)
{
	const char *entry = arena_printf(rq->arena, "%s=%s", name, value);

	if (!entry || strlist_add(rq->arena, &rq->env, entry) < 0)
		return no_memory(err);
	return 0;
}

static int no_index(const char *program, const char *variable, struct cordon_error *err)
{
	(void)cordon_err(err, CORDON_E_SETUP, 0, "%s does not say which public index it uses",
			 program);
	(void)cordon_err_hint(err, "set %s", variable);
	return -CORDON_E_SETUP;
}

/* The file's text in the arena; "" if it cannot be read. */
static char *read_config(struct request *rq, const char *path)
{
	struct strbuf sb = STRBUF_INIT;
	int fd = path ? open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
	char *text = NULL;

	sb.max = CONFIG_MAX;
	if (fd >= 0) {
		if (read_strbuf(fd, &sb) == 0 && sb.data)
			text = arena_strndup(rq->arena, sb.data, sb.len);
		close(fd);
	}
	strbuf_done(&sb);
	return text ? text : arena_strdup(rq->arena, "");
}

/* Takes the next line off *@text, without blanks around it and without comments; NULL = no more. */
static char *next_line(char **text)
{
	char *line = *text, *end;

	if (!line || !*line)
		return NULL;
	end = line + strcspn(line, "\n");
	*text = *end ? end + 1 : end;
	while (end > line && strchr(" \t\r\n", end[-1]))
		end--;
	*end = '\0';
	return line;
}

/* "key = value" or "key: value": cuts @line there. NULL = it is none. */
static char *cut_value(char *line, const char *signs)
{
	char *sign = line + strcspn(line, signs), *end = sign;

	if (!*sign)
		return NULL;
	while (end > line && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*end = '\0';
	return sign + 1 + strspn(sign + 1, " \t");
}

struct pip_settings {
	const char *index, *extra, *trusted, *cert;
};

static const char **pip_setting(struct pip_settings *s, const char *key)
{
	if (!strcmp(key, "index-url") || !strcmp(key, "index_url"))
		return &s->index;
	if (!strcmp(key, "extra-index-url") || !strcmp(key, "extra_index_url"))
		return &s->extra;
	if (!strcmp(key, "trusted-host") || !strcmp(key, "trusted_host"))
		return &s->trusted;
	return !strcmp(key, "cert") ? &s->cert : NULL;
}

/* Later files win; a value may go on in indented lines. */
static int read_pip_conf(struct request *rq, const char *path, struct pip_settings *s,
			 struct cordon_error *err)
{
	char *text = read_config(rq, path), *line;
	const char **last = NULL;
	bool counts = false;

	if (!text)
		return no_memory(err);
	while ((line = next_line(&text)) != NULL) {
		char *value;

		if (!*line || *line == '#' || *line == ';')
			continue;
		if ((*line == ' ' || *line == '\t') && last) {
			line += strspn(line, " \t");
			*last = **last ? arena_printf(rq->arena, "%s %s", *last, line) : line;
			if (!*last)
				return no_memory(err);
			continue;
		}
		last = NULL;
		if (*line == '[') {
			counts = !strcmp(line, "[global]") || !strcmp(line, "[install]");
			continue;
		}
		value = counts ? cut_value(line, "=:") : NULL;
		last = value ? pip_setting(s, line) : NULL;
		if (last)
			*last = value;
	}
	return 0;
}

static int read_pip(struct request *rq, struct pip_settings *s, struct cordon_error *err)
{
	const char *const *envp = rq->options->envp;
	const char *home = rq->options->home, *own = env_get(envp, "PIP_CONFIG_FILE"), *value;
	const char *xdg = env_get(envp, "XDG_CONFIG_HOME");
	int r = read_pip_conf(rq, "/etc/pip.conf", s, err);

	if (r == 0 && home)
		r = read_pip_conf(rq, arena_printf(rq->arena, "%s/.pip/pip.conf", home), s, err);
	if (r == 0 && xdg)
		r = read_pip_conf(rq, arena_printf(rq->arena, "%s/pip/pip.conf", xdg), s, err);
	else if (r == 0 && home)
		r = read_pip_conf(rq, arena_printf(rq->arena, "%s/.config/pip/pip.conf", home), s,
				  err);
	if (r == 0 && own)
		r = read_pip_conf(rq, own, s, err);
	value = env_get(envp, "PIP_INDEX_URL");
	s->index = value ? value : s->index;
	value = env_get(envp, "PIP_EXTRA_INDEX_URL");
	s->extra = value ? value : s->extra;
	value = env_get(envp, "PIP_TRUSTED_HOST");
	s->trusted = value ? value : s->trusted;
	value = env_get(envp, "PIP_CERT");
	s->cert = value ? value : s->cert;
	return r;
}

/* A variable of the installer, if there is a value; @is_file: which names certificates. */
static int pass(struct request *rq, const char *name, const char *value, bool is_file,
		struct cordon_error *err)
{
	int r;

	if (!value || !*value)
		return 0;
	r = set_env(rq, name, value, err);
	return r == 0 && is_file ? index_file(rq, value, err) : r;
}

static int add_extra(struct request *rq, const char *list, struct cordon_error *err)
{
	int r = 0;

	while (r == 0 && list && *list) {
		size_t len = strcspn(list, " \t");
		char *url = arena_strndup(rq->arena, list, len);

		r = !url ? no_memory(err) : len > 0 ? index_add(rq, url, err) : 0;
		list += len + strspn(list + len, " \t");
	}
	return r;
}

int index_pip(struct request *rq, struct cordon_error *err)
{
	const char *certs = env_get(rq->options->envp, "REQUESTS_CA_BUNDLE");
	struct pip_settings s = { 0 };
	int r = read_pip(rq, &s, err);

	s.index = s.index && *s.index ? s.index : rq->default_index;
	if (r == 0 && !s.index)
		return no_index("pip", "PIP_INDEX_URL", err);
	if (r == 0)
		r = index_add(rq, s.index, err);
	if (r == 0)
		r = add_extra(rq, s.extra, err);
	if (r == 0)
		r = pass(rq, "PIP_CONFIG_FILE", "/dev/null", false, err);
	if (r == 0)
		r = pass(rq, "PIP_INDEX_URL", s.index, false, err);
	if (r == 0)
		r = pass(rq, "PIP_EXTRA_INDEX_URL", s.extra, false, err);
	if (r == 0)
		r = pass(rq, "PIP_TRUSTED_HOST", s.trusted, false, err);
	if (r == 0)
		r = pass(rq, "PIP_CERT", s.cert, true, err);
	return r == 0 ? pass(rq, "REQUESTS_CA_BUNDLE", certs, true, err) : r;
}

/* --- npm ----------------------------------------------------------------------------------------
 */

/* "${NAME}" in @value, as npm replaces it. */
static const char *expand(struct request *rq, const char *value)
{
	struct strbuf sb = STRBUF_INIT;
	const char *text;

	for (; *value; value++) {
		size_t len = strcspn(value, "}");
		const char *found = NULL;

		if (value[0] == '$' && value[1] == '{' && value[len]) {
			char *name = arena_strndup(rq->arena, value + 2, len - 2);

			found = name ? env_get(rq->options->envp, name) : NULL;
		}
		if (found) {
			strbuf_puts(&sb, found);
			value += len;
		} else {
			strbuf_putc(&sb, *value);
		}
	}
	text = sb.failed ? NULL : arena_strdup(rq->arena, sb.data ? sb.data : "");
	strbuf_done(&sb);
	return text;
}

struct npm_settings {
	const char *registry, *cafile;
	struct strlist keys, values; /* "//host/:_authToken" and the like */
};

static int read_npmrc(struct request *rq, const char *path, struct npm_settings *s,
		      struct cordon_error *err)
{
	char *text = read_config(rq, path), *line;

	if (!text)
		return no_memory(err);
	while ((line = next_line(&text)) != NULL) {
		const char *value;
		char *cut;

		line += strspn(line, " \t");
		cut = *line == '#' || *line == ';' ? NULL : cut_value(line, "=");
		if (!cut)
			continue;
		value = expand(rq, cut);
		if (!value)
			return no_memory(err);
		if (!strcmp(line, "registry"))
			s->registry = value;
		else if (!strcmp(line, "cafile"))
			s->cafile = value;
		else if (strncmp(line, "//", 2) == 0 && *value &&
			 (strlist_add(rq->arena, &s->keys, line) < 0 ||
			  strlist_add(rq->arena, &s->values, value) < 0))
			return no_memory(err);
	}
	return 0;
}

/* What npm's sandbox gets as its .npmrc: the tokens for this registry, no others. */
static int make_npmrc(struct request *rq, const struct npm_settings *s, struct cordon_error *err)
{
	struct address a;
	const char *text = "";
	size_t len;

	if (parse_address(s->registry, &a) < 0)
		return 0;
	len = strcspn(a.rest, "/?#");
	for (size_t i = 0; i < s->keys.n; i++) {
		const char *host = s->keys.v[i] + 2;

		if (strncmp(host, a.rest, len) != 0 || (host[len] != '/' && host[len] != ':'))
			continue;
		text = arena_printf(rq->arena, "%s%s=%s\n", text, s->keys.v[i], s->values.v[i]);
		if (!text || strlist_add(rq->arena, &rq->secrets, s->values.v[i]) < 0)
			return no_memory(err);
	}
	rq->npmrc = text;
	return 0;
}

int index_npm(struct request *rq, struct cordon_error *err)
{
	const char *const *envp = rq->options->envp;
	const char *own = env_get(envp, "NPM_CONFIG_USERCONFIG"), *value;
	struct npm_settings s = { 0 };
	int r = read_npmrc(rq, "/etc/npmrc", &s, err);

	if (r == 0 && (own || rq->options->home))
		r = read_npmrc(rq,
			       own ? own : arena_printf(rq->arena, "%s/.npmrc", rq->options->home),
			       &s, err);
	value = env_get(envp, "NPM_CONFIG_REGISTRY");
	value = env_get(envp, "npm_config_registry") ? env_get(envp, "npm_config_registry") : value;
	s.registry = value ? value : s.registry && *s.registry ? s.registry : rq->default_index;
	value = env_get(envp, "npm_config_cafile");
	s.cafile = value ? value : s.cafile;
	if (r == 0 && !s.registry)
		return no_index("npm", "npm_config_registry", err);
	if (r == 0)
		r = index_add(rq, s.registry, err);
	if (r == 0)
		r = make_npmrc(rq, &s, err);
	if (r == 0)
		r = pass(rq, "npm_config_registry", s.registry, false, err);
	if (r == 0)
		r = pass(rq, "npm_config_cafile", s.cafile, true, err);
	return r == 0 ? pass(rq, "NODE_EXTRA_CA_CERTS", env_get(envp, "NODE_EXTRA_CA_CERTS"), true,
			     err)
		      : r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The command's identity and environment: home, user, variables, ids. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "plan/plan_internal.h"

#define PASSWD_MAX ((size_t)256 << 10)
#define FALLBACK_HOME "/home/user"
#define FALLBACK_NAME "user"
#define INNER_ID 1000u /* what a run started by root is inside; outside it is NOBODY_ID */

/* Field @want (0 = name) of a line of the user database. */
static size_t passwd_field(const char *line, unsigned want, const char **ret)
{
	const char *s = line;
	size_t len = strcspn(s, ":\n");

	while (want > 0 && s[len] == ':') {
		s += len + 1;
		len = strcspn(s, ":\n");
		want--;
	}
	*ret = s;
	return want == 0 ? len : 0;
}

static const char *next_line(const char *line)
{
	line += strcspn(line, "\n");
	return *line ? line + 1 : line;
}

static bool line_uid(const char *line, unsigned long *ret)
{
	const char *s;
	char *end;

	if (passwd_field(line, 2, &s) == 0 || *s < '0' || *s > '9')
		return false;
	errno = 0;
	*ret = strtoul(s, &end, 10);
	return errno == 0 && *end == ':';
}

bool plan_contains_home(const struct build *b, const char *dir)
{
	char home[PATH_MAX];
	const char *s;
	unsigned long uid;

	if (path_is_within(dir, b->home_real))
		return true;
	for (const char *line = b->passwd; *line; line = next_line(line)) {
		size_t len = passwd_field(line, 5, &s);

		/* Service accounts have /var/lib and the like, or /nonexistent. */
		if (!line_uid(line, &uid) || (uid != 0 && (uid < 1000 || uid >= 60000)))
			continue;
		if (len < 2 || len >= sizeof(home) || *s != '/')
			continue;
		memcpy(home, s, len);
		home[len] = '\0';
		if (path_is_within(dir, home))
			return true;
	}
	return false;
}

static int user_from_passwd(struct build *b, const char **ret_home)
{
	unsigned long uid;
	const char *s;
	size_t len;

	for (const char *line = b->passwd; *line; line = next_line(line)) {
		if (!line_uid(line, &uid) || uid != b->in->machine->uid)
			continue;
		len = passwd_field(line, 0, &s);
		if (!b->is_root && len > 0 && len <= 32)
			b->user_name = arena_strndup(b->arena, s, len);
		len = passwd_field(line, 5, &s);
		*ret_home = arena_strndup(b->arena, s, len);
		return b->user_name && *ret_home ? 0 : plan_nomem(b);
	}
	return 0;
}

/* A home that is the root or part of the system cannot be a private directory inside. */
static bool is_usable_home(const char *home)
{
	static const char *const system[] = {
		"/usr", "/etc", "/proc", "/sys",   "/dev",   "/bin",
		"/lib", "/run", "/sbin", "/lib32", "/lib64", "/libx32"
	};

	if (home[0] != '/' || home[1] == '\0' || path_has_dotdot(home))
		return false;
	if (strcmp(home, "/var/tmp") == 0) /* /tmp by another name */
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(system); i++) {
		if (path_is_within(system[i], home))
			return false;
	}
	return true;
}

int plan_find_home(struct build *b)
{
	const char *typed = b->in->options->home, *database = NULL;
	char home[PATH_MAX];
	struct resolved r;
	char *text;
	int e;

	b->user_name = FALLBACK_NAME;
	text = plan_read_small(b, "/etc/passwd", PASSWD_MAX);
	b->passwd = text ? text : "";
	e = user_from_passwd(b, &database);
	if (e < 0)
		return e;
	if (!typed)
		typed = database;
	b->typed_home = typed && *typed == '/' ? typed : NULL;
	b->home = b->home_real = FALLBACK_HOME;
	if (!typed || *typed != '/' || path_normalise(NULL, typed, home, sizeof(home)) < 0)
		return 0;
	if (plan_resolve(b, home, &r) < 0)
		return 0;
	if (r.missing)
		r.real = plan_join(b, r.real, r.missing);
	if (!r.real)
		return plan_nomem(b);
	if (!is_usable_home(home) || !is_usable_home(r.real))
		return 0;
	b->home_real = r.real;
	b->home = arena_strdup(b->arena, home);
	if (!b->home)
		return plan_nomem(b);
	return plan_add_links(b, r.links, r.n_links);
}

static int env_put(struct build *b, const char *entry)
{
	size_t len = strcspn(entry, "=") + 1;

	for (size_t i = 0; i < b->env.n; i++) {
		if (strncmp(b->env.v[i], entry, len) == 0) {
			b->env.v[i] = entry;
			return 0;
		}
	}
	return plan_list_add(b, &b->env, entry);
}

int plan_env_set(struct build *b, const char *name, const char *value)
{
	const char *entry = arena_printf(b->arena, "%s=%s", name, value);

	return entry ? env_put(b, entry) : plan_nomem(b);
}

static bool is_clean_name(const char *entry, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)entry[i] <= ' ' || entry[i] == 0x7f)
			return false;
	}
	return len > 0;
}

/* A pattern with '*' takes what begins like it, but never replaces what Cordon sets itself. */
static bool matches(const struct build *b, const char *entry, size_t len, const char *pattern)
{
	size_t n = strlen(pattern);

	if (n == 0 || pattern[n - 1] != '*')
		return n == len && strncmp(entry, pattern, len) == 0;
	if (n - 1 > len || strncmp(entry, pattern, n - 1) != 0)
		return false;
	for (size_t i = 0; i < b->env.n; i++) {
		if (strncmp(b->env.v[i], entry, len + 1) == 0)
			return false;
	}
	return true;
}

static bool is_passed(const struct build *b, const char *entry, size_t len)
{
	/* The last two would contradict a terminal that knows its size. */
	static const char *const always[] = { "LANG", "LC_*", "TZ", "TERM", "COLUMNS", "LINES" };
	size_t n = ARRAY_SIZE(always) - (b->in->options->terminal ? 2 : 0);

	for (size_t i = 0; i < n; i++) {
		if (matches(b, entry, len, always[i]))
			return true;
	}
	for (size_t i = 0; i < b->policy->env_pass.n; i++) {
		if (matches(b, entry, len, b->policy->env_pass.v[i]))
			return true;
	}
	return false;
}

static int set_own(struct build *b)
{
	int r = plan_set_path(b);

	if (r == 0)
		r = plan_env_set(b, "HOME", b->home);
	if (r == 0)
		r = plan_env_set(b, "USER", b->user_name);
	if (r == 0)
		r = plan_env_set(b, "LOGNAME", b->user_name);
	if (r == 0)
		r = plan_env_set(b, "SHELL", "/bin/sh");
	if (r == 0)
		r = plan_env_set(b, "PWD", b->start_dir);
	if (r == 0 && b->in->level == PLAN_LEVEL_LANDLOCK)
		r = plan_env_set(b, "TMPDIR",
				 b->in->private_dir ? b->in->private_dir->tmp.path : b->in->tmpdir);
	if (r == 0 && b->in->workspace) {
		const char *path = plan_workspace_path(b, b->in->workspace->base);

		r = path ? plan_env_set(b, "CORDON_WORKSPACE", path) : plan_nomem(b);
	}
	if (r == 0)
		r = plan_gpu_env(b);
	if (r == 0)
		r = plan_proxy_env(b);
	return r;
}

int plan_build_env(struct build *b)
{
	const char *const *envp = b->in->options->envp;
	int r = set_own(b);

	for (; r == 0 && envp && *envp; envp++) {
		size_t len = strcspn(*envp, "=");

		if ((*envp)[len] == '=' && is_clean_name(*envp, len) && is_passed(b, *envp, len))
			r = env_put(b, *envp);
	}
	for (size_t i = 0; r == 0 && i < b->policy->env_set.n; i++) {
		const char *entry = b->policy->env_set.v[i];

		if (is_clean_name(entry, strcspn(entry, "=")) && strchr(entry, '='))
			r = env_put(b, entry);
		else
			r = cordon_err(b->err, CORDON_E_POLICY, 0,
				       "'%s' is not a name for a variable", entry);
	}
	return r;
}

static bool parse_id(const char *s, char **end, uint32_t *ret)
{
	unsigned long value;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	value = strtoul(s, end, 10);
	if (errno != 0 || value == 0 || value >= UINT32_MAX)
		return false;
	*ret = (uint32_t)value;
	return true;
}

static int parse_user(const struct plan_input *in, uint32_t *uid, uint32_t *gid,
		      struct cordon_error *err)
{
	const char *user = in->policy->user;
	char *end;

	if (in->machine->uid != 0)
		return cordon_err(err, CORDON_E_POLICY, 0,
				  "only root can choose the user of a run ('%s')", user);
	if (parse_id(user, &end, uid)) {
		*gid = *uid;
		if (*end == '\0' || (*end == ':' && parse_id(end + 1, &end, gid) && *end == '\0'))
			return 0;
	}
	cordon_err(err, CORDON_E_POLICY, 0, "'%s' is not a user", user);
	cordon_err_hint(err, "write UID or UID:GID as numbers that are not 0");
	return -CORDON_E_POLICY;
}

int plan_outer_ids(const struct plan_input *in, uint32_t *ret_uid, uint32_t *ret_gid,
		   struct cordon_error *err)
{
	*ret_uid = in->machine->uid;
	*ret_gid = in->machine->gid;
	if (in->policy->user)
		return parse_user(in, ret_uid, ret_gid, err);
	/* Without id mapping root stays root, with nothing left of its rights; but see
	 * plan_nobody.c. */
	if (in->machine->uid == 0)
		*ret_uid = *ret_gid = in->level == PLAN_LEVEL_NAMESPACES ? NOBODY_ID : 0;
	return 0;
}

int plan_build_ids(struct build *b, struct plan_header *h)
{
	bool namespaces = b->in->level == PLAN_LEVEL_NAMESPACES;
	uint32_t uid, gid;
	int r = plan_outer_ids(b->in, &uid, &gid, b->err);

	if (r < 0)
		return r;
	if (b->is_nobody)
		uid = gid = NOBODY_ID;
	if (!b->is_root)
		h->flags |= namespaces ? PLAN_MAP_SELF : 0;
	else
		h->flags |= PLAN_DROP_GROUPS;
	if (b->is_root && (namespaces || b->policy->user || b->is_nobody))
		h->flags |= PLAN_SETIDS;
	h->outer_uid = uid;
	h->outer_gid = gid;
	h->inner_uid = b->is_root && namespaces ? INNER_ID : uid;
	h->inner_gid = b->is_root && namespaces ? INNER_ID : gid;
	return 0;
}

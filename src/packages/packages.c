/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls: finding or making layers, and what a run needs of them. */
#include "packages/packages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache_path.h"
#include "base/err.h"
#include "base/macros.h"
#include "policy/policy.h"

struct cordon_packages {
	struct arena arena;
	int locks[INSTALLER_MAX]; /* held shared; -1 = none */
	/* NULL-terminated, one of each for a layer */
	const char *dirs[INSTALLER_MAX + 1], *env[INSTALLER_MAX + 1], *path[INSTALLER_MAX + 1];
	size_t n;
};

static int no_memory(struct cordon_error *err)
{
	return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
}

static bool exists(const struct cache *cache, const char *key)
{
	struct stat st;

	return fstatat(cache->fd, key, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int lock_failed(int r, struct cordon_error *err)
{
	return cordon_err(err, r == -ECANCELED ? CORDON_E_STATE : CORDON_E_SYSTEM, -r,
			  "the lock of the packages");
}

/* The layer, complete and locked shared. One installs, others wait for it. */
static int get_layer(struct cordon_launcher *launcher, const struct cache *cache,
		     struct request *rq, int *ret_lock, struct cordon_error *err)
{
	int r, fd = lock_open(cache, rq->key, false, LOCK_WAIT, rq->options);

	if (fd >= 0 && exists(cache, rq->key)) {
		*ret_lock = fd;
		return 0;
	}
	if (fd < 0)
		return lock_failed(fd, err);
	close(fd);
	if (rq->options->only_cached)
		return cordon_err(err, CORDON_E_STATE, 0, "the packages are not installed yet");
	fd = lock_open(cache, rq->key, true, LOCK_WAIT, rq->options);
	if (fd < 0)
		return lock_failed(fd, err);
	r = exists(cache, rq->key) ? 0 : install(launcher, cache, rq, err);
	if (r == 0 && (r = lock_share(fd)) < 0)
		r = lock_failed(r, err);
	if (r < 0) {
		close(fd);
		return r;
	}
	*ret_lock = fd;
	return 0;
}

static int add_layer(struct cordon_packages *p, const struct cache *cache, const struct request *rq,
		     int lock, struct cordon_error *err)
{
	bool is_pip = rq->installer == INSTALLER_PIP;
	const char *dir = arena_printf(&p->arena, "%s/%s/tree", cache->path, rq->key);
	size_t n = p->n;

	p->locks[n] = lock;
	lock_touch(lock);
	if (!dir)
		return no_memory(err);
	p->dirs[n] = dir;
	p->env[n] = is_pip ? arena_printf(&p->arena, "PYTHONPATH=%s", dir)
			   : arena_printf(&p->arena, "NODE_PATH=%s/node_modules", dir);
	p->path[n] = arena_printf(&p->arena, is_pip ? "%s/bin" : "%s/node_modules/.bin", dir);
	if (!p->env[n] || !p->path[n])
		return no_memory(err);
	p->n++;
	return 0;
}

static int get_one(struct cordon_launcher *launcher, const struct cache *cache, struct request *rq,
		   struct cordon_packages *p, struct cordon_error *err)
{
	int lock = -1;
	int r = rq->installer == INSTALLER_PIP ? python_find(launcher, cache, rq, err)
					       : node_find(launcher, cache, rq, err);

	if (r == 0)
		r = rq->installer == INSTALLER_PIP ? index_pip(rq, err) : index_npm(rq, err);
	if (r == 0)
		r = index_hosts(rq, rq->options->hosts, err);
	if (r == 0)
		r = request_make_key(rq, err);
	if (r == 0)
		r = get_layer(launcher, cache, rq, &lock, err);
	return r == 0 ? add_layer(p, cache, rq, lock, err) : r;
}

int cordon_packages_install(struct cordon_launcher *launcher,
			    const struct cordon_packages_options *given,
			    struct cordon_packages **ret, struct cordon_error *err)
{
	struct cordon_packages_options options = CORDON_PACKAGES_OPTIONS_INIT;
	struct request requests[INSTALLER_MAX];
	struct cordon_packages *p = calloc(1, sizeof(*p));
	struct cache cache = { .fd = -1 };
	int r;

	*ret = NULL;
	if (!p)
		return no_memory(err);
	for (int i = 0; i < INSTALLER_MAX; i++)
		p->locks[i] = -1;
	/* A caller built with an older header has a shorter struct. */
	memcpy(&options, given, given->size < sizeof(options) ? given->size : sizeof(options));
	r = request_read(requests, &p->arena, &options, err);
	if (r == 0)
		r = cache_open(CACHE_PACKAGES, true, &cache, err);
	for (int i = 0; r == 0 && i < INSTALLER_MAX; i++) {
		if (!request_is_empty(&requests[i]))
			r = get_one(launcher, &cache, &requests[i], p, err);
	}
	cache_close(&cache);
	if (r < 0)
		cordon_packages_free(p);
	else
		*ret = p;
	return r;
}

void cordon_packages_free(struct cordon_packages *p)
{
	if (!p)
		return;
	for (int i = 0; i < INSTALLER_MAX; i++) {
		if (p->locks[i] >= 0)
			close(p->locks[i]);
	}
	arena_done(&p->arena);
	free(p);
}

void cordon_packages_needs(const struct cordon_packages *p, const char *const **ret_dirs,
			   const char *const **ret_env, const char *const **ret_path)
{
	if (ret_dirs)
		*ret_dirs = p->dirs;
	if (ret_env)
		*ret_env = p->env;
	if (ret_path)
		*ret_path = p->path;
}

/* What the run would have had for the variable of @entry; NULL = nothing. */
static const char *own_value(const struct cordon_policy *policy, const char *const *envp,
			     const char *entry)
{
	size_t len = strcspn(entry, "=") + 1;

	for (size_t i = policy->env_set.n; i-- > 0;) {
		if (strncmp(policy->env_set.v[i], entry, len) == 0)
			return policy->env_set.v[i] + len;
	}
	for (size_t i = 0; i < policy->env_pass.n; i++) {
		const char *name = policy->env_pass.v[i];

		if (strlen(name) != len - 1 || strncmp(name, entry, len - 1) != 0)
			continue;
		for (const char *const *e = envp; e && *e; e++) {
			if (strncmp(*e, entry, len) == 0)
				return *e + len;
		}
	}
	return NULL;
}

static int apply_env(const char *entry, struct cordon_policy *policy, const char *const *envp,
		     struct cordon_error *err)
{
	const char *own = own_value(policy, envp, entry);
	struct strbuf sb = STRBUF_INIT;
	int r;

	strbuf_puts(&sb, entry);
	if (own && *own) {
		strbuf_putc(&sb, ':');
		strbuf_puts(&sb, own);
	}
	r = sb.failed ? no_memory(err) : cordon_policy_set(policy, "env.set", sb.data, err);
	strbuf_done(&sb);
	return r;
}

int cordon_packages_apply(const struct cordon_packages *p, struct cordon_policy *policy,
			  const char *const *envp, struct cordon_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->n; i++) {
		r = cordon_policy_set(policy, "fs.read", p->dirs[i], err);
		if (r == 0)
			r = apply_env(p->env[i], policy, envp, err);
	}
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Finding workspaces. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/nearest.h"
#include "base/strbuf.h"
#include "workspace/store/store_dir.h"
#include "workspace/tree/cursor.h"

#define SEVERAL_SHOWN 5

struct loaded {
	struct cordon_workspace **v;
	size_t n;
};

static int by_age(const void *a, const void *b)
{
	const struct ws_meta *x = &(*(struct cordon_workspace *const *)a)->meta;
	const struct ws_meta *y = &(*(struct cordon_workspace *const *)b)->meta;

	if (x->made.tv_sec != y->made.tv_sec)
		return x->made.tv_sec < y->made.tv_sec ? -1 : 1;
	if (x->made.tv_nsec != y->made.tv_nsec)
		return x->made.tv_nsec < y->made.tv_nsec ? -1 : 1;
	return strcmp(x->id, y->id);
}

/* Loads all that can be loaded. */
static int load_all(const struct store *store, struct loaded *ret, struct cordon_error *err)
{
	struct cordon_error one = CORDON_ERROR_INIT;
	struct names names;
	int first = 0, r;

	*ret = (struct loaded){ 0 };
	if (store->fd < 0)
		return 0;
	r = names_read(store->fd, &names);
	if (r < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -r, "%s", store->path);
	ret->v = calloc(names.n + 1, sizeof(struct cordon_workspace *));
	if (!ret->v) {
		names_done(&names);
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	}
	for (size_t i = 0; i < names.n; i++) {
		if (!ws_is_id(names.v[i]))
			continue;
		r = ws_load(store, names.v[i], &ret->v[ret->n], &one);
		if (r == 0) {
			ret->n++;
		} else if (first == 0 && !(r == -CORDON_E_PATH && one.sys_errno == ENOENT)) {
			/* Removed meanwhile. */
			first = r;
			if (err)
				*err = one;
		}
	}
	names_done(&names);
	if (ret->n > 1)
		qsort(ret->v, ret->n, sizeof(struct cordon_workspace *), by_age);
	return first;
}

int store_each(const struct store *store, int (*fn)(void *arg, struct cordon_workspace *ws),
	       void *arg, struct cordon_error *err)
{
	struct loaded all;
	int first = load_all(store, &all, err), r = 0;

	for (size_t i = 0; i < all.n; i++) {
		if (r == 0)
			r = fn(arg, all.v[i]);
		else
			cordon_workspace_close(all.v[i]);
	}
	free(all.v);
	return r != 0 ? r : first;
}

struct listing {
	int (*fn)(void *arg, const struct cordon_workspace_info *info);
	void *arg;
};

static int list_one(void *arg, struct cordon_workspace *ws)
{
	const struct listing *listing = arg;
	int r = listing->fn(listing->arg, &ws->info);

	cordon_workspace_close(ws);
	return r != 0;
}

int cordon_workspace_list(const char *state_dir,
			  int (*fn)(void *arg, const struct cordon_workspace_info *info), void *arg,
			  struct cordon_error *err)
{
	struct listing listing = { fn, arg };
	struct store store;
	int r = store_open(&store, state_dir, false, err);

	if (r < 0)
		return r;
	r = store_each(&store, list_one, &listing, err);
	store_close(&store);
	return r > 0 ? 0 : r;
}

/* --- by id, name or directory -------------------------------------------------------------------
 */

struct search {
	const char *name; /* or NULL */
	const char *base; /* or NULL */
	struct cordon_workspace *found;
	size_t n;
	struct strbuf shown;
	struct nearest nearest;
	char near[NEAREST_LEN_MAX + 1];
};

static int look_at(void *arg, struct cordon_workspace *ws)
{
	struct search *s = arg;
	const struct ws_meta *m = &ws->meta;
	bool is_it = s->name ? m->name && strcmp(m->name, s->name) == 0
			     : strcmp(m->base, s->base) == 0;

	if (s->name && m->name && strlen(m->name) <= NEAREST_LEN_MAX) {
		nearest_offer(&s->nearest, m->name);
		if (s->nearest.best == m->name) {
			memcpy(s->near, m->name, strlen(m->name) + 1);
			s->nearest.best = s->near;
		}
	}
	if (is_it && s->n++ < SEVERAL_SHOWN)
		strbuf_printf(&s->shown, "%s%s%s%s%s", s->n > 1 ? ", " : "", m->id,
			      m->name ? " (" : "", m->name ? m->name : "", m->name ? ")" : "");
	if (is_it && !s->found)
		s->found = ws;
	else
		cordon_workspace_close(ws);
	return 0;
}

static int not_found(const struct search *s, const char *which, struct cordon_error *err)
{
	if (s->base)
		(void)cordon_err(err, CORDON_E_PATH, 0, "there is no workspace over %s", s->base);
	else
		(void)cordon_err(err, CORDON_E_PATH, 0, "there is no workspace %s", which);
	if (s->nearest.best)
		(void)cordon_err_hint(err, "did you mean %s?", s->nearest.best);
	else
		(void)cordon_err_hint(err, "`cordon workspace list` shows all of them");
	if (err)
		err->sys_errno = ENOENT;
	return -CORDON_E_PATH;
}

/* s->found, if it is the only one. If nothing was found, an error about a damaged workspace is
 * returned: it may have been that one. */
static int conclude(struct search *s, int scan, const char *which, struct cordon_workspace **ret,
		    struct cordon_error *err)
{
	int r = 0;

	if (s->n == 1)
		*ret = s->found;
	else if (s->n == 0)
		r = scan < 0 ? scan : not_found(s, which, err);
	if (s->n > 1) {
		cordon_workspace_close(s->found);
		r = cordon_err(err, CORDON_E_USAGE, 0, "there are %zu workspaces %s%s", s->n,
			       s->name ? "with the name " : "over ", s->name ? s->name : s->base);
		(void)cordon_err_hint(err, "choose one: %s%s", s->shown.data ? s->shown.data : "",
				      s->n > SEVERAL_SHOWN ? ", ..." : "");
	}
	strbuf_done(&s->shown);
	return r;
}

static int find_by_name(const struct store *store, const char *name, struct cordon_workspace **ret,
			struct cordon_error *err)
{
	struct search s = { .name = name, .shown = STRBUF_INIT };
	int scan;

	*ret = name_link_load(store, name);
	if (*ret)
		return 0;
	nearest_init(&s.nearest, name);
	scan = store_each(store, look_at, &s, err);
	return conclude(&s, scan, name, ret, err);
}

static int find_by_base(const struct store *store, const char *dir, struct cordon_workspace **ret,
			struct cordon_error *err)
{
	struct search s = { .shown = STRBUF_INIT };
	char *real = realpath(dir, NULL);
	int scan, r;

	/* A base that is gone is still found by its name. */
	s.base = real ? real : dir;
	scan = store_each(store, look_at, &s, err);
	r = conclude(&s, scan, dir, ret, err);
	free(real);
	return r;
}

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* By its id or its name, whatever directories there are. */
static int find_named(const struct store *store, const char *which, struct cordon_workspace **ret,
		      struct cordon_error *err)
{
	struct cordon_error why = CORDON_ERROR_INIT;
	int r;

	if (ws_is_id(which) && store->fd >= 0) {
		r = ws_load(store, which, ret, &why);
		if (r == 0 || why.sys_errno != ENOENT) {
			if (r < 0 && err)
				*err = why;
			return r;
		}
	}
	return find_by_name(store, which, ret, err);
}

static int find(const struct store *store, const char *which, struct cordon_workspace **ret,
		struct cordon_error *err)
{
	struct cordon_error why = CORDON_ERROR_INIT;
	bool is_path = strchr(which, '/') || strcmp(which, ".") == 0 || strcmp(which, "..") == 0;
	int r;

	if (!*which)
		return cordon_err(err, CORDON_E_USAGE, 0, "which workspace?");
	if (is_path)
		return find_by_base(store, which, ret, err);
	r = find_named(store, which, ret, &why);
	if (r < 0 && why.code == CORDON_E_PATH && is_directory(which))
		return find_by_base(store, which, ret, err);
	if (r < 0 && err)
		*err = why;
	return r;
}

int ws_open_named(const char *state_dir, const char *name, struct cordon_workspace **ret,
		  struct cordon_error *err)
{
	struct store store;
	int r = store_open(&store, state_dir, false, err);

	*ret = NULL;
	if (r < 0)
		return r;
	r = find_named(&store, name, ret, err);
	store_close(&store);
	return r;
}

int ws_open(const char *state_dir, const char *which, struct cordon_workspace **ret,
	    struct cordon_error *err)
{
	struct store store;
	int r = store_open(&store, state_dir, false, err);

	*ret = NULL;
	if (r < 0)
		return r;
	r = find(&store, which, ret, err);
	store_close(&store);
	return r;
}

int cordon_workspace_open(const char *state_dir, const char *which, struct cordon_workspace **ret,
			  struct cordon_error *err)
{
	return ws_open(state_dir, which, ret, err);
}

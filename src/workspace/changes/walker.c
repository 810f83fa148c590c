/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/changes/walker.h"

#include <errno.h>
#include <stdlib.h>

static int start(struct walker *w)
{
	int r;

	w->at = WS_NO_NODE;
	w->missing = 0;
	r = cursor_start(&w->c, w->root_fd, w->may_open);
	if (r == 0 && w->need)
		w->c.need = w->need;
	return r;
}

int walker_start(struct walker *w, const struct ws_changes *forest, int root_fd, bool may_open)
{
	w->forest = forest;
	w->root_fd = root_fd;
	w->may_open = may_open;
	return start(w);
}

void walker_done(struct walker *w)
{
	cursor_done(&w->c);
	free(w->way);
	*w = (struct walker)WALKER_INIT;
}

static int up(struct walker *w)
{
	int r = 0;

	if (w->missing)
		w->missing--;
	else
		r = cursor_up(&w->c);
	if (r == 0)
		w->at = w->forest->v[w->at].parent;
	return r;
}

/* Errors that mean "no such directory". */
static bool is_missing(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EXDEV;
}

static int down(struct walker *w, uint32_t node)
{
	int r;

	if (w->missing) {
		w->missing++;
	} else {
		r = cursor_down(&w->c, w->forest->v[node].name);
		if (r < 0 && !is_missing(r))
			return r;
		if (r < 0) {
			w->missing = 1;
			w->why = r;
		}
	}
	w->at = node;
	return 0;
}

static int remember(struct walker *w, size_t n, uint32_t node)
{
	uint32_t *way;
	size_t cap;

	if (n >= w->way_cap) {
		cap = w->way_cap ? 2 * w->way_cap : 64;
		way = reallocarray(w->way, cap, sizeof(*way));
		if (!way)
			return -ENOMEM;
		w->way = way;
		w->way_cap = cap;
	}
	w->way[n] = node;
	return 0;
}

/* A parent comes before its children, so of two nodes the later one is not above the other. */
static bool is_later(uint32_t a, uint32_t b)
{
	return a != WS_NO_NODE && (b == WS_NO_NODE || a > b);
}

/* Goes up to the nearest common directory and puts the steps down from there into @w->way. */
static int go_up(struct walker *w, uint32_t node, size_t *ret_n)
{
	size_t n = 0;
	int r;

	while (w->at != node) {
		if (is_later(w->at, node)) {
			r = up(w);
		} else {
			r = remember(w, n++, node);
			node = w->forest->v[node].parent;
		}
		if (r < 0)
			return r;
	}
	*ret_n = n;
	return 0;
}

int walker_go(struct walker *w, uint32_t node)
{
	size_t n = 0;
	int r = 0;

	/* An earlier attempt could not even start. */
	if (w->c.fd < 0)
		r = start(w);
	if (r == 0)
		r = go_up(w, node, &n);
	if (r == -ESTALE || r == -ENOENT) {
		/* A directory that we were in was moved or removed: start from the top. */
		cursor_done(&w->c);
		r = start(w);
		if (r == 0)
			r = go_up(w, node, &n);
	}
	while (r == 0 && n > 0)
		r = down(w, w->way[--n]);
	return r;
}

int walker_go_to_file(struct walker *w, uint32_t node)
{
	int r = walker_go(w, w->forest->v[node].parent);

	return r == 0 && w->missing ? w->why : r;
}

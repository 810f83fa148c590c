/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that have another name now: deleted here, added there, with the same content.
 *
 * Only files with a size in common are read, once each, up to a limit; beyond it they stay added
 * and deleted. The hash is salted at random, so that a guest cannot prepare a collision. Inside
 * .git, and where a commit would refuse either name, the two stay apart: each is decided on by
 * itself.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/sha1.h"
#include "workspace/changes/collect.h"
#include "workspace/changes/walker.h"

#define CANDIDATES_MAX 20000
#define BYTES_MAX ((uint64_t)256 << 20)
#define READ_SIZE ((size_t)64 << 10)

struct candidate {
	uint32_t node;
	bool is_added;
	bool is_usable; /* it was read */
	bool is_taken;
	uint64_t size;
	const char *name;
	unsigned char hash[SHA1_SIZE];
};

struct renames {
	struct ws_changes *changes;
	struct candidate *v;
	size_t n;
	struct walker up, lo;
	int up_fd;
	uint64_t read;
	unsigned char salt[16];
	char *buf;
};

static bool is_candidate(const struct ws_node *n)
{
	if (n->in_git || (n->risks & CORDON_RISK_REFUSED))
		return false;
	if (n->kind == CORDON_CHANGE_ADDED)
		return n->type == CORDON_FILE_REGULAR && n->size > 0;
	return n->kind == CORDON_CHANGE_DELETED && n->old_type == CORDON_FILE_REGULAR &&
	       n->old_size > 0;
}

static int by_size(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->size != y->size)
		return x->size < y->size ? -1 : 1;
	return x->node < y->node ? -1 : x->node > y->node;
}

static int by_node(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->node < y->node ? -1 : x->node > y->node;
}

/* Those with the same content and name stand side by side. */
static int by_name(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	int r = x->is_usable != y->is_usable ? (x->is_usable ? -1 : 1)
					     : memcmp(x->hash, y->hash, SHA1_SIZE);

	if (r == 0)
		r = strcmp(x->name, y->name);
	if (r == 0 && x->is_added != y->is_added)
		r = x->is_added ? 1 : -1;
	return r ? r : by_node(a, b);
}

/* Keeps those whose size occurs on both sides. */
static void keep_meeting(struct renames *rn)
{
	size_t kept = 0;

	qsort(rn->v, rn->n, sizeof(*rn->v), by_size);
	for (size_t i = 0, end; i < rn->n; i = end) {
		bool has_added = false, has_deleted = false;

		for (end = i; end < rn->n && rn->v[end].size == rn->v[i].size; end++) {
			has_added = has_added || rn->v[end].is_added;
			has_deleted = has_deleted || !rn->v[end].is_added;
		}
		if (has_added && has_deleted) {
			memmove(rn->v + kept, rn->v + i, (end - i) * sizeof(*rn->v));
			kept += end - i;
		}
	}
	rn->n = kept;
}

static int find_candidates(struct renames *rn)
{
	const struct ws_changes *changes = rn->changes;
	size_t n_added = 0, n_deleted = 0;

	for (size_t i = 0; i < changes->n; i++) {
		if (!is_candidate(&changes->v[i]))
			continue;
		n_added += changes->v[i].kind == CORDON_CHANGE_ADDED;
		n_deleted += changes->v[i].kind == CORDON_CHANGE_DELETED;
	}
	if (n_added == 0 || n_deleted == 0)
		return 0;
	rn->v = calloc(n_added + n_deleted, sizeof(*rn->v));
	if (!rn->v)
		return -ENOMEM;
	for (uint32_t i = 0; i < changes->n; i++) {
		const struct ws_node *n = &changes->v[i];
		bool is_added = n->kind == CORDON_CHANGE_ADDED;

		if (is_candidate(n))
			rn->v[rn->n++] = (struct candidate){
				.node = i,
				.is_added = is_added,
				.size = is_added ? n->size : n->old_size,
				.name = n->name,
			};
	}
	keep_meeting(rn);
	if (rn->n > CANDIDATES_MAX)
		rn->n = 0;
	return 0;
}

static int hash_file(struct renames *rn, int fd, struct candidate *cand)
{
	struct sha1 sha1;
	off_t at = 0;
	ssize_t n;

	sha1_start(&sha1);
	sha1_add(&sha1, rn->salt, sizeof(rn->salt));
	while ((n = pread(fd, rn->buf, READ_SIZE, at)) > 0 && (uint64_t)at < cand->size) {
		sha1_add(&sha1, rn->buf, (size_t)n);
		at += n;
	}
	if (n < 0)
		return -errno;
	cand->is_usable = (uint64_t)at == cand->size;
	sha1_end(&sha1, cand->hash);
	return 0;
}

/* What cannot be read is no candidate. */
static int read_candidate(struct renames *rn, struct candidate *cand)
{
	struct walker *w = cand->is_added ? &rn->up : &rn->lo;
	struct stat st;
	int fd, r;

	/* Too large files are passed over; smaller ones may still be paired. */
	if (cand->size > BYTES_MAX - rn->read)
		return 0;
	r = walker_go_to_file(w, cand->node);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	fd = cursor_open_file(&w->c, cand->name, &st);
	if (fd < 0)
		return fd == -ENOMEM ? fd : 0;
	rn->read += cand->size;
	if ((uint64_t)st.st_size == cand->size)
		r = hash_file(rn, fd, cand);
	close(fd);
	return r == -ENOMEM ? r : 0;
}

static void pair(struct renames *rn, struct candidate *deleted, struct candidate *added)
{
	struct ws_node *from = &rn->changes->v[deleted->node], *to = &rn->changes->v[added->node];

	deleted->is_taken = added->is_taken = true;
	from->is_renamed_away = true;
	to->kind = CORDON_CHANGE_RENAMED;
	to->from = deleted->node;
	to->old_type = from->old_type;
	to->old_mode = from->old_mode;
	to->old_size = from->old_size;
	/* An old program under a new name is no new program. */
	if (!(to->mode & 0111 & ~to->old_mode))
		to->risks &= (uint16_t)~CORDON_RISK_EXECUTABLE;
	/* The change affects the old name, too. */
	to->risks |= from->risks;
}

/* Among those with the same content: the same name first, then in the order of the walk. */
static void pair_all(struct renames *rn)
{
	qsort(rn->v, rn->n, sizeof(*rn->v), by_name);
	for (size_t i = 0, end; i < rn->n && rn->v[i].is_usable; i = end) {
		struct candidate *deleted, *added;

		for (end = i; end < rn->n && rn->v[end].is_usable &&
			      memcmp(rn->v[end].hash, rn->v[i].hash, SHA1_SIZE) == 0;
		     end++) {
			struct candidate *d = &rn->v[end > i ? end - 1 : i];

			/* Of equal names the deleted ones come first. */
			if (rn->v[end].is_added && !d->is_added && !d->is_taken &&
			    strcmp(d->name, rn->v[end].name) == 0)
				pair(rn, d, &rn->v[end]);
		}
		deleted = added = rn->v + i;
		for (;;) {
			while (deleted < rn->v + end && (deleted->is_added || deleted->is_taken))
				deleted++;
			while (added < rn->v + end && (!added->is_added || added->is_taken))
				added++;
			if (deleted == rn->v + end || added == rn->v + end)
				break;
			pair(rn, deleted, added);
		}
	}
}

static int read_candidates(struct cordon_workspace *ws, struct renames *rn)
{
	int r;

	rn->buf = malloc(READ_SIZE);
	if (!rn->buf)
		return -ENOMEM;
	if (getrandom(rn->salt, sizeof(rn->salt), 0) != sizeof(rn->salt))
		return -EIO;
	rn->up_fd = ws_open_content(ws);
	r = rn->up_fd < 0 ? rn->up_fd : walker_start(&rn->up, rn->changes, rn->up_fd, true);
	if (r == 0)
		r = walker_start(&rn->lo, rn->changes, ws->base_fd, false);
	/* In the order of the walk the next one is near. */
	qsort(rn->v, rn->n, sizeof(*rn->v), by_node);
	for (size_t i = 0; r == 0 && i < rn->n; i++)
		r = read_candidate(rn, &rn->v[i]);
	return r;
}

int ws_find_renames(struct cordon_workspace *ws, struct ws_changes *changes)
{
	struct renames rn = {
		.changes = changes,
		.up = WALKER_INIT,
		.lo = WALKER_INIT,
		.up_fd = -1,
	};
	int r = find_candidates(&rn);

	if (r == 0 && rn.n > 0)
		r = read_candidates(ws, &rn);
	if (r == 0 && rn.n > 0)
		pair_all(&rn);
	walker_done(&rn.up);
	walker_done(&rn.lo);
	if (rn.up_fd >= 0)
		close(rn.up_fd);
	free(rn.buf);
	free(rn.v);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing trees.
 *
 * Everything but directories is unlinked while a directory is read. Names of directories are pushed
 * on a stack and entered one after the other. A directory with very many of them is read in several
 * passes, so the size of the stack is bounded by the depth and not by what guests made.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "workspace/tree/cursor.h"
#include "workspace/tree/dents.h"
#include "workspace/tree/tree.h"

#define PASS_BYTES_MAX ((size_t)64 << 10) /* names waiting in one directory */
#define RETRIES_MAX 1000		  /* of directories that others keep filling */
#define STALE_MAX 16

struct pass {
	size_t start;	  /* of this directory's names on the stack */
	bool is_cut;	  /* there were more */
	bool removed_any; /* in this pass */
};

struct removal {
	struct cursor at;
	struct dents dents;
	struct name_stack names; /* of directories that wait */
	struct pass *passes;	 /* one for each level of the cursor */
	size_t passes_cap;
	unsigned retries;
	int first; /* failure, or 0 */
};

static void failed(struct removal *rm, int r)
{
	if (rm->first == 0)
		rm->first = r;
}

/* Unlinks what is no directory; directories are put on the stack. */
static int take_entry(struct removal *rm, struct pass *pass, const char *name, unsigned char type)
{
	if (type != DT_DIR) {
		if (unlinkat(rm->at.fd, name, 0) == 0) {
			pass->removed_any = true;
			return 0;
		}
		if (errno == ENOENT)
			return 0;
		if (errno != EISDIR) {
			failed(rm, -errno);
			return 0;
		}
	}
	return name_stack_push(&rm->names, name);
}

/* Reads the current directory from its start until its end or until enough names wait. */
static int read_pass(struct removal *rm)
{
	struct pass *pass = &rm->passes[rm->at.depth];
	unsigned char type;
	const char *name;
	ssize_t n;
	int r;

	pass->is_cut = false;
	pass->removed_any = false;
	if (lseek(rm->at.fd, 0, SEEK_SET) < 0)
		return -errno;
	while ((n = dents_read(rm->at.fd, &rm->dents)) > 0) {
		while ((name = dents_next(&rm->dents, &type))) {
			r = take_entry(rm, pass, name, type);
			if (r < 0)
				return r;
		}
		if (rm->names.len - pass->start >= PASS_BYTES_MAX) {
			pass->is_cut = true;
			break;
		}
	}
	if (n < 0)
		failed(rm, (int)n);
	return 0;
}

static int begin_level(struct removal *rm)
{
	size_t cap = rm->passes_cap ? rm->passes_cap * 2 : 16;
	struct pass *passes;

	if (rm->at.depth >= rm->passes_cap) {
		passes = realloc(rm->passes, cap * sizeof(*passes));
		if (!passes)
			return -ENOMEM;
		rm->passes = passes;
		rm->passes_cap = cap;
	}
	rm->passes[rm->at.depth] = (struct pass){ .start = rm->names.len };
	return read_pass(rm);
}

/* The last name of the current directory was emptied, or was never a directory. */
static void remove_last(struct removal *rm)
{
	struct pass *pass = &rm->passes[rm->at.depth];
	size_t at = name_stack_last(&rm->names, pass->start);
	const char *name = rm->names.data + at;

	if (unlinkat(rm->at.fd, name, AT_REMOVEDIR) == 0 ||
	    (errno == ENOTDIR && unlinkat(rm->at.fd, name, 0) == 0)) {
		pass->removed_any = true;
	} else if ((errno == ENOTEMPTY || errno == EEXIST || errno == EISDIR) && rm->first == 0 &&
		   rm->retries++ < RETRIES_MAX) {
		/* Something was put into it, its order changed while it was read, or it became a
		 * directory between two calls: it stays on the stack and is entered again. */
		return;
	} else if (errno != ENOENT) {
		failed(rm, errno == EISDIR ? -ESTALE : -errno);
	}
	rm->names.len = at;
}

/* Enters the last name. If that fails, it is removed as an empty directory. */
static int go_down(struct removal *rm)
{
	size_t at = name_stack_last(&rm->names, rm->passes[rm->at.depth].start);
	int r = cursor_down(&rm->at, rm->names.data + at);

	if (r == 0)
		return begin_level(rm);
	if (r == -ENOMEM || r == -EMFILE || r == -ENFILE)
		return r;
	if (r != -ENOENT && r != -ENOTDIR && r != -EXDEV)
		failed(rm, r);
	remove_last(rm);
	return 0;
}

/* Everything that waits at or below the current level. Level 0 holds the one name. */
static int run(struct removal *rm)
{
	int r;

	for (;;) {
		struct pass *pass = &rm->passes[rm->at.depth];

		if (rm->names.len > pass->start) {
			r = go_down(rm);
		} else if (rm->at.depth > 0 && pass->is_cut && pass->removed_any) {
			r = read_pass(rm);
		} else if (rm->at.depth > 0) {
			r = cursor_up(&rm->at);
			if (r == 0)
				remove_last(rm);
		} else {
			return 0;
		}
		if (r < 0)
			return r;
	}
}

static int attempt(struct removal *rm, int dir_fd, const char *name)
{
	int r = cursor_start(&rm->at, dir_fd, false);

	rm->names.len = 0;
	if (r < 0)
		return r;
	/* The holding directory keeps its mode; everything below may be opened. */
	rm->at.may_open = true;
	rm->at.need = 0700;
	if (!rm->passes) {
		rm->passes = calloc(16, sizeof(*rm->passes));
		rm->passes_cap = rm->passes ? 16 : 0;
	}
	r = rm->passes ? name_stack_push(&rm->names, name) : -ENOMEM;
	if (r == 0) {
		rm->passes[0] = (struct pass){ 0 };
		r = run(rm);
	}
	cursor_done(&rm->at);
	return r;
}

int tree_remove(int dir_fd, const char *name)
{
	struct removal *rm;
	int r;

	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return -errno;
	rm = calloc(1, sizeof(*rm));
	if (!rm)
		return -ENOMEM;
	rm->at = (struct cursor)CURSOR_INIT;
	/* -ESTALE: directories were moved while we were in them. Start again from the top. */
	for (int i = 0; i < STALE_MAX; i++) {
		rm->first = 0;
		r = attempt(rm, dir_fd, name);
		if (r != -ESTALE)
			break;
	}
	if (rm->first < 0)
		r = rm->first;
	free(rm->names.data);
	free(rm->passes);
	free(rm);
	return r;
}

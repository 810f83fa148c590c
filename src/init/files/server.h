/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file protocol (cordon/files.h), served in the command's place: what the parts of the server
 * share.
 *
 * Theory of operation. The server is a process of its own (payload.c) inside all layers that a
 * command would be in: the kernel decides what a request may do, not this code. It trusts neither
 * the form of requests nor their paths. It follows no link by itself, has no recursion, and
 * allocates its memory once, when it starts.
 */
#ifndef INIT_FILES_SERVER_H
#define INIT_FILES_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include <cordon/files.h>

#include "bare/dirents.h"

#define SERVE_PATH_BYTES (CORDON_FILES_PATH_MAX + 1)
#define SERVE_ENTRIES_BYTES 32768
#define SERVE_LEVELS_MAX 65536
#define SERVE_NAMES_BYTES (16u << 20)
#define SERVE_RELATIVE_BYTES (4u << 20)
#define SERVE_NO_NAME (~0u)
#define RENAME_NOREPLACE_FLAG 1 /* linux/fs.h has it, and more than fits here */

/* parse.c: nothing but arithmetic. Both return 0 or -EINVAL. */
int serve_check_request(const struct cordon_files_request *request);
/* A path of @len bytes as it came; terminates it (@path has room for that). */
int serve_check_path(char *path, uint32_t len);

struct serve_id {
	uint64_t ino;
	uint32_t dev_major, dev_minor;
};

/* A directory that is being walked, or whose child is. */
struct serve_level {
	struct serve_id id;
	uint32_t name;	   /* its own, in `names` */
	uint32_t relative; /* length of its path below the top */
	uint16_t tries;	   /* REMOVE: how often it was emptied and was not empty */
	uint16_t is_stuck; /* REMOVE: something in it cannot be removed */
};

/*
 * A place in a tree: one descriptor, down by name, up by ".." with the identity checked. `names`
 * is a stack: names of directories still to be visited, those of deeper levels behind.
 */
struct serve_walk {
	long fd;
	uint32_t depth;	  /* of the directory at fd; 0 = the top */
	uint32_t n_names; /* bytes in use */
	struct serve_level levels[SERVE_LEVELS_MAX];
	char names[SERVE_NAMES_BYTES];
	char relative[SERVE_RELATIVE_BYTES]; /* LIST: the path of the directory at fd */
	char entries[SERVE_ENTRIES_BYTES] __attribute__((aligned(8)));
};

struct server {
	struct cordon_files_request request;
	uint32_t end_flags;
	uint32_t n_out; /* bytes in `out` */
	uint32_t uid;
	char path[SERVE_PATH_BYTES], path2[SERVE_PATH_BYTES];
	char text[SERVE_PATH_BYTES]; /* where a link leads */
	/* A chunk's length, then the chunk. */
	uint32_t out_len;
	char out[CORDON_FILES_CHUNK_MAX];
	char data[CORDON_FILES_CHUNK_MAX];
	struct serve_walk walk;
};

/* server.c */
void serve_put(struct server *s, const void *data, size_t len); /* data of the answer */
void serve_flush(struct server *s);
/* Takes up to @max bytes of the request's data into s->data; ends the process if there are none. */
size_t serve_take(struct server *s, uint64_t max);

/* All of these return 0 or -errno. */

/* file.c */
long serve_read(struct server *s);
long serve_write(struct server *s);
long serve_mkdir(struct server *s);
long serve_chmod(struct server *s);
long serve_readlink(struct server *s);
long serve_rename(struct server *s);
long serve_symlink(struct server *s);

/* realpath.c */
long serve_realpath(struct server *s);

/* list.c */
long serve_stat(struct server *s);
long serve_list(struct server *s);

/* remove.c */
long serve_remove(struct server *s);

/* walk.c */
struct statx;
/* Of @name in the directory, not following a link; "" = the directory (or object) itself. */
long serve_statx(long dir, const char *name, int flags, struct statx *ret);
struct serve_id serve_id_of(const struct statx *st);
int serve_is_same(const struct serve_id *a, const struct serve_id *b);
/* Opens a directory for reading: one name, never a link. */
long serve_open_dir(long dir, const char *name);
/* At the beginning of @dir's listing; one at a time. */
struct dir_cursor walk_entries(struct serve_walk *w, long dir);
/* Starts in the directory @fd, which it takes. */
long walk_start(struct serve_walk *w, long fd);
/* Notes that @name, in the directory at w->fd, is to be visited. */
long walk_note(struct serve_walk *w, const char *name);
/* The last name noted in the directory at w->fd, or SERVE_NO_NAME. */
uint32_t walk_next(const struct serve_walk *w);
/* Is there a name noted in the directory at @depth, the current one or one above it, now that those
 * in deeper ones are forgotten? */
int walk_has_more(const struct serve_walk *w, uint32_t depth);
void walk_forget(struct serve_walk *w, uint32_t name); /* it, and what was noted after it */
/* Makes @fd (which it takes, also on failure), the directory of that name, the current one. */
long walk_down(struct serve_walk *w, long fd, uint32_t name);
/* To the directory above at @depth. -ESTALE: the tree was changed meanwhile. */
long walk_up(struct serve_walk *w, uint32_t depth);
void walk_end(struct serve_walk *w);

#endif

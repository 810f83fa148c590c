/* SPDX-License-Identifier: Apache-2.0 */
#include "workspace/tree/links.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workspace/tree/tree.h"

static bool is_among(const struct names *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++) {
		if (strcmp(names->v[i], name) == 0)
			return true;
	}
	return false;
}

int links_start(struct links *links, int root_fd, const struct names *names)
{
	*links = (struct links){ .root_fd = root_fd, .stage_fd = -1 };
	for (unsigned i = 0; i < UINT32_MAX; i++) {
		(void)snprintf(links->stage, sizeof(links->stage), ".cordon-links-%u", i);
		if (!is_among(names, links->stage))
			return 0;
	}
	return -EEXIST;
}

static size_t slot_of(const struct links *links, dev_t dev, ino_t ino)
{
	uint64_t h = ((uint64_t)ino ^ ((uint64_t)dev << 40)) * 0x9e3779b97f4a7c15u;
	size_t i = (size_t)(h >> 20) & (links->cap - 1);

	while (links->v[i].number != 0 && (links->v[i].dev != dev || links->v[i].ino != ino))
		i = (i + 1) & (links->cap - 1);
	return i;
}

static void number_text(char buf[16], uint32_t number)
{
	(void)snprintf(buf, 16, "%x", number);
}

int links_make(const struct links *links, const struct stat *st, int dir_fd, const char *name)
{
	const struct link_entry *e;
	char text[16];

	if (links->cap == 0)
		return 0;
	e = &links->v[slot_of(links, st->st_dev, st->st_ino)];
	if (e->number == 0)
		return 0;
	number_text(text, e->number);
	if (linkat(links->stage_fd, text, dir_fd, name, 0) == 0)
		return 1;
	/* The file cannot have more names here: it is copied again. */
	return errno == EMLINK ? 0 : -errno;
}

static int grow(struct links *links)
{
	struct links old = *links;

	links->cap = old.cap ? old.cap * 2 : 256;
	links->v = calloc(links->cap, sizeof(*links->v));
	if (!links->v) {
		*links = old;
		return -ENOMEM;
	}
	for (size_t i = 0; i < old.cap; i++) {
		if (old.v[i].number != 0)
			links->v[slot_of(links, old.v[i].dev, old.v[i].ino)] = old.v[i];
	}
	free(old.v);
	return 0;
}

int links_add(struct links *links, const struct stat *st, int dir_fd, const char *name)
{
	struct link_entry *e;
	char text[16];
	int r;

	if (links->n >= LINKS_MAX)
		return 0;
	if (links->stage_fd < 0) {
		if (mkdirat(links->root_fd, links->stage, 0700) < 0)
			return -errno;
		links->stage_fd = openat(links->root_fd, links->stage,
					 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (links->stage_fd < 0)
			return -errno;
	}
	if (links->n * 2 >= links->cap) {
		r = grow(links);
		if (r < 0)
			return r;
	}
	e = &links->v[slot_of(links, st->st_dev, st->st_ino)];
	if (e->number != 0)
		return 0; /* that copy cannot have more names */
	number_text(text, (uint32_t)links->n + 1);
	if (linkat(dir_fd, name, links->stage_fd, text, 0) < 0)
		return errno == EMLINK || errno == EPERM ? 0 : -errno;
	*e = (struct link_entry){ st->st_dev, st->st_ino, (uint32_t)++links->n };
	return 0;
}

int links_done(struct links *links)
{
	int r = 0;

	if (links->stage_fd >= 0) {
		close(links->stage_fd);
		r = tree_remove(links->root_fd, links->stage);
	}
	free(links->v);
	links->v = NULL;
	links->cap = 0;
	links->stage_fd = -1;
	return r;
}

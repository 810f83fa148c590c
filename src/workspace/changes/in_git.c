/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a workspace has in a repository's own directory: whatever is not on git's allow-list
 * (git/allowed.h) must be named to be committed.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "git/entries.h"
#include "workspace/changes/collect.h"

/* Whether the content of a file lets it be what its name says. What cannot be read does not. */
static bool is_sound(const struct ws_collect *c, const char *name, enum git_allowed what)
{
	char *text = malloc(GIT_CHECKED_MAX);
	struct stat st;
	bool ret = false;
	ssize_t n;
	int fd;

	if (!text)
		return false;
	fd = cursor_open_file(&c->up, name, &st);
	if (fd >= 0) {
		n = read_full_at(fd, text, GIT_CHECKED_MAX, 0);
		close(fd);
		if (n >= 0 && n < (ssize_t)GIT_CHECKED_MAX)
			ret = git_content_is_sound(what, name, text, (size_t)n);
	}
	free(text);
	return ret;
}

static bool is_sound_index(const struct ws_collect *c, const char *name)
{
	struct stat st;
	int fd = cursor_open_file(&c->up, name, &st);
	size_t size = fd >= 0 && st.st_size < (off_t)GIT_INDEX_MAX ? (size_t)st.st_size : 0;
	char *data = size ? malloc(size) : NULL;
	bool ret = false;

	if (data && read_full_at(fd, data, size, 0) == (ssize_t)size)
		ret = git_index_is_sound(data, size);
	free(data);
	if (fd >= 0)
		close(fd);
	return ret;
}

static bool is_index(const struct ws_frame *f, const char *name)
{
	return git_place_is_top(f->place) &&
	       (strcmp(name, "index") == 0 || strncmp(name, "sharedindex.", 12) == 0);
}

bool ws_is_git_allowed(const struct ws_collect *c, const struct ws_frame *f,
		       const struct ws_entry *e)
{
	enum git_allowed what;

	/* What is gone is not there to be obeyed. */
	if (!f->in_repository || !e->has_up)
		return true;
	what = git_allowed_in(f->place, e->name, e->up.st_mode);
	if (what == GIT_ALLOWED_YES && S_ISREG(e->up.st_mode) && is_index(f, e->name))
		return is_sound_index(c, e->name);
	if (what == GIT_ALLOWED_YES || what == GIT_ALLOWED_NO)
		return what == GIT_ALLOWED_YES;
	return is_sound(c, e->name, what);
}

void ws_enter_git(const struct ws_frame *above, const char *name, struct ws_frame *f)
{
	f->in_repository = above->in_repository || autorun_is_git(name);
	if (above->in_repository)
		f->place = git_place_enter(above->place, name);
}

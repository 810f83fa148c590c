/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.protect behind links: a protected directory may have links in it, and the names of the home
 * directory may be links, into a write grant. Settings are often kept like that (`~/.bashrc` ->
 * `~/dotfiles/bashrc`), and so are hooks (`.git/hooks/pre-commit` -> `../../tools/pre-commit`).
 *
 * One level of a directory is looked at. Directories of programs in the home directory are not,
 * unless a grant contains them: what is called there by name is code like any other.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/autorun.h"
#include "plan/plan_protect.h"

#define ENTRIES_MAX 4096 /* of one protected directory */

static bool is_link(int dir_fd, const char *name)
{
	char byte;

	return readlinkat(dir_fd, name, &byte, 1) > 0;
}

/* Can a directory that does not open with @error be left alone? */
static bool is_nothing(int error, bool is_guarded)
{
	return error == ENOENT || error == ENOTDIR || (error == EACCES && !is_guarded);
}

int plan_protect_links_in(struct build *b, const char *path)
{
	CLEANUP(close_dir) DIR *dir = opendir(path);
	struct dirent *entry;
	size_t n = 0;
	int r = 0;

	if (!dir)
		return is_nothing(errno, plan_is_guarded(b, path))
			       ? 0
			       : plan_cannot_protect(b, path, -errno);
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		const char *link;

		if (++n > ENTRIES_MAX)
			return plan_cannot_protect(b, path, -E2BIG);
		if (entry->d_type != DT_LNK &&
		    (entry->d_type != DT_UNKNOWN || !is_link(dirfd(dir), entry->d_name)))
			continue;
		link = plan_join(b, path, entry->d_name);
		r = link ? plan_protect_link(b, link) : plan_nomem(b);
	}
	return r;
}

/* The directories on the way to the names, of which there are few. */
struct ways {
	const char *name; /* the last one: its first @len bytes */
	size_t len;
	bool is_link;
};

/* Is @name, or a directory on the way to it, a link? */
static bool has_link(int home_fd, const char *name, struct ways *last)
{
	char part[NAME_MAX];

	for (const char *s = strchr(name, '/'); s; s = strchr(s + 1, '/')) {
		size_t len = (size_t)(s - name);

		if (len >= sizeof(part))
			break;
		if (last->len != len || memcmp(last->name, name, len) != 0) {
			memcpy(part, name, len);
			part[len] = '\0';
			*last = (struct ways){ name, len, is_link(home_fd, part) };
		}
		if (last->is_link)
			return true;
	}
	return is_link(home_fd, name);
}

/* What the home directory's names lead to. */
static int protect_home_names(struct build *b, int home_fd)
{
	struct ways last = { "", 0, false };

	for (size_t i = 0; autorun_home[i].path; i++) {
		const char *path;
		int r;

		if (!has_link(home_fd, autorun_home[i].path, &last))
			continue;
		path = plan_join(b, b->home_real, autorun_home[i].path);
		r = path ? plan_protect_path(b, path, plan_protect_how(&autorun_home[i]))
			 : plan_nomem(b);
		if (r < 0)
			return r;
	}
	return 0;
}

int plan_protect_home_links(struct build *b)
{
	static const char *const settings[] = { ".config", ".ssh", ".gnupg",  ".aws",
						".kube",   ".vim", ".emacs.d" };
	struct resolved res;
	int home_fd, r = plan_hold_way(b, b->home, &res);

	if (r != 0)
		return r < 0 ? r : 0;
	home_fd = open(b->home_real, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (home_fd < 0)
		return is_nothing(errno, plan_is_guarded(b, b->home_real))
			       ? 0
			       : plan_cannot_protect(b, b->home_real, -errno);
	r = protect_home_names(b, home_fd);
	close(home_fd);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(settings); i++) {
		const char *path = plan_join(b, b->home_real, settings[i]);

		r = path ? plan_protect_links_in(b, path) : plan_nomem(b);
	}
	return r;
}

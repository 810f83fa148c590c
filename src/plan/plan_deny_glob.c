/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.deny with patterns: the names in the grants that match one are hidden like names that were
 * typed. This is about the moment in which the run starts: what comes into being later, in a write
 * grant or on the host, is not looked at.
 *
 * What is searched was chosen by the caller: read and write grants, the current directory, the
 * workspace (with what earlier runs left in it); not installations or the system. No link is
 * followed, nothing outside of a grant is opened and no file is. What cannot be searched is an
 * error, and so is more than the two numbers below allow: then something might be left visible.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/glob.h"
#include "plan/plan_internal.h"
#include "sys/calls.h"
#include "uapi/kernel_fs.h"

#define PATTERNS_MAX 64
#define ENTRIES_MAX 250000 /* names looked at, which takes about a third of a second */
#define MATCHES_MAX 512	   /* each becomes a mount */
#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)

struct pattern {
	struct glob glob;
	const char *typed;
};

/* A directory that is still to be read, and how far each pattern has matched on the way to it. */
struct place {
	const char *rel; /* below the root of the search */
	uint64_t *state;
};

struct search {
	struct build *b;
	struct pattern *patterns;
	size_t n_patterns, n_entries, n_matches;
	const char *first_match;
	/* The present root: where it lies, and what the command calls it. */
	const char *dir, *shown;
	int fd;
	bool is_upper, is_under; /* a workspace's layer with the changes; the one below that */
	struct place *places;
	size_t n_places, cap_places;
};

static const char *below(struct search *s, const char *dir, const char *rel)
{
	return strcmp(rel, ".") == 0 ? dir : plan_join(s->b, dir, rel);
}

static int too_much(struct search *s, const char *what, size_t max, const char *typed)
{
	int r = cordon_err(s->b->err, CORDON_E_PATH, 0,
			   "cannot deny '%s': more than %zu %s in '%s'", typed, max, what,
			   s->shown);

	cordon_err_hint(s->b->err,
			"begin the pattern with a directory, as in './src/**/NAME', deny a "
			"directory as a whole, or grant less");
	return r;
}

static int cannot_search(struct search *s, const char *rel, int error)
{
	const char *path = below(s, s->shown, rel);
	int r = cordon_err(s->b->err, CORDON_E_PATH, error, "cannot look for '%s' in '%s'",
			   s->patterns[0].typed, path ? path : s->shown);

	cordon_err_hint(s->b->err, "what it may hide would stay visible; make the directory "
				   "readable for you, or deny it: --deny DIR");
	return r;
}

/* A user who may not search the directory sees nothing in it, unless it is theirs. */
static bool is_closed(struct search *s, const char *rel)
{
	struct stat st;

	return fstatat(s->fd, rel, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_uid != s->b->in->machine->uid && faccessat(s->fd, rel, X_OK, AT_EACCESS) < 0;
}

/* Has an earlier run deleted or replaced what the base of the workspace has at @rel? */
static bool is_gone(struct search *s, const char *rel)
{
	const char *content = s->b->in->workspace->content;
	bool is_opaque = false;
	struct stat st;
	char is[8];

	for (size_t len = 0; rel[len];) {
		const char *path;

		len += strspn(rel + len, "/");
		len += strcspn(rel + len, "/");
		path = arena_printf(s->b->arena, "%s/%.*s", content, (int)len, rel);
		if (!path || lstat(path, &st) < 0)
			return is_opaque;
		if (!S_ISDIR(st.st_mode))
			return true; /* a whiteout, or a file that the other search finds */
		is_opaque |= getxattr(path, "user.overlay.opaque", is, sizeof(is)) > 0;
	}
	return is_opaque;
}

/* A link in a grant may stand for a file in the same grant, which is hidden, too. */
static int hide_target(struct search *s, const char *path)
{
	struct resolved res;

	if (s->is_upper || plan_resolve(s->b, path, &res) < 0 || res.missing ||
	    !S_ISREG(res.st.st_mode) || !plan_is_below(s->shown, res.real))
		return 0;
	return plan_deny_found(s->b, res.real, true);
}

static int hide(struct search *s, const struct pattern *p, const char *rel, mode_t type)
{
	const char *path = below(s, s->shown, rel);
	int r;

	if (!path)
		return plan_nomem(s->b);
	if ((s->is_upper && S_ISCHR(type)) || (s->is_under && is_gone(s, rel)))
		return 0;
	if (++s->n_matches > MATCHES_MAX)
		return too_much(s, "names match", MATCHES_MAX, p->typed);
	if (!s->first_match)
		s->first_match = path;
	r = plan_deny_found(s->b, path, !S_ISDIR(type));
	return r == 0 && S_ISLNK(type) ? hide_target(s, path) : r;
}

/* People call virtual environments .env, and mean another thing by the pattern. Under any other
 * name a file that a command may have put there opens nothing. */
static bool is_virtualenv(struct search *s, const char *name, const char *rel)
{
	const char *path;
	struct stat st;

	if (strncmp(name, ".env", 4) != 0)
		return false;
	path = plan_join(s->b, rel, "pyvenv.cfg");
	return path && fstatat(s->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* One name in a directory: hides it, or queues it if something in it may match. */
static int look_at(struct search *s, const struct place *in, const char *name, mode_t type)
{
	struct build *b = s->b;
	const char *rel = strcmp(in->rel, ".") == 0 ? arena_strdup(b->arena, name)
						    : plan_join(b, in->rel, name);
	uint64_t state[PATTERNS_MAX], any = 0;
	struct place *place;

	if (!rel)
		return plan_nomem(b);
	for (size_t i = 0; i < s->n_patterns; i++) {
		const struct pattern *p = &s->patterns[i];

		state[i] = glob_step(&p->glob, in->state[i], name);
		any |= state[i];
		if (glob_is_matched(&p->glob, state[i]) &&
		    !(S_ISDIR(type) && is_virtualenv(s, name, rel)))
			return hide(s, p, rel, type);
	}
	if (!any || !S_ISDIR(type))
		return 0;
	place = PLAN_ADD_TO(b, s, places, n_places, cap_places);
	if (!place)
		return plan_nomem(b);
	place->rel = rel;
	place->state = arena_alloc(b->arena, s->n_patterns * sizeof(*state));
	if (!place->state)
		return plan_nomem(b);
	memcpy(place->state, state, s->n_patterns * sizeof(*state));
	return 0;
}

/* Is a file system of the kernel mounted there? Those are never shown. */
static bool is_kernels(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && kernel_fs_of((uint64_t)fs.f_type);
}

static int read_place(struct search *s, const struct place place)
{
	CLEANUP(close_dir) DIR *dir = NULL;
	struct dirent *entry;
	int r = 0, fd = sys_openat2(s->fd, place.rel,
				    O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC, BENEATH);

	/* Removed or replaced by now. */
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
		return 0;
	if (fd == -EACCES && is_closed(s, place.rel))
		return 0;
	if (fd < 0)
		return cannot_search(s, place.rel, -fd);
	if (is_kernels(fd)) {
		close(fd);
		return 0;
	}
	dir = fdopendir(fd);
	if (!dir) {
		r = cannot_search(s, place.rel, errno);
		close(fd);
		return r;
	}
	while (r == 0 && (errno = 0, entry = readdir(dir)) != NULL) {
		mode_t type = (mode_t)DTTOIF(entry->d_type);
		struct stat st;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (++s->n_entries > ENTRIES_MAX)
			return too_much(s, "names to look at", ENTRIES_MAX, s->patterns[0].typed);
		if (entry->d_type == DT_UNKNOWN &&
		    fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			type = st.st_mode & S_IFMT;
		r = look_at(s, &place, entry->d_name, type);
	}
	return r == 0 && errno ? cannot_search(s, place.rel, errno) : r;
}

/* How far the patterns match the way to the root. 1 = the root itself is matched, and hidden. */
static int enter_root(struct search *s, bool is_dir)
{
	struct place *place = PLAN_ADD_TO(s->b, s, places, n_places, cap_places);
	char rest[PATH_MAX], name[NAME_MAX + 1];

	if (!place)
		return plan_nomem(s->b);
	place->rel = ".";
	place->state = arena_alloc(s->b->arena, s->n_patterns * sizeof(*place->state));
	if (!place->state)
		return plan_nomem(s->b);
	for (size_t i = 0; i < s->n_patterns; i++) {
		const struct pattern *p = &s->patterns[i];
		uint64_t state = glob_start(&p->glob);

		memcpy(rest, s->shown, strlen(s->shown) + 1);
		while (path_take_name(rest, name) > 0)
			state = glob_step(&p->glob, state, name);
		if (glob_is_matched(&p->glob, state)) {
			int r = plan_deny_found(s->b, s->shown, !is_dir);

			return r < 0 ? r : 1;
		}
		place->state[i] = state;
	}
	return 0;
}

static int search_root(struct search *s, const char *dir, const char *shown, bool is_dir)
{
	int r;

	s->dir = dir;
	s->shown = shown;
	s->n_places = 0;
	r = enter_root(s, is_dir);
	if (r != 0 || !is_dir)
		return r < 0 ? r : 0;
	s->fd = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->fd < 0)
		return errno == ENOENT ? 0 : cannot_search(s, ".", errno);
	for (size_t i = 0; r == 0 && i < s->n_places; i++)
		r = read_place(s, s->places[i]);
	close(s->fd);
	return r;
}

/* The layer of the changes has names that the base lacks, and the base what was not changed. */
static int search_workspace(struct search *s)
{
	const struct plan_workspace *ws = s->b->in->workspace;
	int r;

	s->is_upper = !ws->is_copy;
	r = search_root(s, ws->content, ws->base, true);
	s->is_upper = false;
	if (r < 0 || ws->is_copy)
		return r;
	s->is_under = true;
	r = search_root(s, ws->base, ws->base, true);
	s->is_under = false;
	return r;
}

/* Is it searched with a grant around it? */
static bool is_covered(const struct build *b, const struct grant *g)
{
	for (size_t i = 0; i < b->n_grants; i++) {
		const struct grant *outer = b->grants[i];

		if (!outer->is_dropped && !outer->is_workspace &&
		    (outer->origin == GRANT_EXPLICIT || outer->origin == GRANT_CWD) &&
		    plan_is_below(outer->real, g->real))
			return true;
	}
	return false;
}

static int search_grants(struct search *s)
{
	struct build *b = s->b;
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->n_grants; i++) {
		const struct grant *g = b->grants[i];

		if (g->is_dropped || (g->origin != GRANT_EXPLICIT && g->origin != GRANT_CWD))
			continue;
		if (g->is_workspace)
			r = search_workspace(s);
		else if (!is_covered(b, g))
			r = search_root(s, g->real, g->real, g->is_dir);
	}
	return r;
}

/* What a pattern begins with: names up to the first one with a wildcard, as a real path, since
 * links are not followed from there on. */
struct anchor {
	const char *dir, *rest; /* rest: "" = there is no wildcard, but escapes */
};

/* Where the pattern begins, before any name of it. */
static const char *anchor_start(const struct build *b, const char *typed, const char **ret_rest)
{
	*ret_rest = typed;
	if (typed[0] == '/')
		return "/";
	if (typed[0] != '~')
		return b->cwd;
	++*ret_rest;
	return b->typed_home;
}

static int find_anchor(struct build *b, const char *typed, struct anchor *ret)
{
	const char *rest, *dir = anchor_start(b, typed, &rest);
	char name[NAME_MAX + 1];
	struct resolved res;
	int r = dir ? 0 : -ENOENT;

	for (;;) {
		size_t len;

		rest += strspn(rest, "/");
		len = strcspn(rest, "/");
		if (r < 0 || len == 0 || !glob_plain_name(rest, len, name))
			break;
		rest += len;
		if (strcmp(name, "..") == 0)
			r = -EINVAL;
		else if (strcmp(name, ".") != 0)
			dir = plan_join(b, dir, name);
		if (!dir)
			return plan_nomem(b);
	}
	if (r == 0 && path_has_dotdot(rest))
		r = -EINVAL;
	if (r == 0)
		r = plan_resolve(b, dir, &res);
	if (r < 0)
		return cordon_err(b->err, CORDON_E_PATH, -r, "cannot deny '%s'", typed);
	ret->dir = res.missing ? plan_join(b, res.real, res.missing) : res.real;
	ret->rest = rest;
	return ret->dir ? 0 : plan_nomem(b);
}

/* "DIR/" and "DIR" followed by "**" mean the directory: hidden as a whole. */
static const char *without_tail(struct build *b, const char *typed)
{
	size_t len = strlen(typed);

	for (;;) {
		if (len > 1 && typed[len - 1] == '/')
			len--;
		else if (len > 3 && strncmp(typed + len - 3, "/**", 3) == 0)
			len -= 3;
		else
			return arena_strndup(b->arena, typed, len);
	}
}

/* A name with such characters in it is hidden, whatever else they stand for. */
static int deny_literal(struct build *b, const struct anchor *a)
{
	const char *path = *a->rest ? plan_join(b, a->dir, a->rest) : a->dir;
	struct stat st;

	if (!path)
		return plan_nomem(b);
	return !*a->rest || lstat(path, &st) == 0 ? plan_deny_name(b, path) : 0;
}

static int add_pattern(struct search *s, const char *typed)
{
	struct build *b = s->b;
	struct pattern *p = &s->patterns[s->n_patterns];
	const char *text = without_tail(b, typed);
	struct anchor a = { NULL, "" };
	bool is_anywhere;
	int r;

	if (!text)
		return plan_nomem(b);
	if (strcmp(text, "**") == 0 || strcmp(text, "*") == 0)
		return cordon_err(b->err, CORDON_E_PATH, 0,
				  "cannot deny '%s': it would hide everything", typed);
	if (s->n_patterns == PATTERNS_MAX)
		return cordon_err(b->err, CORDON_E_POLICY, 0, "fs.deny has more than %d patterns",
				  PATTERNS_MAX);
	r = find_anchor(b, text, &a);
	if (r == 0)
		r = deny_literal(b, &a);
	if (r < 0 || !*a.rest)
		return r;
	p->typed = typed;
	is_anywhere = glob_is_anywhere(text);
	if (is_anywhere && !strchr(text, '/')) {
		text = arena_printf(b->arena, "**/%s", text);
		if (!text)
			return plan_nomem(b);
	}
	r = is_anywhere ? glob_init(&p->glob, NULL, text) : glob_init(&p->glob, a.dir, a.rest);
	if (r < 0)
		return cordon_err(b->err, CORDON_E_PATH, -r, "cannot deny '%s'", typed);
	s->n_patterns++;
	return 0;
}

/* The command says only that it may not open them, if it says anything. */
static int note_hidden(const struct search *s)
{
	if (s->n_matches == 0)
		return 0;
	if (s->n_matches == 1)
		return plan_note(s->b, "'%s' is hidden from the command", s->first_match);
	return plan_note(s->b, "'%s' and %zu more are hidden from the command", s->first_match,
			 s->n_matches - 1);
}

int plan_deny_patterns(struct build *b)
{
	struct search s = { .b = b, .fd = -1 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->policy->fs_deny.n; i++) {
		const char *typed = b->policy->fs_deny.v[i];

		if (!glob_is_pattern(typed))
			continue;
		if (!s.patterns)
			s.patterns = arena_alloc(b->arena, PATTERNS_MAX * sizeof(*s.patterns));
		r = s.patterns ? add_pattern(&s, typed) : plan_nomem(b);
	}
	if (r == 0 && s.n_patterns > 0)
		r = search_grants(&s);
	return r < 0 ? r : note_hidden(&s);
}

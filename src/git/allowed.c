/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of what git keeps in a repository's own directory (allowed.h).
 *
 * A submodule's repository lies in modules/NAME, and NAME may have any components, those of this
 * table as well. So below modules/ the names that git obeys are not allowed at any depth, even
 * where they could be a branch.
 */
#include <limits.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "git/allowed.h"

enum at {
	AT_TOP = 0,
	AT_ANY,	    /* anything plain, at any depth */
	AT_NOWHERE, /* a directory that is not allowed */
	AT_EMPTY,   /* allowed, but nothing in it */
	AT_INFO,
	AT_OBJECTS,
	AT_LOOSE_OBJECTS,
	AT_PACK,
	AT_OBJECTS_INFO,
	AT_GRAPHS,
	AT_REFS,
	AT_REFTABLE,
	AT_REBASE,
	AT_CONFLICTS, /* rr-cache */
	AT_LFS,
	AT_WORKTREES,
	AT_MODULES,
};

/* In a pattern * stands for any bytes, and # for one or more hexadecimal digits. Each file may have
 * a lock beside it, NAME.lock. */
static const struct {
	uint8_t at;
	const char *pattern;
	uint8_t what; /* enum git_allowed */
} files[] = {
	/* what is checked out, and what is going on */
	{ AT_TOP, "HEAD", GIT_ALLOWED_HEAD },
	{ AT_TOP, "ORIG_HEAD", GIT_ALLOWED_HEAD },
	{ AT_TOP, "FETCH_HEAD", GIT_ALLOWED_HEAD },
	{ AT_TOP, "MERGE_HEAD", GIT_ALLOWED_HEAD },
	{ AT_TOP, "CHERRY_PICK_HEAD", GIT_ALLOWED_HEAD },
	{ AT_TOP, "REVERT_HEAD", GIT_ALLOWED_HEAD },
	{ AT_TOP, "REBASE_HEAD", GIT_ALLOWED_HEAD },
	{ AT_TOP, "BISECT_HEAD", GIT_ALLOWED_HEAD },
	{ AT_TOP, "BISECT_EXPECTED_REV", GIT_ALLOWED_HEAD },
	{ AT_TOP, "AUTO_MERGE", GIT_ALLOWED_HEAD },
	{ AT_TOP, "MERGE_AUTOSTASH", GIT_ALLOWED_HEAD },
	{ AT_TOP, "NOTES_MERGE_PARTIAL", GIT_ALLOWED_HEAD },
	{ AT_TOP, "NOTES_MERGE_REF", GIT_ALLOWED_HEAD },
	{ AT_TOP, "MERGE_MSG", GIT_ALLOWED_YES },
	{ AT_TOP, "MERGE_MODE", GIT_ALLOWED_YES },
	{ AT_TOP, "MERGE_RR", GIT_ALLOWED_EMPTY }, /* paths of files that git copies */
	{ AT_TOP, "SQUASH_MSG", GIT_ALLOWED_YES },
	{ AT_TOP, "BISECT_ANCESTORS_OK", GIT_ALLOWED_YES },
	{ AT_TOP, "BISECT_FIRST_PARENT", GIT_ALLOWED_YES },
	{ AT_TOP, "BISECT_LOG", GIT_ALLOWED_YES },
	{ AT_TOP, "BISECT_NAMES", GIT_ALLOWED_ARGS },
	{ AT_TOP, "BISECT_RUN", GIT_ALLOWED_YES }, /* what the command printed */
	{ AT_TOP, "BISECT_START", GIT_ALLOWED_YES },
	{ AT_TOP, "BISECT_TERMS", GIT_ALLOWED_YES },
	/* texts that are being edited */
	{ AT_TOP, "COMMIT_EDITMSG", GIT_ALLOWED_YES },
	{ AT_TOP, "TAG_EDITMSG", GIT_ALLOWED_YES },
	{ AT_TOP, "NOTES_EDITMSG", GIT_ALLOWED_YES },
	{ AT_TOP, "EDIT_DESCRIPTION", GIT_ALLOWED_YES },
	{ AT_TOP, "ADD_EDIT.patch", GIT_ALLOWED_YES },
	{ AT_TOP, "addp-hunk-edit.diff", GIT_ALLOWED_YES },
	{ AT_TOP, "description", GIT_ALLOWED_YES },
	/* data */
	{ AT_TOP, "index", GIT_ALLOWED_YES },
	{ AT_TOP, "index.stash.*", GIT_ALLOWED_YES },
	{ AT_TOP, "next-index-*", GIT_ALLOWED_YES },
	{ AT_TOP, "sharedindex.#", GIT_ALLOWED_YES },
	{ AT_TOP, "sharedindex_*", GIT_ALLOWED_YES },
	{ AT_TOP, "packed-refs", GIT_ALLOWED_YES },
	{ AT_TOP, "packed-refs.new", GIT_ALLOWED_YES },
	{ AT_TOP, "shallow", GIT_ALLOWED_YES },
	{ AT_TOP, "shallow_*", GIT_ALLOWED_YES },
	{ AT_TOP, "gc.log", GIT_ALLOWED_YES },
	{ AT_TOP, "gc.pid", GIT_ALLOWED_YES },
	{ AT_TOP, "locked", GIT_ALLOWED_YES }, /* a linked work tree's: the reason */
	{ AT_INFO, "exclude", GIT_ALLOWED_YES },
	{ AT_INFO, "refs", GIT_ALLOWED_YES },
	{ AT_INFO, "refs_*", GIT_ALLOWED_YES },
	{ AT_INFO, "sparse-checkout", GIT_ALLOWED_YES },
	{ AT_OBJECTS, "tmp_*", GIT_ALLOWED_YES },
	{ AT_OBJECTS, "maintenance", GIT_ALLOWED_YES }, /* for its lock */
	{ AT_OBJECTS, "schedule", GIT_ALLOWED_YES },	/* the same */
	{ AT_LOOSE_OBJECTS, "#", GIT_ALLOWED_YES },
	{ AT_LOOSE_OBJECTS, "tmp_*", GIT_ALLOWED_YES },
	{ AT_PACK, "pack-#.*", GIT_ALLOWED_YES },
	{ AT_PACK, "multi-pack-index*", GIT_ALLOWED_YES },
	{ AT_PACK, "tmp_*", GIT_ALLOWED_YES },
	{ AT_PACK, ".tmp-*", GIT_ALLOWED_YES },
	{ AT_OBJECTS_INFO, "packs", GIT_ALLOWED_YES },
	{ AT_OBJECTS_INFO, "packs_*", GIT_ALLOWED_YES },
	{ AT_OBJECTS_INFO, "commit-graph", GIT_ALLOWED_YES },
	{ AT_GRAPHS, "commit-graph-chain", GIT_ALLOWED_YES },
	{ AT_GRAPHS, "graph-#.graph", GIT_ALLOWED_YES },
	{ AT_GRAPHS, "tmp_*", GIT_ALLOWED_YES },
	{ AT_ANY, "*", GIT_ALLOWED_YES },
	{ AT_REFS, "*", GIT_ALLOWED_REF },
	{ AT_REFTABLE, "tables.list", GIT_ALLOWED_YES },
	{ AT_REFTABLE, "*.ref", GIT_ALLOWED_YES },
	{ AT_REFTABLE, "*.log", GIT_ALLOWED_YES },
	{ AT_REBASE, "git-rebase-todo*", GIT_ALLOWED_TODO },
	{ AT_REBASE, "todo*", GIT_ALLOWED_TODO },
	{ AT_REBASE, "strategy", GIT_ALLOWED_WORDS },
	{ AT_REBASE, "opts", GIT_ALLOWED_WORDS },
	{ AT_REBASE, "apply-opt", GIT_ALLOWED_OPTIONS },
	{ AT_REBASE, "gpg_sign_opt", GIT_ALLOWED_EMPTY },
	{ AT_REBASE, "*", GIT_ALLOWED_YES },
	{ AT_CONFLICTS, "preimage*", GIT_ALLOWED_YES },
	{ AT_CONFLICTS, "postimage*", GIT_ALLOWED_YES },
	{ AT_CONFLICTS, "thisimage*", GIT_ALLOWED_YES },
};

static const struct {
	uint8_t at;
	const char *pattern;
	uint8_t to;
} dirs[] = {
	{ AT_TOP, "NOTES_MERGE_WORKTREE", AT_ANY },
	{ AT_TOP, "branches", AT_EMPTY },
	{ AT_TOP, "info", AT_INFO },
	{ AT_TOP, "logs", AT_ANY },
	{ AT_TOP, "objects", AT_OBJECTS },
	{ AT_TOP, "refs", AT_REFS },
	{ AT_TOP, "reftable", AT_REFTABLE },
	{ AT_TOP, "rebase-apply", AT_REBASE },
	{ AT_TOP, "rebase-merge", AT_REBASE },
	{ AT_TOP, "sequencer", AT_REBASE },
	{ AT_TOP, "rr-cache", AT_CONFLICTS },
	{ AT_TOP, "lfs", AT_LFS },
	{ AT_TOP, "modules", AT_MODULES },
	{ AT_TOP, "worktrees", AT_WORKTREES },
	{ AT_OBJECTS, "#", AT_LOOSE_OBJECTS },
	{ AT_OBJECTS, "pack", AT_PACK },
	{ AT_OBJECTS, "info", AT_OBJECTS_INFO },
	{ AT_OBJECTS, "tmp_objdir-*", AT_OBJECTS },
	{ AT_OBJECTS, "incoming-*", AT_OBJECTS },
	{ AT_PACK, "multi-pack-index.d", AT_PACK },
	{ AT_OBJECTS_INFO, "commit-graphs", AT_GRAPHS },
	{ AT_ANY, "*", AT_ANY },
	{ AT_REFS, "*", AT_REFS },
	{ AT_REBASE, "*", AT_REBASE },
	{ AT_CONFLICTS, "#", AT_CONFLICTS },
	{ AT_LFS, "objects", AT_ANY },
	{ AT_LFS, "tmp", AT_ANY },
	{ AT_LFS, "incomplete", AT_ANY },
	{ AT_LFS, "cache", AT_ANY },
	{ AT_WORKTREES, "*", AT_TOP },
};

/* What git obeys wherever a repository's directory may be. */
static const char *const obeyed[] = {
	"hooks",  "config",	"config.worktree", "commondir",
	"gitdir", "attributes", "alternates",	   "http-alternates"
};

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool matches(const char *pattern, const char *name, size_t len)
{
	size_t rest;

	/* No name of a branch begins with a dot. */
	if (pattern[0] == '*' && name[0] == '.')
		return false;
	for (; *pattern && *pattern != '*'; pattern++, name++, len--) {
		if (len == 0 || (*pattern == '#' ? !is_hex(*name) : *pattern != *name))
			return false;
		while (*pattern == '#' && len > 1 && is_hex(name[1])) {
			name++;
			len--;
		}
	}
	if (!*pattern)
		return len == 0;
	/* A * comes once at most. */
	rest = strlen(pattern + 1);
	return len >= rest && memcmp(name + len - rest, pattern + 1, rest) == 0;
}

/* Below modules/ any name may be a submodule's, or a part of one's. */
static bool is_obeyed(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(obeyed); i++) {
		if (strcasecmp(name, obeyed[i]) == 0)
			return true;
	}
	return false;
}

static enum git_allowed file_in(struct git_place place, const char *name)
{
	uint8_t at = place.at == AT_MODULES ? AT_TOP : place.at;
	size_t len = strlen(name);

	if (len > 5 && strcmp(name + len - 5, ".lock") == 0)
		len -= 5;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		if (files[i].at == at && matches(files[i].pattern, name, len))
			return name[len] ? GIT_ALLOWED_YES : files[i].what;
	}
	return GIT_ALLOWED_NO;
}

struct git_place git_place_enter(struct git_place place, const char *name)
{
	uint8_t at = place.at == AT_MODULES ? AT_TOP : place.at;
	size_t len = strlen(name);
	struct git_place ret = { .at = AT_NOWHERE, .is_loose = place.is_loose };

	if (place.is_loose && is_obeyed(name))
		return ret;
	if (place.at == AT_MODULES && name[0] != '.')
		ret.at = AT_MODULES;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		if (dirs[i].at == at && matches(dirs[i].pattern, name, len)) {
			ret.at = dirs[i].to;
			break;
		}
	}
	ret.is_loose |= ret.at == AT_MODULES || place.at == AT_WORKTREES;
	return ret;
}

bool git_place_is_top(struct git_place place)
{
	return place.at == AT_TOP || place.at == AT_MODULES;
}

enum git_allowed git_allowed_in(struct git_place place, const char *name, mode_t mode)
{
	if (place.is_loose && is_obeyed(name))
		return GIT_ALLOWED_NO;
	if (S_ISDIR(mode))
		return git_place_enter(place, name).at == AT_NOWHERE ? GIT_ALLOWED_NO
								     : GIT_ALLOWED_YES;
	if (!S_ISREG(mode) || (mode & (S_ISUID | S_ISGID)))
		return GIT_ALLOWED_NO;
	return file_in(place, name);
}

enum git_allowed git_allowed(const char *path, mode_t mode)
{
	struct git_place place = { 0 };
	char name[NAME_MAX + 1];

	for (;;) {
		size_t len = strcspn(path, "/");

		if (len == 0 || len > NAME_MAX)
			return GIT_ALLOWED_NO;
		memcpy(name, path, len);
		name[len] = '\0';
		if (!path[len])
			return git_allowed_in(place, name, mode);
		place = git_place_enter(place, name);
		path += len + 1;
	}
}

/* Is [@text, @text + @len) a reference within refs/ that git would accept? */
static bool is_reference(const char *text, size_t len)
{
	char before = '/';

	if (len < 6 || memcmp(text, "refs/", 5) != 0 || text[len - 1] == '/')
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c <= ' ' || c == 0x7f || strchr("~^:?*[\\", c) ||
		    (before == '/' && (c == '.' || c == '/')) || (before == '.' && c == '.'))
			return false;
		before = text[i];
	}
	return true;
}

/* Lines that begin with an object's name; what follows a blank is a remark. */
static bool are_object_names(const char *text, size_t len)
{
	while (len > 0) {
		const char *end = memchr(text, '\n', len);
		size_t line = end ? (size_t)(end - text) : len, n = 0;

		while (n < line && is_hex(text[n]))
			n++;
		if ((n != 40 && n != 64) || (n < line && text[n] != '\t' && text[n] != ' '))
			return false;
		line += end != NULL;
		text += line;
		len -= line;
	}
	return true;
}

/* An object's name, or another reference: git writes to whatever file that names. */
static bool is_ref_sound(const char *text, size_t len)
{
	if (len < 5 || memcmp(text, "ref: ", 5) != 0)
		return are_object_names(text, len);
	len -= text[len - 1] == '\n';
	return is_reference(text + 5, len - 5);
}

bool git_head_is_sound(const char *name, const char *text, size_t len)
{
	/* Git writes through other files that are references to references. */
	bool may_refer = strcmp(name, "HEAD") == 0 || strcmp(name, "NOTES_MERGE_REF") == 0;

	if (len == 0)
		return strcmp(name, "HEAD") != 0;
	return may_refer ? is_ref_sound(text, len) : are_object_names(text, len);
}

bool git_todo_runs(const char *text, size_t len)
{
	while (len > 0) {
		const char *end = memchr(text, '\n', len);
		size_t line = end ? (size_t)(end - text) : len, i = 0;

		while (i < line && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r'))
			i++;
		if (line - i >= 4 && memcmp(text + i, "exec", 4) == 0)
			return true;
		if (i < line && text[i] == 'x' &&
		    (line - i == 1 || (unsigned char)text[i + 1] <= ' '))
			return true;
		line += end != NULL;
		text += line;
		len -= line;
	}
	return false;
}

static bool has_any(const char *text, size_t len, const char *bytes)
{
	for (size_t i = 0; i < len; i++)
		if (!text[i] || strchr(bytes, text[i]))
			return true;
	return false;
}

static bool has_word(const char *text, size_t len, const char *word)
{
	for (size_t n = strlen(word); len >= n; text++, len--)
		if (strncasecmp(text, word, n) == 0)
			return true;
	return false;
}

bool git_content_is_sound(enum git_allowed what, const char *name, const char *text, size_t len)
{
	switch (what) {
	case GIT_ALLOWED_YES:
		return true;
	case GIT_ALLOWED_HEAD:
		return git_head_is_sound(name, text, len);
	case GIT_ALLOWED_REF:
		return is_ref_sound(text, len);
	case GIT_ALLOWED_TODO:
		return !git_todo_runs(text, len);
	case GIT_ALLOWED_WORDS:
		return !has_any(text, len, "/") && !has_word(text, len, "gpg");
	case GIT_ALLOWED_OPTIONS:
		/* Without a backslash no option is written in pieces. */
		return !has_any(text, len, "/\\") && !has_word(text, len, "--b");
	case GIT_ALLOWED_EMPTY:
		return len == 0;
	case GIT_ALLOWED_ARGS:
		return !has_any(text, len, "$`;&|<>(){}\"\\#");
	case GIT_ALLOWED_NO:
		break;
	}
	return false;
}

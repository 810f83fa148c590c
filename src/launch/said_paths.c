/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths in what a failed command said: those that exist on the host and that the command does not
 * see, and those that it may only read.
 *
 * A path counts only if the plan and the host together explain the error: the text "no such file"
 * for something that is there, but not in this view; "read-only" for something that the caller may
 * write to, and the command may not. What is missing for both, or there for both, is the command's
 * own affair. So a forged line can make us say something true that was not asked for, no more; and
 * advice never names places of keys, homes or the machine's own files (discover_may_advise()).
 *
 * Who reads this learns which files the host has. Where that may be the command's author
 * (options.tells_files is 0), the host is not asked about anything that the command does not see
 * itself, and a path outside of the view counts as it is written.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "discover/discover.h"
#include "launch/said.h"
#include "plan/plan_mounts.h"
#include "plan/plan_read.h"
#include "sys/calls.h"
#include "uapi/landlock.h"

#define LOOKS_MAX 64 /* at names on the host, for one run */

/* A path as the host has it. */
struct place {
	char text[PATH_MAX]; /* absolute, as it was written */
	char real[PATH_MAX];
	char real_dir[PATH_MAX]; /* of the directory that it lies in */
	mode_t mode;		 /* 0 = it does not exist */
};

/* How the kernel answers for what the command does not see, and for what it may only read. */
static unsigned hidden_error(const struct plan_header *h)
{
	return h->level == PLAN_LEVEL_NAMESPACES ? SAID_MISSING : SAID_DENIED;
}

static unsigned read_only_error(const struct plan_header *h)
{
	return h->level == PLAN_LEVEL_NAMESPACES ? SAID_READ_ONLY : SAID_DENIED;
}

/* The guest may have named a place that another machine keeps, which is gone. */
bool said_find_real(const char *path, bool may_follow, char real[PATH_MAX], mode_t *ret_mode)
{
	char name[32];
	struct stat st;
	ssize_t len;
	int fd = -ELOOP;

	if (!path_has_dotdot(path)) {
		if (!plan_is_on_this_machine(path))
			return false;
		fd = sys_openat2(AT_FDCWD, path, O_PATH, RESOLVE_NO_SYMLINKS);
	}
	/* Where a link and ".." lead must be known to the kernel already. */
	if (fd == -ELOOP && may_follow)
		fd = sys_openat2(AT_FDCWD, path, O_PATH, RESOLVE_NO_MAGICLINKS | RESOLVE_CACHED);
	if (fd < 0)
		return false;
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	len = fstat(fd, &st) == 0 ? readlink(name, real, PATH_MAX - 1) : -1;
	close(fd);
	if (len <= 0 || real[0] != '/')
		return false;
	real[len] = '\0';
	*ret_mode = st.st_mode;
	return true;
}

/* Copies the directory of @path; false = it has none. */
static bool cut_name(const char *path, char dir[PATH_MAX])
{
	size_t len = path_dir_len(path);

	memcpy(dir, path, len);
	dir[len] = '\0';
	return len > 0;
}

/* The text as an absolute path. */
static bool read_path(const char *cwd, const char *text, size_t len, char ret[PATH_MAX])
{
	char written[PATH_MAX];

	if (len == 0 || len >= sizeof(written))
		return false;
	memcpy(written, text, len);
	written[len] = '\0';
	return path_normalise(cwd, written, ret, PATH_MAX) > 1 && ret[0] == '/';
}

/* Where place->text leads. false: there is no such place, not even its directory. */
static bool find_place(struct place *place, bool may_follow)
{
	char dir[PATH_MAX];
	mode_t dir_mode;

	place->mode = 0;
	if (!said_find_real(place->text, may_follow, place->real, &place->mode)) {
		/* Where it would lead cannot be told from the text. */
		if (path_has_dotdot(place->text) || !cut_name(place->text, dir))
			return false;
		place->real[0] = '\0';
		return said_find_real(dir, may_follow, place->real_dir, &dir_mode) &&
		       S_ISDIR(dir_mode);
	}
	if (path_has_dotdot(place->text))
		memcpy(place->text, place->real, PATH_MAX);
	return cut_name(place->real, place->real_dir);
}

/* "-r PATH" or "-w PATH"; NULL if it should not be advised. */
static const char *fix_of(const struct said *said, bool is_write, const char *path,
			  const char *real)
{
	const char *home = said->subject->plan->home;
	struct strbuf sb = STRBUF_INIT;
	const char *fix = NULL;

	if (!discover_may_advise(home, real, is_write) ||
	    !discover_may_advise(home, path, is_write))
		return NULL;
	strbuf_puts(&sb, is_write ? "-w " : "-r ");
	add_shell_word(&sb, said_shown(said->subject->plan, path));
	if (!sb.failed)
		fix = arena_strdup(said->subject->arena, sb.data);
	strbuf_done(&sb);
	return fix;
}

const char *said_read_fix(const struct said *said, const char *path, const char *real)
{
	return fix_of(said, false, path, real);
}

const char *said_write_fix(const struct said *said, const char *path, const char *real, bool is_dir)
{
	char dir[PATH_MAX], real_dir[PATH_MAX];

	if (is_dir)
		return fix_of(said, true, path, real);
	return cut_name(path, dir) && cut_name(real, real_dir) ? fix_of(said, true, dir, real_dir)
							       : NULL;
}

/* A file cannot be made or replaced by a grant of the file. */
static const char *fix_for_write(const struct said *said, const struct place *place)
{
	char dir[PATH_MAX];

	if (S_ISDIR(place->mode))
		return fix_of(said, true, place->text, place->real);
	return cut_name(place->text, dir) ? fix_of(said, true, dir, place->real_dir) : NULL;
}

/* Can it be no sentence? Nobody has checked this name. */
static bool is_plain_name(const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < len; i++)
		if (!isgraph((unsigned char)path[i]))
			return false;
	return len <= NAME_MAX;
}

/* A place of keys, homes and the like is hidden whether it exists or not. Which of both must not be
 * told, since the command may be written by who reads this. */
static bool tell_kept(struct said *said, const char *path)
{
	if (!is_plain_name(path) || path_has_dotdot(path) ||
	    discover_may_advise(said->subject->plan->home, path, false) ||
	    view_of(said->plan, path, false) != VIEW_HIDDEN)
		return false;
	said_tell_once(said, "read", path, "fs.read", NULL);
	return true;
}

/* It is there, and the command says that it is not. @wants_write: or that it could not make it. */
static bool tell_hidden(struct said *said, const struct place *place, unsigned errors,
			bool wants_write)
{
	const struct plan_header *h = said->plan;
	enum view view = view_of(h, place->real, S_ISDIR(place->mode));

	/* A cover cannot be opened. */
	if (view == VIEW_DENIED && errors & (SAID_DENIED | SAID_NO_DEVICE)) {
		said_tell_once(said, "read", place->text, "fs.deny", NULL);
		return true;
	}
	if (view != VIEW_HIDDEN || !(errors & hidden_error(h)))
		return false;
	if (S_ISSOCK(place->mode))
		said_tell_once(said, "connect", place->text, "fs.read", NULL);
	else if (wants_write)
		said_tell_once(said, "write", place->text, "fs.write", fix_for_write(said, place));
	else
		said_tell_once(said, "read", place->text, "fs.read",
			       fix_of(said, false, place->text, place->real));
	return true;
}

/* The same without a look at the host: @path is not in the view, whether it exists or not. */
static bool tell_unseen(struct said *said, const char *path, unsigned errors, bool wants_write)
{
	enum view view = view_of(said->plan, path, false);
	char dir[PATH_MAX];

	if (path_has_dotdot(path) || !is_plain_name(path))
		return false;
	if (view == VIEW_DENIED && errors & (SAID_DENIED | SAID_NO_DEVICE)) {
		said_tell_once(said, "read", path, "fs.deny", NULL);
		return true;
	}
	if (view != VIEW_HIDDEN || !(errors & hidden_error(said->plan)))
		return false;
	if (!wants_write)
		said_tell_once(said, "read", path, "fs.read", fix_of(said, false, path, path));
	else if (cut_name(path, dir))
		said_tell_once(said, "write", path, "fs.write", fix_of(said, true, dir, dir));
	return true;
}

/* The caller may write there, and the command may not: it only reads, or does not even see it. Of
 * what does not exist the directory is named: the rest is the command's word. */
static bool tell_closed(struct said *said, const struct place *place, enum view view)
{
	const struct plan_header *h = said->plan;
	const char *path = place->mode ? place->real : place->real_dir, *fix;
	char dir[PATH_MAX];

	/* What the caller may not read gives the same error for another reason. */
	if (view_of(h, path, place->mode == 0 || S_ISDIR(place->mode)) != view ||
	    faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) < 0)
		return false;
	fix = fix_for_write(said, place);
	if (!fix || !cut_name(place->text, dir))
		return false;
	said_tell_once(said, "write", place->mode ? place->text : dir, "fs.write", fix);
	return true;
}

/* Words of programs that make something, or write. */
static bool says_write(const struct said_line *line)
{
	static const char *const words[] = { "create", "touch", "writ", "mkdir", "save", "output" };
	size_t n = (size_t)(line->end - line->begin);

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (memmem(line->begin, n, words[i], strlen(words[i])))
			return true;
	return false;
}

/* true: the path explains the line. @must_exist: the text may be no path at all. */
static bool judge(struct said *said, const struct said_line *line, const char *text, size_t len,
		  bool must_exist)
{
	const struct plan_header *h = said->plan;
	struct place place;

	if (said->n_looks++ >= LOOKS_MAX || !read_path(said->cwd, text, len, place.text))
		return false;
	if (text[0] == '/' && line->errors & hidden_error(h) && tell_kept(said, place.text))
		return true;
	if (!said->subject->tells_files) {
		if (text[0] == '/' && tell_unseen(said, place.text, line->errors, says_write(line)))
			return true;
		if (view_of(h, place.text, true) != VIEW_READ_ONLY)
			return false;
	}
	if (!find_place(&place, said->subject->tells_files) || (must_exist && !place.mode))
		return false;
	if (line->errors & read_only_error(h) && tell_closed(said, &place, VIEW_READ_ONLY))
		return true;
	if (place.mode)
		return tell_hidden(said, &place, line->errors, says_write(line));
	/* Without Landlock's right to make it; to read it, it would just not be there. */
	return line->errors & hidden_error(h) &&
	       (says_write(line) || h->level == PLAN_LEVEL_LANDLOCK) &&
	       tell_closed(said, &place, VIEW_HIDDEN);
}

/* The end of the text in quotes that begins at @p; NULL = it is in none. */
static const char *end_of_quoted(const char *p, const struct said_line *line)
{
	size_t n = (size_t)(line->end - p);

	if (p == line->begin)
		return NULL;
	/* Not that of "can't". */
	if (p - line->begin >= 2 && isalnum((unsigned char)p[-2]))
		return NULL;
	if (strchr("'\"`", p[-1]))
		return memchr(p, p[-1] == '`' ? '\'' : p[-1], n);
	if (p - line->begin >= 3 && memcmp(p - 3, "\xe2\x80", 2) == 0)
		return memmem(p, n, p[-1] == '\x98' ? "\xe2\x80\x99" : "\xe2\x80\x9d", 3);
	return NULL;
}

/* true: there are quotes in the line. */
static bool judge_quoted(struct said *said, const struct said_line *line)
{
	bool has_any = false;

	for (const char *p = line->begin; p < line->end; p++) {
		const char *end = said_is_begin(p, line) ? end_of_quoted(p, line) : NULL;

		if (!end)
			continue;
		has_any = true;
		if (judge(said, line, p, (size_t)(end - p), false))
			break;
		p = end;
	}
	return has_any;
}

/* The piece between ": " that ends at @end; NULL = it is the program's name. */
static const char *piece_before(const struct said_line *line, const char *end)
{
	const char *begin = NULL;

	for (const char *p = line->begin; p + 2 <= end; p++)
		if (p[0] == ':' && p[1] == ' ')
			begin = p + 2;
	return begin;
}

/* "cat: my file: No such file or directory", "sh: 1: cannot create x: ...", "tar: x: Cannot open:
 * ..."
 */
static bool judge_piece(struct said *said, const struct said_line *line)
{
	const char *end = line->text, *begin, *word;

	if (end - line->begin < 2 || end[-1] != ' ' || end[-2] != ':')
		return false;
	end -= 2;
	begin = piece_before(line, end);
	if (begin && end - begin > 7 && memcmp(begin, "Cannot ", 7) == 0) {
		end = begin - 2;
		begin = piece_before(line, end);
	}
	if (!begin && !says_write(line))
		return false;
	begin = begin ? begin : line->begin;
	for (word = end; word > begin && word[-1] != ' ';)
		word--;
	return judge(said, line, begin, (size_t)(end - begin), word > begin) ||
	       (word > begin && judge(said, line, word, (size_t)(end - word), !says_write(line)));
}

/* Words with a slash in them. */
static void judge_words(struct said *said, const struct said_line *line)
{
	for (const char *p = line->begin; p < line->end; p++) {
		const char *end = p;

		if (!said_is_begin(p, line))
			continue;
		while (!said_is_end(end, line->end))
			end++;
		while (end > p && end[-1] == '.')
			end--;
		if (memchr(p, '/', (size_t)(end - p)) &&
		    judge(said, line, p, (size_t)(end - p), false))
			return;
	}
}

void said_paths_line(struct said *said, const struct said_line *line)
{
	size_t n_told = said->n_denials;

	if (!(line->errors & (SAID_MISSING | SAID_DENIED | SAID_READ_ONLY | SAID_NO_DEVICE)))
		return;
	if (!judge_quoted(said, line) && judge_piece(said, line))
		return;
	if (said->n_denials == n_told)
		judge_words(said, line);
}

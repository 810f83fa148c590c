/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wanted, in a form that is the same for the same wish.
 *
 * Only names of an index are taken: no option, no URL, no path. An installer would go wherever such
 * a thing leads. Specs never become arguments: the installer reads them from a file. There pip
 * takes options from the middle of a line, ends lines at characters that are no line breaks
 * elsewhere, joins lines after "\\" and puts variables in place of "${NAME}". So nothing but
 * printable ASCII gets into that file, no word that begins with "-" but hashes, and none of these
 * signs.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "base/path.h"
#include "packages/packages.h"

#define NPM "npm:"
#define FILE_MAX_BYTES ((size_t)8 << 20)
#define SPECS_MAX 1000
#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static int no_memory(struct cordon_error *err)
{
	return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
}

static int refuse_spec(const char *spec, const char *why, struct cordon_error *err)
{
	(void)cordon_err(err, CORDON_E_USAGE, 0, "'%.80s' cannot be installed: %s", spec, why);
	(void)cordon_err_hint(err, "write NAME==VERSION for pip, npm:NAME@VERSION for npm");
	return -CORDON_E_USAGE;
}

static int add_wanted(struct request *rq, const char *text, struct cordon_error *err)
{
	if (strlist_has(&rq->wanted, text))
		return 0;
	if (rq->wanted.n >= SPECS_MAX)
		return cordon_err(err, CORDON_E_USAGE, 0, "more than %d packages", SPECS_MAX);
	return strlist_add(rq->arena, &rq->wanted, text) < 0 ? no_memory(err) : 0;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

/* Lower case, and runs of "-", "_" and "." as one "-", as indexes compare names. The rest without
 * blanks, but for those that separate words of a marker. */
static char *normal_requirement(struct arena *arena, const char *spec)
{
	size_t name = strspn(spec, LOWER UPPER "-_."), n = 0;
	char *text = arena_strdup(arena, spec);
	bool in_marker = false;

	if (!text)
		return NULL;
	for (size_t i = 0; spec[i]; i++) {
		char c = spec[i];

		if (i < name) {
			if (c >= 'A' && c <= 'Z')
				c = (char)(c - 'A' + 'a');
			if (c == '_' || c == '.')
				c = '-';
			if (c == '-' && n > 0 && text[n - 1] == '-')
				continue;
		} else {
			in_marker |= c == ';' || c == '"' || c == '\'';
			if (is_space(c) && (!in_marker || (n > 0 && text[n - 1] == ' ')))
				continue;
			c = is_space(c) ? ' ' : c;
		}
		text[n++] = c;
	}
	while (n > 0 && text[n - 1] == ' ')
		n--;
	text[n] = '\0';
	return text;
}

/* What a requirement cannot have, wherever it was written; NULL = nothing of that. */
static const char *why_no_requirement(const char *spec)
{
	size_t name, blank;

	for (const char *c = spec; *c; c++) {
		if (*c < ' ' || *c > '~')
			return "it has a character that is not printable ASCII";
		if (*c == '-' && (c == spec || c[-1] == ' '))
			return "options are not taken";
	}
	if (strspn(spec, LOWER UPPER) == 0)
		return "it is no name of a package";
	if (strchr(spec, '/') || strchr(spec, '@'))
		return "paths and URLs are not taken";
	if (strchr(spec, '\\') || strstr(spec, "${"))
		return "'\\' and '${' are not taken";
	/* normal_requirement() would make one name of two. */
	name = strspn(spec, LOWER UPPER "-_.");
	blank = strspn(spec + name, " ");
	if (blank > 0 && spec[name + blank] && !strchr("[(<>=!~;", spec[name + blank]))
		return "it is more than one name";
	return NULL;
}

static int add_requirement(struct request *rq, const char *spec, struct cordon_error *err)
{
	const char *text, *why;

	spec += strspn(spec, " ");
	why = why_no_requirement(spec);
	if (why)
		return refuse_spec(spec, why, err);
	text = normal_requirement(rq->arena, spec);
	return text ? add_wanted(rq, text, err) : no_memory(err);
}

/* npm takes what begins with "." or ends like an archive for a file. */
static bool is_npm_file(const char *range)
{
	range += strspn(range, " ");
	return *range == '.' || strcasestr(range, ".tgz") || strcasestr(range, ".tar");
}

/* npm:NAME, npm:NAME@RANGE, npm:@SCOPE/NAME@RANGE */
static int add_npm(struct request *rq, const char *spec, struct cordon_error *err)
{
	static const char name_chars[] = LOWER "-_.~";
	static const char range_chars[] = LOWER UPPER "-_.~^<>=|*+ ";
	const char *name = spec + strlen(NPM), *rest = name;
	size_t len;

	if (*rest == '@') {
		len = strspn(rest + 1, name_chars);
		if (len == 0 || rest[1 + len] != '/')
			return refuse_spec(spec, "it is no name of a package", err);
		rest += 1 + len + 1;
	}
	len = strspn(rest, name_chars);
	if (len == 0 || *rest == '.' || *rest == '-' || (rest[len] && rest[len] != '@'))
		return refuse_spec(spec, "it is no name of a package", err);
	rest += len;
	if (*rest && (!rest[1] || rest[1 + strspn(rest + 1, range_chars)]))
		return refuse_spec(spec, "it has no version or range after the '@'", err);
	if (*rest && is_npm_file(rest + 1))
		return refuse_spec(spec, "paths and URLs are not taken", err);
	for (size_t i = 0; i < rq->wanted.n; i++) {
		const char *other = rq->wanted.v[i];

		if (strncmp(other, name, (size_t)(rest - name)) == 0 && other[rest - name] == '@' &&
		    strcmp(other, name) != 0)
			return refuse_spec(spec, "another version of it is wanted, too", err);
	}
	name = *rest ? arena_strdup(rq->arena, name) : arena_printf(rq->arena, "%s@latest", name);
	return name ? add_wanted(rq, name, err) : no_memory(err);
}

/* Are these words, separated by blanks, all --hash=ALGORITHM:DIGITS? */
static bool are_hashes(const char *words)
{
	static const char option[] = "--hash=";

	while (*words) {
		size_t len;

		if (strncmp(words, option, strlen(option)) != 0)
			return false;
		words += strlen(option);
		len = strspn(words, LOWER);
		if (len == 0 || words[len] != ':')
			return false;
		words += len + 1;
		len = strspn(words, "0123456789abcdefABCDEF");
		if (len == 0 || (words[len] && words[len] != ' '))
			return false;
		words += len + strspn(words + len, " ");
	}
	return true;
}

/* A logical line of a requirements file: a requirement and its hashes. */
static int add_line(struct request *rq, const char *file, char *line, struct cordon_error *err)
{
	const char *why = NULL;
	char *hashes, *name;

	for (size_t i = 0; line[i]; i++)
		line[i] = line[i] == '\t' ? ' ' : line[i];
	line += strspn(line, " ");
	if (!*line)
		return 0;
	hashes = strstr(line, " -");
	if (!hashes && line[0] != '-' && !strchr(line, '/'))
		return add_requirement(rq, line, err);
	name = arena_strndup(rq->arena, line, hashes ? (size_t)(hashes - line) : strlen(line));
	if (!name)
		return no_memory(err);
	if (hashes && !are_hashes(hashes + 1))
		return refuse_spec(line, "of the options only --hash=ALGORITHM:DIGITS is taken",
				   err);
	if (line[0] == '-' || strchr(name, '/')) {
		(void)cordon_err(err, CORDON_E_USAGE, 0, "%s: '%.80s' is not taken", file, line);
		(void)cordon_err_hint(err, "only names with versions and hashes are; the index is "
					   "set with PIP_INDEX_URL or in pip.conf");
		return -CORDON_E_USAGE;
	}
	why = why_no_requirement(name);
	if (why)
		return refuse_spec(line, why, err);
	rq->has_hashes = true;
	/* As it is: the order of hashes does not matter, but nobody writes one file in two ways. */
	line = arena_strdup(rq->arena, line);
	return line ? add_wanted(rq, line, err) : no_memory(err);
}

static int add_lines(struct request *rq, const char *file, char *text, struct cordon_error *err)
{
	char *in = text, *out = text, *line = text;
	int r = 0;

	for (bool comment = false; r == 0; in++) {
		if (*in == '\\' && (in[1] == '\n' || (in[1] == '\r' && in[2] == '\n'))) {
			in += in[1] == '\r' ? 2 : 1;
			*out++ = ' ';
		} else if (*in == '\n' || !*in) {
			bool is_end = !*in;

			while (out > line && (is_space(out[-1]) || out[-1] == '\r'))
				out--;
			*out = '\0';
			r = add_line(rq, file, line, err);
			/* Reading is ahead of writing, so this overwrites nothing. */
			line = out = in;
			comment = false;
			if (is_end)
				break;
		} else {
			comment |= *in == '#' && (out == line || is_space(out[-1]));
			if (!comment)
				*out++ = *in;
		}
	}
	return r;
}

static int read_whole(const struct cordon_packages_options *options, const char *typed,
		      struct strbuf *sb, struct cordon_error *err)
{
	char path[PATH_MAX], cwd[PATH_MAX];
	const char *base = options->cwd ? options->cwd : getcwd(cwd, sizeof(cwd));
	int fd, r = path_normalise(base, typed, path, sizeof(path));

	if (r < 0)
		return cordon_err(err, CORDON_E_PATH, -r, "cannot read '%s'", typed);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return cordon_err(err, CORDON_E_PATH, errno, "cannot read '%s'", typed);
	sb->max = FILE_MAX_BYTES;
	r = read_strbuf(fd, sb);
	close(fd);
	strbuf_add(sb, "", 0);
	if (r == 0 && sb->data && strlen(sb->data) != sb->len)
		r = -EINVAL;
	return r < 0 ? cordon_err(err, CORDON_E_PATH, -r, "cannot read '%s'", typed) : 0;
}

/* package-lock.json with the package.json beside it. */
static int add_lock(struct request *rq, const char *typed, struct cordon_error *err)
{
	size_t dir = path_dir_len(typed);
	struct strbuf lock = STRBUF_INIT, package = STRBUF_INIT;
	const char *beside = arena_printf(rq->arena, "%.*s%spackage.json", (int)dir, typed,
					  dir > 0 && typed[dir - 1] != '/' ? "/" : "");
	int r = beside ? 0 : no_memory(err);

	if (r == 0 && (rq->lock_json || rq->wanted.n > 0))
		r = cordon_err(err, CORDON_E_USAGE, 0,
			       "a package-lock.json is complete: nothing of npm besides");
	if (r == 0)
		r = read_whole(rq->options, typed, &lock, err);
	if (r == 0)
		r = read_whole(rq->options, beside, &package, err);
	if (r == 0) {
		rq->lock_json = arena_strndup(rq->arena, lock.data, lock.len);
		rq->package_json = arena_strndup(rq->arena, package.data, package.len);
		rq->has_hashes = true;
		r = rq->lock_json && rq->package_json ? 0 : no_memory(err);
	}
	strbuf_done(&lock);
	strbuf_done(&package);
	return r;
}

static int add_file(struct request *requests, const char *typed, struct cordon_error *err)
{
	struct request *rq = &requests[INSTALLER_PIP];
	const char *slash = strrchr(typed, '/');
	struct strbuf sb = STRBUF_INIT;
	int r;

	if (strcmp(slash ? slash + 1 : typed, "package-lock.json") == 0)
		return add_lock(&requests[INSTALLER_NPM], typed, err);
	r = read_whole(rq->options, typed, &sb, err);
	if (r == 0 && sb.data)
		r = add_lines(rq, typed, sb.data, err);
	strbuf_done(&sb);
	return r;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int request_read(struct request requests[INSTALLER_MAX], struct arena *arena,
		 const struct cordon_packages_options *options, struct cordon_error *err)
{
	const char *const *files = options->files, *const *specs = options->specs;
	int r = 0;

	for (int i = 0; i < INSTALLER_MAX; i++)
		requests[i] = (struct request){ .arena = arena,
						.options = options,
						.installer = (enum installer)i };
	for (; r == 0 && specs && *specs; specs++) {
		if (strncmp(*specs, NPM, strlen(NPM)) == 0)
			r = add_npm(&requests[INSTALLER_NPM], *specs, err);
		else
			r = add_requirement(&requests[INSTALLER_PIP], *specs, err);
	}
	for (; r == 0 && files && *files; files++)
		r = add_file(requests, *files, err);
	for (int i = 0; r == 0 && i < INSTALLER_MAX; i++) {
		struct strlist *l = &requests[i].wanted;

		if (l->n > 0)
			qsort(l->v, l->n, sizeof(*l->v), by_text);
	}
	return r;
}

bool request_is_empty(const struct request *rq)
{
	return rq->wanted.n == 0 && !rq->lock_json;
}

/* With its end, so that no two lists give the same bytes. */
static void hash_text(struct sha256 *s, const char *text)
{
	sha256_add(s, text ? text : "", text ? strlen(text) + 1 : 1);
}

int request_make_key(struct request *rq, struct cordon_error *err)
{
	const char *name = rq->installer == INSTALLER_PIP ? "pip" : "npm";
	char hex[SHA256_HEX];
	struct sha256 s;

	if (!rq->platform)
		return cordon_err(err, CORDON_E_STATE, 0, "no platform");
	sha256_start(&s);
	hash_text(&s, "2"); /* changes when layers are made in another way */
	hash_text(&s, name);
	hash_text(&s, rq->program);
	hash_text(&s, rq->npm);
	hash_text(&s, rq->platform);
	hash_text(&s, rq->options->may_build ? "may build" : "");
	for (size_t i = 0; i < rq->index.n; i++)
		hash_text(&s, rq->index.v[i]);
	hash_text(&s, "");
	for (size_t i = 0; i < rq->wanted.n; i++)
		hash_text(&s, rq->wanted.v[i]);
	hash_text(&s, "");
	hash_text(&s, rq->lock_json);
	hash_text(&s, rq->package_json);
	sha256_end_hex(&s, hex);
	snprintf(rq->key, sizeof(rq->key), "%s-%.40s", name, hex);
	return 0;
}

/* {"private": true, "dependencies": {NAME: RANGE}} */
static void write_package(const struct request *rq, struct strbuf *sb)
{
	struct json_writer w;

	json_writer_init(&w, sb, 0);
	json_open_object(&w, NULL);
	json_bool(&w, "private", 1);
	json_open_object(&w, "dependencies");
	for (size_t i = 0; i < rq->wanted.n; i++) {
		const char *text = rq->wanted.v[i], *at = strrchr(text, '@');
		char *name = arena_strndup(rq->arena, text, (size_t)(at - text));

		if (name)
			json_string(&w, name, at + 1);
		else
			sb->failed = 1;
	}
	json_close_object(&w);
	json_close_object(&w);
}

void request_write(const struct request *rq, struct strbuf *sb)
{
	struct strbuf package = STRBUF_INIT;
	struct json_writer w;

	for (size_t i = 0; rq->installer == INSTALLER_PIP && i < rq->wanted.n; i++) {
		strbuf_puts(sb, rq->wanted.v[i]);
		strbuf_putc(sb, '\n');
	}
	if (rq->installer == INSTALLER_PIP)
		return;
	if (rq->package_json)
		strbuf_puts(&package, rq->package_json);
	else
		write_package(rq, &package);
	json_writer_init(&w, sb, 0);
	json_open_object(&w, NULL);
	json_string(&w, "package.json", package.failed ? "" : package.data);
	if (rq->lock_json)
		json_string(&w, "package-lock.json", rq->lock_json);
	if (rq->npmrc && *rq->npmrc)
		json_string(&w, ".npmrc", rq->npmrc);
	json_close_object(&w);
	sb->failed |= package.failed;
	strbuf_done(&package);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the command said about protected names.
 *
 * The kernel refuses to change a protected name, and only the command is told. Most programs pass
 * it on: the name and the text of the error, on one line of standard error. So the end of that
 * stream is kept, and of the terminal's if the command has one, and looked through when the run is
 * over. A command that succeeds in the end is looked at, too: git goes on after some of these
 * errors.
 *
 * The guest writes these lines. They decide whether something is told, and never what: names and
 * grants are the plan's, and a line counts only if the kernel answers so at that name in this
 * plan. All that a forged line achieves is a true sentence about the run.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "base/termclean.h"
#include "launch/launch.h"
#include "plan/plan_read.h"

#define NAMES_MAX 512 /* protected names, and what lies below them, that are looked for */
#define LINES_MAX 256 /* with the text of an error */
#define DENIALS_MAX 8 /* in the receipt */

#define BUSY 0x01u
#define READ_ONLY 0x02u
#define NOT_DIR 0x04u
#define EXISTS 0x08u
#define DENIED 0x10u
#define NO_DEVICE 0x20u
#define OTHER_MOUNT 0x40u

/* As strerror() says it, in English; Node has its own words, Go small letters. */
static const struct {
	const char *text;
	unsigned error;
} phrases[] = {
	{ "device or resource busy", BUSY },
	{ "resource busy or locked", BUSY },
	{ "read-only file system", READ_ONLY },
	{ "invalid cross-device link", OTHER_MOUNT },
	{ "cross-device link not permitted", OTHER_MOUNT },
	{ "not a directory", NOT_DIR },
	{ "file exists", EXISTS },
	{ "file already exists", EXISTS },
	{ "permission denied", DENIED },
	{ "no such device or address", NO_DEVICE },
};

/* A step of the plan at whose path the kernel may have refused something. */
struct name {
	const char *path;
	const char *relative; /* to where the command started; NULL = not below that */
	unsigned at, below;   /* errors at the name itself and below it; 0 = it is not protected */
	bool is_missing;      /* something stands in its place */
	bool is_told;
};

struct look {
	struct cordon_run *run;
	struct name *names;
	size_t n_names;
	unsigned n_lines, n_denials;
};

/* The name does not exist, and something stands in its place. If that is a directory, BUSY means
 * only that it cannot be removed, as `git clean` tries to: nothing is lost by that. */
static void set_missing(struct name *name, const struct plan_reserved *reserved)
{
	name->is_missing = true;
	name->at |= EXISTS;
	if (reserved->is_dir) {
		name->at &= ~BUSY;
		return;
	}
	name->at |= NOT_DIR | DENIED | (reserved->text ? 0 : NO_DEVICE);
	name->below |= NOT_DIR;
}

static void set_errors(struct name *name, const struct plan *plan)
{
	name->at = BUSY | READ_ONLY | OTHER_MOUNT;
	name->below = READ_ONLY | OTHER_MOUNT;
	for (size_t i = 0; i < plan->n_reserved; i++)
		if (strcmp(plan->reserved[i].path, name->path) == 0)
			set_missing(name, &plan->reserved[i]);
}

static const char *below(const char *dir, const char *path)
{
	size_t len = strlen(dir);

	if (!path_is_within(dir, path) || strcmp(dir, path) == 0)
		return NULL;
	return path + len + (dir[1] != '\0');
}

/* false: there are too many. */
static bool add_name(struct look *l, const struct plan_op *op)
{
	const struct plan_header *h = l->run->plan->block;
	struct name *name = &l->names[l->n_names];

	if (l->n_names == NAMES_MAX)
		return false;
	l->n_names++;
	name->path = plan_string(h, op->dst);
	name->relative = below(plan_string(h, h->cwd), name->path);
	if (op->flags & PLAN_PROTECTED)
		set_errors(name, l->run->plan);
	return true;
}

static bool is_below_one(const struct look *l, size_t n_protected, const char *path)
{
	for (size_t i = 0; i < n_protected; i++)
		if (below(l->names[i].path, path))
			return true;
	return false;
}

/* The protected names, then what is mounted below them and is not protected. */
static bool collect_names(struct look *l)
{
	const struct plan_header *h = l->run->plan->block;
	const struct plan_op *ops = plan_ops(h);
	bool is_all = true;
	size_t n_protected;

	l->names = calloc(NAMES_MAX, sizeof(*l->names));
	if (!l->names)
		return false;
	for (uint32_t i = h->n_common_ops; is_all && i < h->n_ops; i++)
		if (ops[i].flags & PLAN_PROTECTED)
			is_all = add_name(l, &ops[i]);
	n_protected = l->n_names;
	for (uint32_t i = h->n_common_ops; is_all && i < h->n_ops; i++)
		if (ops[i].dst && !(ops[i].flags & PLAN_PROTECTED) &&
		    is_below_one(l, n_protected, plan_string(h, ops[i].dst)))
			is_all = add_name(l, &ops[i]);
	return is_all;
}

/* Does the text at @p end a path? Also with the quotes that some programs take. */
static bool is_end(const char *p, const char *end)
{
	if (p >= end || isspace((unsigned char)*p) || strchr("'\"`:,;)]}>", *p))
		return true;
	return end - p >= 3 && memcmp(p, "\xe2\x80", 2) == 0 && (p[2] == '\x99' || p[2] == '\x9d');
}

/* May a path begin at @p? */
static bool is_begin(const char *p, const char *line)
{
	if (p == line || isspace((unsigned char)p[-1]) || strchr("'\"`:,;([{<>=", p[-1]))
		return true;
	return p - line >= 3 && memcmp(p - 3, "\xe2\x80", 2) == 0 &&
	       (p[-1] == '\x98' || p[-1] == '\x9c');
}

/* The length of @path if the text at @p is that or something below it, 0 = it is not. */
static size_t match(const char *p, const char *end, const char *path)
{
	size_t len = path ? strlen(path) : 0;

	if (len == 0 || len > (size_t)(end - p) || memcmp(p, path, len) != 0)
		return 0;
	return p[len - 1] == '/' || is_end(p + len, end) || p[len] == '/' ? len : 0;
}

/* The innermost name that the path at @p is or lies below; NULL = none. */
static struct name *name_at(const struct look *l, const char *p, const char *end, bool *ret_below)
{
	struct name *best = NULL;
	size_t best_len = 0, len = 0;

	while (end - p > 2 && p[0] == '.' && p[1] == '/')
		p += 2;
	for (size_t i = 0; i < l->n_names; i++) {
		struct name *name = &l->names[i];
		const char *path = *p == '/' ? name->path : name->relative;
		size_t n = match(p, end, path);

		if (n && strlen(name->path) > best_len) {
			best = name;
			best_len = strlen(name->path);
			len = n;
		}
	}
	if (best)
		*ret_below = p + len < end && p[len] == '/' && !is_end(p + len + 1, end);
	return best;
}

/* The write grant that the name lies in; NULL = none that a workspace could take the place of. */
static const char *grant_of(const struct plan_header *h, const char *path)
{
	const char *best = NULL;

	if (h->workspace)
		return NULL; /* a run has one at most */
	for (uint32_t i = 0; i < h->n_ops; i++) {
		const struct plan_op *op = &plan_ops(h)[i];
		const char *dst = plan_string(h, op->dst);

		if (op->type == PLAN_OP_BIND && !(op->flags & (PLAN_RDONLY | PLAN_FILE)) &&
		    path_is_within(dst, path) && (!best || strlen(dst) > strlen(best)))
			best = dst;
	}
	return best;
}

/* As the caller would type it. */
static const char *shown(const struct plan *plan, const char *path)
{
	const char *relative = plan->cwd ? below(plan->cwd, path) : NULL;

	if (relative)
		return relative;
	/* A home has to be named in full to be a workspace. */
	return plan->cwd && strcmp(plan->cwd, path) == 0 &&
			       !(plan->home && path_is_within(path, plan->home))
		       ? "."
		       : path;
}

static const char *fix_of(struct cordon_run *run, const char *path)
{
	const char *grant = grant_of(run->plan->block, path), *fix = NULL;
	struct strbuf sb = STRBUF_INIT;

	if (!grant)
		return NULL;
	strbuf_puts(&sb, "--workspace ");
	add_shell_word(&sb, shown(run->plan, grant));
	if (!sb.failed)
		fix = arena_strdup(&run->arena, sb.data);
	strbuf_done(&sb);
	return fix;
}

static void tell(struct look *l, struct name *name, unsigned errors)
{
	struct cordon_run *run = l->run;
	const struct cordon_denial denial = {
		.what = name->is_missing && errors & ~BUSY ? "create" : "write",
		.target = arena_strdup(&run->arena, shown(run->plan, name->path)),
		.rule = "fs.protect",
		.fix = fix_of(run, name->path),
		.how = "said",
	};

	name->is_told = true;
	if (l->n_denials++ < DENIALS_MAX && denial.target)
		result_deny(run, &denial);
}

static bool begins_with(const char *p, const char *end, const char *text)
{
	for (; *text; text++, p++)
		if (p == end || tolower((unsigned char)*p) != *text)
			return false;
	return true;
}

static unsigned errors_in(const char *line, const char *end)
{
	unsigned errors = 0;

	for (const char *p = line; p < end; p++)
		for (size_t i = 0; i < ARRAY_SIZE(phrases); i++)
			if (begins_with(p, end, phrases[i].text))
				errors |= phrases[i].error;
	return errors;
}

static void look_at_line(struct look *l, const char *line, const char *end)
{
	unsigned errors = errors_in(line, end);

	if (!errors || l->n_lines++ >= LINES_MAX)
		return;
	if (!l->names && !collect_names(l)) {
		l->n_lines = LINES_MAX; /* nothing can be told for sure */
		return;
	}
	for (const char *p = line; p < end; p++) {
		bool is_below = false;
		struct name *name = is_begin(p, line) ? name_at(l, p, end, &is_below) : NULL;

		if (name && !name->is_told && errors & (is_below ? name->below : name->at))
			tell(l, name, errors);
	}
}

static void look_at_text(struct look *l, const char *text, size_t len, bool is_cut)
{
	const char *end = text + len;

	while (text < end && l->n_lines < LINES_MAX && l->n_denials < DENIALS_MAX) {
		const char *next = text;

		while (next < end && *next != '\n' && *next != '\r')
			next++;
		/* Of a line without its beginning it cannot be told where a path begins. */
		if (!is_cut)
			look_at_line(l, text, next);
		is_cut = false;
		text = next + 1;
	}
}

/* The end of what came through @relay. */
static void look_at(struct look *l, struct relay *relay)
{
	struct termclean clean = { 0 };
	struct cordon_output got = { 0 };
	const char *data;
	size_t len;
	char *text;

	if (!relay->keeps_end && relay->mode != CORDON_STREAM_CAPTURE)
		return;
	if (relay_captured(relay, &got) < 0 || got.len == 0)
		return;
	len = got.len < RELAY_END_BYTES ? got.len : RELAY_END_BYTES;
	data = got.data + (got.len - len);
	text = malloc(TERMCLEAN_OUT_SIZE(RELAY_END_BYTES));
	if (!text)
		return;
	/* In a terminal there are colours in the lines. */
	len = termclean_feed(&clean, data, len, text);
	look_at_text(l, text, len, relay->total > RELAY_END_BYTES);
	free(text);
}

bool said_is_wanted(const struct plan *plan)
{
	const struct plan_header *h = plan->block;

	for (uint32_t i = h->n_common_ops; i < h->n_ops; i++)
		if (plan_ops(h)[i].flags & PLAN_PROTECTED)
			return !(h->flags & PLAN_FILES);
	return false;
}

void said_account(struct cordon_run *run)
{
	struct look l = { .run = run };

	if (!said_is_wanted(run->plan))
		return;
	look_at(&l, &run->err);
	if (run->out.is_terminal || run->err.mode == CORDON_STREAM_JOIN)
		look_at(&l, &run->out);
	free(l.names);
}

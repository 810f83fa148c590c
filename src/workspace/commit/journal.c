/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal: what a commit is about to do, so that it can be resumed. Fields end in NUL:
 *
 *	"cordon journal 2" CONFLICTS N-PATHS PATH... N-EXCLUDE PATH... N-NODES NODE... "end"
 *
 * NODE: PARENT FLAGS INODE SIZE MTIME-S MTIME-NS MODE [NAMED] NAME, of what was checked in the base
 * NAMED, if FLAGS say so: TYPE MODE INODE SIZE CTIME-S CTIME-NS, of what the workspace had
 *
 * Nodes are a forest as changes are (changes.h). Names of temporary files in the base have the
 * number of their node, so that what is found there later can be told apart.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/strbuf.h"
#include "sys/calls.h"
#include "workspace/commit/commit.h"

#define JOURNAL "journal"
#define JOURNAL_NEW "journal.new"
#define JOURNAL_MAGIC "cordon journal 2"
#define JOURNAL_MAGIC_1 "cordon journal 1" /* without NAMED: then no name counts any more */
#define JOURNAL_MAX ((size_t)4 << 30)

void journal_free(struct journal *journal)
{
	if (!journal)
		return;
	free(journal->forest.v);
	free(journal->flags);
	free(journal->olds);
	free(journal->named);
	free(journal->now);
	arena_done(&journal->arena);
	free(journal);
}

/* --- writing --- */

static void put_number(struct strbuf *sb, uint64_t n)
{
	strbuf_printf(sb, "%" PRIu64, n);
	strbuf_putc(sb, '\0');
}

static void put_text(struct strbuf *sb, const char *s)
{
	strbuf_add(sb, s, strlen(s) + 1);
}

static void put_list(struct strbuf *sb, const char *const *list)
{
	uint64_t n = 0;

	while (list && list[n])
		n++;
	put_number(sb, n);
	for (uint64_t i = 0; i < n; i++)
		put_text(sb, list[i]);
}

static unsigned flags_of(const struct commit *c, size_t i)
{
	const struct commit_item *item = &c->items[i];
	const struct ws_node *node = &c->changes.v[i];
	unsigned flags = 0;

	if (item->state == ITEM_CHOSEN || item->state == ITEM_DONE)
		flags |= JOURNAL_CHOSEN;
	if (item->is_named)
		flags |= JOURNAL_NAMED;
	/* Something has to go before it can come. */
	if (item->old && node->type != CORDON_FILE_NONE &&
	    S_ISDIR(item->old->st.st_mode) != (node->type == CORDON_FILE_DIRECTORY))
		flags |= JOURNAL_REMOVES;
	return flags;
}

/* Numbers what is chosen and the directories on the way to it. */
static uint64_t number_nodes(struct commit *c)
{
	uint32_t n = 0;

	for (size_t i = c->changes.n; i-- > 0;) {
		struct commit_item *item = &c->items[i];

		if (item->state == ITEM_CHOSEN || item->state == ITEM_DONE)
			item->in_journal = true;
		if (item->in_journal && c->changes.v[i].parent != WS_NO_NODE)
			c->items[c->changes.v[i].parent].in_journal = true;
	}
	for (size_t i = 0; i < c->changes.n; i++) {
		if (c->items[i].in_journal)
			c->items[i].number = n++;
	}
	return n;
}

static void put_old(struct strbuf *sb, const struct commit_old *old)
{
	put_number(sb, old ? (uint64_t)old->st.st_ino : 0);
	put_number(sb, old ? (uint64_t)old->st.st_size : 0);
	/* Before 1970: it wraps, and back. */
	put_number(sb, old ? (uint64_t)old->st.st_mtim.tv_sec : 0);
	put_number(sb, old ? (uint64_t)old->st.st_mtim.tv_nsec : 0);
	put_number(sb, old ? (uint64_t)old->st.st_mode : 0);
}

int journal_identify(struct commit *c, uint32_t i, struct journal_named *ret)
{
	const struct ws_node *node = &c->changes.v[i];
	struct stat st;
	int r;

	*ret = (struct journal_named){ .type = node->type };
	if (node->type == CORDON_FILE_NONE)
		return 0;
	r = walker_go(&c->content, node->parent);
	if (r < 0)
		return r;
	if (walker_fd(&c->content) < 0)
		return -ESTALE;
	if (fstatat(walker_fd(&c->content), node->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	ret->mode = node->mode;
	ret->ino = (uint64_t)st.st_ino;
	/* What is in a directory has names of its own, and clearing up changes its times. */
	if (node->type == CORDON_FILE_DIRECTORY)
		return 0;
	ret->size = (uint64_t)st.st_size;
	ret->ctime_s = (uint64_t)st.st_ctim.tv_sec;
	ret->ctime_ns = (uint64_t)st.st_ctim.tv_nsec;
	return 0;
}

static int put_named(struct commit *c, uint32_t i, struct strbuf *sb)
{
	struct journal_named named;
	int r = journal_identify(c, i, &named);

	put_number(sb, named.type);
	put_number(sb, named.mode);
	put_number(sb, named.ino);
	put_number(sb, named.size);
	put_number(sb, named.ctime_s);
	put_number(sb, named.ctime_ns);
	return r;
}

static int put_all(struct commit *c, struct strbuf *sb)
{
	int r = 0;

	put_text(sb, JOURNAL_MAGIC);
	put_number(sb, (uint64_t)c->options.conflicts);
	put_list(sb, c->options.paths);
	put_list(sb, c->options.exclude);
	put_number(sb, number_nodes(c));
	for (uint32_t i = 0; i < c->changes.n && r == 0; i++) {
		const struct ws_node *node = &c->changes.v[i];

		if (!c->items[i].in_journal)
			continue;
		put_number(sb,
			   node->parent == WS_NO_NODE ? WS_NO_NODE : c->items[node->parent].number);
		put_number(sb, flags_of(c, i));
		put_old(sb, c->items[i].old);
		if (c->items[i].is_named)
			r = put_named(c, i, sb);
		put_text(sb, node->name);
	}
	put_text(sb, "end");
	return r;
}

static int write_durably(int dir_fd, const struct strbuf *sb)
{
	size_t done = 0;
	ssize_t n;
	int fd, r = 0;

	fd = sys_openat(dir_fd, JOURNAL_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
			0600);
	if (fd < 0)
		return fd;
	while (r == 0 && done < sb->len) {
		n = sys_write(fd, sb->data + done, sb->len - done);
		if (n < 0 && n != -EINTR)
			r = (int)n;
		else if (n > 0)
			done += (size_t)n;
	}
	if (r == 0)
		r = sys_fsync(fd);
	close(fd);
	if (r == 0)
		r = sys_renameat2(dir_fd, JOURNAL_NEW, JOURNAL, 0);
	if (r == 0)
		r = sys_fsync(dir_fd);
	if (r < 0)
		unlinkat(dir_fd, JOURNAL_NEW, 0);
	return r;
}

int journal_write(struct commit *c)
{
	struct strbuf sb = STRBUF_INIT;
	int r;

	sb.max = JOURNAL_MAX;
	r = put_all(c, &sb);
	if (r == 0)
		r = sb.failed ? -ENOMEM : write_durably(c->ws->dir_fd, &sb);
	strbuf_done(&sb);
	if (r < 0)
		return commit_fail(c, WS_NO_NODE, r, "cannot write the journal");
	c->ws->info.commit_begun = 1;
	return 0;
}

int journal_remove(struct commit *c)
{
	int r = sys_unlinkat(c->ws->dir_fd, JOURNAL, 0);

	if (r == 0 || r == -ENOENT)
		r = sys_fsync(c->ws->dir_fd);
	if (r < 0)
		return commit_fail(c, WS_NO_NODE, r, "cannot remove the journal");
	c->ws->info.commit_begun = 0;
	return 0;
}

/* --- reading --- */

struct field_cursor {
	const char *at, *end;
	bool is_bad;
};

static const char *get_text(struct field_cursor *in)
{
	const char *s = in->at;
	const char *nul = memchr(s, '\0', (size_t)(in->end - s));

	if (!nul) {
		in->is_bad = true;
		in->at = in->end;
		return "";
	}
	in->at = nul + 1;
	return s;
}

static uint64_t get_number(struct field_cursor *in, uint64_t max)
{
	const char *s = get_text(in);
	char *end;
	uint64_t n;

	errno = 0;
	n = strtoull(s, &end, 10);
	if (s[0] < '0' || s[0] > '9' || *end || errno || n > max) {
		in->is_bad = true;
		return 0;
	}
	return n;
}

static int get_list(struct journal *journal, struct field_cursor *in, struct strlist *list)
{
	uint64_t n = get_number(in, UINT32_MAX);

	for (uint64_t i = 0; i < n && !in->is_bad; i++) {
		char *s = arena_strdup(&journal->arena, get_text(in));

		if (!s || strlist_add(&journal->arena, list, s) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void get_old(struct field_cursor *in, struct journal_old *ret)
{
	ret->ino = get_number(in, UINT64_MAX);
	ret->size = get_number(in, UINT64_MAX);
	ret->mtime_s = get_number(in, UINT64_MAX);
	ret->mtime_ns = get_number(in, UINT64_MAX);
	ret->mode = get_number(in, UINT64_MAX);
}

static void get_named(struct field_cursor *in, struct journal_named *ret)
{
	ret->type = get_number(in, UINT64_MAX);
	ret->mode = get_number(in, UINT64_MAX);
	ret->ino = get_number(in, UINT64_MAX);
	ret->size = get_number(in, UINT64_MAX);
	ret->ctime_s = get_number(in, UINT64_MAX);
	ret->ctime_ns = get_number(in, UINT64_MAX);
}

static int get_nodes(struct journal *journal, struct field_cursor *in, bool has_named)
{
	size_t n = get_number(in, WS_CHANGES_MAX);
	struct ws_changes *forest = &journal->forest;

	forest->v = calloc(n + 1, sizeof(*forest->v));
	journal->flags = calloc(n + 1, 1);
	journal->olds = calloc(n + 1, sizeof(*journal->olds));
	journal->named = calloc(n + 1, sizeof(*journal->named));
	journal->now = calloc(n + 1, sizeof(*journal->now));
	if (!forest->v || !journal->flags || !journal->olds || !journal->named || !journal->now)
		return -ENOMEM;
	for (size_t i = 0; i < n && !in->is_bad; i++) {
		struct ws_node *node = &forest->v[i];

		node->parent = (uint32_t)get_number(in, WS_NO_NODE);
		journal->flags[i] = (uint8_t)get_number(in, UINT8_MAX);
		get_old(in, &journal->olds[i]);
		if (has_named && (journal->flags[i] & JOURNAL_NAMED))
			get_named(in, &journal->named[i]);
		node->name = arena_strdup(&journal->arena, get_text(in));
		if (!node->name)
			return -ENOMEM;
		node->from = WS_NO_NODE;
		journal->now[i] = WS_NO_NODE;
		if ((node->parent != WS_NO_NODE && node->parent >= i) || !*node->name ||
		    strchr(node->name, '/') || strcmp(node->name, ".") == 0 ||
		    strcmp(node->name, "..") == 0)
			in->is_bad = true;
	}
	forest->n = forest->cap = n;
	return 0;
}

static int parse(struct journal *journal, const char *data, size_t len)
{
	struct field_cursor in = { data, data + len, false };
	const char *magic = get_text(&in);
	bool has_named = strcmp(magic, JOURNAL_MAGIC) == 0;
	int r;

	if (!has_named && strcmp(magic, JOURNAL_MAGIC_1) != 0)
		return -EBADMSG;
	journal->conflicts = (int)get_number(&in, CORDON_CONFLICTS_THEIRS);
	r = get_list(journal, &in, &journal->paths);
	if (r == 0)
		r = get_list(journal, &in, &journal->exclude);
	if (r == 0)
		r = get_nodes(journal, &in, has_named);
	if (r < 0)
		return r;
	return in.is_bad || strcmp(get_text(&in), "end") != 0 || in.at != in.end ? -EBADMSG : 0;
}

int journal_load(struct commit *c)
{
	struct strbuf sb = STRBUF_INIT;
	int fd, r;

	sb.max = JOURNAL_MAX;
	fd = openat(c->ws->dir_fd, JOURNAL, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT
			       ? 0
			       : commit_fail(c, WS_NO_NODE, -errno, "cannot open the journal");
	c->journal = calloc(1, sizeof(*c->journal));
	r = c->journal ? read_strbuf(fd, &sb) : -ENOMEM;
	close(fd);
	if (r == 0)
		r = parse(c->journal, sb.data, sb.len);
	strbuf_done(&sb);
	if (r == -EBADMSG) {
		cordon_err(c->err, CORDON_E_STATE, 0,
			   "the journal of the interrupted commit is damaged");
		cordon_err_hint(c->err,
				"take the changes out with `cordon workspace export %s`, then "
				"discard it",
				c->ws->meta.id);
		return -CORDON_E_STATE;
	}
	if (r < 0)
		return commit_fail(c, WS_NO_NODE, r, "cannot read the journal");
	c->ws->info.commit_begun = 1;
	return 0;
}

static bool is_same_list(const struct strlist *list, const char *const *v)
{
	size_t n = 0;

	while (v && v[n]) {
		if (n >= list->n || strcmp(list->v[n], v[n]) != 0)
			return false;
		n++;
	}
	return n == list->n;
}

/* An interrupted commit is finished before another one can begin. How conflicts are decided may
 * differ, as there may be new ones. */
int journal_check(struct commit *c)
{
	bool has_lists = (c->options.paths && c->options.paths[0]) ||
			 (c->options.exclude && c->options.exclude[0]);

	if (!has_lists || (is_same_list(&c->journal->paths, c->options.paths) &&
			   is_same_list(&c->journal->exclude, c->options.exclude))) {
		if (c->options.conflicts == CORDON_CONFLICTS_REFUSE)
			c->options.conflicts = c->journal->conflicts;
		return 0;
	}
	cordon_err(c->err, CORDON_E_STATE, 0, "a commit of other paths was interrupted");
	cordon_err_hint(c->err, "repeat it without paths first: cordon workspace commit %s",
			c->ws->meta.id);
	return -CORDON_E_STATE;
}

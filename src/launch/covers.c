/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protected names that the host replaces while a run goes on.
 *
 * Init notices that a name has lost its cover, stops the tree and asks. A helper covers it again
 * and makes sure that the guest has no way left to change it (init/cover_again.c). Meanwhile
 * nothing waits here: the helper's answer is an event like any other.
 *
 * In the config of a repository, which every `git push -u` replaces, what is different is judged,
 * whoever wrote it (git/settings.h), and the tree goes on or ends. What is different in another
 * file cannot be judged. Between its replacement and the stop the guest can have changed it without
 * a trace: a write in the same tick of the clock does not even change its times. So it is put
 * aside, and the former one is back (restore.c) and covered before the tree goes on.
 *
 * When the tree is gone, each config is looked at once more, and each other name that had no cover
 * then. One that was replaced in the last moment, or that was refused, is put aside, and the last
 * good one takes its place: until then it would be obeyed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/path.h"
#include "base/strbuf.h"
#include "git/config.h"
#include "git/nested.h"
#include "git/put_aside.h"
#include "git/settings.h"
#include "format/steps.h"
#include "launch/covers.h"
#include "launch/launch.h"
#include "plan/plan_read.h"
#include "sys/calls.h"

/* Of one name, while the tree is stopped once: the host may go on replacing it ... */
#define RESTORES_MAX 1000
#define HELD_MAX 4 /* ... but what we make ourselves is in nobody's hand */

static const struct plan_op *op_of(const struct cordon_run *run, uint32_t step)
{
	const struct plan_header *h = run->plan->block;

	if (step < STEP_PLAN_FIRST || step - STEP_PLAN_FIRST >= h->n_ops)
		return NULL;
	return &plan_ops(h)[step - STEP_PLAN_FIRST];
}

static const char *path_of(const struct cordon_run *run, uint32_t step)
{
	const struct plan_op *op = op_of(run, step);

	return op ? plan_string(run->plan->block, op->dst) : NULL;
}

/* The repository whose config it is, if that may be written to; NULL = none. */
static const struct git_repo *repo_of(const struct cordon_run *run, const struct plan_op *op)
{
	const struct plan *plan = run->plan;
	const char *path = plan_string(plan->block, op->dst), *name;
	size_t len;

	if (op->type != PLAN_OP_PIN || !(op->flags & PLAN_RDONLY) || !(op->flags & PLAN_FILE))
		return NULL;
	name = strrchr(path, '/');
	if (!name || (strcmp(name, "/config") != 0 && strcmp(name, "/config.worktree") != 0))
		return NULL;
	len = path_dir_len(path);
	for (size_t i = 0; i < plan->n_repos; i++)
		if (strlen(plan->repos[i].git_dir) == len &&
		    memcmp(plan->repos[i].git_dir, path, len) == 0)
			return &plan->repos[i];
	return NULL;
}

static void forget(struct run_covers *c)
{
	for (size_t i = 0; i < c->n; i++)
		restore_forget(&c->v[i]);
	free(c->v);
	c->v = NULL;
	c->n = 0;
}

static int read_config(int fd, struct strbuf *ret)
{
	ret->max = GIT_CONFIG_MAX;
	return read_strbuf(fd, ret);
}

static int keep_config(const struct git_repo *repo, const char *path, struct kept_name *ret)
{
	int fd = sys_openat2(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0);
	struct stat st = { 0 };
	int r = fd < 0 ? fd : fstat(fd, &st) < 0 ? -errno : read_config(fd, &ret->first);

	if (fd >= 0)
		close(fd);
	if (r < 0) {
		strbuf_done(&ret->first);
		return 0;
	}
	ret->kind = KEPT_CONFIG;
	ret->name = (struct plan_reserved){ .dir_fd = repo->git_fd,
					    .path = path,
					    .name = strrchr(path, '/') + 1 };
	ret->mode = st.st_mode & 0777;
	ret->uid = st.st_uid;
	ret->gid = st.st_gid;
	return 1;
}

/* What cannot be read is not kept; if it is replaced, the run ends. */
static int keep(struct cordon_run *run, const struct plan_op *op, uint32_t step,
		struct cordon_error *err)
{
	struct run_covers *c = &run->covers;
	const struct git_repo *repo = repo_of(run, op);
	const char *path = plan_string(run->plan->block, op->dst);
	struct kept_name name = { .step = step }, *v;
	int r = repo ? keep_config(repo, path, &name) : restore_keep(run, op, &name);

	if (r <= 0)
		return r;
	v = realloc(c->v, (c->n + 1) * sizeof(*v));
	if (!v) {
		restore_forget(&name);
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	}
	c->v = v;
	c->v[c->n++] = name;
	return 0;
}

int covers_note(struct cordon_run *run, struct cordon_error *err)
{
	const struct plan_header *h = run->plan->block;
	int r = 0;

	forget(&run->covers);
	for (uint32_t i = h->n_common_ops; r == 0 && i < h->n_ops; i++) {
		const struct plan_op *op = &plan_ops(h)[i];

		if (op->type == PLAN_OP_PIN && (op->flags & PLAN_RDONLY))
			r = keep(run, op, STEP_PLAN_FIRST + i, err);
	}
	return r;
}

static struct kept_name *kept(const struct cordon_run *run, uint32_t step)
{
	for (size_t i = 0; i < run->covers.n; i++)
		if (run->covers.v[i].step == step)
			return &run->covers.v[i];
	return NULL;
}

/* If init cannot be told it is on its way out: its pidfd tells. */
static void answer(const struct cordon_run *run, uint32_t type, uint32_t step)
{
	const struct control_order order = { .type = type, .arg = step };
	int r = spawn_send(run->spawned.ctl_fd, &order, NULL, 0);

	(void)r;
}

static void dismiss(struct cordon_run *run)
{
	struct spawned *helper = &run->covers.helper;

	if (helper->pid_fd < 0)
		return;
	sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_DEL, helper->ctl_fd, 0, 0);
	sys_pidfd_send_signal(helper->pid_fd, SIGKILL);
	spawned_done(run->launcher, helper);
}

/* The run has to end because of @step. The first reason is kept. */
static void refuse(struct cordon_run *run, uint32_t step, int error, const char *key)
{
	struct run_covers *c = &run->covers;

	if (c->is_refused)
		return;
	c->is_refused = true;
	c->step = step;
	c->error = error;
	if (key)
		memcpy(c->key, key, sizeof(c->key));
}

/* Only its answer says how to go on. */
static void start_helper(struct cordon_run *run, uint32_t step)
{
	struct run_covers *c = &run->covers;
	struct cordon_error err = { 0 };
	int r = spawn_init(run->launcher, SPAWN_COVER, NULL, &c->helper, &err);

	if (r == 0)
		r = spawn_deliver_cover(&c->helper, run->plan, step, run->spawned.pid_fd, &err);
	if (r == 0)
		r = sys_epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, c->helper.ctl_fd, EPOLLIN, 0);
	if (r == 0)
		return;
	dismiss(run);
	refuse(run, step, err.sys_errno ? -err.sys_errno : -EIO, NULL);
	answer(run, CONTROL_UNCOVERABLE, step);
}

void covers_begin(struct cordon_run *run, uint32_t step)
{
	struct run_covers *c = &run->covers;

	if (c->helper.pid_fd >= 0)
		return;
	for (size_t i = 0; step && i < c->n; i++)
		c->v[i].n_restored = c->v[i].n_held = 0;
	if (!step || kept(run, step)) { /* 0 = only to see that nothing more has changed */
		start_helper(run, step);
		return;
	}
	refuse(run, step, -EOPNOTSUPP, NULL);
	answer(run, CONTROL_UNCOVERABLE, step);
}

static void add_note(struct cordon_run *run, struct kept_name *config)
{
	const char *note;

	if (config->is_replaced)
		return;
	config->is_replaced = true;
	note = arena_printf(&run->arena, "'%s' was replaced on the host; it is protected again",
			    path_of(run, config->step));
	if (note)
		run_add_note(run, note);
}

static bool may_change(const struct strbuf *before, const struct strbuf *now,
		       char ret_key[GIT_SETTING_MAX])
{
	return git_settings_may_change(before->data ? before->data : "", before->len,
				       now->data ? now->data : "", now->len, ret_key);
}

/*
 * What a name stands for now; @fd is consumed. It must not differ too much from what it was a
 * moment ago, nor from what it was at the beginning: a remote that was removed in one step could
 * come back in the next with another address.
 */
static void judge_config(struct cordon_run *run, struct kept_name *config, int fd)
{
	struct strbuf text = STRBUF_INIT;
	char key[sizeof(run->covers.key)] = "";
	uint32_t step = config->step;
	int r = fd < 0 ? -EINVAL : read_config(fd, &text);

	_Static_assert(sizeof(key) == GIT_SETTING_MAX, "room for a key");
	if (r == 0 && (!may_change(&config->first, &text, key) ||
		       (config->is_replaced && !may_change(&config->last, &text, key)))) {
		refuse(run, step, 0, key);
	} else if (r < 0) {
		refuse(run, step, r, NULL);
	} else {
		strbuf_done(&config->last);
		config->last = text;
		add_note(run, config);
		return;
	}
	strbuf_done(&text);
}

/* What a name stands for now, or why that is nothing. @fd is consumed. */
static void judge(struct cordon_run *run, const struct control_report *told, int fd)
{
	const struct control_order renewed = { .type = CONTROL_RENEWED,
					       .arg = told->uncovered,
					       .count = told->mount };
	uint32_t step = told->uncovered;
	struct kept_name *name = kept(run, step);
	int error = -told->sys_errno, r = spawn_send(run->spawned.ctl_fd, &renewed, NULL, 0);

	(void)r; /* init is on its way out, as in answer() */
	if (!name || (error && name->kind == KEPT_CONFIG))
		refuse(run, step, name ? error : -EOPNOTSUPP, NULL);
	else if (name->kind == KEPT_CONFIG)
		judge_config(run, name, fd);
	else if (error || !restore_is_as_before(name, fd)) {
		name->must_restore = true;
		name->error = error ? error : -EAGAIN;
	} else
		add_note(run, name);
	if (fd >= 0)
		close(fd);
}

/* 1 = something was made anew, and has no cover yet. */
static int restore(struct cordon_run *run)
{
	struct run_covers *c = &run->covers;
	int ret = 0;

	for (size_t i = 0; i < c->n && !c->is_refused; i++) {
		struct kept_name *name = &c->v[i];
		int r;

		if (!name->must_restore)
			continue;
		name->must_restore = false;
		name->is_replaced = true; /* and told so in another way */
		name->n_restored++;
		name->n_held += name->error == -EBUSY;
		r = name->n_restored > RESTORES_MAX || name->n_held > HELD_MAX
			    ? name->error
			    : restore_name(run, name);
		if (r < 0)
			refuse(run, name->step, r, NULL);
		ret = 1;
	}
	return ret;
}

static void finish(struct cordon_run *run)
{
	dismiss(run);
	if (!run->covers.is_refused && restore(run) && !run->covers.is_refused)
		start_helper(run, 0);
	else if (run->covers.is_refused)
		answer(run, CONTROL_UNCOVERABLE, run->covers.step);
	else
		answer(run, CONTROL_GO_ON, 0);
}

void covers_process(struct cordon_run *run)
{
	struct run_covers *c = &run->covers;
	union control_message message;
	int fd, r;

	/* What has a cover again was perhaps not looked at yet: it is at the end. */
	if (run->reported || run->init_gone) {
		c->is_unsettled |= c->helper.pid_fd >= 0;
		dismiss(run);
	}
	while (c->helper.pid_fd >= 0) {
		r = spawn_receive(c->helper.ctl_fd, &message, &fd);
		if (r == 0)
			return;
		if (r > 0 && message.type == CONTROL_COVERED) {
			judge(run, &message.report, fd);
			continue;
		}
		if (fd >= 0)
			close(fd);
		if (r < 0 || message.type != CONTROL_LOOKED)
			refuse(run, 0, r < 0 ? r : -message.report.sys_errno, NULL);
		else if (message.report.sys_errno)
			refuse(run, message.report.uncovered, -message.report.sys_errno, NULL);
		finish(run);
	}
}

void covers_lost(struct cordon_run *run, uint32_t step)
{
	struct kept_name *name = kept(run, step);

	if (name)
		name->is_bare = true;
	else if (!run->covers.bare)
		run->covers.bare = step;
}

static const struct strbuf *last_good(const struct kept_name *config)
{
	return config->is_replaced ? &config->last : &config->first;
}

/* A file with a second name could be changed later by what has the other one. */
static bool is_good(const struct kept_name *config, int fd, char ret_key[GIT_SETTING_MAX])
{
	const struct strbuf *good = last_good(config);
	struct strbuf text = STRBUF_INIT;
	struct stat st;
	bool ret = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 &&
		   read_config(fd, &text) == 0;

	if (ret && (text.len != good->len || memcmp(text.data, good->data, text.len) != 0))
		ret = may_change(&config->first, &text, ret_key) &&
		      may_change(good, &text, ret_key);
	strbuf_done(&text);
	return ret;
}

/* @key: what speaks against the new one, "" = it cannot be understood. */
static void exchange(struct cordon_run *run, const struct kept_name *config, const char *key)
{
	const struct plan_reserved *name = &config->name;
	bool was_told = run->report.type == CONTROL_FAILED;
	int r;

	put_aside(run, name, "replaced config");
	r = restore_file(config, last_good(config));
	if (run->look_failed || (r == 0 && was_told))
		return;
	run->look_failed = 1;
	cordon_err(&run->look_error, CORDON_E_PATH, r < 0 ? -r : 0,
		   r < 0 ? "'%s' was replaced during the run and could not be put back%s%s"
			 : "'%s' was replaced during the run by one that the command may have "
			   "changed%s%s",
		   name->path, *key ? ": different is " : "", key);
	cordon_err_hint(&run->look_error, "look at what was put aside before you use it");
}

/* By the directory's descriptor: the command may have closed the way to it. */
static void settle(struct cordon_run *run, const struct kept_name *config)
{
	const struct plan_reserved *name = &config->name;
	struct git_opened dir = { .fd = name->dir_fd };
	char key[GIT_SETTING_MAX] = "";
	struct stat st;
	int fd;

	git_open_dir(&dir);
	fd = openat(name->dir_fd, name->name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	/* One that the host has removed says nothing. */
	if (!is_good(config, fd, key) &&
	    (fd >= 0 || fstatat(name->dir_fd, name->name, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
	     errno != ENOENT))
		exchange(run, config, key);
	if (fd >= 0)
		close(fd);
	git_close_dir(&dir);
}

void covers_end(struct cordon_run *run)
{
	struct run_covers *c = &run->covers;
	const struct control_report bare = { .uncovered = c->bare };
	bool is_any_unsettled = c->is_unsettled || c->is_refused || !run->report.type;

	/* Before the command ran nothing could be changed. An init that was killed reports nothing.
	 */
	if (!run->plan || (run->report.type && run->report.stamps_ns[STAGE_EXEC] == 0))
		return;
	for (size_t i = 0; i < c->n; i++) {
		if (c->v[i].kind == KEPT_CONFIG)
			settle(run, &c->v[i]);
		else if (c->v[i].is_bare || is_any_unsettled)
			restore_at_end(run, &c->v[i]);
	}
	if (c->bare && !run->look_failed && run->report.type != CONTROL_FAILED) {
		run->look_failed = 1;
		result_uncovered_error(run->plan, &bare, &run->look_error);
	}
}

void covers_done(struct cordon_run *run)
{
	dismiss(run);
	forget(&run->covers);
}

/* Why a name could not be covered again, if there is more to say than that it was replaced. */
static const char *reason(int error)
{
	switch (-error) {
	case EBUSY:
		return "the command has it open";
	case EMLINK:
		return "it has a second name";
	case EINVAL:
		return "it is no file any more";
	case ENOENT:
		return "it is gone";
	case ETIMEDOUT:
	case EAGAIN:
		return "the command could not be stopped";
	default:
		return NULL;
	}
}

bool covers_error(const struct cordon_run *run, struct cordon_error *err)
{
	const struct run_covers *c = &run->covers;
	const char *path = path_of(run, c->step), *why = reason(c->error);

	if (!c->is_refused || !path || !kept(run, c->step))
		return false;
	if (c->error == 0 && c->key[0])
		cordon_err(err, CORDON_E_SETUP, 0,
			   "'%s' was replaced on the host during the run, and '%s' is different; "
			   "the command was ended",
			   path, c->key);
	else if (c->error == 0)
		cordon_err(err, CORDON_E_SETUP, 0,
			   "'%s' was replaced on the host during the run by something that could "
			   "not be understood; the command was ended",
			   path);
	else
		cordon_err(err, CORDON_E_SETUP, why ? 0 : -c->error,
			   "'%s' was replaced on the host during the run and could not be "
			   "protected again%s%s; the command was ended",
			   path, why ? ": " : "", why ? why : "");
	cordon_err_hint(err, "the command may have changed it: look at the file before you use git "
			     "there");
	return true;
}

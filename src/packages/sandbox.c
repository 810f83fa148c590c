/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One program in a sandbox: the installer, or an interpreter that is asked about itself.
 *
 * It sees the system, its own installation, its private home, and the certificates that the user's
 * settings name. It starts in the home and has a network only if there is a request.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/path.h"
#include "base/termclean.h"
#include "base/units.h"
#include "packages/packages.h"

#define OUT_MAX ((size_t)64 << 10) /* of the last lines */
#define MAX_BYTES ((int64_t)8 << 30)
#define INSTALL_TIME "2h"
#define ASK_TIME "30s"

struct lines {
	struct sandboxed *s;
	struct termclean clean;
	struct strbuf line;
	bool is_stopped;
};

static int set(struct cordon_policy *policy, const char *key, const char *value,
	       struct cordon_error *err)
{
	return cordon_policy_set(policy, key, value, err);
}

static int make_policy(const struct sandboxed *s, struct cordon_policy **ret,
		       struct cordon_error *err)
{
	const struct request *rq = s->rq;
	int64_t bytes = s->options->max_bytes > 0 ? s->options->max_bytes : MAX_BYTES;
	char size[UNITS_TEXT_MAX];
	int r = cordon_policy_new(ret, err);

	if (r < 0)
		return r;
	r = set(*ret, "limits.wall", rq ? INSTALL_TIME : ASK_TIME, err);
	if (r == 0 && rq)
		r = set(*ret, "limits.disk", units_format_size(bytes, size), err);
	if (r == 0 && s->options->isolation)
		r = set(*ret, "isolation", s->options->isolation, err);
	for (size_t i = 0; r == 0 && rq && i < rq->hosts.n; i++)
		r = set(*ret, "net.allow", rq->hosts.v[i], err);
	for (size_t i = 0; r == 0 && rq && i < rq->env.n; i++)
		r = set(*ret, "env.set", rq->env.v[i], err);
	for (size_t i = 0; r == 0 && rq && i < rq->files.n; i++)
		r = set(*ret, "fs.read", rq->files.v[i], err);
	return r;
}

/* Every secret of the index becomes "****". */
static void hide_secrets(const struct request *rq, char *line)
{
	for (size_t i = 0; rq && i < rq->secrets.n; i++) {
		const char *secret = rq->secrets.v[i];
		size_t len = strlen(secret);
		char *at = line;

		while (len > 0 && (at = strstr(at, secret)) != NULL) {
			memset(at, '*', len < 4 ? len : 4);
			if (len > 4)
				memmove(at + 4, at + len, strlen(at + len) + 1);
			at += len < 4 ? len : 4;
		}
	}
}

/* Keeps the last lines. */
static void keep(struct strbuf *out, const char *line)
{
	strbuf_puts(out, line);
	strbuf_putc(out, '\n');
	if (out->len > OUT_MAX && !out->failed) {
		size_t cut = out->len - OUT_MAX / 2;

		cut += strcspn(out->data + cut, "\n") + 1;
		cut = cut < out->len ? cut : out->len;
		memmove(out->data, out->data + cut, out->len - cut + 1);
		out->len -= cut;
	}
}

static void end_line(struct lines *l)
{
	struct sandboxed *s = l->s;

	if (l->line.len == 0 || l->line.failed)
		return;
	hide_secrets(s->rq, l->line.data);
	if (s->out)
		keep(s->out, l->line.data);
	if (s->options->line && s->options->line(s->options->arg, l->line.data))
		l->is_stopped = true;
	l->line.len = 0;
	l->line.data[0] = '\0';
}

static void take_bytes(struct lines *l, const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (data[i] == '\n' || data[i] == '\r' || l->line.len > 4000)
			end_line(l);
		if (data[i] != '\n' && data[i] != '\r')
			strbuf_putc(&l->line, data[i]);
	}
}

/* 0 = no more for now, 1 = the end. */
static int read_some(struct lines *l, int fd)
{
	char in[4096], out[TERMCLEAN_OUT_SIZE(sizeof(in))];
	ssize_t n;

	while ((n = read(fd, in, sizeof(in))) > 0)
		take_bytes(l, out, termclean_feed(&l->clean, in, (size_t)n, out));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	take_bytes(l, out, termclean_finish(&l->clean, out));
	end_line(l);
	return 1;
}

static int follow(struct cordon_run *run, struct lines *l, int fd, struct cordon_error *err)
{
	struct pollfd fds[2] = { { .fd = cordon_run_fd(run), .events = POLLIN },
				 { .fd = fd, .events = POLLIN } };
	int r = 0;

	while (r == 0) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return cordon_err(err, CORDON_E_SYSTEM, errno,
					  "cannot wait for the installer");
		if (fds[1].revents)
			(void)read_some(l, fd);
		if (l->is_stopped)
			(void)cordon_run_cancel(run, NULL);
		r = cordon_run_process(run, err);
	}
	return r;
}

static void conclude(struct sandboxed *s, const struct cordon_result *result)
{
	s->status = result->status;
	if (result->kind == CORDON_KIND_DISK)
		snprintf(s->ended, sizeof(s->ended), "they need more disk space than allowed");
	else if (result->kind != CORDON_KIND_EXITED)
		snprintf(s->ended, sizeof(s->ended), "the installer was ended (%s)",
			 cordon_kind_name(result->kind));
	for (size_t i = 0; i < result->n_denials; i++) {
		if (strncmp(result->denials[i].rule, "net.", 4) == 0 && !s->refused[0])
			snprintf(s->refused, sizeof(s->refused), "%s", result->denials[i].target);
	}
}

static int start(struct cordon_launcher *launcher, const struct sandboxed *s, int out_fd,
		 struct cordon_run **ret, struct cordon_error *err)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_policy *policy = NULL;
	char path[PATH_MAX + 64];
	int r;

	/* The caller's may lead into a project, where nothing may be executed from. */
	snprintf(path, sizeof(path), "%.*s:/usr/local/bin:/usr/bin:/bin",
		 (int)path_dir_len(s->argv[0]), s->argv[0]);
	options.argv = s->argv;
	options.envp = NULL;
	options.cwd = "/"; /* from there a run starts in its home */
	options.home = s->options->home;
	options.search_path = path;
	options.default_memory_bytes = -1;
	options.private_dir = s->private_dir;
	if (s->in && s->in->len > 0)
		options.in = (struct cordon_stream){ .mode = CORDON_STREAM_DATA,
						     .data = s->in->data,
						     .data_len = s->in->len };
	options.out = (struct cordon_stream){ .mode = CORDON_STREAM_FD, .fd = out_fd };
	options.err = (struct cordon_stream){ .mode = CORDON_STREAM_JOIN };
	r = make_policy(s, &policy, err);
	if (r == 0)
		r = cordon_run_start(launcher, policy, &options, ret, err);
	cordon_policy_free(policy);
	return r;
}

int sandbox_run(struct cordon_launcher *launcher, struct sandboxed *s, struct cordon_error *err)
{
	struct lines l = { .s = s, .line = STRBUF_INIT };
	struct cordon_run *run = NULL;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot make a pipe");
	r = start(launcher, s, fds[1], &run, err);
	close(fds[1]);
	if (r == 0)
		r = follow(run, &l, fds[0], err);
	if (r > 0) {
		const struct cordon_result *result = cordon_run_result(run);

		r = 0;
		conclude(s, result);
		if (result->error.code && result->kind == CORDON_KIND_SANDBOX_ERROR) {
			if (err)
				*err = result->error;
			r = -result->error.code;
		} else if (l.is_stopped) {
			r = cordon_err(err, CORDON_E_STATE, ECANCELED, "the installation");
		}
	}
	cordon_run_free(run);
	/* The run had a copy of the writing end. */
	(void)read_some(&l, fds[0]);
	close(fds[0]);
	strbuf_done(&l.line);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* How a client joins an interpreter of the session, which is started if there is none. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "session_jobs.h"
#include "session_shared.h"

#define START_MS 60000

static int check_name(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len <= SHARED_NAME_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == len;
}

static struct shared *find(const char *name)
{
	struct shared *unused = NULL;

	for (int i = 0; i < SHARED_MAX; i++) {
		if (!strcmp(shared_at(i)->name, name))
			return shared_at(i);
		if (!shared_at(i)->name[0] && !unused)
			unused = shared_at(i);
	}
	return unused;
}

static int is_of_type(int fd, mode_t type)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type;
}

/* Two pipes to write to, and a socket. */
static struct member *new_member(struct wire *w)
{
	struct member *m;

	if (w->n_fds != 3 || !is_of_type(w->fds[0], S_IFIFO) || !is_of_type(w->fds[1], S_IFIFO) ||
	    !is_of_type(w->fds[2], S_IFSOCK))
		return NULL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->in = m->out = (struct strbuf)STRBUF_INIT;
	m->in.max = FRAME_REQUEST_MAX + FRAME_REQUEST_HEAD_MAX;
	m->out_fds[0] = w->fds[0];
	m->out_fds[1] = w->fds[1];
	m->fd = w->fds[2];
	w->n_fds = 0; /* they are its now */
	return m;
}

/* Its channel and pipes: [0] is ours, [1] the command's. Ours do not block: code can open the pipe
 * that it writes to (/proc/self/fd), and take what we have just seen in it. */
struct ends {
	int channel[2], out[2], err[2];
};

static int open_ends(struct ends *e, struct cordon_error *err)
{
	*e = (struct ends){ { -1, -1 }, { -1, -1 }, { -1, -1 } };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, e->channel) == 0 &&
	    pipe2(e->out, O_CLOEXEC) == 0 && pipe2(e->err, O_CLOEXEC) == 0 &&
	    fcntl(e->out[0], F_SETFL, O_NONBLOCK) == 0 &&
	    fcntl(e->err[0], F_SETFL, O_NONBLOCK) == 0)
		return 0;
	return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot create a pipe");
}

static void close_ends(struct ends *e, int is_ours_too)
{
	shared_close_fd(&e->channel[1]);
	shared_close_fd(&e->out[1]);
	shared_close_fd(&e->err[1]);
	if (!is_ours_too)
		return;
	shared_close_fd(&e->channel[0]);
	shared_close_fd(&e->out[0]);
	shared_close_fd(&e->err[0]);
}

static int start(struct session_server *s, struct shared *it, const char *name,
		 struct cordon_exec_options *o, struct cordon_error *err)
{
	struct ends e;
	int r = open_ends(&e, err);

	if (r == 0) {
		o->in = (struct cordon_stream){ .mode = CORDON_STREAM_NULL };
		o->out = (struct cordon_stream){ .mode = CORDON_STREAM_PASS, .fd = e.out[1] };
		o->err = (struct cordon_stream){ .mode = CORDON_STREAM_PASS, .fd = e.err[1] };
		o->channel_fd = e.channel[1];
		r = job_begin(s, o, &it->job, err);
	}
	close_ends(&e, r < 0);
	if (r < 0)
		return r;
	snprintf(it->name, sizeof(it->name), "%s", name);
	it->job->shared = it;
	it->job->keeps = 1;
	it->fd = e.channel[0];
	it->out_fds[0] = e.out[0];
	it->out_fds[1] = e.err[0];
	it->to = it->in = it->hello = (struct strbuf)STRBUF_INIT;
	snprintf(it->token, sizeof(it->token), "-");
	it->kill_at = server_now_ms() + START_MS;
	return 0;
}

void shared_join(struct session_server *s, struct client *c)
{
	struct cordon_exec_options o = CORDON_EXEC_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	const struct wire *w = &c->wire;
	const char **env = NULL, *text;
	struct shared *it = NULL;
	struct member *m = NULL;
	char number[16];

	if (w->head.n_strings < 2 || !check_name(w->strings[1]) ||
	    job_read_exec(w, 2, &o, &env) < 0 || !(m = new_member(&c->wire))) {
		clients_reply_usage(c, "the request is not to be understood");
	} else if (!(it = find(w->strings[1]))) {
		clients_reply_usage(c, "there are too many interpreters in this session");
	} else if (it->name[0] || start(s, it, w->strings[1], &o, &err) == 0) {
		m->shared = it;
		c->member = m;
		m = NULL;
		snprintf(number, sizeof(number), "%u", it->job->number);
		text = number;
		clients_reply(c, WIRE_STARTED, &text, 1);
	} else {
		clients_reply_error(c, &err);
	}
	if (m)
		member_free(m);
	free(env);
}

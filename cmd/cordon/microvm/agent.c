/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PID 1 of the guest: it waits for a request, makes the command's world (agent_root.c), starts the
 * command with `cordon run`, carries its bytes to the ports, and says how it ended.
 *
 * What goes wrong before the command has begun ends the machine; the host sees that it ended. What
 * the command does it does as an ordinary user in a sandbox of level namespaces. If it gets out of
 * that, it is root here, and can say in our name whatever it likes: the host knows.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json_read.h"
#include "format/microvm.h"
#include "agent.h"
#include "guest.h"
#include "out.h"

#define BUFFER 65536
#define RECEIPT_MAX ((size_t)1 << 20)
#define NOT_YET_US 1000 /* a port that has no host yet reads as one at its end */
#define STATUS_LOST 255 /* should never be seen: `cordon run` itself was killed */

/* From one end to another, as fast as both can. */
struct pump {
	int from, to;
	int is_over; /* nothing comes any more, and all of it was written */
	size_t len, done;
	uint64_t total;
	char data[BUFFER];
};

struct agent {
	struct strbuf heard;
	pid_t child;
	int has_ended, status;
	struct pump pumps[3]; /* in, out, err */
};

static void __attribute__((noreturn)) power_off(void)
{
	sync();
	/* Ends the machine (-no-reboot), where there is no other way without a power button. */
	(void)reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}

void agent_give_up(const char *what, int error)
{
	char line[256];

	/* For the one who has a console; the host sees that the machine ends. */
	snprintf(line, sizeof(line), "cordon: guest: %s: %s\n", what, strerror(error));
	(void)write_full(AGENT_ERR_FD, line, strlen(line));
	power_off();
}

static void say(struct strbuf *sb)
{
	if (sb->failed || write_full(AGENT_CTL_FD, sb->data, sb->len) < 0)
		power_off();
	strbuf_done(sb);
}

static void say_ready(void)
{
	struct strbuf sb = STRBUF_INIT;

	microvm_end(&sb, microvm_begin(&sb, MICROVM_READY));
	say(&sb);
}

/* Takes what has come on the control port. */
static void hear(struct agent *a)
{
	char buf[4096];
	ssize_t n = read(AGENT_CTL_FD, buf, sizeof(buf));

	if (n > 0)
		strbuf_add(&a->heard, buf, (size_t)n);
	else if (n == 0 && !a->child)
		(void)usleep(NOT_YET_US);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		power_off();
}

static void drop(struct strbuf *sb, size_t n)
{
	memmove(sb->data, sb->data + n, sb->len - n);
	sb->len -= n;
}

/* Blocks until the request is there: how many bytes it takes of @a->heard, into which @ret points.
 */
static size_t wait_for_request(struct agent *a, struct microvm_message *ret)
{
	struct pollfd p = { .fd = AGENT_CTL_FD, .events = POLLIN };

	a->heard.max = MICROVM_REQUEST_MAX + 4096;
	for (;;) {
		int64_t r = microvm_parse(a->heard.data ? a->heard.data : "", a->heard.len,
					  MICROVM_REQUEST, MICROVM_REQUEST_MAX, ret);

		if (r < 0 || a->heard.failed)
			agent_give_up("a request that cannot be read", EPROTO);
		if (r > 0)
			return (size_t)r;
		if (poll(&p, 1, -1) > 0)
			hear(a);
	}
}

static void pump_init(struct pump *p, int from, int to)
{
	p->from = from;
	p->to = to;
	(void)fcntl(from, F_SETFL, O_NONBLOCK | fcntl(from, F_GETFL));
	(void)fcntl(to, F_SETFL, O_NONBLOCK | fcntl(to, F_GETFL));
}

/* 1: what it waits for. */
static int pump_poll(const struct pump *p, struct pollfd *ret)
{
	*ret = (struct pollfd){ .fd = -1 };
	if (p->is_over)
		return 0;
	*ret = p->len ? (struct pollfd){ .fd = p->to, .events = POLLOUT }
		      : (struct pollfd){ .fd = p->from, .events = POLLIN };
	return 1;
}

static void pump_end(struct pump *p, int closes_to)
{
	p->is_over = 1;
	if (closes_to)
		close(p->to);
}

/* @closes_to: whoever reads the other end sees the end. */
static void pump_move(struct pump *p, int closes_to)
{
	ssize_t n;

	if (p->is_over)
		return;
	if (!p->len) {
		n = read(p->from, p->data, sizeof(p->data));
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			pump_end(p, closes_to);
			return;
		}
		p->len = (size_t)n;
		p->done = 0;
	}
	n = write(p->to, p->data + p->done, p->len - p->done);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) { /* the command does not read any more */
		pump_end(p, closes_to);
		return;
	}
	p->done += (size_t)n;
	p->total += (uint64_t)n;
	if (p->done == p->len)
		p->len = 0;
}

static void start(struct agent *a, const struct agent_request *request)
{
	int pipes[3][2];

	for (int i = 0; i < 3; i++)
		if (pipe2(pipes[i], O_CLOEXEC) < 0)
			agent_give_up("pipes", errno);
	/* fork(), which the C library would do no better here: there is one thread. */
	a->child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (a->child == 0) {
		if (dup2(pipes[0][0], 0) >= 0 && dup2(pipes[1][1], 1) >= 0 &&
		    dup2(pipes[2][1], 2) >= 0)
			agent_become(request);
		_exit(STATUS_LOST);
	}
	if (a->child < 0)
		agent_give_up("a process", errno);
	close(pipes[0][0]);
	close(pipes[1][1]);
	close(pipes[2][1]);
	pump_init(&a->pumps[0], AGENT_IN_FD, pipes[0][1]);
	pump_init(&a->pumps[1], pipes[1][0], AGENT_OUT_FD);
	pump_init(&a->pumps[2], pipes[2][0], AGENT_ERR_FD);
}

static void take_orders(struct agent *a)
{
	struct microvm_message m;
	const char *text;
	int64_t r, number;
	char field;

	while ((r = microvm_parse(a->heard.data, a->heard.len, MICROVM_SIGNAL, MICROVM_AGENT_MAX,
				  &m)) > 0) {
		if (microvm_next(&m, &field, &text) > 0 && field == FIELD_NUMBER &&
		    microvm_number(text, 1, 64, &number) == 0 && !a->has_ended)
			(void)kill(a->child, (int)number);
		drop(&a->heard, (size_t)r);
	}
}

static void reap(struct agent *a)
{
	int status;
	pid_t pid;

	/* Processes whose parents have gone are ours, too. */
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == a->child) {
			a->has_ended = 1;
			a->status = status;
		}
	}
}

static int is_drained(const struct agent *a)
{
	return a->has_ended && a->pumps[1].is_over && a->pumps[2].is_over;
}

static void serve(struct agent *a, int signal_fd)
{
	while (!is_drained(a)) {
		struct pollfd fds[5] = { { .fd = AGENT_CTL_FD, .events = POLLIN },
					 { .fd = signal_fd, .events = POLLIN } };
		char skip[512];

		for (int i = 0; i < 3; i++)
			(void)pump_poll(&a->pumps[i], &fds[2 + i]);
		if (poll(fds, 5, -1) < 0)
			continue;
		if (fds[0].revents) {
			hear(a);
			take_orders(a);
		}
		if (fds[1].revents) {
			(void)!read(signal_fd, skip, sizeof(skip));
			reap(a);
		}
		for (int i = 0; i < 3; i++)
			if (fds[2 + i].revents)
				pump_move(&a->pumps[i], i == 0);
	}
}

static int kind_of(const char *name)
{
	for (int i = 1; i < CORDON_KIND_MAX; i++)
		if (!strcmp(cordon_kind_name(i), name))
			return i;
	return CORDON_KIND_SANDBOX_ERROR;
}

static int number(const struct json_value *doc, const char *key, int otherwise)
{
	const struct json_value *v = json_get(doc, key);

	return v && v->type == JSON_INTEGER && v->integer >= 0 && v->integer <= 255
		       ? (int)v->integer
		       : otherwise;
}

/* The number behind "SIGKILL" and the like, as receipts have it. */
static int signal_of(const struct json_value *doc)
{
	const struct json_value *v = json_get(doc, "signal");

	if (!v || v->type != JSON_INTEGER)
		return 0;
	return v->integer > 0 && v->integer <= 64 ? (int)v->integer : 0;
}

static void copy_message(const struct json_value *doc, struct microvm_exit *ret)
{
	const struct json_value *error = json_get(doc, "error"), *text = NULL;

	if (error && error->type == JSON_OBJECT)
		text = json_get(error, "message");
	if (text && text->type == JSON_STRING)
		snprintf(ret->message, sizeof(ret->message), "%s", text->text);
}

/* What `cordon run` says, and if it cannot say anything, how it ended itself. */
static void read_receipt(const struct agent *a, struct microvm_exit *ret)
{
	struct arena arena = ARENA_INIT;
	struct strbuf sb = STRBUF_INIT;
	const struct json_value *doc = NULL, *kind = NULL;
	int fd = open(AGENT_RECEIPT, O_RDONLY | O_CLOEXEC);

	*ret = (struct microvm_exit){ .kind = CORDON_KIND_SANDBOX_ERROR, .exit_code = -1 };
	sb.max = RECEIPT_MAX;
	if (fd >= 0 && read_strbuf(fd, &sb) == 0 && sb.data &&
	    json_read(sb.data, sb.len, "receipt", &arena, &doc, NULL) == 0 &&
	    doc->type == JSON_OBJECT)
		kind = json_get(doc, "kind");
	if (kind && kind->type == JSON_STRING) {
		ret->kind = kind_of(kind->text);
		ret->exit_code = number(doc, "exit_code", -1);
		ret->signal = signal_of(doc);
		copy_message(doc, ret);
	} else if (WIFSIGNALED(a->status)) {
		/* The guest's memory was full, and it was the largest. */
		ret->kind = CORDON_KIND_SIGNALED;
		ret->signal = WTERMSIG(a->status);
	}
	if (fd >= 0)
		close(fd);
	arena_done(&arena);
	strbuf_done(&sb);
}

static void say_exit(const struct agent *a)
{
	struct strbuf sb = STRBUF_INIT;
	struct microvm_exit exit;

	read_receipt(a, &exit);
	exit.out_bytes = a->pumps[1].total;
	exit.err_bytes = a->pumps[2].total;
	/* What was written to granted files is there when the host hears of the end. */
	sync();
	microvm_add_exit(&sb, &exit);
	say(&sb);
}

int microvm_agent(void)
{
	static struct agent a;
	struct agent_request request;
	struct microvm_message message;
	int signal_fd;
	size_t len;

	signal_fd = agent_prepare();
	say_ready();
	len = wait_for_request(&a, &message);
	agent_read_request(&message, &request);
	agent_make_root(&request);
	start(&a, &request);
	drop(&a.heard, len);
	serve(&a, signal_fd);
	say_exit(&a);
	/* The host ends the machine when it has all the output. */
	for (;;)
		pause();
}

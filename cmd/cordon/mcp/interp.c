/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An interpreter: a command of a sandbox that takes code over its channel, piece by piece.
 *
 * Its output goes over ordinary pipes, so it is byte for byte what the code wrote; the driver
 * flushes before it says that the code has ended, so by then all of it is on its way. Code whose
 * time is over is interrupted; if it does not react the interpreter is killed, and the next code
 * begins a new one.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/macros.h"
#include "drivers.h"
#include "session.h"

#define CHUNK 65536
#define START_MS 60000
#define GRACE_MS 2000 /* for code to end after an interrupt */
#define QUIET_MS 50   /* for an interrupt to arrive that nobody counts */
#define CLOSE_MS 1000 /* for a process to end after it has closed the channel */
#define IN_PIPES ((size_t)2 << 20)
#define OUTPUT_MAX ((size_t)256 << 10) /* of each stream and piece of code */
#define DRAIN_ROUNDS 32 /* more than full pipes need; others in the sandbox may write for ever */
#define TALK_ROUNDS 16	/* pieces taken off a channel before others have their turn */

const char *const language_names[LANGUAGE_MAX] = { "python", "javascript", "bash" };

/* After an interrupt: a signal that comes just before a system call that sleeps is noticed when
 * that is over, so it is sent again. The drivers take them for one. */
static const int again_after_ms[] = { 50, 150, 350 };

static const char *const *argv_of(int language)
{
	static const char *const python[] = { "python3",       "-I", "-X", "utf8", "-c",
					      mcp_load_python, NULL };
	static const char *const node[] = { "node", "-e", mcp_load_node, NULL };
	static const char *const bash[] = { "bash", "--norc",	     "--noprofile",
					    "-c",   mcp_driver_bash, NULL };

	return language == LANGUAGE_PYTHON ? python : language == LANGUAGE_BASH ? bash : node;
}

/* What it is sent first. Bash has its driver as an argument. */
static void greet(struct interp *i)
{
	const char *driver = i->language == LANGUAGE_PYTHON ? mcp_driver_python : mcp_driver_node;

	if (i->language == LANGUAGE_BASH)
		return;
	strbuf_printf(&i->to, "%zu %zu\n", strlen(driver), CHANNEL_DATA_MAX);
	strbuf_puts(&i->to, driver);
}

static void close_all(struct interp *i)
{
	int *const fds[] = { &i->fd, &i->out_fds[0], &i->out_fds[1], &i->in_fds[0], &i->in_fds[1] };

	for (size_t k = 0; k < ARRAY_SIZE(fds); k++) {
		if (*fds[k] >= 0)
			close(*fds[k]);
		*fds[k] = -1;
	}
}

static int open_all(struct interp *i, int *ret_guest_fd, struct cordon_error *err)
{
	int pair[2];

	if (pipe2(i->out_fds, O_CLOEXEC) < 0 || pipe2(i->in_fds, O_CLOEXEC) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot make a channel");
	i->fd = pair[0];
	*ret_guest_fd = pair[1];
	if (fcntl(i->fd, F_SETFL, O_NONBLOCK) < 0 ||
	    fcntl(i->out_fds[0], F_SETFL, O_NONBLOCK) < 0 ||
	    fcntl(i->in_fds[0], F_SETFL, O_NONBLOCK) < 0) {
		close(pair[1]);
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot make a channel");
	}
	return 0;
}

int interp_start(struct interp *i, struct box *box, int language, struct cordon_error *err)
{
	struct cordon_exec_options options = CORDON_EXEC_OPTIONS_INIT;
	int guest_fd = -1, is_new = i->was_ready && !i->was_told, r;

	*i = (struct interp){ .language = language, .fd = -1, .is_new = is_new };
	memset(i->out_fds, 0xff, sizeof(i->out_fds));
	memset(i->in_fds, 0xff, sizeof(i->in_fds));
	i->to = i->from = i->answer_data = (struct strbuf)STRBUF_INIT;
	i->output[0] = i->output[1] = (struct strbuf)STRBUF_INIT;
	r = open_all(i, &guest_fd, err);
	options.argv = argv_of(language);
	options.out.mode = options.err.mode = CORDON_STREAM_FD;
	options.out.fd = i->out_fds[1];
	options.err.fd = i->in_fds[1];
	options.channel_fd = guest_fd;
	/* Counted here, for each piece of code. */
	options.output_bytes = INT64_MAX / 4;
	if (r >= 0)
		r = cordon_session_exec(box->session, &options, &i->command, err);
	if (guest_fd >= 0)
		close(guest_fd);
	if (r < 0) {
		close_all(i);
		return r;
	}
	box->jobs++;
	i->state = INTERP_STARTS;
	i->deadline_ms = mcp_now_ms() + START_MS;
	memcpy(i->token, "-", 2);
	greet(i);
	return 0;
}

void interp_kill(struct interp *i, const char *why)
{
	if (i->state == INTERP_NONE || i->state == INTERP_DIES)
		return;
	if (!i->doom)
		i->doom = why;
	i->state = INTERP_DIES;
	(void)cordon_command_end(i->command, SIGKILL, 0, NULL);
}

static void new_token(struct interp *i)
{
	unsigned char random[16];

	if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
		interp_kill(i, "there are no random numbers");
		return;
	}
	for (size_t k = 0; k < sizeof(random); k++)
		snprintf(i->token + 2 * k, 3, "%02x", random[k]);
}

static void send_request(struct interp *i, const char *kind, const char *data)
{
	new_token(i);
	strbuf_printf(&i->to, "%s %s %zu\n", kind, i->token, strlen(data));
	strbuf_puts(&i->to, data);
	if (i->to.failed)
		interp_kill(i, "out of memory");
}

void interp_run(struct interp *i, struct call *call, const char *code, int64_t wall_ms)
{
	const struct cordon_denial *denials;
	size_t n;

	interp_reset(i);
	/* What was refused before is none of this code's. */
	(void)cordon_command_refusals(i->command, "", 0, &denials, &n, NULL);
	i->state = INTERP_RUNS;
	i->call = call;
	i->deadline_ms = mcp_now_ms() + wall_ms;
	i->kill_at_ms = 0;
	send_request(i, "exec", code);
}

void interp_reset(struct interp *i)
{
	for (size_t k = 0; k < i->n_displays; k++)
		strbuf_done(&i->displays[k].data);
	free(i->displays);
	i->displays = NULL;
	i->n_displays = i->shown_bytes = 0;
	for (int k = 0; k < 2; k++) {
		strbuf_done(&i->output[k]);
		i->is_cut[k] = 0;
	}
	strbuf_done(&i->answer_data);
	i->is_done = i->timed_out = 0;
	i->call = NULL;
}

static void interrupt(struct interp *i)
{
	i->sent_signals++;
	(void)cordon_command_signal(i->command, SIGINT, NULL);
}

/* Output of the code, as far as it is kept. Returns how much came. */
static size_t read_output(struct interp *i)
{
	const int fds[] = { i->out_fds[0], i->in_fds[0] };
	char buffer[CHUNK];
	size_t total = 0;

	for (int k = 0; k < 2; k++) {
		ssize_t n;

		for (size_t got = 0; got < IN_PIPES; got += (size_t)n) {
			size_t room = OUTPUT_MAX - i->output[k].len;

			n = read(fds[k], buffer, sizeof(buffer));
			if (n <= 0)
				break;
			i->is_cut[k] |= (size_t)n > room;
			strbuf_add(&i->output[k], buffer, (size_t)n < room ? (size_t)n : room);
			total += (size_t)n;
		}
	}
	return total;
}

/* Everything that was written before the answer. */
static void drain(struct interp *i, struct box *box)
{
	struct pollfd p = { .fd = cordon_session_fd(box->session), .events = POLLIN };
	size_t total = 0;

	for (int k = 0; k < DRAIN_ROUNDS && total < 2 * IN_PIPES && !box->is_over; k++) {
		total += read_output(i);
		if (poll(&p, 1, 0) <= 0)
			return;
		box_look(box);
	}
}

static void take_display(struct interp *i, const struct channel_message *m, const char *data)
{
	size_t n = i->n_displays;
	struct display *d;

	i->shown_bytes += m->data_len + m->n_mimes * CHANNEL_MIME_MAX;
	if (i->shown_bytes > CHANNEL_DATA_MAX || i->n_displays >= DISPLAYS_MAX) {
		interp_kill(i, "too much was displayed");
		return;
	}
	if ((n & (n - 1)) == 0) { /* full: the room is a power of two */
		d = realloc(i->displays, (n ? 2 * n : 1) * sizeof(*d));
		if (!d) {
			interp_kill(i, "out of memory");
			return;
		}
		i->displays = d;
	}
	d = &i->displays[i->n_displays++];
	d->n = m->n_parts;
	memcpy(d->sizes, m->sizes, sizeof(d->sizes));
	memcpy(d->mimes, m->mimes, sizeof(d->mimes));
	d->data = (struct strbuf)STRBUF_INIT;
	strbuf_add(&d->data, data, m->data_len);
}

/* Interrupts that were sent may still be on their way, and must not hit the next code. */
static void settle(struct interp *i)
{
	char text[24];

	i->n_again = 0;
	i->kill_at_ms = 0;
	i->state = INTERP_IDLE;
	i->deadline_ms = 0;
	if (i->sent_signals == i->seen_signals)
		return;
	i->seen_signals = i->sent_signals;
	i->state = INTERP_SYNCS;
	if (i->language == LANGUAGE_BASH) {
		i->deadline_ms = mcp_now_ms() + QUIET_MS;
		return;
	}
	i->deadline_ms = mcp_now_ms() + START_MS;
	snprintf(text, sizeof(text), "%lld", i->sent_signals);
	send_request(i, "sync", text);
}

static void take_end(struct interp *i, struct box *box, const struct channel_message *m,
		     const char *data)
{
	i->answer = *m;
	i->answer_data = (struct strbuf)STRBUF_INIT;
	strbuf_add(&i->answer_data, data, m->data_len);
	if (m->signals >= 0)
		i->seen_signals = m->signals;
	drain(i, box);
	i->is_done = 1;
	settle(i);
}

static void begin(struct interp *i)
{
	i->was_ready = 1;
	settle(i);
}

static void take_message(struct interp *i, struct box *box, const struct channel_message *m,
			 const char *data)
{
	if (strcmp(m->token, i->token) != 0)
		interp_kill(i, "it answered something that was not asked");
	else if (i->state == INTERP_STARTS && m->type == CHANNEL_HELLO)
		begin(i);
	else if (i->state == INTERP_RUNS && m->type == CHANNEL_DISPLAY)
		take_display(i, m, data);
	else if (i->state == INTERP_RUNS && m->type == CHANNEL_END)
		take_end(i, box, m, data);
	else if (i->state == INTERP_SYNCS && i->language != LANGUAGE_BASH &&
		 m->type == CHANNEL_VALUE)
		settle(i);
	else
		interp_kill(i, "it answered something that was not asked");
}

static void take_messages(struct interp *i, struct box *box)
{
	struct channel_message m;
	const char *why;
	int r = 0;

	while (i->from.len && i->state != INTERP_DIES) {
		size_t n;

		r = channel_parse(i->from.data, i->from.len, &m, &why);
		if (r < 0)
			interp_kill(i, why);
		if (r <= 0)
			return;
		n = m.head_len + m.data_len;
		take_message(i, box, &m, i->from.data + m.head_len);
		memmove(i->from.data, i->from.data + n, i->from.len - n + 1);
		i->from.len -= n;
	}
}

static void talk(struct interp *i, struct box *box)
{
	char buffer[CHUNK];
	ssize_t n;

	while (i->sent < i->to.len) {
		n = send(i->fd, i->to.data + i->sent, i->to.len - i->sent,
			 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n <= 0)
			break;
		i->sent += (size_t)n;
	}
	if (i->sent == i->to.len) {
		strbuf_done(&i->to);
		i->sent = 0;
	}
	/* Never recvmsg(): descriptors that the guest sends are dropped. No more than a message
	 * may have is kept before it is looked at. */
	for (int k = 0; k < TALK_ROUNDS && i->state != INTERP_DIES; k++) {
		n = recv(i->fd, buffer, sizeof(buffer), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return;
		if (n == 0) {
			/* Its end is on its way, and says more. */
			i->is_closed = 1;
			i->kill_at_ms = mcp_now_ms() + CLOSE_MS;
			return;
		}
		strbuf_add(&i->from, buffer, (size_t)n);
		if (i->from.failed)
			interp_kill(i, "out of memory");
		take_messages(i, box);
	}
}

static void look_at_clock(struct interp *i)
{
	int64_t now = mcp_now_ms();

	if (i->n_again && now >= i->again_ms[0]) {
		memmove(i->again_ms, i->again_ms + 1, sizeof(i->again_ms) - sizeof(i->again_ms[0]));
		i->n_again--;
		interrupt(i);
	}
	if (i->kill_at_ms && now >= i->kill_at_ms) {
		interp_kill(i, i->is_closed ? "it has closed the channel"
					    : "it did not react to an interrupt");
	} else if (!i->kill_at_ms && i->deadline_ms && now >= i->deadline_ms) {
		if (i->state == INTERP_SYNCS && i->language == LANGUAGE_BASH) {
			settle(i);
		} else if (i->state == INTERP_RUNS) {
			i->timed_out = 1;
			i->kill_at_ms = now + GRACE_MS;
			interrupt(i);
			i->n_again = i->language == LANGUAGE_BASH ? 0 : ARRAY_SIZE(again_after_ms);
			for (int k = 0; k < i->n_again; k++)
				i->again_ms[k] = now + again_after_ms[k];
		} else {
			interp_kill(i, "it did not answer in time");
		}
	}
}

/* It has ended by itself, or its box has. */
static void say_why(struct interp *i, const struct box *box)
{
	const struct cordon_result *result = cordon_command_result(i->command);

	if (i->doom)
		return;
	if (box->is_over && box->error.code)
		snprintf(i->why, sizeof(i->why), "%s", box->error.msg);
	else if (result && result->kind == CORDON_KIND_EXITED)
		snprintf(i->why, sizeof(i->why), "it ended with status %d", result->exit_code);
	else if (result && result->signal)
		snprintf(i->why, sizeof(i->why), "it was killed by signal %d", result->signal);
	else
		snprintf(i->why, sizeof(i->why), "it has ended");
	i->doom = i->why;
}

void interp_look(struct interp *i, struct box *box)
{
	if (i->state == INTERP_NONE)
		return;
	if (box->is_over || cordon_command_result(i->command)) {
		if (i->state == INTERP_RUNS)
			(void)read_output(i);
		say_why(i, box);
		i->is_done = 1;
		i->state = INTERP_DIES;
		return;
	}
	if (i->state == INTERP_DIES)
		return;
	if (i->state == INTERP_RUNS)
		(void)read_output(i);
	if (!i->is_closed)
		talk(i, box);
	if (i->state != INTERP_DIES)
		look_at_clock(i);
}

int interp_wait(struct interp *i, struct pollfd *fds)
{
	int n = 0;

	if (i->state == INTERP_NONE || i->state == INTERP_DIES)
		return 0;
	if (!i->is_closed)
		fds[n++] = (struct pollfd){
			.fd = i->fd,
			.events = (short)(POLLIN | (i->to.len ? POLLOUT : 0)),
		};
	if (i->state == INTERP_RUNS) {
		/* Output between two pieces of code waits for the next one. */
		fds[n++] = (struct pollfd){ .fd = i->out_fds[0], .events = POLLIN };
		fds[n++] = (struct pollfd){ .fd = i->in_fds[0], .events = POLLIN };
	}
	return n;
}

int64_t interp_next_ms(const struct interp *i)
{
	int64_t next = i->kill_at_ms ? i->kill_at_ms : i->deadline_ms;

	if (i->state == INTERP_NONE || i->state == INTERP_DIES || !next)
		return -1;
	return i->n_again && i->again_ms[0] < next ? i->again_ms[0] : next;
}

void interp_free(struct interp *i, struct box *box)
{
	if (i->state == INTERP_NONE)
		return;
	box->jobs--;
	cordon_command_free(TAKE_PTR(i->command));
	close_all(i);
	interp_reset(i);
	strbuf_done(&i->to);
	strbuf_done(&i->from);
	i->state = INTERP_NONE;
}

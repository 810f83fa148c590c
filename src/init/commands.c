/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of a session.
 *
 * Theory of operation. A session has no command of its own: init waits, and starts one for each
 * CONTROL_EXEC, by the same code and into the same layers as the command of a run (payload.c). It
 * reports the end of each, with its number, and goes on. Limits of memory, tasks, disk and CPU hold
 * for the session as a whole and end it; a command has a time limit of its own.
 *
 * There are guests already when a command starts. They have the same ids, so they may signal its
 * process before it has executed anything: stop it, or kill it. Therefore init does not wait for
 * it, as it does for the command of a run: the process is forked, with memory of its own, and
 * leaves word of a failure in shared memory. They cannot look into it either: like init it cannot
 * be traced until exec, when all that init has open is closed.
 *
 * Should: report each command's end once, whatever the guests do.
 * Mustn't: block; end because nothing runs.
 *
 * The tree of a command is what is in its session (setsid) and what descends from that. A process
 * that left both, as daemons do, belongs to the session alone. That is a convenience, not a
 * boundary: all commands of a session are one guest.
 */
#include "init/commands.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/mman.h>

#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/signals.h"
#include "bare/wait.h"
#include "init/pause.h"
#include "init/procfs.h"
#include "init/tree.h"
#include "init/watch/watch.h"
#include "plan/command_read.h"

#define NEVER (~(uint64_t)0)
#define PROT_READ_ONLY 0x1
#define SEEK_TO_END 2
#define STAT_MAX 512
/* For what was killed to be gone: on a busy machine it takes a while. */
#define KILL_NS (1000 * MS)

enum command_state {
	COMMAND_FREE = 0,
	COMMAND_WAITING, /* for the names to be covered */
	COMMAND_RUNNING,
	COMMAND_ENDED
};

struct command {
	enum command_state state;
	int pid;
	int fds[COMMAND_FDS_MAX], n_fds; /* while it waits */
	const struct command_header *block;
	uint32_t flags;
	uint64_t deadline_ns, grace_ns, kill_at_ns;
	uint64_t rest_until_ns, look_ns; /* while what it left is being killed */
	struct control_command report;
};

static struct command commands[COMMANDS_MAX];
static struct command_outcome *outcomes; /* shared, one for each */
static uint64_t paused_ns;		 /* since when the session is paused, 0 = it is not */

void commands_open(struct init *in)
{
	long r = raw6(__NR_mmap, 0, COMMANDS_MAX * sizeof(*outcomes), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (r < 0 && r > -4096)
		fail(in, STAGE_EXEC, STEP_EXEC_CLONE, r);
	outcomes = (struct command_outcome *)r;
}

void commands_close(void)
{
	raw_syscall(__NR_munmap, RAW_ARG(outcomes), COMMANDS_MAX * sizeof(*outcomes), 0, 0, 0, 0);
	for (int i = 0; i < COMMANDS_MAX; i++)
		if (commands[i].block)
			raw_syscall(__NR_munmap, RAW_ARG(commands[i].block),
				    commands[i].block->size, 0, 0, 0, 0);
}

static void tell(struct command *c, uint32_t type)
{
	c->report.type = type;
	raw_syscall(__NR_write, CTL_FD, RAW_ARG(&c->report), sizeof(c->report), 0, 0, 0);
	if (c->block)
		raw_syscall(__NR_munmap, RAW_ARG(c->block), c->block->size, 0, 0, 0, 0);
	*c = (struct command){ .state = COMMAND_FREE };
}

static void tell_failed(struct command *c, int stage, unsigned op, long error)
{
	c->report.stage = (uint32_t)stage;
	c->report.op = op;
	c->report.sys_errno = (int32_t)-error;
	c->report.ended_ns = now_ns();
	tell(c, CONTROL_EXEC_FAILED);
}

static void start(struct init *in, struct command *c)
{
	struct command_outcome *shared = &outcomes[c - commands];
	long pid;

	*shared = (struct command_outcome){ 0 };
	pid = start_command(in, c->block, c->fds, c->n_fds, c->flags, shared);
	for (int i = 0; i < c->n_fds; i++)
		close_fd(c->fds[i]);
	c->n_fds = 0;
	if (pid < 0) {
		tell_failed(c, STAGE_EXEC, STEP_EXEC_CLONE, pid);
		return;
	}
	c->pid = (int)pid;
	c->state = COMMAND_RUNNING;
	in->is_empty = 0;
}

/* NULL: it is not a sound block; *ret_error says why. */
static const struct command_header *map_block(int fd, long *ret_error)
{
	long size = raw_syscall(__NR_lseek, fd, 0, SEEK_TO_END, 0, 0, 0), address;

	*ret_error = size < 0 ? size : -EBADMSG;
	if (size <= 0 || size > COMMAND_SIZE_MAX)
		return 0;
	address = raw_syscall(__NR_mmap, 0, size, PROT_READ_ONLY, MAP_PRIVATE, fd, 0);
	*ret_error = address;
	if (address < 0 && address > -4096)
		return 0;
	*ret_error = -EBADMSG;
	if (command_read_check((const void *)address, (size_t)size) == 0)
		return (const struct command_header *)address;
	raw_syscall(__NR_munmap, address, size, 0, 0, 0, 0);
	return 0;
}

static struct command *find(uint32_t number)
{
	for (int i = 0; i < COMMANDS_MAX; i++)
		if (commands[i].state != COMMAND_FREE && commands[i].report.number == number)
			return &commands[i];
	return 0;
}

static struct command *find_free(void)
{
	for (int i = 0; i < COMMANDS_MAX; i++)
		if (commands[i].state == COMMAND_FREE)
			return &commands[i];
	return 0;
}

void command_take(struct init *in, const struct control_order *order, const int *fds, int n_fds)
{
	struct command none = { .state = COMMAND_FREE }, *c = find_free();
	int n_wanted = COMMAND_FDS_MIN + !!(order->flags & CONTROL_EXEC_CHANNEL);
	long error = -EBADMSG;

	c = c ? c : &none;
	c->report.number = order->count;
	if (n_fds == n_wanted && is_session(in) &&
	    (!(order->flags & CONTROL_EXEC_IMAGE) || in->image_fd >= 0))
		c->block = map_block(fds[0], &error);
	if (c == &none)
		error = -EAGAIN;
	if (!c->block || c == &none) {
		for (int i = 0; i < n_fds; i++)
			close_fd(fds[i]);
		tell_failed(c, STAGE_EXEC, STEP_EXEC_ARGUMENTS, error);
		return;
	}
	close_fd(fds[0]);
	c->n_fds = n_fds - 1;
	memcpy(c->fds, fds + 1, (size_t)c->n_fds * sizeof(*fds));
	c->flags = order->flags;
	c->deadline_ns = order->limits.deadline_ns ? order->limits.deadline_ns : NEVER;
	c->grace_ns = order->limits.grace_ns;
	c->kill_at_ns = NEVER;
	c->state = COMMAND_WAITING;
	/* Without its cover a name is open to whatever runs. */
	if (!in->is_uncovered)
		start(in, c);
}

void commands_start_waiting(struct init *in)
{
	for (int i = 0; i < COMMANDS_MAX; i++)
		if (commands[i].state == COMMAND_WAITING)
			start(in, &commands[i]);
}

/* Of one process: its parent and its session; the letter of its state. 0 = it is gone. */
static int read_relations(const struct init *in, int pid, int *ret_parent, int *ret_session)
{
	char text[STAT_MAX], *s;
	uint64_t field[4];
	long n = proc_read(in->proc_fd, pid, "stat", text, sizeof(text));

	/* The name before the fields is the guest's; the last parenthesis ends it. */
	for (s = text + (n > 0 ? n : 0); s > text && *s != ')'; s--)
		;
	if (s == text || s[1] != ' ' || proc_numbers(s + 3, field, 3) != 3)
		return 0;
	*ret_parent = (int)field[0];
	*ret_session = (int)field[2];
	return s[2];
}

/* It has ended, and only its number is left. */
static int is_dead(int state)
{
	return state == 'Z' || state == 'X';
}

static int is_listed(const int *pids, int n, int pid)
{
	for (int i = 0; i < n; i++)
		if (pids[i] == pid)
			return 1;
	return 0;
}

/*
 * Sends @signal to the tree of the command that had or has @pid; how many processes that were, dead
 * ones apart. @leader: its process, which a guest may have stopped before it had a session of its
 * own; 0 once it was reaped, since others may have its number then.
 */
static int signal_tree(struct init *in, int pid, int leader, int signal)
{
	static int all[TREE_MAX], parents[TREE_MAX], found[TREE_MAX];
	static char dead[TREE_MAX];
	int n = tree_list(in, all), n_found = 0, before, n_sent = 0;

	for (int i = 0; i < n; i++) {
		int session = 0, state;

		parents[i] = 0;
		state = read_relations(in, all[i], &parents[i], &session);
		dead[i] = (char)(!state || is_dead(state));
		if (!dead[i] && (session == pid || all[i] == leader))
			found[n_found++] = all[i];
	}
	/* Children of what was found, and theirs. */
	do {
		before = n_found;
		for (int i = 0; i < n; i++)
			if (!dead[i] && parents[i] > 1 && is_listed(found, n_found, parents[i]) &&
			    !is_listed(found, n_found, all[i]))
				found[n_found++] = all[i];
	} while (n_found > before);
	for (int i = 0; i < n; i++)
		if (is_listed(found, n_found, all[i])) {
			tree_signal_one(in, signal, i, all, n);
			n_sent++;
		}
	return n_sent;
}

/*
 * Whether something is left of the tree of a command that has ended; it is killed. A process may
 * fork between the look and the signal, and dies when it runs next, so there is a next look. Not
 * for ever: one may hang in the kernel.
 */
static int has_rest(struct init *in, struct command *c)
{
	uint64_t now = now_ns();

	if (!c->rest_until_ns)
		c->rest_until_ns = now + KILL_NS;
	if (signal_tree(in, c->pid, 0, SIGKILL_NR) == 0 || now >= c->rest_until_ns)
		return 0;
	c->look_ns = now + MS;
	return 1;
}

void command_signal(struct init *in, const struct control_order *order)
{
	const struct command *c = find(order->count);

	(void)in;
	if (!c || c->state != COMMAND_RUNNING)
		return;
	/* Its process may not have got as far as a group of its own. Then it is alone. */
	if (raw_syscall(__NR_kill, -c->pid, order->arg, 0, 0, 0, 0) == -ESRCH)
		raw_syscall(__NR_kill, c->pid, order->arg, 0, 0, 0, 0);
}

static void begin_end(struct init *in, struct command *c, uint32_t signal, uint64_t grace_ns)
{
	uint64_t end = now_ns() + grace_ns;

	c->deadline_ns = NEVER;
	if (end < c->kill_at_ns)
		c->kill_at_ns = end;
	/* In a pause nothing may go on, not even to end. */
	if (grace_ns == 0 || paused_ns) {
		signal_tree(in, c->pid, c->pid, SIGKILL_NR);
		return;
	}
	signal_tree(in, c->pid, c->pid, (int)signal);
	signal_tree(in, c->pid, c->pid, SIGCONT_NR);
}

void command_end(struct init *in, const struct control_order *order)
{
	struct command *c = find(order->count);

	if (!c)
		return;
	c->report.on_order = 1;
	if (c->state == COMMAND_RUNNING)
		begin_end(in, c, order->arg, order->limits.grace_ns);
	if (c->state != COMMAND_WAITING)
		return;
	for (int i = 0; i < c->n_fds; i++)
		close_fd(c->fds[i]);
	c->report.wait_status = SIGKILL_NR;
	c->state = COMMAND_ENDED;
}

void command_reaped(int pid, int status, const struct rusage *usage)
{
	struct command *c = 0;

	for (int i = 0; i < COMMANDS_MAX; i++)
		if (commands[i].state == COMMAND_RUNNING && commands[i].pid == pid)
			c = &commands[i];
	if (!c)
		return;
	c->state = COMMAND_ENDED;
	c->report.wait_status = status;
	c->report.ended_ns = now_ns();
	c->report.user_us =
		(uint64_t)usage->ru_utime.tv_sec * 1000000u + (uint64_t)usage->ru_utime.tv_usec;
	c->report.system_us =
		(uint64_t)usage->ru_stime.tv_sec * 1000000u + (uint64_t)usage->ru_stime.tv_usec;
	c->report.memory_bytes = (uint64_t)usage->ru_maxrss * 1024;
}

void commands_tell(struct init *in)
{
	for (int i = 0; i < COMMANDS_MAX; i++) {
		struct command *c = &commands[i];
		const struct command_outcome *shared = &outcomes[i];

		if (c->state != COMMAND_ENDED)
			continue;
		c->report.started_ns = shared->entered_ns;
		/* The session ends, and asked it to. */
		if (in->kill_at_ns != NEVER) {
			c->report.on_order |= in->report.on_order;
			if (in->report.limit == CONTROL_LIMIT_WALL)
				c->report.limit = CONTROL_LIMIT_WALL;
		}
		if (shared->is_failed) {
			tell_failed(c, shared->stage, shared->op, shared->error);
			continue;
		}
		/* At its end on order or in time, too: nothing shall go on then. */
		if (c->pid > 1 && (c->flags & CONTROL_EXEC_KILL_REST || c->kill_at_ns != NEVER) &&
		    has_rest(in, c))
			continue;
		tell(c, CONTROL_EXEC_ENDED);
	}
}

/* It is dead, but a guest that traces it keeps its end from us. */
static void end_held(struct init *in, struct command *c)
{
	int parent, session;

	if (!is_dead(read_relations(in, c->pid, &parent, &session)))
		return;
	c->report.wait_status = SIGKILL_NR;
	c->report.ended_ns = now_ns();
	c->state = COMMAND_ENDED;
}

void commands_tick(struct init *in, uint64_t now)
{
	if (paused_ns)
		return;
	for (int i = 0; i < COMMANDS_MAX; i++) {
		struct command *c = &commands[i];

		if (c->state != COMMAND_RUNNING)
			continue;
		if (now >= c->kill_at_ns) {
			signal_tree(in, c->pid, c->pid, SIGKILL_NR);
			c->kill_at_ns = now + 10 * MS; /* again, until it is gone */
			end_held(in, c);
		} else if (now >= c->deadline_ns) {
			c->report.limit = CONTROL_LIMIT_WALL;
			begin_end(in, c, SIGTERM_NR, c->grace_ns);
		}
	}
}

uint64_t commands_next(void)
{
	uint64_t next = NEVER;

	for (int i = 0; !paused_ns && i < COMMANDS_MAX; i++) {
		const struct command *c = &commands[i];

		if (c->state == COMMAND_ENDED && c->look_ns && c->look_ns < next)
			next = c->look_ns;
		if (c->state != COMMAND_RUNNING)
			continue;
		next = c->deadline_ns < next ? c->deadline_ns : next;
		next = c->kill_at_ns < next ? c->kill_at_ns : next;
	}
	return next;
}

void commands_pause(struct init *in)
{
	if (paused_ns)
		return;
	paused_ns = now_ns();
	tree_pause(in, PAUSE_ORDER);
}

/* The time of a command does not go on while it cannot. */
void commands_resume(struct init *in)
{
	uint64_t lost = paused_ns ? now_ns() - paused_ns : 0;

	if (!paused_ns)
		return;
	paused_ns = 0;
	for (int i = 0; i < COMMANDS_MAX; i++) {
		struct command *c = &commands[i];

		if (c->state != COMMAND_FREE && c->deadline_ns != NEVER)
			c->deadline_ns += lost;
		if (c->state != COMMAND_FREE && c->kill_at_ns != NEVER)
			c->kill_at_ns += lost;
	}
	tree_resume(in, PAUSE_ORDER);
}

void commands_count(struct init *in)
{
	struct control_count report = { .type = CONTROL_COUNTED };
	struct rusage usage;

	memset(&usage, 0, sizeof(usage));
	raw_syscall(__NR_getrusage, RUSAGE_CHILDREN, RAW_ARG(&usage), 0, 0, 0, 0);
	report.cpu_us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000u +
			(uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
	if (!in->is_empty)
		watch_count(in, &report);
	for (int i = 0; i < COMMANDS_MAX; i++)
		report.commands += commands[i].state != COMMAND_FREE;
	raw_syscall(__NR_write, CTL_FD, RAW_ARG(&report), sizeof(report), 0, 0, 0);
}

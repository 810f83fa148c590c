/* SPDX-License-Identifier: Apache-2.0 */
/* cordon inspect, kill, logs, wait, and the runs of cordon ps. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "out.h"
#include "runs.h"
#include "session.h"
#include "session_peer.h"
#include "signals.h"
#include "verbs.h"
#include "workspace.h"

#define COMMAND_WIDTH 200 /* bytes of a command in the table */
#define LOG_CHUNK 65536
#define LOG_JSON_MAX ((off_t)1 << 20) /* the end of a log, as JSON */

static int64_t age_ms(const struct run_seen *run)
{
	struct timespec now;
	int64_t age;

	clock_gettime(CLOCK_REALTIME, &now);
	age = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 - run->started_ms;
	return age > 0 ? age : 0;
}

static const char *text_of(const struct run_seen *run, const char *key)
{
	const struct json_value *v = json_get(run->about, key);

	return v && v->type == JSON_STRING ? v->text : NULL;
}

static int is_true(const struct run_seen *run, const char *key)
{
	const struct json_value *v = json_get(run->about, key);

	return v && v->type == JSON_TRUE;
}

/* Listing */

/* The members that ps and inspect share. A file in the directory can say anything: only what has
 * the right type is taken over, and the pid is the kernel's word. */
static void add_members(struct json_writer *w, const struct run_seen *run)
{
	const struct json_value *words = json_get(run->about, "command");

	json_string(w, "type", "run");
	json_string(w, "id", run->id);
	if (run->pid > 0)
		json_int(w, "pid", run->pid);
	else
		json_null(w, "pid");
	json_int(w, "started_ms", run->started_ms);
	json_int(w, "uptime_ms", age_ms(run));
	json_open_array(w, "command");
	for (const struct json_value *v = words ? words->first : NULL; v; v = v->next)
		json_string(w, NULL, v->type == JSON_STRING ? v->text : NULL);
	json_close_array(w);
	json_bool(w, "command_is_whole", is_true(run, "command_is_whole"));
	json_string(w, "cwd", text_of(run, "cwd"));
	json_string(w, "workspace", text_of(run, "workspace"));
	json_bool(w, "log_stdout", is_true(run, "log_stdout"));
	json_bool(w, "log_stderr", is_true(run, "log_stderr"));
}

/* Escaped when it was written; again, since that may have been anybody. */
static void add_command(struct strbuf *sb, const struct run_seen *run)
{
	const struct json_value *words = json_get(run->about, "command");
	size_t end = sb->len + COMMAND_WIDTH;

	for (const struct json_value *v = words ? words->first : NULL; v; v = v->next) {
		if (v != words->first)
			strbuf_putc(sb, ' ');
		if (v->type == JSON_STRING && sb->len + strlen(v->text) <= end) {
			strbuf_add_escaped(sb, v->text, strlen(v->text));
		} else {
			strbuf_puts(sb, "...");
			return;
		}
	}
	if (!is_true(run, "command_is_whole"))
		strbuf_puts(sb, " ...");
}

struct lister {
	struct json_writer *w;
	struct strbuf *sb;
	int n;
};

static void list_one(void *arg, const struct run_seen *run)
{
	struct lister *l = arg;
	char age[HUMAN_MAX], pid[16] = "-";

	if (l->w) {
		json_open_object(l->w, NULL);
		add_members(l->w, run);
		json_close_object(l->w);
		return;
	}
	if (!l->n++)
		strbuf_printf(l->sb, "%s%-8s  %-8s  %-8s  %s\n", l->sb->len ? "\n" : "", "RUN",
			      "UPTIME", "PID", "COMMAND");
	if (run->pid > 0)
		snprintf(pid, sizeof(pid), "%d", (int)run->pid);
	strbuf_printf(l->sb, "%-8s  %-8s  %-8s  ", run->id, human_time(age_ms(run), age), pid);
	add_command(l->sb, run);
	strbuf_putc(l->sb, '\n');
}

void runs_list(struct json_writer *w, struct strbuf *sb)
{
	struct lister l = { w, sb, 0 };

	run_each(list_one, &l);
}

/* The run that the verb's one operand names. */
static int find(const struct parsed *args, struct run_seen *ret, struct cordon_error *err)
{
	char key[SESSION_KEY_CHARS + 1];
	int fd, r;

	*ret = (struct run_seen){ .fd = -1, .arena = ARENA_INIT };
	if (session_operands(args, 1, 1, err) < 0)
		return -CORDON_E_USAGE;
	r = run_find(args->rest[0], ret, err);
	if (r >= 0)
		return 0;
	fd = session_check_name(args->rest[0], NULL) < 0
		     ? -1
		     : session_connect(args->rest[0], key, NULL);
	if (fd >= 0) {
		close(fd);
		cordon_err(err, CORDON_E_STATE, 0, "'%s' is a session", args->rest[0]);
		cordon_err_hint(err, "its verbs begin with 'cordon session'");
	}
	return r;
}

static void add_row(struct strbuf *sb, const char *name, const char *text)
{
	if (!text)
		text = "-";
	strbuf_printf(sb, "%-10s  ", name);
	strbuf_add_escaped(sb, text, strlen(text));
	strbuf_putc(sb, '\n');
}

static const char *log_words(const struct run_seen *run)
{
	int out = is_true(run, "log_stdout"), err = is_true(run, "log_stderr");

	if (!out && !err)
		return "none";
	return out && err ? "output and error output" : out ? "output" : "error output";
}

/* Of a policy only what has the depth of one. */
static const struct json_value *policy_of(const struct run_seen *run)
{
	const struct json_value *policy = json_get(run->about, "policy");

	if (!policy || policy->type != JSON_OBJECT)
		return NULL;
	for (const struct json_value *a = policy->first; a; a = a->next)
		for (const struct json_value *b = a->first; b; b = b->next)
			for (const struct json_value *c = b->first; c; c = c->next)
				if (c->first)
					return NULL;
	return policy;
}

static void inspect_text(const struct run_seen *run, struct strbuf *sb)
{
	const struct json_value *policy = policy_of(run);
	char age[HUMAN_MAX], pid[32] = "not to be seen from here";
	struct json_writer w;

	if (run->pid > 0)
		snprintf(pid, sizeof(pid), "%d", (int)run->pid);
	add_row(sb, "run", run->id);
	add_row(sb, "pid", pid);
	add_row(sb, "uptime", human_time(age_ms(run), age));
	strbuf_printf(sb, "%-10s  ", "command");
	add_command(sb, run);
	strbuf_putc(sb, '\n');
	add_row(sb, "cwd", text_of(run, "cwd"));
	add_row(sb, "workspace", text_of(run, "workspace"));
	add_row(sb, "log", log_words(run));
	strbuf_printf(sb, "%-10s  ", "policy");
	json_writer_init(&w, sb, 0);
	if (policy)
		json_copy(&w, NULL, policy);
	else
		strbuf_putc(sb, '-');
	strbuf_putc(sb, '\n');
}

int cmd_inspect(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;
	struct run_seen run;

	if (find(args, &run, &err) < 0)
		return session_fail(&err);
	if (parsed_has(args, OPT_JSON)) {
		json_writer_init(&w, &sb, 0);
		json_open_object(&w, NULL);
		add_members(&w, &run);
		if (policy_of(&run))
			json_copy(&w, "policy", policy_of(&run));
		else
			json_null(&w, "policy");
		json_close_object(&w);
		strbuf_putc(&sb, '\n');
	} else {
		inspect_text(&run, &sb);
	}
	run_seen_done(&run);
	return out_finish(&sb, 0);
}

/* Signals */

static int no_reach(const struct run_seen *run, struct cordon_error *err)
{
	cordon_err(err, CORDON_E_STATE, 0, "the supervisor of run '%s' is not to be seen from here",
		   run->id);
	cordon_err_hint(err, "it runs in another container; use the command there");
	return -CORDON_E_STATE;
}

static int is_over(const struct run_seen *run, struct cordon_error *err)
{
	cordon_err(err, CORDON_E_STATE, 0, "run '%s' has ended", run->id);
	return -CORDON_E_STATE;
}

/*
 * A descriptor of the supervisor. The number is that of the lock's holder, and the holder has it
 * still when the descriptor is open: so this is the holder, or a process that is gone, and no other
 * one that has got its number.
 */
static int open_supervisor(const struct run_seen *run, struct cordon_error *err)
{
	long own = session_count_filters(0), its;
	int fd;

	if (run->pid <= 0)
		return no_reach(run, err);
	fd = (int)syscall(SYS_pidfd_open, run->pid, 0);
	if (fd < 0 && errno == ESRCH)
		return is_over(run, err);
	if (fd < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot reach process %d",
				  (int)run->pid);
	its = session_count_filters(run->pid);
	if (!run_is_alive(run)) {
		close(fd);
		return is_over(run, err);
	}
	if (own < 0 || its < 0 || its > own) {
		close(fd);
		cordon_err(err, CORDON_E_STATE, 0,
			   "who says to be the supervisor of run '%s' is confined", run->id);
		cordon_err_hint(err, "a sandboxed command has made that file; no signal was sent");
		return -CORDON_E_STATE;
	}
	return fd;
}

/* One that is stopped (Ctrl-Z) hears of nothing else. */
static void wake(int pid_fd, const struct run_seen *run)
{
	char path[64], text[512], *state;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)run->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read_full(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	state = strrchr(text, ')');
	if (state && !strncmp(state, ") T", 3))
		(void)syscall(SYS_pidfd_send_signal, pid_fd, SIGCONT, NULL, 0);
}

static int send_signal(const struct run_seen *run, int number, int now, struct cordon_error *err)
{
	siginfo_t info = { .si_signo = number, .si_code = SI_QUEUE };
	int fd = open_supervisor(run, err), r;

	if (fd < 0)
		return fd;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = SIGNAL_NOW;
	r = (int)syscall(SYS_pidfd_send_signal, fd, number, now ? &info : NULL, 0);
	if (r < 0 && errno == ESRCH)
		r = is_over(run, err);
	else if (r < 0)
		r = cordon_err(err, CORDON_E_SYSTEM, errno, "cannot signal run '%s'", run->id);
	else if (number != SIGTSTP && number != SIGCONT)
		wake(fd, run);
	close(fd);
	return r;
}

/* What a supervisor passes on. */
static int choose_signal(const struct parsed *args, int *ret, struct cordon_error *err)
{
	static const int passed_on[] = { SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,
					 SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT };
	const char *name = parsed_value(args, OPT_SIGNAL);
	int number = name ? signal_number(name) : SIGTERM;

	if (name && parsed_has(args, OPT_NOW)) {
		cordon_err(err, CORDON_E_USAGE, 0, "--signal and --now contradict each other");
		return -CORDON_E_USAGE;
	}
	for (size_t i = 0; i < ARRAY_SIZE(passed_on); i++)
		if (passed_on[i] == number) {
			*ret = number;
			return 0;
		}
	cordon_err(err, CORDON_E_USAGE, 0, "--signal: '%s' is none that a run passes on", name);
	if (number == SIGKILL)
		cordon_err_hint(err, "--now ends the run at once");
	else if (number == SIGSTOP)
		cordon_err_hint(err, "TSTP stops it");
	else
		cordon_err_hint(err, "one of TERM, INT, HUP, QUIT, USR1, USR2, TSTP, CONT");
	return -CORDON_E_USAGE;
}

int cmd_kill(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;
	struct run_seen run;
	int number = SIGTERM, r;

	if (choose_signal(args, &number, &err) < 0 || find(args, &run, &err) < 0)
		return session_fail(&err);
	r = send_signal(&run, number, parsed_has(args, OPT_NOW), &err);
	run_seen_done(&run);
	if (r < 0)
		return session_fail(&err);
	if (!parsed_has(args, OPT_JSON))
		return 0;
	json_writer_init(&w, &sb, 0);
	json_open_object(&w, NULL);
	json_string(&w, "id", run.id);
	json_int(&w, "pid", run.pid);
	json_int(&w, "signal", number);
	json_bool(&w, "now", parsed_has(args, OPT_NOW));
	json_close_object(&w);
	strbuf_putc(&sb, '\n');
	return out_finish(&sb, 0);
}

/* The end */

int cmd_wait(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;
	struct run_seen run;
	char *receipt = NULL;
	int status, r;

	if (find(args, &run, &err) < 0)
		return session_fail(&err);
	r = run_wait(&run, &status, &receipt, &err);
	run_seen_done(&run);
	if (r >= 0 && status < 0) {
		r = cordon_err(&err, CORDON_E_STATE, 0,
			       "run '%s' has no result: its supervisor was killed", run.id);
		cordon_err_hint(&err, "its sandbox ended with it");
	}
	if (r < 0)
		return session_fail(&err);
	if (!parsed_has(args, OPT_JSON)) {
		free(receipt);
		return status;
	}
	json_writer_init(&w, &sb, 0);
	json_open_object(&w, NULL);
	json_string(&w, "id", run.id);
	json_int(&w, "status", status);
	if (receipt)
		json_raw(&w, "receipt", receipt);
	else
		json_null(&w, "receipt");
	json_close_object(&w);
	strbuf_putc(&sb, '\n');
	free(receipt);
	return out_finish(&sb, status);
}

/* Logs */

/*
 * The file that is the supervisor's descriptor @number, whatever its name is by now; -1 = none, or
 * -CORDON_E_*.
 */
static int open_log(const struct run_seen *run, const char *key, int number,
		    struct cordon_error *err)
{
	char path[64];
	struct stat st;
	int fd;

	if (!is_true(run, key))
		return -1;
	if (run->pid <= 0) {
		no_reach(run, err);
		return -CORDON_E_STATE;
	}
	/* Only a regular file is opened: of a terminal or pipe that would take something away. */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)run->pid, number);
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		fd = -1;
	else
		fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (!run_is_alive(run)) {
		if (fd >= 0)
			close(fd);
		is_over(run, err);
		return -CORDON_E_STATE;
	}
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		int number_of_error = fd < 0 ? errno : 0;

		if (fd >= 0)
			close(fd);
		cordon_err(err, CORDON_E_PATH, number_of_error, "cannot read the log of run '%s'",
			   run->id);
		return -CORDON_E_PATH;
	}
	return fd;
}

static int is_same(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino;
}

/* What it holds now, and no more: a command that writes faster than we do has no end. */
static int print_log(int fd)
{
	static char chunk[LOG_CHUNK];
	struct stat st;
	off_t at = 0;
	int status = 0;

	if (fstat(fd, &st) < 0)
		return STATUS_FAILED;
	while (status == 0 && at < st.st_size) {
		off_t left = st.st_size - at;
		ssize_t n = pread(fd, chunk, left < LOG_CHUNK ? (size_t)left : LOG_CHUNK, at);

		if (n <= 0)
			break;
		at += n;
		status = print_output(chunk, (size_t)n);
	}
	return status;
}

static void add_log(struct json_writer *w, const char *key, int fd)
{
	struct stat st;
	char *text;
	ssize_t n;
	off_t from;

	if (fd < 0 || fstat(fd, &st) < 0 || !(text = malloc((size_t)LOG_JSON_MAX))) {
		json_null(w, key);
		return;
	}
	from = st.st_size > LOG_JSON_MAX ? st.st_size - LOG_JSON_MAX : 0;
	n = read_full_at(fd, text, (size_t)LOG_JSON_MAX, from);
	json_open_object(w, key);
	json_int(w, "size_bytes", st.st_size);
	json_bool(w, "truncated", from > 0);
	json_bytes(w, "text", text, n > 0 ? (size_t)n : 0);
	json_close_object(w);
	free(text);
}

static int logs_json(const struct run_seen *run, int out, int err_fd)
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;

	json_writer_init(&w, &sb, 0);
	json_open_object(&w, NULL);
	json_string(&w, "id", run->id);
	add_log(&w, "stdout", out);
	add_log(&w, "stderr", err_fd);
	json_close_object(&w);
	strbuf_putc(&sb, '\n');
	return out_finish(&sb, 0);
}

int cmd_logs(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct run_seen run;
	int out, err_fd, status;

	if (find(args, &run, &err) < 0)
		return session_fail(&err);
	out = open_log(&run, "log_stdout", STDOUT_FILENO, &err);
	err_fd = out < -1 ? -1 : open_log(&run, "log_stderr", STDERR_FILENO, &err);
	if (out < -1 || err_fd < -1)
		return session_fail(&err);
	if (out < 0 && err_fd < 0) {
		cordon_err(&err, CORDON_E_STATE, 0, "run '%s' keeps no log", run.id);
		cordon_err_hint(&err, "only one whose output goes to a file does: cordon run ... > "
				      "FILE 2>&1");
		return session_fail(&err);
	}
	/* In one file they are in order. */
	if (out >= 0 && err_fd >= 0 && is_same(out, err_fd)) {
		close(err_fd);
		err_fd = -1;
	}
	if (parsed_has(args, OPT_JSON))
		return logs_json(&run, out, err_fd);
	status = out >= 0 ? print_log(out) : 0;
	if (status == 0 && err_fd >= 0)
		status = print_log(err_fd);
	return status;
}

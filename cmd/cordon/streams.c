/* SPDX-License-Identifier: Apache-2.0 */
#include "streams.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "terminal.h"
#include "verbs.h"

static int is_terminal(int fd)
{
	return !(closed_at_start & (1u << fd)) && isatty(fd);
}

int streams_want_terminal(const struct parsed *args, struct cordon_error *err)
{
	int is_asked = parsed_has(args, OPT_INTERACTIVE),
	    is_off = parsed_has(args, OPT_NO_TERMINAL);

	if (is_asked && is_off) {
		cordon_err(err, CORDON_E_USAGE, 0, "-i and --no-terminal contradict each other");
		return -CORDON_E_USAGE;
	}
	if (is_asked && parsed_has(args, OPT_JSON)) {
		cordon_err(err, CORDON_E_USAGE, 0, "-i and --json contradict each other");
		cordon_err_hint(err, "a terminal's output goes to the terminal; --receipt FILE "
				     "writes the account of the run");
		return -CORDON_E_USAGE;
	}
	if (is_asked)
		return 1;
	return !is_off && !parsed_has(args, OPT_JSON) && is_terminal(STDIN_FILENO) &&
	       is_terminal(STDOUT_FILENO);
}

/* Both outputs to one file keep their order only if they go through one pipe. */
static int is_same_file(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino;
}

/* Not redirected: the terminal itself, or what stands for it. */
static int is_errors_terminal(void)
{
	struct stat st;

	if (!is_terminal(STDERR_FILENO))
		return 0;
	return is_same_file(STDOUT_FILENO, STDERR_FILENO) ||
	       (fstat(STDERR_FILENO, &st) == 0 && st.st_rdev == makedev(5, 0)); /* /dev/tty */
}

static void choose_stream(struct cordon_stream *stream, int fd, int json)
{
	if (json && fd != STDIN_FILENO) {
		stream->mode = CORDON_STREAM_CAPTURE;
		return;
	}
	stream->fd = fd;
	if (closed_at_start & (1u << fd)) {
		stream->mode = CORDON_STREAM_NULL;
		return;
	}
	stream->mode = CORDON_STREAM_FD;
	stream->clean = fd != STDIN_FILENO && isatty(fd);
}

/* Standard error that leads elsewhere stays apart; if it was closed, it leads to /dev/null. */
static void choose_terminal(struct cordon_run_options *options)
{
	options->terminal = 1;
	options->in.mode = options->out.mode = CORDON_STREAM_FD;
	options->in.fd = STDIN_FILENO;
	options->out.fd = STDOUT_FILENO;
	options->err.mode = is_errors_terminal() ? CORDON_STREAM_JOIN : CORDON_STREAM_FD;
	options->err.fd = STDERR_FILENO;
	options->err.clean = is_terminal(STDERR_FILENO);
	terminal_size(options);
}

void streams_choose(const struct parsed *args, int has_terminal, struct cordon_run_options *options)
{
	int json = parsed_has(args, OPT_JSON);

	if (has_terminal) {
		choose_terminal(options);
		return;
	}
	choose_stream(&options->in, STDIN_FILENO, json);
	choose_stream(&options->out, STDOUT_FILENO, json);
	choose_stream(&options->err, STDERR_FILENO, json);
	if (options->out.mode == CORDON_STREAM_FD && options->err.mode == CORDON_STREAM_FD &&
	    is_same_file(STDOUT_FILENO, STDERR_FILENO))
		options->err.mode = CORDON_STREAM_JOIN;
}

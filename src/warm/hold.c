/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds an interpreter that has started, until there is a program for it.
 *
 * Theory of operation. A run is started ahead, with an empty program. This library is loaded into
 * its interpreter, and waits when that first opens a file beside the program: it has set itself up
 * by then, and has not read a byte of the program. It says so on the channel, and waits there. The
 * host writes the program and answers; the interpreter goes on and reads it. Each is used for one
 * program.
 *
 * Loaded by LD_PRELOAD, with CORDON_HOLD=DIRECTORY, where the program lies, and for Python
 * CORDON_HOLD_IMPORT=NAME,NAME: modules that are imported before. The channel is descriptor 3.
 * The program gets none of that: the variables are taken out of the environment before the
 * interpreter sees it (/proc/self/environ still shows them), and the channel goes away from the
 * numbers that it would get.
 */
/* The two names are two functions here. */
#undef _FILE_OFFSET_BITS

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CHANNEL 3
#define CHANNEL_AT_LEAST 63 /* out of the way; the lowest limit of open files is 64 */
#define NAMES_MAX 16384
#define PLACE_MAX 256
#define FAILED 127
#define EXPORT __attribute__((visibility("default")))

static char place[PLACE_MAX], names[NAMES_MAX];
static size_t place_len;
static int channel = -1;

static void give_up(void)
{
	_exit(FAILED); /* the host starts another one, without us */
}

/* Takes a variable out of the environment, which the interpreter sees afterwards. By hand: bash has
 * functions of its own by the names of the C library's. */
static void take(const char *variable, char *buf, size_t size)
{
	size_t n = strlen(variable), len;
	char **to = environ;

	buf[0] = '\0';
	for (char **from = environ; from && *from; from++) {
		if (strncmp(*from, variable, n) != 0 || (*from)[n] != '=') {
			*to++ = *from;
			continue;
		}
		len = strlen(*from + n + 1);
		if (len >= size)
			give_up();
		memcpy(buf, *from + n + 1, len + 1);
	}
	if (to)
		*to = NULL;
}

static void __attribute__((constructor)) begin(void)
{
	static char library[PLACE_MAX];

	take("CORDON_HOLD", place, sizeof(place));
	place_len = strlen(place);
	if (!place_len)
		return;
	take("CORDON_HOLD_IMPORT", names, sizeof(names));
	take("LD_PRELOAD", library, sizeof(library));
	channel = fcntl(CHANNEL, F_DUPFD_CLOEXEC, CHANNEL_AT_LEAST);
	if (channel < 0)
		give_up();
	close(CHANNEL);
}

static void *find(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

/* Python: what its modules print is no part of the program's output, and they print nothing. */
static void import(void)
{
	int (*ensure)(void);
	void (*release)(int);
	void *(*import_module)(const char *);
	void (*decref)(void *);
	void *found[] = { find("PyGILState_Ensure"), find("PyGILState_Release"),
			  find("PyImport_ImportModule"), find("Py_DecRef") };
	int state;
	char *next;

	for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++)
		if (!found[i])
			give_up();
	memcpy(&ensure, &found[0], sizeof(ensure));
	memcpy(&release, &found[1], sizeof(release));
	memcpy(&import_module, &found[2], sizeof(import_module));
	memcpy(&decref, &found[3], sizeof(decref));
	state = ensure();
	for (char *name = names; name; name = next) {
		void *module;

		next = strchr(name, ',');
		if (next)
			*next++ = '\0';
		module = import_module(name);
		if (!module)
			give_up();
		decref(module);
	}
	release(state);
}

/* Bash counts SECONDS from its start. */
static void set_clocks(void)
{
	time_t *seconds = find("shell_start_time");
	struct timeval *exactly = find("shellstart");
	struct timeval now;

	gettimeofday(&now, NULL);
	if (seconds)
		*seconds = now.tv_sec;
	if (exactly)
		*exactly = now;
}

static void hold(void)
{
	int fd = channel, error = errno;
	char word = '!';
	ssize_t n;

	channel = -1;
	if (names[0])
		import();
	if (send(fd, &word, 1, MSG_NOSIGNAL) != 1)
		give_up();
	do
		n = recv(fd, &word, 1, 0);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		give_up();
	close(fd);
	set_clocks();
	errno = error;
}

static void look(const char *path)
{
	if (channel >= 0 && strncmp(path, place, place_len) == 0 && path[place_len] == '/')
		hold();
}

static void *next_function(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found)
		give_up();
	return found;
}

typedef int open_function(const char *path, int flags, ...);
typedef int short_open_function(const char *path, int flags);
typedef FILE *stream_function(const char *path, const char *mode);

#define OPEN(name)                                                                                 \
	EXPORT int name(const char *path, int flags, ...)                                          \
	{                                                                                          \
		static open_function *real;                                                        \
		mode_t mode = 0;                                                                   \
		va_list list;                                                                      \
                                                                                                   \
		if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {                       \
			va_start(list, flags);                                                     \
			mode = va_arg(list, mode_t);                                               \
			va_end(list);                                                              \
		}                                                                                  \
		if (!real) {                                                                       \
			void *found = next_function(#name);                                        \
                                                                                                   \
			memcpy(&real, &found, sizeof(real));                                       \
		}                                                                                  \
		look(path);                                                                        \
		return real(path, flags, mode);                                                    \
	}

#define SHORT_OPEN(name)                                                                           \
	EXPORT int name(const char *path, int flags);                                              \
	EXPORT int name(const char *path, int flags)                                               \
	{                                                                                          \
		static short_open_function *real;                                                  \
                                                                                                   \
		if (!real) {                                                                       \
			void *found = next_function(#name);                                        \
                                                                                                   \
			memcpy(&real, &found, sizeof(real));                                       \
		}                                                                                  \
		look(path);                                                                        \
		return real(path, flags);                                                          \
	}

#define STREAM(name)                                                                               \
	EXPORT FILE *name(const char *path, const char *mode)                                      \
	{                                                                                          \
		static stream_function *real;                                                      \
                                                                                                   \
		if (!real) {                                                                       \
			void *found = next_function(#name);                                        \
                                                                                                   \
			memcpy(&real, &found, sizeof(real));                                       \
		}                                                                                  \
		look(path);                                                                        \
		return real(path, mode);                                                           \
	}

/* Whatever an interpreter was compiled to call. */
OPEN(open)
OPEN(open64)
SHORT_OPEN(__open_2)
SHORT_OPEN(__open64_2)
STREAM(fopen)
STREAM(fopen64)

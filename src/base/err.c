/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors are filled in without allocating: they must work when memory is out. Text is formatted
 * into a buffer on the stack, then copied character by character with everything escaped that could
 * affect a terminal, and cut between characters. The errno's text is never cut off.
 */
#include "base/err.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define FORMAT_MAX 1024
#define ERRNO_TEXT_MAX 64
#define PREFIX_ROOM 48 /* what a prefix gets at least */

static const char *const code_names[] = {
	[CORDON_E_NONE] = "none",
	[CORDON_E_USAGE] = "usage",
	[CORDON_E_POLICY] = "policy",
	[CORDON_E_PATH] = "path",
	[CORDON_E_NOT_FOUND] = "not_found",
	[CORDON_E_NOT_EXECUTABLE] = "not_executable",
	[CORDON_E_UNSUPPORTED] = "unsupported",
	[CORDON_E_SETUP] = "setup",
	[CORDON_E_SYSTEM] = "system",
	[CORDON_E_NOMEM] = "nomem",
	[CORDON_E_STATE] = "state",
};
static_assert(ARRAY_SIZE(code_names) == CORDON_E_MAX, "a name for each error code");

const char *cordon_error_name(int code)
{
	if (code < 0 || code >= CORDON_E_MAX)
		return "unknown";
	return code_names[code];
}

/*
 * Copies @src into @dst, escaped and NUL-terminated; returns the length, at most @room (which is
 * smaller than the buffer). What does not fit is replaced by "...".
 */
static size_t copy_escaped(char *dst, size_t room, const char *src)
{
	char one[UTF8_ESCAPED_MAX];
	size_t len = strlen(src), used = 0, cut = 0, n;

	while (len > 0) {
		size_t taken = utf8_escape(src, len, one, &n);

		if (used + n > room) {
			memcpy(dst + cut, "...", 3);
			used = cut + 3;
			break;
		}
		memcpy(dst + used, one, n);
		used += n;
		if (used + 3 <= room)
			cut = used;
		src += taken;
		len -= taken;
	}
	dst[used] = '\0';
	return used;
}

/* A UTF-8 sequence cut by the end of the buffer would show as broken bytes. */
static void drop_cut_character(char *s)
{
	size_t len = strlen(s), back;
	uint32_t cp;

	if (len < FORMAT_MAX - 1)
		return;
	for (back = 1; back <= 4; back++) {
		unsigned char c = (unsigned char)s[len - back];

		if ((c & 0xc0) == 0x80)
			continue;
		if (utf8_decode(s + len - back, back, &cp) != back)
			s[len - back] = '\0';
		return;
	}
}

static void format_text(char buf[FORMAT_MAX], const char *fmt, va_list ap) PRINTF_LIKE(2, 0);

static void format_text(char buf[FORMAT_MAX], const char *fmt, va_list ap)
{
	int saved = errno;

	if (vsnprintf(buf, FORMAT_MAX, fmt, ap) < 0)
		buf[0] = '\0';
	drop_cut_character(buf);
	errno = saved;
}

/* The remedy where the errno alone tells it. A caller that knows better sets its own. */
static void hint_from_errno(struct cordon_error *err)
{
	if (err->sys_errno == EMFILE)
		cordon_err_hint(err, "raise the limit of open files: ulimit -n");
	else if (err->sys_errno == ENFILE)
		cordon_err_hint(err, "the whole system's limit: sysctl fs.file-max");
}

/* NULL if there is none. Never translated: glibc's strerror() would use the host program's locale.
 * musl's does so only in a program that sets one, and the command does not. */
static const char *errno_description(int sys_errno)
{
#ifdef __GLIBC__
	return strerrordesc_np(sys_errno);
#else
	return sys_errno > 0 && sys_errno <= EHWPOISON ? strerror(sys_errno) : NULL;
#endif
}

/* ": no such file or directory", in lower case since it never starts a sentence. */
static size_t errno_text(char buf[ERRNO_TEXT_MAX], int sys_errno)
{
	const char *text = errno_description(sys_errno);
	int n;

	if (!text)
		n = snprintf(buf, ERRNO_TEXT_MAX, ": errno %d", sys_errno);
	else if (isupper((unsigned char)text[0]) && islower((unsigned char)text[1]))
		n = snprintf(buf, ERRNO_TEXT_MAX, ": %c%s", text[0] + ('a' - 'A'), text + 1);
	else
		n = snprintf(buf, ERRNO_TEXT_MAX, ": %s", text);
	if (n < 0)
		return 0;
	return n < ERRNO_TEXT_MAX ? (size_t)n : ERRNO_TEXT_MAX - 1;
}

int cordon_err(struct cordon_error *err, int code, int sys_errno, const char *fmt, ...)
{
	char text[FORMAT_MAX], tail[ERRNO_TEXT_MAX] = "";
	size_t tail_len = 0, used;
	va_list ap;

	if (!err)
		return -code;
	va_start(ap, fmt);
	format_text(text, fmt, ap);
	va_end(ap);
	if (sys_errno != 0)
		tail_len = errno_text(tail, sys_errno);

	*err = (struct cordon_error){ .code = code, .sys_errno = sys_errno };
	used = copy_escaped(err->msg, sizeof(err->msg) - 1 - tail_len, text);
	memcpy(err->msg + used, tail, tail_len);
	err->msg[used + tail_len] = '\0';
	hint_from_errno(err);
	return -code;
}

int cordon_err_hint(struct cordon_error *err, const char *fmt, ...)
{
	char text[FORMAT_MAX];
	va_list ap;

	if (!err)
		return 0;
	va_start(ap, fmt);
	format_text(text, fmt, ap);
	va_end(ap);
	copy_escaped(err->hint, sizeof(err->hint) - 1, text);
	return -err->code;
}

int cordon_err_cwd(struct cordon_error *err, int sys_errno)
{
	if (sys_errno != ENOENT)
		return cordon_err(err, CORDON_E_PATH, sys_errno,
				  "cannot get the path of the current directory");
	/* Even if there is a new directory of the same name by now. */
	cordon_err(err, CORDON_E_PATH, 0, "the current directory was deleted");
	cordon_err_hint(err, "cd to one that exists");
	return -CORDON_E_PATH;
}

void cordon_err_prefix(struct cordon_error *err, const char *fmt, ...)
{
	char text[FORMAT_MAX], head[sizeof(err->msg)], old[sizeof(err->msg)];
	size_t room, prefix, msg;
	va_list ap;

	if (!err)
		return;
	va_start(ap, fmt);
	format_text(text, fmt, ap);
	va_end(ap);

	/* The cause matters more than the context: a long prefix gives way first. */
	msg = strlen(err->msg);
	room = sizeof(err->msg) - 1;
	room = msg + 2 + PREFIX_ROOM <= room ? room - msg - 2 : PREFIX_ROOM;
	prefix = copy_escaped(head, room, text);
	memcpy(old, err->msg, msg + 1);
	memcpy(err->msg, head, prefix);
	memcpy(err->msg + prefix, ": ", 2);
	copy_escaped(err->msg + prefix + 2, sizeof(err->msg) - 1 - prefix - 2, old);
}

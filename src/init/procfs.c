/* SPDX-License-Identifier: Apache-2.0 */
#include "init/procfs.h"

#include <asm/unistd_64.h>
#include <linux/errno.h>
#include <linux/fcntl.h>

#include "sys/raw.h"

struct dir_entry { /* struct linux_dirent64 */
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

static size_t put_text(char *ret, size_t at, const char *s)
{
	while (*s && at < PROC_PATH_MAX - 1)
		ret[at++] = *s++;
	ret[at] = 0;
	return at;
}

static size_t put_number(char *ret, size_t at, int number)
{
	char digits[12] = { 0 }; /* from the right */
	size_t n = sizeof(digits) - 1;

	do {
		digits[--n] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	return put_text(ret, at, digits + n);
}

const char *proc_path(int pid, const char *name, char ret[PROC_PATH_MAX])
{
	size_t at = 0;

	if (pid > 0) {
		at = put_number(ret, at, pid);
		at = put_text(ret, at, "/");
	}
	put_text(ret, at, name);
	return ret;
}

const char *proc_path_in(int pid, const char *list, int number, const char *name,
			 char ret[PROC_PATH_MAX])
{
	size_t at = put_number(ret, 0, pid);

	at = put_text(ret, at, "/");
	at = put_text(ret, at, list);
	at = put_text(ret, at, "/");
	at = put_number(ret, at, number);
	if (*name) {
		at = put_text(ret, at, "/");
		put_text(ret, at, name);
	}
	return ret;
}

long proc_read(int proc_fd, int pid, const char *name, char *ret, size_t size)
{
	char path[PROC_PATH_MAX];
	long fd, n;

	fd = raw_syscall(__NR_openat, proc_fd, RAW_ARG(proc_path(pid, name, path)),
			 O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return fd;
	n = raw_syscall(__NR_read, fd, RAW_ARG(ret), (long)size - 1, 0, 0, 0);
	raw_syscall(__NR_close, fd, 0, 0, 0, 0, 0);
	if (n >= 0)
		ret[n] = 0;
	return n;
}

static const char *skip_spaces(const char *s)
{
	while (*s == ' ' || *s == '\t')
		s++;
	return s;
}

static const char *read_number(const char *s, uint64_t *ret)
{
	uint64_t value = 0;

	for (; *s >= '0' && *s <= '9'; s++)
		value = value * 10 + (uint64_t)(*s - '0');
	*ret = value;
	return s;
}

uint64_t proc_field(const char *text, const char *key)
{
	uint64_t value;

	while (*text) {
		size_t i = 0;

		while (key[i] && text[i] == key[i])
			i++;
		if (!key[i]) {
			read_number(skip_spaces(text + i), &value);
			return value;
		}
		while (*text && *text != '\n')
			text++;
		text += *text == '\n';
	}
	return 0;
}

int proc_numbers(const char *text, uint64_t *ret, int max)
{
	int n = 0;

	for (; n < max; n++) {
		const char *end;

		text = skip_spaces(text);
		/* Negative ones do not matter to anyone, but hold a place. */
		text += *text == '-';
		end = read_number(text, &ret[n]);
		if (end == text)
			break;
		text = end;
	}
	return n;
}

long proc_lines(int proc_fd, int pid, const char *name, char *text, size_t size,
		void (*each)(void *arg, const char *line), void *arg)
{
	char path[PROC_PATH_MAX];
	size_t have = 0;
	long fd, n;

	fd = raw_syscall(__NR_openat, proc_fd, RAW_ARG(proc_path(pid, name, path)),
			 O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return fd;
	while ((n = raw_syscall(__NR_read, fd, RAW_ARG(text + have), (long)(size - have), 0, 0,
				0)) > 0) {
		size_t line = 0;

		have += (size_t)n;
		for (size_t i = 0; i < have; i++) {
			if (text[i] != '\n')
				continue;
			text[i] = 0;
			each(arg, text + line);
			line = i + 1;
		}
		have -= line;
		for (size_t i = 0; i < have; i++)
			text[i] = text[line + i];
		/* The path of a mapped file, of which the rest matters, too. */
		if (have == size) {
			n = -ENAMETOOLONG;
			break;
		}
	}
	raw_syscall(__NR_close, fd, 0, 0, 0, 0, 0);
	return n < 0 ? n : 0;
}

static long read_entries(long fd, int *ret, int max)
{
	_Alignas(struct dir_entry) char buffer[4096];
	int count = 0;
	long n;

	while ((n = raw_syscall(__NR_getdents64, fd, RAW_ARG(buffer), sizeof(buffer), 0, 0, 0)) >
	       0) {
		for (long at = 0; at < n;) {
			const struct dir_entry *entry = (const void *)(buffer + at);
			uint64_t number;

			at += entry->len;
			if (entry->name[0] < '0' || entry->name[0] > '9' || count == max)
				continue;
			read_number(entry->name, &number);
			ret[count++] = (int)number;
		}
	}
	return n < 0 ? n : count;
}

long proc_entries(int proc_fd, int pid, const char *name, int *ret, int max)
{
	char path[PROC_PATH_MAX];
	long fd, n;

	fd = raw_syscall(__NR_openat, proc_fd, RAW_ARG(proc_path(pid, name, path)),
			 O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0, 0);
	if (fd < 0)
		return fd;
	n = read_entries(fd, ret, max);
	raw_syscall(__NR_close, fd, 0, 0, 0, 0, 0);
	return n;
}

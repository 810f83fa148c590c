/* SPDX-License-Identifier: Apache-2.0 */
#include "init/procfs.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>

#include "bare/dirents.h"
#include "bare/fd.h"
#include "bare/raw.h"
#include "bare/text.h"

#define LOADAVG_MAX 128

const char *proc_path(int pid, const char *name, char ret[PROC_PATH_MAX])
{
	size_t at = 0;

	if (pid > 0) {
		at = append_number(ret, at, PROC_PATH_MAX, (unsigned)pid);
		at = append_text(ret, at, PROC_PATH_MAX, "/");
	}
	append_text(ret, at, PROC_PATH_MAX, name);
	return ret;
}

const char *proc_path_in(int pid, const char *list, int number, const char *name,
			 char ret[PROC_PATH_MAX])
{
	size_t at = append_number(ret, 0, PROC_PATH_MAX, (unsigned)pid);

	at = append_text(ret, at, PROC_PATH_MAX, "/");
	at = append_text(ret, at, PROC_PATH_MAX, list);
	at = append_text(ret, at, PROC_PATH_MAX, "/");
	at = append_number(ret, at, PROC_PATH_MAX, (unsigned)number);
	if (*name) {
		at = append_text(ret, at, PROC_PATH_MAX, "/");
		append_text(ret, at, PROC_PATH_MAX, name);
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
	close_fd(fd);
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

const char *proc_find(const char *text, const char *key)
{
	while (*text) {
		size_t i = 0;

		while (key[i] && text[i] == key[i])
			i++;
		if (!key[i])
			return skip_spaces(text + i);
		while (*text && *text != '\n')
			text++;
		text += *text == '\n';
	}
	return NULL;
}

uint64_t proc_field(const char *text, const char *key)
{
	const char *found = proc_find(text, key);
	uint64_t value = 0;

	if (found)
		read_number(found, &value);
	return value;
}

uint64_t proc_mask(const char *text, const char *key)
{
	const char *s = proc_find(text, key);
	uint64_t value = 0;

	for (; s; s++) {
		if (*s >= '0' && *s <= '9')
			value = value << 4 | (uint64_t)(*s - '0');
		else if (*s >= 'a' && *s <= 'f')
			value = value << 4 | (uint64_t)(*s - 'a' + 10);
		else
			break;
	}
	return value;
}

int proc_numbers(const char *text, uint64_t *ret, int max)
{
	int n = 0;

	for (; n < max; n++) {
		const char *end;

		text = skip_spaces(text);
		/* The sign is dropped: negative values are not used. */
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
		/* A long path of a mapped file, whose end matters, too. */
		if (have == size) {
			n = -ENAMETOOLONG;
			break;
		}
	}
	close_fd(fd);
	return n < 0 ? n : 0;
}

static long read_entries(long fd, int *ret, int max)
{
	_Alignas(struct dir_entry) char buffer[4096];
	struct dir_cursor cursor = { .fd = fd, .buffer = buffer, .size = sizeof(buffer) };
	const struct dir_entry *entry;
	int count = 0;

	while ((entry = dir_next(&cursor))) {
		uint64_t number;

		if (entry->name[0] < '0' || entry->name[0] > '9' || count == max)
			continue;
		read_number(entry->name, &number);
		ret[count++] = (int)number;
	}
	return cursor.len < 0 ? cursor.len : count;
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
	close_fd(fd);
	return n;
}

/* The last number of /proc/loadavg. */
uint64_t proc_newest(int proc_fd)
{
	char text[LOADAVG_MAX];
	uint64_t number = 0;
	long n = proc_read(proc_fd, 0, "loadavg", text, sizeof(text));

	while (n > 0 && text[n - 1] != ' ')
		n--;
	if (n > 0)
		proc_numbers(text + n, &number, 1);
	return number;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdlib.h>

#define PASSWD_LINE_MAX 1024

/* Another user's HOME (sudo -E, su without -) must not decide where our home directory is. */
static int can_believe(const char *home)
{
	struct stat st;

	return home && home[0] == '/' && stat(home, &st) == 0 && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid();
}

/* The number that ends at ':' at @s, -1 if it is none. */
static long long parse_id(const char *s)
{
	long long value = 0;

	if (*s == ':')
		return -1;
	for (; *s && *s != ':'; s++) {
		if (*s < '0' || *s > '9' || value > UINT32_MAX)
			return -1;
		value = 10 * value + (*s - '0');
	}
	return *s == ':' ? value : -1;
}

/* name:password:uid:gid:gecos:home:shell -> the home of @uid into @buf. */
static const char *home_from_line(char *line, uid_t uid, char *buf, size_t size)
{
	char *field[6];
	size_t n = 0;
	size_t len;

	field[n++] = line;
	for (char *p = line; *p && n < 6; p++) {
		if (*p == ':')
			field[n++] = p + 1;
	}
	if (n < 6 || parse_id(field[2]) != (long long)uid)
		return NULL;
	len = strcspn(field[5], ":");
	if (field[5][0] != '/' || len >= size)
		return NULL;
	memcpy(buf, field[5], len);
	buf[len] = '\0';
	return buf;
}

/* A line that does not fit the buffer is not ours, and is skipped. */
static const char *home_from_passwd(uid_t uid, char *buf, size_t size)
{
	char line[PASSWD_LINE_MAX];
	char chunk[4096];
	const char *found = NULL;
	size_t used = 0;
	ssize_t n;
	int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return NULL;
	while (!found && (n = read(fd, chunk, sizeof(chunk))) > 0) {
		for (ssize_t i = 0; i < n && !found; i++) {
			if (chunk[i] != '\n') {
				if (used < sizeof(line))
					line[used++] = chunk[i];
				continue;
			}
			if (used < sizeof(line)) {
				line[used] = '\0';
				found = home_from_line(line, uid, buf, size);
			}
			used = 0;
		}
	}
	close(fd);
	return found;
}

const char *home_directory(char *buf, size_t size)
{
	const char *home = getenv("HOME");
	size_t len = home ? strlen(home) : 0;

	if (len < size && can_believe(home)) {
		memcpy(buf, home, len + 1);
		return buf;
	}
	return home_from_passwd(geteuid(), buf, size);
}

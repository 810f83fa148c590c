/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BARE_MOUNTINFO_H
#define BARE_MOUNTINFO_H

/* One line of /proc/PID/mountinfo: id parent major:minor ROOT POINT options tags... - TYPE ... */

#include <stdbool.h>
#include <stddef.h>

struct mount_line {
	char *root, *point, *type;
};

/* Ends the field at @s and undoes \040 and its like; what follows it, NULL if nothing does. */
static inline char *mount_field(char *s)
{
	char *out = s;

	for (; *s && *s != ' ' && *s != '\n'; out++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*out = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 4;
		} else {
			*out = *s++;
		}
	}
	if (*s == ' ') {
		*out = '\0';
		return s + 1;
	}
	*out = '\0';
	return NULL;
}

/* Takes @line apart in place. False if it is no such line. */
static inline bool mount_line_read(char *line, struct mount_line *ret)
{
	char *at = line, *field;

	for (int i = 0; at && i < 3; i++)
		at = mount_field(at);
	ret->root = at;
	at = at ? mount_field(at) : NULL;
	ret->point = at;
	at = at ? mount_field(at) : NULL;
	do {
		field = at;
		at = at ? mount_field(at) : NULL;
	} while (at && !(field[0] == '-' && field[1] == '\0'));
	ret->type = at;
	if (!at)
		return false;
	mount_field(at);
	return ret->point[0] == '/';
}

#endif

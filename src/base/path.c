/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include <errno.h>
#include <string.h>

struct path_out {
	char *data;
	size_t len, size;
};

/* Takes the next component off *@path; its length is 0 at the end. */
static const char *next_component(const char **path, size_t *ret_len)
{
	const char *start = *path + strspn(*path, "/");
	size_t len = strcspn(start, "/");

	*path = start + len;
	*ret_len = len;
	return start;
}

static int put(struct path_out *out, const char *s, size_t len)
{
	/* One byte stays free for the NUL. */
	if (len >= out->size - out->len)
		return -ENAMETOOLONG;
	memcpy(out->data + out->len, s, len);
	out->len += len;
	return 0;
}

static int add_components(struct path_out *out, const char *path)
{
	const char *component;
	size_t len;
	int r;

	for (;;) {
		component = next_component(&path, &len);
		if (len == 0)
			return 0;
		if (len == 1 && component[0] == '.')
			continue;
		if (len == 2 && memcmp(component, "..", 2) == 0 && out->len == 1 &&
		    out->data[0] == '/')
			continue;
		if (out->len > 0 && out->data[out->len - 1] != '/') {
			r = put(out, "/", 1);
			if (r < 0)
				return r;
		}
		r = put(out, component, len);
		if (r < 0)
			return r;
	}
}

int path_normalise(const char *base, const char *path, char *ret, size_t size)
{
	struct path_out out = { ret, 0, size };
	const char *start;
	int r = 0;

	if (!*path || (base && !*base))
		return -EINVAL;
	if (size < 2)
		return -ENAMETOOLONG;
	start = path[0] == '/' || !base ? path : base;
	if (start[0] == '/')
		r = put(&out, "/", 1);
	if (r == 0 && start == base)
		r = add_components(&out, base);
	if (r == 0)
		r = add_components(&out, path);
	if (r == 0 && out.len == 0)
		r = put(&out, ".", 1);
	if (r < 0)
		return r;
	ret[out.len] = '\0';
	return (int)out.len;
}

bool path_has_dotdot(const char *path)
{
	const char *component;
	size_t len;

	do {
		component = next_component(&path, &len);
		if (len == 2 && memcmp(component, "..", 2) == 0)
			return true;
	} while (len > 0);
	return false;
}

bool path_is_within(const char *parent, const char *child)
{
	size_t len = strlen(parent);

	if (!len || path_has_dotdot(parent) || path_has_dotdot(child))
		return false;
	if (strcmp(parent, ".") == 0)
		return child[0] != '/' && child[0] != '\0';
	if (strcmp(parent, "/") == 0)
		return child[0] == '/';
	return strncmp(parent, child, len) == 0 && (child[len] == '/' || child[len] == '\0');
}

size_t path_dir_len(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return 0;
	return slash == path ? 1 : (size_t)(slash - path);
}

int path_take_name(char *rest, char name[NAME_MAX + 1])
{
	const char *s = rest + strspn(rest, "/");
	size_t len = strcspn(s, "/");

	if (len == 0)
		return 0;
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, s, len);
	name[len] = '\0';
	memmove(rest, s + len, strlen(s + len) + 1);
	return 1;
}

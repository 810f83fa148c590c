/* SPDX-License-Identifier: Apache-2.0 */
#include "init/files/server.h"

#include <linux/errno.h>

#define MODE_MAX 07777u

/* The flags that an operation knows. One that would be ignored could be one that protects. */
static const uint16_t known_flags[] = {
	[CORDON_FILES_READ] = CORDON_FILES_NOFOLLOW,
	[CORDON_FILES_WRITE] = CORDON_FILES_PARENTS | CORDON_FILES_APPEND | CORDON_FILES_EXCL |
			       CORDON_FILES_NOFOLLOW,
	[CORDON_FILES_STAT] = CORDON_FILES_NOFOLLOW,
	[CORDON_FILES_LIST] = CORDON_FILES_NOFOLLOW,
	[CORDON_FILES_MKDIR] = CORDON_FILES_PARENTS | CORDON_FILES_EXIST_OK,
	[CORDON_FILES_REMOVE] = CORDON_FILES_RECURSIVE,
	[CORDON_FILES_RENAME] = CORDON_FILES_EXCL,
	[CORDON_FILES_CHMOD] = 0,
	[CORDON_FILES_REALPATH] = 0,
	[CORDON_FILES_READLINK] = 0,
	[CORDON_FILES_SYMLINK] = 0,
};
_Static_assert(sizeof(known_flags) / sizeof(known_flags[0]) == CORDON_FILES_OP_MAX,
	       "flags of each operation");

static int has_two_paths(unsigned op)
{
	return op == CORDON_FILES_RENAME || op == CORDON_FILES_SYMLINK;
}

int serve_check_request(const struct cordon_files_request *request)
{
	if (request->magic != CORDON_FILES_MAGIC || request->op == 0 ||
	    request->op >= CORDON_FILES_OP_MAX)
		return -EINVAL;
	if (request->flags & ~(unsigned)known_flags[request->op] || request->mode > MODE_MAX)
		return -EINVAL;
	if (request->path_len > CORDON_FILES_PATH_MAX || request->path2_len > CORDON_FILES_PATH_MAX)
		return -EINVAL;
	if (request->path2_len && !has_two_paths(request->op))
		return -EINVAL;
	if (request->data_len && request->op != CORDON_FILES_WRITE)
		return -EINVAL;
	return 0;
}

int serve_check_path(char *path, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++) {
		if (!path[i])
			return -EINVAL;
	}
	path[len] = 0;
	return 0;
}

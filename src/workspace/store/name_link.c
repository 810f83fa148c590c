/* SPDX-License-Identifier: Apache-2.0 */
/* Links from the names of workspaces to their ids (store_dir.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "workspace/store/store_dir.h"

#define NAME_LINK_SIZE (sizeof(NAME_LINK_PREFIX) + 64)

static bool name_link_path(const char *name, char ret[NAME_LINK_SIZE])
{
	return ws_is_name(name) &&
	       (size_t)snprintf(ret, NAME_LINK_SIZE, NAME_LINK_PREFIX "%s", name) < NAME_LINK_SIZE;
}

bool name_link_read(const struct store *store, const char *name, char ret_id[WS_ID_SIZE])
{
	char path[NAME_LINK_SIZE];
	ssize_t n;

	if (!name_link_path(name, path))
		return false;
	n = readlinkat(store->fd, path, ret_id, WS_ID_SIZE - 1);
	if (n < 0)
		return false;
	ret_id[n] = '\0';
	return ws_is_id(ret_id);
}

int name_link_write(const struct store *store, const char *name, const char *id)
{
	char path[NAME_LINK_SIZE];

	if (!name_link_path(name, path))
		return -EINVAL;
	if (unlinkat(store->fd, path, 0) < 0 && errno != ENOENT)
		return -errno;
	return symlinkat(id, store->fd, path) < 0 ? -errno : 0;
}

void name_link_drop(const struct store *store, const char *name, const char *id)
{
	char path[NAME_LINK_SIZE], old[WS_ID_SIZE];

	if (name_link_read(store, name, old) && strcmp(old, id) == 0 && name_link_path(name, path))
		(void)unlinkat(store->fd, path, 0);
}

struct cordon_workspace *name_link_load(const struct store *store, const char *name)
{
	struct cordon_workspace *ws = NULL;
	char id[WS_ID_SIZE];

	if (store->fd < 0 || !name_link_read(store, name, id) || ws_load(store, id, &ws, NULL) < 0)
		return NULL;
	if (ws->meta.name && strcmp(ws->meta.name, name) == 0)
		return ws;
	cordon_workspace_close(ws);
	return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A base and a state directory, for the tests of the store. */
#ifndef TESTS_UNIT_TEST_WORKSPACE_STORE_LIB_H
#define TESTS_UNIT_TEST_WORKSPACE_STORE_LIB_H

#include "test_workspace_lib.h"
#include "workspace/store/store.h"

static char state[128], base[256];
static struct cordon_error err;

UNUSED_OK static void fx_make(void)
{
	tmp_make_in_memory();
	snprintf(state, sizeof(state), "%s/state", tmp_path);
	snprintf(base, sizeof(base), "%s/base", tmp_path);
	put_dir(tmp_fd, "base", 0750);
	put_text(tmp_fd, "base/file", "original", 0644);
	memset(&err, 0, sizeof(err));
}

UNUSED_OK static struct ws_create request(const char *name, int mechanism)
{
	struct ws_create create = {
		.state_dir = state, .base = base, .name = name, .mechanism = mechanism
	};
	struct stat st;

	CHECK_INT(stat(base, &st), 0);
	create.base_dev = st.st_dev;
	create.base_ino = st.st_ino;
	return create;
}

UNUSED_OK static struct cordon_workspace *make_one(const char *name, int mechanism)
{
	struct ws_create create = request(name, mechanism);
	struct cordon_workspace *ws = NULL;

	CHECK_MSG(ws_create(&create, &ws, &err) == 0, "ws_create: %s", err.msg);
	return ws;
}

/* Makes one and lets it go; its id in a static buffer. */
UNUSED_OK static const char *make_idle(const char *name, int mechanism)
{
	static char ids[8][WS_ID_SIZE];
	static unsigned i;
	struct cordon_workspace *ws = make_one(name, mechanism);
	char *id = ids[i++ % 8];

	snprintf(id, WS_ID_SIZE, "%s", ws ? ws->meta.id : "");
	cordon_workspace_close(ws);
	return id;
}

/* "state/workspaces/ID" and @rest */
UNUSED_OK static const char *in_state(const char *id, const char *rest)
{
	static char path[256];

	snprintf(path, sizeof(path), "state/workspaces/%s%s", id, rest);
	return path;
}

UNUSED_OK static void check_opens(const char *which, const char *id)
{
	struct cordon_workspace *ws = NULL;

	err.msg[0] = '\0';
	CHECK_MSG(cordon_workspace_open(state, which, &ws, &err) == 0, "open %s: %s", which,
		  err.msg);
	if (ws)
		CHECK_STR(ws->meta.id, id);
	cordon_workspace_close(ws);
}

/* For cordon_workspace_list(). */
UNUSED_OK static int count(void *arg, const struct cordon_workspace_info *info)
{
	int *n = arg;

	CHECK(info->id && info->base);
	return ++*n == 100;
}

#endif

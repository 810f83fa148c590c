/* SPDX-License-Identifier: Apache-2.0 */
/* A base and a workspace made by hand, and what was found as text. */
#ifndef TESTS_UNIT_TEST_WORKSPACE_CHANGES_LIB_H
#define TESTS_UNIT_TEST_WORKSPACE_CHANGES_LIB_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "workspace/changes/changes.h"
#include "workspace/commit/commit.h"
#include "workspace/record/record.h"
#include "workspace/store/store.h"
#include "workspace/tree/tree.h"

#include "tap.h"

#define UNUSED __attribute__((unused))

/* The directory of one test: base/, ws/upper/, ws/tree/. */
static char top[PATH_MAX];
static int top_fd = -1;

__attribute__((format(printf, 1, 2))) UNUSED static const char *fmt(const char *format, ...)
{
	static char bufs[4][PATH_MAX];
	static unsigned next;
	char *buf = bufs[next++ % 4];
	va_list ap;

	va_start(ap, format);
	vsnprintf(buf, PATH_MAX, format, ap);
	va_end(ap);
	return buf;
}

static bool try_top(const char *dir)
{
	snprintf(top, sizeof(top), "%s/cordon-ws.XXXXXX", dir);
	if (!mkdtemp(top))
		return false;
	/* Where there are no attributes there are no layers. */
	if (setxattr(top, "user.test", "y", 1, 0) == 0)
		return true;
	rmdir(top);
	return false;
}

static void tear_down(void)
{
	if (top_fd < 0)
		return;
	tree_remove(top_fd, "base");
	tree_remove(top_fd, "ws");
	tree_remove(top_fd, "work");
	tree_remove(top_fd, "merged");
	close(top_fd);
	top_fd = -1;
	if (rmdir(top) < 0)
		printf("# %s: %s\n", top, strerror(errno));
}

static bool set_up(void)
{
	const char *build = getenv("CORDON_BUILD_ROOT");

	tear_down();
	if (!try_top("/tmp") && !(build && try_top(build)))
		return false;
	top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return top_fd >= 0 && mkdirat(top_fd, "base", 0755) == 0 &&
	       mkdirat(top_fd, "ws", 0755) == 0 && mkdirat(top_fd, "ws/upper", 0755) == 0 &&
	       mkdirat(top_fd, "ws/tree", 0755) == 0;
}

#define BASE "base/"
#define UP "ws/upper/"

UNUSED static void put_mode(const char *path, const char *text, mode_t mode)
{
	int fd = openat(top_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK_MSG(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
			  fchmod(fd, mode) == 0,
		  "%s: %s", path, strerror(errno));
	close(fd);
}

UNUSED static void put(const char *path, const char *text)
{
	put_mode(path, text, 0644);
}

UNUSED static void put_dir(const char *path)
{
	CHECK_MSG(mkdirat(top_fd, path, 0755) == 0, "%s: %s", path, strerror(errno));
}

UNUSED static void put_link(const char *path, const char *target)
{
	CHECK_MSG(symlinkat(target, top_fd, path) == 0, "%s: %s", path, strerror(errno));
}

UNUSED static void put_whiteout(const char *path)
{
	CHECK_MSG(mknodat(top_fd, path, S_IFCHR, makedev(0, 0)) == 0, "%s: %s", path,
		  strerror(errno));
}

UNUSED static void set_attribute(const char *path, const char *name, const char *value)
{
	CHECK_MSG(setxattr(fmt("%s/%s", top, path), name, value, strlen(value), 0) == 0, "%s: %s",
		  path, strerror(errno));
}

UNUSED static void put_opaque(const char *path)
{
	put_dir(path);
	set_attribute(path, "user.overlay.opaque", "y");
}

/*
 * A time that every stamp so far is older than, and every one from here on younger. Stamps are
 * never later than the exact clock, and never earlier than the coarse one, which may lag by more
 * than a tick on a busy machine.
 */
UNUSED static struct timespec tick(void)
{
	struct timespec apart, now;

	clock_gettime(CLOCK_REALTIME, &apart);
	do
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	while (now.tv_sec < apart.tv_sec ||
	       (now.tv_sec == apart.tv_sec && now.tv_nsec <= apart.tv_nsec));
	return apart;
}

static void open_ws(struct cordon_workspace *ws, int mechanism)
{
	*ws = (struct cordon_workspace){
		.meta = { .id = "w00000001", .base = "BASE", .mechanism = mechanism },
		.path = top,
		.dir_fd = openat(top_fd, "ws", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		.lock_fd = openat(top_fd, "ws/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600),
		.base_fd = openat(top_fd, "base", O_PATH | O_DIRECTORY | O_CLOEXEC),
	};
}

static void close_ws(struct cordon_workspace *ws)
{
	close(ws->dir_fd);
	close(ws->lock_fd);
	close(ws->base_fd);
}

/* One line for each change: "A path", "R path < old", directories with a slash, those that are not
 * listed in brackets; with @with_risks the names of the risks behind. */
static const char *dump(const struct ws_changes *changes, bool with_risks)
{
	static const char letters[] = "?AMDRPLT";
	struct strbuf path = STRBUF_INIT, from = STRBUF_INIT;
	static struct strbuf out = STRBUF_INIT;

	strbuf_done(&out);
	strbuf_puts(&out, "");
	for (uint32_t i = 0; i < changes->n; i++) {
		struct cordon_change c;
		bool is_dir;

		if (changes->v[i].kind == 0 || changes->v[i].is_renamed_away)
			continue;
		ws_node_change(changes, i, &path, &from, &c);
		is_dir = (c.type ? c.type : c.old_type) == CORDON_FILE_DIRECTORY;
		strbuf_printf(&out, "%s%c %s%s%s", c.is_listed ? "" : "[", letters[c.kind], c.path,
			      is_dir ? "/" : "", c.is_listed ? "" : "]");
		if (c.from)
			strbuf_printf(&out, " < %s", c.from);
		for (unsigned bit = 1; with_risks && bit <= c.risks; bit <<= 1) {
			if (c.risks & bit)
				strbuf_printf(&out, " %s", cordon_risk_name(bit));
		}
		strbuf_putc(&out, '\n');
	}
	strbuf_done(&path);
	strbuf_done(&from);
	return out.data;
}

UNUSED static const char *collect(int mechanism, struct timespec created, bool with_risks)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_workspace ws;
	struct ws_changes changes;
	const char *text;
	int r;

	open_ws(&ws, mechanism);
	ws.meta.created = created;
	r = ws_collect(&ws, &changes, &err);
	close_ws(&ws);
	if (r < 0)
		return fmt("error: %s", err.msg);
	text = dump(&changes, with_risks);
	ws_changes_done(&changes);
	return text;
}

UNUSED static const char *overlay(void)
{
	return collect(CORDON_MECHANISM_OVERLAY, (struct timespec){ 0 }, false);
}

UNUSED static const char *overlay_risks(void)
{
	return collect(CORDON_MECHANISM_OVERLAY, (struct timespec){ 0 }, true);
}

#endif

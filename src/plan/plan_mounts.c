/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's own file systems below a grant, such as the /proc of a chroot: they show the host,
 * not the directory's content. With a view of its own init covers them; at level landlock, where
 * nothing can be covered, such a grant is refused. (/proc, /sys and /dev themselves cannot be
 * granted.)
 */
#include "plan/plan_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "bare/mountinfo.h"
#include "base/io.h"
#include "plan/plan_internal.h"
#include "uapi/kernel_fs.h"

#define MOUNTINFO_MAX ((size_t)16 << 20)

/* The text of our mountinfo. */
static int read_mounts(struct strbuf *ret)
{
	int r, fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ret->max = MOUNTINFO_MAX;
	r = read_strbuf(fd, ret);
	close(fd);
	return r;
}

/* All of the host's devices: here nothing keeps them from being opened. Single ones are mounted to
 * hide something. */
static bool is_dev(const struct mount_line *mount)
{
	return strcmp(mount->type, "devtmpfs") == 0 && strcmp(mount->root, "/") == 0;
}

/* The next of the kernel's file systems from *at on, which moves behind it. */
static bool next_kernel_mount(char **at, struct mount_line *ret)
{
	while (*at && **at) {
		char *line = *at, *end = strchr(line, '\n');

		*at = end ? end + 1 : NULL;
		if (end)
			*end = '\0';
		if (mount_line_read(line, ret) && (is_kernel_fs(ret->type) || is_dev(ret)))
			return true;
	}
	return false;
}

const char *plan_kernel_mount(struct arena *arena, const char *dir)
{
	struct strbuf text = STRBUF_INIT;
	struct mount_line mount;
	const char *ret = NULL;
	char *at;

	if (read_mounts(&text) == 0) {
		at = text.data;
		while (!ret && next_kernel_mount(&at, &mount))
			if (path_is_within(dir, mount.point))
				ret = arena_strdup(arena, mount.point);
	}
	strbuf_done(&text);
	return ret;
}

static bool answers_by_itself(const char *type)
{
	static const char *const types[] = {
		"ext2",	 "ext3",  "ext4",    "xfs",	 "btrfs", "bcachefs",
		"f2fs",	 "zfs",	  "jfs",     "vfat",	 "exfat", "ntfs3",
		"tmpfs", "ramfs", "overlay", "squashfs", "erofs", "iso9660",
	};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strcmp(type, types[i]) == 0)
			return true;
	return false;
}

bool plan_is_on_this_machine(const char *path)
{
	struct strbuf text = STRBUF_INIT;
	struct mount_line mount;
	size_t best_len = 0;
	bool is_ours = false;

	if (read_mounts(&text) == 0) {
		char *at = text.data;

		while (at && *at) {
			char *line = at, *end = strchr(line, '\n');

			at = end ? end + 1 : NULL;
			if (end)
				*end = '\0';
			/* Of two at one place the later one is on top. */
			if (!mount_line_read(line, &mount) || strlen(mount.point) < best_len ||
			    !path_is_within(mount.point, path))
				continue;
			best_len = strlen(mount.point);
			is_ours = answers_by_itself(mount.type);
		}
	}
	strbuf_done(&text);
	return is_ours;
}

static int refuse(struct build *b, const struct grant *g, const struct mount_line *mount)
{
	int r = cordon_err(b->err, CORDON_E_PATH, 0,
			   "cannot %s grant '%s': the host's %s is mounted in it, at '%s'",
			   g->write ? "write" : "read", g->typed, mount->type, mount->point);

	cordon_err_hint(b->err, "unmount it, or grant what lies beside it");
	return r;
}

int plan_check_mounts(struct build *b)
{
	struct strbuf text = STRBUF_INIT;
	struct mount_line mount;
	char *at;
	int r = read_mounts(&text);

	if (r < 0)
		r = cordon_err(b->err, CORDON_E_SYSTEM, -r, "cannot read the list of mounts");
	at = text.data;
	while (r == 0 && next_kernel_mount(&at, &mount)) {
		const struct grant *g = plan_grant_of(b, mount.point, false);

		if (g)
			r = refuse(b, g, &mount);
	}
	strbuf_done(&text);
	return r;
}

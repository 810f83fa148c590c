/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices of the host: those of `devices`, and what `gpu` needs (plan_gpu.c names it).
 *
 * A node is looked at once, by descriptor; init shows that very node or fails. It must be a
 * character device in /dev, and none with which a command would have the whole machine (device.h).
 * Landlock's right for requests to devices is given for these nodes (at level namespaces the
 * mounts, in which no other node is, hold it as well).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "plan/plan_internal.h"

#define RIGHTS_NODE (LL_FS_READ_FILE | LL_FS_WRITE_FILE | LL_FS_IOCTL_DEV)
#define GROUP_NAME_MAX 64
#define GROUPS_MAX_BYTES ((size_t)256 << 10)

static int refuse(struct build *b, const char *typed, const char *why, const char *hint)
{
	cordon_err(b->err, CORDON_E_PATH, 0, "cannot give the device '%s': %s", typed, why);
	if (hint)
		cordon_err_hint(b->err, "%s", hint);
	return -CORDON_E_PATH;
}

static int refuse_missing(struct build *b, const char *typed, int error)
{
	cordon_err(b->err, CORDON_E_PATH, error, "cannot give the device '%s'", typed);
	if (error == ENOENT)
		cordon_err_hint(b->err, "a node is there once its driver is loaded; in a container "
					"the runtime has to be told to show it");
	return -CORDON_E_PATH;
}

static int check_node(struct build *b, const char *typed, const char *path, const char *real,
		      const struct stat *st)
{
	const char *why;

	if (S_ISBLK(st->st_mode))
		return refuse(b, typed, "it is a disk, and writing to it changes every file on it",
			      "grant the files themselves, with -r or -w");
	if (!S_ISCHR(st->st_mode))
		return refuse(b, typed, "it is no device",
			      "files and directories are granted with -r or -w");
	/* A link elsewhere may be somebody's who changes it between two runs. */
	if (!plan_is_below("/dev", real) || !plan_is_below("/dev", path) ||
	    plan_is_below("/dev/shm", path))
		return refuse(b, typed, "its path does not lie in /dev",
			      "name the node itself, as 'ls -l /dev' shows it");
	why = device_refusal("", st->st_rdev);
	return why ? refuse(b, typed, why, NULL) : 0;
}

int plan_add_device(struct build *b, const char *typed)
{
	struct plan_device *device;
	char path[PATH_MAX];
	const char *real;
	struct stat st;
	int r = plan_typed_path(b, typed, path), fd;

	if (r < 0)
		return refuse_missing(b, typed, -r);
	fd = plan_open_path(b, path, &real);
	if (fd < 0)
		return refuse_missing(b, typed, -fd);
	r = fstat(fd, &st) < 0 ? -errno : 0;
	close(fd);
	if (r < 0)
		return refuse_missing(b, typed, -r);
	r = check_node(b, typed, path, real, &st);
	if (r < 0)
		return r;
	for (size_t i = 0; i < b->n_devices; i++)
		if (strcmp(b->devices[i].path, real) == 0)
			return 0;
	device = PLAN_ADD(b, devices, n_devices, cap_devices);
	if (!device)
		return plan_nomem(b);
	*device = (struct plan_device){ .path = real, .st = st };
	return 0;
}

int plan_collect_devices(struct build *b)
{
	int r = plan_collect_gpus(b);

	for (size_t i = 0; r == 0 && i < b->policy->devices.n; i++)
		r = plan_add_device(b, b->policy->devices.v[i]);
	return r;
}

bool plan_devices_are_open(const struct build *b)
{
	const mode_t all = S_IROTH | S_IWOTH;

	for (size_t i = 0; i < b->n_devices; i++)
		if ((b->devices[i].st.st_mode & all) != all)
			return false;
	return true;
}

/* The host's name for a group: a number alone helps nobody. */
static const char *group_name(struct build *b, gid_t gid, char ret[GROUP_NAME_MAX])
{
	const char *text = plan_read_small(b, "/etc/group", GROUPS_MAX_BYTES);

	snprintf(ret, GROUP_NAME_MAX, "%u", gid);
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		const char *number;
		size_t len;

		line += *line == '\n';
		len = strcspn(line, ":\n");
		number = line[len] == ':' ? strchr(line + len + 1, ':') : NULL;
		if (number && len > 0 && len < GROUP_NAME_MAX &&
		    strtoul(number + 1, NULL, 10) == gid) {
			memcpy(ret, line, len);
			ret[len] = '\0';
			break;
		}
	}
	return ret;
}

/* May the run open it? Started by root it has another id, and no groups but that id's. */
static bool may_open(const struct build *b, const struct plan_device *d)
{
	const struct plan_header *h = &b->header;
	mode_t wanted = S_IROTH | S_IWOTH;

	if (!b->is_root)
		return faccessat(AT_FDCWD, d->path, R_OK | W_OK, AT_EACCESS) == 0;
	if (h->outer_uid == d->st.st_uid)
		wanted = S_IRUSR | S_IWUSR;
	else if (h->outer_gid == d->st.st_gid)
		wanted = S_IRGRP | S_IWGRP;
	return (d->st.st_mode & wanted) == wanted;
}

/* Once the ids are known. */
static int check_permission(struct build *b, const struct plan_device *d)
{
	bool is_group = (d->st.st_mode & (S_IRGRP | S_IWGRP)) == (S_IRGRP | S_IWGRP) &&
			d->st.st_gid != 0;
	char name[GROUP_NAME_MAX];

	if (may_open(b, d))
		return 0;
	cordon_err(b->err, CORDON_E_PATH, EACCES,
		   "cannot give the device '%s': user %u may not read and write it", d->path,
		   b->header.outer_uid);
	if (!is_group)
		return cordon_err_hint(b->err,
				       "its mode has to allow that: chmod 666 %s, or a "
				       "rule of udev",
				       d->path);
	if (b->is_root)
		return cordon_err_hint(b->err, "run it in the group '%s': --user %u:%u",
				       group_name(b, d->st.st_gid, name), NOBODY_ID, d->st.st_gid);
	return cordon_err_hint(
		b->err, "its group is '%s': as root 'usermod -aG %s USER', then log in again",
		group_name(b, d->st.st_gid, name), name);
}

static void set_node(const struct build *b, struct step *step, const struct plan_device *d)
{
	step->op.flags |= PLAN_FILE;
	step->op.access = plan_rights(b, RIGHTS_NODE, false);
	plan_set_identity(step, d->st.st_dev, d->st.st_ino);
}

int plan_device_steps(struct build *b)
{
	for (size_t i = 0; i < b->n_devices; i++) {
		const struct plan_device *d = &b->devices[i];
		struct step *step;
		int r;

		/* One that every run has. */
		if (strlist_has(&b->made, d->path))
			continue;
		r = check_permission(b, d);
		if (r == 0)
			r = plan_make_parents(b, d->path);
		if (r < 0)
			return r;
		step = plan_step(b, PLAN_OP_BIND, d->path, d->path);
		if (!step)
			return plan_nomem(b);
		step->op.flags = PLAN_DEVICE | PLAN_MKPOINT;
		step->op.mode = 0666;
		set_node(b, step, d);
		r = plan_list_add(b, &b->made, d->path);
		if (r < 0)
			return r;
	}
	return plan_gpu_steps(b);
}

int plan_device_rules(struct build *b)
{
	for (size_t i = 0; i < b->n_devices; i++) {
		const struct plan_device *d = &b->devices[i];
		int r = check_permission(b, d);
		struct step *step;

		if (r < 0)
			return r;
		step = plan_step(b, PLAN_OP_RULE, NULL, d->path);
		if (!step)
			return plan_nomem(b);
		set_node(b, step, d);
	}
	return plan_gpu_rules(b);
}

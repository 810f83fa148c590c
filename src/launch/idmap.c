/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grants of a run started by root. The sandbox is never root on the host, so idmapped mounts show
 * root's files to it as its own, and what it creates there belongs to root.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/launch.h"
#include "plan/plan_mounts.h"
#include "plan/plan_read.h"
#include "sys/calls.h"

#define TREE_FLAGS (OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH)
#define RECURSIVE 0x8000 /* AT_RECURSIVE */

/* A user namespace that maps the host's 0 to the sandbox's host id; no process runs in it. */
static int make_namespace(struct cordon_launcher *l, uint32_t uid, uint32_t gid,
			  struct cordon_error *err)
{
	struct spawned keeper = SPAWNED_INIT;
	char path[64];
	int fd, r = spawn_init(l, SPAWN_KEEPER, NULL, &keeper, err);

	if (r < 0)
		return r;
	r = spawn_write_maps(keeper.pid, 0, uid, 0, gid);
	if (r < 0) {
		spawned_done(l, &keeper);
		return cordon_err(err, CORDON_E_SETUP, -r, "cannot map root's files for user %u",
				  uid);
	}
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)keeper.pid);
	fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
	spawned_done(l, &keeper);
	if (fd < 0)
		return cordon_err(err, CORDON_E_SETUP, -fd, "cannot open the id map of the grants");
	return fd;
}

/* The namespace is made once; another identity (--user) replaces it. */
static int get_namespace(struct cordon_launcher *l, uint32_t uid, uint32_t gid,
			 struct cordon_error *err)
{
	int fd = -1;

	pthread_mutex_lock(&l->lock);
	if (l->idmap_fd >= 0 && l->idmap_uid == uid && l->idmap_gid == gid)
		fd = fcntl(l->idmap_fd, F_DUPFD_CLOEXEC, 3);
	pthread_mutex_unlock(&l->lock);
	if (fd >= 0)
		return fd;
	fd = make_namespace(l, uid, gid, err);
	if (fd < 0)
		return fd;
	pthread_mutex_lock(&l->lock);
	if (l->idmap_fd >= 0)
		close(l->idmap_fd);
	l->idmap_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	l->idmap_uid = uid;
	l->idmap_gid = gid;
	pthread_mutex_unlock(&l->lock);
	return fd;
}

/* The step that has the descriptor; NULL = none. */
static const struct plan_op *step_of(const struct plan *plan, size_t index)
{
	const struct plan_header *h = plan->block;
	const struct plan_op *ops = plan_ops(h);

	for (uint32_t i = 0; i < h->n_ops; i++)
		if (ops[i].fd_index == (int32_t)index)
			return &ops[i];
	return NULL;
}

static const char *grant_path(const struct plan *plan, size_t index)
{
	const struct plan_op *op = step_of(plan, index);

	if (!op)
		return "?";
	return plan_string(plan->block, op->src ? op->src : op->dst);
}

/* What was made for the run has its owner already. */
static int is_mapped(const struct plan *plan, size_t index)
{
	const struct plan_op *op = step_of(plan, index);

	return !op || !(op->flags & (PLAN_PRIVATE_DIR | PLAN_UNMAPPED));
}

static int refuse(const struct plan *plan, size_t index, int error, struct cordon_error *err)
{
	int is_shut = error == EPERM || error == EACCES || error == ENOSYS;
	const char *path = grant_path(plan, index), *kernels = NULL;
	struct arena arena = ARENA_INIT;
	int r = cordon_err(err, is_shut ? CORDON_E_UNSUPPORTED : CORDON_E_SETUP, error,
			   "cannot map the owner of grant '%s'", path);

	if (err)
		err->stage = STAGE_MOUNTS;
	if (error == EINVAL)
		kernels = plan_kernel_mount(&arena, path);
	if (kernels)
		cordon_err_hint(err,
				"a file system of the kernel is mounted in it, at '%s': "
				"unmount it, or grant what lies beside it",
				kernels);
	arena_done(&arena);
	if (kernels)
		return r;
	if (is_shut)
		cordon_err_hint(err, "something around Cordon forbids mounts; run as an ordinary "
				     "user, or with --isolation landlock");
	else
		cordon_err_hint(err, "its filesystem or this kernel has no idmapped mounts; run as "
				     "the files' owner (not root), or use a directory elsewhere");
	return r;
}

int idmap_make_mounts(struct cordon_launcher *l, const struct plan *plan, int *ret_fds,
		      struct cordon_error *err)
{
	const struct plan_header *h = plan->block;
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };
	int r = 0, ns = -1;
	size_t n = 0;

	while (n < plan->n_mount_fds) {
		int fd = sys_open_tree(plan->mount_fds[n], "", TREE_FLAGS | RECURSIVE);

		if (fd < 0) {
			r = refuse(plan, n, -fd, err);
			break;
		}
		ret_fds[n++] = fd;
		if (!is_mapped(plan, n - 1))
			continue;
		if (ns < 0)
			r = ns = get_namespace(l, h->outer_uid, h->outer_gid, err);
		if (r < 0)
			break;
		attr.userns_fd = (uint64_t)ns;
		r = sys_mount_setattr(fd, "", AT_EMPTY_PATH | RECURSIVE, &attr);
		if (r < 0) {
			r = refuse(plan, n - 1, -r, err);
			break;
		}
	}
	if (ns >= 0)
		close(ns);
	if (r < 0)
		while (n > 0)
			close(ret_fds[--n]);
	return r;
}

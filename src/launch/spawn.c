/* SPDX-License-Identifier: Apache-2.0 */
/* Starts init and delivers its plan. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/child.h"
#include "launch/launch.h"
#include "sys/calls.h"

#define SIZE_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)

static const struct {
	char letters[3];
	uint64_t flags;
} roles[] = {
	[SPAWN_NAMESPACES] = { { INIT_ROLE_NAMESPACES, 0 }, CLONE_NEWUSER | CLONE_NEWPID },
	[SPAWN_AT_ONCE] = { { INIT_ROLE_NAMESPACES, INIT_PLAN_AT_ONCE, 0 },
			    CLONE_NEWUSER | CLONE_NEWPID },
	[SPAWN_LANDLOCK] = { { INIT_ROLE_LANDLOCK, 0 }, 0 },
	[SPAWN_KEEPER] = { { INIT_ROLE_KEEPER, 0 }, CLONE_NEWUSER },
	[SPAWN_JANITOR] = { { INIT_ROLE_JANITOR, 0 }, 0 },
	[SPAWN_COVER] = { { INIT_ROLE_LANDLOCK, 0 }, 0 },
};

bool error_is_transient(int error)
{
	return error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE ||
	       error == EINTR;
}

static int clone_error(enum spawn_role role, int error, struct cordon_error *err)
{
	int r;

	if (role == SPAWN_LANDLOCK || role == SPAWN_JANITOR || role == SPAWN_COVER ||
	    error_is_transient(error))
		return cordon_err(err, CORDON_E_SYSTEM, error, "cannot start the init process");
	r = cordon_err(err, CORDON_E_UNSUPPORTED, error, "cannot create a user namespace");
	cordon_err_hint(err, "%s",
			error == ENOSPC || error == EUSERS
				? "raise sysctl user.max_user_namespaces"
				: "user namespaces are shut here; see 'cordon check', or use "
				  "--isolation landlock");
	if (err)
		err->stage = STAGE_USERNS;
	return r;
}

/*
 * Right into the group; where that is refused, init is moved there afterwards; if that fails, too,
 * the group is removed and the run goes on without.
 */
static int clone_into(struct cordon_launcher *l, struct cgroup *cgroup, uint64_t flags,
		      int *ret_pid_fd, struct child_args *child)
{
	int pid = -ENOSYS;

	if (cgroup->dir_fd >= 0)
		pid = sys_clone_vfork_into(cgroup->dir_fd, flags, ret_pid_fd, child_exec_init,
					   child);
	if (pid >= 0)
		return pid;
	pid = sys_clone_vfork(flags, ret_pid_fd, child_exec_init, child);
	if (cgroup->dir_fd >= 0 && (pid < 0 || cgroup_enter(cgroup, pid) < 0)) {
		cgroup_remove(&l->cgroups, cgroup);
		cgroup_forget(cgroup);
	}
	return pid;
}

int spawn_init(struct cordon_launcher *l, enum spawn_role role, const char *scratch,
	       struct spawned *ret, struct cordon_error *err)
{
	struct cgroup none = CGROUP_INIT;

	return spawn_init_into(l, role, scratch, &none, ret, err);
}

int spawn_init_into(struct cordon_launcher *l, enum spawn_role role, const char *scratch,
		    struct cgroup *cgroup, struct spawned *ret, struct cordon_error *err)
{
	bool has_namespaces = role == SPAWN_NAMESPACES || role == SPAWN_AT_ONCE;
	char name[] = "cordon-init", letters[sizeof(roles->letters)];
	char uid_map[32], gid_map[32];
	struct child_args child = { .init_fd = l->init_fd, .argv = { name, letters, NULL } };
	int fds[2], pid_fd = -1, pid, r;

	r = sys_socketpair(fds);
	if (r < 0) {
		cgroup_remove(&l->cgroups, cgroup);
		return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot create the control socket");
	}
	memcpy(letters, roles[role].letters, sizeof(letters));
	child.ctl_fd = fds[1];
	child.keep_caps = has_namespaces;
	if (has_namespaces && l->machine.uid != 0) {
		snprintf(uid_map, sizeof(uid_map), "%u %u 1\n", l->machine.uid, l->machine.uid);
		snprintf(gid_map, sizeof(gid_map), "%u %u 1\n", l->machine.gid, l->machine.gid);
		child.argv[2] = uid_map;
		child.argv[3] = gid_map;
	}
	if (scratch)
		child.argv[2] = (char *)(uintptr_t)scratch;
	pid = clone_into(l, cgroup, roles[role].flags, &pid_fd, &child);
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return clone_error(role, -pid, err);
	}
	*ret = (struct spawned){
		.ctl_fd = fds[0], .pid_fd = pid_fd, .pid = pid, .cgroup = *cgroup
	};
	*cgroup = (struct cgroup)CGROUP_INIT;
	if (child.error) {
		spawned_done(l, ret);
		return cordon_err(err, CORDON_E_SYSTEM, (int)-child.error,
				  "cannot execute the init program");
	}
	ret->level = has_namespaces ? PLAN_LEVEL_NAMESPACES : PLAN_LEVEL_LANDLOCK;
	return 0;
}

void spawned_done(struct cordon_launcher *l, struct spawned *s)
{
	if (s->ctl_fd >= 0)
		close(s->ctl_fd);
	if (s->pid_fd >= 0) {
		/* Without a pid namespace init itself must end its tree: it sees the socket close.
		 */
		if (s->level != PLAN_LEVEL_LANDLOCK)
			sys_pidfd_send_signal(s->pid_fd, SIGKILL);
		graveyard_bury(l, s->pid_fd, &s->cgroup);
	}
	*s = (struct spawned)SPAWNED_INIT;
}

int send_with_fds(int socket_fd, const void *data, size_t size, const int *fds, unsigned n_fds)
{
	union {
		char space[CMSG_SPACE(CONTROL_FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { (void *)(uintptr_t)data, size };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t r;

	if (n_fds) {
		struct cmsghdr *header;

		memset(&control, 0, CMSG_SPACE(n_fds * sizeof(int)));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		header = &control.align;
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(header), fds, n_fds * sizeof(int));
	}
	r = sys_sendmsg(socket_fd, &msg);
	return r < 0 ? (int)r : 0;
}

int spawn_send(int ctl_fd, const struct control_order *order, const int *fds, unsigned n_fds)
{
	return send_with_fds(ctl_fd, order, sizeof(*order), fds, n_fds);
}

static size_t message_size(uint32_t type)
{
	if (type == CONTROL_ASKED)
		return sizeof(struct control_asked);
	if (type == CONTROL_EXEC_FAILED || type == CONTROL_EXEC_ENDED)
		return sizeof(struct control_command);
	if (type == CONTROL_COUNTED)
		return sizeof(struct control_count);
	return type == CONTROL_LOST ? sizeof(struct control_lost) : sizeof(struct control_report);
}

int spawn_receive(int ctl_fd, union control_message *ret, int *ret_fd)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { ret, sizeof(*ret) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	const struct cmsghdr *header;
	ssize_t n = recvmsg(ctl_fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	*ret_fd = -1;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	header = CMSG_FIRSTHDR(&msg);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(ret_fd, CMSG_DATA(header), sizeof(int));
	if (n >= (ssize_t)sizeof(ret->type) && (size_t)n == message_size(ret->type))
		return 1;
	if (*ret_fd >= 0)
		close(*ret_fd);
	*ret_fd = -1;
	return -EPIPE;
}

int sealed_fd(const char *name, const void *block, size_t size)
{
	int r = 0, fd = sys_memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t done = 0;

	if (fd < 0)
		return fd;
	while (r == 0 && done < size) {
		ssize_t n = sys_write(fd, (const char *)block + done, size - done);

		if (n <= 0)
			r = n < 0 ? (int)n : -ENOSPC;
		else
			done += (size_t)n;
	}
	if (r == 0)
		r = sys_fcntl(fd, F_ADD_SEALS, SEALS);
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

int shared_fd(const char *name, size_t size, void **ret)
{
	int fd = sys_memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), r;
	void *at;

	if (fd < 0)
		return fd;
	r = ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
	if (r == 0)
		r = sys_fcntl(fd, F_ADD_SEALS, SIZE_SEALS);
	at = r < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (r == 0 && at == MAP_FAILED)
		r = -errno;
	if (r < 0) {
		close(fd);
		return r;
	}
	*ret = at;
	return fd;
}

static int make_plan_fd(const struct plan *plan, struct cordon_error *err)
{
	int fd = sealed_fd("cordon-plan", plan->block, plan->block_size);

	return fd < 0 ? cordon_err(err, CORDON_E_SYSTEM, -fd, "cannot store the plan") : fd;
}

static int write_proc(pid_t pid, const char *name, const char *text)
{
	char path[64];
	int fd, r;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = sys_openat(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	r = (int)sys_write(fd, text, strlen(text));
	close(fd);
	return r < 0 ? r : 0;
}

int spawn_write_maps(pid_t pid, uint32_t inner_uid, uint32_t outer_uid, uint32_t inner_gid,
		     uint32_t outer_gid)
{
	char text[64];
	int r;

	snprintf(text, sizeof(text), "%u %u 1\n", inner_uid, outer_uid);
	r = write_proc(pid, "uid_map", text);
	if (r < 0)
		return r;
	snprintf(text, sizeof(text), "%u %u 1\n", inner_gid, outer_gid);
	return write_proc(pid, "gid_map", text);
}

static bool is_gone(int r)
{
	return r == -EPIPE || r == -ECONNRESET;
}

static int send_mounts(struct cordon_launcher *l, struct spawned *s, const struct plan *plan,
		       struct cordon_error *err)
{
	int fds[PLAN_MOUNT_FDS_MAX], r;
	size_t done = 0;

	r = idmap_make_mounts(l, plan, fds, err);
	if (r < 0)
		return r;
	while (r >= 0 && done < plan->n_mount_fds) {
		size_t n = plan->n_mount_fds - done;
		struct control_order order = { .type = CONTROL_MOUNTS };

		if (n > CONTROL_FDS_MAX)
			n = CONTROL_FDS_MAX;
		order.count = (uint32_t)n;
		r = spawn_send(s->ctl_fd, &order, fds + done, (unsigned)n);
		if (is_gone(r))
			r = 0;
		if (r < 0)
			r = cordon_err(err, CORDON_E_SYSTEM, -r, "cannot hand over the mounts");
		done += n;
	}
	for (size_t i = 0; i < plan->n_mount_fds; i++)
		close(fds[i]);
	return r;
}

/* For a run started by root; an ordinary user's init maps itself. */
static int give_ids(const struct spawned *s, const struct plan_header *header,
		    struct cordon_error *err)
{
	int r;

	if (header->level != PLAN_LEVEL_NAMESPACES || !(header->flags & PLAN_SETIDS))
		return 0;
	r = spawn_write_maps(s->pid, header->inner_uid, header->outer_uid, header->inner_gid,
			     header->outer_gid);
	if (r == 0)
		return 0;
	r = cordon_err(err, CORDON_E_SETUP, -r, "cannot map user %u into the sandbox",
		       header->outer_uid);
	cordon_err_hint(err, "is that id known in this container? choose another with --user UID");
	return r;
}

int spawn_deliver_common(struct cordon_launcher *l, struct spawned *s, const struct plan *plan,
			 struct cordon_error *err)
{
	struct control_order order = { .type = CONTROL_COMMON };
	int fds[2] = { -1, l->self_fd }, r = give_ids(s, plan->block, err);

	if (r < 0)
		return r;
#ifdef CORDON_FAULT_INJECTION
	fault_init_order(&order.fault_countdown, &order.fault_errno);
#endif
	fds[0] = make_plan_fd(plan, err);
	if (fds[0] < 0)
		return fds[0];
	r = spawn_send(s->ctl_fd, &order, fds, 2);
	close(fds[0]);
	/* As in spawn_deliver(): its report waits. */
	if (is_gone(r))
		return 0;
	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "cannot hand over the common steps")
		     : 0;
}

int spawn_deliver_cover(struct spawned *s, const struct plan *plan, uint32_t step, int init_pid_fd,
			struct cordon_error *err)
{
	const struct control_order order = { .type = CONTROL_COVER, .arg = step };
	int fds[2] = { make_plan_fd(plan, err), init_pid_fd }, r;

	if (fds[0] < 0)
		return fds[0];
	r = spawn_send(s->ctl_fd, &order, fds, 2);
	close(fds[0]);
	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "cannot hand over the plan") : 0;
}

int spawn_deliver(struct cordon_launcher *l, struct spawned *s, struct plan *plan,
		  struct control_order *order, const int stdio[3],
		  const struct run_gateway *gateway, int lock_fd, int image_fd, int channel_fd,
		  int flags, struct cordon_error *err)
{
	const struct plan_header *header = plan->block;
	int fds[10 + CGROUP_FILES] = { -1, stdio[0], stdio[1], stdio[2], l->self_fd }, r = 0;
	int shared = 5, n; /* descriptors that stay open here */

	order->type = CONTROL_PLAN;
	if (header->flags & PLAN_TERMINAL) {
		order->flags |= CONTROL_NO_STDIO;
		shared = 1;
		if (stdio[2] >= 0) {
			order->flags |= CONTROL_STDERR;
			fds[shared++] = stdio[2];
		}
		fds[shared++] = l->self_fd;
	}
	if (flags & DELIVER_KEEP_ORPHANS)
		order->flags |= CONTROL_KEEP_ORPHANS;
	if (flags & DELIVER_WAIT)
		order->flags |= CONTROL_WAIT;
	if (flags & DELIVER_MAPS)
		r = give_ids(s, plan->block, err);
	if (r < 0)
		return r;
#ifdef CORDON_FAULT_INJECTION
	fault_init_order(&order->fault_countdown, &order->fault_errno);
#endif
	fds[0] = make_plan_fd(plan, err);
	if (fds[0] < 0)
		return fds[0];
	if (lock_fd >= 0) {
		order->flags |= CONTROL_LOCK;
		fds[shared++] = lock_fd;
	}
	if (gateway->init_fd >= 0) {
		order->flags |= CONTROL_NET;
		fds[shared++] = gateway->init_fd;
	}
	if (gateway->proxy_fd >= 0) {
		order->flags |= CONTROL_NET_PROXY;
		fds[shared++] = gateway->proxy_fd;
	}
	if (image_fd > 0) {
		order->flags |= CONTROL_IMAGE;
		fds[shared++] = image_fd;
	}
	if (channel_fd >= 0) {
		order->flags |= CONTROL_CHANNEL;
		fds[shared++] = channel_fd;
	}
	n = shared;
	if (s->cgroup.dir_fd >= 0)
		r = cgroup_open_files(&s->cgroup, order->limits.cpu_milli > 0, fds + n);
	if (r < 0) {
		close(fds[0]);
		return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot open the control group");
	}
	n += r;
	r = spawn_send(s->ctl_fd, order, fds, (unsigned)n);
	plan_map_block(plan, fds[0]);
	close(fds[0]);
	while (n > shared)
		close(fds[--n]);
	/* Init has failed; its report, which says why, waits to be read. */
	if (is_gone(r))
		return 0;
	if (r < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot hand over the plan");
	return plan->n_mount_fds ? send_mounts(l, s, plan, err) : 0;
}

int spawn_go(const struct spawned *s, struct cordon_error *err)
{
	const struct control_order order = { .type = CONTROL_GO };
	int r = spawn_send(s->ctl_fd, &order, NULL, 0);

	/* As in spawn_deliver(): its report waits. */
	if (is_gone(r))
		return 0;
	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "cannot start the command") : 0;
}

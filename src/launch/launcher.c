/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher: prepared once for any number of runs. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/image.h"
#include "launch/caller.h"
#include "launch/launch.h"
#include "sys/calls.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif
#define CGROUP_EMPTY_MS 200
#define OWN_FILE "/proc/self/exe"

uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int launcher_program_fd(const char *name, const void *image, size_t len, struct cordon_error *err)
{
	int fd = sys_memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

	/* Kernels before 6.3 do not know MFD_EXEC; their memory files are always executable. */
	if (fd == -EINVAL)
		fd = sys_memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0) {
		cordon_err(err, CORDON_E_SYSTEM, -fd, "cannot prepare the program %s", name);
		if (fd == -EACCES)
			cordon_err_hint(err, "sysctl vm.memfd_noexec must not be 2");
		return -CORDON_E_SYSTEM;
	}
	if (sys_write(fd, image, len) != (ssize_t)len || sys_fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
		close(fd);
		return cordon_err(err, CORDON_E_SYSTEM, ENOSPC, "cannot prepare the program %s",
				  name);
	}
	return fd;
}

/*
 * Init's process has its file in /proc. So it must be one that no command can own or change. One
 * that cannot be read would close init's /proc files to us; and one with privileges of its own
 * would take away those that init needs.
 */
static bool is_plain_program(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_uid == 0 && (st.st_mode & 07027) == 05 &&
	       faccessat(AT_FDCWD, OWN_FILE, R_OK | X_OK, AT_EACCESS) == 0 &&
	       getxattr(OWN_FILE, "security.capability", NULL, 0) < 0 &&
	       (errno == ENODATA || errno == EOPNOTSUPP);
}

/* The program's own file, if that is init as well; else a copy in memory. */
static int init_program_fd(struct cordon_error *err)
{
	int fd = &cordon_own_init && !getauxval(AT_SECURE)
			 ? sys_openat(AT_FDCWD, OWN_FILE, O_PATH | O_CLOEXEC, 0)
			 : -1;

	if (fd >= 0 && is_plain_program(fd))
		return fd;
	if (fd >= 0)
		close(fd);
	return launcher_program_fd("cordon-init", cordon_init_image, cordon_init_image_len, err);
}

void hint_if_refused(struct cordon_error *err)
{
	if (!err || err->hint[0] || err->code != CORDON_E_SYSTEM)
		return;
	if (err->sys_errno == EPERM || err->sys_errno == EACCES || err->sys_errno == ENOSYS)
		cordon_err_hint(err, "%s", HINT_REFUSED);
}

/*
 * The newest of what is always needed, asked for with a range that is empty. Without this an older
 * kernel would be noticed in the child only, which cannot say what helps.
 */
static int check_kernel(struct cordon_error *err)
{
	int r = sys_close_range(~0u, ~0u, CLOSE_RANGE_CLOEXEC);

	if (r >= 0)
		return 0;
	if (r == -EINVAL || r == -ENOSYS) {
		r = cordon_err(err, CORDON_E_SYSTEM, 0,
			       "this kernel is too old: it cannot keep descriptors from a command");
		cordon_err_hint(err, "Linux 5.13 or newer is needed");
		return r;
	}
	return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot use close_range");
}

int cordon_launcher_new(struct cordon_launcher **ret, struct cordon_error *err)
{
	struct cordon_launcher *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	l->init_fd = l->self_fd = l->idmap_fd = l->gateway_fd = l->meter_fd = -1;
	l->cgroups = (struct cgroup_home)CGROUP_HOME_INIT;
	l->pid = getpid();
	l->n_filters = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0 ? 0 : caller_filters();
	pthread_mutex_init(&l->lock, NULL);
	r = check_kernel(err);
	if (r < 0)
		goto fail;
	l->init_fd = init_program_fd(err);
	if (l->init_fd < 0) {
		r = l->init_fd;
		goto fail;
	}
	l->self_fd = sys_pidfd_open(l->pid);
	if (l->self_fd < 0) {
		r = cordon_err(err, CORDON_E_SYSTEM, -l->self_fd,
			       "cannot open a pidfd of this process");
		goto fail;
	}
	probe_machine(&l->machine);
#ifdef CORDON_FAULT_INJECTION
	if (getenv("CORDON_FAULT_LANDLOCK_ABI"))
		probe_use_abi(&l->machine,
			      (int)strtol(getenv("CORDON_FAULT_LANDLOCK_ABI"), NULL, 10));
#endif
	*ret = l;
	return 0;
fail:
	hint_if_refused(err);
	cordon_launcher_free(l);
	return r;
}

void cordon_launcher_free(struct cordon_launcher *l)
{
	if (!l)
		return;
	graveyard_sweep(l, 1);
	if (l->init_fd >= 0)
		close(l->init_fd);
	if (l->self_fd >= 0)
		close(l->self_fd);
	if (l->idmap_fd >= 0)
		close(l->idmap_fd);
	if (l->gateway_fd >= 0)
		close(l->gateway_fd);
	if (l->meter_fd >= 0)
		close(l->meter_fd);
	cgroup_home_done(&l->cgroups);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static int try_reap(int pid_fd, int flags)
{
	siginfo_t info;

	if (waitid(P_PIDFD, (id_t)pid_fd, &info, WEXITED | __WALL | flags) < 0)
		return errno != EINTR; /* ECHILD: already collected */
	return info.si_pid != 0;
}

/* 1 when nothing is left of it. The kernel may count a process for a moment after its exit was
 * collected. */
static int try_close(struct cordon_launcher *l, struct grave *grave, int wait)
{
	if (grave->pid_fd >= 0) {
		if (!try_reap(grave->pid_fd, wait ? 0 : WNOHANG))
			return 0;
		close(grave->pid_fd);
		grave->pid_fd = -1;
	}
	if (cgroup_remove(&l->cgroups, &grave->cgroup) == 0)
		return 1;
	if (!wait)
		return 0;
	cgroup_wait_empty(&grave->cgroup, CGROUP_EMPTY_MS);
	cgroup_remove(&l->cgroups, &grave->cgroup);
	cgroup_forget(&grave->cgroup);
	return 1;
}

/* With @wait also those that have not ended yet; one that may linger is left to the kernel then,
 * which gives it to whoever collects orphans when we end. */
void graveyard_sweep(struct cordon_launcher *l, int wait)
{
	unsigned kept = 0;

	pthread_mutex_lock(&l->lock);
	for (unsigned i = 0; i < l->n_graveyard; i++) {
		struct grave *grave = &l->graveyard[i];
		int must_end = wait && !grave->may_linger;

		/* EINTR: wait again. */
		while (!try_close(l, grave, must_end) && must_end)
			;
		if (wait && grave->pid_fd >= 0) {
			close(grave->pid_fd);
			grave->pid_fd = -1;
		}
		if (grave->pid_fd >= 0 || grave->cgroup.dir_fd >= 0)
			l->graveyard[kept++] = *grave;
	}
	l->n_graveyard = kept;
	pthread_mutex_unlock(&l->lock);
}

void graveyard_bury(struct cordon_launcher *l, int pid_fd, struct cgroup *cgroup)
{
	struct grave grave = { pid_fd, *cgroup, 0 };
	int is_buried = 0;

	*cgroup = (struct cgroup)CGROUP_INIT;
	if (try_close(l, &grave, 0))
		return;
	graveyard_sweep(l, 0);
	pthread_mutex_lock(&l->lock);
	if (l->n_graveyard < GRAVEYARD_MAX) {
		l->graveyard[l->n_graveyard++] = grave;
		is_buried = 1;
	}
	pthread_mutex_unlock(&l->lock);
	/* No room: wait. It was told to end and needs some milliseconds at most. */
	while (!is_buried && !try_close(l, &grave, 1))
		;
}

void graveyard_leave(struct cordon_launcher *l, int pid_fd)
{
	struct grave grave = { pid_fd, CGROUP_INIT, 1 };
	int is_left = 0;

	if (try_close(l, &grave, 0))
		return;
	graveyard_sweep(l, 0);
	pthread_mutex_lock(&l->lock);
	/* The rest is for those that have to be waited for. */
	if (l->n_graveyard < GRAVEYARD_MAX / 2) {
		l->graveyard[l->n_graveyard++] = grave;
		is_left = 1;
	}
	pthread_mutex_unlock(&l->lock);
	if (!is_left)
		close(pid_fd);
}

const struct cgroup_home *launcher_cgroups(struct cordon_launcher *l)
{
	int r;

	pthread_mutex_lock(&l->lock);
	r = cgroup_home_find(&l->cgroups);
	pthread_mutex_unlock(&l->lock);
	return r < 0 ? NULL : &l->cgroups;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/meter.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/child.h"
#include "launch/image.h"
#include "launch/launch.h"
#include "sys/calls.h"

/* Once per launcher. */
static int program_fd(struct cordon_launcher *l)
{
	int fd;

	pthread_mutex_lock(&l->lock);
	if (l->meter_fd < 0)
		l->meter_fd = launcher_program_fd("cordon-meter", cordon_meter_image,
						  cordon_meter_image_len, NULL);
	fd = l->meter_fd;
	pthread_mutex_unlock(&l->lock);
	return fd;
}

/* Nobody but root can have made it or can change it. In a directory with the sticky bit others can
 * make names, and take none away. */
static bool is_roots(const struct stat *st)
{
	return st->st_uid == 0 &&
	       (!(st->st_mode & 022) || (S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX)));
}

/* @path is a real path. Its directories are looked at first: then the name can only be root's. Not
 * the root directory: who can write there has the loader and /usr. */
static int open_library(const char *path)
{
	char dir[METER_DIR_MAX];
	struct stat st;
	int fd;

	if (strlen(path) >= sizeof(dir))
		return -ENAMETOOLONG;
	for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		memcpy(dir, path, (size_t)(at - path));
		dir[at - path] = '\0';
		if (lstat(dir, &st) < 0 || !S_ISDIR(st.st_mode) || !is_roots(&st))
			return -EPERM;
	}
	fd = sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !is_roots(&st))) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

static int spawn(struct cordon_run *run)
{
	struct run_meter *m = &run->meter;
	char name[] = "cordon-meter";
	struct child_args child = { .argv = { name, NULL } };
	int fds[2], r;

	child.init_fd = program_fd(run->launcher);
	if (child.init_fd < 0)
		return child.init_fd;
	r = sys_socketpair(fds);
	if (r < 0)
		return r;
	child.ctl_fd = fds[1];
	r = sys_clone_vfork(0, &m->pid_fd, child_exec_init, &child);
	close(fds[1]);
	m->ctl_fd = fds[0];
	return r < 0 ? r : (int)child.error;
}

static int tell(struct cordon_run *run, int library_fd)
{
	struct run_meter *m = &run->meter;
	struct meter_order order = *run->plan->meter;
	void *at = NULL;
	int fds[METER_FDS], r;

	fds[METER_FD_LIBRARY] = library_fd;
	fds[METER_FD_ACCOUNT] = shared_fd("cordon-account", sizeof(*m->account), &at);
	if (fds[METER_FD_ACCOUNT] < 0)
		return fds[METER_FD_ACCOUNT];
	m->account = at;
	order.init_pid = (uint32_t)run->spawned.pid;
	order.supervisor_pid = (uint32_t)run->launcher->pid;
	r = send_with_fds(m->ctl_fd, &order, sizeof(order), fds, METER_FDS);
	close(fds[METER_FD_ACCOUNT]);
	return r;
}

void meter_start(struct cordon_run *run)
{
	int library_fd, r;

	if (!run->plan->meter)
		return;
	library_fd = open_library(run->plan->meter_library);
	if (library_fd < 0)
		return;
	r = spawn(run);
	if (r >= 0)
		r = tell(run, library_fd);
	close(library_fd);
	if (r < 0)
		meter_done(run->launcher, &run->meter);
}

void meter_account(struct cordon_run *run)
{
	const struct meter_account *a = run->meter.account;
	struct cordon_result *res = &run->result;
	uint64_t memory, total;
	uint32_t percent;

	if (!a)
		return;
	if (__atomic_load_n(&a->memory_seen, __ATOMIC_ACQUIRE)) {
		memory = __atomic_load_n(&a->memory_bytes, __ATOMIC_RELAXED);
		total = __atomic_load_n(&a->total_bytes, __ATOMIC_RELAXED);
		if (memory <= total && total <= run->plan->meter->n_gpus * METER_GPU_BYTES_MAX) {
			res->max_gpu_memory_bytes = memory;
			res->gpu_known |= CORDON_GPU_MEMORY;
		}
	}
	if (__atomic_load_n(&a->percent_seen, __ATOMIC_ACQUIRE)) {
		percent = __atomic_load_n(&a->percent, __ATOMIC_RELAXED);
		if (percent <= METER_PERCENT_MAX) {
			res->gpu_utilization_percent = percent;
			res->gpu_known |= CORDON_GPU_UTILIZATION;
		}
	}
}

void meter_done(struct cordon_launcher *l, struct run_meter *m)
{
	if (m->ctl_fd >= 0)
		close(m->ctl_fd);
	if (m->pid_fd >= 0) {
		sys_pidfd_send_signal(m->pid_fd, SIGKILL);
		graveyard_leave(l, m->pid_fd);
	}
	if (m->account)
		munmap(m->account, sizeof(*m->account));
	*m = (struct run_meter)RUN_METER_INIT;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The broker's thread: takes a request, carries it out or refuses it, answers. Theory: broker.c. */
#include "init/init.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/ioctl.h>

#include "bare/fd.h"
#include "bare/text.h"
#include "bare/wait.h"
#include "init/broker/parts.h"
#include "init/broker/thread_raw.h"

#define TIME_OMIT ((1l << 30) - 2l)

static int is_valid(const struct broker *b, uint64_t id)
{
	return thread3(__NR_ioctl, b->listener_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/* Copies the path, once. A string that runs into a hole in memory is a bad address. */
static long copy_path(int mem_fd, uint64_t address, char *ret)
{
	long n = thread4(__NR_pread64, mem_fd, ret, BROKER_PATH_MAX, address);

	for (long i = 0; i < n; i++) {
		if (!ret[i])
			return 0;
	}
	return n == BROKER_PATH_MAX ? -ENAMETOOLONG : -EFAULT;
}

static long copy_times(int mem_fd, const struct broker_call *call, struct __kernel_timespec *ret)
{
	int64_t raw[4] = { 0, 0, 0, 0 };
	size_t size = broker_times_size(call->format);

	if (thread4(__NR_pread64, mem_fd, raw, size, call->times) != (long)size)
		return -EFAULT;
	return broker_times_convert(call->format, raw, ret);
}

/* What a call says beyond its registers. */
struct request {
	struct broker_call call;
	struct __kernel_timespec times[2];
	char path[BROKER_PATH_MAX];
};

static long copy_memory(int task_fd, struct request *req)
{
	int needs_times = req->call.action == BROKER_UTIME && req->call.times != 0;
	int mem_fd;
	long r = 0;

	req->path[0] = 0;
	if (req->call.by_fd && !needs_times)
		return 0;
	mem_fd = (int)thread4(__NR_openat, task_fd, "mem", O_RDONLY | O_CLOEXEC, 0);
	if (mem_fd < 0)
		return -EPERM;
	if (needs_times)
		r = copy_times(mem_fd, &req->call, req->times);
	if (r == 0 && !req->call.by_fd)
		r = copy_path(mem_fd, req->call.path, req->path);
	drop_fd(&mem_fd);
	return r;
}

/* What is open for writing may be truncated, whatever Landlock knows of that. */
static long truncate_object(const struct broker *b, int object_fd, const struct statx *st,
			    int64_t length)
{
	char number[16];
	int fd;
	long r;

	if ((st->stx_mode & S_IFMT) != S_IFREG)
		return (st->stx_mode & S_IFMT) == S_IFDIR ? -EISDIR : -EINVAL;
	/* The limit is the command's; ours may be another. */
	if ((uint64_t)length > b->file_bytes)
		return -EFBIG;
	text_number(number, sizeof(number), "", (uint32_t)object_fd);
	fd = (int)thread4(__NR_openat, b->self_fds, number, O_WRONLY | O_CLOEXEC | O_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	r = thread3(__NR_ftruncate, fd, length, 0);
	drop_fd(&fd);
	return r;
}

static long change(const struct broker *b, const struct request *req, int object_fd)
{
	const struct broker_call *call = &req->call;
	struct statx st;
	char number[16];
	long r;

	r = broker_check_inside(b, object_fd, &st);
	if (r < 0)
		return r;
	switch (call->action) {
	case BROKER_CHMOD:
		r = broker_check_mode(st.stx_mode, call->mode);
		if (r < 0)
			return r;
		text_number(number, sizeof(number), "", (uint32_t)object_fd);
		return thread3(__NR_fchmodat, b->self_fds, number, call->mode);
	case BROKER_CHOWN:
		if ((call->uid != BROKER_NO_ID && call->uid != b->uid) ||
		    (call->gid != BROKER_NO_ID && call->gid != b->gid))
			return -EPERM;
		return thread5(__NR_fchownat, object_fd, "", call->uid, call->gid, AT_EMPTY_PATH);
	case BROKER_UTIME:
		return thread4(__NR_utimensat, object_fd, "", call->times ? req->times : 0,
			       AT_EMPTY_PATH);
	case BROKER_TRUNCATE:
		return truncate_object(b, object_fd, &st, call->length);
	}
	return -ENOSYS;
}

/* Setting neither time is no change, wherever the path may lead. */
static int is_idle(const struct request *req)
{
	return req->call.action == BROKER_UTIME && req->call.times &&
	       req->times[0].tv_nsec == TIME_OMIT && req->times[1].tv_nsec == TIME_OMIT;
}

static long handle_task(const struct broker *b, uint64_t id, int task_fd, struct request *req)
{
	int base_fd, object_fd;
	long r;

	/* From here on task_fd is the task that asked, or one that is gone. */
	if (!is_valid(b, id))
		return -EPERM;
	r = copy_memory(task_fd, req);
	if (r < 0)
		return r;
	if (is_idle(req))
		return 0;
	base_fd = (int)broker_open_base(task_fd, &req->call, req->path);
	if (base_fd < 0)
		return base_fd;
	/* It waited all the while, so what was read is what it asked. */
	if (!is_valid(b, id)) {
		drop_fd(&base_fd);
		return -EPERM;
	}
	object_fd = (int)broker_open_object(base_fd, &req->call, req->path);
	drop_fd(&base_fd);
	if (object_fd < 0)
		return object_fd;
	r = change(b, req, object_fd);
	drop_fd(&object_fd);
	return r;
}

static long handle(const struct broker *b, const struct seccomp_notif *notif)
{
	static struct request req;
	int is_connect = notif->data.nr == __NR_connect, is_signal, task_fd;
	struct broker_signal signal;
	char name[16];
	long r = is_connect ? -ENOSYS : broker_decode_signal(&notif->data, &signal);

	is_signal = r == 0;
	if (r == -ENOSYS)
		r = is_connect ? 0 : broker_decode(&notif->data, &req.call);
	if (r < 0)
		return r;
	if (notif->pid == 0)
		return -EPERM; /* not visible from here */
	text_number(name, sizeof(name), "", notif->pid);
	task_fd = (int)thread4(__NR_openat, b->proc_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	if (task_fd < 0)
		return -EPERM;
	if (!is_connect && !is_signal)
		r = handle_task(b, notif->id, task_fd, &req);
	else if (!is_valid(b, notif->id))
		r = -EPERM;
	else
		r = is_signal ? broker_send_signal(b, notif, task_fd, &signal)
			      : broker_connect(b, notif, task_fd);
	drop_fd(&task_fd);
	return r;
}

/* Waits for one request and answers it; <0 when there will be no more. */
static long serve(struct broker *b)
{
	/* Room to spare: the kernel writes as much as it knows. */
	union {
		struct seccomp_notif notif;
		char room[512];
	} in;
	union {
		struct seccomp_notif_resp resp;
		char room[128];
	} out;
	long r;

	memset(&in, 0, sizeof(in));
	memset(&out, 0, sizeof(out));
	r = thread3(__NR_ioctl, b->listener_fd, SECCOMP_IOCTL_NOTIF_RECV, &in);
	if (r < 0)
		/* ENOENT: the task that asked is dead already. */
		return r == -ENOENT || r == -EINTR ? 0 : r;
	__atomic_store_n(&b->busy, 1, __ATOMIC_SEQ_CST);
	r = __atomic_load_n(&b->stopping, __ATOMIC_SEQ_CST) ? -EPERM : handle(b, &in.notif);
	out.resp.id = in.notif.id;
	out.resp.error = r < 0 ? (int32_t)r : 0;
	if (r == BROKER_GO_ON)
		out.resp.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	thread3(__NR_ioctl, b->listener_fd, SECCOMP_IOCTL_NOTIF_SEND, &out);
	__atomic_store_n(&b->busy, 0, __ATOMIC_SEQ_CST);
	return 0;
}

#define LISTENERS_MAX 256
#define SERVE_FAILED 0x38 /* POLLERR, POLLHUP, POLLNVAL */

/* Each command of a session has a listener of its own, which ends with its tree. One too many has
 * nobody to ask: its calls fail. */
static void serve_many(struct broker *b)
{
	static struct poll_entry polled[LISTENERS_MAX + 1]; /* the first one: the socket */
	int n = 1;

	polled[0] = (struct poll_entry){ b->socket_fd, WAIT_IN, 0 };
	while (polled[0].fd >= 0 || n > 1) {
		if (poll_wait(polled, n, 0) < 0)
			continue;
		for (int i = n - 1; i > 0; i--) {
			b->listener_fd = polled[i].fd;
			if ((polled[i].revents & WAIT_IN) && serve(b) >= 0)
				continue;
			if (!polled[i].revents)
				continue;
			drop_fd(&polled[i].fd);
			polled[i] = polled[--n];
		}
		if (polled[0].revents) {
			int fd = (int)broker_receive_fd(b->socket_fd);

			if (fd < 0 && (polled[0].revents & SERVE_FAILED))
				drop_fd(&polled[0].fd);
			else if (fd >= 0 && n <= LISTENERS_MAX)
				polled[n++] = (struct poll_entry){ fd, WAIT_IN, 0 };
			else
				drop_fd(&fd);
		}
	}
}

int broker_main(void *arg)
{
	struct broker *b = arg;

	if (b->is_session) {
		serve_many(b);
		return 0;
	}
	/* Ends without one when the command's process has executed or died and had none to send. */
	b->listener_fd = (int)broker_receive_fd(b->socket_fd);
	drop_fd(&b->socket_fd);
	while (b->listener_fd >= 0 && serve(b) >= 0)
		;
	drop_fd(&b->listener_fd);
	return 0;
}

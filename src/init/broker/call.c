/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the broker that asks the kernel nothing: what a call's registers mean, and which
 * modes and types of objects pass. Tested as a unit.
 */
#include "init/broker/parts.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>

#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif

#ifndef __NR_pidfd_send_signal
#define __NR_pidfd_send_signal 424
#endif

#define SIGNAL_MAX 64
#define MODE_BITS 07777u
#define PERMITTED_FLAGS ((uint32_t)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
#define MICROSECONDS 1000000

static void by_path(struct broker_call *call, int dir_fd, uint64_t path)
{
	call->dir_fd = dir_fd;
	call->path = path;
}

static long take_flags(struct broker_call *call, uint64_t flags)
{
	if ((uint32_t)flags & ~PERMITTED_FLAGS)
		return -EINVAL;
	call->follow = !(flags & AT_SYMLINK_NOFOLLOW);
	call->empty_ok = (flags & AT_EMPTY_PATH) != 0;
	return 0;
}

/* utimensat and futimesat without a path are about the descriptor itself. */
static long take_times(struct broker_call *call, enum broker_times format, const __u64 *args,
		       uint64_t flags)
{
	call->action = BROKER_UTIME;
	call->format = format;
	call->times = args[2];
	by_path(call, (int)args[0], args[1]);
	if (args[1] == 0 && call->dir_fd != AT_FDCWD) {
		call->by_fd = 1;
		return (uint32_t)flags ? -EINVAL : 0;
	}
	return take_flags(call, flags);
}

static void take_mode(struct broker_call *call, uint64_t mode)
{
	call->action = BROKER_CHMOD;
	call->mode = (uint32_t)mode & MODE_BITS;
}

static void take_owner(struct broker_call *call, uint64_t uid, uint64_t gid)
{
	call->action = BROKER_CHOWN;
	call->uid = (uint32_t)uid;
	call->gid = (uint32_t)gid;
}

#ifdef __NR_chmod
/* utime and utimes: a path and the address of the times. */
static long take_old_times(struct broker_call *call, enum broker_times format, const __u64 *args)
{
	const __u64 moved[3] = { (__u64)(int64_t)AT_FDCWD, args[0], args[1] };

	return take_times(call, format, moved, 0);
}
#endif

/* The calls from before the *at() ones, of which the younger architectures have none. */
static long decode_old(const struct seccomp_data *data, struct broker_call *call)
{
#ifdef __NR_chmod
	const __u64 *args = data->args;

	switch (data->nr) {
	case __NR_chmod:
		by_path(call, AT_FDCWD, args[0]);
		take_mode(call, args[1]);
		return 0;
	case __NR_chown:
	case __NR_lchown:
		by_path(call, AT_FDCWD, args[0]);
		take_owner(call, args[1], args[2]);
		call->follow = data->nr == __NR_chown;
		return 0;
	case __NR_utime:
		return take_old_times(call, BROKER_UTIMBUF, args);
	case __NR_utimes:
		return take_old_times(call, BROKER_TIMEVAL, args);
	case __NR_futimesat:
		return take_times(call, BROKER_TIMEVAL, args, 0);
	default:
		break;
	}
#else
	(void)data, (void)call;
#endif
	return -ENOSYS;
}

static long decode(const struct seccomp_data *data, struct broker_call *call)
{
	const __u64 *args = data->args;

	switch (data->nr) {
	case __NR_fchmod:
	case __NR_fchown:
		call->dir_fd = (int)args[0];
		call->by_fd = 1;
		if (data->nr == __NR_fchmod)
			take_mode(call, args[1]);
		else
			take_owner(call, args[1], args[2]);
		return 0;
	case __NR_fchmodat:
	case __NR_fchmodat2:
		by_path(call, (int)args[0], args[1]);
		take_mode(call, args[2]);
		return data->nr == __NR_fchmodat ? 0 : take_flags(call, args[3]);
	case __NR_fchownat:
		by_path(call, (int)args[0], args[1]);
		take_owner(call, args[2], args[3]);
		return take_flags(call, args[4]);
	case __NR_truncate:
		by_path(call, AT_FDCWD, args[0]);
		call->action = BROKER_TRUNCATE;
		call->length = (int64_t)args[1];
		return call->length < 0 ? -EINVAL : 0;
	case __NR_utimensat:
		return take_times(call, BROKER_TIMESPEC, args, args[3]);
	default:
		return decode_old(data, call);
	}
}

long broker_decode(const struct seccomp_data *data, struct broker_call *ret)
{
	struct broker_call call = { .action = BROKER_CHMOD, .dir_fd = AT_FDCWD, .follow = 1 };
	long r = decode(data, &call);

	if (r < 0)
		return r;
	if (!call.by_fd && call.path == 0)
		return -EFAULT;
	*ret = call;
	return 0;
}

static void take_process(struct broker_signal *call, int pid)
{
	/* The kernel's own reading of kill()'s first argument. */
	call->to = pid > 0 ? BROKER_TO_PROCESS : pid == -1 ? BROKER_TO_ALL : BROKER_TO_GROUP;
	call->target = pid > 0 || pid == -1 || pid == INT32_MIN ? pid : -pid;
}

long broker_decode_signal(const struct seccomp_data *data, struct broker_signal *ret)
{
	struct broker_signal call = { .to = BROKER_TO_THREAD, .signal = (int)data->args[1] };
	const __u64 *args = data->args;

	call.target = (int)args[0];
	switch (data->nr) {
	case __NR_kill:
		take_process(&call, (int)args[0]);
		break;
	case __NR_tkill:
		break;
	case __NR_tgkill:
	case __NR_rt_tgsigqueueinfo:
		call.process = (int)args[0];
		call.target = (int)args[1];
		call.signal = (int)args[2];
		call.info = data->nr == __NR_tgkill ? 0 : args[3];
		break;
	case __NR_rt_sigqueueinfo:
		call.to = BROKER_TO_PROCESS;
		call.info = args[2];
		break;
	case __NR_fcntl:
		if ((uint32_t)args[1] != F_SETOWN)
			return -EINVAL;
		*ret = (struct broker_signal){ .to = BROKER_AS_OWNER, .target = (int)args[2] };
		return 0;
	case __NR_pidfd_send_signal:
		call.to = BROKER_TO_PIDFD;
		call.info = args[2];
		if ((uint32_t)args[3])
			return -EINVAL;
		break;
	default:
		return -ENOSYS;
	}
	if (call.signal < 0 || call.signal > SIGNAL_MAX)
		return -EINVAL;
	if (call.to == BROKER_TO_GROUP
		    ? call.target < 0
		    : call.to != BROKER_TO_ALL && call.to != BROKER_TO_PIDFD && call.target <= 0)
		return call.to == BROKER_TO_GROUP ? -ESRCH : -EINVAL;
	*ret = call;
	return 0;
}

size_t broker_times_size(enum broker_times format)
{
	return format == BROKER_UTIMBUF ? 2 * sizeof(int64_t) : 4 * sizeof(int64_t);
}

long broker_times_convert(enum broker_times format, const int64_t raw[4],
			  struct __kernel_timespec ret[2])
{
	for (int i = 0; i < 2; i++) {
		int64_t sec = format == BROKER_UTIMBUF ? raw[i] : raw[2 * i];
		int64_t part = format == BROKER_UTIMBUF ? 0 : raw[2 * i + 1];

		if (format == BROKER_TIMEVAL) {
			/* Microseconds beyond the second could pass for UTIME_NOW after scaling. */
			if (part < 0 || part >= MICROSECONDS)
				return -EINVAL;
			part *= 1000;
		}
		ret[i].tv_sec = sec;
		ret[i].tv_nsec = part; /* the kernel checks the rest */
	}
	return 0;
}

long broker_check_type(uint32_t object_mode)
{
	switch (object_mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFLNK:
	case S_IFIFO:
	case S_IFSOCK:
		return 0;
	default:
		/* Device nodes have write rules but belong to the host. */
		return -EPERM;
	}
}

/*
 * Set-id bits are refused rather than dropped, so that the guest notices. On a directory the group
 * bit only says which group new files belong to.
 */
long broker_check_mode(uint32_t object_mode, uint32_t mode)
{
	if ((object_mode & S_IFMT) == S_IFLNK)
		return -EOPNOTSUPP;
	if (mode & S_ISUID)
		return -EPERM;
	if ((mode & S_ISGID) && (object_mode & S_IFMT) != S_IFDIR)
		return -EPERM;
	return 0;
}

static const char *skip(const char *text, const char *prefix)
{
	while (*prefix && *text == *prefix) {
		text++;
		prefix++;
	}
	return *prefix ? NULL : text;
}

int broker_fd_alias(const char *path)
{
	static const char *const prefixes[] = { "/proc/self/fd/", "/proc/thread-self/fd/",
						"/dev/fd/" };
	const char *digits = NULL;
	int64_t number = 0;

	for (size_t i = 0; !digits && i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		digits = skip(path, prefixes[i]);
	if (!digits || !*digits || (*digits == '0' && digits[1]))
		return -1;
	for (; *digits; digits++) {
		if (*digits < '0' || *digits > '9')
			return -1;
		number = number * 10 + (*digits - '0');
		if (number > INT32_MAX)
			return -1;
	}
	return (int)number;
}

char *broker_split(char *path)
{
	char *last = NULL;

	if (*path != '/')
		return NULL;
	for (char *p = path; *p; p++) {
		if (*p == '/')
			last = p;
	}
	if (!last[1])
		return NULL;
	*last = 0;
	return last + 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What the broker of level landlock makes of a call's registers, before it asks the kernel. */
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Part of the freestanding init, in no library; nothing in it needs one. */
#include "init/broker/call.c"

#include "base/macros.h"
#include "tests/lib/tap.h"

#define PATH_ADDRESS 0x7fff12345678
#define TIMES_ADDRESS 0x7fff22222222
#define GARBAGE 0xabcdef0100000000ull /* in the high half of int arguments */

static long decode_call(int nr, const uint64_t *args, size_t n, struct broker_call *ret)
{
	struct seccomp_data data = { .nr = nr };

	for (size_t i = 0; i < n; i++)
		data.args[i] = args[i];
	for (size_t i = n; i < 6; i++)
		data.args[i] = ~0ull; /* what a call does not take must not matter */
	return broker_decode(&data, ret);
}

#define DECODE(ret, nr, ...)                                                                       \
	decode_call(nr, (const uint64_t[]){ __VA_ARGS__ },                                         \
		    sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t), ret)

static void test_chmod(void)
{
	struct broker_call call;

#ifdef SYS_chmod
	CHECK_INT(DECODE(&call, SYS_chmod, PATH_ADDRESS, GARBAGE | 0100755), 0);
	CHECK(call.action == BROKER_CHMOD && call.dir_fd == AT_FDCWD && call.follow);
	CHECK(!call.by_fd && !call.empty_ok && call.path == PATH_ADDRESS);
	CHECK_INT(call.mode, 0755); /* the kernel, too, ignores other bits */
#endif
	CHECK_INT(DECODE(&call, SYS_fchmodat, (uint64_t)-100, PATH_ADDRESS, GARBAGE | 0100755), 0);
	CHECK(call.action == BROKER_CHMOD && call.dir_fd == AT_FDCWD && call.follow);
	CHECK(!call.by_fd && !call.empty_ok && call.path == PATH_ADDRESS && call.mode == 0755);
	CHECK_INT(DECODE(&call, SYS_fchmod, GARBAGE | 5, 04711), 0);
	CHECK(call.by_fd && call.dir_fd == 5 && call.mode == 04711);
	CHECK_INT(DECODE(&call, SYS_fchmodat, GARBAGE | 7, PATH_ADDRESS, 0600), 0);
	CHECK(call.dir_fd == 7 && call.follow && !call.by_fd && call.mode == 0600);
	CHECK_INT(DECODE(&call, 452, (uint64_t)-100, PATH_ADDRESS, 0600, GARBAGE | 0x100), 0);
	CHECK(call.dir_fd == AT_FDCWD && !call.follow && !call.empty_ok);
	CHECK_INT(DECODE(&call, 452, 3, PATH_ADDRESS, 0600, 0x1000), 0);
	CHECK(call.dir_fd == 3 && call.follow && call.empty_ok);
	CHECK_INT(DECODE(&call, 452, 3, PATH_ADDRESS, 0600, 0x2), -EINVAL);
}

static void test_chown(void)
{
	struct broker_call call;

#ifdef SYS_chown
	CHECK_INT(DECODE(&call, SYS_chown, PATH_ADDRESS, 1, GARBAGE | 2), 0);
	CHECK(call.action == BROKER_CHOWN && call.follow && call.uid == 1 && call.gid == 2);
	CHECK_INT(DECODE(&call, SYS_lchown, PATH_ADDRESS, ~0ull, 2), 0);
	CHECK(!call.follow && call.uid == BROKER_NO_ID);
#endif
	CHECK_INT(DECODE(&call, SYS_fchown, 9, 1, 2), 0);
	CHECK(call.by_fd && call.dir_fd == 9 && call.action == BROKER_CHOWN && call.gid == 2);
	CHECK_INT(DECODE(&call, SYS_fchownat, 4, PATH_ADDRESS, 1, 2, 0x1100), 0);
	CHECK(call.dir_fd == 4 && !call.follow && call.empty_ok && call.uid == 1);
	CHECK_INT(DECODE(&call, SYS_fchownat, 4, PATH_ADDRESS, 1, 2, 0x400), -EINVAL);
}

static void test_times(void)
{
	struct broker_call call;

#ifdef SYS_utime
	CHECK_INT(DECODE(&call, SYS_utime, PATH_ADDRESS, TIMES_ADDRESS), 0);
	CHECK(call.action == BROKER_UTIME && call.format == BROKER_UTIMBUF && call.follow);
	CHECK(call.dir_fd == AT_FDCWD && call.path == PATH_ADDRESS && call.times == TIMES_ADDRESS);
	CHECK_INT(DECODE(&call, SYS_utimes, PATH_ADDRESS, 0), 0);
	CHECK(call.format == BROKER_TIMEVAL && call.times == 0);
	CHECK_INT(DECODE(&call, SYS_futimesat, 3, PATH_ADDRESS, TIMES_ADDRESS), 0);
	CHECK(call.format == BROKER_TIMEVAL && call.dir_fd == 3 && !call.by_fd);
	CHECK_INT(DECODE(&call, SYS_futimesat, 3, 0, 0), 0);
	CHECK(call.by_fd);
#endif
	CHECK_INT(DECODE(&call, SYS_utimensat, 3, PATH_ADDRESS, TIMES_ADDRESS, 0x100), 0);
	CHECK(call.format == BROKER_TIMESPEC && !call.follow);
	/* without a path: the descriptor itself */
	CHECK_INT(DECODE(&call, SYS_utimensat, 3, 0, TIMES_ADDRESS, 0), 0);
	CHECK(call.by_fd && call.dir_fd == 3);
	CHECK_INT(DECODE(&call, SYS_utimensat, 3, 0, TIMES_ADDRESS, 0x100), -EINVAL);
}

/* A refused call leaves nothing behind that could be acted on. */
static void test_refused(void)
{
	struct broker_call call = { .path = 42 };

#ifdef SYS_chmod
	CHECK_INT(DECODE(&call, SYS_chmod, 0, 0755), -EFAULT);
	CHECK_INT(DECODE(&call, SYS_utimes, 0, 0), -EFAULT);
#endif
	CHECK_INT(DECODE(&call, SYS_fchmodat, (uint64_t)-100, 0, 0755), -EFAULT);
	CHECK_INT(DECODE(&call, SYS_utimensat, (uint64_t)-100, 0, 0, 0), -EFAULT);
	CHECK_INT(DECODE(&call, SYS_fchownat, 3, 0, 0, 0, 0x1000), -EFAULT);
	CHECK_INT(DECODE(&call, SYS_openat, 3, PATH_ADDRESS), -ENOSYS);
	CHECK_INT(DECODE(&call, SYS_setxattr, PATH_ADDRESS, PATH_ADDRESS), -ENOSYS);
	CHECK(call.path == 42);
}

static void test_convert(void)
{
	struct __kernel_timespec ts[2];
	const int64_t seconds[4] = { 11, 22, 33, 44 };
	const int64_t now[4] = { 0, UTIME_NOW, 0, UTIME_OMIT };
	/* times 1000 this would be UTIME_NOW in 32 bits */
	const int64_t tricky[4] = { 1, 1073741, 1, 0 };
	const int64_t negative[4] = { 1, 5, 1, -1 };

	CHECK_INT(broker_times_convert(BROKER_UTIMBUF, seconds, ts), 0);
	CHECK(ts[0].tv_sec == 11 && ts[1].tv_sec == 22 && !ts[0].tv_nsec && !ts[1].tv_nsec);
	CHECK_INT(broker_times_convert(BROKER_TIMEVAL, seconds, ts), 0);
	CHECK(ts[0].tv_sec == 11 && ts[0].tv_nsec == 22000 && ts[1].tv_nsec == 44000);
	CHECK_INT(broker_times_convert(BROKER_TIMESPEC, now, ts), 0);
	CHECK(ts[0].tv_nsec == UTIME_NOW && ts[1].tv_nsec == UTIME_OMIT);
	CHECK_INT(broker_times_convert(BROKER_TIMEVAL, tricky, ts), -EINVAL);
	CHECK_INT(broker_times_convert(BROKER_TIMEVAL, negative, ts), -EINVAL);
	CHECK_INT(broker_times_size(BROKER_UTIMBUF), 16);
	CHECK_INT(broker_times_size(BROKER_TIMESPEC), 32);
}

static void test_modes(void)
{
	static const uint32_t fine[] = { S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO, S_IFSOCK };

	for (size_t i = 0; i < ARRAY_SIZE(fine); i++)
		CHECK_INT(broker_check_type(fine[i] | 0777), 0);
	CHECK_INT(broker_check_type(S_IFCHR | 0666), -EPERM);
	CHECK_INT(broker_check_type(S_IFBLK | 0666), -EPERM);
	CHECK_INT(broker_check_type(0), -EPERM);
	CHECK_INT(broker_check_mode(S_IFREG, 01777), 0);
	CHECK_INT(broker_check_mode(S_IFREG, 02755), -EPERM);
	CHECK_INT(broker_check_mode(S_IFREG, 04755), -EPERM);
	CHECK_INT(broker_check_mode(S_IFDIR, 03775), 0);
	CHECK_INT(broker_check_mode(S_IFDIR, 04755), -EPERM);
	CHECK_INT(broker_check_mode(S_IFLNK, 0777), -EOPNOTSUPP);
}

static void test_aliases(void)
{
	static const char *const none[] = { "",
					    "/proc/self/fd",
					    "/proc/self/fd/",
					    "/proc/self/fd/1x",
					    "/proc/self/fd/1/x",
					    "/proc/self/fd/01",
					    "/proc/self/fd/-1",
					    "/proc/self/fd/2147483648",
					    "/proc/self/fd/99999999999999999999999999",
					    "/proc/1/fd/1",
					    "proc/self/fd/1",
					    "/dev/fd/../fd/1" };

	CHECK_INT(broker_fd_alias("/proc/self/fd/0"), 0);
	CHECK_INT(broker_fd_alias("/proc/thread-self/fd/12"), 12);
	CHECK_INT(broker_fd_alias("/dev/fd/2147483647"), INT_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		CHECK_MSG(broker_fd_alias(none[i]) == -1, "'%s' is no descriptor", none[i]);
}

static void check_split(const char *path, const char *dir, const char *name)
{
	char copy[64];
	char *got;

	snprintf(copy, sizeof(copy), "%s", path);
	got = broker_split(copy);
	if (!name) {
		CHECK_MSG(!got, "'%s' has no last name", path);
		return;
	}
	REQUIRE(got);
	CHECK_STR(got, name);
	CHECK_STR(copy, dir);
}

static void test_text(void)
{
	check_split("/a/b", "/a", "b");
	check_split("/a", "", "a");
	check_split("/a/b (deleted)", "/a", "b (deleted)");
	check_split("/", NULL, NULL);
	check_split("/a/", NULL, NULL);
	check_split("pipe:[1]", NULL, NULL);
	check_split("(unreachable)/a", NULL, NULL);
	check_split("", NULL, NULL);
}

static void test_truncate(void)
{
	struct broker_call call;

	CHECK_INT(DECODE(&call, SYS_truncate, PATH_ADDRESS, 1ULL << 40), 0);
	CHECK(call.action == BROKER_TRUNCATE && call.follow && call.length == 1LL << 40);
	CHECK_INT(DECODE(&call, SYS_truncate, PATH_ADDRESS, (uint64_t)-1), -EINVAL);
	CHECK_INT(DECODE(&call, SYS_truncate, 0, 5), -EFAULT);
}

static long decode_signal(int nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
			  struct broker_signal *ret)
{
	const struct seccomp_data data = { .nr = nr, .args = { a, b, c, d, ~0ull, ~0ull } };

	return broker_decode_signal(&data, ret);
}

static void test_kill(void)
{
	struct broker_signal call;

	CHECK_INT(decode_signal(SYS_kill, GARBAGE | 77, GARBAGE | 15, ~0ull, ~0ull, &call), 0);
	CHECK(call.to == BROKER_TO_PROCESS && call.target == 77 && call.signal == 15);
	CHECK(!call.info && !call.process);
	CHECK_INT(decode_signal(SYS_kill, 0, 0, 0, 0, &call), 0);
	CHECK(call.to == BROKER_TO_GROUP && call.target == 0 && call.signal == 0);
	CHECK_INT(decode_signal(SYS_kill, (uint64_t)-77, 64, 0, 0, &call), 0);
	CHECK(call.to == BROKER_TO_GROUP && call.target == 77);
	CHECK_INT(decode_signal(SYS_kill, (uint32_t)-1, 9, 0, 0, &call), 0);
	CHECK(call.to == BROKER_TO_ALL);
	/* its negative is no number */
	CHECK_INT(decode_signal(SYS_kill, (uint32_t)INT32_MIN, 9, 0, 0, &call), -ESRCH);
	CHECK_INT(decode_signal(SYS_kill, 77, 65, 0, 0, &call), -EINVAL);
	CHECK_INT(decode_signal(SYS_kill, 77, (uint32_t)-1, 0, 0, &call), -EINVAL);
}

static void test_other_signals(void)
{
	struct broker_signal call;

	CHECK_INT(decode_signal(SYS_tkill, GARBAGE | 78, 15, ~0ull, ~0ull, &call), 0);
	CHECK(call.to == BROKER_TO_THREAD && call.target == 78 && !call.process && !call.info);
	CHECK_INT(decode_signal(SYS_tkill, 0, 15, 0, 0, &call), -EINVAL);
	CHECK_INT(decode_signal(SYS_tgkill, 77, GARBAGE | 78, GARBAGE | 15, ~0ull, &call), 0);
	CHECK(call.to == BROKER_TO_THREAD && call.process == 77 && call.target == 78);
	CHECK(call.signal == 15 && !call.info);
	CHECK_INT(decode_signal(SYS_tgkill, 77, (uint32_t)-78, 15, 0, &call), -EINVAL);
	CHECK_INT(decode_signal(SYS_rt_sigqueueinfo, 77, 15, PATH_ADDRESS, ~0ull, &call), 0);
	CHECK(call.to == BROKER_TO_PROCESS && call.target == 77 && call.info == PATH_ADDRESS);
	CHECK_INT(decode_signal(SYS_rt_tgsigqueueinfo, 77, 78, 15, PATH_ADDRESS, &call), 0);
	CHECK(call.process == 77 && call.target == 78 && call.info == PATH_ADDRESS);
	CHECK_INT(decode_signal(SYS_pidfd_send_signal, 5, 15, PATH_ADDRESS, GARBAGE, &call), 0);
	CHECK(call.to == BROKER_TO_PIDFD && call.target == 5 && call.info == PATH_ADDRESS);
	CHECK_INT(decode_signal(SYS_pidfd_send_signal, 5, 15, 0, 1, &call), -EINVAL);
	CHECK_INT(decode_signal(SYS_fcntl, 5, GARBAGE | F_SETOWN, GARBAGE | 77, ~0ull, &call), 0);
	CHECK(call.to == BROKER_AS_OWNER && call.target == 77);
	CHECK_INT(decode_signal(SYS_fcntl, 5, F_SETFL, 77, 0, &call), -EINVAL);
	CHECK_INT(decode_signal(SYS_fchmodat, 5, 15, 0, 0, &call), -ENOSYS);
}

TAP_MAIN(test_truncate, test_kill, test_other_signals, test_chmod, test_chown, test_times,
	 test_refused, test_convert, test_modes, test_aliases, test_text)

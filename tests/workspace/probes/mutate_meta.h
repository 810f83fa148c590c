/* SPDX-License-Identifier: Apache-2.0 */
/* mutate: ways to change what is known about a file. */
#include "mutate.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <utime.h>

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#define NR_SETXATTRAT 463
#define NR_REMOVEXATTRAT 466
#define NR_FILE_SETATTR 469

static const struct timespec when[2] = { { 1000000000, 1 }, { 1100000000, 123456789 } };

static const char *magic(const char *name)
{
	static char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", must_open(name, O_PATH));
	return path;
}

OP(chmod, chmod("file", 0600));
OP(chmod_setid, chmod("file", 06755));
OP(chmod_none, chmod("file", 0));
OP(chmod_dir, chmod("full", 01700));
OP(chmod_dir_none, chmod("full", 0));
OP(chmod_by_link, chmod("link", 0600));
OP(chmod_hard, chmod("hard1", 0600));
OP(chmod_fifo, chmod("fifo", 0600));
OP(chmod_here, chmod(".", 0700));
OP(chmod_magic, chmod(magic("file"), 0600));
OP(fchmod, fchmod(must_open("file", O_RDONLY), 0600));
OP(fchmod_dir, fchmod(must_open("full", O_RDONLY), 0700));
OP(fchmodat2, syscall(SYS_fchmodat2, AT_FDCWD, "file", 0600, AT_SYMLINK_NOFOLLOW));
OP(fchmodat2_empty, syscall(SYS_fchmodat2, must_open("file", O_PATH), "", 0600, AT_EMPTY_PATH));

/* To the same owner: the kernel takes set-id bits away and stamps the file all the same. */
OP(chown_same, chown("file", getuid(), getgid()));
OP(chown, chown("file", 12345, 12345));
OP(lchown, lchown("link", getuid(), getgid()));
OP(fchown, fchown(must_open("file", O_RDONLY), getuid(), getgid()));
OP(fchownat_empty, fchownat(must_open("file", O_PATH), "", getuid(), getgid(), AT_EMPTY_PATH));
OP(chown_dir, chown("full", getuid(), getgid()));

OP(utimensat, utimensat(AT_FDCWD, "file", when, 0));
OP(utimensat_now, utimensat(AT_FDCWD, "file", NULL, 0));
OP(utimensat_link, utimensat(AT_FDCWD, "link", when, AT_SYMLINK_NOFOLLOW));
OP(utimensat_dir, utimensat(AT_FDCWD, "full", when, 0));
OP(utimensat_here, utimensat(AT_FDCWD, ".", when, 0));
OP(utimensat_magic, utimensat(AT_FDCWD, magic("file"), when, 0));
static long op_utimensat_access(void)
{
	const struct timespec only[2] = { { 1000000000, 1 }, { 0, UTIME_OMIT } };

	return utimensat(AT_FDCWD, "file", only, 0);
}
OP(futimens, futimens(must_open("file", O_RDONLY), when));
static long op_utimes(void)
{
	const struct timeval tv[2] = { { 1000000000, 0 }, { 1000000000, 5 } };

	return utimes("file", tv);
}
static long op_utime(void)
{
	const struct utimbuf buf = { 1000000000, 1000000000 };

	return utime("file", &buf);
}
static long op_futimesat(void)
{
	const struct timeval tv[2] = { { 1000000000, 0 }, { 1000000000, 5 } };

	return futimesat(AT_FDCWD, "file", tv);
}

static long set(const char *name, const char *attribute)
{
	return setxattr(name, attribute, "new", 3, 0);
}

OP(setxattr, set("file", "user.new"));
OP(setxattr_replace, setxattr("file", "user.canary", "new", 3, XATTR_REPLACE));
OP(setxattr_dir, set("full", "user.new"));
OP(setxattr_here, set(".", "user.new"));
OP(setxattr_magic, set(magic("file"), "user.new"));
OP(setxattr_hard, set("hard1", "user.new"));
OP(fsetxattr, fsetxattr(must_open("file", O_RDONLY), "user.new", "x", 1, 0));
OP(lsetxattr, lsetxattr("file", "user.new", "x", 1, 0));
OP(setxattr_security, set("file", "security.canary"));
OP(setxattr_trusted, set("file", "trusted.canary"));
OP(lsetxattr_trusted, lsetxattr("link", "trusted.canary", "x", 1, 0));
OP(setxattr_overlay, setxattr("full", "user.overlay.opaque", "y", 1, 0));
OP(setxattr_overlay_trusted, setxattr("full", "trusted.overlay.opaque", "y", 1, 0));
OP(setxattr_whiteout, setxattr("file", "user.overlay.whiteout", "y", 1, 0));
OP(setxattr_redirect, setxattr("full", "user.overlay.redirect", "/etc", 4, 0));

static long op_setcap(void)
{
	/* cap_net_raw+ep, version 2 */
	static const uint32_t caps[5] = { 0x02000001, 1u << 13, 0, 0, 0 };

	return setxattr("file", "security.capability", caps, sizeof(caps), 0);
}

static long set_acl(const char *path, const char *name)
{
	struct {
		uint32_t version;
		struct {
			uint16_t tag, perm;
			uint32_t id;
		} v[5];
	} __attribute__((packed)) acl = { 2,
					  { { 0x01, 6, UINT32_MAX },
					    { 0x02, 7, getuid() },
					    { 0x04, 4, UINT32_MAX },
					    { 0x10, 7, UINT32_MAX },
					    { 0x20, 4, UINT32_MAX } } };

	return setxattr(path, name, &acl, sizeof(acl), 0);
}

OP(acl_access, set_acl("file", "system.posix_acl_access"));
OP(acl_default, set_acl("full", "system.posix_acl_default"));
OP(removexattr, removexattr("file", "user.canary"));
OP(lremovexattr, lremovexattr("file", "user.canary"));
OP(fremovexattr, fremovexattr(must_open("file", O_RDONLY), "user.canary"));

static long op_setxattrat(void)
{
	struct {
		uint64_t value;
		uint32_t size, flags;
	} args = { (uintptr_t)"new", 3, 0 };

	return syscall(NR_SETXATTRAT, AT_FDCWD, "file", 0, "user.new", &args, sizeof(args));
}
OP(removexattrat, syscall(NR_REMOVEXATTRAT, AT_FDCWD, "file", 0, "user.canary"));

static long op_file_setattr(void)
{
	struct {
		uint64_t xflags;
		uint32_t extsize, nextents, projid, cowextsize;
	} attr = { .xflags = FS_XFLAG_NODUMP };

	return syscall(NR_FILE_SETATTR, AT_FDCWD, "file", &attr, sizeof(attr), 0);
}

static long flags_of(const char *name, int bit)
{
	int flags = 0, fd = must_open(name, O_RDONLY);

	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return -1;
	flags |= bit;
	return ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

OP(setflags, flags_of("file", FS_NODUMP_FL));
OP(setflags_dir, flags_of("full", FS_NODUMP_FL | FS_NOATIME_FL));
OP(setflags_sync, flags_of("file", FS_SYNC_FL));

static long op_fssetxattr(void)
{
	struct fsxattr attr = { 0 };
	int fd = must_open("file", O_RDONLY);

	if (ioctl(fd, FS_IOC_FSGETXATTR, &attr) < 0)
		return -1;
	attr.fsx_xflags |= FS_XFLAG_NODUMP;
	return ioctl(fd, FS_IOC_FSSETXATTR, &attr);
}

static long op_setversion(void)
{
	int generation = 4711;

	return ioctl(must_open("file", O_RDONLY), _IOW('v', 2, long), &generation);
}

static const struct attempt meta_attempts[] = {
	ATTEMPT(chmod),
	ATTEMPT(chmod_setid),
	ATTEMPT(chmod_none),
	ATTEMPT(chmod_dir),
	ATTEMPT(chmod_dir_none),
	ATTEMPT(chmod_by_link),
	ATTEMPT(chmod_hard),
	ATTEMPT(chmod_fifo),
	ATTEMPT(chmod_here),
	ATTEMPT(chmod_magic),
	ATTEMPT(fchmod),
	ATTEMPT(fchmod_dir),
	ATTEMPT(fchmodat2),
	ATTEMPT(fchmodat2_empty),
	ATTEMPT(chown_same),
	ATTEMPT(chown),
	ATTEMPT(lchown),
	ATTEMPT(fchown),
	ATTEMPT(fchownat_empty),
	ATTEMPT(chown_dir),
	ATTEMPT(utimensat),
	ATTEMPT(utimensat_now),
	ATTEMPT(utimensat_link),
	ATTEMPT(utimensat_dir),
	ATTEMPT(utimensat_here),
	ATTEMPT(utimensat_magic),
	ATTEMPT(utimensat_access),
	ATTEMPT(futimens),
	ATTEMPT(utimes),
	ATTEMPT(utime),
	ATTEMPT(futimesat),
	ATTEMPT(setxattr),
	ATTEMPT(setxattr_replace),
	ATTEMPT(setxattr_dir),
	ATTEMPT(setxattr_here),
	ATTEMPT(setxattr_magic),
	ATTEMPT(setxattr_hard),
	ATTEMPT(fsetxattr),
	ATTEMPT(lsetxattr),
	ATTEMPT(setxattr_security),
	ATTEMPT(setxattr_trusted),
	ATTEMPT(lsetxattr_trusted),
	ATTEMPT(setxattr_overlay),
	ATTEMPT(setxattr_overlay_trusted),
	ATTEMPT(setxattr_whiteout),
	ATTEMPT(setxattr_redirect),
	ATTEMPT(setcap),
	ATTEMPT(acl_access),
	ATTEMPT(acl_default),
	ATTEMPT(removexattr),
	ATTEMPT(lremovexattr),
	ATTEMPT(fremovexattr),
	ATTEMPT(setxattrat),
	ATTEMPT(removexattrat),
	ATTEMPT(file_setattr),
	ATTEMPT(setflags),
	ATTEMPT(setflags_dir),
	ATTEMPT(setflags_sync),
	ATTEMPT(fssetxattr),
	ATTEMPT(setversion),
	{ NULL, NULL },
};

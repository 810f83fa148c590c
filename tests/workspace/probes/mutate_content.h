/* SPDX-License-Identifier: Apache-2.0 */
/* mutate: ways to change what is in a file. */
#include "mutate.h"

#include <linux/aio_abi.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

static struct iovec word = { "new content", 11 };

static long open_with(int flags)
{
	return open("file", flags | O_CLOEXEC, 0644);
}

static long write_with(int flags)
{
	int fd = must_open("file", flags);

	return write(fd, "new content", 11);
}

OP(trunc_wronly, open_with(O_WRONLY | O_TRUNC));
OP(trunc_rdwr, open_with(O_RDWR | O_TRUNC));
OP(trunc_rdonly, open_with(O_RDONLY | O_TRUNC));
OP(trunc_create, open_with(O_WRONLY | O_CREAT | O_TRUNC));
OP(trunc_by_link, open("link", O_WRONLY | O_TRUNC | O_CLOEXEC));
OP(trunc_hard, open("hard1", O_WRONLY | O_TRUNC | O_CLOEXEC));
OP(creat, creat("file", 0600));
OP(create_new, open("new", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
OP(open_only_wronly, open_with(O_WRONLY));
OP(open_only_rdwr, open_with(O_RDWR));

static long op_openat2_trunc(void)
{
	struct open_how how = { .flags = O_WRONLY | O_TRUNC, .resolve = RESOLVE_BENEATH };

	return syscall(SYS_openat2, AT_FDCWD, "file", &how, sizeof(how));
}

OP(write, write_with(O_WRONLY));
OP(write_rdwr, write_with(O_RDWR));
OP(write_append, write_with(O_WRONLY | O_APPEND));
OP(write_sync, write_with(O_WRONLY | O_SYNC));
OP(pwrite, pwrite(must_open("file", O_WRONLY), "x", 1, 4000));
OP(writev, writev(must_open("file", O_RDWR), &word, 1));
OP(pwritev, pwritev(must_open("file", O_RDWR), &word, 1, 100));

static long op_write_direct(void)
{
	int fd = must_open("file", O_WRONLY | O_DIRECT);
	void *page;

	if (posix_memalign(&page, 4096, 4096))
		return -1;
	memset(page, 'x', 4096);
	return pwrite(fd, page, 4096, 0);
}

OP(write_hard, write(must_open("hard2", O_WRONLY), "x", 1));
OP(write_by_link, write(must_open("link", O_WRONLY), "x", 1));

OP(write_by_dirlink, write(must_open("dirlink/child", O_WRONLY), "x", 1));

OP(pwritev2_append, pwritev2(must_open("file", O_RDWR), &word, 1, 0, RWF_APPEND));

static long op_sendfile(void)
{
	int in = must_open("other", O_RDONLY);

	return sendfile(must_open("file", O_WRONLY), in, NULL, SIZE);
}

static long op_splice(void)
{
	int pipes[2], fd = must_open("file", O_WRONLY);

	if (pipe(pipes) < 0 || write(pipes[1], "spliced", 7) != 7)
		return -1;
	return splice(pipes[0], NULL, fd, NULL, 7, 0);
}

/* A page of a file for reading is given away to the pipe; what is written to the pipe then must not
 * end up in that page. */
static long op_splice_from(void)
{
	int pipes[2], fd = must_open("file", O_RDONLY);

	if (pipe(pipes) < 0 || splice(fd, NULL, pipes[1], NULL, 1, 0) != 1)
		return -1;
	return write(pipes[1], "dirty pipe", 10);
}

static long op_vmsplice_write(void)
{
	int pipes[2], fd = must_open("file", O_RDWR);

	if (pipe(pipes) < 0 || vmsplice(pipes[1], &word, 1, 0) < 0)
		return -1;
	return splice(pipes[0], NULL, fd, NULL, 11, 0);
}

static long op_copy_file_range(void)
{
	int in = must_open("other", O_RDONLY);

	return copy_file_range(in, NULL, must_open("file", O_WRONLY), NULL, SIZE, 0);
}

static long op_ficlone(void)
{
	int in = must_open("other", O_RDONLY);

	return ioctl(must_open("file", O_RDWR), FICLONE, in);
}

static long op_ficlonerange(void)
{
	struct file_clone_range range = { .src_fd = must_open("other", O_RDONLY),
					  .src_length = 4096 };

	return ioctl(must_open("file", O_RDWR), FICLONERANGE, &range);
}

OP(truncate, truncate("file", 10));
OP(truncate_longer, truncate("file", 100000));
OP(truncate_by_link, truncate("link", 0));
OP(ftruncate, ftruncate(must_open("file", O_RDWR), 0));

static long allocate(int mode, off_t from, off_t len)
{
	return fallocate(must_open("file", O_RDWR), mode, from, len);
}

OP(fallocate, allocate(0, 0, 100000));
OP(fallocate_keep, allocate(FALLOC_FL_KEEP_SIZE, SIZE, 100000));
OP(fallocate_punch, allocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
OP(fallocate_collapse, allocate(FALLOC_FL_COLLAPSE_RANGE, 0, 4096));
OP(fallocate_zero, allocate(FALLOC_FL_ZERO_RANGE, 0, 4096));
OP(fallocate_insert, allocate(FALLOC_FL_INSERT_RANGE, 0, 4096));
OP(fallocate_unshare, allocate(FALLOC_FL_UNSHARE_RANGE, 0, 4096));
static long op_posix_fallocate(void)
{
	int r = posix_fallocate(must_open("file", O_RDWR), 0, 100000);

	return r ? fail(r) : 0;
}

static char *map(int fd, int prot, int flags)
{
	char *p = mmap(NULL, SIZE, prot, flags, fd, 0);

	if (p == MAP_FAILED)
		_exit(errno);
	return p;
}

static long op_mmap(void)
{
	char *p = map(must_open("file", O_RDWR), PROT_READ | PROT_WRITE, MAP_SHARED);

	memcpy(p + 4090, "mapped over two pages", 21);
	return msync(p, SIZE, MS_SYNC);
}

static long op_mmap_unsynced(void)
{
	char *p = map(must_open("file", O_RDWR), PROT_READ | PROT_WRITE, MAP_SHARED);

	p[0] = 'x';
	return munmap(p, SIZE);
}

/* A mapping of the base's file that was made before the copy. */
static long op_mmap_before_copy(void)
{
	char *old = map(must_open("file", O_RDONLY), PROT_READ, MAP_SHARED);
	char *p = map(must_open("file", O_RDWR), PROT_READ | PROT_WRITE, MAP_SHARED);

	p[0] = 'x';
	if (msync(p, SIZE, MS_SYNC) < 0 || msync(old, SIZE, MS_SYNC) < 0)
		return -1;
	/* Of a descriptor for reading: refused, or not the base's. */
	if (mprotect(old, SIZE, PROT_READ | PROT_WRITE) == 0)
		old[1] = 'y';
	return 0;
}

static long op_mmap_private(void)
{
	char *p = map(must_open("file", O_RDONLY), PROT_READ | PROT_WRITE, MAP_PRIVATE);

	p[0] = 'x';
	return msync(p, SIZE, MS_SYNC);
}

static long op_madvise_remove(void)
{
	char *p = map(must_open("file", O_RDWR), PROT_READ | PROT_WRITE, MAP_SHARED);

	return madvise(p, 4096, MADV_REMOVE);
}

static long op_mremap(void)
{
	char *p = map(must_open("file", O_RDWR), PROT_READ | PROT_WRITE, MAP_SHARED);

	if (ftruncate(must_open("file", O_RDWR), 4L * SIZE) < 0)
		return -1;
	p = mremap(p, SIZE, 4UL * SIZE, MREMAP_MAYMOVE);
	if (p == MAP_FAILED)
		return -1;
	p[3 * SIZE] = 'x';
	return 0;
}

static long op_aio(void)
{
	char data[] = "by aio";
	struct iocb cb = { .aio_lio_opcode = IOCB_CMD_PWRITE,
			   .aio_buf = (uintptr_t)data,
			   .aio_nbytes = 6,
			   .aio_fildes = (unsigned)must_open("file", O_RDWR) };
	struct iocb *list = &cb;
	struct io_event event;
	aio_context_t ctx = 0;

	if (syscall(SYS_io_setup, 1, &ctx) < 0 || syscall(SYS_io_submit, ctx, 1, &list) != 1)
		return -1;
	return syscall(SYS_io_getevents, ctx, 1, 1, &event, NULL) == 1 ? 0 : -1;
}

static long op_io_uring(void)
{
	struct io_uring_params p = { 0 };
	int fd = must_open("file", O_RDWR), ring = (int)syscall(SYS_io_uring_setup, 1, &p);
	struct io_uring_sqe *sqe;
	char *sq;

	if (ring < 0)
		return -1;
	sq = mmap(NULL, p.sq_off.array + 64, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
		  IORING_OFF_SQ_RING);
	sqe = mmap(NULL, sizeof(*sqe), PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	if (sq == MAP_FAILED || (void *)sqe == MAP_FAILED)
		return -1;
	*sqe = (struct io_uring_sqe){
		.opcode = IORING_OP_WRITE, .fd = fd, .addr = (uintptr_t)"by ring", .len = 7
	};
	*(unsigned *)(sq + p.sq_off.array) = 0;
	__atomic_store_n((unsigned *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
	return syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
}

static long by_magic(int first, int then)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", must_open("file", first));
	return write(must_open(path, then), "magic", 5);
}

OP(magic_rdwr, by_magic(O_RDONLY, O_RDWR));
OP(magic_trunc, by_magic(O_RDONLY, O_WRONLY | O_TRUNC));
OP(magic_path, by_magic(O_PATH, O_WRONLY | O_APPEND));
OP(magic_cwd, write(must_open("/proc/self/cwd/file", O_RDWR), "x", 1));

static long op_magic_truncate(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", must_open("file", O_RDONLY));
	return truncate(path, 0);
}

/* By all of the root that there is. */
static long op_magic_root(void)
{
	char path[4200] = "/proc/self/root";

	if (!getcwd(path + strlen(path), 4096))
		return -1;
	strcat(path, "/file");
	return write(must_open(path, O_RDWR), "x", 1);
}

/* One descriptor for reading from before the copy, one for writing from after it. */
static long op_two_descriptors(void)
{
	int before = must_open("file", O_RDONLY), after = must_open("file", O_WRONLY);
	char byte;

	if (write(after, "x", 1) != 1 || fsync(after) < 0)
		return -1;
	if (write(before, "x", 1) == 1 || ftruncate(before, 0) == 0)
		return fail(EBADE);
	return read(before, &byte, 1);
}

static const struct attempt content_attempts[] = {
	ATTEMPT(trunc_wronly),
	ATTEMPT(trunc_rdwr),
	ATTEMPT(trunc_rdonly),
	ATTEMPT(trunc_create),
	ATTEMPT(trunc_by_link),
	ATTEMPT(trunc_hard),
	ATTEMPT(creat),
	ATTEMPT(create_new),
	ATTEMPT(open_only_wronly),
	ATTEMPT(open_only_rdwr),
	ATTEMPT(openat2_trunc),
	ATTEMPT(write),
	ATTEMPT(write_rdwr),
	ATTEMPT(write_append),
	ATTEMPT(write_sync),
	ATTEMPT(write_direct),
	ATTEMPT(write_hard),
	ATTEMPT(write_by_link),
	ATTEMPT(write_by_dirlink),
	ATTEMPT(pwrite),
	ATTEMPT(writev),
	ATTEMPT(pwritev),
	ATTEMPT(pwritev2_append),
	ATTEMPT(sendfile),
	ATTEMPT(splice),
	ATTEMPT(splice_from),
	ATTEMPT(vmsplice_write),
	ATTEMPT(copy_file_range),
	ATTEMPT(ficlone),
	ATTEMPT(ficlonerange),
	ATTEMPT(truncate),
	ATTEMPT(truncate_longer),
	ATTEMPT(truncate_by_link),
	ATTEMPT(ftruncate),
	ATTEMPT(fallocate),
	ATTEMPT(fallocate_keep),
	ATTEMPT(fallocate_punch),
	ATTEMPT(fallocate_collapse),
	ATTEMPT(fallocate_zero),
	ATTEMPT(fallocate_insert),
	ATTEMPT(fallocate_unshare),
	ATTEMPT(posix_fallocate),
	ATTEMPT(mmap),
	ATTEMPT(mmap_unsynced),
	ATTEMPT(mmap_before_copy),
	ATTEMPT(mmap_private),
	ATTEMPT(madvise_remove),
	ATTEMPT(mremap),
	ATTEMPT(aio),
	ATTEMPT(io_uring),
	ATTEMPT(magic_rdwr),
	ATTEMPT(magic_trunc),
	ATTEMPT(magic_path),
	ATTEMPT(magic_cwd),
	ATTEMPT(magic_truncate),
	ATTEMPT(magic_root),
	ATTEMPT(two_descriptors),
	{ NULL, NULL },
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a guest: kernel, modules and this command, in a directory of the cache that is called by
 * its content. It is made beside and renamed in one step, so that a setup that was killed leaves
 * nothing that could be used, and what is used never changes.
 */
#include <errno.h>
#include <stdarg.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json_write.h"
#include "guest.h"
#include "out.h"
#include "workspace/tree/tree.h"

/* The package and what is unpacked of it, for a moment; what stays is 75 MB. */
#define SETUP_BYTES ((uint64_t)640 << 20)

#define CPIO_END "TRAILER!!!"

struct setup {
	struct cache *cache;
	const void *agent;
	size_t agent_len;
	int quiet;
	char name[32];	    /* of the directory that is being made */
	int dir_fd;	    /* ... and its lock */
	char dir[PATH_MAX]; /* the same, absolute */
	struct kernel kernel;
	struct microvm_image image;
};

static void __attribute__((format(printf, 2, 3))) say(const struct setup *s, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	if (s->quiet)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	say_line("microvm: %s", line);
}

/* One entry of an archive as the kernel unpacks it (cpio, "newc"). */
static void add_entry(struct strbuf *sb, const char *name, unsigned mode, unsigned rdev,
		      const void *data, size_t len)
{
	static const char zeros[4];

	/* ino, mode, uid, gid, nlink, mtime, size, dev, rdev, length of the name, sum */
	strbuf_printf(sb, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", 0u, mode,
		      0u, 0u, 1u, 0u, (unsigned)len, 0u, 0u, rdev >> 8, rdev & 0xff,
		      (unsigned)strlen(name) + 1, 0u);
	strbuf_add(sb, name, strlen(name) + 1);
	strbuf_add(sb, zeros, (4 - sb->len % 4) % 4);
	strbuf_add(sb, data, len);
	strbuf_add(sb, zeros, (4 - sb->len % 4) % 4);
}

static void make_archive(const struct setup *s, const struct modules *modules, struct strbuf *sb)
{
	static const char *const dirs[] = { "dev", "proc", "sys", "new" };

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++)
		add_entry(sb, dirs[i], S_IFDIR | 0755, 0, NULL, 0);
	add_entry(sb, "dev/console", S_IFCHR | 0600, 5 << 8 | 1, NULL, 0);
	add_entry(sb, &MICROVM_MODULES[1], S_IFDIR | 0755, 0, NULL, 0);
	for (size_t i = 0; i < modules->n; i++) {
		char name[128];

		/* By their order. */
		snprintf(name, sizeof(name), "%s/%02zu", &MICROVM_MODULES[1], i);
		add_entry(sb, name, S_IFREG | 0644, 0, modules->v[i].data, modules->v[i].len);
	}
	add_entry(sb, &MICROVM_AGENT[1], S_IFREG | 0755, 0, s->agent, s->agent_len);
	add_entry(sb, CPIO_END, 0, 0, NULL, 0);
}

static int path_of(const struct setup *s, const char *name, char buf[PATH_MAX],
		   struct cordon_error *err)
{
	if (snprintf(buf, PATH_MAX, "%s/%s", s->dir, name) < PATH_MAX)
		return 0;
	return cordon_err(err, CORDON_E_PATH, ENAMETOOLONG, "the cache directory");
}

static int write_whole(const struct setup *s, const char *name, const void *data, size_t len,
		       struct cordon_error *err)
{
	char path[PATH_MAX];
	int fd, r = path_of(s, name, path, err);

	if (r < 0)
		return r;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	r = fd < 0 ? -errno : write_full(fd, data, len);
	if (fd >= 0 && r == 0 && fchmod(fd, 0644) < 0)
		r = -errno;
	if (fd >= 0 && close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0)
		return 0;
	r = cordon_err(err, CORDON_E_SYSTEM, -r, "cannot write '%s'", path);
	cordon_err_hint(err, "make room, or set XDG_CACHE_HOME to another disk");
	return r;
}

static int check_space(const struct setup *s, struct cordon_error *err)
{
	struct statvfs fs;
	int r;

	if (fstatvfs(s->cache->fd, &fs) < 0 || (uint64_t)fs.f_bavail * fs.f_frsize >= SETUP_BYTES)
		return 0;
	r = cordon_err(err, CORDON_E_SYSTEM, ENOSPC,
		       "making a guest takes %u MB of free disk for a moment, and '%s' has %u",
		       (unsigned)(SETUP_BYTES >> 20), s->cache->path,
		       (unsigned)((uint64_t)fs.f_bavail * fs.f_frsize >> 20));
	cordon_err_hint(err, "make room, or set XDG_CACHE_HOME to another disk");
	return r;
}

static int begin(struct setup *s, struct cordon_error *err)
{
	s->dir_fd = microvm_begin_dir(s->cache, s->name, sizeof(s->name));
	if (s->dir_fd < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -s->dir_fd,
				  "cannot make a directory in '%s'", s->cache->path);
	if (snprintf(s->dir, sizeof(s->dir), "%s/%s", s->cache->path, s->name) <
	    (int)sizeof(s->dir) - 64)
		return 0;
	(void)tree_remove(s->cache->fd, s->name);
	close(s->dir_fd);
	return cordon_err(err, CORDON_E_PATH, ENAMETOOLONG, "the cache directory");
}

/* Not more of the kernel than QEMU loads: its content says which kernel it is. */
static int hash_kernel(const struct setup *s, struct sha256 *sum, struct cordon_error *err)
{
	static char buf[65536];
	char path[PATH_MAX];
	ssize_t n;
	int fd, r = path_of(s, MICROVM_KERNEL, path, err);

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot read '%s'", path);
	while ((n = read_full(fd, buf, sizeof(buf))) > 0)
		sha256_add(sum, buf, (size_t)n);
	if (n == 0 && fchmod(fd, 0644) < 0)
		n = -errno;
	close(fd);
	return n < 0 ? cordon_err(err, CORDON_E_SYSTEM, (int)-n, "cannot read '%s'", path) : 0;
}

static int write_about(struct setup *s, struct cordon_error *err)
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;
	int r;

	s->image.made_s = (int64_t)time(NULL);
	json_writer_init(&w, &sb, 0);
	json_open_object(&w, NULL);
	json_string(&w, "kernel", s->image.kernel);
	json_string(&w, "agent", s->image.agent);
	json_int(&w, "made", s->image.made_s);
	json_uint(&w, "bytes", s->image.bytes);
	json_close_object(&w);
	strbuf_putc(&sb, '\n');
	r = sb.failed ? cordon_err(err, CORDON_E_NOMEM, 0, "out of memory")
		      : write_whole(s, MICROVM_ABOUT, sb.data, sb.len, err);
	strbuf_done(&sb);
	return r;
}

/* Modules and agent; @sum gets what the name is made of. */
static int make_initramfs(struct setup *s, const struct modules *modules, struct cordon_error *err)
{
	char hex[SHA256_HEX], path[PATH_MAX];
	struct strbuf sb = STRBUF_INIT;
	struct sha256 sum;
	struct stat st;
	int r;

	make_archive(s, modules, &sb);
	sha256_start(&sum);
	if (sb.failed) {
		strbuf_done(&sb);
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	}
	sha256_add(&sum, sb.data, sb.len);
	r = hash_kernel(s, &sum, err);
	if (r == 0)
		r = write_whole(s, MICROVM_INITRAMFS, sb.data, sb.len, err);
	s->image.bytes = sb.len;
	strbuf_done(&sb);
	if (r < 0)
		return r;
	sha256_end_hex(&sum, hex);
	snprintf(s->image.key, sizeof(s->image.key), "%.32s", hex);
	if (path_of(s, MICROVM_KERNEL, path, NULL) == 0 && stat(path, &st) == 0)
		s->image.bytes += (uint64_t)st.st_size;
	return 0;
}

static int fill(struct setup *s, struct cordon_error *err)
{
	static struct modules modules;
	char path[PATH_MAX], fetch[PATH_MAX];
	int r = path_of(s, MICROVM_KERNEL, path, err);

	if (r == 0)
		r = path_of(s, "fetch", fetch, err);
	if (r < 0)
		return r;
	if (mkdir(fetch, 0700) < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot make '%s'", fetch);
	if (!kernel_installed(&s->kernel)) {
		say(s, "fetching the distribution's kernel (70 MB, once)");
		r = kernel_fetch(fetch, s->quiet, &s->kernel, err);
	}
	if (r < 0)
		return r;
	snprintf(s->image.kernel, sizeof(s->image.kernel), "%s", s->kernel.release);
	say(s, "making a guest with Linux %s", s->kernel.release);
	r = kernel_extract(&s->kernel, fetch, path, err);
	if (r == 0)
		r = modules_collect(&s->kernel, fetch, &modules, err);
	if (r == 0)
		r = make_initramfs(s, &modules, err);
	modules_done(&modules);
	return r < 0 ? r : write_about(s, err);
}

/* What has the name already may be damaged; the new one takes its place, and the old one is removed
 * under the name that this one had. */
static int finish(struct setup *s, struct cordon_error *err)
{
	int r = tree_remove(s->dir_fd, "fetch");

	/* The guest's sandbox may have another user, and gets no farther than here. */
	if (r == 0 && (fchmod(s->dir_fd, 0755) < 0 || fsync(s->dir_fd) < 0))
		r = -errno;
	if (r == 0 && renameat(s->cache->fd, s->name, s->cache->fd, s->image.key) < 0 &&
	    ((errno != EEXIST && errno != ENOTEMPTY) ||
	     syscall(SYS_renameat2, s->cache->fd, s->name, s->cache->fd, s->image.key,
		     RENAME_EXCHANGE) < 0))
		r = -errno;
	if (r == 0 && fsync(s->cache->fd) < 0)
		r = -errno;
	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "cannot finish '%s'", s->dir) : 0;
}

int microvm_setup(struct cache *cache, const void *agent, size_t agent_len, int quiet,
		  struct microvm_image *ret, struct cordon_error *err)
{
	static struct setup s;
	struct sha256 sum;
	int r;

	memset(&s, 0, sizeof(s));
	s.cache = cache;
	s.agent = agent;
	s.agent_len = agent_len;
	s.quiet = quiet;
	sha256_start(&sum);
	sha256_add(&sum, agent, agent_len);
	sha256_end_hex(&sum, s.image.agent);
	s.image.is_ours = s.image.is_whole = 1;
	/* First, as it may be what there is no room for. */
	microvm_tidy(cache);
	r = check_space(&s, err);
	if (r == 0)
		r = begin(&s, err);
	if (r < 0)
		return r;
	r = fill(&s, err);
	if (r == 0)
		r = finish(&s, err);
	(void)tree_remove(cache->fd, s.name);
	close(s.dir_fd);
	if (r == 0)
		*ret = s.image;
	return r;
}

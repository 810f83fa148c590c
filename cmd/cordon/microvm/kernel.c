/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's kernel: the distribution's own, installed or fetched as a package and unpacked
 * without being installed. The kernel for clouds has no 9p, so it has to be the ordinary one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "guest.h"
#include "out.h"

#define KERNEL_PACKAGE "linux-image-amd64"
#define KERNEL_MAX ((size_t)256 << 20)
#define DEPENDS_MAX ((size_t)64 << 10)
#define PACKAGES_MAX 8

/* struct setup_header in Documentation/arch/x86/boot.rst */
#define SETUP_SECTS 0x1f1
#define SETUP_MAGIC 0x202
#define PAYLOAD_OFFSET 0x248
#define PAYLOAD_LENGTH 0x24c
#define SETUP_END 0x250

static int has_9p(const char *modules)
{
	static const char *const ends[] = { "", ".xz", ".zst", ".gz" };
	char path[PATH_MAX + 64];

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		snprintf(path, sizeof(path), "%s/kernel/fs/9p/9p.ko%s", modules, ends[i]);
		if (access(path, R_OK) == 0)
			return 1;
	}
	return 0;
}

/* The newest one in @boot whose modules are in @lib; 1, or 0. */
static int look(const char *boot, const char *lib, struct kernel *ret)
{
	DIR *dir = opendir(boot);
	const struct dirent *e;
	int n = 0;

	while (dir && (e = readdir(dir))) {
		struct kernel k;

		if (strncmp(e->d_name, "vmlinuz-", 8) != 0 ||
		    strlen(e->d_name + 8) >= sizeof(k.release))
			continue;
		snprintf(k.release, sizeof(k.release), "%s", e->d_name + 8);
		snprintf(k.image, sizeof(k.image), "%s/%s", boot, e->d_name);
		snprintf(k.modules, sizeof(k.modules), "%s/%s", lib, k.release);
		if (access(k.image, R_OK) < 0 || !has_9p(k.modules) ||
		    (n && strverscmp(k.release, ret->release) < 0))
			continue;
		*ret = k;
		n = 1;
	}
	if (dir)
		closedir(dir);
	return n;
}

int kernel_installed(struct kernel *ret)
{
	return look("/boot", "/lib/modules", ret);
}

static int no_package_tool(struct cordon_error *err)
{
	cordon_err(err, CORDON_E_UNSUPPORTED, 0,
		   "no kernel that a guest could run is installed, and there is no apt-get to "
		   "fetch one");
	cordon_err_hint(err, "install the distribution's kernel so that /boot/vmlinuz-* can be "
			     "read and /lib/modules has 9p.ko");
	return -CORDON_E_UNSUPPORTED;
}

static int fetch(const char *dir, const char *package, struct cordon_error *err)
{
	const char *argv[] = { "apt-get",  "-q",    "-o", "APT::Sandbox::User=",
			       "download", package, NULL };
	char what[160];
	int r;

	snprintf(what, sizeof(what), "fetch the package %s", package);
	r = tool_run(dir, argv, NULL, NULL, what, err);
	if (r < 0)
		cordon_err_hint(err, "apt-get update, or install %s", KERNEL_PACKAGE);
	return r;
}

/* The .deb file of @package, which lies in @dir alone by this name. */
static int deb_of(const char *dir, const char *package, char *buf, size_t size)
{
	size_t len = strlen(package);
	DIR *d = opendir(dir);
	const struct dirent *e;
	int found = 0;

	while (d && !found && (e = readdir(d))) {
		if (strncmp(e->d_name, package, len) == 0 && e->d_name[len] == '_') {
			snprintf(buf, size, "%s", e->d_name);
			found = 1;
		}
	}
	if (d)
		closedir(d);
	return found;
}

/* The packages of kernels that @deb depends on, appended to @names. */
static int add_depends(const char *dir, const char *deb, char names[][128], size_t *n,
		       struct cordon_error *err)
{
	const char *argv[] = { "dpkg-deb", "-f", deb, "Depends", NULL };
	struct strbuf sb = STRBUF_INIT;
	char path[PATH_MAX];
	int fd, r;

	r = tool_run(dir, argv, NULL, "depends", "read a package", err);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/depends", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	sb.max = DEPENDS_MAX;
	r = fd < 0 ? -errno : read_strbuf(fd, &sb);
	if (fd >= 0)
		close(fd);
	for (const char *s = r == 0 && sb.data ? sb.data : ""; *s && *n < PACKAGES_MAX;
	     s += strcspn(s, ","), s += *s == ',') {
		static const char *const kinds[] = { "linux-image-", "linux-modules-",
						     "linux-binary-", "linux-base-" };
		size_t len;

		s += strspn(s, " \n");
		len = strcspn(s, " ,(\n");
		for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
			size_t k = strlen(kinds[i]);

			/* With a number: a package of one kernel. */
			if (strncmp(s, kinds[i], k) == 0 && s[k] >= '0' && s[k] <= '9' &&
			    len < sizeof(names[0]))
				snprintf(names[(*n)++], sizeof(names[0]), "%.*s", (int)len, s);
		}
	}
	strbuf_done(&sb);
	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "cannot read a package's head") : 0;
}

int kernel_fetch(const char *dir, int quiet, struct kernel *ret, struct cordon_error *err)
{
	char names[PACKAGES_MAX][128] = { KERNEL_PACKAGE }, deb[NAME_MAX + 1];
	char boot[PATH_MAX], lib[PATH_MAX];
	size_t n = 1;
	int r = 0;

	if (!tool_is_there("apt-get") || !tool_is_there("dpkg-deb"))
		return no_package_tool(err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		const char *unpack[] = { "dpkg-deb", "-x", deb, "tree", NULL };

		if (!quiet && i > 0)
			say_line("microvm: fetching %s", names[i]);
		r = fetch(dir, names[i], err);
		if (r == 0 && !deb_of(dir, names[i], deb, sizeof(deb)))
			r = cordon_err(err, CORDON_E_SYSTEM, 0, "apt-get left no package %s",
				       names[i]);
		if (r == 0)
			r = add_depends(dir, deb, names, &n, err);
		if (r == 0)
			r = tool_run(dir, unpack, NULL, NULL, "unpack the kernel", err);
	}
	if (r < 0)
		return r;
	snprintf(boot, sizeof(boot), "%s/tree/boot", dir);
	snprintf(lib, sizeof(lib), "%s/tree/lib/modules", dir);
	if (look(boot, lib, ret))
		return 0;
	snprintf(lib, sizeof(lib), "%s/tree/usr/lib/modules", dir);
	if (look(boot, lib, ret))
		return 0;
	return cordon_err(err, CORDON_E_SYSTEM, 0, "the kernel package %s has no kernel with 9p",
			  names[n - 1]);
}

static uint32_t word_at(const char *data, size_t at)
{
	uint32_t word;

	memcpy(&word, data + at, sizeof(word));
	return word;
}

/* Where the compressed kernel lies in vmlinuz; the last four bytes are its size. */
static int find_payload(const struct strbuf *sb, size_t *ret_at, size_t *ret_len)
{
	size_t sectors, at, len;

	if (sb->len < SETUP_END || memcmp(sb->data + SETUP_MAGIC, "HdrS", 4) != 0)
		return -EINVAL;
	sectors = (unsigned char)sb->data[SETUP_SECTS];
	at = (sectors ? sectors : 4) * 512 + 512 + word_at(sb->data, PAYLOAD_OFFSET);
	len = word_at(sb->data, PAYLOAD_LENGTH);
	if (len < 8 || at > sb->len || len > sb->len - at)
		return -EINVAL;
	*ret_at = at;
	*ret_len = len - 4;
	return 0;
}

static int write_file(const char *path, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : write_full(fd, data, len);

	if (fd >= 0 && close(fd) < 0 && r == 0)
		r = -errno;
	return r;
}

static int is_elf(const char *path)
{
	char magic[4] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int is = fd >= 0 && read_full(fd, magic, sizeof(magic)) == sizeof(magic) &&
		 memcmp(magic, "\177ELF", 4) == 0;

	if (fd >= 0)
		close(fd);
	return is;
}

int kernel_extract(const struct kernel *kernel, const char *dir, const char *path,
		   struct cordon_error *err)
{
	const char *argv[] = { NULL, "-dc", NULL };
	struct strbuf sb = STRBUF_INIT;
	size_t at = 0, len = 0;
	char payload[PATH_MAX];
	int r, fd = open(kernel->image, O_RDONLY | O_CLOEXEC);

	sb.max = KERNEL_MAX;
	r = fd < 0 ? -errno : read_strbuf(fd, &sb);
	if (fd >= 0)
		close(fd);
	if (r == 0)
		r = find_payload(&sb, &at, &len);
	snprintf(payload, sizeof(payload), "%s/payload", dir);
	if (r == 0) {
		argv[0] = tool_for((unsigned char *)sb.data + at);
		r = argv[0] ? write_file(payload, sb.data + at, len) : -EINVAL;
	}
	strbuf_done(&sb);
	if (r < 0)
		return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot read the kernel '%s'",
				  kernel->image);
	r = tool_run(dir, argv, "payload", path, "decompress the kernel", err);
	if (r == 0 && !is_elf(path))
		r = cordon_err(err, CORDON_E_SYSTEM, 0, "'%s' is no kernel that QEMU can start",
			       kernel->image);
	return r;
}

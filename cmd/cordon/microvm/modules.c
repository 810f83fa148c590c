/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel modules that the guest needs. A package that was only unpacked has no modules.dep, but
 * each module says itself what it depends on (section .modinfo).
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "guest.h"

#define MODULE_FILE_MAX ((size_t)32 << 20)
#define BUILTIN_MAX ((size_t)4 << 20)
#define DEPTH_MAX 12

/* How the machine's devices are found, the ports, and the files. */
static const char *const wanted[] = { "virtio_mmio", "virtio_console", "9pnet_virtio", "9p" };

struct collect {
	const struct kernel *kernel;
	const char *dir;
	struct strbuf builtin;
	struct modules *ret;
	struct cordon_error *err;
};

/* "virtio_mmio" and "virtio-mmio.ko.xz" are one module. */
static int is_named(const char *file, const char *name)
{
	size_t i;

	for (i = 0; name[i]; i++) {
		char a = file[i] == '-' ? '_' : file[i], b = name[i] == '-' ? '_' : name[i];

		if (a != b)
			return 0;
	}
	return strncmp(file + i, ".ko", 3) == 0 && (file[i + 3] == '\0' || file[i + 3] == '.');
}

static int find(const char *dir, const char *name, char *ret, int depth)
{
	DIR *d = depth < DEPTH_MAX ? opendir(dir) : NULL;
	const struct dirent *e;
	int found = 0;

	while (d && !found && (e = readdir(d))) {
		char path[PATH_MAX];

		if (e->d_name[0] == '.' ||
		    snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) >= (int)sizeof(path))
			continue;
		if (e->d_type == DT_DIR) {
			found = find(path, name, ret, depth + 1);
		} else if (e->d_type == DT_REG && is_named(e->d_name, name)) {
			snprintf(ret, PATH_MAX, "%s", path);
			found = 1;
		}
	}
	if (d)
		closedir(d);
	return found;
}

static int read_file(const char *path, size_t max, struct strbuf *sb)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	sb->max = max;
	r = read_strbuf(fd, sb);
	close(fd);
	return r;
}

static int read_module(struct collect *c, const char *path, struct strbuf *sb)
{
	const char *argv[] = { NULL, "-dc", NULL };
	char plain[PATH_MAX];
	int r = read_file(path, MODULE_FILE_MAX, sb);

	if (r < 0 || sb->len < 4)
		return cordon_err(c->err, CORDON_E_SYSTEM, -r, "cannot read the module '%s'", path);
	argv[0] = tool_for((unsigned char *)sb->data);
	if (!argv[0])
		return 0;
	strbuf_done(sb);
	r = tool_run(c->dir, argv, path, "module", "decompress a module", c->err);
	if (r < 0)
		return r;
	snprintf(plain, sizeof(plain), "%s/module", c->dir);
	r = read_file(plain, MODULE_FILE_MAX, sb);
	return r < 0 ? cordon_err(c->err, CORDON_E_SYSTEM, -r, "cannot read the module '%s'", path)
		     : 0;
}

/* The text behind "depends=" in .modinfo, NULL if there is none. */
static const char *depends_of(const struct strbuf *sb)
{
	const Elf64_Ehdr *eh = (const void *)sb->data;

	if (sb->len < sizeof(*eh) || memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0 ||
	    eh->e_shentsize != sizeof(Elf64_Shdr) || eh->e_shoff > sb->len ||
	    eh->e_shnum > (sb->len - eh->e_shoff) / sizeof(Elf64_Shdr))
		return NULL;
	for (size_t i = 0; i < eh->e_shnum; i++) {
		const char *p, *end;
		Elf64_Shdr sh;

		memcpy(&sh, sb->data + eh->e_shoff + i * sizeof(sh), sizeof(sh));
		if (sh.sh_type != SHT_PROGBITS || !sh.sh_size || sh.sh_offset > sb->len ||
		    sh.sh_size > sb->len - sh.sh_offset ||
		    sb->data[sh.sh_offset + sh.sh_size - 1] != '\0')
			continue;
		end = sb->data + sh.sh_offset + sh.sh_size;
		for (p = sb->data + sh.sh_offset; p < end; p += strlen(p) + 1)
			if (strncmp(p, "depends=", 8) == 0)
				return p + 8;
	}
	return NULL;
}

static int is_there(const struct modules *m, const char *name)
{
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->v[i].name, name) == 0)
			return 1;
	return 0;
}

static int is_builtin(const struct collect *c, const char *name)
{
	for (const char *s = c->builtin.data; s && *s; s += strcspn(s, "\n"), s += *s == '\n') {
		size_t len = strcspn(s, "\n");
		const char *slash = memrchr(s, '/', len);

		if (slash && is_named(slash + 1, name))
			return 1;
	}
	return 0;
}

static int collect(struct collect *c, const char *name, int depth);

static int collect_all(struct collect *c, const char *list, int depth)
{
	int r = 0;

	for (; r == 0 && *list; list += strcspn(list, ","), list += *list == ',') {
		char name[sizeof(c->ret->v[0].name)];
		size_t len = strcspn(list, ",");

		if (len == 0 || len >= sizeof(name))
			return cordon_err(c->err, CORDON_E_SYSTEM, 0,
					  "a kernel module depends on something unknown");
		memcpy(name, list, len);
		name[len] = '\0';
		r = collect(c, name, depth);
	}
	return r;
}

/* Depth first: what it needs stands before it. */
static int collect(struct collect *c, const char *name, int depth)
{
	struct strbuf sb = STRBUF_INIT;
	struct module *m;
	char path[PATH_MAX];
	const char *depends;
	int r;

	if (is_there(c->ret, name) || is_builtin(c, name))
		return 0;
	if (depth > DEPTH_MAX || !find(c->kernel->modules, name, path, 0))
		return cordon_err(c->err, CORDON_E_SYSTEM, 0, "kernel %s has no module %s",
				  c->kernel->release, name);
	r = read_module(c, path, &sb);
	depends = r == 0 ? depends_of(&sb) : NULL;
	if (depends)
		r = collect_all(c, depends, depth + 1);
	if (r == 0 && c->ret->n == MODULES_MAX)
		r = cordon_err(c->err, CORDON_E_SYSTEM, 0, "the guest needs too many modules");
	if (r < 0) {
		strbuf_done(&sb);
		return r;
	}
	m = &c->ret->v[c->ret->n++];
	snprintf(m->name, sizeof(m->name), "%s", name);
	m->len = sb.len;
	m->data = strbuf_take(&sb);
	return 0;
}

int modules_collect(const struct kernel *kernel, const char *dir, struct modules *ret,
		    struct cordon_error *err)
{
	struct collect c = {
		.kernel = kernel, .dir = dir, .builtin = STRBUF_INIT, .ret = ret, .err = err
	};
	char path[PATH_MAX + 32];
	int r = 0;

	snprintf(path, sizeof(path), "%s/modules.builtin", kernel->modules);
	/* Without it a module that is built in is reported as missing, which is an error, too. */
	(void)read_file(path, BUILTIN_MAX, &c.builtin);
	for (size_t i = 0; r == 0 && i < sizeof(wanted) / sizeof(*wanted); i++)
		r = collect(&c, wanted[i], 0);
	strbuf_done(&c.builtin);
	return r;
}

void modules_done(struct modules *modules)
{
	for (size_t i = 0; i < modules->n; i++)
		free(modules->v[i].data);
	modules->n = 0;
}

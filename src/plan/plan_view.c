/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the view that is the same for every command: system directories, /etc, /proc, /dev
 * and the private directories.
 *
 * Each step costs about ten microseconds of a start of a millisecond, so the lists are short and
 * fixed, one system call decides about each entry, and small files are copied instead of mounted.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "plan/plan_internal.h"

#define COPY_MAX ((size_t)8 << 10)

/* Programs and libraries. */
static const char *const system_dirs[] = {
	"/usr", /* everything, today */
	"/bin", /* on a merged-/usr system a link, like the next ones */
	"/sbin",      "/lib",	 "/lib64",
	"/lib32",     "/libx32", "/nix/store", /* NixOS keeps everything there */
	"/gnu/store",			       /* Guix too */
};

enum etc_how {
	ETC_DIR,
	ETC_FILE,
	ETC_COPY, /* a file that is mostly small enough to be copied, which is cheaper */
};

static const char pki[] = "/etc/pki", jvm[] = "/usr/lib/jvm";

/*
 * What of /etc programs need to work as they do outside; links are recreated. The second part are
 * the settings that a distribution takes out of a program's own tree, and without which it does not
 * start or forgets what it must not do. They are shown to every command: a shell or make may start
 * the program. No directory of a service stands here, for those may hold passwords and keys.
 */
static const struct {
	const char *path;
	int how;
	const char *only_if; /* entries that most machines do not have, behind one question */
} etc_entries[] = {
	{ "/etc/ld.so.cache", ETC_FILE, NULL },	    /* libraries outside the default directories */
	{ "/etc/alternatives", ETC_DIR, NULL },	    /* awk, editor: links in /usr/bin lead here */
	{ "/etc/localtime", ETC_FILE, NULL },	    /* time zone */
	{ "/etc/os-release", ETC_COPY, NULL },	    /* pip, uv, installers choose by it */
	{ "/etc/gitconfig", ETC_COPY, NULL },	    /* system-wide git settings */
	{ "/etc/ssl/certs", ETC_DIR, NULL },	    /* certificates: Debian, Alpine, SUSE */
	{ "/etc/ssl/openssl.cnf", ETC_FILE, NULL }, /* the library's defaults */
	{ "/etc/pki/tls/certs", ETC_DIR, pki },	    /* certificates: Fedora */
	{ "/etc/pki/ca-trust", ETC_DIR, pki },
	{ "/etc/ca-certificates/extracted", ETC_DIR, NULL }, /* certificates: Arch */
	{ "/etc/fonts", ETC_DIR, NULL },		     /* fontconfig fails without */
	{ "/etc/java-11-openjdk", ETC_DIR, jvm },	     /* links of the JDK lead here */
	{ "/etc/java-17-openjdk", ETC_DIR, jvm },
	{ "/etc/java-21-openjdk", ETC_DIR, jvm },
	{ "/etc/java-25-openjdk", ETC_DIR, jvm },
	{ "/etc/manpath.config", ETC_COPY, NULL }, /* man fails without, and so does git help */
	{ "/etc/R", ETC_DIR, NULL },		   /* R finds no packages without */
	{ "/etc/ImageMagick-6", ETC_DIR, NULL },   /* policy.xml: what may not be converted */
	{ "/etc/ImageMagick-7", ETC_DIR, NULL },
	{ "/etc/libreoffice", ETC_DIR, NULL }, /* its registry */
	{ "/etc/chromium.d", ETC_DIR, NULL },  /* /usr/bin/chromium stops without */
	{ "/etc/php", ETC_DIR, NULL },	       /* which extensions are loaded */
	{ "/etc/texmf", ETC_DIR, NULL },
};

/* The same for what packages have made when they were installed. */
static const char *const var_dirs[] = { "/var/lib/texmf" }; /* formats: pdflatex.fmt */

/* Read as they are where no file can be put in their place (level landlock). */
static const char *const etc_real[] = {
	"/etc/passwd",	    "/etc/group",     "/etc/hosts",    "/etc/nsswitch.conf",
	"/etc/resolv.conf", "/etc/host.conf", "/etc/hostname", "/etc/debian_version",
};

static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random",
				       "/dev/urandom" };
#define DEV_TTY "/dev/tty"
#define RIGHTS_DEVICE (LL_FS_READ_FILE | LL_FS_WRITE_FILE | LL_FS_IOCTL_DEV)

uint64_t plan_rights(const struct build *b, uint64_t wanted, bool is_dir)
{
	wanted &= b->in->machine->landlock_fs;
	return is_dir ? wanted : wanted & LL_FS_FILE_RIGHTS;
}

bool plan_in_common(const struct build *b, const char *path)
{
	for (size_t i = 0; i < b->n_common; i++) {
		if (path_is_within(b->common[i].path, path))
			return true;
	}
	return false;
}

static int make_dir(struct build *b, const char *path, unsigned mode, uint64_t access)
{
	struct step *step;

	if (strlist_has(&b->made, path))
		return 0;
	step = plan_step(b, PLAN_OP_DIR, path, NULL);
	if (!step)
		return plan_nomem(b);
	step->op.mode = mode;
	step->op.access = plan_rights(b, access, true);
	return plan_list_add(b, &b->made, path);
}

int plan_make_parents(struct build *b, const char *path)
{
	for (const char *s = strchr(path + 1, '/'); s; s = strchr(s + 1, '/')) {
		const char *dir = arena_strndup(b->arena, path, (size_t)(s - path));
		int r;

		if (!dir)
			return plan_nomem(b);
		r = make_dir(b, dir, 0755, 0);
		if (r < 0)
			return r;
	}
	return 0;
}

static int make_link(struct build *b, const char *path, const char *text)
{
	int r = plan_make_parents(b, path);

	if (r < 0)
		return r;
	if (!plan_step(b, PLAN_OP_SYMLINK, path, text))
		return plan_nomem(b);
	return plan_list_add(b, &b->made, path);
}

static int make_file(struct build *b, const char *path, const char *text)
{
	struct step *step;
	int r = plan_make_parents(b, path);

	if (r < 0)
		return r;
	step = plan_step(b, PLAN_OP_FILE, path, text);
	if (!step)
		return plan_nomem(b);
	step->op.mode = 0644;
	step->op.data_len = (uint32_t)strlen(text);
	return plan_list_add(b, &b->made, path);
}

static int bind_common(struct build *b, const char *path, bool is_dir, uint64_t access)
{
	struct common_mount *mount;
	struct step *step;
	int r = plan_make_parents(b, path);

	if (r < 0)
		return r;
	step = plan_step(b, PLAN_OP_BIND, path, path);
	mount = PLAN_ADD(b, common, n_common, cap_common);
	if (!step || !mount)
		return plan_nomem(b);
	step->op.flags = (uint16_t)(PLAN_RDONLY | PLAN_MKPOINT | (is_dir ? 0 : PLAN_FILE));
	step->op.mode = is_dir ? 0755 : 0644;
	step->op.access = plan_rights(b, access, is_dir);
	mount->path = path;
	return plan_list_add(b, &b->made, path);
}

/* What lies at @path: recreated if it is a link, mounted if not, skipped if there is nothing. */
static int add_system(struct build *b, const char *path, bool is_dir, uint64_t access)
{
	char text[PATH_MAX];
	ssize_t len;
	char *copy;

	if (plan_is_denied(b, path))
		return 0;
	len = readlink(path, text, sizeof(text));
	if (len > 0 && len < (ssize_t)sizeof(text)) {
		copy = arena_strndup(b->arena, text, (size_t)len);
		return copy ? make_link(b, path, copy) : plan_nomem(b);
	}
	/* EINVAL: it is there and not a link. */
	if (len >= 0 || errno != EINVAL)
		return 0;
	return bind_common(b, path, is_dir, access);
}

static const char *user_database(struct build *b, unsigned uid, unsigned gid)
{
	const char *home = strpbrk(b->home, ":\n") ? "/" : b->home;

	return arena_printf(b->arena,
			    "root:x:0:0:root:/root:/bin/sh\n"
			    "%s:x:%u:%u:%s:%s:/bin/sh\n"
			    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
			    b->user_name, uid, gid, b->user_name, home);
}

static int add_synthetic(struct build *b)
{
	unsigned uid = b->is_root ? 1000 : b->in->machine->uid;
	unsigned gid = b->is_root ? 1000 : b->in->machine->gid;
	const char *passwd = user_database(b, uid, gid);
	const char *group = arena_printf(b->arena, "root:x:0:\n%s:x:%u:\nnogroup:x:65534:\n",
					 b->user_name, gid);
	/* Programs built with musl wait for an answer even where they were told that there is none.
	 */
	const char *no_servers = "# no network\noptions timeout:1 attempts:1\n";
	const struct {
		const char *path, *text;
	} files[] = {
		{ "/etc/passwd", passwd },
		{ "/etc/group", group },
		{ "/etc/hosts", "127.0.0.1 localhost cordon\n::1 localhost\n" },
		/* Any address would do: all of them lead to the gateway. */
		{ "/etc/resolv.conf", plan_has_egress(b) ? "nameserver 198.18.0.1\n" : no_servers },
		{ "/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n" },
		{ "/etc/hostname", "cordon\n" },
	};
	int r = 0;

	if (!passwd || !group)
		return plan_nomem(b);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(files); i++)
		r = make_file(b, files[i].path, files[i].text);
	return r;
}

static int add_etc_entry(struct build *b, size_t i)
{
	const char *path = etc_entries[i].path;
	const char *text;

	if (etc_entries[i].how == ETC_COPY && !plan_is_denied(b, path)) {
		text = plan_read_small(b, path, COPY_MAX);
		if (text)
			return make_file(b, path, text);
		if (errno == ENOENT)
			return 0;
	}
	return add_system(b, path, etc_entries[i].how == ETC_DIR, 0);
}

static int add_etc(struct build *b)
{
	int r = make_dir(b, "/etc", 0755, RIGHTS_READ);
	bool is_there = false;

	/* The real one covers all of it. */
	if (r < 0 || plan_grant_of(b, "/etc", false))
		return r;
	r = add_synthetic(b);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(etc_entries); i++) {
		const char *needs = etc_entries[i].only_if;

		/* Neighbours have the same need: one question for all of them. */
		if (needs && (i == 0 || etc_entries[i - 1].only_if != needs))
			is_there = access(needs, F_OK) == 0;
		if (!needs || is_there)
			r = add_etc_entry(b, i);
	}
	return r;
}

/* Not the right to connect to sockets of others (LL_FS_RESOLVE_UNIX): grants below the home
 * directory or /tmp would have it, too. The run's own sockets need none. */
uint64_t plan_private_rights(const struct build *b)
{
	return plan_rights(b, (b->is_commands ? RIGHTS_READ : RIGHTS_RUN) | RIGHTS_WRITE, true);
}

static int add_private(struct build *b, const char *path, unsigned mode)
{
	struct step *step;
	int r = plan_make_parents(b, path);

	if (r < 0)
		return r;
	step = plan_step(b, PLAN_OP_PRIVATE, path, NULL);
	if (!step)
		return plan_nomem(b);
	if (b->is_commands)
		step->op.flags = PLAN_NOEXEC;
	step->op.mode = mode;
	step->op.access = plan_private_rights(b);
	return plan_list_add(b, &b->made, path);
}

static int add_device(struct build *b, const char *path)
{
	struct step *step = plan_step(b, PLAN_OP_BIND, path, path);

	if (!step)
		return plan_nomem(b);
	step->op.flags = PLAN_FILE | PLAN_DEVICE | PLAN_MKPOINT;
	step->op.mode = 0666;
	return plan_list_add(b, &b->made, path);
}

/* It leads to the terminal of the process that opens it, never to the caller's. */
static bool has_tty(void)
{
	return access(DEV_TTY, F_OK) == 0;
}

static int add_dev(struct build *b)
{
	static const struct {
		const char *path, *text;
	} links[] = {
		{ "/dev/fd", "/proc/self/fd" },	      { "/dev/stdin", "/proc/self/fd/0" },
		{ "/dev/stdout", "/proc/self/fd/1" }, { "/dev/stderr", "/proc/self/fd/2" },
		{ "/dev/ptmx", "pts/ptmx" },
	};
	struct step *pts;
	int r = make_dir(b, "/dev", 0755, RIGHTS_READ | LL_FS_WRITE_FILE | LL_FS_IOCTL_DEV);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(devices); i++)
		r = add_device(b, devices[i]);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(links); i++)
		r = make_link(b, links[i].path, links[i].text);
	if (r < 0)
		return r;
	pts = plan_step(b, PLAN_OP_DEVPTS, "/dev/pts", NULL);
	if (!pts)
		return plan_nomem(b);
	pts->op.mode = 0755;
	if (b->in->options->terminal && has_tty())
		r = add_device(b, DEV_TTY);
	return r < 0 ? r : add_private(b, "/dev/shm", 01777);
}

static int add_proc(struct build *b)
{
	struct step *step = plan_step(b, PLAN_OP_PROC, "/proc", NULL);

	if (!step)
		return plan_nomem(b);
	step->op.mode = 0555;
	/* Writing: /proc/self/oom_score_adj, comm and the like; procfs itself decides. NVIDIA's
	 * library opens comm of its threads with O_TRUNC, which changes nothing in procfs, and
	 * gives up if that is refused. */
	step->op.access = plan_rights(
		b, RIGHTS_READ | LL_FS_WRITE_FILE | (plan_has_nvidia(b) ? LL_FS_TRUNCATE : 0),
		true);
	return 0;
}

static bool is_grant_within(const struct build *b, const char *dir)
{
	for (size_t i = 0; i < b->n_grants; i++) {
		if (!b->grants[i]->is_dropped && path_is_within(dir, b->grants[i]->real))
			return true;
	}
	return false;
}

/* A link is cheaper, but a grant of it or below it needs a real directory. */
bool plan_var_tmp_is_link(const struct build *b)
{
	return !is_grant_within(b, "/var/tmp") && !plan_is_below("/var/tmp", b->home_real);
}

/* PostgreSQL as Debian and others build it makes its socket there and has no other default. */
#define POSTGRES_RUN "/run/postgresql"

/* /run is read-only and empty: what looks for it as /var/run finds it, and a database its place. */
static int add_run(struct build *b)
{
	int r = make_dir(b, "/run", 0755, 0);

	if (r == 0 && !is_grant_within(b, "/var/run"))
		r = make_link(b, "/var/run", "/run");
	if (r < 0 || is_grant_within(b, POSTGRES_RUN) || plan_grant_of(b, "/tmp", false) ||
	    plan_is_denied(b, POSTGRES_RUN) || access(POSTGRES_RUN, F_OK) < 0)
		return r;
	return make_link(b, POSTGRES_RUN, "/tmp");
}

static int add_private_dirs(struct build *b)
{
	int r = plan_keeps_tmp(b) ? make_dir(b, "/tmp", 0755, 0) : add_private(b, "/tmp", 01777);

	if (r == 0)
		r = make_dir(b, "/var", 0755, 0);
	if (r == 0)
		r = add_run(b);
	if (r < 0)
		return r;
	if (plan_var_tmp_is_link(b))
		r = make_link(b, "/var/tmp", "/tmp");
	else
		r = add_private(b, "/var/tmp", 01777);
	if (r < 0 || plan_grant_of(b, b->home_real, false) || plan_keeps_home(b))
		return r;
	if (!plan_is_below("/tmp", b->home_real) && !plan_is_below("/var/tmp", b->home_real))
		return add_private(b, b->home_real, 0700);
	r = plan_make_parents(b, b->home_real);
	return r < 0 ? r : make_dir(b, b->home_real, 0700, 0);
}

int plan_system_view(struct build *b)
{
	struct step *root = plan_step(b, PLAN_OP_DIR, "/", NULL);
	int r = 0;

	if (!root)
		return plan_nomem(b);
	root->op.mode = 0755;
	/* Names on the root tmpfs are no secret: everything there was put there for the command. */
	root->op.access = plan_rights(b, LL_FS_READ_DIR, true);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(system_dirs); i++)
		r = add_system(b, system_dirs[i], true, b->is_commands ? 0 : RIGHTS_RUN);
	if (r == 0)
		r = add_etc(b);
	if (r == 0)
		r = add_proc(b);
	if (r == 0)
		r = add_dev(b);
	if (r == 0)
		r = add_private_dirs(b);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(var_dirs); i++)
		r = add_system(b, var_dirs[i], true, RIGHTS_READ);
	return r;
}

static int add_rule(struct build *b, const char *path, uint64_t access, bool is_dir)
{
	struct step *step = plan_step(b, PLAN_OP_RULE, NULL, path);

	if (!step)
		return plan_nomem(b);
	step->op.flags = is_dir ? 0 : PLAN_FILE;
	step->op.access = plan_rights(b, access, is_dir);
	return 0;
}

/* Level landlock: the same as grants, so that fs.deny can leave something out of them. */
static int grant_system(struct build *b, const char *path)
{
	struct resolved res;

	if (plan_resolve(b, path, &res) < 0 || res.missing ||
	    (!S_ISDIR(res.st.st_mode) && !S_ISREG(res.st.st_mode)) ||
	    plan_grant_of(b, res.real, false))
		return 0;
	return plan_add_grant(b, res.real, GRANT_SYSTEM, false, NULL);
}

int plan_system_rules(struct build *b)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(system_dirs); i++)
		r = grant_system(b, system_dirs[i]);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(etc_entries); i++)
		r = grant_system(b, etc_entries[i].path);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(var_dirs); i++)
		r = grant_system(b, var_dirs[i]);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(etc_real); i++)
		r = grant_system(b, etc_real[i]);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(devices); i++)
		r = add_rule(b, devices[i], RIGHTS_DEVICE, false);
	if (r == 0 && b->in->options->terminal && has_tty())
		r = add_rule(b, DEV_TTY, RIGHTS_DEVICE, false);
	/* Other processes' files there stay closed: Landlock allows no ptrace access out. */
	if (r == 0)
		r = add_rule(b, "/proc", RIGHTS_READ, true);
	if (r == 0 && !b->in->is_self && !b->in->private_dir)
		r = add_rule(b, b->in->tmpdir, plan_private_rights(b), true);
	return r == 0 ? plan_private_rules(b) : r;
}

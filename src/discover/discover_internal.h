/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/discover. Helpers return 0 or -errno and set no message; functions that can tell the
 * user what is wrong (those that find a program) return -CORDON_E_*.
 */
#ifndef DISCOVER_DISCOVER_INTERNAL_H
#define DISCOVER_DISCOVER_INTERNAL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/path.h"
#include "discover/discover.h"

/* How much of a file is read at once: what the kernel reads of a `#!` line, and the program headers
 * and the interpreter's name of nearly every ELF file. */
#define DISCOVER_HEAD_MAX 2048
#define DISCOVER_SHEBANG_MAX 256 /* BINPRM_BUF_SIZE since Linux 5.1 */

struct discover_ctx {
	struct arena *arena;
	const struct discover_input *in;
	const char *search_path;
	struct cordon_error *err;

	/* Collecting exact files instead of grants. */
	bool files_only;
	struct strlist exec_files;

	struct discover_grant grants[DISCOVER_GRANTS_MAX];
	size_t n_grants;
	struct strlist path_dirs;

	unsigned depth;		/* interpreters of interpreters */
	bool derived;		/* named by a file or link that others may have written */
	const char *venv_asked; /* the prefix last searched for a pyvenv.cfg */
};

/* One symbolic link that stood on a path. */
struct discover_hop {
	const char *path;
	bool is_file; /* it was the last component: it stands for the file */
};

struct discover_resolved {
	const char *real;
	bool magic; /* led through /proc: the path means something else inside */
	size_t n_hops;
	struct discover_hop hops[DISCOVER_HOPS_MAX];
};

/* disk.c: the only system calls of this module. */
int disk_stat(const char *path, struct stat *ret);
bool disk_exists(const char *path);			     /* does not follow a link */
bool disk_is_dir(const char *path);			     /* does not follow a link */
bool disk_is_file(const char *path);			     /* does not follow a link */
int disk_readlink(const char *path, char *ret, size_t size); /* length; the result is terminated */
int disk_open(const char *path, int flags);
int disk_read_at(int fd, uint64_t offset, void *ret, size_t size); /* bytes read */
int disk_fd_path(int fd, char *ret, size_t size);		   /* real path of an open file */
int disk_can_execute(const char *path, const struct stat *st);
void disk_close(int *fd);

/* links.c */
/*
 * Follows @path (absolute) link by link and grants the links. @hint, if not NULL, is what the
 * kernel says the real path is; it saves checking components that cannot be links.
 */
int links_resolve(struct discover_ctx *ctx, const char *path, const char *hint,
		  struct discover_resolved *ret);
/* The same for a directory that may be missing (-ENOENT) or be something else (-ENOTDIR). */
int links_resolve_dir(struct discover_ctx *ctx, const char *path, const char **ret_real);

/* grants.c */
bool grants_is_system(const char *path);
bool grants_is_standard_bin(const char *dir, size_t len);
int grants_tree(struct discover_ctx *ctx, const char *path); /* not checked: see prefix.c */
int grants_file(struct discover_ctx *ctx, const char *path);
int grants_link(struct discover_ctx *ctx, const char *path, const char *target);
int grants_path_dir(struct discover_ctx *ctx, const char *program);
int grants_finish(struct discover_ctx *ctx, struct discover_result *ret);

/* prefix.c */
/* Length of P if @path is P/bin/x (or another directory of programs), else 0. */
size_t prefix_len(const char *path);
/* Grants what the program with the real path @real needs of its installation. */
int prefix_grant(struct discover_ctx *ctx, const char *real);
/* The same for a library or ELF interpreter outside the system directories. */
int prefix_grant_loader(struct discover_ctx *ctx, const char *real);
/* Grants the directory @path, if it exists and its real path is allowed. */
int prefix_grant_dir(struct discover_ctx *ctx, const char *path);
/* The directories @names of @prefix, up to a NULL; none to which a link leads out of it. */
int prefix_grant_parts(struct discover_ctx *ctx, const char *prefix, const char *const *names,
		       size_t n);
/* Does something lie there that only projects have? */
bool prefix_is_project(struct discover_ctx *ctx, const char *prefix);
/* Grants an installation's @prefix, and for an environment of conda its base; not checked. */
int prefix_grant_whole(struct discover_ctx *ctx, const char *prefix);
/* Grants the programs in @cargo (a real path), not what lies beside them. */
int prefix_grant_cargo(struct discover_ctx *ctx, const char *cargo);
/* Is it called as directories of programs are? */
bool prefix_is_program_dir(const char *name);

/* known_dirs.c */
/* Is this a directory that a version manager fills with installations? */
bool known_dirs_is_managed(const char *home, const char *real_path);
/* What follows the home directory in @path ("" for the home itself); NULL outside of homes. */
const char *known_dirs_below_home(const char *home, const char *path);

/* runtimes.c: what certain tools need besides their prefix. */
int runtimes_grant(struct discover_ctx *ctx, const char *real, bool is_script);
const char *runtimes_companion(const char *program);

/* venv.c */
int venv_check_program(struct discover_ctx *ctx, const char *program);
int venv_check_workspace(struct discover_ctx *ctx);
/* Grants the base Python, if @prefix is a virtual environment: 1, 0 = it is none. */
int venv_follow(struct discover_ctx *ctx, const char *prefix);
/* The same, and grants what belongs to the environment in @prefix, an allowed real path. */
int venv_show(struct discover_ctx *ctx, const char *prefix);

/* toolchains.c */
/* Shows the tool chains in the caller's PATH, and fills `search`. -ENOMEM */
int toolchains_add(struct discover_ctx *ctx, struct discover_result *res);

/* missing.c */
/* Sets the error for a name that PATH does not have, with what was probably meant. */
int missing_name(struct discover_ctx *ctx, const char *name);
/* The usual interpreter of a script with this name, NULL if the name does not tell. */
const char *missing_interpreter(const char *name);

/* search.c */
/* What the caller typed, as an absolute path of something executable; -CORDON_E_*. */
int search_program(struct discover_ctx *ctx, const char *command, const char **ret_path);
/* Takes the next absolute entry off *@path; false at the end. */
bool search_next_dir(const char **path, const char **ret_dir, size_t *ret_len);
/* A name without a slash in PATH: -ENOENT, -EACCES (found, but not executable). */
int search_name(struct discover_ctx *ctx, const char *name, const char **ret_path);

/* program.c */
struct program_location {
	const char *real;
	bool magic;    /* see struct discover_resolved */
	bool is_blind; /* may be executed, not read */
	int fd;	       /* the caller closes it, also after a failure */
};
/* Opens the executable at @path (absolute) and grants its links and its installation. */
int program_locate(struct discover_ctx *ctx, const char *path, struct program_location *ret);
/*
 * The same with the interpreters it needs; -CORDON_E_*. *ret_exec_path (may be NULL) is @path, or
 * the real path if @path means something else inside.
 */
int program_add(struct discover_ctx *ctx, const char *path, const char **ret_exec_path);
/* Turns -errno into an error about the program at @path. */
int program_fail(struct discover_ctx *ctx, int rc, const char *path);

/* elf.c */
enum elf_verdict {
	ELF_FINE,
	ELF_32BIT,
	ELF_FOREIGN,
	ELF_NO_PROGRAM,
	ELF_BROKEN,
};
bool elf_is_elf(const void *head, size_t len);
/* @head: the first bytes of the file. *ret_interp is NULL for a static program. */
int elf_inspect(struct arena *arena, int fd, const void *head, size_t len, const char **ret_interp);

/* shebang.c */
struct shebang {
	const char *interp; /* NULL: the file has no usable `#!` line */
	const char *arg;    /* NULL: none */
	bool is_crlf;	    /* the line ends in CR LF; the CR is part of arg or interp */
	bool is_cut;	    /* the interpreter's name does not fit into what the kernel reads */
};
/* True if the file starts with `#!`. -ENOMEM */
int shebang_parse(struct arena *arena, const void *head, size_t len, struct shebang *ret);
/* The program that an `env` line starts; NULL if there is none or it is not clear. */
int shebang_env_name(struct arena *arena, const char *arg, const char **ret_name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Package layers. Theory of operation:
 *
 *	PACKAGES/KEY/		a layer, complete
 *		manifest.json	what was asked for, what was installed
 *		tree/		what runs see, read-only
 *	PACKAGES/.new-KEY/	one that is being made
 *		private/	/tmp and home of the installer's sandbox
 *	PACKAGES/.old-KEY/	one that is being removed
 *	PACKAGES/lock-KEY	locked shared while a run uses the layer, exclusively while it is
 *made or removed; its time of change is the time of last use PACKAGES/python-HASH	what an
 *interpreter said about itself
 *
 * KEY is a hash of everything that decides what is installed: the requirements, interpreter and
 * platform, index, options. A layer is renamed to KEY when it is complete, so whatever is called
 * KEY can be used. PACKAGES is ours alone (0700), and no run can write there (plan_packages.c).
 *
 * What the installer left was made by code of others: it is opened without following links, and
 * nothing of it is executed or imported on the host.
 */
#ifndef PACKAGES_PACKAGES_H
#define PACKAGES_PACKAGES_H

#include <stdbool.h>
#include <stdint.h>

#include <cordon/packages.h>

#include "base/arena.h"
#include "base/sha256.h"
#include "base/strbuf.h"

#define MANIFEST "manifest.json"
#define MANIFEST_MAX ((size_t)4 << 20)
#define LOCK_PREFIX "lock-"
#define NEW_PREFIX ".new-"
#define OLD_PREFIX ".old-"
#define KEY_SIZE 48 /* "pip-" and 40 digits */

#define NO_PIP 77 /* exit status of what follows, if there is no pip */

/* Part of a Python program: pip may be installed, or come with the interpreter as a wheel. */
#define PACKAGES_FIND_PIP                                                                          \
	"try:\n"                                                                                   \
	"    import pip\n"                                                                         \
	"except ImportError:\n"                                                                    \
	"    places = ['/usr/share/python-wheels']\n"                                              \
	"    try:\n"                                                                               \
	"        import ensurepip\n"                                                               \
	"        places[:0] = [os.path.join(os.path.dirname(ensurepip.__file__), '_bundled')]\n"   \
	"    except ImportError:\n"                                                                \
	"        pass\n"                                                                           \
	"    wheels = [w for p in places for w in sorted(glob.glob(p + '/pip-*.whl'))]\n"          \
	"    if not wheels:\n"                                                                     \
	"        sys.exit(77)\n"                                                                   \
	"    sys.path.insert(0, wheels[0])\n"                                                      \
	"    import pip\n"

enum installer {
	INSTALLER_PIP,
	INSTALLER_NPM,
	INSTALLER_MAX
};

/* cache.c: the directory. */
struct cache {
	char path[4096];
	int fd;
};

/* @what: CACHE_PACKAGES or another of base/cache_path.h. *ret->fd is -1 if it does not exist and
 * @make is false. */
int cache_open(const char *what, bool make, struct cache *ret, struct cordon_error *err);
void cache_close(struct cache *cache);
/* Replaces a small file in one step. 0 or -errno. */
int cache_write(int dir_fd, const char *name, const void *data, size_t len);
/* Appends a regular file of at most @max bytes, never through a link. 0 or -errno. */
int cache_read(int dir_fd, const char *name, size_t max, struct strbuf *ret);
bool is_key(const char *name);

/* lock.c: one layer's lock. */
enum lock_wait {
	LOCK_TRY,
	LOCK_WAIT
};

/* An open lock file, locked shared or exclusively; -EWOULDBLOCK, -ECANCELED (@options->line said
 * so) or -errno. */
int lock_open(const struct cache *cache, const char *key, bool exclusive, enum lock_wait wait,
	      const struct cordon_packages_options *options);
/* From exclusive to shared. */
int lock_share(int fd);
/* Remembers that the layer was used now. */
void lock_touch(int fd);

/* request.c: what is wanted of one installer. */
struct request {
	struct arena *arena;
	const struct cordon_packages_options *options;
	enum installer installer;
	struct strlist wanted; /* normalised and sorted; npm: "name@range" */
	bool has_hashes;
	const char *lock_json, *package_json; /* npm: content of both files, or NULL */
	/* index.c */
	struct strlist index; /* URLs without passwords; the first one is the index itself */
	struct strlist hosts; /* rules for net.allow */
	struct strlist env;   /* NAME=VALUE for the installer */
	struct strlist files; /* certificates to be shown to it */
	const char *npmrc;    /* content for its .npmrc, or NULL */
	struct strlist secrets;
	/* python.c */
	const char *program; /* the real path of the interpreter: python or node */
	const char *npm;     /* of its program, which node runs */
	const char *platform;
	/* The index the installer uses if nobody says otherwise, and the host of its files if that
	 * is another one; NULL = unknown. */
	const char *default_index, *default_files;
	char key[KEY_SIZE];
};

/* Sorts specs and files to the installers. */
int request_read(struct request requests[INSTALLER_MAX], struct arena *arena,
		 const struct cordon_packages_options *options, struct cordon_error *err);
bool request_is_empty(const struct request *rq);
int request_make_key(struct request *rq, struct cordon_error *err);
/* What the installer gets on its standard input: requirements.txt; for npm its files as JSON. */
void request_write(const struct request *rq, struct strbuf *sb);

/* env.c */
const char *env_get(const char *const *envp, const char *name);
const char *search_path_of(const struct cordon_packages_options *options);

/* index.c, npmrc.c: settings of the index, from the environment and pip's and npm's own files. */
int index_pip(struct request *rq, struct cordon_error *err);
int index_npm(struct request *rq, struct cordon_error *err);
/* Adds @url to the index, its host to the rules and its password to the secrets. */
int index_add(struct request *rq, const char *url, struct cordon_error *err);
int index_hosts(struct request *rq, const char *list, struct cordon_error *err);
int index_file(struct request *rq, const char *path, struct cordon_error *err);
/* "a secret" in a URL is the part before '@'. */
const char *index_without_secret(struct arena *arena, const char *url);

/* What an installer says about its own index becomes a rule of its network: a name with a dot that
 * is neither an address nor one of this machine or its network. What the user sets may be anything.
 */
bool index_is_public(const char *url);
bool index_is_public_host(const char *host, size_t len);

/* system.c: the real path of @path, if it is a program of the system. */
int system_program(const struct request *rq, const char *path, const char **ret_real,
		   struct cordon_error *err);
/* An error if a program of the packages in @tree_fd is a script for something else. */
int system_check_programs(const struct request *rq, int tree_fd, struct cordon_error *err);

/* python.c: which interpreter, and what it is. */
int python_find(struct cordon_launcher *launcher, const struct cache *cache, struct request *rq,
		struct cordon_error *err);
int python_has_no_pip(const struct request *rq, struct cordon_error *err);
int node_find(struct cordon_launcher *launcher, const struct cache *cache, struct request *rq,
	      struct cordon_error *err);

/* sandbox.c: one program in a sandbox of its own. */
struct sandboxed {
	const char *const *argv;
	const char *private_dir;  /* kept, or NULL */
	const struct request *rq; /* hosts, environment, files; NULL = no network */
	const struct cordon_packages_options *options;
	const struct strbuf *in; /* its standard input, or NULL */
	struct strbuf *out;	 /* the last lines of what it wrote; cleaned, without secrets */
	/* out */
	int status;
	char refused[128]; /* a host that was refused, "" = none */
	char ended[64];	   /* why it did not end by itself, "" = it did */
};

int sandbox_run(struct cordon_launcher *launcher, struct sandboxed *s, struct cordon_error *err);

/* install.c */
int install(struct cordon_launcher *launcher, const struct cache *cache, struct request *rq,
	    struct cordon_error *err);

/* settle.c: takes over what the installer left. */
struct settled {
	uint64_t bytes, files;
};

/* Every entry below @dir_fd becomes ours and read-only; anything but files, directories and links
 * is an error. */
int settle_tree(int dir_fd, struct settled *ret, struct cordon_error *err);

/* manifest.c */
int manifest_write(const struct request *rq, int new_fd, int home_fd, const struct settled *settled,
		   struct cordon_error *err);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Level microvm: the same policy behind a second kernel.
 *
 * Theory of operation. QEMU runs as the command of an ordinary sandbox of level namespaces, made
 * from the run's own policy. So its view of files is the policy's view, and that is what it hands
 * on to its guest (virtio-9p, one export for each directory of the root). It has no network, its
 * limits are those of the run and what a machine needs besides, and who breaks out of QEMU is where
 * a command of level namespaces is.
 *
 * The program that really starts in that sandbox is a copy of this command (vmm.c, over
 * cordon_run_options.image_fd): it tells the host what the policy has become (directories,
 * variables, ids), gets QEMU's command line, and becomes QEMU.
 *
 * In the guest another copy is PID 1 (agent.c): it mounts the exports at the same paths, takes the
 * policy over a virtio port, and starts the command with `cordon run`, that is with the layers of
 * level namespaces once more. Standard input and outputs are ports of their own, which the relays
 * of the outer run serve like any command's. The third port carries a few short messages
 * (wire.h). What comes over it after the guest's code has begun is the word of the guest: it can
 * say how the command ended, and nothing else.
 */
#ifndef CMD_CORDON_MICROVM_GUEST_H
#define CMD_CORDON_MICROVM_GUEST_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include <cordon/cordon.h>

#include "base/sha256.h"
#include "packages/packages.h"

/* What the agent is called in the guest's first file system, which is how main() knows it. */
#define MICROVM_AGENT "/cordon-agent"
/* The memory file that becomes QEMU; main() knows it by this name. */
#define MICROVM_MEMFD "cordon-vmm"

#define MICROVM_KERNEL "vmlinux"
#define MICROVM_INITRAMFS "initramfs"
#define MICROVM_ABOUT "about.json"
#define MICROVM_MODULES "/modules"

#define MICROVM_KEY_SIZE 33 /* with the NUL */

/* A guest in the cache. */
struct microvm_image {
	char key[MICROVM_KEY_SIZE];
	char kernel[128];	/* its release */
	char agent[SHA256_HEX]; /* of the command that made it */
	int64_t made_s;
	uint64_t bytes;
	int is_ours;  /* made by this very command */
	int is_whole; /* 0: left by a setup that was killed */
};

/* qemu.c: the path of QEMU in the system's directories, or an error with the remedy. */
int microvm_find_qemu(const char **ret, struct cordon_error *err);

/* self.c: this command as a program, without what only debuggers need. The caller frees *ret. */
int microvm_self(void **ret, size_t *ret_len, struct cordon_error *err);
/* The same as a sealed memory file. */
int microvm_self_fd(struct cordon_error *err);

/* image.c: calls @call for each guest in the cache, until it returns not 0. */
int microvm_images(const struct cache *cache, const char *agent,
		   int (*call)(void *arg, const struct microvm_image *image), void *arg,
		   struct cordon_error *err);
/* The newest one of this command: 1 with *ret, 0 = there is none. */
int microvm_image_find(const struct cache *cache, const char *agent, struct microvm_image *ret,
		       struct cordon_error *err);

/* unfinished.c: where a setup works. Makes the directory, with a name of its own into @ret_name,
 * and returns it, locked, or -errno. */
int microvm_begin_dir(const struct cache *cache, char *ret_name, size_t size);
int microvm_is_unfinished(const char *name);
/* One that was left by a setup that was killed: a descriptor that keeps it so, or -1. */
int microvm_take_left(const struct cache *cache, const char *name);
/* Removes all of these. */
void microvm_tidy(const struct cache *cache);

/* setup.c: makes one. @quiet: without lines on standard error. */
int microvm_setup(struct cache *cache, const void *agent, size_t agent_len, int quiet,
		  struct microvm_image *ret, struct cordon_error *err);

/* kernel.c: a kernel and its modules, below a directory. */
struct kernel {
	char release[128];
	char image[PATH_MAX];	/* vmlinuz */
	char modules[PATH_MAX]; /* lib/modules/RELEASE */
};

/* One that is installed and that we may read: 1, or 0. */
int kernel_installed(struct kernel *ret);
/* Fetches the distribution's into @dir, which exists and is empty, and unpacks it there. */
int kernel_fetch(const char *dir, int quiet, struct kernel *ret, struct cordon_error *err);
/* Writes its uncompressed form to @path. */
int kernel_extract(const struct kernel *kernel, const char *dir, const char *path,
		   struct cordon_error *err);

/* modules.c: those that the guest needs, each after those it needs itself. */
#define MODULES_MAX 32

struct module {
	char name[64];
	void *data;
	size_t len;
};

struct modules {
	struct module v[MODULES_MAX];
	size_t n;
};

int modules_collect(const struct kernel *kernel, const char *dir, struct modules *ret,
		    struct cordon_error *err);
void modules_done(struct modules *modules);

/* tool.c: runs a program of the system to its end, its output in @dir/log. @in, @out: files for its
 * standard input and output, NULL = none. */
int tool_run(const char *dir, const char *const *argv, const char *in, const char *out,
	     const char *what, struct cordon_error *err);
int tool_is_there(const char *name);
/* The program that decompresses what begins like @magic, NULL = it is not compressed. */
const char *tool_for(const unsigned char *magic);

/* Of QEMU; the guest's outputs. Higher ones that QEMU opens itself come later. */
#define MICROVM_OUT_FD 4
#define MICROVM_ERR_FD 5

/* agent.c, vmm.c: this process as one of the two programs above. They do not return to main(). */
int microvm_agent(void);
int microvm_vmm(void);

#endif

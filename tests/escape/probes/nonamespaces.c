/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command as a default container would: nonamespaces [MODE] COMMAND ...
 *
 * A filter refuses what container runtimes refuse without CAP_SYS_ADMIN. It is inherited and cannot
 * be taken off. MODE: `all` (default), or one of `userns`, `mount`, `landlock`, `seccomp`, which
 * refuses only that; or `capabilities`, where a user namespace can be had and nothing be done in
 * it.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "probe.h"

#define NEW_ANY                                                                                    \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
	 CLONE_NEWCGROUP)

static struct sock_filter code[256];
static unsigned short len;

static void put(uint16_t op, uint8_t jt, uint8_t jf, uint32_t k)
{
	code[len++] = (struct sock_filter){ op, jt, jf, k };
}

static void refuse(long nr, int error)
{
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)nr);
	put(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | (uint32_t)error);
}

/* Refuses the call only when its first argument has one of the bits; keeps the number loaded. */
static void refuse_bits(long nr, uint32_t bits)
{
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, 4, (uint32_t)nr);
	put(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args[0]));
	put(BPF_JMP | BPF_JSET | BPF_K, 0, 1, bits);
	put(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM);
	put(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
}

static void refuse_mounts(void)
{
	static const long calls[] = { SYS_mount,      SYS_umount2, SYS_pivot_root, SYS_open_tree,
				      SYS_move_mount, SYS_fsopen,  SYS_fsconfig,   SYS_fsmount,
				      SYS_fspick,     442 /* mount_setattr */ };
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		refuse(calls[i], EPERM);
}

static void build(const char *mode)
{
	int all = !strcmp(mode, "all");

	put(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
	if (all || !strcmp(mode, "userns")) {
		refuse(SYS_clone3, ENOSYS);
		refuse_bits(SYS_unshare, NEW_ANY);
		refuse_bits(SYS_clone, NEW_ANY);
		refuse(SYS_setns, EPERM);
	}
	if (!strcmp(mode, "capabilities")) {
		refuse(SYS_clone3, ENOSYS);
		refuse_bits(SYS_unshare, NEW_ANY & ~CLONE_NEWUSER);
		refuse_bits(SYS_clone, NEW_ANY & ~CLONE_NEWUSER);
		refuse(SYS_sethostname, EPERM);
	}
	if (all || !strcmp(mode, "mount") || !strcmp(mode, "capabilities"))
		refuse_mounts();
	if (!strcmp(mode, "landlock") || !strcmp(mode, "bare")) {
		refuse(444, ENOSYS);
		refuse(445, ENOSYS);
		refuse(446, ENOSYS);
	}
	if (!strcmp(mode, "seccomp"))
		refuse(SYS_seccomp, EPERM);
	put(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
}

int main(int argc, char **argv)
{
	struct sock_fprog prog;

	if (argc < 3)
		return 2;
	build(argv[1]);
	prog.len = len;
	prog.filter = code;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return 3;
	execvp(argv[2], argv + 2);
	perror("exec");
	return 4;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command below a filter that refuses system calls: refuse CALL... -- COMMAND ...
 *
 * A CALL is NUMBER:ERRNO, or NUMBER:ERRNO:MASK for those only whose first argument has one of the
 * bits. It stands for what a security module, a container or a service manager may refuse.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "probe.h"

static struct sock_filter code[512];
static unsigned short len;

static void put(uint16_t op, uint8_t jt, uint8_t jf, uint32_t k)
{
	if (len < sizeof(code) / sizeof(code[0]))
		code[len++] = (struct sock_filter){ op, jt, jf, k };
}

static int refuse(const char *text)
{
	unsigned nr, error, mask = 0;
	int n = sscanf(text, "%u:%u:%u", &nr, &error, &mask);

	if (n < 2)
		return -1;
	put(BPF_JMP | BPF_JEQ | BPF_K, 0, n == 3 ? 4 : 1, nr);
	if (n == 3) {
		put(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, args[0]));
		put(BPF_JMP | BPF_JSET | BPF_K, 0, 1, mask);
	}
	put(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error);
	if (n == 3)
		put(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
	return 0;
}

int main(int argc, char **argv)
{
	struct sock_fprog prog = { .filter = code };
	int i = 1;

	put(BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
	while (i < argc && strcmp(argv[i], "--")) {
		if (refuse(argv[i++]) < 0)
			return 2;
	}
	put(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
	if (i + 1 >= argc)
		return 2;
	prog.len = len;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return 3;
	execvp(argv[i + 1], argv + i + 1);
	perror("exec");
	return 4;
}

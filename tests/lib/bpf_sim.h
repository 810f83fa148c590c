/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_LIB_BPF_SIM_H
#define TESTS_LIB_BPF_SIM_H

/* Runs and examines seccomp's classic BPF programs without a kernel. */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fields of struct seccomp_data a run has read. */
#define BPF_SIM_READ_NR 0x1u
#define BPF_SIM_READ_ARCH 0x2u
#define BPF_SIM_READ_ARGS 0x4u
#define BPF_SIM_READ_IP 0x8u

struct bpf_sim_result {
	uint32_t action;    /* what RET gave */
	unsigned int steps; /* instructions executed */
	unsigned int read;  /* BPF_SIM_READ_* */
};

/* 0, or -EINVAL if the program does what the kernel would not have loaded. */
int bpf_sim_run(const struct sock_filter *insns, size_t len, const struct seccomp_data *data,
		struct bpf_sim_result *ret);

/*
 * Structure: known instructions only, jumps inside the program, last instruction a return, every
 * instruction reachable. Returns NULL, or what is wrong; *ret_pc then says where.
 */
const char *bpf_sim_check(const struct sock_filter *insns, size_t len, size_t *ret_pc);

/*
 * Whether the kernel (since 5.11) finds, when the filter is installed, that this call is allowed
 * whatever its arguments, so that it never runs the filter for it.
 */
bool bpf_sim_is_const_allow(const struct sock_filter *insns, size_t len, uint32_t arch,
			    uint32_t nr);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/bpf_sim.h"

#include <errno.h>
#include <string.h>

#define MAX_INSNS 4096 /* BPF_MAXINSNS */

/* Whether a conditional jump is taken; -1 if it is none that is known here. */
static int jump_taken(uint16_t code, uint32_t a, uint32_t k)
{
	switch (code) {
	case BPF_JMP | BPF_JEQ | BPF_K:
		return a == k;
	case BPF_JMP | BPF_JGE | BPF_K:
		return a >= k;
	case BPF_JMP | BPF_JGT | BPF_K:
		return a > k;
	case BPF_JMP | BPF_JSET | BPF_K:
		return (a & k) != 0;
	default:
		return -1;
	}
}

static unsigned int field_of(uint32_t offset)
{
	if (offset == offsetof(struct seccomp_data, nr))
		return BPF_SIM_READ_NR;
	if (offset == offsetof(struct seccomp_data, arch))
		return BPF_SIM_READ_ARCH;
	if (offset < offsetof(struct seccomp_data, args))
		return BPF_SIM_READ_IP;
	return BPF_SIM_READ_ARGS;
}

int bpf_sim_run(const struct sock_filter *insns, size_t len, const struct seccomp_data *data,
		struct bpf_sim_result *ret)
{
	struct bpf_sim_result result = { 0 };
	uint32_t a = 0;

	for (size_t pc = 0; pc < len; pc++) {
		const struct sock_filter *insn = &insns[pc];
		int taken;

		result.steps++;
		switch (insn->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (insn->k % 4 || insn->k > sizeof(*data) - 4)
				return -EINVAL;
			memcpy(&a, (const char *)data + insn->k, sizeof(a));
			result.read |= field_of(insn->k);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= insn->k;
			break;
		case BPF_JMP | BPF_JA:
			if (insn->k >= len)
				return -EINVAL;
			pc += insn->k;
			break;
		case BPF_RET | BPF_K:
			result.action = insn->k;
			*ret = result;
			return 0;
		default:
			taken = jump_taken(insn->code, a, insn->k);
			if (taken < 0)
				return -EINVAL;
			pc += taken ? insn->jt : insn->jf;
		}
	}
	return -EINVAL;
}

/* Looks at one instruction and marks what it leads to. */
static const char *check_insn(const struct sock_filter *insns, size_t len, size_t pc,
			      bool reached[MAX_INSNS])
{
	const struct sock_filter *insn = &insns[pc];
	size_t left = len - pc - 1;

	switch (insn->code) {
	case BPF_RET | BPF_K:
		return NULL;
	case BPF_LD | BPF_W | BPF_ABS:
		if (insn->k % 4 || insn->k > sizeof(struct seccomp_data) - 4)
			return "load from outside seccomp_data";
		break;
	case BPF_ALU | BPF_AND | BPF_K:
		break;
	case BPF_JMP | BPF_JA:
		if (insn->k >= left)
			return "jump out of the program";
		reached[pc + 1 + insn->k] = true;
		return NULL;
	default:
		if (jump_taken(insn->code, 0, 0) < 0)
			return "instruction not known here";
		if (insn->jt >= left || insn->jf >= left)
			return "jump out of the program";
		reached[pc + 1 + insn->jt] = true;
		reached[pc + 1 + insn->jf] = true;
		return NULL;
	}
	if (!left)
		return "falls off the end";
	reached[pc + 1] = true;
	return NULL;
}

const char *bpf_sim_check(const struct sock_filter *insns, size_t len, size_t *ret_pc)
{
	bool reached[MAX_INSNS] = { true };

	*ret_pc = 0;
	if (!len || len > MAX_INSNS)
		return "bad length";
	/* Jumps only go forwards, so one pass has seen all ways to an instruction before it. */
	for (size_t pc = 0; pc < len; pc++) {
		const char *why = reached[pc] ? check_insn(insns, len, pc, reached)
					      : "never reached";

		if (why) {
			*ret_pc = pc;
			return why;
		}
	}
	*ret_pc = len - 1;
	return insns[len - 1].code == (BPF_RET | BPF_K) ? NULL : "does not end in a return";
}

/* Models the kernel's walk: it gives up at the first thing that is not number or architecture. */
bool bpf_sim_is_const_allow(const struct sock_filter *insns, size_t len, uint32_t arch, uint32_t nr)
{
	struct seccomp_data data = { .nr = (int)nr, .arch = arch };
	struct bpf_sim_result result;

	if (bpf_sim_run(insns, len, &data, &result) < 0)
		return false;
	return result.action == SECCOMP_RET_ALLOW &&
	       !(result.read & (BPF_SIM_READ_ARGS | BPF_SIM_READ_IP));
}

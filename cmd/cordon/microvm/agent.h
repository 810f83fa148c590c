/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's two parts: agent_root.c makes the command's world, agent.c runs it. */
#ifndef CMD_CORDON_MICROVM_AGENT_H
#define CMD_CORDON_MICROVM_AGENT_H

#include "format/microvm.h"

/* The ports, in the order of their numbers: the last one has a host only after the others. */
enum agent_fd {
	AGENT_IN_FD = 10,
	AGENT_OUT_FD,
	AGENT_ERR_FD,
	AGENT_CTL_FD,
	AGENT_FD_END
};

/* In the root that `cordon run` sees; its command does not. */
#define AGENT_DIR "/.cordon"
#define AGENT_COMMAND AGENT_DIR "/cordon"
#define AGENT_POLICY AGENT_DIR "/policy.json"
#define AGENT_OUT AGENT_DIR "/out"
#define AGENT_RECEIPT AGENT_OUT "/receipt"

#define AGENT_LIST_MAX 65536

/* Points into the message. */
struct agent_request {
	int64_t uid, gid, umask, time_ns;
	const char *cwd, *policy, *entropy;
	const char *dirs[MICROVM_DIRS_MAX];
	const char *links[MICROVM_DIRS_MAX], *targets[MICROVM_DIRS_MAX];
	size_t n_dirs, n_links;
	const char **argv, **env;
};

/* Devices, modules, ports, signals: a descriptor that tells of children. */
int agent_prepare(void);
void agent_read_request(struct microvm_message *message, struct agent_request *ret);
/* The clock, the random numbers, and the root with the host's directories. */
void agent_make_root(const struct agent_request *request);
/* In the child: becomes the user and `cordon run`. Returns only if that fails. */
void agent_become(const struct agent_request *request);

/* Ends the machine. */
void __attribute__((noreturn)) agent_give_up(const char *what, int error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* `cordon run --isolation microvm`: what it does beside an ordinary run. guest.h has the theory. */
#ifndef CMD_CORDON_MICROVM_MICROVM_H
#define CMD_CORDON_MICROVM_MICROVM_H

#include <poll.h>

#include <cordon/cordon.h>

#include "base/strbuf.h"
#include "format/microvm.h"
#include "options.h"

enum vm_state {
	VM_NONE = 0, /* the run is an ordinary one */
	VM_HELLO,    /* waits for the outer sandbox */
	VM_BOOT,     /* ... for the agent */
	VM_RUNS,     /* ... for the end of the command */
	VM_ENDED,    /* the agent has said how it ended, the rest of the output may be on its way */
	VM_OVER,     /* the machine is being ended */
};

/* Why the host ended the machine. */
enum vm_why {
	VM_WHY_ENDED = 0, /* the command ended, or the machine by itself */
	VM_WHY_TIME,	  /* limits.wall */
	VM_WHY_BOOT,	  /* it did not start in time */
	VM_WHY_PROTOCOL,  /* it sent what it must not */
	VM_WHY_CANCEL,	  /* a signal, and the guest did not end in time */
};

#define VM_LAYERS_MAX 32

struct vm {
	int state, why;
	int timer_fd;
	struct cordon_policy *policy; /* the caller's own */
	struct cordon_policy *outer;  /* of the sandbox around QEMU */
	const struct parsed *args;
	const char *qemu;
	int is_kvm;
	int64_t memory_bytes; /* of the machine */
	int64_t deadline_ms;  /* by the monotonic clock, 0 = none */
	struct strbuf heard, hello, unsent;
	size_t sent;
	struct microvm_exit exit;
	int has_begun; /* the agent has been told what to run */
	int has_exit, is_cancelled;
	const char *layers[VM_LAYERS_MAX + 2];
	char dir[4096 + 64]; /* of the guest; last, see struct session in cmd_run.c */
};

/* self.c: what this process is to be at that level, NULL = an ordinary command. */
int (*microvm_role(const char *name))(void);

/* In the guest, once the command's variables are known: Cordon has no directories there, and what
 * is at their places is the command's, as the host's policy has it. */
void microvm_disown(void);

/* Is it for us? */
int vm_is_wanted(const struct cordon_policy *policy);

/* What the level does not have (yet). 0 at the other levels. */
int vm_refuse(const struct parsed *args, const struct cordon_policy *policy,
	      struct cordon_error *err);

/*
 * Before the start: finds QEMU and the guest, and makes the
 * policy and the options of the outer run. *policy is replaced; both belong to @vm then.
 */
int vm_prepare(struct vm *vm, const struct parsed *args, struct cordon_policy **policy,
	       struct cordon_run_options *options, struct cordon_error *err);

/* Two entries for poll(), and what they told. */
void vm_poll(const struct vm *vm, const struct cordon_run *run, struct pollfd fds[2]);
void vm_handle(struct vm *vm, struct cordon_run *run, const struct pollfd fds[2]);

/* For the command in the guest. 1 = taken, 0 = the run is an ordinary one. */
int vm_signal(struct vm *vm, struct cordon_run *run, int number, int is_cancel);

/* The account of the outer run becomes that of the command. */
void vm_conclude(struct vm *vm, struct cordon_result *result);

/* vm_policy.c: for the parts above. */
int vm_outer_policy(struct vm *vm, struct cordon_error *err);
/* The policy for `cordon run` in the guest, as JSON; the caller frees *ret with cordon_free(). */
int vm_inner_policy(const struct vm *vm, char **ret, struct cordon_error *err);
/* The messages to the outer sandbox and to the agent, appended to @vm->unsent. 0 or -EPROTO. */
int vm_write_start(struct vm *vm);
int vm_write_request(struct vm *vm);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether hardware virtualisation is of use: /dev/kvm runs a guest's code itself, at its own speed.
 *
 * That the device is there, opens and makes virtual machines proves nothing. Where KVM is emulated
 * by the host (module kvm_pvm in some clouds), privileged code of a guest runs at about a million
 * instructions a second, and an ordinary kernel dies in it. So the probe runs some, and takes the
 * time.
 */
#ifndef PROBE_KVM_H
#define PROBE_KVM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"

enum kvm_state {
	KVM_USABLE = 0,
	KVM_ABSENT,    /* there is no /dev/kvm */
	KVM_FORBIDDEN, /* it may not be opened */
	KVM_BROKEN,    /* it makes no virtual machine, or does not run its code */
	KVM_EMULATED,  /* it runs the code, but as slowly as only an emulation does */
	KVM_STATE_MAX
};

struct kvm_probe {
	int state;		   /* enum kvm_state */
	unsigned long per_s_milli; /* privileged instructions, in thousands a second; 0 = none */
};

/* Takes some milliseconds. Nothing of it stays. */
void probe_kvm(struct kvm_probe *ret);

/* What is wrong and what helps, in words. NULL if nothing is. */
const char *probe_kvm_text(int state);
const char *probe_kvm_remedy(int state);

#endif

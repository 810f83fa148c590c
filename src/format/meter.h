/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the supervisor and the meter, the process that asks NVIDIA's library what a run uses of
 * its GPUs: the order comes as one message with the descriptors below, the figures are left in
 * shared memory. The library works in the meter's memory, so the supervisor believes no figure that
 * cannot be.
 */
#ifndef FORMAT_METER_H
#define FORMAT_METER_H

#include <stdint.h>

#define METER_MAGIC 0x7274656d /* "metr" */
#define METER_GPUS_MAX 64      /* GPUS_MAX */
#define METER_PCI_MAX 32
#define METER_DIR_MAX 4096
#define METER_NO_ID (~0u)
/* More than any GPU has. */
#define METER_GPU_BYTES_MAX ((uint64_t)1 << 44)
#define METER_PERCENT_MAX 100

/* In the message. */
enum {
	METER_FD_ACCOUNT, /* struct meter_account, in a sealed memory file */
	METER_FD_LIBRARY, /* libnvidia-ml.so.1 */
	METER_FDS
};

struct meter_gpu {
	uint32_t number;	 /* of the node: /dev/nvidiaN */
	char pci[METER_PCI_MAX]; /* its address, "" = not known */
};

struct meter_order {
	uint32_t magic;
	uint32_t uid, gid; /* METER_NO_ID = the caller's own */
	uint32_t init_pid; /* processes below it are the run's */
	uint32_t supervisor_pid;
	uint32_t n_gpus;
	uint64_t handled_fs, handled_net, scoped; /* of Landlock; 0 = it is not there */
	struct meter_gpu gpus[METER_GPUS_MAX];
	char library_dir[METER_DIR_MAX];
};

struct meter_account {
	uint64_t memory_bytes; /* the highest sum that was seen; valid if memory_seen */
	uint64_t total_bytes;  /* of all GPUs of the run */
	uint32_t memory_seen;
	uint32_t percent; /* valid if percent_seen */
	uint32_t percent_seen;
	uint32_t pad;
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's management library, by its documented interface (docs.nvidia.com/deploy/nvml-api).
 *
 * Of each GPU the processes with their memory are asked for, and what share of the time kernels of
 * theirs ran. For the latter the driver has samples of its own, one each 1/6 to 1 s; each call
 * gives what is newer than the time that it is told. A figure is only given if one of the run's
 * processes was listed: a driver that hides them from us does not make the run one that used
 * nothing.
 */
#include "meter/meter.h"

#include <asm/unistd.h>

#include "bare/text.h"

#define RTLD_NOW 2
#define PROCESSES_MAX 512
#define NOT_AVAILABLE (~0ull)
#define SUCCESS 0
#define NOT_FOUND 6
#define SECOND_US 1000000u
#define ENOUGH_US (2 * SECOND_US) /* without a sample in this time there was nothing to sample */
#define CLOCK_REALTIME_NR 0

/* Of the C library, which the loader brings (stub.S). */
void *dlopen(const char *path, int flags);
void *dlsym(void *library, const char *name);

struct process { /* nvmlProcessInfo_t */
	unsigned pid;
	unsigned long long memory;
	unsigned gpu_instance, compute_instance;
};

struct memory { /* nvmlMemory_t */
	unsigned long long total, free, used;
};

struct utilization { /* nvmlProcessUtilizationSample_t */
	unsigned pid;
	unsigned long long time_us;
	unsigned sm, memory, encoder, decoder;
};

static struct {
	int (*init)(void);
	int (*count)(unsigned *);
	int (*by_index)(unsigned, void **);
	int (*by_pci)(const char *, void **);
	int (*minor)(void *, unsigned *);
	int (*memory)(void *, struct memory *);
	int (*processes)(void *, unsigned *, struct process *);
	int (*utilization)(void *, struct utilization *, unsigned *, unsigned long long);
} call;

static const struct {
	const char *name;
	void *to;
} names[] = {
	{ "nvmlInit_v2", &call.init },
	{ "nvmlDeviceGetCount_v2", &call.count },
	{ "nvmlDeviceGetHandleByIndex_v2", &call.by_index },
	{ "nvmlDeviceGetHandleByPciBusId_v2", &call.by_pci },
	{ "nvmlDeviceGetMinorNumber", &call.minor },
	{ "nvmlDeviceGetMemoryInfo", &call.memory },
	{ "nvmlDeviceGetComputeRunningProcesses_v3", &call.processes }, /* driver 510 */
	{ "nvmlDeviceGetProcessUtilization", &call.utilization },
};

struct gpu {
	void *handle;
	uint64_t seen_us; /* the newest sample that has been counted */
	uint64_t busy;	  /* microseconds times per cent */
	bool is_used, has_samples;
};

static struct gpu gpus[METER_GPUS_MAX];
static unsigned n_gpus;
static uint64_t total_bytes, begin_us;
static struct process processes[PROCESSES_MAX];
static struct utilization samples[PROCESSES_MAX];

/* The clock of the driver's samples. */
static uint64_t clock_us(void)
{
	long now[2] = { 0, 0 };

	raw_syscall(__NR_clock_gettime, CLOCK_REALTIME_NR, (long)now, 0, 0, 0, 0);
	return (uint64_t)now[0] * SECOND_US + (uint64_t)now[1] / 1000;
}

static bool load(int library_fd)
{
	char path[64];
	void *library;

	text_number(path, sizeof(path), "/proc/self/fd/", (uint64_t)library_fd);
	library = dlopen(path, RTLD_NOW);
	for (size_t i = 0; library && i < sizeof(names) / sizeof(names[0]); i++) {
		void *at = dlsym(library, names[i].name);

		if (!at)
			return false;
		__builtin_memcpy(names[i].to, &at, sizeof(at));
	}
	return library && call.init() == SUCCESS;
}

/* By its address, which starts no other GPU; where that is not known, by the number of its node. */
static bool find(const struct meter_gpu *wanted, void **ret)
{
	unsigned n = 0, number;

	if (wanted->pci[0])
		return call.by_pci(wanted->pci, ret) == SUCCESS;
	if (call.count(&n) != SUCCESS)
		return false;
	for (unsigned i = 0; i < n && i < METER_GPUS_MAX; i++)
		if (call.by_index(i, ret) == SUCCESS && call.minor(*ret, &number) == SUCCESS &&
		    number == wanted->number)
			return true;
	return false;
}

bool nvml_open(const struct meter_order *order, int library_fd)
{
	if (!load(library_fd))
		return false;
	begin_us = clock_us();
	for (uint32_t i = 0; i < order->n_gpus; i++) {
		struct memory memory = { 0, 0, 0 };
		struct gpu *gpu = &gpus[n_gpus];

		/* With one of them missing the sum would be wrong. */
		if (!find(&order->gpus[i], &gpu->handle) ||
		    call.memory(gpu->handle, &memory) != SUCCESS)
			return false;
		total_bytes += memory.total;
		gpu->seen_us = begin_us;
		n_gpus++;
	}
	return n_gpus > 0;
}

/* Adds what the run's processes have of @gpu; false = the library does not say. */
static bool add_memory(struct gpu *gpu, uint32_t init_pid, uint64_t *sum)
{
	unsigned n = PROCESSES_MAX;

	if (call.processes(gpu->handle, &n, processes) != SUCCESS || n > PROCESSES_MAX)
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (!tree_has(init_pid, processes[i].pid))
			continue;
		gpu->is_used = true;
		if (processes[i].memory == NOT_AVAILABLE ||
		    __builtin_add_overflow(*sum, processes[i].memory, sum))
			return false;
	}
	return true;
}

/* Counts the samples that are new; false = the library has none to give, ever. */
static bool add_samples(struct gpu *gpu, uint32_t init_pid)
{
	unsigned n = PROCESSES_MAX;
	int r = call.utilization(gpu->handle, samples, &n, gpu->seen_us);
	uint64_t newest = gpu->seen_us, share = 0, span;

	if (r == NOT_FOUND)
		return true;
	if (r != SUCCESS || n > PROCESSES_MAX)
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (samples[i].time_us > newest)
			newest = samples[i].time_us;
		if (samples[i].time_us <= gpu->seen_us || !tree_has(init_pid, samples[i].pid))
			continue;
		gpu->has_samples = true;
		share += samples[i].sm;
	}
	/* A sample tells of the time before it, and of no more than the driver's longest period. */
	span = newest - gpu->seen_us < SECOND_US ? newest - gpu->seen_us : SECOND_US;
	gpu->busy += span * (share < METER_PERCENT_MAX ? share : METER_PERCENT_MAX);
	gpu->seen_us = newest;
	return true;
}

/* The mean over the time since the start, and over the GPUs that the run has used. */
static void tell_percent(struct meter_account *account)
{
	uint64_t elapsed = clock_us() - begin_us, busy = 0, percent;
	unsigned used = 0;
	bool is_known = elapsed >= ENOUGH_US;

	for (unsigned i = 0; i < n_gpus; i++) {
		used += gpus[i].is_used;
		busy += gpus[i].is_used ? gpus[i].busy : 0;
		is_known |= gpus[i].has_samples;
	}
	if (!used || !elapsed || !is_known)
		return;
	percent = busy / elapsed / used;
	__atomic_store_n(&account->percent,
			 (uint32_t)(percent < METER_PERCENT_MAX ? percent : METER_PERCENT_MAX),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&account->percent_seen, 1, __ATOMIC_RELEASE);
}

void nvml_sample(const struct meter_order *order, struct meter_account *account)
{
	bool has_memory = true, has_samples = true, is_used = false;
	uint64_t sum = 0;

	for (unsigned i = 0; i < n_gpus; i++) {
		has_memory &= add_memory(&gpus[i], order->init_pid, &sum);
		has_samples &= add_samples(&gpus[i], order->init_pid);
		is_used |= gpus[i].is_used;
	}
	if (has_memory && is_used) {
		__atomic_store_n(&account->total_bytes, total_bytes, __ATOMIC_RELAXED);
		if (sum > account->memory_bytes)
			__atomic_store_n(&account->memory_bytes, sum, __ATOMIC_RELAXED);
		__atomic_store_n(&account->memory_seen, 1, __ATOMIC_RELEASE);
	}
	if (has_samples)
		tell_percent(account);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/kvm.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"

#if defined(__x86_64__)
#include <linux/kvm.h>
#include <sys/mman.h>
#endif

static const struct {
	const char *text, *remedy;
} states[] = {
	[KVM_USABLE] = { NULL, NULL },
	[KVM_ABSENT] = { "there is no /dev/kvm",
			 "switch virtualisation on in the firmware, or in a virtual machine "
			 "nested virtualisation on its host; then modprobe kvm_intel or kvm_amd" },
	[KVM_FORBIDDEN] = { "/dev/kvm may not be opened",
			    "sudo usermod -aG kvm USER, then log in again" },
	[KVM_BROKEN] = { "/dev/kvm does not run a guest's code",
			 "switch nested virtualisation on (kvm_intel or kvm_amd nested=1 on the "
			 "host)" },
	[KVM_EMULATED] = { "/dev/kvm emulates privileged code (a paravirtual KVM), in which an "
			   "ordinary kernel does not start",
			   "use a machine with VT-x or AMD-V, or nested virtualisation" },
};
static_assert(ARRAY_SIZE(states) == KVM_STATE_MAX, "words for each state");

const char *probe_kvm_text(int state)
{
	return states[state].text;
}

const char *probe_kvm_remedy(int state)
{
	return states[state].remedy;
}

#if defined(__x86_64__)

/* mov $LOOPS, %cx; 1: dec %cx; jnz 1b; hlt -- in real mode, which is ring 0. */
#define LOOPS 2000
static const unsigned char code[] = { 0xb9, LOOPS & 0xff, LOOPS >> 8, 0x49, 0x75, 0xfd, 0xf4 };
#define INSTRUCTIONS (2 * LOOPS + 2)
#define ROUNDS 5
#define PAGE ((size_t)4096)
#define CODE_AT ((uint64_t)PAGE)
#define TSS_AT 0xfffbd000ul /* three pages below 4 GiB that hold nothing else */
/* Hardware does hundreds of millions, and entering and leaving takes some microseconds: a round
 * is done in 20 us, an emulated one in 3 ms. Between them lies what a busy machine adds. */
#define ROUND_NS_MAX 1000000

struct machine {
	int kvm_fd, vm_fd, vcpu_fd;
	unsigned char *memory;
	struct kvm_run *run;
	size_t run_size;
};

static void machine_done(struct machine *m)
{
	if (m->run)
		munmap(m->run, m->run_size);
	if (m->memory)
		munmap(m->memory, 2 * PAGE);
	if (m->vcpu_fd >= 0)
		close(m->vcpu_fd);
	if (m->vm_fd >= 0)
		close(m->vm_fd);
	if (m->kvm_fd >= 0)
		close(m->kvm_fd);
}

static int map_memory(struct machine *m)
{
	struct kvm_userspace_memory_region region = { .memory_size = 2 * PAGE };
	void *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -1;
	m->memory = p;
	memcpy(m->memory + CODE_AT, code, sizeof(code));
	region.userspace_addr = (uintptr_t)p;
	return ioctl(m->vm_fd, KVM_SET_USER_MEMORY_REGION, &region);
}

static int map_run(struct machine *m)
{
	int size = ioctl(m->kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);
	void *p;

	if (size < (int)sizeof(*m->run))
		return -1;
	p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, m->vcpu_fd, 0);
	if (p == MAP_FAILED)
		return -1;
	m->run = p;
	m->run_size = (size_t)size;
	return 0;
}

static int machine_init(struct machine *m)
{
	m->vm_fd = ioctl(m->kvm_fd, KVM_CREATE_VM, 0);
	if (m->vm_fd < 0)
		return -1;
	/* Intel needs the place; AMD does not know it. */
	(void)ioctl(m->vm_fd, KVM_SET_TSS_ADDR, TSS_AT);
	if (map_memory(m) < 0)
		return -1;
	m->vcpu_fd = ioctl(m->vm_fd, KVM_CREATE_VCPU, 0);
	return m->vcpu_fd < 0 ? -1 : map_run(m);
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* One round: how many nanoseconds, or -1. */
static int64_t run_code(const struct machine *m)
{
	struct kvm_regs regs = { .rip = CODE_AT, .rflags = 2 };
	struct kvm_sregs sregs;
	int64_t start;

	if (ioctl(m->vcpu_fd, KVM_GET_SREGS, &sregs) < 0)
		return -1;
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	if (ioctl(m->vcpu_fd, KVM_SET_SREGS, &sregs) < 0 ||
	    ioctl(m->vcpu_fd, KVM_SET_REGS, &regs) < 0)
		return -1;
	start = now_ns();
	while (ioctl(m->vcpu_fd, KVM_RUN, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	return m->run->exit_reason == KVM_EXIT_HLT ? now_ns() - start : -1;
}

static void measure(const struct machine *m, struct kvm_probe *ret)
{
	int64_t best = -1;

	for (int i = 0; i < ROUNDS; i++) {
		int64_t ns = run_code(m);

		if (ns < 0)
			return;
		if (best < 0 || ns < best)
			best = ns;
	}
	ret->per_s_milli = (unsigned long)(INSTRUCTIONS * INT64_C(1000000) / (best ? best : 1));
	ret->state = best > ROUND_NS_MAX ? KVM_EMULATED : KVM_USABLE;
}

void probe_kvm(struct kvm_probe *ret)
{
	struct machine m = { .kvm_fd = open("/dev/kvm", O_RDWR | O_CLOEXEC),
			     .vm_fd = -1,
			     .vcpu_fd = -1 };

	*ret = (struct kvm_probe){ .state = KVM_BROKEN };
	if (m.kvm_fd < 0) {
		ret->state = errno == EACCES || errno == EPERM ? KVM_FORBIDDEN : KVM_ABSENT;
		return;
	}
	if (machine_init(&m) == 0)
		measure(&m, ret);
	machine_done(&m);
}

#else

void probe_kvm(struct kvm_probe *ret)
{
	*ret = (struct kvm_probe){ .state = KVM_ABSENT };
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One policy becomes two: that of the sandbox around QEMU, which grants the same files, and that of
 * `cordon run` in the guest, which grants them once more.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/path.h"
#include "guest.h"
#include "microvm.h"
#include "policy/policy.h"
#include "verbs.h"

#define MIB ((int64_t)1 << 20)
/* Kernel, agent, `cordon run`, and what a kernel keeps free. */
#define GUEST_BYTES (160 * MIB)
#define MEMORY_DEFAULT (2048 * MIB) /* the guest takes of it only what it uses */
#define MEMORY_LEAST (64 * MIB)
#define MEMORY_MOST (1024 * 1024 * MIB)
/* QEMU itself, the code it translates to, and its files. */
#define TRANSLATED_MIB 64
#define QEMU_BYTES (384 * MIB)
#define QEMU_PROCS "192"	/* it opens files in up to 64 threads */
#define QEMU_OPEN_FILES "65536" /* of the guest, all of them are QEMU's */
#define QEMU_DISK "16M"		/* private directories that nobody uses */
#define BOOT_CPU_MS 120000
#define ENTROPY_BYTES 64

/* Where a private directory is seen. */
static const char *const private_places[] = { "/tmp", "~" };

/* What this level does not have yet, and who has. */
int vm_refuse(const struct parsed *args, const struct cordon_policy *p, struct cordon_error *err)
{
	const struct {
		const char *name;
		int is_set;
	} lacks[] = {
		{ "--net-allow", p->net_allow.n > 0 },
		{ "--publish", p->net_publish.n > 0 },
		{ "--net-max", p->net_max_bytes > 0 },
		{ "--net-log", parsed_has(args, OPT_NET_LOG) },
		{ "--commands", p->commands_set == 1 },
		{ "--gpu", p->gpu && strcmp(p->gpu, "none") != 0 },
		{ "--device", p->devices.n > 0 },
		{ "--with", parsed_has(args, OPT_WITH) || parsed_has(args, OPT_WITH_FILE) },
		{ "-i", parsed_has(args, OPT_INTERACTIVE) },
		{ "--warm", parsed_has(args, OPT_WARM) },
		{ "--dry-run", parsed_has(args, OPT_DRY_RUN) },
		{ "--file-size", p->file_size_bytes >= 0 },
	};

	if (!vm_is_wanted(p))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(lacks); i++) {
		if (!lacks[i].is_set)
			continue;
		cordon_err(err, CORDON_E_UNSUPPORTED, 0, "level microvm does not have %s yet",
			   lacks[i].name);
		cordon_err_hint(err, "level namespaces has it: --isolation namespaces");
		return -CORDON_E_UNSUPPORTED;
	}
	return 0;
}

static int64_t command_memory(const struct cordon_policy *p)
{
	int64_t host = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);

	if (p->memory_bytes > 0)
		return p->memory_bytes;
	return host / 2 < MEMORY_DEFAULT ? host / 2 : MEMORY_DEFAULT;
}

static int set_number(struct cordon_policy *p, const char *key, int64_t number,
		      struct cordon_error *err)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)number);
	return cordon_policy_set(p, key, text, err);
}

int vm_outer_policy(struct vm *vm, struct cordon_error *err)
{
	int64_t memory = command_memory(vm->policy);
	struct cordon_policy *p;
	int r = cordon_policy_copy(vm->policy, &p, err);

	if (r < 0)
		return r;
	if (memory < MEMORY_LEAST)
		memory = MEMORY_LEAST;
	if (memory > MEMORY_MOST)
		memory = MEMORY_MOST;
	vm->memory_bytes = (memory + GUEST_BYTES + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	p->isolation = CORDON_LEVEL_NAMESPACES;
	/* From when the command starts, and by our own clock. */
	p->wall_ms = -1;
	p->grace_ms = 0;
	p->memory_bytes = vm->memory_bytes + QEMU_BYTES;
	if (p->cpu_time_ms > 0)
		p->cpu_time_ms += BOOT_CPU_MS;
	r = cordon_policy_set(p, "limits.procs", QEMU_PROCS, err);
	if (r == 0)
		r = cordon_policy_set(p, "limits.open_files", QEMU_OPEN_FILES, err);
	/* What the command writes there is on the host, where its limit is, too. */
	if (r == 0 && !p->workspace && !parsed_has(vm->args, OPT_PRIVATE))
		r = cordon_policy_set(p, "limits.disk", QEMU_DISK, err);
	vm->outer = p;
	return r;
}

/* As the outer sandbox resolved it: links on the way need not be there inside. NULL = it is not
 * there. */
static const char *real_path(struct cordon_policy *p, const char *typed)
{
	const char *home = getenv("HOME");
	char path[PATH_MAX], real[PATH_MAX];

	if (typed[0] == '~' && (typed[1] == '/' || !typed[1]) && home)
		snprintf(path, sizeof(path), "%s%s", home, typed + 1);
	else
		snprintf(path, sizeof(path), "%s", typed);
	return realpath(path, real) ? arena_strdup(&p->arena, real) : NULL;
}

static void make_real(struct cordon_policy *p, struct strlist *list)
{
	for (size_t i = 0; i < list->n; i++) {
		const char *real = real_path(p, list->v[i]);

		if (real)
			list->v[i] = real;
	}
}

static int add_write(struct cordon_policy *p, const char *path, struct cordon_error *err)
{
	if (strlist_add(&p->arena, &p->fs_write, path) < 0)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	return 0;
}

/* What the outer sandbox put at these places, the workspace's copy and the private directory, is a
 * directory like any other to the guest. */
static int grant_places(const struct vm *vm, struct cordon_policy *p, struct cordon_error *err)
{
	int r = 0;

	if (p->workspace)
		r = add_write(p, p->workspace, err);
	p->workspace = NULL;
	if (!parsed_has(vm->args, OPT_PRIVATE))
		return r;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(private_places); i++)
		r = add_write(p, private_places[i], err);
	return r;
}

int vm_inner_policy(const struct vm *vm, char **ret, struct cordon_error *err)
{
	struct cordon_policy *p;
	int r = cordon_policy_copy(vm->policy, &p, err);

	if (r < 0)
		return r;
	p->isolation = CORDON_LEVEL_NAMESPACES;
	/* The outer sandbox does these, for all that the guest can reach. */
	p->protect = POLICY_PROTECT_OFF;
	p->fs_deny.n = 0;
	p->require.n = 0;
	p->user = NULL;
	p->output_bytes = -1;
	p->output_end = -1;
	r = grant_places(vm, p, err);
	make_real(p, &p->fs_read);
	make_real(p, &p->fs_write);
	/* The file of this policy lies elsewhere, so relative would mean something else. */
	if (p->cwd && real_path(p, p->cwd))
		p->cwd = real_path(p, p->cwd);
	if (r == 0)
		r = set_number(p, "limits.memory", command_memory(vm->policy), err);
	if (r == 0)
		r = cordon_policy_to_json(p, ret, err);
	cordon_policy_free(p);
	return r;
}

static int64_t ns_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/*
 * The frequency of the time stamp counter, which the guest would have to measure against a clock
 * that an emulation does not keep: some starts hang in that. 0 = not known.
 */
static unsigned tsc_khz(void)
{
#if defined(__x86_64__)
	int64_t best_ns = INT64_MAX;
	uint64_t best = 0;

	for (int i = 0; i < 3; i++) {
		struct timespec pause = { .tv_nsec = 3000000 };
		int64_t from_ns = ns_of(CLOCK_MONOTONIC_RAW), gap, ns;
		uint64_t from = __builtin_ia32_rdtsc(), to;

		gap = ns_of(CLOCK_MONOTONIC_RAW) - from_ns;
		nanosleep(&pause, NULL);
		ns = ns_of(CLOCK_MONOTONIC_RAW);
		to = __builtin_ia32_rdtsc();
		gap += ns_of(CLOCK_MONOTONIC_RAW) - ns;
		/* The pair that was disturbed least. */
		if (gap < best_ns && ns > from_ns && to > from) {
			best_ns = gap;
			best = (uint64_t)((double)(to - from) * 1e6 / (double)(ns - from_ns));
		}
	}
	return (unsigned)best;
#else
	return 0;
#endif
}

static void PRINTF_LIKE(2, 3) add_arg(struct strbuf *sb, const char *fmt, ...)
{
	char text[PATH_MAX + 512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	microvm_add(sb, FIELD_ARG, text);
}

/* The number of exports, or -EPROTO. */
static int count_dirs(const struct vm *vm)
{
	struct microvm_message m = { .data = vm->hello.data, .len = vm->hello.len };
	const char *text;
	int n = 0, r;
	char field;

	while ((r = microvm_next(&m, &field, &text)) > 0)
		n += field == FIELD_DIR;
	return r < 0 || n > MICROVM_DIRS_MAX ? -EPROTO : n;
}

static int add_exports(struct vm *vm, struct strbuf *sb)
{
	struct microvm_message m = { .data = vm->hello.data, .len = vm->hello.len };
	const char *text;
	char field;
	int n = 0;

	while (microvm_next(&m, &field, &text) > 0) {
		if (field != FIELD_DIR)
			continue;
		if (strpbrk(text, ",/"))
			return -EPROTO;
		/* What may be written is the sandbox's to say, not this server's. */
		microvm_add(sb, FIELD_ARG, "-fsdev");
		add_arg(sb, "local,id=f%d,path=/%s,security_model=none,multidevs=remap", n, text);
		microvm_add(sb, FIELD_ARG, "-device");
		add_arg(sb, "virtio-9p-device,fsdev=f%d,mount_tag=d%d", n, n);
		n++;
	}
	return 0;
}

static void add_ports(struct strbuf *sb)
{
	static const char *const args[] = {
		"-device",  "virtio-serial-device,max_ports=5",
		"-chardev", "stdio,id=in,signal=off",
		"-device",  "virtserialport,chardev=in,nr=1",
		"-add-fd",  "fd=4,set=1",
		"-chardev", "file,id=out,path=/dev/fdset/1,append=on",
		"-device",  "virtserialport,chardev=out,nr=2",
		"-add-fd",  "fd=5,set=2",
		"-chardev", "file,id=err,path=/dev/fdset/2,append=on",
		"-device",  "virtserialport,chardev=err,nr=3",
		"-chardev", "socket,id=ctl,fd=3",
		"-device",  "virtserialport,chardev=ctl,nr=4",
	};

	for (size_t i = 0; i < ARRAY_SIZE(args); i++)
		microvm_add(sb, FIELD_ARG, args[i]);
}

int vm_write_start(struct vm *vm)
{
	struct strbuf *sb = &vm->unsent;
	size_t at = microvm_begin(sb, MICROVM_START);
	int n = count_dirs(vm);

	if (n < 0)
		return n;
	add_arg(sb, "%s", vm->qemu);
	microvm_add(sb, FIELD_ARG, "-M");
	add_arg(sb, "microvm,acpi=on,pcie=off,pit=off,pic=off,rtc=off,isa-serial=off,ioapic2=on");
	microvm_add(sb, FIELD_ARG, "-accel");
	add_arg(sb, "tcg,tb-size=%d", TRANSLATED_MIB);
	microvm_add(sb, FIELD_ARG, "-cpu");
	add_arg(sb, "max");
	microvm_add(sb, FIELD_ARG, "-smp");
	add_arg(sb, "1");
	microvm_add(sb, FIELD_ARG, "-m");
	add_arg(sb, "%lldM", (long long)(vm->memory_bytes / MIB));
	for (const char *const *word =
		     (const char *const[]){ "-nodefaults", "-no-user-config", "-no-reboot",
					    "-display", "none", NULL };
	     *word; word++)
		microvm_add(sb, FIELD_ARG, *word);
	microvm_add(sb, FIELD_ARG, "-kernel");
	add_arg(sb, "%s/%s", CORDON_CODE_DIR, MICROVM_KERNEL);
	microvm_add(sb, FIELD_ARG, "-initrd");
	add_arg(sb, "%s/%s", CORDON_CODE_DIR, MICROVM_INITRAMFS);
	microvm_add(sb, FIELD_ARG, "-append");
	add_arg(sb,
		"quiet loglevel=0 panic=-1 rdinit=%s tsc_early_khz=%u mitigations=off "
		"nosoftlockup",
		MICROVM_AGENT, tsc_khz());
	add_ports(sb);
	if (add_exports(vm, sb) < 0)
		return -EPROTO;
	microvm_end(sb, at);
	return sb->failed ? -ENOMEM : 0;
}

static int add_entropy(struct strbuf *sb)
{
	unsigned char bytes[ENTROPY_BYTES];
	char hex[2 * ENTROPY_BYTES + 1];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
	microvm_add(sb, FIELD_ENTROPY, hex);
	return 0;
}

int vm_write_request(struct vm *vm)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct strbuf *sb = &vm->unsent;
	size_t at = microvm_begin(sb, MICROVM_REQUEST);
	char cwd[PATH_MAX], *policy = NULL;
	mode_t mask;

	/* Checked when the run began. */
	if (!getcwd(cwd, sizeof(cwd)) || vm_inner_policy(vm, &policy, &err) < 0)
		return -EIO;
	mask = umask(077);
	(void)umask(mask);
	microvm_add_number(sb, FIELD_UMASK, (int64_t)mask);
	microvm_add(sb, FIELD_CWD, cwd);
	microvm_add(sb, FIELD_POLICY, policy);
	cordon_free(policy);
	for (char **word = vm->args->rest; *word; word++)
		microvm_add(sb, FIELD_ARG, *word);
	if (add_entropy(sb) < 0)
		return -EIO;
	/* Last, as it gets old: links, directories, ids and variables of the outer sandbox. */
	strbuf_add(sb, vm->hello.data, vm->hello.len);
	microvm_add_number(sb, FIELD_TIME, ns_of(CLOCK_REALTIME));
	microvm_end(sb, at);
	return sb->failed ? -ENOMEM : 0;
}

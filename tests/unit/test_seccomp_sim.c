/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the seccomp filters through a simulator against the hand-written tables in tests/bpf/
 * (format: tests/bpf/README). Every number, every variant: a number that no line speaks of is a
 * failure, so a change of the filters is always a change of two files.
 */
#include <ctype.h>
#include <errno.h>
#include <linux/audit.h>

#include "base/macros.h"
#include "seccomp/seccomp.h"
#include "tests/lib/bpf_sim.h"
#include "tests/lib/tap.h"

/* The architecture whose filters these are: the one we run on, or what the build says. */
#ifndef SIM_AARCH64
#ifdef __aarch64__
#define SIM_AARCH64 1
#else
#define SIM_AARCH64 0
#endif
#endif
#if SIM_AARCH64
#define SIM_FOLDER "tests/bpf/aarch64"
#define __ARCH_WANT_NEW_STAT
#define __ARCH_WANT_RENAMEAT
#define __ARCH_WANT_SET_GET_RLIMIT
#define __ARCH_WANT_SYS_CLONE3
#define __ARCH_WANT_MEMFD_SECRET
#include <asm-generic/unistd.h>
#else
#define SIM_FOLDER "tests/bpf/x86_64"
#include <asm/unistd.h>
#endif

#define LINE_MAX_BYTES 256
#define NR_MAX 1024
#define X32_BIT 0x40000000u
#define LIST_MAX 32
/* Verdicts that are no filter action. */
#define VERDICT_ARGS 0xfffffffeu
#define VERDICT_NONE 0xffffffffu

static const char *const variant_words[] = {
	[SECCOMP_NAMESPACES] = "NAMESPACES",
	[SECCOMP_LANDLOCK] = "LANDLOCK",
	[SECCOMP_LANDLOCK_NO_UNIX] = "LANDLOCK_NO_UNIX",
	[SECCOMP_LANDLOCK_OLD] = "LANDLOCK_OLD",
	[SECCOMP_NAMESPACES_COMMANDS] = "NAMESPACES_COMMANDS",
	[SECCOMP_LANDLOCK_COMMANDS] = "LANDLOCK_COMMANDS",
	[SECCOMP_LANDLOCK_NO_UNIX_COMMANDS] = "LANDLOCK_NO_UNIX_COMMANDS",
	[SECCOMP_LANDLOCK_OLD_COMMANDS] = "LANDLOCK_OLD_COMMANDS",
	[SECCOMP_LANDLOCK_NET] = "LANDLOCK_NET",
	[SECCOMP_LANDLOCK_NO_UNIX_NET] = "LANDLOCK_NO_UNIX_NET",
	[SECCOMP_LANDLOCK_COMMANDS_NET] = "LANDLOCK_COMMANDS_NET",
	[SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_NET] = "LANDLOCK_NO_UNIX_COMMANDS_NET",
	[SECCOMP_LANDLOCK_NO_UNIX_SIGNALS] = "LANDLOCK_NO_UNIX_SIGNALS",
	[SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_SIGNALS] = "LANDLOCK_NO_UNIX_COMMANDS_SIGNALS",
	[SECCOMP_LANDLOCK_NO_UNIX_NET_SIGNALS] = "LANDLOCK_NO_UNIX_NET_SIGNALS",
	[SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_NET_SIGNALS] = "LANDLOCK_NO_UNIX_COMMANDS_NET_SIGNALS",
	[SECCOMP_LANDLOCK_OLD_SIGNALS] = "LANDLOCK_OLD_SIGNALS",
	[SECCOMP_LANDLOCK_OLD_COMMANDS_SIGNALS] = "LANDLOCK_OLD_COMMANDS_SIGNALS",
};
_Static_assert(ARRAY_SIZE(variant_words) == SECCOMP_VARIANT_MAX, "every variant has a word");

enum domain {
	DOMAIN_NATIVE,
	DOMAIN_HIGH, /* of the same architecture, bit 30 set: x32 on x86-64 */
	DOMAIN_I386,
	DOMAIN_ARM,
	DOMAIN_OTHER, /* the other one of x86-64 and aarch64 */
	DOMAIN_MAX
};

static const struct {
	const char *word;
	uint32_t value;
} verdict_words[] = {
	{ "ALLOW", SECCOMP_RET_ALLOW },
	{ "KILL", SECCOMP_RET_KILL_PROCESS },
	{ "NOTIFY", SECCOMP_RET_USER_NOTIF },
	{ "ARGS", VERDICT_ARGS },
	{ "EPERM", SECCOMP_RET_ERRNO | EPERM },
	{ "ENOSYS", SECCOMP_RET_ERRNO | ENOSYS },
	{ "EAFNOSUPPORT", SECCOMP_RET_ERRNO | EAFNOSUPPORT },
	{ "EPROTONOSUPPORT", SECCOMP_RET_ERRNO | EPROTONOSUPPORT },
	{ "EOPNOTSUPP", SECCOMP_RET_ERRNO | EOPNOTSUPP },
	{ "DONE", SECCOMP_RET_ERRNO },
	{ "EACCES", SECCOMP_RET_ERRNO | EACCES },
	{ "EINVAL", SECCOMP_RET_ERRNO | EINVAL },
	{ "ENOMEM", SECCOMP_RET_ERRNO | ENOMEM },
};

/* clang-format off */
#define NAME(call) { #call, __NR_##call }
static const struct {
	const char *name;
	uint32_t nr;
} call_names[] = {
	NAME(accept), NAME(acct), NAME(add_key), NAME(adjtimex), NAME(bind), NAME(bpf), NAME(chroot),
	NAME(clock_adjtime), NAME(clock_settime), NAME(clone), NAME(clone3), NAME(close),
	NAME(close_range), NAME(connect), NAME(delete_module), NAME(epoll_pwait2), NAME(execve),
	NAME(execveat), NAME(faccessat2), NAME(fadvise64), NAME(fanotify_init), NAME(fanotify_mark),
	NAME(fchmod), NAME(fchmodat), NAME(fchown), NAME(fchownat), NAME(fcntl), NAME(finit_module),
	NAME(fremovexattr), NAME(fsconfig), NAME(fsetxattr), NAME(fsmount), NAME(fsopen),
	NAME(fspick), NAME(getcpu), NAME(getcwd), NAME(getpriority), NAME(getrandom), NAME(getuid),
	NAME(init_module), NAME(inotify_add_watch), NAME(inotify_init1), NAME(inotify_rm_watch),
	NAME(io_cancel), NAME(io_destroy), NAME(io_getevents), NAME(io_setup), NAME(io_submit),
	NAME(io_uring_enter), NAME(io_uring_register), NAME(io_uring_setup), NAME(ioctl),
	NAME(ioprio_get), NAME(ioprio_set), NAME(kcmp), NAME(kexec_file_load), NAME(kexec_load),
	NAME(keyctl), NAME(kill), NAME(listen), NAME(lookup_dcookie), NAME(lremovexattr),
	NAME(lsetxattr), NAME(memfd_create), NAME(memfd_secret), NAME(migrate_pages), NAME(mkdirat),
	NAME(mknodat), NAME(mmap), NAME(mount), NAME(mount_setattr), NAME(move_mount),
	NAME(move_pages), NAME(mq_getsetattr), NAME(mq_notify), NAME(mq_open), NAME(mq_timedreceive),
	NAME(mq_timedsend), NAME(mq_unlink), NAME(msgctl), NAME(msgget), NAME(msgrcv), NAME(msgsnd),
	NAME(name_to_handle_at), NAME(nfsservctl), NAME(open_by_handle_at), NAME(open_tree),
	NAME(openat), NAME(openat2), NAME(perf_event_open), NAME(personality), NAME(pidfd_getfd),
	NAME(pidfd_open), NAME(pidfd_send_signal), NAME(pipe2), NAME(pivot_root), NAME(prctl),
	NAME(prlimit64), NAME(process_madvise), NAME(process_mrelease), NAME(process_vm_readv),
	NAME(process_vm_writev), NAME(ptrace), NAME(quotactl), NAME(quotactl_fd), NAME(reboot),
	NAME(recvfrom), NAME(recvmmsg), NAME(removexattr), NAME(request_key), NAME(rt_sigqueueinfo),
	NAME(rt_sigreturn), NAME(rt_tgsigqueueinfo), NAME(sched_getparam), NAME(sched_setaffinity),
	NAME(sched_setattr), NAME(sched_setparam), NAME(sched_setscheduler), NAME(seccomp),
	NAME(semctl), NAME(semget), NAME(semop), NAME(semtimedop), NAME(sendmmsg), NAME(sendmsg),
	NAME(sendto), NAME(setdomainname), NAME(setgroups), NAME(sethostname), NAME(setns),
	NAME(setpriority), NAME(setrlimit), NAME(setsockopt), NAME(settimeofday), NAME(setxattr),
	NAME(shmat), NAME(shmctl), NAME(shmdt), NAME(shmget), NAME(socket), NAME(socketpair),
	NAME(swapoff), NAME(swapon), NAME(sync), NAME(syncfs), NAME(syslog), NAME(tgkill),
	NAME(tkill), NAME(truncate), NAME(umount2), NAME(uname), NAME(unshare), NAME(userfaultfd),
	NAME(utimensat), NAME(vhangup), NAME(vmsplice), NAME(wait4), NAME(waitid),
	{ "fchmodat2", 452 }, /* newer than the headers of Debian 12 */
#ifdef __NR_open /* x86_64's alone */
	NAME(_sysctl), NAME(arch_prctl), NAME(chmod), NAME(chown), NAME(creat), NAME(create_module),
	NAME(futimesat), NAME(get_kernel_syms), NAME(inotify_init), NAME(ioperm), NAME(iopl),
	NAME(lchown), NAME(mknod), NAME(modify_ldt), NAME(open), NAME(query_module), NAME(sysfs),
	NAME(uselib), NAME(ustat), NAME(utime), NAME(utimes),
#endif
};
/* clang-format on */

/* A line without arguments, or one combination of a line's arguments. */
struct expectation {
	const char *where; /* the line, for messages */
	enum seccomp_variant variant;
	uint32_t verdict;
	uint32_t arch;
	uint32_t nr;
	unsigned int given; /* bit n: argument n is given */
	uint64_t args[6];
};

struct call_range {
	enum domain domain;
	uint32_t first, last;
};

struct arg_list {
	bool any;
	size_t count;
	uint64_t values[LIST_MAX];
};

struct line {
	char text[LINE_MAX_BYTES];
	unsigned int variants; /* bit mask */
	uint32_t verdict;
	size_t n_calls, n_args;
	struct call_range calls[LIST_MAX];
	struct arg_list args[6];
};

/* What the lines have said of a number. */
struct coverage {
	uint32_t verdict;
	bool has_allow, has_refusal; /* by lines with arguments */
};

static struct coverage coverage[SECCOMP_VARIANT_MAX][DOMAIN_MAX][NR_MAX];

static const uint32_t domain_arch[] = {
	[DOMAIN_NATIVE] = SIM_AARCH64 ? AUDIT_ARCH_AARCH64 : AUDIT_ARCH_X86_64,
	[DOMAIN_HIGH] = SIM_AARCH64 ? AUDIT_ARCH_AARCH64 : AUDIT_ARCH_X86_64,
	[DOMAIN_I386] = AUDIT_ARCH_I386,
	[DOMAIN_ARM] = AUDIT_ARCH_ARM,
	[DOMAIN_OTHER] = SIM_AARCH64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64,
};

static uint32_t verdict_by_word(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(verdict_words); i++) {
		if (!strcmp(verdict_words[i].word, word))
			return verdict_words[i].value;
	}
	return VERDICT_NONE;
}

static const char *verdict_text(uint32_t value)
{
	for (size_t i = 0; i < ARRAY_SIZE(verdict_words); i++) {
		if (verdict_words[i].value == value)
			return verdict_words[i].word;
	}
	return "something else";
}

static bool parse_number(const char *word, char **ret_end, uint64_t *ret)
{
	if (!isdigit((unsigned char)*word))
		return false;
	*ret = strtoull(word, ret_end, 0);
	return true;
}

static bool parse_call(const char *word, struct call_range *ret)
{
	static const struct {
		const char *prefix;
		enum domain domain;
	} prefixes[] = {
		{ "i386:", DOMAIN_I386 },
		{ "arm:", DOMAIN_ARM },
		{ SIM_AARCH64 ? "x86_64:" : "aarch64:", DOMAIN_OTHER },
	};
	struct call_range range = { .domain = DOMAIN_NATIVE };
	uint64_t value;
	char *end;

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		size_t len = strlen(prefixes[i].prefix);

		if (!strncmp(word, prefixes[i].prefix, len)) {
			range.domain = prefixes[i].domain;
			word += len;
			break;
		}
	}
	if (parse_number(word, &end, &value)) {
		range.first = range.last = (uint32_t)value;
		if (*end == '-' && parse_number(end + 1, &end, &value))
			range.last = (uint32_t)value;
		if (*end || range.last < range.first)
			return false;
		if (range.domain == DOMAIN_NATIVE && range.first >= X32_BIT)
			range.domain = DOMAIN_HIGH;
		*ret = range;
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(call_names); i++) {
		if (!strcmp(call_names[i].name, word)) {
			range.first = range.last = call_names[i].nr;
			*ret = range;
			return true;
		}
	}
	return false;
}

static bool parse_variants(char *word, unsigned int *ret)
{
	unsigned int mask = 0;
	char *save, *item;

	if (!strcmp(word, "ALL")) {
		*ret = (1u << SECCOMP_VARIANT_MAX) - 1;
		return true;
	}
	for (item = strtok_r(word, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
		size_t len = strlen(item);
		bool all = len && item[len - 1] == '+';
		unsigned int v = 0;

		item[len - all] = '\0';
		while (v < SECCOMP_VARIANT_MAX && strcmp(variant_words[v], item))
			v++;
		if (v == SECCOMP_VARIANT_MAX)
			return false;
		mask |= 1u << v;
		if (all) {
			unsigned int commands = seccomp_variant_with_commands(v);
			const unsigned int plain[] = { v, commands, seccomp_variant_with_net(v),
						       seccomp_variant_with_net(commands) };

			for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
				mask |= 1u << plain[i] |
					1u << seccomp_variant_with_signals(plain[i], 1);
		}
	}
	*ret = mask;
	return mask != 0;
}

static bool parse_arg(char *word, struct arg_list *list)
{
	char *save, *item, *end;

	list->any = !strcmp(word, "*");
	list->count = 0;
	if (list->any)
		return true;
	for (item = strtok_r(word, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
		if (list->count == LIST_MAX ||
		    !parse_number(item, &end, &list->values[list->count++]) || *end)
			return false;
	}
	return list->count > 0;
}

static bool parse_calls(char *word, struct line *line)
{
	char *save, *item;

	line->n_calls = 0;
	for (item = strtok_r(word, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
		if (line->n_calls == LIST_MAX || !parse_call(item, &line->calls[line->n_calls++]))
			return false;
	}
	return line->n_calls > 0;
}

/* VARIANTS CALLS ARG... -> VERDICT */
static bool parse_line(char *copy, struct line *line)
{
	char *save, *word;

	word = strtok_r(copy, " \t", &save);
	if (!word || !parse_variants(word, &line->variants))
		return false;
	word = strtok_r(NULL, " \t", &save);
	if (!word || !parse_calls(word, line))
		return false;
	line->n_args = 0;
	while ((word = strtok_r(NULL, " \t", &save)) && strcmp(word, "->")) {
		if (line->n_args == 6 || !parse_arg(word, &line->args[line->n_args++]))
			return false;
	}
	word = word ? strtok_r(NULL, " \t", &save) : NULL;
	if (!word || strtok_r(NULL, " \t", &save))
		return false;
	line->verdict = verdict_by_word(word);
	return line->verdict != VERDICT_NONE && (line->verdict != VERDICT_ARGS || !line->n_args);
}

/* Values that would show a rule looking at what it should not look at. */
static const uint64_t fillers[] = { 0, ~0ull, 0x0123456789abcdef, 0x5412, 1, 0x7e02200820000001 };

static void simulate(const struct expectation *want)
{
	const struct seccomp_filter *filter = seccomp_filter_get(want->variant);

	for (size_t f = 0; f < ARRAY_SIZE(fillers); f++) {
		struct seccomp_data data = { .nr = (int)want->nr, .arch = want->arch };
		struct bpf_sim_result got;

		for (unsigned int a = 0; a < 6; a++) {
			uint64_t high = fillers[f] & 0xffffffff00000000;

			data.args[a] = fillers[f];
			if (want->given & (1u << a))
				data.args[a] = want->args[a] ^ high;
		}
		if (bpf_sim_run(filter->insns, filter->len, &data, &got) < 0) {
			CHECK_MSG(0, "%s: nr %#x: the program went wrong", want->where, want->nr);
			return;
		}
		CHECK_MSG(got.action == want->verdict, "%s: %s nr %#x filler %#jx: got %s",
			  want->where, variant_words[want->variant], want->nr,
			  (uintmax_t)fillers[f], verdict_text(got.action));
		CHECK_MSG(want->given || !(got.read & BPF_SIM_READ_ARGS),
			  "%s: nr %#x: arguments are read for nothing", want->where, want->nr);
	}
}

/* Tries every combination of the line's argument lists. */
static void try_args(const struct line *line, struct expectation *want, size_t arg)
{
	const struct arg_list *list = &line->args[arg];

	if (arg == line->n_args) {
		simulate(want);
		return;
	}
	if (list->any) {
		try_args(line, want, arg + 1);
		return;
	}
	want->given |= 1u << arg;
	for (size_t i = 0; i < list->count; i++) {
		want->args[arg] = list->values[i];
		try_args(line, want, arg + 1);
	}
	want->given &= ~(1u << arg);
}

static void note_coverage(const struct line *line, enum seccomp_variant variant, enum domain domain,
			  uint32_t nr)
{
	uint32_t index = domain == DOMAIN_HIGH ? nr - X32_BIT : nr;
	struct coverage *cover;

	if (index >= NR_MAX)
		return;
	cover = &coverage[variant][domain][index];
	if (line->n_args) {
		if (line->verdict == SECCOMP_RET_ALLOW)
			cover->has_allow = true;
		else
			cover->has_refusal = true;
		return;
	}
	CHECK_MSG(cover->verdict == VERDICT_NONE, "%s: %s nr %#x has a line already", line->text,
		  variant_words[variant], nr);
	cover->verdict = line->verdict;
}

static void run_number(const struct line *line, enum seccomp_variant variant, enum domain domain,
		       uint32_t nr)
{
	const struct seccomp_filter *filter = seccomp_filter_get(variant);
	struct expectation want = { .where = line->text,
				    .variant = variant,
				    .verdict = line->verdict,
				    .arch = domain_arch[domain],
				    .nr = nr };
	bool cached = bpf_sim_is_const_allow(filter->insns, filter->len, want.arch, nr);

	note_coverage(line, variant, domain, nr);
	if (!line->n_args)
		CHECK_MSG(cached == (line->verdict == SECCOMP_RET_ALLOW),
			  "%s: %s nr %#x: allowed by number alone: %s", line->text,
			  variant_words[variant], nr, cached ? "yes" : "no");
	if (line->verdict != VERDICT_ARGS)
		try_args(line, &want, 0);
}

static void run_line(const struct line *line)
{
	for (unsigned int v = 0; v < SECCOMP_VARIANT_MAX; v++) {
		if (!(line->variants & (1u << v)))
			continue;
		for (size_t c = 0; c < line->n_calls; c++) {
			const struct call_range *range = &line->calls[c];

			for (uint64_t nr = range->first; nr <= range->last; nr++)
				run_number(line, v, range->domain, (uint32_t)nr);
		}
	}
}

static FILE *open_source(const char *name)
{
	const char *root = getenv("CORDON_SOURCE_ROOT");
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", root ? root : ".", name);
	return fopen(path, "re");
}

static void run_file(const char *name)
{
	char text[LINE_MAX_BYTES], copy[LINE_MAX_BYTES];
	static struct line line;
	unsigned int lines = 0;
	FILE *f = open_source(name);

	REQUIRE(f);
	while (fgets(text, sizeof(text), f)) {
		CHECK_MSG(strchr(text, '\n'), "%s: line too long: %s", name, text);
		text[strcspn(text, "\n")] = '\0';
		if (!text[0] || text[0] == '#')
			continue;
		memcpy(copy, text, sizeof(copy));
		memcpy(line.text, text, sizeof(text));
		if (parse_line(copy, &line))
			run_line(&line);
		else
			CHECK_MSG(0, "%s: cannot read: %s", name, text);
		lines++;
	}
	CHECK(lines > 0);
	fclose(f);
}

static void check_coverage(enum seccomp_variant variant, enum domain domain)
{
	for (uint32_t nr = 0; nr < NR_MAX; nr++) {
		const struct coverage *cover = &coverage[variant][domain][nr];

		CHECK_MSG(cover->verdict != VERDICT_NONE,
			  "%s domain %d nr %u: no line speaks of it", variant_words[variant],
			  (int)domain, nr);
		if (cover->verdict == VERDICT_ARGS)
			CHECK_MSG(cover->has_allow && cover->has_refusal,
				  "%s nr %u: ARGS needs a line that allows and one that refuses",
				  variant_words[variant], nr);
	}
}

static void test_golden_tables(void)
{
	for (unsigned int v = 0; v < SECCOMP_VARIANT_MAX; v++) {
		for (unsigned int d = 0; d < DOMAIN_MAX; d++) {
			for (uint32_t nr = 0; nr < NR_MAX; nr++)
				coverage[v][d][nr].verdict = VERDICT_NONE;
		}
	}
	run_file("tests/bpf/all.tests");
	run_file("tests/bpf/namespaces.tests");
	run_file("tests/bpf/landlock.tests");
	run_file("tests/bpf/landlock-no-unix.tests");
	run_file("tests/bpf/landlock-old.tests");
	run_file(SIM_FOLDER "/all.tests");
	run_file(SIM_FOLDER "/namespaces.tests");
	run_file(SIM_FOLDER "/landlock.tests");
	run_file(SIM_FOLDER "/landlock-no-unix.tests");
	run_file(SIM_FOLDER "/landlock-old.tests");
	run_file("tests/bpf/commands.tests");
	run_file("tests/bpf/signals.tests");
	for (unsigned int v = 0; v < SECCOMP_VARIANT_MAX; v++) {
		for (unsigned int d = 0; d < DOMAIN_MAX; d++)
			check_coverage(v, d);
	}
}

TAP_MAIN(test_golden_tables)

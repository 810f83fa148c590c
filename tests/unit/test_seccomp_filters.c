/* SPDX-License-Identifier: Apache-2.0 */
/* What the seccomp filters are like as programs, whatever they decide. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "seccomp/seccomp.h"
#include "tests/lib/arch.h"
#include "tests/lib/bpf_sim.h"
#include "tests/lib/tap.h"

#define KNOWN_CALLS 472

/* Installing costs by the instruction: growing past these should be a decision. */
static const unsigned short max_len[] = {
	[SECCOMP_NAMESPACES] = 156,
	[SECCOMP_LANDLOCK] = 195,
	[SECCOMP_LANDLOCK_NO_UNIX] = 195,
	[SECCOMP_LANDLOCK_OLD] = 195,
	[SECCOMP_NAMESPACES_COMMANDS] = 160,
	[SECCOMP_LANDLOCK_COMMANDS] = 200,
	[SECCOMP_LANDLOCK_NO_UNIX_COMMANDS] = 200,
	[SECCOMP_LANDLOCK_OLD_COMMANDS] = 200,
	[SECCOMP_LANDLOCK_NET] = 195,
	[SECCOMP_LANDLOCK_NO_UNIX_NET] = 195,
	[SECCOMP_LANDLOCK_COMMANDS_NET] = 200,
	[SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_NET] = 200,
	[SECCOMP_LANDLOCK_NO_UNIX_SIGNALS] = 215,
	[SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_SIGNALS] = 220,
	[SECCOMP_LANDLOCK_NO_UNIX_NET_SIGNALS] = 215,
	[SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_NET_SIGNALS] = 220,
	[SECCOMP_LANDLOCK_OLD_SIGNALS] = 215,
	[SECCOMP_LANDLOCK_OLD_COMMANDS_SIGNALS] = 220,
};
_Static_assert(ARRAY_SIZE(max_len) == SECCOMP_VARIANT_MAX, "every variant has a limit");

static void test_lookup(void)
{
	CHECK_STR(seccomp_variant_name(SECCOMP_NAMESPACES), "namespaces");
	CHECK_STR(seccomp_variant_name(SECCOMP_LANDLOCK_OLD), "landlock-old");
	CHECK(!seccomp_variant_name(SECCOMP_VARIANT_MAX));
	CHECK(!seccomp_filter_get(SECCOMP_VARIANT_MAX));
	CHECK(!seccomp_filter_get(~0u));
	for (unsigned int v = 0; v < SECCOMP_VARIANT_MAX; v++) {
		REQUIRE(seccomp_filter_get(v));
		CHECK(seccomp_filter_get(v)->insns && seccomp_filter_get(v)->len);
		CHECK(seccomp_variant_name(v));
	}
	CHECK_INT(seccomp_variant_for_landlock(1), SECCOMP_LANDLOCK_OLD);
	CHECK_INT(seccomp_variant_for_landlock(3), SECCOMP_LANDLOCK_OLD);
	CHECK_INT(seccomp_variant_for_landlock(4), SECCOMP_LANDLOCK_NO_UNIX);
	CHECK_INT(seccomp_variant_for_landlock(8), SECCOMP_LANDLOCK_NO_UNIX);
	CHECK_INT(seccomp_variant_for_landlock(9), SECCOMP_LANDLOCK);
	CHECK_INT(seccomp_variant_for_landlock(99), SECCOMP_LANDLOCK);
	CHECK_INT(seccomp_variant_with_commands(SECCOMP_NAMESPACES), SECCOMP_NAMESPACES_COMMANDS);
	CHECK_INT(seccomp_variant_with_commands(SECCOMP_LANDLOCK), SECCOMP_LANDLOCK_COMMANDS);
	CHECK_INT(seccomp_variant_with_commands(SECCOMP_LANDLOCK_NO_UNIX),
		  SECCOMP_LANDLOCK_NO_UNIX_COMMANDS);
	CHECK_INT(seccomp_variant_with_commands(SECCOMP_LANDLOCK_OLD),
		  SECCOMP_LANDLOCK_OLD_COMMANDS);
	CHECK_INT(seccomp_variant_with_commands(SECCOMP_LANDLOCK_OLD_COMMANDS),
		  SECCOMP_LANDLOCK_OLD_COMMANDS);
}

static void test_lookup_net(void)
{
	static const struct {
		enum seccomp_variant plain, net;
	} pairs[] = {
		{ SECCOMP_LANDLOCK, SECCOMP_LANDLOCK_NET },
		{ SECCOMP_LANDLOCK_NO_UNIX, SECCOMP_LANDLOCK_NO_UNIX_NET },
		{ SECCOMP_LANDLOCK_COMMANDS, SECCOMP_LANDLOCK_COMMANDS_NET },
		{ SECCOMP_LANDLOCK_NO_UNIX_COMMANDS, SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_NET },
		/* those that have none */
		{ SECCOMP_NAMESPACES, SECCOMP_NAMESPACES },
		{ SECCOMP_NAMESPACES_COMMANDS, SECCOMP_NAMESPACES_COMMANDS },
		{ SECCOMP_LANDLOCK_OLD, SECCOMP_LANDLOCK_OLD },
		{ SECCOMP_LANDLOCK_OLD_COMMANDS, SECCOMP_LANDLOCK_OLD_COMMANDS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		CHECK_INT(seccomp_variant_with_net(pairs[i].plain), pairs[i].net);
		CHECK_INT(seccomp_variant_with_net(pairs[i].net), pairs[i].net);
		/* in either order */
		CHECK_INT(seccomp_variant_with_commands(pairs[i].net),
			  seccomp_variant_with_net(seccomp_variant_with_commands(pairs[i].plain)));
		CHECK_INT(seccomp_variant_has_net(pairs[i].plain), 0);
		CHECK_INT(seccomp_variant_has_net(pairs[i].net), pairs[i].plain != pairs[i].net);
	}
	CHECK_INT(seccomp_variant_has_net(SECCOMP_VARIANT_MAX), 0);
	CHECK_INT(seccomp_variant_has_net(~0u), 0);
}

static void test_lookup_signals(void)
{
	static const struct {
		enum seccomp_variant plain, signals;
	} pairs[] = {
		{ SECCOMP_LANDLOCK_NO_UNIX, SECCOMP_LANDLOCK_NO_UNIX_SIGNALS },
		{ SECCOMP_LANDLOCK_NO_UNIX_COMMANDS, SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_SIGNALS },
		{ SECCOMP_LANDLOCK_NO_UNIX_NET, SECCOMP_LANDLOCK_NO_UNIX_NET_SIGNALS },
		{ SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_NET,
		  SECCOMP_LANDLOCK_NO_UNIX_COMMANDS_NET_SIGNALS },
		{ SECCOMP_LANDLOCK_OLD, SECCOMP_LANDLOCK_OLD_SIGNALS },
		{ SECCOMP_LANDLOCK_OLD_COMMANDS, SECCOMP_LANDLOCK_OLD_COMMANDS_SIGNALS },
		/* those that have none */
		{ SECCOMP_NAMESPACES, SECCOMP_NAMESPACES },
		{ SECCOMP_NAMESPACES_COMMANDS, SECCOMP_NAMESPACES_COMMANDS },
		{ SECCOMP_LANDLOCK, SECCOMP_LANDLOCK },
	};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		for (int abi = 1; abi < 6; abi++)
			CHECK_INT(seccomp_variant_with_signals(pairs[i].plain, abi),
				  pairs[i].signals);
		CHECK_INT(seccomp_variant_with_signals(pairs[i].plain, 6), pairs[i].plain);
		CHECK_INT(seccomp_variant_with_signals(pairs[i].signals, 1), pairs[i].signals);
		CHECK_INT(seccomp_variant_has_net(pairs[i].signals),
			  seccomp_variant_has_net(pairs[i].plain));
	}
}

/* Whether a variant has Unix sockets is what its program says of them. */
static void test_has_unix(void)
{
	for (unsigned int v = 0; v < SECCOMP_VARIANT_MAX; v++) {
		const struct seccomp_filter *filter = seccomp_filter_get(v);
		const struct seccomp_data data = { .nr = SYS_socket,
						   .arch = TEST_AUDIT_ARCH,
						   .args = { 1, 1, 0 } };
		struct bpf_sim_result got;

		REQUIRE(!bpf_sim_run(filter->insns, filter->len, &data, &got));
		CHECK_MSG(seccomp_variant_has_unix(v) == (got.action == SECCOMP_RET_ALLOW), "%s",
			  seccomp_variant_name(v));
	}
	CHECK_INT(seccomp_variant_has_unix(SECCOMP_VARIANT_MAX), 0);
}

static void test_structure(void)
{
	for (unsigned int v = 0; v < SECCOMP_VARIANT_MAX; v++) {
		const struct seccomp_filter *filter = seccomp_filter_get(v);
		const char *why;
		size_t pc;

		why = bpf_sim_check(filter->insns, filter->len, &pc);
		CHECK_MSG(!why, "%s: instruction %zu: %s", seccomp_variant_name(v), pc, why);
		CHECK_MSG(filter->len <= max_len[v], "%s: %u instructions, expected at most %u",
			  seccomp_variant_name(v), filter->len, max_len[v]);
		/* The architecture before anything else. */
		CHECK_INT(filter->insns[0].code, BPF_LD | BPF_W | BPF_ABS);
		CHECK_INT(filter->insns[0].k, offsetof(struct seccomp_data, arch));
		CHECK_INT(filter->insns[1].code, BPF_JMP | BPF_JEQ | BPF_K);
		CHECK_INT(filter->insns[1].k, TEST_AUDIT_ARCH);
	}
}

/* Only these answers exist, each errno one that programs know how to take. */
static void test_returns(void)
{
	static const uint32_t known[] = {
		SECCOMP_RET_ALLOW,
		SECCOMP_RET_KILL_PROCESS,
		SECCOMP_RET_ERRNO,
		SECCOMP_RET_ERRNO | EPERM,
		SECCOMP_RET_ERRNO | ENOSYS,
		SECCOMP_RET_ERRNO | EAFNOSUPPORT,
		SECCOMP_RET_ERRNO | EPROTONOSUPPORT,
		SECCOMP_RET_ERRNO | EOPNOTSUPP,
		SECCOMP_RET_ERRNO | EACCES,
		SECCOMP_RET_ERRNO | EINVAL,
		SECCOMP_RET_ERRNO | ENOMEM,
		SECCOMP_RET_USER_NOTIF,
	};

	for (unsigned int v = 0; v < SECCOMP_VARIANT_MAX; v++) {
		const struct seccomp_filter *filter = seccomp_filter_get(v);

		for (size_t pc = 0; pc < filter->len; pc++) {
			size_t i = 0;

			if (filter->insns[pc].code != (BPF_RET | BPF_K))
				continue;
			while (i < ARRAY_SIZE(known) && known[i] != filter->insns[pc].k)
				i++;
			CHECK_MSG(i < ARRAY_SIZE(known), "%s: instruction %zu returns %#x",
				  seccomp_variant_name(v), pc, filter->insns[pc].k);
			/* With namespaces there is no listener, and nothing is trapped. */
			CHECK(filter->insns[pc].k != SECCOMP_RET_USER_NOTIF ||
			      (v != SECCOMP_NAMESPACES && v != SECCOMP_NAMESPACES_COMMANDS));
		}
	}
}

/* The second filter of runs with a workspace: nothing is refused but reserving space. */
static void test_no_reserve(void)
{
	static const struct {
		int nr;
		uint64_t arg;
		int is_refused;
	} calls[] = {
		{ SYS_fallocate, 0, 1 },
		{ SYS_fallocate, 1, 1 },	   /* KEEP_SIZE */
		{ SYS_fallocate, 0x10, 1 },	   /* ZERO_RANGE */
		{ SYS_fallocate, 0x20, 1 },	   /* INSERT_RANGE */
		{ SYS_fallocate, 0x41, 1 },	   /* UNSHARE_RANGE */
		{ SYS_fallocate, 0x80, 1 },	   /* WRITE_ZEROES */
		{ SYS_fallocate, 0x300000000, 1 }, /* the high half says nothing */
		{ SYS_fallocate, 3, 0 },	   /* PUNCH_HOLE */
		{ SYS_fallocate, 8, 0 },	   /* COLLAPSE_RANGE */
		{ SYS_ioctl, 0x40305828, 1 },	   /* FS_IOC_RESVSP */
		{ SYS_ioctl, 0x4030582a, 1 },	   /* FS_IOC_RESVSP64 */
		{ SYS_ioctl, 0x40305839, 1 },	   /* FS_IOC_ZERO_RANGE */
		{ SYS_ioctl, 0x140305828, 1 },	   /* the high half again */
		{ SYS_ioctl, 0x40305829, 0 },	   /* FS_IOC_UNRESVSP */
		{ SYS_ioctl, 0x4030582b, 0 },	   /* FS_IOC_UNRESVSP64 */
		{ SYS_ioctl, 0x5401, 0 },	   /* TCGETS */
		{ SYS_write, 0, 0 },
		{ SYS_ftruncate, 0, 0 },
	};
	const struct seccomp_filter *filter = &seccomp_no_reserve;
	size_t pc;

	CHECK(!bpf_sim_check(filter->insns, filter->len, &pc));
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		struct seccomp_data data = { .nr = calls[i].nr, .arch = TEST_AUDIT_ARCH };
		struct bpf_sim_result got;

		data.args[1] = calls[i].arg;
		REQUIRE(!bpf_sim_run(filter->insns, filter->len, &data, &got));
		CHECK_MSG(got.action == (calls[i].is_refused ? SECCOMP_RET_ERRNO | EOPNOTSUPP
							     : SECCOMP_RET_ALLOW),
			  "call %d with %#llx: %#x", calls[i].nr, (unsigned long long)calls[i].arg,
			  got.action);
	}
	/* It costs nothing elsewhere. */
	for (uint32_t nr = 0; nr < KNOWN_CALLS; nr++)
		CHECK(nr == SYS_fallocate || nr == SYS_ioctl ||
		      bpf_sim_is_const_allow(filter->insns, filter->len, TEST_AUDIT_ARCH, nr));
}

/* Refuses three calls by number, and nothing else costs anything. */
static void test_no_landlock(void)
{
	const struct seccomp_filter *filter = &seccomp_no_landlock;

	REQUIRE(!bpf_sim_check(filter->insns, filter->len, &(size_t){ 0 }));
	for (uint32_t nr = 0; nr < KNOWN_CALLS; nr++) {
		struct seccomp_data data = { .nr = (int)nr, .arch = TEST_AUDIT_ARCH };
		struct bpf_sim_result got;
		int is_refused = nr >= 444 && nr <= 446;

		REQUIRE(!bpf_sim_run(filter->insns, filter->len, &data, &got));
		CHECK_INT(got.action, is_refused ? SECCOMP_RET_ERRNO | ENOSYS : SECCOMP_RET_ALLOW);
		CHECK(is_refused ||
		      bpf_sim_is_const_allow(filter->insns, filter->len, TEST_AUDIT_ARCH, nr));
	}
}

static void test_no_shared_memory(void)
{
	static const struct {
		int nr;
		uint64_t arg;
		int is_refused;
	} calls[] = {
		{ SYS_clone, 0x111, 1 },       /* CLONE_VM and a signal */
		{ SYS_clone, 0x100000f00, 1 }, /* the high half says nothing */
		{ SYS_clone, 0x11, 0 },	       /* fork */
		{ SYS_clone, 0x4111, 0 },      /* posix_spawn */
		{ SYS_clone, 0x3d0f00, 0 },    /* a thread */
		{ SYS_execve, 0x100, 0 },      { SYS_write, 0x100, 0 },
#ifdef SYS_vfork
		{ SYS_fork, 0x100, 0 },	       { SYS_vfork, 0x100, 0 },
#endif
	};
	const struct seccomp_filter *filter = &seccomp_no_shared_memory;

	REQUIRE(!bpf_sim_check(filter->insns, filter->len, &(size_t){ 0 }));
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		struct seccomp_data data = { .nr = calls[i].nr, .arch = TEST_AUDIT_ARCH };
		struct bpf_sim_result got;

		data.args[0] = calls[i].arg;
		REQUIRE(!bpf_sim_run(filter->insns, filter->len, &data, &got));
		CHECK_MSG(got.action == (calls[i].is_refused ? SECCOMP_RET_ERRNO | EPERM
							     : SECCOMP_RET_ALLOW),
			  "call %d with %#llx: %#x", calls[i].nr, (unsigned long long)calls[i].arg,
			  got.action);
	}
	for (uint32_t nr = 0; nr < KNOWN_CALLS; nr++)
		CHECK(nr == SYS_clone ||
		      bpf_sim_is_const_allow(filter->insns, filter->len, TEST_AUDIT_ARCH, nr));
}

/* The walk the kernel makes for each number when the filter is installed stays short. */
static void test_walks(void)
{
	for (unsigned int v = 0; v < SECCOMP_VARIANT_MAX; v++) {
		const struct seccomp_filter *filter = seccomp_filter_get(v);
		unsigned int cached = 0, steps = 0, worst = 0;

		for (uint32_t nr = 0; nr < KNOWN_CALLS; nr++) {
			struct seccomp_data data = { .nr = (int)nr, .arch = TEST_AUDIT_ARCH };
			struct bpf_sim_result got;

			REQUIRE(!bpf_sim_run(filter->insns, filter->len, &data, &got));
			cached += bpf_sim_is_const_allow(filter->insns, filter->len, data.arch, nr);
			steps += got.steps;
			worst = got.steps > worst ? got.steps : worst;
		}
		printf("# %s: %u instructions, %u of %d calls allowed by number alone, "
		       "%.1f steps each, at most %u\n",
		       seccomp_variant_name(v), filter->len, cached, KNOWN_CALLS,
		       (double)steps / KNOWN_CALLS, worst);
		CHECK(cached > TEST_ALLOWED_CALLS);
		CHECK(steps < 14 * KNOWN_CALLS);
		CHECK(worst < 32);
	}
}

/* The simulator itself must notice what is wrong. */
static void test_simulator(void)
{
	const struct sock_filter far[] = { BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 1, 0),
					   BPF_STMT(BPF_RET | BPF_K, 0) };
	const struct sock_filter open_end[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0) };
	const struct sock_filter dead[] = { BPF_STMT(BPF_RET | BPF_K, 0),
					    BPF_STMT(BPF_RET | BPF_K, 0) };
	const struct sock_filter args[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16),
					    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	const struct seccomp_data data = { .nr = 1 };
	struct bpf_sim_result result;
	size_t pc;

	CHECK(bpf_sim_check(far, ARRAY_SIZE(far), &pc));
	CHECK(bpf_sim_check(open_end, ARRAY_SIZE(open_end), &pc));
	CHECK(bpf_sim_check(dead, ARRAY_SIZE(dead), &pc));
	CHECK(!bpf_sim_check(args, ARRAY_SIZE(args), &pc));
	CHECK(!bpf_sim_is_const_allow(args, ARRAY_SIZE(args), TEST_AUDIT_ARCH, 1));
	CHECK(bpf_sim_is_const_allow(&args[1], 1, TEST_AUDIT_ARCH, 1));
	CHECK_INT(bpf_sim_run(open_end, ARRAY_SIZE(open_end), &data, &result), -EINVAL);
}

/* Exit status of a child under the filter: 0 fine, 77 no seccomp here. */
static int child_try(const struct seccomp_filter *filter)
{
	struct sock_fprog prog = { .len = filter->len };

	memcpy(&prog.filter, &filter->insns, sizeof(prog.filter)); /* the kernel only reads it */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return 77;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog))
		return errno == EINVAL ? 1 : 77;
	if (syscall(SYS_getpid) <= 0)
		return 2;
	if (syscall(SYS_unshare, 0) != -1 || errno != EPERM)
		return 3;
	if (syscall(SYS_clone3, NULL, 0) != -1 || errno != ENOSYS)
		return 4;
	if (syscall(1000) != -1 || errno != ENOSYS)
		return 5;
	if (syscall(SYS_getpid | 0x40000000) != -1 || errno != ENOSYS)
		return 6;
	if (syscall(SYS_socket, 40, 1, 0) != -1 || errno != EAFNOSUPPORT)
		return 7;
	return 0;
}

/* What goes to the listener is refused when there is none. */
static int child_without_listener(unsigned int variant)
{
	int status = child_try(seccomp_filter_get(variant));

	if (status)
		return status;
	if (syscall(SYS_fchmodat, AT_FDCWD, "/", 0755) != -1 || errno != ENOSYS)
		return 8;
	if (syscall(SYS_fchown, -1, 0, 0) != -1 || errno != ENOSYS)
		return 9;
	if (seccomp_variant_has_net(variant) &&
	    (syscall(SYS_connect, -1, NULL, 0) != -1 || errno != ENOSYS))
		return 10;
	return 0;
}

static void test_kernel_takes_them(void)
{
	for (unsigned int v = 0; v < SECCOMP_VARIANT_MAX; v++) {
		int status;
		pid_t pid = fork();

		REQUIRE(pid >= 0);
		if (!pid)
			_exit(v == SECCOMP_NAMESPACES || v == SECCOMP_NAMESPACES_COMMANDS
				      ? child_try(seccomp_filter_get(v))
				      : child_without_listener(v));
		REQUIRE(waitpid(pid, &status, 0) == pid);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			SKIP("seccomp filters cannot be installed here");
		CHECK_MSG(WIFEXITED(status) && !WEXITSTATUS(status), "%s: wait status %#x",
			  seccomp_variant_name(v), (unsigned int)status);
	}
}

static void read_header(FILE *f, char names[KNOWN_CALLS][48])
{
	char line[256], name[48];
	unsigned int nr;

	while (fgets(line, sizeof(line), f)) {
		/* __NR3264_: calls that 32-bit systems have in another form, too. */
		if ((sscanf(line, "#define __NR_%47s %u", name, &nr) == 2 ||
		     sscanf(line, "#define __NR3264_%47s %u", name, &nr) == 2) &&
		    nr < KNOWN_CALLS && !names[nr][0])
			memcpy(names[nr], name, sizeof(name));
	}
}

/* Names that the generic header has for a number which is something else on aarch64. */
static bool is_other_name(const char *name)
{
	return !strcmp(name, "arch_specific_syscall") || !strcmp(name, "sync_file_range2") ||
	       !strcmp(name, "fstatat") || !strcmp(name, "syscalls");
}

/* One column of the table's numbers against the installed header, as far as that goes. */
static void compare_names(const char *header, int column, unsigned int at_least)
{
	static char names[KNOWN_CALLS][48];
	const char *root = getenv("CORDON_SOURCE_ROOT");
	char line[256], name[48], path[4096], numbers[2][24];
	unsigned int nr, compared = 0;
	FILE *f = fopen(header, "re");

	if (!f)
		SKIP("no %s", header);
	memset(names, 0, sizeof(names));
	read_header(f, names);
	fclose(f);
	snprintf(path, sizeof(path), "%s/src/seccomp/syscalls.tbl", root ? root : ".");
	f = fopen(path, "re");
	REQUIRE(f);
	while (fgets(line, sizeof(line), f)) {
		if (line[0] == '#' || line[0] == '\t' ||
		    sscanf(line, "%23s %23s %47s", numbers[0], numbers[1], name) != 3 ||
		    sscanf(numbers[column], "%u", &nr) != 1 || nr >= KNOWN_CALLS || !names[nr][0] ||
		    is_other_name(names[nr]))
			continue;
		CHECK_STR(name, names[nr]);
		compared++;
	}
	fclose(f);
	CHECK_MSG(compared > at_least, "%s: %u compared", header, compared);
}

static void test_table_names(void)
{
	compare_names("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", 0, 350);
}

static void test_table_names_aarch64(void)
{
	compare_names("/usr/include/asm-generic/unistd.h", 1, 290);
}

TAP_MAIN(test_lookup, test_lookup_net, test_lookup_signals, test_has_unix, test_structure,
	 test_returns, test_no_reserve, test_no_landlock, test_no_shared_memory, test_walks,
	 test_simulator, test_kernel_takes_them, test_table_names, test_table_names_aarch64)

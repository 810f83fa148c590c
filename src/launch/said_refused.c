/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What no run gives its command, in what a failed command said: rights of an administrator, kinds
 * of sockets, the ssh agent; and limits that only the command itself meets.
 *
 * A line counts if the program that begins it is one that asks for such a right, and the plan does
 * not give it. What an ordinary user may not do outside either is told to root's commands only: for
 * others the sandbox is not the cause.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"
#include "launch/said.h"
#include "plan/plan_read.h"
#include "seccomp/seccomp.h"

#define FOR_ROOT 0x1u	 /* an ordinary user may not do it outside */
#define AT_LANDLOCK 0x2u /* with namespaces it is allowed */
#define IDS 0x8u	 /* and EINVAL is for ids that are not mapped inside */
#define FAMILY 0x10u	 /* without such a socket it does not begin */
#define ANYHOW 0x4u	 /* by a set-id program, which gets no rights inside: whatever it says */

/* How a line of the program begins; what is refused to it. */
static const struct {
	const char *begin, *what;
	unsigned flags;
} rights[] = {
	{ "mount: ", "mount", FOR_ROOT },
	{ "umount: ", "umount", FOR_ROOT },
	{ "unshare: ", "unshare", 0 },
	{ "nsenter: ", "nsenter", FOR_ROOT },
	{ "chroot: ", "chroot", FOR_ROOT },
	{ "pivot_root: ", "pivot_root", FOR_ROOT },
	{ "hostname: ", "hostname", FOR_ROOT },
	{ "date: cannot set date", "date", FOR_ROOT },
	{ "hwclock: ", "hwclock", FOR_ROOT },
	{ "dmesg: ", "dmesg", FOR_ROOT },
	{ "chown: changing ownership of", "chown", FOR_ROOT | IDS },
	{ "mknod: ", "mknod", FOR_ROOT },
	{ "setpriv: ", "setpriv", FOR_ROOT },
	{ "rtnetlink answers: ", "ip", FOR_ROOT },
	{ "cannot open netlink socket: ", "ip", FOR_ROOT | FAMILY },
	{ "iptables", "iptables", FOR_ROOT },
	{ "nft: ", "nft", FOR_ROOT },
	{ "renice: failed to set priority", "renice", FOR_ROOT },
	{ "nice: cannot set niceness", "nice", FOR_ROOT },
	{ "sysctl: ", "sysctl", FOR_ROOT },
	{ "swapon: ", "swapon", FOR_ROOT },
	{ "losetup: ", "losetup", FOR_ROOT },
	{ "modprobe: ", "modprobe", FOR_ROOT },
	{ "insmod: ", "insmod", FOR_ROOT },
	{ "strace: ", "ptrace", AT_LANDLOCK },
	{ "ptrace: ", "ptrace", AT_LANDLOCK },
	{ "could not trace the inferior process", "ptrace", AT_LANDLOCK },
	{ "su: critical error", "su", FOR_ROOT | ANYHOW },
	{ "su: cannot set groups", "su", ANYHOW },
	{ "sudo: the \"no new privileges\" flag is set", "sudo", ANYHOW },
	{ "sudo: effective uid is not 0", "sudo", ANYHOW },
	{ "sudo: unable to change to root gid", "sudo", ANYHOW },
	{ "pkexec must be setuid root", "pkexec", ANYHOW },
};

static bool begins_line(const struct said_line *line, const char *text)
{
	return said_begins_with(line->begin, line->end, text);
}

/* Does the kernel refuse to trace at level namespaces as well? (See syscalls.tbl.) */
static bool can_trace(const struct plan_header *h)
{
#ifdef __x86_64__
	return h->level == PLAN_LEVEL_NAMESPACES;
#else
	(void)h;
	return false;
#endif
}

/* The errors that count. */
static unsigned errors_of(unsigned flags)
{
	if (flags & ANYHOW)
		return ~0u;
	return SAID_RIGHTS_ERRORS | (flags & IDS ? SAID_INVALID : 0) |
	       (flags & FAMILY ? SAID_NO_FAMILY : 0);
}

static bool tell_right(struct said *said, const struct said_line *line)
{
	bool is_root = geteuid() == 0;

	for (size_t i = 0; i < ARRAY_SIZE(rights); i++) {
		unsigned flags = rights[i].flags;

		if ((flags & FOR_ROOT && !is_root) ||
		    (flags & AT_LANDLOCK && can_trace(said->plan)) ||
		    !(line->errors & errors_of(flags)) || !begins_line(line, rights[i].begin))
			continue;
		said_tell_once(said, "privilege", rights[i].what, "isolation", NULL);
		return true;
	}
	return false;
}

/* "kill: (12) - Operation not permitted", "sh: 1: kill: Operation not permitted" */
static bool tell_signal(struct said *said, const struct said_line *line)
{
	if (said->plan->level != PLAN_LEVEL_LANDLOCK || !(line->errors & SAID_NOT_PERMITTED) ||
	    geteuid() != 0 || !memmem(line->begin, (size_t)(line->end - line->begin), "kill: ", 6))
		return false;
	said_tell_once(said, "privilege", "signals to processes outside", "isolation", NULL);
	return true;
}

/* Kinds of sockets are refused by the filter, whatever the kernel has. */
static bool tell_socket(struct said *said, const struct said_line *line)
{
	bool has_unix = seccomp_variant_has_unix(said->plan->filter);

	if (line->errors & SAID_NO_PROTOCOL)
		said_tell_once(said, "socket",
			       said->plan->level == PLAN_LEVEL_NAMESPACES
				       ? "a protocol other than TCP and UDP"
				       : "a protocol other than TCP",
			       "isolation", NULL);
	else if (line->errors & SAID_NO_FAMILY || (line->errors & SAID_NO_DAEMON && !has_unix))
		said_tell_once(said, "socket",
			       has_unix ? "a family of sockets other than IP, Unix and routing"
			       : said->plan->level == PLAN_LEVEL_NAMESPACES
				       ? "a family of sockets"
				       : "a Unix socket, or another family than IP",
			       "isolation", NULL);
	else
		return false;
	return true;
}

/* The agent's socket has the caller's keys behind it: its variable is not passed on. */
static bool tell_agent(struct said *said, const struct said_line *line)
{
	static const char *const begins[] = { "could not open a connection to your auth",
					      "error connecting to agent" };
	const char *path = getenv("SSH_AUTH_SOCK");
	struct stat st;
	bool is_it = false;

	for (size_t i = 0; i < ARRAY_SIZE(begins); i++)
		is_it = is_it || begins_line(line, begins[i]);
	if (!is_it || !said->subject->tells_files || !path || path[0] != '/' ||
	    lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	said_tell_once(said, "connect", path, "fs.read", NULL);
	return true;
}

/* Each process has its own count, so that only the one that met the limit knows. It may have set
 * a lower one itself. */
static bool tell_open_files(struct said *said, const struct said_line *line)
{
	const struct plan_header *h = said->plan;
	struct arena *a = said->subject->arena;

	if (!(line->errors & SAID_MANY_FILES))
		return false;
	for (uint32_t i = 0; i < h->n_rlimits; i++) {
		uintmax_t soft = (uintmax_t)h->rlimits[i].soft;

		if (h->rlimits[i].resource != RLIMIT_NOFILE)
			continue;
		said_tell_limit(said, "limits.open_files",
				arena_printf(a, "%ju open files" SAID_MAYBE, soft),
				arena_printf(a, "--open-files %ju", soft * 2));
		return true;
	}
	return false;
}

/* For a program that ignores the signal it is an error. */
static bool tell_file_size(struct said *said, const struct said_line *line)
{
	int64_t limit = said->subject->plan->limits.file_size_bytes;
	struct arena *a = said->subject->arena;
	char size[UNITS_TEXT_MAX], more[UNITS_TEXT_MAX];

	if (!(line->errors & SAID_TOO_LARGE) || limit < 0)
		return false;
	said_tell_limit(said, "limits.file_size",
			arena_printf(a, "%s" SAID_MAYBE, units_format_size(limit, size)),
			arena_printf(a, "--file-size %s", units_format_size(limit * 2, more)));
	return true;
}

/* The kernel's own count of refusals comes first, where there is one. */
static bool tell_tasks(struct said *said, const struct said_line *line)
{
	uintmax_t procs = (uintmax_t)said->subject->plan->limits.procs;
	struct arena *a = said->subject->arena;

	if (!(line->errors & SAID_NO_TASK) || procs == 0)
		return false;
	said_tell_limit(said, "limits.procs", arena_printf(a, "%ju tasks" SAID_MAYBE, procs),
			arena_printf(a, "-P %ju", procs * 2));
	return true;
}

bool said_refused_line(struct said *said, const struct said_line *line)
{
	return tell_right(said, line) || tell_signal(said, line) || tell_agent(said, line) ||
	       tell_socket(said, line) || tell_open_files(said, line) ||
	       tell_file_size(said, line) || tell_tasks(said, line);
}

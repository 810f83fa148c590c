/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parked init goes from the pool of one process to another, which is its supervisor from then on.
 *
 * Should: give an init only to a process that could have made the very same one. Mustn't: wait for
 * a peer, believe what it says about itself, or let an init go to one that is more confined.
 *
 * Theory of operation. An init has the ids, limits, namespaces and confinement of its maker, and
 * what it mounts is decided by who sends the plan. So it is as good as the maker's rights. What the
 * kernel tells of the peer (ids, groups, capabilities, filters, limits, namespaces, root, control
 * group, labels) is compared with the mould. A Landlock domain cannot be read. But a process in a
 * domain may not look into one outside of it. So each side has a memory file with a random name,
 * which only who may look into its process can read in /proc/PID/fd, and each says the other's:
 * then neither is more confined than the other. Filters can only be counted; both must have none.
 * Both sides ask all of this: who takes an init hands over his descriptors to it. Nothing of an
 * answer is used, not even to end what it brought, before it is known to come from that process.
 *
 * Both must execute the same file, so that they agree on every structure that goes over.
 *
 * The peer compares the mould with its own plan and state before it uses the init, as a pool does
 * (mould.c). Anything that is not as it should be makes its start a cold one.
 */
#include "launch/offer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cordon/pool.h>

#include "base/err.h"
#include "launch/caller.h"
#include "launch/mould.h"
#include "sys/calls.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* since Linux 6.5 */
#endif

#define MAGIC 0x31666f2d6e6f6463u /* "cdon-of1" */
#define NAME_BYTES 32
#define REPLY_MAX ((size_t)160 << 10) /* one message, within the kernel's default buffers */
#define WAIT_MS 1000		      /* for an answer: it comes at once, or the start is cold */
#define WHY_MAX 80

struct request {
	uint64_t magic;
	int32_t proof_fd, pad;
	char proof[OFFER_PROOF_MAX];
};

/* Then comes the mould. */
struct reply {
	uint64_t magic;
	int32_t pid, pad; /* 0 = none, and why */
	char proof[OFFER_PROOF_MAX];
	char why[WHY_MAX];
};

int offer_proof_make(struct offer_proof *ret)
{
	unsigned char bytes[NAME_BYTES];
	char name[sizeof("cordon-") + 2 * NAME_BYTES] = "cordon-";

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(name + 7 + 2 * i, 3, "%02x", bytes[i]);
	memset(ret, 0, sizeof(*ret));
	ret->fd = sys_memfd_create(name, MFD_CLOEXEC);
	if (ret->fd < 0)
		return ret->fd;
	snprintf(ret->name, sizeof(ret->name), "/memfd:%s (deleted)", name);
	return 0;
}

/* The name of the descriptor @fd of another process, if that is a memory file: the kernel asks
 * whether we may look into it. */
static int read_proof(pid_t pid, int fd, char ret[OFFER_PROOF_MAX])
{
	static const char start[] = "/memfd:cordon-";
	char path[64];
	ssize_t n;

	memset(ret, 0, OFFER_PROOF_MAX);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	n = readlink(path, ret, OFFER_PROOF_MAX);
	if (n < 0)
		return -errno;
	return n < OFFER_PROOF_MAX && strncmp(ret, start, sizeof(start) - 1) == 0 ? 0 : -EINVAL;
}

/* In constant time: how long it takes tells nothing. */
static bool is_proof(const char a[OFFER_PROOF_MAX], const char b[OFFER_PROOF_MAX])
{
	unsigned char differs = 0;

	for (size_t i = 0; i < OFFER_PROOF_MAX; i++)
		differs |= (unsigned char)(a[i] ^ b[i]);
	return !differs;
}

static bool is_alive(int pid_fd)
{
	struct pollfd p = { .fd = pid_fd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

static bool runs_our_program(pid_t pid)
{
	struct stat own, other;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return stat("/proc/self/exe", &own) == 0 && stat(path, &other) == 0 &&
	       own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

/* The process at the other end, if it is of this user: 0 or -errno. */
static int find_peer(int socket_fd, pid_t *ret)
{
	struct ucred cred = { .pid = 0 };
	socklen_t len = sizeof(cred);

	if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	/* 0: it lives where we cannot see it. */
	if (cred.pid <= 0 || cred.uid != geteuid() || cred.gid != getegid())
		return -EPERM;
	*ret = cred.pid;
	return 0;
}

/*
 * Has the process at the other end its number until now? Only then it was the one that was looked
 * at. Of one that was collected many kernels give no descriptor; those before 6.5 of none.
 */
static bool peer_lives(int socket_fd)
{
	int pid_fd = -1;
	socklen_t len = sizeof(pid_fd);
	bool lives;

	if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERPIDFD, &pid_fd, &len) < 0)
		return errno == ENOPROTOOPT;
	lives = is_alive(pid_fd);
	close(pid_fd);
	return lives;
}

/* --- the side of the pool --------------------------------------------------------------------- */

static const char *check_peer(pid_t pid, const struct request *request,
			      const struct offer_proof *own, const struct mould *mould,
			      struct offer_request *ret)
{
	if (!is_proof(request->proof, own->name))
		return "this process may not look into the pool's";
	if (read_proof(pid, request->proof_fd, ret->proof) < 0)
		return "the pool may not look into this process";
	if (!runs_our_program(pid))
		return "the pool was started with another program file";
	if (!caller_state_is_unfiltered(mould->caller))
		return "the pool has system call filters";
	if (!caller_state_is_like(mould->caller, pid))
		return "this process differs from the pool's";
	return NULL;
}

const char *offer_check(int socket_fd, const struct offer_proof *own, const struct mould *mould,
			struct offer_request *ret)
{
	struct request request;
	ssize_t n = recv(socket_fd, &request, sizeof(request), MSG_DONTWAIT | MSG_TRUNC);
	const char *why;

	memset(ret, 0, sizeof(*ret));
	if (n != (ssize_t)sizeof(request) || request.magic != MAGIC ||
	    find_peer(socket_fd, &ret->pid) < 0)
		return "the request is not to be understood";
	why = check_peer(ret->pid, &request, own, mould, ret);
	if (!why && !peer_lives(socket_fd))
		why = "this process has ended";
	return why;
}

int offer_send(int socket_fd, const struct offer_request *request, const struct parked *parked,
	       const char *why)
{
	struct reply reply = { .magic = MAGIC, .pid = parked ? parked->spawned.pid : 0 };
	struct strbuf sb = STRBUF_INIT;
	int fds[2], r;

	if (why)
		snprintf(reply.why, sizeof(reply.why), "%s", why);
	memcpy(reply.proof, request->proof, sizeof(reply.proof));
	strbuf_add(&sb, &reply, sizeof(reply));
	if (parked) {
		mould_write(parked->mould, &sb);
		fds[0] = parked->spawned.ctl_fd;
		fds[1] = parked->spawned.pid_fd;
	}
	/* The socket does not block. */
	r = sb.failed		 ? -ENOMEM
	    : sb.len > REPLY_MAX ? -EMSGSIZE
				 : send_with_fds(socket_fd, sb.data, sb.len, fds, parked ? 2 : 0);
	strbuf_done(&sb);
	return r;
}

/* --- the side of the run ---------------------------------------------------------------------- */

/* Is there something to read, soon? */
static bool await(int fd, int other_fd)
{
	struct pollfd p[2] = { { .fd = fd, .events = POLLIN },
			       { .fd = other_fd, .events = POLLIN } };

	return poll(p, other_fd >= 0 ? 2 : 1, WAIT_MS) > 0 && (p[0].revents & POLLIN);
}

bool offer_is_adopted(const struct spawned *init)
{
	union control_message message;
	int fd = -1, r;

	if (!await(init->ctl_fd, init->pid_fd))
		return false;
	r = spawn_receive(init->ctl_fd, &message, &fd);
	if (fd >= 0)
		close(fd);
	return r == 1 && message.type == CONTROL_ADOPTED;
}

/* What came with an answer. */
struct brought {
	int fds[2]; /* -1 = none */
	pid_t pid;  /* who sent it, as the kernel says; 0 = unknown */
};

static void take_control(struct msghdr *msg, struct brought *ret)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		struct ucred cred;

		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_RIGHTS) {
			memcpy(ret->fds, CMSG_DATA(c),
			       c->cmsg_len == CMSG_LEN(2 * sizeof(int)) ? 2 * sizeof(int)
									: sizeof(int));
		} else if (c->cmsg_type == SCM_CREDENTIALS &&
			   c->cmsg_len == CMSG_LEN(sizeof(cred))) {
			memcpy(&cred, CMSG_DATA(c), sizeof(cred));
			ret->pid = cred.pid;
		}
	}
}

static ssize_t receive_reply(int socket_fd, char *data, struct brought *ret)
{
	union {
		char space[CMSG_SPACE(2 * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { data, REPLY_MAX };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n;

	if (!await(socket_fd, -1))
		return -ETIMEDOUT;
	n = recvmsg(socket_fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return -errno;
	take_control(&msg, ret);
	return msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EBADMSG : n;
}

/* They go to somebody's terminal. */
static bool is_text(const char words[WHY_MAX])
{
	for (size_t i = 0; i < WHY_MAX; i++) {
		if (!words[i])
			return true;
		if (words[i] < ' ' || words[i] > '~')
			return false;
	}
	return false;
}

static const char *use_reply(const char *data, ssize_t n, const struct offer_proof *own,
			     int mounts_fd, struct parked *ret, char why[WHY_MAX])
{
	struct reply reply;

	if (n < (ssize_t)sizeof(reply)) {
		close(mounts_fd);
		return "the pool does not answer";
	}
	memcpy(&reply, data, sizeof(reply));
	if (reply.magic != MAGIC || reply.pid <= 0 || !is_proof(reply.proof, own->name)) {
		close(mounts_fd);
		if (reply.magic != MAGIC || reply.pid != 0)
			return "the pool may not look into this process";
		memcpy(why, reply.why, WHY_MAX);
		return is_text(why) ? why : "the pool's answer is not to be understood";
	}
	ret->mould = mould_read(data + sizeof(reply), (size_t)n - sizeof(reply), mounts_fd);
	if (ret->mould)
		ret->plan = mould_plan(ret->mould);
	ret->spawned.pid = reply.pid;
	return ret->plan ? NULL : "the pool's answer is not to be understood";
}

/* Is the pool what this process is, as far as one can see it of another? */
static const char *check_pool(pid_t pid)
{
	struct caller_state *own;
	const char *why = NULL;

	if (caller_state_read(0, &own) < 0)
		return "out of memory";
	if (!caller_state_is_unfiltered(own) || !caller_state_is_like(own, pid))
		why = "this process differs from the pool's";
	free(own);
	return why;
}

/* Sends the request and takes the answer, which is used if it is the pool's. */
static const char *exchange(int socket_fd, pid_t pid, const struct request *request,
			    const struct offer_proof *own, struct parked *ret,
			    struct brought *brought, char words[WHY_MAX])
{
	/* The pool looks at its own after this: so no change is missed. */
	int mounts_fd = mould_watch_mounts(), yes = 1;
	char *data = malloc(REPLY_MAX);
	const char *why = "the pool does not answer";
	ssize_t n;

	if (mounts_fd >= 0 && data &&
	    setsockopt(socket_fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) == 0 &&
	    send(socket_fd, request, sizeof(*request), MSG_NOSIGNAL | MSG_DONTWAIT) ==
		    (ssize_t)sizeof(*request)) {
		why = check_pool(pid); /* while it does the same */
		n = why ? 0 : receive_reply(socket_fd, data, brought);
		if (!why && n > 0 && (brought->pid != pid || !peer_lives(socket_fd)))
			why = "another process answers for the pool";
		if (!why) {
			why = use_reply(data, n, own, mounts_fd, ret, words);
			mounts_fd = -1;
		}
	}
	if (mounts_fd >= 0)
		close(mounts_fd);
	free(data);
	return why;
}

/* Asks for an init; NULL, or why there is none. */
static const char *ask(struct cordon_launcher *l, int socket_fd, pid_t pid, int proof_fd,
		       const struct offer_proof *own, struct parked *ret, char words[WHY_MAX])
{
	struct request request = { .magic = MAGIC, .proof_fd = own->fd };
	struct brought brought = { .fds = { -1, -1 } };
	const struct control_order adopt = { .type = CONTROL_ADOPT };
	const char *why;

	if (read_proof(pid, proof_fd, request.proof) < 0 || !runs_our_program(pid))
		return "this process may not look into the pool's";
	why = exchange(socket_fd, pid, &request, own, ret, &brought, words);
	if (why) {
		for (int i = 0; i < 2; i++)
			if (brought.fds[i] >= 0)
				close(brought.fds[i]);
		return why;
	}
	ret->spawned.ctl_fd = brought.fds[0];
	ret->spawned.pid_fd = brought.fds[1];
	if (brought.fds[1] < 0 || spawn_send(brought.fds[0], &adopt, &l->self_fd, 1) < 0)
		return "the pool's init has ended";
	return NULL;
}

/* An init of another process's pool into @ret, which is PARKED_INIT; or why there is none, perhaps
 * in its own words. */
static const char *take(struct cordon_launcher *l, int socket_fd, int proof_fd, struct parked *ret,
			char words[WHY_MAX])
{
	struct offer_proof own;
	const char *why;
	pid_t pid = 0;

	if (find_peer(socket_fd, &pid) < 0)
		return "the pool is another user's";
	if (offer_proof_make(&own) < 0)
		return "out of memory";
	ret->spawned.level = PLAN_LEVEL_NAMESPACES;
	why = ask(l, socket_fd, pid, proof_fd, &own, ret, words);
	close(own.fd);
	if (why)
		parked_done(l, ret);
	return why;
}

int cordon_run_start_offered(struct cordon_launcher *launcher, const struct cordon_policy *policy,
			     const struct cordon_run_options *options, int socket_fd, int proof,
			     struct cordon_run **ret, struct cordon_error *err)
{
	struct parked parked = PARKED_INIT;
	char words[WHY_MAX];
	const char *why;
	int r;

	if (!launcher || !policy || !ret)
		return cordon_err(err, CORDON_E_USAGE, 0, "launcher and policy must be given");
	if (launcher->pid != getpid())
		return cordon_err(err, CORDON_E_STATE, 0,
				  "this launcher belongs to the process before fork");
	if (policy->isolation == CORDON_LEVEL_LANDLOCK)
		why = "level landlock has nothing to make ahead";
	else
		why = take(launcher, socket_fd, proof, &parked, words);
	r = run_start_parked(launcher, &parked, policy, options, ret, err);
	if (r == 0 && why)
		(*ret)->why_cold = arena_printf(&(*ret)->arena, "%s", why);
	return r;
}

const char *cordon_run_why_cold(const struct cordon_run *run)
{
	if (run->mould)
		return NULL;
	return run->why_cold ? run->why_cold : "it was not asked of a pool";
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parked inits that go to another process (launch/offer.c). At first both ends are this one; then
 * the other is one that pretends to be a pool.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cordon/cordon.h>

#include "launch/caller.h"
#include "launch/mould.h"
#include "launch/offer.h"
#include "tap.h"

#define WAIT_MS 20000
#define REQUEST_BYTES 112 /* the number of the proof is at 8 */
#define ANSWER_BYTES 192

static struct cordon_launcher *launcher;
static struct cordon_policy *policy;

static void set_options(struct cordon_run_options *o, const char *const *argv)
{
	*o = (struct cordon_run_options)CORDON_RUN_OPTIONS_INIT;
	o->argv = argv;
	o->cwd = "/";
	o->home = "/nonexistent";
	o->out.mode = CORDON_STREAM_CAPTURE;
}

static struct cordon_pool *new_pool(unsigned parked)
{
	static const char *const argv[] = { "/bin/sh", NULL };
	struct cordon_pool_options options = CORDON_POOL_OPTIONS_INIT;
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_run_options base;
	struct cordon_pool *pool = NULL;

	set_options(&base, argv);
	options.parked = parked;
	options.refill = CORDON_REFILL_BY_HAND;
	if (cordon_pool_new(launcher, policy, &base, &options, &pool, &err) < 0)
		printf("# %s\n", err.msg);
	return pool;
}

static struct cordon_pool_stats stats_of(struct cordon_pool *pool)
{
	struct cordon_pool_stats stats;

	cordon_pool_stats(pool, &stats);
	return stats;
}

struct offer {
	struct cordon_pool *pool;
	int fd, result;
};

static void *answer(void *arg)
{
	struct offer *o = arg;
	struct pollfd p = { .fd = o->fd, .events = POLLIN };

	if (poll(&p, 1, WAIT_MS) == 1)
		o->result = cordon_pool_offer(o->pool, o->fd, NULL);
	close(o->fd);
	return NULL;
}

/* A run that asks @pool with @proof: its exit code; *ret_given: what the pool's side said. */
static int run_offered(struct cordon_pool *pool, int proof, int *ret_given, bool *ret_warm)
{
	static const char *const argv[] = { "/bin/sh", "-c", "exit 7", NULL };
	struct cordon_error err = CORDON_ERROR_INIT;
	struct offer offer = { pool, -1, -100 };
	struct cordon_run_options options;
	struct cordon_run *run = NULL;
	int fds[2], code = -1;
	pthread_t thread;

	set_options(&options, argv);
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	offer.fd = fds[1];
	CHECK_INT(pthread_create(&thread, NULL, answer, &offer), 0);
	if (cordon_run_start_offered(launcher, policy, &options, fds[0], proof, &run, &err) < 0)
		printf("# %s\n", err.msg);
	close(fds[0]);
	pthread_join(thread, NULL);
	if (run) {
		const char *why = cordon_run_why_cold(run);

		CHECK_INT(cordon_run_wait(run, WAIT_MS, &err), 1);
		code = cordon_run_result(run)->exit_code;
		*ret_warm = !why;
		if (why)
			printf("# cold: %s\n", why);
	}
	cordon_run_free(run);
	*ret_given = offer.result;
	return code;
}

static void test_begin(void)
{
	REQUIRE(cordon_launcher_new(&launcher, NULL) == 0);
	REQUIRE(cordon_policy_new(&policy, NULL) == 0);
}

static void test_offered(void)
{
	struct cordon_pool *pool = new_pool(2);
	int proof, given = 0, fds[2];
	bool is_warm = false;

	REQUIRE(pool != NULL);
	/* Of filters only the number can be compared: then nothing is given. */
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 0 || stats_of(pool).parked == 0) {
		printf("# nothing can be offered here\n");
		cordon_pool_free(pool);
		return;
	}
	CHECK_INT(cordon_pool_fd(pool), -1);
	CHECK_INT(cordon_pool_offer(pool, -1, NULL), -CORDON_E_USAGE);
	CHECK_INT(cordon_pool_share(NULL, NULL), -CORDON_E_USAGE);
	proof = cordon_pool_share(pool, NULL);
	CHECK_INT(proof >= 0, 1);
	CHECK_INT(cordon_pool_share(pool, NULL), proof);
	CHECK_INT(run_offered(pool, proof, &given, &is_warm), 7);
	CHECK_INT(given, 1);
	CHECK_INT(is_warm, 1);
	CHECK_INT(stats_of(pool).parked, 1);
	/* Not the proof: nothing is even asked, and the run is cold. */
	CHECK_INT(run_offered(pool, 0, &given, &is_warm), 7);
	CHECK_INT(is_warm, 0);
	CHECK_INT(given <= 0, 1);
	CHECK_INT(stats_of(pool).parked, 1);
	/* What is no request. */
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	CHECK_INT(cordon_pool_offer(pool, fds[1], NULL), 0);
	CHECK_INT((int)send(fds[0], "x", 1, 0), 1);
	CHECK_INT(cordon_pool_offer(pool, fds[1], NULL), 0);
	close(fds[0]);
	CHECK_INT(cordon_pool_offer(pool, fds[1], NULL), 0);
	close(fds[1]);
	CHECK_INT(run_offered(pool, proof, &given, &is_warm), 7);
	CHECK_INT(is_warm, 1);
	/* None is left. */
	CHECK_INT(run_offered(pool, proof, &given, &is_warm), 7);
	CHECK_INT(is_warm, 0);
	CHECK_INT(cordon_pool_refill(pool, NULL), 2);
	CHECK_INT(run_offered(pool, proof, &given, &is_warm), 7);
	CHECK_INT(is_warm, 1);
	cordon_pool_free(pool);
}

/* --- one that only pretends ------------------------------------------------------------------- */

enum pretence {
	HONEST,	  /* the control: it does what a pool does */
	CONFINED, /* a filter that allows everything, and says that there is none */
	RELAYED,  /* who listens is not who answers */
	UNPROVEN, /* it cannot look into us, and brings the descriptor of a process */
};

static pid_t client;

static int confine(void)
{
	static const struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	const struct sock_fprog prog = { 1, (struct sock_filter *)(uintptr_t)allow };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
			       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0
		       ? 0
		       : -1;
}

/* What it wrote down of itself becomes what it would be without. */
static void embellish(struct mould *m)
{
	static const char *const lines[] = { "\nNoNewPrivs:\t1", "\nSeccomp:\t2",
					     "\nSeccomp_filters:\t1" };

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		size_t len = strlen(lines[i]);
		char *at = memmem(m->caller, caller_state_size(m->caller), lines[i], len);

		if (at)
			at[len - 1] = '0';
	}
	m->n_filters = 0;
}

static int answer_with_init(int fd, int proof_fd, enum pretence how)
{
	static const char *const argv[] = { "/bin/sh", NULL };
	struct offer_request request = { .pid = client };
	struct parked parked = PARKED_INIT;
	struct cordon_run_options base;
	struct cordon_launcher *own;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)client, proof_fd);
	if (readlink(path, request.proof, sizeof(request.proof)) < 0)
		return 1;
	set_options(&base, argv);
	if (cordon_launcher_new(&own, NULL) < 0 ||
	    mould_make(own, policy, &base, how == CONFINED, &parked.mould, NULL) < 0)
		return 2;
	parked.plan = mould_plan(parked.mould);
	if (!parked.plan || park(own, &parked, NULL) < 0)
		return 3;
	embellish(parked.mould);
	if (offer_send(fd, &request, &parked, NULL) < 0)
		return 4;
	/* The init ends with us until it has another supervisor. */
	(void)recv(fd, path, 1, 0);
	return 0;
}

static int answer_with_process(int fd, const unsigned char *request, pid_t victim)
{
	unsigned char reply[ANSWER_BYTES] = { 0 };
	int fds[2] = { fd, (int)syscall(SYS_pidfd_open, victim, 0) };

	memcpy(reply, request, 8);
	memcpy(reply + ANSWER_BYTES - 80, "\033[31mred", 8);
	if (send_with_fds(fd, reply, sizeof(reply), fds, 2) < 0)
		return 9;
	(void)recv(fd, reply, 1, 0);
	return 0;
}

static int pretend(int listen_fd, enum pretence how, pid_t victim)
{
	unsigned char request[REQUEST_BYTES] = { 0 };
	int status = 0, fd, proof_fd;
	pid_t pid;

	fd = accept(listen_fd, NULL, NULL);
	pid = how == RELAYED ? fork() : 0;
	if (pid > 0)
		return waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : 6;
	if (recv(fd, request, sizeof(request), 0) != (ssize_t)sizeof(request))
		return 7;
	memcpy(&proof_fd, request + 8, sizeof(proof_fd));
	return how == UNPROVEN ? answer_with_process(fd, request, victim)
			       : answer_with_init(fd, proof_fd, how);
}

/* Its number; it listens at @ret, and has the memory files that we have. */
static pid_t start_pretender(enum pretence how, pid_t victim, struct sockaddr_un *ret,
			     socklen_t *ret_len)
{
	char ready = 0;
	int fds[2];
	pid_t pid;

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			       (size_t)snprintf(ret->sun_path + 1, 64, "cordon-test-offer-%d",
						(int)getpid()));
	CHECK_INT(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		alarm(WAIT_MS / 1000);
		if (bind(fd, (struct sockaddr *)ret, *ret_len) < 0 || listen(fd, 1) < 0)
			_exit(8);
		/* Before anyone can look at us. */
		if ((how == CONFINED && confine() < 0) || write(fds[1], "x", 1) != 1)
			_exit(5);
		_exit(pretend(fd, how, victim));
	}
	close(fds[1]);
	CHECK_INT((int)read(fds[0], &ready, 1), 1);
	close(fds[0]);
	return pid;
}

/* Is a run that asks it warm? The command runs in any case. */
static bool is_taken_in(enum pretence how, int proof_fd, pid_t victim, const char *ret_why[1])
{
	static const char *const argv[] = { "/bin/sh", "-c", "exit 7", NULL };
	static char why[128];
	struct cordon_run_options options;
	struct cordon_run *run = NULL;
	struct sockaddr_un address;
	socklen_t len;
	pid_t pid = start_pretender(how, victim, &address, &len);
	int status = -1, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	set_options(&options, argv);
	CHECK_INT(connect(fd, (struct sockaddr *)&address, len), 0);
	CHECK_INT(cordon_run_start_offered(launcher, policy, &options, fd, proof_fd, &run, NULL),
		  0);
	CHECK(run != NULL);
	if (!run)
		return true;
	snprintf(why, sizeof(why), "%s", cordon_run_why_cold(run) ? cordon_run_why_cold(run) : "");
	*ret_why = why;
	printf("# %d: %s\n", (int)how, strchr(why, '\033') ? "(not for a terminal)" : why);
	CHECK_INT(cordon_run_wait(run, WAIT_MS, NULL), 1);
	CHECK_INT(cordon_run_result(run)->exit_code, 7);
	cordon_run_free(run);
	close(fd);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return !why[0];
}

static void test_pretenders(void)
{
	int proof_fd = (int)syscall(SYS_memfd_create, "cordon-test", 0), status;
	struct cordon_pool *pool = new_pool(1);
	const char *why;
	bool can_park;
	pid_t victim;

	REQUIRE(pool != NULL && proof_fd >= 0);
	can_park = stats_of(pool).parked > 0 && prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0;
	cordon_pool_free(pool);
	client = getpid();
	victim = fork();
	if (victim == 0) {
		alarm(3 * WAIT_MS / 1000);
		pause();
		_exit(0);
	}
	CHECK(!is_taken_in(UNPROVEN, proof_fd, victim, &why));
	CHECK(strchr(why, '\033') == NULL);
	CHECK_INT(waitpid(victim, &status, WNOHANG), 0);
	kill(victim, SIGKILL);
	CHECK(waitpid(victim, &status, 0) == victim);
	if (can_park) {
		CHECK(is_taken_in(HONEST, proof_fd, 0, &why));
		CHECK(!is_taken_in(CONFINED, proof_fd, 0, &why));
		CHECK(!is_taken_in(RELAYED, proof_fd, 0, &why));
	}
	close(proof_fd);
}

static void test_end(void)
{
	cordon_policy_free(policy);
	cordon_launcher_free(launcher);
}

TAP_MAIN(test_begin, test_offered, test_pretenders, test_end)

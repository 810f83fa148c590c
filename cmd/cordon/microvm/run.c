/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of a run at level microvm: the messages, the clock, and whose word counts.
 *
 * Limits and grants are the host's: it ends the machine at the time limit and at those of the outer
 * run, whatever the guest says. How the command ended is the guest's word, as an exit status is
 * the word of any program.
 */
#include "microvm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cache_path.h"
#include "base/err.h"
#include "launch/launch.h"
#include "guest.h"
#include "out.h"
#include "policy/policy.h"
#include "probe/kvm.h"
#include "verbs.h"

#define BOOT_MS 180000 /* emulated, on a machine with other work */
#define SLACK_MS 5000  /* the guest measures the time, too, and explains the end better */
#define FLUSH_MS 10000 /* for output that is on its way, after each look at it */

int vm_is_wanted(const struct cordon_policy *policy)
{
	return policy->isolation == CORDON_LEVEL_MICROVM;
}

/* The guest in the cache, made now if there is none. */
static int find_guest(struct vm *vm, struct cordon_error *err)
{
	struct microvm_image image;
	char agent[SHA256_HEX];
	struct sha256 sum;
	struct cache cache;
	size_t len;
	void *self;
	int r = microvm_self(&self, &len, err);

	if (r < 0)
		return r;
	sha256_start(&sum);
	sha256_add(&sum, self, len);
	sha256_end_hex(&sum, agent);
	r = cache_open(CACHE_MICROVM, true, &cache, err);
	if (r == 0) {
		int quiet = parsed_has(vm->args, OPT_QUIET) || !isatty(STDERR_FILENO);

		r = microvm_image_find(&cache, agent, &image, err);
		if (r == 0)
			r = microvm_setup(&cache, self, len, quiet, &image, err);
		if (r >= 0)
			snprintf(vm->dir, sizeof(vm->dir), "%s/%s", cache.path, image.key);
		cache_close(&cache);
	}
	free(self);
	return r < 0 ? r : 0;
}

static int choose_acceleration(struct vm *vm, struct cordon_error *err)
{
	struct kvm_probe probe;

	/* QEMU 7.2 takes /dev/kvm by its path only, which no sandbox shows. */
	vm->is_kvm = 0;
	for (size_t i = 0; i < vm->policy->require.n; i++) {
		if (strcmp(vm->policy->require.v[i], "kvm") != 0)
			continue;
		probe_kvm(&probe);
		cordon_err(err, CORDON_E_UNSUPPORTED, 0,
			   "the required layer 'kvm' is not available: %s",
			   probe.state == KVM_USABLE ? "level microvm does not use it yet"
						     : probe_kvm_text(probe.state));
		cordon_err_hint(err, "%s",
				probe.state == KVM_USABLE
					? "without --require kvm the machine is emulated"
					: probe_kvm_remedy(probe.state));
		return -CORDON_E_UNSUPPORTED;
	}
	return 0;
}

int vm_prepare(struct vm *vm, const struct parsed *args, struct cordon_policy **policy,
	       struct cordon_run_options *options, struct cordon_error *err)
{
	int r;

	*vm = (struct vm){ .args = args,
			   .policy = *policy,
			   .timer_fd = -1,
			   .heard = STRBUF_INIT,
			   .hello = STRBUF_INIT,
			   .unsent = STRBUF_INIT };
	r = microvm_find_qemu(&vm->qemu, err);
	if (r == 0)
		r = choose_acceleration(vm, err);
	if (r == 0)
		r = find_guest(vm, err);
	if (r == 0)
		r = vm_outer_policy(vm, err);
	if (r < 0)
		return r;
	r = microvm_self_fd(err);
	if (r < 0)
		return r;
	options->image_fd = r;
	options->channel = 1;
	/* The kernel and the first file system, in a place where nothing of the policy's is. */
	options->code_dir = vm->dir;
	vm->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (vm->timer_fd < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "cannot make a timer");
	*policy = vm->outer;
	vm->state = VM_HELLO;
	return 0;
}

static void set_timer(const struct vm *vm, int64_t ms)
{
	struct itimerspec at = { .it_value = { .tv_sec = ms / 1000,
					       .tv_nsec = ms % 1000 * 1000000 } };

	(void)timerfd_settime(vm->timer_fd, 0, &at, NULL);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* @ms, or what the command's time limit leaves of it. */
static int64_t time_left(const struct vm *vm, int64_t ms)
{
	int64_t left = vm->deadline_ms ? vm->deadline_ms - now_ms() : ms;

	if (left >= ms)
		return ms;
	return left > 0 ? left : 1;
}

static void end_machine(struct vm *vm, struct cordon_run *run, int why)
{
	if (vm->state == VM_OVER)
		return;
	vm->why = why;
	vm->state = VM_OVER;
	(void)cordon_run_cancel(run, NULL);
}

void vm_poll(const struct vm *vm, const struct cordon_run *run, struct pollfd fds[2])
{
	fds[0] = (struct pollfd){ .fd = -1 };
	fds[1] = (struct pollfd){ .fd = -1 };
	if (vm->state == VM_NONE || vm->state == VM_OVER)
		return;
	fds[0].fd = cordon_run_channel(run);
	fds[0].events = vm->state == VM_ENDED ? 0 : POLLIN;
	if (vm->sent < vm->unsent.len)
		fds[0].events |= POLLOUT;
	if (!fds[0].events)
		fds[0].fd = -1;
	fds[1].fd = vm->timer_fd;
	fds[1].events = POLLIN;
}

static void send_rest(struct vm *vm, struct cordon_run *run)
{
	while (vm->sent < vm->unsent.len) {
		ssize_t n = send(cordon_run_channel(run), vm->unsent.data + vm->sent,
				 vm->unsent.len - vm->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		/* A machine that has ended is noticed by its run. */
		if (n <= 0)
			return;
		vm->sent += (size_t)n;
	}
	strbuf_done(&vm->unsent);
	vm->sent = 0;
}

/* The command begins as soon as the agent has read this: from here on time counts. */
static int begin(struct vm *vm)
{
	const struct cordon_policy *p = vm->policy;
	int r = vm_write_request(vm);

	if (r == 0) {
		int64_t grace = p->grace_ms >= 0 ? p->grace_ms : POLICY_DEFAULT_GRACE_MS;

		int64_t ms = p->wall_ms > 0 ? p->wall_ms + grace + SLACK_MS : 0;

		vm->deadline_ms = ms ? now_ms() + ms : 0;
		set_timer(vm, ms);
	}
	return r;
}

/* The message that is due. 1 = taken, 0 = not all of it is there, -EPROTO. */
static int64_t take(struct vm *vm)
{
	static const struct {
		unsigned type;
		size_t max;
	} due[] = { [VM_HELLO] = { MICROVM_HELLO, MICROVM_HELLO_MAX },
		    [VM_BOOT] = { MICROVM_READY, 0 },
		    [VM_RUNS] = { MICROVM_EXIT, MICROVM_AGENT_MAX } };
	struct microvm_message m;
	int64_t used = microvm_parse(vm->heard.data, vm->heard.len, due[vm->state].type,
				     due[vm->state].max, &m);
	int r = 0;

	if (used <= 0)
		return used;
	switch (vm->state) {
	case VM_HELLO:
		strbuf_add(&vm->hello, m.data, m.len);
		r = vm->hello.failed ? -EPROTO : vm_write_start(vm);
		vm->state = VM_BOOT;
		break;
	case VM_BOOT:
		r = begin(vm);
		vm->has_begun = r == 0;
		vm->state = VM_RUNS;
		break;
	default:
		r = microvm_parse_exit(&m, &vm->exit);
		vm->has_exit = r == 0;
		vm->state = VM_ENDED;
	}
	if (r < 0)
		return r;
	/* One message at a time is due, and it is answered before the next. */
	if ((size_t)used != vm->heard.len) {
		vm->has_exit = 0;
		return -EPROTO;
	}
	strbuf_done(&vm->heard);
	return 1;
}

static void hear(struct vm *vm, struct cordon_run *run)
{
	char buf[4096];
	ssize_t n = recv(cordon_run_channel(run), buf, sizeof(buf), MSG_DONTWAIT);
	int64_t r = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* QEMU has ended, or something in its place pretends that: not for long. */
	if (n <= 0) {
		strbuf_done(&vm->unsent);
		vm->sent = 0;
		vm->state = VM_ENDED;
		return;
	}
	vm->heard.max = MICROVM_HELLO_MAX + MICROVM_HEAD + sizeof(buf);
	strbuf_add(&vm->heard, buf, (size_t)n);
	if (vm->heard.failed)
		r = -EPROTO;
	while (r == 0 && vm->state < VM_ENDED && vm->heard.len) {
		r = take(vm);
		if (r == 0)
			break;
		r = r < 0 ? r : 0;
	}
	if (r < 0)
		end_machine(vm, run, VM_WHY_PROTOCOL);
}

/* Has all arrived that the agent says it has sent? If it lies it only hurts its own output. */
static int is_flushed(const struct vm *vm, const struct cordon_run *run)
{
	return run_output_bytes(run) >= vm->exit.out_bytes + vm->exit.err_bytes;
}

static void on_timer(struct vm *vm, struct cordon_run *run)
{
	uint64_t n;

	if (read(vm->timer_fd, &n, sizeof(n)) != sizeof(n))
		return;
	if (vm->state == VM_ENDED)
		end_machine(vm, run, VM_WHY_ENDED);
	else if (vm->is_cancelled)
		end_machine(vm, run, VM_WHY_CANCEL);
	else
		end_machine(vm, run, vm->state == VM_RUNS ? VM_WHY_TIME : VM_WHY_BOOT);
}

void vm_handle(struct vm *vm, struct cordon_run *run, const struct pollfd fds[2])
{
	int was = vm->state;

	if (vm->state == VM_NONE)
		return;
	if (vm->state < VM_ENDED && (fds[0].revents & (POLLIN | POLLHUP | POLLERR)))
		hear(vm, run);
	if (was == VM_HELLO && vm->state == VM_BOOT)
		set_timer(vm, BOOT_MS);
	if (was != VM_ENDED && vm->state == VM_ENDED)
		set_timer(vm, time_left(vm, FLUSH_MS));
	if (fds[1].revents)
		on_timer(vm, run);
	if (vm->state < VM_OVER)
		send_rest(vm, run);
	if (vm->state == VM_ENDED && vm->has_exit && is_flushed(vm, run))
		end_machine(vm, run, VM_WHY_ENDED);
}

int vm_signal(struct vm *vm, struct cordon_run *run, int number, int is_cancel)
{
	const struct cordon_policy *p = vm->policy;
	size_t at;

	if (vm->state == VM_NONE)
		return 0;
	if (vm->state < VM_OVER && vm->state != VM_RUNS && is_cancel)
		end_machine(vm, run, VM_WHY_CANCEL);
	if (vm->state != VM_RUNS)
		return 1;
	at = microvm_begin(&vm->unsent, MICROVM_SIGNAL);
	microvm_add_number(&vm->unsent, FIELD_NUMBER, number);
	microvm_end(&vm->unsent, at);
	send_rest(vm, run);
	if (is_cancel) {
		vm->is_cancelled = 1;
		set_timer(vm,
			  (p->grace_ms >= 0 ? p->grace_ms : POLICY_DEFAULT_GRACE_MS) + SLACK_MS);
	}
	return 1;
}

static void add_layer(struct vm *vm, struct cordon_result *result)
{
	size_t n = 0;

	while (n < VM_LAYERS_MAX && result->layers[n]) {
		vm->layers[n] = result->layers[n];
		n++;
	}
	vm->layers[n++] = vm->is_kvm ? "microvm:kvm" : "microvm:tcg";
	vm->layers[n] = NULL;
	result->layers = vm->layers;
	result->level = CORDON_LEVEL_MICROVM;
}

static void set_end(struct cordon_result *result, int kind, int exit_code, int number)
{
	result->kind = kind;
	result->exit_code = exit_code;
	result->signal = number;
	switch (kind) {
	case CORDON_KIND_TIMEOUT:
	case CORDON_KIND_CPU_TIME:
		result->status = STATUS_TIMEOUT;
		break;
	case CORDON_KIND_SANDBOX_ERROR:
		result->status = STATUS_FAILED;
		break;
	case CORDON_KIND_MEMORY:
		result->status = STATUS_SIGNAL_BASE + 9;
		break;
	default:
		result->status = number		  ? STATUS_SIGNAL_BASE + number
				 : exit_code >= 0 ? exit_code
						  : STATUS_FAILED;
	}
}

/* Something went wrong that is neither the command's doing nor a limit. */
static void set_error(struct cordon_result *result, const char *text, const char *hint)
{
	set_end(result, CORDON_KIND_SANDBOX_ERROR, -1, 0);
	cordon_err(&result->error, CORDON_E_SETUP, 0, "%s", text);
	cordon_err_hint(&result->error, "%s", hint);
}

/* The machine is gone, and nobody has said how the command ended. */
static void set_lost(const struct vm *vm, struct cordon_result *result)
{
	static const char log[] = "what QEMU said stands above, if it said anything";

	switch (vm->why) {
	case VM_WHY_TIME:
		set_end(result, CORDON_KIND_TIMEOUT, -1, 9);
		break;
	case VM_WHY_CANCEL:
		set_end(result, CORDON_KIND_CANCELLED, -1, 9);
		break;
	case VM_WHY_BOOT:
		set_error(result, "the virtual machine did not start within three minutes",
			  "the machine is too busy; --isolation namespaces needs no other kernel");
		break;
	case VM_WHY_PROTOCOL:
		if (!vm->has_begun) {
			set_error(result, "the virtual machine could not be told what to run",
				  "the current directory may be gone, or the variables and "
				  "arguments are longer than a MiB");
			break;
		}
		/* Only what has taken over the guest's kernel can do that: the command did run. */
		set_end(result, CORDON_KIND_SIGNALED, -1, 9);
		say_line("the guest broke the protocol; its virtual machine was ended");
		break;
	default:
		if (!vm->has_begun) {
			set_error(result, "the virtual machine could not be started", log);
			break;
		}
		if (vm->is_cancelled) {
			set_end(result, CORDON_KIND_CANCELLED, -1, 9);
			break;
		}
		set_end(result, CORDON_KIND_SIGNALED, -1, 9);
		say_line("the virtual machine ended before the command did");
	}
}

void vm_conclude(struct vm *vm, struct cordon_result *result)
{
	if (vm->state == VM_NONE)
		return;
	if (result->kind == CORDON_KIND_SANDBOX_ERROR || result->kind == CORDON_KIND_SPAWN_FAILED)
		return;
	add_layer(vm, result);
	switch (result->kind) {
	case CORDON_KIND_EXITED:
	case CORDON_KIND_SIGNALED:
	case CORDON_KIND_CANCELLED:
		break;
	default:
		/* A limit of the host's. */
		return;
	}
	if (!vm->has_exit) {
		set_lost(vm, result);
		return;
	}
	/* Who cancels is here. */
	if (vm->exit.kind == CORDON_KIND_CANCELLED && !vm->is_cancelled) {
		set_end(result, CORDON_KIND_SIGNALED, -1, 9);
		say_line("the guest says that it was cancelled, and it was not");
		return;
	}
	if (vm->exit.kind == CORDON_KIND_SANDBOX_ERROR) {
		set_error(result, "the command could not be started in the guest",
			  vm->exit.message);
		return;
	}
	if (vm->exit.kind == CORDON_KIND_SPAWN_FAILED) {
		set_error(result, "the command could not be executed in the guest",
			  vm->exit.message);
		result->kind = CORDON_KIND_SPAWN_FAILED;
		return;
	}
	set_end(result, vm->exit.kind, vm->exit.exit_code, vm->exit.signal);
}

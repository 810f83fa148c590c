/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What passes through a stream: `cordon run` and `cordon mcp --wrap` carry a protocol that they do
 * not read. The first byte chooses the direction and what is kept besides; each further one writes,
 * reads or lets the relay work, in pieces of some size. What comes out has to be what went in.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "launch/launch.h"

#define OPS_MAX 512
#define ROUNDS_MAX 100000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct rig {
	struct relay relay;
	int epoll_fd, from, to; /* where we write, and where it comes out */
	uint64_t sent, got;
	int has_end;
};

/* Every position has its own byte, so that nothing can be moved, left out or come twice unseen. */
static uint8_t byte_at(uint64_t at)
{
	at *= 0x9e3779b97f4a7c15u;
	return (uint8_t)(at >> 56);
}

static void put(struct rig *rig, size_t n)
{
	uint8_t buffer[8192];
	ssize_t r;

	n = n < sizeof(buffer) ? n : sizeof(buffer);
	for (size_t i = 0; i < n; i++)
		buffer[i] = byte_at(rig->sent + i);
	r = write(rig->from, buffer, n);
	if (r > 0)
		rig->sent += (uint64_t)r;
}

static void get(struct rig *rig, size_t n)
{
	uint8_t buffer[8192];
	ssize_t r = read(rig->to, buffer, n < sizeof(buffer) ? n : sizeof(buffer));

	rig->has_end |= r == 0;
	for (ssize_t i = 0; i < r; i++)
		if (buffer[i] != byte_at(rig->got + (uint64_t)i))
			abort();
	rig->got += r > 0 ? (uint64_t)r : 0;
	if (rig->got > rig->sent)
		abort();
}

static void work(struct rig *rig)
{
	struct relay *const relays[] = { &rig->relay };

	if (relay_pump_all(relays, 1, rig->epoll_fd) < 0)
		abort();
}

static void make(struct rig *rig, int is_input, int keeps_end)
{
	struct cordon_stream stream = { .mode = CORDON_STREAM_FD };
	struct cordon_error err = CORDON_ERROR_INIT;
	int fds[2], guest_fd = -1;

	if (pipe2(fds, O_CLOEXEC) < 0)
		abort();
	stream.fd = fds[is_input ? 0 : 1];
	rig->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (rig->epoll_fd < 0 ||
	    relay_init(&rig->relay, &stream, is_input, -1, &guest_fd, &err) < 0)
		abort();
	close(stream.fd);
	rig->from = is_input ? fds[1] : guest_fd;
	rig->to = is_input ? guest_fd : fds[0];
	if (fcntl(rig->from, F_SETFL, O_NONBLOCK) < 0 || fcntl(rig->to, F_SETFL, O_NONBLOCK) < 0)
		abort();
	if (keeps_end)
		relay_keep_end(&rig->relay);
}

/* The last bytes, as far as they are kept. */
static void check_end(struct rig *rig)
{
	struct cordon_output out = { .data = NULL };

	if (relay_captured(&rig->relay, &out) < 0)
		return;
	if (out.len > rig->sent || (out.len < rig->sent && out.len < RELAY_END_BYTES))
		abort();
	for (size_t i = 0; i < out.len; i++)
		if ((uint8_t)out.data[i] != byte_at(rig->sent - out.len + i))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rig rig = { .sent = 0 };
	int is_input = size && data[0] & 1, keeps_end = size && !is_input && data[0] & 2;

	if (size < 2)
		return 0;
	make(&rig, is_input, keeps_end);
	for (size_t i = 1; i < size && i < OPS_MAX; i++) {
		size_t n = 1 + (size_t)(data[i] >> 2) * 131;

		if ((data[i] & 3) == 0)
			get(&rig, n);
		else if ((data[i] & 3) == 1)
			work(&rig);
		else
			put(&rig, n);
	}
	close(rig.from);
	for (int k = 0; k < ROUNDS_MAX && !(relay_is_over(&rig.relay) && rig.got == rig.sent);
	     k++) {
		work(&rig);
		get(&rig, 8192);
	}
	if (!relay_is_over(&rig.relay) || rig.got != rig.sent || rig.relay.total != rig.sent)
		abort();
	/* The guest sees the end of its input; the caller's descriptor is the relay's until it
	 * goes. */
	get(&rig, 1);
	if (rig.has_end != is_input)
		abort();
	if (keeps_end)
		check_end(&rig);
	relay_forget(&rig.relay, rig.epoll_fd);
	relay_done(&rig.relay);
	close(rig.to);
	close(rig.epoll_fd);
	return 0;
}

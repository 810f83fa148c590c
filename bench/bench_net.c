/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of the network measurements.
 *
 *	bench_net serve PORT [own-net]
 *	bench_net latency ADDRESS:PORT KIND COUNT PACE_US
 *	bench_net down|up ADDRESS:PORT STREAMS MIB
 *	bench_net idle ADDRESS:PORT COUNT
 *
 * Everything goes over the loopback device. `serve` prints ADDRESS:PORT (0 = any free one) and ends
 * with its stdin. `own-net` makes a net namespace for the server first: there, the ports 80 and 443
 * are free, and the device has an address besides 127.0.0.1, because most connections do not go to
 * localhost. `idle` keeps COUNT connections open. Each client prints one line of JSON and then
 * waits for the end of its stdin, so that the gateway can be measured meanwhile.
 *
 * The first byte that a client sends says what it wants; those of TLS and HTTP are their own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (256u << 10)
#define STREAMS_MAX 64
#define WANT_ECHO 'e'
#define WANT_DOWN 'd'
#define WANT_UP 'u'
#define WANT_HOLD 'h'
#define TLS_HANDSHAKE 22
#define HTTP_GET 'G'
#define LOOPBACK "127.0.0.1"
#define OWN_ADDRESS "10.20.30.40"

struct want {
	uint8_t what;
	uint64_t bytes;
} __attribute__((packed));

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("bench_net: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct sockaddr_in address(const char *text, int port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons((uint16_t)port),
				     .sin_addr.s_addr = inet_addr(text) };
}

static void send_all(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len > 0) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

		if (n < 0)
			die("send: %m");
		at += n;
		len -= (size_t)n;
	}
}

static void receive_all(int fd, void *data, size_t len)
{
	ssize_t n = recv(fd, data, len, MSG_WAITALL);

	if (n != (ssize_t)len)
		die("received %zd bytes instead of %zu: %m", n, len);
}

static void send_many(int fd, uint64_t bytes)
{
	static const char zeros[CHUNK];

	for (; bytes > 0; bytes -= bytes < CHUNK ? bytes : CHUNK)
		send_all(fd, zeros, bytes < CHUNK ? bytes : CHUNK);
}

static void receive_many(int fd, uint64_t bytes)
{
	char *room = malloc(CHUNK);

	while (room && bytes > 0) {
		ssize_t n = recv(fd, room, bytes < CHUNK ? bytes : CHUNK, 0);

		if (n <= 0)
			die("the stream ended early: %m");
		bytes -= (uint64_t)n;
	}
	free(room);
}

/* --- the server --- */

static void *serve_stream(void *arg)
{
	int fd = (int)(intptr_t)arg;
	struct want want;

	receive_all(fd, &want, sizeof(want));
	if (want.what == WANT_DOWN) {
		send_many(fd, want.bytes);
	} else {
		receive_many(fd, want.bytes);
		send_all(fd, "", 1);
	}
	close(fd);
	return NULL;
}

/* Short ones are answered here, in the thread that accepts, so that no thread has to be made. */
static void serve_one(int fd)
{
	static const char ok[] = "HTTP/1.1 204 No Content\r\n\r\n";
	char text[4096];
	ssize_t n = recv(fd, text, sizeof(text), MSG_PEEK);
	pthread_t thread;
	const int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (n > 0 && (text[0] == WANT_DOWN || text[0] == WANT_UP)) {
		if (pthread_create(&thread, NULL, serve_stream, (void *)(intptr_t)fd) != 0)
			die("no thread");
		pthread_detach(thread);
		return;
	}
	n = recv(fd, text, sizeof(text), 0);
	if (n > 0) {
		if (text[0] == HTTP_GET)
			send_all(fd, ok, sizeof(ok) - 1);
		else
			send_all(fd, "", 1);
	}
	/* A held one stays open until the server ends. */
	if (n <= 0 || text[0] != WANT_HOLD)
		close(fd);
}

static void make_own_net(void)
{
	struct ifreq up = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	struct ifreq more = { .ifr_name = "lo:1" };
	struct sockaddr_in own = address(OWN_ADDRESS, 0);
	int fd;

	if (unshare(CLONE_NEWNET) < 0)
		die("no net namespace: %m");
	memcpy(&more.ifr_addr, &own, sizeof(own));
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &up) < 0 || ioctl(fd, SIOCSIFADDR, &more) < 0)
		die("cannot raise lo: %m");
	close(fd);
}

static int serve(const char *text, int port)
{
	struct sockaddr_in addr = address(text, port);
	socklen_t len = sizeof(addr);
	struct pollfd polls[2] = { { .fd = 0, .events = POLLIN }, { .events = POLLIN } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    listen(fd, 1024) < 0 || getsockname(fd, (struct sockaddr *)&addr, &len) < 0)
		die("cannot listen on port %d: %m", port);
	printf("%s:%d\n", text, ntohs(addr.sin_port));
	fflush(stdout);
	polls[1].fd = fd;
	while (poll(polls, 2, -1) >= 0 && !polls[0].revents) {
		int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

		if (client >= 0)
			serve_one(client);
	}
	return 0;
}

/* --- clients --- */

static struct sockaddr_in target;

static void set_target(const char *text)
{
	char host[64] = "";
	int port = 0;

	if (sscanf(text, "%63[0-9.]:%d", host, &port) != 2)
		die("'%s' is not ADDRESS:PORT", text);
	target = address(host, port);
}

static int dial(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&target, sizeof(target)) < 0)
		die("cannot connect: %m");
	return fd;
}

static void finish(void)
{
	char byte;

	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
}

/* A ClientHello that asks for no name: the destination is an address. */
static size_t fill_hello(char *ret)
{
	static const uint8_t head[] = { TLS_HANDSHAKE, 3, 1, 0, 49, 1, 0, 0, 45, 3, 3 };
	static const uint8_t tail[] = { 0, 0, 2, 0x13, 0x01, 1, 0, 0, 0 };
	size_t len = sizeof(head);

	memcpy(ret, head, len);
	memset(ret + len, 7, 32); /* random */
	len += 32;
	memcpy(ret + len, tail, sizeof(tail));
	len += sizeof(tail);
	ret[4] = (char)(len - 5);
	ret[8] = (char)(len - 9);
	return len;
}

static size_t fill_request(const char *kind, char *ret, size_t cap)
{
	if (strcmp(kind, "tls") == 0)
		return fill_hello(ret);
	if (strcmp(kind, "http") == 0)
		return (size_t)snprintf(ret, cap, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n",
					inet_ntoa(target.sin_addr));
	ret[0] = WANT_ECHO;
	return 1;
}

/* Connect, ask, get the first byte of the answer, close. */
static int latency(const char *kind, int count, long pace_us)
{
	uint64_t next = now_ns();
	char request[512], answer;
	size_t len = fill_request(kind, request, sizeof(request));

	printf("{\"us\": [");
	for (int i = 0; i < count; i++) {
		struct timespec at = { (time_t)(next / 1000000000u), (long)(next % 1000000000u) };
		uint64_t start;
		int fd;

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		start = now_ns();
		fd = dial();
		send_all(fd, request, len);
		receive_all(fd, &answer, 1);
		close(fd);
		printf("%s%.1f", i ? "," : "", (double)(now_ns() - start) / 1e3);
		/* From the end of this one: lost time is not made up for by a crowd. */
		next = now_ns() + (uint64_t)pace_us * 1000;
	}
	printf("]}\n");
	finish();
	return 0;
}

struct stream {
	pthread_t thread;
	struct want want;
};

static void *run_stream(void *arg)
{
	const struct stream *s = arg;
	int fd = dial();
	char done;

	send_all(fd, &s->want, sizeof(s->want));
	if (s->want.what == WANT_DOWN) {
		receive_many(fd, s->want.bytes);
	} else {
		send_many(fd, s->want.bytes);
		receive_all(fd, &done, 1);
	}
	close(fd);
	return NULL;
}

static int throughput(uint8_t what, int n, uint64_t bytes)
{
	struct stream streams[STREAMS_MAX];
	uint64_t start = now_ns();

	if (n < 1 || n > STREAMS_MAX)
		die("between 1 and %d streams", STREAMS_MAX);
	for (int i = 0; i < n; i++) {
		streams[i] = (struct stream){ .want = { what, bytes / (unsigned)n } };
		if (pthread_create(&streams[i].thread, NULL, run_stream, &streams[i]) != 0)
			die("no thread");
	}
	for (int i = 0; i < n; i++)
		pthread_join(streams[i].thread, NULL);
	printf("{\"s\": %.6f}\n", (double)(now_ns() - start) / 1e9);
	finish();
	return 0;
}

static int idle(int count)
{
	char answer;

	for (int i = 0; i < count; i++) {
		int fd = dial();

		send_all(fd, &(char){ WANT_HOLD }, 1);
		receive_all(fd, &answer, 1);
	}
	printf("{\"held\": %d}\n", count);
	finish();
	return 0;
}

int main(int argc, char **argv)
{
	const char *role = argc > 2 ? argv[1] : "";

	if (strcmp(role, "serve") == 0) {
		if (argc > 3)
			make_own_net();
		return serve(argc > 3 ? OWN_ADDRESS : LOOPBACK, atoi(argv[2]));
	}
	if (argc > 2)
		set_target(argv[2]);
	if (strcmp(role, "latency") == 0 && argc == 6)
		return latency(argv[3], atoi(argv[4]), atol(argv[5]));
	if (strcmp(role, "idle") == 0 && argc == 4)
		return idle(atoi(argv[3]));
	if ((strcmp(role, "down") == 0 || strcmp(role, "up") == 0) && argc == 5)
		return throughput(role[0] == 'd' ? WANT_DOWN : WANT_UP, atoi(argv[3]),
				  (uint64_t)atol(argv[4]) << 20);
	die("see the head of bench_net.c");
}

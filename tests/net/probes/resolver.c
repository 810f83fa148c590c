// SPDX-License-Identifier: Apache-2.0
/*
 * A static program with a resolver of its own, as some languages have it: asks 8.8.8.8 over UDP for
 * the A record, connects to the first address, sends a request, prints the answer.
 *
 *	resolver NAME PORT
 */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static size_t write_question(unsigned char *msg, const char *name)
{
	static const unsigned char head[12] = { 0x12, 0x34, 1, 0, 0, 1 };
	size_t at = sizeof(head);
	memcpy(msg, head, sizeof(head));
	while (*name) {
		size_t len = strcspn(name, ".");
		msg[at++] = (unsigned char)len;
		memcpy(msg + at, name, len);
		at += len;
		name += len + (name[len] == '.');
	}
	memcpy(msg + at, "\0\0\1\0\1", 5);
	return at + 5;
}

/* The first A record behind the question, which is as long as it was. */
static struct in_addr first_address(const unsigned char *msg, size_t len, size_t at)
{
	struct in_addr ret;
	if (len < 12 || (msg[3] & 15))
		errx(2, "rcode %d", len < 12 ? -1 : msg[3] & 15);
	while (at + 12 <= len) {
		while (at < len && msg[at] && msg[at] < 0xc0)
			at += 1u + msg[at];
		at += msg[at] ? 2 : 1;
		unsigned type = msg[at] << 8 | msg[at + 1], size = msg[at + 8] << 8 | msg[at + 9];
		if (type == 1 && size == 4) {
			memcpy(&ret, msg + at + 10, 4);
			return ret;
		}
		at += 10 + size;
	}
	errx(3, "no address");
}

int main(int argc, char **argv)
{
	unsigned char msg[1500];
	struct timeval wait = { .tv_sec = 5 };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(53) };
	if (argc != 3 || strlen(argv[1]) > 250)
		errx(1, "usage");
	inet_aton("8.8.8.8", &to.sin_addr);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	size_t len = write_question(msg, argv[1]);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ||
	    send(fd, msg, len, 0) < 0)
		err(4, "question");
	ssize_t n = recv(fd, msg, sizeof(msg), 0);
	if (n < 0)
		err(5, "answer");
	to.sin_addr = first_address(msg, (size_t)n, len);
	to.sin_port = htons((uint16_t)atoi(argv[2]));
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		err(6, "connect");
	dprintf(fd, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", argv[1]);
	while ((n = read(fd, msg, sizeof(msg))) > 0)
		fwrite(msg, 1, (size_t)n, stdout);
	return n < 0 ? 7 : 0;
}

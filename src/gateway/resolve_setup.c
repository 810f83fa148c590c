/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the host's resolver configuration, once, while files can still be opened. */
#include "gateway/resolve.h"

#include <asm/unistd_64.h>
#include <linux/errno.h>
#include <linux/mman.h>

#define FILE_MAX (256u << 10)
#define OPEN_FLAGS (02000000 | 04000) /* CLOEXEC; NONBLOCK: a fifo must not stop us */
#define PROT_RW 3
#define SIOCGIFINDEX_NR 0x8933

struct resolve_conf resolve_conf;
struct hosts resolve_hosts;

struct file {
	char *text;
	size_t len;
};

/* A file that is not there is an empty one. One that is too long ends with a whole line. */
static void read_file(const char *path, struct file *ret)
{
	long fd = raw3(__NR_open, path, OPEN_FLAGS, 0);

	ret->len = 0;
	if (fd < 0)
		return;
	while (ret->len < FILE_MAX) {
		long r = raw3(__NR_read, fd, ret->text + ret->len, FILE_MAX - ret->len);

		if (r == -EINTR)
			continue;
		if (r <= 0)
			break;
		ret->len += (size_t)r;
	}
	close_fd(fd);
	if (ret->len < FILE_MAX)
		return;
	while (ret->len > 0 && ret->text[ret->len - 1] != '\n')
		ret->len--;
}

/* The number of the device: written as one, or looked up. 0 if there is none. */
static uint32_t device_of(const char zone[ZONE_MAX])
{
	struct {
		char name[ZONE_MAX];
		int index;
		char rest[20];
	} request = { .index = 0 };
	uint32_t number = 0;
	long fd, r;
	size_t i;

	for (i = 0; i < ZONE_MAX && zone[i] >= '0' && zone[i] <= '9' && number < 1000000; i++)
		number = number * 10 + (uint32_t)(zone[i] - '0');
	if (i < ZONE_MAX && !zone[i])
		return number;
	memcpy(request.name, zone, ZONE_MAX);
	fd = sock_open(true, false);
	if (fd < 0)
		return 0;
	r = raw3(__NR_ioctl, fd, SIOCGIFINDEX_NR, &request);
	close_fd(fd);
	return r < 0 ? 0 : (uint32_t)request.index;
}

long resolve_setup(void)
{
	struct file file;
	long at = raw6(__NR_mmap, 0, FILE_MAX, PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at < 0 && at > -4096)
		return at;
	file.text = (char *)at;
	read_file("/etc/hosts", &file);
	hosts_read(file.text, file.len, &resolve_hosts);
	read_file("/etc/resolv.conf", &file);
	resolve_conf_read(file.text, file.len, &resolve_conf);
	for (uint32_t i = 0; i < resolve_conf.n_servers; i++) {
		struct server *server = &resolve_conf.servers[i];

		if (server->zone[0])
			server->scope = device_of(server->zone);
	}
	raw2(__NR_munmap, at, FILE_MAX);
	return 0;
}

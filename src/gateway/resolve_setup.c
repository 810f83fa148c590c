/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the host's resolver configuration, once, while files can still be opened. */
#include "gateway/resolve.h"

#include <asm/unistd.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/mman.h>

#define OPEN_FLAGS (O_CLOEXEC | O_NONBLOCK) /* a fifo must not stop us */
#define PROT_RW 3
#define PAGE_BYTES ((size_t)ARCH_PAGE_MAX)
#define SIOCGIFINDEX_NR 0x8933

struct resolve_conf resolve_conf;
struct hosts resolve_hosts;

/* The whole file, or -errno: half of it could mean other hosts. */
static long read_all(long fd, char *text, size_t max, size_t *ret_len)
{
	size_t len = 0;

	for (;;) {
		long r = raw3(__NR_read, fd, text + len, max + 1 - len);

		if (r == -EINTR)
			continue;
		if (r < 0)
			return r;
		if (r == 0)
			break;
		len += (size_t)r;
		if (len > max)
			return -EFBIG;
	}
	*ret_len = len;
	return 0;
}

/*
 * The file in memory of its own; *ret_size is how much. One that is not there, or not for this
 * user, is an empty one, as it is for every other program.
 */
static long map_file(const char *path, size_t max, struct hosts *ret, size_t *ret_size)
{
	size_t size = (max + 1 + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1), used;
	long r, fd = raw4(__NR_openat, AT_FDCWD, path, OPEN_FLAGS, 0), at;

	*ret = (struct hosts){ "", 0 };
	*ret_size = 0;
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR || fd == -EACCES ? 0 : fd;
	at = raw6(__NR_mmap, 0, size, PROT_RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	r = at < 0 && at > -4096 ? at : read_all(fd, (char *)at, max, &ret->len);
	close_fd(fd);
	if (r < 0)
		return r;
	ret->text = (const char *)at;
	used = (ret->len + PAGE_BYTES) & ~(PAGE_BYTES - 1);
	raw2(__NR_munmap, at + (long)used, size - used);
	*ret_size = used;
	return 0;
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
	struct hosts conf;
	size_t size;
	long r = map_file("/etc/hosts", HOSTS_BYTES_MAX, &resolve_hosts, &size);

	if (r >= 0)
		r = map_file("/etc/resolv.conf", RESOLV_CONF_BYTES_MAX, &conf, &size);
	if (r < 0)
		return r;
	resolve_conf_read(conf.text, conf.len, &resolve_conf);
	if (size)
		raw2(__NR_munmap, conf.text, size);
	for (uint32_t i = 0; i < resolve_conf.n_servers; i++) {
		struct server *server = &resolve_conf.servers[i];

		if (server->zone[0])
			server->scope = device_of(server->zone);
	}
	return 0;
}

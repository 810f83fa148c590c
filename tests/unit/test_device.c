/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs in a false /proc, /sys and /dev; a loader's cache; devices that nobody is given. */
#include <ftw.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "device/device.h"
#include "tap.h"

static char root[64];
static struct arena arena;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void begin(void)
{
	snprintf(root, sizeof(root), "/tmp/cordon-device-XXXXXX");
	if (!mkdtemp(root))
		abort();
}

static void end(void)
{
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	arena_done(&arena);
}

static void put_bytes(const char *path, const void *data, size_t len)
{
	char full[PATH_MAX];
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *s = full + strlen(root) + 1; (s = strchr(s, '/')); s++) {
		*s = '\0';
		mkdir(full, 0755);
		*s = '/';
	}
	f = fopen(full, "w");
	if (!f || fwrite(data, 1, len, f) != len || fclose(f) != 0)
		abort();
}

static void put(const char *path, const char *text)
{
	put_bytes(path, text, strlen(text));
}

static void put_gpu(const char *address, unsigned number, const char *uuid)
{
	char path[256], text[512];

	snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%s/information", address);
	snprintf(text, sizeof(text),
		 "Model: \t\t NVIDIA H200\nIRQ:   \t\t 155\nGPU UUID: \t %s\n"
		 "Bus Location: \t %s\nDevice Minor: \t %u\nGPU Excluded:\t No\n",
		 uuid, address, number);
	put(path, text);
}

static void test_nvidia_in_the_order_of_addresses(void)
{
	struct gpu_list list = { 0 };

	begin();
	put_gpu("0000:9a:00.0", 0, "GPU-aaaa");
	put_gpu("0000:19:00.0", 3, "GPU-bbbb");
	put_gpu("0000:5d:00.0", 1, "GPU-?-?");
	put("/dev/nvidia0", "");
	put("/dev/nvidia3", "");
	CHECK_INT(gpu_find_all(&arena, root, &list), 0);
	CHECK_INT(list.n, 3);
	CHECK(list.has_nvidia_driver);
	CHECK_STR(list.v[0].node, "/dev/nvidia3");
	CHECK_STR(list.v[0].uuid, "GPU-bbbb");
	CHECK_STR(list.v[0].name, "NVIDIA H200");
	CHECK_STR(list.v[1].node, "/dev/nvidia1");
	CHECK(!list.v[1].is_there && !list.v[1].uuid);
	CHECK_STR(list.v[2].pci, "0000:9a:00.0");
	CHECK(list.v[0].is_there && list.v[2].is_there);
	end();
}

static void test_nvidia_without_its_directory(void)
{
	struct gpu_list list = { 0 };

	begin();
	for (int i = 11; i >= 0; i--) {
		char path[64];

		snprintf(path, sizeof(path), "/dev/nvidia%d", i);
		put(path, "");
	}
	put("/dev/nvidiactl", "");
	put("/dev/nvidia-uvm", "");
	put("/dev/nvidia0x", "");
	CHECK_INT(gpu_find_all(&arena, root, &list), 0);
	CHECK_INT(list.n, 12);
	CHECK(!list.has_nvidia_driver);
	CHECK_STR(list.v[2].node, "/dev/nvidia2");
	CHECK_STR(list.v[11].node, "/dev/nvidia11");
	end();
}

static void test_a_hostile_directory_is_no_gpu(void)
{
	struct gpu_list list = { 0 };

	begin();
	put("/proc/driver/nvidia/gpus/0000:01:00.0/information", "");
	put("/proc/driver/nvidia/gpus/0000:02:00.0/information", "Device Minor: x\n");
	put("/proc/driver/nvidia/gpus/0000:03:00.0/other", "Device Minor: 1\n");
	CHECK_INT(gpu_find_all(&arena, root, &list), 0);
	CHECK_INT(list.n, 0);
	end();
}

static void test_parts_of_a_divided_gpu(void)
{
	struct strlist caps = { 0 };

	begin();
	put("/proc/driver/nvidia/capabilities/gpu2/mig/gi3/access",
	    "DeviceFileMinor: 30\nDeviceFileMode: 292\n");
	put("/proc/driver/nvidia/capabilities/gpu2/mig/gi3/ci0/access", "DeviceFileMinor: 31\n");
	put("/proc/driver/nvidia/capabilities/gpu1/mig/gi3/access", "DeviceFileMinor: 12\n");
	put("/proc/driver/nvidia/capabilities/mig/config", "DeviceFileMinor: 1\n");
	CHECK_INT(gpu_nvidia_caps(&arena, root, 2, &caps), 0);
	CHECK_INT(caps.n, 2);
	CHECK(strlist_has(&caps, "/dev/nvidia-caps/nvidia-cap30"));
	CHECK(strlist_has(&caps, "/dev/nvidia-caps/nvidia-cap31"));
	CHECK_INT(gpu_nvidia_caps(&arena, root, 0, &caps), 0);
	CHECK_INT(caps.n, 2);
	end();
}

static void put_render(unsigned number, const char *vendor, const char *driver)
{
	char path[256], full[PATH_MAX], text[PATH_MAX];

	snprintf(path, sizeof(path), "/dev/dri/renderD%u", number);
	put(path, "");
	snprintf(path, sizeof(path), "/sys/devices/pci0000:00/0000:%02x:00.0/vendor", number);
	put(path, vendor);
	snprintf(path, sizeof(path), "/sys/class/drm/renderD%u/x", number);
	put(path, "");
	snprintf(full, sizeof(full), "%s/sys/class/drm/renderD%u/device", root, number);
	snprintf(text, sizeof(text), "../../../devices/pci0000:00/0000:%02x:00.0", number);
	CHECK_INT(symlink(text, full), 0);
	snprintf(full, sizeof(full), "%s/sys/devices/pci0000:00/0000:%02x:00.0/driver", root,
		 number);
	CHECK_INT(symlink(driver, full), 0);
}

static void test_render_nodes(void)
{
	struct gpu_list list = { 0 };

	begin();
	put_render(129, "0x1002\n", "../../../bus/pci/drivers/amdgpu");
	put_render(128, "0x8086\n", "../../../bus/pci/drivers/i915");
	put_render(130, "0x10de\n", "../../../bus/pci/drivers/nvidia");
	put("/dev/dri/card0", "");
	put("/dev/dri/renderDx", "");
	CHECK_INT(gpu_find_all(&arena, root, &list), 0);
	CHECK_INT(list.n, 2);
	CHECK_INT(list.v[0].vendor, GPU_INTEL);
	CHECK_STR(list.v[0].node, "/dev/dri/renderD128");
	CHECK_STR(list.v[0].name, "Intel (i915)");
	CHECK_STR(list.v[1].name, "AMD (amdgpu)");
	CHECK_STR(list.v[1].sys, "/sys/devices/pci0000:00/0000:81:00.0");
	CHECK_STR(list.v[1].pci, "0000:81:00.0");
	end();
}

struct head {
	char magic[20];
	uint32_t n, strings_bytes;
	uint32_t unused[5];
};

struct entry {
	int32_t flags;
	uint32_t name, path, os_version;
	uint64_t hwcap;
};

#ifdef __x86_64__
#define OURS 0x0303
#else
#define OURS 0x0a03
#endif

static void test_the_loaders_cache(void)
{
	static const char strings[] = "libcuda.so.1\0/opt/i386/libcuda.so.1\0/opt/d/libcuda.so.1";
	struct {
		struct head head;
		struct entry entries[2];
		char strings[sizeof(strings)];
	} cache = { .head = { .n = 2, .strings_bytes = sizeof(strings) } };
	uint32_t at = offsetof(__typeof__(cache), strings);

	begin();
	memcpy(cache.head.magic, "glibc-ld.so.cache1.1", sizeof(cache.head.magic));
	memcpy(cache.strings, strings, sizeof(strings));
	cache.entries[0] = (struct entry){ 0x0003, at, at + 13, 0, 0 };
	cache.entries[1] = (struct entry){ OURS, at, at + 36, 0, 0 };
	put_bytes("/etc/ld.so.cache", &cache, sizeof(cache));
	CHECK_STR(device_library_cached(&arena, root, "libcuda.so.1"), "/opt/d/libcuda.so.1");
	CHECK(!device_library_cached(&arena, root, "libcuda.so"));
	/* Every number in it may be anything. */
	for (size_t i = 0; i + 4 <= sizeof(cache.head) + sizeof(cache.entries); i += 4) {
		static const uint32_t values[] = { 0, 1, 0x7fffffff, 0xffffffff, 0x10000 };
		char copy[sizeof(cache)];

		for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
			const char *got;

			memcpy(copy, &cache, sizeof(cache));
			memcpy(copy + i, &values[v], 4);
			put_bytes("/etc/ld.so.cache", copy, sizeof(copy));
			got = device_library_cached(&arena, root, "libcuda.so.1");
			CHECK(!got || got[0] == '/');
		}
	}
	for (size_t len = 1; len < sizeof(cache); len++) {
		put_bytes("/etc/ld.so.cache", &cache, len);
		(void)device_library_cached(&arena, root, "libcuda.so.1");
	}
	end();
}

static void test_this_machines_cache(void)
{
	const char *path;

	if (access("/etc/ld.so.cache", R_OK) < 0)
		return;
	path = device_library_cached(&arena, "", "libc.so.6");
	/* A machine without glibc has no such file. */
	CHECK(path != NULL);
	CHECK(path && access(path, R_OK) == 0);
	arena_done(&arena);
}

static const char *cdi(const char *text)
{
	put("/etc/cdi/nvidia.json", text);
	return device_library_cdi(&arena, root, "libcuda.so");
}

#define MOUNT(path) "{\"hostPath\": \"" path "\", \"containerPath\": \"/x\"}"
#define SPEC(edits) "{\"cdiVersion\": \"0.6.0\", \"kind\": \"nvidia.com/gpu\", " edits "}"

static void test_the_library_of_a_specification(void)
{
	static const char *const useless[] = {
		"",
		"{",
		"[]",
		"7",
		SPEC("\"devices\": 1"),
		SPEC("\"containerEdits\": []"),
		SPEC("\"containerEdits\": {\"mounts\": {}}"),
		SPEC("\"containerEdits\": {\"mounts\": [1, {\"hostPath\": 2}]}"),
		SPEC("\"containerEdits\": {\"mounts\": [" MOUNT("libcuda.so.1") "]}"),
		SPEC("\"containerEdits\": {\"mounts\": [" MOUNT("/libcuda.so.1") "]}"),
		SPEC("\"containerEdits\": {\"mounts\": [" MOUNT("/opt/n/libcuda.sox") "]}"),
	};

	begin();
	CHECK(!device_library_cdi(&arena, root, "libcuda.so"));
	CHECK(!device_cdi_yaml(&arena, root));
	put("/etc/cdi/.yaml", "");
	put("/etc/cdi/yaml", "");
	CHECK(!device_cdi_yaml(&arena, root));
	put("/etc/cdi/other.yaml", "mounts: /opt/y/libcuda.so.1");
	CHECK_STR(device_cdi_yaml(&arena, root), "/etc/cdi/other.yaml");
	for (size_t i = 0; i < sizeof(useless) / sizeof(useless[0]); i++)
		CHECK(!cdi(useless[i]));
	CHECK_STR(
		cdi(SPEC("\"containerEdits\": {\"mounts\": [" MOUNT(
			"/opt/n/libnvidia-ml.so.1") ", " MOUNT("/opt/n/libcuda.so.580.65.06") "]"
											      "}")),
		"/opt/n");
	CHECK_STR(
		cdi(SPEC("\"devices\": [{\"name\": \"0\", \"containerEdits\": {\"mounts\": [" MOUNT(
			"/opt/d/libcuda.so") "]}}]")),
		"/opt/d");
	end();
}

static void test_what_nobody_is_given(void)
{
	static const struct {
		unsigned major, minor;
		bool is_given;
	} cases[] = {
		{ 1, 3, true },	    { 1, 5, true },	{ 1, 7, true },	    { 1, 1, false },
		{ 1, 4, false },    { 1, 11, false },	{ 4, 0, false },    { 4, 64, false },
		{ 5, 0, false },    { 5, 1, false },	{ 5, 2, false },    { 7, 0, false },
		{ 13, 64, false },  { 21, 0, false },	{ 29, 0, false },   { 136, 0, false },
		{ 128, 5, false },  { 143, 9, false },	{ 144, 9, false },  { 10, 229, true },
		{ 10, 232, true },  { 10, 257, false }, { 10, 258, true },  { 10, 237, false },
		{ 10, 99, false },  { 195, 0, true },	{ 195, 255, true }, { 226, 0, false },
		{ 226, 128, true }, { 245, 0, false },	{ 259, 0, false },  { 202, 0, false },
	};

	begin();
	put("/proc/devices", "Character devices:\n  1 mem\n195 nvidia\n226 drm\n245 hidraw\n\n"
			     "Block devices:\n259 blkext\n");
	put("/proc/misc", "229 fuse\n232 kvm\n257 userfaultfd\n258 other\n");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *why = device_refusal(root, makedev(cases[i].major, cases[i].minor));

		if (!why != cases[i].is_given)
			printf("# %u:%u %s\n", cases[i].major, cases[i].minor, why ? why : "given");
		CHECK(!why == cases[i].is_given);
	}
	end();
}

TAP_MAIN(test_nvidia_in_the_order_of_addresses, test_nvidia_without_its_directory,
	 test_a_hostile_directory_is_no_gpu, test_parts_of_a_divided_gpu, test_render_nodes,
	 test_the_loaders_cache, test_this_machines_cache, test_the_library_of_a_specification,
	 test_what_nobody_is_given)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Character devices that no run is given, however they are called: with them a command has the
 * machine, another's terminal or data below all file permissions.
 *
 * Most have a fixed number. Others get theirs when the driver is loaded, and are known by the name
 * that the driver has in /proc/devices or /proc/misc. A driver that is not listed here is the
 * caller's decision, who names the node.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/macros.h"
#include "device/device.h"

#define TABLE_MAX 16384
#define MISC_MAJOR 10u
#define PTY_FIRST 128u /* both ends of pseudo-terminals */
#define PTY_LAST 143u
#define ANY_MINOR 0, ~0u

#define MEMORY "it is the machine's memory or its ports"
#define TERMINAL "it is a terminal, which may be somebody else's"
#define INPUT "it tells and makes what is typed on the machine"
#define DISK "it reads and writes a disk below its file systems"
#define SCREEN "it shows and changes the screen"
#define HARDWARE "it controls hardware below its driver"
#define KERNEL "it controls the kernel"
#define NETWORK "it reaches the host's network"

static const struct {
	unsigned major, first, last; /* minors */
	const char *why;
} numbers[] = {
	{ 1, 3, 3, NULL }, /* null */
	{ 1, 5, 5, NULL }, /* zero */
	{ 1, 7, 9, NULL }, /* full, random, urandom */
	{ 1, 11, 11, "it is the kernel's log" },
	{ 1, ANY_MINOR, MEMORY },
	{ 2, ANY_MINOR, TERMINAL },
	{ 3, ANY_MINOR, TERMINAL },
	{ 4, ANY_MINOR, TERMINAL },
	{ 5, ANY_MINOR, TERMINAL },
	{ 7, ANY_MINOR, SCREEN },
	{ 9, ANY_MINOR, DISK }, /* tapes */
	{ MISC_MAJOR, 1, 1, INPUT },
	{ MISC_MAJOR, 130, 130, "it restarts the machine" }, /* watchdog */
	{ MISC_MAJOR, 144, 144, HARDWARE },		     /* nvram */
	{ MISC_MAJOR, 196, 196, HARDWARE },		     /* vfio */
	{ MISC_MAJOR, 203, 203, KERNEL },		     /* cuse */
	{ MISC_MAJOR, 223, 223, INPUT },		     /* uinput */
	{ MISC_MAJOR, 227, 227, HARDWARE },		     /* mcelog */
	{ MISC_MAJOR, 231, 231, MEMORY },		     /* snapshot */
	{ MISC_MAJOR, 234, 237, DISK },	    /* btrfs-control, autofs, device mapper, loop-control */
	{ MISC_MAJOR, 238, 238, NETWORK },  /* vhost-net */
	{ MISC_MAJOR, 239, 239, INPUT },    /* uhid */
	{ MISC_MAJOR, 241, 241, NETWORK },  /* vhost-vsock */
	{ MISC_MAJOR, 242, 242, HARDWARE }, /* rfkill */
	{ 13, ANY_MINOR, INPUT },
	{ 21, ANY_MINOR, DISK }, /* SCSI generic */
	{ 29, ANY_MINOR, SCREEN },
	{ 86, ANY_MINOR, DISK }, /* media changers */
	{ 89, ANY_MINOR, HARDWARE },
	{ 90, ANY_MINOR, DISK }, /* flash memory */
	{ 153, ANY_MINOR, HARDWARE },
	{ 162, ANY_MINOR, DISK },
	{ 202, ANY_MINOR, HARDWARE }, /* registers of the processor */
	{ 226, 0, 127,
	  SCREEN " and is for the display's server; its render node (renderD...) can be given" },
};

static const struct {
	const char *driver, *why;
} names[] = {
	{ "pty", TERMINAL },
	{ "ttyp", TERMINAL },
	{ "ttyS", TERMINAL },
	{ "ptm", TERMINAL },
	{ "pts", TERMINAL },
	{ "hvc", TERMINAL },
	{ "ttyAMA", TERMINAL },
	{ "virtio-portsdev", TERMINAL },
	{ "input", INPUT },
	{ "hidraw", INPUT },
	{ "usbmon", INPUT },
	{ "sg", DISK },
	{ "bsg", DISK },
	{ "nvme", DISK },
	{ "nvme-generic", DISK },
	{ "ubi_ctrl", DISK },
	{ "rpmb", DISK },
	{ "mtd", DISK },
	{ "ndctl", DISK },
	{ "dimmctl", DISK },
	{ "megaraid_sas_ioctl", DISK },
	{ "aac", DISK },
	{ "fb", SCREEN },
	{ "vfio", HARDWARE },
	{ "uio", HARDWARE },
	{ "ipmidev", HARDWARE },
	{ "mei", HARDWARE },
	{ "cpu/msr", HARDWARE },
	{ "gpiochip", HARDWARE },
	{ "i2c", HARDWARE },
	{ "spi", HARDWARE },
	{ "cxl", HARDWARE },
	{ "watchdog", "it restarts the machine" },
	{ "dax", MEMORY },
	{ "macvtap", NETWORK },
	{ "ipvtap", NETWORK },
	{ "vfio-cdev", HARDWARE },
	{ "tpm", HARDWARE },
	{ "vtpm", HARDWARE },
};

static const struct {
	const char *driver, *why;
} misc_names[] = {
	{ "userfaultfd", KERNEL },
	{ "vfio", HARDWARE },
	{ "iommu", HARDWARE },
	{ "snapshot", MEMORY },
	{ "nvram", HARDWARE },
	{ "cuse", KERNEL },
	{ "device-mapper", DISK },
	{ "loop-control", DISK },
	{ "btrfs-control", DISK },
	{ "autofs", KERNEL },
	{ "uinput", INPUT },
	{ "uhid", INPUT },
	{ "vmci", "it reaches the host" },
	{ "vsock", NETWORK },
	{ "vhost-net", NETWORK },
	{ "vhost-vsock", NETWORK },
	{ "cpu_dma_latency", HARDWARE },
	{ "rfkill", HARDWARE },
	{ "mcelog", HARDWARE },
	{ "watchdog", "it restarts the machine" },
	{ "ecryptfs", KERNEL },
	{ "lightnvm", DISK },
	{ "fpga", HARDWARE },
	{ "nvme-fabrics", DISK },
	{ "mpt2ctl", DISK },
	{ "mpt3ctl", DISK },
	{ "vhost-scsi", DISK },
	{ "tpm0", HARDWARE },
	{ "vtpmx", HARDWARE },
};

/* The name beside number @number in a table of "NUMBER NAME" lines that begins after @from. */
static bool name_in(const char *root, const char *path, const char *from, unsigned number,
		    char *ret, size_t size)
{
	static const char blanks[] = " \t";
	char text[TABLE_MAX];
	const char *line = text;

	if (device_read(root, path, text, sizeof(text)) <= 0)
		return false;
	if (*from) {
		line = strstr(text, from);
		line = line ? strchr(line, '\n') : NULL;
	}
	for (; line && *line; line = strchr(line, '\n')) {
		char *end;
		size_t len;

		line += *line == '\n';
		line += strspn(line, blanks);
		/* The next table of the same file. */
		if (!isdigit((unsigned char)*line)) {
			if (*from)
				return false;
			continue;
		}
		if (strtoul(line, &end, 10) != number)
			continue;
		end += strspn(end, blanks);
		len = strcspn(end, "\n");
		if (len >= size)
			return false;
		memcpy(ret, end, len);
		ret[len] = '\0';
		return true;
	}
	return false;
}

const char *device_refusal(const char *root, dev_t rdev)
{
	unsigned number = major(rdev), part = minor(rdev);
	bool is_misc = number == MISC_MAJOR;
	char name[64];

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (numbers[i].major == number && part >= numbers[i].first &&
		    part <= numbers[i].last)
			return numbers[i].why;
	if (number >= PTY_FIRST && number <= PTY_LAST)
		return TERMINAL;
	if (!name_in(root, is_misc ? "/proc/misc" : "/proc/devices",
		     is_misc ? "" : "Character devices:", is_misc ? part : number, name,
		     sizeof(name)))
		return "its driver is not known: no driver of this kernel has its number";
	for (size_t i = 0; is_misc && i < ARRAY_SIZE(misc_names); i++)
		if (strcmp(misc_names[i].driver, name) == 0)
			return misc_names[i].why;
	/* A driver for each: ubi0, ubi1 ... */
	if (!is_misc && strncmp(name, "ubi", 3) == 0 && isdigit((unsigned char)name[3]))
		return DISK;
	for (size_t i = 0; !is_misc && i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i].driver, name) == 0)
			return names[i].why;
	return NULL;
}

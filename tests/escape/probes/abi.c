/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other system call tables of the kernel. x86-64 has two: ia32 by int 0x80, and x32. aarch64
 * has the one of 32-bit programs, which such a program alone can use: so one is made and executed.
 */
#include "probe.h"

#ifdef __x86_64__
static long ia32(long nr, long a, long b, long c)
{
	long ret;

	__asm__ volatile("int $0x80" : "=a"(ret) : "a"(nr), "b"(a), "c"(b), "d"(c) : "memory");
	if (ret < 0 && ret > -4096) {
		errno = (int)-ret;
		return -1;
	}
	return ret;
}

static long ia32_getpid(void *arg)
{
	(void)arg;
	return ia32(20, 0, 0, 0);
}

/* io_uring_setup with a bad pointer: EFAULT would mean it is there. */
static long ia32_io_uring(void *arg)
{
	(void)arg;
	if (ia32(425, 1, 0, 0) < 0 && errno != EFAULT)
		return -1;
	return 0;
}

static long ia32_socketcall(void *arg)
{
	(void)arg;
	if (ia32(102, 1, 0, 0) < 0 && errno != EFAULT)
		return -1;
	return 0;
}

static long x32(long nr)
{
	return syscall(0x40000000 | nr);
}

static long x32_getpid(void *arg)
{
	(void)arg;
	return x32(SYS_getpid);
}

/* 520 is x32's own number for execve: its table has a range of its own above 512. */
static long x32_execve(void *arg)
{
	(void)arg;
	return x32(520);
}

/* The kernel looks at 32 bits of the number: this is keyctl. */
static long high_bits(void *arg)
{
	long ret;

	(void)arg;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(0x100000000L | SYS_keyctl), "D"(0L), "S"(0L), "d"(0L)
			 : "rcx", "r11", "memory");
	if (ret < 0) {
		errno = (int)-ret;
		return -1;
	}
	return 0;
}

static void all_rows(void)
{
	row_child("ia32-getpid", ia32_getpid, NULL);
	row_child("ia32-io-uring", ia32_io_uring, NULL);
	row_child("ia32-socketcall", ia32_socketcall, NULL);
	row_child("x32-getpid", x32_getpid, NULL);
	row_child("x32-execve", x32_execve, NULL);
	row_child("high-bits", high_bits, NULL);
}
#else
#include <elf.h>
#include <sys/mman.h>

#define IMAGE_START 0x10000

/* A program that makes the call @nr with @a in its first register and 0 in two more, and ends with
 * status 0, or the errno. Where the processor or the kernel knows no 32-bit programs: ENOEXEC. */
static long arm(uint32_t nr, uint32_t a)
{
	const struct {
		Elf32_Ehdr eh;
		Elf32_Phdr ph;
		uint32_t code[10];
	} image = {
		.eh = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT },
			.e_type = ET_EXEC,
			.e_machine = EM_ARM,
			.e_version = EV_CURRENT,
			.e_entry = IMAGE_START + sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr),
			.e_phoff = sizeof(Elf32_Ehdr),
			.e_flags = 0x05000000, /* the EABI */
			.e_ehsize = sizeof(Elf32_Ehdr),
			.e_phentsize = sizeof(Elf32_Phdr),
			.e_phnum = 1 },
		.ph = { .p_type = PT_LOAD,
			.p_vaddr = IMAGE_START,
			.p_paddr = IMAGE_START,
			.p_filesz = sizeof(image),
			.p_memsz = sizeof(image),
			.p_flags = PF_R | PF_X,
			.p_align = 0x10000 },
		.code = { 0xe3007000 | nr, /* movw r7, nr */
			  0xe3000000 | a,  /* movw r0, a */
			  0xe3a01000,	   /* mov r1, 0 */
			  0xe3a02000,	   /* mov r2, 0 */
			  0xef000000,	   /* svc 0 */
			  0xe3500000,	   /* cmp r0, 0 */
			  0xa3a00000,	   /* movge r0, 0 */
			  0xb2600000,	   /* rsblt r0, r0, 0 */
			  0xe3a07001,	   /* mov r7, exit */
			  0xef000000 },	   /* svc 0 */
	};
	char *const argv[] = { "arm", NULL }, *const env[] = { NULL };
	int fd = memfd_create("arm", MFD_CLOEXEC);

	if (fd < 0 || write(fd, &image, sizeof(image)) != (ssize_t)sizeof(image))
		return -1;
	return syscall(SYS_execveat, fd, "", argv, env, AT_EMPTY_PATH);
}

static long arm_getpid(void *arg)
{
	(void)arg;
	return arm(20, 0);
}

static long arm_io_uring(void *arg)
{
	(void)arg;
	return arm(425, 1);
}

static long arm_keyctl(void *arg)
{
	(void)arg;
	return arm(311, 0);
}

/* The kernel looks at 32 bits of the number: this is keyctl. */
static long high_bits(void *arg)
{
	register long x8 __asm__("x8") = 0x100000000L | SYS_keyctl;
	register long x0 __asm__("x0") = 0;

	(void)arg;
	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8) : "memory", "cc");
	if (x0 < 0) {
		errno = (int)-x0;
		return -1;
	}
	return 0;
}

static void all_rows(void)
{
	row_child("arm-getpid", arm_getpid, NULL);
	row_child("arm-io-uring", arm_io_uring, NULL);
	row_child("arm-keyctl", arm_keyctl, NULL);
	row_child("high-bits", high_bits, NULL);
}
#endif

int main(void)
{
	all_rows();
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This command as a program for elsewhere: PID 1 of the guest, and the one that becomes QEMU. Only
 * the part that is loaded is taken, since symbols for debuggers are three quarters of a build.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "agent.h"
#include "guest.h"
#include "microvm.h"
#include "out.h"

#define SELF_MAX ((size_t)64 << 20)

static int not_static(struct cordon_error *err)
{
	cordon_err(err, CORDON_E_UNSUPPORTED, 0,
		   "level microvm needs the statically linked command, and this one is not");
	cordon_err_hint(err, "build it with -Dstatic_command=true");
	return -CORDON_E_UNSUPPORTED;
}

/* Where the last part that is loaded ends; 0 = it needs a dynamic linker, or is no program. */
static size_t loaded_end(const unsigned char *data, size_t len)
{
	const Elf64_Ehdr *eh = (const void *)data;
	size_t end = 0;

	if (len < sizeof(*eh) || memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0 ||
	    eh->e_phentsize != sizeof(Elf64_Phdr) || eh->e_phoff > len ||
	    eh->e_phnum > (len - eh->e_phoff) / sizeof(Elf64_Phdr))
		return 0;
	for (size_t i = 0; i < eh->e_phnum; i++) {
		Elf64_Phdr ph;

		memcpy(&ph, data + eh->e_phoff + i * sizeof(ph), sizeof(ph));
		if (ph.p_type == PT_INTERP || ph.p_offset > len || ph.p_filesz > len - ph.p_offset)
			return 0;
		if (ph.p_type == PT_LOAD && ph.p_offset + ph.p_filesz > end)
			end = ph.p_offset + ph.p_filesz;
	}
	return end;
}

int microvm_self(void **ret, size_t *ret_len, struct cordon_error *err)
{
	struct strbuf sb = STRBUF_INIT;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : 0;
	Elf64_Ehdr eh;
	size_t end;

	sb.max = SELF_MAX;
	if (fd >= 0) {
		r = read_strbuf(fd, &sb);
		close(fd);
	}
	if (r < 0) {
		strbuf_done(&sb);
		return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot read this program");
	}
	end = loaded_end((unsigned char *)sb.data, sb.len);
	if (!end) {
		strbuf_done(&sb);
		return not_static(err);
	}
	memcpy(&eh, sb.data, sizeof(eh));
	eh.e_shoff = 0;
	eh.e_shnum = eh.e_shstrndx = 0;
	memcpy(sb.data, &eh, sizeof(eh));
	*ret = strbuf_take(&sb);
	*ret_len = end;
	return 0;
}

int microvm_self_fd(struct cordon_error *err)
{
	int fd, r;
	void *data = NULL;
	size_t len = 0;

	r = microvm_self(&data, &len, err);
	if (r < 0)
		return r;
	fd = memfd_create(MICROVM_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	r = fd < 0 ? -errno : write_full(fd, data, len);
	free(data);
	if (r == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		r = -errno;
	if (r == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return cordon_err(err, CORDON_E_SYSTEM, -r, "cannot make a memory file");
}

static int is_in_guest(void)
{
	const char *file = (const char *)getauxval(AT_EXECFN);

	return file && strcmp(file, AGENT_COMMAND) == 0;
}

void microvm_disown(void)
{
	static char *none[] = { NULL };

	if (is_in_guest())
		environ = none;
}

int (*microvm_role(const char *name))(void)
{
	static const char memfd[] = "/memfd:" MICROVM_MEMFD " (deleted)";
	const char *file = (const char *)getauxval(AT_EXECFN);
	char exe[64];
	ssize_t len;

	/* Only the guest's kernel starts a program by this name as its first. */
	if (name && !strcmp(name, MICROVM_AGENT) && getpid() == 1)
		return microvm_agent;
	/* Started by the agent: messages go into the receipt, and the host shows them. */
	if (is_in_guest())
		out_silence();
	/* Executed by descriptor, as a command of the user never is. */
	if (!file || strncmp(file, "/dev/fd/", 8) != 0)
		return NULL;
	len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	if (len <= 0)
		return NULL;
	exe[len] = '\0';
	return strcmp(exe, memfd) == 0 ? microvm_vmm : NULL;
}

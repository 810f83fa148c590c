/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that starts in the outer sandbox in place of the command: it says what the policy has
 * become, hears QEMU's command line, and becomes QEMU. No code of the guest's has run by then, so
 * the host may believe it; it reads it with the same care all the same.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "format/microvm.h"
#include "guest.h"
#include "verbs.h"

#define ARGS_MAX 256

/* QEMU's own processes and devices. Whoever writes /proc/self/mem is QEMU. */
static int is_kept_back(const char *name)
{
	return !strcmp(name, "proc") || !strcmp(name, "dev") || !strcmp(name, "sys");
}

static int refuse(const char *path, const char *why)
{
	char line[NAME_MAX + 160];

	snprintf(line, sizeof(line), "cordon: '%s' cannot be handed on to a virtual machine: %s\n",
		 path, why);
	(void)write_full(STDERR_FILENO, line, strlen(line));
	return -ENOTSUP;
}

static int add_entry(struct strbuf *sb, const char *name, int *n_dirs)
{
	char path[NAME_MAX + 2], target[PATH_MAX];
	struct stat st;
	ssize_t len;

	snprintf(path, sizeof(path), "/%s", name);
	if (is_kept_back(name) || lstat(path, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode)) {
		if (++*n_dirs > MICROVM_DIRS_MAX)
			return refuse(path, "the root has too many directories");
		if (strchr(name, ','))
			return refuse(path, "there is a comma in its name");
		microvm_add(sb, FIELD_DIR, name);
	} else if (S_ISLNK(st.st_mode)) {
		len = readlink(path, target, sizeof(target) - 1);
		if (len < 0)
			return -errno;
		target[len] = '\0';
		microvm_add(sb, FIELD_LINK, name);
		microvm_add(sb, FIELD_TARGET, target);
	} else {
		return refuse(path, "it is a file that lies in the root");
	}
	return 0;
}

static int say_hello(void)
{
	struct strbuf sb = STRBUF_INIT;
	const struct dirent *e;
	DIR *root = opendir("/");
	size_t at = microvm_begin(&sb, MICROVM_HELLO);
	int r = root ? 0 : -errno, n_dirs = 0;

	microvm_add_number(&sb, FIELD_UID, (int64_t)getuid());
	microvm_add_number(&sb, FIELD_GID, (int64_t)getgid());
	for (char **env = environ; *env; env++)
		microvm_add(&sb, FIELD_ENV, *env);
	while (r == 0 && root && (e = readdir(root)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = add_entry(&sb, e->d_name, &n_dirs);
	if (root)
		closedir(root);
	microvm_end(&sb, at);
	if (r == 0)
		r = sb.failed ? -ENOMEM : write_full(CORDON_CHANNEL_FD, sb.data, sb.len);
	strbuf_done(&sb);
	return r;
}

/* One message, byte for byte: what follows belongs to QEMU's guest. */
static int hear(struct strbuf *sb, struct microvm_message *ret)
{
	char buf[MICROVM_HEAD];
	int64_t r;

	for (;;) {
		size_t want = 1;
		ssize_t n;

		r = microvm_parse(sb->data ? sb->data : "", sb->len, MICROVM_START,
				  MICROVM_HELLO_MAX, ret);
		if (r != 0)
			return r < 0 ? (int)r : 0;
		n = read_full(CORDON_CHANNEL_FD, buf, want);
		if (n <= 0)
			return n < 0 ? (int)n : -EPIPE;
		strbuf_add(sb, buf, (size_t)n);
		if (sb->failed)
			return -ENOMEM;
	}
}

static int become_qemu(struct microvm_message *m)
{
	char *env[] = { NULL };
	static const char *argv[ARGS_MAX + 1];
	size_t n = 0;
	const char *text;
	char field;

	while (n < ARGS_MAX && microvm_next(m, &field, &text) > 0)
		if (field == FIELD_ARG)
			argv[n++] = text;
	if (!n)
		return -EINVAL;
	/* Descriptors that QEMU takes over by number: the command's outputs, as files. */
	if (dup2(STDOUT_FILENO, MICROVM_OUT_FD) < 0 || dup2(STDERR_FILENO, MICROVM_ERR_FD) < 0)
		return -errno;
	execve(argv[0], (char *const *)(uintptr_t)argv, env);
	return -errno;
}

int microvm_vmm(void)
{
	struct strbuf sb = STRBUF_INIT;
	struct microvm_message m;
	char line[160];
	int r = say_hello();

	if (r == 0)
		r = hear(&sb, &m);
	if (r == 0)
		r = become_qemu(&m);
	snprintf(line, sizeof(line), "cordon: the virtual machine could not be started: %s\n",
		 strerror(-r));
	(void)write_full(STDERR_FILENO, line, strlen(line));
	return STATUS_FAILED;
}

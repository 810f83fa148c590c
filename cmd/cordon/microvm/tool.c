/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of the system that setup uses: the package tool and decompressors. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/macros.h"
#include "guest.h"

#define LOG_MAX ((size_t)64 << 10)
#define LINE_MAX_SAID 200

/* Where a distribution's own programs are; never by the caller's PATH. */
#define SYSTEM_PATH "PATH=/usr/sbin:/usr/bin:/sbin:/bin"

static const char *find(const char *name, char buf[PATH_MAX])
{
	static const char *const dirs[] = { "/usr/bin", "/bin", "/usr/sbin", "/sbin" };

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(buf, PATH_MAX, "%s/%s", dirs[i], name);
		if (access(buf, X_OK) == 0)
			return buf;
	}
	return NULL;
}

int tool_is_there(const char *name)
{
	char path[PATH_MAX];

	return find(name, path) != NULL;
}

const char *tool_for(const unsigned char *magic)
{
	static const struct {
		unsigned char magic[4];
		const char *name;
	} formats[] = {
		{ { 0xfd, '7', 'z', 'X' }, "xz" },
		{ { 0x28, 0xb5, 0x2f, 0xfd }, "zstd" },
		{ { 0x1f, 0x8b, 0x08, 0x00 }, "gzip" },
		{ { 0x02, 0x21, 0x4c, 0x18 }, "lz4" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		if (memcmp(formats[i].magic, magic, 3) == 0)
			return formats[i].name;
	}
	return NULL;
}

/* 0 or an errno. */
static int spawn(const char *dir, const char *path, const char *const *argv, const char *in,
		 const char *out, pid_t *ret)
{
	char *env[] = { (char *)(uintptr_t)SYSTEM_PATH, (char *)(uintptr_t)"LC_ALL=C", NULL };
	posix_spawn_file_actions_t actions;
	int r = posix_spawn_file_actions_init(&actions);

	if (r)
		return r;
	r = posix_spawn_file_actions_addchdir_np(&actions, dir);
	if (!r)
		r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, in ? in : "/dev/null",
						     O_RDONLY, 0);
	if (!r)
		r = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "log",
						     O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (!r && out)
		r = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out,
						     O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (!r && !out)
		r = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
	if (!r)
		r = posix_spawn(ret, path, &actions, NULL, (char *const *)(uintptr_t)argv, env);
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

/* The last line that the program wrote says most. */
static void last_line(const char *dir, char buf[LINE_MAX_SAID])
{
	struct strbuf sb = STRBUF_INIT;
	char path[PATH_MAX];
	const char *line;
	int fd;

	buf[0] = '\0';
	snprintf(path, sizeof(path), "%s/log", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	sb.max = LOG_MAX;
	if (read_strbuf(fd, &sb) == 0 && sb.len) {
		while (sb.len && sb.data[sb.len - 1] == '\n')
			sb.data[--sb.len] = '\0';
		line = strrchr(sb.data, '\n');
		snprintf(buf, LINE_MAX_SAID, "%s", line ? line + 1 : sb.data);
	}
	close(fd);
	strbuf_done(&sb);
}

int tool_run(const char *dir, const char *const *argv, const char *in, const char *out,
	     const char *what, struct cordon_error *err)
{
	char path[PATH_MAX], said[LINE_MAX_SAID];
	int status = 0, r;
	pid_t pid;

	if (!find(argv[0], path)) {
		cordon_err(err, CORDON_E_UNSUPPORTED, 0, "cannot %s: the program '%s' is missing",
			   what, argv[0]);
		cordon_err_hint(err, "install it with the system's package tool");
		return -CORDON_E_UNSUPPORTED;
	}
	r = spawn(dir, path, argv, in, out, &pid);
	if (r)
		return cordon_err(err, CORDON_E_SYSTEM, r, "cannot start '%s'", argv[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	last_line(dir, said);
	return cordon_err(err, CORDON_E_SYSTEM, 0, "cannot %s: %s failed%s%s", what, argv[0],
			  said[0] ? ": " : "", said);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `#!` lines as the kernel reads them, `env` arguments, and ELF headers full of noise. */
#include <string.h>

#include "discover/discover_internal.h"
#include "tap.h"

static void test_shebang(void)
{
	static const struct {
		const char *text, *interp, *arg;
		int rc;
		bool is_crlf;
	} rows[] = {
		{ "", NULL, NULL, 0, false },
		{ "#", NULL, NULL, 0, false },
		{ "#/bin/sh\n", NULL, NULL, 0, false },
		{ " #!/bin/sh\n", NULL, NULL, 0, false },
		{ "#!", NULL, NULL, 1, false },
		{ "#!\n/bin/sh\n", NULL, NULL, 1, false },
		{ "#!/bin/sh", "/bin/sh", NULL, 1, false },
		{ "#!/bin/sh\n", "/bin/sh", NULL, 1, false },
		{ "#! \t/bin/sh \t\n", "/bin/sh", NULL, 1, false },
		{ "#!/bin/sh -e -x  \nrest", "/bin/sh", "-e -x", 1, false },
		{ "#!/bin/sh\t-e\n", "/bin/sh", "-e", 1, false },
		{ "#!/bin/sh\r\n", "/bin/sh\r", NULL, 1, true },
		{ "#!/bin/sh -e\r\n", "/bin/sh", "-e\r", 1, true },
		{ "#!\r\n", "\r", NULL, 1, true },
	};
	struct arena arena = ARENA_INIT;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct shebang sb = { NULL, NULL, false, false };

		CHECK_INT(shebang_parse(&arena, rows[i].text, strlen(rows[i].text), &sb),
			  rows[i].rc);
		CHECK_STR(sb.interp, rows[i].interp);
		CHECK_STR(sb.arg, rows[i].arg);
		CHECK_INT(sb.is_crlf, rows[i].is_crlf);
		CHECK(!sb.is_cut);
	}
	arena_done(&arena);
}

/* No NUL behind it: the rest of the buffer goes on. */
static void start_with(char *text, const char *start)
{
	while (*start)
		*text++ = *start++;
}

/* The kernel looks at 256 bytes and needs to see the end of the interpreter's name. */
static void test_shebang_length(void)
{
	struct arena arena = ARENA_INIT;
	struct shebang sb;
	char text[600];
	size_t len;

	for (len = 250; len < 262; len++) {
		memset(text, 'a', sizeof(text));
		start_with(text, "#!/");
		text[len] = '\n';
		CHECK_INT(shebang_parse(&arena, text, sizeof(text), &sb), 1);
		CHECK_INT(sb.is_cut, len >= DISCOVER_SHEBANG_MAX);
		CHECK_INT(strlen(sb.interp), (len < 256 ? len : 255) - 2);
	}
	/* A file that ends without a newline just there is whole. */
	memset(text, 'a', sizeof(text));
	start_with(text, "#!/");
	CHECK_INT(shebang_parse(&arena, text, 255, &sb), 1);
	CHECK(!sb.is_cut);
	arena_done(&arena);
}

static void test_env(void)
{
	static const struct {
		const char *arg, *name;
	} rows[] = {
		{ "python3", "python3" },
		{ "python3 -u", NULL }, /* env gets it as one word */
		{ "-i", NULL },
		{ "A=1", NULL },
		{ "-S python3 -u", "python3" },
		{ "-Spython3 -u", "python3" },
		{ "-vS python3", "python3" },
		{ "--split-string=node --x", "node" },
		{ "-S -i A=1 B=2 node", "node" },
		{ "-S -u HOME -C /tmp node", "node" },
		{ "-S --unset HOME node", "node" },
		{ "-S", NULL },
		{ "-S A=1", NULL },
		{ "-S -u", NULL },
		{ "-S \"my node\"", NULL },
		{ "-S ${X}/node", NULL },
		{ "--version", NULL },
	};
	struct arena arena = ARENA_INIT;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *name = "unset";

		CHECK_INT(shebang_env_name(&arena, rows[i].arg, &name), 0);
		CHECK_STR(name, rows[i].name);
	}
	arena_done(&arena);
}

/* Every byte of the head of a real program changed in turn: no verdict matters, but no reading out
 * of bounds (the sanitizers watch) and no endless work. */
static void test_elf_noise(void)
{
	static const unsigned char values[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
	struct arena arena = ARENA_INIT;
	unsigned char head[DISCOVER_HEAD_MAX], copy[DISCOVER_HEAD_MAX];
	CLEANUP(disk_close) int fd = disk_open("/bin/true", 0);
	const char *interp = NULL;
	size_t i, j, len;
	int n;

	REQUIRE(fd >= 0);
	n = disk_read_at(fd, 0, head, sizeof(head));
	REQUIRE(n > 64);
	CHECK_INT(elf_inspect(&arena, fd, head, (size_t)n, &interp), ELF_FINE);
	CHECK(interp && interp[0] == '/');
	for (i = 4; i < (size_t)n; i++) {
		for (j = 0; j < ARRAY_SIZE(values); j++) {
			memcpy(copy, head, (size_t)n);
			copy[i] = values[j];
			CHECK(elf_inspect(&arena, fd, copy, (size_t)n, &interp) >= 0);
		}
		arena_done(&arena);
	}
	for (len = 0; len < 64; len++)
		CHECK(elf_inspect(&arena, -1, head, len, &interp) >= 0);
	arena_done(&arena);
}

TAP_MAIN(test_shebang, test_shebang_length, test_env, test_elf_noise)

/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a program: PATH, links, interpreters, and what is said when it cannot be started. */
#include <elf.h>

#include "test_discover_lib.h"
#include "tests/lib/arch.h"

static bool has(const char *text, const char *part)
{
	return strstr(text, part) != NULL;
}

/* Runs it and checks code and a part of message and hint. */
static void expect_error(struct fixture *f, const char *command, const char *path, int code,
			 const char *msg, const char *hint)
{
	CHECK_INT(fx_run(f, command, path), -code);
	CHECK_INT(f->err.code, code);
	/* The same without anybody who wants to read it. */
	CHECK_INT(discover_program(&f->arena, &f->in, &f->res, NULL), -code);
	CHECK_MSG(has(f->err.msg, msg), "message '%s'", f->err.msg);
	CHECK_MSG(has(f->err.hint, hint), "hint '%s'", f->err.hint);
}

static void test_search(void)
{
	struct fixture f;

	fx_init(&f);
	fx_elf(&f, "a/tool");
	fx_elf(&f, "b/tool");
	fx_file(&f, "c/tool", "not executable");
	fx_dir(&f, "d/tool");
	fx_elf(&f, "home/u/proj/tool");
	fx_run(&f, "tool", "%/nothing:%/d:%/c:%/b//:%/a");
	CHECK_STR(f.res.exec_path, fx(&f, "%/b/tool"));
	/* Nothing relative counts, although the working directory has one. */
	expect_error(&f, "tool", ":.::..:proj", CORDON_E_NOT_FOUND, "cannot find 'tool' in PATH",
		     "relative entries of PATH are ignored; it is at './tool'");
	expect_error(&f, "tool", "%/nothing", CORDON_E_NOT_FOUND, "cannot find 'tool' in PATH",
		     "did you mean './tool'?");
	expect_error(&f, "umask", "%/a", CORDON_E_NOT_FOUND, "'umask'", "sh -c 'umask ...'");
	fx_run(&f, "tool", ".:%/a/../b/.");
	CHECK_STR(f.res.exec_path, fx(&f, "%/b/tool"));
	expect_error(&f, "tool", "%/c", CORDON_E_NOT_EXECUTABLE, "not executable", "");
	expect_error(&f, "tool", "%/d", CORDON_E_NOT_FOUND, "in PATH", "");
	expect_error(&f, "tol", "%/nothing:%/a", CORDON_E_NOT_FOUND, "'tol'", "'tool'?");
	expect_error(&f, "tool", "", CORDON_E_NOT_FOUND, "in PATH", "");
	expect_error(&f, "", "%/a", CORDON_E_NOT_FOUND, "in PATH", "");
	expect_error(&f, "..", "%/a", CORDON_E_NOT_FOUND, "in PATH", "is a directory");
	fx_done(&f);
}

static void test_typed_path(void)
{
	struct fixture f;

	fx_init(&f);
	fx_elf(&f, "home/u/proj/a.out");
	fx_elf(&f, "home/u/other/x");
	fx_link(&f, "home/u/proj/sub", "../other");
	fx_file(&f, "home/u/proj/text", "x");
	fx_run(&f, ".//./a.out", NULL);
	CHECK_STR(f.res.exec_path, fx(&f, "%/home/u/proj/a.out"));
	EXPECT_GRANTS(&f, "FILE %/home/u/proj/a.out");
	CHECK_INT(f.res.n_path_dirs, 0);
	/* ".." behind a link is the parent of what the link leads to. */
	fx_run(&f, "sub/../proj/a.out", NULL);
	CHECK_STR(f.res.exec_path, fx(&f, "%/home/u/proj/a.out"));
	fx_run(&f, "sub/x", NULL);
	CHECK_STR(f.res.exec_path, fx(&f, "%/home/u/proj/sub/x"));
	EXPECT_GRANTS(&f, "LINK %/home/u/proj/sub -> ../other\nFILE %/home/u/other/x");

	expect_error(&f, "./nope", NULL, CORDON_E_NOT_FOUND, "cannot find './nope'", "");
	expect_error(&f, "./a.out/x", NULL, CORDON_E_NOT_FOUND, "cannot find", "");
	expect_error(&f, "./a.out/", NULL, CORDON_E_NOT_FOUND, "cannot find", "");
	expect_error(&f, "./", NULL, CORDON_E_NOT_EXECUTABLE, "directory", "");
	expect_error(&f, "/", NULL, CORDON_E_NOT_EXECUTABLE, "directory", "");
	expect_error(&f, "./text", NULL, CORDON_E_NOT_EXECUTABLE, "cannot execute", "chmod +x");
	expect_error(&f, "/dev/null", NULL, CORDON_E_NOT_EXECUTABLE, "cannot execute", "");
	f.in.cwd = "relative";
	expect_error(&f, "./a.out", NULL, CORDON_E_USAGE, "absolute", "");
	fx_done(&f);
}

static void test_links(void)
{
	struct fixture f;
	char name[32], target[32];
	int i;

	fx_init(&f);
	/* A linked home, a linked directory in it, and a chain of files. */
	fx_elf(&f, "data/u/stuff/v1/real");
	fx_dir(&f, "data/u/stuff/bin");
	fx_link(&f, "homes", "data");
	fx_link(&f, "data/u/bin", "%/homes/u/stuff/bin");
	fx_link(&f, "data/u/stuff/bin/tool", "../current/real");
	fx_link(&f, "data/u/stuff/current", "v1");
	fx_run(&f, "tool", "%/homes/u/bin");
	CHECK_STR(f.res.exec_path, fx(&f, "%/homes/u/bin/tool"));
	EXPECT_GRANTS(&f, "LINK %/homes -> data\n"
			  "LINK %/data/u/bin -> %/homes/u/stuff/bin\n"
			  "LINK %/data/u/stuff/bin/tool -> ../current/real\n"
			  "LINK %/data/u/stuff/current -> v1\n"
			  "FILE %/data/u/stuff/v1/real");

	fx_link(&f, "loop1", "loop2");
	fx_link(&f, "loop2", "loop1");
	expect_error(&f, "%/loop1", NULL, CORDON_E_NOT_EXECUTABLE, "symbolic links", "");
	fx_link(&f, "dangling", "nowhere");
	expect_error(&f, "%/dangling", NULL, CORDON_E_NOT_FOUND, "link to nothing", "");
	/*
	 * 41 links are too many for the kernel and for us. Up to 40 it may count twice: a walk that
	 * it has to repeat (a rename meanwhile) goes on counting, so 20 are safe.
	 */
	fx_elf(&f, "chain0");
	for (i = 1; i <= 41; i++) {
		snprintf(name, sizeof(name), "chain%d", i);
		snprintf(target, sizeof(target), "chain%d", i - 1);
		fx_link(&f, name, target);
	}
	CHECK_INT(fx_run(&f, "%/chain20", NULL), 0);
	CHECK_INT(f.res.n_grants, 21);
	expect_error(&f, "%/chain41", NULL, CORDON_E_NOT_EXECUTABLE, "", "");
	fx_done(&f);
}

static void test_magic_links(void)
{
	struct fixture f;
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	REQUIRE(len > 0);
	self[len] = '\0';
	fx_init(&f);
	/* Inside it would be another program. */
	CHECK_INT(fx_run(&f, "/proc/self/exe", NULL), 0);
	CHECK_STR(f.res.exec_path, self);
	for (size_t i = 0; i < f.res.n_grants; i++)
		CHECK(strncmp(f.res.grants[i].path, "/proc", 5) != 0);
	fx_done(&f);
}

static void test_scripts(void)
{
	struct fixture f;

	fx_init(&f);
	fx_elf(&f, "home/u/.tool/bin/interp");
	fx_dir(&f, "home/u/.tool/lib");
	fx_script(&f, "home/u/proj/run", "#! %/home/u/.tool/bin/interp  -x\n");
	/* The workspace names it: no more than the file, unless the caller's PATH names it too. */
	fx_run(&f, "./run", NULL);
	EXPECT_GRANTS(&f, "FILE %/home/u/proj/run\nFILE %/home/u/.tool/bin/interp");
	/* By env, with options; the directory must be in PATH inside as well. */
	fx_script(&f, "home/u/proj/run", "#!/usr/bin/env -S A=1 -u B interp -x\n");
	fx_run(&f, "./run", "/usr/bin:%/home/u/.tool/bin");
	EXPECT_GRANTS(&f, "FILE %/home/u/proj/run\nTREE %/home/u/.tool");
	REQUIRE(f.res.n_path_dirs == 1);
	CHECK_STR(f.res.path_dirs[0], fx(&f, "%/home/u/.tool/bin"));
	/* A script as interpreter. */
	fx_script(&f, "home/u/proj/outer", "#!%/home/u/proj/run\n");
	CHECK_INT(fx_run(&f, "./outer", "%/home/u/.tool/bin"), 0);
	fx_script(&f, "home/u/proj/self", "#!%/home/u/proj/self\n");
	expect_error(&f, "./self", NULL, CORDON_E_NOT_EXECUTABLE, "deep", "");
	fx_script(&f, "home/u/proj/envself", "#!/usr/bin/env envself\n");
	expect_error(&f, "./envself", "/usr/bin:%/home/u/proj", CORDON_E_NOT_EXECUTABLE, "deep",
		     "");
	fx_done(&f);
}

/* No NUL behind it: the rest of the buffer goes on. */
static void start_with(char *text, const char *start)
{
	while (*start)
		*text++ = *start++;
}

static void test_bad_scripts(void)
{
	struct fixture f;
	char line[400];

	fx_init(&f);
	fx_script(&f, "home/u/proj/s", "#!/no/such/interp\n");
	expect_error(&f, "./s", NULL, CORDON_E_NOT_EXECUTABLE,
		     "needs the interpreter '/no/such/interp', which does not exist", "");
	fx_script(&f, "home/u/proj/s", "#!/usr/bin/env nosuchprogram\n");
	expect_error(&f, "./s", NULL, CORDON_E_NOT_EXECUTABLE, "'nosuchprogram'", "");
	fx_script(&f, "home/u/proj/s", "#!/bin/sh\r\necho\r\n");
	expect_error(&f, "./s", NULL, CORDON_E_NOT_EXECUTABLE, "CR LF", "line endings");
	fx_script(&f, "home/u/proj/s", "#!/usr/bin/env sh\r\necho\r\n");
	expect_error(&f, "./s", NULL, CORDON_E_NOT_EXECUTABLE, "CR LF", "line endings");
	fx_script(&f, "home/u/proj/s", "#!bin/sh\n");
	expect_error(&f, "./s", NULL, CORDON_E_NOT_EXECUTABLE, "not an absolute path", "");
	fx_script(&f, "home/u/proj/s", "#!/etc\n");
	expect_error(&f, "./s", NULL, CORDON_E_NOT_EXECUTABLE, "cannot be executed", "");
	fx_script(&f, "home/u/proj/s", "#!  \n");
	expect_error(&f, "./s", NULL, CORDON_E_NOT_EXECUTABLE, "no interpreter", "");
	fx_script(&f, "home/u/proj/s", "#!");
	expect_error(&f, "./s", NULL, CORDON_E_NOT_EXECUTABLE, "no interpreter", "");
	fx_script(&f, "home/u/proj/s", "echo hello\n");
	expect_error(&f, "./s", NULL, CORDON_E_NOT_EXECUTABLE, "neither", "sh '");
	fx_script(&f, "home/u/proj/s", "");
	expect_error(&f, "./s", NULL, CORDON_E_NOT_EXECUTABLE, "neither", "");

	memset(line, 'x', sizeof(line));
	start_with(line, "#!/");
	line[299] = '\n';
	fx_bytes(&f, "home/u/proj/s", line, 300, 0755);
	expect_error(&f, "./s", NULL, CORDON_E_NOT_EXECUTABLE, "longer than the 255 bytes", "");
	/* A long argument is cut by the kernel and does no harm to the interpreter. */
	start_with(line, "#!/bin/sh ");
	fx_bytes(&f, "home/u/proj/s", line, 300, 0755);
	CHECK_INT(fx_run(&f, "./s", NULL), 0);
	fx_done(&f);
}

/* A program with one PT_INTERP, as small as it gets. */
static void make_elf(struct fixture *f, const char *path, const char *interp)
{
	struct {
		Elf64_Ehdr eh;
		Elf64_Phdr ph;
		char name[PATH_MAX];
	} elf;

	memset(&elf, 0, sizeof(elf));
	memcpy(elf.eh.e_ident, ELFMAG, SELFMAG);
	elf.eh.e_ident[EI_CLASS] = ELFCLASS64;
	elf.eh.e_ident[EI_DATA] = ELFDATA2LSB;
	elf.eh.e_machine = TEST_MACHINE;
	elf.eh.e_type = ET_DYN;
	elf.eh.e_phnum = 1;
	elf.eh.e_phentsize = sizeof(elf.ph);
	elf.eh.e_phoff = sizeof(elf.eh);
	elf.ph.p_type = PT_INTERP;
	elf.ph.p_offset = sizeof(elf.eh) + sizeof(elf.ph);
	elf.ph.p_filesz = strlen(interp) + 1;
	memcpy(elf.name, interp, strlen(interp) + 1);
	fx_bytes(f, path, &elf, elf.ph.p_offset + elf.ph.p_filesz, 0755);
}

static void test_loader(void)
{
	struct fixture f;

	fx_init(&f);
	make_elf(&f, "home/u/proj/x", "/lib64/ld-nowhere.so.1");
	expect_error(&f, "./x", NULL, CORDON_E_NOT_EXECUTABLE, "loader '/lib64/ld-nowhere.so.1'",
		     "another Linux distribution");
	make_elf(&f, "home/u/proj/x", "ld.so");
	expect_error(&f, "./x", NULL, CORDON_E_NOT_EXECUTABLE, "cannot be used", "");
	/* The loader's libraries lie beside it. */
	fx_elf(&f, "toolchain/lib/ld.so.real");
	fx_link(&f, "toolchain/lib/ld.so", "ld.so.real");
	make_elf(&f, "home/u/proj/x", fx(&f, "%/toolchain/lib/ld.so"));
	fx_run(&f, "./x", NULL);
	EXPECT_GRANTS(&f, "FILE %/home/u/proj/x\nTREE %/toolchain/lib");
	/* A workspace's binary cannot ask for a key that way, nor for its neighbours. */
	fx_file(&f, "home/u/.ssh/id", "secret");
	make_elf(&f, "home/u/proj/x", fx(&f, "%/home/u/.ssh/id"));
	expect_error(&f, "./x", NULL, CORDON_E_NOT_EXECUTABLE, "cannot be used", "");
	fx_bytes(&f, "home/u/.ssh/id", "secret", 6, 0755);
	expect_error(&f, "./x", NULL, CORDON_E_NOT_EXECUTABLE, "cannot be used", "");
	fx_elf(&f, "home/u/.ssh/lib/ld.so");
	make_elf(&f, "home/u/proj/x", fx(&f, "%/home/u/.ssh/lib/ld.so"));
	fx_run(&f, "./x", NULL);
	EXPECT_GRANTS(&f, "FILE %/home/u/proj/x\nFILE %/home/u/.ssh/lib/ld.so");
	fx_done(&f);
}

static void test_bad_elf(void)
{
	struct fixture f;
	Elf64_Ehdr eh;

	fx_init(&f);
	memset(&eh, 0, sizeof(eh));
	memcpy(eh.e_ident, ELFMAG, SELFMAG);
	eh.e_ident[EI_CLASS] = ELFCLASS32;
	fx_bytes(&f, "home/u/proj/x", &eh, 52, 0755);
	expect_error(&f, "./x", NULL, CORDON_E_NOT_EXECUTABLE, "32-bit", "");
	eh.e_ident[EI_CLASS] = ELFCLASS64;
	eh.e_ident[EI_DATA] = ELFDATA2LSB;
	eh.e_machine = TEST_OTHER_MACHINE;
	fx_bytes(&f, "home/u/proj/x", &eh, sizeof(eh), 0755);
	expect_error(&f, "./x", NULL, CORDON_E_NOT_EXECUTABLE, "another processor", "");
	eh.e_machine = TEST_MACHINE;
	eh.e_type = ET_REL;
	fx_bytes(&f, "home/u/proj/x", &eh, sizeof(eh), 0755);
	expect_error(&f, "./x", NULL, CORDON_E_NOT_EXECUTABLE, "not a program", "");
	eh.e_type = ET_EXEC;
	eh.e_phnum = 3;
	eh.e_phentsize = sizeof(Elf64_Phdr);
	eh.e_phoff = UINT64_MAX - 8;
	fx_bytes(&f, "home/u/proj/x", &eh, sizeof(eh), 0755);
	expect_error(&f, "./x", NULL, CORDON_E_NOT_EXECUTABLE, "damaged", "");
	eh.e_phoff = sizeof(eh);
	fx_bytes(&f, "home/u/proj/x", &eh, sizeof(eh), 0755);
	expect_error(&f, "./x", NULL, CORDON_E_NOT_EXECUTABLE, "damaged", "");
	fx_bytes(&f, "home/u/proj/x", &eh, 4, 0755);
	expect_error(&f, "./x", NULL, CORDON_E_NOT_EXECUTABLE, "damaged", "");
	fx_done(&f);
}

static bool has_file(const struct discover_exec_file *files, size_t n, const char *path)
{
	while (n > 0)
		if (strcmp(files[--n].path, path) == 0)
			return true;
	return false;
}

static void test_exec_files(void)
{
	struct discover_exec_file *files = NULL;
	struct fixture f;
	const char *commands[3] = { "tool", NULL, "tool" };
	char *loader = realpath(TEST_LOADER, NULL);
	size_t n = 0;

	fx_init(&f);
	fx_elf(&f, "home/u/.tool/bin/real");
	fx_link(&f, "home/u/.tool/bin/tool", "real");
	fx_script(&f, "home/u/proj/s", "#!/usr/bin/env tool\n");
	commands[1] = fx(&f, "%/home/u/proj/s");
	f.in.search_path = fx(&f, "%/home/u/.tool/bin");
	CHECK_INT(discover_prefix_for_commands(&f.arena, &f.in, commands, 3, &files, &n, &f.err),
		  0);
	CHECK_INT(n, 4);
	CHECK(has_file(files, n, fx(&f, "%/home/u/.tool/bin/real")));
	CHECK(has_file(files, n, fx(&f, "%/home/u/proj/s")));
	CHECK(has_file(files, n, "/usr/bin/env"));
	CHECK(loader && has_file(files, n, loader));
	commands[2] = "nosuchprogram";
	CHECK_INT(discover_prefix_for_commands(&f.arena, &f.in, commands, 3, &files, &n, &f.err),
		  -CORDON_E_NOT_FOUND);
	CHECK_INT(discover_prefix_for_commands(&f.arena, &f.in, commands, 0, &files, &n, &f.err),
		  0);
	CHECK_INT(n, 0);
	free(loader);
	fx_done(&f);
}

TAP_MAIN(test_search, test_typed_path, test_links, test_magic_links, test_scripts, test_bad_scripts,
	 test_loader, test_bad_elf, test_exec_files)

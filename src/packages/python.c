/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which interpreter the packages are for, and which index its installer uses by default.
 *
 * Only an interpreter of the system is asked and installs, under its real name (system.c): nothing
 * of a virtual environment is executed or imported. What it can load (implementation, version, ABI
 * and platform) only it knows. It is asked in a sandbox without a network, and its answer is kept
 * as long as its file stays the same. A script that stands for an interpreter may lead elsewhere
 * next time, so it is asked every time.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/err.h"
#include "discover/discover.h"
#include "packages/packages.h"

#define ANSWER_MAX 1024

/* "cordon IMPLEMENTATION VERSION ABI PLATFORM", and if there is a pip "index URL HOST-OF-FILES". */
static const char question[] =
	"import glob, os, sys, sysconfig as s\n"
	"print('cordon', sys.implementation.name, '%d.%d' % sys.version_info[:2],\n"
	"      s.get_config_var('SOABI') or s.get_config_var('EXT_SUFFIX'), "
	"s.get_platform())\n" PACKAGES_FIND_PIP "from pip._internal.models.index import PyPI\n"
	"print('index', PyPI.simple_url, PyPI.file_storage_domain)\n";

/* The real path of a program of the system. */
static int find_program(struct request *rq, const char *name, const char **ret_real,
			struct cordon_error *err)
{
	char here[PATH_MAX];
	const char *cwd = rq->options->cwd ? rq->options->cwd : getcwd(here, sizeof(here));
	const struct discover_input in = { .command = name,
					   .search_path = search_path_of(rq->options),
					   .cwd = cwd ? cwd : "/",
					   .home = rq->options->home };
	struct discover_result found = { 0 };
	int r = discover_program(rq->arena, &in, &found, err);

	return r < 0 ? r : system_program(rq, found.exec_path, ret_real, err);
}

/* A name for the file as it is now; false: it cannot be looked at, or is no program but a script.
 * "2" parts it from what was kept when others than the system's interpreters were asked. */
static bool identify(const char *real, bool may_be_script, char ret[SHA256_HEX])
{
	char text[PATH_MAX + 128], magic[4];
	int fd = open(real, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	struct sha256 s;
	struct stat st;
	bool is_elf;

	if (fd < 0)
		return false;
	is_elf = fstat(fd, &st) == 0 && read(fd, magic, 4) == 4 && memcmp(magic, "\177ELF", 4) == 0;
	close(fd);
	if (!is_elf && !may_be_script)
		return false;
	snprintf(text, sizeof(text), "2 %s %ju %ju %jd %jd.%ld", real, (uintmax_t)st.st_dev,
		 (uintmax_t)st.st_ino, (intmax_t)st.st_size, (intmax_t)st.st_mtim.tv_sec,
		 st.st_mtim.tv_nsec);
	sha256_start(&s);
	sha256_add(&s, text, strlen(text));
	sha256_end_hex(&s, ret);
	return true;
}

/* The rest of the line of @text that begins with @word, in the arena; NULL = there is none. */
static char *pick(struct arena *arena, const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *line = text ? text : ""; *line;) {
		size_t len = strcspn(line, "\n");

		if (len > n && strncmp(line, word, n) == 0)
			return arena_strndup(arena, line + n, len - n);
		line += len + (line[len] == '\n');
	}
	return NULL;
}

int python_has_no_pip(const struct request *rq, struct cordon_error *err)
{
	(void)cordon_err(err, CORDON_E_SETUP, 0, "'%s' has no pip", rq->program);
	(void)cordon_err_hint(err, "install python3-pip or python3-venv");
	return -CORDON_E_SETUP;
}

/* Asks @argv in a sandbox without a network; what it said goes to *ret. */
static int ask(struct cordon_launcher *launcher, const struct request *rq, const char *const *argv,
	       struct strbuf *ret, struct cordon_error *err)
{
	struct cordon_packages_options silent = *rq->options;
	struct sandboxed s = { .argv = argv, .options = &silent, .out = ret };
	int r;

	silent.line = NULL;
	strbuf_add(ret, "", 0);
	r = sandbox_run(launcher, &s, err);
	if (r == 0 && s.status == NO_PIP && rq->installer == INSTALLER_PIP)
		return python_has_no_pip(rq, err);
	return r;
}

/* What was kept under @file (NULL = nothing is), or else what @argv says; kept if it has @word. */
static int ask_once(struct cordon_launcher *launcher, const struct cache *cache,
		    const struct request *rq, const char *file, const char *const *argv,
		    const char *word, struct strbuf *ret, struct cordon_error *err)
{
	char *found;
	int r;

	if (file && cache_read(cache->fd, file, ANSWER_MAX, ret) == 0 && ret->len > 0)
		return 0;
	strbuf_done(ret);
	*ret = (struct strbuf)STRBUF_INIT;
	r = ask(launcher, rq, argv, ret, err);
	if (r < 0)
		return r;
	found = pick(rq->arena, ret->data, word);
	/* If it cannot be kept, it is asked again. */
	if (file && found && ret->len < ANSWER_MAX)
		(void)cache_write(cache->fd, file, ret->data, ret->len);
	return 0;
}

static void read_index(struct request *rq, const char *answer)
{
	char *index = pick(rq->arena, answer, "index ");
	char *space = index ? strchr(index, ' ') : NULL;

	if (space) {
		*space = '\0';
		if (index_is_public(index) && index_is_public_host(space + 1, strlen(space + 1))) {
			rq->default_index = index;
			rq->default_files = space + 1;
		}
	}
}

int python_find(struct cordon_launcher *launcher, const struct cache *cache, struct request *rq,
		struct cordon_error *err)
{
	const char *name = rq->options->python ? rq->options->python : "python3";
	const char *argv[] = { NULL, "-I", "-c", question, NULL };
	char hash[SHA256_HEX], file[SHA256_HEX + 16];
	struct strbuf answer = STRBUF_INIT;
	bool is_fixed;
	int r = find_program(rq, name, &rq->program, err);

	if (r < 0)
		return r;
	argv[0] = rq->program;
	is_fixed = identify(rq->program, false, hash);
	if (is_fixed)
		snprintf(file, sizeof(file), "python-%.40s", hash);
	r = ask_once(launcher, cache, rq, is_fixed ? file : NULL, argv, "index ", &answer, err);
	if (r == 0) {
		rq->platform = pick(rq->arena, answer.data, "cordon ");
		read_index(rq, answer.data);
		if (!rq->platform)
			r = cordon_err(err, CORDON_E_SETUP, 0,
				       "'%s' does not say which Python it is", rq->program);
	}
	strbuf_done(&answer);
	return r;
}

static int find_registry(struct cordon_launcher *launcher, const struct cache *cache,
			 struct request *rq, struct cordon_error *err)
{
	const char *argv[] = { rq->program, rq->npm, "config", "get", "registry", NULL };
	char hash[SHA256_HEX], file[SHA256_HEX + 16];
	struct strbuf answer = STRBUF_INIT;
	const char *rest;
	int r;

	if (!identify(rq->npm, true, hash))
		return 0;
	snprintf(file, sizeof(file), "registry-%.40s", hash);
	r = ask_once(launcher, cache, rq, file, argv, "http", &answer, err);
	rest = r == 0 ? pick(rq->arena, answer.data, "http") : NULL;
	rest = rest ? arena_printf(rq->arena, "http%s", rest) : NULL;
	if (rest && index_is_public(rest))
		rq->default_index = rest;
	strbuf_done(&answer);
	return r;
}

int node_find(struct cordon_launcher *launcher, const struct cache *cache, struct request *rq,
	      struct cordon_error *err)
{
	char hash[SHA256_HEX] = "";
	struct utsname machine;
	int r = find_program(rq, "npm", &rq->npm, err);

	if (r < 0) {
		(void)cordon_err_hint(err, "install npm, or leave out what begins with 'npm:'");
		return r;
	}
	r = find_program(rq, "node", &rq->program, err);
	if (r < 0)
		return r;
	/* Without scripts nothing is compiled, but some packages come in one form per machine. */
	(void)identify(rq->program, false, hash);
	if (uname(&machine) < 0)
		return cordon_err(err, CORDON_E_SYSTEM, errno, "uname");
	rq->platform =
		arena_printf(rq->arena, "node %s %.16s", machine.machine, *hash ? hash : "script");
	if (!rq->platform)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	return find_registry(launcher, cache, rq, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a layer, with its lock held exclusively: .new-KEY is nobody else's, and what a killed
 * installation left under this name is removed first.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "packages/packages.h"
#include "workspace/tree/tree.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* Runs pip. Then says what was installed: by pip's report, or, for an old pip, without hashes. */
static const char pip_script[] =
	"import glob, json, os, runpy, sys\n"
	"with open('requirements.txt', 'w') as file:\n"
	"    file.write(sys.stdin.read())\n" PACKAGES_FIND_PIP
	"version = tuple(int(p) for p in pip.__version__.split('.')[:2] if p.isdigit())\n"
	"report = ['--report', 'report.json'] if version >= (22, 2) else []\n"
	"sys.argv = ['pip', '--no-color', 'install', '--target', 'layer', '--no-input',\n"
	"            '--disable-pip-version-check', '--no-cache-dir', "
	"'--no-warn-script-location',\n"
	"            '--progress-bar', 'off', '--retries', '2', '-r', 'requirements.txt',\n"
	"            *report, *sys.argv[1:]]\n"
	"os.mkdir('layer')\n"
	"try:\n"
	"    runpy.run_module('pip', run_name='__main__', alter_sys=True)\n"
	"except SystemExit as end:\n"
	"    if end.code:\n"
	"        raise\n"
	"if report:\n"
	"    with open('report.json') as file:\n"
	"        items = json.load(file)['install']\n"
	"    found = [[i['metadata']['name'], i['metadata']['version'],\n"
	"              i['download_info'].get('archive_info', {}).get('hashes', {}).get('sha256') "
	"or\n"
	"              i['download_info'].get('archive_info', {}).get('hash', '').split('=')[-1]]\n"
	"             for i in items]\n"
	"else:\n"
	"    from importlib.metadata import distributions\n"
	"    found = [[d.metadata['Name'], d.version, ''] for d in distributions(path=['layer'])]\n"
	"with open('installed.json', 'w') as file:\n"
	"    json.dump(sorted(found), file)\n";

/* Writes the files that npm reads, and runs it. What it is given on its command line is ours. */
static const char npm_script[] =
	"const fs = require('fs');\n"
	"const files = JSON.parse(fs.readFileSync(0, 'utf8'));\n"
	"for (const name of Object.keys(files)) fs.writeFileSync(name, files[name]);\n"
	"const [npm, ...args] = process.argv.slice(1);\n"
	"const all = [...args, '--no-audit', '--no-fund', '--no-update-notifier', '--omit=dev',\n"
	"             '--loglevel=http', '--fetch-retries=1'];\n"
	"const done = require('child_process').spawnSync(process.execPath, [npm, ...all],\n"
	"                                                     {stdio: 'inherit'});\n"
	"if (done.error) throw done.error;\n"
	"process.exit(done.status === null ? 1 : done.status);\n";

struct making {
	struct cordon_launcher *launcher;
	const struct cache *cache;
	struct request *rq;
	char name[KEY_SIZE + sizeof(NEW_PREFIX)];
	char private_dir[4096 + 128];
	int new_fd, home_fd;
	struct cordon_error *err;
};

static int failed(const struct making *m, const char *what)
{
	return cordon_err(m->err, CORDON_E_SYSTEM, errno, "cannot make '%s' for the packages",
			  what);
}

static int make_dir(const struct making *m, int at, const char *name, int *ret_fd)
{
	if (mkdirat(at, name, 0700) < 0)
		return failed(m, name);
	if (!ret_fd)
		return 0;
	*ret_fd = openat(at, name, DIR_FLAGS);
	return *ret_fd < 0 ? failed(m, name) : 0;
}

static int prepare(struct making *m)
{
	int r;

	snprintf(m->name, sizeof(m->name), NEW_PREFIX "%s", m->rq->key);
	/* The run makes it, for the id that it has. */
	snprintf(m->private_dir, sizeof(m->private_dir), "%s/%s/private", m->cache->path, m->name);
	r = tree_remove(m->cache->fd, m->name);
	if (r < 0)
		return cordon_err(m->err, CORDON_E_SYSTEM, -r,
				  "cannot remove what an interrupted installation left");
	return make_dir(m, m->cache->fd, m->name, &m->new_fd);
}

/* The line that says what went wrong: the first of the last errors, or the last line of all. */
static const char *pick_error(struct arena *arena, const char *out)
{
	static const char *const signs[] = { "ERROR: ", "npm error ", "npm ERR! " };
	const char *best = NULL, *last = "";

	for (const char *line = out ? out : ""; *line;) {
		size_t len = strcspn(line, "\n");

		for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++) {
			size_t n = strlen(signs[i]);

			if (strncmp(line, signs[i], n) == 0 && strncmp(line + n, "code ", 5) != 0 &&
			    (i == 0 || !best))
				best = line + n;
		}
		if (len > 0)
			last = line;
		line += len + (line[len] == '\n');
	}
	best = best ? best : last;
	return arena_strndup(arena, best, strcspn(best, "\n"));
}

static int refuse(const struct making *m, const struct sandboxed *s)
{
	const struct request *rq = m->rq;
	const char *program = rq->installer == INSTALLER_PIP ? "pip" : "npm";
	const char *why = pick_error(rq->arena, s->out->data);
	int r;

	if (rq->installer == INSTALLER_PIP && s->status == NO_PIP && !*s->ended)
		return python_has_no_pip(rq, m->err);
	r = cordon_err(m->err, CORDON_E_SETUP, 0, "%s cannot install the packages: %s", program,
		       *s->ended ? s->ended
		       : why	 ? why
				 : "?");
	if (*s->refused)
		cordon_err_hint(m->err,
				"refused: %s; CORDON_PACKAGE_HOSTS names hosts or addresses that "
				"belong to the index",
				s->refused);
	else if (rq->installer == INSTALLER_PIP && !rq->options->may_build && why &&
		 strstr(why, "No matching distribution"))
		cordon_err_hint(m->err, "is the name right? Only wheels are used; --with-build "
					"takes source packages, too");
	return r;
}

static int run_installer(const struct making *m)
{
	const struct request *rq = m->rq;
	struct strbuf out = STRBUF_INIT;
	struct strbuf in = STRBUF_INIT;
	const char *argv[16];
	struct sandboxed s = { .argv = argv,
			       .in = &in,
			       .private_dir = m->private_dir,
			       .rq = rq,
			       .options = rq->options,
			       .out = &out };
	size_t n = 0;
	int r;

	argv[n++] = rq->program;
	argv[n++] = rq->installer == INSTALLER_PIP ? "-I" : "-e";
	if (rq->installer == INSTALLER_PIP) {
		argv[n++] = "-c";
		argv[n++] = pip_script;
		if (!rq->options->may_build) {
			argv[n++] = "--only-binary";
			argv[n++] = ":all:";
		}
		if (rq->has_hashes)
			argv[n++] = "--require-hashes";
	} else {
		argv[n++] = npm_script;
		argv[n++] = "--";
		argv[n++] = rq->npm;
		argv[n++] = rq->lock_json ? "ci" : "install";
		if (!rq->options->may_build)
			argv[n++] = "--ignore-scripts";
	}
	argv[n] = NULL;
	request_write(rq, &in);
	r = in.failed ? cordon_err(m->err, CORDON_E_NOMEM, 0, "out of memory")
		      : sandbox_run(m->launcher, &s, m->err);
	if (r == 0 && (s.status != 0 || *s.ended))
		r = refuse(m, &s);
	strbuf_done(&in);
	strbuf_done(&out);
	return r;
}

/* From where the installer put it to "tree". */
static int take_result(struct making *m)
{
	const char *what = m->rq->installer == INSTALLER_PIP ? "layer" : "node_modules";
	struct settled settled;
	int fd = -1, r = 0;

	m->home_fd = openat(m->new_fd, "private/home", DIR_FLAGS);
	if (m->home_fd < 0)
		return failed(m, "private/home");
	if (m->rq->installer == INSTALLER_NPM) {
		r = make_dir(m, m->new_fd, "tree", &fd);
		if (r < 0)
			return r;
		if (renameat(m->home_fd, what, fd, what) < 0)
			r = failed(m, what);
	} else {
		if (renameat(m->home_fd, what, m->new_fd, "tree") < 0)
			return failed(m, what);
		fd = openat(m->new_fd, "tree", DIR_FLAGS);
		r = fd < 0 ? failed(m, "tree") : 0;
	}
	if (r == 0)
		r = settle_tree(fd, &settled, m->err);
	if (r == 0)
		r = system_check_programs(m->rq, fd, m->err);
	if (r == 0)
		r = manifest_write(m->rq, m->new_fd, m->home_fd, &settled, m->err);
	if (fd >= 0)
		close(fd);
	return r;
}

/* Everything is on the disk before the name says that it is complete. */
static int finish(const struct making *m)
{
	int r = tree_remove(m->new_fd, "private");

	if (r < 0)
		return cordon_err(m->err, CORDON_E_SYSTEM, -r,
				  "cannot remove the installer's directory");
	if (syncfs(m->new_fd) < 0 || renameat(m->cache->fd, m->name, m->cache->fd, m->rq->key) < 0)
		return failed(m, m->rq->key);
	(void)fsync(m->cache->fd);
	return 0;
}

static int check_secrets(const struct making *m)
{
	if (!m->rq->options->may_build || m->rq->secrets.n == 0)
		return 0;
	(void)cordon_err(m->err, CORDON_E_USAGE, 0,
			 "the index has a password, which packages that run code to be installed "
			 "could read");
	(void)cordon_err_hint(m->err, "leave --with-build out, or use an index without a password");
	return -CORDON_E_USAGE;
}

int install(struct cordon_launcher *launcher, const struct cache *cache, struct request *rq,
	    struct cordon_error *err)
{
	struct making m = { .launcher = launcher,
			    .cache = cache,
			    .rq = rq,
			    .new_fd = -1,
			    .home_fd = -1,
			    .err = err };
	int r = check_secrets(&m);

	if (r == 0)
		r = prepare(&m);
	if (r == 0)
		r = run_installer(&m);
	if (r == 0)
		r = take_result(&m);
	if (r == 0)
		r = finish(&m);
	if (m.home_fd >= 0)
		close(m.home_fd);
	if (m.new_fd >= 0)
		close(m.new_fd);
	if (r < 0 && m.name[0])
		(void)tree_remove(cache->fd, m.name);
	return r;
}

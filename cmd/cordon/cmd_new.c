/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon new: a small project whose tools run what a model writes in a sandbox.
 *
 * The files come from templates/. All of them are written or none: if something fails, what was
 * made is removed again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json_write.h"
#include "base/nearest.h"
#include "base/path.h"
#include "frameworks.h"
#include "out.h"
#include "templates.h"
#include "verbs.h"

#define MADE_MAX 64
#define COMMON "common"

const struct framework frameworks[FRAMEWORKS] = {
	{ "crewai", "CrewAI: an agent with a code interpreter and a calculator" },
	{ "autogen", "AutoGen: an assistant with a calculator, and an executor for its code" },
	{ "openai-agents",
	  "OpenAI Agents SDK: an agent with function tools for code, commands and sums" },
	{ "langchain", "LangChain: an agent with a tool for code and a calculator" },
};

/* A project that is being written. */
struct project {
	const char *dir;  /* as given */
	const char *name; /* its last part */
	const struct framework *framework;
	int dir_fd;
	int is_new; /* the directory was made here */
	/* What was made inside, parents first. */
	struct {
		const char *path; /* of a file */
		size_t dir_len;	  /* not 0: the directory named by so many bytes of the path */
	} made[MADE_MAX];
	size_t n_made;
};

static int is_part_of(const struct template_file *file, const struct framework *framework)
{
	return !strcmp(file->framework, COMMON) || !strcmp(file->framework, framework->name);
}

static const struct framework *find_framework(const char *word, struct cordon_error *err)
{
	struct nearest near;

	nearest_init(&near, word);
	for (size_t i = 0; i < FRAMEWORKS; i++) {
		if (!strcmp(frameworks[i].name, word))
			return &frameworks[i];
		nearest_offer(&near, frameworks[i].name);
	}
	cordon_err(err, CORDON_E_USAGE, 0, "there is no starter project for '%s'", word);
	if (near.best)
		cordon_err_hint(err, "did you mean '%s'?", near.best);
	else
		cordon_err_hint(err, "'cordon new --list' lists them");
	return NULL;
}

/* The name is written into files unescaped, so it must be plain in all of them. */
static int check_name(const char *name, const char *dir, struct cordon_error *err)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789._-";

	if (*name && *name != '-' && *name != '.' && !name[strspn(name, plain)])
		return 0;
	cordon_err(err, CORDON_E_USAGE, 0, "'%s' cannot be the name of a project", dir);
	cordon_err_hint(err, "it begins with a letter or digit; letters, digits, '.', '_' and '-' "
			     "may follow");
	return -CORDON_E_USAGE;
}

/* @buf backs the name: that of the directory itself, also for "." and the like. */
static int find_name(struct project *p, char *buf, size_t size, struct cordon_error *err)
{
	char cwd[PATH_MAX];
	int r = getcwd(cwd, sizeof(cwd)) ? path_normalise(cwd, p->dir, buf, size) : -errno;

	if (r < 0)
		return cordon_err(err, CORDON_E_PATH, -r, "cannot use '%s'", p->dir);
	p->name = strrchr(buf, '/') + 1;
	return check_name(p->name, p->dir, err);
}

static int check_empty(const struct project *p, struct cordon_error *err)
{
	int fd = openat(p->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int is_empty = 1;

	if (!dir) {
		int error = errno;

		if (fd >= 0)
			close(fd);
		return cordon_err(err, CORDON_E_PATH, error, "cannot list '%s'", p->dir);
	}
	while (is_empty && (entry = readdir(dir)) != NULL)
		is_empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
	closedir(dir);
	if (is_empty)
		return 0;
	cordon_err(err, CORDON_E_PATH, 0, "'%s' is not empty", p->dir);
	cordon_err_hint(err, "name a directory that does not exist yet");
	return -CORDON_E_PATH;
}

static int open_project(struct project *p, struct cordon_error *err)
{
	int error;

	if (mkdir(p->dir, 0777) == 0)
		p->is_new = 1;
	error = p->is_new || errno == EEXIST ? 0 : errno;
	if (!error) {
		p->dir_fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		error = p->dir_fd < 0 ? errno : 0;
	}
	if (!error)
		return check_empty(p, err);
	cordon_err(err, CORDON_E_PATH, error, "cannot make '%s'", p->dir);
	if (error == ENOENT)
		cordon_err_hint(err, "its parent directory does not exist");
	else if (error == ENOTDIR)
		cordon_err_hint(err, "something else has that name");
	return -CORDON_E_PATH;
}

static int remember(struct project *p, const char *path, size_t dir_len)
{
	if (p->n_made == MADE_MAX)
		return -E2BIG;
	p->made[p->n_made].path = path;
	p->made[p->n_made++].dir_len = dir_len;
	return 0;
}

static void undo(struct project *p)
{
	char name[NAME_MAX + 1];

	while (p->n_made > 0) {
		const char *path = p->made[--p->n_made].path;
		size_t len = p->made[p->n_made].dir_len;

		if (len) {
			memcpy(name, path, len);
			name[len] = '\0';
		}
		unlinkat(p->dir_fd, len ? name : path, len ? AT_REMOVEDIR : 0);
	}
	if (p->is_new)
		rmdir(p->dir);
}

/* The directory of a file; templates have one level of them. */
static int make_parent(struct project *p, const char *path)
{
	size_t len = strcspn(path, "/");
	char name[NAME_MAX + 1];

	if (!path[len])
		return 0;
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, path, len);
	name[len] = '\0';
	if (mkdirat(p->dir_fd, name, 0777) == 0)
		return remember(p, path, len);
	return errno == EEXIST ? 0 : -errno;
}

static void fill_in(const struct project *p, const char *text, struct strbuf *sb)
{
	const struct {
		const char *mark, *value;
	} values[] = { { "@NAME@", p->name }, { "@VERSION@", cordon_version() } };

	while (*text) {
		size_t len = strcspn(text, "@");
		const char *value = NULL;

		strbuf_add(sb, text, len);
		text += len;
		for (size_t i = 0; *text && !value && i < ARRAY_SIZE(values); i++) {
			if (!strncmp(text, values[i].mark, strlen(values[i].mark))) {
				value = values[i].value;
				text += strlen(values[i].mark);
			}
		}
		if (value)
			strbuf_puts(sb, value);
		else if (*text)
			strbuf_putc(sb, *text++);
	}
}

static int write_file(struct project *p, const struct template_file *file)
{
	struct strbuf sb = STRBUF_INIT;
	int r = make_parent(p, file->path), fd;

	if (r < 0)
		return r;
	fill_in(p, file->text, &sb);
	fd = openat(p->dir_fd, file->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    0666);
	if (fd < 0) {
		r = -errno;
		strbuf_done(&sb);
		return r;
	}
	r = remember(p, file->path, 0);
	if (r == 0)
		r = sb.failed ? -ENOMEM : write_full(fd, sb.data, sb.len);
	/* A full disk may be reported only now. */
	if (close(fd) < 0 && r == 0)
		r = -errno;
	strbuf_done(&sb);
	return r;
}

static int write_project(struct project *p, struct cordon_error *err)
{
	for (size_t i = 0; i < template_files_count; i++) {
		int r;

		if (!is_part_of(&template_files[i], p->framework))
			continue;
		r = write_file(p, &template_files[i]);
		if (r < 0)
			return cordon_err(err, CORDON_E_PATH, -r, "cannot write '%s/%s'", p->dir,
					  template_files[i].path);
	}
	return 0;
}

static int report(const struct project *p, int json)
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;

	if (!json) {
		strbuf_puts(&sb, "made ");
		strbuf_add_escaped(&sb, p->dir, strlen(p->dir));
		strbuf_puts(&sb, "; see ");
		strbuf_add_escaped(&sb, p->dir, strlen(p->dir));
		strbuf_puts(&sb, "/README.md\n");
		return out_finish(&sb, 0);
	}
	json_writer_init(&w, &sb, 0);
	json_open_object(&w, NULL);
	json_string(&w, "framework", p->framework->name);
	json_string(&w, "name", p->name);
	json_string(&w, "dir", p->dir);
	json_open_array(&w, "files");
	for (size_t i = 0; i < p->n_made; i++) {
		if (!p->made[i].dir_len)
			json_string(&w, NULL, p->made[i].path);
	}
	json_close_array(&w);
	json_close_object(&w);
	strbuf_putc(&sb, '\n');
	return out_finish(&sb, 0);
}

static int list(int json)
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;

	json_writer_init(&w, &sb, 0);
	if (json)
		json_open_array(&w, NULL);
	for (size_t i = 0; i < FRAMEWORKS; i++) {
		if (!json) {
			strbuf_printf(&sb, "%-14s %s\n", frameworks[i].name, frameworks[i].summary);
			continue;
		}
		json_open_object(&w, NULL);
		json_string(&w, "name", frameworks[i].name);
		json_string(&w, "summary", frameworks[i].summary);
		json_close_object(&w);
	}
	if (json) {
		json_close_array(&w);
		strbuf_putc(&sb, '\n');
	}
	return out_finish(&sb, 0);
}

static int make(struct project *p, struct cordon_error *err)
{
	static char name[PATH_MAX]; /* what p->name points to */
	int r = find_name(p, name, sizeof(name), err);

	if (r < 0)
		return r;
	r = open_project(p, err);
	if (r == 0)
		r = write_project(p, err);
	if (r < 0)
		undo(p);
	return r;
}

static int complain(const struct cordon_error *err)
{
	say_error(err);
	return STATUS_FAILED;
}

int cmd_new(const struct parsed *args)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	int json = parsed_has(args, OPT_JSON), is_list = parsed_has(args, OPT_LIST), status;
	struct project p = { .dir_fd = -1 };

	if (args->n_rest != (is_list ? 0 : 2)) {
		cordon_err(&err, CORDON_E_USAGE, 0,
			   is_list ? "'new --list' takes no arguments"
				   : "'new' needs a framework and a directory");
		cordon_err_hint(&err, "try 'cordon new --help'");
		return complain(&err);
	}
	if (is_list)
		return list(json);
	p.dir = args->rest[1];
	p.framework = find_framework(args->rest[0], &err);
	if (!p.framework)
		return complain(&err);
	status = make(&p, &err) < 0 ? complain(&err) : report(&p, json);
	if (p.dir_fd >= 0)
		close(p.dir_fd);
	return status;
}

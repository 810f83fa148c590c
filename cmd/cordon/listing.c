/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run says of itself, once it has lasted.
 *
 * Texts are escaped as they are for a terminal, so that any name fits into JSON that everybody
 * reads. The values of environment variables are left out.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/json_read.h"
#include "runs.h"
#include "verbs.h"

#define COMMAND_MAX 4096      /* bytes of the command's words */
#define POLICY_MAX (24 << 10) /* a longer one is left out */

static int64_t clock_ms(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void listing_start(struct listing *l)
{
	*l = (struct listing)LISTING_INIT;
	l->started_ms = clock_ms(CLOCK_MONOTONIC);
}

int listing_left_ms(const struct listing *l)
{
	int64_t left;

	if (l->is_done)
		return -1;
	left = l->started_ms + LISTED_AFTER_MS - clock_ms(CLOCK_MONOTONIC);
	return left > 0 ? (int)left : 0;
}

static void add_text(struct json_writer *w, const char *key, const char *text, size_t len)
{
	struct strbuf sb = STRBUF_INIT;

	strbuf_puts(&sb, "");
	strbuf_add_escaped(&sb, text, len);
	json_string(w, key, sb.failed ? NULL : sb.data);
	strbuf_done(&sb);
}

static void add_command(struct json_writer *w, const struct parsed *args)
{
	size_t left = COMMAND_MAX;
	int is_whole = 1;

	json_open_array(w, "command");
	for (size_t i = 0; i < args->n_rest; i++) {
		size_t len = strlen(args->rest[i]);

		if (len >= left) {
			is_whole = 0;
			break;
		}
		left -= len + 1;
		add_text(w, NULL, args->rest[i], len);
	}
	json_close_array(w);
	json_bool(w, "command_is_whole", is_whole);
}

/* A name is what "env": {"set": {NAME: value}} may tell. */
static void add_env(struct json_writer *w, const struct json_value *env)
{
	json_open_object(w, env->key);
	for (const struct json_value *v = env->first; v; v = v->next) {
		if (strcmp(v->key, "set") != 0) {
			json_copy(w, v->key, v);
			continue;
		}
		json_open_object(w, v->key);
		for (const struct json_value *one = v->first; one; one = one->next)
			json_null(w, one->key);
		json_close_object(w);
	}
	json_close_object(w);
}

static void add_policy(struct json_writer *w, const struct cordon_policy *policy)
{
	const struct json_value *root = NULL;
	struct arena arena = ARENA_INIT;
	char *text = NULL;

	if (cordon_policy_to_json(policy, &text, NULL) == 0 && strlen(text) <= POLICY_MAX &&
	    json_read(text, strlen(text), "policy", &arena, &root, NULL) == 0) {
		json_open_object(w, "policy");
		for (const struct json_value *v = root->first; v; v = v->next) {
			if (!strcmp(v->key, "env"))
				add_env(w, v);
			else
				json_copy(w, v->key, v);
		}
		json_close_object(w);
	} else {
		json_null(w, "policy");
	}
	cordon_free(text);
	arena_done(&arena);
}

/* A log: a file that output goes to as it comes. */
static void add_log(struct json_writer *w, const char *key, int fd, const struct parsed *args)
{
	struct stat st;

	json_bool(w, key,
		  !parsed_has(args, OPT_JSON) && fstat(fd, &st) == 0 && S_ISREG(st.st_mode));
}

int listing_make(struct listing *l, const struct parsed *args, const struct cordon_policy *policy,
		 const struct cordon_run *run)
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;
	char cwd[PATH_MAX];
	int64_t age = clock_ms(CLOCK_MONOTONIC) - l->started_ms;
	int r;

	l->is_done = 1;
	json_writer_init(&w, &sb, 0);
	json_open_object(&w, NULL);
	json_int(&w, "started_ms", clock_ms(CLOCK_REALTIME) - age);
	add_command(&w, args);
	if (getcwd(cwd, sizeof(cwd)))
		add_text(&w, "cwd", cwd, strlen(cwd));
	else
		json_null(&w, "cwd");
	json_string(&w, "workspace", cordon_run_workspace(run));
	add_log(&w, "log_stdout", STDOUT_FILENO, args);
	add_log(&w, "log_stderr", STDERR_FILENO, args);
	add_policy(&w, policy);
	json_close_object(&w);
	strbuf_putc(&sb, '\n');
	r = run_entry_make(&l->entry, &sb);
	strbuf_done(&sb);
	return r;
}

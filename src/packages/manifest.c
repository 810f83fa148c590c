/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a layer: what was asked for, and each package with its version and hash. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "packages/packages.h"

#define LIST_MAX ((size_t)8 << 20)

static void write_package(struct json_writer *w, const char *name, const char *version,
			  const char *hash)
{
	json_open_object(w, NULL);
	json_string(w, "name", name);
	json_string(w, "version", version);
	json_string(w, "hash", hash && *hash ? hash : NULL);
	json_close_object(w);
}

static const char *text_of(const struct json_value *v)
{
	return v && v->type == JSON_STRING ? v->text : NULL;
}

/* [[name, version, sha256], ...] */
static void write_pip(struct json_writer *w, struct arena *arena, const struct json_value *list)
{
	for (const struct json_value *v = list->first; v; v = v->next) {
		const struct json_value *name = v->type == JSON_ARRAY ? v->first : NULL;
		const struct json_value *version = name ? name->next : NULL;
		const char *hash = version ? text_of(version->next) : NULL;

		if (hash && *hash)
			hash = arena_printf(arena, "sha256:%s", hash);
		if (text_of(name))
			write_package(w, text_of(name), text_of(version), hash);
	}
}

/* {"packages": {"node_modules/NAME": {"version", "integrity"}}} */
static void write_npm(struct json_writer *w, const struct json_value *lock)
{
	static const char dir[] = "node_modules/";
	const struct json_value *packages = json_get(lock, "packages");

	for (const struct json_value *v = packages ? packages->first : NULL; v; v = v->next) {
		const char *name = v->key;

		for (const char *at = name; (at = strstr(at, dir)) != NULL; at++)
			name = at + strlen(dir);
		if (*name && v->type == JSON_OBJECT)
			write_package(w, name, text_of(json_get(v, "version")),
				      text_of(json_get(v, "integrity")));
	}
}

/* What the installer wrote is about itself only: if it cannot be read, the list is empty. */
static void write_packages(const struct request *rq, int new_fd, int home_fd, struct json_writer *w)
{
	bool is_pip = rq->installer == INSTALLER_PIP;
	const struct json_value *found = NULL;
	struct arena arena = ARENA_INIT;
	struct strbuf sb = STRBUF_INIT;
	int r = is_pip ? cache_read(home_fd, "installed.json", LIST_MAX, &sb)
		       : cache_read(new_fd, "tree/node_modules/.package-lock.json", LIST_MAX, &sb);

	json_open_array(w, "packages");
	if (r == 0 && sb.data && json_read(sb.data, sb.len, "list", &arena, &found, NULL) == 0) {
		if (is_pip && found->type == JSON_ARRAY)
			write_pip(w, &arena, found);
		else if (!is_pip && found->type == JSON_OBJECT)
			write_npm(w, found);
	}
	json_close_array(w);
	strbuf_done(&sb);
	arena_done(&arena);
}

int manifest_write(const struct request *rq, int new_fd, int home_fd, const struct settled *settled,
		   struct cordon_error *err)
{
	struct strbuf sb = STRBUF_INIT;
	struct json_writer w;
	int r;

	json_writer_init(&w, &sb, 0);
	json_open_object(&w, NULL);
	json_string(&w, "installer", rq->installer == INSTALLER_PIP ? "pip" : "npm");
	json_string(&w, "platform", rq->platform);
	json_open_array(&w, "wanted");
	for (size_t i = 0; i < rq->wanted.n; i++)
		json_string(&w, NULL, rq->wanted.v[i]);
	if (rq->lock_json)
		json_string(&w, NULL, "package-lock.json");
	json_close_array(&w);
	json_open_array(&w, "index");
	for (size_t i = 0; i < rq->index.n; i++)
		json_string(&w, NULL, rq->index.v[i]);
	json_close_array(&w);
	json_bool(&w, "may_build", rq->options->may_build != 0);
	json_bool(&w, "hashes_enforced", rq->has_hashes);
	write_packages(rq, new_fd, home_fd, &w);
	json_uint(&w, "bytes", settled->bytes);
	json_uint(&w, "files", settled->files);
	json_int(&w, "created", (int64_t)time(NULL));
	json_close_object(&w);
	r = sb.failed ? -ENOMEM : cache_write(new_fd, MANIFEST, sb.data, sb.len);
	strbuf_done(&sb);
	return r < 0 ? cordon_err(err, CORDON_E_SYSTEM, -r, "the packages' manifest") : 0;
}

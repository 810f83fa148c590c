/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole plans against tests/golden/NAME.json. What depends on the machine is taken out first: the
 * system's own directories and files, inode numbers, and the place of the tree ("$T").
 * With CORDON_GOLDEN_UPDATE=1 the files are written instead; look at the difference.
 */
#include "base/json_read.h"
#include "base/json_write.h"
#include "test_plan_lib.h"

#define GOLDEN_MAX ((size_t)256 << 10)

static struct fixture f;

static int is_machine_step(const char *path)
{
	static const char *const fixed[] = {
		"/",
		"/etc",
		"/etc/passwd",
		"/etc/group",
		"/etc/hosts",
		"/etc/resolv.conf",
		"/etc/nsswitch.conf",
		"/etc/hostname",
		"/proc",
		"/run",
		"/var",
		"/var/run",
		"/var/tmp",
		"/tmp",
	};

	if (strncmp(path, f.base, strlen(f.base)) == 0 || strncmp(path, "/dev", 4) == 0)
		return 0;
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
		/* At level landlock it is the host's own /etc. */
		if (strcmp(path, fixed[i]) == 0 && f.level == PLAN_LEVEL_NAMESPACES)
			return 0;
	}
	return 1;
}

/* Whether a member of an object, or a step, says something about this machine. */
static int is_machine_part(const struct json_value *parent, const struct json_value *value)
{
	const struct json_value *path;

	if (!value->key) {
		path = json_get(value, "path");
		return path && is_machine_step(path->text);
	}
	if (strcmp(value->key, "identity") == 0)
		return 1;
	if (!parent->key || strcmp(parent->key, "limits") != 0)
		return 0;
	/* A host may allow no core files at all, and fewer signals. */
	if (strcmp(value->key, "core") == 0)
		CHECK(value->integer <= 1);
	else if (strcmp(value->key, "sigpending") == 0)
		CHECK(value->integer <= 65536);
	else
		return 0;
	return 1;
}

static void dump(struct json_writer *w, const struct json_value *value)
{
	const struct json_value *child;

	switch (value->type) {
	case JSON_OBJECT:
		json_open_object(w, value->key);
		break;
	case JSON_ARRAY:
		json_open_array(w, value->key);
		break;
	case JSON_STRING:
		json_string(w, value->key, value->text);
		return;
	case JSON_INTEGER:
		json_int(w, value->key, value->integer);
		return;
	case JSON_TRUE:
	case JSON_FALSE:
		json_bool(w, value->key, value->type == JSON_TRUE);
		return;
	case JSON_NULL:
		json_null(w, value->key);
		return;
	case JSON_NUMBER:
	case JSON_MAX:
		tap_fail("golden", (int)value->line, "a plan has whole numbers only");
		return;
	}
	for (child = value->first; child; child = child->next)
		if (!is_machine_part(value, child))
			dump(w, child);
	if (value->type == JSON_OBJECT)
		json_close_object(w);
	else
		json_close_array(w);
}

static void replace_base(const char *text, char *out)
{
	size_t len = strlen(f.base), n = 0;

	while (*text && n < GOLDEN_MAX - 4) {
		if (strncmp(text, f.base, len) == 0) {
			out[n++] = '$';
			out[n++] = 'T';
			text += len;
		} else {
			out[n++] = *text++;
		}
	}
	out[n++] = '\n';
	out[n] = '\0';
}

static char *normalised(void)
{
	char *raw = NULL, *out = malloc(GOLDEN_MAX);
	const struct json_value *plan = NULL;
	struct arena arena = ARENA_INIT;
	struct strbuf text = STRBUF_INIT;
	struct json_writer w;

	if (!out || plan_to_json(f.plan, 0, &raw, &f.err) < 0)
		abort();
	json_writer_init(&w, &text, 1);
	if (json_read(raw, strlen(raw), "plan", &arena, &plan, &f.err) == 0)
		dump(&w, plan);
	else
		tap_fail("golden", 0, "%s", f.err.msg);
	replace_base(text.data ? text.data : "", out);
	strbuf_done(&text);
	arena_done(&arena);
	free(raw);
	return out;
}

static void show_difference(const char *got, const char *want)
{
	for (int line = 1;; line++) {
		size_t g = strcspn(got, "\n"), w = strcspn(want, "\n");

		if (g != w || strncmp(got, want, g) != 0) {
			tap_fail("golden", line, "got \"%.*s\", expected \"%.*s\"", (int)g, got,
				 (int)w, want);
			return;
		}
		if (!got[g] || !want[w])
			return;
		got += g + 1;
		want += w + 1;
	}
}

static void check_golden(const char *name)
{
	const char *root = getenv("CORDON_SOURCE_ROOT"), *update = getenv("CORDON_GOLDEN_UPDATE");
	char path[PATH_MAX], *got, *want = calloc(1, GOLDEN_MAX);
	FILE *file;

	if (fx_build(&f) < 0) {
		tap_fail(name, 0, "plan: %s", f.err.msg);
		free(want);
		return;
	}
	got = normalised();
	snprintf(path, sizeof(path), "%s/tests/golden/%s.json", root ? root : ".", name);
	if (update && *update == '1') {
		file = fopen(path, "w");
		CHECK_MSG(file != NULL && fputs(got, file) >= 0, "cannot write %s", path);
	} else {
		file = fopen(path, "r");
		CHECK_MSG(file != NULL, "cannot read %s", path);
		if (file && want)
			want[fread(want, 1, GOLDEN_MAX - 1, file)] = '\0';
		show_difference(got, want ? want : "");
	}
	if (file)
		fclose(file);
	free(got);
	free(want);
}

/* The machine of the golden files; what the host's limits are must not show. */
static void start(void)
{
	fx_init(&f);
	f.env[0] = "LANG=C.UTF-8";
	f.env[1] = "TOKEN=secret";
	fx_set(&f, "limits.open_files", "64");
}

static void test_default(void)
{
	start();
	check_golden("default");
	fx_done(&f);
}

static void test_default_as_root(void)
{
	start();
	f.machine.uid = f.machine.gid = 0;
	check_golden("default-root");
	fx_done(&f);
}

static void test_at_home(void)
{
	start();
	snprintf(f.cwd, sizeof(f.cwd), "%s", f.home);
	check_golden("home");
	fx_done(&f);
}

static void test_workspace(void)
{
	start();
	fx_dir(&f, "ws/.git/hooks");
	fx_dir(&f, "ws/.git/objects");
	fx_dir(&f, "ws/.git/refs");
	fx_file(&f, "ws/.git/HEAD", "ref: refs/heads/main\n");
	fx_file(&f, "ws/.git/config", "[core]\n\thooksPath = .githooks\n");
	fx_dir(&f, "ws/.vscode");
	fx_dir(&f, "ws/vendor/lib");
	fx_file(&f, "ws/.env", "KEY=1\n");
	fx_set(&f, "fs.write", "ws");
	fx_set(&f, "fs.read", "ws/vendor/lib");
	fx_set(&f, "fs.deny", "ws/.env");
	fx_set(&f, "fs.deny", "ws/.env.local");
	check_golden("workspace");
	fx_done(&f);
}

static void test_workspace_unprotected(void)
{
	start();
	fx_dir(&f, "ws/.git");
	fx_set(&f, "fs.write", "ws");
	fx_set(&f, "fs.protect", "off");
	check_golden("no-protect");
	fx_done(&f);
}

static void test_landlock(void)
{
	start();
	f.level = PLAN_LEVEL_LANDLOCK;
	f.machine.uid = f.machine.gid = 0; /* no count of other tasks */
	fx_file(&f, "data/open", "");
	fx_file(&f, "data/secret", "");
	snprintf(f.cwd, sizeof(f.cwd), "%s", f.home);
	fx_set(&f, "fs.write", fx_path(&f, "ws"));
	fx_set(&f, "fs.read", fx_path(&f, "data"));
	fx_set(&f, "fs.deny", fx_path(&f, "data/secret"));
	check_golden("landlock");
	fx_done(&f);
}

TAP_MAIN(test_default, test_default_as_root, test_at_home, test_workspace,
	 test_workspace_unprotected, test_landlock)

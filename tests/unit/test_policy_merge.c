/* SPDX-License-Identifier: Apache-2.0 */
/* Merging as a table: lists add up, single values are replaced by the later, deny stays. */
#include "policy/keys.h"
#include "policy/policy.h"
#include "policy/presets.h"
#include "tap.h"

/* Up to four steps: "preset:NAME", "key=value", or a document. */
static const struct {
	const char *steps[4];
	const char *want; /* a part of the canonical JSON, without white space */
} rows[] = {
	/* Order: what comes later wins. */
	{ { "limits.wall=5s", "limits.wall=7s" }, "{\"limits\":{\"wall\":\"7s\"}}" },
	{ { "{\"limits\":{\"wall\":\"5s\"}}", "limits.wall=7s" },
	  "{\"limits\":{\"wall\":\"7s\"}}" },
	{ { "limits.wall=7s", "{\"limits\":{\"wall\":\"5s\"}}" },
	  "{\"limits\":{\"wall\":\"5s\"}}" },
	{ { "limits.wall=7s", "{\"limits\":{\"procs\":5}}" },
	  "{\"limits\":{\"wall\":\"7s\",\"procs\":5}}" },
	{ { "preset:strict", "limits.wall=7s" },
	  "\"wall\":\"7s\",\"memory\":\"512M\",\"procs\":32," },
	{ { "preset:agent", "{\"limits\":{\"wall\":\"1s\"}}", "limits.wall=2s" },
	  "\"wall\":\"2s\"" },
	{ { "preset:agent", "preset:strict" }, "\"wall\":\"10s\"" },
	{ { "preset:strict", "preset:agent" }, "\"wall\":\"10m\"" },
	/* A preset named in a document comes before the rest of it, wherever it stands. */
	{ { "{\"limits\":{\"wall\":\"1s\"},\"preset\":\"strict\"}" },
	  "\"wall\":\"1s\",\"memory\":\"512M\",\"procs\":32" },
	{ { "{\"preset\":[\"strict\",\"python\"]}" },
	  "\"wall\":\"30s\",\"memory\":\"512M\",\"procs\":128" },
	{ { "{\"preset\":[]}" }, "{}" },
	/* But after what was there before the document. */
	{ { "limits.wall=3s", "{\"preset\":\"strict\"}" }, "\"wall\":\"10s\"" },
	/* Lists add up, in order, without doubles. */
	{ { "fs.read=/a", "{\"fs\":{\"read\":[\"/b\",\"/a\"]}}", "fs.read=/c" },
	  "{\"fs\":{\"read\":[\"/a\",\"/b\",\"/c\"]}}" },
	{ { "preset:build", "fs.write=/out" }, "\"write\":[\".\",\"/out\"]" },
	/* A workspace takes the place of what a preset grants, but not of what was asked for. */
	{ { "preset:build", "fs.workspace=/w" }, "\"fs\":{\"workspace\":\"/w\"," },
	{ { "fs.workspace=/w", "preset:build" }, "\"fs\":{\"workspace\":\"/w\"," },
	{ { "{\"preset\":\"build\",\"fs\":{\"workspace\":\"/w\"}}" },
	  "\"fs\":{\"workspace\":\"/w\"," },
	{ { "preset:build", "preset:agent", "fs.write=/out", "fs.workspace=/w" },
	  "\"fs\":{\"write\":[\"/out\"],\"deny\"" },
	{ { "preset:build", "fs.write=.", "fs.workspace=/w" }, "\"fs\":{\"write\":[\".\"]," },
	{ { "preset:build", "fs.workspace=/w", "fs.write=." }, "\"fs\":{\"write\":[\".\"]," },
	{ { "fs.write=.", "preset:build", "fs.workspace=/w" }, "\"fs\":{\"write\":[\".\"]," },
	{ { "commands=git", "{\"commands\":[\"make\"]}", "commands=sh,git" },
	  "{\"commands\":[\"git\",\"make\",\"sh\"]}" },
	/* An empty list is not "no list", and does not take entries away. */
	{ { "{\"commands\":[]}" }, "{\"commands\":[]}" },
	{ { "commands=git", "{\"commands\":[]}" }, "{\"commands\":[\"git\"]}" },
	{ { "{\"fs\":{\"read\":[]}}" }, "{}" },
	/* Deny stays whatever is granted later. */
	{ { "fs.deny=/a/x", "fs.read=/a", "{\"fs\":{\"read\":[\"/a/x\"],\"deny\":[]}}" },
	  "{\"fs\":{\"read\":[\"/a\",\"/a/x\"],\"deny\":[\"/a/x\"]}}" },
	/* Switches and choices. */
	{ { "fs.protect=off", "preset:agent" }, "\"protect\":true" },
	{ { "preset:agent", "fs.protect=off" }, "\"protect\":false" },
	{ { "preset:strict", "isolation=auto" }, "\"isolation\":\"auto\"" },
	{ { "isolation=landlock", "{}" }, "{\"isolation\":\"landlock\"}" },
	/* The environment: by name. */
	{ { "env.set=A=1", "{\"env\":{\"set\":{\"B\":\"2\",\"A\":\"3\"}}}", "env.set=C=4" },
	  "{\"env\":{\"set\":{\"A\":\"3\",\"B\":\"2\",\"C\":\"4\"}}}" },
	{ { "env.pass=A", "{\"env\":{\"pass\":[\"LC_*\"]}}" },
	  "{\"env\":{\"pass\":[\"A\",\"LC_*\"]}}" },
	{ { "preset:python", "env.set=PYTHONUNBUFFERED=" }, "\"PYTHONUNBUFFERED\":\"\"" },
	{ { "require=pid", "{\"require\":[\"net\"]}", "require=pid,landlock:4" },
	  "{\"require\":[\"pid\",\"net\",\"landlock:4\"]}" },
	/* Rules as they are written best, so each is there once. */
	{ { "net.allow=Example.COM.", "{\"net\":{\"allow\":[\"example.com:443,80\",\"x:22\"]}}" },
	  "{\"net\":{\"allow\":[\"example.com:80,443\",\"x:22\"]}}" },
	{ { "net.deny=x", "net.allow=x", "{\"net\":{\"deny\":[]}}" },
	  "{\"net\":{\"allow\":[\"x:80,443\"],\"deny\":[\"x\"]}}" },
	{ { "{\"net\":{\"allow\":[]}}" }, "{}" },
	{ { "net.publish=80", "net.publish=127.0.0.1:80:80", "net.publish=80/tcp" },
	  "{\"net\":{\"publish\":[\"80\",\"80/tcp\"]}}" },
	{ { "net.max=1M", "{\"net\":{\"max\":4096}}" }, "{\"net\":{\"max\":\"4K\"}}" },
	{ { "user=5", "{\"user\":\"6:7\"}" }, "{\"user\":\"6:7\"}" },
	{ { "cwd=/a", "{\"cwd\":\"/b\"}" }, "{\"cwd\":\"/b\"}" },
};

static int take_step(struct cordon_policy *p, const char *step, struct cordon_error *err)
{
	const char *equals = strchr(step, '=');
	char key[64];

	if (step[0] == '{')
		return cordon_policy_json(p, step, strlen(step), "doc", NULL, err);
	if (strncmp(step, "preset:", 7) == 0)
		return cordon_policy_preset(p, step + 7, err);
	snprintf(key, sizeof(key), "%.*s", (int)(equals - step), step);
	return cordon_policy_set(p, key, equals + 1, err);
}

static void squeeze(char *text)
{
	char *to = text;

	for (; *text; text++)
		if (*text != ' ' && *text != '\n')
			*to++ = *text;
	*to = '\0';
}

static void test_table(void)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct cordon_error err = CORDON_ERROR_INIT;
		struct cordon_policy *p = NULL;
		char *text = NULL;

		REQUIRE(cordon_policy_new(&p, NULL) == 0);
		for (size_t s = 0; s < 4 && rows[i].steps[s]; s++)
			CHECK_MSG(take_step(p, rows[i].steps[s], &err) == 0, "row %zu step %zu: %s",
				  i, s, err.msg);
		REQUIRE(cordon_policy_to_json(p, &text, NULL) == 0);
		squeeze(text);
		CHECK_MSG(strstr(text, rows[i].want) != NULL, "row %zu: %s lacks %s", i, text,
			  rows[i].want);
		if (rows[i].want[0] == '{')
			CHECK_STR(text, rows[i].want);
		cordon_free(text);
		cordon_policy_free(p);
	}
}

/* What does not fit together is refused, and the policy stays as it was. */
static void test_merge_is_all_or_nothing(void)
{
	struct cordon_policy *p = NULL;
	struct cordon_error err;
	char name[32], doc[64];

	REQUIRE(cordon_policy_new(&p, NULL) == 0);
	for (int i = 0; i < POLICY_LIST_MAX; i++) {
		snprintf(name, sizeof(name), "/p%d", i);
		CHECK_INT(cordon_policy_set(p, "fs.deny", name, NULL), 0);
	}
	snprintf(doc, sizeof(doc),
		 "{\"cwd\":\"/x\",\"fs\":{\"read\":[\"/r\"],\"deny\":[\"/new\"]}}");
	CHECK_INT(cordon_policy_json(p, doc, strlen(doc), "doc", NULL, &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg, "doc: fs.deny has more than 1024 entries");
	CHECK(p->cwd == NULL);
	CHECK_INT(p->fs_read.n, 0);
	CHECK_INT(p->fs_deny.n, POLICY_LIST_MAX);
	cordon_policy_free(p);
}

static void test_presets(void)
{
	struct cordon_error err = CORDON_ERROR_INIT;
	struct cordon_policy *p = NULL;

	CHECK_INT(policy_presets_count, 5);
	for (size_t i = 0; i < policy_presets_count; i++) {
		REQUIRE(cordon_policy_new(&p, NULL) == 0);
		CHECK_INT(cordon_policy_preset(p, policy_presets[i].name, &err), 0);
		CHECK_STR(err.msg, "");
		/* Each has a clock and a cap on output, and none takes a protection away. */
		CHECK(p->wall_ms > 0);
		CHECK(p->output_bytes > 0);
		CHECK(p->protect != 0);
		CHECK_INT(p->env_pass.n, 0);
		cordon_policy_free(p);
	}
	REQUIRE(cordon_policy_new(&p, NULL) == 0);
	CHECK_INT(cordon_policy_preset(p, "Strict", &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg, "unknown preset 'Strict' (did you mean 'strict'?)");
	CHECK_INT(cordon_policy_preset(p, "", &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg, "unknown preset ''");
	/* The strictest one asks for every layer there is a name for; a cgroup is only another way
	 * of holding limits. */
	CHECK_INT(cordon_policy_preset(p, "strict", NULL), 0);
	for (size_t i = 0; i < policy_layer_names_count; i++)
		CHECK(strcmp(policy_layer_names[i], "cgroup") == 0 ||
		      strcmp(policy_layer_names[i], "kvm") == 0 ||
		      strlist_has(&p->require, policy_layer_names[i]));
	cordon_policy_free(p);
}

TAP_MAIN(test_table, test_merge_is_all_or_nothing, test_presets)

/* SPDX-License-Identifier: Apache-2.0 */
/* Documents: read, refused with one clear line, written back. */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/policy.h"
#include "tap.h"

static struct cordon_policy *fresh(void)
{
	struct cordon_policy *policy = NULL;

	if (cordon_policy_new(&policy, NULL) < 0)
		abort();
	return policy;
}

static char *to_json(const struct cordon_policy *policy)
{
	char *text = NULL;

	CHECK_INT(cordon_policy_to_json(policy, &text, NULL), 0);
	return text;
}

static const struct {
	const char *text, *message;
} refusals[] = {
	{ "", "p.json: the document is empty" },
	{ "   ", "p.json:1:4: expected a value, found the end of the document" },
	{ "[]", "p.json:1:1: a policy must be an object, not a list" },
	{ "1", "p.json:1:1: a policy must be an object, not a whole number" },
	{ "{\"cwd\": \"a\",\n \"cwd\": \"b\"}", "p.json:2:2: duplicate key 'cwd'" },
	{ "{\"fs\": {\"read\": [\"a\"], \"read\": []}}", "p.json:1:24: duplicate key 'read'" },
	{ "{\"cwd\": \"a\\u0000b\"}", "p.json:1:11: NUL characters are not allowed" },
	{ "{\"c\\u0000\": 1}", "p.json:1:4: NUL characters are not allowed" },
	{ "{\"cwd\": \"a\"} x", "p.json:1:14: expected the end of the document, found 'x'" },
	{ "{\"cwd\": \"\xff\"}", "p.json:1:10: byte 0xff is not valid UTF-8 here" },
	{ "{\"fs\": {\"raed\": []}}",
	  "p.json:1:9: unknown key 'fs.raed' (did you mean 'fs.read'?)" },
	{ "{\"fs.read\": []}", "p.json:1:2: unknown key 'fs.read'" },
	{ "{\"limit\": {}}", "p.json:1:2: unknown key 'limit' (did you mean 'limits'?)" },
	{ "{\"presets\": []}", "p.json:1:2: unknown key 'presets' (did you mean 'preset'?)" },
	{ "{\"nett\": {\"allow\": []}}", "p.json:1:2: unknown key 'nett' (did you mean 'net'?)" },
	{ "{\"net\": {\"allow\": \"x\"}}",
	  "p.json:1:19: net.allow must be a list of strings, not a string" },
	{ "{\"net\": {\"allow\": [\"x\", \"y:53\"]}}",
	  "p.json:1:25: net.allow: 'y:53' names port 53, which cannot be allowed" },
	{ "{\"net\": {\"publish\": [80]}}",
	  "p.json:1:22: net.publish must be a list of strings, not a whole number" },
	{ "{\"\": 1}", "p.json:1:2: unknown key ''" },
	{ "{\"fs\": []}", "p.json:1:8: fs must be an object, not a list" },
	{ "{\"fs\": {\"\": 1}}", "p.json:1:9: unknown key 'fs.' (did you mean 'fs'?)" },
	{ "{\"fs\": {\"read\": \"./data\"}}",
	  "p.json:1:17: fs.read must be a list of strings, not a string" },
	{ "{\"fs\": {\"read\": [1]}}",
	  "p.json:1:18: fs.read must be a list of strings, not a whole number" },
	{ "{\"fs\": {\"read\": null}}",
	  "p.json:1:17: fs.read must be a list of strings, not null" },
	{ "{\"fs\": {\"read\": [[]]}}",
	  "p.json:1:18: fs.read must be a list of strings, not a list" },
	{ "{\"fs\": {\"read\": [\"\"]}}", "p.json:1:18: fs.read: a path must not be empty" },
	{ "{\"fs\": {\"protect\": \"exist\"}}",
	  "p.json:1:20: fs.protect: unknown value 'exist' (did you mean 'existing'?)" },
	{ "{\"fs\": {\"protect\": 1}}",
	  "p.json:1:20: fs.protect must be on, existing or off, not a whole number" },
	{ "{\"env\": {\"set\": [\"A=B\"]}}",
	  "p.json:1:17: env.set must be an object of strings, not a list" },
	{ "{\"env\": {\"set\": {\"A\": 1}}}",
	  "p.json:1:23: env.set.A must be a string, not a whole number" },
	{ "{\"env\": {\"set\": {\"A=B\": \"x\"}}}",
	  "p.json:1:18: env.set: a variable's name must not contain '=': 'A=B'" },
	{ "{\"env\": {\"set\": {\"\": \"x\"}}}",
	  "p.json:1:18: env.set: a variable's name must not be empty" },
	{ "{\"env\": {\"set\": {\"A\\u001b\": \"x\"}}}",
	  "p.json:1:18: env.set: control character in the variable name 'A\\x1b'" },
	{ "{\"limits\": {\"wall\": 1.5}}", "p.json:1:21: limits.wall must be a duration such as "
					   "\"1.5s\" or whole seconds, not a number with a point" },
	{ "{\"limits\": {\"wall\": -1}}", "p.json:1:21: limits.wall must not be negative" },
	{ "{\"limits\": {\"wall\": 0}}", "p.json:1:21: limits.wall must be at least 1ms, not 0ms" },
	{ "{\"limits\": {\"wall\": 9223372036854775807}}",
	  "p.json:1:21: limits.wall is too large" },
	{ "{\"limits\": {\"procs\": 99999999999999999999}}",
	  "p.json:1:22: limits.procs must be a whole number, not a number beyond 64 bits" },
	{ "{\"limits\": {\"procs\": \"64\"}}",
	  "p.json:1:22: limits.procs must be a whole number, not a string" },
	{ "{\"limits\": {\"output\": true}}", "p.json:1:23: limits.output must be a size such as "
					      "\"1.5M\" or whole bytes, not true or false" },
	{ "{\"limits\": {\"output\": \"1X\"}}",
	  "p.json:1:23: limits.output: '1X' is not a size: unknown unit 'X' (units are K, M, G and "
	  "T, or KiB, MiB, GiB and TiB)" },
	{ "{\"isolation\": \"none\"}", "p.json:1:15: isolation: unknown value 'none'" },
	{ "{\"isolation\": 1}", "p.json:1:15: isolation must be a string, not a whole number" },
	{ "{\"require\": \"pid\"}",
	  "p.json:1:13: require must be a list of strings, not a string" },
	{ "{\"require\": [\"pid,net\"]}", "p.json:1:14: require: unknown layer 'pid,net'" },
	{ "{\"preset\": \"agnet\"}",
	  "p.json:1:12: unknown preset 'agnet' (did you mean 'agent'?)" },
	{ "{\"preset\": 7}",
	  "p.json:1:12: preset must be a name or a list of names, not a whole number" },
	{ "{\"preset\": [7]}",
	  "p.json:1:13: preset must be a name or a list of names, not a whole number" },
	{ "{\"version\": 2}", "p.json:1:13: version 2 is not known, only 1" },
	{ "{\"version\": \"1\"}", "p.json:1:13: version must be a whole number, not a string" },
	{ "{\"$schema\": 1}", "p.json:1:13: $schema must be a string, not a whole number" },
	{ "{\"user\": \"root\"}",
	  "p.json:1:10: user: user id: 'root' is not a number: it must start with a digit" },
};

static void test_refusals(void)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		struct cordon_policy *policy = fresh();
		struct cordon_error err = CORDON_ERROR_INIT;
		char *text;

		CHECK_INT(cordon_policy_set(policy, "cwd", "keep", NULL), 0);
		CHECK_INT(cordon_policy_json(policy, refusals[i].text, strlen(refusals[i].text),
					     "p.json", NULL, &err),
			  -CORDON_E_POLICY);
		CHECK_STR(err.msg, refusals[i].message);
		CHECK_INT(cordon_policy_json(policy, refusals[i].text, strlen(refusals[i].text),
					     NULL, NULL, NULL),
			  -CORDON_E_POLICY);
		text = to_json(policy);
		CHECK_STR(text, "{\n  \"cwd\": \"keep\"\n}");
		cordon_free(text);
		cordon_policy_free(policy);
	}
}

static void test_hints(void)
{
	struct cordon_policy *p = fresh();
	struct cordon_error err;

	cordon_policy_json(p, "{\"fs.read\": []}", 15, "p", NULL, &err);
	CHECK_STR(err.hint, "nest it: {\"fs\": {\"read\": ...}}");
	cordon_policy_json(p, "{\"commands\": \"git\"}", 19, "p", NULL, &err);
	CHECK_STR(err.hint, "put it in brackets: [\"git\"]");
	cordon_policy_json(p, "{\"preset\": \"qq\"}", 16, "p", NULL, &err);
	CHECK_STR(err.hint, "presets: agent, python, node, build, strict");
	cordon_policy_set(p, "require", "qqqq", &err);
	CHECK_STR(err.hint,
		  "layers: user, mount, pid, net, ipc, uts, landlock, seccomp, rlimits, cgroup, "
		  "protect, kvm");
	cordon_policy_free(p);
}

static const char full[] =
	"{\n"
	"  \"fs\": {\n"
	"    \"read\": [\n      \"/a\",\n      \"b/./c\"\n    ],\n"
	"    \"write\": [\n      \".\"\n    ],\n"
	"    \"deny\": [\n      \"/a/secret\"\n    ],\n"
	"    \"protect\": true\n  },\n"
	"  \"cwd\": \"sub\",\n"
	"  \"env\": {\n    \"pass\": [\n      \"LC_*\"\n    ],\n"
	"    \"set\": {\n      \"K\": \"a=b\\n\",\n      \"L\": \"\"\n    }\n  },\n"
	"  \"commands\": [\n    \"git\",\n    \"./tool\"\n  ],\n"
	"  \"net\": {\n    \"allow\": [\n      \"example.com:80,443\",\n"
	"      \"[2001:db8::/32]:22\"\n    ],\n"
	"    \"deny\": [\n      \"*.example.com\",\n      \"10.0.0.0/8:443\"\n    ],\n"
	"    \"publish\": [\n      \"0:8080\",\n      \"[::1]:1:2/udp\"\n    ],\n"
	"    \"max\": \"2G\"\n  },\n"
	"  \"limits\": {\n    \"wall\": \"1500ms\",\n    \"grace\": \"0ms\",\n"
	"    \"memory\": \"64M\",\n    \"procs\": 64,\n    \"cpu\": 0.5,\n"
	"    \"cpu_time\": \"2s\",\n    \"open_files\": 256,\n    \"disk\": \"1G\",\n"
	"    \"file_size\": \"1M\",\n    \"output\": \"1M\",\n    \"output_end\": true\n  },\n"
	"  \"isolation\": \"auto\",\n"
	"  \"require\": [\n    \"landlock:3\"\n  ],\n"
	"  \"best_effort\": [\n    \"disk\"\n  ],\n"
	"  \"user\": \"1000:100\"\n}";

static void test_round_trip(void)
{
	static const char *const texts[] = { full, "{}",
					     "{\n  \"net\": {\n    \"max\": \"1\"\n  }\n}",
					     "{\n  \"commands\": []\n}",
					     "{\n  \"fs\": {\n    \"protect\": false\n  }\n}" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct cordon_policy *p = fresh(), *copy = NULL;
		struct cordon_error err = CORDON_ERROR_INIT;
		char *text;

		CHECK_INT(cordon_policy_json(p, texts[i], strlen(texts[i]), "p", NULL, &err), 0);
		CHECK_STR(err.msg, "");
		text = to_json(p);
		CHECK_STR(text, texts[i]);
		cordon_free(text);
		CHECK_INT(cordon_policy_copy(p, &copy, &err), 0);
		cordon_policy_free(p);
		text = to_json(copy);
		CHECK_STR(text, texts[i]);
		cordon_free(text);
		cordon_policy_free(copy);
	}
}

static void test_base_dir(void)
{
	static const char text[] =
		"{\"fs\":{\"read\":[\"./data\",\"/abs//x\",\"../up\"]},\"cwd\":\".\","
		"\"commands\":[\"git\",\"bin/tool\"],\"$schema\":\"x\",\"version\":1}";
	struct cordon_policy *p = fresh();

	CHECK_INT(cordon_policy_json(p, text, strlen(text), "p", "/base/dir/", NULL), 0);
	CHECK_STR(p->fs_read.v[0], "/base/dir/data");
	CHECK_STR(p->fs_read.v[1], "/abs/x");
	CHECK_STR(p->fs_read.v[2], "/base/dir/../up");
	CHECK_STR(p->cwd, "/base/dir");
	CHECK_STR(p->commands.v[0], "git");
	CHECK_STR(p->commands.v[1], "/base/dir/bin/tool");
	cordon_policy_free(p);
}

static void test_depth_and_size(void)
{
	struct cordon_policy *p = fresh();
	struct cordon_error err;
	char *text = malloc(POLICY_FILE_MAX + 1);

	REQUIRE(text);
	memset(text, '[', POLICY_FILE_MAX + 1);
	CHECK_INT(cordon_policy_json(p, text, POLICY_FILE_MAX + 1, "p", NULL, &err),
		  -CORDON_E_POLICY);
	CHECK_STR(err.msg, "p: larger than 1048576 bytes");
	CHECK_INT(cordon_policy_json(p, text, POLICY_FILE_MAX, "p", NULL, &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg, "p:1:33: nested deeper than 32 levels");
	/* As many entries as fit: the list's own maximum says stop. */
	size_t n = (size_t)snprintf(text, 100, "{\"commands\":[\"0\"");

	for (int i = 1; i < 2000; i++)
		n += (size_t)snprintf(text + n, 16, ",\"%d\"", i);
	n += (size_t)snprintf(text + n, 16, "]}");
	CHECK_INT(cordon_policy_json(p, text, n, "p", NULL, &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg, "p:1:6072: commands has more than 1024 entries");
	free(text);
	cordon_policy_free(p);
}

static char dir[] = "/tmp/cordon-policy-test-XXXXXX";

static void put_file(const char *path, const char *text, off_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	REQUIRE(fd >= 0);
	CHECK_INT(write(fd, text, strlen(text)), strlen(text));
	if (size)
		CHECK_INT(ftruncate(fd, size), 0);
	close(fd);
}

static void test_file(void)
{
	struct cordon_policy *p = fresh();
	struct cordon_error err = CORDON_ERROR_INIT;
	char want[PATH_MAX], cwd[PATH_MAX];

	REQUIRE(getcwd(cwd, sizeof(cwd)) && mkdtemp(dir) && chdir(dir) == 0);
	CHECK_INT(mkdir("sub", 0700), 0);
	put_file("sub/p.json", "{\"fs\": {\"read\": [\"./data\"]}}", 0);
	put_file("big.json", "{}", (off_t)POLICY_FILE_MAX + 1);
	put_file("bad.json", "{", 0);
	CHECK_INT(symlink("sub/p.json", "link.json"), 0);
	CHECK_INT(mkfifo("fifo", 0600), 0);

	CHECK_INT(cordon_policy_file(p, "sub/p.json", &err), 0);
	CHECK_STR(err.msg, "");
	CHECK_INT(cordon_policy_file(p, "link.json", &err), 0);
	snprintf(want, sizeof(want), "%s/sub/../sub/p.json", dir);
	CHECK_INT(cordon_policy_file(p, want, &err), 0);
	REQUIRE(p->fs_read.n == 3);
	snprintf(want, sizeof(want), "%s/sub/data", dir);
	CHECK_STR(p->fs_read.v[0], want);
	snprintf(want, sizeof(want), "%s/data", dir);
	CHECK_STR(p->fs_read.v[1], want);
	snprintf(want, sizeof(want), "%s/sub/../sub/data", dir);
	CHECK_STR(p->fs_read.v[2], want);

	CHECK_INT(cordon_policy_file(p, "none.json", &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg, "cannot open policy 'none.json': no such file or directory");
	CHECK_INT(cordon_policy_file(p, "fifo", &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg, "policy 'fifo' is not a regular file");
	CHECK_INT(cordon_policy_file(p, "sub", &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg, "policy 'sub' is not a regular file");
	CHECK_INT(cordon_policy_file(p, "/dev/zero", &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg, "policy '/dev/zero' is not a regular file");
	CHECK_INT(cordon_policy_file(p, "big.json", &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg, "big.json: larger than 1048576 bytes");
	CHECK_INT(cordon_policy_file(p, "bad.json", &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg,
		  "bad.json:1:2: expected a key in double quotes, found the end of the document");
	CHECK_INT(cordon_policy_file(p, "", &err), -CORDON_E_POLICY);

	unlink("sub/p.json");
	unlink("big.json");
	unlink("bad.json");
	unlink("link.json");
	unlink("fifo");
	rmdir("sub");
	CHECK_INT(chdir(cwd), 0);
	CHECK_INT(rmdir(dir), 0);
	cordon_policy_free(p);
}

TAP_MAIN(test_refusals, test_hints, test_round_trip, test_base_dir, test_depth_and_size, test_file)

/* SPDX-License-Identifier: Apache-2.0 */
/* Single settings: what each key takes, what it refuses and with which words. */
#include <limits.h>

#include <cordon/run.h>

#include "format/gateway.h"
#include "policy/keys.h"
#include "policy/policy.h"
#include "tap.h"

static struct cordon_policy *fresh(void)
{
	struct cordon_policy *policy = NULL;

	if (cordon_policy_new(&policy, NULL) < 0)
		abort();
	return policy;
}

static const struct {
	const char *key, *value, *message;
} refusals[] = {
	{ "fs.raed", "x", "unknown key 'fs.raed' (did you mean 'fs.read'?)" },
	{ "read", "x", "unknown key 'read' (did you mean 'fs.read'?)" },
	{ "limits.memroy", "1M", "unknown key 'limits.memroy' (did you mean 'limits.memory'?)" },
	{ "qqqqqqq", "x", "unknown key 'qqqqqqq'" },
	{ "\x1b[1m", "x", "unknown key '\\x1b[1m'" },
	{ "", "x", "unknown key ''" },
	{ "fs.read", "", "fs.read: a path must not be empty" },
	{ "fs.write", "~x/y", "fs.write: '~x/y': only ~ and ~/ are expanded" },
	{ "cwd", "~root", "cwd: '~root': only ~ and ~/ are expanded" },
	{ "cwd", "", "cwd: a path must not be empty" },
	{ "fs.protect", "maybe", "fs.protect: unknown value 'maybe'" },
	{ "fs.protect", "onn", "fs.protect: unknown value 'onn' (did you mean 'on'?)" },
	{ "env.pass", "", "env.pass: a variable's name must not be empty" },
	{ "env.pass", "A=B", "env.pass: a variable's name must not contain '=': 'A=B'" },
	{ "env.pass", "A*B", "env.pass: '*' may only end a name: 'A*B'" },
	{ "env.pass", "A**", "env.pass: '*' may only end a name: 'A**'" },
	{ "env.pass", "*",
	  "env.pass: '*' alone would pass every variable with its secrets; give names or a "
	  "prefix" },
	{ "env.pass", "A\nB", "env.pass: control character in the variable name 'A\\x0aB'" },
	{ "env.set", "NAME", "env.set: 'NAME' is not NAME=VALUE" },
	{ "env.set", "=x", "env.set: a variable's name must not be empty" },
	{ "env.set", "A\x1b=x", "env.set: control character in the variable name 'A\\x1b'" },
	{ "commands", "git,,ls", "commands: a program name must not be empty" },
	{ "commands", "git,", "commands: a program name must not be empty" },
	{ "commands", "..", "commands: '..' is not a program" },
	{ "commands", "bin/", "commands: 'bin/' is not a program" },
	{ "net.allow", "", "net.allow: '' is empty" },
	{ "net.allow", "https://example.com/", "net.allow: 'https://example.com/' is a URL" },
	{ "net.allow", "x:53", "net.allow: 'x:53' names port 53, which cannot be allowed" },
	{ "net.allow", "a b", "net.allow: 'a b' has a space or control character in it" },
	{ "net.allow", "a\x1b", "net.allow: 'a\\x1b' has a space or control character in it" },
	{ "net.deny", "10.0.0.1/8", "net.deny: '10.0.0.1/8' has bits set beyond its prefix" },
	{ "net.deny", "*", "net.deny: '*' has a * where it is not allowed" },
	{ "net.publish", "0",
	  "net.publish: '0' has an invalid port inside the sandbox; ports are 1 to 65535" },
	{ "net.publish", "80/sctp",
	  "net.publish: '80/sctp' ends in a protocol that is neither tcp nor udp" },
	{ "net.max", "0", "net.max must be at least 1, not 0" },
	{ "limits.wall", "", "limits.wall: a duration is missing (such as 500ms, 30s or 5m)" },
	{ "limits.wall", "0", "limits.wall must be at least 1ms, not 0ms" },
	{ "limits.wall", "0.1ms", "limits.wall must be at least 1ms, not 0ms" },
	{ "limits.wall", "10000h", "limits.wall must be at most 8784h, not 10000h" },
	{ "limits.wall", "-5s", "limits.wall: '-5s' is not a duration: it must not be negative" },
	{ "limits.procs", "0", "limits.procs must be at least 1, not 0" },
	{ "limits.procs", "64K", "limits.procs: '64K' is not a number: only digits are allowed" },
	{ "limits.procs", "5000000", "limits.procs must be at most 4194304, not 5000000" },
	{ "limits.open_files", "3", "limits.open_files must be at least 4, not 3" },
	{ "limits.memory", "0", "limits.memory must be at least 1M, not 0" },
	{ "limits.memory", "512K", "limits.memory must be at least 1M, not 512K" },
	{ "limits.memory", "-1", "limits.memory: '-1' is not a size: it must not be negative" },
	{ "limits.memory", "9999999999999999G",
	  "limits.memory: '9999999999999999G' is not a size: it is too large" },
	{ "limits.memory", "1MB",
	  "limits.memory: '1MB' is not a size: 'MB' can mean two things, write 'M' or 'MiB' "
	  "(1024-based)" },
	{ "limits.cpu", "0", "limits.cpu must be at least 0.01, not 0" },
	{ "limits.cpu", "0.001", "limits.cpu must be at least 0.01, not 0.001" },
	{ "limits.cpu", "5000", "limits.cpu must be at most 4096, not 5000" },
	{ "limits.cpu", "50%",
	  "limits.cpu: '50%' is not a number of CPUs: only digits and a point are allowed" },
	{ "limits.cpu", "nan", "limits.cpu: 'nan' is not a number of CPUs: it must be finite" },
	{ "limits.cpu_time", "1ms", "limits.cpu_time must be at least 10ms, not 1ms" },
	{ "limits.grace", "2h", "limits.grace must be at most 1h, not 2h" },
	{ "limits.disk", "1K", "limits.disk must be at least 64K, not 1K" },
	{ "limits.file_size", "0", "limits.file_size must be at least 1, not 0" },
	{ "limits.file_size", "1e3",
	  "limits.file_size: '1e3' is not a size: unknown unit 'e3' (units are K, M, G and T, or "
	  "KiB, MiB, GiB and TiB)" },
	{ "limits.output_end", "yes", "limits.output_end: unknown value 'yes'" },
	{ "best_effort", "memroy", "best_effort: unknown limit 'memroy' (did you mean 'memory'?)" },
	{ "limits.output", "0", "limits.output must be at least 1, not 0" },
	{ "limits.output", "2T", "limits.output must be at most 1T, not 2T" },
	{ "isolation", "landlok", "isolation: unknown value 'landlok' (did you mean 'landlock'?)" },
	{ "isolation", "", "isolation: unknown value ''" },
	{ "require", "secomp", "require: unknown layer 'secomp' (did you mean 'seccomp'?)" },
	{ "require", "pid,,net", "require: unknown layer ''" },
	{ "require", "landlock:0", "require: 'landlock:0' is no version of Landlock's interface" },
	{ "require", "landlock:x",
	  "require: landlock:x: 'x' is not a number: it must start with a digit" },
	{ "require", "landlock:", "require: landlock:: a number is missing (such as 64)" },
	{ "user", "0", "user: user id 0 is root, which a sandbox never is" },
	{ "user", "1000:0", "user: group id 0 is root, which a sandbox never is" },
	{ "user", "4294967295", "user: user id 4294967295 is too large" },
	{ "user", "nobody", "user: user id: 'nobody' is not a number: it must start with a digit" },
	{ "user", "1000:", "user: group id: a number is missing (such as 64)" },
	{ "user", "1:2:3", "user: group id: '2:3' is not a number: only digits are allowed" },
	{ "user", "", "user: user id: a number is missing (such as 64)" },
};

static void test_refusals(void)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		struct cordon_policy *policy = fresh();
		struct cordon_error err = CORDON_ERROR_INIT;
		char *text = NULL;

		CHECK_INT(cordon_policy_set(policy, refusals[i].key, refusals[i].value, &err),
			  -CORDON_E_POLICY);
		CHECK_STR(err.msg, refusals[i].message);
		CHECK_INT(cordon_policy_set(policy, refusals[i].key, refusals[i].value, NULL),
			  -CORDON_E_POLICY);
		/* A refused setting leaves no trace. */
		CHECK_INT(cordon_policy_to_json(policy, &text, NULL), 0);
		CHECK_STR(text, "{}");
		cordon_free(text);
		cordon_policy_free(policy);
	}
}

static void test_values(void)
{
	struct cordon_policy *p = fresh();
	struct cordon_error err = CORDON_ERROR_INIT;

#define SET(key, value) CHECK_INT(cordon_policy_set(p, key, value, &err), 0)
	SET("fs.read", "./data");
	SET("fs.read", "/x\n");
	SET("fs.read", "./data");
	CHECK_INT(p->fs_read.n, 2);
	CHECK_STR(p->fs_read.v[0], "./data");
	CHECK_INT(p->protect, -1);
	SET("fs.protect", "off");
	CHECK_INT(p->protect, 0);
	SET("fs.protect", "on");
	CHECK_INT(p->protect, 1);
	SET("cwd", "a");
	SET("cwd", "b");
	CHECK_STR(p->cwd, "b");
	SET("env.pass", "LC_*");
	SET("env.set", "A=1");
	SET("env.set", "AB=2");
	SET("env.set", "A=");
	SET("env.set", "C=x=y\n");
	CHECK_INT(p->env_set.n, 3);
	CHECK_STR(p->env_set.v[0], "A=");
	CHECK_STR(p->env_set.v[1], "AB=2");
	CHECK_STR(p->env_set.v[2], "C=x=y\n");
	CHECK_INT(p->commands_set, 0);
	SET("commands", "");
	CHECK_INT(p->commands_set, 1);
	CHECK_INT(p->commands.n, 0);
	SET("commands", "git,./tool");
	SET("commands", "git");
	CHECK_INT(p->commands.n, 2);
	CHECK_INT(p->net_max_bytes, -1);
	SET("net.allow", "Example.com");
	SET("net.allow", "example.com:443,80");
	SET("net.deny", "a.example.com");
	SET("net.publish", "0:8080/tcp");
	SET("net.max", "1G");
	CHECK_INT(p->net_allow.n, 1);
	CHECK_STR(p->net_allow.v[0], "example.com:80,443");
	CHECK_STR(p->net_deny.v[0], "a.example.com");
	CHECK_STR(p->net_publish.v[0], "0:8080/tcp");
	CHECK_INT(p->net_max_bytes, 1 << 30);
	SET("limits.wall", "1.5s");
	CHECK_INT(p->wall_ms, 1500);
	SET("limits.procs", "64");
	SET("limits.open_files", "256");
	SET("limits.output", "1M");
	CHECK_INT(p->procs, 64);
	CHECK_INT(p->open_files, 256);
	CHECK_INT(p->output_bytes, 1 << 20);
	SET("limits.memory", "64M");
	SET("limits.cpu", "0.5");
	SET("limits.cpu_time", "2s");
	SET("limits.grace", "0");
	SET("limits.disk", "1M");
	SET("limits.file_size", "1");
	SET("limits.output_end", "on");
	SET("best_effort", "procs,disk");
	CHECK_INT(p->memory_bytes, 64 << 20);
	CHECK_INT(p->cpu_milli, 500);
	CHECK_INT(p->cpu_time_ms, 2000);
	CHECK_INT(p->grace_ms, 0);
	CHECK_INT(p->disk_bytes, 1 << 20);
	CHECK_INT(p->file_size_bytes, 1);
	CHECK_INT(p->output_end, 1);
	CHECK_INT(p->best_effort.n, 2);
	CHECK_INT(p->isolation, -1);
	SET("isolation", "namespaces");
	CHECK_INT(p->isolation, CORDON_LEVEL_NAMESPACES);
	SET("require", "pid,landlock:7");
	CHECK_INT(p->require.n, 2);
	SET("user", "1000:100");
	CHECK_STR(p->user, "1000:100");
	CHECK_STR(err.msg, "");
	cordon_policy_free(p);
}

static void test_net_hints(void)
{
	struct cordon_policy *p = fresh();
	struct cordon_error err;

	cordon_policy_set(p, "net.deny", "10.0.0.1/8", &err);
	CHECK_STR(err.hint, "the network is 10.0.0.0/8");
	cordon_policy_set(p, "net.allow",
			  "b\xc3\xbc"
			  "cher.example",
			  &err);
	CHECK_STR(err.hint, "write the name in its ASCII form, which begins with xn--");
	CHECK_INT(cordon_policy_set(p, "net.allow", "x:53", NULL), -CORDON_E_POLICY);
	cordon_policy_free(p);
}

static void test_net_bounds(void)
{
	struct cordon_policy *p = fresh();
	struct cordon_error err;
	char text[64];

	for (int i = 0; i < NET_RULES_MAX; i++) {
		snprintf(text, sizeof(text), "h%d.example", i);
		SET("net.allow", text);
		SET("net.deny", text);
	}
	SET("net.allow", "h0.example:443,80");
	CHECK_INT(cordon_policy_set(p, "net.allow", "one.more", &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg, "net.allow has more than 256 rules");
	CHECK_INT(cordon_policy_set(p, "net.deny", "one.more", &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg, "net.deny has more than 256 rules");
	cordon_policy_free(p);

	p = fresh();
	for (int i = 0; i < NET_PORTS_MAX; i += 2) {
		snprintf(text, sizeof(text), "[2001:db8::%d]:%d,%d", i + 1, 1000 + i, 1001 + i);
		SET("net.allow", text);
	}
	SET("net.allow", "example.com:1000,1001,1063");
	CHECK_INT(cordon_policy_set(p, "net.allow", "example.com", &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg, "net.allow: the rules name more than 64 different ports");
	CHECK_INT(p->net_allow.n, NET_PORTS_MAX / 2 + 1);
	/* It is about listeners, which rules to deny do not need. */
	for (int i = 0; i < NET_PORTS_MAX + 2; i++) {
		snprintf(text, sizeof(text), "example.com:%d", 2000 + i);
		SET("net.deny", text);
	}
	cordon_policy_free(p);

	p = fresh();
	for (int i = 1; i < GATEWAY_PUBLISH_MAX; i += 2) {
		snprintf(text, sizeof(text), "%d", i);
		SET("net.publish", text);
	}
	SET("net.publish", "1:1");
	CHECK_INT(cordon_policy_set(p, "net.publish", "99/udp", &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg, "net.publish has more than 32 ports, TCP and UDP counted apart");
	CHECK_STR(err.hint, "write /tcp or /udp where only one is needed");
	cordon_policy_free(p);
}

static void test_a_failed_list_adds_nothing(void)
{
	struct cordon_policy *p = fresh();
	struct cordon_error err;

	SET("commands", "git");
	CHECK_INT(cordon_policy_set(p, "commands", "make,..", NULL), -CORDON_E_POLICY);
	CHECK_INT(p->commands.n, 1);
	CHECK_INT(cordon_policy_set(p, "require", "pid,nope", NULL), -CORDON_E_POLICY);
	CHECK_INT(p->require.n, 0);
	cordon_policy_free(p);
}

static void test_maxima(void)
{
	struct cordon_policy *p = fresh();
	struct cordon_error err;
	char name[32], *text = malloc(140000);

	REQUIRE(text);
	for (int i = 0; i < POLICY_LIST_MAX; i++) {
		snprintf(name, sizeof(name), "/p%d", i);
		SET("fs.deny", name);
	}
	SET("fs.deny", "/p0");
	CHECK_INT(cordon_policy_set(p, "fs.deny", "/more", &err), -CORDON_E_POLICY);
	CHECK_STR(err.msg, "fs.deny has more than 1024 entries");

	memset(text, 'p', 140000);
	text[0] = '/';
	text[PATH_MAX] = '\0';
	CHECK_INT(cordon_policy_set(p, "fs.read", text, &err), -CORDON_E_POLICY);
	CHECK(strncmp(err.msg, "fs.read: a path is longer than 4095 bytes: '/ppp", 48) == 0);
	text[PATH_MAX - 1] = '\0';
	SET("fs.read", text);

	memset(text, 'N', 140000);
	text[256] = '\0';
	CHECK_INT(cordon_policy_set(p, "env.pass", text, &err), -CORDON_E_POLICY);
	text[255] = '\0';
	SET("env.pass", text);
	text[255] = '=';
	text[256] = 'v';
	text[131071] = '\0';
	SET("env.set", text);
	text[131071] = 'v';
	text[131072] = '\0';
	CHECK_INT(cordon_policy_set(p, "env.set", text, &err), -CORDON_E_POLICY);
	free(text);
	cordon_policy_free(p);
}

static void test_misuse(void)
{
	struct cordon_policy *p = fresh(), *copy = NULL;
	char *text = NULL;

	CHECK_INT(cordon_policy_new(NULL, NULL), -CORDON_E_USAGE);
	CHECK_INT(cordon_policy_set(NULL, "cwd", "x", NULL), -CORDON_E_USAGE);
	CHECK_INT(cordon_policy_set(p, NULL, "x", NULL), -CORDON_E_USAGE);
	CHECK_INT(cordon_policy_set(p, "cwd", NULL, NULL), -CORDON_E_USAGE);
	CHECK_INT(cordon_policy_preset(p, NULL, NULL), -CORDON_E_USAGE);
	CHECK_INT(cordon_policy_json(p, NULL, 0, NULL, NULL, NULL), -CORDON_E_USAGE);
	CHECK_INT(cordon_policy_json(p, "{}", 2, NULL, "", NULL), -CORDON_E_USAGE);
	CHECK_INT(cordon_policy_file(p, NULL, NULL), -CORDON_E_USAGE);
	CHECK_INT(cordon_policy_copy(NULL, &copy, NULL), -CORDON_E_USAGE);
	CHECK_INT(cordon_policy_to_json(p, NULL, NULL), -CORDON_E_USAGE);
	CHECK_INT(cordon_policy_to_json(NULL, &text, NULL), -CORDON_E_USAGE);
	cordon_policy_free(NULL);
	cordon_free(NULL);
	cordon_policy_free(p);
}

/* The writer opens each group once, so its keys must stand together. */
static void check_group(size_t at, const char *group)
{
	size_t len = strlen(group);
	int left = 0;

	for (size_t i = at; i < policy_keys_count; i++) {
		if (strncmp(policy_keys[i].name, group, len) != 0 ||
		    policy_keys[i].name[len] != '.')
			left = 1;
		else
			CHECK_MSG(!left, "%s stands apart from its group", policy_keys[i].name);
	}
}

static void test_key_table(void)
{
	for (size_t i = 0; i < policy_keys_count; i++) {
		const struct policy_key *key = &policy_keys[i];
		char group[32];

		CHECK(policy_key_find(key->name) == key);
		CHECK(key->flag && key->doc && key->default_text);
		CHECK(key->type < POLICY_TYPE_MAX);
		if (!strchr(key->name, '.'))
			continue;
		snprintf(group, sizeof(group), "%.*s", (int)strcspn(key->name, "."), key->name);
		CHECK(policy_key_is_group(group));
		CHECK_STR(policy_key_suggest(group), group);
		check_group(i, group);
	}
	CHECK(!policy_key_is_group("cwd"));
	CHECK(!policy_key_is_group("f"));
	CHECK(!policy_key_is_group(""));
}

TAP_MAIN(test_refusals, test_values, test_net_hints, test_net_bounds,
	 test_a_failed_list_adds_nothing, test_maxima, test_misuse, test_key_table)

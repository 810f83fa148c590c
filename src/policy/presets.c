/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The presets. They are settings and not JSON text, so that using one costs no JSON parser.
 *
 * A preset is a starting point: files and flags come later and win, lists add up. So a preset gives
 * only what its kind of work needs, and limits that honest work does not reach.
 */
#include "policy/presets.h"

#include <string.h>

#include "base/err.h"
#include "base/nearest.h"
#include "policy/policy_internal.h"

static const struct policy_setting agent[] = {
	/* Agents edit the project they are started in ... */
	{ "fs.write", "." },
	/* ... but not what would run later on the host, outside the sandbox. */
	{ "fs.protect", "on" },
	/* Nor read the secrets that usually lie beside the code. Patterns, since a name would be
	 * held if it did not exist; and here only, since a search of the whole tree takes time. */
	{ "fs.deny", "./.env!(.example|.sample|.template|.dist|.defaults|.schema)" },
	{ "fs.deny", "./id_@(rsa|dsa|ecdsa|ed25519)" },
	{ "fs.deny", "./*.@(key|p12|pfx|jks|keystore)" },
	{ "fs.deny", "./config/*.key" },
	{ "fs.deny", "./.@(netrc|pypirc|git-credentials|htpasswd)" },
	/* A tool call that takes longer hangs or waits for input. */
	{ "limits.wall", "10m" },
	/* Test runners and language servers start many threads; a fork bomb ends here. */
	{ "limits.procs", "512" },
	/* More than any model reads, less than what makes its host swap. */
	{ "limits.output", "16M" },
};

static const struct policy_setting python[] = {
	/* The code's directory is read-only: do not try to write __pycache__ into it. */
	{ "env.set", "PYTHONDONTWRITEBYTECODE=1" },
	/* Output is a pipe: without this, what was printed before a timeout is lost. */
	{ "env.set", "PYTHONUNBUFFERED=1" },
	/* Snippets compute and answer; a longer job says so with -t. */
	{ "limits.wall", "30s" },
	/* Numeric libraries start a thread per core, process pools a process per core. */
	{ "limits.procs", "128" },
	{ "limits.output", "1M" },
};

static const struct policy_setting node[] = {
	/* There is no network for updates, audits or funding notes. */
	{ "env.set", "npm_config_update_notifier=false" },
	{ "env.set", "npm_config_audit=false" },
	{ "env.set", "npm_config_fund=false" },
	/* Starting up large dependency trees takes a while. */
	{ "limits.wall", "60s" },
	/* Each node process has about ten threads. */
	{ "limits.procs", "256" },
	/* Watchers and bundlers keep whole module trees open. */
	{ "limits.open_files", "4096" },
	{ "limits.output", "4M" },
};

static const struct policy_setting build[] = {
	/* Builds write into their source tree. */
	{ "fs.write", "." },
	{ "fs.protect", "on" },
	/* make -j and linkers with a thread per core. */
	{ "limits.procs", "1024" },
	/* Linkers open every object at once. */
	{ "limits.open_files", "4096" },
	/* A build that hangs should not block its runner all night. */
	{ "limits.wall", "1h" },
	{ "limits.output", "64M" },
};

static const struct policy_setting strict[] = {
	/* A machine that lacks a layer refuses to run instead of degrading. */
	{ "isolation", "namespaces" },
	{ "require", "user,mount,pid,net,ipc,uts,landlock,seccomp,rlimits,protect" },
	{ "fs.protect", "on" },
	/* Enough for a small pipeline. */
	{ "limits.procs", "32" },
	{ "limits.memory", "512M" },
	{ "limits.open_files", "64" },
	{ "limits.wall", "10s" },
	{ "limits.output", "1M" },
};

#define PRESET(id, text) { .name = #id, .doc = text, .settings = id, .n_settings = ARRAY_SIZE(id) }

const struct policy_preset policy_presets[] = {
	PRESET(agent, "a tool call of a coding agent: may change the current directory"),
	PRESET(python, "a Python program: reads its directory, changes nothing"),
	PRESET(node, "a Node.js program: reads its directory, changes nothing"),
	PRESET(build, "a build: may change the current directory, many processes and files"),
	PRESET(strict, "short, small, and only with every layer in place"),
};
const size_t policy_presets_count = ARRAY_SIZE(policy_presets);

static int unknown_preset(const char *name, struct cordon_error *err)
{
	struct nearest n;
	size_t i;

	nearest_init(&n, name);
	for (i = 0; i < policy_presets_count; i++)
		nearest_offer(&n, policy_presets[i].name);
	if (n.best)
		return cordon_err(err, CORDON_E_POLICY, 0,
				  "unknown preset '%.40s' (did you mean '%s'?)", name, n.best);
	cordon_err(err, CORDON_E_POLICY, 0, "unknown preset '%.40s'", name);
	for (i = 0; i < policy_presets_count && err; i++)
		cordon_err_hint(err, "%s%s%s",
				err->hint[0] ? err->hint : "presets: ", i ? ", " : "",
				policy_presets[i].name);
	return -CORDON_E_POLICY;
}

int cordon_policy_preset(struct cordon_policy *policy, const char *name, struct cordon_error *err)
{
	const struct policy_preset *preset = NULL;
	struct cordon_policy settings;
	size_t i;
	int r = 0;

	if (!policy || !name)
		return cordon_err(err, CORDON_E_USAGE, 0,
				  "cordon_policy_preset: an argument is NULL");
	for (i = 0; i < policy_presets_count; i++)
		if (strcmp(policy_presets[i].name, name) == 0)
			preset = &policy_presets[i];
	if (!preset)
		return unknown_preset(name, err);

	policy_init(&settings);
	for (i = 0; i < preset->n_settings && r == 0; i++)
		r = cordon_policy_set(&settings, preset->settings[i].key, preset->settings[i].value,
				      err);
	settings.here_is_presets = strlist_has(&settings.fs_write, POLICY_HERE);
	if (r == 0)
		r = policy_merge(policy, &settings, err);
	policy_done(&settings);
	return r;
}

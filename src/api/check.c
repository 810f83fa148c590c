/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this machine offers. Nothing is guessed from version numbers: each level is tested with a
 * run of true(1), and its failure says which layer is missing and why.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cordon/check.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json_write.h"
#include "device/device.h"
#include "format/stage.h"
#include "launch/launch.h"
#include "probe/kvm.h"
#include "uapi/landlock.h"

#define ITEMS_MAX (32 + GPUS_MAX)
#define TRIAL_MS 10000
#define TEST_ADDRESS "192.0.2.1" /* reserved for documentation */

struct cordon_check {
	struct arena arena;
	struct cordon_check_item items[ITEMS_MAX];
	size_t n;
	int level;
	/* What runs at each level lack, by enum cordon_level; NULL = the level does not work. */
	const char **missing[CORDON_LEVEL_MAX];
};

struct trial {
	int worked;
	int mechanism; /* of the workspace, 0 = there was none */
	struct cordon_error error;
};

#define TRIAL_INIT { 0, 0, CORDON_ERROR_INIT }

/* Keeps what the receipt of a run at this level says. */
static const char **copy_missing(struct cordon_check *c, const char *const *names)
{
	struct strlist list = { 0 };

	for (; names && *names; names++) {
		const char *name = arena_strdup(&c->arena, *names);

		if (!name || strlist_add(&c->arena, &list, name) < 0)
			return NULL;
	}
	return strlist_add(&c->arena, &list, NULL) < 0 ? NULL : list.v;
}

/* Something that ends at once. NixOS has nothing but a shell in /bin. */
static const char *const *trial_argv(void)
{
	static const char *const programs[][4] = {
		{ "/bin/true", NULL },
		{ "/usr/bin/true", NULL },
		{ "/bin/sh", "-c", ":", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		if (access(programs[i][0], X_OK) == 0)
			return programs[i];
	return programs[0];
}

/* @key: one more key of the policy, or NULL. @c, if not NULL: keeps what such a run lacks. */
static void run_trial_for(struct cordon_check *c, struct cordon_launcher *l, const char *level,
			  const char *key, const char *value, struct trial *ret)
{
	struct cordon_run_options options = CORDON_RUN_OPTIONS_INIT;
	struct cordon_policy *policy = NULL;
	struct cordon_run *run = NULL;
	struct cordon_error *err = &ret->error;

	options.argv = trial_argv();
	options.cwd = "/";
	if (cordon_policy_new(&policy, err) == 0 &&
	    cordon_policy_set(policy, "isolation", level, err) == 0 &&
	    (!key || cordon_policy_set(policy, key, value, err) == 0) &&
	    cordon_run_start(l, policy, &options, &run, err) == 0 &&
	    cordon_run_wait(run, TRIAL_MS, err) == 1) {
		const struct cordon_result *res = cordon_run_result(run);

		ret->worked = res->kind == CORDON_KIND_EXITED && res->exit_code == 0;
		if (!ret->worked)
			*err = res->error;
		if (res->workspace)
			ret->mechanism = res->workspace->mechanism;
		if (c && ret->worked)
			c->missing[res->level] = copy_missing(c, res->missing);
	}
	cordon_run_free(run);
	cordon_policy_free(policy);
}

static void add(struct cordon_check *c, const char *name, const char *state, const char *detail,
		const char *remedy)
{
	if (c->n < ITEMS_MAX)
		c->items[c->n++] = (struct cordon_check_item){ name, state, detail, remedy };
}

static void run_trial(struct cordon_launcher *l, const char *level, const char *key,
		      const char *value, struct trial *ret)
{
	run_trial_for(NULL, l, level, key, value, ret);
}

static const char *error_text(struct cordon_check *c, const struct cordon_error *err)
{
	const char *text = arena_strdup(&c->arena, err->msg[0] ? err->msg : "it did not end");

	return text ? text : "out of memory";
}

static const char *hint_text(struct cordon_check *c, const struct cordon_error *err)
{
	return err->hint[0] ? arena_strdup(&c->arena, err->hint) : NULL;
}

/* Ubuntu: user namespaces are for programs that have a profile. */
static bool apparmor_restricts(void)
{
	char value[2] = "";
	int fd = open("/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
		      O_RDONLY | O_CLOEXEC);
	bool is_on = fd >= 0 && read(fd, value, 1) == 1 && value[0] != '0';

	if (fd >= 0)
		close(fd);
	return is_on;
}

static const char *userns_remedy(struct cordon_check *c, const struct cordon_error *err)
{
	/* What has nothing to do with namespaces has a remedy of its own. */
	if (err->stage < STAGE_USERNS || err->stage > STAGE_NET)
		return hint_text(c, err);
	if (err->sys_errno == ENOSPC || err->sys_errno == EUSERS)
		return "raise the sysctls user.max_user_namespaces and user.max_*_namespaces";
	if (geteuid() != 0 && apparmor_restricts())
		return "AppArmor keeps user namespaces from programs without a profile: as root, "
		       "copy share/cordon/apparmor/cordon from Cordon's prefix to /etc/apparmor.d "
		       "and load it with apparmor_parser -r /etc/apparmor.d/cordon";
	return "in a container: start it with a seccomp profile that allows unshare and mount and "
	       "with /proc unmasked; on a host: check the sysctls kernel.unprivileged_userns_clone "
	       "and kernel.apparmor_restrict_unprivileged_userns";
}

static void add_namespaces(struct cordon_check *c, const struct trial *trial)
{
	static const struct {
		const char *name, *detail;
	} layers[] = {
		{ "user", "own user namespace, never root on the host" },
		{ "mount", "only the grants exist; everything else is hidden" },
		{ "pid", "no other process is visible; the tree ends with the run" },
		{ "net", "no network but the sandbox's own loopback and what is allowed" },
		{ "ipc", "no shared memory, semaphores or queues of others" },
		{ "uts", "own host name" },
	};
	int failed_at = trial->error.stage;

	for (size_t i = 0; i < ARRAY_SIZE(layers); i++) {
		int is_cause = (i == 0 && failed_at <= STAGE_USERNS) ||
			       (i == 1 && failed_at == STAGE_MOUNTS) ||
			       (i == 3 && failed_at == STAGE_NET);

		if (trial->worked)
			add(c, layers[i].name, "yes", layers[i].detail, NULL);
		else
			add(c, layers[i].name, "no",
			    is_cause ? error_text(c, &trial->error) : layers[i].detail,
			    is_cause ? userns_remedy(c, &trial->error) : NULL);
	}
}

static void add_landlock(struct cordon_check *c, const struct probe_machine *m)
{
	const char *detail = arena_printf(&c->arena, "ABI %d", m->landlock_abi);

	if (m->landlock_abi == -EPERM || m->landlock_abi == -EACCES) {
		add(c, "landlock", "no", "something around Cordon refuses it",
		    "a filter or a security module has to allow the landlock_* system calls");
		return;
	}
	if (m->landlock_abi < 1) {
		add(c, "landlock", "no", "the kernel does not offer it",
		    "Linux 5.13 or newer with Landlock enabled: boot with lsm=landlock,... or "
		    "CONFIG_LSM");
		return;
	}
	if (m->landlock_abi > LANDLOCK_ABI_KNOWN)
		detail = arena_printf(&c->arena, "ABI %d; Cordon knows the rights up to ABI %d",
				      m->landlock_abi, LANDLOCK_ABI_KNOWN);
	add(c, "landlock", "yes", detail ? detail : "", NULL);
}

static void add_landlock_level(struct cordon_check *c, const struct trial *trial,
			       const struct probe_machine *m)
{
	if (!trial->worked) {
		add(c, "level landlock", "no", error_text(c, &trial->error),
		    hint_text(c, &trial->error));
		return;
	}
	add(c, "level landlock", "yes",
	    m->landlock_abi >= 9
		    ? "cannot hide the metadata of files outside the grants, nor other processes' "
		      "names"
		    : "cannot hide the metadata of files outside the grants, nor other processes' "
		      "names; Unix sockets are refused below Landlock ABI 9",
	    NULL);
}

/* Starts a gateway, with a rule for an address that no host has. */
static void add_net_allow(struct cordon_check *c, struct cordon_launcher *launcher, int level)
{
	struct trial trial = TRIAL_INIT;

	if (!level) {
		add(c, "net-allow", "no", "no level works here, see the other lines", NULL);
		return;
	}
	run_trial(launcher, cordon_level_name(level), "net.allow", TEST_ADDRESS, &trial);
	if (!trial.worked)
		add(c, "net-allow", "no", error_text(c, &trial.error), hint_text(c, &trial.error));
	else if (level == CORDON_LEVEL_NAMESPACES)
		add(c, "net-allow", "yes", "allowed hosts are reached without any setting", NULL);
	else
		add(c, "net-allow", "partial",
		    "by proxy variables: only programs that obey HTTP_PROXY and HTTPS_PROXY reach "
		    "allowed hosts; no --publish",
		    "with level namespaces (see there) no variables are needed");
}

/* Makes a workspace of an empty directory. */
static void add_workspace(struct cordon_check *c, struct cordon_launcher *launcher, int level)
{
	struct trial trial = TRIAL_INIT;
	char base[] = "/tmp/cordon-check-XXXXXX";

	if (!level) {
		add(c, "workspace", "no", "no level works here, see the other lines", NULL);
		return;
	}
	if (mkdtemp(base)) {
		run_trial(launcher, cordon_level_name(level), "fs.workspace", base, &trial);
		rmdir(base);
	} else {
		cordon_err(&trial.error, CORDON_E_SYSTEM, errno, "cannot make a directory in /tmp");
		cordon_err_hint(&trial.error, "make it one that you can write to; a tmpfs will do");
	}
	if (!trial.worked)
		add(c, "workspace", "no", error_text(c, &trial.error), hint_text(c, &trial.error));
	else if (trial.mechanism == CORDON_MECHANISM_OVERLAY)
		add(c, "workspace", "yes", "an overlay: costs nothing, however large the directory",
		    NULL);
	else
		add(c, "workspace", "partial",
		    "a copy of the whole directory is made for each workspace",
		    "an overlay needs level namespaces, and a state directory on a disk of its own "
		    "kind (ext4, xfs, btrfs): set XDG_STATE_HOME");
}

static void add_idmap(struct cordon_check *c, const struct trial *trial)
{
	if (geteuid() != 0)
		return;
	add(c, "root", trial->worked ? "yes" : "no",
	    trial->worked ? "started by root, the sandbox runs as host user 65534"
			  : "the sandbox cannot be given another id than root's",
	    trial->worked ? NULL : "run Cordon as an ordinary user");
}

static bool is_missing(const struct cordon_check *c, const char *name)
{
	for (const char **names = c->missing[c->level]; names && *names; names++)
		if (strcmp(*names, name) == 0)
			return true;
	return false;
}

static void add_cgroup(struct cordon_check *c, struct cordon_launcher *launcher)
{
	const struct cgroup_home *home = launcher_cgroups(launcher);
	const char *detail;

	if (!home) {
		add(c, "cgroup", "no",
		    "no delegated control group (version 2): init watches the limits of the tree",
		    geteuid() == 0 ? "run Cordon in a service with Delegate=yes, below the "
				     "service's own group"
				   : "run Cordon below a systemd user manager: systemd-run --user "
				     "--scope; or in a container with a delegated cgroup");
		return;
	}
	/* The trials have a limit of memory, so that they asked for one. */
	if (is_missing(c, "cgroup")) {
		detail = arena_printf(&c->arena, "no group can be made in %s, which is delegated",
				      home->path);
		add(c, "cgroup", "no", detail ? detail : "",
		    "look at its cgroup.max.descendants and cgroup.max.depth");
		return;
	}
	detail = arena_printf(&c->arena, "delegated cgroup v2 at %s (memory, pids%s)", home->path,
			      home->has_cpu ? ", cpu" : "");
	add(c, "cgroup", home->has_cpu ? "yes" : "partial", detail ? detail : "",
	    home->has_cpu ? NULL
			  : "init watches shares of the CPU: delegate the controller cpu as well");
}

/* Gives it to a run: what is missing for that is known to the plan only. */
static void add_gpu(struct cordon_check *c, struct cordon_launcher *launcher, const struct gpu *gpu,
		    const char *number)
{
	struct trial trial = TRIAL_INIT;
	const char *name = arena_printf(&c->arena, "gpu %s", number);
	const char *detail = arena_printf(&c->arena, "%s, %s%s%s", gpu->name,
					  gpu->uuid ? gpu->uuid : "", gpu->uuid ? ", " : "",
					  gpu->node);

	run_trial(launcher, cordon_level_name(c->level), "gpu", number, &trial);
	if (!name || !detail)
		name = detail = "out of memory";
	if (trial.worked)
		add(c, name, "yes", detail, NULL);
	else
		add(c, name, "no", error_text(c, &trial.error), hint_text(c, &trial.error));
}

/* Those whose node is there are counted as --gpu counts. */
static void add_gpus(struct cordon_check *c, struct cordon_launcher *launcher)
{
	struct gpu_list gpus = { 0 };
	size_t number = 0;

	if (gpu_find_all(&c->arena, "", &gpus) < 0)
		return;
	for (size_t i = 0; i < gpus.n && c->level; i++) {
		const char *text;

		if (!gpus.v[i].is_there)
			continue;
		text = arena_printf(&c->arena, "%zu", number++);
		if (text)
			add_gpu(c, launcher, &gpus.v[i], text);
	}
	if (number > 0)
		return;
	if (!c->level)
		add(c, "gpu", "no", "no level works here, see the other lines", NULL);
	else if (gpus.n > 0)
		add(c, "gpu", "no", "a driver has found a GPU, but there is no node of it in /dev",
		    "as root: nvidia-modprobe -u -c 0; in a container: start it with its GPUs");
	else
		add(c, "gpu", "no", "no driver of a GPU is loaded",
		    "only if there is one: load its driver (nvidia, amdgpu, i915, xe), or start "
		    "the container with its GPUs");
}

/* Whether a virtual machine (level microvm) could be more than emulated. */
static void add_kvm(struct cordon_check *c)
{
	struct kvm_probe probe;
	const char *text;

	probe_kvm(&probe);
	if (probe.state == KVM_USABLE) {
		add(c, "kvm", "yes",
		    "runs a guest's kernel at its own speed; level microvm does not use it yet",
		    NULL);
		return;
	}
	text = arena_printf(&c->arena, "level microvm emulates its machine: %s",
			    probe_kvm_text(probe.state));
	add(c, "kvm", "no", text ? text : "", probe_kvm_remedy(probe.state));
}

/* What the receipt of a run at the best level calls missing, by the same names. */
static void add_gaps(struct cordon_check *c)
{
	static const struct {
		const char *name, *detail, *remedy;
	} gaps[] = {
		{ "pathname-sockets",
		  "Unix sockets inside grants can be connected to (level landlock: all are "
		  "refused)",
		  "a kernel with Landlock ABI 9" },
		{ "metadata", "names and attributes of files outside the grants can be seen",
		  "level namespaces, see there" },
		{ "protect", "names that run by themselves later are not protected in write grants",
		  "level namespaces, see there" },
		{ "uid", "started by root, the command has uid 0, without any capability",
		  "run Cordon as an ordinary user, or with --user" },
		{ "procs", "the number of root's processes is not limited by the kernel",
		  "run Cordon as an ordinary user, or with --user" },
		{ "tcp", "TCP cannot be restricted: IP sockets are refused",
		  "a kernel with Landlock ABI 4 (Linux 6.7)" },
		{ "ioctl", "ioctls of devices are not restricted",
		  "a kernel with Landlock ABI 5 (Linux 6.10)" },
		{ "scopes", "signals and abstract sockets are not scoped",
		  "a kernel with Landlock ABI 6 (Linux 6.12)" },
		{ "truncate", "truncating files is not restricted",
		  "a kernel with Landlock ABI 3 (Linux 6.2)" },
	};
	const char **names = c->missing[c->level];

	for (; names && *names; names++) {
		const char *detail = "not available at this level", *remedy = NULL;
		bool is_told = false;

		for (size_t i = 0; i < c->n; i++)
			is_told |= strcmp(c->items[i].name, *names) == 0;
		for (size_t i = 0; i < ARRAY_SIZE(gaps); i++) {
			if (strcmp(gaps[i].name, *names) == 0) {
				detail = gaps[i].detail;
				remedy = gaps[i].remedy;
			}
		}
		if (!is_told)
			add(c, *names, "no", detail, remedy);
	}
}

int cordon_check_new(struct cordon_launcher *launcher, struct cordon_check **ret,
		     struct cordon_error *err)
{
	struct trial namespaces = TRIAL_INIT, landlock = TRIAL_INIT;
	struct cordon_check *c = calloc(1, sizeof(*c));

	if (!c)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	run_trial_for(c, launcher, "namespaces", NULL, NULL, &namespaces);
	run_trial_for(c, launcher, "landlock", NULL, NULL, &landlock);
	c->level = namespaces.worked ? CORDON_LEVEL_NAMESPACES
		   : landlock.worked ? CORDON_LEVEL_LANDLOCK
				     : 0;
	add_namespaces(c, &namespaces);
	add_landlock(c, &launcher->machine);
	if (namespaces.worked || landlock.worked) {
		add(c, "seccomp", "yes", "allow-list filter, compiled ahead of time", NULL);
		add(c, "rlimits", "yes", "processes, open files, core dumps", NULL);
	} else {
		add(c, "seccomp", "no", "no level works here, see the other lines", NULL);
	}
	add_net_allow(c, launcher, c->level);
	add_workspace(c, launcher, c->level);
	add_idmap(c, &namespaces);
	add_cgroup(c, launcher);
	add_gpus(c, launcher);
	add_kvm(c);
	add_gaps(c);
	add(c, "level namespaces", namespaces.worked ? "yes" : "no",
	    namespaces.worked ? "the normal level" : error_text(c, &namespaces.error),
	    namespaces.worked ? NULL : userns_remedy(c, &namespaces.error));
	add_landlock_level(c, &landlock, &launcher->machine);
	*ret = c;
	return 0;
}

void cordon_check_free(struct cordon_check *check)
{
	if (!check)
		return;
	arena_done(&check->arena);
	free(check);
}

size_t cordon_check_count(const struct cordon_check *check)
{
	return check->n;
}

const struct cordon_check_item *cordon_check_item(const struct cordon_check *check, size_t i)
{
	return i < check->n ? &check->items[i] : NULL;
}

int cordon_check_level(const struct cordon_check *check)
{
	return check->level;
}

static void write_missing(struct json_writer *w, const struct cordon_check *check, int level)
{
	const char **names = check->missing[level];

	if (!names) {
		json_null(w, cordon_level_name(level));
		return;
	}
	json_open_array(w, cordon_level_name(level));
	for (; *names; names++)
		json_string(w, NULL, *names);
	json_close_array(w);
}

int cordon_check_to_json(const struct cordon_check *check, char **ret, struct cordon_error *err)
{
	struct strbuf out = STRBUF_INIT;
	struct json_writer w;
	char *text;

	json_writer_init(&w, &out, 1);
	json_open_object(&w, NULL);
	json_string(&w, "level", check->level ? cordon_level_name(check->level) : NULL);
	json_open_array(&w, "layers");
	for (size_t i = 0; i < check->n; i++) {
		json_open_object(&w, NULL);
		json_string(&w, "name", check->items[i].name);
		json_string(&w, "state", check->items[i].state);
		json_string(&w, "detail", check->items[i].detail);
		json_string(&w, "remedy", check->items[i].remedy);
		json_close_object(&w);
	}
	json_close_array(&w);
	json_open_object(&w, "missing");
	write_missing(&w, check, CORDON_LEVEL_NAMESPACES);
	write_missing(&w, check, CORDON_LEVEL_LANDLOCK);
	json_close_object(&w);
	json_close_object(&w);
	text = strbuf_take(&out);
	strbuf_done(&out);
	if (!text)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	*ret = text;
	return 0;
}

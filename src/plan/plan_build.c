/* SPDX-License-Identifier: Apache-2.0 */
/* Policy and machine -> plan: the order of the steps, what is active and what is missing. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plan/plan_internal.h"

int plan_nomem(struct build *b)
{
	return cordon_err(b->err, CORDON_E_NOMEM, 0, "out of memory");
}

int plan_list_add(struct build *b, struct strlist *list, const char *s)
{
	return strlist_add(b->arena, list, s) < 0 ? plan_nomem(b) : 0;
}

static int add_note(struct build *b, struct strlist *list, const char *fmt, va_list ap)
	PRINTF_LIKE(3, 0);

static int add_note(struct build *b, struct strlist *list, const char *fmt, va_list ap)
{
	char text[PATH_MAX + 256];
	const char *copy;

	vsnprintf(text, sizeof(text), fmt, ap);
	copy = arena_strdup(b->arena, text);
	return copy ? plan_list_add(b, list, copy) : plan_nomem(b);
}

int plan_note(struct build *b, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = add_note(b, &b->notes, fmt, ap);
	va_end(ap);
	return r;
}

int plan_late_note(struct build *b, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = add_note(b, &b->late_notes, fmt, ap);
	va_end(ap);
	return r;
}

static int add_all(struct build *b, struct strlist *list, const char *const *names, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = plan_list_add(b, list, names[i]);
	return r;
}

static int add_landlock(struct build *b)
{
	int abi = b->in->machine->landlock_abi;
	const char *name;

	if (abi <= 0)
		return plan_list_add(b, &b->missing, "landlock");
	name = arena_printf(b->arena, "landlock:%d", abi);
	return name ? plan_list_add(b, &b->layers, name) : plan_nomem(b);
}

/* What is active and what is not, as the receipt says it. */
static int describe(struct build *b)
{
	static const char *const namespaces[] = { "user", "mount", "pid", "net", "ipc", "uts" };
	static const char *const always[] = { "seccomp", "rlimits" };
	int abi = b->in->machine->landlock_abi, r;
	bool has_namespaces = b->in->level == PLAN_LEVEL_NAMESPACES;
	/* Level landlock: what it cannot do, by what would be needed for it. */
	const struct {
		const char *name;
		bool is_missing;
	} gaps[] = {
		/* Where no limit asks for one, it would have done nothing. */
		{ "cgroup", !b->in->has_cgroup && plan_wants_cgroup(b->in, true) },
		{ "metadata", !has_namespaces },
		{ "pathname-sockets", abi < 9 }, /* those inside grants, with namespaces */
		{ "noexec", !has_namespaces && b->is_commands },
		{ "tcp", !has_namespaces && abi < 4 },
		/* Init sends signals and truncates instead, if there is one. */
		{ "scopes", abi > 0 && abi < 6 && b->in->is_self },
		{ "truncate", abi > 0 && abi < 3 && b->in->is_self },
		{ "ioctl", abi > 0 && abi < 5 && !has_namespaces },
	};

	r = add_all(b, has_namespaces ? &b->layers : &b->missing, namespaces,
		    ARRAY_SIZE(namespaces));
	if (r == 0)
		r = add_landlock(b);
	if (r == 0)
		r = add_all(b, &b->layers, always, ARRAY_SIZE(always));
	if (r == 0 && b->in->has_cgroup)
		r = plan_list_add(b, &b->layers, "cgroup");
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(gaps); i++) {
		if (gaps[i].is_missing)
			r = plan_list_add(b, &b->missing, gaps[i].name);
	}
	return r;
}

static bool is_protected(const struct cordon_policy *p)
{
	return p->protect != POLICY_PROTECT_OFF && p->protect != POLICY_PROTECT_EXISTING;
}

static bool has_layer(const struct build *b, const char *name)
{
	if (strncmp(name, "landlock", 8) == 0 && b->in->machine->landlock_abi > 0) {
		char *end;

		if (name[8] == '\0')
			return true;
		if (name[8] == ':' && isdigit((unsigned char)name[9]) &&
		    strtol(name + 9, &end, 10) <= b->in->machine->landlock_abi)
			return *end == '\0';
		return false;
	}
	/* Not a mechanism of its own: it needs a mount namespace. */
	if (strcmp(name, "protect") == 0)
		return is_protected(b->policy) && b->in->level == PLAN_LEVEL_NAMESPACES;
	return strlist_has(&b->layers, name);
}

/* The policy itself says both, so no machine could do it. */
static int refuse_unprotected(struct build *b)
{
	cordon_err(b->err, CORDON_E_POLICY, 0, "--require protect contradicts --protect %s",
		   b->policy->protect == POLICY_PROTECT_OFF ? "off" : "existing");
	cordon_err_hint(b->err, "leave one of the two out");
	return -CORDON_E_POLICY;
}

static int check_required(struct build *b)
{
	for (size_t i = 0; i < b->policy->require.n; i++) {
		const char *name = b->policy->require.v[i];
		int r;

		if (has_layer(b, name))
			continue;
		if (strcmp(name, "protect") == 0 && !is_protected(b->policy))
			return refuse_unprotected(b);
		r = cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
			       "the required layer '%s' is not available", name);
		if (strncmp(name, "landlock", 8) == 0)
			cordon_err_hint(b->err,
					"this kernel has Landlock ABI %d; a newer kernel or "
					"lsm=landlock at boot changes that",
					b->in->machine->landlock_abi > 0
						? b->in->machine->landlock_abi
						: 0);
		else if (strcmp(name, "cgroup") == 0)
			cordon_err_hint(b->err, "it needs a delegated control group (version 2); "
						"'cordon check' says more");
		else if (b->in->level == PLAN_LEVEL_LANDLOCK)
			cordon_err_hint(b->err,
					"it needs user namespaces; 'cordon check' says what "
					"is in the way");
		else
			cordon_err_hint(b->err, "'cordon check' lists the layers of this machine");
		return r;
	}
	return 0;
}

static int check_input(struct build *b)
{
	const struct plan_input *in = b->in;

	if (!in->is_self && !in->options->session &&
	    (!in->options->argv || !in->options->argv[0] || !in->options->argv[0][0]))
		return cordon_err(b->err, CORDON_E_USAGE, 0, "there is no command to run");
	if ((in->options->files || in->options->session) && in->options->terminal)
		return cordon_err(b->err, CORDON_E_USAGE, 0,
				  "neither files nor sessions have a terminal");
	if (in->level == PLAN_LEVEL_NAMESPACES)
		return 0;
	if (in->machine->landlock_abi <= 0) {
		cordon_err(b->err, CORDON_E_UNSUPPORTED, 0,
			   "level landlock needs Landlock, which this kernel lacks");
		cordon_err_hint(b->err, "Linux 5.13 or newer has it; it may have to be switched on "
					"(boot with lsm=landlock,...)");
		return -CORDON_E_UNSUPPORTED;
	}
	if (!in->is_self && !in->private_dir && (!in->tmpdir || in->tmpdir[0] != '/'))
		return cordon_err(b->err, CORDON_E_USAGE, 0, "level landlock needs a directory");
	return 0;
}

/* Nothing that is planned later changes these steps. */
static int build_common(struct build *b)
{
	struct plan common = { 0 };
	int r = plan_system_view(b);

	b->n_common_steps = b->n_steps;
	if (r < 0 || !b->in->common_is_known)
		return r;
	r = plan_write_common(b, &common);
	return r < 0 ? r : b->in->common_is_known(b->in->ctx, &common, b->err);
}

static int build_namespaces(struct build *b)
{
	int r = plan_private_steps(b);

	if (r == 0)
		r = plan_device_steps(b);
	if (r == 0 && b->is_commands)
		r = plan_command_rules(b);
	if (r == 0)
		r = plan_choose_start_dir(b);
	if (r == 0)
		r = plan_layout(b);
	if (r == 0)
		plan_private_mark(b);
	return r;
}

static int build_landlock(struct build *b)
{
	int r;

	if (!b->in->is_self) {
		b->home = b->in->private_dir ? b->in->private_dir->home.path
					     : plan_join(b, b->in->tmpdir, "home");
		if (!b->home)
			return plan_nomem(b);
	}
	r = plan_check_copy(b);
	if (r == 0)
		r = plan_expand_for_landlock(b);
	if (r == 0)
		r = plan_check_mounts(b);
	if (r == 0)
		r = plan_layout_rules(b);
	if (r == 0)
		r = plan_device_rules(b);
	if (r == 0 && b->is_commands)
		r = plan_command_rules(b);
	if (r == 0 && !b->in->is_self)
		r = plan_choose_start_dir(b);
	return r;
}

static int build(struct build *b)
{
	int r = check_input(b);

	if (r == 0)
		r = describe(b);
	if (r == 0)
		r = plan_build_net(b);
	if (r == 0)
		r = check_required(b);
	if (r == 0)
		r = plan_find_home(b);
	if (r == 0)
		r = plan_collect_grants(b);
	if (r == 0)
		r = plan_collect_devices(b);
	if (r == 0 && b->in->level == PLAN_LEVEL_LANDLOCK)
		r = plan_system_rules(b);
	if (r == 0)
		r = plan_apply_deny(b);
	if (r == 0) {
		plan_choose_nobody(b);
		if (b->is_root && b->in->level == PLAN_LEVEL_LANDLOCK && !b->policy->user &&
		    !b->is_nobody) {
			r = plan_list_add(b, &b->missing, "uid");
			if (r == 0 && !b->in->has_cgroup)
				r = plan_list_add(b, &b->missing, "procs");
		}
	}
	if (r == 0)
		r = plan_fill_header(b);
	if (r == 0 && b->in->level == PLAN_LEVEL_NAMESPACES)
		r = build_common(b);
	if (r == 0)
		r = plan_apply_protect(b);
	if (r == 0)
		r = b->in->level == PLAN_LEVEL_NAMESPACES ? build_namespaces(b) : build_landlock(b);
	if (r == 0 && !b->in->is_self)
		r = plan_build_env(b);
	return r;
}

/* The lists of a plan end with NULL. */
static int end_lists(struct build *b)
{
	struct strlist *lists[] = { &b->notes, &b->late_notes, &b->layers, &b->missing };
	const char ***ret[] = { &b->plan->notes, &b->plan->late_notes, &b->plan->layers,
				&b->plan->missing };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		if (strlist_add(b->arena, lists[i], NULL) < 0)
			return plan_nomem(b);
		*ret[i] = lists[i]->v;
	}
	return 0;
}

static void hand_over(struct build *b)
{
	for (size_t i = 0; i < b->n_grants; i++) {
		if (b->grants[i]->fd >= 0)
			close(b->grants[i]->fd);
	}
	b->plan->mount_fds = b->mount_fds;
	b->plan->n_mount_fds = b->n_mount_fds;
	b->plan->reserved = b->reserved;
	b->plan->n_reserved = b->n_reserved;
	b->plan->absent = b->absent;
	b->plan->n_absent = b->n_absent;
	b->plan->repos = b->repos;
	b->plan->n_repos = b->n_repos;
	b->plan->covered = b->covered.v;
	b->plan->n_covered = b->covered.n;
	b->plan->cwd = b->cwd_real;
	b->plan->home = b->home_real;
	b->plan->caller_path = plan_caller_path(b);
	b->plan->enforced = b->enforced;
	b->plan->n_enforced = b->n_enforced;
	b->plan->publish = b->publish;
	b->plan->n_publish = b->n_publish;
}

int plan_build(const struct plan_input *input, struct plan **ret, struct cordon_error *err)
{
	struct plan *plan = calloc(1, sizeof(*plan));
	struct arena arena = ARENA_INIT;
	struct build b = {
		.in = input, .policy = input->policy, .plan = plan, .arena = &arena, .err = err
	};
	int r;

	if (!plan)
		return cordon_err(err, CORDON_E_NOMEM, 0, "out of memory");
	b.is_root = input->machine->uid == 0;
	b.is_commands = input->policy->commands_set == 1;
	r = build(&b);
	if (r == 0)
		r = end_lists(&b);
	hand_over(&b);
	if (r == 0 && !plan_keep(plan))
		r = plan_nomem(&b);
	if (r == 0)
		r = plan_write_block(&b);
	if (r == 0)
		*ret = plan;
	else
		plan_free(plan);
	arena_done(&arena);
	return r;
}

void plan_free(struct plan *plan)
{
	if (!plan)
		return;
	for (size_t i = 0; i < plan->n_mount_fds; i++)
		close(plan->mount_fds[i]);
	for (size_t i = 0; i < plan->n_reserved; i++)
		if (i == 0 || plan->reserved[i].dir_fd != plan->reserved[i - 1].dir_fd)
			close(plan->reserved[i].dir_fd);
	for (size_t i = 0; i < plan->n_absent; i++)
		close(plan->absent[i].dir_fd);
	for (size_t i = 0; i < plan->n_repos; i++) {
		close(plan->repos[i].git_fd);
		close(plan->repos[i].work_fd);
	}
	if (plan->is_mapped)
		munmap(plan->block, plan->block_size);
	arena_done(&plan->block_arena);
	arena_done(&plan->arena);
	free(plan);
}

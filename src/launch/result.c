/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the result of a run from init's report and what the supervisor knows. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/units.h"
#include "format/stage.h"
#include "format/steps.h"
#include "launch/launch.h"
#include "plan/plan_read.h"

#define STATUS_UNCHECKED 123
#define STATUS_TIMEOUT 124
#define STATUS_KILLED 137

static const char *const kind_names[] = {
	[CORDON_KIND_NONE] = "none",
	[CORDON_KIND_EXITED] = "exited",
	[CORDON_KIND_SIGNALED] = "signaled",
	[CORDON_KIND_TIMEOUT] = "timeout",
	[CORDON_KIND_CANCELLED] = "cancelled",
	[CORDON_KIND_SPAWN_FAILED] = "spawn_failed",
	[CORDON_KIND_SANDBOX_ERROR] = "sandbox_error",
	[CORDON_KIND_MEMORY] = "memory",
	[CORDON_KIND_CPU_TIME] = "cpu_time",
	[CORDON_KIND_OUTPUT] = "output",
	[CORDON_KIND_DISK] = "disk",
	[CORDON_KIND_PROCS] = "procs",
	[CORDON_KIND_DENIED] = "denied",
};
_Static_assert(ARRAY_SIZE(kind_names) == CORDON_KIND_MAX, "a name for each kind");

static const char *const level_names[] = {
	[CORDON_LEVEL_AUTO] = "auto",
	[CORDON_LEVEL_LANDLOCK] = "landlock",
	[CORDON_LEVEL_NAMESPACES] = "namespaces",
	[CORDON_LEVEL_MICROVM] = "microvm",
};
_Static_assert(ARRAY_SIZE(level_names) == CORDON_LEVEL_MAX, "a name for each level");

const char *cordon_kind_name(int kind)
{
	return kind >= 0 && kind < CORDON_KIND_MAX ? kind_names[kind] : "unknown";
}

const char *cordon_level_name(int level)
{
	return level >= 0 && level < CORDON_LEVEL_MAX ? level_names[level] : "unknown";
}

static const char *stage_hint(const struct control_report *rep)
{
	switch (rep->stage) {
	case STAGE_USERNS:
	case STAGE_MOUNTS:
		if (rep->sys_errno == EPERM || rep->sys_errno == EACCES)
			return "something around Cordon (a container, AppArmor) forbids it; "
			       "--isolation landlock needs no namespaces";
		if (rep->sys_errno == ENOSPC || rep->sys_errno == EUSERS)
			return "raise the sysctls user.max_*_namespaces";
		if (rep->sys_errno == ESTALE)
			return "a granted path was replaced while the sandbox was set up; try "
			       "again";
		return "'cordon check' says what this machine offers";
	case STAGE_NET:
		if (rep->op == STEP_NET_LISTENER)
			return "something around Cordon (a container, another sandbox) listens to "
			       "system calls already or forbids it; run without --net-allow";
		return "'cordon check' says what this machine offers";
	case STAGE_LANDLOCK:
		if (rep->sys_errno == EPERM || rep->sys_errno == EACCES)
			return HINT_REFUSED;
		return "the kernel must have Landlock enabled (boot with lsm=landlock,...); see "
		       "'cordon check'";
	case STAGE_LIMITS:
		if (rep->op == STEP_LIMITS_CPU_SHARE)
			return "the control group refuses the share; start Cordon "
			       "outside of a delegated group";
		if (rep->op == STEP_LIMITS_BASELINE)
			return "is the machine out of memory or open files?";
		if (rep->sys_errno == EACCES || rep->sys_errno == ENOSYS)
			return HINT_REFUSED;
		return "the limit is above what the caller itself may have; see 'ulimit -aH'";
	default:
		if (rep->sys_errno == EPERM || rep->sys_errno == EACCES || rep->sys_errno == ENOSYS)
			return HINT_REFUSED;
		return "'cordon check' says what this machine offers";
	}
}

static void exec_error(const struct plan *plan, const struct control_report *rep,
		       struct cordon_error *err)
{
	const struct plan_header *h = plan->block;
	const char *path = plan_string(h, h->exec_path);
	int missing = rep->sys_errno == ENOENT || rep->sys_errno == ENOTDIR;

	cordon_err(err, missing ? CORDON_E_NOT_FOUND : CORDON_E_NOT_EXECUTABLE, rep->sys_errno,
		   "cannot execute '%s'", path);
	if (rep->sys_errno == EACCES)
		cordon_err_hint(err, "is it executable, and inside a grant? see --read and "
				     "--commands");
	else if (rep->sys_errno == ENOEXEC)
		cordon_err_hint(err, "a script needs a first line such as #!/bin/sh");
	else if (missing)
		cordon_err_hint(err, "its interpreter or loader is not inside the sandbox; grant "
				     "it with --read");
}

/* A step of the plan in a directory where earlier runs wrote. */
static void reused_error(const char *path, const struct control_report *rep,
			 struct cordon_error *err)
{
	cordon_err(err, CORDON_E_SETUP, rep->sys_errno, "no room for '%s' in the private directory",
		   path);
	cordon_err_hint(err, "an earlier run left something else at that name or on the way to it; "
			     "remove that, or take another private directory");
}

static const struct plan_op *plan_op_of_step(const struct plan_header *h, uint32_t step)
{
	if (step < STEP_PLAN_FIRST || step - STEP_PLAN_FIRST >= h->n_ops)
		return NULL;
	return &plan_ops(h)[step - STEP_PLAN_FIRST];
}

const struct plan_op *report_plan_op(const struct plan_header *h, const struct control_report *rep)
{
	return rep->stage == STAGE_MOUNTS ? plan_op_of_step(h, rep->op) : NULL;
}

static void step_error(const struct plan_header *h, const struct control_report *rep,
		       struct cordon_error *err)
{
	const struct plan_op *op = report_plan_op(h, rep);
	const char *doing = step_text(rep->stage, rep->op);

	if (op && op->flags & PLAN_REUSED) {
		reused_error(plan_string(h, op->dst), rep, err);
		return;
	}
	if (op)
		cordon_err(err, CORDON_E_SETUP, rep->sys_errno, "cannot set up mounts: %s of '%s'",
			   plan_op_name(op->type), plan_string(h, op->dst ? op->dst : op->src));
	else if (doing)
		cordon_err(err, CORDON_E_SETUP, rep->sys_errno, "cannot set up %s: %s",
			   cordon_stage_name(rep->stage), doing);
	else
		cordon_err(err, CORDON_E_SETUP, rep->sys_errno, "cannot set up %s (step %u)",
			   cordon_stage_name(rep->stage), rep->op);
	cordon_err_hint(err, "%s", stage_hint(rep));
}

static bool is_step(const struct control_report *rep, uint32_t stage, uint32_t step)
{
	return rep->stage == stage && rep->op == step;
}

void result_uncovered_error(const struct plan *plan, const struct control_report *rep,
			    struct cordon_error *err)
{
	const struct plan_header *h = plan->block;
	const struct plan_op *op = plan_op_of_step(h, rep->uncovered);

	if (op)
		cordon_err(
			err, CORDON_E_SETUP, 0,
			"'%s' was replaced on the host during the run, so that the command could "
			"%s it%s",
			plan_string(h, op->dst), op->type == PLAN_OP_MASK ? "read" : "change",
			rep->type == CONTROL_FAILED ? "; the command was ended" : "");
	else
		cordon_err(err, CORDON_E_SETUP, 0,
			   "a denied or protected name was replaced on the host, or a grant's "
			   "place in the private directory, during the run; the command was "
			   "ended");
	cordon_err_hint(err, op && op->type != PLAN_OP_MASK
				     ? "look at it before you use it; leave it alone while a run "
				       "goes on"
				     : "leave those files alone until the run is over, then try "
				       "again");
}

void result_stage_error(const struct plan *plan, const struct control_report *rep,
			struct cordon_error *err)
{
	const struct plan_header *h = plan->block;

	if (is_step(rep, STAGE_EXEC, STEP_EXEC_EXECVE)) {
		exec_error(plan, rep, err);
	} else if (is_step(rep, STAGE_MOUNTS, STEP_MOUNTS_UNCOVERED)) {
		result_uncovered_error(plan, rep, err);
	} else if (is_step(rep, STAGE_MOUNTS, STEP_MOUNTS_CWD)) {
		cordon_err(err, CORDON_E_PATH, rep->sys_errno, "cannot start in '%s'",
			   plan_string(h, h->cwd));
		cordon_err_hint(err, "the directory has to exist inside");
	} else if (is_step(rep, STAGE_LIMITS, STEP_LIMITS_WATCH)) {
		cordon_err(err, CORDON_E_SYSTEM, rep->sys_errno,
			   "the limits of the tree could not be watched any more; the command was "
			   "ended");
		cordon_err_hint(err, "is the machine out of memory or open files?");
	} else {
		step_error(h, rep, err);
		err->op = (uint16_t)rep->op;
	}
	err->stage = (uint16_t)rep->stage;
}

/* How the command itself ended. */
static void fill_ended(struct cordon_result *res, int status)
{
	if (WIFSIGNALED(status)) {
		res->kind = CORDON_KIND_SIGNALED;
		res->signal = WTERMSIG(status);
		res->status = STATUS_KILLED - SIGKILL + res->signal;
	} else {
		res->kind = CORDON_KIND_EXITED;
		res->exit_code = WEXITSTATUS(status);
		res->status = res->exit_code;
	}
}

/* Why the run was ended, if it was. */
static int ending_kind(const struct cordon_run *run)
{
	static const int kinds[] = {
		[CONTROL_LIMIT_WALL] = CORDON_KIND_TIMEOUT,
		[CONTROL_LIMIT_MEMORY] = CORDON_KIND_MEMORY,
		[CONTROL_LIMIT_CPU_TIME] = CORDON_KIND_CPU_TIME,
		[CONTROL_LIMIT_PROCS] = CORDON_KIND_PROCS,
		[CONTROL_LIMIT_CPU] = CORDON_KIND_CPU_TIME,
		[CONTROL_LIMIT_DISK] = CORDON_KIND_DISK,
	};
	uint32_t limit = run->report.limit;

	if (run->reported && limit > CONTROL_LIMIT_NONE && limit < ARRAY_SIZE(kinds))
		return kinds[limit];
	/* A command that ended before init could end it has ended by itself. */
	return run->reported && !run->report.on_order ? CORDON_KIND_NONE : run->ending;
}

static void fill_ending(struct cordon_result *res, int kind)
{
	int ended_itself = res->exit_code >= 0 || (res->signal && res->signal != SIGKILL);

	if (kind == CORDON_KIND_NONE)
		return;
	res->kind = kind;
	/* A server that was asked to end and did has its own word for how that went. */
	if (kind == CORDON_KIND_CANCELLED && ended_itself)
		return;
	res->status = kind == CORDON_KIND_TIMEOUT || kind == CORDON_KIND_CPU_TIME ? STATUS_TIMEOUT
										  : STATUS_KILLED;
	if (res->exit_code < 0 && !res->signal)
		res->signal = SIGKILL;
}

static void fill_failed(struct cordon_run *run)
{
	struct cordon_result *res = &run->result;

	/* The gateway's error is more exact than init's. */
	if (run->report.stage != STAGE_NET || !gateway_error(run, &res->error))
		result_stage_error(run->plan, &run->report, &res->error);
	if (is_step(&run->report, STAGE_MOUNTS, STEP_MOUNTS_UNCOVERED))
		covers_error(run, &res->error);
	res->kind = CORDON_KIND_SANDBOX_ERROR;
	res->status = 125;
	if (is_step(&run->report, STAGE_EXEC, STEP_EXEC_EXECVE)) {
		res->kind = CORDON_KIND_SPAWN_FAILED;
		res->status = res->error.code == CORDON_E_NOT_FOUND ? 127 : 126;
	}
}

/* A shell, env and their like end so when they do not find a program. */
#define STATUS_NOT_FOUND 127

/* Of a program that was told about more exactly there is nothing to add. */
static bool has_told_program(const struct cordon_result *res)
{
	for (size_t i = 0; i < res->n_denials; i++)
		if (strcmp(res->denials[i].what, "execve") == 0)
			return true;
	return false;
}

static void tell_late_notes(struct cordon_run *run)
{
	const char *const *notes = run->plan->late_notes;

	if (run->result.kind != CORDON_KIND_EXITED || run->result.exit_code != STATUS_NOT_FOUND ||
	    has_told_program(&run->result))
		return;
	for (; notes && *notes; notes++)
		run_add_note(run, *notes);
	run->plan->late_notes = NULL;
}

static void fill_kind(struct cordon_run *run)
{
	struct cordon_result *res = &run->result;

	res->exit_code = -1;
	if (run->error_set) {
		res->error = run->error;
		res->kind = CORDON_KIND_SANDBOX_ERROR;
		res->status = 125;
	} else if (run->reported && run->report.type == CONTROL_FAILED) {
		fill_failed(run);
	} else if (run->report.type == CONTROL_ENDED || run->report.type == CONTROL_ORPHANED) {
		fill_ended(res, run->report.wait_status);
		fill_ending(res, ending_kind(run));
		/* It ended before it could be killed for its output. */
		if (res->kind == CORDON_KIND_EXITED && run->plan->limits.output_end &&
		    (run->out.truncated || run->err.truncated))
			fill_ending(res, CORDON_KIND_OUTPUT);
	} else if (run->out_of_memory) {
		fill_ending(res, CORDON_KIND_MEMORY);
	} else if (run->ending) {
		fill_ending(res, run->ending);
	} else {
		res->kind = CORDON_KIND_SANDBOX_ERROR;
		res->status = 125;
		cordon_err(&res->error, CORDON_E_SETUP, 0, "the sandbox's init was killed");
		cordon_err_hint(&res->error, "was it the kernel's out-of-memory killer? see dmesg");
	}
}

/* Whatever else happened: the caller must not go on as if all were well. The command's own exit
 * code stays. */
void result_add_look(struct cordon_run *run)
{
	struct cordon_result *res = &run->result;

	if (!run->look_failed)
		return;
	res->kind = CORDON_KIND_SANDBOX_ERROR;
	res->status = STATUS_UNCHECKED;
	res->error = run->look_error;
}

static void fill_times(struct cordon_run *run)
{
	struct cordon_result *res = &run->result;
	const struct control_report *rep = &run->report;
	uint64_t start = run->started_ns, end_of_all = clock_ns(), end = end_of_all;
	/* A command that was held began with its run, when all stages were done. */
	uint64_t began = run->options.held ? start : rep->stamps_ns[STAGE_EXEC];

	for (int i = 0; i < STAGE_MAX && i < CORDON_STAMPS_MAX; i++)
		if (rep->stamps_ns[i] > start && !run->options.held)
			res->stamps_us[i] = (uint32_t)((rep->stamps_ns[i] - start) / 1000);
	if (run->reported && rep->ended_ns > start)
		end = rep->ended_ns;
	res->duration_ms = (double)(end - start) / 1e6;
	res->setup_ms = began > start ? (double)(began - start) / 1e6 : 0;
	/* A killed init reported nothing, but its control group has figures. */
	res->usage_known = run->report.type != 0 || run->spawned.cgroup.dir_fd >= 0;
	res->cpu_user_ms = (double)rep->user_us / 1e3;
	res->cpu_system_ms = (double)rep->system_us / 1e3;
	res->max_memory_bytes = rep->memory_bytes;
	res->procs_peak = rep->procs;
	res->disk_bytes = rep->disk_bytes;
	if (rep->command_ended_ns && rep->stamps_ns[STAGE_EXEC]) {
		res->run_ms = rep->command_ended_ns > began
				      ? (double)(rep->command_ended_ns - began) / 1e6
				      : 0;
		res->teardown_ms = (double)(end_of_all - rep->command_ended_ns) / 1e6;
	}
}

void result_deny(struct cordon_run *run, const struct cordon_denial *denial)
{
	struct cordon_result *res = &run->result;

	if (res->n_denials == run->cap_denials) {
		size_t cap = run->cap_denials ? 2 * run->cap_denials : 8;
		struct cordon_denial *v = arena_alloc(&run->arena, cap * sizeof(*v));

		if (!v)
			return;
		if (res->n_denials)
			memcpy(v, run->denials, res->n_denials * sizeof(*v));
		run->denials = v;
		run->cap_denials = cap;
	}
	run->denials[res->n_denials] = *denial;
	if (!denial->how)
		run->denials[res->n_denials].how = "enforced";
	res->n_denials++;
	res->denials = run->denials;
}

/* @is_seen: 0 = it may have been reached. */
static void deny_refusal(struct cordon_run *run, const char *what, const char *rule,
			 const char *target, const char *fix, int is_seen)
{
	const struct cordon_denial denial = {
		.what = what,
		.rule = rule,
		.target = target,
		.fix = fix,
		.how = is_seen ? "enforced" : "observed",
	};

	if (target && fix)
		result_deny(run, &denial);
}

static void deny_limit(struct cordon_run *run, const char *what, const char *rule,
		       const char *target, const char *fix)
{
	deny_refusal(run, what, rule, target, fix, 1);
}

#define GROWN_TEXT                                                                                 \
	"the file system grew by more than four times the limit while the run was going on; this " \
	"may be another program"

static const char *disk_place(const struct cordon_run *run)
{
	if (!run->workspace.info.id)
		return "private directory";
	return private_plan(&run->private_dir) ? "workspace and the private directory"
					       : "workspace";
}

/* The workspace and directories that are kept: what is there, or the growth of the file system. */
static void deny_disk(struct cordon_run *run, int64_t limit)
{
	struct arena *a = &run->arena;
	char size[UNITS_TEXT_MAX], more[UNITS_TEXT_MAX];
	const char *target;

	if (run->report.hits & CONTROL_HIT_GROWN)
		target = GROWN_TEXT;
	else
		target = arena_printf(a, "%s in the %s", units_format_size(limit, size),
				      disk_place(run));
	deny_limit(run, "disk", "limits.disk", target,
		   arena_printf(a, "--disk %s", units_format_size(limit * 2, more)));
}

/* It was not seen, but the figures allow it and the command failed. */
#define MAYBE " (may have been reached)"

static int has_failed(const struct cordon_result *res)
{
	return res->kind == CORDON_KIND_SIGNALED ||
	       (res->kind == CORDON_KIND_EXITED && res->exit_code != 0);
}

/* Limits at which the kernel refuses more. */
static void deny_refused(struct cordon_run *run)
{
	const struct cordon_result *res = &run->result;
	const struct plan_limits *l = &run->plan->limits;
	uint32_t hits = run->report.hits;
	int procs = hits & CONTROL_HIT_PROCS || res->kind == CORDON_KIND_PROCS;
	int disk = hits & CONTROL_HIT_DISK, failed = has_failed(res);
	char size[UNITS_TEXT_MAX], more[UNITS_TEXT_MAX];
	struct arena *a = &run->arena;

	if (procs || (hits & CONTROL_HIT_MAYBE_PROCS && failed))
		deny_refusal(
			run, "procs", "limits.procs",
			arena_printf(a, "%ju tasks%s", (uintmax_t)l->procs, procs ? "" : MAYBE),
			arena_printf(a, "-P %ju", (uintmax_t)l->procs * 2), procs);
	if (disk || (hits & CONTROL_HIT_MAYBE_DISK && failed))
		deny_refusal(run, "disk", "limits.disk",
			     arena_printf(a, "%s in private directories%s",
					  units_format_size((int64_t)l->disk_bytes, size),
					  disk ? "" : MAYBE),
			     arena_printf(a, "--disk %s",
					  units_format_size((int64_t)l->disk_bytes * 2, more)),
			     disk);
}

/* The signal that comes with it ended the command, or (as a shell tells by its status) something
 * that the command started. */
static int file_size_was_met(const struct cordon_result *res)
{
	return (res->kind == CORDON_KIND_SIGNALED && res->signal == SIGXFSZ) ||
	       (res->kind == CORDON_KIND_EXITED &&
		res->exit_code == STATUS_KILLED - SIGKILL + SIGXFSZ);
}

/* Limits that were reached, and what would have been enough. */
static void fill_limits(struct cordon_run *run)
{
	const struct plan_limits *l = &run->plan->limits;
	struct arena *a = &run->arena;
	char size[UNITS_TEXT_MAX], more[UNITS_TEXT_MAX];
	const struct cordon_result *res = &run->result;

	deny_refused(run);
	if (run->report.hits & CONTROL_HIT_WORKSPACE || res->kind == CORDON_KIND_DISK)
		deny_disk(run, (int64_t)l->disk_bytes);
	if (res->kind == CORDON_KIND_MEMORY)
		deny_limit(run, "memory", "limits.memory",
			   arena_strdup(a, units_format_size((int64_t)l->memory_bytes, size)),
			   arena_printf(a, "-m %s",
					units_format_size((int64_t)l->memory_bytes * 2, more)));
	if (res->kind == CORDON_KIND_CPU_TIME && run->report.limit == CONTROL_LIMIT_CPU)
		deny_limit(run, "cpu", "limits.cpu",
			   arena_printf(a, "%s CPUs, by going on while stopped",
					units_format_share((int64_t)l->cpu_milli, size)),
			   arena_printf(a, "--cpus %s",
					units_format_share((int64_t)l->cpu_milli * 2, more)));
	else if (res->kind == CORDON_KIND_CPU_TIME)
		deny_limit(run, "cpu_time", "limits.cpu_time",
			   arena_strdup(a, units_format_duration((int64_t)l->cpu_time_ms, size)),
			   arena_printf(a, "--cpu-time %s",
					units_format_duration((int64_t)l->cpu_time_ms * 2, more)));
	if (l->file_size_bytes >= 0 && file_size_was_met(res))
		deny_limit(run, "file_size", "limits.file_size",
			   arena_strdup(a, units_format_size(l->file_size_bytes, size)),
			   arena_printf(a, "--file-size %s",
					units_format_size(l->file_size_bytes * 2, more)));
}

/* The guest chose the name: init cut it, and it is not changed here. */
static void fill_lost(struct cordon_run *run)
{
	const struct control_lost *told = run->lost;
	struct cordon_lost_files *lost;

	if (!told)
		return;
	lost = arena_alloc(&run->arena, sizeof(*lost));
	if (!lost)
		return;
	*lost = (struct cordon_lost_files){
		.home = told->home,
		.tmp = told->tmp,
		.has_more = told->has_more != 0,
		.is_example_tmp = told->is_tmp != 0,
	};
	if (told->example[0])
		lost->example =
			arena_strndup(&run->arena, told->example, sizeof(told->example) - 1);
	run->result.lost_files = lost;
}

static void fill_output(struct relay *relay, struct cordon_output *out)
{
	out->total_bytes = relay->total;
	out->truncated = relay->truncated | relay->lost;
	out->write_errno = relay->write_errno;
	if (relay->mode == CORDON_STREAM_CAPTURE && relay_captured(relay, out) < 0)
		out->truncated = 1;
	if (relay->mode == CORDON_STREAM_CAPTURE && !out->data)
		out->data = "";
}

void result_fill(struct cordon_run *run)
{
	static const char *const none[] = { NULL };
	struct cordon_result *res = &run->result;

	if (run->spawned.cgroup.dir_fd >= 0)
		run->out_of_memory =
			cgroup_account(&run->spawned.cgroup, run->reported, &run->report);
	fill_kind(run);
	fill_times(run);
	fill_output(&run->out, &res->out);
	fill_output(&run->err, &res->err);
	res->level = run->plan && ((const struct plan_header *)run->plan->block)->level ==
					     PLAN_LEVEL_NAMESPACES
			     ? CORDON_LEVEL_NAMESPACES
			     : CORDON_LEVEL_LANDLOCK;
	res->layers = none;
	res->missing = none;
	/* A run whose set-up failed was protected by nothing, since nothing ran. */
	if (run->plan &&
	    !(run->reported && run->report.type == CONTROL_FAILED &&
	      run->report.stamps_ns[STAGE_EXEC] == 0) &&
	    !run->error_set) {
		res->layers = (const char *const *)run->plan->layers;
		res->missing = (const char *const *)run->plan->missing;
		res->limits = run->plan->enforced;
		res->n_limits = run->plan->n_enforced;
		fill_limits(run);
		fill_lost(run);
		gateway_account(run);
		meter_account(run);
		said_account(run);
		tell_late_notes(run);
	}
}

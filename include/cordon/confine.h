/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process confines itself: no command, no init, no way back.
 *
 * The calling process applies to itself what a run at level landlock has: Landlock for the policy's
 * grants, the system call filter, resource limits, no capabilities, no new privileges. It holds for
 * the process and for everything it starts from then on.
 *
 * For programs that load what they need, then work on untrusted input: parsers,
 * converters, interpreters. Where a command can be started instead, cordon_run_start() does more.
 */
#ifndef CORDON_CONFINE_H
#define CORDON_CONFINE_H

#include <cordon/policy.h>
#include <cordon/run.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/**
 * Confines the calling process for good.
 *
 * Of @options (may be NULL) `cwd` and `home` count, as for a run; and `argv[0]` and `search_path`,
 * if argv is given: the program as it was started, for an interpreter that finds its installation
 * by that name (a virtual environment). Otherwise it is the target of /proc/self/exe.
 *
 * What holds afterwards:
 * - fs.read and fs.write, with the defaults of a run: the system's programs and libraries, the
 *   program's own installation and the current directory can be read. Nothing can be written
 *   unless it is granted: there are no private temporary and home directories, and TMPDIR and HOME
 *   still say what they said.
 * - commands: if the policy has a list, only those programs can be started (the running one is not
 *   among them unless it is listed).
 * - No TCP, UDP or other network. Modes, owners, times and extended attributes of files cannot be
 *   changed (ENOSYS, EOPNOTSUPP). Other processes cannot be traced nor, from Landlock ABI 6 on,
 *   signalled.
 * - limits.open_files and limits.file_size; limits.cpu_time for this process from now on and for
 *   each process that it starts.
 *
 * What does not change: descriptors that are open stay usable, a connected socket too; processes
 * that were started before are not confined; the environment is as it was, with all its secrets;
 * root stays user 0, without capabilities and supplementary groups.
 *
 * Refused, with nothing applied: a process with more than one thread (-CORDON_E_STATE), and what
 * a process cannot enforce on itself (-CORDON_E_UNSUPPORTED, the message names the key):
 * limits.wall, memory, cpu, procs, output and disk (unless named in best_effort), net.allow,
 * net.publish, fs.deny, fs.workspace, fs.protect, env.*, cwd, user, isolation namespaces, and
 * layers under `require` that this machine lacks.
 *
 * The set-up is tried out in a short-lived child first, so that a machine or a sandbox around the
 * process that refuses one of the layers is found before anything is changed. If the process itself
 * fails after that, the error has a stage, and its hint says that the process is partly confined:
 * it must end.
 *
 * May be called again, also inside a run: every call can only take more away.
 */
int cordon_confine_self(const struct cordon_policy *policy,
			const struct cordon_run_options *options, struct cordon_error *err);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif

# SPDX-License-Identifier: Apache-2.0
"""Every system call of the set-up fails once: the command never runs with a protection missing.

A clean run under strace gives the list of calls made by cordon and init up to the exec of the
command. Then each is made to fail, one occurrence at a time. Either cordon refuses with one line and
a non-zero status and the command has not run, or it ran and found every protection in place.
"""

import collections
import os
import re
import socket
import subprocess

import pytest

from conftest import needs, settles, survivors

BOUND = 120  # injections per caller and level; the rest of the occurrences is sampled evenly

# Left out: a program's own memory, without which it cannot speak, and calls that cannot fail with
# the arguments they get (their failure would only make a run wait for ever, not run unprotected).
LEFT_OUT = {
    "exit",
    "exit_group",
    "brk",
    "munmap",
    "mprotect",
    "rt_sigreturn",
    "arch_prctl",
    "set_tid_address",
    "rseq",
}
LEFT_OUT |= {"umask", "futex", "wait4"}
LEFT_OUT |= {"close"}  # a failed close is still a close; an injected one leaves the descriptor open

# Refusals without a word: which descriptors are open is asked before there is anywhere to speak to.
SILENT = {"fcntl"}


def selfcheck(me, probes, listener, canary_process, level):
    probe = probes["selfcheck"]
    canary = me.write(me.out / "canary", "canary")
    port = listener.add(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0), "tcp")[1]
    report = me.work / "report"
    cmd = [probe, report, canary, str(port), str(canary_process.pid), level, me.work / ".mcp.json"]
    return me.argv(["-r", probe, "-w", me.work], cmd, level), report, canary


CALL = re.compile(r"^(\d+) +(?:<\.\.\. )?(\w+)[( ]")


def calls_of_a_clean_run(me, argv, report):
    """[(name, occurrence)] in order, per strace's own counting (over all processes), until the exec."""
    needs("strace")
    trace = me.base / "trace"
    me.write(trace)
    done = me.outside(["strace", "-f", "-qq", "-o", trace, *argv], umask=0o022)
    assert done.returncode == 0, done.stderr
    rows = dict(line.split() for line in report.read_text().splitlines())
    report.unlink()
    assert set(rows.values()) == {"held"}, sorted(r for r in rows.items() if r[1] != "held")
    assert "done" in rows
    return trace.read_text(errors="replace").splitlines()


def occurrences(lines, probe):
    """How often each call is made by each process before the command's own exec. strace counts
    `when=` per process, so an occurrence is injected in every process that gets that far."""
    counts = collections.Counter()
    per_pid = collections.defaultdict(collections.Counter)
    for line in lines:
        match = CALL.match(line)
        if not match or "resumed>" in line:
            continue
        pid, name = match.groups()
        if name == "execve" and probe in line:
            per_pid[pid]["(done)"] = 1
        if per_pid[pid]["(done)"]:
            continue
        per_pid[pid][name] += 1
        counts[name] = max(counts[name], per_pid[pid][name])
    return {name: n for name, n in counts.items() if name not in LEFT_OUT}


def plan(counts):
    """All of them if they fit; else every first and last, and an even sample between."""
    wanted = [(name, i) for name, n in sorted(counts.items()) for i in range(1, n + 1)]
    if len(wanted) <= BOUND:
        return wanted
    first = [(name, i) for name, n in sorted(counts.items()) for i in sorted({1, 2, n}) if i <= n]
    rest = [w for w in wanted if w not in set(first)]
    step = max(1, len(rest) // max(1, BOUND - len(first)))
    return first + rest[::step]


@pytest.mark.slow
@pytest.mark.parametrize("error", ["EPERM"])
def test_every_call_fails_once(me, level, probes, listener, canary_process, error):
    argv, report, canary = selfcheck(me, probes, listener, canary_process, level)
    lines = calls_of_a_clean_run(me, argv, report)
    counts = occurrences(lines, probes["selfcheck"])
    assert sum(counts.values()) > 30, "the trace looks too short to be a set-up"
    bad, ran, refused = [], 0, 0
    for name, when in plan(counts):
        inject = [
            "strace",
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            f"trace={name}",
            "-e",
            f"inject={name}:error={error}:when={when}",
        ]
        try:
            done = me.outside(inject + argv, timeout=5, umask=0o022)
        except subprocess.TimeoutExpired:
            bad.append(f"{name}#{when}: hangs")
            survivors(0)  # ends what strace left behind
            continue
        verdict = judge(name, done, report)
        ran += verdict == "ran"
        refused += verdict == "refused"
        if verdict not in ("ran", "refused"):
            bad.append(f"{name}#{when}: {verdict}")
        if report.exists():
            report.unlink()
        if canary.stat().st_mode & 0o777 != 0o644:
            bad.append(f"{name}#{when}: the canary's mode changed")
            os.chmod(canary, 0o644)
    litter = settles(lambda: [p.name for p in me.work.iterdir()], 1.0)
    if litter:
        bad.append(f"left in the write grant: {litter}")
    assert listener.seen() == []
    assert refused > 20, "hardly any injection was noticed: is strace injecting at all?"
    assert not bad, f"({ran} ran in full, {refused} refused)\n" + "\n".join(bad)


def judge(name, done, report):
    if not report.exists():
        if done.returncode == 0:
            return f"exit 0 without having run: {done.stderr!r}"
        text = done.stderr
        if not text.startswith(b"cordon:") and name not in SILENT:
            return f"no message of ours (exit {done.returncode}): {text[-200:]!r}"
        if text.count(b"\n") > 3:
            return f"more than a line: {text!r}"
        return "refused"
    rows = [line.split() for line in report.read_text().splitlines()]
    opened = [row[0] for row in rows if row[1] != "held"]
    if opened:
        return f"RAN WITHOUT {' '.join(opened)} (exit {done.returncode})"
    return "ran"

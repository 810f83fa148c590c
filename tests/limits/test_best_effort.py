# SPDX-License-Identifier: Apache-2.0
"""A limit that cannot be enforced refuses the run, unless --best-effort names it."""

import pytest

RUN = ["sh", "-c", "echo ran"]


def refused(me, opts, level):
    done = me.run(opts, RUN, level)
    assert (done.returncode, done.stdout) == (125, b""), done
    said = done.stderr.decode()
    assert said.startswith("cordon: ") and said.count("\n") <= 3, said
    return said


def unenforced(me):
    """(options, limit) that level landlock cannot hold for this caller."""
    cases = [(["--disk", "10M"], "disk")]
    if me.name == "root":
        cases.append((["-P", "32", "-w", str(me.work)], "procs"))  # with root's own id
    return cases


def test_refused_with_a_remedy(me):
    for opts, limit in unenforced(me):
        said = refused(me, opts, "landlock")
        assert limit in said and f"--best-effort {limit}" in said, said


def test_best_effort_runs_and_says_so(me):
    for opts, limit in unenforced(me):
        got = me.receipt([*opts, "--best-effort", limit], RUN, "landlock")
        assert (got["kind"], got["stdout"]) == ("exited", "ran\n"), got
        assert got["isolation"]["limits"][limit] in ("none", "watch"), got["isolation"]


def test_in_a_policy_file(me):
    for opts, limit in unenforced(me):
        value = '"10M"' if limit == "disk" else "32"
        fs = "" if limit == "disk" else f'"fs": {{"write": ["{me.work}"]}}, '
        me.write(me.work / "p.json", f'{{{fs}"limits": {{"{limit}": {value}}}, "best_effort": ["{limit}"]}}')
        got = me.receipt(["-p", "p.json"], RUN, "landlock")
        assert got["isolation"]["limits"][limit] in ("none", "watch"), got["isolation"]


def test_another_limit_s_permission_does_not_count(me):
    for opts, limit in unenforced(me):
        other = "cpu" if limit != "cpu" else "memory"
        refused(me, [*opts, "--best-effort", other], "landlock")


def test_default_limits_do_not_refuse(me):
    """A default limit that cannot be enforced does not prevent the run."""
    got = me.receipt([], RUN, "landlock")
    assert got["kind"] == "exited", got


@pytest.mark.parametrize("opts, limit, held", [
    (["-m", "64M"], "memory", {"watch", "cgroup"}),
    (["-P", "32"], "procs", {"rlimit", "watch", "cgroup"}),
    (["--cpus", "1"], "cpu", {"watch", "cgroup"}),
    (["--cpu-time", "5s"], "cpu_time", {"watch", "cgroup"}),
    (["--disk", "10M"], "disk", {"tmpfs"}),
], ids=lambda v: v if isinstance(v, str) else "")  # fmt: skip
def test_best_effort_does_not_loosen_what_can_be_held(me, opts, limit, held):
    got = me.receipt([*opts, "--best-effort", limit], RUN, "namespaces")
    assert got["isolation"]["limits"][limit] in held, got["isolation"]


def test_best_effort_memory_still_ends_a_bomb(me, probes):
    got = me.receipt(["-m", "64M", "--best-effort", "memory", "-r", probes["eat"]], [probes["eat"], "anon", "512"], "namespaces")
    assert got["kind"] == "memory", got

# SPDX-License-Identifier: Apache-2.0
"""A run that waits keeps little of the memory that its start needed."""

import pathlib
import subprocess

import pytest

from conftest import IS_ROOT, settles, unavailable

ARGUMENTS = 30000  # 8 bytes each while the command is started, and 6 in the plan
KEPT_KB = 160  # of init's own memory; that list alone is 234 kB


def inits(supervisor):
    """Children that have not ended; a helper of root's may be a zombie."""
    lists = pathlib.Path(f"/proc/{supervisor}/task").glob("*/children")
    pids = [int(pid) for children in lists for pid in children.read_text().split()]
    return [pid for pid in pids if ") Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()]


def anonymous_kb(pid):
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in rollup if line.startswith("Anonymous:"))


@pytest.fixture
def run(me):
    if not IS_ROOT:
        unavailable("only root can look at init's memory")
    script = ["/bin/sh", "-c", "echo ready; read line"]
    run = me.popen(
        me.argv([], script + ["x"] * ARGUMENTS), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert run.stdout.readline() == b"ready\n"
    yield run
    run.communicate(b"\n", timeout=20)
    assert run.returncode == 0


def test_what_only_the_start_needed_is_given_back(run):
    (init,) = inits(run.pid)
    assert not settles(lambda: [kb for kb in [anonymous_kb(init)] if kb > KEPT_KB])


def test_the_plan_is_there_once(run):
    """The supervisor looks into the file that init has got."""
    assert "memfd:cordon-plan" in pathlib.Path(f"/proc/{run.pid}/maps").read_text()

# SPDX-License-Identifier: Apache-2.0
"""--private DIR and limits.disk: one limit over everything that is kept."""

import json
import os
import subprocess

import pytest

from conftest import ceiling

MIB = 1 << 20
# Where the two are inside, at both levels.
PLACES = 'T=/tmp; test -z "$TMPDIR" || T=$TMPDIR; H=$HOME; '


@pytest.fixture
def kept(me):
    """A place for a private directory that nothing grants."""
    return me.mkdir("state") / "kept"


def sh(me, opts, script, level, **kw):
    return me.run(opts, ["/bin/sh", "-c", PLACES + script], level, **kw)


def test_disk_over_several_runs(me, level, kept):
    """What is there counts: runs that each stay below the limit do not get beyond it together."""
    opts = ["--private", kept, "--disk", "40M"]
    fill = "head -c 15M /dev/zero > $T/{0}; sleep 0.5; head -c 5M /dev/zero > $H/{0}; sync -f $H/{0}; sleep 0.5"
    kinds = []
    for i in range(3):
        got = me.receipt(opts, ["/bin/sh", "-c", PLACES + fill.format(i)], level)
        kinds.append(got["kind"])
        if got["kind"] == "disk":
            assert got["status"] == 137
            (denial,) = [d for d in got["denials"] if d["what"] == "disk"]
            assert "private directory" in denial["target"] and "80" in denial["fix"], denial
        else:
            assert abs(got["usage"]["disk_bytes"] - (i + 1) * 20 * MIB) < 2 * MIB, got["usage"]
    assert kinds[0] == "exited" and kinds[-1] == "disk", kinds
    # The next one begins beyond it, and does not last.
    got = me.receipt(opts, ["/bin/sleep", "20"], level)
    assert (got["kind"], got["duration_ms"] < ceiling(5000)) == ("disk", True), got
    # With more room it can be put right.
    assert sh(me, ["--private", kept, "--disk", "200M"], "rm $T/[0-9] $H/[0-9]", level).returncode == 0
    assert me.receipt(opts, ["/bin/sleep", "0.3"], level)["kind"] == "exited"


def test_locked_away_is_not_forgotten(me, kept):
    """What runs put into directories that cannot be entered any more still counts."""
    opts = ["--private", kept, "--disk", "60M"]
    script = "mkdir $T/d{0}; head -c 20M /dev/zero > $T/d{0}/x; sync -f $T/d{0}/x; chmod 0 $T/d{0}; sleep 0.7"
    kinds = [
        me.receipt(opts, ["/bin/sh", "-c", PLACES + script.format(i)], "namespaces")["kind"]
        for i in range(6)
    ]
    assert "disk" in kinds and kinds[0] == "exited", kinds


def test_deleted_files_count(me, level, kept):
    script = "exec 9> $T/x; rm $T/x; head -c 400M /dev/zero >&9; sleep 20"
    got = me.receipt(["--private", kept, "--disk", "40M"], ["/bin/sh", "-c", PLACES + script], level)
    assert got["kind"] == "disk", got


@pytest.mark.once
def test_inodes_count(me, level, kept):
    script = "import os,sys\nfor i in range(200000): open(os.environ.get('TMPDIR','/tmp')+'/%d'%i,'w').close()"
    got = me.receipt(["--private", kept, "--disk", "20M"], ["/usr/bin/python3", "-S", "-c", script], level)
    assert got["kind"] == "disk", got
    assert len(os.listdir(kept / "tmp")) < 100000


def test_limit_is_held_at_both_levels(me, level, kept):
    got = me.receipt(["--private", kept, "--disk", "40M"], ["/bin/true"], level)
    held = got["isolation"]["limits"]["disk"]
    assert held == ("tmpfs+watch" if level == "namespaces" else "watch"), held


def test_one_limit_for_all(me, kept):
    """Each run's watch sees what the others write."""
    opts = ["--private", kept, "--disk", "60M"]
    script = PLACES + "head -c 45M /dev/zero > $T/{0}; sleep 20"
    runs = [me.popen(me.argv([*opts, "--json"], ["/bin/sh", "-c", script.format(i)], "namespaces"),
                     stdout=subprocess.PIPE) for i in range(2)]  # fmt: skip
    kinds = [json.loads(run.communicate(timeout=60)[0])["kind"] for run in runs]
    assert "disk" in kinds, kinds


def test_workspace_and_private_share_the_limit(me, level, kept):
    base = me.mkdir("project")
    me.write(base / "f", b"x" * 30 * MIB)
    opts = ["--private", kept, "--workspace", base, "--disk", "40M", "--name", "one"]
    got = me.receipt(opts, ["/bin/sh", "-c", PLACES + "head -c 15M /dev/zero > $T/a; sleep 1"], level)
    assert got["kind"] == "exited", got  # the base is not charged
    both = "head -c 15M /dev/zero > $CORDON_WORKSPACE/a; sleep 0.7; head -c 15M /dev/zero > $H/b; sleep 20"
    got = me.receipt(opts, ["/bin/sh", "-c", PLACES + both], level)
    assert got["kind"] == "disk", got
    (denial,) = [d for d in got["denials"] if d["what"] == "disk"]
    assert "workspace and the private directory" in denial["target"]

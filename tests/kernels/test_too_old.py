# SPDX-License-Identifier: Apache-2.0
"""A kernel that is older than Cordon needs: nothing runs, and one line says why and what helps.

Only `make test-kernels` with KERNELS=bullseye (Linux 5.10) runs this file.
"""

import json

import pytest

from conftest import LEVELS

WAYS = [[], *(["--isolation", level] for level in LEVELS), ["--best-effort", "memory"], ["--preset", "agent"], ["--json"]]


@pytest.mark.parametrize("opts", WAYS, ids=" ".join)
def test_nothing_runs(me, opts):
    mark = me.work / "mark"
    script = ["sh", "-c", f"echo ran > {mark}; echo said"]
    assert me.outside(script).returncode == 0 and mark.exists()  # the control
    mark.unlink()
    done = me.run(["-w", me.work, *opts], script)
    assert done.returncode == 125 and not mark.exists(), done
    assert b"said" not in done.stdout, done
    told = done.stderr
    if "--json" in opts:
        told = json.dumps(json.loads(done.stdout)["error"]).encode()
    assert told.count(b"\n") == ("--json" not in opts), done
    assert b"Linux 5.13 or newer" in told, done


@pytest.mark.parametrize("opts", [[], ["--json"]], ids=" ".join)
def test_check_says_so(me, opts):
    done = me.outside([me.cordon, "check", *opts])
    assert done.returncode == 125 and done.stdout == b"", done
    assert done.stderr.count(b"\n") == 1 and b"Linux 5.13 or newer" in done.stderr, done

# SPDX-License-Identifier: Apache-2.0
"""A short run of what `make soak` does for hours, and the proof that its census sees a leak."""

import os
import pathlib
import subprocess
import sys

import pytest

from conftest import ROOT, unavailable

PREFIX = pathlib.Path(os.environ.get("CORDON_PREFIX", "/nonexistent"))


def soak(cordon, *more):
    if not list(PREFIX.glob("lib/**/libcordon.so")):
        unavailable("CORDON_PREFIX has no library")
    argv = [sys.executable, ROOT / "tools" / "soak.py", "--cordon", cordon, "--prefix", PREFIX, *more]
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_nothing_leaks(cordon_path):
    done = soak(cordon_path, "--runs", 400, "--batch", 100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "400 runs, 0 wrong, 0 leaks" in done.stdout


def test_a_leak_is_seen(cordon_path):
    done = soak(cordon_path, "--runs", 50, "--batch", 50, "--leak")
    assert done.returncode == 1, done.stdout + done.stderr
    leaks = {line.split()[0] for line in done.stdout.splitlines() if line.endswith("LEAK")}
    assert {"processes", "files"} <= leaks, done.stdout

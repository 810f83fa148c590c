# SPDX-License-Identifier: Apache-2.0
"""A short run of what `make soak` does for longer: many runs of one program leave nothing behind."""

import os
import pathlib
import subprocess
import sys

import pytest

from pylib import ceiling

TOOL = pathlib.Path(os.environ.get("CORDON_SOURCE", "/nonexistent")) / "tools" / "soak_python.py"


@pytest.mark.skipif(not TOOL.exists(), reason="CORDON_SOURCE does not name the source tree")
def test_nothing_grows():
    argv = [sys.executable, TOOL, "--python", sys.executable, "--runs", "120", "--batch", "40"]
    done = subprocess.run(
        list(map(str, argv)), capture_output=True, text=True, timeout=ceiling(240), check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "120 runs, 0 wrong, 0 leaks" in done.stdout

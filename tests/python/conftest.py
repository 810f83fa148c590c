# SPDX-License-Identifier: Apache-2.0
"""The tests of the Python package: they use it as a program would, in this process, as the user that
runs pytest (root or an ordinary user).

`cordon` is whatever the interpreter imports: an installed wheel, or a directory in PYTHONPATH.
"""

import os
import subprocess
import sys
import textwrap

import pytest

import cordon
from pylib import ceiling

@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A state directory and a current directory of the test's own."""
    state = tmp_path / "state"
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.chdir(here)
    return tmp_path


@pytest.fixture
def sandboxes(place):
    """Ids of the sandboxes whose files exist."""
    base = place / "state" / "cordon" / "sandboxes"
    return lambda: sorted(os.listdir(base)) if base.exists() else []


@pytest.fixture
def box():
    """A sandbox with a private working directory."""
    with cordon.Sandbox(workdir=True) as made:
        yield made


@pytest.fixture
def host(place):
    """Runs Python code in a process of its own, with this interpreter and its environment."""

    package = os.path.dirname(os.path.dirname(os.path.abspath(cordon.__file__)))
    env = {**os.environ, "PYTHONPATH": package}

    def run(code, *args, check=True, **options):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=ceiling(60), env=env, **options,
        )  # fmt: skip
        if check:
            assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run

# SPDX-License-Identifier: Apache-2.0
"""The tests of the Python package: they use it as a program would, in this process, as the user that
runs pytest (root or an ordinary user).

`pycordon` is whatever the interpreter imports: an installed wheel, or a directory in PYTHONPATH.
"""

import os
import subprocess
import sys
import textwrap

import pytest

import pycordon
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
    return lambda: [name for name in left_in(base) if not name.startswith(".c")]


@pytest.fixture
def left(place):
    """The same, and places of code."""
    return lambda: left_in(place / "state" / "cordon" / "sandboxes")


def left_in(base):
    return sorted(os.listdir(base)) if base.exists() else []


@pytest.fixture
def box():
    """A sandbox with a private working directory."""
    with pycordon.Sandbox(workdir=True) as made:
        yield made


@pytest.fixture
def host(place):
    """Runs Python code in a process of its own, with this interpreter and its environment."""

    package = os.path.dirname(os.path.dirname(os.path.abspath(pycordon.__file__)))
    env = {**os.environ, "PYTHONPATH": package}

    def run(code, *args, check=True, patience=60, **options):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=ceiling(patience), env=env, **options,
        )  # fmt: skip
        if check:
            assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run

# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/python run as they stand there. Those of frameworks are run by the adapters' tests."""

import fnmatch
import os
import pathlib

import pytest

SOURCE = pathlib.Path(os.environ.get("CORDON_SOURCE", pathlib.Path(__file__).parents[2]))
EXAMPLES = SOURCE / "examples" / "python"
SAYS = {
    "grade": [
        "ada: ok",
        "bob: wrong (6 was expected, not 3)",
        "cyd: compile (SyntaxError: *)",  # each version of Python has its own words
        "dan: timeout",
        "eve: memory",
        "fay: runtime",
    ],
    "scheduler": [
        "squares: 0 1 4 9 16 25 36 49",
        'words: {"the": 3, "and": 2, "cat": 1}',
        "endless: timeout",
        "more memory than the scheduler has: refused",
        "total: 6",
    ],
    "session": [
        "hello from the session",
        "status 1: HTTP Error 404: File not found",
        "commands that run: 1",
    ],
}


def test_every_program_is_run_by_a_test():
    names = {path.stem for path in EXAMPLES.glob("*.py") if not path.stem.endswith("_agent")}
    assert names == {*SAYS, "fan_out"}


@pytest.mark.parametrize("name", SAYS)
def test_program(host, name):
    done = host((EXAMPLES / f"{name}.py").read_text())
    lines = done.stdout.splitlines()
    assert len(lines) == len(SAYS[name]) and all(map(fnmatch.fnmatchcase, lines, SAYS[name])), done
    if name == "grade":
        assert done.stderr.endswith("6 of 6\n")


@pytest.mark.slow
def test_a_thousand_forks(host):
    """fan_out.py with the number that it has by default; test_fork.py runs it with fewer."""
    done = host((EXAMPLES / "fan_out.py").read_text(), patience=600)
    assert done.stdout.startswith("1000 routes, 1000 of them different; shortest "), done.stdout

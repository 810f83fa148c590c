# SPDX-License-Identifier: Apache-2.0
"""The unit and torture tests' programs, in a guest: tools/test-kernels.sh puts them into CORDON_UNITS."""

import os
import pathlib
import re
import subprocess

import pytest

UNITS = pathlib.Path(os.environ.get("CORDON_UNITS", "/nonexistent"))
PROGRAMS = sorted(path.name for path in UNITS.glob("test_*"))


def test_programs_are_there():
    assert PROGRAMS, f"no programs in {UNITS}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    environment = os.environ | {
        "CORDON_SOURCE_ROOT": os.environ["CORDON_SOURCE"],
        "CORDON_BUILD_ROOT": str(UNITS.parent),
        "CORDON_BIN": os.environ["CORDON"],
        "CORDON_FAULT_BIN": os.environ["CORDON_FAULT"],
    }
    done = subprocess.run([UNITS / name], env=environment, capture_output=True, cwd=os.environ["TMPDIR"])
    text = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    ends = re.findall(r"^(not )?ok \d+ - (\S+)(.*)$", text, re.M)
    assert done.returncode == 0 and ends and not any(bad for bad, _, _ in ends), text[-4000:]
    skipped = [name + rest for _, name, rest in ends if "# SKIP" in rest]
    if len(skipped) == len(ends):
        pytest.skip("; ".join(skipped))
    for line in skipped:
        print("skipped inside:", line)

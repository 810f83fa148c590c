#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do type checkers find slips in calls of the Python package?

    tools/check-types.py PROGRAM...     mypy, pyright or basedpyright, each by its path

Each checks tests/typing/settings.py, as a user's program: an error is wanted in each line that ends
with "slip", and in no other.
"""

import os
import re
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILE = os.path.join(TOP, "tests", "typing", "settings.py")
PACKAGE = os.path.join(TOP, "bindings", "python")


def wanted():
    with open(FILE, encoding="utf-8") as file:
        return {i for i, line in enumerate(file, 1) if line.endswith("# slip\n")}


def found(program, scratch):
    if os.path.basename(program) == "mypy":
        argv = [program, "--no-error-summary", "--config-file=", "--cache-dir", scratch, FILE]
    else:
        config = os.path.join(scratch, "pyrightconfig.json")
        with open(config, "w", encoding="utf-8") as file:
            file.write('{"typeCheckingMode": "standard", "include": ["%s"], "extraPaths": ["%s"]}' % (FILE, PACKAGE))
        argv = [program, "--project", config]
    env = {**os.environ, "MYPYPATH": PACKAGE, "PYTHONPATH": PACKAGE}
    done = subprocess.run(argv, capture_output=True, text=True, env=env, cwd=scratch, check=False)
    lines = re.findall(r"settings\.py:(\d+)(?::\d+)?(?::| -) error", done.stdout)
    if not lines:
        print(done.stdout + done.stderr, file=sys.stderr)
    return {int(number) for number in lines}


def main(programs):
    slips, bad = wanted(), 0
    assert len(slips) >= 12
    for program in programs:
        with tempfile.TemporaryDirectory() as scratch:
            lines = found(program, scratch)
        name = os.path.basename(program)
        for number in sorted(slips - lines):
            print(f"{name}: no error in tests/typing/settings.py:{number}", file=sys.stderr)
        for number in sorted(lines - slips):
            print(f"{name}: an error in tests/typing/settings.py:{number}", file=sys.stderr)
        bad += lines != slips
        print(f"{name}: {len(lines & slips)} of {len(slips)} slips found")
    return 1 if bad or not programs else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(name) for name in sys.argv[1:]]))

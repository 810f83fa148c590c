#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prepare a compilation database for clang-tidy: one entry per source.

    compile-commands.py BUILD_DIR OUTPUT

Sources compiled twice (the fault-injection variant), generated ones and assembly are left out. Prints the
names of the sources that remain, one a line.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main():
    build, output = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    entries, seen = [], set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = (Path(entry["directory"]) / entry["file"]).resolve()
        if path.suffix != ".c" or "CORDON_FAULT_INJECTION" in entry["command"] or path in seen:
            continue
        if build in path.parents or ROOT not in path.parents:
            continue
        seen.add(path)
        entries.append({**entry, "file": str(path)})
    output.write_text(json.dumps(entries, indent=1))
    for path in sorted(seen):
        print(path)
    return 0 if entries else 1


if __name__ == "__main__":
    sys.exit(main())

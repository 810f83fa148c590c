#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The public headers, the symbol map and the built library must name the same functions.

    check-exports.py HEADER_DIR MAP LIBRARY
"""

import re
import subprocess
import sys
from pathlib import Path


def declared(directory):
    names = set()
    for header in sorted(Path(directory).glob("*.h")):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        names |= set(re.findall(r"\b(cordon_[a-z0-9_]+)\s*\(", text))
    return names


def mapped(path):
    return set(re.findall(r"^\s*(cordon_[a-z0-9_]+);$", Path(path).read_text(), re.M))


def exported(library):
    out = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", library],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    names = set()
    for line in out.splitlines():
        name, kind = line.split()[:2]
        if kind != "A":  # the version node itself
            names.add(name.split("@")[0])
    return names


def main():
    headers, map_file, library = sys.argv[1:4]
    in_headers, in_map, in_library = declared(headers), mapped(map_file), exported(library)
    wrong = 0
    for text, names in (
        ("declared in a public header but not in the map", in_headers - in_map),
        ("in the map but declared nowhere", in_map - in_headers),
        ("in the map but not exported by the library", in_map - in_library),
        ("exported by the library but not in the map", in_library - in_map),
    ):
        for name in sorted(names):
            print(f"{name}: {text}")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deals files of tests to guests that run side by side, so that they end at about the same time.

    deal.py PARTS TIMES SUITE...    one line per part: its files
    deal.py --times TIMES DIR       remembers from the JUnit files of a run how long each file took

What a file took the last time counts; for one that never ran, its length does.
"""

import json
import pathlib
import sys
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SECONDS_PER_LINE = 0.25  # in a guest, roughly


def load(path):
    try:
        return json.loads(pathlib.Path(path).read_text())
    except (OSError, ValueError):
        return {}


def files(suites):
    """Directories as the files in them; a file, or one test of it, as it is."""
    found = []
    for suite in suites:
        path = ROOT / suite
        inside = sorted(path.rglob("test_*.py")) if path.is_dir() else []
        found += [str(p.relative_to(ROOT)) for p in inside] or [suite]
    return list(dict.fromkeys(found))


def weight(name, times):
    path = ROOT / name.partition("::")[0]
    if name in times or not path.is_file():
        return times.get(name, 1.0)
    return len(path.read_text().splitlines()) * SECONDS_PER_LINE


def deal(parts, suites, times):
    """The longest first, each to the part that has least so far; in a part they keep their order."""
    names = files(suites)
    sums, dealt = [0.0] * parts, [[] for _ in range(parts)]
    for name in sorted(names, key=lambda n: -weight(n, times)):
        least = sums.index(min(sums))
        sums[least] += weight(name, times)
        dealt[least].append(name)
    return [[n for n in names if n in mine] for mine in dealt]


def remember(path, directory):
    """The longest of a run's cases, since the parts are dealt once for all of them."""
    longest = {}
    for result in pathlib.Path(directory).rglob("*.xml"):
        took = {}
        for case in ET.parse(result).getroot().iter("testcase"):
            name = (case.get("classname") or "").replace(".", "/") + ".py"
            took[name] = took.get(name, 0.0) + float(case.get("time") or 0)
        for name, seconds in took.items():
            longest[name] = max(longest.get(name, 0.0), round(seconds, 1))
    times = load(path) | longest
    pathlib.Path(path).write_text(json.dumps(times, indent=0, sort_keys=True) + "\n")


def main():
    if sys.argv[1] == "--times":
        remember(sys.argv[2], sys.argv[3])
        return
    for mine in deal(int(sys.argv[1]), sys.argv[3:], load(sys.argv[2])):
        print(" ".join(mine))


if __name__ == "__main__":
    main()

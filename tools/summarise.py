#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Add up JUnit files (of meson and of pytest) and print the one closing line.

    summarise.py DIR [EXTRA_FAILURES]
    summarise.py --log TESTLOG.JSON     only print what the failed tests of meson said

Exit 1 if anything failed or nothing ran. EXTRA_FAILURES counts steps that failed outside the test
runners, such as a build.
"""

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def cases(path):
    """Yields (name, outcome, whether it took a second try) of every test case in a JUnit file."""
    for case in ET.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname') or ''}::{case.get('name')}"
        outcome = "passed"
        if case.find("failure") is not None or case.find("error") is not None:
            outcome = "failed"
        elif case.find("skipped") is not None:
            outcome = "skipped"
        yield name, outcome, case.get("second-try") is not None


def show_log(path):
    """Meson keeps the diagnostics of TAP tests to itself; without them a failure says nothing."""
    for line in Path(path).read_text(errors="replace").splitlines():
        test = json.loads(line)
        if test["result"] in ("OK", "SKIP", "EXPECTEDFAIL"):
            continue
        print(f"-- {test['name']}: {test['result']} (exit status {test['returncode']})")
        said = (test.get("stdout") or "") + (test.get("stderr") or "")
        lines = [text for text in said.splitlines() if not text.startswith("ok ")]
        print("\n".join("   " + text for text in lines[:60]))
    return 0


def main():
    if sys.argv[1] == "--log":
        return show_log(sys.argv[2])
    directory = Path(sys.argv[1])
    extra = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    total = {"passed": 0, "failed": extra, "skipped": 0}
    failures, again = [], []
    for path in sorted(directory.glob("*.xml")):
        here = {"passed": 0, "failed": 0, "skipped": 0}
        try:
            for name, outcome, is_second in cases(path):
                here[outcome] += 1
                if outcome == "failed":
                    failures.append(f"{path.stem}: {name}")
                elif is_second:
                    again.append(f"{path.stem}: {name}")
        except ET.ParseError as e:
            here["failed"] += 1
            failures.append(f"{path.stem}: unreadable result file ({e})")
        print(f"  {path.stem:24} " + ", ".join(f"{n} {what}" for what, n in here.items()))
        for what, n in here.items():
            total[what] += n
    for title, names in ("Passed at the second try, alone on the machine:", again), ("Failed:", failures):
        if names:
            print("\n" + title)
            for name in names:
                print(f"  {name}")
            print()
    closing = ", ".join(f"{n} {what}" for what, n in total.items())
    (directory / "closing").write_text(closing + "\n")
    print(closing)
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decides which failed tests run once more, and merges both results.

    second-try.py may FIRST.XML            exit 0 if all that failed may
    second-try.py merge FIRST.XML SECOND.XML

Only the tests that second-try.list names may, each with the reason why a busy machine makes it fail.
Any other failure fails the run. Tests of tests/escape cannot be listed: an escape that works now and
then is an escape.
"""

import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

LIST = Path(os.environ.get("SECOND_TRY_LIST") or Path(__file__).with_suffix(".list"))
ONE_TRY = "tests.escape"
MARK = "second-try"  # summarise.py looks for it


def name_of(case):
    return case.get("classname") or "", case.get("name")


def reasons(case):
    return [*case.findall("failure"), *case.findall("error")]


def failed(path):
    return [case for case in ET.parse(path).getroot().iter("testcase") if reasons(case)]


def listed():
    """Lines are `module::test reason`, as summarise.py prints tests; without parameters all of them are meant."""
    tests = set()
    for line in LIST.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        test, _, reason = line.partition(" ")
        if not reason.strip() or test.startswith(ONE_TRY):
            sys.exit(f"{LIST}: {test}: " + ("no second try in tests/escape" if reason.strip() else "no reason"))
        tests.add(test)
    return tests


def may(path):
    cases, tests = [name_of(case) for case in failed(path)], listed()
    return cases and all({f"{s}::{n}", f"{s}::{n.partition('[')[0]}"} & tests for s, n in cases)


def merge(first, second):
    """In FIRST, what passed in SECOND is marked and no failure any more."""
    again = {name_of(c): c for c in ET.parse(second).getroot().iter("testcase")}
    tree = ET.parse(first)
    for case in tree.getroot().iter("testcase"):
        other = again.get(name_of(case))
        if not reasons(case) or other is None or reasons(other) or other.find("skipped") is not None:
            continue
        for reason in reasons(case):
            case.remove(reason)
        case.set(MARK, "yes")
    tree.write(first, encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "may":
        sys.exit(not may(sys.argv[2]))
    merge(sys.argv[2], sys.argv[3])

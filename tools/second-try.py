#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a second run of the tests that failed says about the first.

    second-try.py may FIRST.XML            exit 0 if there may be one; prints programs of meson to run
    second-try.py merge FIRST.XML SECOND.XML

A test that a busy machine made fail passes when it has the machine for itself, and is then told as
such by summarise.py. A few of them, that is: more are no accident. Attempts to break out have one
try: an escape that works now and then is an escape.
"""

import sys
import xml.etree.ElementTree as ET

FEW = 3
ONE_TRY = "tests.escape"
MARK = "second-try"  # summarise.py looks for it


def name_of(case):
    return case.get("classname") or "", case.get("name")


def reasons(case):
    return [*case.findall("failure"), *case.findall("error")]


def failed(path):
    return [case for case in ET.parse(path).getroot().iter("testcase") if reasons(case)]


def may(path):
    cases = failed(path)
    suites = {name_of(case)[0] for case in cases}
    if not 0 < len(cases) <= FEW or any(suite.startswith(ONE_TRY) for suite in suites):
        return False
    print(*(suite.rpartition(" / ")[2] for suite in suites if " / " in suite))
    return True


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

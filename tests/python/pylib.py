# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share."""

import os
import time

SLOW = float(os.environ.get("CORDON_TEST_SLOW", "1"))


def ceiling(seconds):
    """How long something may take at most; generous, and more so on a slow machine."""
    return seconds * SLOW


def until(true, what, patience=30.0):
    """Waits for something that only shows by looking."""
    end = time.monotonic() + ceiling(patience)
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def processes_with(text):
    """The processes of this machine whose command line has the text; NUL is between its words."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit():
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    found += [entry] if text.encode() in file.read() else []
        except OSError:
            pass  # it has just ended
    return found


def descendants(pid):
    """The processes below one."""
    found, todo = set(), [pid]
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parents.setdefault(int(file.read().rsplit(b")", 1)[1].split()[1]), []).append(int(name))
        except OSError:
            continue
    while todo:
        for child in parents.get(todo.pop(), ()):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found


def start_of(pid):
    """Which process has the number now; None: none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            rest = file.read().rsplit(b")", 1)[1].split()
            return None if rest[0] in (b"Z", b"X") else rest[19]
    except OSError:
        return None

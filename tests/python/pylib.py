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

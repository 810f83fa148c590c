# SPDX-License-Identifier: Apache-2.0
"""limits.disk over runs that lock directories in a private directory even for themselves.

Such a run can only conclude from the file system's growth what lies there, and others have a part
in that: a second run that lets go of a deleted file hides as much, a neighbour that writes is
charged. What these conclusions can come to is written into the account here, between two runs.
"""

import os
import stat

import pytest

PLACES = 'T=/tmp; test -z "$TMPDIR" || T=$TMPDIR; '
HIDE = "mkdir -p $T/l/m && head -c 200M /dev/zero > $T/l/m/x && chmod 0 $T/l/m $T/l"
SEEN = "65536 8"  # bytes and inodes outside of the locked directory, or about that
WRITE = "head -c 40M /dev/zero > $T/y; sleep 1; echo went on"


@pytest.fixture
def kept(me):
    return me.mkdir("state") / "kept"


def run(me, kept, disk, script, level):
    return me.receipt(["--private", kept, "--disk", disk], ["/bin/sh", "-c", PLACES + script], level)


def account(kept, text):
    with open(kept / "held", "r+", encoding="ascii") as held:
        held.truncate()
        held.write(text + "\n")


def test_what_others_free_hides_nothing(me, level, kept):
    assert run(me, kept, "220M", HIDE, level)["kind"] == "exited"
    # The control: an account that is taken as it stands, and forgets.
    account(kept, SEEN)
    assert run(me, kept, "220M", WRITE + "; rm $T/y", level)["kind"] == "exited"
    # The same, with the word that something could not be seen.
    account(kept, f"{SEEN} {SEEN}")
    got = run(me, kept, "220M", WRITE, level)
    assert got["kind"] == "disk" and "went on" not in got["stdout"], got
    assert stat.S_IMODE(os.lstat(kept / "tmp/l").st_mode) == 0  # locked again


def test_what_could_not_be_seen_is_noted(me, level, kept):
    got = run(me, kept, "220M", HIDE + "; sleep 1; echo > $T/z", level)
    assert got["kind"] == "exited" and len((kept / "held").read_text().split()) == 4
    got = run(me, kept, "220M", "chmod 700 $T/l && chmod 700 $T/l/m && sleep 1; echo > $T/z2", level)
    assert got["kind"] == "exited" and len((kept / "held").read_text().split()) == 2


def test_what_others_write_does_not_stay(me, level, kept):
    assert run(me, kept, "1G", HIDE, level)["kind"] == "exited"
    account(kept, f"{4 << 30} 70 {SEEN}")
    assert run(me, kept, "1G", WRITE, level)["kind"] == "exited"

# SPDX-License-Identifier: Apache-2.0
"""`~` at the start of a path is the caller's home, in flags and policy files."""

import json
import os

import pytest


def prepare(me):
    for name in ("in", "out"):
        (me.home / name).mkdir()
        me.own(me.home / name)
    me.write(me.home / "in" / "f", "fine\n")
    me.write(me.home / "in" / "secret", "canary\n")


def test_grants_denies_and_directories(me, level):
    prepare(me)
    done = me.run(["--read=~/in"], ["cat", me.home / "in/f", me.home / "in/secret"], level)
    assert done.stdout == b"fine\ncanary\n", done
    done = me.run(
        ["-r", "~/in", "--deny=~/in/secret"], ["cat", me.home / "in/f", me.home / "in/secret"], level
    )
    assert done.stdout == b"fine\n", done
    done = me.run(["-r", "~/in", "-C", "~/in/"], ["sh", "-c", "pwd; cat f"], level)
    assert done.stdout == f"{me.home}/in\nfine\n".encode(), done
    done = me.run(["-w", "~//out"], ["sh", "-c", f"echo x > {me.home}/out/y"], level)
    assert done.returncode == 0 and (me.home / "out/y").read_text() == "x\n", done
    # The home as a whole, named as such.
    done = me.run(["-r", "~"], ["cat", me.home / "in/f"], level)
    assert done.stdout == b"fine\n", done


def test_in_a_policy_file(me):
    """Not the file's directory, and not a directory called '~' there."""
    prepare(me)
    (me.work / "~").mkdir()
    me.own(me.work / "~")
    policy = me.write(me.work / "p.json", json.dumps({"fs": {"read": ["~/in"], "deny": ["~/in/s*"]}}))
    done = me.run(["-p", policy], ["cat", me.home / "in/f", me.home / "in/secret"])
    assert done.stdout == b"fine\n", done


def test_workspace_private_receipt_and_policy(me):
    prepare(me)
    me.write(me.home / "p.json", "{}")
    done = me.run(
        ["--workspace=~/in", "--receipt=~/r.json", "--private=~/kept", "--policy=~/p.json", "--commands=sh,cat"],
        ["sh", "-c", f"cd {me.home}/in && cat f && echo x > $TMPDIR/tmp/k || echo x > /tmp/k"],
    )
    assert b"fine\n" in done.stdout, done
    assert json.loads((me.home / "r.json").read_text())["kind"] == "exited"
    assert (me.home / "kept" / "tmp" / "k").exists()
    assert not os.path.exists(me.work / "~")


def test_allowed_commands(me):
    (me.home / "bin").mkdir()
    me.write(me.home / "bin" / "mine", "#!/bin/sh\necho fine\n", 0o755)
    done = me.run(["-r", "~/bin", "--commands", "~/bin/mine,sh"], ["sh", "-c", f"{me.home}/bin/mine; ls /"])
    assert done.stdout == b"fine\n", done


@pytest.mark.parametrize("typed", ["~root/x", "~nobody", "~~"])
def test_other_homes_are_an_error(me, typed):
    done = me.run([f"--read={typed}"], ["true"])
    assert done.returncode == 125, done
    assert f"--read: '{typed}': only ~ and ~/ are expanded".encode() in done.stderr
    odd = me.write(me.work / "~x", "fine\n")
    assert me.run(["-r", "./~x"], ["cat", odd]).stdout == b"fine\n"

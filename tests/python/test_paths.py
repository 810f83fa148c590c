# SPDX-License-Identifier: Apache-2.0
"""Paths as they are typed: the home, patterns, and the caller's PATH."""

import os
import sys

import pytest

import pycordon
from pycordon._flags import flags_of


@pytest.fixture
def home(place, monkeypatch):
    path = place / "home"
    (path / "in").mkdir(parents=True)
    (path / "in" / "f").write_text("fine")
    (path / "in" / "k.pem").write_text("canary")
    (path / ".ssh").mkdir()
    (path / ".ssh" / "id_rsa").write_text("canary")
    monkeypatch.setenv("HOME", str(path))
    return path


def test_the_home_and_patterns(home):
    """`~` is the caller's home, also beside a directory of that name; patterns hide what matches."""
    os.mkdir("~")
    with pycordon.Sandbox(fs_read=["~/in"], fs_deny=["*.pem"]) as box:
        got = box.run(["sh", "-c", f"cat {home}/in/f {home}/in/k.pem"])
    assert got.stdout == "fine", got


def test_a_run_may_not_widen_by_the_home(home, place):
    """A grant of the current directory is none of the home."""
    os.makedirs("~/.ssh")
    with pycordon.Sandbox(fs_read=[os.getcwd()]) as box:
        with pytest.raises(pycordon.PolicyError):
            box.run(["cat", f"{home}/.ssh/id_rsa"], fs_read=["~/.ssh"])


def test_flags_say_the_same(home):
    """What the command line makes of them: not below the base directory."""
    doc = {"fs.read": ["~/in", "x"], "fs.deny": ["*.pem", "**/.env", "./y*", "sub/z?"]}
    flags = flags_of(doc, "/base")
    assert flags == [
        "--read", "~/in", "--read", "/base/x", "--deny", "*.pem", "--deny", "**/.env",
        "--deny", "/base/y*", "--deny", "/base/sub/z?",
    ]  # fmt: skip


def test_a_shell_finds_the_callers_tools(home, monkeypatch):
    """The inner PATH is the caller's; a tool chain in it is shown, ~/bin is not."""
    tool = home / ".nvm" / "versions" / "node" / "v1" / "bin" / "mytool"
    other = home / "bin" / "other"
    for path in (tool, other):
        path.parent.mkdir(parents=True)
        path.write_text("#!/bin/sh\necho mine\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{other.parent}:{os.environ['PATH']}")
    with pycordon.Sandbox() as box:
        got = box.run("mytool; command -v other; echo $PATH")
    said, path = got.stdout.split("\n", 1)
    # This program's environment comes before all, as if it were activated.
    rest = [place for place in path.strip().split(":") if place != os.path.dirname(sys.executable)]
    assert said == "mine" and rest[0] == str(tool.parent) and str(other.parent) not in rest, got

# SPDX-License-Identifier: Apache-2.0
"""Protected and denied names while the host uses them, too: what loses its cover is noticed."""

import os
import subprocess
import time

import pytest

from conftest import ceiling

# Says whether a name could be changed or read, until it is told to stop.
TRY = """
import os, sys, time
name, how = sys.argv[1:]
def succeeds():
    try:
        if how == 'write':
            os.close(os.open(name, os.O_WRONLY | os.O_APPEND))
        elif how == 'make':
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT))
        else:
            os.close(os.open(name, os.O_RDONLY))
        return True
    except OSError:
        return False
print('before', succeeds(), flush=True)
open('ready', 'w').close()
while not os.path.exists('go'):
    time.sleep(0.005)
time.sleep(1)
print('after', succeeds(), flush=True)
open('survived', 'w').close()
"""

EXHAUST = """
import ctypes, sys
libc = ctypes.CDLL(None)
while libc.inotify_init() >= 0:
    pass
print(flush=True)
sys.stdin.read()
"""


def wait_for(path):
    end = time.monotonic() + ceiling(10)
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.01)


def start(me, opts, name, how="write"):
    run = me.popen(
        me.argv(["-w", ".", *opts], ["/usr/bin/python3", "-I", "-c", TRY, name, how],
                "namespaces"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    wait_for(me.work / "ready")
    return run


def save_by_rename(me, name, late=False):
    """As editors do: the old file gets another name, the new one takes its place."""
    time.sleep(1.5 if late else 0)  # by then init sleeps and is woken
    me.write(me.out / "new", "new\n")
    me.outside(["sh", "-c", f"mv {name} {name}~; mv {me.out}/new {name}; touch go"], check=True)


def goes_on(run, me, name):
    """The former state is back and covered; what the host put there was put aside."""
    out, err = run.communicate(timeout=ceiling(20))
    assert out == b"before False\nafter False\n", (out, err)
    assert run.returncode == 0 and f"put aside '{name}'".encode() in err, (run.returncode, err)
    assert (me.work / "survived").exists()


def ended(run, me, name):
    out, err = run.communicate(timeout=ceiling(20))
    assert out.startswith(b"before False"), "the name was covered"
    assert run.returncode == 125 and f"{name}' was replaced on the host".encode() in err
    assert not (me.work / "survived").exists()


def test_control_what_a_new_file_allows(me):
    """Positive control: a name that is not protected can be changed after such a save."""
    me.write(me.work / "plain", "old")
    run = start(me, [], "plain")
    save_by_rename(me, "plain")
    out, _ = run.communicate(timeout=ceiling(20))
    assert run.returncode == 0 and out == b"before True\nafter True\n"


@pytest.mark.parametrize("late", [False, True])
def test_a_protected_file_is_renamed_on_the_host(me, late):
    me.write(me.work / ".envrc", "old")
    run = start(me, [], ".envrc")
    save_by_rename(me, ".envrc", late)
    goes_on(run, me, ".envrc")
    assert (me.work / ".envrc.held-by-cordon").read_text() == "new\n"
    # On a slow machine the name was found missing, and was held as such.
    assert not (me.work / ".envrc").exists() or (me.work / ".envrc").read_text() == "old"


@pytest.mark.parametrize("late", [False, True])
def test_a_denied_file_is_renamed_on_the_host(me, late):
    me.write(me.work / "secret", "old")
    run = start(me, ["--deny", "secret"], "secret", "read")
    save_by_rename(me, "secret", late)
    ended(run, me, "secret")


def test_a_protected_directory_is_renamed_on_the_host(me):
    me.mkdir("work/.vscode")
    run = start(me, [], ".vscode/tasks.json", "make")
    # With something in it from the start: an empty one is as good as the old one, and is covered as it is.
    me.outside(["sh", "-c", "mkdir new; touch new/x; mv .vscode old; mv -T new .vscode; touch go"], check=True)
    goes_on(run, me, ".vscode")
    assert os.listdir(me.work / ".vscode.held-by-cordon") == ["x"]


def test_a_repository_is_renamed_on_the_host(me):
    me.outside(["git", "init", "-q", "."], check=True)
    run = start(me, [], ".git/config", "make")
    me.outside(["mv", ".git", "old"], check=True)
    me.outside(["sh", "-c", "mkdir .git; touch go"], check=True)
    ended(run, me, ".git")


def test_without_watches_the_names_are_looked_at(me):
    """The kernel allows a user few inotify instances, and others may have them all."""
    me.write(me.work / ".envrc", "old")
    other = me.popen(["/usr/bin/python3", "-c", EXHAUST], stdin=subprocess.PIPE,
                     stdout=subprocess.PIPE)  # fmt: skip
    try:
        other.stdout.readline()
        run = start(me, [], ".envrc")
        save_by_rename(me, ".envrc", late=True)
        goes_on(run, me, ".envrc")
    finally:
        other.communicate()


@pytest.mark.parametrize("name", [".envrc", "secret"])
def test_a_busy_neighbour_disturbs_nothing(me, name):
    me.write(me.work / name, "old")
    run = start(me, ["--deny", "secret"] if name == "secret" else [], name)
    for i in range(50):
        me.write(me.work / f"n{i}", "x")
        os.rename(me.work / f"n{i}", me.work / "neighbour")
    (me.work / "neighbour").unlink()
    me.write(me.work / "go")
    out, _ = run.communicate(timeout=ceiling(20))
    assert run.returncode == 0 and out == b"before False\nafter False\n"

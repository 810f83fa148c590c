# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a sandbox's private files."""

import asyncio
import os

import pytest

import pycordon
from pycordon import AsyncSandbox, Interpreter, Sandbox, StateError, UnsupportedError, UsageError, _snapshot
from pylib import ceiling


def tree(box):
    """All private files with their content, modes and links, as a run sees them."""
    found = box.run(
        "cd /tmp && find . ! -name . -exec stat -c '%n %F %a %h %s' {} + | sort; cat a 2>/dev/null;"
        " cd ~ && find . -mindepth 1 -exec stat -c '%n %F %a %h' {} + | sort"
    )
    assert found.ok, found
    return found.stdout


def test_there_and_back(box, left):
    made = box.run(
        "echo one > /tmp/a; ln /tmp/a /tmp/b; mkdir -p ~/d/e; echo x > ~/d/e/f; ln -s /etc/passwd ~/link;"
        " chmod 500 ~/d; chmod 4755 ~/d/e/f; truncate -s 1G /tmp/hole"
    )
    assert made.ok
    before = tree(box)
    first = box.snapshot("first")
    assert first.name == "first" and not first.closed
    box.run("chmod 700 ~/d; rm -r ~/d ~/link /tmp/b; echo two > /tmp/a; echo new > /tmp/new")
    after = tree(box)
    second = box.snapshot()
    assert after != before and second.name == "snapshot-1"
    for which, wanted in ((first, before), ("snapshot-1", after), ("first", before), (first, before)):
        box.restore(which)
        assert tree(box) == wanted
    box.run("echo three > /tmp/a")  # the snapshot is a copy, not the files themselves
    box.restore(first)
    assert tree(box) == before
    second.close()
    second.close()
    with pytest.raises(UsageError, match="no snapshot"):
        box.restore("snapshot-1")
    box.close()
    assert first.closed and left() == []


def test_refused_while_something_runs(box):
    kept = box.snapshot()
    with box.popen("sleep 600") as process:
        for work in (box.snapshot, lambda: box.restore(kept)):
            with pytest.raises(StateError, match="a run goes on"):
                work()
        process.kill()
    assert box.run("sleep 600 > /dev/null 2>&1 & echo left", orphans="keep").ok
    with pytest.raises(StateError, match="a run goes on"):
        box.restore(kept)


def test_names_and_numbers(box, monkeypatch):
    monkeypatch.setattr(_snapshot, "SNAPSHOTS_MAX", 3)
    one = box.snapshot("x")
    for name in ("x", "", "y" * 101, 5, b"x"):
        with pytest.raises(UsageError):
            box.snapshot(name)
    box.snapshot()
    box.snapshot()
    with pytest.raises(StateError, match="3 snapshots"):
        box.snapshot()
    one.close()
    box.snapshot("x")
    with pytest.raises(UsageError):
        box.restore(one)  # another one has its name
    with Sandbox() as other, pytest.raises(UsageError):
        other.restore("x")


def test_without_files():
    with Sandbox(persist=False) as box, pytest.raises(UnsupportedError, match="persist"):
        box.snapshot()


def test_a_restore_that_fails_changes_nothing(box, monkeypatch):
    """Whatever fails, and wherever: both directories are the old ones, or both are the new ones."""
    box.run("echo one > /tmp/a; echo one > ~/a")
    kept = box.snapshot()
    box.run("echo two > /tmp/a; echo two > ~/a")
    real = os.rename
    for n in range(1, 7):
        calls = []

        def rename(source, target, n=n, calls=calls):
            calls.append(source)
            if len(calls) == n:
                raise OSError(5, "told to fail")
            real(source, target)

        monkeypatch.setattr(os, "rename", rename)
        try:
            box.restore(kept)
        except OSError:
            pass
        monkeypatch.setattr(os, "rename", real)
        seen = box.run("cat /tmp/a ~/a").stdout
        assert seen in ("two\ntwo\n", "one\none\n"), n
        box.run("echo two > /tmp/a; echo two > ~/a")


def test_sandboxes_made_ahead_see_it():
    with Sandbox(parked=2, preload=()) as box:
        box.run("echo one > /tmp/a")
        kept = box.snapshot()
        box.run("echo two > /tmp/a")
        box.restore(kept)
        for _ in range(4):
            assert box.run("cat /tmp/a").stdout == "one\n"


def test_hostile_links(box, tmp_path):
    """Nothing of the host gets into a snapshot, or is changed by restoring one. Control: the host's own
    copy, which follows links, has it."""
    secret = tmp_path / "secret"
    secret.write_text("canary")
    os.chmod(tmp_path, 0o755)
    box.run(f"ln -s {secret} /tmp/file; ln -s {tmp_path} /tmp/dir; mkfifo /tmp/fifo; ln -s . /tmp/loop")
    kept = box.snapshot()
    home = kept._home.path
    assert subprocess_grep(home) == "" and os.path.islink(os.path.join(home, "tmp", "file"))
    assert (open(os.path.join(home, "tmp", "file")).read()) == "canary"
    box.run("rm /tmp/dir; mkdir /tmp/dir; echo x > /tmp/dir/secret")
    box.restore(kept)
    assert secret.read_text() == "canary" and sorted(os.listdir(tmp_path / "here")) == []


def subprocess_grep(path):
    import subprocess

    return subprocess.run(["grep", "-rs", "canary", path], capture_output=True, text=True, check=False).stdout


def test_an_interpreter(place):
    with Interpreter("python") as python:
        python.execute("x = 1; open('/tmp/a', 'w').write('one')")
        kept = python.snapshot("before")
        assert python.execute("x").text == "1"  # it goes on
        python.execute("open('/tmp/a', 'w').write('two')")
        with pytest.raises(UsageError):
            python.restore("other")
        assert python.execute("x").text == "1"  # that did not end it
        python.restore(kept)
        assert python.execute("open('/tmp/a').read()").text == "'one'"
        assert python.execute("x").error.name == "NameError"
        with python.fork() as fork, pytest.raises(UsageError):
            fork.restore("before")  # that one is its parent's


def test_in_an_event_loop(place):
    async def work():
        async with AsyncSandbox() as box:
            await box.run("echo one > /tmp/a")
            kept = await box.snapshot()
            await box.run("echo two > /tmp/a")
            await box.restore(kept)
            assert (await box.run("cat /tmp/a")).stdout == "one\n"
        assert kept.closed
        async with pycordon.AsyncInterpreter("python") as python:
            await python.execute("open('/tmp/a', 'w').write('one')")
            kept = await python.snapshot()
            await python.execute("open('/tmp/a', 'w').write('two')")
            await python.restore(kept)
            assert (await python.execute("open('/tmp/a').read()")).text == "'one'"

    asyncio.run(asyncio.wait_for(work(), ceiling(60)))

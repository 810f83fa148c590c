# SPDX-License-Identifier: Apache-2.0
"""What becomes of a workspace: at the end of a run, in further runs, and in copies of it."""

import json
import os
import pty
import signal
import subprocess

import pytest

from conftest import settles
from workspacelib import Desk, assert_same, picture, settle_clock, store, tree

PROJECT = {"file": "text\n", "gone": "x\n", "sub/inner": "inner\n"}
CHANGE = "echo changed > file; rm gone; echo new > made"
CHANGED = {"file": "modified", "gone": "deleted", "made": "added"}


@pytest.fixture
def desk(me, level):
    base = tree(me, me.mkdir("base"), PROJECT)
    settle_clock(base)
    return Desk(me, level, base)


# --- on-exit -----------------------------------------------------------------------------------------


def test_keep(desk):
    before = picture(desk.base)
    for opts in ([], ["--on-exit", "keep"]):
        done = desk.run(CHANGE, *opts)
        assert done.stdout == done.stderr == b"", "without a terminal nothing is said"
    assert_same(before, desk.base)
    assert len(desk.ids()) == 2 and all(desk.changes(i) == CHANGED for i in desk.ids())


def test_nothing_changed_nothing_kept(desk):
    for script in ("true", "echo text > file", "touch file; chmod 644 file", "echo x > new; rm new", "false"):
        desk.run(script, status=None)
        assert desk.ids() == [], script
    desk.run("true", "--name", "named")
    assert [one["name"] for one in desk.json("list")] == ["named"]


def test_terminal_line(desk):
    """On a terminal: one line that says what changed, and the three commands that follow."""
    master, slave = pty.openpty()
    argv = desk.me.argv(["--workspace", desk.base, "--name", "here"], ["sh", "-c", f'cd "$CORDON_WORKSPACE"; {CHANGE}'], desk.level)  # fmt: skip
    child = desk.me.popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave, cwd=str(desk.base))
    os.close(slave)
    assert child.wait(20) == 0
    seen = os.read(master, 65536).decode()
    os.close(master)
    assert seen.count("\n") == 1, seen
    for word in ("1 added, 1 modified, 1 deleted", "cordon workspace diff here", "commit here", "discard here"):
        assert word in seen, (word, seen)


def test_commit_on_exit(desk):
    desk.run(CHANGE, "--on-exit", "commit")
    assert desk.text("file") == "changed\n" and desk.text("made") == "new\n"
    assert not (desk.base / "gone").exists() and desk.ids() == []


@pytest.mark.parametrize("end, status", [("exit 3", 3), ("kill -KILL $$", 137), ("false", 1)])
def test_commit_only_after_success(desk, end, status):
    before = picture(desk.base)
    done = desk.run(f"{CHANGE}; {end}", "--on-exit", "commit", status=status)
    assert b"did not succeed" in done.stderr and done.stderr.count(b"\n") == 1, done
    assert_same(before, desk.base)
    assert desk.changes() == CHANGED


def test_commit_after_a_timeout(desk):
    before = picture(desk.base)
    desk.run(f"{CHANGE}; sleep 1000", "--on-exit", "commit", "--timeout", "1s", status=None)
    assert_same(before, desk.base)
    assert desk.changes() == CHANGED


def test_commit_on_exit_that_is_not_complete(desk):
    """What is refused stays in the workspace, and the run has failed."""
    done = desk.run("echo ok > file; mkfifo pipe", "--on-exit", "commit", status=None)
    assert done.returncode != 0 and b"pipe" in done.stderr, done
    assert desk.text("file") == "ok\n" and not os.path.lexists(desk.base / "pipe")
    assert desk.changes() == {"pipe": "added"}


def test_discard_on_exit(desk):
    before = picture(desk.base)
    done = desk.run(CHANGE, "--on-exit", "discard", "--diff")
    for path in CHANGED:
        assert path in done.stderr.decode(), done
    assert_same(before, desk.base)
    assert desk.ids() == [] and os.listdir(store(desk.me)) == []
    done = desk.run(f"{CHANGE}; exit 9", "--on-exit", "discard", status=9)
    assert done.stderr == b"" and desk.ids() == []


def test_receipts(desk):
    got = desk.receipt(CHANGE, "--diff", "--name", "n")["workspace"]
    assert got["name"] == "n" and got["base"] == str(desk.base) and got["kept"] is True
    assert got["mechanism"] in (["overlay"] if desk.level == "namespaces" else ["copy", "reflink"])
    assert {k: v for k, v in got["summary"].items() if v} == {"added": 1, "modified": 1, "deleted": 1}
    assert {c["path"]: c["kind"] for c in got["changes"] if c["listed"]} == CHANGED
    assert desk.receipt("true", "--on-exit", "discard", "--name", "n")["workspace"]["kept"] is False
    assert desk.ids() == []
    got = desk.receipt(CHANGE, "--on-exit", "commit")["workspace"]
    assert got["kept"] is False and desk.ids() == [] and desk.text("file") == "changed\n"


def test_meaningless_options(desk):
    me = desk.me
    for opts, word in (
        (["--on-exit", "commit"], "--workspace DIR"),
        (["--diff"], "--workspace DIR"),
        (["--workspace", desk.base, "--on-exit", "burn"], "keep, commit or discard"),
        (["--workspace", desk.base, "--name", ""], "name"),
        (["--workspace", desk.base, "--name", "a/b"], "name"),
        (["--workspace", desk.base, "--name", "-x"], "name"),
        (["--workspace", desk.base, "--name", "x" * 65], "name"),
        (["--workspace", desk.base, "--name", "\x1b[2J"], "name"),
        (["--name", "nope"], "--workspace DIR"),
        (["--from", "nope"], "nope"),
        (["--workspace", desk.base, "--from", "nope", "--name", "n"], "nope"),
    ):
        done = me.run(opts, ["true"], desk.level)
        assert done.returncode == 125 and done.stderr.count(b"\n") == 1, (opts, done)
        assert word in done.stderr.decode() and b"\x1b" not in done.stderr, (opts, done)
    assert not store(me).exists() or os.listdir(store(me)) == []


# --- further runs, and branches ---------------------------------------------------------------------------


def test_continued(desk):
    desk.run("echo 1 > count", "--name", "n")
    for i in range(2, 5):
        desk.run(f"test $(cat count) = {i - 1} && echo {i} > count", "--name", "n")
    done = desk.me.run(["--name", "n"], ["sh", "-c", 'cat "$CORDON_WORKSPACE/count"'], desk.level)
    assert done.stdout == b"4\n", done
    one = desk.json("status", "n")
    assert one["runs"] == 5 and one["summary"]["added"] == 1
    done = desk.me.run(["--name", one["id"]], ["sh", "-c", 'cat "$CORDON_WORKSPACE/count"'], desk.level)
    assert done.stdout == b"4\n", "by its id as well"


def test_name_of_another_base(desk):
    desk.run(CHANGE, "--name", "n")
    other = tree(desk.me, desk.me.mkdir("other"), PROJECT)
    done = desk.me.run(["--workspace", other, "--name", "n"], ["true"], desk.level)
    assert done.returncode == 125 and str(desk.base) in done.stderr.decode(), done


def test_name_that_is_a_directory(desk):
    """What lies in the current directory has nothing to do with the names of workspaces."""
    desk.run(CHANGE)
    (unnamed,) = desk.ids()
    done = desk.run("cat file", "--name", "base", cwd=str(desk.me.base))
    assert done.stdout == b"text\n", "a new one, not the one that is over ./base"
    assert sorted(one["name"] or "" for one in desk.json("list")) == ["", "base"]
    assert desk.changes(unnamed) == CHANGED
    done = desk.run("true", "--name", ".", status=125)
    assert b"'.' cannot be a workspace's name" in done.stderr, done


def test_two_over_one_base(desk):
    before = picture(desk.base)
    for name in ("a", "b"):
        desk.run(f"echo {name} > file; echo {name} > only-{name}", "--name", name)
    for name in ("a", "b"):
        assert desk.run("cat file; ls only-*", "--name", name).stdout.decode() == f"{name}\nonly-{name}\n"
        assert desk.changes(name) == {"file": "modified", f"only-{name}": "added"}
    assert_same(before, desk.base)
    desk.fails("diff", str(desk.base), says=["2 workspaces", "a", "b"])


def test_three_ways(desk):
    """A start that three go on from; one of them is kept."""
    before = picture(desk.base)
    desk.run("echo start > file; rm gone; mkdir d; echo d > d/e; rm -r sub; mkdir sub; echo s > sub/new", "--name", "start")  # fmt: skip
    for way in "123":
        done = desk.run(f"cat file d/e sub/new; test ! -e gone; test ! -e sub/inner; echo {way} > file; echo {way} > way; rm d/e", "--from", "start", "--name", f"way{way}")  # fmt: skip
        assert done.stdout == b"start\nd\ns\n", done
    assert desk.run("cat file d/e; ls way* || true", "--name", "start").stdout == b"start\nd\n"
    assert desk.json("status", "way2")["parent"] == desk.json("status", "start")["id"]
    assert_same(before, desk.base)
    desk.ok("commit", "way2")
    assert desk.text("file") == "2\n" and desk.text("way") == "2\n" and desk.text("sub/new") == "s\n"
    assert not (desk.base / "sub" / "inner").exists() and not (desk.base / "gone").exists()
    # A name that is taken, and a copy without a name.
    done = desk.run("true", "--from", "start", "--name", "way1", status=125)
    assert b"way1" in done.stderr, done
    desk.ok("discard", "--all", "--yes")
    assert os.listdir(store(desk.me)) == []


def test_from_alone(desk):
    """The base is that of the other one, and need not be said."""
    desk.run("echo start > file", "--name", "start")
    done = desk.me.run(["--from", "start"], ["sh", "-c", 'cd "$CORDON_WORKSPACE"; cat file; echo more > more'], desk.level)  # fmt: skip
    assert done.stdout == b"start\n", done
    unnamed = [one for one in desk.json("list") if not one["name"]]
    assert len(unnamed) == 1 and desk.changes(unnamed[0]["id"]) == {"file": "modified", "more": "added"}


# --- interruptions -----------------------------------------------------------------------------------------


def end(desk, child):
    """Waits for cordon and for what is left of its run: the last of it holds the workspace."""
    child.communicate(timeout=20)
    assert not settles(lambda: desk.json("status", "n")["in_use"], 20)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_run(desk, how):
    """In the middle of a run: what was written is kept, and the next one settles it."""
    argv = desk.me.argv(["--workspace", desk.base, "--name", "n"], ["sh", "-c", 'cd "$CORDON_WORKSPACE"; echo x > made; echo changed > file; echo ready; sleep 1000'], desk.level)  # fmt: skip
    child = desk.me.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=str(desk.base))
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(how)
    end(desk, child)
    assert desk.changes("n") == {"made": "added", "file": "modified"}
    assert desk.run("cat made file", "--name", "n").stdout == b"x\nchanged\n"
    desk.ok("commit", "n")
    assert desk.text("file") == "changed\n"


def test_conflict_after_a_killed_run(desk):
    """The state of the base was not recorded: a later change of it is found all the same."""
    argv = desk.me.argv(["--workspace", desk.base, "--name", "n"], ["sh", "-c", 'cd "$CORDON_WORKSPACE"; echo inside > file; echo ready; sleep 1000'], desk.level)  # fmt: skip
    child = desk.me.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=str(desk.base))
    assert child.stdout.readline() == b"ready\n"
    child.kill()
    end(desk, child)
    desk.me.write(desk.base / "file", "outside\n")
    done = desk.verb("commit", "n")
    assert done.returncode == 1 and b"conflict" in done.stderr, done
    assert desk.text("file") == "outside\n"


def test_a_hundred_at_once(desk):
    """Workspaces over one base, half of them with runs at the same moment."""
    before = picture(desk.base)
    many = range(100)
    children = []
    for i in many:
        argv = desk.me.argv(["--workspace", desk.base, "--name", f"n{i}"], ["sh", "-c", f'cd "$CORDON_WORKSPACE"; echo {i} > file; echo {i} > made-{i}'], desk.level)  # fmt: skip
        children.append(desk.me.popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=str(desk.base)))
        if len(children) == 8:
            child = children.pop(0)
            assert child.wait(60) == 0, child.stderr.read()
            child.stderr.close()
    for child in children:
        assert child.wait(60) == 0, child.stderr.read()
        child.stderr.close()
    listed = desk.json("list")
    assert sorted(one["name"] for one in listed) == sorted(f"n{i}" for i in many)
    assert len({one["id"] for one in listed}) == 100
    assert all(one["summary"]["added"] == one["summary"]["modified"] == 1 for one in listed), listed
    assert desk.changes("n77") == {"file": "modified", "made-77": "added"}
    assert_same(before, desk.base)
    desk.ok("commit", "n42")
    assert desk.text("file") == "42\n"
    done = desk.verb("commit", "n43")
    assert done.returncode == 1 and b"conflict" in done.stderr, "the base is another one by now"
    desk.ok("discard", "--all", "--yes")
    assert os.listdir(store(desk.me)) == []


def test_state_directories(desk):
    """XDG_STATE_HOME says where they are kept."""
    state = desk.me.mkdir("state", 0o700)
    env = {"XDG_STATE_HOME": str(state)}
    desk.run(CHANGE, env=env)
    assert desk.ids() == [] and not store(desk.me).exists()
    listed = json.loads(desk.ok("list", "--json", env=env))
    assert len(listed) == 1 and os.listdir(state / "cordon" / "workspaces") == [listed[0]["id"]]

# SPDX-License-Identifier: Apache-2.0
"""Locks of runs in one directory: out of reach of other users and of the command."""

import fcntl
import os
import pathlib
import signal
import subprocess
import time

import pytest

from conftest import Me, ceiling, settles, unavailable

# Level landlock reserves no names.
LEVEL = "namespaces"


def lock_dir(me):
    """Where this caller's locks are once a run has begun."""
    if me.uid == 0:
        return pathlib.Path("/run/cordon-locks")
    place = pathlib.Path(f"/run/user/{me.uid}/cordon-locks")
    return place if place.parent.is_dir() else pathlib.Path(f"/tmp/cordon-locks-{me.uid}")


def lock_of(me, directory):
    st = os.stat(directory)
    return lock_dir(me) / f"{st.st_dev:x}-{st.st_ino:x}"


def waiting_run(me, *opts):
    """A run that has begun, and goes on until its input ends."""
    proc = me.popen(
        me.argv(["-w", me.work, *opts], ["bash", "-c", "echo up; cat"], LEVEL),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    line = proc.stdout.readline()
    assert line == b"up\n", proc.communicate()
    return proc


def end(proc):
    out, err = proc.communicate(timeout=ceiling(20))
    assert proc.returncode == 0, err


@pytest.mark.parametrize("kind", [fcntl.LOCK_SH, fcntl.LOCK_EX], ids=["shared", "exclusive"])
def test_locks_of_others_do_no_harm(me, kind):
    """Everybody who can open a directory can lock it."""
    git_dir = me.mkdir("work/.git")
    held = [os.open(d, os.O_RDONLY) for d in (me.work, git_dir)]
    try:
        for fd in held:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        done = me.run(["-w", me.work], ["touch", "made"], LEVEL)
    finally:
        for fd in held:
            os.close(fd)
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(me.work)) == [".git", "made"]


def test_the_last_run_tidies_up(me):
    first, second = waiting_run(me), waiting_run(me)
    lock = lock_of(me, me.work)
    assert lock.exists()
    placeholders = sorted(os.listdir(me.work))
    assert ".git" in placeholders
    end(first)
    assert sorted(os.listdir(me.work)) == placeholders
    assert lock.exists()
    end(second)
    assert os.listdir(me.work) == []
    assert not lock.exists()


@pytest.mark.once
@pytest.mark.parametrize("repository", [False, True], ids=["plain", "git"])
@pytest.mark.parametrize("first", ["root", "user"])
def test_root_and_a_user_in_one_project(me, cordon_path, first, repository):
    """They see each other: the last one removes what stands for missing names, whoever made it."""
    if not me.switch:
        unavailable("it takes two users")
    if repository:
        me.outside(["git", "init", "-q", "."], check=True)
    before = sorted(os.walk(me.work))
    root = Me("root", me.mkdir("root"), cordon_path)
    root.work = me.work  # 0755: only the user may write there
    callers = [root, me] if first == "root" else [me, root]
    ending = waiting_run(callers[0])
    placeholders = sorted(os.walk(me.work))
    staying = waiting_run(callers[1])
    end(ending)
    assert sorted(os.walk(me.work)) == placeholders != before
    done = callers[0].run(["-w", me.work], ["mkdir", ".git/worktrees" if repository else ".git"], LEVEL)
    assert b"File exists" in done.stderr, done
    assert sorted(os.walk(me.work)) == placeholders
    lock = lock_of(me, me.work)
    assert lock.exists() and os.stat(lock).st_uid == me.uid
    end(staying)
    assert sorted(os.walk(me.work)) == before and not lock.exists()


@pytest.mark.once
def test_a_user_who_holds_a_lock_hinders_root_in_nothing(me, cordon_path):
    if not me.switch:
        unavailable("it takes two users")
    end(waiting_run(me))
    root = Me("root", me.mkdir("root"), cordon_path)
    root.work = me.work
    lock = me.write(lock_of(me, me.work))
    with open(lock) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = root.run(["-w", me.work], ["true"], LEVEL)
    lock.unlink()
    assert done.returncode == 0 and os.listdir(me.work) == [], done


def test_a_killed_run_leaves_no_lock(me):
    proc = waiting_run(me)
    lock = lock_of(me, me.work)
    assert lock.exists()
    proc.send_signal(signal.SIGKILL)
    proc.communicate()
    assert not settles(lambda: os.listdir(me.work) or lock.exists(), 10)


def test_what_a_killed_janitor_left_is_taken_over(me):
    """Placeholder and lock are still there, and nothing holds the lock."""
    proc = waiting_run(me)
    lock = lock_of(me, me.work)
    # Stopped: it would tidy up itself when it sees that init has ended.
    proc.send_signal(signal.SIGSTOP)
    children = me.outside(["pgrep", "-P", str(proc.pid)], check=True).stdout.split()
    assert len(children) >= 2, "init, the janitor, and what ended and was not waited for"
    for pid in children:
        os.kill(int(pid), signal.SIGKILL)
    proc.send_signal(signal.SIGKILL)
    proc.communicate()
    assert lock.exists() and os.listdir(me.work)
    assert me.run(["-w", me.work], ["true"], LEVEL).returncode == 0
    assert os.listdir(me.work) == [] and not lock.exists()


@pytest.mark.parametrize("make", ["touch lefthook.yml", "mkdir .husky; touch .husky/x"])
def test_what_is_held_since_the_host_removed_it_is_taken_over(me, make):
    """The janitor does not know a name that existed when the run began."""
    name = me.outside(["sh", "-c", f"{make}; ls -A"], check=True).stdout.decode().split()[0]
    proc = waiting_run(me)
    me.outside(["rm", "-r", name], check=True)
    assert not settles(lambda: not os.path.lexists(me.work / name), 10)
    proc.send_signal(signal.SIGKILL)
    proc.communicate()
    assert not settles(lambda: os.listdir(me.work) != [name], 10)
    done = me.run(["-w", me.work], ["sh", "-c", f"echo x > {name} || echo x > {name}/x"], LEVEL)
    assert done.returncode != 0 and os.listdir(me.work) == [], done


def test_only_the_caller_can_open_them(me):
    proc = waiting_run(me)
    st = os.stat(lock_dir(me))
    end(proc)
    assert (st.st_uid, st.st_mode & 0o7777) == (me.uid, 0o700)


def test_the_command_does_not_see_them(me):
    proc = waiting_run(me)
    place = lock_dir(me)
    try:
        assert me.outside(["ls", place]).stdout
        done = me.run(["-r", place.parent, "-w", me.work], ["ls", place], LEVEL)
        assert done.returncode == 0 or b"Permission denied" in done.stderr
        assert done.stdout == b""
    finally:
        end(proc)


FORGED = (315705600 * 10**9 + 271828182,) * 2


@pytest.mark.parametrize("name", [".envrc", "lefthook.yml", ".git/commondir"])
def test_a_file_that_looks_like_a_placeholder_is_the_users(me, name):
    """With another text than ours it is a file like any other: protected, and left there."""
    me.outside(["git", "init", "-q", "."], check=True)
    fake = me.write(me.work / name, ".", 0o444)
    os.utime(fake, ns=FORGED)
    done = me.run(["-w", me.work], ["sh", "-c", f"chmod 644 {name}; echo x > {name}"], LEVEL)
    assert done.returncode in (1, 2) and b"Read-only file system" in done.stderr, done
    assert fake.read_text() == "."


@pytest.mark.parametrize("text", ["", ".\n"])
@pytest.mark.parametrize("where", [".", ".git"])
def test_a_placeholder_of_another_kind_is_taken_over(me, where, text):
    """It refuses no later run, and goes with the next one."""
    me.outside(["git", "init", "-q", "."], check=True)
    names = [f"{where}/commondir", *([] if text else [".git/worktrees"])]
    for name in names:
        fake = me.write(me.work / name, text, 0o444)
        os.utime(fake, ns=FORGED)
    done = me.run(["-w", me.work], ["sh", "-c", "echo x > .git/commondir"], LEVEL)
    assert b"Read-only file system" in done.stderr or b"Permission denied" in done.stderr, done
    assert not any(os.path.lexists(me.work / name) for name in names)


@pytest.mark.parametrize("name", [".envrc", "HEAD"])
def test_a_placeholder_that_is_being_made(me, name):
    """Another run makes it and then gives it its date. In between it is not the user's file, which would stay."""
    made = me.write(me.work / name, "")
    made.chmod(0o444)
    run = me.popen(me.argv(["-w", "."], ["true"], "namespaces"), stdin=subprocess.DEVNULL)
    time.sleep(0.1)
    os.utime(made, ns=FORGED)
    assert run.wait(timeout=30) == 0
    assert not settles(made.exists)


def test_an_empty_file_that_nobody_may_write_to_stays(me):
    made = me.write(me.work / ".envrc", "")
    made.chmod(0o444)
    assert me.run(["-w", "."], ["true"], "namespaces").returncode == 0
    assert made.exists()


def test_a_file_that_always_looks_new_delays_no_run(me):
    """A command of another run may go on giving it new times."""
    made = me.write(me.work / ".envrc", "")
    made.chmod(0o444)
    run = me.popen(me.argv(["-w", "."], ["true"], "namespaces"), stdin=subprocess.DEVNULL)
    until = time.monotonic() + ceiling(20)
    while run.poll() is None and time.monotonic() < until:
        made.chmod(0o444)  # a new time of change
        time.sleep(0.005)
    over = run.poll()
    run.kill()
    run.wait()
    assert over == 0 and made.exists()

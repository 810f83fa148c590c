# SPDX-License-Identifier: Apache-2.0
"""Placeholders of names that do not exist: they hold, and hinder neither the caller nor the command."""

import os
import subprocess

import pytest

from conftest import ceiling, needs

LEVEL = "namespaces"  # level landlock reserves no names
DIRS = ".vscode .idea .claude .cursor .codex .gemini .devcontainer .zed .windsurf .jj .hg .git".split()
MARK = (315705600 * 10**9 + 271828182,) * 2
GIT_ENV = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip
PASS = [w for name in GIT_ENV for w in ("-e", name)]


@pytest.fixture
def started(me):
    """Starts a command that says "up", reads lines, and runs each one with sh."""
    procs = []

    def start(*opts):
        proc = me.popen(
            me.argv(["-w", me.work, *PASS, *opts], ["sh", "-c", "echo up; while read x; do sh -c \"$x\" 2>&1; echo =$?; done"], LEVEL),
            env=GIT_ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        procs.append(proc)
        line = proc.stdout.readline()
        assert line == b"up\n", proc.communicate()
        return proc

    yield start
    for proc in procs:
        if proc.poll() is None:
            proc.kill()
            proc.communicate()


def ask(proc, script):
    """What it printed, and its exit status."""
    proc.stdin.write(script.encode() + b"\n")
    proc.stdin.flush()
    text = b""
    while not (line := proc.stdout.readline()).startswith(b"="):
        assert line, proc.communicate()
        text += line
    return text.decode(), int(line[1:])


def end(proc):
    out, err = proc.communicate(timeout=ceiling(20))
    assert proc.returncode == 0, err


def test_the_caller_uses_held_directories_at_once(me, started):
    run = started()
    assert all((me.work / name).is_dir() for name in DIRS)
    for name in DIRS[:-1]:
        me.outside(["sh", "-c", f"mkdir -p {name} && echo mine > {name}/settings"], check=True)
    for name in DIRS[:-1]:
        assert ask(run, f"cat {name}/settings") == ("mine\n", 0)
        text, status = ask(run, f"echo evil > {name}/settings || echo evil > {name}/other || mv {name} away || rm -r {name}")
        assert status != 0 and "Read-only file system" in text, text
    assert ask(run, "echo x > beside && cat beside") == ("x\n", 0)
    end(run)
    assert sorted(os.listdir(me.work)) == sorted([*DIRS[:-1], "beside"])
    assert all(os.listdir(me.work / name) == ["settings"] for name in DIRS[:-1])
    assert all((me.work / name / "settings").read_text() == "mine\n" for name in DIRS[:-1])


def test_the_caller_makes_a_repository_meanwhile(me, started):
    needs("git")
    run = started()
    me.outside(["sh", "-c", "git init -q . && echo 1 > f && git add f && git commit -qm 1"], env=GIT_ENV, check=True)
    text, status = ask(run, "echo evil >> .git/config; echo evil > .git/hooks/pre-commit; git config a.b c")
    assert status != 0 and text.count("Read-only file system") >= 2, text
    # What the first run holds without a repository serves the next one, too.
    done = me.run(["-w", me.work], ["sh", "-c", "echo evil > .envrc"], LEVEL)
    assert done.returncode == 2 and b"Read-only file system" in done.stderr, done
    end(run)
    done = me.outside(["git", "status", "--porcelain"], env=GIT_ENV)
    assert (done.returncode, done.stdout) == (0, b""), done
    assert "evil" not in (me.work / ".git/config").read_text()


def test_the_command_is_not_hindered(me, started):
    """What is typed every day, with all the placeholders there."""
    run = started()
    for script in (
        "mkdir -p .vscode .claude/ .idea",
        "tar cf /tmp/all.tar . && tar tf /tmp/all.tar | grep -q vscode",
        "cp -r . /tmp/copy && test -d /tmp/copy/.claude",
        "find . -name x; ls -laR . >/dev/null; du -s . >/dev/null; grep -r x . ; true",
    ):
        text, status = ask(run, script)
        assert status == 0, (script, text)
    end(run)
    assert os.listdir(me.work) == []


def test_git_says_what_is_in_its_way(me, started):
    needs("git")
    run = started()
    text, status = ask(run, "git init .")
    assert status != 0 and "Read-only file system" in text, text
    text, status = ask(run, "git init -q below && cd below && git status")
    assert status == 0, text
    end(run)


def test_a_directory_of_the_callers_stays(me):
    """Empty, and made before the run or by another hand."""
    me.mkdir("work/.vscode")
    assert me.run(["-w", me.work], ["true"], LEVEL).returncode == 0
    assert os.listdir(me.work) == [".vscode"]


def test_an_empty_directory_with_the_mark_is_removed(me):
    """What a run left that was killed together with its janitor."""
    os.utime(me.mkdir("work/.vscode"), ns=MARK)
    done = me.run(["-w", me.work], ["sh", "-c", "echo > .vscode/x"], LEVEL)
    assert b"Read-only file system" in done.stderr, done
    assert os.listdir(me.work) == []


@pytest.mark.parametrize("marked", [True, False])
def test_a_repository_with_the_mark_is_one(me, marked):
    """A command can give .git the date of a placeholder. What its config names is protected all the same."""
    needs("git")
    me.outside(["sh", "-c", "git init -q . && git config core.hooksPath tools/hooks && mkdir -p tools/hooks"], check=True)
    if marked:
        os.utime(me.work / ".git", ns=MARK)
    done = me.run(["-w", me.work], ["sh", "-c", "echo > tools/beside; echo > tools/hooks/pre-commit"], LEVEL)
    assert (me.work / "tools/beside").exists() and not os.listdir(me.work / "tools/hooks"), done
    assert (me.work / ".git/config").exists()


MAKE = "mkdir .vscode .github; echo x > .vscode/tasks.json; echo x > .envrc; ln -s x .mcp.json; echo x > beside; git init -q ."


def test_existing_holds_nothing_and_puts_aside_what_is_new(me, started):
    needs("git")
    me.mkdir("work/.claude")
    run = started("--protect", "existing")
    assert os.listdir(me.work) == [".claude"]
    assert ask(run, MAKE) == ("", 0)
    text, status = ask(run, "echo > .claude/settings.json")
    assert status != 0 and "Read-only file system" in text
    out, err = run.communicate(timeout=ceiling(20))
    assert run.returncode == 0, err
    names = [".envrc", ".git", ".mcp.json", ".vscode"]
    aside = [name + ".held-by-cordon" for name in names]
    assert sorted(os.listdir(me.work)) == sorted([*aside, ".claude", ".github", "beside"])
    text = err.decode()
    for name in names:
        assert f"put aside '{name}'" in text and f"mv {name}.held-by-cordon {name}" in text, text


def test_existing_believes_no_mark(me):
    """A command can make what looks like another run's placeholder: a small closed file, an empty directory."""
    needs("git")
    script = r"""
mkdir -p g/objects g/refs objects refs
printf 'ref: refs/heads/x\n' | tee g/HEAD > HEAD
printf '[core]\n\tfsmonitor = touch ran;\n' | tee g/config > config
printf 'gitdir: g\n' > .git; printf 'touch ran\n' > .envrc
chmod 444 .git .envrc HEAD
touch -d '1980-01-03 00:00:00.271828182 UTC' .git .envrc HEAD objects refs
"""
    me.outside(["sh", "-c", script + "git status"], env=GIT_ENV)
    assert (me.work / "ran").exists(), "control"
    me.outside(["sh", "-c", "rm -rf .[a-z]* *"], check=True)
    done = me.run(["-w", me.work, "--protect", "existing"], ["sh", "-c", script], LEVEL)
    assert done.returncode == 0 and b"put aside '.git'" in done.stderr and b"put aside '.envrc'" in done.stderr, done
    me.outside(["git", "status"], env=GIT_ENV)
    assert not (me.work / "ran").exists() and not (me.work / ".envrc").exists()


def test_existing_control(me):
    """Without protection all of it stays where it is."""
    needs("git")
    for flags in (["--protect", "off"], ["--no-protect"]):
        done = me.run(["-w", me.work, *flags], ["sh", "-c", MAKE], LEVEL)
        assert (done.returncode, done.stderr) == (0, b""), done
        assert sorted(os.listdir(me.work)) == [".envrc", ".git", ".github", ".mcp.json", ".vscode", "beside"]
        me.outside(["sh", "-c", "rm -rf .[a-z]* *"], check=True)


def test_existing_in_a_repository(me):
    """What git would obey is new: it is put aside, and the repository works as before."""
    needs("git")
    me.outside(["sh", "-c", "git init -q . && rm -r .git/hooks && echo 1 > f && git add f && git commit -qm 1"], env=GIT_ENV, check=True)
    script = "mkdir .git/hooks; printf '#!/bin/sh\ntouch %s/ran\n' $PWD > .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit; echo /x > .git/commondir; chmod 500 .git"
    done = me.run(["-w", me.work, "--protect", "existing"], ["sh", "-c", script], LEVEL)
    assert b"put aside '.git/hooks'" in done.stderr and b"put aside '.git/commondir'" in done.stderr, done
    me.outside(["chmod", "700", ".git"], check=True)
    done = me.outside(["sh", "-c", "echo 2 > f; git commit -qam 2 && git status --porcelain"], env=GIT_ENV)
    assert (done.returncode, done.stdout) == (0, b""), done
    assert not (me.work / "ran").exists()


def test_required_protection_is_the_whole(me):
    done = me.run(["-w", me.work, "--protect", "existing", "--require", "protect"], ["touch", "ran"], LEVEL)
    assert done.returncode == 125 and not (me.work / "ran").exists(), done


@pytest.mark.parametrize("mode", ["500", "400", "000"])
def test_a_closed_directory_keeps_no_placeholder(me, started, mode):
    """The command takes away its own right to remove something there, and with it the caller's."""
    run = started()
    assert ask(run, f"chmod {mode} .")[1] == 0
    end(run)
    assert os.stat(me.work).st_mode & 0o777 == int(mode, 8)
    os.chmod(me.work, 0o700)
    assert os.listdir(me.work) == []

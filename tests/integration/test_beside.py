# SPDX-License-Identifier: Apache-2.0
"""What stands in the place of missing protected names hinders nobody: neither programs that copy, pack or
clear the directory, nor the user who writes there while a run goes on. And it protects all the same."""

import os
import stat
import subprocess
import time

import pytest

from conftest import ceiling, needs

PYTHON = ["/usr/bin/python3", "-I", "-c"]
FILES = [".aider.conf.yml", ".devcontainer.json", ".envrc", ".mcp.json", "HEAD", "opencode.json"]
IN_GIT = [".aider.conf.yml", ".devcontainer.json", ".envrc", ".mcp.json", "commondir", "opencode.json", "refs"]
WAIT = "touch ready; while [ ! -e stop ]; do sleep 0.02; done; exit 7"


@pytest.fixture(params=["plain", "git"])
def names(me, request):
    """A directory of each kind, and the files that are held in it."""
    if request.param == "plain":
        return FILES
    needs("git")
    me.outside(["git", "init", "-q", "."], check=True)
    return IN_GIT


class Going:
    """A run that goes on until it is told to stop."""

    def __init__(self, me, *opts):
        self.me = me
        self.run = me.popen(me.argv(["-w", ".", *opts], ["sh", "-c", WAIT], "namespaces"),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        end = time.monotonic() + ceiling(20)
        while not (me.work / "ready").exists():
            assert self.run.poll() is None and time.monotonic() < end
            time.sleep(0.01)

    def host(self, script):
        self.me.outside(["sh", "-ec", script], check=True)

    def end(self):
        self.host("touch stop")
        _, err = self.run.communicate(timeout=ceiling(20))
        assert self.run.returncode == 7, err
        return err.decode()


def inside(me, script):
    done = me.run(["-w", "."], ["sh", "-c", script], "namespaces")
    return done.returncode, done.stdout.decode(), done.stderr.decode()


COPY = """
import os, shutil
open('mine', 'w').close()
shutil.copytree('.', '/tmp/copy')
for kind in 'zip', 'tar':
    shutil.make_archive('/tmp/packed', kind, '.')
print(os.path.exists('/tmp/copy/mine'))
"""


def test_copying_and_packing_inside(me, names):
    done = me.run(["-w", "."], [*PYTHON, COPY], "namespaces")
    assert done.returncode == 0 and done.stdout == b"True\n", done.stderr


def test_an_empty_directory_of_a_work_tree(me):
    """It shows no types itself; it is like the one above it."""
    needs("git")
    me.outside(["sh", "-c", "git init -q . && mkdir sub"], check=True)
    done = me.run(["-w", "sub"], ["sh", "-c", "cp -r sub /tmp/copy; for f in sub/.[a-z]* sub/*; do test ! -S $f || echo $f; done"], "namespaces")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("name", ["worktrees", "commondir"])
def test_what_the_command_makes_below_git_is_put_aside(me, name):
    """The host moves what holds the name, and the command takes the name before that is noticed."""
    needs("git")
    me.outside(["git", "init", "-q", "."], check=True)
    script = f"touch ready; while [ ! -e stop ]; do mkdir .git/{name} && echo x >.git/{name}/evil; done 2>/dev/null"
    run = me.popen(me.argv(["-w", "."], ["sh", "-c", script], "namespaces"),
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    end = time.monotonic() + ceiling(20)
    while not (me.work / "ready").exists():
        assert run.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    me.outside(["mv", f".git/{name}", "moved"], check=True)
    while not os.path.lexists(me.work / ".git" / name) and run.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    me.outside(["touch", "stop"], check=True)
    run.communicate(timeout=ceiling(20))
    assert not os.path.lexists(me.work / ".git" / name)


@pytest.mark.parametrize("pack", ["tar cf /tmp/x.tar .", "zip -qr /tmp/x.zip .", "cp -r . /tmp/x", "cat .[a-z]*.json"])
def test_programs_have_nothing_to_say(me, names, pack):
    needs(pack.split()[0])
    status, _, err = inside(me, f"{pack} 2>&1 >/dev/null | tee /dev/stderr | wc -l >&2; echo x > mine")
    assert status == 0 and err.split("\n")[0] == "0", err


def test_copying_and_packing_on_the_host(me):
    going = Going(me)
    done = me.outside([*PYTHON, COPY.replace("/tmp/", f"{me.out}/")])
    assert done.returncode == 0, done.stderr
    going.end()


def test_clearing_the_directory(me, names):
    """All goes but the names that a shell's * finds, and it is said what these are."""
    status, out, err = inside(me, "mkdir d; touch a b d/c; rm -rf *; ls")
    left = [name for name in names if name[0] != "."]
    assert status == 0 and out.split() == left
    assert err.splitlines() == [f"rm: cannot remove '{name}': Device or resource busy" for name in left] + [
        f"cordon: {', '.join(map(repr, left[:-1]))} and '{left[-1]}' only hold protected names until the run is over, so the "
        "command could not remove or replace them (--workspace . instead of -w needs none; --protect off gives the "
        "protection up)"
    ]
    assert os.listdir(me.work) in ([], [".git"])


def test_the_host_writes_there(me):
    going = Going(me)
    for name in FILES:
        st = (me.work / name).lstat()
        assert stat.S_ISREG(st.st_mode) and st.st_size == 0 and st.st_nlink == 1
    going.host("echo '{}' > .mcp.json; printf x >> .envrc")
    assert "put aside" not in going.end()
    assert sorted(os.listdir(me.work)) == [".envrc", ".mcp.json", "ready", "stop"]
    assert (me.work / ".mcp.json").read_text() == "{}\n"


TRY = """
import os
for name in %r:
    assert open(name).read() == '', name
    for what in ('open(name, "w")', 'open(name, "a").write("x")', 'os.unlink(name)', 'os.chmod(name, 0o777)',
                 'os.utime(name)', 'os.rename("mine", name)', 'os.rename(name, "other")', 'os.truncate(name, 1)',
                 'os.link(name, "other")'):
        try:
            open('mine', 'w').close()
            eval(what)
            print(name, what)
        except OSError:
            pass
"""


def test_the_guest_does_not(me, names):
    done = me.run(["-w", "."], [*PYTHON, TRY % names], "namespaces")
    assert done.returncode == 0 and done.stdout == b"", done
    assert set(os.listdir(me.work)) - {".git"} == {"mine"}


def test_control_the_guest_could(me):
    for name in FILES:
        me.write(me.work / name)
    done = me.run(["-w", ".", "--no-protect"], [*PYTHON, TRY % FILES], "namespaces")
    assert done.returncode == 0 and done.stdout.count(b"\n") >= 5 * len(FILES)


def test_what_the_host_wrote_is_protected_too(me):
    """In place: there is no moment without a cover."""
    me.run(["-w", "."], ["true"], "namespaces")
    run = me.popen(me.argv(["-w", "."], ["sh", "-c", "touch ready; while [ ! -s .envrc ]; do sleep 0.02; done; "
                                         "echo x >> .envrc; cat .envrc"], "namespaces"),
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    end = time.monotonic() + ceiling(20)
    while not (me.work / "ready").exists():
        assert run.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    me.outside(["sh", "-c", "echo good > .envrc"], check=True)
    out, err = run.communicate(timeout=ceiling(20))
    assert out == b"good\n" and b"Read-only file system" in err
    assert (me.work / ".envrc").read_text() == "good\n"


GIT = """
export HOME=/tmp GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git status --porcelain --ignored; git add -A; git commit -qm one; git ls-files
touch new; git stash -qu; git stash show --include-untracked --name-only; git clean -ndx | grep -v /
"""


def test_git_sees_nothing_in_a_work_tree(me):
    """For the host they are sockets, which git passes over. It asks the directory, so inside as well."""
    needs("git")
    me.outside(["sh", "-ec", "git init -q . && echo x > file"], check=True)
    going = Going(me)
    for name in IN_GIT:
        assert (me.work / name).is_socket()
    done = me.outside(["git", "status", "--porcelain"])
    assert done.stdout == b"?? file\n?? ready\n", done.stdout
    going.end()
    me.outside(["rm", "ready", "stop"], check=True)
    done = me.run(["-w", "."], ["sh", "-c", GIT], "namespaces")
    assert done.stdout == b"?? file\nfile\nnew\n", done
    assert sorted(os.listdir(me.work)) == [".git", "file"]


@pytest.mark.parametrize("late", [False, True])
def test_what_holds_a_name_is_moved_away(me, late):
    """On the host, by a name of its own. The command tries all the time to make it."""
    needs("git")
    me.outside(["git", "init", "-q", "."], check=True)
    run = me.popen(me.argv(["-w", "."], [*PYTHON, MAKE], "namespaces"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    end = time.monotonic() + ceiling(20)
    while not (me.work / "ready").exists():
        assert run.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    time.sleep(1.3 if late else 0)  # by then init sleeps and is woken
    for i in range(2):  # the second one was made during the run
        me.outside(["mv", ".mcp.json", f"moved{i}"], check=True)
        while not os.path.lexists(me.work / ".mcp.json") or not (me.work / ".mcp.json").is_socket():
            assert run.poll() is None and time.monotonic() < end
            time.sleep(0.01)
    me.outside(["touch", "stop"], check=True)
    _, err = run.communicate(timeout=ceiling(20))
    assert run.returncode == 7, err
    assert not os.path.lexists(me.work / ".mcp.json")


MAKE = """
import os
open('ready', 'w').close()
while not os.path.exists('stop'):
    try:
        open('evil', 'w').close()
        os.rename('evil', '.mcp.json')
    except OSError:
        pass
raise SystemExit(7)
"""


def test_no_shell_reads_them_at_home(me):
    """A shell that found an empty .bashrc would have read it."""
    going = Going(me, "-w", "~")
    assert (me.home / ".bashrc").is_socket() and (me.home / ".envrc").is_socket()
    going.end()
    assert os.listdir(me.home) == []

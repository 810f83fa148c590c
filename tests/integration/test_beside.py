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
WAIT = "touch ready; while [ ! -e stop ]; do sleep 0.02; done; exit 7"


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


def test_copying_and_packing_inside(me):
    done = me.run(["-w", "."], [*PYTHON, COPY], "namespaces")
    assert done.returncode == 0 and done.stdout == b"True\n", done.stderr


@pytest.mark.parametrize("pack", ["tar cf /tmp/x.tar .", "zip -qr /tmp/x.zip .", "cp -r . /tmp/x", "cat .[a-z]*.json"])
def test_programs_have_nothing_to_say(me, pack):
    needs(pack.split()[0])
    status, _, err = inside(me, f"{pack} 2>&1 >/dev/null | tee /dev/stderr | wc -l >&2; echo x > mine")
    assert status == 0 and err.split("\n")[0] == "0", err


def test_copying_and_packing_on_the_host(me):
    going = Going(me)
    done = me.outside([*PYTHON, COPY.replace("/tmp/", f"{me.out}/")])
    assert done.returncode == 0, done.stderr
    going.end()


def test_clearing_the_directory(me):
    """All goes but the two names that a shell's * finds."""
    inside_script = "mkdir d; touch a b d/c; rm -rf *; ls; rm -rf d"
    status, out, err = inside(me, inside_script)
    assert status == 0 and out.split() == ["HEAD", "opencode.json"]
    assert [line for line in err.splitlines() if line.startswith("rm:")] == [
        f"rm: cannot remove '{name}': Device or resource busy" for name in out.split()
    ]
    assert os.listdir(me.work) == []


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


def test_the_guest_does_not(me):
    done = me.run(["-w", "."], [*PYTHON, TRY % FILES], "namespaces")
    assert done.returncode == 0 and done.stdout == b"", done.stdout
    assert os.listdir(me.work) == ["mine"]


def test_control_the_guest_could(me):
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


def test_git_sees_nothing_in_a_work_tree(me):
    """There they are sockets, which git passes over."""
    me.outside(["git", "init", "-q", "."], check=True)
    going = Going(me)
    assert (me.work / ".mcp.json").is_socket()
    done = me.outside(["git", "status", "--porcelain"])
    assert done.stdout == b"?? ready\n", done.stdout
    going.end()


def test_no_shell_reads_them_at_home(me):
    """A shell that found an empty .bashrc would have read it."""
    going = Going(me, "-w", "~")
    assert (me.home / ".bashrc").is_socket() and (me.home / ".envrc").is_socket()
    going.end()
    assert os.listdir(me.home) == []

# SPDX-License-Identifier: Apache-2.0
"""The static command is its own init, where its file allows that; elsewhere init comes from memory."""

import os
import shutil
import struct
import subprocess

import pytest

from conftest import needs, unavailable

NET_ADMIN = 1 << 12


def capabilities(permitted=0, inheritable=0, effective=False):
    """The value of security.capability, version 2."""
    return struct.pack("<IIIII", 0x02000000 | effective, permitted, inheritable, 0, 0)


# name: mode, owner, capabilities
FILES = {
    "plain": (0o755, 0, None),
    "closed to readers": (0o711, 0, None),
    "to be executed only": (0o111, 0, None),
    "inheritable": (0o755, 0, capabilities(inheritable=NET_ADMIN)),
    "permitted": (0o755, 0, capabilities(permitted=NET_ADMIN)),
    "effective": (0o755, 0, capabilities(permitted=NET_ADMIN, effective=True)),
    "writable for all": (0o777, 0, None),
    "own": (0o755, 20001, None),
}


@pytest.fixture
def copy(me, cordon_path):
    """A copy of the command, as FILES say."""
    if os.geteuid() != 0:
        unavailable("only root can give files away")

    def make(name):
        mode, owner, caps = FILES[name]
        path = me.mkdir("bin") / "cordon"
        shutil.copy(cordon_path, path)
        os.chown(path, owner, owner)
        os.chmod(path, mode)
        if caps:
            os.setxattr(path, "security.capability", caps)
        return path

    return make


@pytest.mark.parametrize("name", FILES)
def test_every_file_gives_the_same_level(me, copy, name):
    done = me.outside([copy(name), "run", "-v", "--", "id", "-u"])
    assert done.returncode == 0 and b"level namespaces" in done.stderr, done
    assert done.stdout.strip() != b"0"


def test_the_file_of_another_user(me, copy):
    """Root may execute what its owner alone may read."""
    path = copy("own")
    os.chmod(path, 0o700)
    if me.uid not in (0, 20001):
        unavailable("it belongs to another user")
    done = me.outside([path, "run", "-v", "--", "true"])
    assert done.returncode == 0 and b"level namespaces" in done.stderr, done


@pytest.mark.parametrize("name, is_own", [("plain", True), ("own", False), ("writable for all", False)])
def test_which_file_init_has(me, copy, name, is_own):
    """What a command may own or write to is never init's program."""
    path = copy(name)
    proc = me.popen([path, "run", "--", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    found = []

    def find():
        found.clear()
        with open(f"/proc/{proc.pid}/task/{proc.pid}/children", encoding="ascii") as f:
            for pid in f.read().split():
                try:
                    found.append(os.readlink(f"/proc/{pid}/exe"))
                except FileNotFoundError:
                    pass  # it has ended

    proc.stdin.write(b"up\n")
    proc.stdin.flush()
    assert proc.stdout.readline() == b"up\n"
    find()
    proc.communicate()
    assert found == ([str(path)] if is_own else ["/memfd:cordon-init (deleted)"])


def test_a_script_cannot_ask_for_it(me):
    """The process that is to become the command still has init's program at that moment."""
    script = me.write(me.work / "script", "#!/proc/self/exe --version\n", 0o755)
    os.symlink("/proc/self/exe", me.work / "link")
    other = me.write(me.work / "other", "#!/usr/../proc/thread-self/exe --version\n", 0o755)
    third = me.write(me.work / "third", f"#!{me.work}/link --version\n", 0o755)
    for path in script, other, third:
        done = me.run(["-w", me.work], [path])
        assert done.returncode == 126 and b"another program inside" in done.stderr, done


def test_a_second_try_that_fails(me, cordon_path):
    """Namespaces are refused after the clone, and then the machine runs out of something: an error, no crash."""
    needs("strace", "unshare", "setpriv")
    me.outside(["git", "init", "-q", "."], check=True)
    codes = set()
    for nth in range(1, 9):
        script = (
            "echo 0 >/proc/sys/user/max_mnt_namespaces || exit 99\n"
            "exec setpriv --ambient-caps -all --inh-caps -all strace -qq -o /dev/null -e trace=pipe2 "
            f'-e inject=pipe2:error=EMFILE:when={nth} "$0" run -w . -- true'
        )
        done = me.outside(["unshare", "-U", "-c", "--keep-caps", "bash", "-c", script, cordon_path])
        if done.returncode == 99:
            unavailable("limits of namespaces cannot be set here")
        codes.add(done.returncode)
        assert done.returncode in (0, 125), (nth, done)
        assert sorted(os.listdir(me.work)) == [".git"]
    assert 125 in codes

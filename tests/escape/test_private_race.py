# SPDX-License-Identifier: Apache-2.0
"""A run that moves things about in a private directory while another one is being set up there."""

import os
import subprocess

import pytest

from conftest import rounds

# Swaps the grant's mount point with a directory that looks like it, as fast as it can.
SWAP = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
home = os.environ["HOME"]
for name in ("project", "decoy"):
    os.makedirs(f"{home}/{name}/.git/hooks", exist_ok=True)
    open(f"{home}/{name}/key", "w").write("decoy\\n")
one, other = f"{home}/project".encode(), f"{home}/decoy".encode()
print("ready", flush=True)
while True:
    libc.renameat2(-100, one, -100, other, 2)
"""


@pytest.fixture
def kept(me):
    return me.mkdir("state") / "kept"


@pytest.fixture
def project(me):
    path = me.mkdir("home/project")
    for name in (".git", ".git/hooks"):
        (path / name).mkdir()
        me.own(path / name)
    me.write(path / "key", "secret\n")
    me.write(path / "marker", "marker\n")
    return path


class Swapping:
    def __init__(self, me, kept):
        self.argv = me.argv(
            ["--private", kept, "-t", "10m", "-C", "/"], ["/usr/bin/python3", "-S", "-c", SWAP], "namespaces"
        )
        self.me = me

    def __enter__(self):
        self.run = self.me.popen(self.argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self.run.stdout.readline() == b"ready\n"
        return self

    def __exit__(self, *unused):
        self.run.terminate()
        self.run.wait(timeout=30)
        self.run.stdout.close()


def test_what_is_denied_moves_with_its_mount(me, kept, project):
    """The mount follows its point to another name; what is denied in it is denied there, too."""
    both = [me.home / "project", me.home / "decoy"]
    script = "; ".join(f"cat {p}/marker; cat {p}/key" for p in both)
    moved, tries = 0, rounds(200)
    with Swapping(me, kept):
        for _ in range(tries):
            opts = ["--private", kept, "-C", "/", "--no-protect", "-w", project, "--deny", project / "key"]
            done = me.run(opts, ["/bin/sh", "-c", script], "namespaces", timeout=60)
            assert b"secret" not in done.stdout, "the denied file was read"
            moved += b"marker" in done.stdout
    # The rest of the grant is there, under either name: it was set up in the middle of it all.
    assert moved * 25 >= tries, moved
    # The control: without the swapping neither of them is anything else than what it is.
    done = me.run([*opts], ["/bin/sh", "-c", f"cat {project}/marker {project}/key"], "namespaces")
    assert done.stdout == b"marker\n", done


def test_what_is_read_only_moves_with_its_mount(me, kept, project):
    plant = "; ".join(f"echo x > {me.home}/{name}/.git/hooks/post-commit" for name in ("project", "decoy"))
    with Swapping(me, kept):
        for _ in range(rounds(200)):
            opts = ["--private", kept, "-C", "/", "--no-protect", "-w", project, "-r", project / ".git/hooks"]
            me.run(opts, ["/bin/sh", "-c", plant], "namespaces", timeout=60)
            assert os.listdir(project / ".git/hooks") == [], "a hook was planted"
    # The control: there is a hook if nothing is protected.
    me.run(["--no-protect", "-C", "/", "-w", project], ["/bin/sh", "-c", plant], "namespaces")
    assert os.listdir(project / ".git/hooks") == ["post-commit"]

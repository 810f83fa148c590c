# SPDX-License-Identifier: Apache-2.0
"""The kernel's file systems below a grant: the /proc of a chroot shows the host's processes.

Everything is mounted in a mount namespace that ends with the test.
"""

import pathlib
import re
import subprocess

import pytest

from conftest import IS_ROOT, ceiling, needs, unavailable
from differences import kernel_lacks

# name -> (how to mount it on "$1", a file in it that the control can read)
KINDS = {
    "proc": ('mount --rbind /proc "$1"', "1/stat"),
    "part": ('mount --bind /proc/sys "$1"', "kernel/ostype"),
    "sysfs": ('mount --rbind /sys "$1"', "kernel/mm/transparent_hugepage/enabled"),
    "file": ('test -f "$1" || { rmdir "$1"; touch "$1"; }; mount --bind /proc/version "$1"', ""),
}


class World:
    """Runs commands of one caller where something is mounted below a granted directory."""

    def __init__(self, me):
        needs("unshare", "setpriv", "mount")
        self.me = me
        self.dir = me.mkdir("work/granted dir")
        self.point = me.mkdir("work/granted dir/a b")
        me.write(self.dir / "plain", "plain\n")

    def run(self, mount, argv):
        me = self.me
        shell = ["sh", "-ec", mount + '; shift; exec "$@"', "sh", str(self.point)]
        argv = [str(a) for a in argv]
        if IS_ROOT:
            ids = ["setpriv", f"--reuid={me.uid}", f"--regid={me.gid}", "--clear-groups"]
            shell = ["unshare", "-m"] + shell + (ids if me.switch else []) + argv
        else:
            # Capabilities in a user namespace of its own, and the same ids.
            shell = ["unshare", "-Um", "-c", "--keep-caps"] + shell + argv
        return subprocess.run(
            shell, capture_output=True, check=False, timeout=ceiling(60), cwd=me.work, env=me.env()
        )


@pytest.fixture
def world(me):
    return World(me)


@pytest.mark.parametrize("kind", KINDS)
def test_not_in_the_view(world, kind):
    """An ordinary user's run covers it; one that root starts is refused, since it cannot be idmapped."""
    mount, name = KINDS[kind]
    target = world.point / name if name else world.point
    outside = world.run(mount, ["cat", target])
    assert outside.returncode == 0 and outside.stdout, f"positive control: {outside}"
    script = 'cat "$1/plain"; cat "$2"; ls "$3"'
    argv = ["sh", "-c", script, "sh", world.dir, target, world.point]
    done = world.run(mount, world.me.argv(["-r", world.dir], argv, "namespaces"))
    if world.me.uid == 0:
        assert done.returncode == 125 and f"'{world.point}'".encode() in done.stderr, done
        assert done.stderr.count(b"\n") == 1
    else:
        assert done.stdout in (b"plain\n", b"plain\n%s\n" % str(world.point).encode()), done


@pytest.mark.parametrize("kind", KINDS)
def test_refused_where_nothing_can_be_covered(world, kind):
    mount, _ = KINDS[kind]
    done = world.run(mount, world.me.argv(["-r", world.dir], ["true"], "landlock"))
    assert done.returncode == 125, done
    assert b"is mounted in it, at '%s'" % str(world.point).encode() in done.stderr


def test_denied_at_level_landlock(world):
    opts = ["-r", world.dir, "--deny", world.point]
    done = world.run(KINDS["proc"][0], world.me.argv(opts, ["cat", world.dir / "plain"], "landlock"))
    assert done.stdout == b"plain\n", done


@pytest.mark.parametrize("below", ["", "sys/kernel"])
def test_not_by_its_own_name(world, level, below):
    path = world.point / below
    done = world.run(KINDS["proc"][0], world.me.argv(["-r", path], ["true"], level))
    assert done.returncode == 125 and b"file system of the kernel" in done.stderr, done


# Prints every mount that a program can see, with its type.
VISIBLE = r"""
import os
for line in open("/proc/self/mountinfo"):
    field = line.split()
    path = field[4].encode().decode("unicode_escape")
    try:
        device = os.stat(path).st_dev
    except OSError:
        continue
    if field[2] == f"{os.major(device)}:{os.minor(device)}":
        print(field[field.index("-") + 1], path)
"""


@pytest.mark.once  # root's grants are idmapped, which is up to each file system of the machine
def test_with_the_whole_system_granted(world):
    """`-r /` shows no file system of the kernel but the sandbox's own."""
    # The directory is granted by name as well: /tmp is the sandbox's own.
    opts = ["-r", "/", "-r", world.dir]
    argv = world.me.argv(opts, ["/usr/bin/python3", "-c", VISIBLE], "namespaces")
    done = world.run(KINDS["proc"][0], argv)
    assert done.returncode == 0, done
    seen = [line.split(" ", 1) for line in done.stdout.decode().splitlines()]
    assert ["proc", "/proc"] in seen
    special = {path for kind, path in seen if kind in ("proc", "sysfs", "cgroup", "cgroup2", "debugfs", "devpts")}
    assert special <= {"/proc", "/proc/sys", "/dev/pts"}, special


def test_other_mounts_stay(world):
    mount = 'mount -t tmpfs tmpfs "$1"; echo there > "$1/file"; chmod -R a+rX "$1"'
    argv = ["cat", world.point / "file"]
    done = world.run(mount, world.me.argv(["-r", world.dir], argv, "namespaces"))
    if world.me.uid == 0 and kernel_lacks("tmpfs-idmap"):
        assert (done.returncode, done.stdout) == (125, b"") and b"has no idmapped mounts" in done.stderr, done
    else:
        assert done.stdout == b"there\n", done


def mount_of(point):
    """Its line in mountinfo."""
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return next((line for line in reversed(lines) if line.split()[4] == point), "")


def test_devices(world, level):
    """The host's devices below a grant: `nodev` keeps them shut, and where there is none the grant is refused."""
    if not re.search(r" - devtmpfs ", mount_of("/dev")):
        unavailable("/dev is no devtmpfs here")
    mount = 'mount --rbind /dev "$1"'
    argv = ["head", "-c", "1", world.point / "zero"]
    assert world.run(mount, argv).stdout == b"\0", "positive control"
    done = world.run(mount, world.me.argv(["-r", world.dir], argv, level))
    assert done.stdout == b"" and done.returncode != 0, done
    if level == "landlock" or world.me.uid == 0:
        assert done.returncode == 125 and f"at '{world.point}'".encode() in done.stderr, done


def test_a_hidden_name_is_no_device(world):
    """Containers mount /dev/null over what they hide."""
    mount = 'rmdir "$1"; touch "$1"; mount --bind /dev/null "$1"'
    argv = ["cat", world.dir / "plain"]
    done = world.run(mount, world.me.argv(["-r", world.dir], argv, "landlock"))
    assert done.stdout == b"plain\n", done

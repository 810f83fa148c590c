# SPDX-License-Identifier: Apache-2.0
"""Machines of other shapes than Debian's: what is shut, hidden or missing there, and other layouts of the system.

Each shape is made around Cordon, in namespaces of the test's own. In each, `cordon check` says what is offered and
what helps, the best level is chosen by itself, and what that level promises holds.
"""

import json
import os
import shutil
import subprocess

import pytest

from conftest import IS_ROOT, needs, unavailable

# What a command tries everywhere. Without a sandbox every line of it succeeds: that is the control.
SCRIPT = """
cat {canary} 2>/dev/null && echo read
(echo changed > {canary}) 2>/dev/null && echo wrote
(echo fine > made) 2>/dev/null && echo made
kill -0 {outside} 2>/dev/null && echo signalled
echo end
"""


def shut_namespaces(argv):
    """`user.max_user_namespaces=0`, which holds for a user namespace and what is in it."""
    script = 'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all --bounding-set=-all "$@"'
    return ["unshare", "-U", "--map-current-user", "--keep-caps", "sh", "-c", script, "sh", *argv]


def without_capabilities(probes, argv):
    """Ubuntu 24.04: a user namespace can be made, and nothing can be done in it."""
    return [probes["nonamespaces"], "capabilities", *argv]


@pytest.fixture
def tried(me):
    """The script, with a process outside to signal."""
    canary = me.write(me.out / "canary", "canary\n")
    with me.popen(["sleep", "60"]) as outside:
        yield canary, SCRIPT.format(canary=canary, outside=outside.pid)
        outside.kill()


def check(me, wrap):
    """`cordon check --json` in that shape, by layer. It says what helps wherever something is wrong."""
    done = me.outside(wrap([me.cordon, "check", "--json"]))
    got = json.loads(done.stdout)
    assert done.returncode == (0 if got["level"] == "namespaces" else 1), done
    layers = {layer["name"]: layer for layer in got["layers"]}
    for layer in layers.values():
        assert layer["detail"], layer
    for name in ("level namespaces", "level landlock", "landlock", "workspace", "net-allow"):
        assert layers[name]["state"] == "yes" or layers[name]["remedy"], layers[name]
    return got["level"], layers


def holds(me, wrap, tried, level, *opts):
    canary, script = tried
    done = me.outside(wrap(["sh", "-c", f"cd {me.work} && {script}"]))
    assert done.stdout == b"canary\nread\nwrote\nmade\nsignalled\nend\n", done
    me.write(canary, "canary\n")
    os.unlink(me.work / "made")

    done = me.outside(wrap(me.argv(["--json", "-w", me.work, *opts], ["sh", "-c", script])))
    assert done.returncode == 0, done
    got = json.loads(done.stdout)
    assert got["isolation"]["level"] == level, got
    assert got["stdout"] == "made\nend\n", got
    assert canary.read_text() == "canary\n" and (me.work / "made").read_text() == "fine\n"
    done = me.outside(wrap(me.argv(["-t", "500ms"], ["sleep", "20"])))
    assert done.returncode == 124, done


# --- something is shut -----------------------------------------------------------------------------


def test_no_user_namespaces(me, tried):
    level, layers = check(me, shut_namespaces)
    assert level == "landlock" and layers["level namespaces"]["state"] == "no"
    assert "user.max_user_namespaces" in layers["level namespaces"]["remedy"]
    holds(me, shut_namespaces, tried, "landlock")
    done = me.outside(shut_namespaces(me.argv([], ["true"], "namespaces")))
    assert done.returncode == 125 and b"user.max_user_namespaces" in done.stderr, done


def test_namespaces_without_capabilities(me, probes, tried):
    def wrap(argv):
        return without_capabilities(probes, argv)

    # The control: a user namespace can be had, others cannot.
    assert me.outside(wrap(["unshare", "-U", "true"])).returncode == 0
    assert me.outside(wrap(["unshare", "-Um", "true"])).returncode != 0
    level, layers = check(me, wrap)
    assert level == "landlock" and layers["level namespaces"]["state"] == "no"
    assert "apparmor" in layers["level namespaces"]["remedy"].lower()
    holds(me, wrap, tried, "landlock")
    done = me.outside(wrap(me.argv([], ["true"], "namespaces")))
    assert done.returncode == 125 and done.stderr.startswith(b"cordon:"), done


def test_no_landlock(me, probes, tried):
    def wrap(argv):
        return [probes["nonamespaces"], "landlock", *argv]

    level, layers = check(me, wrap)
    assert level == "namespaces" and layers["landlock"]["state"] == "no"
    assert "lsm=landlock" in layers["landlock"]["remedy"]
    assert layers["level landlock"]["state"] == "no"
    holds(me, wrap, tried, "namespaces")


# --- something is hidden or missing ----------------------------------------------------------------

# Commands of root's in a mount namespace of its own. @cordon@: a copy of the command on a disk that can execute.
PLACES = {
    "hidden processes": "mount -t proc -o hidepid=2 proc /proc",
    "noexec /tmp": "mount --bind /tmp /tmp && mount -o remount,bind,noexec /tmp",
    "no /dev/shm": "mkdir /mnt/dev && for n in null zero full random urandom tty; do : > /mnt/dev/$n && "
    "mount --bind /dev/$n /mnt/dev/$n || exit; done && mount --rbind /mnt/dev /dev",
    "no control groups": "umount -l /sys/fs/cgroup && ! ls /sys/fs/cgroup/*",
    # As systemd's hybrid layout has it: the second version beside directories of the first one's controllers.
    "hybrid control groups": "mount -t tmpfs tmpfs /sys/fs/cgroup && cd /sys/fs/cgroup && mkdir unified memory pids systemd "
    "&& mount -t cgroup2 cgroup2 unified && cd - > /dev/null",
    "no /sys": "mount -t tmpfs -o ro tmpfs /sys",
    "no /run": "mount -t tmpfs -o ro tmpfs /run",
}


def in_place(me, setup):
    """A function that puts that around a command line; the command is copied to where it can be executed."""

    def wrap(argv):
        argv = ["/mnt/cordon" if word == me.cordon else str(word) for word in argv]
        drop = [] if not me.switch else ["setpriv", f"--reuid={me.uid}", f"--regid={me.gid}", "--clear-groups"]
        script = f'mount -t tmpfs -o mode=755 tmpfs /mnt && cp {me.cordon} /mnt/cordon && {{ {setup}; }} && exec "$@"'
        return ["unshare", "-m", "sh", "-c", script, "sh", *drop, *argv]

    return wrap


class AsRoot:
    """The caller, with commands that root prepares things for."""

    def __init__(self, me):
        self._me = me

    def __getattr__(self, name):
        return getattr(self._me, name)

    def outside(self, argv):
        return subprocess.run([str(a) for a in argv], cwd=str(self._me.work), env=self._me.env(), timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)  # fmt: skip


def test_user_namespaces_kept_by_apparmor(me):
    """The remedy is a profile that comes with Cordon. The setting is a file here, over which /proc cannot be mounted."""
    if not IS_ROOT:
        unavailable("only root can mount what makes the difference")
    setup = "mount -t tmpfs tmpfs /proc/sys/kernel && echo 1 > /proc/sys/kernel/apparmor_restrict_unprivileged_userns"
    level, layers = check(AsRoot(me), in_place(me, setup))
    assert level == "landlock" and layers["level namespaces"]["state"] == "no", layers
    is_told = "share/cordon/apparmor/cordon" in layers["level namespaces"]["remedy"]
    assert is_told == (me.uid != 0), layers["level namespaces"]


# /run and /tmp may be disks of their own.
READ_ONLY = "for d in /run /tmp; do mount --bind $d $d && mount -o remount,bind,ro $d || exit; done; mount -o remount,bind,ro /"


@pytest.mark.parametrize("place", PLACES)
def test_places(me, tried, place):
    if not IS_ROOT:
        unavailable("only root can mount what makes the difference")
    root, wrap = AsRoot(me), in_place(me, PLACES[place])
    level, layers = check(root, wrap)
    assert level == "namespaces", layers
    holds(root, wrap, tried, "namespaces")
    holds(root, wrap, tried, "landlock", "--isolation", "landlock")


def test_read_only_system(me):
    """Nothing can be written anywhere: a command that writes nothing runs all the same."""
    if not IS_ROOT:
        unavailable("only root can mount what makes the difference")
    root, wrap = AsRoot(me), in_place(me, READ_ONLY)
    done = root.outside(wrap(["touch", me.work / "x"]))
    assert b"Read-only" in done.stderr, done
    level, layers = check(root, wrap)
    assert level == "namespaces", layers
    done = root.outside(wrap(root.argv([], ["sh", "-c", "echo fine > /tmp/x && cat /tmp/x"])))
    assert (done.returncode, done.stdout) == (0, b"fine\n"), done
    # A grant on another disk. That an earlier run has left a directory for locks does not hinder it.
    wrap = in_place(me, f"mkdir -m 700 /mnt/w /mnt/s && chown {me.uid} /mnt/w /mnt/s && {READ_ONLY}")
    argv = root.argv(["-w", "/mnt/w"], ["sh", "-c", "echo fine > /mnt/w/x && cat /mnt/w/x"])
    done = root.outside(wrap(argv))
    assert done.returncode == 125 and b"no place for locks" in done.stderr and b"XDG_STATE_HOME" in done.stderr, done
    done = root.outside(wrap(["env", "XDG_STATE_HOME=/mnt/s", *argv]))
    assert (done.returncode, done.stdout) == (0, b"fine\n"), done


# --- other layouts ---------------------------------------------------------------------------------

MUSL = "/lib/x86_64-linux-musl/libc.so"
HELLO = '#include <stdio.h>\nint main(void) { return puts("hello") < 0; }\n'
APPLETS = "sh cat echo kill ls touch sleep true id".split()


def busybox(root, bin_dir, target):
    """Its applets as links, the way such systems have them."""
    (root / bin_dir).mkdir(parents=True, exist_ok=True)
    for name in APPLETS:
        os.symlink(target, root / bin_dir / name)


def base(root):
    for name in ("etc", "proc", "dev", "tmp", "run", "var", "root", "opt"):
        (root / name).mkdir(parents=True)
    os.chmod(root / "tmp", 0o1777)
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")


def alpine(root):
    """musl, /bin and /lib apart from /usr, no /lib64 and nothing of glibc's."""
    base(root)
    (root / "bin").mkdir()
    (root / "lib").mkdir()
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/lib").mkdir()
    shutil.copy(shutil.which("busybox"), root / "bin/busybox")
    busybox(root, "bin", "/bin/busybox")
    shutil.copy(MUSL, root / "lib/ld-musl-x86_64.so.1")
    (root / "etc/alpine-release").write_text("3.23.0\n")
    source = root / "hello.c"
    source.write_text(HELLO)
    subprocess.run(["musl-gcc", "-o", str(root / "usr/bin/hello"), str(source)], check=True)
    return "/usr/bin:/bin", "/usr/bin/hello"


def nixos(root):
    """Everything in a store, reached over links; /usr has one program, /bin another."""
    base(root)
    store = root / "nix/store/0a-busybox-1.37"
    (store / "bin").mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), store / "bin/busybox")
    busybox(root, "nix/store/0a-busybox-1.37/bin", "busybox")
    lib = root / "nix/store/0b-musl-1.2/lib"
    lib.mkdir(parents=True)
    shutil.copy(MUSL, lib / "ld-musl-x86_64.so.1")
    source = root / "hello.c"
    source.write_text(HELLO)
    (root / "nix/store/0c-hello/bin").mkdir(parents=True)
    subprocess.run(["musl-gcc", "-o", str(root / "nix/store/0c-hello/bin/hello"), str(source),
                    "-Wl,--dynamic-linker=/nix/store/0b-musl-1.2/lib/ld-musl-x86_64.so.1"], check=True)  # fmt: skip
    system = root / "nix/store/0d-system/sw/bin"
    system.mkdir(parents=True)
    for name in APPLETS:
        os.symlink(f"/nix/store/0a-busybox-1.37/bin/{name}", system / name)
    os.symlink("/nix/store/0c-hello/bin/hello", system / "hello")
    os.symlink("/nix/store/0d-system", root / "run/current-system")
    (root / "bin").mkdir()
    os.symlink("/nix/store/0a-busybox-1.37/bin/sh", root / "bin/sh")
    (root / "usr/bin").mkdir(parents=True)
    os.symlink("/nix/store/0a-busybox-1.37/bin/busybox", root / "usr/bin/env")
    return "/run/current-system/sw/bin", "/run/current-system/sw/bin/hello"


def unmerged(root):
    """glibc, with /bin, /lib and /lib64 as directories of their own."""
    base(root)
    for name in ("bin", "lib/x86_64-linux-gnu", "lib64", "usr/bin", "usr/lib"):
        (root / name).mkdir(parents=True)
    shutil.copy("/lib64/ld-linux-x86-64.so.2", root / "lib64")
    shutil.copy("/lib/x86_64-linux-gnu/libc.so.6", root / "lib/x86_64-linux-gnu")
    shutil.copy(shutil.which("busybox"), root / "bin/busybox")
    busybox(root, "bin", "/bin/busybox")
    source = root / "hello.c"
    source.write_text(HELLO)
    subprocess.run(["gcc", "-o", str(root / "usr/bin/hello"), str(source)], check=True)
    return "/usr/bin:/bin", "hello"


@pytest.mark.parametrize("layout", [alpine, nixos, unmerged])
def test_layouts(me, level, tried, layout):
    needs("busybox", "bwrap", "gcc")
    if not os.path.exists(MUSL):
        unavailable("musl is not installed")
    root = me.mkdir("root")
    path, hello = layout(root)
    # Where something is mounted: an ordinary user's bwrap could not make it.
    (root / str(me.base)[1:]).mkdir(parents=True)
    (root / "opt/cordon").touch()
    more = ["--cap-add", "ALL"] if me.uid == 0 else []

    def wrap(argv):
        argv = ["/opt/cordon" if word == me.cordon else str(word) for word in argv]
        return ["bwrap", *more, "--bind", str(root), "/", "--dev-bind", "/proc", "/proc", "--dev", "/dev", "--bind", str(me.base), str(me.base),
                "--ro-bind", me.cordon, "/opt/cordon", "--setenv", "PATH", path, "--chdir", str(me.work), *argv]  # fmt: skip

    best, layers = check(me, wrap)
    assert best == "namespaces", layers
    holds(me, wrap, tried, level, "--isolation", level)
    for argv in ([hello], ["sh", "-c", os.path.basename(hello)]):
        done = me.outside(wrap(me.argv([], argv, level)))
        assert (done.returncode, done.stdout) == (0, b"hello\n"), done
    done = me.outside(wrap(me.argv([], ["no-such-program"], level)))
    assert done.returncode == 127, done

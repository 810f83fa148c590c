# SPDX-License-Identifier: Apache-2.0
"""/dev, user-namespace surface, namespaces and core files."""

import os
import pathlib

import pytest

from conftest import expect, namespaces_alive, rows, settles

GOLDEN_DEV = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts/ptmx"}
FORBIDDEN = "kvm fuse net/tun mem kmem port kmsg vda vda1 sda loop0 loop-control vhost-net vhost-vsock".split()
FORBIDDEN += "userfaultfd uinput input/event0 dri/card0 snd/timer mapper/control hpet nvram vsock btrfs-control".split()
FORBIDDEN += ["console", "tty0", "tty1", "ttyS0", "pts/0", "pts/1", "rtc0", "cpu/0/msr"]

FIND_DEVICES = r"""
import os, stat
for top, dirs, files in os.walk('/'):
    if top == '/proc': dirs[:] = []; continue
    for name in files + dirs:
        path = os.path.join(top, name)
        try: mode = os.lstat(path).st_mode
        except OSError: continue
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode): print(path)
"""


def test_devices_that_exist(me):
    """Level namespaces: the whole view holds these device nodes and no other."""
    done = me.run([], ["python3", "-c", FIND_DEVICES], "namespaces")
    assert done.returncode == 0, done.stderr
    found = set(done.stdout.decode().split())
    assert found <= {"/dev/" + name for name in GOLDEN_DEV}, found
    assert {"/dev/null", "/dev/zero", "/dev/urandom"} <= found


def test_devices_that_can_be_opened(me, level):
    """Both levels: of all nodes the host has, only the harmless ones open."""
    nodes = [
        str(p)
        for p in pathlib.Path("/dev").rglob("*")
        if not p.is_symlink() and (p.is_char_device() or p.is_block_device())
    ]
    nodes += ["/dev/" + name for name in FORBIDDEN]
    script = r"""
import os, sys
for path in sys.stdin.read().split():
    for mode in (os.O_RDWR, os.O_RDONLY, os.O_WRONLY):
        try: fd = os.open(path, mode | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError: continue
        os.close(fd); print(path); break
"""
    # The list goes in by standard input; the control is that the harmless ones do open.
    done = me.run(
        [], ["python3", "-c", script], level, input="\n".join(sorted(set(nodes))).encode()
    )
    assert done.returncode == 0, done.stderr
    opened = set(done.stdout.decode().split())
    assert opened <= {"/dev/" + name for name in GOLDEN_DEV}, opened - {
        "/dev/" + n for n in GOLDEN_DEV
    }
    assert {"/dev/null", "/dev/zero", "/dev/urandom"} <= opened


def test_random_cannot_be_steered(me, level):
    """Nothing but /dev/null and friends takes writes that reach the host."""
    script = "echo x > /dev/urandom && echo urandom; echo x > /dev/kmsg && echo kmsg; echo x > /dev/null && echo null"
    done = me.run([], ["sh", "-c", script], level)
    assert b"kmsg" not in done.stdout and b"null" in done.stdout


def test_no_terminal_of_the_host(me, level):
    master, slave = os.openpty()
    name = os.ttyname(slave)
    os.chmod(name, 0o666)
    try:
        done = me.run([], ["sh", "-c", f"echo planted > {name}; ls /dev/pts"], level)
        os.set_blocking(master, False)
        with pytest.raises(BlockingIOError):
            os.read(master, 100)
        if level == "namespaces":
            assert os.path.basename(name).encode() not in done.stdout.split()
        me.outside(["sh", "-c", f"echo planted > {name}"])
        assert b"planted" in os.read(master, 100)  # the control
    finally:
        os.close(master)
        os.close(slave)


def ns_table():
    kinds = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time", "user-mnt", "user-net"]
    table = {
        f"{how}-{k}": "denied"
        for how in ("unshare", "unshare-high", "clone", "clone3")
        for k in kinds
    }
    del table["clone-time"]
    # clone() has no room for the time namespace: the bit belongs to the exit signal there.
    table["clone-time"] = "any"
    table["clone3-plain"] = "denied:ENOSYS"
    table |= {f"setns-{k}": "denied" for k in ("mnt", "net", "ipc", "uts", "cgroup", "pid")}
    table |= {"setgroups": "denied", "chroot": "denied"}
    return table


def test_no_new_namespaces(me, level, probes):
    probe = probes["ns"]
    before = pathlib.Path("/proc/self/mountinfo").read_text()
    done = me.run(["-r", probe], [probe], level)
    assert done.returncode == 0, done.stderr
    expect(rows(done.stdout), ns_table(), level)
    outside = rows(me.outside([probe]).stdout)
    for name in ("unshare-user", "unshare-user-net", "clone-user", "clone3-user", "clone3-plain"):
        assert outside[name] == "allowed", f"positive control: {name}"
    if me.name == "root":
        assert outside["unshare-mnt"] == outside["setns-net"] == outside["setgroups"] == "allowed"
    assert pathlib.Path("/proc/self/mountinfo").read_text() == before


def test_no_namespace_left(me, level):
    before = namespaces_alive()
    for _ in range(5):
        assert me.run(["-w", me.work], ["sh", "-c", "sleep 0.01 & true"], level).returncode == 0
    assert not settles(lambda: namespaces_alive() - before)


def test_nested_run_fails_closed(me, level):
    """Cordon inside Cordon: it confines (level landlock) or refuses, and never gives more."""
    canary = me.write(me.out / "canary", "canary")
    inner = [me.cordon, "run", "-r", me.out, "--", "cat", canary]
    done = me.run(["-r", me.cordon], inner, level)
    assert b"canary" not in done.stdout
    assert done.returncode != 0


@pytest.mark.parametrize("signal", ["SEGV", "ABRT", "QUIT"])
def test_no_core_file(me, level, signal):
    """A crash leaves no file anywhere the host sees; outside the same crash does."""
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    cores = lambda: [str(p) for p in me.base.rglob("core*")]
    script = f"cd {me.work}; ulimit -c unlimited 2>/dev/null; kill -{signal} $$"
    if not pattern.startswith(("|", "/")) and signal == "SEGV":
        me.outside(["sh", "-c", script])
        assert cores(), "positive control: no core outside"
        for path in cores():
            os.unlink(path)
    argv = me.argv(["-w", me.work], ["sh", "-c", script], level)
    done = me.outside(["sh", "-c", 'ulimit -c unlimited; exec "$@"', "sh"] + argv)
    assert done.returncode == 128 + {"SEGV": 11, "ABRT": 6, "QUIT": 3}[signal], done
    assert cores() == []
    limits = me.run([], ["sh", "-c", "grep core /proc/self/limits"], level).stdout.split()
    assert limits[4:6] in ([b"1", b"1"], [b"0", b"0"])


def test_hardware_mitigations_are_not_loosened(me, level):
    got = me.run([], ["cat", "/proc/self/status"], level).stdout.decode()
    outside = me.outside(["cat", "/proc/self/status"]).stdout.decode()
    pick = lambda text: [l for l in text.splitlines() if l.startswith("Speculation")]
    for inside_line, outside_line in zip(pick(got), pick(outside)):
        assert (
            inside_line == outside_line or "mitigated" in inside_line or "disabled" in inside_line
        )


def test_oom_killer_prefers_the_guest(me, level):
    got = me.run([], ["cat", "/proc/self/oom_score_adj"], level).stdout
    assert int(got) >= 500
    script = "echo -500 > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj"
    assert int(me.run([], ["sh", "-c", script], level).stdout) >= 500

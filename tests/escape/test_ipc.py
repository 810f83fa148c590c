# SPDX-License-Identifier: Apache-2.0
"""Local channels: unix sockets, System V and POSIX objects, shared directories, keyrings."""

import ctypes
import json
import os
import pathlib
import secrets
import socket
import subprocess

import pytest

from conftest import control, expect, rows

SYS_KEYCTL, SYS_ADD_KEY = (219, 217) if os.uname().machine == "aarch64" else (250, 248)


def unix_sockets(me, listener):
    """Sockets where real ones lie: /tmp, /run, the home directory."""
    places = {"tmp": pathlib.Path("/tmp"), "home": me.home, "out": me.out}
    if os.access("/run", os.W_OK):
        places["run"] = pathlib.Path("/run")
    args, made = [], []
    for place, directory in places.items():
        for kind, name in (
            (socket.SOCK_STREAM, "stream"),
            (socket.SOCK_DGRAM, "dgram"),
            (socket.SOCK_SEQPACKET, "seqpacket"),
        ):
            path = str(directory / f"cordon-{name}-{secrets.token_hex(4)}")
            if kind == socket.SOCK_SEQPACKET and place != "tmp":
                continue
            listener.add(socket.AF_UNIX, kind, path, f"{place}-{name}")
            made.append(path)
            args.append(f"{name}:{place}-{name}:{path}")
            if name == "dgram":
                args.append(f"sendmsg:{place}-sendmsg:{path}")
                args.append(f"connected:{place}-connected:{path}")
    return args, made


def test_pathname_sockets(me, level, probes, listener):
    probe = probes["ipc"]
    args, made = unix_sockets(me, listener)
    try:
        names = [a.split(":")[1] for a in args]
        done = me.run(["-r", probe], [probe, *args], level)
        assert done.returncode == 0, done.stderr
        assert listener.seen() == [], "a socket outside was reached"
        expect(rows(done.stdout), {name: "denied" for name in names}, level)
        control(rows(me.outside([probe, *args]).stdout), names)
        assert len(listener.seen()) >= len(made)
    finally:
        for path in made:
            os.unlink(path)


def test_socket_in_a_read_grant(me, level, probes, listener):
    """A right to read is no right to connect to a socket there (the current directory is such a
    grant by default). Landlock can say so from ABI 9 on; before that the kernel has nothing that
    keeps a process from connecting to a socket it can see, so level namespaces cannot hold it, and
    the receipt must say so. Level landlock refuses Unix sockets altogether there."""
    probe = probes["ipc"]
    stream, dgram = str(me.work / "stream"), str(me.work / "dgram")
    listener.add(socket.AF_UNIX, socket.SOCK_STREAM, stream, "stream")
    listener.add(socket.AF_UNIX, socket.SOCK_DGRAM, dgram, "dgram")
    args = [
        f"stream:stream:{stream}",
        f"dgram:dgram:{dgram}",
        f"sendmsg:sendmsg:{dgram}",
        f"connected:connected:{dgram}",
    ]
    isolation = me.receipt([], ["true"], level)["isolation"]
    done = me.run(["-r", probe, "-r", me.work], [probe, *args], level)
    assert done.returncode == 0, done.stderr
    if level == "namespaces" and "pathname-sockets" in isolation["missing"]:
        # The gap that the receipt admits must be a real one, on a kernel that cannot close it.
        abi = int(next(x for x in isolation["layers"] if x.startswith("landlock:")).split(":")[1])
        assert abi < 9, "this kernel could hold it"
        assert listener.seen() != [], "it is held after all: the receipt says too little"
        return
    assert listener.seen() == [], "a socket in a read grant was reached"
    expect(rows(done.stdout), {a.split(":")[1]: "denied" for a in args}, level)
    control(rows(me.outside([probe, *args]).stdout), [a.split(":")[1] for a in args])


def test_socket_in_a_write_grant(me, level, probes, listener):
    """The decision for write grants: what lies there is the caller's to grant, so it is written down
    here. Level namespaces: reachable (the tree is shared on purpose). Level landlock: not."""
    probe = probes["ipc"]
    path = str(me.work / "sock")
    listener.add(socket.AF_UNIX, socket.SOCK_STREAM, path, "work")
    done = me.run(["-r", probe, "-w", me.work], [probe, f"stream:work:{path}"], level)
    assert done.returncode == 0, done.stderr
    if level == "landlock":
        assert listener.seen() == []
    else:
        got = rows(done.stdout)["work"]
        assert (got == "allowed") == (listener.seen() == ["work"])


def test_abstract_sockets(me, level, probes, listener):
    probe = probes["ipc"]
    args = []
    for kind, name in ((socket.SOCK_STREAM, "stream"), (socket.SOCK_DGRAM, "dgram")):
        address = "\0cordon-" + secrets.token_hex(8)
        listener.add(socket.AF_UNIX, kind, address, name)
        args.append(f"{name}:{name}:@{address[1:]}")
    done = me.run(["-r", probe], [probe, *args], level)
    assert done.returncode == 0, done.stderr
    assert listener.seen() == []
    expect(rows(done.stdout), {"stream": "denied", "dgram": "denied"}, level)
    control(rows(me.outside([probe, *args]).stdout), ["stream", "dgram"])
    assert listener.seen() == ["dgram", "stream"]


@pytest.fixture
def shared_objects():
    """A System V segment, semaphore and queue, and a POSIX queue, open to everybody."""
    libc = ctypes.CDLL(None, use_errno=True)
    librt = ctypes.CDLL("librt.so.1", use_errno=True)
    key = 0x43000000 | secrets.randbelow(1 << 20)
    shm = libc.shmget(key, 4096, 0o1666)
    sem = libc.semget(key, 1, 0o1666)
    msg = libc.msgget(key, 0o1666)
    name = b"/cordon-" + secrets.token_hex(4).encode()
    old = os.umask(0)
    queue = librt.mq_open(name, os.O_RDWR | os.O_CREAT, 0o666, None)
    os.umask(old)
    assert min(shm, sem, msg, queue) >= 0, os.strerror(ctypes.get_errno())
    yield key, name.decode()
    libc.shmctl(shm, 0, None)
    libc.semctl(sem, 0, 0)
    libc.msgctl(msg, 0, None)
    librt.mq_close(queue)
    librt.mq_unlink(name)


def test_system_v_and_posix_objects(me, level, probes, shared_objects):
    probe = probes["ipc"]
    key, queue = shared_objects
    args = [f"shm:shm:{key}", f"sem:sem:{key}", f"msg:msg:{key}", f"mq:mq:{queue}"]
    names = ["shm", "sem", "msg", "mq"]
    done = me.run(["-r", probe], [probe, *args], level)
    assert done.returncode == 0, done.stderr
    expect(rows(done.stdout), {name: "denied" for name in names}, level)
    control(rows(me.outside([probe, *args]).stdout), names)


def test_shared_memory_works_among_themselves(me, level):
    """What programs need of it still works: a private /dev/shm (multiprocessing), socketpairs."""
    script = """
import multiprocessing as m
def f(q): q.put(6 * 7)
if __name__ == '__main__':
    c = m.get_context('fork'); q = c.Queue(); p = c.Process(target=f, args=(q,)); p.start(); print(q.get()); p.join()
"""
    if level == "landlock":
        script = "import socket; a, b = socket.socketpair(); a.send(b'x'); print(42 if b.recv(1) == b'x' else 0)"
    done = me.run([], ["python3", "-c", script], level)
    assert done.stdout == b"42\n", done


@pytest.mark.parametrize("directory", ["/tmp", "/dev/shm", "/var/tmp"])
def test_shared_directories(me, level, probes, directory):
    probe = probes["ipc"]
    token = "cordon-" + secrets.token_hex(6)
    canary = pathlib.Path(directory) / token
    canary.write_text("canary")
    os.chmod(canary, 0o666)
    planted = pathlib.Path(directory) / (token + "-planted")
    args = [f"read:read:{canary}", f"create:create:{planted}"]
    try:
        done = me.run(["-r", probe], [probe, *args], level)
        assert done.returncode == 0, done.stderr
        got = rows(done.stdout)
        assert not planted.exists(), "a file was planted on the host"
        assert got["read"].startswith("denied")
        if level == "landlock":
            assert got["create"].startswith("denied")
        control(rows(me.outside([probe, *args]).stdout), ["read", "create"])
        assert planted.exists()
    finally:
        canary.unlink()
        if planted.exists():
            planted.unlink()


def test_keyrings(me, level, probes):
    """A key of the caller's session is not found, and none is planted there."""
    probe = probes["ipc"]
    name = "cordon-" + secrets.token_hex(6)
    args = [f"key:find:{name}", f"plant:plant:{name}-planted", f"request:request:{name}"]
    # A session keyring of our own, so that the control has something to find.
    inside = me.argv(["-r", probe], [probe, *args], level)
    script = f"""
import ctypes, os, subprocess, sys, json
libc = ctypes.CDLL(None, use_errno=True)
call = libc.syscall
call.restype = ctypes.c_long
assert call({SYS_KEYCTL}, 1, None) > 0
key = call({SYS_ADD_KEY}, b'user', {name.encode()!r}, b'canary', 6, -3)
assert key > 0, ctypes.get_errno()
assert call({SYS_KEYCTL}, 5, key, 0x3f3f3f3f) == 0
out = subprocess.run({inside!r}, stdout=subprocess.PIPE).stdout.decode()
planted = call({SYS_KEYCTL}, 10, -3, b'user', {(name + '-planted').encode()!r}, 0) > 0
control = subprocess.run({[probe, *args]!r}, stdout=subprocess.PIPE).stdout.decode()
again = call({SYS_KEYCTL}, 10, -3, b'user', {(name + '-planted').encode()!r}, 0) > 0
print(json.dumps([out, planted, control, again]))
"""
    done = me.outside(["python3", "-c", script])
    assert done.returncode == 0, done.stderr
    out, planted, outside, again = json.loads(done.stdout)
    assert not planted, "a key was planted in the caller's keyring"
    expect(rows(out), {"find": "denied", "plant": "denied", "request": "denied"}, level)
    control(rows(outside), ["find", "plant", "request"])
    assert again


def test_names_of_keys(me, level):
    """The names of the caller's keys, which are often those of hosts and accounts, are not listed.
    Level landlock has no procfs of its own and cannot leave one file of it out."""
    if level == "landlock":
        assert "pid" in me.receipt([], ["true"], level)["isolation"]["missing"]
        return
    name = "cordon-" + secrets.token_hex(6)
    inside = me.argv([], ["cat", "/proc/keys"], level)
    script = f"""
import ctypes, subprocess
call = ctypes.CDLL(None, use_errno=True).syscall
assert call({SYS_KEYCTL}, 1, None) > 0
assert call({SYS_ADD_KEY}, b'user', {name.encode()!r}, b'x', 1, -3) > 0
assert {name!r} in open('/proc/keys').read()
print(subprocess.run({inside!r}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode())
"""
    done = me.outside(["python3", "-c", script])
    assert done.returncode == 0, done.stderr
    assert name not in done.stdout.decode(), done.stdout.decode()


def test_two_sandboxes_do_not_meet(me, level):
    """Two runs of the same caller at once, each looking for what the other leaves."""
    token = secrets.token_hex(6)
    leave = f"echo x > /tmp/{token}; echo x > /dev/shm/{token}; echo x > $HOME/{token}; echo ready; sleep 3"
    first = me.popen(
        me.argv(["-t", "8s"], ["sh", "-c", leave], level),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert first.stdout.readline() == b"ready\n"
        done = me.run(
            [],
            [
                "sh",
                "-c",
                f"ls /tmp/{token} /dev/shm/{token} $HOME/{token} $TMPDIR/{token} 2>/dev/null",
            ],
            level,
        )
        assert done.stdout == b""
    finally:
        first.terminate()
        first.wait()
        first.stdout.close()
    assert not list(pathlib.Path("/tmp").glob(token)) + list(pathlib.Path("/dev/shm").glob(token))
    assert not list(me.home.glob(token))

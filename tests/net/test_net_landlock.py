# SPDX-License-Identifier: Apache-2.0
"""Level landlock: the command's connect() leads to the gateway and nowhere else."""

import errno
import os
import pathlib
import re
import socket
import subprocess
import threading
import time

import pytest

from conftest import ceiling, control, known_child, needs_landlock_net, rows, unavailable
from differences import kernel_lacks

LEVEL = "landlock"
WAYS = "tcp mptcp fastopen-sendto fastopen-sendmsg fastopen-option udp-sendto udp-sendmsg udp-sendmmsg udp-connect".split()

# What the scripts inside share. The proxy is only spoken to, never looked up or assumed.
GUEST = """
import ctypes, errno, fcntl, os, socket, sys, threading, time, urllib.parse
PORT = urllib.parse.urlsplit(os.environ['HTTP_PROXY']).port
PROXY = ('127.0.0.1', PORT)
ECHO = int(os.environ.get('ECHO', '0'))
libc = ctypes.CDLL(None, use_errno=True)
def tunnel(sock, port=None):
    port = port or ECHO
    sock.setblocking(True)
    sock.settimeout(20)
    sock.sendall(b'CONNECT 127.0.0.1:%d HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n' % (port, port))
    head = b''
    while not head.endswith(b'\\r\\n\\r\\n'):
        byte = sock.recv(1)
        if not byte: return 'closed after ' + repr(head)
        head += byte
    return int(head.split()[1])
def ping(sock, text=b'ping'):
    sock.sendall(text)
    got = b''
    while len(got) < len(text):
        part = sock.recv(len(text) - len(got))
        if not part: return False
        got += part
    return got == text
def connect(fd, address, size):
    ctypes.set_errno(0)
    return 0 if libc.connect(fd, address, size) == 0 else ctypes.get_errno()
def name(code): return errno.errorcode.get(code, str(code))
"""


class Echo:
    """A server outside that may be reached; it knows how often it was."""

    def __init__(self):
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.sock.getsockname()[1]
        self.count = 0
        self._threads = []
        self._main = threading.Thread(target=self._accept, daemon=True)
        self._main.start()

    def _accept(self):
        while True:
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            self.count += 1
            thread = threading.Thread(target=self._echo, args=(conn,), daemon=True)
            thread.start()
            self._threads.append(thread)

    @staticmethod
    def _echo(conn):
        with conn:
            try:
                while data := conn.recv(65536):
                    conn.sendall(data)
            except OSError:
                pass

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self._main.join()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def server():
    got = Echo()
    yield got
    got.close()


@pytest.fixture
def echo(server):
    needs_landlock_net()
    return server


def options(echo):
    return ["--net-allow", f"127.0.0.1:{echo.port}", "-e", f"ECHO={echo.port}"]


def guest(me, echo, script, opts=(), **kw):
    """The lines that a script inside prints."""
    done = me.run([*options(echo), *opts], ["python3", "-c", GUEST + script], LEVEL, **kw)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()


# --- what works ------------------------------------------------------------------------------------


def test_a_connection_through_the_gateway(me, echo):
    script = """
s = socket.socket()
before = fcntl.fcntl(s, fcntl.F_GETFL) & os.O_NONBLOCK, fcntl.fcntl(s, fcntl.F_GETFD), s.fileno()
print(s.connect_ex(PROXY))
print((fcntl.fcntl(s, fcntl.F_GETFL) & os.O_NONBLOCK, fcntl.fcntl(s, fcntl.F_GETFD), s.fileno()) == before)
print(s.getpeername() == PROXY, tunnel(s), ping(s), ping(s, b'x' * 1000000))
"""
    assert guest(me, echo, script) == ["0", "True", "True 200 True True"]
    assert echo.count == 1


def test_kinds_of_sockets(me, echo):
    """Non-blocking, inherited over exec, IPv6 with the mapped address, from another thread."""
    script = """
s = socket.socket(); s.setblocking(False)
print(s.connect_ex(PROXY), fcntl.fcntl(s, fcntl.F_GETFL) & os.O_NONBLOCK != 0, tunnel(s), ping(s))
s = socket.socket(); s.set_inheritable(True)
print(s.connect_ex(PROXY), s.get_inheritable(), tunnel(s), ping(s))
s = socket.socket(socket.AF_INET6)
print(s.connect_ex(('::ffff:127.0.0.1', PORT)), tunnel(s), ping(s))
got = []
def other():
    s = socket.socket()
    got.extend([s.connect_ex(PROXY), tunnel(s), ping(s)])
t = threading.Thread(target=other); t.start(); t.join()
print(*got)
pid = os.fork()
if not pid:
    s = socket.socket()
    os._exit(0 if (s.connect_ex(PROXY), tunnel(s), ping(s)) == (0, 200, True) else 1)
print(os.waitpid(pid, 0)[1])
"""
    assert guest(me, echo, script) == [
        "0 True 200 True",
        "0 True 200 True",
        "0 200 True",
        "0 200 True",
        "0",
    ]
    assert echo.count == 5


def test_event_loops(me, echo):
    script = """
import asyncio
async def one(i):
    reader, writer = await asyncio.open_connection(*PROXY)
    writer.write(b'CONNECT 127.0.0.1:%d HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n' % (ECHO, ECHO))
    head = await reader.readuntil(b'\\r\\n\\r\\n')
    writer.write(b'%d\\n' % i)
    got = await reader.readline()
    writer.close()
    return head.split()[1] == b'200' and got == b'%d\\n' % i
async def main(): print(all(await asyncio.gather(*map(one, range(20)))))
asyncio.run(main())
"""
    assert guest(me, echo, script) == ["True"]
    assert echo.count == 20


# --- what does not ----------------------------------------------------------------------------------


def listen_everywhere(listener):
    args = []
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            port = listener.add(family, socket.SOCK_STREAM, (address, 0), "tcp " + address)[1]
            listener.add(family, socket.SOCK_DGRAM, (address, port), "udp " + address)
        except OSError:
            continue
        args += [address, str(port)]
    return args


def test_no_other_way_out(me, probes, listener, echo):
    """Neither to an address that no rule names, nor straight to the one that a rule names."""
    probe = probes["net"]
    args = listen_everywhere(listener)
    there = ["127.0.0.1", str(echo.port)]
    done = me.run([*options(echo), "-r", probe], [probe, *args, *there], LEVEL)
    assert done.returncode == 0, done.stderr
    assert listener.seen() == [] and echo.count == 0, "something arrived"
    got = rows(done.stdout)
    assert len(got) == len(WAYS) * len(args + there) // 2
    assert [name for name, verdict in got.items() if not verdict.startswith("denied")] == []
    assert {got[f"tcp.{i}"] for i in range(len(args + there) // 2)} == {"denied ECONNREFUSED"}
    outside = rows(me.outside([probe, *args, *there]).stdout)
    control(outside, [f"{w}.0" for w in WAYS])
    assert {"tcp 127.0.0.1", "udp 127.0.0.1"} <= set(listener.seen()) and echo.count > 0


def test_the_wrong_way_to_the_proxy(me, echo):
    """Fast open, a datagram and io_uring do not lead to the proxy either."""
    script = """
for flags in (0x20000000, 0):
    try: print(socket.socket().sendto(b'x', flags, PROXY))
    except OSError as e: print(name(e.errno))
try: print(socket.socket(type=socket.SOCK_DGRAM))
except OSError as e: print(name(e.errno))
print(libc.syscall(425, 8, ctypes.create_string_buffer(120)), name(ctypes.get_errno()))
for address in ('0.0.0.0', '127.0.0.2', '127.1.1.1'): print(name(socket.socket().connect_ex((address, PORT))))
for address in ('::1', '::', '::127.0.0.1'): print(name(socket.socket(socket.AF_INET6).connect_ex((address, PORT))))
for port in (PORT - 1, PORT + 1, 0, 22, 80, 443): print(name(socket.socket().connect_ex(('127.0.0.1', port))))
"""
    got = guest(me, echo, script)
    assert got[0] in ("EOPNOTSUPP", "ENOTSUP")  # one number, two names
    assert got[1:4] == ["EPIPE", "EPROTONOSUPPORT", "-1 ENOSYS"]
    assert got[4:] == ["ECONNREFUSED"] * 12
    assert echo.count == 0


def test_errors_are_the_kernels(me, echo):
    script = """
good = b'\\2\\0' + PORT.to_bytes(2, 'big') + bytes([127, 0, 0, 1]) + bytes(8)
s = socket.socket()
gone = os.dup(s.fileno()); os.close(gone)
for fd in (gone, -1, -100, 1 << 20): print(name(connect(fd, good, 16)))
r, w = os.pipe()
for fd in (1, r, os.open('/dev/null', 0), os.open('/usr', os.O_PATH)): print(name(connect(fd, good, 16)))
for size in (0, 1, 2, 15, 129, 4096, -1): print(name(connect(s.fileno(), good + bytes(4096), size)))
for address in (None, ctypes.c_void_p(8), ctypes.c_void_p(-4096)): print(name(connect(s.fileno(), address, 16)))
print(connect(s.fileno(), good, 16), tunnel(s), ping(s))
s = socket.socket()
print(connect(s.fileno(), good + bytes(112), 128), tunnel(s), ping(s))
"""
    got = guest(me, echo, script)
    assert got[:4] == ["EBADF"] * 4
    assert got[4:7] == ["ENOTSOCK"] * 3 and got[7] in ("ENOTSOCK", "EBADF")
    assert got[8:15] == ["EINVAL"] * 7
    assert got[15:18] == ["EFAULT"] * 3
    assert got[18:] == ["0 200 True"] * 2


def test_duplicates_stay_what_they_were(me, echo):
    """The descriptor that was connected leads to the gateway; its copies are an unconnected socket."""
    script = """
s = socket.socket()
copy = s.dup()
print(s.connect_ex(PROXY), tunnel(s), ping(s))
try: print(copy.getpeername())
except OSError as e: print(name(e.errno))
print(copy.connect_ex(PROXY), tunnel(copy), ping(copy), ping(s))
later = s.dup(); s.close()
print(ping(later))
"""
    assert guest(me, echo, script) == ["0 200 True", "ENOTCONN", "0 200 True True", "True"]
    assert echo.count == 2


def test_unix_sockets_are_as_without_a_network(me, echo, listener):
    """The same answers with --net-allow and without, whatever this kernel's Landlock restricts."""
    near, far = me.mkdir("near"), me.out
    for path, label in ((near / "s", "near"), (far / "s", "far")):
        listener.add(socket.AF_UNIX, socket.SOCK_STREAM, str(path), label)
    script = """
import errno, socket, sys
for address in (*sys.argv[1:], '\\0cordon-no-such', '/nonexistent'):
    try: s = socket.socket(socket.AF_UNIX)
    except OSError as e: print(errno.errorcode[e.errno]); continue
    print(errno.errorcode.get(s.connect_ex(address), 0))
try:
    a, b = socket.socketpair(); print(errno.errorcode.get(a.connect_ex(sys.argv[1]), 0) in ('EISCONN', 'EAFNOSUPPORT'))
except OSError as e: print(errno.errorcode[e.errno])
"""
    cmd = ["python3", "-c", script, str(near / "s"), str(far / "s")]
    seen = []
    for opts in ([], options(echo)):
        done = me.run(["-w", near, *opts], cmd, LEVEL)
        assert done.returncode == 0, done.stderr
        seen.append((done.stdout, listener.seen()))
    assert seen[0] == seen[1]
    assert "far" not in seen[1][1]
    assert me.outside(cmd).stdout.split()[:2] == [b"0", b"0"]
    assert listener.seen() == ["far", "near"]


def test_changing_the_address_meanwhile(me, probes, listener, echo):
    """An address that is swapped in after the check is not connected to."""
    probe, ms = probes["connrace"], f"{ceiling(1500):.0f}"
    target = listener.add(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0), "target")[1]
    script = "os.execv(sys.argv[1], [*sys.argv[1:3], str(PORT), sys.argv[3]])"
    cmd = ["python3", "-c", GUEST + script, probe, str(target), ms]
    done = me.run([*options(echo), "-r", probe], cmd, LEVEL)
    assert done.returncode == 0, done.stderr
    assert listener.seen() == [], done.stdout
    assert echo.count == 0
    got = {n: (int(a), int(b)) for n, a, b in re.findall(r"(\S+) (\d+) of (\d+)", done.stdout.decode())}
    assert got["family"][1] > 100 and got["port"][1] > 100 and got["socket"][1] > 100
    assert got["port"][0] > 0, "the race never hit the address that may be reached"
    # Outside the same races do reach it.
    outside = me.outside([probe, str(target), str(echo.port), "300"])
    assert outside.returncode == 0 and listener.seen() == ["target"]


# --- others on the machine ---------------------------------------------------------------------------

WAITING = """
print(PORT, flush=True)
for line in sys.stdin:
    s = socket.socket()
    print(s.connect_ex(PROXY), tunnel(s), ping(s), flush=True)
"""


@pytest.fixture
def waiting(me, echo):
    """A run that says its port and makes one connection for each line it gets."""
    proc = me.popen(
        me.argv(options(echo), ["python3", "-u", "-c", GUEST + WAITING], LEVEL),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    line = proc.stdout.readline()
    assert line, proc.stderr.read()
    proc.port = int(line)
    yield proc
    proc.stdin.close()
    assert proc.wait(20) == 0
    proc.stdout.close()
    proc.stderr.close()


def ask(proc):
    proc.stdin.write(b"now\n")
    proc.stdin.flush()
    return proc.stdout.readline().split()


# Keeps knocking at the port, as often as it can, and never lets go; says when it has begun.
FLOOD = """
import os, resource, socket, sys
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
held, answers, n = [], 0, 0
os.set_blocking(0, False)
while True:
    s = socket.socket(); s.setblocking(False)
    s.connect_ex(('127.0.0.1', int(sys.argv[1])))
    try: s.send(b'CONNECT 127.0.0.1:1 HTTP/1.1\\r\\n\\r\\n')
    except OSError: pass
    held.append(s); n += 1
    if len(held) > 900:
        old = held.pop(0)
        try: answers += len(old.recv(100))
        except OSError: pass
        old.close()
    if n == 300: print('begun', flush=True)
    if n % 50 == 0 and sys.stdin.buffer.read(1) == b'': break
print(answers, flush=True)
"""
STRANGER = 20002  # another user, where root may start one


@pytest.fixture
def flood():
    """Starts processes of another user that flood a port; gives what they got out of it in the end."""
    procs = []

    def start(port, n=4):
        kw = {"user": STRANGER, "group": STRANGER, "extra_groups": []} if os.geteuid() == 0 else {}
        for _ in range(n):
            proc = subprocess.Popen(
                ["/usr/bin/python3", "-I", "-c", FLOOD, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **kw
            )
            known_child(proc.pid)
            procs.append(proc)
        for proc in procs:
            assert proc.stdout.readline() == b"begun\n"

    def stop():
        got = [proc.communicate(timeout=ceiling(20))[0] for proc in procs]
        procs.clear()
        return got

    start.stop = stop
    yield start
    stop()


def test_a_flood_arrives_outside(flood):
    """The positive control: a listener without protection takes no one else while it lasts."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as server:
        flood(server.getsockname()[1])
        with socket.socket() as sock:
            sock.settimeout(0.5)
            assert sock.connect_ex(server.getsockname()) != 0


def test_strangers_get_nothing(waiting, echo):
    """The port is closed, also between two connections of the command."""
    for _ in range(20):
        for _ in range(20):
            with socket.socket() as sock:
                assert sock.connect_ex(("127.0.0.1", waiting.port)) == errno.ECONNREFUSED
        assert ask(waiting) == [b"0", b"200", b"True"]
    assert echo.count == 20


TAKE = """
import errno, socket, sys
for options in ((), (2,), (15,), (2, 15)):  # SO_REUSEADDR, SO_REUSEPORT
    s = socket.socket()
    for option in options: s.setsockopt(socket.SOL_SOCKET, option, 1)
    try:
        s.bind(('127.0.0.1', int(sys.argv[1]))); s.listen(1); print('taken')
    except OSError as error: print(errno.errorcode[error.errno])
"""


def test_strangers_cannot_take_the_port(waiting, echo):
    """Nor listen there themselves, before the first connection and after."""
    if os.geteuid() != 0:
        unavailable("only root can start a process of another user")
    argv = ["/usr/bin/python3", "-I", "-c", TAKE]
    kw = {"user": STRANGER, "group": STRANGER, "extra_groups": [], "capture_output": True, "check": True}
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        free = sock.getsockname()[1]
    assert subprocess.run([*argv, str(free)], **kw).stdout.split()[0] == b"taken"
    for _ in range(2):
        done = subprocess.run([*argv, str(waiting.port)], **kw)
        assert done.stdout.split() == [b"EADDRINUSE"] * 4
        assert ask(waiting) == [b"0", b"200", b"True"]


def test_a_flood_of_strangers(waiting, echo, flood):
    """Another user cannot shut the port, however many connections it begins."""
    flood(waiting.port)
    answers = [ask(waiting) for _ in range(50)]
    assert answers == [[b"0", b"200", b"True"]] * 50
    assert echo.count == 50
    assert flood.stop() == [b"0\n"] * 4


def test_the_port_is_gone_after_the_run(me, echo):
    port = int(guest(me, echo, "print(PORT)")[0])
    with socket.socket() as sock:
        assert sock.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


# --- bounds -------------------------------------------------------------------------------------------


def init_of(proc):
    """The supervisor's child that calls itself so."""
    for pid in pathlib.Path(f"/proc/{proc.pid}/task/{proc.pid}/children").read_text().split():
        if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"cordon-init\0"):
            return int(pid)
    return None


def test_many_connections_leave_nothing_behind(me, echo):
    if os.geteuid() != 0:
        unavailable("init's descriptors are only shown to root")
    script = """
print('ready', flush=True); sys.stdin.readline()
codes = set()
for i in range(1000):
    s = socket.socket()
    codes.add(s.connect_ex(PROXY))
    s.close()
print(*sorted(codes), flush=True); sys.stdin.readline()
"""
    proc = me.popen(
        me.argv(options(echo), ["python3", "-u", "-c", GUEST + script], LEVEL),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert proc.stdout.readline() == b"ready\n", proc.stderr.read()
        fds = f"/proc/{init_of(proc)}/fd"
        before = sorted(os.listdir(fds))
        proc.stdin.write(b"go\n")
        proc.stdin.flush()
        codes = proc.stdout.readline().split()
        # A gateway that cannot keep up means refusals, and nothing else.
        assert b"0" in codes and set(codes) <= {b"0", b"%d" % errno.ECONNREFUSED}
        # The answer comes before the last descriptors are closed.
        end = time.monotonic() + ceiling(5)
        while sorted(os.listdir(fds)) != before and time.monotonic() < end:
            time.sleep(0.01)
        assert sorted(os.listdir(fds)) == before
    finally:
        out, err = proc.communicate(b"\n", timeout=20)
    assert proc.returncode == 0, err


def test_requests_that_die_are_forgotten(me, echo):
    """Processes killed in the middle of connect() cost nothing; the next one is served."""
    script = """
import signal
for i in range(200):
    pid = os.fork()
    if not pid:
        while True: socket.socket().connect_ex(PROXY)
    time.sleep(0.001 * (i % 5))
    os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
end = time.monotonic() + 30
while True:
    s = socket.socket()
    try:
        got = (s.connect_ex(PROXY), tunnel(s))
    except OSError as e: # too many in a second, for a moment
        got = (e.errno, 0)
    if got[1] == 200 or time.monotonic() > end: break
    time.sleep(0.1)
print(*got, ping(s))
"""
    assert guest(me, echo, script) == ["0 200 True"]


# --- fail closed ---------------------------------------------------------------------------------------


def test_only_where_landlock_knows_tcp(me, server):
    """Below ABI 4 nothing could keep the command from connecting on its own: no run at all."""
    mark = me.work / "mark"
    done = me.run(["-w", me.work, *options(server)], ["sh", "-c", f"echo ran > {mark}"], LEVEL)
    if kernel_lacks("landlock-tcp"):
        assert done.returncode == 125 and not mark.exists(), done
        assert b"net.allow (--net-allow) needs level namespaces, or Landlock ABI 4" in done.stderr
    else:
        assert done.returncode == 0 and mark.exists(), done.stderr
    # The level itself can be had, and the network at the other one.
    for opts, level in (([], LEVEL), (options(server), "namespaces")):
        done = me.run(opts, ["true"], level)
        assert done.returncode == 0, done.stderr


# There can be one seccomp listener only: one that the caller has installed keeps init from it.
LISTENING = """
import ctypes, fcntl, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))
prog = struct.pack('HxxxxxxQ', 1, ctypes.addressof(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0
fd = libc.syscall(277 if os.uname().machine == 'aarch64' else 317, 1, 8, prog)
assert fd >= 0, ctypes.get_errno()
fcntl.fcntl(fd, fcntl.F_SETFD, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_no_listener_no_run(me, echo):
    mark = me.work / "mark"
    argv = me.argv(["-w", me.work, *options(echo)], ["sh", "-c", f"echo ran > {mark}"], LEVEL)
    done = me.outside(["python3", "-c", LISTENING, *argv])
    assert done.returncode == 125, done.stderr
    assert b"cannot set up net" in done.stderr and b"listening for connections" in done.stderr
    assert not mark.exists()
    # It is the network that cannot be had there, and nothing else.
    argv = me.argv(["-w", me.work], ["sh", "-c", f"echo ran > {mark}"], LEVEL)
    done = me.outside(["python3", "-c", LISTENING, *argv])
    assert done.returncode == 0 and mark.exists(), done.stderr

# SPDX-License-Identifier: Apache-2.0
"""What servers and other sandboxes of the same user can do to a run's network: nothing."""

import socket
import subprocess
import threading

import pytest

from conftest import ceiling
from rig import allow, refused

PYTHON = ["/usr/bin/python3", "-I", "-u", "-c"]

# Sends more than a thousand descriptors that are never received; says how many, and stays.
IN_FLIGHT = """
import array, os, socket, sys
held, n, fd = [], 0, os.open("/dev/null", 0)
while n < 3000:
    a, b = socket.socketpair()
    try: a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd] * 250))])
    except OSError: break
    held.append((a, b)); n += 250
print(n, flush=True)
sys.stdin.read()
"""

# More pipes than a user may have at their full size: every new one is small, also the gateway's.
PIPES = """
import os, sys
ready = os.pipe()
for _ in range(3):
    if os.fork() == 0:
        held = [os.pipe() for _ in range(480)]
        os.write(ready[1], b"x"); sys.stdin.read(); os._exit(0)
n = 0
while n < 3: n += len(os.read(ready[0], 3))
print(n * 480, flush=True)
sys.stdin.read()
"""

URGENT = """
import socket, sys
c = socket.create_connection(("127.0.0.1", int(sys.argv[1]))); c.settimeout(5)
c.sendall(b"go")
got = b""
while data := c.recv(100): got += data
print(got.decode())
"""


class Server:
    """Hands each connection to `talk`."""

    def __init__(self, talk):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.talk = talk
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            with conn:
                self.talk(conn)

    def rule(self):
        return ["--net-allow", f"localhost:{self.port}"]


def urgent(conn):
    conn.recv(2)
    conn.sendall(b"before ")
    conn.send(b"!", socket.MSG_OOB)
    conn.sendall(b"after")


def test_urgent_bytes(me):
    """A byte that a server marks as urgent does not stop what comes behind it."""
    server = Server(urgent)
    for run in (me.outside, lambda argv: me.run(server.rule(), argv, "namespaces")):
        done = run([*PYTHON, URGENT, server.port])
        assert done.stdout == b"before after\n", done
    server.listener.close()


@pytest.fixture
def neighbour():
    """Another sandbox of the same caller, which runs a program until the end of the test."""
    procs = []

    def start(caller, code):
        argv = caller.argv([], [*PYTHON, code], "namespaces")
        proc = caller.popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        procs.append(proc)
        return int(proc.stdout.readline())

    yield start
    for proc in procs:
        proc.stdin.close()
        proc.wait(timeout=ceiling(10))
        proc.stdout.close()


@pytest.mark.parametrize("opts", [[], ["--net-allow", "localhost:9"]], ids=["plain", "net"])
def test_descriptors_in_flight_elsewhere(me, level, neighbour, opts):
    """They count for each user; further runs start all the same, also from a shell with the usual soft limit."""
    assert neighbour(me, IN_FLIGHT) > 1000
    argv = me.argv(opts, ["echo", "started"], level)
    done = me.outside(["sh", "-c", 'ulimit -S -n 1024; exec "$@"', "sh", *argv])
    assert done.stdout == b"started\n", done


def get(cookie):
    """A request with so many bytes of cookies."""
    head = f"GET / HTTP/1.1\r\nHost: www.example.com\r\nCookie: {'c' * cookie}\r\nConnection: close\r\n\r\n"
    return {"do": "tcp", "host": "www.example.com", "port": 80, "send": head, "timeout": 5}


def test_pipes_elsewhere(home, net, neighbour):
    """A head that does not fit into a small pipe is passed on all the same, and does not stop other connections."""
    assert neighbour(home, PIPES) == 1440
    got = home.within(allow("www.example.com"), *[get(size) for size in (10, 12000, 10, 12000, 10)])
    assert ["hello" in r.get("got", "") for r in got["results"]] == [True] * 5, got["results"]


def test_net_max_with_small_pipes(home, net, neighbour):
    """Heads that take the way around a small pipe count like all others."""
    assert neighbour(home, PIPES) == 1440
    head = f"GET / HTTP/1.1\r\nHost: www.example.com\r\nCookie: {'c' * 12000}\r\n\r\n"
    step = {"do": "tcp", "host": "www.example.com", "port": 80, "send": head * 20, "timeout": 5, "shut": True}
    home.control(step)
    assert sum(c["size"] for c in net.arrived()) == 20 * len(head)
    got = home.within([*allow("www.example.com"), "--net-max", "40K"], step, step)
    assert 12000 < sum(c["size"] for c in net.arrived()) <= 40 * 1024
    assert refused(got, "connect", "www.example.com:80 (the bytes were used up)", "net.max"), got["denials"]

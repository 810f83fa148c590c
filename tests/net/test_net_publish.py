# SPDX-License-Identifier: Apache-2.0
"""Ports of the sandbox that only the host can reach."""

import json
import re
import signal
import subprocess

import pytest
from rig import allow, read_line, wait_for

# Echoes on 8000, TCP and UDP, on every address inside; "up" when it listens.
SERVER = """
import socket, threading
def echo(c):
    while data := c.recv(65536): c.sendall(data)
    c.close()
def tcp(family, address):
    s = socket.socket(family); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((address, 8000)); s.listen(512)
    return s
def serve(s):
    while True: threading.Thread(target=echo, args=(s.accept()[0],), daemon=True).start()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 8000))
threading.Thread(target=serve, args=(tcp(socket.AF_INET, '127.0.0.1'),), daemon=True).start()
print('up', flush=True)
while True:
    data, peer = u.recvfrom(65536)
    u.sendto(b'udp ' + data, peer)
"""


class Published:
    """A run with the server above; `ports` is what it told: (protocol, address, port)."""

    def __init__(self, home, opts, level="namespaces", receipt=None):
        more = ["--receipt", receipt] if receipt else []
        argv = home.argv([*opts, *more], ["python3", "-u", "-c", SERVER], level)
        self.proc = home.popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        self.up = read_line(self.proc.stdout)
        assert self.up == b"up\n", self.proc.communicate(timeout=10)
        self.home = home

    def told(self, number):
        """The addresses on stderr, once there are that many."""
        text = ""
        while len(found := re.findall(r"((?:\d+\.){3}\d+|\[[0-9a-f:]+\]):(\d+)", text)) < number:
            line = read_line(self.proc.stderr).decode()
            assert line.startswith("cordon: "), (line, text)
            text += line
        return text, [(address.strip("[]"), int(port)) for address, port in found]

    def end(self):
        self.proc.send_signal(signal.SIGTERM)
        try:
            return self.proc.communicate(timeout=10)
        finally:
            self.proc.stdout.close()
            self.proc.stderr.close()


def tcp(port, host="127.0.0.1", send="ping"):
    return {"do": "tcp", "host": host, "port": port, "send": send, "shut": True, "timeout": 4}


def udp(port, host="127.0.0.1"):
    return {"do": "udp", "host": host, "port": port, "send": "ping", "timeout": 2}


def results(home, *steps):
    done = home.outside(home.steps(steps))
    return json.loads(done.stdout)


def free_port(home):
    text = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"
    return int(home.outside(["python3", "-c", text]).stdout)


@pytest.mark.parametrize("egress", [False, True], ids=["alone", "with-rules"])
def test_a_fixed_port(home, net, egress):
    port = free_port(home)
    assert "error" in results(home, tcp(port))[0], "another program listens there"
    run = Published(home, [*(allow("example.com") if egress else []), "--publish", f"{port}:8000/tcp"])
    try:
        got = results(home, tcp(port), tcp(port, send="x" * 300_000), udp(port))
        assert [r.get("got") for r in got[:2]] == ["ping", "x" * 300_000], got
        assert "error" in got[2], "only TCP was asked for"
    finally:
        run.end()
    assert "error" in results(home, tcp(port))[0], "it is over"
    assert net.arrived() == [] and net.queries() == []


def test_a_port_of_the_hosts_choice(home):
    receipt = home.out / "receipt"
    run = Published(home, ["--publish", "0:8000/tcp"], receipt=receipt)
    try:
        text, ((address, port),) = run.told(1)
        assert address == "127.0.0.1" and port > 0 and "8000" in text, text
        assert results(home, tcp(port))[0]["got"] == "ping"
    finally:
        run.end()
    (entry,) = json.loads(receipt.read_text())["published"]
    assert entry["port"] == 8000 and entry["host_port"] == port, entry
    assert entry["protocol"] == "tcp" and entry["address"] == "127.0.0.1", entry


def test_udp(home):
    port = free_port(home)
    run = Published(home, ["--publish", f"{port}:8000/udp"])
    try:
        got = results(home, udp(port), udp(port), tcp(port))
        assert [r.get("got") for r in got[:2]] == ["udp ping"] * 2 and "error" in got[2], got
        # Several at once keep their answers apart.
        many = [dict(udp(port), send=f"n{i}") for i in range(20)]
        got = results(home, {"do": "threads", "steps": many})[0]["results"]
        assert [r.get("got") for r in got] == [f"udp n{i}" for i in range(20)]
    finally:
        run.end()


def test_both_protocols_by_default(home):
    port = free_port(home)
    run = Published(home, ["--publish", f"{port}:8000"])
    try:
        got = results(home, tcp(port), udp(port))
        assert [r.get("got") for r in got] == ["ping", "udp ping"], got
    finally:
        run.end()


def test_the_same_port_by_default(home):
    run = Published(home, ["--publish", "8000/tcp"])
    try:
        assert results(home, tcp(8000))[0].get("got") == "ping"
    finally:
        run.end()


def test_only_on_loopback(home, net):
    """Neither by the host's other addresses nor from the world."""
    port = free_port(home)
    run = Published(home, ["--publish", f"{port}:8000"])
    try:
        got = results(home, tcp(port), tcp(port, "203.0.113.2"), tcp(port, "::1"), udp(port, "203.0.113.2"))
        assert ["error" in r for r in got] == [False, True, True, True], got
        assert "error" in net.world.ask("dial", address="203.0.113.2", port=port, send="x")
    finally:
        run.end()


def test_another_address_if_it_is_given(home, net):
    port = free_port(home)
    run = Published(home, ["--publish", f"203.0.113.2:{port}:8000/tcp"])
    try:
        assert net.world.ask("dial", address="203.0.113.2", port=port, send="x") == {"ok": "x"}
        assert "error" in results(home, tcp(port))[0]
    finally:
        run.end()


def test_a_port_in_use(home, net):
    """8080 of home's loopback is taken."""
    home.control({"do": "http", "host": "127.0.0.1", "port": 8080})
    net.forget()
    marker = home.write(home.work / "marker", "")
    done = home.run(["-w", marker, "--publish", "8080:8000"], ["sh", "-c", f"echo ran >{marker}"])
    assert done.returncode == 125 and b"8080" in done.stderr and b"in use" in done.stderr.lower(), done
    assert marker.read_text() == ""


@pytest.mark.parametrize("text", ["", "x", "0", "65536", "1:2:3:4", "127.0.0.1:80", "80:", "8000/sctp", "300.1.1.1:1:2", "-1", ":8000"])
def test_bad_values(home, text):
    done = home.run(["--publish", text], ["true"])
    assert done.returncode == 125 and done.stderr.startswith(b"cordon: "), done


def test_refused_at_level_landlock(home):
    done = home.run(["--publish", "0:8000"], ["true"], "landlock")
    assert done.returncode == 125 and b"publish" in done.stderr, done
    assert home.run(["--publish", "0:8000"], ["true"], "namespaces").returncode == 0


def test_nobody_listens_inside(home):
    """The connection ends; the run goes on, and works once a program listens."""
    port = free_port(home)
    argv = home.argv(["--publish", f"{port}:8000"], ["python3", "-u", "-c", "input()\n" + SERVER], "namespaces")
    proc = home.popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    try:
        wait_for(lambda: "error" not in (r := results(home, tcp(port))[0]) or r["error"] != "ECONNREFUSED")
        assert results(home, tcp(port))[0].get("got", "") == ""
        proc.stdin.write(b"\n")
        proc.stdin.flush()
        assert read_line(proc.stdout) == b"up\n"
        assert results(home, tcp(port))[0]["got"] == "ping"
    finally:
        proc.kill()
        proc.communicate()


def test_many_connections(home):
    port = free_port(home)
    run = Published(home, ["--publish", f"{port}:8000/tcp"])
    try:
        steps = [tcp(port, send=f"number {i}" * 50) for i in range(100)]
        got = results(home, {"do": "threads", "steps": steps})[0]["results"]
        assert [r.get("got") for r in got] == [s["send"] for s in steps]
        got = results(home, *steps)
        assert [r.get("got") for r in got] == [s["send"] for s in steps]
    finally:
        run.end()


def test_sandboxes_of_their_own(home):
    """Two runs with the same port inside do not see each other."""
    ports = [free_port(home), free_port(home)]
    runs = [Published(home, ["--publish", f"{p}:8000/tcp"]) for p in ports]
    try:
        got = results(home, *[tcp(p, send=str(p)) for p in ports])
        assert [r.get("got") for r in got] == [str(p) for p in ports]
    finally:
        for run in runs:
            run.end()


def test_what_is_published_is_no_way_out(home, net):
    script = "import socket; s = socket.create_connection(('93.184.216.34', 80), 2)"
    done = home.run(["--publish", "0:8000"], ["python3", "-c", script], "namespaces")
    assert done.returncode != 0 and net.arrived() == []
    assert home.outside(["python3", "-c", script]).returncode == 0 and len(net.world.contacts()) == 1


LOW = """
import socket
s = socket.socket(); s.bind(('127.0.0.1', 80)); s.listen(8)
print('up', flush=True)
c = s.accept()[0]; c.sendall(b'low ' + c.recv(16)); c.close()
"""


def test_a_port_below_1024(home):
    """Inside, every port is the command's; on the host the system's stay the system's."""
    outside = home.outside(["python3", "-c", LOW.split("print")[0]])
    if home.name == "user":
        assert b"Permission denied" in outside.stderr
    proc = home.popen(
        home.argv(["--publish", "0:80/tcp"], ["python3", "-u", "-c", LOW], "namespaces"),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
    )  # fmt: skip
    with proc:
        assert read_line(proc.stdout) == b"up\n"
        port = int(re.search(r":(\d+) ", read_line(proc.stderr).decode())[1])
        assert results(home, tcp(port))[0]["got"] == "low ping"
        assert proc.wait(timeout=10) == 0


# Listens on 8000 and keeps what comes; says it is up, and for a line how many connections out it could make.
KEEPER = """
import socket, sys, threading
listener = socket.create_server(('127.0.0.1', 8000), backlog=512)
kept = []
def keep():
    while True: kept.append(listener.accept()[0])
threading.Thread(target=keep, daemon=True).start()
print('up', flush=True)
for _ in sys.stdin:
    out, n = [], 0
    for _ in range(120):
        s = socket.create_connection(('db.example', 5432), 10); s.settimeout(10); out.append(s)
        try:
            s.sendall(b'x'); n += s.recv(1) == b'x'
        except OSError: pass
    print(n, flush=True)
"""


def test_the_host_cannot_use_up_the_connections_of_the_sandbox(home, net):
    """Anyone on the host may connect to a published port, and keep the connection."""
    argv = home.argv([*allow("db.example:5432"), "--publish", "0:8000/tcp"], ["python3", "-u", "-c", KEEPER], "namespaces")
    proc = home.popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    assert read_line(proc.stdout) == b"up\n"
    port = int(re.search(r":(\d+) ", read_line(proc.stderr).decode())[1])
    hold = "import socket, sys\nheld = [socket.socket() for _ in range(400)]\n"
    hold += "for s in held: s.connect_ex(('127.0.0.1', int(sys.argv[1])))\nprint('held', flush=True); sys.stdin.read()"
    holder = home.popen(["/usr/bin/python3", "-I", "-c", hold, port], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    try:
        assert read_line(holder.stdout) == b"held\n"
        proc.stdin.write(b"now\n")
        assert read_line(proc.stdout, 60) == b"120\n"
    finally:
        for process in (holder, proc):
            process.communicate(timeout=20)

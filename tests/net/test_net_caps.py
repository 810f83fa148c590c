# SPDX-License-Identifier: Apache-2.0
"""Ceilings: connections, attempts, heads that never end, bytes; and both ways of a connection."""

import json
import subprocess
import time

import pytest
from conftest import ceiling
from rig import allow, bulk, gateways, is_alive, net_denials, read_line, status, wait_for

CONNECTIONS = 256
MIB = 1 << 20
RULES = allow("db.example:9000,80,443")

# Holds as many connections as it gets, says how many, and waits for a line.
HOLD = """
held, refused = [], 0
for _ in range(int(sys.argv[1])):
    try:
        s = socket.create_connection(('db.example', 9000), 5)
        s.sendall(b'HOLD\\n')
        if s.recv(5) != b'held\\n': raise OSError('closed')
        held.append(s)
    except OSError:
        refused += 1
print(json.dumps([len(held), refused]), flush=True)
sys.stdin.readline()
"""


class Running:
    """A run under way: its first line of output has come. `gateway` is the process."""

    def __init__(self, home, opts, command, level="namespaces"):
        self.receipt_path = home.out / f"receipt-{id(self)}"
        argv = home.argv([*opts, "--receipt", self.receipt_path], command, level)
        self.proc = home.popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        self.line = read_line(self.proc.stdout, 60)
        assert self.line, self.proc.communicate(timeout=10)
        (self.gateway,) = gateways(self.proc.pid)

    def rss(self):
        return int(status(self.gateway)["VmRSS"].split()[0]) << 10

    def end(self):
        out, err = self.proc.communicate(b"\n", timeout=60)
        assert not is_alive(self.gateway)
        return json.loads(self.receipt_path.read_text()), out, err

    def kill(self):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.communicate()


@pytest.fixture
def running(home):
    """Starts runs that are ended with the test."""
    made = []

    def start(opts, command, level="namespaces"):
        made.append(Running(home, opts, command, level))
        return made[-1]

    yield start
    for run in made:
        run.kill()


def http(host):
    return {"do": "http", "host": host}


# --- connections ----------------------------------------------------------------------------------------


def test_three_hundred_at_once(home, net, running):
    outside = home.outside([*home.script(HOLD), "300"], input=b"\n")
    assert json.loads(outside.stdout) == [300, 0], outside
    net.forget()
    run = running(["--open-files", "2048", *RULES], [*home.script(HOLD), "300"])
    held, refused = json.loads(run.line)
    assert held == CONNECTIONS and refused == 300 - CONNECTIONS
    assert run.rss() < 16 * MIB
    # Others are not affected.
    started = time.monotonic()
    got = home.within(RULES, http("db.example"))
    assert "error" not in got["results"][0] and time.monotonic() - started < ceiling(5)
    receipt, _, _ = run.end()
    assert any("connection" in json.dumps(d) for d in net_denials(receipt)), receipt["denials"]
    wait_for(lambda: net.world.live()["open"] == 0)


ATTEMPTS = """
import threading
count = [0, 0]
def work():
    for _ in range(1250):
        s = socket.socket(); s.settimeout(5)
        try:
            s.connect((address, 80)); count[0] += 1
        except OSError: count[1] += 1
        s.close()
address = socket.gethostbyname('db.example')
print('started', flush=True)
threads = [threading.Thread(target=work) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print(sum(count), flush=True)
sys.stdin.readline()
"""


def test_ten_thousand_attempts(home, net, running):
    run = running(RULES, home.script(ATTEMPTS))
    worst = []
    for _ in range(3):  # meanwhile, in another sandbox
        started = time.monotonic()
        got = home.within(RULES, http("db.example"))
        worst.append(time.monotonic() - started)
        assert "error" not in got["results"][0], got
    assert read_line(run.proc.stdout, 60) == b"10000\n"
    assert max(worst) < ceiling(10) and run.rss() < 16 * MIB
    # It still works, once the flood is over.
    assert is_alive(run.gateway)
    run.end()


def test_it_works_after_a_flood(home, net):
    script = ATTEMPTS.replace("sys.stdin.readline()", "time.sleep(1.5); print(json.dumps(do_http('db.example')))")
    done = home.run(RULES, home.script(script), "namespaces", timeout=120)
    assert b"hello from db.example" in done.stdout, done


def test_descriptors_are_given_back(home, net, running):
    """500 connections one after the other leave nothing behind."""
    script = """
for _ in range(500): do_tcp('db.example', 9000, 'SEND 1000\\n')
print('done', flush=True); sys.stdin.readline()
"""
    run = running(RULES, home.script(script))
    before = run.rss()
    assert before < 16 * MIB
    wait_for(lambda: net.world.live()["open"] == 0)
    assert len(net.arrived(9000)) == 500
    run.end()


# --- heads that never end ---------------------------------------------------------------------------------

SLOW = """
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print('connected', flush=True)
started = time.monotonic()
try:
    for byte in (sys.argv[3].encode('latin-1').decode('unicode_escape').encode('latin-1') * 1000):
        s.sendall(bytes([byte])); time.sleep(0.5)
        s.setblocking(False)
        try:
            if not s.recv(1000): break
        except BlockingIOError: pass
        finally: s.setblocking(True)
except OSError: pass
print(time.monotonic() - started, flush=True)
"""


@pytest.mark.slow
def test_slow_heads_are_closed_in_time(home, net):
    """A byte every half second, of an HTTP head and of a hello, and nothing at all."""
    cases = [("80", "GET / HTTP/1.1\\r\\nX: " + "x" * 60), ("443", "\\x16\\x03\\x01\\x02\\x00\\x01\\x00\\x01\\xfc\\x03\\x03")]
    procs = [
        home.popen(home.argv(RULES, [*home.script(SLOW), "db.example", port, text], "namespaces"), stdout=subprocess.PIPE)
        for port, text in cases
    ]
    for proc, (port, _) in zip(procs, cases):
        out, _ = proc.communicate(timeout=60)
        assert out.startswith(b"connected\n"), out
        assert float(out.split()[1]) < ceiling(35), port
    assert net.arrived(with_bytes=True) == []


def test_many_slow_heads_do_not_stop_others(home, net):
    script = """
idle = [socket.create_connection(('db.example', 80)) for _ in range(100)]
for s in idle: s.sendall(b'GET / HTTP/1.1\\r\\nHost: db.exa')
print(json.dumps(do_http('db.example')), flush=True)
"""
    done = home.run(RULES, home.script(script), "namespaces")
    assert b"hello from db.example" in done.stdout, done
    assert len(net.arrived(with_bytes=True)) == 1


# --- bytes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "via"), [("namespaces", None), ("landlock", "connect")])
def test_net_max(home, net, level, via):
    def fetch(size):
        return {"do": "tcp", "host": "db.example", "port": 9000, "send": f"SEND {size}\n", "via": via, "limit": 8 * MIB}

    got = home.within(["--net-max", "1M", *RULES], fetch(300_000), fetch(300_000), fetch(5 * MIB), fetch(10), level=level,
                      timeout=60)  # fmt: skip
    sizes = [len(r.get("got", "")) for r in got["results"]]
    assert sizes[:2] == [300_000] * 2, got["results"]
    assert sizes[2] < MIB and sizes[3] == 0, sizes
    assert sum(sizes) <= MIB + 64 * 1024
    assert any("--net-max" in (d["fix"] or "") for d in got["denials"]), got["denials"]
    assert got["usage"]["net_bytes_in"] <= 2 * MIB, "what was on its way counts, too"
    control = home.within(RULES, fetch(5 * MIB), level=level, timeout=60) if level == "landlock" else None
    assert control is None or len(control["results"][0]["got"]) == 5 * MIB


def test_net_max_counts_uploads(home, net):
    script = """
s = socket.create_connection(('db.example', 9000), 5); s.sendall(b'RECV\\n')
try:
    for _ in range(100): s.sendall(bytes(65536))
    s.shutdown(socket.SHUT_WR); print(s.recv(100).decode())
except OSError as error: print('cut', flush=True)
"""
    assert b"6553600 " in home.run(RULES, home.script(script), "namespaces").stdout
    assert b"6553600 " in home.run([*RULES, "--net-max", "10M"], home.script(script), "namespaces").stdout
    net.forget()
    done = home.run([*RULES, "--net-max", "1M"], home.script(script), "namespaces")
    assert b"6553600 " not in done.stdout, done
    assert max(c["size"] for c in net.arrived()) <= MIB + 64 * 1024


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_net_max_counts_questions(home, net, level):
    """Below a star the command chooses what name servers are told; that is bounded, too."""
    names = [f"{n:03}-{'d' * 50}.{'e' * 50}.evil.example" for n in range(100)]

    def asked(opts):
        if level == "namespaces":
            steps = [{"do": "dns", "name": name} for name in names]
        else:
            steps = [{"do": "http", "host": name, "via": "proxy"} for name in names]
        got = home.within([*allow("*.evil.example:80"), *opts], *steps, level=level, timeout=60)
        queries = {q["name"] for q in net.queries()}
        net.forget()
        return queries, got

    assert len(asked([])[0]) == 100
    few, got = asked(["--net-max", "4K"])
    assert 3 < len(few) < 20, few
    assert any(d["rule"] == "net.max" for d in got["denials"]), got["denials"]


def test_usage_counts_bytes(home, net):
    got = home.within(RULES, {"do": "tcp", "host": "db.example", "port": 9000, "send": "SEND 100000\n"})
    assert got["usage"]["net_bytes_in"] == 100_000 and got["usage"]["net_bytes_out"] == len("SEND 100000\n"), got["usage"]


# --- both ways of a connection ----------------------------------------------------------------------------------

HALF = """
import bulk
def whole(s):
    data = b''
    while d := s.recv(65536): data += d
    return data
s = socket.create_connection(('db.example', 9000), 10); s.sendall(b'LATE 200000\\n')
for p in bulk.pieces(150000): s.sendall(p)
s.shutdown(socket.SHUT_WR)
data = whole(s)
print(data[:200000] == b''.join(bulk.pieces(200000)), data[200000:].decode().strip() == '150000 ' + bulk.digest(150000))
s = socket.create_connection(('db.example', 9000), 10); s.sendall(b'EARLY\\n')
print(whole(s).decode().strip()); s.sendall(b'x' * 100000); s.shutdown(socket.SHUT_WR)
s = socket.create_connection(('db.example', 9000), 10); s.sendall(b'RST\\n')
try: print(s.recv(10))
except ConnectionResetError: print('reset')
s.close()
s = socket.create_connection(('db.example', 9000), 10); s.sendall(b'HOLD\\n'); s.recv(5)
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); s.close()
"""


def test_half_closed_and_reset(home, net):
    want = ["True True", "bye", "reset"]
    for run in (home.outside, lambda argv: home.run(RULES, argv, "namespaces")):
        done = run(home.script(HALF))
        assert done.stdout.decode().splitlines() == want, done
        wait_for(lambda: net.world.live()["open"] == 0)
        contacts = net.arrived(9000)
        assert [c["command"][0] for c in contacts] == ["LATE", "EARLY", "RST", "HOLD"]
        assert contacts[1]["size"] == 100_000 + len("EARLY\n")
        assert contacts[3]["end"] == "reset", "a reset arrives as one"


def test_a_slow_reader(home, net, running):
    """What is not taken is not fetched: the gateway keeps next to nothing of it."""
    script = """
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
s.connect(('db.example', 9000)); s.sendall(b'SEND 200000000\\n'); s.recv(1000)
print('reading', flush=True)
sys.stdin.readline()
"""
    run = running(RULES, home.script(script))
    time.sleep(0.5)
    assert run.rss() < 16 * MIB
    receipt, _, _ = run.end()
    assert receipt["usage"]["net_bytes_in"] < 100_000_000


TRANSFER = """
import bulk
size = int(sys.argv[1])
s = socket.create_connection(('db.example', 9000), 60); s.sendall(b'SEND %d\\n' % size)
print(*bulk.consume(s), flush=True)
s = socket.create_connection(('db.example', 9000), 60); s.sendall(b'RECV\\n')
for p in bulk.pieces(size): s.sendall(p)
s.shutdown(socket.SHUT_WR)
print(s.makefile().readline().strip(), flush=True)
"""


def transfer(home, size, timeout):
    done = home.run(RULES, [*home.script(TRANSFER), str(size)], "namespaces", timeout=timeout)
    assert done.stdout.decode().splitlines() == [f"{size} {bulk.digest(size)}"] * 2, done


def test_sixteen_mebibytes_intact(home, net):
    transfer(home, 16 * MIB + 12345, 60)


@pytest.mark.slow
def test_one_gibibyte_intact(home, net):
    transfer(home, 1 << 30, 300)
